package rewrite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openairesponses"
)

var codecs = map[protocol.Name]protocol.Codec{
	protocol.OpenAIChat: openaichat.New(), protocol.OpenAIResponses: openairesponses.New(),
	protocol.Anthropic: anthropic.New(), protocol.Gemini: gemini.New(),
}

var all = []protocol.Name{protocol.OpenAIChat, protocol.OpenAIResponses, protocol.Anthropic, protocol.Gemini}

type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// rule is a rewrite in few words: operation, field, and the rest as JSON members.
func rule(t fatal, op, field, rest string) *configv1.Rewrite {
	t.Helper()
	rw := new(configv1.Rewrite)
	text := fmt.Sprintf(`{"operation":"REWRITE_OPERATION_%s","field":"REWRITE_FIELD_%s"%s}`, op, field, rest)
	if err := protojson.Unmarshal([]byte(text), rw); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return rw
}

// rewritten applies rules to a body of the protocol. The result must be one that the
// protocol's codec reads.
func rewritten(t fatal, p protocol.Name, body string, rules ...*configv1.Rewrite) (out string, skipped []string) {
	t.Helper()
	target := protocol.Target{Protocol: p, Op: protocol.OpGenerate, Model: "m"}
	s, f := codecs[p].Inspect([]byte(body), target)
	if f != nil {
		t.Fatalf("inspect %s: %v", body, f)
	}
	edits, skipped := Edits([]*configv1.LogicalRoute{{Rewrites: rules}}, []byte(body), s, p)
	disjoint(t, body, edits)
	result := bytes.Join(protocol.Splice([]byte(body), edits), nil)
	if _, f = codecs[p].Inspect(result, target); f != nil {
		t.Fatalf("%s became %s: %v", body, result, f)
	}
	return string(result), skipped
}

func disjoint(t fatal, body string, edits []protocol.Edit) {
	t.Helper()
	sorted := slices.Clone(edits)
	slices.SortStableFunc(sorted, func(a, b protocol.Edit) int { return a.At.From - b.At.From })
	end := 0
	for _, e := range sorted {
		if e.At.From < end || e.At.To < e.At.From || e.At.To > len(body) {
			t.Fatalf("edits %v of %s overlap", edits, body)
		}
		end = e.At.To
	}
}

