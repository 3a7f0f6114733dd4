package protocol_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openairesponses"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

func codecs() []protocol.Codec {
	return []protocol.Codec{openaichat.New(), openairesponses.New(), anthropic.New(), gemini.New()}
}

func codec(name protocol.Name) protocol.Codec {
	for _, c := range codecs() {
		if c.Name() == name {
			return c
		}
	}
	panic("no codec " + name)
}

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// watched is what a decoder tells of a whole stream.
type watched struct {
	Kinds    string // one letter an event: l s u p e t o
	Fault    string // class of the first error
	Usage    llm.Usage
	Reported bool
	Model    string
	ID       string
	Bytes    int64
	Ended    bool
	Stop     llm.Stop
}

func watch(c protocol.Codec, asked bool, src io.Reader) watched {
	d := c.NewStream(asked)
	r := sse.NewReader(src, 0)
	var w watched
	for {
		f, err := r.Next()
		if err != nil {
			break
		}
		o := d.Observe(f)
		w.Kinds += o.Kind.String()[:1]
		if o.Fault != nil && w.Fault == "" {
			w.Fault = o.Fault.Class.String()
		}
		for _, b := range [][]byte{f.Raw, f.Data, f.Event} {
			for i := range b {
				b[i] = '#' // the decoder must not keep parts of a frame
			}
		}
	}
	w.Usage, w.Reported = d.Usage()
	w.Model, w.ID, w.Bytes, w.Ended, w.Stop = d.ServedModel(), d.ResponseID(), d.OutputBytes(), d.Terminated(), d.Stop()
	return w
}

var (
	openAIChatUsage = llm.Usage{Input: 76, CacheRead: 1024, CacheWriteOther: 100, Output: 84, Reasoning: 256}
	responsesUsage  = llm.Usage{Input: 288, CacheRead: 512, Output: 56, Reasoning: 64}
	anthropicUsage  = llm.Usage{Input: 21, CacheRead: 4096, CacheWrite5m: 88, CacheWrite1h: 100, Output: 59, Reasoning: 30, WebSearches: 2}
	geminiUsage     = llm.Usage{Input: 520, CacheRead: 400, Output: 9, Reasoning: 50}
)

const gpt, claude, pro = "gpt-5.6-2026-05-01", "claude-opus-5", "gemini-3-pro"

