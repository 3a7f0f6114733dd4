package fakeprovider

import (
	"slices"
	"strings"
)

// checkChat checks a Chat Completions request.
func (c *call) checkChat(in tree) *Failure {
	return first(
		func() *Failure {
			return c.p.strict.chat.check(map[string]any(in), "Request", nil, openaiWords{})
		},
		func() *Failure { return chatRequired(in) },
		func() *Failure { return checkShared(in) },
		func() *Failure { return chatTools(in) },
		func() *Failure { return chatFormat(in) },
		func() *Failure { return chatMessages(in.objects("messages")) },
	)
}

func chatRequired(in tree) *Failure {
	for _, name := range []string{"model", "messages"} {
		if !in.has(name) {
			return missing(name)
		}
	}
	if _, ok := in["messages"].([]any); !ok {
		return openaiWords{}.wrongType(where{"messages"}, "an array of objects")
	}
	if len(in.list("messages")) == 0 {
		return emptyArray("messages")
	}
	if in.has("max_tokens") && in.has("max_completion_tokens") {
		return refuseAt("max_tokens", "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	if len(in.list("stop")) > 4 {
		return refuseAt("stop", "Invalid 'stop': array too long. Expected an array with maximum length 4.")
	}
	return nil
}

func chatTools(in tree) *Failure {
	if !in.has("tools") {
		for _, name := range []string{"tool_choice", "parallel_tool_calls"} {
			if in.has(name) && in.text(name) != "none" {
				return refuseAt(name, "'%s' is only allowed when 'tools' are specified.", name)
			}
		}
		return nil
	}
	if len(in.list("tools")) == 0 {
		return emptyArray("tools")
	}
	var names []string
	for i, t := range in.objects("tools") {
		at := where{"tools"}.element(i)
		if t.text("type") == "custom" {
			if f := checkName(t.object("custom"), at.name("custom")); f != nil {
				return f
			}
			names = append(names, t.object("custom").text("name"))
			continue
		}
		if !t.has("function") {
			return missing(at.name("function").brackets())
		}
		if f := checkFunction(t.object("function"), at.name("function")); f != nil {
			return f
		}
		names = append(names, t.object("function").text("name"))
	}
	switch word := in.text("tool_choice"); word {
	case "", "none", "auto", "required":
	default:
		return openaiWords{}.wrongValue(where{"tool_choice"}, word, []string{"none", "auto", "required"})
	}
	choice := in.object("tool_choice")
	if kind := choice.text("type"); kind == "function" || kind == "custom" {
		if name := choice.object(kind).text("name"); !slices.Contains(names, name) {
			return refuseAt("tool_choice", "Invalid value for 'tool_choice': '%s' is not one of the tools.", name)
		}
	}
	return nil
}

func chatFormat(in tree) *Failure {
	format := in.object("response_format")
	if format.text("type") != "json_schema" {
		return nil
	}
	at := where{"response_format", "json_schema"}
	if !format.has("json_schema") {
		return missing(at.brackets())
	}
	return checkSchema(format.object("json_schema"), at)
}

// chatMessages follows the calls through a conversation: each is answered by a tool
// message before anything else is said.
func chatMessages(messages []tree) *Failure {
	var open []string // ids of calls that wait for their results
	unanswered := func(i int) *Failure {
		if len(open) == 0 {
			return nil
		}
		return refuseAt("messages", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "+
			"The following tool_call_ids did not have response messages: %s (before messages[%d])", strings.Join(open, ", "), i)
	}
	for i, m := range messages {
		at := where{"messages"}.element(i)
		if m.text("role") == "tool" {
			n := slices.Index(open, m.text("tool_call_id"))
			if n < 0 {
				return refuseAt(at.name("role").brackets(),
					"Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")
			}
			open = slices.Delete(open, n, n+1)
		} else if f := unanswered(i); f != nil {
			return f
		}
		if f := chatContent(m, at); f != nil {
			return f
		}
		if m.text("role") != "assistant" || !m.has("tool_calls") {
			continue
		}
		var f *Failure
		if open, f = chatCalls(m, at.name("tool_calls")); f != nil {
			return f
		}
	}
	return unanswered(len(messages))
}

func chatContent(m tree, at where) *Failure {
	content := at.name("content")
	switch v := m["content"].(type) {
	case string:
	case []any:
		if len(v) == 0 {
			return emptyArray(content.brackets())
		}
	case nil:
		for _, name := range []string{"tool_calls", "function_call", "refusal", "audio"} {
			if m.text("role") == "assistant" && m.has(name) {
				return nil
			}
		}
		return refuseAt(content.brackets(), "Invalid value for 'content': expected a string, got null.")
	default:
		return openaiWords{}.wrongType(content, "one of a string or array of objects")
	}
	return nil
}

// chatCalls checks the calls of a message and returns their ids.
func chatCalls(m tree, at where) ([]string, *Failure) {
	if len(m.list("tool_calls")) == 0 {
		return nil, emptyArray(at.brackets())
	}
	var ids []string
	for i, tc := range m.objects("tool_calls") {
		at := at.element(i)
		id := tc.text("id")
		switch {
		case id == "":
			return nil, missing(at.name("id").brackets())
		case slices.Contains(ids, id):
			return nil, refuseAt(at.name("id").brackets(), "Duplicate value for 'tool_call_id' of '%s' in one message.", id)
		}
		ids = append(ids, id)
		kind, field := tc.text("type"), "arguments"
		if kind == "custom" {
			field = "input"
		}
		inner := tc.object(kind)
		if f := checkName(inner, at.name(kind)); f != nil {
			return nil, f
		}
		if _, ok := inner[field].(string); !ok {
			return nil, openaiWords{}.wrongType(at.name(kind).name(field), "a string")
		}
	}
	return ids, nil
}
