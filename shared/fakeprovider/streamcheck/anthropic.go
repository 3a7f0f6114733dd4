package streamcheck

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// anthropic judges Messages.
type anthropic struct {
	allowError bool

	started bool
	output  int64 // tokens told so far
	blocks  []*anthropicBlock
	stop    string // stop_reason, when it came
	ended   bool
}

type anthropicBlock struct {
	kind, id string
	closed   bool
	deltas   int
	signed   bool
	json     strings.Builder
}

var anthropicReasons = []string{
	"end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded",
}

// anthropicCut are the reasons with which a call may be left unfinished.
var anthropicCut = []string{"max_tokens", "model_context_window_exceeded", "refusal"}

// anthropicDeltas are the deltas of each type of block. Blocks of other types come
// whole.
var anthropicDeltas = map[string][]string{
	"text":            {"text_delta", "citations_delta"},
	"thinking":        {"thinking_delta", "signature_delta"},
	"tool_use":        {"input_json_delta"},
	"server_tool_use": {"input_json_delta"},
	"mcp_tool_use":    {"input_json_delta"},
	"compaction":      {"compaction_delta"},
}

// anthropicCallID is what the API takes back as the id of a call.
var anthropicCallID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func (a *anthropic) event(name string, data []byte) error {
	o, err := decodeObject(data)
	if err != nil {
		return err
	}
	if err := o.is("type", name); err != nil {
		return fmt.Errorf("the event line and the data differ: %w", err)
	}
	if a.ended {
		return fmt.Errorf("%s after the end of the stream", name)
	}
	switch name {
	case "ping":
		return nil
	case "error":
		return a.failed(o)
	case "message_start":
		return a.start(o)
	}
	if !a.started {
		return fmt.Errorf("%s before message_start", name)
	}
	if name == "message_stop" {
		if a.stop == "" {
			return errors.New("message_stop without a message_delta before it")
		}
		a.ended = true
		return nil
	}
	if a.stop != "" {
		return fmt.Errorf("%s after message_delta", name)
	}
	switch name {
	case "content_block_start":
		return a.open(o)
	case "content_block_delta":
		return a.delta(o)
	case "content_block_stop":
		return a.shut(o)
	case "message_delta":
		return a.last(o)
	}
	return fmt.Errorf("unknown event %q", name)
}

func (a *anthropic) failed(o object) error {
	a.ended = true
	if !a.allowError {
		return fmt.Errorf("an error event: %s", shown(o["error"]))
	}
	e, err := o.object("error")
	if err == nil {
		_, err = e.filled("type")
	}
	if err == nil {
		_, err = e.filled("message")
	}
	return err
}

func (a *anthropic) start(o object) error {
	if a.started {
		return errors.New("a second message_start")
	}
	a.started = true
	m, err := o.object("message")
	if err != nil {
		return err
	}
	if _, err := m.filled("id"); err != nil {
		return err
	}
	if _, err := m.filled("model"); err != nil {
		return err
	}
	content, err := m.list("content")
	if err == nil && len(content) > 0 {
		err = errors.New("content is not empty")
	}
	if err == nil && !m.null("stop_reason") {
		err = errors.New("stop_reason is not null")
	}
	err = errors.Join(err, m.is("type", "message"), m.is("role", "assistant"))
	if err != nil {
		return fmt.Errorf("message_start: %w", err)
	}
	u, err := m.object("usage")
	if err != nil {
		return fmt.Errorf("message_start: %w", err)
	}
	a.output, _ = u.number("output_tokens")
	return u.counts("input_tokens", "output_tokens")
}

func (a *anthropic) open(o object) error {
	if err := o.at("index", len(a.blocks)); err != nil {
		return fmt.Errorf("blocks start in order without gaps: %w", err)
	}
	block, err := o.object("content_block")
	if err != nil {
		return err
	}
	kind, err := block.filled("type")
	if err != nil {
		return err
	}
	b := &anthropicBlock{kind: kind}
	switch kind {
	case "text":
		err = block.is("text", "")
	case "thinking":
		err = block.is("thinking", "")
	case "redacted_thinking":
		_, err = block.filled("data")
	case "tool_use", "server_tool_use", "mcp_tool_use":
		err = a.openCall(b, block)
	}
	if err != nil {
		return fmt.Errorf("start of a block of type %s: %w", kind, err)
	}
	a.blocks = append(a.blocks, b)
	return nil
}

