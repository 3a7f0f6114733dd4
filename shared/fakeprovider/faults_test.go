package fakeprovider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

// soon bounds what a test waits for; it only catches a hang.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestErrorsComeInTheVendorsShape(t *testing.T) {
	t.Parallel()
	openai := func(status int) map[fakeprovider.Protocol]int {
		return map[fakeprovider.Protocol]int{
			fakeprovider.Chat: status, fakeprovider.Responses: status, fakeprovider.Anthropic: status, fakeprovider.Gemini: status,
		}
	}
	with := func(m map[fakeprovider.Protocol]int, p fakeprovider.Protocol, status int) map[fakeprovider.Protocol]int {
		m[p] = status
		return m
	}
	for _, tc := range []struct {
		kind fakeprovider.ErrorKind
		want map[fakeprovider.Protocol]int
	}{
		{fakeprovider.BadRequest, openai(400)},
		{fakeprovider.ContextTooLong, openai(400)},
		{fakeprovider.Unauthorized, openai(401)},
		{fakeprovider.Forbidden, openai(403)},
		{fakeprovider.ModelNotFound, openai(404)},
		{fakeprovider.TooLarge, openai(413)},
		{fakeprovider.RateLimited, openai(429)},
		{fakeprovider.InsufficientQuota, with(openai(429), fakeprovider.Anthropic, 402)},
		{fakeprovider.SpendLimit, with(openai(429), fakeprovider.Anthropic, 400)},
		{fakeprovider.ServerError, openai(500)},
		{fakeprovider.Unavailable, openai(503)},
		{fakeprovider.Timeout, openai(504)},
		{fakeprovider.Overloaded, with(openai(503), fakeprovider.Anthropic, 529)},
	} {
		t.Run(string(tc.kind), func(t *testing.T) {
			t.Parallel()
			p, url := serve(t, fakeprovider.Config{})
			p.Script(fakeprovider.Match{}, fakeprovider.FailRetryAfter(tc.kind, 1500*time.Millisecond))
			for _, s := range vendorsdk.All() {
				for name, ask := range map[string]func() (vendorsdk.Reply, error){
					"whole": func() (vendorsdk.Reply, error) {
						return s.Ask(t.Context(), url, vendorsdk.Question{Key: "k", Model: "m", Text: "x"})
					},
					"stream": func() (vendorsdk.Reply, error) {
						return s.Stream(t.Context(), url, vendorsdk.Question{Key: "k", Model: "m", Text: "x"}, func() {})
					},
				} {
					if _, err := ask(); s.Status(err) != tc.want[s.Protocol] {
						t.Errorf("%s %s: %v, want status %d", s.Protocol, name, err, tc.want[s.Protocol])
					}
				}
			}
			path, body := simple(fakeprovider.Chat, false)
			resp, _, _ := fetch(t, url+path, body)
			if got := resp.Header.Get("Retry-After"); got != "2" {
				t.Errorf("retry-after %q, want 2: 1.5 s rounded up", got)
			}
		})
	}
}

func TestErrorBodies(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	p.Script(fakeprovider.Match{}, fakeprovider.FailRetryAfter(fakeprovider.RateLimited, time.Second))
	p.Script(fakeprovider.Match{Key: "long"}, fakeprovider.Fail(fakeprovider.ContextTooLong))
	for _, tc := range []struct {
		p    fakeprovider.Protocol
		key  string
		want []string
	}{
		{fakeprovider.Chat, "", []string{`"code":"rate_limit_exceeded"`}},
		{fakeprovider.Responses, "long", []string{`"type":"invalid_request_error"`, `"code":"context_length_exceeded"`}},
		{fakeprovider.Anthropic, "", []string{`{"type":"error","error":{"type":"rate_limit_error"`, `"request_id":"req_01`}},
		{fakeprovider.Gemini, "", []string{`{"error":{"code":429,`, `"status":"RESOURCE_EXHAUSTED"`, `"retryDelay":"1s"`}},
	} {
		path, body := simple(tc.p, false)
		_, data, _ := fetch(t, url+path, body, "X-Api-Key", tc.key)
		for _, want := range tc.want {
			if !bytes.Contains(data, []byte(want)) {
				t.Errorf("%s: %s lacks %s", tc.p, data, want)
			}
		}
	}
	_, body := simple(fakeprovider.Gemini, true)
	if _, data, _ := fetch(t, url+"/v1beta/models/m:streamGenerateContent", body); !bytes.HasPrefix(data, []byte(`[{"error"`)) {
		t.Errorf("a Gemini stream as an array fails with %s, want the error in an array", data)
	}
}

