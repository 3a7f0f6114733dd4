package anthropic

import (
	"slices"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// searchTool is the vendor's own search, in the version that most hosts have.
const searchTool = `{"type":"web_search_20250305","name":"web_search"}`

// offer writes the tools and which of them may be called.
func (w *requestWriter) offer() *fault.Error {
	only, f := w.allowed()
	if f != nil {
		return f
	}
	before := len(w.b)
	w.b = append(wirejson.AppendMember(w.b, "tools"), '[')
	empty := len(w.b)
	for i := range w.r.Tools {
		t := &w.r.Tools[i]
		if only != nil && !slices.Contains(only, t.Name) {
			continue
		}
		if f := w.tool(t); f != nil {
			return f
		}
	}
	if len(w.b) == empty {
		w.b = w.b[:before]
		if !w.own {
			return nil // and without tools there is no choice
		}
	} else {
		w.b = append(w.b, ']')
	}
	return w.choice()
}

// allowed are the tools that may be called where the caller names some; nil for all.
func (w *requestWriter) allowed() ([]string, *fault.Error) {
	choice := w.r.ToolChoice
	if choice.Mode == llm.ChoiceTool || len(choice.Names) == 0 {
		return nil, nil
	}
	action, f := w.c.Lose(llm.FeatureAllowedTools, w.at(llm.FeatureAllowedTools))
	if f != nil || action == protocol.Drop {
		return nil, f
	}
	return choice.Names, nil
}

func (w *requestWriter) tool(t *llm.Tool) *fault.Error {
	switch {
	case t.Server != "":
		return w.serverTool(t)
	case t.Custom:
		return w.c.Dropped(llm.FeatureCustomTool, "tools")
	}
	name := t.Name
	if !w.own {
		name = w.c.ToolName(t.Namespace, t.Name)
	}
	w.b = wirejson.AppendStringMember(append(wirejson.AppendElement(w.b), '{'), "name", name)
	if t.Description != "" {
		w.b = wirejson.AppendStringMember(w.b, "description", t.Description)
	}
	w.b = wirejson.AppendMember(w.b, "input_schema")
	if f := w.schema(t.Schema); f != nil {
		return f
	}
	if t.Strict != nil && (*t.Strict || w.own) {
		if w.c.Compat.GetNoStrict() {
			if f := w.c.Dropped(llm.FeatureToolStrict, w.at(llm.FeatureToolStrict)); f != nil {
				return f
			}
		} else {
			w.b = wirejson.AppendBoolMember(w.b, "strict", *t.Strict)
		}
	}
	for _, e := range t.Extras {
		if w.own {
			w.b = wirejson.AppendRawMember(w.b, strings.TrimPrefix(e.Field, "tools[]."), e.Raw)
		} else if f := w.c.Dropped(e.Feature, e.Field); f != nil {
			return f
		}
	}
	return w.end(t.Cache)
}

func (w *requestWriter) serverTool(t *llm.Tool) *fault.Error {
	if w.own {
		if t.Cache != llm.NoCache {
			w.marked++
		}
		w.b = append(wirejson.AppendElement(w.b), t.Native...)
		return nil
	}
	switch {
	case strings.HasPrefix(t.Server, "web_search"), strings.HasPrefix(t.Server, "googleSearch"), strings.HasPrefix(t.Server, "google_search"):
		action, f := w.c.Lose(llm.FeatureWebSearch, "tools")
		if f == nil && action == protocol.Substitute {
			w.b = append(wirejson.AppendElement(w.b), searchTool...)
		}
		return f
	case strings.HasPrefix(t.Server, "mcp"):
		return w.c.Dropped(llm.FeatureMCP, "tools")
	}
	return w.c.Dropped(llm.FeatureServerTool, "tools")
}

// schema writes the schema of a tool's input: of the type object, and without the
// words that the vendor does not take at its top.
func (w *requestWriter) schema(raw []byte) *fault.Error {
	if len(raw) == 0 || raw[0] != '{' {
		w.b = append(w.b, `{"type":"object","properties":{}}`...)
		return nil
	}
	if w.own {
		w.b = append(w.b, raw...)
		return nil
	}
	r := &w.check
	r.ResetLenient(raw)
	kind, lost, properties := "", false, false
	r.Enter('{')
	for r.Next() {
		switch string(r.Name()) {
		case "type":
			if r.Kind() == '"' {
				kind, _ = r.String(maxWord)
			} else {
				kind, lost = "?", r.Kind() != 'n'
			}
		case "properties":
			properties = true
		case "oneOf", "anyOf", "allOf":
			kind, lost = "?", true
		}
	}
	lost = lost || kind != "" && kind != "?" && kind != "object"
	if kind == "object" && !lost {
		w.b = append(w.b, raw...)
		return nil
	}
	if lost {
		if f := w.c.Dropped(llm.FeatureToolSchema, w.at(llm.FeatureToolSchema)); f != nil {
			return f
		}
	}
	w.b = append(w.b, `{"type":"object"`...)
	r.ResetLenient(raw)
	r.Enter('{')
	for r.Next() {
		switch name := string(r.Name()); name {
		case "type", "oneOf", "anyOf", "allOf":
		default:
			w.b = wirejson.AppendRawMember(w.b, name, r.Value())
		}
	}
	if !properties {
		w.b = append(w.b, `,"properties":{}`...)
	}
	w.b = append(w.b, '}')
	return nil
}

// choice writes tool_choice. That only one call at a time is wanted stands in it, so
// that "auto" has to be written out for it.
func (w *requestWriter) choice() *fault.Error {
	choice, one := w.r.ToolChoice, w.r.OneCall
	if one && w.c.Compat.GetNoParallelToolCalls() {
		if f := w.c.Dropped(llm.FeatureParallelTools, w.at(llm.FeatureParallelTools)); f != nil {
			return f
		}
		one = false
	}
	kind, name := "", ""
	switch choice.Mode {
	case llm.ChoiceUnset:
		if !one {
			return nil
		}
		kind = "auto"
	case llm.ChoiceAuto:
		kind = "auto"
	case llm.ChoiceAny:
		kind = "any"
	case llm.ChoiceNone:
		kind, one = "none", false
	case llm.ChoiceTool:
		kind, name = "tool", w.chosen(choice.Names)
	}
	w.b = wirejson.AppendStringMember(append(wirejson.AppendMember(w.b, "tool_choice"), '{'), "type", kind)
	if name != "" {
		w.b = wirejson.AppendStringMember(w.b, "name", name)
	}
	if one {
		w.b = append(w.b, `,"disable_parallel_tool_use":true`...)
	}
	w.b = append(w.b, '}')
	return nil
}

// chosen is the name by which the upstream knows the tool that must be called.
func (w *requestWriter) chosen(names []string) string {
	if len(names) == 0 {
		return ""
	}
	if w.own {
		return names[0]
	}
	for i := range w.r.Tools {
		if w.r.Tools[i].Name == names[0] {
			return w.c.ToolName(w.r.Tools[i].Namespace, names[0])
		}
	}
	return w.c.ToolName("", names[0])
}
