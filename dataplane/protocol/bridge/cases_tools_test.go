package bridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// hello is the smallest request of each protocol.
func hello(p protocol.Name) string {
	switch p {
	case chat:
		return `{"model":"public","messages":[{"role":"user","content":"Hi"}]}`
	case responses:
		return `{"model":"public","store":false,"input":"Hi"}`
	case messages:
		return `{"model":"public","max_tokens":1000,"messages":[{"role":"user","content":"Hi"}]}`
	}
	return `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`
}

// twoCalls is a stream of Anthropic with a text and two calls.
func twoCalls() string {
	return events(messages,
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Wait."}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_a","name":"f","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_b","name":"g","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"b\":2}"}}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":7}}`,
		`{"type":"message_stop"}`)
}

// chunkCall is what a Chat chunk says of a call.
type chunkCall struct {
	Index    *int
	ID, Type string
	Function struct{ Name, Arguments string }
}

// callsOf are the pieces of calls in a stream of Chat, in order.
func callsOf(t *testing.T, stream string) (pieces []chunkCall) {
	t.Helper()
	for _, d := range data(stream) {
		var c struct {
			Choices []struct {
				Delta struct {
					ToolCalls []chunkCall `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal([]byte(d), &c); err != nil {
			t.Fatal(err)
		}
		for _, ch := range c.Choices {
			pieces = append(pieces, ch.Delta.ToolCalls...)
		}
	}
	return pieces
}

// checkCalls checks that calls are counted densely from 0, that id, type and name come
// once and first, and what the arguments add up to.
func checkCalls(t *testing.T, stream string, want ...string) {
	t.Helper()
	var got []string
	args := map[int]string{}
	for _, p := range callsOf(t, stream) {
		if p.Index == nil {
			t.Fatalf("a piece of a call has no index in %s", stream)
		}
		i := *p.Index
		if _, begun := args[i]; !begun {
			if i != len(args) || p.ID == "" || p.Type != "function" || p.Function.Name == "" {
				t.Errorf("call %d begins with %+v as the %d. call", i, p, len(args))
			}
			got = append(got, p.ID+" "+p.Function.Name)
		} else if p.ID != "" || p.Function.Name != "" {
			t.Errorf("call %d says who it is twice: %+v", i, p)
		}
		args[i] += p.Function.Arguments
	}
	for i := range got {
		got[i] += " " + args[i]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("calls %q, want %q\n%s", got, want, stream)
	}
}

func TestConvT01_CallsOfChatAreCountedDenselyFromZero(t *testing.T) {
	t.Parallel()
	out := begin(t, pair{chat, messages}, hello(chat), streaming).stream(t, twoCalls())
	checkCalls(t, out, `toolu_a f {"a":1}`, `toolu_b g {"b":2}`)
}

func TestConvT02_PiecesOfItemsReachTheirCalls(t *testing.T) {
	t.Parallel()
	item := func(i int, rest string) string {
		return fmt.Sprintf(`{"id":"fc_%d","type":"function_call","call_id":"call_%d","name":"f%d",%s}`, i, i, i, rest)
	}
	response := func(status, output string) string {
		return `{"id":"resp_1","object":"response","created_at":1,"model":"m","status":"` + status + `","output":[` + output + `],"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}`
	}
	n := -1
	e := func(kind, rest string) string {
		n++
		return fmt.Sprintf(`{"type":"response.%s","sequence_number":%d,%s}`, kind, n, rest)
	}
	done0, done1 := item(0, `"status":"completed","arguments":"{\"a\":1}"`), item(1, `"status":"completed","arguments":"{\"b\":2}"`)
	up := events(responses,
		e("created", `"response":`+response("in_progress", "")),
		e("output_item.added", `"output_index":0,"item":`+item(0, `"status":"in_progress","arguments":""`)),
		e("output_item.added", `"output_index":1,"item":`+item(1, `"status":"in_progress","arguments":""`)),
		e("function_call_arguments.delta", `"item_id":"fc_1","output_index":1,"delta":"{\"b\""`),
		e("function_call_arguments.delta", `"item_id":"fc_0","output_index":0,"delta":"{\"a\":1}"`),
		e("function_call_arguments.delta", `"item_id":"fc_1","output_index":1,"delta":":2}"`),
		e("function_call_arguments.done", `"item_id":"fc_0","output_index":0,"arguments":"{\"a\":1}"`),
		e("output_item.done", `"output_index":0,"item":`+done0),
		e("function_call_arguments.done", `"item_id":"fc_1","output_index":1,"arguments":"{\"b\":2}"`),
		e("output_item.done", `"output_index":1,"item":`+done1),
		e("completed", `"response":`+response("completed", done0+","+done1)))
	out := begin(t, pair{chat, responses}, hello(chat), streaming).stream(t, up)
	checkCalls(t, out, `call_0 f0 {"a":1}`, `call_1 f1 {"b":2}`)
}

func TestConvT03_EachCallSaysFirstWhoItIs(t *testing.T) {
	t.Parallel()
	out := begin(t, pair{chat, messages}, hello(chat), streaming).stream(t, twoCalls())
	first := callsOf(t, out)[0]
	if first.ID != "toolu_a" || first.Type != "function" || first.Function.Name != "f" || *first.Index != 0 {
		t.Errorf("the first piece is %+v", first)
	}
}

func TestConvT04_PiecesThatInterleaveGoToTheirOwnBlocks(t *testing.T) {
	t.Parallel()
	chunk := func(delta, finish string) string {
		return `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{` + delta + `},"finish_reason":` + finish + `}]}`
	}
	call := func(i int, rest string) string { return fmt.Sprintf(`"tool_calls":[{"index":%d,%s}]`, i, rest) }
	up := events(chat,
		chunk(`"role":"assistant","content":null`, "null"),
		chunk(call(0, `"id":"call_0","type":"function","function":{"name":"f","arguments":""}`), "null"),
		chunk(call(1, `"id":"call_1","type":"function","function":{"name":"g","arguments":""}`), "null"),
		chunk(call(1, `"function":{"arguments":"{\"b\":"}`), "null"),
		chunk(call(0, `"function":{"arguments":"{\"a\":1}"}`), "null"),
		chunk(call(1, `"function":{"arguments":"2}"}`), "null"),
		chunk("", `"tool_calls"`),
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`)
	for _, from := range []protocol.Name{messages, responses, generate} {
		out := begin(t, pair{from, chat}, hello(from), streaming).stream(t, up)
		if from != messages {
			continue // their rules are those of the stream checker
		}
		got, opened := map[string]string{}, map[string]bool{}
		for _, d := range data(out) {
			index := fmt.Sprint(at(t, d, "index"))
			switch at(t, d, "type") {
			case "content_block_start":
				opened[index] = true
			case "content_block_delta":
				if !opened[index] {
					t.Errorf("a piece for block %s, which is not open", index)
				}
				got[index] += at(t, d, "delta", "partial_json").(string)
			}
		}
		if len(got) != 2 || got["0"] != `{"a":1}` || got["1"] != `{"b":2}` {
			t.Errorf("blocks %v\n%s", got, out)
		}
	}
}

func TestConvT16_ArgumentsThatWereCutStayCut(t *testing.T) {
	t.Parallel()
	const cut = `{"path":"/a","text":"half of`
	quoted, _ := json.Marshal(cut)
	fromAnthropic := events(messages,
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_a","name":"f","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":`+string(quoted)+`}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"output_tokens":7}}`,
		`{"type":"message_stop"}`)
	out := begin(t, pair{chat, messages}, hello(chat), streaming).stream(t, fromAnthropic)
	checkCalls(t, out, "toolu_a f "+cut)
	if !strings.Contains(out, `"finish_reason":"length"`) {
		t.Errorf("chat: no length in %s", out)
	}
	out = begin(t, pair{responses, messages}, hello(responses), streaming).stream(t, fromAnthropic)
	if !strings.Contains(out, "response.incomplete") || !strings.Contains(out, string(quoted)) {
		t.Errorf("responses: %s", out)
	}
	fromChat := events(chat,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_0","type":"function","function":{"name":"f","arguments":`+string(quoted)+`}}]},"finish_reason":null}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`)
	out = begin(t, pair{messages, chat}, hello(messages), streaming).stream(t, fromChat)
	if !strings.Contains(out, `"stop_reason":"max_tokens"`) || !strings.Contains(out, string(quoted)) {
		t.Errorf("anthropic: %s", out)
	}
}

func TestConvT17_OneCallAtATimeWritesTheChoiceOut(t *testing.T) {
	t.Parallel()
	x := begin(t, pair{chat, messages}, `{"model":"public","messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f"}}],"parallel_tool_calls":false}`)
	same(t, "tool_choice", x.sent(t, "tool_choice"), `{"type":"auto","disable_parallel_tool_use":true}`)
}

func TestConvT18_SchemasOfToolsAreObjects(t *testing.T) {
	t.Parallel()
	for from, body := range map[protocol.Name]string{
		chat:      `{"model":"public","messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":"string"}}}}},{"type":"function","function":{"name":"g"}}]}`,
		responses: `{"model":"public","store":false,"input":"Hi","tools":[{"type":"function","name":"f","parameters":{"properties":{"a":{"type":"string"}}},"strict":false},{"type":"function","name":"g","parameters":null,"strict":false}]}`,
		generate:  `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"properties":{"a":{"type":"string"}}}},{"name":"g"}]}]}`,
	} {
		x := begin(t, pair{from, messages}, body)
		if x.sent(t, "tools", 0, "input_schema", "type") != "object" || x.sent(t, "tools", 0, "input_schema", "properties", "a", "type") != "string" {
			t.Errorf("%s: %v", from, x.sent(t, "tools", 0))
		}
		same(t, string(from), x.sent(t, "tools", 1, "input_schema"), `{"type":"object","properties":{}}`)
	}
}

func TestConvT19_WordsOfJSONSchemaReachGemini(t *testing.T) {
	t.Parallel()
	const schema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"type":["string","null"]},"b":{"$ref":"#/$defs/b"}},"$defs":{"b":{"const":1}},"additionalProperties":false}`
	x := begin(t, pair{chat, generate}, `{"model":"public","messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":`+schema+`}}]}`)
	same(t, "schema", x.sent(t, "tools", 0, "functionDeclarations", 0, "parametersJsonSchema"), schema)
}

// A call that names no tool cannot be run, so that the answer is none; one without an id
// gets one, so that its result can be told.
func TestCallsHaveANameAndAnID(t *testing.T) {
	t.Parallel()
	call := func(members string) (whole, stream string) {
		const usage = `"input_tokens":1,"output_tokens":2`
		return anthropicAnswer(`{"type":"tool_use",`+members+`"input":{}}`, "tool_use", usage), events(messages,
			`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{`+usage+`}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use",`+members+`"input":{}}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{`+usage+`}}`,
			`{"type":"message_stop"}`)
	}
	for _, from := range []protocol.Name{chat, responses, generate} {
		p := pair{from, messages}
		whole, stream := call(`"id":"toolu_1",`)
		if _, f := begin(t, p, hello(from)).conv.Answer([]byte(whole)); f == nil || f.Class != fault.Malformed {
			t.Errorf("%s: a call without a name: %v", from, f)
		}
		if _, f := begin(t, p, hello(from), streaming).relay(strings.NewReader(stream)); f == nil || f.Class != fault.Malformed {
			t.Errorf("%s: a streamed call without a name: %v", from, f)
		}
		if from == generate { // whose calls do without
			continue
		}
		whole, stream = call(`"name":"f",`)
		for _, out := range []string{begin(t, p, hello(from)).whole(t, whole), begin(t, p, hello(from), streaming).stream(t, stream)} {
			if !strings.Contains(out, `id":"gwc_`) {
				t.Errorf("%s: a call without an id: %s", from, out)
			}
		}
	}
}
