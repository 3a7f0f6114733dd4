package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
)

func decodeAnswer(t testing.TB, body string) *llm.Answer {
	t.Helper()
	a, f := anthropic.New().DecodeAnswer([]byte(body), conversion(protocol.OpenAIChat))
	if f != nil {
		t.Fatalf("decode %s: %v", body, f)
	}
	return a
}

func encodeAnswer(t testing.TB, a *llm.Answer, c *protocol.Conversion) string {
	t.Helper()
	out, f := anthropic.New().EncodeAnswer(a, c)
	if f != nil {
		t.Fatalf("encode: %v (%s)", f, f.Text())
	}
	var m sdk.Message
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatalf("the SDK cannot read %s: %v", out, err)
	}
	return string(out)
}

func TestWholeAnswerIsUnderstood(t *testing.T) {
	t.Parallel()
	got := decodeAnswer(t, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5","content":[
		{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"redacted_thinking","data":"ZA=="},{"type":"text","text":""},
		{"type":"text","text":"hi","citations":[{"type":"char_location","cited_text":"h","document_title":"T"}]},
		{"type":"tool_use","id":"toolu_1","name":"f","input":{"z":1.0,"a":12345678901234567890}},
		{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":1}}],
		"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":13,"cache_read_input_tokens":8,"cache_creation_input_tokens":5,"output_tokens":20,"output_tokens_details":{"thinking_tokens":4}}}`)
	want := &llm.Answer{
		ID: "msg_1", Model: "claude-opus-5", Reported: true,
		Parts: []llm.Part{
			{Kind: llm.PartReasoning, Text: "hm", State: &llm.State{Kind: llm.AnthropicSignature, Data: "c2ln"}},
			{Kind: llm.PartRedacted, State: &llm.State{Kind: llm.AnthropicRedacted, Data: "ZA=="}},
			{Text: "hi", Citations: []llm.Citation{{Title: "T", Text: "h", Raw: []byte(`{"type":"char_location","cited_text":"h","document_title":"T"}`)}}},
			{Kind: llm.PartCall, Call: &llm.Call{ID: "toolu_1", Name: "f", Arguments: `{"z":1.0,"a":12345678901234567890}`}},
			{Kind: llm.PartNative, Native: &llm.Native{Type: "server_tool_use", Raw: []byte(`{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":1}}`)}},
		},
		Stop:  llm.Stop{Reason: llm.StopToolUse, Native: "tool_use"},
		Usage: llm.Usage{Input: 13, CacheRead: 8, CacheWriteOther: 5, Output: 16, Reasoning: 4},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := got.Usage.PromptTokens(); n != 26 { // case U2
		t.Errorf("the prompt has %d tokens, want 26", n)
	}
}

func TestConvS01S02_StopReasonsAreUnderstood(t *testing.T) {
	t.Parallel()
	call := `{"type":"tool_use","id":"a","name":"f","input":{}}`
	for _, tc := range []struct {
		content, word string
		want          llm.StopReason
	}{
		{`{"type":"text","text":"a"}`, "max_tokens", llm.StopMaxTokens},
		{`{"type":"text","text":"a"}`, "model_context_window_exceeded", llm.StopContextFull},
		{`{"type":"text","text":"a"}`, "refusal", llm.StopRefusal},
		{`{"type":"text","text":"a"}`, "pause_turn", llm.StopPause},
		{`{"type":"text","text":"a"}`, "brand_new", llm.StopEnd},
		{``, "brand_new", llm.StopUnknown},
		{call, "end_turn", llm.StopToolUse},
		{call, "brand_new", llm.StopToolUse},
		{call, "max_tokens", llm.StopMaxTokens},
		{call, "refusal", llm.StopRefusal},
	} {
		got := decodeAnswer(t, `{"content":[`+tc.content+`],"stop_reason":"`+tc.word+`"}`)
		if got.Stop.Reason != tc.want || got.Stop.Native != tc.word {
			t.Errorf("%s after %q: got %+v, want %v", tc.word, tc.content, got.Stop, tc.want)
		}
	}
	got := decodeAnswer(t, `{"content":[],"stop_reason":"refusal","stop_details":{"type":"refusal","category":"bio","explanation":"No."}}`)
	if got.Stop.Category != "bio" || got.Stop.Explanation != "No." {
		t.Errorf("got %+v", got.Stop)
	}
	got = decodeAnswer(t, `{"content":[{"type":"text","text":"a"}],"stop_reason":"stop_sequence","stop_sequence":"END"}`)
	if got.Stop.Reason != llm.StopSequence || got.Stop.Sequence != "END" {
		t.Errorf("got %+v", got.Stop)
	}
}

