package anthropic

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// NewEventEncoder returns a writer of a stream of Messages events.
func (*Codec) NewEventEncoder(c *protocol.Conversion) protocol.EventEncoder {
	return &eventWriter{answerWriter: answerWriter{c: c}}
}

// eventWriter writes one stream. Blocks begin in the order of their indexes without
// gaps, as the vendor's SDK demands, and pieces of open ones may interleave. A block
// of text or thinking begins with its first piece: an empty one would be refused
// when it comes back in a conversation.
type eventWriter struct {
	answerWriter
	parts  []partOut // by index of the part
	blocks int       // that began
	stop   llm.Stop
	usage  llm.Usage
	output int64 // tokens told at the start
	data   []byte
}

// partOut is a part and the block that it became.
type partOut struct {
	kind      llm.PartKind
	block     int // -1 for none
	open      bool
	signature string
}

// Encode implements protocol.EventEncoder.
func (w *eventWriter) Encode(dst []byte, e llm.Event) ([]byte, *fault.Error) {
	switch e.Kind {
	case llm.EventStart:
		return w.start(dst, e), nil
	case llm.EventPartStart:
		return w.begin(dst, e.Part)
	case llm.EventUsage:
		w.usage = *e.Usage
		return dst, nil
	case llm.EventFinish:
		w.stop = e.Stop
		return dst, nil
	case llm.EventEnd:
		return w.end(dst)
	}
	if e.Index < 0 || e.Index >= len(w.parts) {
		return dst, nil
	}
	p := &w.parts[e.Index]
	switch e.Kind {
	case llm.EventDelta:
		return w.delta(dst, p, e.Text), nil
	case llm.EventCite:
		if !w.theirs() || len(e.Citation.Raw) == 0 || p.kind != llm.PartText {
			w.c.LoseAnswer(llm.AnswerCitations)
			return dst, nil
		}
		dst = w.open(dst, p)
		w.piece(p, `{"type":"citations_delta","citation":`)
		w.data = append(w.data, e.Citation.Raw...)
		return w.sent(dst), nil
	case llm.EventState:
		if p.kind != llm.PartReasoning {
			w.c.LoseAnswer(llm.AnswerState)
			return dst, nil
		}
		p.signature = e.State.Data
	case llm.EventPartEnd:
		return w.shut(dst, p), nil
	}
	return dst, nil
}

// Fail implements protocol.EventEncoder.
func (*eventWriter) Fail(dst []byte, f *fault.Error, requestID string) []byte {
	return sse.AppendEvent(dst, "error", appendError(nil, f, statusOf(f), requestID, protocol.StreamOutcome(f)))
}

func (w *eventWriter) start(dst []byte, e llm.Event) []byte {
	if e.Usage != nil {
		w.usage = *e.Usage
		w.output = e.Usage.CompletionTokens()
	}
	b := w.head([]byte(`{"type":"message_start","message":`), e.Model)
	b = append(b, `],"stop_reason":null,"stop_sequence":null,"stop_details":null,"usage":{`...)
	return sse.AppendEvent(dst, "message_start", append(appendUsage(b, w.usage, true), "}}}"...))
}

// begin notes a part, and begins its block if that comes whole or must have an id.
func (w *eventWriter) begin(dst []byte, part *llm.Part) ([]byte, *fault.Error) {
	w.parts = append(w.parts, partOut{kind: part.Kind, block: -1})
	p := &w.parts[len(w.parts)-1]
	b := append([]byte(nil), '{')
	switch part.Kind {
	case llm.PartRefusal:
		w.refused, p.kind = true, llm.PartText
	case llm.PartReasoning:
		if part.State != nil {
			p.signature = part.State.Data
		}
	case llm.PartRedacted:
		if stateOf(part) != "" {
			b = wirejson.AppendStringMember(append(b, `"type":"redacted_thinking"`...), "data", part.State.Data)
			dst = w.block(dst, p, append(b, '}'))
		}
	case llm.PartCall:
		b = wirejson.AppendStringMember(append(b, `"type":"tool_use"`...), "id", w.callID(part.Call.ID))
		b = append(wirejson.AppendStringMember(b, "name", part.Call.Name), `,"input":{}}`...)
		dst = w.delta(w.block(dst, p, b), p, []byte(part.Call.Arguments))
	case llm.PartNative:
		if !w.theirs() {
			w.c.LoseAnswer(llm.AnswerServerTool)
			break
		}
		dst = w.native(dst, p, part.Native)
	case llm.PartMedia:
		return dst, w.noPlace(part.Media)
	}
	return dst, nil
}

