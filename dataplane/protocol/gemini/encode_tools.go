package gemini

import (
	"slices"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// tools writes all functions as one tool, and each tool that the provider runs as one
// of its own.
func (e *requestEncoder) tools() *fault.Error {
	start := len(e.b)
	e.b = append(wirejson.AppendMember(e.b, "tools"), '[')
	empty := len(e.b)
	open := false
	for i := range e.r.Tools {
		t := &e.r.Tools[i]
		if t.Server != "" {
			continue
		}
		if t.Custom {
			if f := e.c.Dropped(llm.FeatureCustomTool, "tools"); f != nil {
				return f
			}
			continue
		}
		if !open {
			e.b, open = append(e.b, `{"functionDeclarations":[`...), true
		}
		if f := e.function(t); f != nil {
			return f
		}
	}
	if open {
		e.b = append(e.b, `]}`...)
	}
	for i := range e.r.Tools {
		if t := &e.r.Tools[i]; t.Server != "" {
			if f := e.serverTool(t); f != nil {
				return f
			}
		}
	}
	if e.search {
		e.b = append(wirejson.AppendElement(e.b), `{"googleSearch":{}}`...)
	}
	if len(e.b) == empty {
		e.b = e.b[:start]
		return nil
	}
	e.b = append(e.b, ']')
	return nil
}

// function writes a declaration. The schema goes out as plain JSON Schema, unchanged;
// the older field "parameters" knows but a part of it.
func (e *requestEncoder) function(t *llm.Tool) *fault.Error {
	if t.Namespace != "" {
		if _, f := e.c.Lose(llm.FeatureToolNamespace, "tools"); f != nil {
			return f
		}
	}
	if t.Cache != llm.NoCache {
		if f := e.c.Dropped(llm.FeatureCacheMark, "tools[].cache_control"); f != nil {
			return f
		}
	}
	if t.Strict != nil && *t.Strict {
		if f := e.c.Dropped(llm.FeatureToolStrict, "tools[].strict"); f != nil {
			return f
		}
	}
	e.b = append(wirejson.AppendElement(e.b), '{')
	e.b = wirejson.AppendStringMember(e.b, "name", functionName(e.c, t.Namespace, t.Name))
	if t.Description != "" {
		e.b = wirejson.AppendStringMember(e.b, "description", t.Description)
	}
	if len(t.Schema) > 0 {
		e.b = wirejson.AppendRawMember(e.b, "parametersJsonSchema", t.Schema)
	}
	for _, x := range t.Extras {
		if e.own {
			e.b = wirejson.AppendRawMember(e.b, x.Field[strings.LastIndexByte(x.Field, '.')+1:], x.Raw)
			continue
		}
		if f := e.c.Dropped(x.Feature, x.Field); f != nil {
			return f
		}
	}
	e.b = append(e.b, '}')
	return nil
}

func (e *requestEncoder) serverTool(t *llm.Tool) *fault.Error {
	if e.own {
		e.b = append(wirejson.AppendElement(e.b), '{')
		e.b = append(wirejson.AppendRawMember(e.b, t.Server, t.Native), '}')
		return nil
	}
	feature := llm.FeatureServerTool
	switch {
	case strings.HasPrefix(t.Server, "web_search"):
		feature = llm.FeatureWebSearch
	case strings.HasPrefix(t.Server, "mcp"):
		feature = llm.FeatureMCP
	}
	action, f := e.c.Lose(feature, "tools")
	e.search = e.search || feature == llm.FeatureWebSearch && action == protocol.Substitute
	return f
}

func (e *requestEncoder) toolConfig() *fault.Error {
	functions := false
	for i := range e.r.Tools {
		functions = functions || e.r.Tools[i].Server == "" && !e.r.Tools[i].Custom
	}
	if e.r.OneCall && functions {
		if f := e.c.Dropped(llm.FeatureParallelTools, "parallel_tool_calls"); f != nil {
			return f
		}
	}
	mode, names := "", e.r.ToolChoice.Names
	switch e.r.ToolChoice.Mode {
	case llm.ChoiceAuto:
		mode = "AUTO"
		if len(names) > 0 || field(e.calls, "mode") != nil {
			mode = "VALIDATED" // the only mode beside ANY that takes names
		}
	case llm.ChoiceNone:
		mode, names = "NONE", nil
	case llm.ChoiceAny, llm.ChoiceTool:
		mode = "ANY"
	}
	if len(names) > 0 && !e.own {
		// Tools of free text were lost above.
		if names = slices.DeleteFunc(slices.Clone(names), e.custom); len(names) == 0 {
			mode = ""
		}
	}
	if mode == "" && len(e.calls) == 0 || !functions && !e.own {
		return nil // a choice without functions has nothing to choose from
	}
	e.b = append(wirejson.AppendMember(e.b, "toolConfig"), '{')
	if mode != "" {
		e.b = append(wirejson.AppendMember(e.b, "functionCallingConfig"), '{')
		e.b = wirejson.AppendStringMember(e.b, "mode", mode)
		if len(names) > 0 {
			e.b = append(wirejson.AppendMember(e.b, "allowedFunctionNames"), '[')
			for _, name := range names {
				e.b = wirejson.AppendString(wirejson.AppendElement(e.b), functionName(e.c, e.namespaceOf(name), name))
			}
			e.b = append(e.b, ']')
		}
		e.b = append(e.b, '}')
	}
	for _, w := range e.calls {
		if w.name != "mode" {
			e.b = wirejson.AppendRawMember(e.b, w.name, w.raw)
		}
	}
	e.b = append(e.b, '}')
	return nil
}

// custom reports whether the tool that a choice names takes free text.
func (e *requestEncoder) custom(name string) bool {
	return slices.ContainsFunc(e.r.Tools, func(t llm.Tool) bool { return t.Name == name && t.Custom })
}

// namespaceOf is the namespace of the tool that a choice names.
func (e *requestEncoder) namespaceOf(name string) string {
	for i := range e.r.Tools {
		if e.r.Tools[i].Name == name {
			return e.r.Tools[i].Namespace
		}
	}
	return ""
}

// functionName is the name by which the provider knows a tool. It takes dots and colons
// and up to 128 bytes, but no digit or dash at the start.
func functionName(c *protocol.Conversion, namespace, name string) string {
	if namespace == "" && plainName(name) {
		return name
	}
	sent := c.ToolName(namespace, name)
	if !plainName(sent) {
		sent = "_" + sent
		c.RenameTool(sent, namespace, name)
	}
	return sent
}

func plainName(s string) bool {
	for i := range len(s) {
		b := s[i]
		switch {
		case b|0x20 >= 'a' && b|0x20 <= 'z', b == '_':
		case i > 0 && (b >= '0' && b <= '9' || b == '.' || b == ':' || b == '-'):
		default:
			return false
		}
	}
	return s != "" && len(s) <= 128
}
