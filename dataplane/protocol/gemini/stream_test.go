package gemini_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

func streamed(t testing.TB, name string) []llm.Event {
	t.Helper()
	events, f := decodeStream(chat(), []byte(files(t, "streams/*.sse")[name]))
	if f != nil {
		t.Fatal(f)
	}
	return events
}

func TestConvS03_ACallAndItsEndMayBeApart(t *testing.T) {
	t.Parallel()
	a := collect(t, streamed(t, "calls"))
	made := func(args string) *llm.Call { return &llm.Call{ID: "gwc_made", Name: "look", Arguments: args} }
	want := &llm.Answer{
		ID: "abc", Model: "gemini-3-pro", Reported: true, Usage: llm.Usage{Input: 30, Output: 10, Reasoning: 12},
		Stop: llm.Stop{Reason: llm.StopToolUse, Native: "STOP"},
		Parts: []llm.Part{
			{Kind: llm.PartReasoning, Text: "Looking"},
			{Kind: llm.PartCall, Call: made(`{"n": 9007199254740993,"f": 1.0,"b": "x"}`), State: &llm.State{Kind: llm.GeminiSignature, Data: "EqQBCqEBAXLI2nx="}},
			{Kind: llm.PartCall, Call: made(`{}`)},
		},
	}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConvS05_AnEndInEveryChunkIsOneEnd(t *testing.T) {
	t.Parallel()
	a := collect(t, streamed(t, "stop_in_every_chunk")) // which fails for two ends
	if len(a.Parts) != 1 || a.Parts[0].Text != "Grüße aus 東京" || a.Stop.Reason != llm.StopEnd || a.Usage.Output != 6 {
		t.Errorf("%+v", a)
	}
}

func TestArgumentsInPiecesArePutTogether(t *testing.T) {
	t.Parallel()
	a := collect(t, streamed(t, "partial_args"))
	want := llm.Part{
		Kind: llm.PartCall, Call: &llm.Call{ID: "c1", Name: "book", Arguments: `{"city":"New Y\u00f6rk \"x\"","days":[3,null],"opt":{"sure":true}}`},
		State: &llm.State{Kind: llm.GeminiSignature, Data: "EqQBCqEB"},
	}
	if diff := cmp.Diff([]llm.Part{want}, a.Parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// chunk is a stream of chunks whose candidates have the members.
func chunksOf(candidates ...string) []byte {
	var b strings.Builder
	for _, c := range candidates {
		b.WriteString(`data: {"candidates":[{` + c + `}]}` + "\r\n\r\n")
	}
	return []byte(b.String())
}

func TestPathsOfPiecesThatMakeNoSenseAreLeftOut(t *testing.T) {
	t.Parallel()
	piece := func(pieces string) string {
		return `"content":{"parts":[{"functionCall":{"name":"f","willContinue":true,"partialArgs":[` + pieces + `]}}]}`
	}
	for pieces, want := range map[string]string{
		`{"jsonPath":"$['a b'].c","numberValue":1},{"jsonPath":"$[\"d\"]","boolValue":false}`:                                                  `{"a b":{"c":1},"d":false}`,
		`{"jsonPath":"$","stringValue":"a"},{"jsonPath":"a","stringValue":"b"},{"jsonPath":"$..a","stringValue":"c"}`:                          `{}`,
		`{"jsonPath":"$.a[2]","stringValue":"x"},{"jsonPath":"$.a[-1]","stringValue":"y"},{"jsonPath":"$.a[0]","stringValue":"z"}`:             `{"a":["z"]}`,
		`{"jsonPath":"$.a","stringValue":"x","willContinue":true},{"jsonPath":"$.a","willContinue":false},{"jsonPath":"$.b","stringValue":""}`: `{"a":"x","b":""}`,
		`{"jsonPath":"$.a.b","numberValue":1},{"jsonPath":"$.a","stringValue":"x"},{"jsonPath":"$.a[0]","stringValue":"x"}`:                    `{"a":{"b":1}}`,
		`{"jsonPath":"$` + strings.Repeat(".a", 200) + `","numberValue":1}`:                                                                    `{}`,
	} {
		events, f := decodeStream(chat(), chunksOf(piece(pieces), `"finishReason":"STOP"`))
		if f != nil {
			t.Errorf("%s: %v", pieces, f)
			continue
		}
		a := collect(t, events)
		if a.Parts[0].Call.Arguments != want {
			t.Errorf("%s\ngives %s, want %s", pieces, a.Parts[0].Call.Arguments, want)
		}
	}
}

func TestACallThatNeverEndsIsClosed(t *testing.T) {
	t.Parallel()
	events, f := decodeStream(chat(), chunksOf(
		`"content":{"parts":[{"functionCall":{"name":"f","willContinue":true,"partialArgs":[{"jsonPath":"$.a","stringValue":"x"}]}}]}`,
		`"content":{"parts":[{"text":"Hi"}]}`, `"finishReason":"MAX_TOKENS"`))
	if f != nil {
		t.Fatal(f)
	}
	a := collect(t, events)
	if len(a.Parts) != 2 || a.Parts[0].Call.Arguments != `{"a":"x"}` || a.Parts[1].Text != "Hi" || a.Stop.Reason != llm.StopMaxTokens {
		t.Errorf("%+v", a)
	}
}

func TestTheStartTellsWhatIsKnown(t *testing.T) {
	t.Parallel()
	e := streamed(t, "calls")[0]
	if e.Kind != llm.EventStart || e.ID != "abc" || e.Model != "gemini-3-pro" || e.Usage == nil || e.Usage.Input != 30 {
		t.Errorf("%+v", e)
	}
}

func TestBrokenStreamsAreFaults(t *testing.T) {
	t.Parallel()
	text := `"content":{"parts":[{"text":"Hi"}]}`
	failure := []byte(`data: {"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}` + "\n\n")
	for name, tc := range map[string]struct {
		stream []byte
		want   fault.Class
	}{
		"E6 an error after some text": {append(chunksOf(text), failure...), fault.Unavailable},
		"an error at once":            {failure, fault.Unavailable},
		"no end":                      {chunksOf(text), fault.CutAfterFirst},
		"no content and no end":       {[]byte(`data: {"usageMetadata":{"promptTokenCount":8}}` + "\n\n"), fault.CutBeforeFirst},
		"nothing":                     {nil, fault.CutBeforeFirst},
		"a bad call":                  {chunksOf(text, `"finishReason":"MALFORMED_FUNCTION_CALL"`), fault.Malformed},
		"no JSON":                     {[]byte("data: {\"candidates\":[{]}\n\n"), fault.Malformed},
		"half a chunk at the end":     {append(chunksOf(text), `data: {"candidates":[{"content":{"parts":[{"text":"you`...), fault.CutAfterFirst},
	} {
		if events, f := decodeStream(chat(), tc.stream); f == nil || f.Class != tc.want {
			t.Errorf("%s: %v after %+v, want %s", name, f, events, tc.want)
		}
	}
}

// Keep-alives and other events that say nothing tell nothing, and a chunk without its
// blank line is one if it is whole.
func TestFramesThatSayNothingTellNothing(t *testing.T) {
	t.Parallel()
	stream := []byte(": comment\n\nevent: ping\n\ndata:\n\n" + string(chunksOf(`"content":{"parts":[{"text":""},{},5]}`, `"content":{"parts":[{"text":"Hi"}]}`)) +
		`data:{"candidates":[{"finishReason":"STOP"}]}`)
	events, f := decodeStream(chat(), stream)
	if f != nil {
		t.Fatal(f)
	}
	if a := collect(t, events); len(a.Parts) != 1 || a.Parts[0].Text != "Hi" {
		t.Errorf("%+v", a)
	}
}

func TestConvE05_LongLinesPass(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("漢字 and \\n", 500_000)
	events, f := decodeStream(chat(), chunksOf(`"content":{"parts":[{"text":"`+long+`"}]},"finishReason":"STOP"`))
	if f != nil {
		t.Fatal(f)
	}
	if a := collect(t, events); len(a.Parts[0].Text) != len(long)-500_000 {
		t.Errorf("%d bytes, want %d", len(a.Parts[0].Text), len(long)-500_000)
	}
}

// Pieces of several parts may come by turns; texts are told as they come, calls whole.
func TestConvT04_PartsThatInterleaveAreToldApart(t *testing.T) {
	t.Parallel()
	enc := gemini.New().NewEventEncoder(own())
	var out []byte
	for _, e := range []llm.Event{
		{Kind: llm.EventStart},
		{Kind: llm.EventPartStart, Index: 0, Part: &llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "a", Name: "f"}}},
		{Kind: llm.EventPartStart, Index: 1, Part: &llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: "b", Name: "g"}}},
		{Kind: llm.EventDelta, Index: 0, Text: []byte(`{"x":`)},
		{Kind: llm.EventDelta, Index: 1, Text: []byte(`{"y":`)},
		{Kind: llm.EventPartStart, Index: 2, Part: &llm.Part{}},
		{Kind: llm.EventDelta, Index: 2, Text: []byte(`Hi`)},
		{Kind: llm.EventDelta, Index: 1, Text: []byte(`2}`)},
		{Kind: llm.EventDelta, Index: 0, Text: []byte(`1}`)},
		{Kind: llm.EventState, Index: 0, State: &sign},
		{Kind: llm.EventPartEnd, Index: 0},
		{Kind: llm.EventPartEnd, Index: 2},
		{Kind: llm.EventPartEnd, Index: 1},
		{Kind: llm.EventFinish, Stop: llm.Stop{Reason: llm.StopToolUse}},
		{Kind: llm.EventUsage, Usage: &llm.Usage{Input: 3, Output: 4}},
		{Kind: llm.EventEnd},
	} {
		var f *fault.Error
		if out, f = enc.Encode(out, e); f != nil {
			t.Fatal(f)
		}
	}
	if err := streamcheck.Check(fakeprovider.Gemini, out); err != nil {
		t.Fatal(err)
	}
	events, f := decodeStream(own(), out)
	if f != nil {
		t.Fatal(f)
	}
	want := []llm.Part{{Text: "Hi"}, signed(call("a", "f", `{"x":1}`), sign), call("b", "g", `{"y":2}`)}
	if diff := cmp.Diff(want, collect(t, events).Parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConvS08_TheLastChunkHasTheEndAndTheUsage(t *testing.T) {
	t.Parallel()
	for reason, want := range map[llm.StopReason]string{
		llm.StopMaxTokens: `{"candidates":[{"finishReason":"MAX_TOKENS","index":0}],"usageMetadata":{"promptTokenCount":3,"totalTokenCount":3},"modelVersion":"public-model","responseId":"req_1"}`,
		llm.StopEnd:       `{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"totalTokenCount":3},"modelVersion":"public-model","responseId":"req_1"}`,
	} {
		out, f := emitted(t, &llm.Answer{Reported: true, Usage: llm.Usage{Input: 3}, Stop: llm.Stop{Reason: reason}}, conversion(protocol.Gemini, protocol.OpenAIChat))
		if f != nil || string(out) != "data: "+want+"\r\n\r\n" {
			t.Errorf("%s: %s, %v", reason, out, f)
		}
		if err := streamcheck.Check(fakeprovider.Gemini, out); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestAStreamWithoutSSEIsOneArray(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Gemini, protocol.OpenAIChat)
	c.Framing = protocol.FramingArray
	a := &llm.Answer{Parts: []llm.Part{{Text: "Hi"}, call("1", "f", `{}`)}, Reported: true, Stop: llm.Stop{Reason: llm.StopToolUse}}
	out, f := emitted(t, a, c)
	if f != nil {
		t.Fatal(f)
	}
	if err := streamcheck.Check(fakeprovider.Gemini, out); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if list, _ := value(t, out).([]any); len(list) != 3 {
		t.Errorf("%d elements, want 3: %s", len(list), out)
	}
	if !bytes.Contains(out, []byte("},\r\n{")) {
		t.Errorf("the elements are not parted as the vendor parts them: %s", out)
	}
}

// A stream that fails ends with the error in the form of the stream.
func TestFailuresEndTheStream(t *testing.T) {
	t.Parallel()
	bad := fault.New(fault.Overloaded, "Overloaded.")
	for _, framing := range []protocol.Framing{protocol.FramingSSE, protocol.FramingArray} {
		for _, told := range []bool{false, true} {
			c := conversion(protocol.Gemini, protocol.OpenAIChat)
			c.Framing = framing
			enc := gemini.New().NewEventEncoder(c)
			var out []byte
			if told {
				out, _ = enc.Encode(out, llm.Event{Kind: llm.EventStart})
				out, _ = enc.Encode(out, llm.Event{Kind: llm.EventPartStart, Part: &llm.Part{}})
				out, _ = enc.Encode(out, llm.Event{Kind: llm.EventDelta, Text: []byte("Hi")})
			}
			out = enc.Fail(out, bad, "req_1")
			if err := streamcheck.Check(fakeprovider.Gemini, out, streamcheck.AllowError); err != nil {
				t.Errorf("framing %d, told %v: %v in %s", framing, told, err, out)
			}
			if framing == protocol.FramingSSE && !bytes.HasSuffix(out, gemini.New().StreamError(bad, "req_1", nil)) {
				t.Errorf("the error is not that of same-protocol streams: %s", out)
			}
		}
	}
}

func TestHeldArgumentsAreBounded(t *testing.T) {
	t.Parallel()
	enc := gemini.New().NewEventEncoder(own())
	piece := bytes.Repeat([]byte("x"), 1<<20)
	calls := 0
	for ; calls < 40; calls++ {
		if _, f := enc.Encode(nil, llm.Event{Kind: llm.EventPartStart, Index: calls, Part: &llm.Part{Kind: llm.PartCall, Call: &llm.Call{Name: "f"}}}); f != nil {
			t.Fatal(f)
		}
		if _, f := enc.Encode(nil, llm.Event{Kind: llm.EventDelta, Index: calls, Text: piece}); f != nil {
			break
		}
		// Their arguments are no object, so that they are kept for the end.
		if _, f := enc.Encode(nil, llm.Event{Kind: llm.EventPartEnd, Index: calls}); f != nil {
			t.Fatal(f)
		}
	}
	if calls != 16 {
		t.Errorf("%d MiB were kept, want 16", calls)
	}
}

// genAnswer is an answer as this protocol can tell it.
func genAnswer(t *rapid.T) *llm.Answer {
	text := rapid.StringMatching(`[a-zé漢"\\\n ]{1,12}`)
	state := func(p llm.Part, label string) llm.Part {
		if rapid.Bool().Draw(t, label) {
			p.State = &llm.State{Kind: llm.GeminiSignature, Data: rapid.StringMatching(`[a-z]{4,8}`).Draw(t, "state")}
		}
		return p
	}
	a := &llm.Answer{Model: "m", Stop: llm.Stop{Reason: llm.StopEnd, Native: "STOP"}, Reported: true}
	a.Usage = llm.Usage{Input: rapid.Int64Range(0, 9).Draw(t, "input"), Output: rapid.Int64Range(1, 9).Draw(t, "output"), Reasoning: rapid.Int64Range(0, 9).Draw(t, "reasoning")}
	last := llm.PartNative
	for range rapid.IntRange(0, 6).Draw(t, "parts") {
		switch kind := rapid.SampledFrom([]llm.PartKind{llm.PartText, llm.PartReasoning, llm.PartCall, llm.PartMedia, llm.PartNative}).Draw(t, "kind"); kind {
		case llm.PartText, llm.PartReasoning:
			n := len(a.Parts)
			if n > 0 && last == kind && a.Parts[n-1].State == nil {
				continue // would be one part
			}
			p := state(llm.Part{Kind: kind, Text: text.Draw(t, "text")}, "signed")
			if kind == llm.PartText && rapid.Bool().Draw(t, "cited") && n == 0 && p.State == nil {
				p.Citations = []llm.Citation{{URL: "https://a.example", Title: text.Draw(t, "title"), Text: text.Draw(t, "cited text")}}
				a.Parts = append(a.Parts, p)
				return a // sources stand at the end of an answer
			}
			a.Parts = append(a.Parts, p)
			last = kind
		case llm.PartCall:
			args := rapid.SampledFrom([]string{`{}`, `{"a":1.0,"b":[9007199254740993]}`, `{"x":{"y":"é\n"}}`}).Draw(t, "args")
			a.Parts = append(a.Parts, state(call(rapid.StringMatching(`c[0-9]{1,3}`).Draw(t, "id"), "f", args), "signed"))
			a.Stop.Reason, last = llm.StopToolUse, kind
		case llm.PartMedia:
			a.Parts = append(a.Parts, state(llm.Part{Kind: kind, Media: &llm.Media{Kind: llm.Image, MIME: "image/png", Data: "QUJD"}}, "signed"))
			last = kind
		case llm.PartNative:
			a.Parts = append(a.Parts, llm.Part{Kind: kind, Native: &llm.Native{Type: "executableCode", Raw: []byte(`{"code":"1"}`)}})
			last = kind
		}
	}
	return a
}

// What is encoded is decoded as it was, whole and streamed and in pieces of any size, and
// the stream is one that the vendor could have sent.
func TestAnswersSurviveTheWayThereAndBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := genAnswer(t)
		body, f := gemini.New().EncodeAnswer(a, own())
		if f != nil {
			t.Fatal(f)
		}
		b, f := gemini.New().DecodeAnswer(body, own())
		if f != nil {
			t.Fatal(f)
		}
		b.ID = ""
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("whole (-want +got):\n%s\n%s", diff, body)
		}
		enc := gemini.New().NewEventEncoder(own())
		var stream []byte
		if err := a.Emit(func(e llm.Event) error {
			var f *fault.Error
			if stream, f = enc.Encode(stream, e); f != nil {
				return f
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := streamcheck.Check(fakeprovider.Gemini, stream); err != nil {
			t.Fatalf("%v in\n%s", err, stream)
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 300), 1, 4).Draw(t, "sizes")
		events, f := decodeStream(own(), stream, sizes...)
		if f != nil {
			t.Fatal(f)
		}
		if broken := ordered(events); broken != "" {
			t.Fatal(broken)
		}
		var all llm.Collector
		for _, e := range events {
			all.Add(e)
		}
		b = all.Answer()
		b.ID = ""
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("streamed (-want +got):\n%s\n%s", diff, stream)
		}
	})
}
