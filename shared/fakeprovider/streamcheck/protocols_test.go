package streamcheck_test

import (
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

// chatChunk is a chunk with the given choices.
func chatChunk(rest string) string {
	return `{"id":"c1","object":"chat.completion.chunk","created":7,"model":"m",` + rest + "}\n"
}

func chatDelta(delta, finish string) string {
	return chatChunk(`"choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]`)
}

// chatGood has two calls whose pieces interleave.
var chatGood = chatDelta(`{"role":"assistant","content":""}`, "null") +
	chatDelta(`{"content":"Hi"}`, "null") +
	": keep-alive\n" +
	chatDelta(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}`, "null") +
	chatDelta(`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}]}`, "null") +
	chatDelta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}`, "null") +
	chatDelta(`{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}`, "null") +
	chatDelta(`{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}`, "null") +
	chatDelta(`{}`, `"tool_calls"`) +
	chatChunk(`"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`) +
	"data: [DONE]\n"

func TestChatRules(t *testing.T) {
	t.Parallel()
	done, finish := "data: [DONE]\n\n", "data: "+chatDelta(`{}`, `"tool_calls"`)+"\n"
	testBad(t, fakeprovider.Chat, stream(false, "\n", chatGood), []badCase{
		{"object is a chunk", `"chat.completion.chunk"`, `"chat.completion"`, "object is"},
		{"id is the same in all", `"id":"c1"`, `"id":"c2"`, "was"},
		{"id is not empty", `"id":"c1"`, `"id":""`, "id is empty"},
		{"created is the same in all", `"created":7`, `"created":8`, "was"},
		{"created is a number", `"created":7`, `"created":"7"`, "created is"},
		{"model is the same in all", `"model":"m"`, `"model":"n"`, "was"},
		{"choices is a list", `"choices":[]`, `"choices":null`, "choices is"},
		{"error is no key of a healthy chunk", `"created":7`, `"created":7,"error":null`, "error"},
		{"a choice has an index", `"index":0,"delta"`, `"delta"`, "index is missing"},
		{"choices are dense", `"index":0,"delta"`, `"index":1,"delta"`, "role"},
		{"the first delta has the role", `"role":"assistant",`, ``, "first delta"},
		{"the role comes once", `"content":"Hi"`, `"role":"assistant","content":"Hi"`, "role in a delta"},
		{"a choice has a delta", `"delta":{"content":"Hi"}`, `"delta":null`, "delta is"},
		{"no empty deltas", `{"content":"Hi"}`, `{}`, "says nothing"},
		{"no deltas with empty text", `{"content":"Hi"}`, `{"content":""}`, "says nothing"},
		{"calls are numbered from 0", `"index":0,"id":"a"`, `"index":1,"id":"a"`, "the next new one is 0"},
		{"calls are numbered without gaps", `"index":1,"id":"b"`, `"index":2,"id":"b"`, "the next new one is 1"},
		{"indexes are never negative", `"index":0,"id":"a"`, `"index":-1,"id":"a"`, "not negative"},
		{"the first piece has the id", `"id":"a",`, ``, "id is missing"},
		{"the first piece has the type", `"index":0,"id":"a","type":"function",`, `"index":0,"id":"a",`, "type is missing"},
		{"the first piece has the name", `"name":"f",`, ``, "name is missing"},
		{"the first piece has arguments", `"name":"f","arguments":""`, `"name":"f"`, "arguments is missing"},
		{"arguments are a string", `"arguments":"{}"`, `"arguments":{}`, "expected a string"},
		{"ids are unique", `"id":"b"`, `"id":"a"`, "two calls"},
		{"the id comes once", `{"index":1,"function"`, `{"index":1,"id":"b","function"`, "second time"},
		{"the type comes once", `{"index":1,"function"`, `{"index":1,"type":"function","function"`, "second time"},
		{"the name comes once", `"function":{"arguments":"{}"`, `"function":{"name":"g","arguments":"{}"`, "second time"},
		{"later pieces are not empty", `"arguments":"{}"`, `"arguments":""`, "arguments is empty"},
		{"arguments add up to an object", `"arguments":"1}"`, `"arguments":"1"`, "not a JSON object"},
		{"a choice finishes", finish, "", "no finish_reason"},
		{"a choice finishes once", finish, finish + finish, "after the finish_reason"},
		{"nothing follows the finish", finish, finish + "data: " + chatDelta(`{"content":"!"}`, "null") + "\n", "after the finish_reason"},
		{"reasons are known", `"finish_reason":"tool_calls"`, `"finish_reason":"STOP"`, "expected one of"},
		{"the usage chunk comes last", finish, "", "comes early"},
		{"usage adds up", `"total_tokens":3`, `"total_tokens":4`, "total_tokens is 4"},
		{"usage is complete", `"completion_tokens":2,`, ``, "completion_tokens is missing"},
		{"usage stands in a chunk of its own", `"created":7`, `"created":7,"usage":{}`, "one of its own"},
		{"[DONE] comes", done, "", "no [DONE]"},
		{"[DONE] comes once", done, done + done, "after the end"},
		{"nothing follows [DONE]", done, done + "data: " + chatDelta(`{"content":"!"}`, "null") + "\n", "after the end"},
	})
	one := chatDelta(`{"role":"assistant","content":"Hi"}`, "null")
	none := strings.Replace(chatGood, `"finish_reason":"tool_calls"`, `"finish_reason":"length"`, 1)
	testBad(t, fakeprovider.Chat, stream(false, "\n", strings.Replace(none, `"arguments":"1}"`, `"arguments":"1"`, 1)), nil)
	testBad(t, fakeprovider.Chat, stream(false, "\n", one+`{"error":{"message":"no","type":"server_error"}}`), []badCase{
		{"nothing follows the error", `"server_error"}}` + "\n\n", `"server_error"}}` + "\n\n" + done, "after the end"},
		{"an error has a message", `"message":"no",`, ``, "message is missing"},
	}, streamcheck.AllowError)
	testBad(t, fakeprovider.Chat, stream(false, "\n", one+chatDelta("{}", `"stop"`)+"data: [DONE]"), []badCase{
		{"tool_calls needs a call", `"stop"`, `"tool_calls"`, "without a call"},
	})
	two := strings.ReplaceAll(one+chatDelta("{}", `"stop"`), `"index":0`, `"index":1`)
	testBad(t, fakeprovider.Chat, stream(false, "\n", one+two+chatDelta("{}", `"stop"`)+"data: [DONE]"), []badCase{
		{"every choice finishes", "data: " + chatDelta("{}", `"stop"`) + "\n", "", "choice 0 has no finish_reason"},
	})
	testBad(t, fakeprovider.Chat, stream(false, "\n", one+two+chatDelta("{}", `"stop"`)+"data: [DONE]"), nil)
	if err := streamcheck.Check(fakeprovider.Chat, []byte(stream(false, "\n", two+"data: [DONE]"))); err == nil {
		t.Error("choices that begin with 1 pass")
	}
}

