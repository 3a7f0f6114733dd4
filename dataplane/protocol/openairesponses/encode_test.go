package openairesponses_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openairesponses"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// asked is a request of some messages.
func asked(messages ...llm.Message) *llm.Request {
	if len(messages) == 0 {
		messages = []llm.Message{says(llm.RoleUser, text("hi"))}
	}
	return &llm.Request{Model: "public", Messages: messages}
}

var png = llm.Media{Kind: llm.Image, MIME: "image/png", Data: "iVBORw0KGgo="}

var strictProvider = fakeprovider.New(fakeprovider.Config{Strict: true})

// accepted sends a request to a provider that refuses what the vendor refuses.
func accepted(t testing.TB, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/v1/responses", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer k")
	r.Header.Set("Content-Type", "application/json")
	strictProvider.ServeHTTP(w, r)
	if w.Code != 200 {
		t.Errorf("status %d: %s for\n%s", w.Code, w.Body, body)
	}
}

func refused(t testing.TB, r *llm.Request, c *protocol.Conversion, class fault.Class, says string) {
	t.Helper()
	out, f := openairesponses.New().EncodeRequest(r, c)
	if f == nil || f.Class != class || !strings.Contains(f.Public, says) {
		t.Errorf("got %s, %v (%q), want %v that says %q", out, f, f.Text(), class, says)
	}
}

const userHi = `{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}`

func TestConvT09_CallsAndResultsAreItems(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Anthropic)
	body := encode(t, asked(says(llm.RoleSystem, text("be brief")), says(llm.RoleUser, text("hi")),
		says(llm.RoleAssistant, text("I look."), call("toolu_1", "look", `{"a":1.0}`), call("toolu_2", "look", "")),
		says(llm.RoleTool, result("toolu_1", text("x")), result("toolu_2", text("y"))), says(llm.RoleUser, text("well?"))), c)
	same(t, body, `{"model":"upstream","instructions":"be brief","input":[`+userHi+`,
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},
		{"type":"function_call","call_id":"toolu_1","name":"look","arguments":"{\"a\":1.0}"},
		{"type":"function_call","call_id":"toolu_2","name":"look","arguments":"{}"},
		{"type":"function_call_output","call_id":"toolu_1","output":"x"},
		{"type":"function_call_output","call_id":"toolu_2","output":"y"},
		{"type":"message","role":"user","content":[{"type":"input_text","text":"well?"}]}],"store":false}`)
	wantLost(t, c)
	accepted(t, body)
}

func TestConvT15_ImageOfAResultStaysInTheResult(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Anthropic)
	body := encode(t, asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, call("toolu_1", "shot", `{}`)),
		says(llm.RoleTool, result("toolu_1", text("taken"), media(png)))), c)
	same(t, body, `{"model":"upstream","input":[`+userHi+`,
		{"type":"function_call","call_id":"toolu_1","name":"shot","arguments":"{}"},
		{"type":"function_call_output","call_id":"toolu_1","output":[{"type":"input_text","text":"taken"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}]}],"store":false}`)
	wantLost(t, c)
	accepted(t, body)
}

func TestFailedResultSaysSo(t *testing.T) {
	t.Parallel()
	bad := result("c", text("no such file"))
	bad.Result.Error = true
	shot := result("d", media(png))
	shot.Result.Error = true
	c := conversion(protocol.Anthropic)
	body := encode(t, asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, call("c", "f", `{}`), call("d", "f", `{}`)), says(llm.RoleTool, bad, shot)), c)
	if got := member(t, body, "input", 3, "output"); got != "The tool failed:\nno such file" {
		t.Errorf("got %v", got)
	}
	if got := member(t, body, "input", 4, "output", 0, "text"); got != "The tool failed:" {
		t.Errorf("got %v", got)
	}
	wantLost(t, c, "tool_result_error=substitute")
	accepted(t, body)
}

