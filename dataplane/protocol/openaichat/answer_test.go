package openaichat_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

func answer(t testing.TB, body string) *llm.Answer {
	t.Helper()
	a, f := codec.DecodeAnswer([]byte(body), conversion(protocol.Anthropic))
	if f != nil {
		t.Fatalf("%s: %v", body, f)
	}
	return a
}

// Servers answer in many ways; what they mean is the same.
func TestAnswersOfCompatibleServers(t *testing.T) {
	t.Parallel()
	weather := llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "c1", Name: "f", Arguments: `{"a":1.0}`}}
	hm, yes := llm.Part{Kind: llm.PartReasoning, Text: "hm"}, text("yes")
	for name, tc := range map[string]struct {
		message string
		want    []llm.Part
	}{
		"reasoning_content":        {`{"content":"yes","reasoning_content":"hm"}`, []llm.Part{hm, yes}},
		"reasoning":                {`{"content":"yes","reasoning":"hm","reasoning_content":""}`, []llm.Part{hm, yes}},
		"reasoning twice":          {`{"reasoning":"hm","content":"yes","reasoning_content":"hm"}`, []llm.Part{hm, yes}},
		"a list of parts":          {`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"}]}`, []llm.Part{hm, yes}},
		"arguments as an object":   {`{"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{"a":1.0}}}]}`, []llm.Part{weather}},
		"no type, no index":        {`{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"a\":1.0}"}}]}`, []llm.Part{weather}},
		"calls before the content": {`{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"a\":1.0}"}}],"content":"yes"}`, []llm.Part{yes, weather}},
		"empty arguments":          {`{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":""}}]}`, []llm.Part{call("c1", "f", "")}},
		"no ids":                   {`{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"f","arguments":"{}"}}]}`, []llm.Part{call("call_req_1_0", "f", "{}"), call("call_req_1_1", "f", "{}")}},
		"the same id twice":        {`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f"}},{"index":1,"id":"c","function":{"name":"g"}}]}`, []llm.Part{call("c", "f", ""), call("call_req_1_1", "g", "")}},
		"the same index twice":     {`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f"}},{"index":0,"id":"d","function":{"name":"f"}}]}`, []llm.Part{call("c", "f", ""), call("d", "f", "")}},
		"an id of slashes":         {`{"tool_calls":[{"id":"functions.Bash:0","function":{"name":"f"}}]}`, []llm.Part{call("functions.Bash:0", "f", "")}},
		"custom":                   {`{"tool_calls":[{"id":"c","type":"custom","custom":{"name":"run","input":"ls"}}]}`, []llm.Part{{Kind: llm.PartCall, Call: &llm.Call{ID: "c", Name: "run", Arguments: "ls", Custom: true}}}},
		"function_call":            {`{"function_call":{"name":"f","arguments":"{}"}}`, []llm.Part{call("call_req_1_0", "f", "{}")}},
		"images":                   {`{"content":"yes","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}`, []llm.Part{yes, media(llm.Media{Kind: llm.Image, MIME: "image/png", Data: "AAAA"})}},
		"refusal":                  {`{"content":null,"refusal":"no"}`, []llm.Part{{Kind: llm.PartRefusal, Text: "no"}}},
		"sources":                  {`{"content":"yes","annotations":[{"type":"url_citation","url_citation":{"url":"u","title":"t","start_index":1,"end_index":3}},{"type":"file","file":{}}]}`, []llm.Part{{Kind: llm.PartText, Text: "yes", Citations: []llm.Citation{{URL: "u", Title: "t", Start: 1, End: 3}}}}},
		"nothing":                  {`{"content":""}`, nil},
	} {
		got := answer(t, `{"id":"i","model":"m","choices":[{"index":0,"message":`+tc.message+`,"finish_reason":"stop"}]}`)
		if diff := cmp.Diff(tc.want, got.Parts); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if got.ID != "i" || got.Model != "m" || got.Reported {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestReasonsToStop(t *testing.T) {
	t.Parallel()
	const said, called, refused, empty = `{"content":"a"}`, `{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a"}}]}`, `{"refusal":"no"}`, `{"content":null}`
	for _, tc := range []struct {
		message, word string
		want          llm.StopReason
	}{
		{said, `"stop"`, llm.StopEnd},
		{said, `"length"`, llm.StopMaxTokens},
		{said, `"content_filter"`, llm.StopContentFilter},
		{empty, `"content_filter"`, llm.StopContentFilter},
		{called, `"tool_calls"`, llm.StopToolUse},
		{called, `"stop"`, llm.StopToolUse},
		{called, `"function_call"`, llm.StopToolUse},
		{called, `"length"`, llm.StopMaxTokens},
		{called, `"content_filter"`, llm.StopContentFilter},
		{called, `null`, llm.StopToolUse},
		{said, `"tool_calls"`, llm.StopEnd},
		{refused, `"stop"`, llm.StopRefusal},
		{said, `"STOP"`, llm.StopEnd},
		{said, `"max_tokens"`, llm.StopMaxTokens},
		{said, `"sensitive"`, llm.StopContentFilter},
		{said, `"new_word"`, llm.StopEnd},
		{called, `"new_word"`, llm.StopToolUse},
		{empty, `"new_word"`, llm.StopFailed},
		{empty, `"stop"`, llm.StopEnd},
	} {
		got := answer(t, `{"choices":[{"message":`+tc.message+`,"finish_reason":`+tc.word+`}]}`).Stop
		if native := strings.Trim(strings.Replace(tc.word, "null", "", 1), `"`); got.Reason != tc.want || got.Native != native {
			t.Errorf("%s after %s: %v %q, want %v %q", tc.word, tc.message, got.Reason, got.Native, tc.want, native)
		}
	}
}

func TestConvU01_UsageIsDisjoint(t *testing.T) {
	t.Parallel()
	a := answer(t, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":15305,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":15104},"completion_tokens_details":{"reasoning_tokens":5}}}`)
	want := llm.Usage{Input: 201, CacheRead: 15104, Output: 15, Reasoning: 5}
	if a.Usage != want || !a.Reported {
		t.Errorf("got %+v, want %+v", a.Usage, want)
	}
}

func TestConvU02_UsageIncludesCaches(t *testing.T) {
	t.Parallel()
	body, f := codec.EncodeAnswer(&llm.Answer{Model: "m", Parts: []llm.Part{text("a")}, Reported: true, Usage: llm.Usage{Input: 13, CacheRead: 8, CacheWrite5m: 3, CacheWrite1h: 2, Output: 4, Reasoning: 3}}, conversion(protocol.OpenAIChat))
	if f != nil {
		t.Fatal(f)
	}
	usage, _ := json.Marshal(member(t, string(body), "usage"))
	same(t, string(usage), `{"prompt_tokens":26,"completion_tokens":7,"total_tokens":33,"prompt_tokens_details":{"cached_tokens":8,"cache_write_tokens":5,"audio_tokens":0},
		"completion_tokens_details":{"reasoning_tokens":3,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`)
}

// An error inside a 200, in whatever shape, is a failure of its class.
func TestErrorsInAnswersAreFailures(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]fault.Class{
		`{"error":{"message":"busy","type":"overloaded_error"}}`:                          fault.Overloaded,
		`{"error":{"message":"slow down","code":429}}`:                                    fault.RateLimited,
		`{"error":"it broke"}`:                                                            fault.ServerError,
		`{"object":"error","message":"too long","code":400}`:                              fault.BadRequest,
		`{"choices":[{"message":{"content":"a"}}],"error":{"code":"insufficient_quota"}}`: fault.Quota,
		`{"choices":[]}`:                        fault.Malformed,
		`{}`:                                    fault.Malformed,
		`[]`:                                    fault.Malformed,
		`<html>`:                                fault.Malformed,
		`{"choices":[{"message":{"content":"a"`: fault.Malformed,
		`{"choices":[{"message":{"content":""},"finish_reason":"error"}]}`:                             fault.ServerError,
		`{"choices":[{"message":{},"finish_reason":"function_call_filter: MALFORMED_FUNCTION_CALL"}]}`: fault.Malformed,
		`{"choices":[{"message":{"tool_calls":[{"id":"c","function":{"arguments":"{}"}}]}}]}`:          fault.Malformed,
	} {
		a, f := codec.DecodeAnswer([]byte(body), conversion(protocol.Anthropic))
		if f == nil || f.Class != want {
			t.Errorf("%s: %+v, %v; want %v", body, a, f, want)
		}
		if _, f := tell(t, conversion(protocol.Anthropic), strings.NewReader("data: "+body+"\n\ndata: [DONE]\n\n")); f == nil || f.Class != want {
			t.Errorf("%s as a stream: %v; want %v", body, f, want)
		}
	}
}

func TestAnswerToAChatCaller(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.OpenAIChat)
	body, f := codec.EncodeAnswer(&llm.Answer{
		ID: "msg_1", Parts: []llm.Part{
			{Kind: llm.PartReasoning, Text: "first", State: &llm.State{Kind: llm.AnthropicSignature, Data: "s"}},
			{Kind: llm.PartReasoning, Text: "second"},
			{Kind: llm.PartText, Text: "é is ", Citations: []llm.Citation{{Text: "page 3"}}},
			{Kind: llm.PartText, Text: "good", Citations: []llm.Citation{{URL: "https://a.example/", Title: "A", Text: "cited"}}},
			{Kind: llm.PartNative, Native: &llm.Native{Type: "server_tool_use"}},
			call("c1", "f", ""),
		},
		Stop: llm.Stop{Reason: llm.StopToolUse, Native: "tool_use"},
	}, c)
	if f != nil {
		t.Fatal(f)
	}
	same(t, string(body), `{"id":"chatcmpl-req_1","object":"chat.completion","created":1795953600,"model":"public","choices":[{"index":0,"message":{"role":"assistant","content":"é is good",
		"reasoning_content":"first\n\nsecond","refusal":null,"annotations":[{"type":"url_citation","url_citation":{"end_index":9,"start_index":5,"title":"A","url":"https://a.example/"}}],
		"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}]}`)
	wantLost(t, c, "answer_citations=drop", "answer_reasoning_state=drop", "answer_server_tool=drop")
}

func TestFinishReasonsForCallers(t *testing.T) {
	t.Parallel()
	said, called, cut := []llm.Part{text("a")}, []llm.Part{call("c", "f", `{"a":1}`)}, []llm.Part{call("c", "f", `{"a`)}
	for _, tc := range []struct {
		parts  []llm.Part
		stop   llm.Stop
		want   string
		lost   []string
		legacy bool
	}{
		{said, llm.Stop{Reason: llm.StopEnd}, "stop", nil, false},
		{said, llm.Stop{Reason: llm.StopSequence, Sequence: "END"}, "stop", []string{"answer_stop_sequence=drop"}, false},
		{said, llm.Stop{Reason: llm.StopMaxTokens}, "length", nil, false},     // S1
		{said, llm.Stop{Reason: llm.StopContextFull}, "length", nil, false},   // S2
		{cut, llm.Stop{Reason: llm.StopMaxTokens}, "length", nil, false},      // S4, T16
		{called, llm.Stop{Reason: llm.StopToolUse}, "tool_calls", nil, false}, // S3
		{called, llm.Stop{Reason: llm.StopToolUse}, "function_call", nil, true},
		{said, llm.Stop{Reason: llm.StopToolUse}, "stop", nil, false},
		{nil, llm.Stop{Reason: llm.StopContentFilter}, "content_filter", nil, false}, // S6
		{said, llm.Stop{Reason: llm.StopRefusal}, "content_filter", nil, false},
		{said, llm.Stop{Reason: llm.StopRefusal, Category: "bio", Explanation: "Not this."}, "stop", []string{"answer_refusal_details=substitute"}, false},
		{[]llm.Part{{Kind: llm.PartRefusal, Text: "no"}}, llm.Stop{Reason: llm.StopRefusal}, "stop", nil, false},
		{said, llm.Stop{Reason: llm.StopPause}, "length", nil, false},
		{nil, llm.Stop{Reason: llm.StopFailed}, "content_filter", nil, false},
		{nil, llm.Stop{}, "content_filter", nil, false},
		{said, llm.Stop{}, "stop", nil, false},
	} {
		a := &llm.Answer{Model: "m", Parts: tc.parts, Stop: tc.stop}
		c := conversion(protocol.OpenAIChat)
		c.LegacyCalls = tc.legacy
		body, f := codec.EncodeAnswer(a, c)
		if f != nil {
			t.Fatal(f)
		}
		if got := member(t, string(body), "choices", 0, "finish_reason"); got != tc.want {
			t.Errorf("%+v: %v, want %s", tc.stop, got, tc.want)
		}
		wantLost(t, c, tc.lost...)
		if tc.stop.Explanation != "" && member(t, string(body), "choices", 0, "message", "refusal") != tc.stop.Explanation {
			t.Errorf("the explanation is not told: %s", body)
		}
		out := write(t, c, a)
		if !strings.Contains(string(out), `"finish_reason":"`+tc.want+`"`) {
			t.Errorf("%+v: %s, want %s", tc.stop, out, tc.want)
		}
		if err := streamcheck.Check(fakeprovider.Chat, out); err != nil {
			t.Errorf("%+v: %v in\n%s", tc.stop, err, out)
		}
	}
}

// T16: what was cut is told as it is.
func TestConvT16_CutArgumentsAreToldAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{`{"city":"Ul`, ""} {
		a := &llm.Answer{Model: "m", Parts: []llm.Part{call("c", "f", arguments)}, Stop: llm.Stop{Reason: llm.StopMaxTokens}}
		body, f := codec.EncodeAnswer(a, conversion(protocol.OpenAIChat))
		if f != nil {
			t.Fatal(f)
		}
		if got := member(t, string(body), "choices", 0, "message", "tool_calls", 0, "function", "arguments"); got != arguments {
			t.Errorf("arguments %q, want %q", got, arguments)
		}
		if out := string(write(t, conversion(protocol.OpenAIChat), a)); strings.Contains(out, "{}\"") {
			t.Errorf("the stream makes up arguments: %s", out)
		}
	}
}

// Content without a place fails, so that nobody takes what is left for the answer.
func TestContentThatWouldBeLostFails(t *testing.T) {
	t.Parallel()
	two := []llm.Part{call("a", "f", "{}"), call("b", "f", "{}")}
	for name, tc := range map[string]struct {
		parts  []llm.Part
		legacy bool
	}{
		"image":              {[]llm.Part{text("here"), media(png)}, false},
		"video":              {[]llm.Part{media(llm.Media{Kind: llm.Video, Data: "AAAA"})}, false},
		"two function calls": {two, true},
	} {
		c := conversion(protocol.OpenAIChat)
		c.LegacyCalls = tc.legacy
		a := &llm.Answer{Model: "m", Parts: tc.parts, Stop: llm.Stop{Reason: llm.StopEnd}}
		if body, f := codec.EncodeAnswer(a, c); f == nil || f.Class != fault.RequestNotSupported {
			t.Errorf("%s: %s, %v", name, body, f)
		}
		w := codec.NewEventEncoder(c)
		err := a.Emit(func(e llm.Event) error {
			if _, f := w.Encode(nil, e); f != nil {
				return f
			}
			return nil
		})
		if f := fault.As(err); f == nil || f.Class != fault.RequestNotSupported {
			t.Errorf("%s as a stream: %v", name, err)
		}
	}
}

func TestLegacyCallerGetsFunctionCall(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.OpenAIChat)
	c.LegacyCalls = true
	a := &llm.Answer{Model: "m", Parts: []llm.Part{call("c", "f", `{"a":1}`)}, Stop: llm.Stop{Reason: llm.StopToolUse}}
	body, f := codec.EncodeAnswer(a, c)
	if f != nil {
		t.Fatal(f)
	}
	message, _ := json.Marshal(member(t, string(body), "choices", 0, "message"))
	same(t, string(message), `{"role":"assistant","content":null,"refusal":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}}`)
	events, f := tell(t, conversion(protocol.OpenAIChat), strings.NewReader(string(write(t, c, a))))
	if f != nil || len(events) < 4 || events[1].Part.Call.Name != "f" || events[2].Text != `{"a":1}` {
		t.Errorf("got %+v, %v", events, f)
	}
}

// The SDK reads what is written.
func TestSDKReadsAnswers(t *testing.T) {
	t.Parallel()
	body, f := codec.EncodeAnswer(&llm.Answer{Model: "m", Parts: []llm.Part{text("hi"), call("c", "f", "{}")}, Stop: llm.Stop{Reason: llm.StopToolUse}, Reported: true, Usage: llm.Usage{Input: 3, Output: 2}}, conversion(protocol.OpenAIChat))
	if f != nil {
		t.Fatal(f)
	}
	var got openai.ChatCompletion
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	m := got.Choices[0].Message
	if m.Content != "hi" || m.ToolCalls[0].Function.Name != "f" || got.Usage.TotalTokens != 5 || got.Choices[0].FinishReason != "tool_calls" {
		t.Errorf("got %s", body)
	}
}

func TestConfiguredReasoningFieldIsPreferred(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{"reasoning": "b", "reasoning_content": "a", "": "a"} {
		c := conversion(protocol.Anthropic)
		c.Compat = &configv1.Compat{ReasoningField: field}
		a, f := codec.DecodeAnswer([]byte(`{"choices":[{"message":{"reasoning_content":"a","reasoning":"b"}}]}`), c)
		if f != nil || len(a.Parts) != 1 || a.Parts[0].Text != want {
			t.Errorf("%q: %+v, %v; want %s", field, a, f, want)
		}
	}
}

func TestLogprobsOfAnAnswerAreNoted(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.OpenAIChat)
	if _, f := codec.DecodeAnswer([]byte(`{"choices":[{"message":{"content":"a"},"logprobs":{"content":[]}}]}`), c); f != nil {
		t.Fatal(f)
	}
	wantLost(t, c, "answer_logprobs=drop")
}

// answers makes answers that Chat can tell whole.
var answers = rapid.Custom(func(t *rapid.T) *llm.Answer {
	a := &llm.Answer{ID: "chatcmpl-req_1", Model: rapid.StringMatching(`[a-z0-9.-]{1,12}`).Draw(t, "model")}
	some := rapid.StringOfN(rapid.Rune(), 1, 40, -1)
	if rapid.Bool().Draw(t, "reasons") {
		a.Parts = append(a.Parts, llm.Part{Kind: llm.PartReasoning, Text: some.Draw(t, "reasoning")})
	}
	if rapid.Bool().Draw(t, "speaks") {
		p := text(some.Draw(t, "text"))
		for i := range rapid.IntRange(0, 2).Draw(t, "sources") {
			start := rapid.IntRange(0, 9).Draw(t, "start")
			p.Citations = append(p.Citations, llm.Citation{URL: fmt.Sprintf("https://a.example/%d", i), Title: some.Draw(t, "title"), Start: start, End: start + 1})
		}
		a.Parts = append(a.Parts, p)
	}
	calls := rapid.IntRange(0, 3).Draw(t, "calls")
	for i := range calls {
		p := call(fmt.Sprintf("call_%d", i), "f", rapid.SampledFrom([]string{`{}`, `{"a":1.0,"b":"\u00e9\n"}`}).Draw(t, "arguments"))
		if p.Call.Custom = rapid.Bool().Draw(t, "custom"); p.Call.Custom {
			p.Call.Arguments = some.Draw(t, "input")
		}
		a.Parts = append(a.Parts, p)
	}
	a.Stop = rapid.SampledFrom([]llm.Stop{{Reason: llm.StopMaxTokens, Native: "length"}, {Reason: llm.StopContentFilter, Native: "content_filter"}}).Draw(t, "stop")
	if rapid.Bool().Draw(t, "ends") {
		a.Stop = llm.Stop{Reason: llm.StopEnd, Native: "stop"}
		if calls > 0 {
			a.Stop = llm.Stop{Reason: llm.StopToolUse, Native: "tool_calls"}
		}
	}
	if a.Reported = rapid.Bool().Draw(t, "reported"); a.Reported {
		n := rapid.Int64Range(0, 1<<40)
		a.Usage = llm.Usage{Input: n.Draw(t, "in"), CacheRead: n.Draw(t, "read"), CacheWriteOther: n.Draw(t, "written"), Output: n.Draw(t, "out"), Reasoning: n.Draw(t, "thought")}
	}
	return a
})

// Whatever was told is understood again, whole and as a stream.
func TestAnswerSurvivesBeingWrittenAndRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := answers.Draw(t, "answer")
		c := conversion(protocol.OpenAIChat)
		c.WantsUsage = true
		body, f := codec.EncodeAnswer(a, c)
		if f != nil {
			t.Fatal(f)
		}
		got, f := codec.DecodeAnswer(body, c)
		if f != nil {
			t.Fatalf("%v in %s", f, body)
		}
		if diff := cmp.Diff(a, got); diff != "" {
			t.Fatalf("whole (-told +read)\n%s", diff)
		}
		if len(c.Losses) > 0 {
			t.Fatalf("lost %v", c.Losses)
		}
		w, d := codec.NewEventEncoder(c), codec.NewEventDecoder(c)
		var out []byte
		var all llm.Collector
		if err := a.Emit(func(e llm.Event) error {
			out, f = w.Encode(out, e)
			if f != nil {
				return f
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := streamcheck.Check(fakeprovider.Chat, out); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
		collect := func(e llm.Event) { all.Add(e) }
		for _, frame := range frames(out) {
			if f := d.Decode(frame, collect); f != nil {
				t.Fatal(f)
			}
		}
		if f := d.End(collect); f != nil {
			t.Fatal(f)
		}
		if diff := cmp.Diff(a, all.Answer()); diff != "" {
			t.Fatalf("stream (-told +read)\n%s", diff)
		}
	})
}
