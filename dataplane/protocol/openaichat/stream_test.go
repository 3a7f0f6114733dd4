package openaichat_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

// frames cuts a stream into its events.
func frames(stream []byte) []sse.Frame {
	var all []sse.Frame
	r := sse.NewReader(bytes.NewReader(stream), 0)
	for {
		f, err := r.Next()
		if err != nil {
			return all
		}
		all = append(all, sse.Frame{Raw: bytes.Clone(f.Raw), Event: bytes.Clone(f.Event), Data: bytes.Clone(f.Data)})
	}
}

// lines is a stream of deltas, with a finish_reason at the end if there is one.
func lines(finish string, deltas ...string) string {
	var b strings.Builder
	for _, d := range deltas {
		b.WriteString(`data: {"id":"i","model":"m","choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}` + "\n\n")
	}
	if finish != "" {
		b.WriteString(`data: {"id":"i","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"` + finish + `"}]}` + "\n\n")
	}
	return b.String()
}

const done = "data: [DONE]\n\n"

// brief tells events as words.
func brief(events []told) string {
	var b strings.Builder
	for _, e := range events {
		switch e.Kind {
		case llm.EventStart:
			b.WriteString("start ")
		case llm.EventPartStart:
			b.WriteString("+" + e.Part.Kind.String()[:4] + string(rune('0'+e.Index)) + " ")
		case llm.EventDelta:
			b.WriteString(string(rune('0'+e.Index)) + ":" + e.Text + " ")
		case llm.EventCite:
			b.WriteString("cite" + string(rune('0'+e.Index)) + " ")
		case llm.EventPartEnd:
			b.WriteString("-" + string(rune('0'+e.Index)) + " ")
		case llm.EventFinish:
			b.WriteString(e.Stop.Reason.String() + " ")
		case llm.EventUsage:
			b.WriteString("usage ")
		case llm.EventEnd:
			b.WriteString("end")
		}
	}
	return b.String()
}

func TestEventsOfStreams(t *testing.T) {
	t.Parallel()
	const usage = `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\n"
	for name, tc := range map[string]struct{ stream, want string }{
		"text":                       {lines("stop", `{"role":"assistant","content":""}`, `{"content":"a"}`) + done, "start +text0 0:a -0 end end"},
		"U6 usage without choices":   {lines("stop", `{"content":"a"}`) + usage + done, "start +text0 0:a -0 end usage end"},
		"usage in every chunk":       {usage + lines("stop", `{"content":"a"}`) + usage + done, "start +text0 0:a -0 end usage end"},
		"no [DONE]":                  {lines("stop", `{"content":"a"}`) + usage, "start +text0 0:a -0 end usage end"},
		"no finish_reason":           {lines("", `{"content":"a"}`) + done, "start +text0 0:a -0 end end"},
		"S5 finish in every chunk":   {lines("stop", `{"content":"a"}`) + lines("stop", `{"content":"b"}`) + done, "start +text0 0:ab -0 end end"},
		"R1 reasoning, then text":    {lines("stop", `{"reasoning_content":"h"}`, `{"content":"a"}`) + done, "start +reas0 0:h -0 +text1 1:a -1 end end"},
		"reasoning, text, reasoning": {lines("stop", `{"reasoning":"h"}`, `{"content":"a"}`, `{"reasoning":"i"}`) + done, "start +reas0 0:h -0 +text1 1:a -1 +reas2 2:i -2 end end"},
		"both in one delta":          {lines("stop", `{"content":"a","reasoning":"h"}`) + done, "start +reas0 0:h -0 +text1 1:a -1 end end"},
		"T4 calls interleave": {lines("tool_calls", `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1"}}]}`, `{"tool_calls":[{"index":1,"id":"b","function":{"name":"f","arguments":"x"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"2"}}]}`, `{"tool_calls":[{"index":1,"function":{"arguments":"y"}}]}`) + done, "start +tool0 0:1 +tool1 1:xy 0:2 -0 -1 tool_use end"},
		"text, call, text": {
			lines("tool_calls", `{"content":"a"}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}`, `{"content":"b"}`) + done,
			"start +text0 0:a -0 +tool1 +text2 2:b -1 -2 tool_use end",
		},
		"name after the id":      {lines("tool_calls", `{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"1"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"2"}}]}`) + done, "start +tool0 0:12 -0 tool_use end"},
		"id in every piece":      {lines("tool_calls", `{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"1"}}]}`, `{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"2"}}]}`) + done, "start +tool0 0:12 -0 tool_use end"},
		"no index, no id":        {lines("tool_calls", `{"tool_calls":[{"function":{"name":"f","arguments":"1"}}]}`, `{"tool_calls":[{"function":{"arguments":"2"}}]}`) + done, "start +tool0 0:12 -0 tool_use end"},
		"all calls have index 0": {lines("tool_calls", `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1"}}]}`, `{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"2"}}]}`) + done, "start +tool0 0:1 +tool1 1:2 -0 -1 tool_use end"},
		"index from 1":           {lines("tool_calls", `{"tool_calls":[{"index":1,"id":"a","function":{"name":"f","arguments":"1"}}]}`) + done, "start +tool0 0:1 -0 tool_use end"},
		"last message repeats":   {lines("stop", `{"content":"a"}`) + `data: {"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n" + done, "start +text0 0:a -0 end end"},
		"whole message":          {`data: {"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n" + done, "start +text0 0:a -0 end end"},
		"two choices":            {`data: {"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}` + "\n\n" + done, "start +text0 0:a -0 end end"},
		"after the end":          {lines("stop", `{"content":"a"}`) + done + lines("stop", `{"content":"b"}`) + done, "start +text0 0:a -0 end end"},
		"S6 filter alone":        {lines("content_filter") + done, "start content_filter end"},
		"sources":                {lines("stop", `{"content":"a"}`, `{"annotations":[{"type":"url_citation","url_citation":{"url":"u"}}]}`) + done, "start +text0 0:a cite0 -0 end end"},
		"comments, no space":     {": hi\n\ndata:" + lines("stop", `{"content":"a"}`)[6:] + done, "start +text0 0:a -0 end end"},
		"usage in the choice":    {`data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop","usage":{"prompt_tokens":1,"completion_tokens":1}}]}` + "\n\n" + done, "start +text0 0:a -0 end usage end"},
	} {
		events, f := tell(t, conversion(protocol.Anthropic), strings.NewReader(tc.stream))
		if f != nil {
			t.Errorf("%s: %v", name, f)
			continue
		}
		inOrder(t, events)
		if got := brief(events); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tc.want)
		}
	}
}

