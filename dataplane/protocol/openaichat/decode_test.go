package openaichat_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
)

const hi = `"messages":[{"role":"user","content":"hi"}]`

// What has the wrong form is refused with the member and what it should be.
func TestWrongValueIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ body, param, says string }{
		{`{"messages":7}`, "messages", "a list"},
		{`{"messages":[]}`, "messages", "at least one message"},
		{`{}`, "messages", "at least one message"},
		{`{"messages":["hi"]}`, "messages[0]", "an object"},
		{`{"messages":[{"role":"user","content":"a"},{"content":"b"}]}`, "messages[1].role", "missing"},
		{`{"messages":[{"role":"robot","content":"a"}]}`, "messages[0].role", "one of system, developer, user"},
		{`{"messages":[{"role":"user","content":7}]}`, "messages[0].content", "a string or a list of parts"},
		{`{"messages":[{"role":"user","content":[{"type":"video_url","video_url":{}}]}]}`, "messages[0].content[0].type", "one of text, image_url"},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}]}`, "messages[0].content[1].image_url.url", "missing"},
		{`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png,abc"}}]}]}`, "messages[0].content[0].image_url.url", "base64"},
		{`{"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a"}}]}]}`, "messages[0].content[0].file", "file_data or file_id"},
		{`{"messages":[{"role":"user","content":[{}]}]}`, "messages[0].content[0]", "empty"},
		{`{"messages":[{"role":"tool","content":"a"}]}`, "messages[0].tool_call_id", "missing"},
		{`{"messages":[{"role":"function","name":"f","content":"a"}]}`, "messages[0].name", "names no function"},
		{`{"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{}}]}]}`, "messages[0].tool_calls[0]", "names no function"},
		{`{"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":7}}]}]}`, "messages[0].tool_calls[0].function.arguments", "a string"},
		{`{` + hi + `,"tools":[{"type":"function","function":{}}]}`, "tools[0]", "no name"},
		{`{` + hi + `,"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]}`, "tools[0].function.parameters", "an object"},
		{`{` + hi + `,"tool_choice":"maybe"}`, "tool_choice", `one of "none"`},
		{`{` + hi + `,"tool_choice":{"type":"mcp"}}`, "tool_choice", `one of "none"`},
		{`{` + hi + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}}`, "tool_choice.allowed_tools.tools", "at least one"},
		{`{` + hi + `,"max_tokens":"9"}`, "max_tokens", "a positive integer"},
		{`{` + hi + `,"max_completion_tokens":0}`, "max_completion_tokens", "a positive integer"},
		{`{` + hi + `,"temperature":"hot"}`, "temperature", "a number"},
		{`{` + hi + `,"stop":7}`, "stop", "a string or a list"},
		{`{` + hi + `,"stop":["a",7]}`, "stop[1]", "a string"},
		{`{` + hi + `,"n":0}`, "n", "a positive integer"},
		{`{` + hi + `,"reasoning_effort":"huge"}`, "reasoning_effort", "one of none, minimal"},
		{`{` + hi + `,"response_format":{"type":"yaml"}}`, "response_format.type", "one of text"},
		{`{` + hi + `,"response_format":{}}`, "response_format.type", "one of text"},
		{`{` + hi + `,"logit_bias":[]}`, "logit_bias", "an object"},
		{`{` + hi + `,"store":"yes"}`, "store", "true or false"},
		{`{` + hi + `,"stream":"yes"}`, "stream", "true or false"},
		{`{` + hi + `,"seed":"x"}`, "seed", "a number"},
		{`{"messages":[{"role":"user","content":"` + "hi" + `"}],"stop":[` + strings.Repeat(`"a",`, 64) + `"a"]}`, "stop", "more than 64"},
	} {
		r, f := openaichat.New().DecodeRequest([]byte(tc.body), protocol.Target{})
		switch {
		case f == nil:
			t.Errorf("%s was taken: %+v", tc.body, r)
		case f.Class != fault.InvalidRequest || f.Param != tc.param || !strings.Contains(f.Public, tc.says) || !strings.Contains(f.Public, tc.param):
			t.Errorf("%s: %v of %q: %q, want %q and that it says %q", tc.body, f.Class, f.Param, f.Public, tc.param, tc.says)
		}
	}
}

// null is as if the member were not there, and so are defaults.
func TestNullAndDefaultsSayNothing(t *testing.T) {
	t.Parallel()
	want := decode(t, `{`+hi+`}`)
	names := []string{
		"stream", "stream_options", "tools", "functions", "tool_choice", "function_call", "parallel_tool_calls", "response_format", "max_tokens", "max_completion_tokens",
		"temperature", "top_p", "stop", "reasoning_effort", "prompt_cache_key", "user", "safety_identifier", "n", "frequency_penalty", "presence_penalty", "seed", "logit_bias",
		"logprobs", "top_logprobs", "metadata", "store", "service_tier", "verbosity", "modalities", "audio", "prediction", "web_search_options", "moderation",
		"prompt_cache_retention", "prompt_cache_options", "something_new",
	}
	var members []string
	for _, n := range names {
		members = append(members, `"`+n+`":null`)
	}
	for _, said := range append(members, `"n":1`, `"frequency_penalty":0`, `"presence_penalty":0.0`, `"logprobs":false`, `"logit_bias":{}`, `"metadata":{ }`, `"modalities":["text"]`,
		`"parallel_tool_calls":true`, `"response_format":{"type":"text"}`, `"service_tier":"auto"`, `"prompt_cache_options":{"mode":"implicit","ttl":"30m"}`, `"stop":[]`, `"stop":""`, `"tools":[]`) {
		if diff := cmp.Diff(want, decode(t, `{`+hi+`,`+said+`}`)); diff != "" {
			t.Errorf("%s says something (-nothing +it)\n%s", said, diff)
		}
	}
	message := decode(t, `{"messages":[{"role":"user","content":"hi","name":null,"tool_calls":null,"refusal":null,"audio":null,"function_call":null,"annotations":null,"reasoning_content":null}]}`)
	if diff := cmp.Diff(want, message); diff != "" {
		t.Errorf("null members of a message (-without +with)\n%s", diff)
	}
}

func TestUnknownMembersAreNamedWithTheirPlace(t *testing.T) {
	t.Parallel()
	r := decode(t, `{"x":1,"messages":[{"role":"user","y":1,"content":[{"type":"text","text":"a"},{"type":"text","text":"b","z":{}}]}],
		"tools":[{"type":"function","w":1,"function":{"name":"f","v":1}},{"type":"web_search","u":1}],"stream_options":{"t":1},"a\u0062":1}`)
	want := []string{"x", "messages[0].y", "messages[0].content[1].z", "tools[0].w", "tools[0].function.v", "stream_options.t", "ab"}
	if diff := cmp.Diff(want, r.Unknown); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `,"x%d":1`, i)
	}
	if got := decode(t, `{`+hi+many.String()+`}`).Unknown; len(got) != llm.MaxUnknown {
		t.Errorf("%d names are kept, want %d", len(got), llm.MaxUnknown)
	}
}

// A schema and arguments keep their bytes: spaces, order, and how numbers are written.
func TestRawValuesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	schema := `{ "z":1.0,"a" : 9007199254740993, "é":"\u00e9" }`
	r := decode(t, `{"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":{ "b":1.0, "a":2}}}]},{"role":"tool","tool_call_id":"a","content":"x"}],
		"tools":[{"type":"function","function":{"name":"f","parameters":`+schema+`}}]}`)
	if got := string(r.Tools[0].Schema); got != schema {
		t.Errorf("schema %s, want %s", got, schema)
	}
	if got := r.Messages[0].Parts[0].Call.Arguments; got != `{ "b":1.0, "a":2}` {
		t.Errorf("arguments %s", got)
	}
}

// An answer's message that is sent back as it came is understood: models' words in
// order, whatever the order of the members.
func TestAnswerSentBackIsHistory(t *testing.T) {
	t.Parallel()
	r := decode(t, `{"messages":[{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"arguments":"{}","name":"f"}}],"annotations":[{"type":"url_citation","url_citation":{"url":"https://a.example/","title":"A","start_index":1,"end_index":2}}],
		"reasoning_content":"hm","content":"text","refusal":null,"audio":null,"role":"assistant"},{"role":"tool","tool_call_id":"c1","content":"r"}]}`)
	want := []llm.Part{
		{Kind: llm.PartReasoning, Text: "hm"},
		{Kind: llm.PartText, Text: "text", Citations: []llm.Citation{{URL: "https://a.example/", Title: "A", Start: 1, End: 2}}},
		{Kind: llm.PartCall, Call: &llm.Call{ID: "c1", Name: "f", Arguments: "{}"}},
	}
	if diff := cmp.Diff(want, r.Messages[0].Parts); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(r.Unknown) > 0 {
		t.Errorf("unknown: %q", r.Unknown)
	}
}

// Functions are tools whose calls come one at a time, and their results find the calls
// by name.
func TestLegacyFunctionsAreTools(t *testing.T) {
	t.Parallel()
	r := decode(t, `{"functions":[{"name":"f","parameters":{"type":"object"}},{"name":"g"}],"function_call":{"name":"g"},"messages":[{"role":"user","content":"hi"},
		{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"one"},
		{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"two"}]}`)
	if _, ok := r.Extra(llm.FeatureLegacyFunctions); !ok || !r.OneCall || len(r.Tools) != 2 || r.ToolChoice.Mode != llm.ChoiceTool || r.ToolChoice.Names[0] != "g" {
		t.Errorf("got %+v", r)
	}
	first, second := r.Messages[1].Parts[0].Call.ID, r.Messages[3].Parts[0].Call.ID
	if first == second || first == "" {
		t.Errorf("the calls have the ids %q and %q", first, second)
	}
	for i, id := range []string{first, second} {
		if got := r.Messages[2+2*i].Parts[0].Result; got.CallID != id {
			t.Errorf("result %d is of the call %q, want %q", i, got.CallID, id)
		}
	}
	if got := decode(t, `{`+hi+`,"tools":[{"type":"function","function":{"name":"f"}}]}`); len(got.Extras) != 0 || got.OneCall {
		t.Errorf("tools were taken for functions: %+v", got)
	}
}

// Results without ids are matched by name and by order.
func TestResultsWithoutIDFindTheirCalls(t *testing.T) {
	t.Parallel()
	r := decode(t, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f"}},{"function":{"name":"g"}},{"function":{"name":"f"}}]},
		{"role":"tool","name":"g","content":"1"},{"role":"tool","content":"2"},{"role":"tool","name":"f","content":"3"}]}`)
	calls := r.Messages[0].Parts
	for i, want := range []int{1, 0, 2} {
		if got := r.Messages[1+i].Parts[0].Result.CallID; got != calls[want].Call.ID || got == "" {
			t.Errorf("result %d is of %q, want %q", i, got, calls[want].Call.ID)
		}
	}
}