const anthropicGood = `
{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}
{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}
{"type":"ping"}
{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}
{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}
{"type":"content_block_stop","index":0}
{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi"}}
{"type":"content_block_stop","index":1}
{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}
{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_2","name":"g","input":{}}}
{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}
{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"x\":"}}
{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}
{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}
{"type":"content_block_stop","index":2}
{"type":"content_block_stop","index":3}
{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}
{"type":"message_stop"}
`

func TestAnthropicRules(t *testing.T) {
	t.Parallel()
	event := func(data string) string { return stream(true, "\n", data) }
	last, ping := event(`{"type":"message_stop"}`), event(`{"type":"ping"}`)
	start := event(`{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}`)
	end := event(`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}`)
	testBad(t, fakeprovider.Anthropic, stream(true, "\n", anthropicGood), []badCase{
		{"message_start comes first", start, "", "before message_start"},
		{"message_start comes once", start, start + start, "second message_start"},
		{"message_start has no content", `"content":[]`, `"content":[{}]`, "content is not empty"},
		{"message_start has no stop_reason", `"stop_reason":null`, `"stop_reason":"end_turn"`, "stop_reason is not null"},
		{"message_start has an id", `"id":"m1"`, `"id":""`, "id is empty"},
		{"message_start has usage", `,"usage":{"input_tokens":1,"output_tokens":1}`, ``, "usage is missing"},
		{"message_start tells the input", `"input_tokens":1,`, ``, "input_tokens is missing"},
		{"blocks begin with 0", `"index":0,"content_block"`, `"index":1,"content_block"`, "without gaps"},
		{"blocks have no gaps", `"index":2,"content_block"`, `"index":3,"content_block"`, "without gaps"},
		{"text blocks start empty", `"text":""`, `"text":"H"`, "start of a block of type text"},
		{"thinking blocks start empty", `"thinking":"","signature"`, `"thinking":"h","signature"`, "start of a block of type thinking"},
		{"call ids have the vendor's form", `toolu_1`, `f:0`, "does not match"},
		{"call ids are unique", `toolu_2`, `toolu_1`, "used before"},
		{"calls have a name", `"name":"f"`, `"name":""`, "name is empty"},
		{"calls start without input", `"input":{}`, `"input":{"x":1}`, "expected {}"},
		{"deltas need a block", `"index":3,"delta"`, `"index":4,"delta"`, "never started"},
		{"deltas need an open block", `"index":3,"delta"`, `"index":1,"delta"`, "closed"},
		{"text_delta is for text", `"index":0,"delta":{"type":"thinking_delta","thinking"`, `"index":0,"delta":{"type":"text_delta","text"`, "in a block of type thinking"},
		{"thinking_delta is for thinking", `{"type":"text_delta","text":"Hi"}`, `{"type":"thinking_delta","thinking":"Hi"}`, "in a block of type text"},
		{"input_json_delta is for calls", `{"type":"text_delta","text":"Hi"}`, `{"type":"input_json_delta","partial_json":"Hi"}`, "in a block of type text"},
		{"no empty text deltas", `"text":"Hi"`, `"text":""`, "text is empty"},
		{"only the first partial_json may be empty", `"partial_json":"1}"`, `"partial_json":""`, "not the first"},
		{"partial_json adds up to an object", `"partial_json":"1}"`, `"partial_json":"1"`, "do not add up"},
		{"a block closes once", `{"type":"content_block_stop","index":3}`, `{"type":"content_block_stop","index":2}`, "closed"},
		{"all blocks close", event(`{"type":"content_block_stop","index":3}`), "", "block 3 is open"},
		{"message_delta comes", end, "", "without a message_delta"},
		{"message_delta comes once", end, end + end, "after message_delta"},
		{"message_delta has a reason", `"stop_reason":"tool_use"`, `"stop_reason":null`, "stop_reason is null"},
		{"reasons are known", `"stop_reason":"tool_use"`, `"stop_reason":"stop"`, "expected one of"},
		{"message_delta has usage", `,"usage":{"output_tokens":9}`, ``, "usage is missing"},
		{"usage is cumulative", `"output_tokens":9`, `"output_tokens":0`, "cumulative"},
		{"message_stop comes", last, "", "no message_stop"},
		{"message_stop is last", last, last + ping, "after the end"},
	})
	sig := event(`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`)
	think := event(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`)
	testBad(t, fakeprovider.Anthropic, stream(true, "\n", anthropicGood), []badCase{
		{"the signature comes last", sig, sig + think, "after the signature"},
		{"the signature comes once", sig, sig + sig, "after the signature"},
		{"an unknown event is refused", ping, event(`{"type":"pong"}`), "unknown event"},
	})
	cut := strings.NewReplacer(`"stop_reason":"tool_use"`, `"stop_reason":"max_tokens"`, `"partial_json":"1}"`, `"partial_json":"1"`)
	testBad(t, fakeprovider.Anthropic, stream(true, "\n", cut.Replace(anthropicGood)), nil)
	testBad(t, fakeprovider.Anthropic, start+event(`{"type":"message_delta","delta":{"stop_reason":"refusal"},"usage":{"output_tokens":1}}`)+last, []badCase{
		{"tool_use needs a call", `"refusal"`, `"tool_use"`, "without a tool_use block"},
	})
	failed := event(`{"type":"error","error":{"type":"overloaded_error","message":"no"}}`)
	testBad(t, fakeprovider.Anthropic, start+failed, []badCase{
		{"the error is last", failed, failed + last, "after the end"},
		{"an error has a type", `"type":"overloaded_error",`, ``, "type is missing"},
	}, streamcheck.AllowError)
}

const geminiGood = `
{"candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true}]},"index":0}],"usageMetadata":{"promptTokenCount":1,"totalTokenCount":1},"modelVersion":"m","responseId":"r1"}
{"candidates":[{"content":{"role":"model","parts":[{"text":"Hi [\"]"}]},"index":0}],"modelVersion":"m","responseId":"r1"}
{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"c2ln"}]},"index":0}],"modelVersion":"m","responseId":"r1"}
{"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2,"totalTokenCount":3},"modelVersion":"m","responseId":"r1"}
`

func TestGeminiRules(t *testing.T) {
	t.Parallel()
	good := stream(false, "\r\n", geminiGood)
	after := stream(false, "\r\n", `{"candidates":[{"content":{"parts":[{"text":"!"}]}}],"usageMetadata":{}}`)
	testBad(t, fakeprovider.Gemini, good, []badCase{
		{"fields are those of a response", `"responseId"`, `"id"`, "no field"},
		{"responseId is the same in all", `"r1"`, `"r2"`, "was"},
		{"modelVersion is the same in all", `"modelVersion":"m"`, `"modelVersion":"n"`, "was"},
		{"the role is model", `"role":"model"`, `"role":"assistant"`, "role is"},
		{"a part has data", `{"text":"hm","thought":true}`, `{"thought":true}`, "expected one"},
		{"a part has one kind of data", `"functionCall"`, `"text":"x","functionCall"`, "expected one"},
		{"text is a string", `"text":"hm"`, `"text":7`, "expected a string"},
		{"a call has a name", `"name":"f",`, ``, "name is missing"},
		{"args are an object", `"args":{"x":1}`, `"args":"{}"`, "expected an object"},
		{"calls come whole", `"name":"f"`, `"name":"f","willContinue":true`, "come whole"},
		{"a candidate has content", `"content":{"role":"model","parts":[{"text":"hm","thought":true}]},`, ``, "neither content"},
		{"there is a finishReason", `"finishReason":"STOP",`, ``, "no finishReason"},
		{"there is one finishReason", `"index":0}],"modelVersion"`, `"finishReason":"STOP","index":0}],"modelVersion"`, "after its finishReason"},
		{"the finishReason is in the last chunk", `"totalTokenCount":3},"modelVersion":"m","responseId":"r1"}` + "\r\n\r\n", `"totalTokenCount":3},"modelVersion":"m","responseId":"r1"}` + "\r\n\r\n" + after, "after its finishReason"},
		{"usageMetadata is in the last", `"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2,"totalTokenCount":3},`, ``, "no usageMetadata"},
		{"counts are numbers", `"candidatesTokenCount":2`, `"candidatesTokenCount":"2"`, "expected a number"},
		{"errors are not allowed", `{"candidates"`, `{"error":{"code":1},"candidates"`, "an error"},
	})
	testBad(t, fakeprovider.Gemini, stream(false, "\n", `{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":1,"totalTokenCount":1}}`), []badCase{
		{"a blocked prompt has a reason", `"blockReason":"SAFETY"`, ``, "neither a candidate"},
		{"a blocked prompt has no candidates", `"usageMetadata"`, `"candidates":[{"finishReason":"SAFETY"}],"usageMetadata"`, "blocked"},
	})
	testBad(t, fakeprovider.Gemini, stream(false, "\n", `{"candidates":[{"finishReason":"SAFETY","index":0}],"usageMetadata":{}}`), nil)
	failed := stream(false, "\n", `{"error":{"code":503,"message":"no","status":"UNAVAILABLE"}}`)
	testBad(t, fakeprovider.Gemini, failed, []badCase{
		{"the error is last", failed, failed + after, "after the error"},
		{"an error has a status", `,"status":"UNAVAILABLE"`, ``, "status is missing"},
		{"an error stands alone", `{"error"`, `{"candidates":[],"error"`, "beside other fields"},
	}, streamcheck.AllowError)
}
