package dataplane

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// echo is a provider that keeps what it got and answers as it is told.
type echo struct {
	url    string
	answer http.HandlerFunc

	mu  sync.Mutex
	got []echoed // guarded by mu
}

type echoed struct {
	method, uri, host string
	header            http.Header
	body              []byte
}

func newEcho(t testing.TB, answer http.HandlerFunc) *echo {
	t.Helper()
	e := &echo{answer: answer}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	e.url = s.URL
	return e
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	e.got = append(e.got, echoed{r.Method, r.RequestURI, r.Host, r.Header.Clone(), body})
	e.mu.Unlock()
	e.answer(w, r)
}

func (e *echo) requests() []echoed {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

// raw has a rig's route pass paths on, to e in place of the provider.
func raw(e *echo, paths ...string) rigOption {
	return func(ts *syncv1.TenantShard) {
		ts.Routes[0].RawPaths = paths
		for _, c := range ts.Providers[0].Capabilities {
			base := e.url
			if c.Protocol == configv1.Protocol_PROTOCOL_OPENAI_CHAT || c.Protocol == configv1.Protocol_PROTOCOL_OPENAI_RESPONSES {
				base += "/v1"
			}
			c.BaseUrl = base
		}
	}
}

func TestRawCallsPassByteForByte(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 300<<10)
	for i := range noise {
		noise[i] = byte(i * 7)
	}
	e := newEcho(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-noise")
		w.Header().Set("X-Kept", "yes")
		w.Header().Set("X-Ratelimit-Limit-Requests", "5")
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(noise)
	})
	g := newRig(t, raw(e, "/v1/fine_tuning", "/v1/skills", "/upload"))
	for _, tc := range []struct{ method, path, upstream, body, credential string }{
		{http.MethodGet, "/v1/fine_tuning/jobs?limit=2&a=%2F&after=x", "", "", "Authorization"},
		{http.MethodDelete, "/v1/fine_tuning/jobs/a%20b", "", "", "Authorization"},
		{http.MethodPost, "/v1/fine_tuning/jobs", "", "{\"model\" : \"m\",\n \"a\":1,\"a\":2} trailing", "Authorization"},
		{http.MethodPatch, "/v1/fine_tuning/jobs/", "", "\x00\xff\r\n", "Authorization"},
		{"PURGE", "/v1/fine_tuning", "", string(noise), "Authorization"},
		{http.MethodPut, "/v1/skills/x?beta=true", "", "x", "X-Api-Key"},
		{http.MethodPost, "/upload/v1beta/files?key=" + testKey + "&b=1", "/upload/v1beta/files?b=1", "x", "X-Goog-Api-Key"},
	} {
		var h []string
		if strings.HasPrefix(tc.path, "/v1/skills") {
			h = []string{"Anthropic-Version", "2023-06-01"}
		}
		resp, body := g.send(t, tc.method, tc.path, "text/odd", tc.body, append(h, "X-Own", "1", "X-Gateway-Class", "batch", "Cookie", "c=d")...)
		if resp.StatusCode != http.StatusAccepted || body != string(noise) || resp.Header.Get("Content-Type") != "application/x-noise" ||
			resp.Header.Get("X-Kept") != "yes" || resp.Header.Get("Set-Cookie")+resp.Header.Get("X-Ratelimit-Limit-Requests") != "" ||
			resp.Header.Get("X-Gateway-Request-Id") == "" || resp.Header.Get("X-Gateway-Scheduled-Provider-Name") != "fake" {
			t.Errorf("%s %s: status %d, %d bytes, %v", tc.method, tc.path, resp.StatusCode, len(body), resp.Header)
		}
		all := e.requests()
		got := all[len(all)-1]
		want := tc.upstream
		if want == "" {
			want = tc.path
		}
		if got.method != tc.method || got.uri != want || !bytes.Equal(got.body, []byte(tc.body)) || "http://"+got.host != e.url {
			t.Errorf("the provider got %s %s at %s with %d bytes, want %s %s with %d", got.method, got.uri, got.host, len(got.body), tc.method, want, len(tc.body))
		}
		if c := strings.TrimPrefix(got.header.Get(tc.credential), "Bearer "); c != keyA && c != keyB {
			t.Errorf("%s %s: credential %q", tc.method, tc.path, c)
		}
		if s := fmt.Sprint(got.header); strings.Contains(s, testKey) || got.header.Get("Cookie")+got.header.Get("X-Gateway-Class") != "" || got.header.Get("X-Own") != "1" || got.header.Get("Content-Type") != "text/odd" {
			t.Errorf("headers %v", got.header)
		}
	}
	for _, e := range g.settled(t, 7) {
		if e.GetUnits().GetRequest() != 1 || e.GetModelRequested() != "" || e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED {
			t.Errorf("booked %v, %v", e.GetUnits(), e.GetOutcome())
		}
	}
}

