package openaichat_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

func text(s string) llm.Part { return llm.Part{Kind: llm.PartText, Text: s} }

func call(id, name, arguments string) llm.Part {
	return llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: id, Name: name, Arguments: arguments}}
}

func result(id string, parts ...llm.Part) llm.Part {
	return llm.Part{Kind: llm.PartResult, Result: &llm.Result{CallID: id, Parts: parts}}
}

func media(m llm.Media) llm.Part { return llm.Part{Kind: llm.PartMedia, Media: &m} }

func says(r llm.Role, parts ...llm.Part) llm.Message { return llm.Message{Role: r, Parts: parts} }

// asked is a request of some messages.
func asked(messages ...llm.Message) *llm.Request {
	if len(messages) == 0 {
		messages = []llm.Message{says(llm.RoleUser, text("hi"))}
	}
	return &llm.Request{Model: "public", Messages: messages}
}

var png = llm.Media{Kind: llm.Image, MIME: "image/png", Data: "iVBORw0KGgo="}

// accepted sends a request to a provider that refuses what the vendor refuses.
func accepted(t tb, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer k")
	r.Header.Set("Content-Type", "application/json")
	strictProvider.ServeHTTP(w, r)
	if w.Code != 200 {
		t.Errorf("status %d: %s for\n%s", w.Code, w.Body, body)
	}
}

var strictProvider = fakeprovider.New(fakeprovider.Config{Strict: true})

func refused(t testing.TB, r *llm.Request, c *protocol.Conversion, class fault.Class, says string) {
	t.Helper()
	out, f := openaichat.New().EncodeRequest(r, c)
	if f == nil || f.Class != class || !strings.Contains(f.Public, says) {
		t.Errorf("got %s, %v (%q), want %v that says %q", out, f, f.Text(), class, says)
	}
}

func TestConvT14_ImageOfAResultFollowsInAMessageOfTheUser(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Anthropic)
	body := encode(t, asked(says(llm.RoleUser, text("look")), says(llm.RoleAssistant, call("toolu_1", "shot", `{}`)),
		says(llm.RoleTool, result("toolu_1", text("taken"), media(png))), says(llm.RoleUser, text("well?"))), c)
	same(t, body, `{"model":"upstream","messages":[{"role":"user","content":"look"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"shot","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"toolu_1","content":"taken"},
		{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},
		{"role":"user","content":"well?"}]}`)
	wantLost(t, c, "tool_result_media=substitute")
	accepted(t, body)
}

// Media of several results follow all of the tool messages and say whose they are.
func TestConvT14_MediaOfSeveralResultsSayWhoseTheyAre(t *testing.T) {
	t.Parallel()
	body := encode(t, asked(says(llm.RoleUser, text("look")), says(llm.RoleAssistant, call("a", "shot", `{}`), call("b", "shot", `{}`)),
		says(llm.RoleTool, result("b", media(png)), result("a", text("x")))), conversion(protocol.Anthropic))
	same(t, body, `{"model":"upstream","messages":[{"role":"user","content":"look"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"shot","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"shot","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"a","content":"x"},{"role":"tool","tool_call_id":"b","content":"The result is in the next message."},
		{"role":"user","content":[{"type":"text","text":"From the result of the tool call b:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]}`)
	accepted(t, body)
}

func TestConvT11_ToolMessageFollowsTheMessageWithTheCalls(t *testing.T) {
	t.Parallel()
	body := encode(t, asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, call("c", "f", "{}")), says(llm.RoleAssistant, text("calling")),
		says(llm.RoleTool, result("c", text("r")))), conversion(protocol.OpenAIResponses))
	same(t, body, `{"model":"upstream","messages":[{"role":"user","content":"hi"},
		{"role":"assistant","content":"calling","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c","content":"r"}]}`)
	accepted(t, body)
}

