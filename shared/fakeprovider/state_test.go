package fakeprovider_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

// thinkingCalls is a step with everything that has state.
func thinkingCalls() fakeprovider.Step {
	return fakeprovider.Step{
		Reasoning: "Two are needed.", RedactedThinking: true, Text: "I look.",
		ToolCalls: []fakeprovider.ToolCall{{Name: "f", Arguments: `{"x":1}`}, {Name: "g"}},
	}
}

// raw reads a JSON object by name.
func raw(t *testing.T, data string) map[string]json.RawMessage {
	t.Helper()
	var out map[string]json.RawMessage
	if err := json.Unmarshal([]byte(data), &out); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return out
}

func list(t *testing.T, data json.RawMessage) []json.RawMessage {
	t.Helper()
	var out []json.RawMessage
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return out
}

// again is one request of a conversation, which sends the answer before it back. It
// is taken as it is, and refused with state that is not the provider's own.
type again struct {
	name, path, first string
	header            []string
	second            func(t *testing.T, answer string) string
	state             string // the member whose value is the state
	says              string
}

func conversations() []again {
	anthropic := `{"model":"m","max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":1024},` +
		`"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"g","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"hi"}%s]}`
	responses := `{"model":"m","store":%v,"include":["reasoning.encrypted_content"],"input":[{"role":"user","content":"hi"}%s]}`
	gemini := `{"contents":[{"role":"user","parts":[{"text":"hi"}]}%s]}`
	messages := func(t *testing.T, answer string) string {
		results := ""
		for _, block := range list(t, raw(t, answer)["content"]) {
			if id := raw(t, string(block))["id"]; id != nil {
				results += `,{"type":"tool_result","tool_use_id":` + string(id) + `}`
			}
		}
		return fmt.Sprintf(anthropic, `,{"role":"assistant","content":`+string(raw(t, answer)["content"])+`},{"role":"user","content":[`+results[1:]+`]}`)
	}
	items := func(store bool) func(t *testing.T, answer string) string {
		return func(t *testing.T, answer string) string {
			more := ""
			for _, item := range list(t, raw(t, answer)["output"]) {
				more += "," + string(item)
				if id := raw(t, string(item))["call_id"]; id != nil {
					more += `,{"type":"function_call_output","call_id":` + string(id) + `,"output":"x"}`
				}
			}
			return fmt.Sprintf(responses, store, more)
		}
	}
	contents := func(t *testing.T, answer string) string {
		content := raw(t, string(list(t, raw(t, answer)["candidates"])[0]))["content"]
		results := ""
		for _, part := range list(t, raw(t, string(content))["parts"]) {
			if call := raw(t, string(part))["functionCall"]; call != nil {
				id := ""
				if s := raw(t, string(call))["id"]; s != nil {
					id = `"id":` + string(s) + `,`
				}
				results += `,{"functionResponse":{` + id + `"name":` + string(raw(t, string(call))["name"]) + `,"response":{}}}`
			}
		}
		return fmt.Sprintf(gemini, ","+string(content)+`,{"role":"user","parts":[`+results[1:]+`]}`)
	}
	version := []string{"Anthropic-Version", "2023-06-01", "X-Api-Key", "k"}
	return []again{
		{"thinking", "/v1/messages", fmt.Sprintf(anthropic, ""), version, messages, "signature", "Invalid `signature`"},
		{"thinking text", "/v1/messages", fmt.Sprintf(anthropic, ""), version, messages, "thinking", "Invalid `signature`"},
		{"redacted thinking", "/v1/messages", fmt.Sprintf(anthropic, ""), version, messages, "data", "Invalid `data`"},
		{"encrypted reasoning", "/v1/responses", fmt.Sprintf(responses, false, ""), nil, items(false), "encrypted_content", "could not be verified"},
		{"stored items", "/v1/responses", strings.Replace(fmt.Sprintf(responses, true, ""), `"reasoning.encrypted_content"`, "", 1), nil, items(true), "", ""},
		{"thought signature", "/v1beta/models/gemini-3-pro:generateContent", fmt.Sprintf(gemini, ""), nil, contents, "thoughtSignature", "not valid"},
		{"no signature of an older model", "/v1beta/models/gemini-2.5-pro:generateContent", fmt.Sprintf(gemini, ""), nil, contents, "", ""},
	}
}

