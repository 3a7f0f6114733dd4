package gemini

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// opening stands in for the user's turn that has to come before the model's first one.
const opening = "(The conversation begins with the assistant.)"

// system writes the system messages before the first turn. A request that has nothing
// else has them as its turn.
func (e *requestEncoder) system() *fault.Error {
	if len(e.conv.System) == 0 || len(e.conv.Turns) == 0 {
		return nil
	}
	start := len(e.b)
	e.b = append(wirejson.AppendMember(e.b, "systemInstruction"), `{"parts":[`...)
	wrote, f := e.all(e.conv.System)
	if f != nil {
		return f
	}
	if !wrote {
		e.b = e.b[:start]
		return nil
	}
	e.b = append(e.b, `]}`...)
	return nil
}

// contents writes the turns.
func (e *requestEncoder) contents() *fault.Error {
	turns := e.conv.Turns
	if len(turns) == 0 && len(e.conv.System) > 0 {
		if _, f := e.c.Lose(llm.FeatureSystemPosition, "messages"); f != nil {
			return f
		}
		turns = []llm.Turn{{Parts: e.conv.System}}
	}
	e.b = append(wirejson.AppendMember(e.b, "contents"), '[')
	empty := len(e.b)
	current := currentTurn(turns)
	for i := range turns {
		t := &turns[i]
		start := len(e.b)
		if t.Assistant && start == empty {
			e.begin(false)
			e.b = append(wirejson.AppendStringMember(append(e.b, '{'), "text", opening), '}')
			e.b = append(e.b, `]}`...)
		}
		e.begin(t.Assistant)
		wrote, f := e.turn(turns, i, i >= current)
		if f != nil {
			return f
		}
		if !wrote {
			e.b = e.b[:start]
			continue
		}
		e.b = append(e.b, `]}`...)
	}
	if len(e.b) == empty {
		return fault.New(fault.InvalidRequest, "The conversation has no text, no media and no tool call. Send at least one message that says something.")
	}
	e.b = append(e.b, ']')
	return nil
}

func (e *requestEncoder) begin(assistant bool) {
	role := `{"role":"user","parts":[`
	if assistant {
		role = `{"role":"model","parts":[`
	}
	e.b = append(wirejson.AppendElement(e.b), role...)
}

// currentTurn is where the current turn of the user begins: with the last message that
// is more than results of tools. A turn with results and text counts as results, which
// asks for more signatures than the provider may want, and never for fewer.
func currentTurn(turns []llm.Turn) int {
	for i := len(turns) - 1; i >= 0; i-- {
		if !turns[i].Assistant && len(turns[i].Results) == 0 {
			return i
		}
	}
	return 0
}

// turn writes the parts of a turn and reports whether there were any.
func (e *requestEncoder) turn(turns []llm.Turn, i int, current bool) (wrote bool, f *fault.Error) {
	t := &turns[i]
	start := len(e.b)
	var media []*llm.Part // of results, for models that take none in a result
	if len(t.Results) > 0 {
		n := 0
		for _, p := range turns[i-1].Parts {
			if p.Kind != llm.PartCall {
				continue
			}
			if media, f = e.result(p.Call, t.Results[n], media); f != nil {
				return false, f
			}
			n++
		}
	}
	if _, f = e.all(media); f != nil {
		return false, f
	}
	// The first call of a step needs a signature. The provider checks the current turn
	// alone; the earlier ones keep what they had, so that its prompt cache knows them.
	signed := e.own && !current
	for _, p := range t.Parts {
		if p.Kind == llm.PartCall {
			f = e.call(p, !signed)
			signed = true
		} else {
			f = e.part(p)
		}
		if f != nil {
			return false, f
		}
	}
	return len(e.b) > start, nil
}

func (e *requestEncoder) all(parts []*llm.Part) (wrote bool, f *fault.Error) {
	start := len(e.b)
	for _, p := range parts {
		if f := e.part(p); f != nil {
			return false, f
		}
	}
	return len(e.b) > start, nil
}

// part writes any part but a call.
func (e *requestEncoder) part(p *llm.Part) *fault.Error {
	if f := e.beside(p); f != nil {
		return f
	}
	signature, f := e.signature(p)
	if f != nil {
		return f
	}
	switch p.Kind {
	case llm.PartText:
		e.text(p, p.Text, false, signature)
	case llm.PartRefusal:
		if _, f := e.c.Lose(llm.FeatureRefusalHistory, "messages[].refusal"); f != nil {
			return f
		}
		e.text(p, p.Text, false, "")
	case llm.PartReasoning:
		if signature == "" && !e.own {
			if p.Text == "" {
				return nil
			}
			return e.c.Dropped(llm.FeatureReasoningText, "messages")
		}
		e.text(p, p.Text, true, signature)
	case llm.PartMedia:
		return e.media(p, signature)
	case llm.PartNative:
		return e.native(p, signature)
	}
	return nil
}

// beside loses what stands beside the data of a part: a mark for the cache, and sources.
func (e *requestEncoder) beside(p *llm.Part) *fault.Error {
	if p.Cache != llm.NoCache {
		if f := e.c.Dropped(llm.FeatureCacheMark, "messages[].content[].cache_control"); f != nil {
			return f
		}
	}
	if len(p.Citations) > 0 {
		return e.c.Dropped(llm.FeatureCitationHistory, "messages[].content[].citations")
	}
	return nil
}

// signature is the state of a part if this provider made it.
func (e *requestEncoder) signature(p *llm.Part) (string, *fault.Error) {
	switch s := p.State; {
	case s == nil:
		return "", nil
	case s.Kind == llm.GeminiSignature && !s.Foreign && s.Data != "":
		return s.Data, nil
	}
	_, f := e.c.Lose(llm.FeatureReasoningState, "messages")
	return "", f
}

