package fakeprovider_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// strictBad is a request that is taken with one thing changed, named for what the
// vendor refuses.
type strictBad struct {
	rule     string
	old, new string // the first old becomes new
	says     string // part of the message
}

// ask sends one request to p.
func ask(p http.Handler, path, body string, header ...string) (status int, answer string) {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func testStrict(t *testing.T, path, good string, header []string, cases []strictBad) {
	t.Helper()
	p := fakeprovider.New(fakeprovider.Config{Strict: true})
	if status, answer := ask(p, path, good, header...); status != 200 {
		t.Fatalf("the good request: status %d: %s", status, answer)
	}
	for _, tc := range cases {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(good, tc.old) {
				t.Fatalf("the request has no %q", tc.old)
			}
			status, answer := ask(p, path, strings.Replace(good, tc.old, tc.new, 1), header...)
			answer = strings.NewReplacer(`\"`, `"`, `\u003c`, "<", `\u003e`, ">").Replace(answer)
			if status != 400 || !strings.Contains(answer, tc.says) {
				t.Errorf("status %d, %s; want 400 with %q", status, answer, tc.says)
			}
		})
	}
}

const strictChat = `{"model":"m","max_completion_tokens":99,"stop":["a"],"metadata":{"any":"thing"},
"messages":[
 {"role":"system","content":"be kind"},
 {"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"https://a.example/i.png"}}]},
 {"role":"assistant","content":null,"annotations":[],"tool_calls":[
  {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
  {"id":"b","type":"function","function":{"name":"g","arguments":"{\"x\":{\"free\":1}}"}}]},
 {"role":"tool","tool_call_id":"b","content":"two"},
 {"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"one"}]},
 {"role":"user","content":"go on"}],
"tools":[
 {"type":"function","function":{"name":"f","parameters":{"type":"object","free":{"x":1}}}},
 {"type":"function","function":{"name":"g","strict":true,"parameters":{"type":"object","properties":{"x":{"type":"object","properties":{},"additionalProperties":false,"required":[]}},"additionalProperties":false,"required":["x"]}}}],
"tool_choice":{"type":"function","function":{"name":"f"}},
"response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,"schema":{"type":"object","properties":{"y":{"type":"string"}},"required":["y"],"additionalProperties":false}}}}`