// What an answer gives out is taken back, and nothing that looks like it.
func TestStrictKnowsItsOwnState(t *testing.T) {
	t.Parallel()
	for _, tc := range conversations() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := fakeprovider.New(fakeprovider.Config{Strict: true})
			p.Script(fakeprovider.Match{}, thinkingCalls())
			status, answer := ask(p, tc.path, tc.first, tc.header...)
			if status != 200 {
				t.Fatalf("first: status %d: %s", status, answer)
			}
			second := tc.second(t, answer)
			if status, answer := ask(p, tc.path, second, tc.header...); status != 200 {
				t.Fatalf("second: status %d: %s\n%s", status, answer, second)
			}
			if tc.state == "" {
				return
			}
			before, after, ok := strings.Cut(second, `"`+tc.state+`":"`)
			if !ok {
				t.Fatalf("no %s in %s", tc.state, second)
			}
			forged := before + `"` + tc.state + `":"AAAA` + after[4:]
			status, answer = ask(p, tc.path, forged, tc.header...)
			if status != 400 || !strings.Contains(answer, tc.says) {
				t.Errorf("forged: status %d, %s; want 400 with %q", status, answer, tc.says)
			}
		})
	}
}

// Encrypted reasoning belongs to the organisation that made it.
func TestEncryptedReasoningIsOfItsKey(t *testing.T) {
	t.Parallel()
	p := fakeprovider.New(fakeprovider.Config{Strict: true})
	p.Script(fakeprovider.Match{}, thinkingCalls())
	for _, tc := range conversations() {
		if tc.state != "encrypted_content" {
			continue
		}
		_, answer := ask(p, tc.path, tc.first, "Authorization", "Bearer one")
		second := tc.second(t, answer)
		if status, answer := ask(p, tc.path, second, "Authorization", "Bearer two"); status != 400 {
			t.Errorf("another key's reasoning: status %d: %s", status, answer)
		}
		if status, answer := ask(p, tc.path, second, "Authorization", "Bearer one"); status != 200 {
			t.Errorf("its own: status %d: %s", status, answer)
		}
	}
}

// Only what was to be stored is found again.
func TestStoredResponsesAreFound(t *testing.T) {
	t.Parallel()
	p := fakeprovider.New(fakeprovider.Config{Strict: true})
	for _, store := range []bool{true, false} {
		_, answer := ask(p, "/v1/responses", fmt.Sprintf(`{"model":"m","store":%v,"input":"hi"}`, store))
		id := string(raw(t, answer)["id"])
		item := string(raw(t, string(list(t, raw(t, answer)["output"])[0]))["id"])
		status, answer := ask(p, "/v1/responses", `{"model":"m","input":"go on","previous_response_id":`+id+`}`)
		if (status == 200) != store {
			t.Errorf("store %v, previous_response_id: status %d: %s", store, status, answer)
		}
		status, answer = ask(p, "/v1/responses", `{"model":"m","input":[{"type":"item_reference","id":`+item+`}]}`)
		if (status == 200) != store || !store && status != 404 {
			t.Errorf("store %v, item_reference: status %d: %s", store, status, answer)
		}
	}
}