// native writes a block that the upstream made in this protocol. The input of a call
// comes in pieces, all other blocks whole.
func (w *eventWriter) native(dst []byte, p *partOut, n *llm.Native) []byte {
	if !strings.HasSuffix(n.Type, "tool_use") {
		return w.block(dst, p, n.Raw)
	}
	var r wirejson.Reader
	r.ResetLenient(n.Raw)
	b := readBlock(&r, n.Raw)
	dst = w.block(dst, p, withInput(n.Raw, []byte("{}")))
	if len(b.input) > 0 && b.input[0] == '{' && !bytes.Equal(b.input, []byte("{}")) {
		w.piece(p, inputDelta)
		w.data = wirejson.AppendText(w.data, b.input)
		dst = w.sent(dst)
	}
	return dst
}

// block begins a block that starts as content says.
func (w *eventWriter) block(dst []byte, p *partOut, content []byte) []byte {
	p.block, p.open = w.blocks, true
	w.blocks++
	w.content = true
	w.data = strconv.AppendInt(append(w.data[:0], `{"type":"content_block_start","index":`...), int64(p.block), 10)
	w.data = append(append(append(w.data, `,"content_block":`...), content...), '}')
	return sse.AppendEvent(dst, "content_block_start", w.data)
}

// open begins the block of a text or of thinking, unless that was done.
func (w *eventWriter) open(dst []byte, p *partOut) []byte {
	if p.open {
		return dst
	}
	if p.kind == llm.PartReasoning {
		return w.block(dst, p, []byte(`{"type":"thinking","thinking":"","signature":""}`))
	}
	return w.block(dst, p, []byte(`{"type":"text","text":""}`))
}

func (w *eventWriter) delta(dst []byte, p *partOut, text []byte) []byte {
	if len(text) == 0 {
		return dst
	}
	switch p.kind {
	case llm.PartText:
		dst = w.open(dst, p)
		w.piece(p, `{"type":"text_delta","text":`)
	case llm.PartReasoning:
		dst = w.open(dst, p)
		w.piece(p, `{"type":"thinking_delta","thinking":`)
	case llm.PartCall:
		w.piece(p, inputDelta)
	default:
		return dst
	}
	w.data = wirejson.AppendText(w.data, text)
	return w.sent(dst)
}

const inputDelta = `{"type":"input_json_delta","partial_json":`

// piece begins a delta of an open block, up to its value.
func (w *eventWriter) piece(p *partOut, delta string) {
	w.data = strconv.AppendInt(append(w.data[:0], `{"type":"content_block_delta","index":`...), int64(p.block), 10)
	w.data = append(append(w.data, `,"delta":`...), delta...)
}

// sent ends the delta that piece began.
func (w *eventWriter) sent(dst []byte) []byte {
	w.data = append(w.data, "}}"...)
	return sse.AppendEvent(dst, "content_block_delta", w.data)
}

// shut ends a part. Its signature comes last, and once.
func (w *eventWriter) shut(dst []byte, p *partOut) []byte {
	if p.signature != "" {
		dst = w.open(dst, p)
		w.piece(p, `{"type":"signature_delta","signature":`)
		w.data = wirejson.AppendString(w.data, p.signature)
		dst = w.sent(dst)
		p.signature = ""
	}
	if !p.open {
		return dst
	}
	p.open = false
	w.data = strconv.AppendInt(append(w.data[:0], `{"type":"content_block_stop","index":`...), int64(p.block), 10)
	return sse.AppendEvent(dst, "content_block_stop", append(w.data, '}'))
}

// end writes how the answer ended and what it used, which may come after all else.
func (w *eventWriter) end(dst []byte) ([]byte, *fault.Error) {
	for i := range w.parts {
		dst = w.shut(dst, &w.parts[i])
	}
	word, f := w.word(w.stop)
	if f != nil {
		return dst, f
	}
	u := w.usage
	if short := w.output - u.CompletionTokens(); short > 0 {
		u.Output += short // counts never fall
	}
	b := appendStop([]byte(`{"type":"message_delta","delta":{`), w.stop, word)
	b = append(appendUsage(append(b, `},"usage":{`...), u, true), "}}"...)
	dst = sse.AppendEvent(dst, "message_delta", b)
	return sse.AppendEvent(dst, "message_stop", []byte(`{"type":"message_stop"}`)), nil
}
