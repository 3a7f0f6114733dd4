package openairesponses

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// tools writes the tools and what bounds the calls of them. Neighbours of one namespace
// stand in one element. Without tools there is nothing to bound.
func (e *requestEncoder) tools() *fault.Error {
	before := len(e.b)
	e.b = append(wirejson.AppendMember(e.b, "tools"), '[')
	group := ""
	for i := range e.r.Tools {
		t := &e.r.Tools[i]
		if t.Namespace != group {
			if group != "" {
				e.b = append(e.b, "]}"...)
			}
			if group = t.Namespace; group != "" {
				e.namespace(t)
			}
		}
		if f := e.tool(t); f != nil {
			return f
		}
	}
	if group != "" {
		e.b = append(e.b, "]}"...)
	}
	if raw := e.given[optWebSearch]; raw != nil {
		e.search(raw)
	}
	if e.b[len(e.b)-1] == '[' {
		e.b = e.b[:before]
		if e.own {
			e.choice() // tools may stand in the input, too
		}
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

// namespace opens the namespace of t, which is its first tool.
func (e *requestEncoder) namespace(t *llm.Tool) {
	e.b = wirejson.AppendStringMember(append(wirejson.AppendElement(e.b), '{'), "type", "namespace")
	e.b = wirejson.AppendStringMember(e.b, "name", t.Namespace)
	for _, x := range t.Extras {
		if x.Field == namespaceNote {
			e.b = wirejson.AppendRawMember(e.b, "description", x.Raw)
		}
	}
	e.b = append(wirejson.AppendMember(e.b, "tools"), '[')
}

func (e *requestEncoder) tool(t *llm.Tool) *fault.Error {
	if t.Server != "" {
		return e.serverTool(t)
	}
	if t.Cache != llm.NoCache {
		if f := e.c.Dropped(llm.FeatureCacheMark, "tools"); f != nil {
			return f
		}
	}
	kind := "function"
	if t.Custom {
		kind = "custom"
	}
	e.b = wirejson.AppendStringMember(append(wirejson.AppendElement(e.b), '{'), "type", kind)
	e.b = wirejson.AppendStringMember(e.b, "name", e.c.ToolName("", t.Name))
	if t.Description != "" {
		e.b = wirejson.AppendStringMember(e.b, "description", t.Description)
	}
	var f *fault.Error
	if t.Custom {
		e.grammar(t.Grammar)
	} else {
		f = e.function(t)
	}
	for _, x := range t.Extras {
		switch name, ok := strings.CutPrefix(x.Field, "tools[]."); {
		case x.Feature == llm.FeatureToolNamespace:
		case e.own && ok, name == "defer_loading" && string(x.Raw) == "false":
			if e.own {
				e.b = wirejson.AppendRawMember(e.b, name, x.Raw)
			}
		case f == nil:
			f = e.c.Dropped(x.Feature, x.Field)
		}
	}
	e.b = append(e.b, '}')
	return f
}

func (e *requestEncoder) grammar(raw []byte) {
	if raw == nil {
		return
	}
	syntax, definition := openaichat.ReadGrammar(raw)
	e.b = append(wirejson.AppendMember(e.b, "format"), `{"type":"grammar"`...)
	e.b = wirejson.AppendStringMember(e.b, "syntax", syntax)
	e.b = append(wirejson.AppendStringMember(e.b, "definition", definition), '}')
}

// function writes the arguments of a function. Where nothing is said of strict the
// protocol is strict, in difference from all others.
func (e *requestEncoder) function(t *llm.Tool) *fault.Error {
	switch {
	case t.Schema != nil:
		e.b = wirejson.AppendRawMember(e.b, "parameters", t.Schema)
	case !e.own:
		e.b = append(wirejson.AppendMember(e.b, "parameters"), `{"type":"object","properties":{}}`...)
	}
	strict := t.Strict != nil && *t.Strict
	if strict && (e.compat().GetNoStrict() || !e.vendors() && !openaichat.StrictSchema(t.Schema)) {
		if f := e.c.Dropped(llm.FeatureToolStrict, "tools"); f != nil {
			return f
		}
		strict = false
	}
	if !e.compat().GetNoStrict() && (t.Strict != nil || !e.own) {
		e.b = wirejson.AppendBoolMember(e.b, "strict", strict)
	}
	return nil
}

// serverTool takes a tool that the provider runs, as it stands if the caller speaks
// Responses. The search of another provider becomes the provider's own if the caller
// declares it.
func (e *requestEncoder) serverTool(t *llm.Tool) *fault.Error {
	if e.own {
		e.b = append(wirejson.AppendElement(e.b), t.Native...)
		return nil
	}
	name := strings.ToLower(strings.ReplaceAll(t.Server, "_", ""))
	switch {
	case strings.HasPrefix(name, "websearch"), strings.HasPrefix(name, "googlesearch"):
		a, f := e.c.Lose(llm.FeatureWebSearch, "tools")
		if f == nil && a == protocol.Substitute {
			e.b = append(wirejson.AppendElement(e.b), `{"type":"web_search"}`...)
		}
		return f
	case strings.HasPrefix(name, "mcp"):
		return e.c.Dropped(llm.FeatureMCP, "tools")
	}
	return e.c.Dropped(llm.FeatureServerTool, "tools")
}

// search writes the tool that a Chat caller's web_search_options stand for.
func (e *requestEncoder) search(raw []byte) {
	e.b = append(wirejson.AppendElement(e.b), `{"type":"web_search"`...)
	var r wirejson.Reader
	r.ResetLenient(raw)
	if r.Enter('{') {
		for r.Next() {
			switch string(r.Name()) {
			case "search_context_size":
				if size, ok := r.String(maxName); ok {
					e.b = wirejson.AppendStringMember(e.b, "search_context_size", size)
				}
			case "user_location":
				e.location(&r)
			}
		}
	}
	e.b = append(e.b, '}')
}

// location writes a place, whose members stand one level higher than in Chat.
func (e *requestEncoder) location(r *wirejson.Reader) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		if string(r.Name()) != "approximate" || !r.Enter('{') {
			continue
		}
		e.b = append(wirejson.AppendMember(e.b, "user_location"), `{"type":"approximate"`...)
		for r.Next() {
			switch name := string(r.Name()); name {
			case "city", "country", "region", "timezone":
				if v, ok := r.String(maxName); ok {
					e.b = wirejson.AppendStringMember(e.b, name, v)
				}
			}
		}
		e.b = append(e.b, '}')
	}
}

func (e *requestEncoder) choice() {
	c := e.r.ToolChoice
	if raw := e.given[optToolChoice]; raw != nil {
		e.b = wirejson.AppendRawMember(e.b, "tool_choice", raw)
		return
	}
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
		e.b = append(e.b, `{"type":"allowed_tools"`...)
		e.b = wirejson.AppendStringMember(e.b, "mode", mode)
		e.b = append(wirejson.AppendMember(e.b, "tools"), '[')
		for _, name := range c.Names {
			e.b = wirejson.AppendElement(e.b)
			e.chosen(name)
		}
		e.b = append(e.b, "]}"...)
	}
}

// chosen writes the object that names a tool.
func (e *requestEncoder) chosen(name string) {
	kind := "function"
	for i := range e.r.Tools {
		if t := &e.r.Tools[i]; t.Name == name && t.Custom {
			kind = "custom"
			break
		}
	}
	e.b = wirejson.AppendStringMember(append(e.b, '{'), "type", kind)
	e.b = append(wirejson.AppendStringMember(e.b, "name", e.c.ToolName("", name)), '}')
}