func (e *requestEncoder) text(p *llm.Part, text string, thought bool, signature string) {
	if text == "" && signature == "" {
		return
	}
	e.b = append(wirejson.AppendElement(e.b), '{')
	e.b = wirejson.AppendStringMember(e.b, "text", text)
	if thought {
		e.b = wirejson.AppendBoolMember(e.b, "thought", true)
	}
	e.close(p, signature)
}

// close ends a part with what stands beside its data.
func (e *requestEncoder) close(p *llm.Part, signature string) {
	if signature != "" {
		e.b = wirejson.AppendStringMember(e.b, "thoughtSignature", signature)
	}
	if e.own && p.Kind != llm.PartNative && p.Native != nil && p.Native.Type == besides {
		e.b = append(append(e.b, ','), p.Native.Raw[1:len(p.Native.Raw)-1]...)
	}
	e.b = append(e.b, '}')
}

// native writes what only this protocol has. A piece of another one is lost, and its
// type tells as what.
func (e *requestEncoder) native(p *llm.Part, signature string) *fault.Error {
	if e.own {
		e.b = append(wirejson.AppendElement(e.b), '{')
		e.b = wirejson.AppendRawMember(e.b, p.Native.Type, p.Native.Raw)
		e.close(p, signature)
		return nil
	}
	feature := llm.FeatureServerTool
	switch kind := p.Native.Type; {
	case strings.Contains(kind, "search_result"):
		feature = llm.FeatureSearchResult
	case strings.HasPrefix(kind, "mcp"):
		feature = llm.FeatureMCP
	case kind == "item_reference":
		feature = llm.FeatureStoredState
	case strings.HasPrefix(kind, "compaction"):
		feature = llm.FeatureCompaction
	case strings.HasPrefix(kind, "container"):
		feature = llm.FeatureContainer
	case strings.HasPrefix(kind, "image_generation"):
		feature = llm.FeatureOutputModality
	}
	return e.c.Dropped(feature, "messages")
}

// call writes a functionCall. The first one of each step of the current turn needs a
// signature, or the value that the vendor documents for calls that have none. Models
// without thinking levels do not check it.
func (e *requestEncoder) call(p *llm.Part, first bool) *fault.Error {
	signature, f := e.signature(p)
	if f != nil {
		return f
	}
	if first && signature == "" && !e.c.Compat.GetNoThinkingLevel() {
		if _, f := e.c.Lose(llm.FeatureReasoningState, "messages"); f != nil {
			return f
		}
		signature = bypass
	}
	if p.Cache != llm.NoCache {
		if f := e.c.Dropped(llm.FeatureCacheMark, "messages[].content[].cache_control"); f != nil {
			return f
		}
	}
	if p.Call.Custom {
		if _, f := e.c.Lose(llm.FeatureCustomTool, "messages"); f != nil {
			return f
		}
	}
	if p.Call.Namespace != "" {
		if _, f := e.c.Lose(llm.FeatureToolNamespace, "messages"); f != nil {
			return f
		}
	}
	e.b = append(wirejson.AppendElement(e.b), `{"functionCall":{`...)
	e.id(p.Call.ID)
	e.b = wirejson.AppendStringMember(e.b, "name", functionName(e.c, p.Call.Namespace, p.Call.Name))
	e.b = appendArguments(wirejson.AppendMember(e.b, "args"), p.Call)
	e.b = append(e.b, '}')
	e.close(p, signature)
	return nil
}

func (e *requestEncoder) id(id string) {
	if !strings.HasPrefix(id, made) && id != "" {
		e.b = wirejson.AppendStringMember(e.b, "id", id)
	}
}

// result writes a functionResponse and adds what it cannot hold to media.
func (e *requestEncoder) result(call *llm.Call, res *llm.Result, media []*llm.Part) ([]*llm.Part, *fault.Error) {
	e.b = append(wirejson.AppendElement(e.b), `{"functionResponse":{`...)
	e.id(call.ID)
	e.b = wirejson.AppendStringMember(e.b, "name", functionName(e.c, call.Namespace, call.Name))
	e.b = wirejson.AppendMember(e.b, "response")
	switch {
	case res.Raw != "" && isObject(res.Raw) && !res.Error:
		e.b = append(e.b, res.Raw...)
	default:
		name := "output"
		if res.Error {
			name = "error"
		}
		e.b = append(wirejson.AppendStringMember(append(e.b, '{'), name, resultText(res)), '}')
	}
	held := false
	for i := range res.Parts {
		p := &res.Parts[i]
		if p.Kind == llm.PartText || p.Kind == llm.PartRefusal {
			if f := e.beside(p); f != nil {
				return nil, f
			}
			continue
		}
		if p.Kind == llm.PartMedia && !e.c.Compat.GetNoThinkingLevel() {
			if !held {
				e.b, held = append(wirejson.AppendMember(e.b, "parts"), '['), true
			}
			if f := e.media(p, ""); f != nil {
				return nil, f
			}
			continue
		}
		if p.Kind == llm.PartMedia {
			if _, f := e.c.Lose(llm.FeatureResultMedia, "messages"); f != nil {
				return nil, f
			}
		}
		media = append(media, p)
	}
	if held {
		e.b = append(e.b, ']')
	}
	e.b = append(e.b, `}}`...)
	return media, nil
}

// resultText is the text of a result.
func resultText(res *llm.Result) string {
	if res.Raw != "" {
		return res.Raw
	}
	text, texts := "", 0
	for i := range res.Parts {
		if k := res.Parts[i].Kind; k == llm.PartText || k == llm.PartRefusal {
			if texts++; texts == 1 {
				text = res.Parts[i].Text
				continue
			}
			text += "\n" + res.Parts[i].Text
		}
	}
	return text
}