func TestSettingsAreWrittenInTheWordsOfEachProtocol(t *testing.T) {
	t.Parallel()
	const text = `,"value":{"stringValue":"`
	for name, tc := range map[string]struct {
		p                     protocol.Name
		body                  string
		op, field, rest, want string
		skipped               bool
	}{
		"chat limit":               {protocol.OpenAIChat, `{"model":"m"}`, "SET", "MAX_OUTPUT_TOKENS", `,"value":{"intValue":"9"}`, `{"model":"m","max_completion_tokens":9}`, false},
		"chat older limit":         {protocol.OpenAIChat, `{"max_tokens": 7 ,"model":"m"}`, "SET", "MAX_OUTPUT_TOKENS", `,"value":{"intValue":"9"}`, `{"max_tokens": 9 ,"model":"m"}`, false},
		"chat limit within":        {protocol.OpenAIChat, `{"max_tokens":7.0,"model":"m"}`, "CLAMP", "MAX_OUTPUT_TOKENS", `,"min":"5","max":"8"`, `{"max_tokens":7.0,"model":"m"}`, false},
		"chat limit below":         {protocol.OpenAIChat, `{"max_tokens":3,"model":"m"}`, "CLAMP", "MAX_OUTPUT_TOKENS", `,"min":"5"`, `{"max_tokens":5,"model":"m"}`, false},
		"chat no limit":            {protocol.OpenAIChat, `{"model":"m"}`, "CLAMP", "MAX_OUTPUT_TOKENS", `,"max":"5"`, `{"model":"m"}`, false},
		"chat null limit":          {protocol.OpenAIChat, `{"max_completion_tokens":null,"model":"m"}`, "DEFAULT", "MAX_OUTPUT_TOKENS", `,"value":{"intValue":"9"}`, `{"max_completion_tokens":9,"model":"m"}`, false},
		"chat budget":              {protocol.OpenAIChat, `{"model":"m"}`, "SET", "REASONING_BUDGET", `,"value":{"intValue":"9"}`, `{"model":"m"}`, true},
		"chat top k":               {protocol.OpenAIChat, `{"model":"m"}`, "REMOVE", "TOP_K", ``, `{"model":"m"}`, true},
		"chat effort":              {protocol.OpenAIChat, `{"model":"m","reasoning_effort":"low"}`, "REMOVE", "REASONING_EFFORT", ``, `{"model":"m"}`, false},
		"chat effort stated":       {protocol.OpenAIChat, `{"model":"m","reasoning_effort":"low"}`, "DEFAULT", "REASONING_EFFORT", text + `high"}`, `{"model":"m","reasoning_effort":"low"}`, false},
		"responses effort":         {protocol.OpenAIResponses, `{"model":"m","reasoning":{"summary":"auto"}}`, "SET", "REASONING_EFFORT", text + `high"}`, `{"model":"m","reasoning":{"summary":"auto","effort":"high"}}`, false},
		"responses no effort":      {protocol.OpenAIResponses, `{"reasoning":{"effort":"low"},"model":"m"}`, "REMOVE", "REASONING_EFFORT", ``, `{"model":"m"}`, false},
		"anthropic effort":         {protocol.Anthropic, `{"model":"m","max_tokens":9}`, "SET", "REASONING_EFFORT", text + `max"}`, `{"model":"m","max_tokens":9,"output_config":{"effort":"max"}}`, false},
		"anthropic minimal":        {protocol.Anthropic, `{"model":"m","max_tokens":9}`, "SET", "REASONING_EFFORT", text + `minimal"}`, `{"model":"m","max_tokens":9}`, true},
		"anthropic none":           {protocol.Anthropic, `{"model":"m","max_tokens":9,"thinking":{"type":"adaptive"}}`, "SET", "REASONING_EFFORT", text + `none"}`, `{"model":"m","max_tokens":9,"thinking":{"type":"disabled"}}`, false},
		"anthropic budget":         {protocol.Anthropic, `{"model":"m","max_tokens":9000}`, "SET", "REASONING_BUDGET", `,"value":{"intValue":"2048"}`, `{"model":"m","max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":2048}}`, false},
		"anthropic no room":        {protocol.Anthropic, `{"model":"m","max_tokens":900}`, "SET", "REASONING_BUDGET", `,"value":{"intValue":"2048"}`, `{"model":"m","max_tokens":900}`, true},
		"anthropic budget cut":     {protocol.Anthropic, `{"model":"m","max_tokens":1500}`, "SET", "REASONING_BUDGET", `,"value":{"intValue":"2048"}`, `{"model":"m","max_tokens":1500,"thinking":{"type":"enabled","budget_tokens":1499}}`, false},
		"anthropic limit cuts":     {protocol.Anthropic, `{"thinking":{"type":"enabled","budget_tokens":2000},"model":"m","max_tokens":9000}`, "CLAMP", "MAX_OUTPUT_TOKENS", `,"max":"1800"`, `{"thinking":{"type":"enabled","budget_tokens":1799},"model":"m","max_tokens":1800}`, false},
		"anthropic needs one":      {protocol.Anthropic, `{"model":"m","max_tokens":9}`, "REMOVE", "MAX_OUTPUT_TOKENS", ``, `{"model":"m","max_tokens":9}`, true},
		"anthropic no thinking":    {protocol.Anthropic, `{"model":"m","thinking":{"type":"enabled","budget_tokens":2000},"max_tokens":9000}`, "REMOVE", "REASONING_BUDGET", ``, `{"model":"m","max_tokens":9000}`, false},
		"gemini top k":             {protocol.Gemini, `{"contents":[]}`, "SET", "TOP_K", `,"value":{"intValue":"4"}`, `{"contents":[],"generationConfig":{"topK":4}}`, false},
		"gemini other spelling":    {protocol.Gemini, `{"generation_config":{"max_output_tokens":70}}`, "CLAMP", "MAX_OUTPUT_TOKENS", `,"max":"50"`, `{"generation_config":{"max_output_tokens":50}}`, false},
		"gemini both spellings":    {protocol.Gemini, `{"generationConfig":{"topP":0.5,"top_p":0.6}}`, "REMOVE", "TOP_P", ``, `{}`, false},
		"gemini level":             {protocol.Gemini, `{"generationConfig":{"thinkingConfig":{"thinkingBudget":5,"includeThoughts":true}}}`, "SET", "REASONING_EFFORT", text + `low"}`, `{"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"LOW"}}}`, false},
		"gemini budget says it":    {protocol.Gemini, `{"generationConfig":{"thinkingConfig":{"thinkingBudget":5}}}`, "DEFAULT", "REASONING_EFFORT", text + `low"}`, `{"generationConfig":{"thinkingConfig":{"thinkingBudget":5}}}`, false},
		"gemini max":               {protocol.Gemini, `{}`, "SET", "REASONING_EFFORT", text + `max"}`, `{}`, true},
		"temperature of a text":    {protocol.OpenAIChat, `{"temperature":"hot","model":"m"}`, "CLAMP", "TEMPERATURE", `,"max":"1"`, `{"temperature":"hot","model":"m"}`, false},
		"temperature as it is":     {protocol.OpenAIChat, `{"temperature":0.5,"model":"m"}`, "SET", "TEMPERATURE", `,"value":{"numberValue":0.5}`, `{"temperature":0.5,"model":"m"}`, false},
		"nothing to choose":        {protocol.OpenAIChat, `{"model":"m"}`, "SET", "TOOL_CHOICE", text + `required"}`, `{"model":"m"}`, false},
		"no tool to set":           {protocol.OpenAIChat, `{"model":"m"}`, "SET", "TOOL", `,"key":"a"`, `{"model":"m"}`, true},
		"empty body gets a member": {protocol.Gemini, ` { } `, "SET", "TEMPERATURE", `,"value":{"intValue":"1"}`, ` {"generationConfig":{"temperature":1} } `, false},
	} {
		got, skipped := rewritten(t, tc.p, tc.body, rule(t, tc.op, tc.field, tc.rest))
		if got != tc.want || len(skipped) > 0 != tc.skipped {
			t.Errorf("%s: %s became %s, skipped %q; want %s", name, tc.body, got, skipped, tc.want)
		}
	}
}

