// Package bridge carries a generation call from the caller's protocol to that of the
// upstream, and its answer back. It knows no protocol itself: the codec of one side
// decodes into the canonical model, that of the other encodes from it.
//
// What only this package does is to keep opaque reasoning state in its place. State
// of one vendor travels through another vendor's protocol as a sealed token, and
// goes to nobody but who made it.
package bridge

import (
	"crypto/rand"
	"errors"
	"strings"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// Codec is a protocol's codec with its converter.
type Codec interface {
	protocol.Codec
	protocol.Converter
}

// Call is a caller's request that may have to leave in another protocol. It is
// decoded once, when the first candidate needs it. Not safe for concurrent use.
type Call struct {
	Codec     Codec // of the caller's protocol
	Target    protocol.Target
	Body      []byte
	RequestID string
	Started   time.Time
	Version   string // the caller's anthropic-version
	Options   protocol.Options

	// StateKey seals reasoning state that passes through the caller; nil if the node
	// has none, and then no foreign state is handed out.
	StateKey *stateid.Key

	request *llm.Request
	fault   *fault.Error
	states  []state
}

// To is the candidate that a call is converted for.
type To struct {
	Codec     Codec
	Public    string // model name for the caller, should the answer name none
	Model     string // the upstream's model name
	MaxOutput int64
	Compat    *configv1.Compat
	Scope     string // whose reasoning state it can read

	NoBreakpoints bool // see protocol.Conversion
}

// Convert makes the call that a candidate gets. It fails, before anything is sent,
// with what the caller got wrong or what the candidate's protocol cannot express.
func (c *Call) Convert(to To) (*protocol.Converted, *fault.Error) {
	r, f := c.decode()
	if f != nil {
		return nil, f
	}
	c.own(to.Scope)
	streams := c.Target.Stream
	switch {
	case to.Compat.GetStreamOnly():
		streams = true
	case to.Compat.GetNoStream():
		streams = false
	}
	_, legacy := r.Extra(llm.FeatureLegacyFunctions)
	conv := &protocol.Conversion{
		From:           c.Codec.Name(),
		To:             to.Codec.Name(),
		Public:         to.Public,
		Model:          to.Model,
		MaxOutput:      to.MaxOutput,
		Compat:         to.Compat,
		NoBreakpoints:  to.NoBreakpoints && c.Codec.Name() != to.Codec.Name(),
		Stream:         streams,
		Framing:        c.Target.Framing,
		RequestID:      c.RequestID,
		Started:        c.Started,
		Body:           c.Body,
		Version:        c.Version,
		WantsUsage:     r.IncludeUsage,
		LegacyCalls:    legacy,
		Options:        c.Options,
		RequestSupport: to.Codec.Support,
		AnswerSupport:  c.Codec.Support,
	}
	body, f := to.Codec.EncodeRequest(r, conv)
	if f != nil {
		return nil, f
	}
	target, header := to.Codec.UpstreamTarget(r, conv)
	if target.Stream = streams; streams {
		target.Framing = protocol.FramingSSE // also where the body alone says so
	}
	way := &back{call: c, to: to, conv: conv}
	out := &protocol.Converted{
		Codec:  to.Codec,
		Target: target,
		Header: header,
		Body:   body,
		Answer: way.answer,
		Lossy:  conv.LossyHeader,
	}
	out.NewStream = way.stream
	return out, nil
}

func (c *Call) decode() (*llm.Request, *fault.Error) {
	if c.request == nil && c.fault == nil {
		if c.request, c.fault = c.Codec.DecodeRequest(c.Body, c.Target); c.fault == nil {
			c.openStates()
		}
	}
	return c.request, c.fault
}

// back is the way of one answer to the caller.
type back struct {
	call *Call
	to   To
	conv *protocol.Conversion
}

// answer makes the caller's answer of a whole answer: one body, or, for a caller who
// asked for a stream, all of the stream.
func (b *back) answer(body []byte) ([]byte, *fault.Error) {
	a, f := b.to.Codec.DecodeAnswer(body, b.conv)
	if f != nil {
		return nil, f
	}
	for i := range a.Parts {
		if f := named(&a.Parts[i]); f != nil {
			return nil, f
		}
	}
	if !b.call.Target.Stream {
		for i := range a.Parts {
			b.sealPart(&a.Parts[i])
		}
		return b.call.Codec.EncodeAnswer(a, b.conv)
	}
	enc := b.encoder()
	var out []byte
	err := a.Emit(func(e llm.Event) error {
		var f *fault.Error
		if out, f = enc.Encode(out, e); f != nil {
			return f
		}
		return nil
	})
	return out, fault.As(err)
}

var errNameless = errors.New("a tool call has no name")

// named fails for a call that says nothing of what is called: no client could run it,
// and most would fail on it. One that compatible servers gave no id gets one that no
// other call has.
func named(p *llm.Part) *fault.Error {
	switch {
	case p.Kind != llm.PartCall:
	case p.Call.Name == "":
		return fault.Wrap(fault.Malformed, errNameless)
	case p.Call.ID == "":
		p.Call.ID = "gwc_" + strings.ToLower(rand.Text())
	}
	return nil
}

// stream makes what the caller gets of a stream.
func (b *back) stream() protocol.StreamConverter {
	s := &stream{decoder: b.to.Codec.NewEventDecoder(b.conv)}
	if b.call.Target.Stream {
		s.encoder = b.encoder()
	} else {
		s.encoder = &gather{back: b}
	}
	s.emit = func(e llm.Event) {
		if s.fault == nil && e.Kind == llm.EventPartStart {
			s.fault = named(e.Part)
		}
		if s.fault == nil {
			s.out, s.fault = s.encoder.Encode(s.out, e)
		}
	}
	return s
}

func (b *back) encoder() protocol.EventEncoder {
	enc := b.call.Codec.NewEventEncoder(b.conv)
	if b.call.Codec.Name() == b.to.Codec.Name() {
		return enc
	}
	return &sealing{back: b, next: enc}
}

// stream is a decoder and an encoder, one behind the other.
type stream struct {
	decoder protocol.EventDecoder
	encoder protocol.EventEncoder
	emit    func(llm.Event)
	out     []byte
	fault   *fault.Error
	ended   bool
}

// Convert implements protocol.StreamConverter.
func (s *stream) Convert(dst []byte, f sse.Frame) ([]byte, *fault.Error) {
	s.out = dst
	bad := s.decoder.Decode(f, s.emit)
	dst, s.out = s.out, nil
	if s.fault != nil {
		return dst, s.fault
	}
	return dst, bad
}

// End implements protocol.StreamConverter.
func (s *stream) End(dst []byte) ([]byte, *fault.Error) {
	if s.ended {
		return dst, nil
	}
	s.ended = true
	s.out = dst
	bad := s.decoder.End(s.emit)
	dst, s.out = s.out, nil
	if s.fault != nil {
		return dst, s.fault
	}
	return dst, bad
}

// Fail implements protocol.StreamConverter.
func (s *stream) Fail(dst []byte, f *fault.Error, requestID string) []byte {
	return s.encoder.Fail(dst, f, requestID)
}

// gather makes one whole answer of a stream, for a caller who asked for none.
type gather struct {
	*back
	all llm.Collector
}

// Encode implements protocol.EventEncoder.
func (g *gather) Encode(dst []byte, e llm.Event) ([]byte, *fault.Error) {
	if !g.all.Add(e) {
		return dst, fault.New(fault.Malformed, "The provider's answer is larger than the gateway takes.")
	}
	if e.Kind != llm.EventEnd {
		return dst, nil
	}
	a := g.all.Answer()
	for i := range a.Parts {
		g.sealPart(&a.Parts[i])
	}
	body, f := g.call.Codec.EncodeAnswer(a, g.conv)
	return append(dst, body...), f
}

// Fail implements protocol.EventEncoder: nothing was told yet, so that the error is
// the whole answer and rendered elsewhere.
func (g *gather) Fail(dst []byte, _ *fault.Error, _ string) []byte { return dst }
