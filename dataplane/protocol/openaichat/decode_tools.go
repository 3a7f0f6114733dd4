package openaichat

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// tool reads one element of tools.
func (d *requestDecoder) tool() {
	from := d.r.Start()
	if d.r.Kind() != '{' {
		d.wrong("tools[]", "an object")
		return
	}
	d.r.Enter('{')
	var t llm.Tool
	kind, unknown := "", len(d.req.Unknown)
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "type":
			kind = d.name("tools[].type")
		case "function":
			d.definition("tools[].function", &t)
		case "custom":
			d.custom(&t)
		default:
			d.unknown("tools[]")
		}
	}
	switch kind {
	case "", "function", "custom":
		if t.Name == "" {
			d.refuse("tools[]", "has no name; a tool is {\"type\":\"function\",\"function\":{\"name\":…}}")
		}
		t.Custom = kind == "custom"
	default: // a compatible server's own
		d.req.Unknown = d.req.Unknown[:unknown]
		t = llm.Tool{Server: kind, Native: d.since(from)}
	}
	d.req.Tools = append(d.req.Tools, t)
}

// definition reads what describes a function.
func (d *requestDecoder) definition(path string, t *llm.Tool) {
	if !d.object(path) {
		return
	}
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "name":
			t.Name = d.name(path + ".name")
		case "description":
			t.Description = d.text(path + ".description")
		case "parameters":
			t.Schema = d.schema(path + ".parameters")
		case "strict":
			t.Strict = d.flag(path + ".strict")
		default:
			d.unknown(path)
		}
	}
}

func (d *requestDecoder) custom(t *llm.Tool) {
	const path = "tools[].custom"
	if !d.object(path) {
		return
	}
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "name":
			t.Name = d.name(path + ".name")
		case "description":
			t.Description = d.text(path + ".description")
		case "format":
			if t.Grammar = d.schema(path + ".format"); t.Grammar != nil && readGrammar(t.Grammar).definition == "" {
				t.Grammar = nil // any text
			}
		default:
			d.unknown(path)
		}
	}
}

// functions reads the list that was there before tools. Its calls come one at a time.
func (d *requestDecoder) functions() {
	from := d.r.Start()
	had := len(d.req.Tools)
	d.each("functions", maxTools, func() {
		var t llm.Tool
		if d.definition("functions[]", &t); t.Name == "" {
			d.refuse("functions[]", "has no name")
		}
		d.req.Tools = append(d.req.Tools, t)
	})
	if len(d.req.Tools) > had && d.fault == nil {
		d.req.OneCall = true
		d.req.Extras = append(d.req.Extras, llm.Extra{Feature: llm.FeatureLegacyFunctions, Field: "functions", Raw: d.since(from)})
	}
}

const choiceForms = `one of "none", "auto", "required", or an object that names a tool or the allowed tools`

func (d *requestDecoder) toolChoice() (c llm.ToolChoice) {
	const path = "tool_choice"
	switch d.r.Kind() {
	case 'n':
		return c
	case '"':
		return llm.ToolChoice{Mode: d.choiceMode(path, d.name(path))}
	case '{':
	default:
		d.wrong(path, choiceForms)
		return c
	}
	d.r.Enter('{')
	kind := ""
	for d.r.Next() {
		switch name := string(d.r.Name()); name {
		case "type":
			kind = d.name(path + ".type")
		case "function", "custom":
			c = llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{d.named(path + "." + name)}}
		case "allowed_tools":
			c = d.allowed()
		default:
			d.unknown(path)
		}
	}
	switch {
	case kind != "" && kind != "function" && kind != "custom" && kind != "allowed_tools",
		c.Mode == llm.ChoiceUnset, c.Mode == llm.ChoiceTool && c.Names[0] == "":
		d.wrong(path, choiceForms)
	}
	return c
}

func (d *requestDecoder) choiceMode(path, word string) llm.ChoiceMode {
	switch word {
	case "none":
		return llm.ChoiceNone
	case "auto":
		return llm.ChoiceAuto
	case "required", "any": // some servers' word
		return llm.ChoiceAny
	}
	d.wrong(path, choiceForms)
	return llm.ChoiceUnset
}

// named reads an object that holds nothing but a name.
func (d *requestDecoder) named(path string) (name string) {
	if !d.object(path) {
		return ""
	}
	for d.r.Next() {
		if string(d.r.Name()) == "name" {
			name = d.name(path + ".name")
			continue
		}
		d.unknown(path)
	}
	return name
}

func (d *requestDecoder) allowed() (c llm.ToolChoice) {
	const path = "tool_choice.allowed_tools"
	if !d.object(path) {
		return c
	}
	c.Mode = llm.ChoiceAuto
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "mode":
			if d.word(path+".mode", "auto", "required") == "required" {
				c.Mode = llm.ChoiceAny
			}
		case "tools":
			d.each(path+".tools", maxTools, func() {
				if name := d.allowedTool(path + ".tools[]"); name != "" {
					c.Names = append(c.Names, name)
				}
			})
		default:
			d.unknown(path)
		}
	}
	if len(c.Names) == 0 {
		d.refuse(path+".tools", "must name at least one tool")
	}
	return c
}

func (d *requestDecoder) allowedTool(path string) (name string) {
	if !d.object(path) {
		return ""
	}
	for d.r.Next() {
		switch member := string(d.r.Name()); member {
		case "type":
		case "name":
			name = d.name(path + ".name")
		case "function", "custom":
			name = d.named(path + "." + member)
		default:
			d.unknown(path)
		}
	}
	return name
}

// functionChoice reads what was there before tool_choice.
func (d *requestDecoder) functionChoice() {
	const path = "function_call"
	switch d.r.Kind() {
	case '"':
		d.req.ToolChoice.Mode = d.choiceMode(path, d.name(path))
	case '{':
		if name := d.named(path); name != "" {
			d.req.ToolChoice = llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{name}}
		}
	case 'n':
	default:
		d.wrong(path, `one of "none", "auto", or an object that names a function`)
	}
}
