package openairesponses_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3/responses"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

// valid writes an answer as a stream that a client may rely on, and checks that the whole
// answer says the same as its end.
func valid(t testing.TB, c *protocol.Conversion, a *llm.Answer) (stream, whole string) {
	t.Helper()
	out := write(t, c, a)
	if err := streamcheck.Check(fakeprovider.Responses, out); err != nil {
		t.Errorf("%v in\n%s", err, out)
	}
	body, f := codec.EncodeAnswer(a, c)
	if f != nil {
		t.Fatal(f)
	}
	all := frames(out)
	last := string(all[len(all)-1].Data)
	same(t, string(body), jsonString(t, member(t, last, "response")))
	return string(out), string(body)
}

// kinds are the types of a stream's events without "response.".
func kinds(stream string) (all []string) {
	for _, f := range frames([]byte(stream)) {
		all = append(all, strings.TrimPrefix(string(f.Event), "response."))
	}
	return all
}

func TestConvE02_AnswerHasAllItsEvents(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Anthropic)
	c.To = protocol.Anthropic
	c.Body = []byte(`{"model":"m","instructions":"be\nbrief","temperature":0.5,"tools":[
		{"type":"function","name":"f","parameters":{"type":"object"}}],"metadata":{"a":"b"},"tool_choice":"required","gateway":{}}`)
	stream, whole := valid(t, c, &llm.Answer{Model: "m", Parts: []llm.Part{
		{Kind: llm.PartReasoning, Text: "hm", State: &llm.State{Kind: llm.OpenAIEncrypted, Data: "tok"}}, text("Hi."), call("c1", "f", `{"a":1.0}`),
	}, Stop: llm.Stop{Reason: llm.StopToolUse}, Reported: true, Usage: llm.Usage{Input: 3, CacheRead: 4, CacheWrite5m: 5, Output: 6, Reasoning: 7}})
	want := []string{
		"created", "in_progress",
		"output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta", "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done",
		"output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
		"output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done", "completed",
	}
	if diff := cmp.Diff(want, kinds(stream)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	same(t, whole, `{"id":"resp_req_1","object":"response","created_at":1795953600,"status":"completed","background":false,"access_programs":null,"error":null,"incomplete_details":null,
		"model":"m","output":[{"id":"rs_req_1_0","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"tok"},
			{"id":"msg_req_1_1","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Hi."}],"role":"assistant"},
			{"id":"fc_req_1_2","type":"function_call","status":"completed","call_id":"c1","name":"f","arguments":"{\"a\":1.0}"}],
		"instructions":"be\nbrief","max_output_tokens":null,"max_tool_calls":null,"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,
		"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"temperature":0.5,"text":{"format":{"type":"text"}},"tool_choice":"required",
		"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"top_logprobs":0,"top_p":1,"truncation":"disabled","user":null,"metadata":{"a":"b"},"store":false,
		"usage":{"input_tokens":12,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":5},"output_tokens":13,"output_tokens_details":{"reasoning_tokens":7},"total_tokens":25}}`)
}

func TestConvE01_NothingIsClosedThatWasNotOpened(t *testing.T) {
	t.Parallel()
	stream, _ := valid(t, conversion(protocol.Anthropic), &llm.Answer{Model: "m", Parts: []llm.Part{call("c1", "f", `{}`)}, Stop: llm.Stop{Reason: llm.StopToolUse}})
	if strings.Contains(stream, "msg_") || strings.Contains(stream, "content_part") {
		t.Errorf("a message that nobody wrote:\n%s", stream)
	}
}