func TestToolsAreTakenAwayByName(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		p                protocol.Name
		body, tool, want string
	}{
		"chat": {
			protocol.OpenAIChat, `{"model":"m","tools":[{"type":"function","function":{"name":"a"}}, {"type":"custom","custom":{"name":"b"}}]}`, "a",
			`{"model":"m","tools":[{"type":"custom","custom":{"name":"b"}}]}`,
		},
		"chat all": {
			protocol.OpenAIChat, `{"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":"auto","parallel_tool_calls":false,"model":"m"}`, "a", `{"model":"m"}`,
		},
		"chat chosen": {
			protocol.OpenAIChat, `{"model":"m","tool_choice":{"type":"function","function":{"name":"a"}},"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}]}`, "a",
			`{"model":"m","tools":[{"type":"function","function":{"name":"b"}}]}`,
		},
		"chat allowed": {
			protocol.OpenAIChat, `{"model":"m","tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}]}},"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}]}`, "a",
			`{"model":"m","tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"b"}}]}},"tools":[{"type":"function","function":{"name":"b"}}]}`,
		},
		"responses by type": {
			protocol.OpenAIResponses, `{"model":"m","tools":[{"type":"function","name":"a"},{"type":"web_search"}]}`, "web_search", `{"model":"m","tools":[{"type":"function","name":"a"}]}`,
		},
		"anthropic": {
			protocol.Anthropic, `{"model":"m","max_tokens":1,"tools":[{"name":"a","input_schema":{}},{"name":"b","input_schema":{}},{"name":"c","input_schema":{}}],"tool_choice":{"type":"tool","name":"b"}}`, "b",
			`{"model":"m","max_tokens":1,"tools":[{"name":"a","input_schema":{}},{"name":"c","input_schema":{}}]}`,
		},
		"gemini": {
			protocol.Gemini, `{"tools":[{"functionDeclarations":[{"name":"a"},{"name":"b"}]},{"googleSearch":{}}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["a"]}}}`, "a",
			`{"tools":[{"functionDeclarations":[{"name":"b"}]},{"googleSearch":{}}]}`,
		},
		"gemini search": {
			protocol.Gemini, `{"tools":[{"function_declarations":[{"name":"a"}]},{"google_search":{}}]}`, "google_search", `{"tools":[{"function_declarations":[{"name":"a"}]}]}`,
		},
		"gemini last function": {
			protocol.Gemini, `{"tools":[{"functionDeclarations":[{"name":"a"}],"googleSearch":{}}]}`, "a", `{"tools":[{"googleSearch":{}}]}`,
		},
		"other": {protocol.Anthropic, `{"model":"m","max_tokens":1,"tools":[ {"name":"a"} ]}`, "z", `{"model":"m","max_tokens":1,"tools":[ {"name":"a"} ]}`},
	} {
		if got, _ := rewritten(t, tc.p, tc.body, rule(t, "REMOVE", "TOOL", fmt.Sprintf(`,"key":%q`, tc.tool))); got != tc.want {
			t.Errorf("%s: %s became\n%s, want\n%s", name, tc.body, got, tc.want)
		}
	}
}

