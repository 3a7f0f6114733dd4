package dataplane

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// headOf are the headers that tell of the scheduling, with the names cut to what differs;
// those without a value are not in it.
func headOf(h http.Header) map[string]string {
	out := map[string]string{}
	for _, name := range []string{
		"scheduled-provider", "scheduled-provider-name", "scheduled-model", "scheduled-credential-id", "cache-affinity",
		"fallback-used", "fallback-count", "fallback-stages", "fallback-failures", "outcome",
	} {
		if v, ok := h[http.CanonicalHeaderKey("X-Gateway-"+name)]; ok {
			out[name] = strings.Join(v, " & ")
		}
	}
	return out
}

// inOrder makes the first credential the one that is asked first.
func inOrder(t *syncv1.TenantShard) {
	t.Credentials[0].Priority, t.Credentials[1].Priority = proto.Int32(1), proto.Int32(2)
}

func withPolicy(p *configv1.SchedulingPolicy) rigOption {
	return func(t *syncv1.TenantShard) { t.Tenant.Scheduling = p }
}

func hideAccounts(t *syncv1.TenantShard) { t.Routes[0].HideAccountHeaders = true }

// served are the headers of an answer of a credential.
func served(w wire, credential, affinity string, more ...string) map[string]string {
	out := map[string]string{
		"scheduled-provider": w.name, "scheduled-provider-name": "fake", "scheduled-model": "fake-large",
		"scheduled-credential-id": credential, "cache-affinity": affinity, "fallback-used": "false",
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func without(m map[string]string, names ...string) map[string]string {
	out := maps.Clone(m)
	for _, n := range names {
		delete(out, n)
	}
	return out
}

// onEveryWire runs a test for every protocol, streamed and not.
func onEveryWire(t *testing.T, test func(t *testing.T, w wire, stream bool)) {
	t.Helper()
	for _, w := range wires() {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream=%v", w.name, stream), func(t *testing.T) {
				t.Parallel()
				test(t, w, stream)
			})
		}
	}
}

// TestField_F100_HeadersTellWhatWasTriedAndWhoServed: on success and on failure,
// streamed and not, for every protocol.
func TestField_F100_HeadersTellWhatWasTriedAndWhoServed(t *testing.T) {
	t.Parallel()
	fail := func(kinds ...fakeprovider.ErrorKind) []fakeprovider.Step {
		var out []fakeprovider.Step
		for _, k := range kinds {
			out = append(out, fakeprovider.Fail(k))
		}
		return append(out, fakeprovider.Step{})
	}
	reset := []fakeprovider.Step{{Reset: true}}
	for _, tc := range []struct {
		name    string
		options []rigOption
		a, b    []fakeprovider.Step
		status  func(fakeprovider.Protocol) int
		want    func(w wire) map[string]string
	}{
		{
			name: "served at once", status: is(200),
			want: func(w wire) map[string]string { return served(w, "crd_a", "miss") },
		},
		{
			name: "another account", a: fail(fakeprovider.RateLimited), status: is(200),
			want: func(w wire) map[string]string {
				return served(w, "crd_b", "miss", "fallback-used", "true", "fallback-count", "1",
					"fallback-stages", "same_provider_other_credential", "fallback-failures", "fake/crd_a:rate_limited:429")
			},
		},
		{
			name: "the same account and then another", a: fail(fakeprovider.ServerError, fakeprovider.ServerError), status: is(200),
			want: func(w wire) map[string]string {
				return served(w, "crd_b", "miss", "fallback-used", "true", "fallback-count", "2",
					"fallback-stages", "same_credential_retry,same_provider_other_credential",
					"fallback-failures", "fake/crd_a:server_error:500,fake/crd_a:server_error:500")
			},
		},
		{
			name: "no answer at all has status 0", a: []fakeprovider.Step{{Reset: true}, {}}, status: is(200),
			want: func(w wire) map[string]string {
				return served(w, "crd_a", "miss", "fallback-used", "true", "fallback-count", "1",
					"fallback-stages", "same_credential_retry", "fallback-failures", "fake/crd_a:reset:0")
			},
		},
		{
			name: "every account fails", a: fail(fakeprovider.RateLimited), b: fail(fakeprovider.RateLimited), status: is(429),
			want: func(wire) map[string]string {
				return map[string]string{
					"fallback-used": "true", "fallback-count": "1", "fallback-stages": "same_provider_other_credential",
					"fallback-failures": "fake/crd_a:rate_limited:429,fake/crd_b:rate_limited:429",
				}
			},
		},
		{
			name: "a failure that nobody else can help", a: fail(fakeprovider.BadRequest), status: is(400),
			want: func(wire) map[string]string {
				return map[string]string{"fallback-used": "false", "fallback-count": "0", "fallback-failures": "fake/crd_a:bad_request:400"}
			},
		},
		{
			name: "an attempt that may have cost something", a: reset, b: reset, status: is(502),
			want: func(wire) map[string]string {
				return map[string]string{
					"fallback-used": "true", "fallback-count": "1", "fallback-stages": "same_credential_retry",
					"fallback-failures": "fake/crd_a:reset:0,fake/crd_a:reset:0", "outcome": "possibly_consumed",
				}
			},
		},
		{
			name: "hidden accounts", options: []rigOption{hideAccounts}, a: fail(fakeprovider.RateLimited), status: is(200),
			want: func(w wire) map[string]string {
				return without(served(w, "", "miss", "fallback-used", "true", "fallback-count", "1",
					"fallback-stages", "same_provider_other_credential", "fallback-failures", "rate_limited:429"),
					"scheduled-provider-name", "scheduled-credential-id")
			},
		},
		{
			name: "hidden accounts that fail", options: []rigOption{hideAccounts}, a: fail(fakeprovider.RateLimited), b: fail(fakeprovider.Unavailable, fakeprovider.Unavailable), status: unavailable,
			want: func(wire) map[string]string {
				return map[string]string{
					"fallback-used": "true", "fallback-count": "2", "fallback-stages": "same_provider_other_credential,same_credential_retry",
					"fallback-failures": "rate_limited:429,unavailable:503,unavailable:503",
				}
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			onEveryWire(t, func(t *testing.T, w wire, stream bool) {
				g := newRig(t, append(tc.options, inOrder)...)
				g.provider.Script(fakeprovider.Match{Key: keyA}, tc.a...)
				g.provider.Script(fakeprovider.Match{Key: keyB}, tc.b...)
				resp, body := g.call(t, w, "m", stream)
				if resp.StatusCode != tc.status(w.protocol) {
					t.Errorf("status %d, want %d: %s", resp.StatusCode, tc.status(w.protocol), body)
				}
				if got, want := headOf(resp.Header), tc.want(w); !maps.Equal(got, want) {
					t.Errorf("told %v\nwant %v", got, want)
				}
				g.decided(t, 1)
				id := resp.Header.Get("X-Gateway-Decision-Id")
				if rec := g.decision(t, http.MethodGet, "/decisions/"+id, ""); rec.RequestID != resp.Header.Get("X-Gateway-Request-Id") {
					t.Errorf("decision %q is of request %q, want %q", id, rec.RequestID, resp.Header.Get("X-Gateway-Request-Id"))
				}
			})
		})
	}
}

