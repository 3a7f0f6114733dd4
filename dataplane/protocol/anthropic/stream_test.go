package anthropic_test

import (
	"bytes"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

const messageStart = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}`

// summary tells events in short: what begins and ends, and what is said.
func summary(list []told) string {
	var b strings.Builder
	for _, e := range list {
		i := string(rune('0' + e.Index))
		switch e.Kind {
		case llm.EventPartStart:
			b.WriteString("+" + i + " ")
			if e.Part.Call != nil {
				b.WriteString(e.Part.Call.ID + ":" + e.Part.Call.Name + " ")
			}
		case llm.EventDelta:
			b.WriteString(i + "=" + e.Text + " ")
		case llm.EventState:
			b.WriteString(i + "!" + e.State.Data + " ")
		case llm.EventCite:
			b.WriteString(i + "@ ")
		case llm.EventPartEnd:
			b.WriteString("-" + i + " ")
		case llm.EventFinish:
			b.WriteString(e.Stop.Reason.String())
		}
	}
	return b.String()
}

func TestConvT01T03_CallsAreCountedFromZeroWithIDAndNameOnce(t *testing.T) {
	t.Parallel()
	got, f := tell(t, conversion(protocol.OpenAIChat), frames(messageStart,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"k\":1}"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"b","name":"g","input":{}}}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`,
		`{"type":"message_stop"}`))
	if f != nil {
		t.Fatal(f)
	}
	inOrder(t, got)
	if s := summary(got); s != `+0 0=x -0 +1 a:f 1={"k":1} -1 +2 b:g -2 tool_use` {
		t.Error(s)
	}
}

func TestDecoderForgivesWhatServersDo(t *testing.T) {
	t.Parallel()
	const stop = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`
	for _, tc := range []struct {
		name   string
		frames []string
		want   string
	}{
		{"no message_start", []string{`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`, stop}, "+0 0=x -0 end"},
		{"no start of a block", []string{messageStart, `{"type":"content_block_delta","index":4,"delta":{"type":"text_delta","text":"x"}}`, stop}, "+0 0=x -0 end"},
		{"no end of a block", []string{messageStart, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}`, stop}, "+0 0=x -0 end"},
		{"an index twice", []string{
			messageStart, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}`, stop,
		}, "+0 0=x -0 +1 a:f -1 tool_use"},
		{"arguments in the start", []string{messageStart, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{"k":1}}}`, stop}, `+0 a:f 0={"k":1} -0 tool_use`},
		{"arguments in the start and in pieces", []string{
			messageStart, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{"k":1}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}`, stop,
		}, `+0 a:f 0={} -0 tool_use`},
		{"an empty text", []string{messageStart, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_stop","index":0}`, stop}, "unknown"},
		{"thinking that is not shown", []string{
			messageStart, `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`, `{"type":"content_block_stop","index":0}`, stop,
		}, "+0 0!s -0 end"},
		{"no stop_reason", []string{messageStart, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`}, "+0 0=x -0 end"},
		{"blocks that interleave", []string{
			messageStart,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"b","name":"f","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"}"}}`, stop,
		}, "+0 a:f +1 b:f 1={ 0={} 1=} -0 -1 tool_use"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, f := tell(t, conversion(protocol.OpenAIChat), frames(append(tc.frames, `{"type":"message_stop"}`)...))
			if f != nil {
				t.Fatal(f)
			}
			inOrder(t, got)
			if tc.name == "an empty text" {
				tc.want = "unknown"
				if len(got) == 0 || got[len(got)-1].Kind != llm.EventEnd {
					t.Fatal("no end")
				}
				for _, e := range got {
					if e.Kind == llm.EventPartStart {
						t.Errorf("a part without content: %+v", e)
					}
				}
				return
			}
			if s := summary(got); s != tc.want {
				t.Errorf("got %s, want %s", s, tc.want)
			}
		})
	}
}

func TestConvE04_LinesWithoutEventNamesAndWithCRLFAreRead(t *testing.T) {
	t.Parallel()
	body := "data:" + messageStart + "\r\n\r\ndata:{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\r\n\r\n: ping\r\n\r\ndata:{\"type\":\"message_stop\"}\r\n\r\n"
	got, f := tell(t, conversion(protocol.OpenAIChat), strings.NewReader(body))
	if f != nil {
		t.Fatal(f)
	}
	if s := summary(got); s != "+0 0=x -0 end" {
		t.Error(s)
	}
}