// Calls of which parts come by turns are told by turns, each under its own item.
func TestInterleavedPartsAreToldAsTheyCome(t *testing.T) {
	t.Parallel()
	w := codec.NewEventEncoder(conversion(protocol.OpenAIChat))
	var out []byte
	for _, e := range []llm.Event{
		{Kind: llm.EventStart, Model: "m"},
		{Kind: llm.EventPartStart, Index: 0, Part: &llm.Part{Kind: llm.PartText}},
		{Kind: llm.EventDelta, Index: 0, Text: []byte("a")},
		{Kind: llm.EventPartStart, Index: 1, Part: &llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "c1", Name: "f"}}},
		{Kind: llm.EventDelta, Index: 1, Text: []byte(`{"x"`)},
		{Kind: llm.EventPartStart, Index: 2, Part: &llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "c2", Name: "g"}}},
		{Kind: llm.EventDelta, Index: 2, Text: []byte(`{`)},
		{Kind: llm.EventDelta, Index: 0, Text: []byte("b")},
		{Kind: llm.EventDelta, Index: 1, Text: []byte(`:1}`)},
		{Kind: llm.EventDelta, Index: 2, Text: []byte(`}`)},
		{Kind: llm.EventPartEnd, Index: 1},
		{Kind: llm.EventPartEnd, Index: 0},
		{Kind: llm.EventPartEnd, Index: 2},
		{Kind: llm.EventFinish, Stop: llm.Stop{Reason: llm.StopToolUse}},
		{Kind: llm.EventUsage, Usage: &llm.Usage{Output: 3}},
		{Kind: llm.EventEnd},
	} {
		var f *fault.Error
		if out, f = w.Encode(out, e); f != nil {
			t.Fatal(f)
		}
	}
	if err := streamcheck.Check(fakeprovider.Responses, out); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	var deltas []string
	for _, f := range frames(out) {
		if strings.HasSuffix(string(f.Event), ".delta") {
			deltas = append(deltas, fmt.Sprint(member(t, string(f.Data), "output_index"), " ", member(t, string(f.Data), "delta")))
		}
	}
	if want := []string{`0 a`, `1 {"x"`, `2 {`, `0 b`, `1 :1}`, `2 }`}; !slices.Equal(deltas, want) {
		t.Errorf("got %q, want %q", deltas, want)
	}
}

// Text that follows text is one message of several parts.
func TestNeighbouringTextsAreOneMessage(t *testing.T) {
	t.Parallel()
	_, whole := valid(t, conversion(protocol.Anthropic), &llm.Answer{Model: "m", Parts: []llm.Part{text("a"), text("b"), call("c", "f", "{}"), text("d")}, Stop: llm.Stop{Reason: llm.StopEnd}})
	var got []string
	for _, v := range member(t, whole, "output").([]any) {
		it := v.(map[string]any)
		content, _ := it["content"].([]any)
		got = append(got, fmt.Sprint(it["type"], len(content)))
	}
	if want := []string{"message2", "function_call0", "message1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestConvT16_CutArgumentsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		arguments string
		stop      llm.StopReason
		want      string
		status    string
	}{
		{`{"a":"b`, llm.StopMaxTokens, `{"a":"b`, "incomplete"},
		{``, llm.StopMaxTokens, ``, "incomplete"},
		{`{"a":1}`, llm.StopMaxTokens, `{"a":1}`, "completed"},
		{`{"a":1}`, llm.StopToolUse, `{"a":1}`, "completed"},
		{``, llm.StopToolUse, `{}`, "completed"},
		{`{"a":`, llm.StopToolUse, `{"a":`, "incomplete"},
		{`[1]`, llm.StopToolUse, `[1]`, "incomplete"},
	} {
		_, whole := valid(t, conversion(protocol.Anthropic), &llm.Answer{Model: "m", Parts: []llm.Part{call("c", "f", tc.arguments)}, Stop: llm.Stop{Reason: tc.stop}})
		if got := member(t, whole, "output", 0, "arguments"); got != tc.want || member(t, whole, "output", 0, "status") != tc.status {
			t.Errorf("%q at %v became %v in %s, want %q, %s", tc.arguments, tc.stop, got, whole, tc.want, tc.status)
		}
	}
	// Of two calls without arguments the first was whole, as the answer went on.
	_, whole := valid(t, conversion(protocol.Anthropic), &llm.Answer{Model: "m", Parts: []llm.Part{call("c", "f", ""), call("d", "f", "")}, Stop: llm.Stop{Reason: llm.StopMaxTokens}})
	if a, b := member(t, whole, "output", 0, "arguments"), member(t, whole, "output", 1, "arguments"); a != "{}" || b != "" {
		t.Errorf("got %v and %v", a, b)
	}
}