func is(status int) func(fakeprovider.Protocol) int {
	return func(fakeprovider.Protocol) int { return status }
}

// unavailable is 529 for Anthropic's clients.
func unavailable(p fakeprovider.Protocol) int {
	if p == fakeprovider.Anthropic {
		return 529
	}
	return 503
}

// TestField_F100_ARefusalNamesItsDecision: where no account could be asked.
func TestField_F100_ARefusalNamesItsDecision(t *testing.T) {
	t.Parallel()
	onEveryWire(t, func(t *testing.T, w wire, stream bool) {
		g := newRig(t, inOrder)
		for _, key := range []string{keyA, keyB} {
			g.provider.Script(fakeprovider.Match{Key: key}, fakeprovider.FailRetryAfter(fakeprovider.RateLimited, 30*time.Second))
		}
		g.call(t, w, "m", stream)
		resp, body := g.call(t, w, "m", stream)
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
			t.Errorf("status %d, retry after %q: %s", resp.StatusCode, resp.Header.Get("Retry-After"), body)
		}
		if got, want := headOf(resp.Header), map[string]string{"fallback-used": "false"}; !maps.Equal(got, want) {
			t.Errorf("told %v, want %v: nobody was asked", got, want)
		}
		g.decided(t, 2)
		rec := g.decision(t, http.MethodGet, "/decisions/"+resp.Header.Get("X-Gateway-Decision-Id"), "")
		if rec.Refusal == nil || rec.RequestID != resp.Header.Get("X-Gateway-Request-Id") {
			t.Errorf("the decision is %+v, want the refusal", rec)
		}
	})
}

// TestField_F100_AStreamThatBreaksHasItsHeadAlready: the head tells of the attempts
// before it, the error event of the break.
func TestField_F100_AStreamThatBreaksHasItsHeadAlready(t *testing.T) {
	t.Parallel()
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, inOrder)
			g.provider.Script(fakeprovider.Match{Key: keyA}, fakeprovider.Fail(fakeprovider.RateLimited))
			g.provider.Script(fakeprovider.Match{Key: keyB}, fakeprovider.Step{Pieces: []string{"one ", "two"}, Fault: fakeprovider.FaultCut, FaultAfter: 1})
			resp, body := g.call(t, w, "m", true)
			want := served(w, "crd_b", "miss", "fallback-used", "true", "fallback-count", "1",
				"fallback-stages", "same_provider_other_credential", "fallback-failures", "fake/crd_a:rate_limited:429")
			if got := headOf(resp.Header); resp.StatusCode != http.StatusOK || !maps.Equal(got, want) {
				t.Errorf("status %d, told %v\nwant %v", resp.StatusCode, got, want)
			}
			if !strings.Contains(body, "stream_incomplete") {
				t.Errorf("the stream does not say that it is incomplete:\n%s", body)
			}
		})
	}
}