func TestStrictChat(t *testing.T) {
	t.Parallel()
	testStrict(t, "/v1/chat/completions", strictChat, nil, []strictBad{
		{"unknown field", `"model":"m"`, `"model":"m","top_k":1`, `"param":"top_k"`},
		{"unknown field of a message", `"role":"system"`, `"role":"system","id":"x"`, "'messages[0].id'"},
		{"unknown field of a part", `{"type":"text","text":"hi"}`, `{"type":"text","text":"hi","cache_control":{}}`, "'messages[1].content[0].cache_control'"},
		{"unknown field of an image", `"url":"https`, `"width":1,"url":"https`, "image_url.width"},
		{"unknown field of a call", `"id":"a"`, `"index":0,"id":"a"`, "tool_calls[0].index"},
		{"unknown field of a tool", `"name":"f","parameters"`, `"input_schema":{},"name":"f","parameters"`, "tools[0].function.input_schema"},
		{"unknown field of a tool choice", `"tool_choice":{`, `"tool_choice":{"name":"f",`, "tool_choice.name"},
		{"unknown field of a response format", `"json_schema":{"name"`, `"json_schema":{"title":"x","name"`, "response_format.json_schema.title"},
		{"unknown role", `"role":"system"`, `"role":"model"`, "Invalid value: 'model'"},
		{"unknown part", `"type":"image_url"`, `"type":"input_image"`, "Invalid value: 'input_image'"},
		{"object where text belongs", `"tool_call_id":"b"`, `"tool_call_id":{}`, "Invalid type for 'messages[3].tool_call_id'"},
		{"no model", `"model":"m",`, ``, "Missing required parameter: 'model'"},
		{"two limits", `"max_completion_tokens":99`, `"max_completion_tokens":99,"max_tokens":99`, "at the same time"},
		{"stream_options without stream", `"model":"m"`, `"model":"m","stream_options":{"include_usage":true}`, "'stream_options'"},
		{"too many stop strings", `["a"]`, `["a","b","c","d","e"]`, "maximum length 4"},
		{"temperature out of range", `"model":"m"`, `"model":"m","temperature":2.5`, "between 0 and 2"},
		{"result without a call", `"tool_call_id":"b"`, `"tool_call_id":"c"`, "must be a response to a preceding message"},
		{"result twice", `{"role":"user","content":"go on"}`, `{"role":"tool","tool_call_id":"a","content":"again"}`, "must be a response to a preceding message"},
		{"call without a result", ` {"role":"tool","tool_call_id":"b","content":"two"},` + "\n", ``, "did not have response messages: b"},
		{"something between call and result", ` {"role":"tool","tool_call_id":"a"`, ` {"role":"user","content":"wait"},{"role":"tool","tool_call_id":"a"`, "did not have response messages: a"},
		{"duplicate call ids", `"id":"b"`, `"id":"a"`, "Duplicate value"},
		{"call without an id", `"id":"b",`, ``, "tool_calls[1].id"},
		{"image in a tool message", `"content":[{"type":"text","text":"one"}]`, `"content":[{"type":"image_url","image_url":{"url":"x"}}]`, "Invalid value: 'image_url'. Supported values are: 'text'"},
		{"arguments as an object", `"arguments":"{}"`, `"arguments":{}`, "expected a string"},
		{"arguments as a number", `"arguments":"{}"`, `"arguments":7`, "expected a string"},
		{"empty list of calls", `{"role":"user","content":"go on"}`, `{"role":"assistant","content":"x","tool_calls":[]}`, "empty array"},
		{"message without content", `{"role":"user","content":"go on"}`, `{"role":"user"}`, "expected a string, got null"},
		{"empty content", `"content":"go on"`, `"content":[]`, "empty array"},
		{"name of a function", `{"type":"function","function":{"name":"f"`, `{"type":"function","function":{"name":"f.x"`, "does not match pattern"},
		{"name of a called function", `"function":{"name":"f","arguments"`, `"function":{"name":"f x","arguments"`, "does not match pattern"},
		{"parameters that are no object", `"parameters":{"type":"object","free"`, `"parameters":{"type":"string","free"`, "schema must be a JSON Schema"},
		{"chosen tool that is not there", `"tool_choice":{"type":"function","function":{"name":"f"`, `"tool_choice":{"type":"function","function":{"name":"h"`, "not one of the tools"},
		{"open object in strict mode", `"additionalProperties":false,"required":["x"]`, `"required":["x"]`, "'additionalProperties' is required to be supplied and to be false"},
		{"open object deep in strict mode", `"additionalProperties":false,"required":[]`, `"additionalProperties":true,"required":[]`, "In context=('properties', 'x'), 'additionalProperties'"},
		{"optional property in strict mode", `"required":["x"]`, `"required":[]`, "Missing 'x'"},
		{"response format without a name", `"name":"s",`, ``, "json_schema.name"},
		{"optional property in a response format", `"required":["y"],`, ``, "Missing 'y'"},
	})
	testStrict(t, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, nil, []strictBad{
		{"no messages", `{"role":"user","content":"hi"}`, ``, "Invalid 'messages': empty array"},
		{"tool_choice without tools", `"model"`, `"tool_choice":"auto","model"`, "only allowed when 'tools'"},
		{"parallel_tool_calls without tools", `"model"`, `"parallel_tool_calls":true,"model"`, "only allowed when 'tools'"},
		{"empty tools", `"model"`, `"tools":[],"model"`, "empty array"},
		{"call at the end", `{"role":"user","content":"hi"}`, `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}}]}`, "did not have response messages: a"},
	})
}

const strictResponses = `{"model":"m","store":false,"include":["reasoning.encrypted_content"],"client_metadata":{"x":"y"},
"input":[
 {"role":"developer","content":"be kind"},
 {"type":"message","role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"https://a.example/i.png","detail":"auto"}]},
 {"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"I look","annotations":[]}]},
 {"type":"function_call","id":"fc_1","call_id":"a","name":"f","arguments":"{}"},
 {"type":"function_call","call_id":"b","name":"g","arguments":"{}"},
 {"type":"function_call_output","call_id":"b","output":"two"},
 {"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"one"}]}],
"reasoning":{"effort":"low","summary":"auto"},
"tools":[{"type":"function","name":"f","parameters":{"type":"object","free":1}},{"type":"web_search","anything":1},
 {"type":"function","name":"g","strict":true,"parameters":{"type":"object","properties":{},"required":[],"additionalProperties":false}}],
"text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object"}}}}`