func TestToolChoiceIsWrittenInTheWordsOfEachProtocol(t *testing.T) {
	t.Parallel()
	tools := map[protocol.Name]string{
		protocol.OpenAIChat:      `"tools":[{"type":"function","function":{"name":"a"}},{"type":"custom","custom":{"name":"b"}}]`,
		protocol.OpenAIResponses: `"tools":[{"type":"function","name":"a"},{"type":"web_search"}]`,
		protocol.Anthropic:       `"tools":[{"name":"a"}],"max_tokens":1`,
		protocol.Gemini:          `"tools":[{"functionDeclarations":[{"name":"a"}]}]`,
	}
	for _, tc := range []struct {
		p                 protocol.Name
		has, choice, want string // members beside the tools
	}{
		{protocol.OpenAIChat, "", "required", `,"tool_choice":"required"`},
		{protocol.OpenAIChat, `,"tool_choice":"auto"`, "none", `,"tool_choice":"none"`},
		{protocol.OpenAIChat, "", "a", `,"tool_choice":{"type":"function","function":{"name":"a"}}`},
		{protocol.OpenAIChat, "", "b", `,"tool_choice":{"type":"custom","custom":{"name":"b"}}`},
		{protocol.OpenAIResponses, "", "a", `,"tool_choice":{"type":"function","name":"a"}`},
		{protocol.OpenAIResponses, "", "web_search", `,"tool_choice":{"type":"web_search"}`},
		{protocol.Anthropic, `,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`, "required", `,"tool_choice":{"type":"any","disable_parallel_tool_use":true}`},
		{protocol.Anthropic, `,"tool_choice":{"type":"tool","name":"a"}`, "none", `,"tool_choice":{"type":"none"}`},
		{protocol.Anthropic, "", "a", `,"tool_choice":{"type":"tool","name":"a"}`},
		{protocol.Gemini, "", "required", `,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`},
		{protocol.Gemini, `,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["a"]}}`, "auto", `,"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}`},
		{protocol.Gemini, "", "a", `,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["a"]}}`},
	} {
		body := `{"model":"m",` + tools[tc.p] + tc.has + `}`
		got, skipped := rewritten(t, tc.p, body, rule(t, "SET", "TOOL_CHOICE", fmt.Sprintf(`,"value":{"stringValue":%q}`, tc.choice)))
		if want := `{"model":"m",` + tools[tc.p] + tc.want + `}`; got != want || len(skipped) > 0 {
			t.Errorf("%s: %s: %s became\n%s, want\n%s", tc.p, tc.choice, body, got, want)
		}
		if _, skipped := rewritten(t, tc.p, body, rule(t, "SET", "TOOL_CHOICE", `,"value":{"stringValue":"unknown_tool"}`)); !slices.Equal(skipped, []string{"set tool_choice"}) {
			t.Errorf("%s: a tool that is not offered was chosen: %q", tc.p, skipped)
		}
	}
}