// Calls that another protocol tells one by one are one message, and what stands
// between them and their results comes after these.
func TestCallsOfOneTurnAreOneMessage(t *testing.T) {
	t.Parallel()
	body := encode(t, asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, text("so")), says(llm.RoleAssistant, call("a", "f", "{}")), says(llm.RoleAssistant, call("b", "f", "{}")),
		says(llm.RoleSystem, text("note")), says(llm.RoleTool, result("b", text("2"))), says(llm.RoleTool, result("a", text("1")))), conversion(protocol.OpenAIResponses))
	same(t, body, `{"model":"upstream","messages":[{"role":"user","content":"hi"},
		{"role":"assistant","content":"so","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"a","content":"1"},{"role":"tool","tool_call_id":"b","content":"2"},{"role":"system","content":"note"}]}`)
	accepted(t, body)
}

func TestUnpairedCallsAreRefused(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*llm.Request{
		"no result": asked(says(llm.RoleAssistant, call("c", "f", "{}")), says(llm.RoleUser, text("x"))),
		"no call":   asked(says(llm.RoleUser, text("x")), says(llm.RoleTool, result("c", text("r")))),
		"twice":     asked(says(llm.RoleAssistant, call("c", "f", "{}")), says(llm.RoleTool, result("c", text("r")), result("c", text("r")))),
	} {
		_, f := openaichat.New().EncodeRequest(r, conversion(protocol.Anthropic))
		if f == nil || f.Class != fault.InvalidRequest || !strings.Contains(f.Public, `"c"`) {
			t.Errorf("%s: got %v, want a refusal that names the call", name, f)
		}
	}
}

func TestFailedResultIsMarked(t *testing.T) {
	t.Parallel()
	failed := result("c", text("no such file"))
	failed.Result.Error = true
	r := asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, call("c", "f", "{}")), says(llm.RoleTool, failed))
	c := conversion(protocol.Anthropic)
	if got := member(t, encode(t, r, c), "messages", 2, "content"); got != "The tool failed:\nno such file" {
		t.Errorf("content %q", got)
	}
	wantLost(t, c, "tool_result_error=substitute")
	c.Options = protocol.Options{"anthropic_messages.tool_result_error": protocol.Reject}
	refused(t, r, c, fault.RequestNotSupported, "tool_result_error")
}

// A result that is a JSON value is told as its text.
func TestResultThatIsAValueIsItsText(t *testing.T) {
	t.Parallel()
	r := asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, call("c", "f", "")),
		says(llm.RoleTool, llm.Part{Kind: llm.PartResult, Result: &llm.Result{CallID: "c", Raw: `{"n": 1.0}`}}))
	body := encode(t, r, conversion(protocol.Gemini))
	if got := member(t, body, "messages", 2, "content"); got != `{"n": 1.0}` {
		t.Errorf("content %q", got)
	}
	if got := member(t, body, "messages", 1, "tool_calls", 0, "function", "arguments"); got != "{}" {
		t.Errorf("arguments of a call without any: %q, want {}", got)
	}
}

func TestConvP01_OneStopStringStaysAList(t *testing.T) {
	t.Parallel()
	r := asked()
	r.Stop = []string{"END"}
	if got := encode(t, r, conversion(protocol.Anthropic)); !strings.Contains(got, `"stop":["END"]`) {
		t.Errorf("got %s", got)
	}
	r.Stop = []string{"1", "2", "3", "4", "5"}
	refused(t, r, conversion(protocol.Gemini), fault.RequestNotSupported, "generationConfig.stopSequences")
	c := conversion(protocol.Gemini)
	c.Options = protocol.Options{"gemini_generate_content.stop": protocol.Drop}
	if got := encode(t, r, c); !strings.Contains(got, `"stop":["1","2","3","4"]`) {
		t.Errorf("got %s", got)
	}
}

func TestConvP02_CacheKeyIsForwarded(t *testing.T) {
	t.Parallel()
	r := asked()
	r.CacheKey = "thread-7"
	if got := member(t, encode(t, r, conversion(protocol.OpenAIResponses)), "prompt_cache_key"); got != "thread-7" {
		t.Errorf("prompt_cache_key %v", got)
	}
}

