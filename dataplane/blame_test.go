package dataplane

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// What one caller's own request brought about must not keep others from an account.
func TestCallersOwnFaultKeepsNobodyFromAnAccount(t *testing.T) {
	t.Parallel()
	const failing = "x-test-failing"
	fails := func(status int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if name, value, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	slow := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
	}
	slowBody := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x",`)
		_ = http.NewResponseController(w).Flush()
		slow(w, r)
	}
	slowStream := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","model":"fake-large","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"}}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		slow(w, r)
	}
	disabling := func(ts *syncv1.TenantShard) {
		for _, c := range ts.Credentials {
			c.OnAuthFailure = configv1.OnAuthFailure_ON_AUTH_FAILURE_DISABLE
		}
	}
	passthrough := func(ts *syncv1.TenantShard) {
		ts.Routes[0].ConsumerApiKeys, ts.Routes[0].PassthroughAuthToken = false, true
	}
	chat, gemini := wires()[0], wires()[3]
	const noScope = `{"error":{"message":"You have insufficient permissions for this operation. Missing scopes: api.usage.read","type":"invalid_request_error"}}`
	for name, tc := range map[string]struct {
		option rigOption
		answer http.HandlerFunc
		method string // default POST
		path   string
		body   string
		header map[string]string
		times  int // default 1
		want   int
	}{
		"raw path that the account may not use: 401": {
			option: disabling, answer: fails(401, "", noScope), method: http.MethodGet, path: "/v1/organization/costs", want: 502,
		},
		"raw path that the account may not use: 403": {
			answer: fails(403, "", noScope), method: http.MethodGet, path: "/v1/organization/costs", want: 502,
		},
		"file of nobody named in a prompt": {
			answer: fails(403, "", `{"error":{"code":403,"message":"You do not have permission to access the File abc or it may not exist.","status":"PERMISSION_DENIED"}}`),
			path:   strings.ReplaceAll(gemini.path, "MODEL", "m"),
			body:   `{"contents":[{"role":"user","parts":[{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/abc"}}]}]}`, want: 502,
		},
		"prompt that no minute has room for": {
			answer: fails(429, "", `{"error":{"message":"Request too large for fake-large in organization org-x on tokens per min (TPM): Limit 30000, Requested 47000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`),
			path:   chat.path, body: chat.body("m", false), want: 429,
		},
		"answer that the balance has no room for": {
			answer: fails(402, "", `{"error":{"message":"This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens, but can only afford 3000.","code":402}}`),
			path:   chat.path, body: chat.body("m", false), want: 429,
		},
		"short patience, no headers": {
			answer: slow, path: chat.path, body: chat.body("m", false), header: map[string]string{"X-Gateway-Timeout-Ms": "1100"}, times: 6, want: 504,
		},
		"short patience, half an answer": {
			answer: slowBody, path: chat.path, body: chat.body("m", false), header: map[string]string{"X-Gateway-Timeout-Ms": "1100"}, times: 6, want: 504,
		},
		"short patience, stream": {
			answer: slow, path: chat.path, body: chat.body("m", true), header: map[string]string{"X-Gateway-Timeout-Ms": "1100"}, times: 6, want: 504,
		},
		"short patience, long answer": {
			answer: slowStream, path: chat.path, body: chat.body("m", true), header: map[string]string{"X-Gateway-Timeout-Ms": "1100"}, times: 6, want: 200,
		},
		"answer longer than the route allows": {
			option: func(ts *syncv1.TenantShard) { ts.Routes[0].DeadlineMs = 500 },
			answer: slowStream, path: chat.path, body: chat.body("m", true), times: 6, want: 200,
		},
		"limits of the caller's own account": {
			option: passthrough, answer: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Ratelimit-Limit-Requests", "100")
				w.Header().Set("X-Ratelimit-Remaining-Requests", "0")
				w.Header().Set("X-Ratelimit-Reset-Requests", "1h")
				fails(401, "", `{"error":{"message":"bad key","code":"invalid_api_key"}}`)(w, r)
			}, path: chat.path, body: chat.body("m", false), want: 401,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEcho(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get(failing) != "" {
					tc.answer(w, r)
					return
				}
				fails(200, "", `{"id":"c","object":"chat.completion","model":"fake-large","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}`)(w, r)
			})
			options := []rigOption{raw(e, "/v1/organization")}
			if tc.option != nil {
				options = append(options, tc.option)
			}
			g := newRig(t, options...)
			send := func(method, path, body string, header map[string]string) int {
				req, _ := http.NewRequestWithContext(t.Context(), method, g.url+path, strings.NewReader(body))
				req.Header.Set("Authorization", "Bearer "+testKey)
				for k, v := range header {
					req.Header.Set(k, v)
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Error(err)
					return 0
				}
				defer resp.Body.Close()
				_, _ = io.Copy(io.Discard, resp.Body)
				return resp.StatusCode
			}
			header := map[string]string{failing: "yes"}
			for k, v := range tc.header {
				header[k] = v
			}
			method := tc.method
			if method == "" {
				method = http.MethodPost
			}
			got := make(chan int, max(tc.times, 1))
			for range cap(got) {
				go func() { got <- send(method, tc.path, tc.body, header) }()
			}
			for range cap(got) {
				if status := <-got; status != tc.want {
					t.Errorf("the caller gets status %d, want %d", status, tc.want)
				}
			}
			now := time.Now()
			for _, r := range g.node.scheduler.Rests(now) {
				t.Errorf("%s rests: %s, status %d", r.Key(), r.Kind, r.Status)
			}
			for _, b := range g.node.scheduler.Breakers(now) {
				t.Errorf("the breaker %s is %s", b.Key, b.State)
			}
			for _, l := range g.node.scheduler.Limits(now) {
				t.Errorf("limit %s %s is %v of %v", l.Key, l.Dim, l.Used, l.Limit)
			}
			tenant := g.node.holder.Load().Tenant("ten_1")
			for _, id := range []string{"crd_a", "crd_b"} {
				if n := g.node.scheduler.Clear(plan.AccountOf(tenant, id), now, now); n != 0 {
					t.Errorf("%s was out for %d reasons", id, n)
				}
			}
			if status := send(http.MethodPost, chat.path, chat.body("m", false), nil); status != http.StatusOK {
				t.Errorf("another caller gets status %d", status)
			}
		})
	}
}
