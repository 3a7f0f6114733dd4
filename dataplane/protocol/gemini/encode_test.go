package gemini_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
)

func contentsOf(t testing.TB, body []byte) []any {
	t.Helper()
	list, _ := at(t, value(t, body), "contents").([]any)
	return list
}

// sign is a signature of the provider's own.
var sign = llm.State{Kind: llm.GeminiSignature, Data: "EqQBCqEB"}

func TestConvT07_ResultsStandInTheOrderOfTheirCalls(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e", "f"}
	calls, answers := make([]llm.Part, 0, 6), make([]llm.Part, 0, 6)
	for _, n := range names {
		calls = append(calls, call("toolu_"+n, n, `{}`))
		answers = append(answers, result("toolu_"+n, "of "+n))
	}
	slices.Reverse(answers)
	body := encode(t, ask(user("Hi"), assistant(calls...), results(answers...)), conversion(protocol.Anthropic, protocol.Gemini))
	accepted(t, body, "gemini-3-pro")
	parts, _ := at(t, contentsOf(t, body)[2], "parts").([]any)
	if len(parts) != 6 {
		t.Fatalf("%d parts, want 6: %s", len(parts), body)
	}
	for i, n := range names {
		r := at(t, parts, i, "functionResponse")
		if at(t, r, "name") != n || at(t, r, "id") != "toolu_"+n || at(t, r, "response", "output") != "of "+n {
			t.Errorf("result %d is %v, want that of %s", i, r, n)
		}
	}
}

func TestConvT08_ResultsInARowAreOneContent(t *testing.T) {
	t.Parallel()
	body := encode(t, ask(user("Hi"), assistant(call("1", "a", ""), call("2", "b", "")), results(result("1", "x")), results(result("2", "y")), user("And?")),
		conversion(protocol.OpenAIChat, protocol.Gemini))
	accepted(t, body, "gemini-3-pro")
	contents := contentsOf(t, body)
	if len(contents) != 3 {
		t.Fatalf("%d contents, want 3: %s", len(contents), body)
	}
	if parts, _ := at(t, contents, 2, "parts").([]any); len(parts) != 3 || at(t, parts, 2, "text") != "And?" {
		t.Errorf("the last content has %v, want two results and then the text", parts)
	}
}

func TestConvT09_CallsOfOneStepAreOneContent(t *testing.T) {
	t.Parallel()
	body := encode(t, ask(user("Hi"), assistant(call("1", "a", "")), assistant(call("2", "b", "")), results(result("2", "y")), results(result("1", "x"))),
		conversion(protocol.OpenAIResponses, protocol.Gemini))
	accepted(t, body, "gemini-3-pro")
	contents := contentsOf(t, body)
	if calls, _ := at(t, contents, 1, "parts").([]any); len(contents) != 3 || len(calls) != 2 {
		t.Errorf("%d contents, want 3 with two calls in the second: %s", len(contents), body)
	}
}

func TestConvT10_IDsOfOursAreNotSent(t *testing.T) {
	t.Parallel()
	body := encode(t, ask(user("Hi"), assistant(call("gwc_abc", "a", ""), call("call_1", "a", "")), results(result("gwc_abc", "x"), result("call_1", "y"))),
		conversion(protocol.OpenAIChat, protocol.Gemini))
	if strings.Contains(string(body), "gwc_") || strings.Count(string(body), `"id":"call_1"`) != 2 {
		t.Errorf("want the id call_1 twice and no other: %s", body)
	}
}

func TestConvT19_SchemasOfToolsGoOutUnchanged(t *testing.T) {
	t.Parallel()
	schema := `{ "$schema":"https://json-schema.org/draft/2020-12/schema","type":["object","null"], "additionalProperties":false,"properties":{"z":{"$ref":"#/$defs/n"},"a":{"const":1.0}},"$defs":{"n":{"oneOf":[{"type":"integer"}]}}}`
	r := ask(user("Hi"))
	r.Tools = []llm.Tool{{Name: "f", Description: "d", Schema: []byte(schema)}, {Name: "g"}}
	body := encode(t, r, conversion(protocol.OpenAIChat, protocol.Gemini))
	accepted(t, body, "gemini-3-pro")
	if !strings.Contains(string(body), `"parametersJsonSchema":`+schema) || strings.Contains(string(body), `"parameters"`) {
		t.Errorf("want parametersJsonSchema with the bytes of the schema: %s", body)
	}
}