func TestHowAnAnswerEnds(t *testing.T) {
	t.Parallel()
	said, refusal := []llm.Part{text("a")}, []llm.Part{{Kind: llm.PartRefusal, Text: "no"}}
	for name, tc := range map[string]struct {
		parts          []llm.Part
		stop           llm.Stop
		status, reason string
		lost           []string
	}{
		"end":             {said, llm.Stop{Reason: llm.StopEnd}, "completed", "", nil},
		"S1 limit":        {said, llm.Stop{Reason: llm.StopMaxTokens}, "incomplete", "max_output_tokens", nil},
		"S2 context full": {said, llm.Stop{Reason: llm.StopContextFull}, "incomplete", "max_output_tokens", nil},
		"pause":           {said, llm.Stop{Reason: llm.StopPause}, "incomplete", "max_output_tokens", nil},
		"stop string":     {said, llm.Stop{Reason: llm.StopSequence, Sequence: "END"}, "completed", "", []string{"answer_stop_sequence=drop"}},
		"refusal":         {refusal, llm.Stop{Reason: llm.StopRefusal}, "completed", "", nil},
		"S6 filter":       {nil, llm.Stop{Reason: llm.StopContentFilter}, "incomplete", "content_filter", nil},
		"refused in text": {said, llm.Stop{Reason: llm.StopRefusal}, "incomplete", "content_filter", nil},
		"explained":       {nil, llm.Stop{Reason: llm.StopRefusal, Explanation: "Not that."}, "completed", "", []string{"answer_refusal_details=substitute"}},
		"unknown, text":   {said, llm.Stop{}, "completed", "", nil},
	} {
		c := conversion(protocol.Anthropic)
		_, whole := valid(t, c, &llm.Answer{Model: "m", Parts: tc.parts, Stop: tc.stop})
		if got := member(t, whole, "status"); got != tc.status {
			t.Errorf("%s: %v, want %s", name, got, tc.status)
		}
		if got, _ := member(t, whole, "incomplete_details", "reason").(string); got != tc.reason {
			t.Errorf("%s: %q, want %q", name, got, tc.reason)
		}
		if len(tc.parts) > 0 && member(t, whole, "output", 0, "status") != tc.status {
			t.Errorf("%s: the item is %v, want %s", name, member(t, whole, "output", 0, "status"), tc.status)
		}
		wantLost(t, c, tc.lost...)
	}
	for _, stop := range []llm.Stop{{Native: "OTHER"}, {Reason: llm.StopFailed, Native: "OTHER"}} {
		out := write(t, conversion(protocol.Gemini), &llm.Answer{Model: "m", Stop: stop})
		if err := streamcheck.Check(fakeprovider.Responses, out, streamcheck.AllowError); err != nil {
			t.Errorf("%v in\n%s", err, out)
		}
		if k := kinds(string(out)); k[len(k)-1] != "failed" {
			t.Errorf("ended as %s", k[len(k)-1])
		}
	}
}

func TestSourcesOfAnAnswer(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Anthropic)
	c.To = protocol.Anthropic
	_, whole := valid(t, c, &llm.Answer{Model: "m", Parts: []llm.Part{{Kind: llm.PartText, Text: "é is", Citations: []llm.Citation{
		{URL: "https://a.example/", Title: "A"}, {URL: "https://b.example/", Start: 2, End: 4}, {Text: "x", Raw: []byte(`{}`)},
	}}}, Stop: llm.Stop{Reason: llm.StopEnd}})
	same(t, jsonString(t, member(t, whole, "output", 0, "content", 0, "annotations")), `[{"type":"url_citation","start_index":0,"end_index":4,"url":"https://a.example/","title":"A"},
		{"type":"url_citation","start_index":2,"end_index":4,"url":"https://b.example/","title":""}]`)
	wantLost(t, c, "answer_citations=drop")
}

// What a model makes beside text has a place, or the answer fails: it is never lost in
// silence.
func TestMediaOfAnAnswer(t *testing.T) {
	t.Parallel()
	_, whole := valid(t, conversion(protocol.Gemini), &llm.Answer{Model: "m", Parts: []llm.Part{text("Here."), media(llm.Media{Kind: llm.Image, MIME: "image/webp", Data: "UklGRg=="})}, Stop: llm.Stop{Reason: llm.StopEnd}})
	same(t, jsonString(t, member(t, whole, "output", 1)), `{"id":"ig_req_1_1","type":"image_generation_call","status":"completed","output_format":"webp","result":"UklGRg=="}`)
	for _, m := range []llm.Media{{Kind: llm.Audio, Data: "AA"}, {Kind: llm.Video, URL: "gs://a"}, {Kind: llm.Image, URL: "https://a.example/"}} {
		if _, f := codec.EncodeAnswer(&llm.Answer{Parts: []llm.Part{media(m)}}, conversion(protocol.Gemini)); f == nil || f.Class != fault.RequestNotSupported || !strings.Contains(f.Public, m.Kind.String()) {
			t.Errorf("%v: %v", m, f)
		}
	}
	c := conversion(protocol.Anthropic)
	c.To = protocol.Anthropic
	_, whole = valid(t, c, &llm.Answer{Model: "m", Parts: []llm.Part{{Kind: llm.PartNative, Native: &llm.Native{Type: "server_tool_use", Raw: []byte(`{}`)}}, text("a")}, Stop: llm.Stop{Reason: llm.StopEnd}})
	if out := member(t, whole, "output").([]any); len(out) != 1 {
		t.Errorf("got %s", whole)
	}
	wantLost(t, c, "answer_server_tool=drop")
}