// A stream that breaks is no end, whatever it had said.
func TestConvE06_BrokenStreamsFail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stream string
		want   fault.Class
	}{
		"body ends early": {lines("", `{"content":"a"}`), fault.CutAfterFirst},
		"nothing at all":  {done, fault.Malformed},
		"error event":     {lines("", `{"content":"a"}`) + `data: {"error":{"type":"overloaded_error","message":"busy"}}` + "\n\n" + done, fault.Overloaded},
		"named error":     {lines("", `{"content":"a"}`) + "event: error\ndata: {\"error\":{\"code\":429,\"message\":\"slow\"}}\n\n", fault.RateLimited},
		"bad JSON":        {lines("", `{"content":"a"}`) + "data: {\"choices\":[{\n\n", fault.Malformed},
		"audio in pieces": {lines("", `{"audio":{"data":"AAAA"}}`), fault.Malformed},
	} {
		events, f := tell(t, conversion(protocol.Anthropic), strings.NewReader(tc.stream))
		if f == nil || f.Class != tc.want {
			t.Errorf("%s: %v, want %v", name, f, tc.want)
		}
		for _, e := range events {
			if e.Kind == llm.EventFinish || e.Kind == llm.EventEnd {
				t.Errorf("%s: told as a proper end: %s", name, brief(events))
			}
		}
	}
}

// What answers have is bounded.
func TestCallsOfAnAnswerAreBounded(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 2000 {
		many.WriteString(lines("", `{"tool_calls":[{"id":"c`+string(rune('a'+i%26))+strings.Repeat("x", i/26)+`","function":{"name":"f"}}]}`))
	}
	if _, f := tell(t, conversion(protocol.Anthropic), strings.NewReader(many.String())); f == nil || f.Class != fault.Malformed {
		t.Errorf("2000 calls: %v", f)
	}
	nameless := strings.Repeat(lines("", `{"tool_calls":[{"index":0,"id":"c","function":{"arguments":"`+strings.Repeat("x", 1000)+`"}}]}`), 100)
	if _, f := tell(t, conversion(protocol.Anthropic), strings.NewReader(nameless)); f == nil || f.Class != fault.Malformed {
		t.Errorf("100 kB before a name: %v", f)
	}
}