func TestFaultsInStreams(t *testing.T) {
	t.Parallel()
	for _, proto := range []fakeprovider.Protocol{fakeprovider.Chat, fakeprovider.Responses, fakeprovider.Anthropic, fakeprovider.Gemini} {
		t.Run(string(proto), func(t *testing.T) {
			t.Parallel()
			p, url := serve(t, fakeprovider.Config{})
			path, body := simple(proto, true)
			pieces := []string{"piece-one", "piece-two", "piece-three"}
			run := func(s fakeprovider.Step) (string, error) {
				s.Pieces = pieces
				p.Script(fakeprovider.Match{}, s)
				_, data, err := fetch(t, url+path, body)
				return string(data), err
			}
			whole, err := run(fakeprovider.Step{})
			if err != nil {
				t.Fatal(err)
			}
			told := func(data string) int { // content events: every piece is told again by no more than the closing events
				n := 0
				for _, piece := range pieces {
					if strings.Contains(data, piece) {
						n++
					}
				}
				return n
			}

			for after := range pieces {
				got, err := run(fakeprovider.Step{Fault: fakeprovider.FaultCut, FaultAfter: after})
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("cut after %d: error %v, want a broken body", after, err)
				}
				if told(got) != after {
					t.Errorf("cut after %d: %d pieces in %q", after, told(got), got)
				}
			}
			if got, err := run(fakeprovider.Step{Fault: fakeprovider.FaultCut, FaultAfter: 99}); err == nil || told(got) != 3 || got == whole {
				t.Errorf("cut after more than there is: %d pieces, error %v, want 3, a broken body and no end", told(got), err)
			}
			if got, err := run(fakeprovider.Step{Fault: fakeprovider.FaultEnd, FaultAfter: -1}); err != nil || got != "" {
				t.Errorf("end before everything: %q (%v), want an empty body", got, err)
			}
			got, err := run(fakeprovider.Step{Fault: fakeprovider.FaultEnd})
			if err != nil || told(got) != 3 || len(got) >= len(whole) || !strings.HasPrefix(whole[:40], got[:40]) {
				t.Errorf("end without terminal event: %q (%v)", got, err)
			}
			for _, word := range []string{"[DONE]", "response.completed", "message_stop", "finishReason"} {
				if strings.Contains(got, word) {
					t.Errorf("end without terminal event has %s", word)
				}
			}
			got, err = run(fakeprovider.Step{Fault: fakeprovider.FaultEnd, FaultAfter: 2})
			if err != nil || told(got) != 2 {
				t.Errorf("end after 2: %d pieces (%v)", told(got), err)
			}

			for after := range 3 {
				got, err = run(fakeprovider.Step{Fault: fakeprovider.FaultErrorEvent, FaultAfter: after})
				if err != nil || told(got) != after || !strings.Contains(got, "the model is overloaded") {
					t.Errorf("error event after %d: %q (%v)", after, got, err)
				}
			}
			got, err = run(fakeprovider.Step{
				Fault: fakeprovider.FaultFailed, FaultAfter: 1,
				FaultError: &fakeprovider.Failure{Kind: fakeprovider.RateLimited},
			})
			if err != nil || told(got) != 1 || !strings.Contains(got, "rate limit") {
				t.Errorf("failed event: %q (%v)", got, err)
			}
			if proto == fakeprovider.Responses && !strings.Contains(got, "event: response.failed") {
				t.Errorf("failed event in Responses: %q", got)
			}

			got, err = run(fakeprovider.Step{Fault: fakeprovider.FaultMalformed, FaultAfter: 1})
			if err != nil || told(got) != 3 || len(got) <= len(whole) {
				t.Errorf("malformed event: %q (%v)", got, err)
			}
			if s := p.Stats(); s.Open != 0 || s.Canceled != 0 || s.Accepted != s.Completed+s.Broken {
				t.Errorf("stats %+v: every request has one end", s)
			}
		})
	}
}

func TestErrorEventIsRaisedByTheSDK(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	p.Script(fakeprovider.Match{}, fakeprovider.Step{Fault: fakeprovider.FaultErrorEvent, FaultAfter: 1})
	for _, s := range vendorsdk.All() {
		if r, err := s.Stream(t.Context(), url, vendorsdk.Question{Key: "k", Model: "m", Text: "x"}, func() {}); err == nil {
			t.Errorf("%s: no error, reply %+v", s.Protocol, r)
		}
	}
}

