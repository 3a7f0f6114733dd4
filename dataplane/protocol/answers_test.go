package protocol_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

var answers = []struct {
	file  string
	codec protocol.Name
	total int64
	want  protocol.Answer
}{
	{"chat.json", protocol.OpenAIChat, 1540, protocol.Answer{
		Usage: openAIChatUsage, UsageReported: true, Model: gpt, ID: "chatcmpl-B", OutputBytes: int64(len("Hello wörld{}")),
		Stop: llm.Stop{Reason: llm.StopToolUse, Native: "tool_calls"},
	}},
	{"responses.json", protocol.OpenAIResponses, 920, protocol.Answer{
		Usage: responsesUsage, UsageReported: true, Model: gpt, ID: "resp_68", OutputBytes: int64(len("thinkingHello wörld")),
		Stop: llm.Stop{Reason: llm.StopEnd, Native: "completed"},
	}},
	{"anthropic.json", protocol.Anthropic, 21 + 188 + 4096 + 55, protocol.Answer{
		Usage:         llm.Usage{Input: 21, CacheRead: 4096, CacheWrite5m: 88, CacheWrite1h: 100, Output: 55},
		UsageReported: true, Model: claude, ID: "msg_01", OutputBytes: int64(len("Hello wörld" + "abc" + "usageinput_tokens1")),
		Stop: llm.Stop{Reason: llm.StopEnd, Native: "end_turn"},
	}},
	{"gemini.json", protocol.Gemini, 979, protocol.Answer{
		Usage: geminiUsage, UsageReported: true, Model: pro, ID: "r-80", OutputBytes: int64(len("Hello wörld")),
		Stop: llm.Stop{Reason: llm.StopMaxTokens, Native: "MAX_TOKENS"},
	}},
	{"gemini_array.json", protocol.Gemini, 979, protocol.Answer{
		Usage: geminiUsage, UsageReported: true, Model: pro, ID: "r-81", OutputBytes: int64(len("Hello wörld")),
		Stop: llm.Stop{Reason: llm.StopEnd, Native: "STOP"},
	}},
}

// Whole answers are understood while they are relayed, and every byte passes.
func TestWholeAnswersAreUnderstoodWhileTheyPass(t *testing.T) {
	t.Parallel()
	for _, tc := range answers {
		body := fixture(t, tc.file)
		var client bytes.Buffer
		got, f := codec(tc.codec).ReadAnswer(io.TeeReader(iotest.OneByteReader(bytes.NewReader(body)), &client))
		if f != nil {
			t.Fatalf("%s: %v", tc.file, f)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", tc.file, diff)
		}
		if total := got.Usage.TotalTokens(); total != tc.total {
			t.Errorf("%s: components add up to %d, the provider says %d", tc.file, total, tc.total)
		}
		if !bytes.Equal(client.Bytes(), body) {
			t.Errorf("%s: the client got %d bytes, want the %d of the answer", tc.file, client.Len(), len(body))
		}
	}
}

// Decoders are used again for other answers. Whatever came before, an answer is read
// as a new codec reads it, held whole or streaming.
func TestNothingOfAnAnswerIsSeenInTheNext(t *testing.T) {
	t.Parallel()
	bodies := []string{
		`{}`, `[]`, `{"a":`, `{"id":"x","id":5,"a":"\u00e9`, `{"usage":{}}`, `"text"`, ``,
		`{"content":[{"text":"counted only in a whole message"}],"output":[{"type":"function_call","arguments":"{}"}]}`,
		`{"error":{"message":"x","code":"rate_limit_exceeded","status":"RESOURCE_EXHAUSTED","type":"rate_limit_error"}}`,
		`{"choices":[{"message":{"content":"` + strings.Repeat("long ", 4000) + `"},"finish_reason":"stop"}]}`,
	}
	for _, a := range answers {
		bodies = append(bodies, string(fixture(t, a.file)))
	}
	type result struct {
		Answer protocol.Answer
		Fault  string
	}
	read := func(c protocol.Codec, src io.Reader) result {
		a, f := c.ReadAnswer(src)
		if f != nil {
			return result{a, f.Class.String() + ": " + f.Error()}
		}
		return result{a, ""}
	}
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(codecs())-1).Draw(t, "codec")
		used := codecs()[i]
		for range rapid.IntRange(2, 8).Draw(t, "answers") {
			body := rapid.SampledFrom(bodies).Draw(t, "body")
			source := func() io.Reader { return bytes.NewBufferString(body) }
			if rapid.Bool().Draw(t, "streaming") {
				source = func() io.Reader { return iotest.HalfReader(strings.NewReader(body)) }
			}
			if diff := cmp.Diff(read(codecs()[i], source()), read(used, source())); diff != "" {
				t.Fatalf("%s, %.80s: a used decoder reads it otherwise (-new +used):\n%s", used.Name(), body, diff)
			}
		}
	})
}

// An answer that is held whole is read as one that is still arriving.
func TestHeldAnswersReadAsStreamingOnesDo(t *testing.T) {
	t.Parallel()
	for _, tc := range answers {
		held := bytes.NewBuffer(fixture(t, tc.file))
		got, f := codec(tc.codec).ReadAnswer(held)
		if f != nil {
			t.Fatalf("%s: %v", tc.file, f)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", tc.file, diff)
		}
		if held.Len() != 0 {
			t.Errorf("%s: %d bytes were left unread", tc.file, held.Len())
		}
	}
}