func TestStrictResponses(t *testing.T) {
	t.Parallel()
	testStrict(t, "/v1/responses", strictResponses, nil, []strictBad{
		{"unknown field", `"model":"m"`, `"model":"m","messages":[]`, `"param":"messages"`},
		{"stop", `"model":"m"`, `"model":"m","stop":["a"]`, `"param":"stop"`},
		{"unknown field of an item", `"call_id":"b","name"`, `"call_id":"b","index":0,"name"`, "input[4].index"},
		{"unknown field of a part", `"text":"hi"`, `"text":"hi","cache_control":{}`, "input[1].content[0].cache_control"},
		{"unknown field of reasoning", `"effort":"low"`, `"effort":"low","budget_tokens":1`, "reasoning.budget_tokens"},
		{"unknown field of a format", `"format":{`, `"format":{"json_schema":{},`, "text.format.json_schema"},
		{"unknown field of a tool", `"name":"f","parameters"`, `"function":{},"name":"f","parameters"`, "tools[0].function"},
		{"unknown item", `"type":"function_call_output","call_id":"b"`, `"type":"tool","call_id":"b"`, "Invalid value: 'tool'"},
		{"unknown tool", `"type":"web_search"`, `"type":"web_fetch"`, "Invalid value: 'web_fetch'"},
		{"input text of an assistant", `"type":"output_text"`, `"type":"input_text"`, "Supported values are: 'output_text', 'refusal'"},
		{"output text of a user", `"type":"input_text","text":"hi"`, `"type":"output_text","text":"hi"`, "Invalid value: 'output_text'"},
		{"no model", `"model":"m",`, ``, "'model'"},
		{"stream_options without stream", `"model":"m"`, `"model":"m","stream_options":{}`, "'stream_options'"},
		{"output without a call", `"call_id":"b","output"`, `"call_id":"c","output"`, "No tool call found for function call output with call_id c"},
		{"call without an output", `{"type":"function_call_output","call_id":"b","output":"two"},`, ``, "No tool output found for function call b"},
		{"output before its call", `{"role":"developer","content":"be kind"}`, `{"type":"function_call_output","call_id":"a","output":"x"}`, "No tool call found"},
		{"two calls with one id", `"call_id":"b","name"`, `"call_id":"a","name"`, "Duplicate call_id"},
		{"call without a call_id", `"call_id":"b","name"`, `"name"`, "input[4].call_id"},
		{"arguments as an object", `"arguments":"{}"`, `"arguments":{}`, "arguments"},
		{"arguments as null", `"arguments":"{}"`, `"arguments":null`, "expected a string"},
		{"unknown previous response", `"model":"m"`, `"model":"m","previous_response_id":"resp_1"`, "Previous response with id 'resp_1' not found"},
		{"foreign encrypted reasoning", `{"type":"function_call","id":"fc_1"`, `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"abc"},{"type":"function_call","id":"fc_1"`, "could not be verified"},
		{"format without a name", `"name":"s",`, ``, "text.format.name"},
		{"open strict schema", `,"additionalProperties":false`, ``, "'additionalProperties' is required"},
		{"tool choice that is no word", `"model":"m"`, `"model":"m","tool_choice":"any"`, "Invalid value: 'any'"},
	})
	testStrict(t, "/v1/responses", `{"model":"m","input":"hi"}`, nil, []strictBad{
		{"no input", `,"input":"hi"`, ``, "'input'"},
		{"empty input", `"hi"`, `[]`, "empty array"},
		{"input that is no list", `"hi"`, `7`, "Invalid type for 'input'"},
	})
	p := fakeprovider.New(fakeprovider.Config{Strict: true})
	for _, item := range []string{
		`{"type":"item_reference","id":"msg_7"}`, `{"type":"reasoning","id":"msg_7","summary":[]}`,
	} {
		status, answer := ask(p, "/v1/responses", `{"model":"m","input":[`+item+`]}`)
		if status != 404 || !strings.Contains(answer, "Item with id 'msg_7' not found") {
			t.Errorf("%s: status %d: %s", item, status, answer)
		}
	}
}