func TestFaultsInWholeAnswers(t *testing.T) {
	t.Parallel()
	for _, s := range vendorsdk.All() {
		p, url := serve(t, fakeprovider.Config{})
		path, body := simple(s.Protocol, false)
		for _, f := range []fakeprovider.Fault{
			fakeprovider.FaultCut, fakeprovider.FaultEnd, fakeprovider.FaultMalformed, fakeprovider.FaultErrorEvent,
		} {
			p.Script(fakeprovider.Match{}, fakeprovider.Step{Fault: f})
			resp, _, err := fetch(t, url+path, body)
			if (err != nil) != (f == fakeprovider.FaultCut) {
				t.Errorf("%s %s: read error %v", s.Protocol, f, err)
			}
			if (resp.StatusCode >= 500) != (f == fakeprovider.FaultErrorEvent) {
				t.Errorf("%s %s: status %d", s.Protocol, f, resp.StatusCode)
			}
			if _, err := s.Ask(t.Context(), url, vendorsdk.Question{Key: "k", Model: "m", Text: "x"}); err == nil {
				t.Errorf("%s %s: the SDK was content", s.Protocol, f)
			}
		}
	}
}

func TestResetComesBeforeHeaders(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	p.Script(fakeprovider.Match{}, fakeprovider.Step{Reset: true})
	path, body := simple(fakeprovider.Chat, true)
	resp, err := post(t.Context(), url+path, body)
	if err == nil {
		resp.Body.Close()
		t.Fatal("got a response, want a reset connection")
	}
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want a reset", err)
	}
	if err := p.Wait(soon(t), func(s fakeprovider.Stats) bool { return s.Broken == 1 }); err != nil {
		t.Errorf("stats %+v: %v, want one broken", p.Stats(), err)
	}
}