var streams = []struct {
	file  string
	codec protocol.Name
	asked bool
	total int64 // what the provider itself adds up to
	want  watched
}{
	{"chat_text.sse", protocol.OpenAIChat, false, 1540, watched{
		Kinds: "plsssut", Usage: openAIChatUsage, Reported: true, Model: gpt, ID: "chatcmpl-Abc", Ended: true,
		Bytes: int64(len("Grüße aus 東京 🚆\nsaid \"usage\":{}")), Stop: llm.Stop{Reason: llm.StopEnd, Native: "stop"},
	}},
	{"chat_text.sse", protocol.OpenAIChat, true, 1540, watched{
		Kinds: "plsssot", Usage: openAIChatUsage, Reported: true, Model: gpt, ID: "chatcmpl-Abc", Ended: true,
		Bytes: int64(len("Grüße aus 東京 🚆\nsaid \"usage\":{}")), Stop: llm.Stop{Reason: llm.StopEnd, Native: "stop"},
	}},
	{"chat_tools.sse", protocol.OpenAIChat, false, 0, watched{
		Kinds: "lsssssst", Model: gpt, ID: "chatcmpl-Abc", Ended: true, Bytes: int64(len(`{"city":"Tokyo"}{}`)),
		Stop: llm.Stop{Reason: llm.StopToolUse, Native: "tool_calls"},
	}},
	{"chat_compatible.sse", protocol.OpenAIChat, false, 15, watched{
		Kinds: "lsss", Usage: llm.Usage{Input: 4, CacheRead: 6, Output: 5}, Reported: true, Model: "local-7b", ID: "x1",
		Bytes: int64(len("let me think42")), Stop: llm.Stop{Reason: llm.StopMaxTokens, Native: "length"},
	}},
	{"chat_error.sse", protocol.OpenAIChat, false, 0, watched{Kinds: "le", Fault: "overloaded", Model: gpt, ID: "chatcmpl-Abc"}},

	{"responses_text.sse", protocol.OpenAIResponses, false, 920, watched{
		Kinds: "llpllsssllsssss" + "t", Usage: responsesUsage, Reported: true, Model: gpt, ID: "resp_68", Ended: true,
		Bytes: int64(len("thinkingHello wörld")), Stop: llm.Stop{Reason: llm.StopEnd, Native: "completed"},
	}},
	{"responses_incomplete.sse", protocol.OpenAIResponses, false, 920, watched{
		Kinds: "llssst", Usage: llm.Usage{Input: 100, CacheWriteOther: 700, Output: 56, Reasoning: 64, WebSearches: 1}, Reported: true,
		Model: gpt, ID: "resp_68", Ended: true, Bytes: int64(len(`{"city":"Tokyo"}`)), Stop: llm.Stop{Reason: llm.StopMaxTokens, Native: "max_output_tokens"},
	}},
	{"responses_failed.sse", protocol.OpenAIResponses, false, 5, watched{
		Kinds: "le", Fault: "rate_limited", Usage: llm.Usage{Input: 5}, Reported: true, Model: gpt, ID: "resp_68", Ended: true,
		Stop: llm.Stop{Reason: llm.StopFailed, Native: "failed"},
	}},
	{"responses_error.sse", protocol.OpenAIResponses, false, 0, watched{Kinds: "le", Fault: "server_error", Model: gpt, ID: "resp_68"}},

	{"anthropic_tools.sse", protocol.Anthropic, false, 21 + 188 + 4096 + 89, watched{
		Kinds: "llpsslls" + "llssl" + "st", Usage: anthropicUsage, Reported: true, Model: claude, ID: "msg_01", Ended: true,
		Bytes: int64(len("hmm…Let me look." + `{"city":"Tokyo"}`)), Stop: llm.Stop{Reason: llm.StopToolUse, Native: "tool_use"},
	}},
	{"anthropic_late_usage.sse", protocol.Anthropic, false, 157, watched{
		Kinds: "llslst", Usage: llm.Usage{Input: 100, CacheWriteOther: 50, Output: 7}, Reported: true, Model: claude, ID: "msg_01", Ended: true,
		Bytes: 2, Stop: llm.Stop{Reason: llm.StopEnd, Native: "end_turn"},
	}},
	{"anthropic_error.sse", protocol.Anthropic, false, 21 + 188 + 4096 + 1, watched{
		Kinds: "lpe", Fault: "overloaded", Usage: llm.Usage{Input: 21, CacheRead: 4096, CacheWrite5m: 88, CacheWrite1h: 100, Output: 1}, Reported: true,
		Model: claude, ID: "msg_01",
	}},
	{"anthropic_redacted.sse", protocol.Anthropic, false, 21 + 188 + 4096 + 12, watched{
		Kinds: "lslst", Usage: llm.Usage{Input: 21, CacheRead: 4096, CacheWrite5m: 88, CacheWrite1h: 100, Output: 12}, Reported: true,
		Model: claude, ID: "msg_01", Ended: true, Stop: llm.Stop{Reason: llm.StopEnd, Native: "end_turn"},
	}},

	{"gemini_text.sse", protocol.Gemini, false, 979, watched{
		Kinds: "ssss", Usage: geminiUsage, Reported: true, Model: pro, ID: "r-77", Ended: true,
		Bytes: int64(len("ponderingGrüße aus 東京")), Stop: llm.Stop{Reason: llm.StopEnd, Native: "STOP"},
	}},
	{"gemini_call.sse", protocol.Gemini, false, 932, watched{
		Kinds: "ss", Usage: llm.Usage{Input: 520, CacheRead: 400, Output: 12}, Reported: true, Model: pro, ID: "r-77", Ended: true,
		Bytes: int64(len("cityTokyousageMetadatapromptTokenCount1errorcode500")), Stop: llm.Stop{Reason: llm.StopToolUse, Native: "STOP"},
	}},
	{"gemini_blocked.sse", protocol.Gemini, false, 8, watched{
		Kinds: "s", Usage: llm.Usage{Input: 8}, Reported: true, Model: pro, ID: "r-78", Ended: true,
		Stop: llm.Stop{Reason: llm.StopContentFilter, Native: "PROHIBITED_CONTENT"},
	}},
	{"gemini_malformed_call.sse", protocol.Gemini, false, 8, watched{
		Kinds: "e", Fault: "malformed", Usage: llm.Usage{Input: 8}, Reported: true, Model: pro, ID: "r-79", Ended: true,
		Stop: llm.Stop{Reason: llm.StopMalformedCall, Native: "MALFORMED_FUNCTION_CALL"},
	}},
	{"gemini_error.sse", protocol.Gemini, false, 0, watched{Kinds: "e", Fault: "unavailable"}},
}

