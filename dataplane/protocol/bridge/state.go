package bridge

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
)

// state is a reasoning state of the request, and what its token told.
type state struct {
	*llm.State
	token  stateid.Token
	opened bool // it came in a token that is ours
}

// openStates takes reasoning state out of the tokens in which the caller holds it, and
// tokens out of the ids of tool calls. What looks like a token and is none of ours
// stays foreign: it is nobody's state.
func (c *Call) openStates() {
	for i := range c.request.Messages {
		parts := c.request.Messages[i].Parts
		for j := range parts {
			p := &parts[j]
			switch p.Kind {
			case llm.PartCall:
				if id, token, ok := stateid.SplitCallID(p.Call.ID); ok {
					p.Call.ID = id
					p.State = &llm.State{Data: token}
				}
			case llm.PartResult:
				if id, _, ok := stateid.SplitCallID(p.Result.CallID); ok {
					p.Result.CallID = id
				}
			}
			if p.State != nil {
				c.openState(p)
			}
		}
	}
}

func (c *Call) openState(p *llm.Part) {
	s := state{State: p.State}
	if stateid.IsToken(p.State.Data) {
		s.Foreign = true
		if s.token, s.opened = c.StateKey.Open(p.State.Data); s.opened {
			s.Kind, s.Data = llm.StateKind(s.token.Kind), s.token.Data
			if s.Kind == llm.AnthropicRedacted {
				p.Kind = llm.PartRedacted
			}
		} else {
			s.Kind, s.Data = llm.NoState, ""
		}
	}
	c.states = append(c.states, s)
}

// own marks which states the account at hand can read. Encrypted reasoning belongs to
// an organisation; signatures are read by any account of their maker.
func (c *Call) own(scope string) {
	for _, s := range c.states {
		if s.opened {
			s.Foreign = s.Kind == llm.OpenAIEncrypted && !s.token.In(scope)
		}
	}
}

// native is the kind of state that a protocol has a place for beside its reasoning.
func native(p protocol.Name) llm.StateKind {
	switch p {
	case protocol.Anthropic:
		return llm.AnthropicSignature
	case protocol.OpenAIResponses:
		return llm.OpenAIEncrypted
	case protocol.Gemini:
		return llm.GeminiSignature
	}
	return llm.NoState
}

// seal makes a state fit for the caller's protocol: a token in the place of the
// caller's own kind. It returns nil where the protocol has no such place.
func (b *back) seal(s *llm.State) *llm.State {
	place := native(b.call.Codec.Name())
	if place == llm.NoState {
		return nil
	}
	token := b.call.StateKey.Seal(stateid.Kind(s.Kind), b.to.Scope, s.Data)
	if token == "" {
		return nil
	}
	return &llm.State{Kind: place, Data: token}
}

// sealPart makes the states of a part fit for the caller. The signature of a call goes
// into the call's id where the protocol has no other place for it.
func (b *back) sealPart(p *llm.Part) {
	if p.State == nil || b.call.Codec.Name() == b.to.Codec.Name() {
		return
	}
	s := p.State
	p.State = nil
	switch {
	case p.Kind == llm.PartCall && native(b.call.Codec.Name()) != llm.GeminiSignature:
		token := b.call.StateKey.Seal(stateid.Kind(s.Kind), b.to.Scope, s.Data)
		if token != "" {
			call := *p.Call
			call.ID = stateid.JoinCallID(call.ID, token)
			p.Call = &call
			return
		}
	case p.Kind == llm.PartRedacted:
		if sealed := b.seal(s); sealed != nil {
			// Whoever cannot show it gets reasoning without a text.
			p.Kind, p.State = llm.PartReasoning, sealed
			return
		}
		p.Kind = llm.PartReasoning
	case p.Kind == llm.PartText && native(b.call.Codec.Name()) != llm.GeminiSignature:
	default:
		if p.State = b.seal(s); p.State != nil {
			return
		}
	}
	b.conv.LoseAnswer(llm.AnswerState)
}

// sealing hands events on with their states made fit for the caller. A signed call is
// held until its signature is known, which is part of the id that begins it; Gemini
// tells calls whole, so nobody waits.
type sealing struct {
	*back
	next  protocol.EventEncoder
	held  map[int]*llm.Part // calls that wait for their end, by index
	kinds []llm.PartKind    // of the parts that began
}

// Encode implements protocol.EventEncoder.
func (s *sealing) Encode(dst []byte, e llm.Event) ([]byte, *fault.Error) {
	if call := s.held[e.Index]; call != nil {
		switch e.Kind {
		case llm.EventDelta:
			call.Call.Arguments += string(e.Text)
			return dst, nil
		case llm.EventState:
			state := *e.State
			call.State = &state
			return dst, nil
		case llm.EventPartEnd:
			delete(s.held, e.Index)
			s.sealPart(call)
			return s.whole(dst, e.Index, call)
		}
	}
	switch e.Kind {
	case llm.EventPartStart:
		s.kinds = append(s.kinds, e.Part.Kind)
		if s.waits(e.Part) {
			p := llm.Part{Kind: llm.PartCall, State: e.Part.State}
			call := *e.Part.Call
			p.Call = &call
			if s.held == nil {
				s.held = make(map[int]*llm.Part)
			}
			s.held[e.Index] = &p
			return dst, nil
		}
		if e.Part.State != nil {
			p := *e.Part
			s.sealPart(&p)
			if p.State != nil && p.Kind == llm.PartReasoning {
				return s.reasoning(dst, e.Index, &p)
			}
			e.Part = &p
		}
	case llm.EventState:
		p := llm.Part{State: e.State}
		if e.Index >= 0 && e.Index < len(s.kinds) {
			p.Kind = s.kinds[e.Index]
		}
		s.sealPart(&p)
		if p.State == nil {
			return dst, nil
		}
		e.State = p.State
	}
	return s.next.Encode(dst, e)
}

// waits reports a call whose id may get a signature.
func (s *sealing) waits(p *llm.Part) bool {
	return p.Kind == llm.PartCall && s.to.Codec.Name() == protocol.Gemini
}

// reasoning begins a part with a state that was known at its start. The end of the part
// comes as an event of its own.
func (s *sealing) reasoning(dst []byte, i int, p *llm.Part) ([]byte, *fault.Error) {
	dst, f := s.next.Encode(dst, llm.Event{Kind: llm.EventPartStart, Index: i, Part: &llm.Part{Kind: llm.PartReasoning}})
	if f != nil {
		return dst, f
	}
	return s.next.Encode(dst, llm.Event{Kind: llm.EventState, Index: i, State: p.State})
}

// whole tells a part that was held.
func (s *sealing) whole(dst []byte, i int, p *llm.Part) ([]byte, *fault.Error) {
	args := p.Call.Arguments
	p.Call.Arguments = ""
	events := []llm.Event{{Kind: llm.EventPartStart, Index: i, Part: &llm.Part{Kind: p.Kind, Call: p.Call}}}
	if args != "" {
		events = append(events, llm.Event{Kind: llm.EventDelta, Index: i, Text: []byte(args)})
	}
	if p.State != nil {
		events = append(events, llm.Event{Kind: llm.EventState, Index: i, State: p.State})
	}
	events = append(events, llm.Event{Kind: llm.EventPartEnd, Index: i})
	for _, e := range events {
		var f *fault.Error
		if dst, f = s.next.Encode(dst, e); f != nil {
			return dst, f
		}
	}
	return dst, nil
}

// Fail implements protocol.EventEncoder.
func (s *sealing) Fail(dst []byte, f *fault.Error, requestID string) []byte {
	return s.next.Fail(dst, f, requestID)
}