// Items that only this protocol has go through as they are. Each has an id of its own.
func TestItemsOfTheProtocolsOwn(t *testing.T) {
	t.Parallel()
	item := func(raw string) llm.Part {
		return llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: "web_search_call", Raw: []byte(raw)}}
	}
	_, whole := valid(t, conversion(protocol.OpenAIResponses), &llm.Answer{Model: "m", Parts: []llm.Part{
		item(`{"id":"ws_1","type":"web_search_call","status":"completed","action":{
			"type":"search"}}`), item(`{"id":"ws_1","type":"web_search_call"}`), item(`{"type":"web_search_call"}`),
	}, Stop: llm.Stop{Reason: llm.StopEnd}})
	same(t, jsonString(t, member(t, whole, "output")), `[{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search"}},
		{"id":"item_req_1_1","type":"web_search_call"},{"id":"item_req_1_2","type":"web_search_call"}]`)
}

// State of any maker is told where the protocol has a place for it, and lost elsewhere.
func TestStateOfAnAnswer(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Anthropic)
	signed := text("a")
	signed.State = &llm.State{Kind: llm.GeminiSignature, Data: "s"}
	_, whole := valid(t, c, &llm.Answer{Model: "m", Parts: []llm.Part{
		{Kind: llm.PartReasoning, State: &llm.State{Kind: llm.OpenAIEncrypted, Data: "t1"}}, {Kind: llm.PartRedacted, State: &llm.State{Kind: llm.AnthropicRedacted, Data: "t2"}}, signed,
	}, Stop: llm.Stop{Reason: llm.StopEnd}})
	same(t, jsonString(t, member(t, whole, "output", 0)), `{"id":"rs_req_1_0","type":"reasoning","summary":[],"encrypted_content":"t1"}`)
	same(t, jsonString(t, member(t, whole, "output", 1)), `{"id":"rs_req_1_1","type":"reasoning","summary":[],"encrypted_content":"t2"}`)
	wantLost(t, c, "answer_reasoning_state=drop")
}

func TestCallsKeepTheirNamespace(t *testing.T) {
	t.Parallel()
	p := llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "c", Namespace: "mcp__docs", Name: "search", Arguments: "{}"}}
	x := llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "d", Name: "run", Arguments: "ls", Custom: true}}
	_, whole := valid(t, conversion(protocol.Anthropic), &llm.Answer{Model: "m", Parts: []llm.Part{p, x}, Stop: llm.Stop{Reason: llm.StopToolUse}})
	same(t, jsonString(t, member(t, whole, "output")), `[{"id":"fc_req_1_0","type":"function_call","status":"completed","call_id":"c","namespace":"mcp__docs","name":"search","arguments":"{}"},
		{"id":"ctc_req_1_1","type":"custom_tool_call","call_id":"d","name":"run","input":"ls"}]`)
}

// A failure ends the stream as the protocol has it, and numbers go on.
func TestFailureEndsTheStream(t *testing.T) {
	t.Parallel()
	w := codec.NewEventEncoder(conversion(protocol.Anthropic))
	out, _ := w.Encode(nil, llm.Event{Kind: llm.EventStart, Model: "m"})
	out, _ = w.Encode(out, llm.Event{Kind: llm.EventPartStart, Part: &llm.Part{}})
	out, _ = w.Encode(out, llm.Event{Kind: llm.EventDelta, Text: []byte("a")})
	out = w.Fail(out, fault.New(fault.Overloaded, "busy"), "req_1")
	if err := streamcheck.Check(fakeprovider.Responses, out, streamcheck.AllowError); err != nil {
		t.Errorf("%v in\n%s", err, out)
	}
	if k := kinds(string(out)); k[len(k)-1] != "failed" || k[len(k)-2] != "error" {
		t.Errorf("got %q", k)
	}
	early := codec.NewEventEncoder(conversion(protocol.Anthropic)).Fail(nil, fault.New(fault.Overloaded, "busy"), "req_1")
	if k := kinds(string(early)); !slices.Equal(k, []string{"error"}) {
		t.Errorf("before the start: %q", k)
	}
}