func TestConvE06_ErrorEventFailsWithItsClass(t *testing.T) {
	t.Parallel()
	got, f := tell(t, conversion(protocol.OpenAIChat), frames(messageStart,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`,
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`))
	if f == nil || f.Class != fault.Overloaded {
		t.Errorf("got %v", f)
	}
	if s := summary(got); s != "+0 0=x " {
		t.Errorf("told %s: an end must not be made up", s)
	}
}

func TestBrokenStreamsAreNoEnd(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body string
		want fault.Class
	}{
		"cut":                  {"event: message_start\ndata: " + messageStart + "\n\n", fault.CutAfterFirst},
		"half an end":          {"event: message_stop\ndata: {\"type\":\"mess", fault.CutAfterFirst},
		"half an event":        {"event: message_delta\ndata: {\"type\":\"message_delta\",\"del", fault.CutAfterFirst},
		"no JSON":              {"event: content_block_delta\ndata: {\"type\":\n\n", fault.Malformed},
		"arguments of no call": {"event: content_block_delta\ndata: {\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}\n\n", fault.Malformed},
	} {
		if got, f := tell(t, conversion(protocol.OpenAIChat), strings.NewReader(tc.body)); f == nil || f.Class != tc.want {
			t.Errorf("%s: %v, want %v (%+v)", name, f, tc.want, got)
		}
	}
}

func start(i int, p llm.Part) llm.Event {
	return llm.Event{Kind: llm.EventPartStart, Index: i, Part: &p}
}

func delta(i int, s string) llm.Event {
	return llm.Event{Kind: llm.EventDelta, Index: i, Text: []byte(s)}
}

func end(i int) llm.Event { return llm.Event{Kind: llm.EventPartEnd, Index: i} }

// ending are the events after the last part.
func ending(r llm.StopReason, u *llm.Usage) []llm.Event {
	list := []llm.Event{{Kind: llm.EventFinish, Stop: llm.Stop{Reason: r}}}
	if u != nil {
		list = append(list, llm.Event{Kind: llm.EventUsage, Usage: u})
	}
	return append(list, llm.Event{Kind: llm.EventEnd})
}

// heard checks a stream as the vendor's clients would hear it, and accumulates it with
// the vendor's SDK.
func heard(t testing.TB, out string) sdk.Message {
	t.Helper()
	if err := streamcheck.Check(fakeprovider.Anthropic, []byte(out)); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	var m sdk.Message
	r := sse.NewReader(strings.NewReader(out), 0)
	for {
		f, err := r.Next()
		if err != nil {
			return m
		}
		var e sdk.MessageStreamEventUnion
		if err := e.UnmarshalJSON(f.Data); err != nil {
			t.Fatal(err)
		}
		if err := m.Accumulate(e); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
	}
}

func TestConvT04_PiecesOfCallsMayInterleave(t *testing.T) {
	t.Parallel()
	list := []llm.Event{
		{Kind: llm.EventStart},
		start(0, call("a", "f", "")), start(1, call("b", "g", "")),
		delta(0, `{"k":`), delta(1, `{}`), delta(0, `1}`), end(1), end(0),
	}
	m := heard(t, stream(t, answering(protocol.OpenAIChat), append(list, ending(llm.StopToolUse, nil)...)...))
	if len(m.Content) != 2 || string(m.Content[0].Input) != `{"k":1}` || m.Content[1].ID != "b" || m.StopReason != "tool_use" {
		t.Errorf("got %+v", m.Content)
	}
}

func TestConvE01_NoTextBlockForACallAlone(t *testing.T) {
	t.Parallel()
	list := []llm.Event{{Kind: llm.EventStart}, start(0, text("")), end(0), start(1, llm.Part{Kind: llm.PartReasoning}), end(1), start(2, call("a", "f", "")), end(2)}
	m := heard(t, stream(t, answering(protocol.OpenAIResponses), append(list, ending(llm.StopToolUse, nil)...)...))
	if len(m.Content) != 1 || m.Content[0].Type != "tool_use" {
		t.Errorf("got %+v", m.Content)
	}
}

func TestConvR01_ThinkingEndsBeforeTheText(t *testing.T) {
	t.Parallel()
	list := []llm.Event{
		{Kind: llm.EventStart, Model: "deep"},
		start(0, llm.Part{Kind: llm.PartReasoning}), delta(0, "h"), delta(0, "m"), end(0),
		start(1, text("")), delta(1, "hi"), end(1),
	}
	out := stream(t, answering(protocol.OpenAIChat), append(list, ending(llm.StopEnd, nil)...)...)
	m := heard(t, out)
	if len(m.Content) != 2 || m.Content[0].Thinking != "hm" || m.Content[1].Text != "hi" || m.Model != "deep" {
		t.Errorf("got %+v", m.Content)
	}
	if stop, text := strings.Index(out, "content_block_stop"), strings.Index(out, "text_delta"); stop > text {
		t.Error("the text begins before thinking has ended")
	}
}

