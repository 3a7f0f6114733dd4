package fakeprovider

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// anthropicWords is how Anthropic complains.
type anthropicWords struct{}

func (anthropicWords) unknown(at where) *Failure {
	return refuse("%s: Extra inputs are not permitted", at.dots())
}

func (anthropicWords) wrongType(at where, want string) *Failure {
	return refuse("%s: Input should be %s", at.dots(), want)
}

func (anthropicWords) wrongValue(at where, got string, want []string) *Failure {
	return refuse("%s: Input tag '%s' does not match any of the expected tags: '%s'", at.dots(), got, strings.Join(want, "', '"))
}

// Betas and versions that change what is refused.
const (
	midSystemBeta   = "mid-conversation-system-2026-04-07"
	samplingVersion = "2026-10-21" // and later ones have no sampling parameters
)

// checkAnthropic checks a Messages request.
func (c *call) checkAnthropic(in tree) *Failure {
	known := c.p.strict.anthropic
	beta := strings.Join(c.r.Header.Values("Anthropic-Beta"), ",")
	if beta != "" || c.r.URL.Query().Get("beta") == "true" {
		known = maps.Clone(known)
		all := maps.Clone(known["Request"].fields)
		maps.Copy(all, known["BetaRequest"].fields)
		known["Request"] = shape{fields: all}
	}
	version := c.r.Header.Get("Anthropic-Version")
	m := anthropicMessages{messages: in.objects("messages"), version: version}
	m.thinking = in.object("thinking").text("type")
	return first(
		func() *Failure { return known.check(map[string]any(in), "Request", nil, anthropicWords{}) },
		func() *Failure { return anthropicRequired(in, c.operation) },
		func() *Failure { return anthropicSampling(in, version) },
		func() *Failure { return anthropicThinking(in) },
		func() *Failure { return anthropicTools(in) },
		func() *Failure { return anthropicMarks(in) },
		func() *Failure {
			return anthropicTexts(in["system"], where{"system"}, true)
		},
		func() *Failure { return m.check(strings.Contains(beta, midSystemBeta)) },
	)
}

func anthropicRequired(in tree, op Operation) *Failure {
	names := []string{"model", "messages"}
	if op == Generate {
		names = append(names, "max_tokens")
	}
	for _, name := range names {
		if !in.has(name) {
			return refuse("%s: Field required", name)
		}
	}
	if _, ok := in["messages"].([]any); !ok {
		return refuse("messages: Input should be a valid list")
	}
	if len(in.list("messages")) == 0 {
		return refuse("messages: at least one message is required")
	}
	if in.number("max_tokens") < 0 {
		return refuse("max_tokens: Input should be greater than or equal to 0")
	}
	for i, word := range in.list("stop_sequences") {
		if s, _ := word.(string); strings.TrimSpace(s) == "" {
			return refuse("stop_sequences.%d: each stop sequence must contain non-whitespace", i)
		}
	}
	return nil
}

func anthropicSampling(in tree, version string) *Failure {
	for _, name := range []string{"temperature", "top_p", "top_k"} {
		if version >= samplingVersion && in.has(name) {
			return refuse("%s: not supported with anthropic-version %s", name, version)
		}
	}
	if n := in.number("temperature"); n < 0 || n > 1 {
		return refuse("temperature: range: 0..1")
	}
	return nil
}

func anthropicThinking(in tree) *Failure {
	thinking := in.object("thinking")
	if thinking.text("type") == "enabled" {
		budget, given := thinking["budget_tokens"].(float64)
		switch {
		case !given:
			return refuse("thinking.enabled.budget_tokens: Field required")
		case budget < 1024:
			return refuse("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
		case in.has("max_tokens") && budget >= in.number("max_tokens"):
			return refuse("`max_tokens` must be greater than `thinking.budget_tokens`.")
		}
	}
	if !thinks(thinking.text("type")) {
		return nil
	}
	if n, given := in["temperature"].(float64); given && n != 1 {
		return refuse("`temperature` may only be set to 1 when thinking is enabled.")
	}
	if in.has("top_k") {
		return refuse("`top_k` must be unset when thinking is enabled.")
	}
	if n, given := in["top_p"].(float64); given && n < 0.95 {
		return refuse("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.")
	}
	if word := in.object("tool_choice").text("type"); word == "any" || word == "tool" {
		return refuse("Thinking may not be enabled when tool_choice forces tool use.")
	}
	return nil
}

func thinks(kind string) bool { return kind == "enabled" || kind == "adaptive" }

var (
	anthropicTool = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	anthropicID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

func anthropicTools(in tree) *Failure {
	var names []string
	for i, t := range in.objects("tools") {
		name := t.text("name")
		if slices.Contains(names, name) && name != "" {
			return refuse("tools: Tool names must be unique.")
		}
		names = append(names, name)
		if word := t.text("type"); word != "" && word != "custom" {
			continue
		}
		at := where{"tools"}.element(i).name("custom").dots()
		if !anthropicTool.MatchString(name) {
			return refuse("%s.name: String should match pattern '%s'", at, anthropicTool)
		}
		schema := t.object("input_schema")
		switch {
		case schema == nil:
			return refuse("%s.input_schema: Field required", at)
		case !schema.has("type"):
			return refuse("%s.input_schema.type: Field required", at)
		case schema.text("type") != "object":
			return refuse("%s.input_schema.type: Input should be 'object'", at)
		}
		for _, word := range []string{"oneOf", "allOf", "anyOf"} {
			if schema.has(word) {
				return refuse("%s.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", at)
			}
		}
	}
	choice := in.object("tool_choice")
	if choice != nil && len(names) == 0 && choice.text("type") != "none" {
		return refuse("tool_choice may only be specified while providing tools")
	}
	if name := choice.text("name"); choice.text("type") == "tool" && !slices.Contains(names, name) {
		return refuse("tool_choice: Tool '%s' not found in provided tools", name)
	}
	return nil
}

// anthropicMarks counts the marks for the cache. Free-form places are not searched.
func anthropicMarks(in tree) *Failure {
	const most = 4
	n := 0
	var count func(v any)
	count = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				count(e)
			}
		case map[string]any:
			for name, e := range v {
				switch {
				case name == "cache_control" && e != nil:
					n++
				case name == "content" || name == "source":
					count(e)
				}
			}
		}
	}
	for _, name := range []string{"tools", "system", "messages"} {
		count(in[name])
	}
	if in.has("cache_control") {
		n++
	}
	if n > most {
		return refuse("A maximum of %d blocks with cache_control may be provided. Found %d.", most, n)
	}
	return nil
}

// anthropicTexts checks that text blocks say something; blank ones are those of
// whitespace alone.
func anthropicTexts(content any, at where, refuseBlank bool) *Failure {
	blocks, _ := content.([]any)
	for i, e := range blocks {
		b, _ := e.(map[string]any)
		if tree(b).text("type") != "text" {
			continue
		}
		switch s := tree(b).text("text"); {
		case s == "":
			return refuse("%s: text content blocks must be non-empty", at.element(i).dots())
		case refuseBlank && strings.TrimSpace(s) == "":
			return refuse("%s: text content blocks must contain non-whitespace text", at.element(i).dots())
		}
	}
	return nil
}
