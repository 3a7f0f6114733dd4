package anthropic

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// tool reads one tool. One without a type, or of type custom, is a function that the
// caller runs. All others are the vendor's and are kept as they are.
func (d *requestReader) tool() {
	const path = "tools[]"
	r, from := &d.r, d.r.Start()
	if r.Kind() != '{' {
		d.wrong(path, "an object")
	}
	if !r.Enter('{') {
		return
	}
	var t llm.Tool
	var schema bool
	kind, unknown := "", []string(nil)
	for r.Next() {
		switch name := string(r.Name()); name {
		case "type":
			kind = d.word(r, path+".type")
		case "name":
			t.Name = d.word(r, path+".name")
		case "description":
			t.Description = d.text(r, path+".description")
		case "input_schema":
			schema = r.Kind() == '{'
			t.Schema = d.schema(r, path+".input_schema")
		case "strict":
			t.Strict = d.flag(r, path+".strict")
		case "cache_control":
			t.Cache = d.cache(r, path+".cache_control")
		case "allowed_callers", "defer_loading", "eager_input_streaming", "input_examples":
			if v := r.Value(); len(v) > 0 && v[0] != 'n' {
				t.Extras = append(t.Extras, llm.Extra{Feature: llm.FeatureToolOption, Field: "tools[]." + name, Raw: v})
			}
		default:
			unknown = append(unknown, name)
		}
	}
	if kind != "" && kind != "custom" {
		t.Server, t.Native, t.Extras = kind, d.body[from:r.End()], nil
		d.req.Tools = append(d.req.Tools, t)
		return
	}
	for _, name := range unknown {
		d.unknown(path, name)
	}
	switch {
	case t.Name == "":
		d.refuse(path+".name", "is missing")
	case !schema:
		d.refuse(path+".input_schema", "is missing")
	}
	d.req.Tools = append(d.req.Tools, t)
}

func (d *requestReader) toolChoice() {
	const path = "tool_choice"
	r, q := &d.r, d.req
	if !d.object(r, path) {
		return
	}
	kind, tool := "", ""
	for r.Next() {
		switch string(r.Name()) {
		case "type":
			kind = d.word(r, path+".type")
		case "name":
			tool = d.word(r, path+".name")
		case "disable_parallel_tool_use":
			if b := d.flag(r, path+".disable_parallel_tool_use"); b != nil {
				q.OneCall = *b
			}
		default:
			d.unknown(path, string(r.Name()))
		}
	}
	switch kind {
	case "auto":
		q.ToolChoice.Mode = llm.ChoiceAuto
	case "any":
		q.ToolChoice.Mode = llm.ChoiceAny
	case "none":
		q.ToolChoice.Mode = llm.ChoiceNone
	case "tool":
		q.ToolChoice = llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{tool}}
		if tool == "" {
			d.refuse(path+".name", "is missing")
		}
	default:
		d.wrong(path+".type", `"auto", "any", "tool" or "none"`)
	}
}
