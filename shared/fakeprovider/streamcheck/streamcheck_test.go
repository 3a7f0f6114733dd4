package streamcheck_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

// stream joins events. A line that begins with { is the data of an event, named by its
// type where named is set; any other line stands for itself.
func stream(named bool, end, lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if !strings.HasPrefix(line, "{") {
			b.WriteString(line + end + end)
			continue
		}
		if named {
			_, rest, _ := strings.Cut(line, `"type":"`)
			name, _, _ := strings.Cut(rest, `"`)
			b.WriteString("event: " + name + end)
		}
		b.WriteString("data: " + line + end + end)
	}
	return b.String()
}

// badCase is a good stream with one thing wrong, named for the rule it breaks.
type badCase struct {
	rule     string
	old, new string // the first old becomes new
	says     string // part of the error
}

func testBad(t *testing.T, p fakeprovider.Protocol, good string, cases []badCase, options ...streamcheck.Option) {
	t.Helper()
	if err := streamcheck.Check(p, []byte(good), options...); err != nil {
		t.Fatalf("the good stream: %v", err)
	}
	for _, tc := range cases {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(good, tc.old) {
				t.Fatalf("the stream has no %q", tc.old)
			}
			err := streamcheck.Check(p, []byte(strings.Replace(good, tc.old, tc.new, 1)), options...)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want one with %q", err, tc.says)
			}
		})
	}
}

var protocols = []fakeprovider.Protocol{fakeprovider.Chat, fakeprovider.Responses, fakeprovider.Anthropic, fakeprovider.Gemini}

// body is what the scripted provider streams.
func body(t *testing.T, p fakeprovider.Protocol, step fakeprovider.Step, list bool) []byte {
	t.Helper()
	fake := fakeprovider.New(fakeprovider.Config{})
	fake.Script(fakeprovider.Match{}, step)
	var path, in string
	switch p {
	case fakeprovider.Chat:
		path, in = "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`
	case fakeprovider.Responses:
		path, in = "/v1/responses", `{"model":"m","stream":true,"input":"hi"}`
	case fakeprovider.Anthropic:
		path, in = "/v1/messages", `{"model":"m","stream":true,"max_tokens":99,"messages":[{"role":"user","content":"hi"}]}`
	default:
		path, in = "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
		if list {
			path = strings.TrimSuffix(path, "?alt=sse")
		}
	}
	w := httptest.NewRecorder()
	fake.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(in)))
	out, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func steps() map[string]fakeprovider.Step {
	return map[string]fakeprovider.Step{
		"text":      {Text: "Hello there, wörld"},
		"reasoning": {Reasoning: "Let me think about it.", Text: "Done."},
		"tools": {Text: "I look.", Reasoning: "Two are needed.", ToolCalls: []fakeprovider.ToolCall{
			{Name: "weather", Arguments: `{"city":"Zürich","days":[1,2,3],"big":12345678901234567890}`}, {Name: "time"},
		}},
		"length":      {Text: "Hel", Stop: fakeprovider.StopLength},
		"refusal":     {Text: "No.", Stop: fakeprovider.StopRefusal},
		"filtered":    {Text: "Wel", Stop: fakeprovider.StopFiltered},
		"cut call":    {ToolCalls: []fakeprovider.ToolCall{{Name: "weather", Arguments: `{"city":"Zür"}`}}, Stop: fakeprovider.StopLength},
		"keep-alives": {Text: "ok", KeepAlives: 3},
	}
}

// What the scripted provider streams passes as the vendors' own would.
func TestStreamsOfTheProviderAreValid(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		for name, step := range steps() {
			if err := streamcheck.Check(p, body(t, p, step, false)); err != nil {
				t.Errorf("%s, %s: %v\n%s", p, name, err, body(t, p, step, false))
			}
			if err := streamcheck.Check(p, body(t, p, step, true)); err != nil {
				t.Errorf("%s as a list, %s: %v", p, name, err)
			}
		}
	}
}