// Recorded streams give the right kind for each event, the usage split into
// disjoint components whose sum is the provider's own total, and the way it ended.
func TestStreamsAreUnderstood(t *testing.T) {
	t.Parallel()
	for _, tc := range streams {
		got := watch(codec(tc.codec), tc.asked, bytes.NewReader(fixture(t, tc.file)))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", tc.file, diff)
		}
		if total := got.Usage.TotalTokens(); total != tc.total {
			t.Errorf("%s: components add up to %d, the provider says %d", tc.file, total, tc.total)
		}
	}
}

// However a recorded stream is cut on its way, the decoder sees the same.
func TestConvE03_SplitCharactersAndEventsChangeNothing(t *testing.T) {
	t.Parallel()
	for _, tc := range streams {
		got := watch(codec(tc.codec), tc.asked, iotest.OneByteReader(bytes.NewReader(fixture(t, tc.file))))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s, byte by byte, differs (-want +got):\n%s", tc.file, diff)
		}
	}
}

// Line ends and the space after data: are the sender's choice.
func TestConvE04_LineEndsAndMissingSpacesChangeNothing(t *testing.T) {
	t.Parallel()
	for _, tc := range streams {
		plain := strings.ReplaceAll(string(fixture(t, tc.file)), "\r\n", "\n")
		for name, s := range map[string]string{
			"LF": plain, "CRLF": strings.ReplaceAll(plain, "\n", "\r\n"), "CR": strings.ReplaceAll(plain, "\n", "\r"),
			"no space": strings.ReplaceAll(plain, "data: ", "data:"),
		} {
			got := watch(codec(tc.codec), tc.asked, strings.NewReader(s))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s with %s differs (-want +got):\n%s", tc.file, name, diff)
			}
		}
	}
}

// Events without an event line are told by their type.
func TestEventsWithoutAnEventLineAreUnderstood(t *testing.T) {
	t.Parallel()
	for _, tc := range streams {
		var kept []string
		for line := range strings.SplitSeq(string(fixture(t, tc.file)), "\n") {
			if !strings.HasPrefix(line, "event:") {
				kept = append(kept, line)
			}
		}
		got := watch(codec(tc.codec), tc.asked, strings.NewReader(strings.Join(kept, "\n")))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s without event lines differs (-want +got):\n%s", tc.file, diff)
		}
	}
}

