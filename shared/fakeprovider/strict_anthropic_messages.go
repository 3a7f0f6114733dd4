package fakeprovider

import (
	"slices"
	"strings"
)

// anthropicMessages checks a conversation.
type anthropicMessages struct {
	messages []tree
	version  string
	thinking string // the type asked for

	used []string // ids of calls
}

func (m *anthropicMessages) check(systemAllowed bool) *Failure {
	turns := m.messages
	first := slices.IndexFunc(turns, func(t tree) bool { return t.text("role") != "system" })
	for i, t := range turns {
		at := where{"messages"}.element(i)
		if t.text("role") == "system" && !systemAllowed {
			return refuse("%s.role: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \"system\" as an input message role.", at.dots())
		}
		if i == first && t.text("role") != "user" {
			return refuse("messages: first message must use the \"user\" role")
		}
		if f := m.content(i, t, at); f != nil {
			return f
		}
	}
	for i := range turns {
		if f := m.calls(i); f != nil {
			return f
		}
	}
	return m.end()
}

// content checks one message on its own.
func (m *anthropicMessages) content(i int, t tree, at where) *Failure {
	assistant := t.text("role") == "assistant"
	final := assistant && i == len(m.messages)-1
	switch v := t["content"].(type) {
	case string:
		switch {
		case v == "" && !final:
			return refuse("%s: all messages must have non-empty content except for the optional final assistant message", at.dots())
		case strings.TrimSpace(v) == "" && !final:
			return refuse("messages: text content blocks must contain non-whitespace text")
		case final && strings.TrimRight(v, " \t\n") != v:
			return refuse("messages: final assistant content cannot end with trailing whitespace")
		}
		return nil
	case []any:
		if len(v) == 0 && !final {
			return refuse("%s: all messages must have non-empty content except for the optional final assistant message", at.dots())
		}
	case nil:
		return refuse("%s.content: Field required", at.dots())
	default:
		return refuse("%s.content: Input should be a valid string or list", at.dots())
	}
	at = at.name("content")
	if f := anthropicTexts(t["content"], at, true); f != nil {
		return f
	}
	for j, b := range t.objects("content") {
		if f := m.block(b, assistant, at.element(j)); f != nil {
			return f
		}
	}
	return nil
}

// block checks one block on its own.
func (m *anthropicMessages) block(b tree, assistant bool, at where) *Failure {
	switch kind := b.text("type"); kind {
	case "text":
		if m.version >= samplingVersion && !assistant && len(b.list("citations")) > 0 {
			return refuse("%s.citations: not supported in user messages with anthropic-version %s", at.dots(), m.version)
		}
	case "document":
		if m.version >= samplingVersion && assistant {
			return refuse("%s: `document` blocks are not supported in assistant messages with anthropic-version %s", at.dots(), m.version)
		}
	case "thinking":
		if !assistant {
			return refuse("%s: `thinking` blocks can only be in `assistant` messages", at.dots())
		}
		if !sealed(b.text("signature"), thinkingScope, b.text("thinking")) {
			return refuse("%s: Invalid `signature` in `thinking` block", at.dots())
		}
	case "redacted_thinking":
		if !sealed(b.text("data"), redactedScope, "") {
			return refuse("%s: Invalid `data` in `redacted_thinking` block", at.dots())
		}
	case "tool_use":
		return m.toolUse(b, assistant, at)
	case "tool_result":
		if assistant {
			return refuse("%s: `tool_result` blocks can only be in `user` messages", at.dots())
		}
		return anthropicTexts(b["content"], at.name("content"), false)
	}
	return nil
}

func (m *anthropicMessages) toolUse(b tree, assistant bool, at where) *Failure {
	id := b.text("id")
	switch {
	case !assistant:
		return refuse("%s: `tool_use` blocks can only be in `assistant` messages", at.dots())
	case !anthropicID.MatchString(id):
		return refuse("%s.tool_use.id: String should match pattern '%s'", at.dots(), anthropicID)
	case slices.Contains(m.used, id):
		return refuse("%s: `tool_use` ids must be unique", at.dots())
	case !anthropicTool.MatchString(b.text("name")):
		return refuse("%s.tool_use.name: String should match pattern '%s'", at.dots(), anthropicTool)
	case b.object("input") == nil:
		return refuse("%s.tool_use.input: Input should be a valid dictionary", at.dots())
	}
	m.used = append(m.used, id)
	return nil
}

// of are the ids at field in the blocks of one type.
func of(t tree, kind, field string) []string {
	var out []string
	for _, b := range t.objects("content") {
		if b.text("type") == kind {
			out = append(out, b.text(field))
		}
	}
	return out
}

// neighbour is the message before or after i that is no system message.
func (m *anthropicMessages) neighbour(i, step int) tree {
	for i += step; i >= 0 && i < len(m.messages); i += step {
		if m.messages[i].text("role") != "system" {
			return m.messages[i]
		}
	}
	return nil
}

// calls checks that the calls of a message are answered in the next one, before all
// else, and that nothing else is answered.
func (m *anthropicMessages) calls(i int) *Failure {
	t, at := m.messages[i], where{"messages"}.element(i)
	if t.text("role") == "assistant" {
		answers := leading(m.neighbour(i, 1))
		open := slices.DeleteFunc(of(t, "tool_use", "id"), func(id string) bool { return slices.Contains(answers, id) })
		if len(open) > 0 {
			return refuse("%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s. "+
				"Each `tool_use` block must have a corresponding `tool_result` block in the next message.", at.dots(), strings.Join(open, ", "))
		}
		return nil
	}
	var before []string
	if previous := m.neighbour(i, -1); previous.text("role") == "assistant" {
		before = of(previous, "tool_use", "id")
	}
	results := of(t, "tool_result", "tool_use_id")
	for j, id := range results {
		if !slices.Contains(before, id) {
			return refuse("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. "+
				"Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", at.dots(), id)
		}
		if slices.Contains(results[:j], id) {
			return refuse("%s: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", at.dots(), id)
		}
	}
	return nil
}

// leading are the results that stand first in a message.
func leading(t tree) []string {
	var out []string
	for _, b := range t.objects("content") {
		if b.text("type") != "tool_result" {
			break
		}
		out = append(out, b.text("tool_use_id"))
	}
	return out
}

// end checks the last turns of a request that asks for thinking.
func (m *anthropicMessages) end() *Failure {
	if !thinks(m.thinking) {
		return nil
	}
	last := len(m.messages)
	tail := m.neighbour(last, -1)
	if tail.text("role") == "assistant" {
		return refuse("messages: the final message cannot be an assistant prefill when `thinking` is enabled")
	}
	// With adaptive thinking, turns may begin with anything.
	if m.thinking != "enabled" || len(of(tail, "tool_result", "tool_use_id")) == 0 {
		return nil
	}
	for i := last - 1; i >= 0; i-- {
		t := m.messages[i]
		if t.text("role") != "assistant" {
			continue
		}
		kind := "text"
		if blocks := t.objects("content"); len(blocks) > 0 {
			kind = blocks[0].text("type")
		}
		if kind != "thinking" && kind != "redacted_thinking" {
			return refuse("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. "+
				"When `thinking` is enabled, a final `assistant` message must start with a thinking block.", i, kind)
		}
		return nil
	}
	return nil
}
