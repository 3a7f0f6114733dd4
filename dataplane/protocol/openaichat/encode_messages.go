package openaichat

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// assistant gathers what the model said until somebody else speaks. Some protocols
// tell it in several messages, and results of tools may only follow the one message
// that has all the calls.
type assistant struct {
	begun          bool
	name           string
	text, refusals []*llm.Part
	reasoning      []*llm.Part
	calls          []*llm.Call
	audio          []byte
}

func (a *assistant) reset() {
	*a = assistant{text: a.text[:0], refusals: a.refusals[:0], reasoning: a.reasoning[:0], calls: a.calls[:0]}
}

// messages writes model and messages.
func (e *requestEncoder) messages() *fault.Error {
	calls := e.index()
	e.b = make([]byte, 0, e.size())
	e.b = wirejson.AppendStringMember(append(e.b, '{'), "model", e.c.Model)
	e.b = append(wirejson.AppendMember(e.b, "messages"), '[')
	if e.instruction != "" {
		e.begin("system", "")
		e.b = append(wirejson.AppendStringMember(e.b, "content", e.instruction), '}')
	}
	for i := range e.r.Messages {
		m := &e.r.Messages[i]
		var f *fault.Error
		switch m.Role {
		case llm.RoleSystem:
			if f = e.flush(); f == nil {
				f = e.speak(e.systemRole(m), m)
			}
		case llm.RoleUser:
			if f = e.flush(); f == nil {
				f = e.speak("user", m)
			}
		case llm.RoleAssistant:
			f = e.gather(m)
		case llm.RoleTool:
			for j := range m.Parts {
				if id := m.Parts[j].Result.CallID; calls[id] == 0 {
					return protocol.PairFault(&llm.PairError{CallID: id, Result: true})
				}
			}
			f = e.flush()
		}
		if f != nil {
			return f
		}
	}
	if f := e.flush(); f != nil {
		return f
	}
	e.b = append(e.b, ']')
	return e.unanswered()
}

// index makes e.results and counts the calls of each id.
func (e *requestEncoder) index() map[string]int {
	var calls map[string]int
	for i := range e.r.Messages {
		m := &e.r.Messages[i]
		for j := range m.Parts {
			switch p := &m.Parts[j]; p.Kind {
			case llm.PartCall:
				if calls == nil {
					calls, e.results = make(map[string]int), make(map[string][]*llm.Part)
				}
				calls[p.Call.ID]++
			case llm.PartResult:
				if e.results == nil {
					calls, e.results = make(map[string]int), make(map[string][]*llm.Part)
				}
				e.results[p.Result.CallID] = append(e.results[p.Result.CallID], p)
			}
		}
	}
	return calls
}

// unanswered finds a result that no call was left for: the first one, so that the
// same request gets the same error.
func (e *requestEncoder) unanswered() *fault.Error {
	for i := range e.r.Messages {
		m := &e.r.Messages[i]
		if m.Role != llm.RoleTool {
			continue
		}
		for j := range m.Parts {
			if id := m.Parts[j].Result.CallID; len(e.results[id]) > 0 {
				return protocol.PairFault(&llm.PairError{CallID: id, Result: true})
			}
		}
	}
	return nil
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

func (e *requestEncoder) systemRole(m *llm.Message) string {
	if m.Developer && !e.compat().GetNoDeveloperRole() {
		return "developer"
	}
	return "system"
}

// begin opens a message.
func (e *requestEncoder) begin(role, name string) {
	e.b = wirejson.AppendStringMember(append(wirejson.AppendElement(e.b), '{'), "role", role)
	if name != "" {
		e.b = wirejson.AppendStringMember(e.b, "name", name)
	}
}

// speak writes a message of a user or of the system.
func (e *requestEncoder) speak(role string, m *llm.Message) *fault.Error {
	e.said = e.said[:0]
	for i := range m.Parts {
		p := &m.Parts[i]
		switch p.Kind {
		case llm.PartText, llm.PartRefusal:
			if f := e.unsourced(p); f != nil {
				return f
			}
			if p.Text == "" {
				continue
			}
		case llm.PartMedia:
			if m.Role == llm.RoleSystem && p.Media.Text == "" {
				if f := e.misplaced(p.Media, "system"); f != nil {
					return f
				}
				continue
			}
		case llm.PartNative:
			if f := e.native(p.Native); f != nil {
				return f
			}
			continue
		default:
			continue // no protocol has calls, results or reasoning here
		}
		e.said = append(e.said, p)
	}
	e.begin(role, m.Name)
	return e.close(e.content(e.said))
}

// unsourced loses the sources of a text that is not the assistant's.
func (e *requestEncoder) unsourced(p *llm.Part) *fault.Error {
	if len(p.Citations) == 0 {
		return nil
	}
	return e.c.Dropped(llm.FeatureCitationHistory, "")
}

func (e *requestEncoder) close(f *fault.Error) *fault.Error {
	e.b = append(e.b, '}')
	return f
}

// gather takes a message of the assistant.
func (e *requestEncoder) gather(m *llm.Message) *fault.Error {
	calls, own := false, &e.open
	for i := range m.Parts {
		calls = calls || m.Parts[i].Kind == llm.PartCall
	}
	if own.begun && (own.name != m.Name || len(own.calls) == 0 && len(own.text)+len(own.refusals) > 0 && !calls) {
		if f := e.flush(); f != nil {
			return f
		}
	}
	own.begun, own.name = true, m.Name
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.State != nil && p.Kind != llm.PartRedacted {
			if _, f := e.c.Lose(llm.FeatureReasoningState, ""); f != nil {
				return f
			}
		}
		if f := e.gatherPart(p); f != nil {
			return f
		}
	}
	return nil
}

