package bridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// anthropicAnswer is a whole answer of Anthropic's.
func anthropicAnswer(content, stop, usage string) string {
	return `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[` + content + `],"stop_reason":"` + stop + `","stop_sequence":null,"usage":{` + usage + `}}`
}

// anthropicStream is the same as a stream of one text.
func anthropicStream(text, stop, usage string) string {
	return events(messages,
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{`+usage+`}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+text+`"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"`+stop+`","stop_sequence":null},"usage":{`+usage+`}}`,
		`{"type":"message_stop"}`)
}

// geminiChunk is a chunk of Gemini's, or a whole answer.
func geminiChunk(parts, finish string) string {
	s := `{"candidates":[{`
	if parts != "" {
		s += `"content":{"role":"model","parts":[` + parts + `]},`
	}
	if finish != "" {
		s += `"finishReason":"` + finish + `",`
	}
	return s + `"index":0}],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":2,"totalTokenCount":6},"modelVersion":"m","responseId":"r"}`
}

// finishes are the finish reasons that a stream of Chat tells.
func finishes(t *testing.T, stream string) (all []string) {
	t.Helper()
	for _, d := range data(stream) {
		if word, ok := at(t, d, "choices", 0, "finish_reason").(string); ok {
			all = append(all, word)
		}
	}
	return all
}

// text is what a stream of Chat says.
func text(t *testing.T, stream string) string {
	t.Helper()
	var b strings.Builder
	for _, d := range data(stream) {
		s, _ := at(t, d, "choices", 0, "delta", "content").(string)
		b.WriteString(s)
	}
	return b.String()
}

// checkFinish checks the one finish reason of a Chat caller, of a whole answer and of a
// stream; either may be empty.
func checkFinish(t *testing.T, from protocol.Name, answer, stream, want string) {
	t.Helper()
	if answer != "" {
		out := begin(t, pair{chat, from}, hello(chat)).whole(t, answer)
		if got := at(t, out, "choices", 0, "finish_reason"); got != want {
			t.Errorf("finish_reason %v, want %s in %s", got, want, out)
		}
	}
	if stream != "" {
		out := begin(t, pair{chat, from}, hello(chat), streaming).stream(t, stream)
		if got := finishes(t, out); len(got) != 1 || got[0] != want {
			t.Errorf("finish reasons %v, want %s alone in %s", got, want, out)
		}
	}
}

func TestConvS01_MaxTokensIsLength(t *testing.T) {
	t.Parallel()
	const usage = `"input_tokens":3,"output_tokens":5`
	checkFinish(t, messages, anthropicAnswer(`{"type":"text","text":"Hi"}`, "max_tokens", usage), anthropicStream("Hi", "max_tokens", usage), "length")
}

func TestConvS02_FullContextIsLength(t *testing.T) {
	t.Parallel()
	const usage, stop = `"input_tokens":3,"output_tokens":5`, "model_context_window_exceeded"
	checkFinish(t, messages, anthropicAnswer(`{"type":"text","text":"Hi"}`, stop, usage), anthropicStream("Hi", stop, usage), "length")
}

func TestConvS03_CallAndItsStopInSeparateChunksAreToolCalls(t *testing.T) {
	t.Parallel()
	const call = `{"functionCall":{"name":"f","args":{"a":1}}}`
	checkFinish(t, generate, geminiChunk(call, "STOP"), events(generate, geminiChunk(call, ""), geminiChunk(`{"text":""}`, "STOP")), "tool_calls")
}

func TestConvS04_LengthWinsOverACall(t *testing.T) {
	t.Parallel()
	const call = `{"functionCall":{"name":"f","args":{"a":1}}}`
	checkFinish(t, generate, geminiChunk(call, "MAX_TOKENS"), events(generate, geminiChunk(call, ""), geminiChunk("", "MAX_TOKENS")), "length")
}

func TestConvS05_StopInEveryChunkIsOneStop(t *testing.T) {
	t.Parallel()
	up := events(generate, geminiChunk(`{"text":"one "}`, "STOP"), geminiChunk(`{"text":"two "}`, "STOP"), geminiChunk(`{"text":"three"}`, "STOP"))
	checkFinish(t, generate, "", up, "stop")
	out := begin(t, pair{chat, generate}, hello(chat), streaming).stream(t, up)
	if got := text(t, out); got != "one two three" {
		t.Errorf("text %q", got)
	}
}

