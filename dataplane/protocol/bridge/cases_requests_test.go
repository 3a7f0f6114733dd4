package bridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
)

func TestConvR01_ThinkingIsOverBeforeTheTextBegins(t *testing.T) {
	t.Parallel()
	out := begin(t, pair{messages, chat}, hello(messages), streaming).stream(t, events(chat,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"Hm. "},"finish_reason":null}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"reasoning_content":"Well."},"finish_reason":null}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`))
	var order []string
	for _, d := range data(out) {
		switch kind := at(t, d, "type"); kind {
		case "content_block_start":
			order = append(order, fmt.Sprint("+", at(t, d, "content_block", "type")))
		case "content_block_stop":
			order = append(order, "-")
		}
	}
	if got := strings.Join(order, " "); got != "+thinking - +text -" {
		t.Errorf("blocks %s in %s", got, out)
	}
}

func TestConvR02_EffortReachesTheUpstream(t *testing.T) {
	t.Parallel()
	const body = `{"model":"public","store":false,"input":"Hi","reasoning":{"effort":"high"}}`
	x := begin(t, pair{responses, chat}, body)
	if x.sent(t, "reasoning_effort") != "high" {
		t.Errorf("chat: %s", x.conv.Body)
	}
	x = begin(t, pair{responses, messages}, body)
	if kind := x.sent(t, "thinking", "type"); kind != "adaptive" && kind != "enabled" || kind == "adaptive" && x.sent(t, "output_config", "effort") != "high" {
		t.Errorf("anthropic: %s", x.conv.Body)
	}
	x = begin(t, pair{responses, generate}, body)
	if x.sent(t, "generationConfig", "thinkingConfig", "thinkingLevel") != "HIGH" {
		t.Errorf("gemini: %s", x.conv.Body)
	}
}

func TestConvR03_EncryptedReasoningOfOpenAIReachesNobodyElse(t *testing.T) {
	t.Parallel()
	const body = `{"model":"public","store":false,"input":[{"role":"user","content":"Hi"},` +
		`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"I thought."}],"encrypted_content":"gAAAAABopaque"},` +
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello."}]},{"role":"user","content":"Again"}]}`
	for _, to := range []protocol.Name{chat, messages, generate} {
		x := begin(t, pair{responses, to}, body)
		if strings.Contains(string(x.conv.Body), "opaque") {
			t.Errorf("%s got %s", to, x.conv.Body)
		}
		if got := x.conv.Lossy(); !strings.Contains(got, "reasoning_") {
			t.Errorf("%s: lossy %q does not tell", to, got)
		}
	}
}

func TestConvR04_ThinkingThatNobodySignedNeverReachesAnthropic(t *testing.T) {
	t.Parallel()
	for from, body := range map[protocol.Name]string{
		responses: `{"model":"public","store":false,"input":[{"role":"user","content":"Hi"},{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"I thought."}]},` +
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello."}]},{"role":"user","content":"Again"}]}`,
		generate: `{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"I thought.","thought":true,"thoughtSignature":"c2ln"},{"text":"Hello."}]},{"role":"user","parts":[{"text":"Again"}]}]}`,
		chat:     `{"model":"public","messages":[{"role":"user","content":"Hi"},{"role":"assistant","reasoning_content":"I thought.","content":"Hello."},{"role":"user","content":"Again"}]}`,
		messages: `{"model":"public","max_tokens":1000,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"I thought.","signature":""},{"type":"text","text":"Hello."}]},{"role":"user","content":"Again"}]}`,
	} {
		x := begin(t, pair{from, messages}, body)
		if strings.Contains(string(x.conv.Body), "I thought.") || strings.Contains(string(x.conv.Body), `"thinking"`) {
			t.Errorf("%s: %s", from, x.conv.Body)
		}
	}
}

func TestConvR05_ThinkingThatIsNotShownKeepsItsSignature(t *testing.T) {
	t.Parallel()
	const answer = `{"type":"thinking","thinking":"","signature":"c2ln"},{"type":"tool_use","id":"toolu_1","name":"f","input":{}}`
	out := begin(t, pair{messages, messages}, hello(messages)).whole(t, anthropicAnswer(answer, "tool_use", `"input_tokens":1,"output_tokens":2`))
	same(t, "content", at(t, out, "content", 0), `{"type":"thinking","thinking":"","signature":"c2ln"}`)
	out = begin(t, pair{responses, messages}, hello(responses)).whole(t, anthropicAnswer(answer, "tool_use", `"input_tokens":1,"output_tokens":2`))
	if token, _ := at(t, out, "output", 0, "encrypted_content").(string); !stateid.IsToken(token) {
		t.Errorf("no token in %s", out)
	}
}