// Calls and results pair, whatever their order and whatever their ids are.
func TestCallsAndResultsPair(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	c := conversion(protocol.OpenAIChat)
	body := encode(t, asked(says(llm.RoleUser, text("hi")),
		says(llm.RoleTool, result("early", text("e"))), says(llm.RoleAssistant, call("early", "f", `{}`)),
		says(llm.RoleAssistant, call("same", "f", `{"n":1}`)), says(llm.RoleTool, result("same", text("1"))),
		says(llm.RoleAssistant, call("same", "f", `{"n":2}`), call(long, "f", `{}`)), says(llm.RoleTool, result("same", text("2")), result(long, text("l")))), c)
	accepted(t, body)
	var got []string
	for _, v := range value(t, body).(map[string]any)["input"].([]any)[1:] {
		it := v.(map[string]any)
		got = append(got, it["type"].(string)[len("function_"):]+" "+strings.TrimPrefix(it["call_id"].(string), "call_"))
	}
	want := "call early, call_output early, call same, call_output same, call same_2, call " + got[5][5:] + ", call_output same_2, call_output " + got[5][5:]
	if strings.Join(got, ", ") != want || len(got[5]) > 64 {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, ", "), want)
	}
	refused(t, asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, call("a", "f", "{}"))), c, fault.InvalidRequest, `call "a" has no result`)
	refused(t, asked(says(llm.RoleUser, text("hi")), says(llm.RoleTool, result("b"))), c, fault.InvalidRequest, `call "b" stands in the conversation`)
	refused(t, asked(says(llm.RoleAssistant, call("a", "f", "{}")), says(llm.RoleTool, result("a"), result("a"))), c, fault.InvalidRequest, `call "a" stands`)
}

// Nothing is stored unless somebody asked for it.
func TestNothingIsStoredUnasked(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		from protocol.Name
		raw  string
		want any
	}{
		{protocol.Anthropic, "", false},
		{protocol.Gemini, "", false},
		{protocol.OpenAIChat, "", false},
		{protocol.OpenAIChat, "true", true},
		{protocol.OpenAIChat, "false", false},
		{protocol.Gemini, "false", false},
		{protocol.OpenAIResponses, "", nil},
		{protocol.OpenAIResponses, "true", true},
		{protocol.OpenAIResponses, "false", false},
	} {
		r := asked()
		if tc.raw != "" {
			r.Extras = []llm.Extra{{Feature: llm.FeatureStore, Field: "store", Raw: []byte(tc.raw)}}
		}
		if got := member(t, encode(t, r, conversion(tc.from)), "store"); got != tc.want {
			t.Errorf("%s with store %q: %v, want %v", tc.from, tc.raw, got, tc.want)
		}
	}
	r := asked()
	r.Extras = []llm.Extra{{Feature: llm.FeatureStore, Field: "store", Raw: []byte("true")}}
	refused(t, r, conversion(protocol.Gemini), fault.RequestNotSupported, "store")
	c := conversion(protocol.Anthropic)
	c.Compat = &configv1.Compat{NoStore: true}
	if got := encode(t, asked(), c); strings.Contains(got, "store") {
		t.Errorf("got %s", got)
	}
}