// An explicit zero is a report; silence is none.
func TestExplicitZeroUsageIsAReport(t *testing.T) {
	t.Parallel()
	for name, body := range map[protocol.Name]string{
		protocol.OpenAIChat:      `{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`,
		protocol.OpenAIResponses: `{"status":"completed","usage":{"input_tokens":0,"output_tokens":0}}`,
		protocol.Anthropic:       `{"type":"message","usage":{"input_tokens":0,"output_tokens":0}}`,
		protocol.Gemini:          `{"usageMetadata":{"promptTokenCount":0}}`,
	} {
		a, f := codec(name).ReadAnswer(strings.NewReader(body))
		if f != nil || !a.UsageReported || a.Usage != (llm.Usage{}) {
			t.Errorf("%s: reported %v %+v, fault %v, want a reported zero", name, a.UsageReported, a.Usage, f)
		}
		for _, silent := range []string{`{}`, `{"usage":null,"usageMetadata":null}`, `{"usage":{},"usageMetadata":{}}`} {
			if a, _ := codec(name).ReadAnswer(strings.NewReader(silent)); a.UsageReported {
				t.Errorf("%s: %s counts as a report", name, silent)
			}
		}
	}
}

func TestBrokenAnswersHaveTheirClass(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, c := range codecs() {
		for name, tc := range map[string]struct {
			src  io.Reader
			want fault.Class
		}{
			"html":        {strings.NewReader("<html></html>"), fault.Malformed},
			"text":        {strings.NewReader(`"hello"`), fault.Malformed},
			"two values":  {strings.NewReader(`{} {}`), fault.Malformed},
			"cut":         {strings.NewReader(`{"id":"x","a":`), fault.CutBeforeFirst},
			"empty":       {strings.NewReader(``), fault.CutBeforeFirst},
			"reset":       {io.MultiReader(strings.NewReader(`{"id":`), iotest.ErrReader(boom)), fault.Reset},
			"200 error":   {strings.NewReader(`{"error":{"message":"x","code":"rate_limit_exceeded","status":"RESOURCE_EXHAUSTED","type":"rate_limit_error"}}`), fault.RateLimited},
			"deep":        {strings.NewReader(`{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`), fault.Malformed},
			"error: null": {strings.NewReader(`{"id":"x","error":null}`), fault.Internal},
		} {
			_, f := c.ReadAnswer(tc.src)
			if tc.want == fault.Internal {
				if f != nil {
					t.Errorf("%s, %s: %v, want no fault", c.Name(), name, f)
				}
				continue
			}
			if f == nil || f.Class != tc.want {
				t.Errorf("%s, %s: got %v, want class %s", c.Name(), name, f, tc.want)
			}
		}
	}
}

// Usage at the end of a huge answer is found in bounded memory, U4 and U6 being
// about where it stands in a stream.
func TestConvU4U6_UsageIsFoundWhereverItStands(t *testing.T) {
	t.Parallel()
	big := strings.NewReader(`{"choices":[{"message":{"content":"`)
	src := io.MultiReader(big, io.LimitReader(letters{}, 32<<20), strings.NewReader(`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`))
	a, f := codec(protocol.OpenAIChat).ReadAnswer(src)
	want := protocol.Answer{
		Usage: llm.Usage{Input: 3, Output: 4}, UsageReported: true, OutputBytes: 32 << 20,
		Stop: llm.Stop{Reason: llm.StopEnd, Native: "stop"},
	}
	if diff := cmp.Diff(want, a); f != nil || diff != "" {
		t.Errorf("fault %v, answer differs (-want +got):\n%s", f, diff)
	}
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// Anthropic's counts are cumulative: what message_delta repeats replaces, what it
// leaves out stays.
func TestAnthropicUsageMergesFieldByField(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"}
		last := map[string]int64{}
		event := func(label string) string {
			var parts []string
			for _, n := range names {
				if rapid.Bool().Draw(t, label+n) {
					v := rapid.Int64Range(0, 1000).Draw(t, n)
					last[n] = v
					parts = append(parts, `"`+n+`":`+itoa(v))
				}
			}
			return "{" + strings.Join(parts, ",") + "}"
		}
		stream := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":" + event("start") + "}}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{},\"usage\":" + event("delta") + "}\n\n"
		got := watch(codec(protocol.Anthropic), false, strings.NewReader(stream))
		want := llm.Usage{Input: last[names[0]], CacheRead: last[names[1]], CacheWriteOther: last[names[2]], Output: last[names[3]]}
		if got.Usage != want || got.Reported != (len(last) > 0) {
			t.Fatalf("got %+v reported %v, want %+v reported %v", got.Usage, got.Reported, want, len(last) > 0)
		}
	})
}

func TestResponsesTellsCallsAndRefusalsByTheirItems(t *testing.T) {
	t.Parallel()
	for item, want := range map[string]llm.StopReason{
		`{"type":"function_call","arguments":"{}"}`:                          llm.StopToolUse,
		`{"type":"message","content":[{"type":"refusal","refusal":"no"}]}`:   llm.StopRefusal,
		`{"type":"message","content":[{"type":"output_text","text":"yes"}]}`: llm.StopEnd,
	} {
		a, f := codec(protocol.OpenAIResponses).ReadAnswer(strings.NewReader(`{"status":"completed","output":[` + item + `]}`))
		if f != nil || a.Stop.Reason != want {
			t.Errorf("%s: stop %s, fault %v, want %s", item, a.Stop.Reason, f, want)
		}
	}
}
