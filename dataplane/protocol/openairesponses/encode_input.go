package openairesponses

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
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
	if e.own && e.stored && len(messages) == 0 {
		return nil
	}
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
	return p.Text, p.Kind == llm.PartText && p.Cache == llm.NoCache && p.State == nil
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

// assistant writes what the model said: text and refusals as messages, all else as items
// of their own, in the order in which they were made.
func (e *requestEncoder) assistant(m *llm.Message) *fault.Error {
	talking := false
	hush := func() {
		if talking {
			e.b = append(e.b, ']')
			if m.Phase != "" && e.own {
				e.b = wirejson.AppendStringMember(e.b, "phase", m.Phase)
			}
			e.b, talking = append(e.b, '}'), false
		}
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		switch p.Kind {
		case llm.PartText, llm.PartRefusal:
			if p.Text == "" {
				continue
			}
			if !talking {
				e.open(itemMessage)
				e.b = append(wirejson.AppendStringMember(e.b, "role", "assistant"), `,"content":[`...)
				talking = true
			}
			if f := e.said(p); f != nil {
				return f
			}
			continue
		}
		hush()
		if f := e.made(p); f != nil {
			return f
		}
	}
	hush()
	return nil
}

// said writes a text or a refusal of the model.
func (e *requestEncoder) said(p *llm.Part) *fault.Error {
	if p.State != nil {
		if _, f := e.c.Lose(llm.FeatureReasoningState, ""); f != nil {
			return f
		}
	}
	if p.Cache != llm.NoCache {
		if f := e.c.Dropped(llm.FeatureCacheMark, ""); f != nil {
			return f
		}
	}
	e.b = append(wirejson.AppendElement(e.b), '{')
	if p.Kind == llm.PartRefusal {
		e.b = wirejson.AppendStringMember(e.b, "type", "refusal")
		e.b = append(wirejson.AppendStringMember(e.b, "refusal", p.Text), '}')
		return nil
	}
	e.writeText("output_text", p.Text)
	f := e.sources(p.Citations)
	e.b = append(e.b, '}')
	return f
}

// sources writes the sources of an earlier answer.
func (e *requestEncoder) sources(all []llm.Citation) *fault.Error {
	begun := false
	for i := range all {
		c := &all[i]
		if c.URL == "" && (!e.own || c.Raw == nil) {
			if f := e.c.Dropped(llm.FeatureCitationHistory, ""); f != nil {
				return f
			}
			continue
		}
		if !begun {
			e.b, begun = append(wirejson.AppendMember(e.b, "annotations"), '['), true
		}
		e.b = wirejson.AppendElement(e.b)
		if c.URL == "" {
			e.b = append(e.b, c.Raw...)
		} else {
			e.b = appendAnnotation(e.b, c)
		}
	}
	if begun {
		e.b = append(e.b, ']')
	}
	return nil
}

// writeText writes the members of a text.
func (e *requestEncoder) writeText(kind, s string) {
	e.b = wirejson.AppendStringMember(e.b, "type", kind)
	e.b = wirejson.AppendStringMember(e.b, "text", s)
}

// made writes what the model made beside text.
func (e *requestEncoder) made(p *llm.Part) *fault.Error {
	switch p.Kind {
	case llm.PartReasoning, llm.PartRedacted:
		return e.reasoning(p)
	case llm.PartCall:
		return e.call(p)
	case llm.PartMedia:
		if p.Media.Kind != llm.Image || p.Media.Data == "" {
			return e.misplaced(p.Media, "assistant")
		}
		e.open(itemImage)
		sum := sha256.Sum256([]byte(p.Media.Data))
		e.b = wirejson.AppendStringMember(e.b, "id", "ig_"+hex.EncodeToString(sum[:16]))
		e.b = wirejson.AppendStringMember(e.b, "status", "completed")
		e.b = append(wirejson.AppendStringMember(e.b, "result", p.Media.Data), '}')
	case llm.PartNative:
		return e.native(p.Native)
	}
	return nil
}

// reasoning writes reasoning that the provider can read, without the id of the item,
// which names nothing where nothing is stored.
func (e *requestEncoder) reasoning(p *llm.Part) *fault.Error {
	s := p.State
	reference := e.own && s != nil && s.Data == "" && p.Text == "" && s.ID != ""
	readable := s != nil && s.Kind == llm.OpenAIEncrypted && !s.Foreign && s.Data != ""
	if s != nil && !readable && !reference {
		if _, f := e.c.Lose(llm.FeatureReasoningState, ""); f != nil {
			return f
		}
	}
	if !readable && !reference && !(e.own && s == nil) {
		if p.Text == "" {
			return nil
		}
		_, f := e.c.Lose(llm.FeatureReasoningText, "")
		return f
	}
	e.open(itemReasoning)
	if reference {
		e.b = wirejson.AppendStringMember(e.b, "id", s.ID)
	}
	e.b = append(wirejson.AppendMember(e.b, "summary"), '[')
	if p.Text != "" {
		e.b = append(e.b, '{')
		e.writeText("summary_text", p.Text)
		e.b = append(e.b, '}')
	}
	e.b = append(e.b, ']')
	if readable {
		e.b = wirejson.AppendStringMember(e.b, "encrypted_content", s.Data)
	}
	e.b = append(e.b, '}')
	return nil
}

func (e *requestEncoder) call(p *llm.Part) *fault.Error {
	if p.State != nil {
		if _, f := e.c.Lose(llm.FeatureReasoningState, ""); f != nil {
			return f
		}
	}
	if p.Cache != llm.NoCache {
		if f := e.c.Dropped(llm.FeatureCacheMark, ""); f != nil {
			return f
		}
	}
	c, s := p.Call, e.calls[p.Call.ID]
	s.sent++
	kind, input, arguments := itemCall, "arguments", c.Arguments
	switch {
	case c.Custom:
		kind, input = itemCustom, "input"
	case arguments == "":
		arguments = "{}"
	}
	e.open(kind)
	e.b = wirejson.AppendStringMember(e.b, "call_id", callID(c.ID, s.sent))
	if c.Namespace != "" {
		e.b = wirejson.AppendStringMember(e.b, "namespace", c.Namespace)
	}
	e.b = wirejson.AppendStringMember(e.b, "name", e.c.ToolName("", c.Name))
	e.b = append(wirejson.AppendStringMember(e.b, input, arguments), '}')
	return nil
}

// maxCallID is the longest id of a call that the vendor's service takes, in bytes.
const maxCallID = 64

// callID is the id of the n-th call that has it: ids are taken once in a conversation,
// and have a longest length.
func callID(id string, n int) string {
	if n > 1 {
		id += "_" + strconv.Itoa(n)
	}
	if len(id) <= maxCallID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}