// Models before Gemini 3 give neither ids nor signatures, the others one signature a
// step, on its first call, or else on the last text that was thought about.
func TestGeminiModelsSignAsTheirGenerationDoes(t *testing.T) {
	t.Parallel()
	p := fakeprovider.New(fakeprovider.Config{})
	body := `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
	for _, tc := range []struct {
		model           string
		step            fakeprovider.Step
		ids, signatures int
	}{
		{"gemini-2.5-pro", thinkingCalls(), 0, 0},
		{"gemini-3-pro", thinkingCalls(), 2, 1},
		{"gemini-3-pro", fakeprovider.Step{Reasoning: "Hm.", Text: "Done."}, 0, 1},
		{"gemini-3-pro", fakeprovider.Step{Text: "Done."}, 0, 0},
	} {
		p.Script(fakeprovider.Match{}, tc.step)
		for _, method := range []string{":generateContent", ":streamGenerateContent?alt=sse"} {
			_, answer := ask(p, "/v1beta/models/"+tc.model+method, body)
			ids, signatures := strings.Count(answer, `"functionCall":{"id":`), strings.Count(answer, `"thoughtSignature"`)
			if ids != tc.ids || signatures != tc.signatures {
				t.Errorf("%s%s: %d ids and %d signatures, want %d and %d: %s", tc.model, method, ids, signatures, tc.ids, tc.signatures, answer)
			}
		}
	}
}

// What steps can say has a form of its own in each protocol, whole and streamed, and
// the streams are valid.
func TestStepsSayItInEveryProtocol(t *testing.T) {
	t.Parallel()
	type wants map[fakeprovider.Protocol][]string
	const chat, responses, anthropic, gemini = fakeprovider.Chat, fakeprovider.Responses, fakeprovider.Anthropic, fakeprovider.Gemini
	for _, tc := range []struct {
		name          string
		step          fakeprovider.Step
		whole, stream wants
		never         string // in no answer
	}{
		{
			"refusal",
			fakeprovider.Step{Refusal: "I won't.", RefusalCategory: "cyber"},
			wants{
				chat:      {`"content":null,"refusal":"I won't."`, `"finish_reason":"stop"`},
				responses: {`{"type":"refusal","refusal":"I won't."}`, `"status":"completed"`},
				anthropic: {`"content":[]`, `"stop_details":{"type":"refusal","category":"cyber","explanation":"I won't."}`},
				gemini:    {`"candidates":[{"finishReason":"SAFETY","index":0}]`},
			},
			wants{
				chat:      {`"delta":{"refusal":"I "}`, `"delta":{"refusal":"won't."}`},
				responses: {`response.refusal.delta`, `"refusal":"I won't."`},
				anthropic: {`"stop_reason":"refusal"`, `"category":"cyber"`},
				gemini:    {`"candidates":[{"finishReason":"SAFETY","index":0}]`},
			},
			"Hello",
		},
		{
			"redacted thinking",
			fakeprovider.Step{Reasoning: "Hm.", RedactedThinking: true, Text: "ok"},
			wants{anthropic: {`{"type":"redacted_thinking","data":"`}},
			wants{anthropic: {`"index":1,"content_block":{"type":"redacted_thinking","data":"`}},
			"Hello",
		},
		{
			"citation",
			fakeprovider.Step{Text: "It is so.", Citation: &fakeprovider.Citation{URL: "https://a.example/p", Title: "P"}},
			wants{
				chat:      {`"annotations":[{"type":"url_citation","url_citation":{"url":"https://a.example/p"`},
				responses: {`"annotations":[{"type":"url_citation","start_index":0,"end_index":9,"url":"https://a.example/p"`},
				anthropic: {`"citations":[{"type":"web_search_result_location","url":"https://a.example/p"`},
				gemini:    {`"groundingChunks":[{"web":{"uri":"https://a.example/p"`},
			},
			wants{
				chat:      {`"delta":{"annotations":[{"type":"url_citation"`},
				responses: {`response.output_text.annotation.added`},
				anthropic: {`"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location"`},
				gemini:    {`"groundingMetadata"`},
			},
			"Hello",
		},
		{
			"blocked prompt",
			fakeprovider.Step{BlockReason: "PROHIBITED_CONTENT"},
			wants{
				chat: {`"content":""`, `"finish_reason":"content_filter"`}, responses: {`"output":[]`, `"reason":"content_filter"`},
				anthropic: {`"content":[]`, `"stop_reason":"refusal"`}, gemini: {`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata"`},
			},
			wants{gemini: {`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata"`}},
			"Hello",
		},
		{
			"filtered without content",
			fakeprovider.Step{Silent: true, Stop: fakeprovider.StopFiltered},
			wants{gemini: {`"candidates":[{"finishReason":"PROHIBITED_CONTENT","index":0}]`}},
			wants{gemini: {`"candidates":[{"finishReason":"PROHIBITED_CONTENT","index":0}]`}},
			"Hello",
		},
		{
			"image",
			fakeprovider.Step{Text: "Look:", Image: []byte("png")},
			wants{responses: {`"type":"image_generation_call","status":"completed","output_format":"png","result":"cG5n"`}, gemini: {`{"inlineData":{"mimeType":"image/png","data":"cG5n"}}`}},
			wants{responses: {`"result":"cG5n"`}, gemini: {`"data":"cG5n"`}},
			"Hello",
		},
		{
			"interleaved calls",
			fakeprovider.Step{Interleave: true, ToolCalls: []fakeprovider.ToolCall{
				{Name: "f", Arguments: `{"city":"a long name of a city"}`}, {Name: "g", Arguments: `{"day":"another quite long text"}`},
			}},
			nil,
			wants{chat: {`"finish_reason":"tool_calls"`}},
			"Hello",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := fakeprovider.New(fakeprovider.Config{Strict: true})
			p.Script(fakeprovider.Match{}, tc.step)
			for _, stream := range []bool{false, true} {
				for _, protocol := range []fakeprovider.Protocol{chat, responses, anthropic, gemini} {
					path, body := simple(protocol, stream)
					status, answer := ask(p, path, body, "Anthropic-Version", "2023-06-01")
					if status != 200 {
						t.Fatalf("%s: status %d: %s", protocol, status, answer)
					}
					want := tc.whole[protocol]
					if stream {
						want = tc.stream[protocol]
						if err := streamcheck.Check(protocol, []byte(answer)); err != nil {
							t.Errorf("%s: %v\n%s", protocol, err, answer)
						}
					}
					for _, w := range want {
						if !strings.Contains(answer, w) {
							t.Errorf("%s, stream %v: no %s in %s", protocol, stream, w, answer)
						}
					}
					if strings.Contains(answer, tc.never) {
						t.Errorf("%s, stream %v: %q in %s", protocol, stream, tc.never, answer)
					}
				}
			}
		})
	}
}

