package gemini

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// maxHeldArgs is the most that is kept of the arguments of all calls that are open, in
// bytes.
const maxHeldArgs = 16 << 20

// eventEncoder writes a stream of chunks. It tells texts as they come and calls once
// they are whole, which is all the protocol has.
type eventEncoder struct {
	answerWriter
	parts   []outPart // by index
	held    int       // bytes of arguments
	broken  []int     // calls whose arguments are no object: the end tells whether that is a fault
	content bool      // a part was told
	begun   bool      // something was written
	ended   bool
	piece   []byte // a part while it is written
}

type outPart struct {
	kind  llm.PartKind
	wide  bool // its text is not all ASCII
	call  *llm.Call
	args  []byte     // of the call
	last  []byte     // the end of what was thought, which its state goes with
	whole []byte     // a part that came at once, as it is written but for its state
	state *llm.State // of a call or a part that came at once
}

// NewEventEncoder returns an encoder of data lines, or of an array if the caller asked
// for a stream without alt=sse.
func (*Codec) NewEventEncoder(c *protocol.Conversion) protocol.EventEncoder {
	return &eventEncoder{answerWriter: answerWriter{c: c}}
}

// Encode implements protocol.EventEncoder.
func (e *eventEncoder) Encode(dst []byte, ev llm.Event) ([]byte, *fault.Error) {
	switch ev.Kind {
	case llm.EventStart:
		e.model = ev.Model
		e.use(ev.Usage)
	case llm.EventUsage:
		e.use(ev.Usage)
	case llm.EventPartStart:
		return e.start(dst, ev.Part)
	case llm.EventDelta:
		return e.delta(dst, ev)
	case llm.EventCite:
		if p := e.at(ev.Index); p != nil {
			e.cite(ev.Citation, !p.wide)
		}
	case llm.EventState:
		return e.sign(dst, ev), nil
	case llm.EventPartEnd:
		return e.end(dst, ev.Index)
	case llm.EventFinish:
		e.stop = ev.Stop
	case llm.EventEnd:
		return e.finish(dst)
	}
	return dst, nil
}

func (e *eventEncoder) use(u *llm.Usage) {
	if u != nil {
		e.usage, e.reported = *u, true
	}
}

func (e *eventEncoder) at(i int) *outPart {
	if i < 0 || i >= len(e.parts) {
		return nil
	}
	return &e.parts[i]
}

func (e *eventEncoder) start(dst []byte, p *llm.Part) ([]byte, *fault.Error) {
	out := outPart{kind: p.Kind}
	if p.Kind == llm.PartCall {
		call := *p.Call
		out.call = &call
	}
	var f *fault.Error
	switch p.Kind {
	case llm.PartMedia, llm.PartNative:
		out.whole, f = e.part(nil, p)
	case llm.PartRedacted:
		dst = e.tell(dst, appendThought(e.piece[:0], "", p.State))
	}
	e.parts = append(e.parts, out)
	return dst, f
}

func (e *eventEncoder) delta(dst []byte, ev llm.Event) ([]byte, *fault.Error) {
	p := e.at(ev.Index)
	switch {
	case p == nil || len(ev.Text) == 0:
		return dst, nil
	case p.kind == llm.PartReasoning:
		// One piece behind: Google's SDK for Go keeps no part of a stream whose text is
		// empty, so that a state that came alone would never come back.
		dst = e.tell(dst, appendThought(e.piece[:0], string(p.last), nil))
		p.last = append(p.last[:0], ev.Text...)
		return dst, nil
	case p.call == nil:
		p.wide = p.wide || !ascii(ev.Text)
		return e.tell(dst, appendText(e.piece[:0], string(ev.Text), false, nil)), nil
	}
	if e.held += len(ev.Text); e.held > maxHeldArgs {
		return dst, fault.Wrap(fault.Malformed, errTooLarge)
	}
	p.args = append(p.args, ev.Text...)
	return dst, nil
}

// sign tells a state, with the end of what was thought. That of a text comes with an
// empty one: the text is told already.
func (e *eventEncoder) sign(dst []byte, ev llm.Event) []byte {
	p := e.at(ev.Index)
	switch {
	case p == nil:
		return dst
	case p.call != nil, p.kind == llm.PartMedia, p.kind == llm.PartNative:
		s := *ev.State
		p.state = &s
		return dst
	}
	if p.kind == llm.PartText || p.kind == llm.PartRefusal {
		return e.tell(dst, appendText(e.piece[:0], "", false, ev.State))
	}
	dst = e.tell(dst, appendThought(e.piece[:0], string(p.last), ev.State))
	p.last = nil
	return dst
}

func (e *eventEncoder) end(dst []byte, i int) ([]byte, *fault.Error) {
	p := e.at(i)
	switch {
	case p == nil:
		return dst, nil
	case len(p.whole) > 0:
		piece := appendEnd(p.whole[:len(p.whole)-1], p.state)
		*p = outPart{kind: p.kind}
		return e.tell(dst, piece), nil
	case p.call == nil:
		dst = e.tell(dst, appendThought(e.piece[:0], string(p.last), nil))
		p.last = nil
		return dst, nil
	}
	p.call.Arguments, p.args = string(p.args), nil
	if !sound(p.call) {
		e.broken = append(e.broken, i)
		return dst, nil
	}
	e.held -= len(p.call.Arguments)
	return e.tellCall(dst, p)
}

func (e *eventEncoder) tellCall(dst []byte, p *outPart) ([]byte, *fault.Error) {
	piece, f := e.call(e.piece[:0], p.call, p.call.Arguments, p.state)
	*p = outPart{kind: p.kind}
	if f != nil {
		return dst, f
	}
	return e.tell(dst, piece), nil
}

// finish writes the last chunk.
func (e *eventEncoder) finish(dst []byte) ([]byte, *fault.Error) {
	for _, i := range e.broken {
		var f *fault.Error
		if dst, f = e.tellCall(dst, &e.parts[i]); f != nil {
			return dst, f
		}
	}
	e.ended = true
	var parts []byte
	if !e.content {
		parts = e.nothing(parts)
	} else {
		parts = []byte(`{"text":""}`)
	}
	return e.close(e.frame(dst, parts, true)), nil
}

// tell writes a chunk with one part, if there is any.
func (e *eventEncoder) tell(dst, piece []byte) []byte {
	e.piece = piece[:0]
	if len(piece) == 0 {
		return dst
	}
	e.content = true
	return e.frame(dst, piece, false)
}

func (e *eventEncoder) frame(dst, parts []byte, last bool) []byte {
	if e.c.Framing == protocol.FramingArray {
		return e.chunk(e.element(dst), parts, last)
	}
	e.begun = true
	return append(e.chunk(append(dst, "data: "...), parts, last), "\r\n\r\n"...)
}

// element begins an element of the array.
func (e *eventEncoder) element(dst []byte) []byte {
	if e.begun {
		return append(dst, ",\r\n"...)
	}
	e.begun = true
	return append(dst, '[')
}

func (e *eventEncoder) close(dst []byte) []byte {
	if e.c.Framing == protocol.FramingArray {
		return append(dst, ']')
	}
	return dst
}

// Fail implements protocol.EventEncoder.
func (e *eventEncoder) Fail(dst []byte, f *fault.Error, requestID string) []byte {
	switch {
	case e.c.Framing != protocol.FramingArray:
		return append(dst, (*Codec)(nil).StreamError(f, requestID, nil)...)
	case e.ended:
		return dst // the array is closed
	}
	e.ended = true
	return e.close(appendError(e.element(dst), f, requestID, protocol.StreamOutcome(f)))
}