func TestConvS06_BlockedAnswerIsAnAnswerThatSaysSo(t *testing.T) {
	t.Parallel()
	answer := `{"candidates":[{"finishReason":"SAFETY","index":0}],"usageMetadata":{"promptTokenCount":4,"totalTokenCount":4}}`
	checkFinish(t, generate, answer, events(generate, answer), "content_filter")
	out := begin(t, pair{messages, generate}, hello(messages)).whole(t, answer)
	if at(t, out, "stop_reason") != "refusal" {
		t.Errorf("anthropic: %s", out)
	}
	begin(t, pair{messages, generate}, hello(messages), streaming).stream(t, events(generate, answer))
	out = begin(t, pair{responses, generate}, hello(responses)).whole(t, answer)
	if at(t, out, "status") != "incomplete" || at(t, out, "incomplete_details", "reason") != "content_filter" {
		t.Errorf("responses: %s", out)
	}
	begin(t, pair{responses, generate}, hello(responses), streaming).stream(t, events(generate, answer))
}

func TestConvS07_RefusalOfResponsesIsATextAndAReason(t *testing.T) {
	t.Parallel()
	response := func(status, output string) string {
		return `{"id":"resp_1","object":"response","created_at":1,"model":"m","status":"` + status + `","output":[` + output + `],"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}`
	}
	const message = `{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"refusal","refusal":"I will not."}]}`
	out := begin(t, pair{messages, responses}, hello(messages)).whole(t, response("completed", message))
	if at(t, out, "stop_reason") != "refusal" || at(t, out, "content", 0, "text") != "I will not." {
		t.Errorf("got %s", out)
	}
	up := events(responses,
		`{"type":"response.created","sequence_number":0,"response":`+response("in_progress", "")+`}`,
		`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]}}`,
		`{"type":"response.content_part.added","sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"refusal","refusal":""}}`,
		`{"type":"response.refusal.delta","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"I will "}`,
		`{"type":"response.refusal.delta","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"not."}`,
		`{"type":"response.refusal.done","sequence_number":5,"item_id":"msg_1","output_index":0,"content_index":0,"refusal":"I will not."}`,
		`{"type":"response.content_part.done","sequence_number":6,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"refusal","refusal":"I will not."}}`,
		`{"type":"response.output_item.done","sequence_number":7,"output_index":0,"item":`+message+`}`,
		`{"type":"response.completed","sequence_number":8,"response":`+response("completed", message)+`}`)
	out = begin(t, pair{messages, responses}, hello(messages), streaming).stream(t, up)
	if !strings.Contains(out, `"type":"text_delta","text":"I will "`) || !strings.Contains(out, `"stop_reason":"refusal"`) {
		t.Errorf("got %s", out)
	}
}

func TestConvS08_ChunkThatOnlyEndsHasADelta(t *testing.T) {
	t.Parallel()
	out := begin(t, pair{chat, generate}, hello(chat), streaming).stream(t, events(generate, geminiChunk(`{"text":"Hi"}`, ""), geminiChunk("", "MAX_TOKENS")))
	for _, d := range data(out) {
		if choice := at(t, d, "choices", 0); choice != nil && at(t, d, "choices", 0, "delta") == nil {
			t.Errorf("no delta in %s", d)
		}
	}
	if got := finishes(t, out); len(got) != 1 || got[0] != "length" {
		t.Errorf("finish reasons %v", got)
	}
}

const chatUsage = `{"prompt_tokens":15305,"completion_tokens":7,"total_tokens":15312,"prompt_tokens_details":{"cached_tokens":15104}}`

func TestConvU01_InputOfAnthropicIsWithoutWhatTheCacheGave(t *testing.T) {
	t.Parallel()
	out := begin(t, pair{messages, chat}, hello(messages)).whole(t,
		`{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":`+chatUsage+`}`)
	if fmt.Sprintf("%v %v %v", at(t, out, "usage", "input_tokens"), at(t, out, "usage", "cache_read_input_tokens"), at(t, out, "usage", "output_tokens")) != "201 15104 7" {
		t.Errorf("usage %v", at(t, out, "usage"))
	}
}

func TestConvU02_PromptOfChatIncludesTheCaches(t *testing.T) {
	t.Parallel()
	const usage = `"input_tokens":13,"cache_read_input_tokens":8,"cache_creation_input_tokens":5,"output_tokens":2`
	check := func(usage any, body string) {
		t.Helper()
		u, _ := json.Marshal(usage)
		s := string(u)
		if fmt.Sprintf("%v %v %v", at(t, s, "prompt_tokens"), at(t, s, "prompt_tokens_details", "cached_tokens"), at(t, s, "prompt_tokens_details", "cache_write_tokens")) != "26 8 5" {
			t.Errorf("usage %s in %s", u, body)
		}
	}
	out := begin(t, pair{chat, messages}, hello(chat)).whole(t, anthropicAnswer(`{"type":"text","text":"Hi"}`, "end_turn", usage))
	check(at(t, out, "usage"), out)
	out = begin(t, pair{chat, messages}, `{"model":"public","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hi"}]}`, streaming).
		stream(t, anthropicStream("Hi", "end_turn", usage))
	chunks := data(out)
	check(at(t, chunks[len(chunks)-1], "usage"), out)
}