func TestConvR05_SignatureComesLastAndOnce(t *testing.T) {
	t.Parallel()
	list := []llm.Event{
		{Kind: llm.EventStart},
		start(0, llm.Part{Kind: llm.PartReasoning}),
		{Kind: llm.EventState, Index: 0, State: &llm.State{Kind: llm.AnthropicSignature, Data: "c2ln"}},
		delta(0, "hm"), end(0),
		start(1, llm.Part{Kind: llm.PartReasoning, State: &llm.State{Kind: llm.AnthropicSignature, Data: "b"}}), end(1),
		start(2, llm.Part{Kind: llm.PartRedacted, State: &llm.State{Kind: llm.AnthropicRedacted, Data: "ZA=="}}), end(2),
	}
	m := heard(t, stream(t, answering(protocol.OpenAIChat), append(list, ending(llm.StopEnd, nil)...)...))
	if len(m.Content) != 3 || m.Content[0].Thinking != "hm" || m.Content[0].Signature != "c2ln" || m.Content[1].Signature != "b" || m.Content[2].Data != "ZA==" {
		t.Errorf("got %+v", m.Content)
	}
}

func TestConvU03_UsageThatComesLastIsToldLast(t *testing.T) {
	t.Parallel()
	u := llm.Usage{Input: 200, CacheRead: 15, CacheWrite5m: 3, CacheWrite1h: 4, Output: 9, Reasoning: 2, WebSearches: 1}
	list := []llm.Event{{Kind: llm.EventStart}, start(0, text("")), delta(0, "hi"), end(0)}
	out := stream(t, answering(protocol.OpenAIChat), append(list, ending(llm.StopEnd, &u)...)...)
	m := heard(t, out)
	if m.Usage.InputTokens != 200 || m.Usage.CacheReadInputTokens != 15 || m.Usage.CacheCreationInputTokens != 7 || m.Usage.OutputTokens != 11 ||
		m.Usage.OutputTokensDetails.ThinkingTokens != 2 || m.Usage.ServerToolUse.WebSearchRequests != 1 {
		t.Errorf("got %+v", m.Usage)
	}
	got, f := tell(t, answering(protocol.Anthropic), strings.NewReader(out))
	if f != nil {
		t.Fatal(f)
	}
	for _, e := range got {
		if e.Kind == llm.EventUsage && *e.Usage != u {
			t.Errorf("read back as %+v", *e.Usage)
		}
	}
}

func TestFailEndsTheStream(t *testing.T) {
	t.Parallel()
	e := anthropic.New().NewEventEncoder(answering(protocol.OpenAIChat))
	out, _ := e.Encode(nil, llm.Event{Kind: llm.EventStart})
	out, _ = e.Encode(out, start(0, text("")))
	out, _ = e.Encode(out, delta(0, "hi"))
	out = e.Fail(out, fault.New(fault.Overloaded, "Too much to do."), "req_1")
	if err := streamcheck.Check(fakeprovider.Anthropic, out, streamcheck.AllowError); err != nil {
		t.Errorf("%v in\n%s", err, out)
	}
	if !bytes.Contains(out, []byte(`"overloaded_error"`)) {
		t.Errorf("%s", out)
	}
}

func TestStreamedMediaIsAnError(t *testing.T) {
	t.Parallel()
	e := anthropic.New().NewEventEncoder(answering(protocol.Gemini))
	if _, f := e.Encode(nil, start(0, llm.Part{Kind: llm.PartMedia, Media: &llm.Media{Kind: llm.Audio}})); f == nil || f.Class != fault.RequestNotSupported {
		t.Errorf("got %v", f)
	}
}