// The encoder keeps the whole answer, up to a bound.
func TestAnswerTooLargeToKeepFails(t *testing.T) {
	t.Parallel()
	a := &llm.Answer{Parts: []llm.Part{{Kind: llm.PartReasoning, State: &llm.State{Data: strings.Repeat("x", llm.MaxCollected+1)}}, text("a")}}
	if _, f := codec.EncodeAnswer(a, conversion(protocol.Anthropic)); f == nil || f.Class != fault.Malformed {
		t.Errorf("got %v", f)
	}
}

func TestConvU02_UsageIncludesCaches(t *testing.T) {
	t.Parallel()
	_, whole := valid(t, conversion(protocol.Anthropic), &llm.Answer{Model: "m", Reported: true, Usage: llm.Usage{Input: 13, CacheRead: 8, CacheWrite5m: 3, CacheWrite1h: 2, Output: 4, Reasoning: 3}, Stop: llm.Stop{Reason: llm.StopEnd}})
	same(t, jsonString(t, member(t, whole, "usage")), `{"input_tokens":26,"input_tokens_details":{"cached_tokens":8,"cache_write_tokens":5},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":33}`)
}

func TestWholeAnswersAreRead(t *testing.T) {
	t.Parallel()
	a, f := codec.DecodeAnswer(read(t, filepath.Join("..", "testdata", "responses.json")), conversion(protocol.Anthropic))
	if f != nil || len(a.Parts) == 0 || !a.Reported || a.Model == "" {
		t.Fatalf("got %+v, %v", a, f)
	}
	a, f = codec.DecodeAnswer([]byte(`{"id":"i","model":"m","status":"completed","output":[
		{"id":"r","type":"reasoning","summary":[{"type":"summary_text","text":"h"},{"type":"summary_text","text":"i"}],"encrypted_content":"g"},
		{"id":"w","type":"web_search_call","status":"completed","action":{"type":"search"}},
		{"id":"m","type":"message","content":[{"type":"output_text","text":"a","annotations":[{"type":"url_citation","url":"u","title":"t","start_index":0,"end_index":1}]},{"type":"output_text","text":"b"}]},
		{"id":"f","type":"function_call","call_id":"c","name":"f","arguments":"{\"x\":12345678901234567890}"}],
		"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2}}}`), conversion(protocol.Anthropic))
	if f != nil {
		t.Fatal(f)
	}
	want := &llm.Answer{ID: "i", Model: "m", Reported: true, Stop: llm.Stop{Reason: llm.StopToolUse, Native: "completed"}, Usage: llm.Usage{Input: 6, CacheRead: 4, Output: 3, Reasoning: 2, WebSearches: 1}, Parts: []llm.Part{
		{Kind: llm.PartReasoning, Text: "h\n\ni", State: &llm.State{Kind: llm.OpenAIEncrypted, Data: "g", ID: "r"}},
		{Kind: llm.PartNative, Native: &llm.Native{Type: "web_search_call", Raw: []byte(`{"id":"w","type":"web_search_call","status":"completed","action":{"type":"search"}}`)}},
		{Kind: llm.PartText, Text: "a", Citations: []llm.Citation{{URL: "u", Title: "t", End: 1}}},
		text("b"), call("c", "f", `{"x":12345678901234567890}`),
	}}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for body, class := range map[string]fault.Class{
		`{"error":{"message":"no","type":"server_error","code":null}}`:                                     fault.ServerError,
		`{"id":"i","status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"},"output":[]}`: fault.RateLimited,
		`{}`:     fault.Malformed,
		`[]`:     fault.Malformed,
		`{"a"`:   fault.CutBeforeFirst,
		`{"a",}`: fault.Malformed,
	} {
		if a, f := codec.DecodeAnswer([]byte(body), conversion(protocol.Anthropic)); f == nil || f.Class != class {
			t.Errorf("%s: got %+v, %v, want %v", body, a, f, class)
		}
	}
}