// The pieces of interleaved calls take turns.
func TestInterleavedCallsTakeTurns(t *testing.T) {
	t.Parallel()
	p := fakeprovider.New(fakeprovider.Config{})
	p.Script(fakeprovider.Match{}, fakeprovider.Step{Interleave: true, ToolCalls: []fakeprovider.ToolCall{
		{Name: "f", Arguments: `{"city":"a long name of a city"}`}, {Name: "g", Arguments: `{"day":"another quite long text"}`},
	}})
	path, body := simple(fakeprovider.Chat, true)
	_, answer := ask(p, path, body)
	order := ""
	for line := range strings.Lines(answer) {
		if _, rest, ok := strings.Cut(line, `"tool_calls":[{"index":`); ok {
			order += rest[:1]
		}
	}
	if want := "0101011"; order != want { // the second has one piece more
		t.Errorf("the deltas are of the calls %s, want %s", order, want)
	}
}

// Recorded bodies are read as they came.
func TestRecordedBodiesAreRead(t *testing.T) {
	t.Parallel()
	p := fakeprovider.New(fakeprovider.Config{})
	ask(p, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"},{"n":12345678901234567890}]}`)
	r := p.Requests()[0]
	if got := string(r.At("messages", 0, "content")); got != `"hi"` {
		t.Errorf("messages[0].content is %s", got)
	}
	if got := string(r.At("messages", 1, "n")); got != "12345678901234567890" {
		t.Errorf("a large number is %s", got)
	}
	for _, path := range [][]any{{"messages", 2}, {"messages", -1}, {"none"}, {"model", "x"}, {0}} {
		if got := r.At(path...); got != nil {
			t.Errorf("%v is %s, want nothing", path, got)
		}
	}
	var in struct{ Model string }
	if err := r.Decode(&in); err != nil {
		t.Error(err)
	}
}