// A body cut anywhere before its end is no complete stream, and until then is not wrong.
func TestPrefixesAreNotComplete(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		for name, step := range steps() {
			for _, list := range []bool{false, true} {
				whole := body(t, p, step, list)
				end := len(bytes.TrimRight(whole, "\r\n")) // the last line's own end may be missing in an array
				for _, n := range []int{0, 1, end / 3, end / 2, end - 1} {
					c := streamcheck.New(p)
					if err := c.Feed(whole[:n]); err != nil {
						t.Errorf("%s, %s, the first %d of %d bytes: %v", p, name, n, len(whole), err)
					} else if c.Close() == nil {
						t.Errorf("%s, %s: %d of %d bytes pass as complete", p, name, n, len(whole))
					}
				}
			}
		}
	}
}

// How the bytes are cut on their way changes nothing.
func TestCutsDoNotMatter(t *testing.T) {
	t.Parallel()
	whole := make(map[string][]byte)
	for _, p := range protocols {
		whole[string(p)] = body(t, p, steps()["tools"], false)
	}
	whole["gemini list"] = body(t, fakeprovider.Gemini, steps()["tools"], true)
	rapid.Check(t, func(t *rapid.T) {
		for name, data := range whole {
			c := streamcheck.New(fakeprovider.Protocol(strings.TrimSuffix(name, " list")))
			for len(data) > 0 {
				n := min(rapid.IntRange(1, 400).Draw(t, "n"), len(data))
				if err := c.Feed(data[:n]); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				data = data[n:]
			}
			if err := c.Close(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
}

// A stream that breaks off with the protocol's error is valid for those who ask, and for
// nobody else.
func TestErrorsAreValidIfAllowed(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		for _, fault := range []fakeprovider.Fault{fakeprovider.FaultErrorEvent, fakeprovider.FaultFailed} {
			for after := range 3 {
				data := body(t, p, fakeprovider.Step{Text: "one two three four", Fault: fault, FaultAfter: after}, false)
				if err := streamcheck.Check(p, data, streamcheck.AllowError); err != nil {
					t.Errorf("%s, %s after %d: %v\n%s", p, fault, after, err, data)
				}
				if streamcheck.Check(p, data) == nil {
					t.Errorf("%s, %s after %d: passes although errors are not allowed", p, fault, after)
				}
			}
		}
	}
	for _, fault := range []fakeprovider.Fault{fakeprovider.FaultMalformed, fakeprovider.FaultEnd} {
		for _, p := range protocols {
			data := body(t, p, fakeprovider.Step{Text: "one two three four", Fault: fault}, false)
			if streamcheck.Check(p, data, streamcheck.AllowError) == nil {
				t.Errorf("%s, %s: passes", p, fault)
			}
		}
	}
}

// The first error stays.
func TestTheFirstErrorStays(t *testing.T) {
	t.Parallel()
	c := streamcheck.New(fakeprovider.Chat)
	first := c.Feed([]byte("data: [DONE]\n\n"))
	if first == nil || !errors.Is(c.Feed([]byte("data: {}\n\n")), first) || !errors.Is(c.Close(), first) {
		t.Errorf("the first error was %v, the last is %v", first, c.Close())
	}
	if streamcheck.New("morse").Close() == nil {
		t.Error("a stream of an unknown protocol passes")
	}
}

func TestFramingOfEvents(t *testing.T) {
	t.Parallel()
	testBad(t, fakeprovider.Anthropic, stream(true, "\n", anthropicGood), []badCase{
		{"an event has an event line", "event: message_stop\n", "", "no event line"},
		{"event line and type are equal", "event: content_block_stop", "event: content_block_end", "differ"},
		{"an event has data", "event: ping\ndata: {\"type\":\"ping\"}\n", "event: ping\n", "without data"},
		{"an event has one data line", "data: {\"type\":\"ping\"}\n", "data: {\"type\":\ndata: \"ping\"}\n", "two data lines"},
		{"the event line comes first", "event: ping\ndata: {\"type\":\"ping\"}\n", "data: {\"type\":\"ping\"}\nevent: ping\n", "first line"},
		{"other fields are not sent", "event: ping\n", "id: 7\nevent: ping\n", `field "id"`},
		{"a CR alone ends no line", "event: ping\n", "event: ping\r", "a CR without LF"},
		{"the last event ends in a blank line", "{\"type\":\"message_stop\"}\n\n", "{\"type\":\"message_stop\"}\n", "inside an event"},
		{"the last line ends", "{\"type\":\"message_stop\"}\n\n", "{\"type\":\"message_stop\"}", "inside an event"},
		{"data is JSON", "{\"type\":\"ping\"}", "{\"type\":\"ping\"", "not what the protocol has"},
		{"data is one JSON value", "{\"type\":\"ping\"}", "{\"type\":\"ping\"}{}", "not what the protocol has"},
		{"data is an object", "{\"type\":\"ping\"}", "null", "not a JSON object"},
		{"names stand once", "{\"type\":\"ping\"}", "{\"type\":\"ping\",\"type\":\"ping\"}", "duplicate"},
		{"text is UTF-8", "{\"type\":\"ping\"}", "{\"type\":\"ping\",\"x\":\"\xff\"}", "UTF-8"},
	})
	for _, ok := range []string{": comment\n\n", "\n", ":\n"} {
		if err := streamcheck.Check(fakeprovider.Anthropic, []byte(ok+stream(true, "\r\n", anthropicGood)+ok)); err != nil {
			t.Errorf("with %q: %v", ok, err)
		}
	}
	if err := streamcheck.New(fakeprovider.Chat).Feed(make([]byte, streamcheck.MaxEvent+1)); err == nil {
		t.Error("a line without bound passes")
	}
	testBad(t, fakeprovider.Chat, stream(false, "\n", chatGood), []badCase{
		{"Chat has no event lines", "data: ", "event: chunk\ndata: ", "an event line"},
	})
	testBad(t, fakeprovider.Gemini, stream(false, "\r\n", geminiGood), []badCase{
		{"Gemini has no comments", "data: ", ": keep-alive\r\n\r\ndata: ", "a comment"},
		{"Gemini has no event lines", "data: ", "event: x\r\ndata: ", "an event line"},
		{"Gemini has no ids", "data: ", "id: 1\r\ndata: ", `field "id"`},
		{"Gemini has no blank lines of their own", "data: ", "\r\ndata: ", "a blank line"},
	})
	if err := streamcheck.Check(fakeprovider.Gemini, []byte(stream(false, "\n", geminiGood))); err != nil {
		t.Errorf("Gemini with LF: %v", err)
	}
}

func TestFramingOfAnArray(t *testing.T) {
	t.Parallel()
	var parts []string
	for line := range strings.Lines(strings.TrimSpace(geminiGood)) {
		parts = append(parts, strings.TrimSpace(line))
	}
	testBad(t, fakeprovider.Gemini, "["+strings.Join(parts, ",\r\n")+"]\r\n", []badCase{
		{"an array ends", "]\r\n", "", "does not end"},
		{"nothing follows the array", "]\r\n", "]\r\n{}", "goes on"},
		{"elements have commas", "},\r\n{", "}\r\n{", "between the elements"},
		{"commas stand alone", "},\r\n{", "},,{", "between the elements"},
		{"no comma ends an array", "}]\r\n", "},]", "between the elements"},
		{"elements are objects", "[{", "[7,{", "between the elements"},
	})
	if err := streamcheck.Check(fakeprovider.Gemini, []byte("[]")); err == nil {
		t.Error("an empty array passes")
	}
	failed := `[{"error":{"code":503,"message":"no","status":"UNAVAILABLE"}}]`
	if err := streamcheck.Check(fakeprovider.Gemini, []byte(failed), streamcheck.AllowError); err != nil {
		t.Errorf("an error in an array: %v", err)
	}
}

func ExampleChecker() {
	c := streamcheck.New(fakeprovider.Chat)
	for _, piece := range []string{"data: {\"object\":\"chat.com", "pletion\"}\n", "\n"} {
		if err := c.Feed([]byte(piece)); err != nil {
			fmt.Println(err)
		}
	}
	// Output: event 1: object is "chat.completion", expected "chat.completion.chunk"
}