// Reasoning goes back to who made it, without the id of an item that nobody stores, and
// to nobody else.
func TestReasoningGoesBackToItsMaker(t *testing.T) {
	t.Parallel()
	thought := func(s llm.State) llm.Part { return llm.Part{Kind: llm.PartReasoning, Text: "hm", State: &s} }
	own := thought(llm.State{Kind: llm.OpenAIEncrypted, Data: "gAAA", ID: "rs_1"})
	for name, tc := range map[string]struct {
		part llm.Part
		want string
		lost []string
	}{
		"its own":        {own, `{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"gAAA"},`, nil},
		"redacted":       {llm.Part{Kind: llm.PartRedacted, State: own.State}, `{"type":"reasoning","summary":[],"encrypted_content":"gAAA"},`, nil},
		"another maker":  {thought(llm.State{Kind: llm.AnthropicSignature, Data: "sig"}), "", []string{"reasoning_state=drop", "reasoning_text=drop"}},
		"another owner":  {thought(llm.State{Kind: llm.OpenAIEncrypted, Data: "gAAA", Foreign: true}), "", []string{"reasoning_state=drop", "reasoning_text=drop"}},
		"without state":  {llm.Part{Kind: llm.PartReasoning, Text: "hm"}, "", []string{"reasoning_text=drop"}},
		"foreign, hiden": {llm.Part{Kind: llm.PartRedacted, State: &llm.State{Kind: llm.AnthropicRedacted, Data: "x"}}, "", []string{"reasoning_state=drop"}},
	} {
		c := conversion(protocol.Anthropic)
		got := encode(t, asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, tc.part, text("a"))), c)
		same(t, got, `{"model":"upstream","input":[`+userHi+`,`+tc.want+`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}],"store":false}`)
		wantLost(t, c, tc.lost...)
		if t.Failed() {
			t.Fatalf("that was %s", name)
		}
	}
	signed := call("c", "f", "{}")
	signed.State = &llm.State{Kind: llm.GeminiSignature, Data: "sig"}
	c := conversion(protocol.Gemini)
	body := encode(t, asked(says(llm.RoleUser, text("hi")), says(llm.RoleAssistant, signed), says(llm.RoleTool, result("c", text("x")))), c)
	wantLost(t, c, "reasoning_state=drop")
	accepted(t, body)
}

// Encrypted reasoning is asked for where reasoning is wanted and somebody can keep it.
func TestEncryptedReasoningIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		from protocol.Name
		want llm.Reasoning
		asks bool
	}{
		{protocol.Anthropic, llm.Reasoning{Effort: llm.EffortHigh}, true},
		{protocol.Anthropic, llm.Reasoning{On: true}, true},
		{protocol.Gemini, llm.Reasoning{Budget: 5000}, true},
		{protocol.Anthropic, llm.Reasoning{Off: true}, false},
		{protocol.Anthropic, llm.Reasoning{}, false},
		{protocol.OpenAIChat, llm.Reasoning{Effort: llm.EffortHigh}, false}, // has no place for it
		{protocol.OpenAIResponses, llm.Reasoning{Effort: llm.EffortHigh}, false},
	} {
		r := asked()
		r.Reasoning = tc.want
		got := member(t, encode(t, r, conversion(tc.from)), "include")
		if list, _ := got.([]any); (len(list) == 1 && list[0] == "reasoning.encrypted_content") != tc.asks {
			t.Errorf("%s with %+v: include %v", tc.from, tc.want, got)
		}
	}
}

func TestConvR02_ReasoningReachesTheUpstream(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		want llm.Reasoning
		json string
		lost []string
	}{
		{llm.Reasoning{Effort: llm.EffortLow}, `{"effort":"low"}`, nil},
		{llm.Reasoning{Effort: llm.EffortMax, Show: true}, `{"effort":"max","summary":"auto"}`, nil},
		{llm.Reasoning{Show: true, Summary: "detailed"}, `{"summary":"detailed"}`, nil},
		{llm.Reasoning{Off: true}, `{"effort":"none"}`, nil},
		{llm.Reasoning{Budget: 8192}, `{"effort":"medium"}`, []string{"reasoning_budget=substitute"}},
		{llm.Reasoning{Budget: 8193, Effort: llm.EffortLow}, `{"effort":"low"}`, []string{"reasoning_budget=substitute"}},
		{llm.Reasoning{On: true}, ``, nil},
		{llm.Reasoning{Budget: -1, Hide: true}, ``, nil},
	} {
		r := asked()
		r.Reasoning = tc.want
		c := conversion(protocol.Anthropic)
		body := encode(t, r, c)
		got := member(t, body, "reasoning")
		if tc.json == "" {
			if got != nil {
				t.Errorf("%+v: %v", tc.want, got)
			}
		} else {
			same(t, string(jsonOf(t, got)), tc.json)
		}
		wantLost(t, c, tc.lost...)
		accepted(t, body)
	}
}