func TestRawPathsBelongToTheirRouteAlone(t *testing.T) {
	t.Parallel()
	e := newEcho(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	g := newRig(t, raw(e, "/v1/fine_tuning"))
	for path, status := range map[string]int{
		"/v1/fine_tuning/jobs":               http.StatusNoContent,
		"/v1/evals":                          http.StatusNotFound,
		"/v1/fine_tuning/../evals":           http.StatusBadRequest,
		"/v1/fine_tuning/%2e%2e/evals":       http.StatusBadRequest,
		"/v1/fine_tuning//evals":             http.StatusBadRequest,
		"/v1/fine_tuning/a%2fb":              http.StatusBadRequest,
		"/v1/fine_tuning/x@evil.example":     http.StatusBadRequest,
		"/v1/fine_tuning/%0d%0aHost:%20evil": http.StatusBadRequest,
	} {
		before := len(e.requests())
		resp, body := g.send(t, http.MethodGet, path, "", "")
		if sent := len(e.requests()) > before; resp.StatusCode != status || sent != (status == http.StatusNoContent) {
			t.Errorf("%s: status %d, sent %v, want %d: %s", path, resp.StatusCode, sent, status, body)
		}
	}
	// An absolute target names no other host.
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/v1/fine_tuning/x", http.NoBody)
	req.Host = "evil.example"
	req.Header.Set("Authorization", "Bearer "+testKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if all := e.requests(); resp.StatusCode != http.StatusNoContent || "http://"+all[len(all)-1].host != e.url {
		t.Errorf("status %d, at %s", resp.StatusCode, all[len(all)-1].host)
	}
}

func TestRawCallsAreBoundedAndAuthenticated(t *testing.T) {
	t.Parallel()
	e := newEcho(t, func(http.ResponseWriter, *http.Request) {})
	g := newRig(t, raw(e, "/v1/fine_tuning"), func(ts *syncv1.TenantShard) {
		ts.Routes[0].MaxBodyBytes = 100
	})
	if resp, body := g.send(t, http.MethodPost, "/v1/fine_tuning/jobs", "", strings.Repeat("x", 101)); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/v1/fine_tuning/jobs", http.NoBody)
	req.Header.Set("Authorization", "Bearer sk-unknown")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized || len(e.requests()) != 0 {
		t.Errorf("an unknown key: status %d, %d requests", resp.StatusCode, len(e.requests()))
	}
}

// What concerns the account is tried elsewhere, what concerns the caller is told as it is.
func TestRawFailover(t *testing.T) {
	t.Parallel()
	const own = `{"error":{"message":"No such job.","type":"odd","extra":1}}`
	for _, tc := range []struct {
		method   string
		status   int
		attempts int
		want     int
		body     string
	}{
		{http.MethodGet, 429, 2, 200, "ok"},
		{http.MethodPost, 429, 2, 200, "ok"},
		{http.MethodGet, 500, 2, 200, "ok"},
		{http.MethodPost, 500, 1, 502, ""}, // it could have had an effect
		{http.MethodDelete, 502, 1, 502, ""},
		{http.MethodPost, 401, 2, 200, "ok"},
		{http.MethodGet, 404, 1, 404, own},
		{http.MethodPost, 400, 1, 400, own},
		{http.MethodPost, 409, 1, 409, own},
		{http.MethodPost, 418, 1, 418, own},
		{http.MethodGet, 304, 1, 304, ""},
	} {
		t.Run(fmt.Sprint(tc.method, tc.status), func(t *testing.T) {
			t.Parallel()
			first := ""
			e := newEcho(t, func(w http.ResponseWriter, r *http.Request) {
				key := r.Header.Get("Authorization")
				if first == "" {
					first = key
				}
				if key != first {
					_, _ = io.WriteString(w, "ok")
					return
				}
				w.Header().Set("Location", "https://elsewhere.example/x")
				w.WriteHeader(tc.status)
				if tc.status != 304 {
					_, _ = io.WriteString(w, own)
				}
			})
			g := newRig(t, elsewhere, raw(e, "/v1/fine_tuning"))
			resp, body := g.send(t, tc.method, "/v1/fine_tuning/jobs/1", "", "")
			if tc.status == 500 && tc.method == http.MethodGet {
				tc.attempts = len(e.requests()) // one on the same account may come first
			}
			if n := len(e.requests()); resp.StatusCode != tc.want || n != tc.attempts || tc.body != "" && body != tc.body {
				t.Errorf("status %d, %q after %d attempts; want %d, %q after %d", resp.StatusCode, body, n, tc.want, tc.body, tc.attempts)
			}
			if tc.want == 502 && !strings.Contains(body, `"error"`) {
				t.Errorf("error %s", body)
			}
			events := g.settled(t, tc.attempts)
			last := events[len(events)-1]
			if ok := last.GetOutcome() == ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED; ok != (tc.want == 200) {
				t.Errorf("status %d is booked as %v", tc.want, last.GetOutcome())
			}
		})
	}
}

func TestRawAnswersAreMeteredByWhatTheyTell(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, method, path, kind, answer string
		want                             *ledgerv1.Units
		source                           ledgerv1.UsageSource
		model                            string
	}{
		{
			"tokens", "POST", "/v1/x", "application/json", `{"model":"ft:1","usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":3}}}`,
			&ledgerv1.Units{Input: 7, CacheRead: 3, Output: 4, Request: 1}, byProvider, "ft:1",
		},
		{
			"video", "POST", "/v1/x/edits", "application/json", `{"object":"video","model":"sora","seconds":"8"}`,
			&ledgerv1.Units{VideoSecond: 8, Request: 1}, byProvider, "sora",
		},
		{
			"a video that is looked at", "GET", "/v1/x/1", "application/json", `{"object":"video","model":"sora","seconds":"8"}`,
			&ledgerv1.Units{Request: 1}, estimated, "",
		},
		{
			"events", "POST", "/v1/x", "text/event-stream", "data: {\"model\":\"s\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
			&ledgerv1.Units{Input: 5, Output: 2, Request: 1}, byProvider, "s",
		},
		{"nothing", "POST", "/v1/x", "application/json", `{"id":"ftjob-1","status":"queued"}`, &ledgerv1.Units{Request: 1}, estimated, ""},
		{"no JSON", "POST", "/v1/x", "application/json", `{"usage":{"prompt_tokens":`, &ledgerv1.Units{Request: 1}, estimated, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := newEcho(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.kind)
				_, _ = io.WriteString(w, tc.answer)
			})
			g := newRig(t, raw(e, "/v1/x"))
			if resp, body := g.send(t, tc.method, tc.path, "", ""); resp.StatusCode != http.StatusOK || body != tc.answer {
				t.Fatalf("status %d: %q", resp.StatusCode, body)
			}
			got := g.only(t)
			wantUnits(t, got, tc.source, tc.want)
			if got.GetModelServed() != tc.model {
				t.Errorf("served by %q, want %q", got.GetModelServed(), tc.model)
			}
		})
	}
}