func TestConvR06_BudgetIsBelowTheLimitOrRefused(t *testing.T) {
	t.Parallel()
	const body = `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"generationConfig":{"maxOutputTokens":4096,"thinkingConfig":{"thinkingBudget":%d}}}`
	for _, budget := range []int{1, 512, 8192, 31999, 32000, 64000} {
		x := prepare(t, pair{generate, messages}, fmt.Sprintf(body, budget))
		var err error
		if conv, f := x.call.Convert(x.target); f != nil {
			if f.Class.String() != "invalid_request" || f.Param == "" {
				t.Errorf("budget %d: %v", budget, f)
			}
			continue
		} else if err = json.Unmarshal(conv.Body, new(any)); err != nil {
			t.Fatal(err)
		} else {
			x.conv = conv
		}
		if x.sent(t, "thinking", "type") != "enabled" {
			continue
		}
		limit, _ := x.sent(t, "max_tokens").(json.Number).Int64()
		given, _ := x.sent(t, "thinking", "budget_tokens").(json.Number).Int64()
		if given < 1024 || given >= limit || limit > 32000 {
			t.Errorf("budget %d: sent budget %d with limit %d", budget, given, limit)
		}
	}
}

func TestConvR07_NoTemperatureBesideThinking(t *testing.T) {
	t.Parallel()
	x := begin(t, pair{chat, messages}, `{"model":"public","messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"high","temperature":0}`)
	if x.sent(t, "temperature") != nil || !strings.Contains(x.conv.Lossy(), "temperature=drop") {
		t.Errorf("lossy %q, sent %s", x.conv.Lossy(), x.conv.Body)
	}
}

func TestConvR08_SignatureThatWasGivenOutComesBack(t *testing.T) {
	t.Parallel()
	const answer = `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":"abc","name":"f","args":{}},"thoughtSignature":"c2lnbmF0dXJl"}]},"finishReason":"STOP","index":0}]}`
	for from, path := range map[protocol.Name][]any{
		chat: {"choices", 0, "message", "tool_calls", 0, "id"}, responses: {"output", 0, "call_id"}, messages: {"content", 0, "id"},
	} {
		out := begin(t, pair{from, generate}, hello(from)).whole(t, answer)
		id, _ := at(t, out, path...).(string)
		x := prepare(t, pair{from, generate}, history(from, id))
		conv, f := x.call.Convert(x.target)
		if f != nil {
			t.Fatal(f)
		}
		x.conv = conv
		if got := x.sent(t, "contents", 1, "parts", 0, "thoughtSignature"); got != "c2lnbmF0dXJl" {
			t.Errorf("%s: the id %s brought back the signature %v", from, id, got)
		}
		if a, b := x.sent(t, "contents", 1, "parts", 0, "functionCall", "id"), x.sent(t, "contents", 2, "parts", 0, "functionResponse", "id"); a != "abc" || b != "abc" {
			t.Errorf("%s: ids %v and %v, want abc", from, a, b)
		}
	}
}

// A token is worth nothing to another tenant, changed, or in another place.
func TestForgedStateIsNobodys(t *testing.T) {
	t.Parallel()
	const answer = `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":"abc","name":"f","args":{}},"thoughtSignature":"c2lnbmF0dXJl"}]},"finishReason":"STOP","index":0}]}`
	out := begin(t, pair{chat, generate}, hello(chat)).whole(t, answer)
	id, _ := at(t, out, "choices", 0, "message", "tool_calls", 0, "id").(string)
	for name, tc := range map[string]struct {
		id  string
		key string
	}{
		"another tenant": {id, "x"},
		"changed":        {strings.Replace(id, "gws1_", "gws1_A", 1), "k"},
		"cut":            {id[:len(id)-6], "k"},
		"made up":        {"abc_gws1_" + strings.Repeat("A", 60) + "AABA", "k"},
	} {
		x := prepare(t, pair{chat, generate}, history(chat, tc.id), func(x *exchange) {
			k, err := stateid.NewKey(secretOf(tc.key))
			if err != nil {
				t.Fatal(err)
			}
			x.call.StateKey = k
		})
		conv, f := x.call.Convert(x.target)
		if f != nil {
			t.Fatalf("%s: %v", name, f)
		}
		if strings.Contains(string(conv.Body), "c2lnbmF0dXJl") {
			t.Errorf("%s: the signature went out in %s", name, conv.Body)
		}
	}
}

