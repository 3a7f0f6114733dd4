package anthropic

import (
	"strconv"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// callIDs are the ids of calls as they are sent: each once in a conversation, as the
// vendor demands and small models do not care for.
type callIDs struct {
	used map[string]bool
	turn []string // of the last assistant's turn, in its order
}

func (c *callIDs) next(id string) string {
	safe := SafeID(id)
	sent := safe
	for n := 2; c.used[sent]; n++ {
		sent = safe + "_" + strconv.Itoa(n)
	}
	if c.used == nil {
		c.used = make(map[string]bool)
	}
	c.used[sent] = true
	c.turn = append(c.turn, sent)
	return sent
}

// instructions writes the system prompt.
func (w *requestWriter) instructions() *fault.Error {
	before := len(w.b)
	w.b = append(wirejson.AppendMember(w.b, "system"), '[')
	empty := len(w.b)
	for _, p := range w.system {
		if f := w.part(p, roleSystem); f != nil {
			return f
		}
	}
	if w.format != "" {
		if f := w.text(&llm.Part{Text: w.format}); f != nil {
			return f
		}
	}
	if len(w.b) == empty {
		w.b = w.b[:before]
		return nil
	}
	w.b = append(w.b, ']')
	return nil
}

// conversation writes the messages. Turns of which nothing can be written are left out,
// and neighbours of one side are one message then too.
func (w *requestWriter) conversation() *fault.Error {
	w.b = append(wirejson.AppendMember(w.b, "messages"), '[')
	empty, spoke := len(w.b), ""
	for i := range w.turns {
		t := &w.turns[i]
		before := len(w.b)
		if t.role == spoke {
			w.b = w.b[:before-len("]}")]
		} else {
			w.b = append(wirejson.AppendStringMember(append(wirejson.AppendElement(w.b), '{'), "role", t.role), `,"content":[`...)
		}
		nothing := len(w.b)
		if f := w.turn(t, i == w.last); f != nil {
			return f
		}
		switch {
		case len(w.b) > nothing:
			spoke = t.role
			w.b = append(w.b, "]}"...)
		case t.role == spoke:
			w.b = append(w.b, "]}"...)
		default:
			w.b = w.b[:before]
		}
	}
	if len(w.b) == empty && !w.own {
		return &fault.Error{
			Class: fault.InvalidRequest, Param: w.at(llm.Core), Err: errNoMessages,
			Public: "Nothing of the request's messages can be sent to this model; send at least one message of the user with text.",
		}
	}
	w.b = append(w.b, ']')
	return nil
}

func (w *requestWriter) turn(t *turn, last bool) *fault.Error {
	for i, res := range t.results {
		if f := w.result(res, i); f != nil {
			return f
		}
	}
	if t.role == roleAssistant {
		w.ids.turn = w.ids.turn[:0]
	}
	begun := -1
	if last && t.role == roleAssistant {
		begun = lastText(t)
	}
	for i, p := range t.parts {
		if i == begun {
			// The vendor refuses an answer begun with space at its end.
			p = &llm.Part{Text: strings.TrimRight(p.Text, " \t\r\n"), Cache: p.Cache, Citations: p.Citations}
		}
		if f := w.part(p, t.role); f != nil {
			return f
		}
	}
	return nil
}

// lastText is the position of the text with which a turn ends; -1 if it ends otherwise.
func lastText(t *turn) int {
	for i := len(t.parts) - 1; i >= 0; i-- {
		switch p := t.parts[i]; {
		case p.Kind != llm.PartText:
			return -1
		case !blank(p.Text):
			return i
		}
	}
	return -1
}

// part writes a part as a block, or nothing.
func (w *requestWriter) part(p *llm.Part, role string) *fault.Error {
	if p.State != nil && p.Kind != llm.PartReasoning && p.Kind != llm.PartRedacted {
		if f := w.c.Dropped(llm.FeatureReasoningState, w.at(llm.FeatureReasoningState)); f != nil {
			return f
		}
	}
	switch p.Kind {
	case llm.PartText, llm.PartRefusal:
		return w.text(p)
	case llm.PartMedia:
		if role != roleUser && !w.own {
			return w.c.Dropped(llm.FeatureOutputModality, w.at(llm.FeatureOutputModality))
		}
		return w.media(p)
	case llm.PartCall:
		return w.call(p)
	case llm.PartReasoning, llm.PartRedacted:
		return w.reasoning(p)
	case llm.PartNative:
		if w.own {
			w.b = append(wirejson.AppendElement(w.b), p.Native.Raw...)
			return nil
		}
		return w.c.Dropped(nativeFeature(p.Native.Type), w.at(llm.FeatureServerTool))
	}
	return nil
}

// nativeFeature is what a block that only one protocol has is about.
func nativeFeature(kind string) llm.Feature {
	switch {
	case kind == "search_result":
		return llm.FeatureSearchResult
	case kind == "container_upload":
		return llm.FeatureContainer
	case strings.Contains(kind, "compaction"):
		return llm.FeatureCompaction
	case strings.Contains(kind, "mcp"):
		return llm.FeatureMCP
	case kind == "item_reference":
		return llm.FeatureStoredState
	}
	return llm.FeatureServerTool
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// text writes a text. The vendor refuses one that says nothing.
func (w *requestWriter) text(p *llm.Part) *fault.Error {
	if p.Text == "" || !w.own && blank(p.Text) {
		return nil
	}
	w.b = wirejson.AppendStringMember(append(wirejson.AppendElement(w.b), `{"type":"text"`...), "text", p.Text)
	if len(p.Citations) > 0 {
		if !w.own {
			if f := w.c.Dropped(llm.FeatureCitationHistory, w.at(llm.FeatureCitationHistory)); f != nil {
				return f
			}
		} else {
			w.b = appendCitations(w.b, p.Citations)
		}
	}
	return w.end(p.Cache)
}

// appendCitations appends a member with citations of this protocol's own.
func appendCitations(b []byte, list []llm.Citation) []byte {
	b = append(wirejson.AppendMember(b, "citations"), '[')
	for i := range list {
		if len(list[i].Raw) > 0 {
			b = append(wirejson.AppendElement(b), list[i].Raw...)
		}
	}
	return append(b, ']')
}

// end closes a block, with its mark of the prompt cache before. Of too many marks the
// last ones stay: they are the longest prefixes.
func (w *requestWriter) end(mark llm.Cache) *fault.Error {
	if mark != llm.NoCache {
		w.marked++
		if w.marks-w.marked >= maxMarks {
			w.b = append(w.b, '}')
			return w.c.Dropped(llm.FeatureCacheMark, w.at(llm.FeatureCacheMark))
		}
		w.b = append(w.b, `,"cache_control":{"type":"ephemeral"`...)
		switch mark {
		case llm.Cache5m:
			w.b = append(w.b, `,"ttl":"5m"`...)
		case llm.Cache1h:
			w.b = append(w.b, `,"ttl":"1h"`...)
		}
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, '}')
	return nil
}

// reasoning writes thinking that the vendor made and can read. What others made never
// gets there.
func (w *requestWriter) reasoning(p *llm.Part) *fault.Error {
	if !ownState(p) {
		lost := llm.FeatureReasoningState
		if p.State == nil || p.State.Data == "" && p.State.Kind == llm.NoState {
			if lost = llm.FeatureReasoningText; p.Text == "" {
				return nil
			}
		}
		return w.c.Dropped(lost, w.at(lost))
	}
	w.b = append(wirejson.AppendElement(w.b), '{')
	if p.Kind == llm.PartRedacted {
		w.b = wirejson.AppendStringMember(wirejson.AppendStringMember(w.b, "type", "redacted_thinking"), "data", p.State.Data)
	} else {
		w.b = wirejson.AppendStringMember(wirejson.AppendStringMember(w.b, "type", "thinking"), "thinking", p.Text)
		w.b = wirejson.AppendStringMember(w.b, "signature", p.State.Data)
	}
	w.b = append(w.b, '}')
	return nil
}

// call writes a call, whose input must be an object.
func (w *requestWriter) call(p *llm.Part) *fault.Error {
	c := p.Call
	var id string
	name := c.Name
	if w.own {
		id = SafeID(c.ID)
	} else {
		id, name = w.ids.next(c.ID), w.c.ToolName(c.Namespace, c.Name)
	}
	w.b = wirejson.AppendStringMember(append(wirejson.AppendElement(w.b), `{"type":"tool_use"`...), "id", id)
	w.b = wirejson.AppendMember(wirejson.AppendStringMember(w.b, "name", name), "input")
	if c.Custom {
		if f := w.c.Dropped(llm.FeatureCustomTool, w.at(llm.FeatureCustomTool)); f != nil {
			return f
		}
		w.b = append(wirejson.AppendStringMember(append(w.b, '{'), "input", c.Arguments), '}')
		return w.end(p.Cache)
	}
	args := strings.TrimSpace(c.Arguments)
	if args == "" || args == "null" {
		w.b = append(w.b, "{}"...)
		return w.end(p.Cache)
	}
	from := len(w.b)
	w.b = append(w.b, args...)
	if !isObject(&w.check, w.b[from:]) {
		at := w.at(llm.Core)
		return &fault.Error{
			Class: fault.InvalidRequest,
			Param: at,
			Public: "The arguments of the tool call " + strconv.Quote(c.ID) + " of the tool " + strconv.Quote(c.Name) +
				" are not a JSON object, which the protocol of this model demands. Correct them, or take the call and its result out of the conversation.",
		}
	}
	return w.end(p.Cache)
}

// isObject reports whether b is a JSON object, whole and alone.
func isObject(r *wirejson.Reader, b []byte) bool {
	r.ResetLenient(b)
	if r.Kind() != '{' {
		return false
	}
	r.Skip()
	return r.Done() == nil
}

// result writes the i-th result of a turn.
func (w *requestWriter) result(res *llm.Result, i int) *fault.Error {
	id := SafeID(res.CallID)
	if !w.own && i < len(w.ids.turn) {
		id = w.ids.turn[i]
	}
	w.b = wirejson.AppendStringMember(append(wirejson.AppendElement(w.b), `{"type":"tool_result"`...), "tool_use_id", id)
	if res.Error {
		w.b = append(w.b, `,"is_error":true`...)
	}
	before := len(w.b)
	w.b = append(w.b, `,"content":[`...)
	empty := len(w.b)
	if res.Raw != "" {
		w.b = append(wirejson.AppendString(append(w.b, `{"type":"text","text":`...), res.Raw), '}')
	}
	for j := range res.Parts {
		p := &res.Parts[j]
		var f *fault.Error
		switch p.Kind {
		case llm.PartText:
			if p.Text != "" {
				f = w.text(p)
			}
		default:
			f = w.part(p, roleUser)
		}
		if f != nil {
			return f
		}
	}
	if len(w.b) == empty {
		w.b = w.b[:before]
	} else {
		w.b = append(w.b, ']')
	}
	return w.end(w.results[res])
}