// Answers that are written and read again are the same.
func TestAnswersSurvive(t *testing.T) {
	t.Parallel()
	word := rapid.StringMatching(`[a-zäß"\\\n]{1,12}`)
	rapid.Check(t, func(rt *rapid.T) {
		a := &llm.Answer{ID: "resp_req_1", Model: "m", Reported: true, Usage: llm.Usage{Input: 7, Output: int64(rapid.IntRange(0, 9).Draw(rt, "output"))}}
		calls := false
		for i := range rapid.IntRange(0, 6).Draw(rt, "parts") {
			p := llm.Part{Text: word.Draw(rt, "text")}
			switch rapid.IntRange(0, 5).Draw(rt, "kind") {
			case 0:
				p.Kind, p.State = llm.PartReasoning, &llm.State{Kind: llm.OpenAIEncrypted, Data: word.Draw(rt, "state")}
			case 1:
				p = call(fmt.Sprint("c", i), "f", jsonString(t, map[string]string{"a": p.Text}))
				calls = true
			case 2:
				p = llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: fmt.Sprint("c", i), Name: "g", Namespace: "n", Arguments: p.Text, Custom: true}}
				calls = true
			case 3:
				p = media(llm.Media{Kind: llm.Image, MIME: "image/png", Data: "iVBORw0KGgo="})
			case 4:
				p.Citations = []llm.Citation{{URL: "https://a.example/", Title: word.Draw(rt, "title"), Start: 1, End: 2}}
			}
			a.Parts = append(a.Parts, p)
		}
		a.Stop = llm.Stop{Reason: llm.StopEnd, Native: "completed"}
		switch {
		case rapid.Bool().Draw(rt, "cut"):
			a.Stop = llm.Stop{Reason: llm.StopMaxTokens, Native: "max_output_tokens"}
		case calls:
			a.Stop.Reason = llm.StopToolUse
		}
		c := conversion(protocol.Anthropic)
		_, whole := valid(t, c, a)
		got, f := codec.DecodeAnswer([]byte(whole), c)
		if f != nil {
			rt.Fatal(f)
		}
		for i := range got.Parts {
			if got.Parts[i].State != nil {
				got.Parts[i].State.ID = ""
			}
		}
		if diff := cmp.Diff(a, got); diff != "" {
			rt.Fatalf("(-want +got)\n%s", diff)
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// The vendor's SDK reads what is written, whole and streamed.
func TestVendorsSDKReadsTheAnswer(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Anthropic)
	stream, whole := valid(t, c, &llm.Answer{
		Model: "m", Parts: []llm.Part{{Kind: llm.PartReasoning, Text: "hm"}, text("Hi "), text("you."), call("c1", "f", `{"a":1}`)},
		Stop: llm.Stop{Reason: llm.StopToolUse}, Reported: true, Usage: llm.Usage{Input: 3, Output: 4},
	})
	var got responses.Response
	if err := json.Unmarshal([]byte(whole), &got); err != nil {
		t.Fatal(err)
	}
	if got.OutputText() != "Hi you." || got.Usage.TotalTokens != 7 || got.Status != "completed" || len(got.Output) != 3 || got.Output[2].CallID != "c1" {
		t.Errorf("got %+v", got)
	}
	for _, required := range []interface{ Valid() bool }{got.JSON.CreatedAt, got.JSON.Model, got.JSON.Output, got.JSON.ParallelToolCalls, got.JSON.Temperature, got.JSON.ToolChoice, got.JSON.Tools, got.JSON.TopP, got.JSON.Metadata} {
		if !required.Valid() {
			t.Errorf("the SDK misses a member in %s", whole)
		}
	}
	for _, f := range frames([]byte(stream)) {
		var e responses.ResponseStreamEventUnion
		if err := json.Unmarshal(f.Data, &e); err != nil || e.AsAny() == nil {
			t.Errorf("the SDK does not know %s: %v", f.Data, err)
		}
	}
}

// A stream of Responses repeats at its end what it told, so what is kept is bounded, be it
// text or parts without any.
func TestStreamWithoutAnEndIsGivenUp(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Anthropic)
	for name, e := range map[string]llm.Event{
		"text":  {Kind: llm.EventDelta, Text: []byte(strings.Repeat("x", 64<<10))},
		"parts": {Kind: llm.EventPartStart, Part: &llm.Part{}},
	} {
		w := codec.NewEventEncoder(c)
		var out []byte
		var f *fault.Error
		for _, first := range []llm.Event{{Kind: llm.EventStart}, {Kind: llm.EventPartStart, Part: &llm.Part{}}} {
			if out, f = w.Encode(out[:0], first); f != nil {
				t.Fatal(f)
			}
		}
		n := 0
		for ; f == nil && n <= llm.MaxCollected/llm.PartSize; n++ {
			out, f = w.Encode(out[:0], e)
		}
		if f == nil || f.Class != fault.Malformed {
			t.Errorf("%s: %v after %d events, want a fault of the class malformed", name, f, n)
		}
	}
}