// T1, T3: calls are counted from 0 whatever the parts' indexes are, and each has its
// id, type and name once.
func TestConvT01_CallsAreCountedFromZero(t *testing.T) {
	t.Parallel()
	a := &llm.Answer{Model: "m", Parts: []llm.Part{text("so"), call("a", "f", `{"x":1}`), call("b", "g", `{"y":2}`)}, Stop: llm.Stop{Reason: llm.StopToolUse}}
	out := write(t, conversion(protocol.OpenAIChat), a)
	if err := streamcheck.Check(fakeprovider.Chat, out); err != nil {
		t.Errorf("%v in\n%s", err, out)
	}
	var got []string
	for _, f := range frames(out) {
		if calls := bytes.Index(f.Data, []byte(`"tool_calls":`)); calls >= 0 {
			got = append(got, string(f.Data[calls+13:bytes.Index(f.Data, []byte(`},"logprobs"`))]))
		}
	}
	want := []string{
		`[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]`, `[{"index":0,"function":{"arguments":"{\"x\":1}"}}]`,
		`[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}]`, `[{"index":1,"function":{"arguments":"{\"y\":2}"}}]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// S8: the last chunk has a delta, empty as it is; and only who asked gets usage.
func TestConvS08_LastChunkHasADelta(t *testing.T) {
	t.Parallel()
	a := &llm.Answer{Model: "m", Stop: llm.Stop{Reason: llm.StopMaxTokens}, Reported: true, Usage: llm.Usage{Input: 3, Output: 2}}
	out := string(write(t, conversion(protocol.OpenAIChat), a))
	const last = `"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]}` + "\n\n" + done
	if !strings.HasSuffix(out, last) {
		t.Errorf("got %s, want the end %s", out, last)
	}
	if strings.Contains(out, "usage") {
		t.Errorf("usage for a caller who did not ask: %s", out)
	}
	c := conversion(protocol.OpenAIChat)
	c.WantsUsage = true
	out = string(write(t, c, a))
	if n := strings.Count(out, `"usage":null`); n != 2 {
		t.Errorf("%d chunks have usage null, want all but the last:\n%s", n, out)
	}
	if !strings.Contains(out, `"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5`) {
		t.Errorf("no usage in\n%s", out)
	}
}

// Sources of a part that tells no places have the place of the part, and come after all text.
func TestSourcesFollowTheText(t *testing.T) {
	t.Parallel()
	a := &llm.Answer{Model: "m", Parts: []llm.Part{text("é is "), {Kind: llm.PartText, Text: "good", Citations: []llm.Citation{{URL: "u", Title: "t"}}}, text(".")}, Stop: llm.Stop{Reason: llm.StopEnd}}
	out := write(t, conversion(protocol.OpenAIChat), a)
	all := frames(out)
	if got := string(all[len(all)-3].Data); !strings.Contains(got, `"delta":{"annotations":[{"type":"url_citation","url_citation":{"end_index":9,"start_index":5,"title":"t","url":"u"}}]}`) {
		t.Errorf("before the finish comes %s", got)
	}
}

func TestFailureEndsTheStream(t *testing.T) {
	t.Parallel()
	w := codec.NewEventEncoder(conversion(protocol.OpenAIChat))
	out, f := w.Encode(nil, llm.Event{Kind: llm.EventStart, Model: "m"})
	if f != nil {
		t.Fatal(f)
	}
	out = w.Fail(out, fault.New(fault.Overloaded, ""), "req_1")
	if err := streamcheck.Check(fakeprovider.Chat, out, streamcheck.AllowError); err != nil {
		t.Errorf("%v in\n%s", err, out)
	}
	if want := codec.StreamError(fault.New(fault.Overloaded, ""), "req_1", nil); !bytes.HasSuffix(out, want) {
		t.Errorf("got %s, want the error of the same protocol %s", out, want)
	}
}

// The SDK's accumulator makes the same answer of the stream as of the whole.
func TestSDKAccumulatesStreams(t *testing.T) {
	t.Parallel()
	a := &llm.Answer{Model: "m", Parts: []llm.Part{{Kind: llm.PartReasoning, Text: "hm"}, text("hé"), text("llo"), call("a", "f", `{"x":1}`), call("b", "g", ``)}, Stop: llm.Stop{Reason: llm.StopToolUse}, Reported: true, Usage: llm.Usage{Input: 3, Output: 2}}
	c := conversion(protocol.OpenAIChat)
	c.WantsUsage = true
	var acc openai.ChatCompletionAccumulator
	for _, f := range frames(write(t, c, a)) {
		if sse.IsDone(f.Data) {
			continue
		}
		var chunk openai.ChatCompletionChunk
		if err := json.Unmarshal(f.Data, &chunk); err != nil || !acc.AddChunk(chunk) {
			t.Fatalf("%v: %s", err, f.Data)
		}
	}
	m := acc.Choices[0].Message
	if m.Content != "héllo" || len(m.ToolCalls) != 2 || m.ToolCalls[0].Function.Arguments != `{"x":1}` || m.ToolCalls[1].Function.Arguments != "{}" ||
		m.ToolCalls[1].ID != "b" || acc.Choices[0].FinishReason != "tool_calls" || acc.Usage.TotalTokens != 5 {
		t.Errorf("got %+v", acc.ChatCompletion)
	}
}