func (a *anthropic) openCall(b *anthropicBlock, block object) error {
	id, err := block.text("id")
	if err != nil {
		return err
	}
	if !anthropicCallID.MatchString(id) {
		return fmt.Errorf("id %q does not match %s", id, anthropicCallID)
	}
	if slices.ContainsFunc(a.blocks, func(other *anthropicBlock) bool { return other.id == id }) {
		return fmt.Errorf("id %q was used before", id)
	}
	b.id = id
	if _, err := block.filled("name"); err != nil {
		return err
	}
	if input := block["input"]; input.Kind() != jsontext.KindBeginObject || !empty(input) {
		return fmt.Errorf("input is %s, expected {}", shown(input))
	}
	return nil
}

// at is the open block an event names.
func (a *anthropic) at(o object) (*anthropicBlock, error) {
	i, err := o.number("index")
	switch {
	case err != nil:
		return nil, err
	case i >= int64(len(a.blocks)):
		return nil, fmt.Errorf("block %d was never started", i)
	case a.blocks[i].closed:
		return nil, fmt.Errorf("block %d is closed", i)
	}
	return a.blocks[i], nil
}

func (a *anthropic) delta(o object) error {
	b, err := a.at(o)
	if err != nil {
		return err
	}
	d, err := o.object("delta")
	if err != nil {
		return err
	}
	kind, err := d.filled("type")
	if err != nil {
		return err
	}
	if !slices.Contains(anthropicDeltas[b.kind], kind) {
		return fmt.Errorf("a %s in a block of type %s", kind, b.kind)
	}
	if b.signed {
		return fmt.Errorf("a %s after the signature, which comes last and once", kind)
	}
	switch kind {
	case "text_delta":
		_, err = d.filled("text")
	case "thinking_delta":
		_, err = d.filled("thinking")
	case "signature_delta":
		b.signed = true
		_, err = d.filled("signature")
	case "input_json_delta":
		err = b.input(d)
	case "citations_delta":
		_, err = d.object("citation")
	}
	b.deltas++
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return nil
}

// input takes a piece of a call's input. The first may be empty, as the vendor's is.
func (b *anthropicBlock) input(d object) error {
	piece, err := d.text("partial_json")
	if err == nil && piece == "" && b.deltas > 0 {
		err = errors.New("partial_json is empty and not the first")
	}
	b.json.WriteString(piece)
	return err
}

func (a *anthropic) shut(o object) error {
	b, err := a.at(o)
	if err != nil {
		return err
	}
	b.closed = true
	return nil
}

func (a *anthropic) last(o object) error {
	for i, b := range a.blocks {
		if !b.closed {
			return fmt.Errorf("message_delta while block %d is open", i)
		}
	}
	d, err := o.object("delta")
	if err != nil {
		return err
	}
	a.stop, err = d.filled("stop_reason")
	if err != nil {
		return fmt.Errorf("message_delta: %w", err)
	}
	if !slices.Contains(anthropicReasons, a.stop) {
		return fmt.Errorf("stop_reason %q, expected one of %q", a.stop, anthropicReasons)
	}
	if err := a.calls(); err != nil {
		return err
	}
	u, err := o.object("usage")
	if err != nil {
		return fmt.Errorf("message_delta: %w", err)
	}
	if err := u.counts("output_tokens"); err != nil {
		return err
	}
	if n, _ := u.number("output_tokens"); n < a.output {
		return fmt.Errorf("usage is cumulative, but output_tokens fell from %d to %d", a.output, n)
	}
	return nil
}

// calls checks what can be said of the calls only when the reason to stop is known.
func (a *anthropic) calls() error {
	called := false
	for i, b := range a.blocks {
		if !slices.Contains(anthropicDeltas[b.kind], "input_json_delta") {
			continue
		}
		called = called || b.kind == "tool_use"
		// Nothing at all is what the vendor sends for a call without arguments.
		if s := b.json.String(); s != "" && !isObject(s) && !slices.Contains(anthropicCut, a.stop) {
			return fmt.Errorf("the partial_json of block %d do not add up to a JSON object: %s", i, shown(jsontext.Value(s)))
		}
	}
	if a.stop == "tool_use" && !called {
		return errors.New("stop_reason tool_use without a tool_use block")
	}
	return nil
}

func (a *anthropic) end() error {
	if !a.ended {
		return errors.New("no message_stop")
	}
	return nil
}
