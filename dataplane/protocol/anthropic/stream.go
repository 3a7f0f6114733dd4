package anthropic

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// NewStream returns a decoder of Messages events. Usage is always reported, so it
// does not matter who asked.
func (*Codec) NewStream(bool) protocol.StreamDecoder { return new(stream) }

// ReadAnswer reads a message.
func (c *Codec) ReadAnswer(src io.Reader) (protocol.Answer, *fault.Error) {
	d, _ := c.answers.Get().(*stream)
	if d == nil {
		d = new(stream)
	}
	defer func() {
		d.state = state{}
		d.r.Release()
		c.answers.Put(d)
	}()
	d.whole = true
	d.r.ResetStream(src)
	object := d.message()
	return d.Answer(&d.r, object)
}

type stream struct {
	state
	r wirejson.Reader
}

// state is all that belongs to one answer.
type state struct {
	protocol.Seen
	whole bool // a whole message is read: its content was not counted before
	usage usage
}

var (
	errNoEvent = errors.New("the stream's first event is not a JSON object")

	typePrefix = []byte(`{"type":"`)

	// textNames are the members of a delta that hold output.
	textNames = [][]byte{[]byte(`"text"`), []byte(`"partial_json"`), []byte(`"thinking"`)}
	deltaName = []byte(`"delta"`)
)

// Observe takes the next frame.
func (d *stream) Observe(f sse.Frame) protocol.Observation {
	if len(bytes.TrimSpace(f.Data)) == 0 {
		return protocol.Observation{Kind: protocol.Ping}
	}
	kind := f.Event
	if len(kind) == 0 {
		kind = d.typeOf(f.Data)
	}
	switch string(kind) {
	case "content_block_delta":
		d.count(f.Data)
		d.Begun = true
		return protocol.Observation{Kind: protocol.Semantic}
	case "content_block_start":
		if whole(f.Data) {
			d.Begun = true
			return protocol.Observation{Kind: protocol.Semantic}
		}
		return protocol.Observation{Kind: protocol.Lifecycle}
	case "content_block_stop":
		return protocol.Observation{Kind: protocol.Lifecycle}
	case "message_start":
		if err := d.event(f.Data); err != nil && !d.Begun {
			return protocol.Observation{Kind: protocol.Error, Fault: fault.Wrap(fault.Malformed, err)}
		}
		return protocol.Observation{Kind: protocol.Lifecycle}
	case "message_delta":
		if err := d.event(f.Data); err != nil && !d.Begun {
			return protocol.Observation{Kind: protocol.Error, Fault: fault.Wrap(fault.Malformed, err)}
		}
		d.Begun = true
		return protocol.Observation{Kind: protocol.Semantic}
	case "message_stop":
		if f.Tail && !bytes.HasSuffix(bytes.TrimSpace(f.Data), []byte("}")) { // half an event is no end
			return protocol.Observation{Kind: protocol.Other}
		}
		d.Begun, d.Ended = true, true
		return protocol.Observation{Kind: protocol.Terminal}
	case "ping":
		return protocol.Observation{Kind: protocol.Ping}
	case "error":
		info, _ := protocol.ParseError(f.Data)
		return protocol.Observation{Kind: protocol.Error, Fault: protocol.ClassifyError(info, 0, nil, time.Time{})}
	}
	if !d.Begun && bytes.TrimSpace(f.Data)[0] != '{' {
		return protocol.Observation{Kind: protocol.Error, Fault: fault.Wrap(fault.Malformed, errNoEvent)}
	}
	return protocol.Observation{Kind: protocol.Other}
}

// typeOf is the type of an event that came without an event line.
func (d *stream) typeOf(data []byte) []byte {
	if bytes.HasPrefix(data, typePrefix) {
		raw, _, _ := wirejson.StringAt(data[len(typePrefix)-1:])
		return raw
	}
	var kind []byte
	r := &d.r
	r.ResetLenient(data)
	if r.Enter('{') {
		for r.Next() {
			if string(r.Name()) == "type" {
				v, _ := r.String(64)
				kind = []byte(v)
			}
		}
	}
	return kind
}

// whole reports whether a block that starts is complete in itself: redacted
// thinking and the results of tools that the provider ran have no deltas.
func whole(data []byte) bool {
	kind, _, ok := wirejson.StringAt(wirejson.Find(wirejson.Find(data, []byte(`"content_block"`)), []byte(`"type"`)))
	return ok && (string(kind) == "redacted_thinking" || bytes.HasSuffix(kind, []byte("_tool_result")))
}

// count adds the text of a delta.
func (d *stream) count(data []byte) {
	delta := wirejson.Find(data, deltaName)
	for _, name := range textNames {
		if raw, _, ok := wirejson.StringAt(wirejson.Find(delta, name)); ok {
			d.Text += int64(wirejson.TextLen(raw))
			return
		}
	}
}

