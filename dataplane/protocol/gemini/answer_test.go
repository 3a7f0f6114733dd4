package gemini_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
)

func answer(t testing.TB, body string, c *protocol.Conversion) *llm.Answer {
	t.Helper()
	a, f := gemini.New().DecodeAnswer([]byte(body), c)
	if f != nil {
		t.Fatalf("%v of %s", f, body)
	}
	return a
}

// chat is the conversion of a Chat caller's call.
func chat() *protocol.Conversion { return conversion(protocol.OpenAIChat, protocol.Gemini) }

func TestAnswersAreReadWhole(t *testing.T) {
	t.Parallel()
	a := answer(t, `{
  "candidates": [
    {
      "content": {
        "parts": [
          {"text": "Hm", "thought": true},
          {"text": ", yes", "thought": true, "thoughtSignature": "c2lnMQ=="},
          {"text": "Grüße"},
          {"text": " aus Oslo"},
          {"functionCall": {"id": "x", "name": "f", "args": {
            "z": 9007199254740993,
            "a": [1.0, "b c\n"]
          }}, "thoughtSignature": "c2lnMg=="},
          {"inlineData": {"mimeType": "image/png", "data": "_-8="}}
        ],
        "role": "model"
      },
      "finishReason": "STOP",
      "index": 0
    }
  ],
  "usageMetadata": {"promptTokenCount": 900, "cachedContentTokenCount": 400, "candidatesTokenCount": 9, "thoughtsTokenCount": 50, "toolUsePromptTokenCount": 20},
  "modelVersion": "gemini-3-pro",
  "responseId": "r1"
}`, chat())
	want := &llm.Answer{
		ID: "r1", Model: "gemini-3-pro", Reported: true, Usage: llm.Usage{Input: 520, CacheRead: 400, Output: 9, Reasoning: 50},
		Stop: llm.Stop{Reason: llm.StopToolUse, Native: "STOP"},
		Parts: []llm.Part{
			{Kind: llm.PartReasoning, Text: "Hm, yes", State: &llm.State{Kind: llm.GeminiSignature, Data: "c2lnMQ=="}},
			{Text: "Grüße aus Oslo"},
			{Kind: llm.PartCall, Call: &llm.Call{ID: "x", Name: "f", Arguments: `{"z":9007199254740993,"a":[1.0,"b c\n"]}`}, State: &llm.State{Kind: llm.GeminiSignature, Data: "c2lnMg=="}},
			{Kind: llm.PartMedia, Media: &llm.Media{Kind: llm.Image, MIME: "image/png", Data: "/+8="}},
		},
	}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConvT10_CallsGetIDsThatNoOtherHas(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 50 {
		a := answer(t, `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}}]},"finishReason":"STOP"}]}`, chat())
		for _, p := range a.Parts {
			id := p.Call.ID
			if !strings.HasPrefix(id, "gwc_") || len(id) < 24 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || seen[id] {
				t.Fatalf("id %q", id)
			}
			seen[id] = true
		}
	}
}

func TestAnswersEndForTheirReason(t *testing.T) {
	t.Parallel()
	const text, fc = `"content":{"parts":[{"text":"Hi"}]},`, `"content":{"parts":[{"functionCall":{"name":"f"}}]},`
	for _, tc := range []struct {
		name, candidate string
		want            llm.Stop
	}{
		{"natural end", text + `"finishReason":"STOP"`, llm.Stop{Reason: llm.StopEnd, Native: "STOP"}},
		{"S3 calls", fc + `"finishReason":"STOP"`, llm.Stop{Reason: llm.StopToolUse, Native: "STOP"}},
		{"S3 reason before the parts", `"finishReason":"STOP",` + strings.TrimSuffix(fc, ","), llm.Stop{Reason: llm.StopToolUse, Native: "STOP"}},
		{"S4 the limit wins", fc + `"finishReason":"MAX_TOKENS"`, llm.Stop{Reason: llm.StopMaxTokens, Native: "MAX_TOKENS"}},
		{"S4 the filter wins", fc + `"finishReason":"SAFETY","finishMessage":"why"`, llm.Stop{Reason: llm.StopContentFilter, Native: "SAFETY", Explanation: "why"}},
		{"S6 filtered, no content", `"finishReason":"SAFETY"`, llm.Stop{Reason: llm.StopContentFilter, Native: "SAFETY"}},
		{"image filtered", `"content":{},"finishReason":"IMAGE_SAFETY"`, llm.Stop{Reason: llm.StopContentFilter, Native: "IMAGE_SAFETY"}},
		{"paused", text + `"finishReason":"CONTINUATION","continuationToken":"dA=="`, llm.Stop{Reason: llm.StopPause, Native: "CONTINUATION"}},
		{"no reason", text + `"index":0`, llm.Stop{Reason: llm.StopEnd}},
		{"unknown word with content", text + `"finishReason":"OTHER"`, llm.Stop{Reason: llm.StopEnd, Native: "OTHER"}},
		{"unknown word without", `"finishReason":"BRAND_NEW"`, llm.Stop{Reason: llm.StopFailed, Native: "BRAND_NEW"}},
		{"unspecified", text + `"finishReason":"FINISH_REASON_UNSPECIFIED"`, llm.Stop{Reason: llm.StopEnd}},
		{"empty", `"content":{"role":"model"},"finishReason":"STOP"`, llm.Stop{Reason: llm.StopEnd, Native: "STOP"}},
	} {
		a := answer(t, `{"candidates":[{`+tc.candidate+`}]}`, chat())
		if diff := cmp.Diff(tc.want, a.Stop); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestConvS06_BlockedPromptsAreFilteredAnswers(t *testing.T) {
	t.Parallel()
	a := answer(t, `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT","blockReasonMessage":"why"},"usageMetadata":{"promptTokenCount":8}}`, chat())
	want := &llm.Answer{
		Stop:     llm.Stop{Reason: llm.StopContentFilter, Native: "PROHIBITED_CONTENT", Explanation: "why"},
		Reported: true, Usage: llm.Usage{Input: 8},
	}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnswersThatAreNoneAreFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		body string
		want fault.Class
	}{
		{`{}`, fault.Malformed},
		{`[]`, fault.Malformed},
		{`"Hi"`, fault.Malformed},
		{`{"candidates":[]}`, fault.Malformed},
		{`{"usageMetadata":{"promptTokenCount":8}}`, fault.Malformed},
		{`{"candidates":[{"content":{"parts":[{"text":"Hi"}]}`, fault.Malformed},
		{`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`, fault.Malformed},
		{`{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"UNEXPECTED_TOOL_CALL"}]}`, fault.Malformed},
		{`{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}`, fault.Unavailable},
		{`{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}`, fault.RateLimited},
		{`[{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]},{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]`, fault.Unavailable},
	} {
		if a, f := gemini.New().DecodeAnswer([]byte(tc.body), chat()); f == nil || f.Class != tc.want {
			t.Errorf("%s: %+v, %v, want %s", tc.body, a, f, tc.want)
		}
	}
}

func TestAnArrayOfChunksIsOneAnswer(t *testing.T) {
	t.Parallel()
	a := answer(t, `[{"candidates":[{"content":{"parts":[{"text":"Hello "}]}}],"usageMetadata":{"candidatesTokenCount":1}}
,
{"candidates":[{"content":{"parts":[{"text":"you"}]},"finishReason":"STOP"}],"usageMetadata":{"candidatesTokenCount":2}}]`, chat())
	if len(a.Parts) != 1 || a.Parts[0].Text != "Hello you" || a.Usage.Output != 2 {
		t.Errorf("%+v", a)
	}
}

// Where offsets are those of characters they are told; where they may not be, only the
// text is.
func TestSourcesBecomeCitations(t *testing.T) {
	t.Parallel()
	const sources = `"groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://a.example","title":"A"}},{"retrievedContext":{"uri":"gs://b/c"}},{"image":{}}],` +
		`"groundingSupports":[{"segment":{"startIndex":1,"endIndex":3,"text":"at"},"groundingChunkIndices":[0,2,9]}]},` +
		`"citationMetadata":{"citationSources":[{"startIndex":0,"endIndex":2,"uri":"https://c.example","license":"mit"}]},"finishReason":"STOP"`
	for text, exact := range map[string]bool{"Water": true, "Wätér": false} {
		a := answer(t, `{"candidates":[{"content":{"parts":[{"text":"`+text+`"}]},`+sources+`}]}`, chat())
		want := []llm.Citation{{URL: "https://a.example", Title: "A", Text: "at", Start: 1, End: 3}, {URL: "gs://b/c"}, {URL: "https://c.example", Start: 0, End: 2}}
		if !exact {
			for i := range want {
				want[i].Start, want[i].End = 0, 0
			}
		}
		if diff := cmp.Diff(want, a.Parts[0].Citations); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	c := chat()
	answer(t, `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]},`+sources+`}]}`, c)
	if c.LossyHeader() != "answer_citations=drop" {
		t.Errorf("citations of no text: lossy %q", c.LossyHeader())
	}
}

// A signature without a text is of use only to a caller of this protocol.
func TestSignaturesStandOnTheirParts(t *testing.T) {
	t.Parallel()
	const after = `{"candidates":[{"content":{"parts":[{"functionCall":{"id":"1","name":"f"}},{"text":"","thoughtSignature":"c2ln"}]},"finishReason":"STOP"}]}`
	c := chat()
	if a := answer(t, after, c); len(a.Parts) != 1 || c.LossyHeader() != "answer_reasoning_state=drop" {
		t.Errorf("a Chat caller gets %+v, lossy %q", a.Parts, c.LossyHeader())
	}
	if a := answer(t, after, own()); len(a.Parts) != 2 || a.Parts[1].State == nil {
		t.Errorf("a Gemini caller gets %+v", a.Parts)
	}
	const text = `{"candidates":[{"content":{"parts":[{"text":"Hi"},{"text":"","thoughtSignature":"c2ln"},{"text":"more"}]},"finishReason":"STOP"}]}`
	want := []llm.Part{{Text: "Hi", State: &llm.State{Kind: llm.GeminiSignature, Data: "c2ln"}}, {Text: "more"}}
	if diff := cmp.Diff(want, answer(t, text, chat()).Parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnswersAreWrittenWhole(t *testing.T) {
	t.Parallel()
	state := &llm.State{Kind: llm.GeminiSignature, Data: "c2ln"}
	a := &llm.Answer{
		Model: "served", Reported: true, Usage: llm.Usage{Input: 5, CacheRead: 8, CacheWrite5m: 2, Output: 7, Reasoning: 3, OutputImage: 10},
		Stop: llm.Stop{Reason: llm.StopToolUse, Native: "tool_calls"},
		Parts: []llm.Part{
			{Kind: llm.PartReasoning, Text: "Hm", State: state},
			{Text: "Look", Citations: []llm.Citation{{URL: "https://a.example", Title: "A", Text: "Lo", Start: 0, End: 2}, {Text: "of a document"}}},
			{Kind: llm.PartRefusal, Text: "No"},
			{Kind: llm.PartMedia, Media: &llm.Media{Kind: llm.Image, MIME: "image/png", Data: "QUJD"}},
			{Kind: llm.PartMedia, Media: &llm.Media{Kind: llm.Image, URL: "https://img.example/a.png"}},
			{Kind: llm.PartNative, Native: &llm.Native{Type: "web_search_call", Raw: []byte(`{}`)}},
			call("call_1", "f", `{"z":9007199254740993,"a":1.0}`),
			call("gwc_1", "g", ""),
		},
	}
	c := conversion(protocol.Gemini, protocol.OpenAIResponses)
	body, f := gemini.New().EncodeAnswer(a, c)
	if f != nil {
		t.Fatal(f)
	}
	want := `{"candidates":[{"content":{"parts":[
		{"text":"Hm","thought":true,"thoughtSignature":"c2ln"},{"text":"Look"},{"text":"No"},
		{"inlineData":{"mimeType":"image/png","data":"QUJD"}},{"fileData":{"mimeType":"image/png","fileUri":"https://img.example/a.png"}},
		{"functionCall":{"id":"call_1","name":"f","args":{"z":9007199254740993,"a":1.0}},"thoughtSignature":"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="},
		{"functionCall":{"name":"g","args":{}}}],"role":"model"},
		"finishReason":"STOP","index":0,"groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://a.example","title":"A"}}],
		"groundingSupports":[{"segment":{"endIndex":2,"text":"Lo"},"groundingChunkIndices":[0]}]}}],
		"usageMetadata":{"promptTokenCount":15,"cachedContentTokenCount":8,"candidatesTokenCount":17,"thoughtsTokenCount":3,"totalTokenCount":35,
		"candidatesTokensDetails":[{"modality":"TEXT","tokenCount":7},{"modality":"IMAGE","tokenCount":10}]},
		"modelVersion":"served","responseId":"req_1"}`
	if diff := cmp.Diff(value(t, []byte(want)), value(t, body)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := c.LossyHeader(); got != "answer_citations=drop, answer_server_tool=drop" {
		t.Errorf("lossy %q", got)
	}
}

func TestEndsHaveTheVendorsWords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		from protocol.Name
		stop llm.Stop
		want string
	}{
		{protocol.OpenAIChat, llm.Stop{Reason: llm.StopEnd, Native: "stop"}, "STOP"},
		{protocol.OpenAIChat, llm.Stop{Reason: llm.StopToolUse}, "STOP"},
		{protocol.Anthropic, llm.Stop{Reason: llm.StopSequence, Sequence: "x"}, "STOP"},
		{protocol.OpenAIChat, llm.Stop{Reason: llm.StopMaxTokens}, "MAX_TOKENS"},
		{protocol.Anthropic, llm.Stop{Reason: llm.StopContextFull}, "MAX_TOKENS"},
		{protocol.Anthropic, llm.Stop{Reason: llm.StopRefusal}, "SAFETY"},
		{protocol.OpenAIChat, llm.Stop{Reason: llm.StopContentFilter}, "SAFETY"},
		{protocol.Gemini, llm.Stop{Reason: llm.StopContentFilter, Native: "BLOCKLIST"}, "BLOCKLIST"},
		{protocol.Gemini, llm.Stop{Reason: llm.StopContentFilter, Native: "JAILBREAK"}, "SAFETY"},
		{protocol.Anthropic, llm.Stop{Reason: llm.StopPause}, "OTHER"},
		{protocol.OpenAIResponses, llm.Stop{Reason: llm.StopFailed}, "OTHER"},
	} {
		body, f := gemini.New().EncodeAnswer(&llm.Answer{Stop: tc.stop}, conversion(protocol.Gemini, tc.from))
		if f != nil {
			t.Fatal(f)
		}
		candidate := at(t, value(t, body), "candidates", 0)
		if got := at(t, candidate, "finishReason"); got != tc.want {
			t.Errorf("%+v becomes %v, want %s", tc.stop, got, tc.want)
		}
		if said := at(t, candidate, "content") != nil; said != (tc.want == "STOP") {
			t.Errorf("%s: content %v", tc.want, said)
		}
	}
}

func TestConvT16_CallsThatWereCutAreNotTold(t *testing.T) {
	t.Parallel()
	cut := call("1", "f", `{"a":"b`)
	for reason, told := range map[llm.StopReason]bool{
		llm.StopMaxTokens: true, llm.StopContextFull: true, llm.StopContentFilter: true, llm.StopToolUse: false, llm.StopEnd: false,
	} {
		a := &llm.Answer{Parts: []llm.Part{{Text: "Hi"}, cut}, Stop: llm.Stop{Reason: reason}}
		body, f := gemini.New().EncodeAnswer(a, own())
		stream, sf := emitted(t, a, own())
		switch {
		case !told:
			if f == nil || f.Class != fault.Malformed || sf == nil || sf.Class != fault.Malformed {
				t.Errorf("%s: %v and %v, want faults", reason, f, sf)
			}
		case f != nil || sf != nil || strings.Contains(string(body)+string(stream), "functionCall"):
			t.Errorf("%s: %v, %v, %s\n%s", reason, f, sf, body, stream)
		}
	}
}

func TestContentWithoutAPlaceFailsTheAnswer(t *testing.T) {
	t.Parallel()
	a := &llm.Answer{Parts: []llm.Part{{Kind: llm.PartMedia, Media: &llm.Media{Kind: llm.Image, FileID: "file_1"}}}, Stop: llm.Stop{Reason: llm.StopEnd}}
	if _, f := gemini.New().EncodeAnswer(a, own()); f == nil || f.Class != fault.RequestNotSupported {
		t.Errorf("whole: %v", f)
	}
	if _, f := emitted(t, a, own()); f == nil || f.Class != fault.RequestNotSupported {
		t.Errorf("streamed: %v", f)
	}
}
