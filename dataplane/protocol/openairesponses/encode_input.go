package openairesponses

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// calls are the tool calls and results of one id.
type calls struct {
	calls, results int
	sent, answered int
	custom         bool
}

// conversation writes model, instructions and input. Items stand in the order of the
// conversation, apart from results that come before their calls.
func (e *requestEncoder) conversation() *fault.Error {
	if f := e.pair(); f != nil {
		return f
	}
	e.b = make([]byte, 0, e.size())
	e.b = wirejson.AppendStringMember(append(e.b, '{'), "model", e.c.Model)
	messages := e.r.Messages
	if text, ok := e.instructions(); ok {
		e.b = wirejson.AppendStringMember(e.b, "instructions", text)
		messages = messages[1:]
	}
	before := len(e.b)
	e.b = append(wirejson.AppendMember(e.b, "input"), '[')
	if e.instruction != "" {
		e.open(itemMessage)
		e.b = append(wirejson.AppendStringMember(e.b, "role", e.systemRole(true)), `,"content":[{`...)
		e.writeText("input_text", e.instruction)
		e.b = append(e.b, "}]}"...)
	}
	for i := range messages {
		if f := e.message(&messages[i]); f != nil {
			return f
		}
		if f := e.release(); f != nil {
			return f
		}
	}
	if e.stored && e.b[len(e.b)-1] == '[' { // what the provider keeps is said already
		e.b = e.b[:before]
		return nil
	}
	if e.b[len(e.b)-1] == '[' {
		return fault.New(fault.InvalidRequest, "The conversation has no text, no media and no tool call. Send at least one message that says something.")
	}
	e.b = append(e.b, ']')
	return nil
}

// instructions is the text of a system message at the beginning, where it is plain and
// something follows it.
func (e *requestEncoder) instructions() (string, bool) {
	if len(e.r.Messages) < 2 && !e.stored {
		return "", false
	}
	if len(e.r.Messages) == 0 {
		return "", false
	}
	m := &e.r.Messages[0]
	if m.Role != llm.RoleSystem || m.Developer || m.Name != "" || len(m.Parts) != 1 {
		return "", false
	}
	p := &m.Parts[0]
	return p.Text, p.Kind == llm.PartText && p.Text != "" && p.Cache == llm.NoCache && p.State == nil
}

// pair checks that each call has its result, and each result its call.
func (e *requestEncoder) pair() *fault.Error {
	for i := range e.r.Messages {
		for j := range e.r.Messages[i].Parts {
			switch p := &e.r.Messages[i].Parts[j]; p.Kind {
			case llm.PartCall:
				s := e.state(p.Call.ID)
				s.calls++
				s.custom = p.Call.Custom
			case llm.PartResult:
				e.state(p.Result.CallID).results++
			}
		}
	}
	if e.stored { // what pairs may be kept by the provider
		return nil
	}
	for i := range e.r.Messages {
		for j := range e.r.Messages[i].Parts {
			switch p := &e.r.Messages[i].Parts[j]; p.Kind {
			case llm.PartCall:
				if s := e.calls[p.Call.ID]; s.calls > s.results {
					return protocol.PairFault(&llm.PairError{CallID: p.Call.ID})
				}
			case llm.PartResult:
				if s := e.calls[p.Result.CallID]; s.results > s.calls {
					return protocol.PairFault(&llm.PairError{CallID: p.Result.CallID, Result: true})
				}
			}
		}
	}
	return nil
}

func (e *requestEncoder) state(id string) *calls {
	s := e.calls[id]
	if s == nil {
		if e.calls == nil {
			e.calls = make(map[string]*calls)
		}
		s = new(calls)
		e.calls[id] = s
	}
	return s
}

// size is about how many bytes the request will have.
func (e *requestEncoder) size() int {
	n := 1024
	for i := range e.r.Messages {
		n += 64
		for j := range e.r.Messages[i].Parts {
			p := &e.r.Messages[i].Parts[j]
			n += 64 + len(p.Text) + len(p.Text)/16
			switch {
			case p.State != nil:
				n += len(p.State.Data)
			case p.Media != nil:
				n += len(p.Media.Data) + len(p.Media.Text) + len(p.Media.URL)
			case p.Call != nil:
				n += 128 + len(p.Call.Arguments) + len(p.Call.Arguments)/4
			case p.Result != nil:
				n += 64 + len(p.Result.Raw)
				for k := range p.Result.Parts {
					n += 64 + len(p.Result.Parts[k].Text) + len(p.Result.Parts[k].Text)/8
				}
			}
		}
	}
	for i := range e.r.Tools {
		n += 128 + len(e.r.Tools[i].Description) + len(e.r.Tools[i].Schema)
	}
	return n
}

// open opens an item.
func (e *requestEncoder) open(kind string) {
	e.b = wirejson.AppendStringMember(append(wirejson.AppendElement(e.b), '{'), "type", kind)
}

func (e *requestEncoder) systemRole(developer bool) string {
	if developer && !e.compat().GetNoDeveloperRole() {
		return "developer"
	}
	return "system"
}

func (e *requestEncoder) message(m *llm.Message) *fault.Error {
	if m.Name != "" {
		if f := e.c.Dropped(llm.FeatureParticipantName, callerField(e.c.From, llm.FeatureParticipantName)); f != nil {
			return f
		}
	}
	switch m.Role {
	case llm.RoleAssistant:
		return e.assistant(m)
	case llm.RoleTool:
		for i := range m.Parts {
			p := &m.Parts[i]
			if s := e.calls[p.Result.CallID]; s.sent <= s.answered && s.answered < s.calls {
				e.held = append(e.held, p)
				continue
			}
			if f := e.output(p); f != nil {
				return f
			}
		}
		return nil
	case llm.RoleSystem:
		return e.speak(e.systemRole(m.Developer), m)
	}
	return e.speak("user", m)
}

// release writes the results that waited for their calls.
func (e *requestEncoder) release() *fault.Error {
	kept := e.held[:0]
	for _, p := range e.held {
		if s := e.calls[p.Result.CallID]; s.sent <= s.answered {
			kept = append(kept, p)
			continue
		}
		if f := e.output(p); f != nil {
			return f
		}
	}
	e.held = kept
	return nil
}

// speak writes a message of a user or of the system. One of which nothing is left is
// none.
func (e *requestEncoder) speak(role string, m *llm.Message) *fault.Error {
	before := len(e.b)
	e.open(itemMessage)
	e.b = wirejson.AppendStringMember(e.b, "role", role)
	e.b = append(wirejson.AppendMember(e.b, "content"), '[')
	empty := len(e.b)
	for i := range m.Parts {
		p := &m.Parts[i]
		var f *fault.Error
		switch p.Kind {
		case llm.PartText, llm.PartRefusal, llm.PartMedia:
			f = e.part(p)
		case llm.PartNative:
			if e.own && isOutput(p.Native.Type) {
				// An item of its own, which is the only part of its message.
				e.b = append(wirejson.AppendElement(e.b[:before]), p.Native.Raw...)
				return nil
			}
			f = e.native(p.Native)
		}
		if f != nil {
			return f
		}
	}
	if len(e.b) == empty {
		e.b = e.b[:before]
		return nil
	}
	e.b = append(e.b, "]}"...)
	return nil
}

// isOutput reports types of items that answer one of the model's.
func isOutput(kind string) bool {
	return strings.HasSuffix(kind, "_output") || kind == "mcp_approval_response"
}