// Encrypted reasoning goes back to the organisation that it was made for, and to no other.
func TestEncryptedReasoningStaysInItsOrganisation(t *testing.T) {
	t.Parallel()
	const answer = `{"id":"resp_1","object":"response","created_at":1,"model":"m","status":"completed","output":[{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAAopaque"},` +
		`{"id":"fc_1","type":"function_call","call_id":"call_1","name":"f","arguments":"{}","status":"completed"}],"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}`
	out := begin(t, pair{messages, responses}, hello(messages), account("org-1")).whole(t, answer)
	content, _ := json.Marshal(at(t, out, "content"))
	next := `{"model":"public","max_tokens":1000,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":` + string(content) + `},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"ok"}]}]}`
	for scope, want := range map[string]bool{"org-1": true, "org-2": false} {
		x := prepare(t, pair{messages, responses}, next, account(scope))
		conv, f := x.call.Convert(x.target)
		if f != nil {
			t.Fatal(f)
		}
		if got := strings.Contains(string(conv.Body), "gAAAopaque"); got != want {
			t.Errorf("%s: reasoning of org-1 went out: %v in %s", scope, got, conv.Body)
		}
		if lost := strings.Contains(conv.Lossy(), string(llm.FeatureReasoningState)); lost == want {
			t.Errorf("%s: lossy %q", scope, conv.Lossy())
		}
	}
}

func TestConvP01_OneStopWordStaysAList(t *testing.T) {
	t.Parallel()
	x := begin(t, pair{messages, chat}, `{"model":"public","max_tokens":1000,"stop_sequences":["END"],"messages":[{"role":"user","content":"Hi"}]}`)
	same(t, "stop", x.sent(t, "stop"), `["END"]`)
}

func TestConvP02_CacheKeyGoesOutUnchanged(t *testing.T) {
	t.Parallel()
	x := begin(t, pair{chat, responses}, `{"model":"public","prompt_cache_key":"team 7/ü","messages":[{"role":"user","content":"Hi"}]}`)
	if x.sent(t, "prompt_cache_key") != "team 7/ü" {
		t.Errorf("sent %s", x.conv.Body)
	}
}

// What names a conversation to the provider's prompt cache survives both ways between the
// protocols that have such a name, and marks of breakpoints where both have them.
func TestField_F19_ConversionKeepsTheIdentityOfTheCache(t *testing.T) {
	t.Parallel()
	there := begin(t, pair{chat, responses}, `{"model":"public","prompt_cache_key":"s-1","messages":[{"role":"user","content":"Hi"}]}`)
	back := begin(t, pair{responses, chat}, `{"model":"public","store":false,"prompt_cache_key":"s-1","input":"Hi"}`)
	for way, x := range map[string]*exchange{"to Responses": there, "to Chat": back} {
		if x.sent(t, "prompt_cache_key") != "s-1" {
			t.Errorf("%s: sent %s", way, x.conv.Body)
		}
	}
}

func TestConvP03_NoEmptyTextBesideACall(t *testing.T) {
	t.Parallel()
	for _, content := range []string{`""`, `null`, `[]`, `[{"type":"text","text":""}]`} {
		x := begin(t, pair{chat, messages}, `{"model":"public","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":`+content+
			`,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"a","content":""}]}`)
		if blocks := x.sent(t, "messages", 1, "content").([]any); len(blocks) != 1 {
			t.Errorf("content %s: %v", content, blocks)
		}
		same(t, "input", x.sent(t, "messages", 1, "content", 0, "input"), `{}`)
	}
}

func TestConvP04_FormOfTheAnswerReachesGemini(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	x := begin(t, pair{chat, generate}, `{"model":"public","messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":`+schema+`}}}`)
	if x.sent(t, "generationConfig", "responseMimeType") != "application/json" {
		t.Errorf("sent %s", x.conv.Body)
	}
	same(t, "schema", x.sent(t, "generationConfig", "responseJsonSchema"), schema)
}

func TestConvP05_DocumentReachesGemini(t *testing.T) {
	t.Parallel()
	x := begin(t, pair{chat, generate}, `{"model":"public","messages":[{"role":"user","content":[{"type":"text","text":"Read."},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0xLjQ="}}]}]}`)
	same(t, "part", x.sent(t, "contents", 0, "parts", 1, "inlineData"), `{"mimeType":"application/pdf","data":"JVBERi0xLjQ="}`)
}

// Numbers of arguments are written as the model wrote them, and members stay in order.
func TestArgumentsKeepNumbersAndOrder(t *testing.T) {
	t.Parallel()
	const args = `{"z":12345678901234567891,"a":1.0,"e":1e5,"s":"\u00fc"}`
	quoted, _ := json.Marshal(args)
	bodies := map[protocol.Name]string{}
	for _, p := range protocols() {
		b := history(p, "call_1")
		for _, old := range []string{`"arguments":"{}"`, `"input":{}`, `"args":{}`} {
			name, _, _ := strings.Cut(old, ":")
			if strings.HasPrefix(old, `"arguments"`) {
				b = strings.Replace(b, old, name+":"+string(quoted), 1)
			} else {
				b = strings.Replace(b, old, name+":"+args, 1)
			}
		}
		bodies[p] = b
	}
	others(t, func(t *testing.T, p pair) {
		x := begin(t, p, bodies[p.from])
		if body := string(x.conv.Body); !strings.Contains(body, args) && !strings.Contains(body, string(quoted)) {
			t.Errorf("sent %s", body)
		}
	})
}