const strictAnthropic = `{"model":"m","max_tokens":2048,"metadata":{"user_id":"u"},"stop_sequences":["x"],
"system":[{"type":"text","text":"be kind","cache_control":{"type":"ephemeral"}}],
"messages":[
 {"role":"user","content":"hi"},
 {"role":"assistant","content":[{"type":"text","text":"I look"},{"type":"tool_use","id":"a_1","name":"f","input":{"free":{"x":1}}},{"type":"tool_use","id":"b-2","name":"f","input":{}}]},
 {"role":"user","content":[{"type":"tool_result","tool_use_id":"b-2","content":"two"},{"type":"tool_result","tool_use_id":"a_1","content":[{"type":"text","text":"one"}],"is_error":true},{"type":"text","text":"go on"}]},
 {"role":"assistant","content":"fine"},
 {"role":"user","content":[{"type":"text","text":"more","cache_control":{"type":"ephemeral"}}]}],
"tools":[{"name":"f","input_schema":{"type":"object","free":{"x":1}}},{"type":"bash_20250124","name":"bash"}],
"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`

func TestStrictAnthropic(t *testing.T) {
	t.Parallel()
	mark := `,"cache_control":{"type":"ephemeral"}`
	old := []string{"Anthropic-Version", "2023-06-01"}
	testStrict(t, "/v1/messages", strictAnthropic, old, []strictBad{
		{"unknown field", `"model":"m"`, `"model":"m","stop":[]`, "stop: Extra inputs are not permitted"},
		{"unknown field of a message", `"role":"user","content":"hi"`, `"role":"user","name":"x","content":"hi"`, "messages.0.name: Extra inputs"},
		{"unknown field of a block", `"text":"go on"`, `"text":"go on","index":1`, "messages.2.content.2.index: Extra inputs"},
		{"unknown field of a tool", `"name":"f","input_schema"`, `"parameters":{},"name":"f","input_schema"`, "tools.0.parameters: Extra inputs"},
		{"unknown field of a tool choice", `"tool_choice":{`, `"tool_choice":{"function":{},`, "tool_choice.function: Extra inputs"},
		{"beta field without a beta", `"model":"m"`, `"model":"m","context_management":{}`, "context_management: Extra inputs"},
		{"unknown block", `"type":"text","text":"go on"`, `"type":"input_text","text":"go on"`, "does not match any of the expected tags"},
		{"no max_tokens", `"max_tokens":2048,`, ``, "max_tokens: Field required"},
		{"blank stop sequence", `["x"]`, `["\n"]`, "non-whitespace"},
		{"first message of the assistant", `{"role":"user","content":"hi"},`, ``, `first message must use the "user" role`},
		{"role tool", `"role":"user","content":"hi"`, `"role":"tool","content":"hi"`, "does not match any of the expected tags"},
		{"system without the beta", `{"role":"assistant","content":"fine"}`, `{"role":"system","content":"fine"}`, `Unexpected role "system"`},
		{"form of a call id", `"id":"a_1"`, `"id":"a:1"`, "String should match pattern"},
		{"call ids that are not unique", `"id":"b-2"`, `"id":"a_1"`, "ids must be unique"},
		{"call without a result", `{"type":"tool_result","tool_use_id":"b-2","content":"two"},`, ``, "without `tool_result` blocks immediately after: b-2"},
		{"results that do not stand first", `[{"type":"tool_result","tool_use_id":"b-2"`, `[{"type":"text","text":"so"},{"type":"tool_result","tool_use_id":"b-2"`, "without `tool_result` blocks immediately after: a_1, b-2"},
		{"results in two messages", `"content":"two"},`, `"content":"two"}]},{"role":"user","content":[`, "without `tool_result` blocks immediately after: a_1"},
		{"result without a call", `"tool_use_id":"b-2"`, `"tool_use_id":"c"`, "b-2"},
		{"unexpected result", `{"type":"text","text":"more"`, `{"type":"tool_result","tool_use_id":"c"},{"type":"text","text":"more"`, "unexpected `tool_use_id`"},
		{"result twice", `{"type":"text","text":"go on"}`, `{"type":"tool_result","tool_use_id":"a_1"}`, "single result"},
		{"input as text", `"input":{}`, `"input":"{}"`, "valid dictionary"},
		{"empty text", `"text":"go on"`, `"text":""`, "must be non-empty"},
		{"blank text", `"text":"go on"`, `"text":" \n"`, "non-whitespace text"},
		{"empty text in a result", `"text":"one"`, `"text":""`, "must be non-empty"},
		{"empty system text", `"text":"be kind"`, `"text":""`, "must be non-empty"},
		{"empty content", `"content":"fine"`, `"content":""`, "must have non-empty content"},
		{"empty list of blocks", `"content":"fine"`, `"content":[]`, "must have non-empty content"},
		{"temperature above 1", `"model":"m"`, `"model":"m","temperature":1.5`, "temperature: range"},
		{"schema without a type", `"type":"object",`, ``, "input_schema.type: Field required"},
		{"schema of another type", `"type":"object"`, `"type":"string"`, "Input should be 'object'"},
		{"tool without a schema", `,"input_schema":{"type":"object","free":{"x":1}}`, ``, "input_schema: Field required"},
		{"schema with anyOf at the top", `"type":"object",`, `"type":"object","anyOf":[],`, "top level"},
		{"tools of one name", `"name":"bash"`, `"name":"f"`, "names must be unique"},
		{"chosen tool that is not there", `{"type":"auto","disable_parallel_tool_use":true}`, `{"type":"tool","name":"g"}`, "not found in provided tools"},
		{"five marks", `"content":"two"`, `"content":[{"type":"text","text":"a"` + mark + `},{"type":"text","text":"b"` + mark + `},{"type":"text","text":"c"` + mark + `}]`, "maximum of 4 blocks with cache_control"},
		{"thinking of another", `[{"type":"text","text":"I look"}`, `[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"I look"}`, "Invalid `signature`"},
		{"redacted thinking of another", `[{"type":"text","text":"I look"}`, `[{"type":"redacted_thinking","data":"c2ln"},{"type":"text","text":"I look"}`, "Invalid `data`"},
		{"budget below 1024", `"model":"m"`, `"model":"m","thinking":{"type":"enabled","budget_tokens":1023}`, "greater than or equal to 1024"},
		{"budget not below max_tokens", `"model":"m"`, `"model":"m","thinking":{"type":"enabled","budget_tokens":2048}`, "must be greater than `thinking.budget_tokens`"},
		{"temperature with thinking", `"model":"m"`, `"model":"m","temperature":0,"thinking":{"type":"enabled","budget_tokens":1024}`, "may only be set to 1"},
		{"top_k with thinking", `"model":"m"`, `"model":"m","top_k":5,"thinking":{"type":"adaptive"}`, "must be unset"},
		{"forced tool with thinking", `{"type":"auto","disable_parallel_tool_use":true}`, `{"type":"any"},"thinking":{"type":"adaptive"}`, "forces tool use"},
		{"prefill with thinking", `{"type":"text","text":"more","cache_control":{"type":"ephemeral"}}]}]`, `{"type":"text","text":"more"}]},{"role":"assistant","content":"So"}],"thinking":{"type":"adaptive"}`, "prefill"},
		{
			"tool loop without its thinking", `{"role":"assistant","content":"fine"},` + "\n" + ` {"role":"user","content":[{"type":"text","text":"more","cache_control":{"type":"ephemeral"}}]}],`,
			`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}],"thinking":{"type":"enabled","budget_tokens":1024},`,
			"Expected `thinking` or `redacted_thinking`, but found `tool_use`",
		},
		{"call at the end", `{"role":"user","content":[{"type":"text","text":"more","cache_control":{"type":"ephemeral"}}]}`, `{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]}`, "immediately after: c"},
	})
	current := []string{"Anthropic-Version", "2026-10-21"}
	testStrict(t, "/v1/messages", strictAnthropic, current, []strictBad{
		{"temperature with the current version", `"model":"m"`, `"model":"m","temperature":1`, "temperature: not supported"},
		{"top_p with the current version", `"model":"m"`, `"model":"m","top_p":1`, "top_p: not supported"},
		{"top_k with the current version", `"model":"m"`, `"model":"m","top_k":1`, "top_k: not supported"},
		{"document of the assistant", `{"type":"text","text":"I look"}`, `{"type":"document","source":{"type":"text","data":"x","media_type":"text/plain"}}`, "not supported in assistant messages"},
	})
	p := fakeprovider.New(fakeprovider.Config{Strict: true})
	system := strings.Replace(strictAnthropic, `{"role":"assistant","content":"fine"}`, `{"role":"system","content":"fine"}`, 1)
	if status, answer := ask(p, "/v1/messages", system, append(old, "Anthropic-Beta", "a,mid-conversation-system-2026-04-07")...); status != 200 {
		t.Errorf("system in messages with the beta: status %d: %s", status, answer)
	}
	if status, answer := ask(p, "/v1/messages?beta=true", strings.Replace(strictAnthropic, `{`, `{"context_management":{},`, 1), old...); status != 200 {
		t.Errorf("a beta field with the beta: status %d: %s", status, answer)
	}
}