func TestRewritesFollowOneAnother(t *testing.T) {
	t.Parallel()
	got, _ := rewritten(
		t, protocol.Anthropic, `{"model":"m","max_tokens":100,"top_k":5}`,
		rule(t, "SET", "MAX_OUTPUT_TOKENS", `,"value":{"intValue":"90000"}`), rule(t, "CLAMP", "MAX_OUTPUT_TOKENS", `,"max":"40000"`),
		rule(t, "SET", "REASONING_BUDGET", `,"value":{"intValue":"50000"}`), rule(t, "CLAMP", "REASONING_BUDGET", `,"max":"30000"`),
		rule(t, "REMOVE", "TOP_K", ``), rule(t, "DEFAULT", "TOP_K", `,"value":{"intValue":"7"}`))
	const want = `{"model":"m","max_tokens":40000,"thinking":{"type":"enabled","budget_tokens":30000},"top_k":7}`
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestHeadersThatConfigurationMustNotTouchAreLeftAlone(t *testing.T) {
	t.Parallel()
	var rules []*configv1.Rewrite
	for _, name := range []string{"Host", "Connection", "Authorization", "x-api-key", "X-Goog-Api-Key", "cookie", "Content-Length", "x-gateway-class"} {
		rules = append(rules, rule(t, "SET", "HEADER", fmt.Sprintf(`,"key":%q,"value":{"stringValue":"x"}`, name)), rule(t, "REMOVE", "HEADER", fmt.Sprintf(`,"key":%q`, name)))
	}
	rules = append(rules, rule(t, "SET", "HEADER", `,"key":"x-team","value":{"stringValue":"blue"}`))
	got := Headers([]*configv1.LogicalRoute{{Rewrites: rules}})
	if len(got) != 1 || got[0].GetName() != "X-Team" || got[0].GetValue() != "blue" {
		t.Errorf("%v", got)
	}
}

// pieces are members that bodies are made of, with which no rewrite of settings collides.
var pieces = map[protocol.Name][]string{
	protocol.OpenAIChat: {
		`"model":"m"`, `"messages":[{"role":"user","content":"tempera\"ture: 1"}]`, `"temperature":0.7`, `"top_p":1`, `"max_tokens":512`, `"max_completion_tokens":77`,
		`"reasoning_effort":"low"`, `"stream":true`, `"metadata":{"temperature":"3","\u0061":[1,2,{}]}`, `"seed":null`, `"x":"é\u00e9"`,
	},
	protocol.OpenAIResponses: {
		`"model":"m"`, `"input":"max_output_tokens"`, `"temperature":0.7`, `"top_p":1`, `"max_output_tokens":512`, `"reasoning":{"effort":"low","summary":"auto"}`,
		`"metadata":{"top_p":"3"}`, `"text":{"format":{"type":"text"}}`, `"truncation":null`,
	},
	protocol.Anthropic: {
		`"model":"m"`, `"max_tokens":4096`, `"messages":[{"role":"user","content":"{}"}]`, `"temperature":0.7`, `"top_p":1`, `"top_k":3`, `"system":"x"`,
		`"thinking":{"type":"enabled","budget_tokens":2000}`, `"output_config":{"effort":"low"}`, `"metadata":{"user_id":"u"}`,
	},
	protocol.Gemini: {
		`"contents":[{"parts":[{"text":"generationConfig"}]}]`, `"generationConfig":{"temperature":0.7,"topP":1,"maxOutputTokens":512,"thinkingConfig":{"thinkingBudget":3}}`,
		`"safetySettings":[]`, `"labels":{"a":"b"}`, `"systemInstruction":{"parts":[{"text":"x"}]}`,
	},
}

// bodies are made of pieces in any order, with any white space between tokens.
func bodies(p protocol.Name) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		chosen := rapid.Permutation(pieces[p]).Draw(t, "order")
		chosen = chosen[:rapid.IntRange(0, len(chosen)).Draw(t, "members")]
		if p != protocol.Gemini && !slices.Contains(chosen, `"model":"m"`) {
			chosen = append(chosen, `"model":"m"`)
		}
		space := func() string { return rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space") }
		var b strings.Builder
		quoted := false
		text := "{" + strings.Join(chosen, ",") + "}"
		for i := range len(text) {
			c := text[i]
			if c == '"' && (i == 0 || text[i-1] != '\\') {
				quoted = !quoted
			}
			around := !quoted && strings.IndexByte(`{}[],:`, c) >= 0
			if around {
				b.WriteString(space())
			}
			b.WriteByte(c)
			if around {
				b.WriteString(space())
			}
		}
		return b.String()
	})
}