// agent asks with a prompt that is long enough to be cached, in a session if it has one.
type agent struct {
	g       *rig
	session string
	about   string // what tells its prompts from those of other agents
	turns   []string
}

func (a *agent) ask(t *testing.T, stream bool) (affinity, credential string, resp *http.Response) {
	t.Helper()
	a.turns = append(a.turns, fmt.Sprintf(`{"role":"user","content":"question %d"}`, len(a.turns)))
	body := fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"system","content":%q},%s]}`,
		stream, a.about+strings.Repeat("be kind. ", 1000), strings.Join(a.turns, ","))
	a.turns = append(a.turns, `{"role":"assistant","content":"an answer"}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.g.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	req.Header.Set("Content-Type", "application/json")
	if a.session != "" {
		req.Header.Set("X-Gateway-Session-Id", a.session)
	}
	if resp, err = http.DefaultClient.Do(req); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}
	return resp.Header.Get("X-Gateway-Cache-Affinity"), resp.Header.Get("X-Gateway-Scheduled-Credential-Id"), resp
}

// cached gives both accounts a prompt cache.
func (g *rig) cached() {
	for _, key := range []string{keyA, keyB} {
		g.provider.SetAccount(key, fakeprovider.Account{Cache: true})
	}
}

func keyOfCredential(id string) string { return map[string]string{"crd_a": keyA, "crd_b": keyB}[id] }

func TestField_F100_AffinityOfEachRequestIsTold(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		check := func(t *testing.T, what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("stream %v: %s is a %q, want %q", stream, what, got, want)
			}
		}
		for _, session := range []string{"", "a-session"} {
			t.Run(fmt.Sprintf("hit stream=%v session=%q", stream, session), func(t *testing.T) {
				t.Parallel()
				g := newRig(t)
				g.cached()
				a := &agent{g: g, session: session}
				got, first, _ := a.ask(t, stream)
				check(t, "the first request", got, "miss")
				for range 3 {
					got, credential, _ := a.ask(t, stream)
					check(t, "a later request", got, "hit")
					if credential != first {
						t.Errorf("a later request went to %s, the first to %s", credential, first)
					}
				}
			})
		}
		t.Run(fmt.Sprintf("bypass stream=%v", stream), func(t *testing.T) {
			t.Parallel()
			g := newRig(t, withPolicy(&configv1.SchedulingPolicy{PreserveCache: configv1.PreserveCache_PRESERVE_CACHE_OFF}))
			a := &agent{g: g}
			for range 2 {
				got, _, _ := a.ask(t, stream)
				check(t, "a request without affinity", got, "bypass")
			}
		})
		t.Run(fmt.Sprintf("updated stream=%v", stream), func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.cached()
			a := &agent{g: g, session: "s"}
			_, first, _ := a.ask(t, stream)
			g.provider.Script(fakeprovider.Match{Key: keyOfCredential(first)}, fakeprovider.FailRetryAfter(fakeprovider.RateLimited, time.Minute))
			for i := range 100 {
				other := &agent{g: g, about: fmt.Sprint(i)} // until one is sent to the first account, which then rests
				if _, _, resp := other.ask(t, stream); resp.Header.Get("X-Gateway-Fallback-Used") == "true" {
					break
				}
			}
			got, credential, resp := a.ask(t, stream)
			check(t, "a session that moves", got, "updated")
			if credential == first || resp.Header.Get("X-Gateway-Fallback-Used") != "false" {
				t.Errorf("the session moved from %s to %s with %v", first, credential, headOf(resp.Header))
			}
			got, again, _ := a.ask(t, stream)
			check(t, "the session where it is now", got, "hit")
			if again != credential {
				t.Errorf("the session moved on from %s to %s", credential, again)
			}
		})
		t.Run(fmt.Sprintf("escape stream=%v", stream), func(t *testing.T) {
			t.Parallel()
			g := newRig(t, withPolicy(&configv1.SchedulingPolicy{EscapeErrorRate: proto.Float64(0.1), EscapeMinSamples: proto.Int32(1), ErrorMs: proto.Int64(1e6)}))
			g.cached()
			a := &agent{g: g}
			_, first, _ := a.ask(t, stream)
			g.provider.SetScript(fakeprovider.Script{Match: fakeprovider.Match{Key: keyOfCredential(first)}, Steps: []fakeprovider.Step{fakeprovider.Fail(fakeprovider.ServerError)}, ThenDefault: true})
			if _, credential, resp := a.ask(t, stream); credential != first || resp.Header.Get("X-Gateway-Fallback-Stages") != "same_credential_retry" {
				t.Fatalf("one error led to %s, with %v", credential, headOf(resp.Header))
			}
			got, credential, _ := a.ask(t, stream)
			check(t, "a request that leaves an account with errors", got, "escape")
			if credential == first {
				t.Errorf("the request that escaped went to %s again", credential)
			}
		})
	}
}