func TestAnswersThatAreErrorsFail(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]fault.Class{
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`: fault.Overloaded,
		`{"content":[{"type":"text","text":"a"`:                                       fault.Malformed,
		`[]`:                                                                          fault.Malformed,
		`{"choices":[]}`:                                                              fault.Malformed,
	} {
		if a, f := anthropic.New().DecodeAnswer([]byte(body), conversion(protocol.OpenAIChat)); f == nil || f.Class != want {
			t.Errorf("%s: got %+v, %v, want %v", body, a, f, want)
		}
	}
}

func TestConvU01_PromptIsToldWithoutWhatTheCacheGave(t *testing.T) {
	t.Parallel()
	a := &llm.Answer{Parts: []llm.Part{text("hi")}, Stop: llm.Stop{Reason: llm.StopEnd}, Reported: true}
	a.Usage.SetPrompt(llm.Prompt{Total: 15305, CacheRead: 15104})
	a.Usage.SetCompletion(llm.Completion{Total: 9, Reasoning: 4})
	body := encodeAnswer(t, a, answering(protocol.OpenAIChat))
	wants(t, body, `{"input_tokens":201,"cache_read_input_tokens":15104,"cache_creation_input_tokens":0,"output_tokens":9,"output_tokens_details":{"thinking_tokens":4}}`, "usage")
	wants(t, body, `"msg_1"`, "id")
	wants(t, body, `"public"`, "model")
	wants(t, body, `"end_turn"`, "stop_reason")
}

func TestConvT06_CallsOfOneAnswerKeepDifferentIDs(t *testing.T) {
	t.Parallel()
	a := &llm.Answer{
		Parts: []llm.Part{call("call_1", "f", "{}"), call("fc_1", "f", "{}"), call("functions.f:0", "f", "{}"), call("call_1", "f", "{}"), call("", "f", "{}")},
		Stop:  llm.Stop{Reason: llm.StopToolUse},
	}
	body := encodeAnswer(t, a, answering(protocol.OpenAIChat))
	seen := map[string]bool{}
	for i, p := range a.Parts {
		id, _ := member(t, body, "content", i, "id").(string)
		if seen[id] || id == "" {
			t.Errorf("call %d has the id %q of another", i, id)
		}
		seen[id] = true
		if i < 3 && anthropic.PlainID(id) != p.Call.ID {
			t.Errorf("%q comes back as %q", p.Call.ID, anthropic.PlainID(id))
		}
	}
}

func TestConvT16_CutArgumentsStayWhatTheyAre(t *testing.T) {
	t.Parallel()
	a := &llm.Answer{Parts: []llm.Part{call("a", "f", `{"city":"Ul`)}, Stop: llm.Stop{Reason: llm.StopMaxTokens}}
	body := encodeAnswer(t, a, answering(protocol.OpenAIChat))
	wants(t, body, `"max_tokens"`, "stop_reason")
	wants(t, body, `"{\"city\":\"Ul"`, "content", 0, "input")

	out := stream(t, answering(protocol.OpenAIChat), events(a)...)
	if !strings.Contains(out, `"partial_json":"{\"city\":\"Ul"`) || !strings.Contains(out, `"stop_reason":"max_tokens"`) {
		t.Error(out)
	}
}

func TestConvS07_RefusalIsATextAndAReason(t *testing.T) {
	t.Parallel()
	a := &llm.Answer{Parts: []llm.Part{{Kind: llm.PartRefusal, Text: "I won't."}}, Stop: llm.Stop{Reason: llm.StopEnd}}
	body := encodeAnswer(t, a, answering(protocol.OpenAIResponses))
	wants(t, body, `[{"type":"text","text":"I won't."}]`, "content")
	wants(t, body, `"refusal"`, "stop_reason")
}

func TestConvS06_BlockedAnswerIsARefusalWithoutContent(t *testing.T) {
	t.Parallel()
	body := encodeAnswer(t, &llm.Answer{Stop: llm.Stop{Reason: llm.StopContentFilter, Native: "SAFETY", Category: "HATE"}}, answering(protocol.Gemini))
	wants(t, body, `[]`, "content")
	wants(t, body, `"refusal"`, "stop_reason")
	wants(t, body, `{"type":"refusal","category":"HATE","explanation":null}`, "stop_details")
}

func TestStopReasonsThatCallersGet(t *testing.T) {
	t.Parallel()
	calls := []llm.Part{call("a", "f", "{}")}
	for _, tc := range []struct {
		stop  llm.StopReason
		parts []llm.Part
		want  string
	}{
		{llm.StopEnd, []llm.Part{text("a")}, "end_turn"},
		{llm.StopEnd, calls, "tool_use"},
		{llm.StopToolUse, calls, "tool_use"},
		{llm.StopToolUse, []llm.Part{text("a")}, "end_turn"},
		{llm.StopMaxTokens, calls, "max_tokens"},
		{llm.StopContextFull, calls, "model_context_window_exceeded"},
		{llm.StopSequence, []llm.Part{text("a")}, "stop_sequence"},
		{llm.StopPause, []llm.Part{text("a")}, "pause_turn"},
		{llm.StopUnknown, []llm.Part{text("a")}, "end_turn"},
		{llm.StopUnknown, nil, "refusal"},
	} {
		body := encodeAnswer(t, &llm.Answer{Parts: tc.parts, Stop: llm.Stop{Reason: tc.stop}}, answering(protocol.Gemini))
		if got := member(t, body, "stop_reason"); got != tc.want {
			t.Errorf("%v after %v: %v, want %s", tc.stop, tc.parts, got, tc.want)
		}
	}
	for stop, class := range map[llm.StopReason]fault.Class{llm.StopMalformedCall: fault.Malformed, llm.StopFailed: fault.ServerError} {
		if out, f := anthropic.New().EncodeAnswer(&llm.Answer{Stop: llm.Stop{Reason: stop}}, answering(protocol.Gemini)); f == nil || f.Class != class {
			t.Errorf("%v: %s, %v", stop, out, f)
		}
	}
}

func TestContentWithoutAPlaceIsAnError(t *testing.T) {
	t.Parallel()
	a := &llm.Answer{Parts: []llm.Part{text("Here:"), {Kind: llm.PartMedia, Media: &llm.Media{MIME: "image/png", Data: "aa"}}}}
	_, f := anthropic.New().EncodeAnswer(a, answering(protocol.Gemini))
	if f == nil || f.Class != fault.RequestNotSupported || !strings.Contains(f.Public, "image") {
		t.Errorf("got %v", f)
	}
}

func TestWhatOnlyOthersHaveIsLostAndTold(t *testing.T) {
	t.Parallel()
	a := &llm.Answer{Parts: []llm.Part{
		{Text: "hi", Citations: []llm.Citation{{URL: "https://a.example"}}},
		{Kind: llm.PartNative, Native: &llm.Native{Type: "web_search_call", Raw: []byte(`{}`)}},
		{Kind: llm.PartCall, Call: &llm.Call{ID: "a", Name: "f"}, State: &llm.State{Kind: llm.GeminiSignature, Data: "x"}},
	}}
	c := answering(protocol.OpenAIResponses)
	wants(t, encodeAnswer(t, a, c), `[{"type":"text","text":"hi"},{"type":"tool_use","id":"a","name":"f","input":{}}]`, "content")
	wantLost(t, c, "answer_citations=drop", "answer_server_tool=drop", "answer_reasoning_state=drop")

	c = answering(protocol.OpenAIResponses)
	stream(t, c, events(a)...)
	wantLost(t, c, "answer_citations=drop", "answer_server_tool=drop", "answer_reasoning_state=drop")
}