// Each wish that has no place is refused or left out as the table says.
func TestWishesWithoutAPlace(t *testing.T) {
	t.Parallel()
	extra := func(f llm.Feature, field, raw string) func(*llm.Request) {
		return func(r *llm.Request) {
			r.Extras = []llm.Extra{{Feature: f, Field: field, Raw: []byte(raw)}}
		}
	}
	for name, tc := range map[string]struct {
		from    protocol.Name
		set     func(*llm.Request)
		refused string // what the refusal names
		lost    string
	}{
		"stop":           {protocol.OpenAIChat, func(r *llm.Request) { r.Stop = []string{"END"} }, "field stop", ""},
		"stop_sequences": {protocol.Anthropic, func(r *llm.Request) { r.Stop = []string{"END"} }, "field stop_sequences", ""},
		"n":              {protocol.OpenAIChat, extra(llm.FeatureChoices, "n", "2"), "field n ", ""},
		"logit_bias":     {protocol.OpenAIChat, extra(llm.FeatureLogitBias, "logit_bias", "{}"), "logit_bias", ""},
		"logprobs":       {protocol.OpenAIChat, extra(llm.FeatureLogprobs, "logprobs", "true"), "logprobs", ""},
		"audio out":      {protocol.OpenAIChat, extra(llm.FeatureOutputModality, "audio", "{}"), "audio", ""},
		"search":         {protocol.OpenAIChat, extra(llm.FeatureWebSearch, "web_search_options", "{}"), "web_search_options", ""},
		"seed":           {protocol.OpenAIChat, extra(llm.FeatureSeed, "seed", "7"), "", "seed=drop"},
		"penalty":        {protocol.Gemini, extra(llm.FeaturePenalty, "generationConfig.presencePenalty", "1"), "", "penalty=drop"},
		"prediction":     {protocol.OpenAIChat, extra(llm.FeaturePrediction, "prediction", "{}"), "", "prediction=drop"},
		"top_k":          {protocol.Anthropic, func(r *llm.Request) { r.TopK = "5" }, "", "top_k=drop"},
		"safety":         {protocol.Gemini, extra(llm.FeatureSafety, "safetySettings", "[]"), "safetySettings", ""},
		"residency":      {protocol.Anthropic, extra(llm.FeatureResidency, "inference_geo", `"eu"`), "inference_geo", ""},
		"speed":          {protocol.Anthropic, extra(llm.FeatureSpeed, "speed", `"fast"`), "speed", ""},
		"tier":           {protocol.Anthropic, extra(llm.FeatureServiceTier, "service_tier", `"batch"`), "service_tier", ""},
		"labels":         {protocol.Gemini, extra(llm.FeatureLabels, "labels", "{}"), "", "labels=drop"},
		"between tools":  {protocol.Anthropic, extra(llm.FeatureReasoningDisplay, "thinking", "{}"), "", "reasoning_display=drop"},
		"unknown":        {protocol.Gemini, func(r *llm.Request) { r.Unknown = []string{"x.y"} }, "", "unknown_field=drop"},
		"name":           {protocol.OpenAIChat, func(r *llm.Request) { r.Messages[0].Name = "ann" }, "", "participant_name=drop"},
		"audio":          {protocol.OpenAIChat, func(r *llm.Request) { r.Messages[0].Parts = []llm.Part{media(llm.Media{Kind: llm.Audio, Data: "AA"})} }, "audio_input", ""},
		"video": {protocol.Gemini, func(r *llm.Request) {
			r.Messages[0].Parts = []llm.Part{media(llm.Media{Kind: llm.Video, URL: "gs://a"})}
		}, "video_input", ""},
		"gs image": {protocol.Gemini, func(r *llm.Request) {
			r.Messages[0].Parts = []llm.Part{media(llm.Media{Kind: llm.Image, URL: "gs://a/b.png"})}
		}, "image_url", ""},
		"foreign file": {protocol.Anthropic, func(r *llm.Request) {
			r.Messages[0].Parts = []llm.Part{media(llm.Media{Kind: llm.Document, FileID: "f"})}
		}, "file_id", ""},
		"cited document": {protocol.Anthropic, func(r *llm.Request) {
			r.Messages[0].Parts = []llm.Part{media(llm.Media{Kind: llm.Document, Text: "a", Cite: true})}
		}, "citations", ""},
		"search result": {protocol.Anthropic, func(r *llm.Request) {
			r.Messages[0].Parts = append(r.Messages[0].Parts, llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: "search_result"}})
		}, "search_result", ""},
		"server tool": {protocol.Anthropic, func(r *llm.Request) { r.Tools = []llm.Tool{{Server: "code_execution_20250825"}} }, "server_tool", ""},
		"code":        {protocol.Gemini, func(r *llm.Request) { r.Tools = []llm.Tool{{Server: "codeExecution"}} }, "server_tool", ""},
		"search tool": {protocol.Gemini, func(r *llm.Request) { r.Tools = []llm.Tool{{Server: "googleSearch"}} }, "web_search", ""},
		"tool option": {protocol.Anthropic, func(r *llm.Request) {
			r.Tools = []llm.Tool{{Name: "f", Extras: []llm.Extra{{Feature: llm.FeatureToolOption, Field: "tools[].input_examples"}}}}
		}, "", "tool_option=drop"},
	} {
		r, c := asked(), conversion(tc.from)
		tc.set(r)
		if tc.refused != "" {
			refused(t, r, c, fault.RequestNotSupported, tc.refused)
			// Declared as something to leave out, it is left out.
			c := conversion(tc.from)
			c.Options = protocol.Options{"*": protocol.Drop}
			r.Messages = append(r.Messages, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{{Text: "Hi"}}})
			if body := encode(t, r, c); len(c.Losses) != 1 || strings.Contains(body, "END") {
				t.Errorf("%s: lost %v of %s", name, c.Losses, body)
			}
		} else {
			accepted(t, encode(t, r, c))
			wantLost(t, c, tc.lost)
		}
		if t.Failed() {
			t.Fatalf("that was %s", name)
		}
	}
}

