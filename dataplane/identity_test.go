package dataplane

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// recorded holds streams in the shapes that providers send, one set for each
// protocol: line ends of all kinds, comments, characters of several bytes, and lines
// of megabytes.
func recorded(w wire) map[string]string {
	long := strings.Repeat("长い行 ", 300_000)
	switch w.name {
	case "openai_chat":
		chunk := func(text string) string {
			return fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"fake-large","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, text)
		}
		role := `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"fake-large","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
		stop := `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"fake-large","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		return map[string]string{
			"lf":        role + "\n\n" + chunk("héllo ✓ 𝄞") + "\n\n" + stop + "\n\ndata: [DONE]\n\n",
			"crlf":      role + "\r\n\r\n" + chunk("a") + "\r\n\r\n" + stop + "\r\n\r\ndata: [DONE]\r\n\r\n",
			"cr":        role + "\r\r" + chunk("a") + "\r\r" + stop + "\r\rdata: [DONE]\r\r",
			"comments":  ": OPENROUTER PROCESSING\n\n" + role + "\n\n: ping\n\n" + chunk("a") + "\nid: 7\nretry: 10\n\n:\n\n" + stop + "\n\ndata: [DONE]\n\n: bye\n\n",
			"megabytes": role + "\n\n" + chunk(long) + "\n\n" + stop + "\n\ndata: [DONE]\n\n",
			"no space":  strings.ReplaceAll(role+"\n\n"+chunk("a")+"\n\n"+stop+"\n\ndata: [DONE]\n\n", "data: ", "data:"),
		}
	case "openai_responses":
		ev := func(n int, kind, rest string) string {
			return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":%d%s}\n\n", kind, kind, n, rest)
		}
		body := func(text string) string {
			return ev(0, "response.created", `,"response":{"id":"r1","object":"response","status":"in_progress","model":"fake-large","output":[]}`) +
				ev(1, "response.output_item.added", `,"output_index":0,"item":{"type":"message","id":"m1","role":"assistant","content":[]}`) +
				ev(2, "response.output_text.delta", fmt.Sprintf(`,"item_id":"m1","output_index":0,"content_index":0,"delta":%q`, text)) +
				ev(3, "response.completed", `,"response":{"id":"r1","object":"response","status":"completed","model":"fake-large","output":[],"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":0},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":8}}`)
		}
		return map[string]string{"lf": body("héllo ✓"), "crlf": strings.ReplaceAll(body("a"), "\n", "\r\n"), "megabytes": body(long), "comments": ": hi\n\n" + body("a")}
	case "anthropic_messages":
		ev := func(kind, rest string) string {
			return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, rest)
		}
		body := func(text string) string {
			return ev("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"fake-large","content":[],"stop_reason":null,"usage":{"input_tokens":5,"output_tokens":1}}`) +
				ev("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`) + ev("ping", "") +
				ev("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":%q}`, text)) +
				ev("content_block_stop", `,"index":0`) +
				ev("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}`) + ev("message_stop", "")
		}
		return map[string]string{"lf": body("héllo ✓"), "crlf": strings.ReplaceAll(body("a"), "\n", "\r\n"), "megabytes": body(long)}
	}
	chunk := func(text, finish string) string {
		return fmt.Sprintf(`data: {"candidates":[{"content":{"role":"model","parts":[{"text":%q}]}%s}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":3,"totalTokenCount":8},"modelVersion":"fake-large","responseId":"g1"}`, text, finish)
	}
	body := func(text string) string {
		return chunk(text, "") + "\r\n\r\n" + chunk("", `,"finishReason":"STOP"`) + "\r\n\r\n"
	}
	return map[string]string{"crlf": body("héllo ✓"), "lf": strings.ReplaceAll(body("a"), "\r\n", "\n"), "megabytes": body(long), "unfinished": strings.TrimSuffix(body("a"), "\r\n\r\n")}
}

func TestStreamsAreByteIdenticalToWhatTheProviderSent(t *testing.T) {
	t.Parallel()
	for _, w := range wires() {
		for name, raw := range recorded(w) {
			t.Run(w.name+" "+name, func(t *testing.T) {
				t.Parallel()
				g := newRig(t)
				g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Raw: []byte(raw), RawType: "text/event-stream", RawSplits: splits(raw)})
				resp, got := g.call(t, w, "m", true)
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("status %d: %s", resp.StatusCode, got)
				}
				if got != raw {
					t.Errorf("%d bytes came, %d were sent, the first difference is at %d", len(got), len(raw), differ(got, raw))
				}
				if e := g.settled(t, 1)[0]; e.GetOutcome().String() != "ATTEMPT_OUTCOME_COMPLETED" {
					t.Errorf("outcome %v", e.GetOutcome())
				}
			})
		}
	}
}

// splits cuts a stream in the middle of characters, of line ends and of frames.
func splits(raw string) []int {
	var at []int
	for i := 1; i < min(len(raw), 4096); i++ {
		if !utf8.RuneStart(raw[i]) || raw[i] == '\n' || i%97 == 0 {
			at = append(at, i)
		}
	}
	return at
}

func differ(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// Blocks of thinking and their signatures reach the vendor that made them as they are,
// turn after turn: one byte else and the vendor refuses them.
func TestField_F23_ThinkingBlocksPassByteForByte(t *testing.T) {
	t.Parallel()
	const history = `[ {"role":"user","content":"Hi"}, {"role":"assistant","content":[{"signature":"ErUB+/=\u00e9", "type":"thinking","thinking":"a \u003c b\n é"},` +
		`{"type":"redacted_thinking","data":"Emr/+=="},{"type":"text","text":"Hello"}]},{"role":"user","content":"and?"}]`
	g := newRig(t)
	for range 2 {
		body := `{"model":"m","max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1024},"messages":` + history + `}`
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/messages", strings.NewReader(body))
		req.Header.Set("X-Api-Key", testKey)
		req.Header.Set("Anthropic-Version", "2023-06-01")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", resp.StatusCode, answer)
		}
		all := g.provider.Requests()
		if got := string(all[len(all)-1].Body); !strings.Contains(got, history) {
			t.Fatalf("the upstream got %q", got)
		}
	}
}

// The model's name is all that changes of a body on its way to the upstream, for a
// caller whose stream options need no addition.
func TestRequestBodyReachesTheUpstreamByteForByteButTheModel(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.String().Draw(rt, "text")
		pad := rapid.StringOfN(rapid.RuneFrom([]rune(" \t\n\r")), 0, 5, -1).Draw(rt, "space")
		last := rapid.Bool().Draw(rt, "model last")
		model := pad + `"model":` + pad + `"m"`
		rest := fmt.Sprintf(`%s"messages":%s[{"role":"user","content":%s}],"x_unknown":[1.0,1e2,{"big":12345678901234567890}]`, pad, pad, quote(text))
		body := "{" + model + "," + rest + pad + "}"
		if last {
			body = "{" + rest + "," + model + pad + "}"
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+testKey)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			rt.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			rt.Fatalf("status %d: %s", resp.StatusCode, answer)
		}
		n++
		all := g.provider.Requests()
		got := all[len(all)-1].Body
		want := []byte(strings.Replace(body, `"m"`, `"fake-large"`, 1))
		if last {
			i := strings.LastIndex(body, `"m"`)
			want = []byte(body[:i] + `"fake-large"` + body[i+3:])
		}
		if !bytes.Equal(got, want) {
			rt.Fatalf("the upstream got\n%q\nwant\n%q", got, want)
		}
	})
}

func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