func TestConvR02_EffortReachesTheUpstream(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		want llm.Reasoning
		sent any
		lost []string
	}{
		"effort":          {llm.Reasoning{Effort: llm.EffortHigh}, "high", nil},
		"off":             {llm.Reasoning{Off: true}, "none", nil},
		"adaptive":        {llm.Reasoning{On: true}, nil, nil},
		"budget":          {llm.Reasoning{Budget: 8192}, "medium", []string{"reasoning_budget=substitute"}},
		"model's budget":  {llm.Reasoning{Budget: -1}, nil, nil},
		"effort, budget":  {llm.Reasoning{Effort: llm.EffortLow, Budget: 9000}, "low", []string{"reasoning_budget=substitute"}},
		"shown":           {llm.Reasoning{Effort: llm.EffortLow, Show: true}, "low", []string{"reasoning_display=drop"}},
		"nothing is said": {llm.Reasoning{}, nil, nil},
	} {
		r := asked()
		r.Reasoning = tc.want
		c := conversion(protocol.Anthropic)
		if got := member(t, encode(t, r, c), "reasoning_effort"); got != tc.sent {
			t.Errorf("%s: reasoning_effort %v, want %v", name, got, tc.sent)
		}
		wantLost(t, c, tc.lost...)
	}
}

// Reasoning of the history goes to servers that answer it, and to no others; state
// goes nowhere.
func TestConvR03_ReasoningOfTheHistory(t *testing.T) {
	t.Parallel()
	r := asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, llm.Part{Kind: llm.PartReasoning, Text: "hm", State: &llm.State{Kind: llm.AnthropicSignature, Data: "s"}},
		llm.Part{Kind: llm.PartRedacted, State: &llm.State{Kind: llm.AnthropicRedacted, Data: "r"}}, text("yes")), says(llm.RoleUser, text("go")))
	c := conversion(protocol.Anthropic)
	body := encode(t, r, c)
	same(t, body, `{"model":"upstream","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"go"}]}`)
	wantLost(t, c, "reasoning_state=drop", "reasoning_text=drop")
	accepted(t, body)
	c = conversion(protocol.Anthropic)
	c.Compat = &configv1.Compat{ReasoningField: "reasoning"}
	if got := member(t, encode(t, r, c), "messages", 1, "reasoning"); got != "hm" {
		t.Errorf("reasoning %v", got)
	}
	wantLost(t, c, "reasoning_state=drop")
}

