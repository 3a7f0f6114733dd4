package bridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// history is a conversation with a call and its result in each caller's protocol.
func history(p protocol.Name, id string) string {
	q, _ := json.Marshal(id)
	switch p {
	case chat:
		return `{"model":"public","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[{"id":` + string(q) + `,"type":"function","function":{"name":"f","arguments":"{}"}}]},` +
			`{"role":"tool","tool_call_id":` + string(q) + `,"content":"ok"}]}`
	case responses:
		return `{"model":"public","store":false,"input":[{"role":"user","content":"Hi"},{"type":"function_call","call_id":` + string(q) + `,"name":"f","arguments":"{}"},` +
			`{"type":"function_call_output","call_id":` + string(q) + `,"output":"ok"}]}`
	case messages:
		return `{"model":"public","max_tokens":1000,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":` + string(q) + `,"name":"f","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":` + string(q) + `,"content":"ok"}]}]}`
	}
	return `{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"id":` + string(q) + `,"name":"f","args":{}}}]},` +
		`{"role":"user","parts":[{"functionResponse":{"id":` + string(q) + `,"name":"f","response":{"output":"ok"}}}]}]}`
}

func TestConvT05_IDsOfCallsFitAnthropic(t *testing.T) {
	t.Parallel()
	for _, from := range []protocol.Name{chat, responses, generate} {
		for _, id := range []string{"functions.Bash:0", "toolu_valid-1", "a b", "ü", strings.Repeat("x", 300)} {
			x := begin(t, pair{from, messages}, history(from, id))
			call, result := x.sent(t, "messages", 1, "content", 0, "id"), x.sent(t, "messages", 2, "content", 0, "tool_use_id")
			if call != result || call == nil {
				t.Errorf("%s: call %v, result %v", from, call, result)
			}
			if id == "toolu_valid-1" && call != id {
				t.Errorf("%s: the id %q was fine and became %v", from, id, call)
			}
		}
	}
}

func TestConvT06_IDsStayApartAndFindTheirWayBack(t *testing.T) {
	t.Parallel()
	ids := []string{"call_1", "fc_1", "functions.Bash:0", "functions_Bash_0"}
	var calls []string
	for i, id := range ids {
		calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"f%d","arguments":"{}"}}`, id, i))
	}
	answer := `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[` +
		strings.Join(calls, ",") + `]},"finish_reason":"tool_calls"}]}`
	out := begin(t, pair{messages, chat}, hello(messages)).whole(t, answer)
	seen := map[any]bool{}
	for i, id := range ids {
		got := at(t, out, "content", i, "id")
		if seen[got] || got == nil {
			t.Errorf("two calls have the id %v in %s", got, out)
		}
		seen[got] = true
		back := begin(t, pair{messages, chat}, history(messages, got.(string)))
		if again := back.sent(t, "messages", 1, "tool_calls", 0, "id"); again != id {
			t.Errorf("%q came to the caller as %v and back as %v", id, got, again)
		}
	}
}

func TestConvT07_ResultsStandInTheOrderOfTheirCalls(t *testing.T) {
	t.Parallel()
	var calls, results []string
	for i := range 6 {
		calls = append(calls, fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":"f%d","input":{}}`, i, i%2))
		results = append([]string{fmt.Sprintf(`{"type":"tool_result","tool_use_id":"toolu_%d","content":"result %d"}`, i, i)}, results...)
	}
	x := begin(t, pair{messages, generate}, `{"model":"public","max_tokens":1000,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[`+
		strings.Join(calls, ",")+`]},{"role":"user","content":[`+strings.Join(results, ",")+`]}]}`)
	for i := range 6 {
		if got := fmt.Sprint(x.sent(t, "contents", 2, "parts", i, "functionResponse", "response")); !strings.Contains(got, fmt.Sprintf("result %d", i)) {
			t.Errorf("response %d is %s", i, got)
		}
	}
}

func TestConvT08_ResultsOfOneTurnAreOneContent(t *testing.T) {
	t.Parallel()
	x := begin(t, pair{chat, generate}, `{"model":"public","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[`+
		`{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},`+
		`{"role":"tool","tool_call_id":"b","content":"of g"},{"role":"tool","tool_call_id":"a","content":"of f"}]}`)
	contents := x.sent(t, "contents").([]any)
	if len(contents) != 3 || len(x.sent(t, "contents", 2, "parts").([]any)) != 2 {
		t.Errorf("sent %s", x.conv.Body)
	}
}

