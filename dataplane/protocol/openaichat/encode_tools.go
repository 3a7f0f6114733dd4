package openaichat

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// vendors reports whether the caller's protocol is one of OpenAI's, whose strict
// schemas are those of Chat.
func (e *requestEncoder) vendors() bool { return e.own || e.c.From == protocol.OpenAIResponses }

// tools writes the tools and what bounds the calls of them. Without tools there is
// nothing to bound: the vendor refuses a choice then.
func (e *requestEncoder) tools() *fault.Error {
	before := len(e.b)
	e.b = append(wirejson.AppendMember(e.b, "tools"), '[')
	for i := range e.r.Tools {
		if f := e.tool(&e.r.Tools[i]); f != nil {
			return f
		}
	}
	if e.b[len(e.b)-1] == '[' {
		e.b = e.b[:before]
		return nil
	}
	e.b = append(e.b, ']')
	e.choice()
	if !e.r.OneCall {
		return nil
	}
	if e.compat().GetNoParallelToolCalls() {
		_, f := e.lose(llm.FeatureParallelTools)
		return f
	}
	e.b = wirejson.AppendBoolMember(e.b, "parallel_tool_calls", false)
	return nil
}

func (e *requestEncoder) tool(t *llm.Tool) *fault.Error {
	if t.Server != "" {
		return e.serverTool(t)
	}
	for _, x := range t.Extras {
		if f := e.c.Dropped(x.Feature, x.Field); f != nil {
			return f
		}
	}
	if t.Cache != llm.NoCache {
		if f := e.c.Dropped(llm.FeatureCacheMark, "tools"); f != nil {
			return f
		}
	}
	if t.Namespace != "" {
		if f := e.c.Dropped(llm.FeatureToolNamespace, "tools"); f != nil {
			return f
		}
	}
	kind := "function"
	if t.Custom {
		kind = "custom"
	}
	e.b = wirejson.AppendStringMember(append(wirejson.AppendElement(e.b), '{'), "type", kind)
	e.b = append(wirejson.AppendMember(e.b, kind), '{')
	e.b = wirejson.AppendStringMember(e.b, "name", e.c.ToolName(t.Namespace, t.Name))
	if t.Description != "" {
		e.b = wirejson.AppendStringMember(e.b, "description", t.Description)
	}
	var f *fault.Error
	if t.Custom {
		e.grammar(t.Grammar)
	} else {
		f = e.function(t)
	}
	e.b = append(e.b, "}}"...)
	return f
}

func (e *requestEncoder) grammar(raw []byte) {
	if raw == nil {
		return
	}
	g := readGrammar(raw)
	e.b = append(wirejson.AppendMember(e.b, "format"), `{"type":"grammar","grammar":{`...)
	e.b = wirejson.AppendStringMember(e.b, "syntax", g.syntax)
	e.b = append(wirejson.AppendStringMember(e.b, "definition", g.definition), "}}"...)
}

func (e *requestEncoder) function(t *llm.Tool) *fault.Error {
	if t.Schema != nil {
		e.b = wirejson.AppendRawMember(e.b, "parameters", t.Schema)
	}
	if t.Strict == nil {
		return nil
	}
	switch {
	case !*t.Strict && e.compat().GetNoStrict(): // nothing is strict there
	case *t.Strict && (e.compat().GetNoStrict() || !e.vendors() && !strictSchema(t.Schema)):
		return e.c.Dropped(llm.FeatureToolStrict, "tools")
	default:
		e.b = wirejson.AppendBoolMember(e.b, "strict", *t.Strict)
	}
	return nil
}

// serverTool takes a tool that the provider runs: one of a compatible server's own if
// the caller speaks Chat, and none otherwise.
func (e *requestEncoder) serverTool(t *llm.Tool) *fault.Error {
	if e.own {
		e.b = append(wirejson.AppendElement(e.b), t.Native...)
		return nil
	}
	name := strings.ToLower(strings.ReplaceAll(t.Server, "_", ""))
	feature := llm.FeatureServerTool
	switch {
	case strings.HasPrefix(name, "websearch"), strings.HasPrefix(name, "googlesearch"):
		feature = llm.FeatureWebSearch
	case strings.HasPrefix(name, "mcp"):
		feature = llm.FeatureMCP
	}
	return e.c.Dropped(feature, "tools")
}

func (e *requestEncoder) choice() {
	c := e.r.ToolChoice
	mode := ""
	switch c.Mode {
	case llm.ChoiceNone:
		mode = "none"
	case llm.ChoiceAuto:
		mode = "auto"
	case llm.ChoiceAny:
		mode = "required"
	case llm.ChoiceTool:
	default:
		return
	}
	e.b = wirejson.AppendMember(e.b, "tool_choice")
	switch {
	case c.Mode == llm.ChoiceNone, len(c.Names) == 0:
		e.b = wirejson.AppendString(e.b, mode)
	case c.Mode == llm.ChoiceTool:
		e.chosen(c.Names[0])
	default:
		e.b = append(e.b, `{"type":"allowed_tools","allowed_tools":{`...)
		e.b = wirejson.AppendStringMember(e.b, "mode", mode)
		e.b = append(wirejson.AppendMember(e.b, "tools"), '[')
		for _, name := range c.Names {
			e.b = wirejson.AppendElement(e.b)
			e.chosen(name)
		}
		e.b = append(e.b, "]}}"...)
	}
}

// chosen writes the object that names a tool.
func (e *requestEncoder) chosen(name string) {
	kind, namespace := "function", ""
	for i := range e.r.Tools {
		if t := &e.r.Tools[i]; t.Name == name && t.Server == "" {
			if namespace = t.Namespace; t.Custom {
				kind = "custom"
			}
			break
		}
	}
	e.b = wirejson.AppendStringMember(append(e.b, '{'), "type", kind)
	e.b = wirejson.AppendStringMember(append(wirejson.AppendMember(e.b, kind), '{'), "name", e.c.ToolName(namespace, name))
	e.b = append(e.b, "}}"...)
}