func rules() *rapid.Generator[*configv1.Rewrite] {
	return rapid.Custom(func(t *rapid.T) *configv1.Rewrite {
		field := rapid.SampledFrom([]string{"TEMPERATURE", "TOP_P", "TOP_K", "MAX_OUTPUT_TOKENS", "REASONING_EFFORT", "REASONING_BUDGET", "TOOL_CHOICE", "TOOL"}).Draw(t, "field")
		op := rapid.SampledFrom([]string{"SET", "DEFAULT", "CLAMP", "REMOVE"}).Draw(t, "operation")
		n := rapid.IntRange(0, 4000).Draw(t, "number")
		rest := ""
		switch {
		case field == "TOOL":
			op, rest = "REMOVE", `,"key":"a"`
		case field == "REASONING_EFFORT" || field == "TOOL_CHOICE":
			if op == "CLAMP" {
				op = "SET"
			}
			rest = fmt.Sprintf(`,"value":{"stringValue":%q}`, rapid.SampledFrom([]string{"none", "low", "high", "max"}).Draw(t, "word"))
		case op == "CLAMP":
			rest = fmt.Sprintf(`,"max":"%d"`, n)
		case op != "REMOVE":
			rest = fmt.Sprintf(`,"value":{"intValue":"%d"}`, n)
		}
		return rule(t, op, field, rest)
	})
}

// names are the top-level members that rewrites may change.
var names = []string{
	"temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "max_output_tokens", "reasoning_effort", "reasoning", "thinking", "output_config",
	"tool_choice", "tools", "parallel_tool_calls", "generationConfig", "toolConfig",
}

func TestEveryByteOutsideOfWhatIsRewrittenStays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(all).Draw(t, "protocol")
		body := bodies(p).Draw(t, "body")
		got, skipped := rewritten(t, p, body, rapid.SliceOfN(rules(), 0, 6).Draw(t, "rules")...)
		target := protocol.Target{Protocol: p, Op: protocol.OpGenerate, Model: "m"}
		before, _ := codecs[p].Inspect([]byte(body), target)
		after, _ := codecs[p].Inspect([]byte(got), target)
		left := func(text string, s *protocol.Shape) (out []string) {
			for _, m := range s.Members {
				if !slices.Contains(names, m.Name) {
					out = append(out, m.Name+string(m.Value.Of([]byte(text))))
				}
			}
			return out
		}
		if was, is := left(body, before), left(got, after); !slices.Equal(was, is) {
			t.Fatalf("%s became %s (skipped %q): %q, then %q", body, got, skipped, was, is)
		}
	})
}