func TestConvT09_CallsInARowAreOneTurnOfTheModel(t *testing.T) {
	t.Parallel()
	x := begin(t, pair{responses, generate}, `{"model":"public","store":false,"input":[{"role":"user","content":"Hi"},`+
		`{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call","call_id":"b","name":"g","arguments":"{}"},`+
		`{"type":"function_call_output","call_id":"b","output":"of g"},{"type":"function_call_output","call_id":"a","output":"of f"}]}`)
	if len(x.sent(t, "contents").([]any)) != 3 || len(x.sent(t, "contents", 1, "parts").([]any)) != 2 {
		t.Errorf("sent %s", x.conv.Body)
	}
	if got := fmt.Sprint(x.sent(t, "contents", 2, "parts", 0, "functionResponse")); !strings.Contains(got, "of f") {
		t.Errorf("the first result is %s", got)
	}
}

func TestConvT10_CallsWithoutIDsGetOnesThatNoOtherHas(t *testing.T) {
	t.Parallel()
	const answer = `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f","args":{"a":1}}},{"functionCall":{"name":"f","args":{"a":2}}}]},"finishReason":"STOP","index":0}]}`
	for _, from := range []protocol.Name{chat, responses, messages} {
		seen := map[string]bool{}
		for turn := range 2 { // of one conversation
			x := begin(t, pair{from, generate}, hello(from), func(x *exchange) { x.call.RequestID = fmt.Sprintf("req_%d", turn) })
			out := x.whole(t, answer)
			for i := range 2 {
				path := map[protocol.Name][]any{
					chat: {"choices", 0, "message", "tool_calls", i, "id"}, responses: {"output", i, "call_id"}, messages: {"content", i, "id"},
				}[from]
				id, _ := at(t, out, path...).(string)
				if id == "" || seen[id] {
					t.Errorf("%s: the id %q is not new in %s", from, id, out)
				}
				seen[id] = true
			}
		}
	}
}

func TestConvT11_ToolMessagesFollowTheMessageWithTheCall(t *testing.T) {
	t.Parallel()
	x := begin(t, pair{responses, chat}, `{"model":"public","store":false,"input":[{"role":"user","content":"Hi"},`+
		`{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},`+
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"One moment."}]},`+
		`{"type":"function_call_output","call_id":"a","output":"ok"}]}`)
	if body := string(x.conv.Body); !strings.Contains(body, "One moment.") {
		t.Errorf("the text is lost in %s", body)
	}
	if x.sent(t, "messages", -1, "role") != "tool" || x.sent(t, "messages", -2, "tool_calls", 0, "id") != "a" {
		t.Errorf("sent %s", x.conv.Body)
	}
}

func TestConvT12_ToolMessagesInARowAreOneMessage(t *testing.T) {
	t.Parallel()
	x := begin(t, pair{chat, messages}, `{"model":"public","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[`+
		`{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},`+
		`{"role":"tool","tool_call_id":"a","content":"1"},{"role":"tool","tool_call_id":"b","content":"2"}]}`)
	if len(x.sent(t, "messages").([]any)) != 3 || x.sent(t, "messages", 2, "content", 0, "tool_use_id") != "a" || x.sent(t, "messages", 2, "content", 1, "tool_use_id") != "b" {
		t.Errorf("sent %s", x.conv.Body)
	}
}

func TestConvT13_ResultsStandBeforeWhatTheUserSays(t *testing.T) {
	t.Parallel()
	x := begin(t, pair{chat, messages}, `{"model":"public","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[`+
		`{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"user","content":"Go on."}]}`)
	if len(x.sent(t, "messages").([]any)) != 3 || x.sent(t, "messages", 2, "content", 0, "type") != "tool_result" || x.sent(t, "messages", 2, "content", 1, "text") != "Go on." {
		t.Errorf("sent %s", x.conv.Body)
	}
}

// shown is a result of Anthropic's with a text and an image.
const shown = `{"model":"public","max_tokens":1000,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]},` +
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"a cat"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}]}]}`

func TestConvT14_ImageOfAResultFollowsInAMessageOfTheUser(t *testing.T) {
	t.Parallel()
	x := begin(t, pair{messages, chat}, shown)
	tool, _ := json.Marshal(x.sent(t, "messages", 2))
	user, _ := json.Marshal(x.sent(t, "messages", 3))
	if !strings.Contains(string(tool), "a cat") || strings.Contains(string(tool), "iVBOR") {
		t.Errorf("the tool message is %s", tool)
	}
	if !strings.Contains(string(user), `"role":"user"`) || !strings.Contains(string(user), "data:image/png;base64,iVBORw0KGgo=") {
		t.Errorf("after it comes %s", user)
	}
	if got := x.conv.Lossy(); !strings.Contains(got, "tool_result_media=substitute") {
		t.Errorf("lossy %q", got)
	}
}

func TestConvT15_ImageOfAResultStaysInTheOutput(t *testing.T) {
	t.Parallel()
	x := begin(t, pair{messages, responses}, shown)
	if x.sent(t, "input", 2, "output", 0, "text") != "a cat" || x.sent(t, "input", 2, "output", 1, "type") != "input_image" {
		t.Errorf("sent %s", x.conv.Body)
	}
}
