package openairesponses_test

import (
	"strings"
	"testing"
)

// normal is a request in the one form in which the encoder writes it. What it evens out
// says the same in several ways, or nothing.
func normal(t testing.TB, s string) map[string]any {
	t.Helper()
	q := prune(value(t, s)).(map[string]any)
	if text, ok := q["input"].(string); ok {
		q["input"] = []any{map[string]any{"role": "user", "content": text}}
	}
	if items, ok := q["input"].([]any); ok {
		for i := range items {
			items[i] = normalItem(items[i])
		}
		// A plain system message at the beginning is what instructions are.
		if first, _ := items[0].(map[string]any); len(items) > 1 && first["role"] == "system" && q["instructions"] == nil {
			content := first["content"].([]any)
			if part := content[0].(map[string]any); len(content) == 1 && part["prompt_cache_breakpoint"] == nil {
				q["instructions"], q["input"] = part["text"], items[1:]
			}
		}
	}
	for name, nothing := range map[string]any{
		"parallel_tool_calls": true, "truncation": "disabled", "service_tier": "auto", "background": false, "stream": false,
	} {
		if q[name] == nothing {
			delete(q, name)
		}
	}
	if q["user"] != nil && q["safety_identifier"] == nil { // the older name
		q["safety_identifier"] = q["user"]
		delete(q, "user")
	}
	if r, ok := q["reasoning"].(map[string]any); ok && r["generate_summary"] != nil {
		r["summary"] = r["generate_summary"]
		delete(r, "generate_summary")
	}
	if text, ok := q["text"].(map[string]any); ok {
		if f, _ := text["format"].(map[string]any); f["type"] == "text" {
			delete(text, "format")
		}
		if len(text) == 0 {
			delete(q, "text")
		}
	}
	return q
}

func normalItem(v any) any {
	it, ok := v.(map[string]any)
	if !ok {
		return v
	}
	kind, _ := it["type"].(string)
	if kind == "" {
		kind = "message"
		it["type"] = kind
	}
	switch kind {
	case "message":
		part := "input_text"
		if it["role"] == "assistant" {
			part = "output_text"
		}
		if text, ok := it["content"].(string); ok {
			it["content"] = []any{map[string]any{"type": part, "text": text}}
		}
	case "function_call_output", "custom_tool_call_output":
		delete(it, "name")
		delete(it, "namespace")
		if parts, _ := it["output"].([]any); len(parts) == 1 {
			if p := parts[0].(map[string]any); p["type"] == "input_text" && p["prompt_cache_breakpoint"] == nil {
				it["output"] = p["text"]
			}
		}
	case "function_call", "custom_tool_call":
		if c, _ := it["caller"].(map[string]any); c["type"] == "direct" {
			delete(it, "caller")
		}
		if it["arguments"] == "" { // which is no JSON
			it["arguments"] = "{}"
		}
	case "reasoning":
		var texts []string
		for _, list := range []string{"summary", "content"} {
			for _, s := range it[list].([]any) {
				texts = append(texts, s.(map[string]any)["text"].(string))
			}
			if len(texts) > 0 || it["content"] == nil {
				break
			}
		}
		delete(it, "content")
		it["summary"] = []any{}
		if len(texts) > 0 {
			it["summary"] = []any{map[string]any{"type": "summary_text", "text": strings.Join(texts, "\n\n")}}
		}
	case "image_generation_call":
		if it["result"] != nil {
			return map[string]any{"type": kind, "result": it["result"], "status": "completed"}
		}
		return v
	default:
		return v
	}
	delete(it, "id")
	delete(it, "status")
	for _, list := range []string{"content", "output"} {
		parts, _ := it[list].([]any)
		for _, p := range parts {
			o, _ := p.(map[string]any)
			delete(o, "logprobs")
			if notes, ok := o["annotations"].([]any); ok && len(notes) == 0 {
				delete(o, "annotations")
			}
			if o["detail"] == "auto" {
				delete(o, "detail")
			}
		}
	}
	return it
}

// prune leaves out members that are null, at any depth outside of schemas.
func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if inner == nil {
				delete(v, name)
			} else if name != "schema" && name != "parameters" {
				prune(inner)
			}
		}
	case []any:
		for _, inner := range v {
			prune(inner)
		}
	}
	return v
}