func (e *requestEncoder) gatherPart(p *llm.Part) *fault.Error {
	own := &e.open
	switch p.Kind {
	case llm.PartText:
		if len(p.Citations) > 0 {
			if _, f := e.c.Lose(llm.FeatureCitationHistory, ""); f != nil {
				return f
			}
		}
		if p.Text != "" {
			own.text = append(own.text, p)
		}
	case llm.PartRefusal:
		own.refusals = append(own.refusals, p)
	case llm.PartReasoning:
		if p.Text == "" {
			return nil
		}
		if e.compat().GetReasoningField() == "" {
			_, f := e.c.Lose(llm.FeatureReasoningText, "")
			return f
		}
		own.reasoning = append(own.reasoning, p)
	case llm.PartRedacted:
		_, f := e.c.Lose(llm.FeatureReasoningState, "")
		return f
	case llm.PartCall:
		if p.Cache != llm.NoCache {
			if f := e.c.Dropped(llm.FeatureCacheMark, ""); f != nil {
				return f
			}
		}
		own.calls = append(own.calls, p.Call)
	case llm.PartMedia:
		return e.misplaced(p.Media, "assistant")
	case llm.PartNative:
		if e.own && p.Native.Type == nativeAudio {
			own.audio = p.Native.Raw
			return nil
		}
		return e.native(p.Native)
	}
	return nil
}

// flush writes the assistant's message, and right after it the results of its calls.
func (e *requestEncoder) flush() *fault.Error {
	a := &e.open
	if !a.begun {
		return nil
	}
	defer a.reset()
	e.begin("assistant", a.name)
	switch {
	case len(a.refusals) == 1 && len(a.text) == 0:
		e.b = wirejson.AppendStringMember(e.b, "refusal", a.refusals[0].Text)
	case len(a.text)+len(a.refusals) > 0:
		if f := e.content(append(a.text, a.refusals...)); f != nil {
			return f
		}
	case len(a.calls) > 0:
		e.b = append(wirejson.AppendMember(e.b, "content"), "null"...)
	case a.audio == nil:
		e.b = wirejson.AppendStringMember(e.b, "content", "")
	}
	if len(a.reasoning) > 0 {
		e.b = wirejson.AppendStringMember(e.b, e.compat().GetReasoningField(), joined(a.reasoning))
	}
	if a.audio != nil {
		e.b = wirejson.AppendRawMember(e.b, "audio", a.audio)
	}
	if len(a.calls) == 0 {
		return e.close(nil)
	}
	e.b = append(wirejson.AppendMember(e.b, "tool_calls"), '[')
	for _, call := range a.calls {
		if call.Namespace != "" {
			if f := e.c.Dropped(llm.FeatureToolNamespace, ""); f != nil {
				return f
			}
		}
		e.call(call)
	}
	e.b = append(e.b, "]}"...)
	return e.answer(a.calls)
}

func (e *requestEncoder) call(call *llm.Call) {
	kind, input, arguments := "function", "arguments", call.Arguments
	switch {
	case call.Custom:
		kind, input = "custom", "input"
	case arguments == "":
		arguments = "{}" // what is no JSON breaks the templates of some servers
	}
	e.b = append(wirejson.AppendElement(e.b), '{')
	e.b = wirejson.AppendStringMember(e.b, "id", callID(call.ID))
	e.b = wirejson.AppendStringMember(e.b, "type", kind)
	e.b = append(wirejson.AppendMember(e.b, kind), '{')
	e.b = wirejson.AppendStringMember(e.b, "name", e.c.ToolName(call.Namespace, call.Name))
	e.b = wirejson.AppendStringMember(e.b, input, arguments)
	e.b = append(e.b, "}}"...)
}

// maxCallID is the longest id of a call that the vendor's service takes, in bytes.
const maxCallID = 40

// callID is a call's id, or one that stands for it if it is too long.
func callID(id string) string {
	if len(id) <= maxCallID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}
