package openairesponses

import (
	"bytes"
	"errors"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// NewEventDecoder returns a reader of Responses events.
//
// What a server told in no delta is taken from the events that repeat it, the finished
// item and the finished response at last: some servers stream only a part of it.
func (*Codec) NewEventDecoder(c *protocol.Conversion) protocol.EventDecoder {
	return newEventDecoder(c)
}

func newEventDecoder(c *protocol.Conversion) *eventDecoder { return &eventDecoder{c: c} }

// eventDecoder makes events of the protocol's. It keeps which items there were, and
// nothing of what was told.
type eventDecoder struct {
	c    *protocol.Conversion
	s    stream          // reads responses, as for the relay
	list wirejson.Reader // reads an event, or the items of a response
	in   wirejson.Reader // reads an item
	emit func(llm.Event)
	text []byte // scratch

	started, ended bool
	next           int // index of the next part
	items          []outItem
	ids            []string // of the calls that were told
	refused        bool
}

// outItem is an item of the answer.
type outItem struct {
	index int64 // output_index; -1 if not told
	id    string
	kind  string
	done  bool
	parts []outPart
}

// outPart is a part of an item. Reasoning and calls have one.
type outPart struct {
	content int64 // content_index
	at      int   // index of the part in the answer
	kind    llm.PartKind
	ended   bool
	texted  bool  // something of it was told
	summary int64 // of reasoning, the piece that was told last
	cited   int
}

// Bounds on what one answer may hold.
const (
	maxAnswerItems = 4096
	maxAnswerParts = 16384
)

var (
	errNothing  = errors.New("the answer has no output")
	errNameless = errors.New("a tool call has no name")
	errMany     = errors.New("more items than an answer may have")
	errCanceled = errors.New("the response was cancelled")
)

// Decode takes the next frame.
func (d *eventDecoder) Decode(f sse.Frame, emit func(llm.Event)) *fault.Error {
	data := bytes.TrimSpace(f.Data)
	if f.Empty() || d.ended || len(data) == 0 || sse.IsDone(data) {
		return nil
	}
	d.emit = emit
	kind := f.Event
	if len(kind) == 0 || string(kind) == "message" {
		kind = typeOf(f.Data)
	}
	switch string(kind) {
	case "error":
		info, _ := protocol.ParseError(f.Data)
		return failed(info).Fault
	case "response.created", "response.in_progress", "response.queued":
		if err := d.s.event(f.Data); err != nil {
			return fault.Wrap(fault.Malformed, err)
		}
		d.start()
		return nil
	case "response.completed", "response.incomplete", "response.cancelled", "response.failed":
		return d.terminal(string(kind), f.Data)
	case "ping", "keepalive":
		return nil
	}
	if bytes.HasPrefix(kind, prefix) {
		return d.event(string(kind[len(prefix):]), f.Data)
	}
	if info, ok := protocol.ParseError(f.Data); ok && len(kind) == 0 {
		return failed(info).Fault
	}
	if !d.started && data[0] != '{' {
		return fault.Wrap(fault.Malformed, errNoEvent)
	}
	return nil
}

// End tells whether the answer came to its end.
func (d *eventDecoder) End(emit func(llm.Event)) *fault.Error {
	if d.ended {
		return nil
	}
	d.emit = emit
	return fault.Wrap(fault.CutAfterFirst, errNothing)
}

// streamEvent is what one event holds beside its type.
type streamEvent struct {
	index   int64 // output_index; -1 if there is none
	content int64 // content_index or summary_index
	id      string
	name    string
	item    []byte
	source  []byte
	texted  bool // d.text is its delta or its text
}

// event takes an event inside an item; kind is without "response.".
func (d *eventDecoder) event(kind string, data []byte) *fault.Error {
	// Most are deltas; those that nothing is made of are not even read.
	switch kind {
	case "output_item.added", "output_item.done",
		"output_text.delta", "output_text.done", "refusal.delta", "refusal.done",
		"reasoning_summary_text.delta", "reasoning_summary_text.done", "reasoning_text.delta", "reasoning_text.done",
		"function_call_arguments.delta", "function_call_arguments.done", "custom_tool_call_input.delta", "custom_tool_call_input.done",
		"output_text.annotation.added", "content_part.done":
	default:
		return nil
	}
	e, err := d.read(data)
	if err != nil {
		return fault.Wrap(fault.Malformed, err)
	}
	switch kind {
	case "output_item.added":
		return d.added(&e)
	case "output_item.done":
		return d.done(&e)
	}
	if d.next > maxAnswerParts {
		return fault.Wrap(fault.Malformed, errMany)
	}
	it, f := d.item(&e, kind)
	if f != nil || it.done {
		return f
	}
	switch kind {
	case "output_text.delta":
		d.say(it, llm.PartText, &e)
	case "refusal.delta":
		d.say(it, llm.PartRefusal, &e)
	case "reasoning_summary_text.delta", "reasoning_text.delta":
		d.think(it, kind[:11] == "reasoning_s", &e)
	case "function_call_arguments.delta", "custom_tool_call_input.delta":
		return d.argue(it, &e)
	case "output_text.done":
		d.catchUp(it, llm.PartText, &e)
	case "refusal.done":
		d.catchUp(it, llm.PartRefusal, &e)
	case "reasoning_summary_text.done":
		d.catchUp(it, llm.PartReasoning, &e)
	case "function_call_arguments.done", "custom_tool_call_input.done":
		if p := it.part(0); p == nil || !p.texted {
			return d.argue(it, &e)
		}
	case "output_text.annotation.added":
		d.cite(it, &e)
	case "content_part.done":
		if p := it.part(e.content); p != nil {
			d.end(p)
		}
	}
	return nil
}

// read reads an event. Its text is in d.text until the next one.
func (d *eventDecoder) read(data []byte) (e streamEvent, err error) {
	r := &d.list
	r.ResetLenient(data)
	defer r.Release()
	e.index = -1
	d.text = d.text[:0]
	if r.Enter('{') {
		for r.Next() {
			switch string(r.Name()) {
			case "output_index":
				if n, ok := r.Int(); ok && n >= 0 {
					e.index = n
				}
			case "content_index", "summary_index":
				e.content, _ = r.Int()
			case "item_id":
				e.id, _ = r.String(protocol.MaxHint)
			case "name":
				e.name, _ = r.Text()
			case "delta", "text", "refusal", "arguments", "input":
				if r.Kind() == '{' { // arguments of some servers
					d.text, e.texted = append(d.text[:0], r.Value()...), true
					continue
				}
				d.text, e.texted = r.AppendText(d.text[:0])
			case "item":
				e.item = r.Value()
			case "annotation":
				e.source = r.Value()
			}
		}
	}
	return e, r.Done()
}