// A setting that is a number of its own becomes what the rule says, and the same rule
// changes nothing more.
func TestNumbersBecomeWhatTheRuleSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(all).Draw(t, "protocol")
		body := bodies(p).Draw(t, "body")
		field := rapid.SampledFrom([]string{"TEMPERATURE", "TOP_P", "MAX_OUTPUT_TOKENS"}).Draw(t, "field")
		n := rapid.SampledFrom([]int{0, 1, 2, 60, 76, 77, 78, 300, 511, 512, 513, 4000, 5000}).Draw(t, "number")
		setting := settings[configv1.RewriteField(configv1.RewriteField_value["REWRITE_FIELD_"+field])]
		read := func(text string) (out []float64) {
			for _, path := range setting.Paths(p) {
				var v any
				if err := json.Unmarshal([]byte(text), &v); err != nil {
					t.Fatalf("%v in %s", err, text)
				}
				for _, name := range path {
					m, _ := v.(map[string]any)
					v = m[name]
				}
				if f, ok := v.(float64); ok {
					out = append(out, f)
				}
			}
			return out
		}
		was := read(body)
		want := map[string]func() []float64{
			"SET": func() []float64 {
				out := make([]float64, max(len(was), 1))
				for i := range out {
					out[i] = float64(n)
				}
				return out
			},
			"DEFAULT": func() []float64 {
				if len(was) > 0 {
					return was
				}
				return []float64{float64(n)}
			},
			"CLAMP": func() (out []float64) {
				for _, v := range was {
					out = append(out, min(v, float64(n)))
				}
				return out
			},
			"REMOVE": func() []float64 {
				if p == protocol.Anthropic && field == "MAX_OUTPUT_TOKENS" {
					return was
				}
				return nil
			},
		}
		op := rapid.SampledFrom([]string{"SET", "DEFAULT", "CLAMP", "REMOVE"}).Draw(t, "operation")
		rest := map[string]string{"CLAMP": fmt.Sprintf(`,"max":"%d"`, n), "REMOVE": ""}
		with, ok := rest[op]
		if !ok {
			with = fmt.Sprintf(`,"value":{"intValue":"%d"}`, n)
		}
		rw := rule(t, op, field, with)
		got, _ := rewritten(t, p, body, rw)
		if is := read(got); !reflect.DeepEqual(is, want[op]()) {
			t.Fatalf("%s: %s became %s: %v, want %v", nameOf(rw), body, got, is, want[op]())
		}
		if again, _ := rewritten(t, p, got, rw); again != got {
			t.Fatalf("%s: %s became %s and then %s", nameOf(rw), body, got, again)
		}
	})
}

func FuzzEdits(f *testing.F) {
	for i, p := range all {
		f.Add(uint8(i), []byte("{"+strings.Join(pieces[p], ",")+"}"))
		f.Add(uint8(i), []byte(`{"model":"m","tools":[{"functionDeclarations":[{"name":"a"}]},{"name":"a"},7],"tool_choice":[],"toolConfig":null,"thinking":1,"generationConfig":[]}`))
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		p := all[int(which)%len(all)]
		target := protocol.Target{Protocol: p, Op: protocol.OpGenerate, Model: "m"}
		s, fail := codecs[p].Inspect(body, target)
		if fail != nil || len(s.Members) > protocol.MaxMembers-16 {
			return
		}
		rewritten(
			t, p, string(body), rule(t, "REMOVE", "TOOL", `,"key":"a"`), rule(t, "SET", "TOOL_CHOICE", `,"value":{"stringValue":"required"}`),
			rule(t, "SET", "REASONING_BUDGET", `,"value":{"intValue":"5000"}`), rule(t, "SET", "REASONING_EFFORT", `,"value":{"stringValue":"high"}`),
			rule(t, "CLAMP", "MAX_OUTPUT_TOKENS", `,"min":"1","max":"3000"`), rule(t, "REMOVE", "TOP_P", ``), rule(t, "DEFAULT", "TOP_K", `,"value":{"intValue":"3"}`),
			rule(t, "SET", "TEMPERATURE", `,"value":{"numberValue":0.5}`))
	})
}

func BenchmarkEdits(b *testing.B) {
	for _, size := range []int{1 << 10, 200 << 10} {
		body := []byte(`{"model":"m","temperature":1,"messages":[{"role":"user","content":"` + strings.Repeat("a", size) + `"}],"max_tokens":100000}`)
		s, f := codecs[protocol.OpenAIChat].Inspect(body, protocol.Target{Protocol: protocol.OpenAIChat, Op: protocol.OpGenerate})
		if f != nil {
			b.Fatal(f)
		}
		routes := []*configv1.LogicalRoute{{Rewrites: []*configv1.Rewrite{
			rule(b, "SET", "TEMPERATURE", `,"value":{"numberValue":0.5}`), rule(b, "CLAMP", "MAX_OUTPUT_TOKENS", `,"max":"4000"`),
		}}}
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if edits, _ := Edits(routes, body, s, protocol.OpenAIChat); len(edits) != 2 {
					b.Fatal(edits)
				}
			}
		})
	}
}
