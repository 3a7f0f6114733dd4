package openairesponses

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// tool reads one element of tools. What is no function, no custom tool and no namespace
// is run by the provider or built into it, and kept as it stands.
func (d *requestDecoder) tool() {
	const path = "tools[]"
	if d.r.Kind() != '{' {
		d.wrong(path, "an object")
		return
	}
	from, before := d.r.Start(), d.mark()
	var t llm.Tool
	var group []byte
	d.r.Enter('{')
	kind := ""
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "type":
			kind = d.name(path + ".type")
		case "tools":
			group = d.r.Value()
		default:
			d.toolMember(path, &t)
		}
	}
	switch kind {
	case "function", "custom":
		d.finishTool(path, kind, &t)
		d.req.Tools = append(d.req.Tools, t)
	case "namespace":
		d.namespace(path, &t, group)
	case "":
		d.refuse(path+".type", "is missing; expected function, custom, namespace or the type of a built-in tool")
	default:
		d.forget(before)
		d.req.Tools = append(d.req.Tools, llm.Tool{Server: kind, Native: d.span(from)})
	}
}

// namespace adds the tools of a namespace. Its description stands with the first of them.
func (d *requestDecoder) namespace(path string, group *llm.Tool, tools []byte) {
	if group.Name == "" {
		d.refuse(path+".name", "is missing")
		return
	}
	first := len(d.req.Tools)
	if tools == nil {
		tools = []byte("[]")
	}
	d.sub(tools, func() {
		d.each(path+".tools", maxTools, func() {
			if len(d.req.Tools) >= maxTools {
				d.refuse("tools", "have more than 1024 tools in all")
				return
			}
			d.grouped(path+".tools[]", group.Name)
		})
	})
	if len(d.req.Tools) > first && group.Description != "" {
		t := &d.req.Tools[first]
		t.Extras = append(t.Extras, llm.Extra{Feature: llm.FeatureToolNamespace, Field: namespaceNote, Raw: wirejson.AppendString(nil, group.Description)})
	}
}

// namespaceNote is the field of the description of a namespace.
const namespaceNote = "tools[].description"

// grouped reads a tool of a namespace.
func (d *requestDecoder) grouped(path, namespace string) {
	if !d.object(path) {
		return
	}
	t := llm.Tool{Namespace: namespace}
	kind := ""
	for d.r.Next() {
		if string(d.r.Name()) == "type" {
			kind = d.word(path+".type", "function", "custom")
			continue
		}
		d.toolMember(path, &t)
	}
	if kind == "" {
		kind = "function"
	}
	d.finishTool(path, kind, &t)
	d.req.Tools = append(d.req.Tools, t)
}

// toolMember reads what describes a tool.
func (d *requestDecoder) toolMember(path string, t *llm.Tool) {
	switch name := string(d.r.Name()); name {
	case "name":
		t.Name = d.name(path + ".name")
	case "description":
		t.Description = d.text(path + ".description")
	case "parameters":
		t.Schema = d.schema(path + ".parameters")
	case "strict":
		t.Strict = d.flag(path + ".strict")
	case "format":
		t.Grammar = d.schema(path + ".format")
	case "allowed_callers", "async", "defer_loading", "output_schema":
		if k := d.r.Kind(); k == 'n' || k == 'f' {
			d.r.Skip()
			return
		}
		t.Extras = append(t.Extras, llm.Extra{Feature: llm.FeatureToolOption, Field: "tools[]." + name, Raw: d.r.Value()})
	default:
		d.unknown(path)
	}
}

func (d *requestDecoder) finishTool(path, kind string, t *llm.Tool) {
	if t.Name == "" {
		d.refuse(path+".name", "is missing")
	}
	if t.Custom = kind == "custom"; t.Custom && t.Grammar != nil {
		if _, definition := openaichat.ReadGrammar(t.Grammar); definition != "" {
			return
		}
	}
	t.Grammar = nil // any text
}

const choiceForms = `one of "none", "auto", "required", or an object that names a tool or the allowed tools`

func (d *requestDecoder) toolChoice() {
	const path = "tool_choice"
	c := &d.req.ToolChoice
	switch d.r.Kind() {
	case 'n':
		return
	case '"':
		switch d.name(path) {
		case "none":
			c.Mode = llm.ChoiceNone
		case "auto":
			c.Mode = llm.ChoiceAuto
		case "required":
			c.Mode = llm.ChoiceAny
		default:
			d.wrong(path, choiceForms)
		}
		return
	case '{':
	default:
		d.wrong(path, choiceForms)
		return
	}
	from, before := d.r.Start(), d.mark()
	d.r.Enter('{')
	kind, name, mode, others := "", "", "", false
	var names []string
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "type":
			kind = d.name(path + ".type")
		case "name":
			name = d.name(path + ".name")
		case "mode":
			mode = d.word(path+".mode", "auto", "required")
		case "tools":
			d.each(path+".tools", maxTools, func() {
				n := d.allowedTool(path + ".tools[]")
				if others = others || n == ""; n != "" {
					names = append(names, n)
				}
			})
		default:
			d.unknown(path)
		}
	}
	switch kind {
	case "function", "custom":
		*c = llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{name}}
		if name == "" {
			d.refuse(path+".name", "is missing")
		}
	case "allowed_tools":
		*c = llm.ToolChoice{Mode: llm.ChoiceAuto, Names: names}
		if mode == "required" {
			c.Mode = llm.ChoiceAny
		}
		switch {
		case others: // among them are built-in ones
			d.forget(before)
			d.add(llm.FeatureServerTool, path, d.span(from))
		case len(names) == 0:
			d.refuse(path+".tools", "must name at least one tool")
		}
	case "":
		d.wrong(path, choiceForms)
	default: // a built-in tool must be called
		d.forget(before)
		d.add(llm.FeatureServerTool, path, d.span(from))
	}
}

// allowedTool is the name of a function or of a custom tool; empty for any other.
func (d *requestDecoder) allowedTool(path string) (name string) {
	if !d.object(path) {
		return ""
	}
	kind := ""
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "type":
			kind = d.name(path + ".type")
		case "name":
			name = d.name(path + ".name")
		default:
			d.unknown(path)
		}
	}
	if kind != "function" && kind != "custom" && kind != "" {
		return ""
	}
	return name
}
