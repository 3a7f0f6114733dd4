package protocol

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// Setting is something that a request of any protocol may ask for in a member of its own.
type Setting uint8

// The settings.
const (
	ReasoningEffort Setting = iota
	ReasoningBudget         // in tokens
	ToolChoice
	Temperature
	TopP
	TopK
	MaxOutputTokens // with those of reasoning
	endOfSettings
)

// Path are the names of the members that lead to a value, the outermost first.
type Path []string

var settings = map[Name][endOfSettings][]Path{
	OpenAIChat: {
		ReasoningEffort: {{"reasoning_effort"}},
		ToolChoice:      {{"tool_choice"}},
		Temperature:     {{"temperature"}},
		TopP:            {{"top_p"}},
		MaxOutputTokens: {{"max_completion_tokens"}, {"max_tokens"}},
	},
	OpenAIResponses: {
		ReasoningEffort: {{"reasoning", "effort"}},
		ToolChoice:      {{"tool_choice"}},
		Temperature:     {{"temperature"}},
		TopP:            {{"top_p"}},
		MaxOutputTokens: {{"max_output_tokens"}},
	},
	Anthropic: {
		ReasoningEffort: {{"output_config", "effort"}},
		ReasoningBudget: {{"thinking", "budget_tokens"}},
		ToolChoice:      {{"tool_choice"}},
		Temperature:     {{"temperature"}},
		TopP:            {{"top_p"}},
		TopK:            {{"top_k"}},
		MaxOutputTokens: {{"max_tokens"}},
	},
	Gemini: {
		ReasoningEffort: {{"generationConfig", "thinkingConfig", "thinkingLevel"}},
		ReasoningBudget: {{"generationConfig", "thinkingConfig", "thinkingBudget"}},
		ToolChoice:      {{"toolConfig", "functionCallingConfig"}},
		Temperature:     {{"generationConfig", "temperature"}},
		TopP:            {{"generationConfig", "topP"}},
		TopK:            {{"generationConfig", "topK"}},
		MaxOutputTokens: {{"generationConfig", "maxOutputTokens"}},
	},
}

// Paths lists where a protocol has a setting: the name that is used now first, then
// older ones. Empty if it has none. Gemini's names have a second spelling; SameMember
// knows both.
func (s Setting) Paths(p Name) []Path {
	if s >= endOfSettings {
		return nil
	}
	return settings[p][s]
}

// SameMember reports whether a member that a body of the protocol has is the one of
// that name. Gemini's JSON has two spellings of each.
func SameMember(p Name, has, name string) bool {
	return has == name || p == Gemini && strings.IndexByte(has, '_') >= 0 && CamelCase(has) == name
}

// CamelCase is the camel-case spelling of a name.
func CamelCase(name string) string {
	var b strings.Builder
	up := false
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_':
			up = true
			continue
		case up && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		up = false
		b.WriteByte(c)
	}
	return b.String()
}

// Find returns the range of the value at a path of members; false if there is none. Of
// members that are the same the last counts.
func (s *Shape) Find(body []byte, p Name, path Path) (at Span, ok bool) {
	for _, m := range s.Members {
		if len(path) > 0 && SameMember(p, m.Name, path[0]) {
			at, ok = m.Value, true
		}
	}
	if !ok || len(path) == 1 {
		return at, ok
	}
	r := new(wirejson.Reader)
	r.ResetLenient(at.Of(body))
	in, ok := find(r, p, path[1:])
	return Span{From: at.From + in.From, To: at.From + in.To}, ok
}

func find(r *wirejson.Reader, p Name, path Path) (at Span, ok bool) {
	if !r.Enter('{') {
		return at, false
	}
	for r.Next() {
		if !SameMember(p, string(r.Name()), path[0]) {
			continue
		}
		if len(path) > 1 {
			at, ok = find(r, p, path[1:])
			continue
		}
		at.From = r.Start()
		r.Skip()
		at.To, ok = r.End(), true
	}
	return at, ok
}

// MaxToolNames is how many names of tools are read.
const MaxToolNames = 1024

// ToolNames are the names of the tools that a request offers; a tool without a name goes
// by its type.
func (s *Shape) ToolNames(body []byte, p Name) []string {
	var names []string
	for _, m := range s.Members {
		if m.Name != "tools" && (m.Name != "functions" || p != OpenAIChat) {
			continue
		}
		r := new(wirejson.Reader)
		r.ResetLenient(m.Value.Of(body))
		EachTool(r, p, func(name string) {
			if name != "" && len(names) < MaxToolNames {
				names = append(names, name)
			}
		})
	}
	return names
}

// EachTool reads a list of tools and calls tool with the name of each, after it was
// read; with Gemini, of each function and of each of the other tools.
func EachTool(r *wirejson.Reader, p Name, tool func(name string)) {
	if !r.Enter('[') {
		return
	}
	for r.Next() {
		if p == Gemini {
			geminiTools(r, tool)
			continue
		}
		name := ToolName(r, p)
		tool(name)
	}
}

func geminiTools(r *wirejson.Reader, tool func(name string)) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		name := string(r.Name())
		if !SameMember(Gemini, name, "functionDeclarations") {
			r.Skip()
			tool(CamelCase(name))
			continue
		}
		if !r.Enter('[') {
			continue
		}
		for r.Next() {
			tool(ToolName(r, Gemini))
		}
	}
}

// ToolName reads a tool and returns its name or, without one, its type; for Gemini, it
// reads the declaration of a function.
func ToolName(r *wirejson.Reader, p Name) (name string) {
	kind, inner := "", ""
	if !r.Enter('{') {
		return ""
	}
	for r.Next() {
		switch member := string(r.Name()); {
		case member == "name":
			name, _ = r.String(MaxHint)
		case member == "type":
			kind, _ = r.String(MaxHint)
		case p == OpenAIChat && (member == "function" || member == "custom") && r.Enter('{'):
			for r.Next() {
				if string(r.Name()) == "name" {
					inner, _ = r.String(MaxHint)
				}
			}
		}
	}
	switch {
	case inner != "":
		return inner
	case name != "":
		return name
	}
	return kind
}