const strictGemini = `{"systemInstruction":{"parts":[{"text":"be kind"}]},
"contents":[
 {"role":"user","parts":[{"text":"hi"},{"inlineData":{"mimeType":"image/png","data":"aW1n"}}]},
 {"role":"model","parts":[{"text":"I look"}]},
 {"role":"model","parts":[{"functionCall":{"name":"f","args":{"free":{"x":1}}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"name":"g","args":{}}}]},
 {"role":"model","parts":[{"text":""}]},
 {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"free":1}}},{"functionResponse":{"name":"g","response":{}}}]}],
"tools":[{"functionDeclarations":[
 {"name":"f","parameters":{"type":"OBJECT","properties":{"x":{"type":"string","enum":["a"]},"l":{"type":"ARRAY","items":{"type":"STRING"}}},"required":["x"]}},
 {"name":"g","parametersJsonSchema":{"type":["object","null"],"$defs":{},"additionalProperties":false}}]}],
"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}},
"generationConfig":{"stopSequences":["1","2","3","4","5"],"responseMimeType":"application/json","responseSchema":{"type":"OBJECT"},"thinkingConfig":{"thinkingLevel":"LOW"}}}`

func TestStrictGemini(t *testing.T) {
	t.Parallel()
	property := `"x":{"type":"string"`
	cases := []strictBad{
		{"unknown field", `{"systemInstruction"`, `{"max_tokens":1,"systemInstruction"`, "Unknown name \"max_tokens\" at ''"},
		{"unknown field of a content", `"role":"user"`, `"role":"user","name":"x"`, "at 'contents[0]'"},
		{"unknown field of a part", `{"text":"hi"}`, `{"text":"hi","type":"text"}`, "at 'contents[0].parts[0]'"},
		{"unknown field of the configuration", `"stopSequences"`, `"maxTokens":1,"stopSequences"`, "at 'generationConfig'"},
		{"unknown field of a declaration", `{"name":"g","parametersJsonSchema"`, `{"name":"g","strict":true,"parametersJsonSchema"`, "at 'tools[0].functionDeclarations[1]'"},
		{"unknown field of the calling mode", `"mode":"ANY"`, `"mode":"ANY","x":1`, "at 'toolConfig.functionCallingConfig'"},
		{"role assistant", `"role":"model"`, `"role":"assistant"`, "valid role"},
		{"no role", `"role":"user",`, ``, "valid role"},
		{"empty parts", `[{"text":"I look"}]`, `[]`, "must not be empty"},
		{"part without data", `{"text":"hi"}`, `{"thought":true}`, "required oneof field"},
		{"part with two kinds of data", `{"text":"hi"}`, `{"text":"hi","fileData":{}}`, "already set"},
		{"empty text alone", `{"text":"I look"}`, `{"text":""}`, "not an empty text"},
		{"fewer responses than calls", `,{"functionResponse":{"name":"g","response":{}}}`, ``, "equal to the number of function call parts"},
		{"responses in two contents", `,{"functionResponse":{"name":"g","response":{}}}`, `]},{"role":"user","parts":[{"functionResponse":{"name":"g","response":{}}}`, "equal to the number of function call parts"},
		{"responses in another order", `{"functionResponse":{"name":"f","response":{"free":1}}},{"functionResponse":{"name":"g","response":{}}}`, `{"functionResponse":{"name":"g","response":{}}},{"functionResponse":{"name":"f","response":{}}}`, "does not match a function call"},
		{"response not after its call", ` {"role":"user","parts":[{"functionResponse"`, ` {"role":"user","parts":[{"text":"wait"}]},{"role":"user","parts":[{"functionResponse"`, "equal to the number of function call parts"},
		{"response without a call", `[{"text":"hi"}`, `[{"functionResponse":{"name":"f","response":{}}}`, "immediately after a function call turn"},
		{"response of another function", `"functionResponse":{"name":"g"`, `"functionResponse":{"name":"h"`, "does not match a function call"},
		{"response with an id of no call", `"functionResponse":{"name":"g"`, `"functionResponse":{"id":"x","name":"g"`, "does not match a function call"},
		{"response as text", `"response":{}`, `"response":"two"`, "expected an object"},
		{"args as text", `"args":{}`, `"args":"{}"`, "expected an object"},
		{"call of the user", `[{"text":"hi"}`, `[{"functionCall":{"name":"f"}}`, "have the role model"},
		{"parameters of both forms", `"parametersJsonSchema"`, `"parameters":{"type":"OBJECT"},"parametersJsonSchema"`, "only one of parameters"},
		{"list of types", property, `"x":{"type":["string","null"]`, "Proto field is not repeating"},
		{"unknown type", property, `"x":{"type":"any"`, "is not one of"},
		{"array without items", `,"items":{"type":"STRING"}`, ``, "items: missing field"},
		{"enum of numbers", `["a"]`, `[1]`, "TYPE_STRING"},
		{"required without a property", `"required":["x"]`, `"required":["z"]`, "is not defined"},
		{"schema of the answer", `"responseSchema":{`, `"responseSchema":{"additionalProperties":false,`, "at 'generationConfig.responseSchema'"},
		{"schema without JSON", `"responseMimeType":"application/json",`, ``, "only allowed when mime type"},
		{"schemas of both forms", `"responseSchema"`, `"responseJsonSchema":{},"responseSchema"`, "only one of response_schema"},
		{"six stop sequences", `"5"`, `"5","6"`, "at most 5"},
		{"temperature out of range", `"stopSequences"`, `"temperature":2.1,"stopSequences"`, "range [0.0, 2.0]"},
		{"two kinds of thinking", `"thinkingLevel":"LOW"`, `"thinkingLevel":"LOW","thinkingBudget":1`, "only one of thinking budget"},
		{"allowed names without ANY", `"mode":"ANY"`, `"mode":"AUTO"`, "only when the function calling mode is ANY"},
		{"allowed name that is not declared", `"allowedFunctionNames":["f"]`, `"allowedFunctionNames":["h"]`, "not a declared function"},
		{"declared twice", `"name":"g","parametersJsonSchema"`, `"name":"f","parametersJsonSchema"`, "Duplicate function declaration"},
		{"name of a function", `{"name":"f","parameters"`, `{"name":"1 f","parameters"`, "Invalid function name"},
		{"signature of another", `"skip_thought_signature_validator"`, `"c2ln"`, "not valid"},
	}
	for _, word := range []string{"$ref", "$defs", "additionalProperties", "const", "oneOf", "allOf", "$schema"} {
		cases = append(cases, strictBad{"schema with " + word, property, `"x":{"` + word + `":"v","type":"string"`, `Unknown name "` + word + `"`})
	}
	testStrict(t, "/v1beta/models/gemini-2.5-pro:generateContent", strictGemini, nil, cases)
	signature := `,"thoughtSignature":"skip_thought_signature_validator"`
	testStrict(t, "/v1beta/models/gemini-3-pro:generateContent", strictGemini, nil, []strictBad{
		{"first call of a step without its signature", signature, ``, "missing a thought_signature"},
	})
	// Not of the current turn, or of an older model: no signature is asked for.
	unsigned := strings.Replace(strictGemini, signature, "", 1)
	later := strings.Replace(unsigned, `}],`+"\n"+`"tools"`, `},{"role":"model","parts":[{"text":"so"}]},{"role":"user","parts":[{"text":"thanks"}]}],`+"\n"+`"tools"`, 1)
	testStrict(t, "/v1beta/models/gemini-3-pro:generateContent", later, nil, nil)
	testStrict(t, "/v1beta/models/gemini-2.5-pro:generateContent", unsigned, nil, nil)
	testStrict(t, "/v1beta/models/m:countTokens", `{"generateContentRequest":`+strings.Replace(unsigned, `{`, `{"model":"models/m",`, 1)+`}`, nil, []strictBad{
		{"unknown field below countTokens", `"model":`, `"modelName":"x","model":`, "at 'generateContentRequest'"},
	})
}