// event reads message_start or message_delta.
func (d *stream) event(data []byte) error {
	r := &d.r
	r.ResetLenient(data)
	defer r.Release()
	if r.Enter('{') {
		for r.Next() {
			switch string(r.Name()) {
			case "message":
				d.message()
			case "delta":
				if r.Enter('{') {
					for r.Next() {
						if string(r.Name()) == "stop_reason" {
							d.stop()
						}
					}
				}
			case "usage":
				d.readUsage()
			}
		}
	}
	return r.Done()
}

func (d *stream) stop() {
	if word, ok := d.r.String(64); ok {
		d.How = llm.Stop{Reason: reasonOf(word), Native: word}
	}
}

// message reads a message and reports whether there was one.
func (d *stream) message() bool {
	r := &d.r
	if !r.Enter('{') {
		return false
	}
	for r.Next() {
		switch string(r.Name()) {
		case "id":
			d.Keep(r, &d.ID)
		case "model":
			d.Keep(r, &d.Model)
		case "stop_reason":
			d.stop()
		case "usage":
			d.readUsage()
		case "error":
			d.Failed = d.Failure.ReadMember(r) || d.Failed
		case "content":
			if d.whole && r.Enter('[') {
				for r.Next() {
					d.block()
				}
			}
		}
	}
	return true
}

func (d *stream) block() {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "text", "thinking":
			d.AddText(r)
		case "input":
			d.values()
		}
	}
}

// values counts the texts in a tool's input, which is an object and not a text.
func (d *stream) values() {
	r := &d.r
	switch kind := r.Kind(); kind {
	case '{', '[':
		r.Enter(kind)
		for r.Next() {
			if kind == '{' {
				d.Text += int64(len(r.Name()))
			}
			d.values()
		}
	case '"':
		d.AddText(r)
	default:
		d.Text += int64(len(r.Raw()))
	}
}

// usage is what message_start and message_delta said, field by field: a later
// field replaces an earlier one, a field left out keeps it. Counts are cumulative.
type usage struct {
	input, read, write, write5m, write1h, output, thinking, searches int64
	stated                                                           bool
}

func (d *stream) readUsage() {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	u := &d.usage
	take := func(to *int64) {
		if n, ok := r.Int(); ok {
			*to, u.stated = max(n, 0), true
		}
	}
	split := false
	for r.Next() {
		switch string(r.Name()) {
		case "input_tokens":
			take(&u.input)
		case "cache_read_input_tokens":
			take(&u.read)
		case "cache_creation_input_tokens":
			take(&u.write)
		case "output_tokens":
			take(&u.output)
		case "cache_creation":
			if r.Enter('{') {
				for r.Next() {
					switch string(r.Name()) {
					case "ephemeral_5m_input_tokens":
						take(&u.write5m)
						split = true
					case "ephemeral_1h_input_tokens":
						take(&u.write1h)
						split = true
					}
				}
			}
		case "output_tokens_details":
			if r.Enter('{') {
				for r.Next() {
					if string(r.Name()) == "thinking_tokens" {
						take(&u.thinking)
					}
				}
			}
		case "server_tool_use":
			if r.Enter('{') {
				for r.Next() {
					if string(r.Name()) == "web_search_requests" {
						take(&u.searches)
					}
				}
			}
		}
	}
	if split {
		u.write = max(u.write, u.write5m+u.write1h) // a server may give the split alone
	}
	d.Reported = u.stated
	d.Tokens = u.tokens()
}

// tokens are the disjoint components. The vendor's input excludes what was read
// from and written to the cache; its output includes thinking.
func (u *usage) tokens() llm.Usage {
	t := llm.Usage{Input: u.input, CacheRead: u.read, WebSearches: u.searches}
	t.CacheWrite5m = min(u.write5m, u.write)
	t.CacheWrite1h = min(u.write1h, u.write-t.CacheWrite5m)
	t.CacheWriteOther = u.write - t.CacheWrite5m - t.CacheWrite1h
	t.SetCompletion(llm.Completion{Total: u.output, Reasoning: u.thinking})
	return t
}

func reasonOf(word string) llm.StopReason {
	switch strings.ToLower(word) {
	case "end_turn":
		return llm.StopEnd
	case "tool_use":
		return llm.StopToolUse
	case "max_tokens":
		return llm.StopMaxTokens
	case "model_context_window_exceeded":
		return llm.StopContextFull
	case "stop_sequence":
		return llm.StopSequence
	case "refusal":
		return llm.StopRefusal
	case "pause_turn":
		return llm.StopPause
	}
	return llm.StopUnknown
}