func TestCancelInMidStreamIsSeen(t *testing.T) {
	t.Parallel()
	for _, s := range vendorsdk.All() {
		t.Run(string(s.Protocol), func(t *testing.T) {
			t.Parallel()
			p, url := serve(t, fakeprovider.Config{})
			p.Script(fakeprovider.Match{}, fakeprovider.Step{Pieces: []string{"a", "b", "c"}, Fault: fakeprovider.FaultStall, FaultAfter: 2})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := s.Stream(ctx, url, vendorsdk.Question{Key: "k", Model: "m", Text: "x"}, cancel)
			if err == nil {
				t.Error("the stream ended well, want it canceled")
			}
			if err := p.WaitCanceled(soon(t), 1); err != nil {
				t.Fatalf("wait: %v", err)
			}
			r := p.Requests()
			if len(r) != 1 || !r[0].Canceled || r[0].Outcome != fakeprovider.Canceled || r[0].Ended.IsZero() {
				t.Errorf("recorded %+v, want one canceled request", r)
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := fakeprovider.New(fakeprovider.Config{}).WaitCanceled(ctx, 1); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
}

func TestGateLetsEventsOutOneByOne(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	head, gate := make(chan struct{}), make(chan struct{})
	p.Script(fakeprovider.Match{}, fakeprovider.Step{HeaderGate: head, Gate: gate, Pieces: []string{"a"}})
	path, body := simple(fakeprovider.Chat, true)

	type result struct {
		resp *http.Response
		err  error
	}
	answered := make(chan result, 1)
	go func() {
		resp, err := post(soon(t), url+path, body)
		answered <- result{resp, err}
	}()
	if err := p.Wait(soon(t), func(s fakeprovider.Stats) bool { return s.Open == 1 }); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-answered:
		t.Fatalf("headers came through a closed gate: %v", r.err)
	default:
	}
	head <- struct{}{}
	r := <-answered
	if r.err != nil {
		t.Fatal(r.err)
	}
	defer r.resp.Body.Close()
	for n := 1; n <= 2; n++ {
		if got := p.Stats().Events; got != n-1 {
			t.Fatalf("%d events before the gate was passed %d times", got, n)
		}
		gate <- struct{}{}
		if err := p.Wait(soon(t), func(s fakeprovider.Stats) bool { return s.Events == n }); err != nil {
			t.Fatal(err)
		}
	}
	close(gate)
	data, err := io.ReadAll(r.resp.Body)
	if err != nil || !bytes.HasSuffix(data, []byte("[DONE]\n\n")) {
		t.Errorf("after the gate opened: %q (%v)", data, err)
	}
}

func TestRawBytesArriveVerbatimInTheGivenWrites(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	raw := []byte("data: {\"a\":1}\r\n\r\n: odd\n\ndata:{\"b\":\"\xf0\x9f\x98\x80\"}\n\n")
	gate := make(chan struct{})
	p.Script(fakeprovider.Match{}, fakeprovider.Step{Raw: raw, RawSplits: []int{5, 14, 40, 999}, Gate: gate})
	path, body := simple(fakeprovider.Gemini, true)
	go func() {
		gate <- struct{}{}
	}()
	resp, err := post(soon(t), url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, len(raw))
	n, err := resp.Body.Read(first)
	if err != nil || n != 5 {
		t.Errorf("first read gave %d bytes (%v), want the first write's 5", n, err)
	}
	close(gate)
	rest, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(raw, append(first[:n], rest...)); diff != "" {
		t.Errorf("bytes differ (-want +got):\n%s", diff)
	}
}

func TestFillerHasTheSizeAskedFor(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	each(t, func(t *testing.T, s vendorsdk.SDK, ask func(context.Context, string, vendorsdk.Question) (vendorsdk.Reply, error)) {
		key := t.Name()
		p.Script(fakeprovider.Match{Key: key}, fakeprovider.Step{Chunks: 7, ChunkBytes: 13}, fakeprovider.Step{ChunkBytes: 3 << 20})
		for _, want := range []int{91, 3 << 20} {
			r, err := ask(soon(t), url, vendorsdk.Question{Key: key, Model: "m", Text: "x"})
			if err != nil || len(r.Text) != want {
				t.Errorf("%d bytes of text (%v), want %d", len(r.Text), err, want)
			}
		}
	})
}

func TestRateLimitHeadersOfTheVendor(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{Now: func() time.Time { return time.Unix(0, 0) }})
	p.Script(fakeprovider.Match{}, fakeprovider.Step{
		RateLimit: &fakeprovider.RateLimit{Requests: 10, RequestsRemaining: 3, Tokens: 1000, TokensRemaining: 7, Reset: 6 * time.Minute},
		Header:    map[string]string{"X-Extra": "1"},
	})
	for _, tc := range []struct {
		p           fakeprovider.Protocol
		name, value string
		id          string
	}{
		{fakeprovider.Chat, "X-Ratelimit-Remaining-Tokens", "7", "X-Request-Id"},
		{fakeprovider.Responses, "X-Ratelimit-Reset-Requests", "6m0s", "X-Request-Id"},
		{fakeprovider.Anthropic, "Anthropic-Ratelimit-Input-Tokens-Reset", "1970-01-01T00:06:00Z", "Request-Id"},
		{fakeprovider.Gemini, "X-Ratelimit-Limit-Requests", "", ""},
	} {
		path, body := simple(tc.p, false)
		resp, _, _ := fetch(t, url+path, body)
		if got := resp.Header.Get(tc.name); got != tc.value {
			t.Errorf("%s: %s is %q, want %q", tc.p, tc.name, got, tc.value)
		}
		if resp.Header.Get("X-Extra") != "1" {
			t.Errorf("%s: the script's own header is missing", tc.p)
		}
		if tc.id != "" && resp.Header.Get(tc.id) == "" {
			t.Errorf("%s: %s is missing", tc.p, tc.id)
		}
	}
}

func TestErrorEventsFitIntoTheStreamBeforeThem(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	for after := -1; after <= 3; after++ {
		for _, f := range []fakeprovider.Fault{fakeprovider.FaultErrorEvent, fakeprovider.FaultFailed} {
			p.Script(fakeprovider.Match{}, fakeprovider.Step{Pieces: []string{"a", "b"}, Fault: f, FaultAfter: after})

			path, body := simple(fakeprovider.Responses, true)
			_, data, _ := fetch(t, url+path, body)
			next := 0
			for line := range strings.Lines(string(data)) {
				v, ok := strings.CutPrefix(line, "data: ")
				if !ok {
					continue
				}
				var ev struct {
					Number int `json:"sequence_number"`
				}
				if err := json.Unmarshal([]byte(v), &ev); err != nil || ev.Number != next {
					t.Errorf("%s after %d: sequence number %d (%v), want %d", f, after, ev.Number, err, next)
				}
				next++
			}

			_, body = simple(fakeprovider.Gemini, true)
			_, data, _ = fetch(t, url+"/v1beta/models/m:streamGenerateContent", body)
			var array []map[string]any
			if err := json.Unmarshal(data, &array); err != nil || array[len(array)-1]["error"] == nil {
				t.Errorf("%s after %d: %s (%v), want an array that ends with the error", f, after, data, err)
			}
		}
	}
}