func TestNewerNameOfTheLimitWins(t *testing.T) {
	t.Parallel()
	if got := decode(t, `{`+hi+`,"max_tokens":5,"max_completion_tokens":7}`).MaxOutputTokens; got != 7 {
		t.Errorf("limit %d, want 7", got)
	}
	if got := decode(t, `{`+hi+`,"max_tokens":5}`).MaxOutputTokens; got != 5 {
		t.Errorf("limit %d, want 5", got)
	}
}

// n asks for what no conversion can give.
func TestMoreThanOneChoiceIsRefused(t *testing.T) {
	t.Parallel()
	_, f := openaichat.New().EncodeRequest(decode(t, `{`+hi+`,"n":2}`), conversion(protocol.OpenAIChat))
	if f == nil || f.Class != fault.RequestNotSupported || f.Param != "n" {
		t.Errorf("got %v", f)
	}
}

func TestEffortNoneTurnsReasoningOff(t *testing.T) {
	t.Parallel()
	if got := decode(t, `{`+hi+`,"reasoning_effort":"none"}`).Reasoning; !got.Off {
		t.Errorf("got %+v", got)
	}
	if got := decode(t, `{`+hi+`,"reasoning_effort":"xhigh"}`).Reasoning; got.Off || got.Effort != llm.EffortXHigh {
		t.Errorf("got %+v", got)
	}
}

// Files come with or without the head of a data URL.
func TestFilesAreKnownByTheirContent(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]llm.Media{
		`{"file_data":"data:text/csv;charset=utf-8;base64,YSxi","filename":"a.csv"}`: {Kind: llm.Document, MIME: "text/csv", Data: "YSxi", Name: "a.csv"},
		`{"file_data":"JVBERi0xLjQ="}`:                {Kind: llm.Document, MIME: "application/pdf", Data: "JVBERi0xLjQ="},
		`{"file_data":"YQ==","filename":"Notes.TXT"}`: {Kind: llm.Document, MIME: "text/plain", Data: "YQ==", Name: "Notes.TXT"},
		`{"file_id":"file-1"}`:                        {Kind: llm.Document, FileID: "file-1"},
	} {
		r := decode(t, `{"messages":[{"role":"user","content":[{"type":"file","file":`+file+`}]}]}`)
		if diff := cmp.Diff(&want, r.Messages[0].Parts[0].Media); diff != "" {
			t.Errorf("%s (-want +got)\n%s", file, diff)
		}
	}
}