// answers are what upstreams of this protocol can say.
var answers = rapid.Custom(func(t *rapid.T) *llm.Answer {
	texts := rapid.StringN(1, 20, -1)
	part := rapid.Custom(func(t *rapid.T) llm.Part {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return llm.Part{Kind: llm.PartReasoning, Text: texts.Draw(t, "thinking"), State: &llm.State{Kind: llm.AnthropicSignature, Data: "c2ln"}}
		case 1:
			return llm.Part{Kind: llm.PartRedacted, State: &llm.State{Kind: llm.AnthropicRedacted, Data: "ZA=="}}
		case 2:
			return call("toolu_"+rapid.StringMatching(`[a-z0-9]{12}`).Draw(t, "id"), "f", rapid.SampledFrom([]string{"", `{"a":1}`, `{"b":"\u00e9\n","a":[1.0]}`}).Draw(t, "args"))
		case 3:
			return llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: "web_search_tool_result", Raw: []byte(`{"type":"web_search_tool_result","content":[]}`)}}
		}
		p := llm.Part{Text: texts.Draw(t, "text")}
		if rapid.Bool().Draw(t, "cited") {
			p.Citations = []llm.Citation{{URL: "https://a.example", Raw: []byte(`{"type":"web_search_result_location","url":"https://a.example"}`)}}
		}
		return p
	})
	a := &llm.Answer{ID: "msg_1", Model: "m", Reported: true, Stop: llm.Stop{Reason: llm.StopMaxTokens, Native: "max_tokens"}}
	a.Parts = rapid.SliceOfNDistinct(part, 0, 6, func(p llm.Part) string {
		if p.Call != nil {
			return p.Call.ID
		}
		return p.Text + p.Kind.String()
	}).Draw(t, "parts")
	count := rapid.Int64Range(0, 1<<40)
	a.Usage = llm.Usage{Input: count.Draw(t, "input"), CacheRead: count.Draw(t, "read"), CacheWriteOther: count.Draw(t, "write"), Output: count.Draw(t, "output")}
	return a
})

// An answer that is told whole or as a stream is read back as it was.
func TestAnswersAreReadBackAsTheyWere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		a := answers.Draw(rt, "answer")
		c := answering(protocol.Anthropic)
		whole, f := anthropic.New().EncodeAnswer(a, c)
		if f != nil {
			rt.Fatal(f)
		}
		got, f := anthropic.New().DecodeAnswer(whole, c)
		if f != nil {
			rt.Fatal(f)
		}
		same := func(got *llm.Answer) {
			if diff := cmp.Diff(a, emptied(got)); diff != "" {
				rt.Fatalf("(-told +read)\n%s", diff)
			}
		}
		same(got)

		out := stream(t, c, events(a)...)
		if err := streamcheck.Check(fakeprovider.Anthropic, []byte(out)); err != nil {
			rt.Fatalf("%v in\n%s", err, out)
		}
		var all llm.Collector
		d := anthropic.New().NewEventDecoder(c)
		r := sse.NewReader(strings.NewReader(out), 0)
		for {
			frame, err := r.Next()
			if err != nil {
				break
			}
			if f := d.Decode(frame, func(e llm.Event) { all.Add(e) }); f != nil {
				rt.Fatal(f)
			}
		}
		if !all.Ended() {
			rt.Fatal("no end")
		}
		same(all.Answer())
	})
}

// emptied takes the arguments of calls without any for what they are.
func emptied(a *llm.Answer) *llm.Answer {
	for i := range a.Parts {
		if c := a.Parts[i].Call; c != nil && c.Arguments == "{}" {
			c.Arguments = ""
		}
	}
	if len(a.Parts) == 0 {
		a.Parts = []llm.Part{}
	}
	return a
}

func TestEmptyPiecesAreNotSent(t *testing.T) {
	t.Parallel()
	list := []llm.Event{
		{Kind: llm.EventStart},
		start(0, text("")), delta(0, ""), delta(0, "hi"), delta(0, ""), end(0),
		start(1, text("")), delta(1, ""), end(1),
		start(2, call("a", "f", "")), delta(2, ""), end(2),
	}
	out := stream(t, answering(protocol.OpenAIChat), append(list, ending(llm.StopToolUse, nil)...)...)
	if n := strings.Count(out, "event: content_block_delta"); n != 1 {
		t.Errorf("%d pieces, want 1, in\n%s", n, out)
	}
	heard(t, out)
}

// Clients take counts for cumulative: a smaller one at the end would take tokens back.
func TestOutputTokensNeverFall(t *testing.T) {
	t.Parallel()
	list := []llm.Event{{Kind: llm.EventStart, Usage: &llm.Usage{Input: 5, Output: 10}}, start(0, text("")), delta(0, "hi"), end(0)}
	m := heard(t, stream(t, answering(protocol.Gemini), append(list, ending(llm.StopEnd, &llm.Usage{Input: 5, Output: 3})...)...))
	if m.Usage.OutputTokens != 10 {
		t.Errorf("%d output tokens, want the 10 that were told first", m.Usage.OutputTokens)
	}
}