// What the provider's own search can stand in for is substituted where the caller declares it.
func TestSearchIsSubstitutedWhereDeclared(t *testing.T) {
	t.Parallel()
	declared := func(from protocol.Name) *protocol.Conversion {
		c := conversion(from)
		c.Options = protocol.Options{string(from) + ".web_search": protocol.Substitute}
		return c
	}
	r := asked()
	r.Tools = []llm.Tool{{Server: "web_search_20250305", Native: []byte(`{}`)}}
	c := declared(protocol.Anthropic)
	body := encode(t, r, c)
	same(t, string(jsonOf(t, member(t, body, "tools"))), `[{"type":"web_search"}]`)
	wantLost(t, c, "web_search=substitute")
	accepted(t, body)

	r = asked()
	r.Extras = []llm.Extra{{Feature: llm.FeatureWebSearch, Field: "web_search_options", Raw: []byte(`{"search_context_size":"low","user_location":{"type":"approximate","approximate":{"city":"Ulm","country":"DE"}}}`)}}
	c = declared(protocol.OpenAIChat)
	body = encode(t, r, c)
	same(t, string(jsonOf(t, member(t, body, "tools"))), `[{"type":"web_search","search_context_size":"low","user_location":{"type":"approximate","city":"Ulm","country":"DE"}}]`)
	wantLost(t, c, "web_search=substitute")
	accepted(t, body)
}