func TestConvP04_AnswersBySchemaAskForJSON(t *testing.T) {
	t.Parallel()
	r := ask(user("Hi"))
	r.Format = llm.Format{Kind: llm.FormatSchema, Name: "n", Schema: []byte(`{"type":"object","additionalProperties":false}`)}
	body := encode(t, r, conversion(protocol.OpenAIChat, protocol.Gemini))
	accepted(t, body, "gemini-3-pro")
	want := map[string]any{"responseMimeType": "application/json", "responseJsonSchema": map[string]any{"type": "object", "additionalProperties": false}}
	if diff := cmp.Diff(any(want), at(t, value(t, body), "generationConfig")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConvP05_DocumentsAreInlineData(t *testing.T) {
	t.Parallel()
	media := func(m llm.Media) llm.Part { return llm.Part{Kind: llm.PartMedia, Media: &m} }
	for name, tc := range map[string]struct {
		media llm.Media
		want  string
	}{
		"pdf":         {llm.Media{Kind: llm.Document, MIME: "application/pdf", Data: "JVBERi0="}, `{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0="}}`},
		"no type":     {llm.Media{Kind: llm.Image, Data: "iVBORw0KGgo="}, `{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}`},
		"text":        {llm.Media{Kind: llm.Document, Text: "Hello"}, `{"inlineData":{"mimeType":"text/plain","data":"SGVsbG8="}}`},
		"bucket":      {llm.Media{Kind: llm.Document, URL: "gs://b/a.pdf"}, `{"fileData":{"mimeType":"application/pdf","fileUri":"gs://b/a.pdf"}}`},
		"its own":     {llm.Media{Kind: llm.Image, URL: "https://generativelanguage.googleapis.com/v1beta/files/a"}, `{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/a"}}`},
		"audio":       {llm.Media{Kind: llm.Audio, MIME: "audio/mpeg", Data: "AAAA"}, `{"inlineData":{"mimeType":"audio/mpeg","data":"AAAA"}}`},
		"name unsaid": {llm.Media{Kind: llm.Document, MIME: "application/pdf", Data: "JVBERi0=", Name: "a.pdf"}, `{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0="}}`},
	} {
		body := encode(t, ask(llm.Message{Role: llm.RoleUser, Parts: []llm.Part{media(tc.media)}}), conversion(protocol.OpenAIChat, protocol.Gemini))
		accepted(t, body, "gemini-3-pro")
		if diff := cmp.Diff(value(t, []byte(tc.want)), at(t, contentsOf(t, body), 0, "parts", 0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// An address on the web is not fetched here. Declared so, the provider is told of it.
func TestAddressesOnTheWebAreRefusedUnlessDeclared(t *testing.T) {
	t.Parallel()
	r := ask(llm.Message{Role: llm.RoleUser, Parts: []llm.Part{{Text: "See"}, {Kind: llm.PartMedia, Media: &llm.Media{Kind: llm.Image, URL: "https://img.example/a.png"}}}})
	c := conversion(protocol.OpenAIChat, protocol.Gemini)
	if _, f := gemini.New().EncodeRequest(r, c); f == nil || f.Class != fault.RequestNotSupported || !strings.Contains(f.Public, "openai_chat.image_url=drop") {
		t.Errorf("got %v, want a refusal that tells what to declare", f)
	}
	for action, want := range map[protocol.Action]string{
		protocol.Drop:       `[{"text":"See"}]`,
		protocol.Substitute: `[{"text":"See"},{"fileData":{"mimeType":"image/png","fileUri":"https://img.example/a.png"}}]`,
	} {
		c := conversion(protocol.OpenAIChat, protocol.Gemini)
		c.Options = protocol.Options{"openai_chat.image_url": action}
		if diff := cmp.Diff(value(t, []byte(want)), at(t, contentsOf(t, encode(t, r, c)), 0, "parts")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", action, diff)
		}
		if c.LossyHeader() != "image_url="+action.String() {
			t.Errorf("%s is told as %q", action, c.LossyHeader())
		}
	}
}

// The first call of each step of the current turn has a signature: its own, or the value
// that the vendor documents.
func TestConvR08_CallsHaveTheirSignatures(t *testing.T) {
	t.Parallel()
	foreign := llm.State{Kind: llm.GeminiSignature, Data: "b3RoZXI=", Foreign: true}
	anthropic := llm.State{Kind: llm.AnthropicSignature, Data: "sig"}
	older := &configv1.Compat{NoThinkingLevel: true}
	step := func(id string, p ...llm.Part) []llm.Message {
		parts := []llm.Part{call(id, "f", "{}"), call(id+"b", "f", "{}")}
		for i := range p {
			parts[i].State = p[i].State
		}
		return []llm.Message{assistant(parts...), results(result(id, "x"), result(id+"b", "y"))}
	}
	none, with := llm.Part{}, func(s llm.State) llm.Part { return llm.Part{State: &s} }
	const bypass = "skip_thought_signature_validator"
	for name, tc := range map[string]struct {
		messages [][]llm.Message
		compat   *configv1.Compat
		want     string // signatures of all calls, - for none
		lossy    string
	}{
		"its own":                  {[][]llm.Message{{user("Hi")}, step("1", with(sign))}, nil, sign.Data + " -", ""},
		"on every call":            {[][]llm.Message{{user("Hi")}, step("1", with(sign), with(sign))}, nil, sign.Data + " " + sign.Data, ""},
		"none":                     {[][]llm.Message{{user("Hi")}, step("1")}, nil, bypass + " -", "reasoning_state=substitute"},
		"of another account":       {[][]llm.Message{{user("Hi")}, step("1", with(foreign))}, nil, bypass + " -", "reasoning_state=substitute"},
		"of another maker":         {[][]llm.Message{{user("Hi")}, step("1", with(anthropic))}, nil, bypass + " -", "reasoning_state=substitute"},
		"each step":                {[][]llm.Message{{user("Hi")}, step("1", with(sign)), step("2", none)}, nil, sign.Data + " - " + bypass + " -", "reasoning_state=substitute"},
		"of turns before, too":     {[][]llm.Message{{user("Hi")}, step("1"), {user("Go on")}, {assistant(llm.Part{Text: "Yes"}), user("More")}, step("2", with(sign))}, nil, bypass + " - " + sign.Data + " -", "reasoning_state=substitute"},
		"results with a text":      {[][]llm.Message{{user("Hi")}, step("1"), {user("Go on")}, step("2")}, nil, bypass + " - " + bypass + " -", "reasoning_state=substitute"},
		"models that ask for none": {[][]llm.Message{{user("Hi")}, step("1")}, older, "- -", ""},
	} {
		r := ask(slices.Concat(tc.messages...)...)
		c := conversion(protocol.OpenAIChat, protocol.Gemini)
		c.Compat = tc.compat
		body := encode(t, r, c)
		var got []string
		for _, content := range contentsOf(t, body) {
			parts, _ := at(t, content, "parts").([]any)
			for _, p := range parts {
				if at(t, p, "functionCall") == nil {
					continue
				}
				s, _ := at(t, p, "thoughtSignature").(string)
				if s == "" {
					s = "-"
				}
				got = append(got, s)
			}
		}
		if strings.Join(got, " ") != tc.want || c.LossyHeader() != tc.lossy {
			t.Errorf("%s: signatures %v, lossy %q; want %s, %q", name, got, c.LossyHeader(), tc.want, tc.lossy)
		}
		if tc.compat == nil && !strings.Contains(tc.want, sign.Data) {
			accepted(t, body, "gemini-3-pro")
		}
	}
}

func TestReasoningOfOthersStaysBehind(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Anthropic, protocol.Gemini)
	body := encode(t, ask(user("Hi"), assistant(
		llm.Part{Kind: llm.PartReasoning, Text: "secret thought", State: &llm.State{Kind: llm.AnthropicSignature, Data: "sig"}},
		llm.Part{Kind: llm.PartRedacted, State: &llm.State{Kind: llm.AnthropicRedacted, Data: "red"}},
		signed(llm.Part{Kind: llm.PartReasoning, Text: "own thought"}, sign),
		signed(llm.Part{Text: "Well"}, sign),
	), user("And?")), c)
	want := `[{"text":"own thought","thought":true,"thoughtSignature":"EqQBCqEB"},{"text":"Well","thoughtSignature":"EqQBCqEB"}]`
	if diff := cmp.Diff(value(t, []byte(want)), at(t, contentsOf(t, body), 1, "parts")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := c.LossyHeader(); got != "reasoning_state=substitute, reasoning_text=drop" {
		t.Errorf("lossy %q", got)
	}
}

func TestThinkingIsAskedForAsTheModelKnowsIt(t *testing.T) {
	t.Parallel()
	older := &configv1.Compat{NoThinkingLevel: true}
	for name, tc := range map[string]struct {
		want          llm.Reasoning
		level, budget string // thinkingConfig, for current and for older models
		lossy         string
	}{
		"nothing":       {llm.Reasoning{}, `null`, `null`, ""},
		"low":           {llm.Reasoning{Effort: llm.EffortLow}, `{"thinkingLevel":"LOW"}`, `{"thinkingBudget":2048}`, ""},
		"max":           {llm.Reasoning{Effort: llm.EffortMax}, `{"thinkingLevel":"HIGH"}`, `{"thinkingBudget":65536}`, "reasoning=substitute"},
		"none":          {llm.Reasoning{Off: true, Effort: llm.EffortNone}, `{"thinkingLevel":"MINIMAL"}`, `{"thinkingBudget":0}`, "reasoning=substitute"},
		"budget":        {llm.Reasoning{Budget: 5000, Show: true}, `{"includeThoughts":true,"thinkingLevel":"MEDIUM"}`, `{"includeThoughts":true,"thinkingBudget":5000}`, "reasoning_budget=substitute"},
		"adaptive":      {llm.Reasoning{On: true, Show: true}, `{"includeThoughts":true}`, `{"includeThoughts":true,"thinkingBudget":-1}`, ""},
		"adaptive, low": {llm.Reasoning{On: true, Effort: llm.EffortLow}, `{"thinkingLevel":"LOW"}`, `{"thinkingBudget":2048}`, ""},
		"summary":       {llm.Reasoning{Effort: llm.EffortHigh, Summary: "auto"}, `{"includeThoughts":true,"thinkingLevel":"HIGH"}`, `{"includeThoughts":true,"thinkingBudget":16384}`, ""},
		"hidden":        {llm.Reasoning{Hide: true}, `{"includeThoughts":false}`, `{"includeThoughts":false}`, ""},
	} {
		for _, compat := range []*configv1.Compat{nil, older} {
			r := ask(user("Hi"))
			r.Reasoning = tc.want
			c := conversion(protocol.Anthropic, protocol.Gemini)
			c.Compat = compat
			body := encode(t, r, c)
			accepted(t, body, "gemini-3-pro")
			want, lossy := tc.level, tc.lossy
			if compat != nil {
				want, lossy = tc.budget, ""
			}
			got, _ := json.Marshal(at(t, value(t, body), "generationConfig", "thinkingConfig"))
			if string(got) != want || c.LossyHeader() != lossy {
				t.Errorf("%s, older %v: %s, lossy %q; want %s, %q", name, compat != nil, got, c.LossyHeader(), want, lossy)
			}
		}
	}
}

func TestConvR02_EffortReachesTheModel(t *testing.T) {
	t.Parallel()
	r := ask(user("Hi"))
	r.Reasoning.Effort = llm.EffortMedium
	body := encode(t, r, conversion(protocol.OpenAIResponses, protocol.Gemini))
	if got := at(t, value(t, body), "generationConfig", "thinkingConfig", "thinkingLevel"); got != "MEDIUM" {
		t.Errorf("thinkingLevel %v, want MEDIUM", got)
	}
}

func TestChoicesOfToolsHaveTheirModes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		choice llm.ToolChoice
		want   string
	}{
		"unset":     {llm.ToolChoice{}, `null`},
		"auto":      {llm.ToolChoice{Mode: llm.ChoiceAuto}, `{"mode":"AUTO"}`},
		"auto some": {llm.ToolChoice{Mode: llm.ChoiceAuto, Names: []string{"f"}}, `{"allowedFunctionNames":["f"],"mode":"VALIDATED"}`},
		"none":      {llm.ToolChoice{Mode: llm.ChoiceNone}, `{"mode":"NONE"}`},
		"any":       {llm.ToolChoice{Mode: llm.ChoiceAny}, `{"mode":"ANY"}`},
		"any some":  {llm.ToolChoice{Mode: llm.ChoiceAny, Names: []string{"f", "g"}}, `{"allowedFunctionNames":["f","g"],"mode":"ANY"}`},
		"one":       {llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"g"}}, `{"allowedFunctionNames":["g"],"mode":"ANY"}`},
	} {
		r := ask(user("Hi"))
		r.Tools = []llm.Tool{{Name: "f"}, {Name: "g"}}
		r.ToolChoice = tc.choice
		body := encode(t, r, conversion(protocol.OpenAIChat, protocol.Gemini))
		accepted(t, body, "gemini-3-pro")
		got, _ := json.Marshal(at(t, value(t, body), "toolConfig", "functionCallingConfig"))
		if string(got) != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// Names that the provider does not take are rewritten everywhere alike, and the caller
// gets its own back.
func TestNamesOfToolsAreRewrittenBothWays(t *testing.T) {
	t.Parallel()
	for _, tool := range []llm.Tool{{Name: "3d view"}, {Name: "3d"}, {Name: "-x"}, {Name: "ok.name:1"}, {Name: strings.Repeat("n", 129)}, {Namespace: "files", Name: "read"}} {
		r := ask(user("Hi"), assistant(llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "1", Name: tool.Name, Namespace: tool.Namespace}}), results(result("1", "x")))
		r.Tools = []llm.Tool{tool}
		r.ToolChoice = llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{tool.Name}}
		c := conversion(protocol.OpenAIResponses, protocol.Gemini)
		body := encode(t, r, c)
		accepted(t, body, "gemini-3-pro")
		v := value(t, body)
		sent := at(t, v, "tools", 0, "functionDeclarations", 0, "name")
		for _, other := range []any{
			at(t, v, "toolConfig", "functionCallingConfig", "allowedFunctionNames", 0),
			at(t, v, "contents", 1, "parts", 0, "functionCall", "name"), at(t, v, "contents", 2, "parts", 0, "functionResponse", "name"),
		} {
			if other != sent {
				t.Errorf("%+v is declared as %v and named %v", tool, sent, other)
			}
		}
		a, f := gemini.New().DecodeAnswer([]byte(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"`+sent.(string)+`"}}]},"finishReason":"STOP"}]}`), c)
		if f != nil {
			t.Fatal(f)
		}
		if got := a.Parts[0].Call; got.Name != tool.Name || got.Namespace != tool.Namespace {
			t.Errorf("%+v comes back as %+v", tool, got)
		}
	}
}

func TestTurnsAreAsTheProviderWantsThem(t *testing.T) {
	t.Parallel()
	system := func(text string) llm.Message {
		return llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{{Text: text}}}
	}
	for name, tc := range map[string]struct {
		messages        []llm.Message
		system, want, l string
	}{
		"system first":     {[]llm.Message{system("A"), system("B"), user("Hi")}, `{"parts":[{"text":"A"},{"text":"B"}]}`, `[{"role":"user","parts":[{"text":"Hi"}]}]`, ""},
		"system later":     {[]llm.Message{user("Hi"), assistant(llm.Part{Text: "Yo"}), system("A"), user("Go")}, `null`, `[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"Yo"}]},{"role":"user","parts":[{"text":"<system>\nA\n</system>"},{"text":"Go"}]}]`, "system_position=substitute"},
		"system alone":     {[]llm.Message{system("A")}, `null`, `[{"role":"user","parts":[{"text":"A"}]}]`, "system_position=substitute"},
		"assistant first":  {[]llm.Message{assistant(llm.Part{Text: "Yo"}), user("Hi")}, `null`, `[{"role":"user","parts":[{"text":"(The conversation begins with the assistant.)"}]},{"role":"model","parts":[{"text":"Yo"}]},{"role":"user","parts":[{"text":"Hi"}]}]`, ""},
		"neighbours":       {[]llm.Message{user("A"), user("B")}, `null`, `[{"role":"user","parts":[{"text":"A"},{"text":"B"}]}]`, ""},
		"empty texts":      {[]llm.Message{system(""), user("Hi"), assistant(llm.Part{Text: ""}), user("")}, `null`, `[{"role":"user","parts":[{"text":"Hi"}]}]`, ""},
		"refusal":          {[]llm.Message{user("Hi"), assistant(llm.Part{Kind: llm.PartRefusal, Text: "No"}), user("Please")}, `null`, `[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"No"}]},{"role":"user","parts":[{"text":"Please"}]}]`, "refusal_history=substitute"},
		"marks and names":  {[]llm.Message{{Role: llm.RoleUser, Name: "Ann", Parts: []llm.Part{{Text: "Hi", Cache: llm.Cache1h, Citations: []llm.Citation{{URL: "https://a.example"}}}}}}, `null`, `[{"role":"user","parts":[{"text":"Hi"}]}]`, "cache_control=drop, citation_history=drop, participant_name=drop"},
		"cut arguments":    {[]llm.Message{user("Hi"), assistant(signed(call("1", "f", `{"a":`), sign)), results(result("1", "no"))}, `null`, `[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{"input":"{\"a\":"}},"thoughtSignature":"EqQBCqEB"}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":"no"}}}]}]`, ""},
		"numbers and keys": {[]llm.Message{user("Hi"), assistant(signed(call("1", "f", `{"z":9007199254740993,"a":1.0}`), sign)), results(result("1", ""))}, `null`, `[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{"z":9007199254740993,"a":1.0}},"thoughtSignature":"EqQBCqEB"}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"output":""}}}]}]`, ""},
	} {
		c := conversion(protocol.OpenAIChat, protocol.Gemini)
		body := encode(t, ask(tc.messages...), c)
		if !strings.Contains(tc.want, "thoughtSignature") {
			accepted(t, body, "gemini-3-pro")
		}
		v := value(t, body)
		if diff := cmp.Diff(value(t, []byte(tc.want)), at(t, v, "contents")); diff != "" {
			t.Errorf("%s: contents (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(value(t, []byte(tc.system)), at(t, v, "systemInstruction")); diff != "" {
			t.Errorf("%s: systemInstruction (-want +got):\n%s", name, diff)
		}
		if c.LossyHeader() != tc.l {
			t.Errorf("%s: lossy %q, want %q", name, c.LossyHeader(), tc.l)
		}
		if name == "numbers and keys" && !strings.Contains(string(body), `{"z":9007199254740993,"a":1.0}`) {
			t.Errorf("the arguments were rewritten: %s", body)
		}
	}
}

func TestConversationsThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		r    *llm.Request
		text string
	}{
		"a call without a result": {ask(user("Hi"), assistant(call("1", "f", "")), user("Go")), `The tool call "1" has no result`},
		"a result without a call": {ask(user("Hi"), results(result("1", "x"))), `The result of the tool call "1"`},
		"nothing said":            {ask(user("")), "has no text"},
	} {
		_, f := gemini.New().EncodeRequest(tc.r, conversion(protocol.OpenAIChat, protocol.Gemini))
		if f == nil || f.Class != fault.InvalidRequest || !strings.Contains(f.Public, tc.text) {
			t.Errorf("%s: %v, want an invalid request that says %q", name, f, tc.text)
		}
	}
}

// Media in a result stay in it, or follow the results for models that take none there.
func TestMediaOfResultsFollowTheModel(t *testing.T) {
	t.Parallel()
	older := &configv1.Compat{NoThinkingLevel: true}
	image := llm.Part{Kind: llm.PartMedia, Media: &llm.Media{Kind: llm.Image, MIME: "image/png", Data: "QUJD"}}
	failed := llm.Part{Kind: llm.PartResult, Result: &llm.Result{CallID: "1", Error: true, Parts: []llm.Part{{Text: "a"}, image, {Text: "b"}}}}
	r := ask(user("Hi"), assistant(call("1", "f", ""), call("2", "f", "")), results(failed, result("2", "x")))
	const inline = `{"inlineData":{"mimeType":"image/png","data":"QUJD"}}`
	second := `,{"functionResponse":{"id":"2","name":"f","response":{"output":"x"}}}`
	for _, tc := range []struct {
		compat      *configv1.Compat
		want, lossy string
	}{
		{nil, `[{"functionResponse":{"id":"1","name":"f","response":{"error":"a\nb"},"parts":[` + inline + `]}}` + second + `]`, "reasoning_state=substitute"},
		{older, `[{"functionResponse":{"id":"1","name":"f","response":{"error":"a\nb"}}}` + second + `,` + inline + `]`, "tool_result_media=substitute"},
	} {
		c := conversion(protocol.Anthropic, protocol.Gemini)
		c.Compat = tc.compat
		body := encode(t, r, c)
		if diff := cmp.Diff(value(t, []byte(tc.want)), at(t, contentsOf(t, body), 2, "parts")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if c.LossyHeader() != tc.lossy {
			t.Errorf("lossy %q, want %q", c.LossyHeader(), tc.lossy)
		}
	}
}