func TestConvE05_MegabyteLinesPass(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 4<<20)
	for name, stream := range map[protocol.Name]string{
		protocol.OpenAIChat:      `data: {"id":"i","model":"m","choices":[{"index":0,"delta":{"content":"` + big + `"},"finish_reason":null}]}`,
		protocol.OpenAIResponses: `data: {"type":"response.output_text.delta","delta":"` + big + `"}`,
		protocol.Anthropic:       "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + big + `"}}`,
		protocol.Gemini:          `data: {"candidates":[{"content":{"parts":[{"text":"` + big + `"}]}}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2}}`,
	} {
		for _, twice := range []bool{false, true} { // the second goes the quick way
			s := stream + "\n\n"
			if twice {
				s += s
			}
			got := watch(codec(name), false, strings.NewReader(s))
			want := int64(len(big) * strings.Count(s, "\n\n"))
			if got.Bytes != want || !strings.HasSuffix(got.Kinds, "s") {
				t.Errorf("%s: counted %d bytes in %q, want %d in a semantic event", name, got.Bytes, got.Kinds, want)
			}
		}
	}
}

// F-30, E6: an error before content is held apart from one after it only by what
// came before; both are told with their inner class.
func TestConvE06_ErrorAfterTextIsAnErrorToo(t *testing.T) {
	t.Parallel()
	for name, tail := range map[protocol.Name]string{
		protocol.OpenAIChat:      "data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\",\"code\":\"rate_limit_exceeded\"}}\n\n",
		protocol.OpenAIResponses: "event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"x\"}\n\n",
		protocol.Anthropic:       "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"x\"}}\n\n",
		protocol.Gemini:          "data: {\"error\":{\"code\":429,\"message\":\"x\",\"status\":\"RESOURCE_EXHAUSTED\"}}\n\n",
	} {
		head := map[protocol.Name]string{
			protocol.OpenAIChat: "chat_tools.sse", protocol.OpenAIResponses: "responses_text.sse",
			protocol.Anthropic: "anthropic_tools.sse", protocol.Gemini: "gemini_text.sse",
		}[name]
		stream := string(fixture(t, head))
		if name != protocol.Gemini {
			stream = stream[:len(stream)*2/3]
			stream = stream[:strings.LastIndex(strings.ReplaceAll(stream, "\r", ""), "\n\n")+2]
		}
		if i := strings.LastIndex(stream, "\r\n\r\n"); name == protocol.OpenAIChat && i >= 0 {
			stream = stream[:i+4]
		}
		got := watch(codec(name), false, strings.NewReader(stream+tail))
		if got.Fault != "rate_limited" || !strings.Contains(got.Kinds, "s") || !strings.HasSuffix(got.Kinds, "e") {
			t.Errorf("%s: kinds %q, fault %q, want content and then rate_limited", name, got.Kinds, got.Fault)
		}
	}
}

// F-37: a stream that ends without its proper end is told as such, at every event.
func TestField_F37_CutStreamIsNotTerminated(t *testing.T) {
	t.Parallel()
	for _, tc := range streams {
		if !tc.want.Ended || tc.codec == protocol.Gemini {
			continue
		}
		whole := fixture(t, tc.file)
		for at := range len(bytes.TrimRight(whole, "\r\n")) {
			if got := watch(codec(tc.codec), tc.asked, bytes.NewReader(whole[:at])); got.Ended {
				t.Errorf("%s cut at byte %d of %d counts as ended", tc.file, at, len(whole))
				break
			}
		}
	}
}

// What cannot be decoded before the first event is malformed, so that another
// attempt can be made; noise later does no harm.
func TestUndecodableFirstEventIsMalformed(t *testing.T) {
	t.Parallel()
	for _, c := range codecs() {
		got := watch(c, false, strings.NewReader("data: <html>oops</html>\n\n"))
		if got.Kinds != "e" || got.Fault != "malformed" {
			t.Errorf("%s: kinds %q, fault %q, want an error of class malformed", c.Name(), got.Kinds, got.Fault)
		}
	}
	for _, tc := range streams {
		if tc.want.Fault == "" {
			noisy := string(fixture(t, tc.file)) + "data: <html>\n\ndata: {\"a\":\n\n"
			if got := watch(codec(tc.codec), tc.asked, strings.NewReader(noisy)); got.Fault != "" {
				t.Errorf("%s: noise after content became %s", tc.file, got.Fault)
			}
		}
	}
}

// A decoder survives anything an upstream may send.
func FuzzObserve(f *testing.F) {
	for _, tc := range streams {
		b, err := os.ReadFile(filepath.Join("testdata", tc.file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		for _, c := range codecs() {
			got := watch(c, false, bytes.NewReader(stream))
			u := got.Usage
			for _, n := range []int64{u.Input, u.CacheRead, u.CacheWrite5m, u.CacheWrite1h, u.CacheWriteOther, u.InputAudio, u.InputImage, u.Output, u.Reasoning, u.OutputAudio, u.OutputImage} {
				if n < 0 {
					t.Errorf("%s: negative component in %+v", c.Name(), u)
				}
			}
			_, _ = c.ReadAnswer(bytes.NewReader(stream))
			_ = c.Classify(400, nil, stream, testTime)
		}
	})
}

// A model's own words cannot change what it costs: names inside a call's arguments
// are not the chunk's.
func TestUsageInsideArgumentsIsNotUsage(t *testing.T) {
	t.Parallel()
	stream := `data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":900,"candidatesTokenCount":5}}` + "\n\n" +
		`data: {"candidates":[{"content":{"parts":[{"text":"b"}]}}],"usageMetadata":{"promptTokenCount":900,"candidatesTokenCount":6}}` + "\n\n" +
		`data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"usageMetadata":{"promptTokenCount":1}}}}]}}]}` + "\n\n"
	got := watch(codec(protocol.Gemini), false, strings.NewReader(stream))
	if want := (llm.Usage{Input: 900, Output: 6}); got.Usage != want || got.Fault != "" {
		t.Errorf("got %+v, fault %q, want %+v", got.Usage, got.Fault, want)
	}
}

// Only a chunk without choices came for the gateway alone: one with choices is the
// caller's, though it carries usage.
func TestChunkWithChoicesIsNeverHidden(t *testing.T) {
	t.Parallel()
	stream := `data: {"choices":[{"index":0,"delta":{"role":"assistant"}}],"usage":{"prompt_tokens":1,"completion_tokens":0}}` + "\n\n"
	if got := watch(codec(protocol.OpenAIChat), false, strings.NewReader(stream)); got.Kinds != "l" {
		t.Errorf("kinds %q, want a lifecycle event", got.Kinds)
	}
}