// What a compatible server does not know is not sent to it.
func TestCompatibleServerGetsWhatItKnows(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	schema := []byte(`{"type":"object","properties":{},"required":[],"additionalProperties":false}`)
	full := func() *llm.Request {
		r := asked(llm.Message{Role: llm.RoleSystem, Developer: true, Parts: []llm.Part{text("be brief")}}, says(llm.RoleUser, text("hi")))
		r.MaxOutputTokens, r.Temperature, r.TopP, r.OneCall = 100, "0.5", "0.9", true
		r.Tools = []llm.Tool{{Name: "f", Schema: schema, Strict: &yes}, {Name: "g", Strict: &no}}
		r.Format = llm.Format{Kind: llm.FormatSchema, Name: "n", Schema: schema, Strict: &yes}
		r.Extras = []llm.Extra{{Feature: llm.FeatureStore, Field: "store", Raw: []byte("false")}}
		return r
	}
	const all = `{"model":"upstream","messages":[{"role":"developer","content":"be brief"},{"role":"user","content":"hi"}],
		"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{},"required":[],"additionalProperties":false},"strict":true}},{"type":"function","function":{"name":"g","strict":false}}],
		"parallel_tool_calls":false,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{},"required":[],"additionalProperties":false},"strict":true}},
		"max_completion_tokens":100,"temperature":0.5,"top_p":0.9,"store":false,"stream":true,"stream_options":{"include_usage":true}}`
	for name, tc := range map[string]struct {
		compat   *configv1.Compat
		old, new string // what changes of all
		lost     []string
	}{
		"none":            {nil, "", "", nil},
		"max_tokens":      {&configv1.Compat{MaxTokensField: configv1.MaxTokensField_MAX_TOKENS_FIELD_MAX_TOKENS}, "max_completion_tokens", "max_tokens", nil},
		"developer":       {&configv1.Compat{NoDeveloperRole: true}, `"developer"`, `"system"`, nil},
		"stream_options":  {&configv1.Compat{NoStreamOptions: true}, `,"stream_options":{"include_usage":true}`, "", nil},
		"store":           {&configv1.Compat{NoStore: true}, `"store":false,`, "", nil},
		"strict":          {&configv1.Compat{NoStrict: true}, `,"strict":true`, "", []string{"schema_strict=drop", "tool_strict=drop"}},
		"no_sampling":     {&configv1.Compat{NoSampling: true}, `"temperature":0.5,"top_p":0.9,`, "", []string{"temperature=drop", "top_p=drop"}},
		"parallel":        {&configv1.Compat{NoParallelToolCalls: true}, `"parallel_tool_calls":false,`, "", []string{"parallel_tool_calls=drop"}},
		"other deviation": {&configv1.Compat{UsageInEveryChunk: true, NoDoneMarker: true, EmptyFirstChunk: true, ErrorsWithStatus_200: true, ToolArgumentsObject: true}, "", "", nil},
	} {
		c := conversion(protocol.OpenAIResponses)
		c.Compat, c.Stream = tc.compat, true
		c.Options = protocol.Options{"openai_responses.parallel_tool_calls": protocol.Drop}
		want := all
		if tc.old != "" {
			want = strings.ReplaceAll(all, tc.old, tc.new)
			if name == "strict" {
				want = strings.ReplaceAll(want, `,"strict":false`, "")
			}
		}
		t.Run(name, func(t *testing.T) {
			same(t, encode(t, full(), c), want)
			wantLost(t, c, tc.lost...)
		})
	}
	c := conversion(protocol.OpenAIResponses)
	c.Compat = &configv1.Compat{NoParallelToolCalls: true}
	refused(t, full(), c, fault.RequestNotSupported, "parallel_tool_calls")
	own := conversion(protocol.OpenAIChat)
	own.Compat = &configv1.Compat{NoStore: true}
	refused(t, decode(t, `{`+hi+`,"store":true}`), own, fault.RequestNotSupported, "store")
	same(t, encode(t, decode(t, `{`+hi+`,"store":false}`), own), `{"model":"upstream",`+hi+`}`)
	wantLost(t, own)
	stored := full()
	stored.Extras[0].Raw = []byte("true")
	refused(t, stored, conversion(protocol.OpenAIResponses), fault.RequestNotSupported, "store")
}

// A server without json_schema refuses a schema, or is told it in words if the caller says so.
func TestSchemaIsToldInWordsOnlyIfDeclared(t *testing.T) {
	t.Parallel()
	r := asked()
	r.Format = llm.Format{Kind: llm.FormatSchema, Schema: []byte(`{"type":"object"}`)}
	c := conversion(protocol.Anthropic)
	c.Compat = &configv1.Compat{NoJsonSchema: true}
	refused(t, r, c, fault.RequestNotSupported, "json_schema")
	c.Options = protocol.Options{"anthropic_messages.json_schema": protocol.Substitute}
	body := encode(t, r, c)
	same(t, body, `{"model":"upstream","messages":[{"role":"system","content":"Answer with a JSON object that follows this JSON Schema:\n{\"type\":\"object\"}"},{"role":"user","content":"hi"}],
		"response_format":{"type":"json_object"}}`)
	accepted(t, body)
}

// JSON mode needs messages that speak of JSON.
func TestJSONModeSpeaksOfJSON(t *testing.T) {
	t.Parallel()
	r := asked()
	r.Format.Kind = llm.FormatJSON
	c := conversion(protocol.Gemini)
	if got := member(t, encode(t, r, c), "messages", 0, "content"); got != "Answer with a JSON object." {
		t.Errorf("the first message is %v", got)
	}
	wantLost(t, c, "json_object=substitute")
	r = asked(says(llm.RoleUser, text("jj as Json, please")))
	r.Format.Kind = llm.FormatJSON
	c = conversion(protocol.Gemini)
	same(t, encode(t, r, c), `{"model":"upstream","messages":[{"role":"user","content":"jj as Json, please"}],"response_format":{"type":"json_object"}}`)
	wantLost(t, c)
}