func TestConvU03_UsageThatComesLastReachesAnthropicsSDK(t *testing.T) {
	t.Parallel()
	out := begin(t, pair{messages, chat}, hello(messages), streaming).stream(t, events(chat,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":`+chatUsage+`}`))
	for _, d := range data(out) {
		if at(t, d, "type") == "message_delta" {
			if fmt.Sprintf("%v %v %v", at(t, d, "usage", "input_tokens"), at(t, d, "usage", "cache_read_input_tokens"), at(t, d, "usage", "output_tokens")) != "201 15104 7" {
				t.Errorf("message_delta %s", d)
			}
		}
	}
}

// message_delta has the last word, where servers put all of the usage there.
func TestConvU04_MessageDeltaHasTheLastWord(t *testing.T) {
	t.Parallel()
	up := strings.Replace(anthropicStream("Hi", "end_turn", `"input_tokens":13,"cache_creation_input_tokens":5,"output_tokens":2`),
		`"usage":{"input_tokens":13,"cache_creation_input_tokens":5,"output_tokens":2}}}`, `"usage":{"input_tokens":0,"output_tokens":0}}}`, 1)
	x := begin(t, pair{chat, messages}, `{"model":"public","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hi"}]}`, streaming)
	chunks := data(x.stream(t, up))
	if got := at(t, chunks[len(chunks)-1], "usage", "prompt_tokens"); fmt.Sprint(got) != "18" {
		t.Errorf("prompt_tokens %v, want 18", got)
	}
}

func TestConvU05_WritesForAnHourAreKeptApart(t *testing.T) {
	t.Parallel()
	const usage = `"input_tokens":13,"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":4},"output_tokens":2`
	x := begin(t, pair{chat, messages}, hello(chat))
	a, f := x.conv.Codec.ReadAnswer(strings.NewReader(anthropicAnswer(`{"type":"text","text":"Hi"}`, "end_turn", usage)))
	if f != nil {
		t.Fatal(f)
	}
	if a.Usage.CacheWrite5m != 5 || a.Usage.CacheWrite1h != 4 || a.Usage.Input != 13 {
		t.Errorf("usage %+v", a.Usage)
	}
}

func TestConvU06_UsageWithoutChoicesIsRead(t *testing.T) {
	t.Parallel()
	for _, from := range []protocol.Name{responses, messages, generate} {
		out := begin(t, pair{from, chat}, hello(from), streaming).stream(t, events(chat,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":`+chatUsage+`}`))
		if !strings.Contains(out, "15104") {
			t.Errorf("%s: the usage is not in %s", from, out)
		}
	}
}

func TestConvE01_CallWithoutTextHasNoMessage(t *testing.T) {
	t.Parallel()
	fromAnthropic := events(messages,
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_a","name":"f","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":7}}`,
		`{"type":"message_stop"}`)
	fromChat := events(chat,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_0","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":""},"finish_reason":"tool_calls"}]}`)
	for to, up := range map[protocol.Name]string{messages: fromAnthropic, chat: fromChat} {
		out := begin(t, pair{responses, to}, hello(responses), streaming).stream(t, up)
		if strings.Contains(out, `"type":"message"`) || strings.Contains(out, "content_part") {
			t.Errorf("%s: a message without text in %s", to, out)
		}
	}
}

func TestConvE02_StreamOfResponsesHasAllItsEvents(t *testing.T) {
	t.Parallel()
	out := begin(t, pair{responses, messages}, hello(responses), streaming).stream(t, twoCalls()) // checks order, numbers and ends
	values := data(out)
	last := values[len(values)-1]
	if at(t, last, "type") != "response.completed" || at(t, last, "response", "object") != "response" || at(t, last, "response", "model") == "" || at(t, last, "response", "id") == nil {
		t.Errorf("the end is %s", last)
	}
	if fmt.Sprint(at(t, last, "response", "usage", "input_tokens")) != "9" || len(at(t, last, "response", "output").([]any)) != 3 {
		t.Errorf("the end is %s", last)
	}
}
