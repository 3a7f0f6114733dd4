package openaichat

import (
	"strconv"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// pending is a call that waits for its result.
type pending struct{ id, name string }

// heard is what one message holds, whose members come in any order.
type heard struct {
	role, name, callID string
	content            []llm.Part
	reasoning, refusal string
	citations          []llm.Citation
	audio              []byte
	calls              []llm.Call
	legacy             *llm.Call
}

// message reads one message.
func (d *requestDecoder) message() {
	if d.r.Kind() != '{' {
		d.wrong("messages[]", "an object")
		return
	}
	d.r.Enter('{')
	var m heard
	for d.r.Next() {
		if d.fault == nil {
			d.messageMember(&m)
		}
	}
	if d.fault == nil {
		d.addMessage(&m)
	}
}

func (d *requestDecoder) messageMember(m *heard) {
	switch string(d.r.Name()) {
	case "role":
		m.role = d.word("messages[].role", "system", "developer", "user", "assistant", "tool", "function")
	case "content":
		m.content = d.content()
	case "name":
		m.name = d.name("messages[].name")
	case "tool_call_id":
		m.callID = d.text("messages[].tool_call_id")
	case "tool_calls":
		d.each("messages[].tool_calls", maxCalls, func() { d.call(m) })
	case "function_call":
		d.legacyCall(m)
	case "refusal":
		m.refusal = d.text("messages[].refusal")
	case "reasoning_content", "reasoning": // in no specification, but what compatible servers answer and want back
		if text := d.looseText(); text != "" {
			m.reasoning = text
		}
	case "annotations":
		m.citations = readAnnotations(&d.r, nil)
	case "audio":
		m.audio = d.schema("messages[].audio")
	default:
		d.unknown("messages[]")
	}
}

// looseText reads a string and passes over anything else.
func (d *requestDecoder) looseText() string {
	s, _ := d.r.Text()
	return s
}

// addMessage puts a message into the request, its parts in the order in which the
// model made them.
func (d *requestDecoder) addMessage(m *heard) {
	out := llm.Message{Name: m.name, Parts: m.content}
	switch m.role {
	case "":
		d.refuse("messages[].role", "is missing; expected one of system, developer, user, assistant, tool")
		return
	case "system", "developer":
		out.Role, out.Developer = llm.RoleSystem, m.role == "developer"
	case "user":
		out.Role = llm.RoleUser
	case "assistant":
		out.Role = llm.RoleAssistant
		out.Parts = d.assistantParts(m)
	case "tool", "function":
		out.Role, out.Name = llm.RoleTool, ""
		r := &llm.Result{CallID: m.callID, Name: m.name, Parts: m.content}
		d.answerCall(r, m.role == "function")
		out.Parts = []llm.Part{{Kind: llm.PartResult, Result: r}}
	}
	d.req.Messages = append(d.req.Messages, out)
}

func (d *requestDecoder) assistantParts(m *heard) []llm.Part {
	parts := m.content
	if m.reasoning != "" {
		parts = append([]llm.Part{{Kind: llm.PartReasoning, Text: m.reasoning}}, parts...)
	}
	if len(m.citations) > 0 {
		for i := len(parts) - 1; i >= 0; i-- {
			if parts[i].Kind == llm.PartText {
				parts[i].Citations = m.citations
				break
			}
		}
	}
	if m.refusal != "" {
		parts = append(parts, llm.Part{Kind: llm.PartRefusal, Text: m.refusal})
	}
	if m.audio != nil {
		parts = append(parts, llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: nativeAudio, Raw: m.audio}})
	}
	if m.legacy != nil {
		m.calls = append(m.calls, *m.legacy)
	}
	if len(m.calls) > 0 {
		d.open = d.open[:0]
	}
	for i := range m.calls {
		c := &m.calls[i]
		if c.ID == "" {
			c.ID = "call_" + strconv.Itoa(len(d.req.Messages)) + "_" + strconv.Itoa(i)
		}
		d.open = append(d.open, pending{id: c.ID, name: c.Name})
		parts = append(parts, llm.Part{Kind: llm.PartCall, Call: c})
	}
	return parts
}

// nativeAudio is an answer's audio that the provider keeps, named by its id.
const nativeAudio = "audio"

// answerCall finds the call that a result is of, where the message does not say: by
// name, or by order.
func (d *requestDecoder) answerCall(r *llm.Result, legacy bool) {
	for i, p := range d.open {
		if r.CallID == p.id || r.CallID == "" && (r.Name == "" || r.Name == p.name) {
			r.CallID = p.id
			d.open = append(d.open[:i], d.open[i+1:]...)
			return
		}
	}
	switch {
	case r.CallID != "":
	case legacy:
		d.refuse("messages[].name", "names no function that the assistant message before it calls")
	default:
		d.refuse("messages[].tool_call_id", "is missing; it must be the id of the tool call that the message answers")
	}
}

// call reads one element of tool_calls.
func (d *requestDecoder) call(m *heard) {
	if !d.object("messages[].tool_calls[]") {
		return
	}
	var c llm.Call
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "id":
			c.ID = d.text("messages[].tool_calls[].id")
		case "type":
			d.word("messages[].tool_calls[].type", "function", "custom")
		case "function":
			d.called("messages[].tool_calls[].function", "arguments", &c)
		case "custom":
			if d.r.Kind() == '{' {
				c.Custom = true
			}
			d.called("messages[].tool_calls[].custom", "input", &c)
		case "index": // of the stream that the call came in
		default:
			d.unknown("messages[].tool_calls[]")
		}
	}
	if c.Name == "" {
		d.refuse("messages[].tool_calls[]", "names no function")
	}
	m.calls = append(m.calls, c)
}

// called reads which function is called, and with what.
func (d *requestDecoder) called(path, input string, c *llm.Call) {
	if !d.object(path) {
		return
	}
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "name":
			c.Name = d.name(path + ".name")
		case input:
			if d.r.Kind() == '{' { // which some servers answer, so that it comes back
				c.Arguments = string(d.r.Value())
			} else {
				c.Arguments = d.text(path + "." + input)
			}
		default:
			d.unknown(path)
		}
	}
}

func (d *requestDecoder) legacyCall(m *heard) {
	const path = "messages[].function_call"
	if d.r.Kind() == 'n' {
		return
	}
	var c llm.Call
	if d.called(path, "arguments", &c); c.Name == "" {
		d.refuse(path, "names no function")
	}
	m.legacy = &c
}
