package fakeprovider

import "slices"

// checkResponses checks a Responses request.
func (c *call) checkResponses(in tree) *Failure {
	return first(
		func() *Failure {
			return c.p.strict.responses.check(map[string]any(in), "Request", nil, openaiWords{})
		},
		func() *Failure { return c.responsesRequired(in) },
		func() *Failure { return checkShared(in) },
		func() *Failure { return responsesTools(in) },
		func() *Failure {
			if format := in.object("text").object("format"); format.text("type") == "json_schema" {
				return checkSchema(format, where{"text", "format"})
			}
			return nil
		},
		func() *Failure { return c.responsesState(in) },
		func() *Failure { return responsesCalls(in) },
	)
}

func (c *call) responsesRequired(in tree) *Failure {
	if !in.has("model") {
		return missing("model")
	}
	sources := []string{"input", "previous_response_id", "prompt", "conversation"}
	if c.operation == Generate && !slices.ContainsFunc(sources, in.has) {
		return missing("input")
	}
	switch v := in["input"].(type) {
	case nil, string:
	case []any:
		if len(v) == 0 && !slices.ContainsFunc(sources[1:], in.has) {
			return emptyArray("input")
		}
	default:
		return openaiWords{}.wrongType(where{"input"}, "one of a string or array of items")
	}
	if in.has("conversation") && in.has("previous_response_id") {
		return refuseAt("conversation", "Mutually exclusive parameters: 'conversation' and 'previous_response_id'.")
	}
	return nil
}

func responsesTools(in tree) *Failure {
	for i, t := range in.objects("tools") {
		at := where{"tools"}.element(i)
		var f *Failure
		switch t.text("type") {
		case "function":
			f = checkFunction(t, at)
		case "custom":
			f = checkName(t, at)
		case "namespace":
			for j, inner := range t.objects("tools") {
				if f == nil && inner.text("type") == "function" {
					f = checkFunction(inner, at.name("tools").element(j))
				}
			}
		}
		if f != nil {
			return f
		}
	}
	switch word := in.text("tool_choice"); word {
	case "", "none", "auto", "required":
	default:
		return openaiWords{}.wrongValue(where{"tool_choice"}, word, []string{"none", "auto", "required"})
	}
	return nil
}

// responsesState checks what refers to the provider's own state. What is whole needs
// none: an item that carries all it says may keep its id.
func (c *call) responsesState(in tree) *Failure {
	if id := in.text("previous_response_id"); id != "" && !c.p.stored.has(id) {
		return refuseAt("previous_response_id", "Previous response with id '%s' not found.", id)
	}
	for i, item := range in.objects("input") {
		id, whole := item.text("id"), true
		switch item.text("type") {
		case "item_reference":
			whole = false
		case "reasoning", "compaction":
			state, given := item["encrypted_content"].(string)
			if given && !sealed(state, reasoningScope(c.key), "") {
				return refuseAt("input", "The encrypted content for item %s could not be verified. Reason: Encrypted content organization_id did not match the target organization.", id)
			}
			whole = given
		}
		if whole || c.p.stored.has(id) || id == "" && item.text("type") == "reasoning" {
			continue
		}
		f := refuseAt("input", "Item with id '%s' not found. Items are not persisted when `store` is set to false. "+
			"Try again with `store` set to true, or remove this item from your input. (input[%d])", id, i)
		f.Kind, f.Status = BadRequest, 404
		return f
	}
	return nil
}

// responsesCalls follows the calls: each has an output, and each output a call before it.
func responsesCalls(in tree) *Failure {
	var called, answered []string
	for i, item := range in.objects("input") {
		at := where{"input"}.element(i)
		id := item.text("call_id")
		switch item.text("type") {
		case "function_call", "custom_tool_call":
			if f := responsesCall(item, at); f != nil {
				return f
			}
			if slices.Contains(called, id) {
				return refuseAt("input", "Duplicate call_id '%s' in input.", id)
			}
			called = append(called, id)
		case "function_call_output", "custom_tool_call_output":
			if id == "" {
				return missing(at.name("call_id").brackets())
			}
			if !item.has("output") {
				return missing(at.name("output").brackets())
			}
			earlier := in.has("previous_response_id") || in.has("conversation")
			if !earlier && !slices.Contains(called, id) {
				return refuseAt("input", "No tool call found for function call output with call_id %s.", id)
			}
			answered = append(answered, id)
		case "", "message":
			if !item.has("content") {
				return missing(at.name("content").brackets())
			}
		}
	}
	for _, id := range called {
		if !slices.Contains(answered, id) {
			return refuseAt("input", "No tool output found for function call %s.", id)
		}
	}
	return nil
}

func responsesCall(item tree, at where) *Failure {
	if item.text("call_id") == "" {
		return missing(at.name("call_id").brackets())
	}
	if f := checkName(item, at); f != nil {
		return f
	}
	field := "arguments"
	if item.text("type") == "custom_tool_call" {
		field = "input"
	}
	if _, ok := item[field].(string); !ok {
		return openaiWords{}.wrongType(at.name(field), "a string")
	}
	return nil
}
