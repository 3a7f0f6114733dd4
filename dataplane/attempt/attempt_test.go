package attempt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/route"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
	"github.com/aidy-gateway/aidy-gateway/dataplane/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is what a scripted upstream does with one call.
type answer struct {
	status  int // 0 breaks the connection before headers
	header  http.Header
	body    string
	err     error
	latency time.Duration
	stalls  bool // the body never ends
}

const okBody = `{"id":"1","model":"up","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`

func ok() answer { return answer{status: 200, body: okBody} }

func status(code int) answer { return answer{status: code, body: `{"error":{"message":"no"}}`} }

// world is an executor before scripted upstreams, one for each credential.
type world struct {
	*Executor
	scheduler *schedule.Scheduler
	view      *snapshot.View
	holder    *snapshot.Holder

	mu      sync.Mutex
	scripts map[string][]answer // by credential's secret; the last repeats
	calls   []string            // secrets in order of the calls
	begun   int
	ends    []End
}

func newWorld(t testing.TB, tenant func(*syncv1.TenantShard), scripts map[string][]answer) *world {
	t.Helper()
	w := &world{scheduler: schedule.New(schedule.Config{}), scripts: scripts}
	shard := &syncv1.TenantShard{
		Tenant: &configv1.Tenant{Id: "ten_1"},
		Groups: []*configv1.Group{{Id: "grp_1", Name: "default"}},
		Providers: []*configv1.Provider{{Id: "prv_1", Name: "one", Capabilities: []*configv1.Capability{
			{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "https://one.example/v1"},
		}}},
		Upstreams: []*configv1.Upstream{{Id: "upr_1", ProviderId: "prv_1", GroupId: "grp_1"}},
		Models:    []*configv1.UpstreamModel{{Id: "upm_1", UpstreamId: "upr_1", Model: "m", UpstreamModel: "up"}},
	}
	secrets := &syncv1.CredentialShard{TenantId: "ten_1"}
	for _, name := range []string{"a", "b", "c", "d"} {
		if scripts[name] == nil {
			continue
		}
		shard.Credentials = append(shard.Credentials, &configv1.UpstreamCredential{Id: "crd_" + name, UpstreamId: "upr_1"})
		secrets.Secrets = append(secrets.Secrets, &syncv1.SealedSecret{CredentialId: "crd_" + name, Sealed: []byte(name)})
	}
	if tenant != nil {
		tenant(shard)
	}
	var err error
	w.view, err = snapshot.Static([]snapshot.TenantBuilder{resolve.Builder(), plan.Builder()}, nil, shard, secrets,
		&syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_TENANT, Id: "ten_1"})
	if err != nil {
		t.Fatal(err)
	}
	w.holder = snapshot.NewStaticHolder(w.view)
	w.Executor = New(w.scheduler, nil, w, w, w.holder, func(http.Header, *Request, *Result) {})
	return w
}

// unfit gives the first credential another secret.
func (w *world) unfit(t testing.TB, text string) {
	t.Helper()
	w.secrets(t, &syncv1.CredentialShard{TenantId: "ten_1", Secrets: []*syncv1.SealedSecret{
		{CredentialId: "crd_a", Sealed: []byte(text)}, {CredentialId: "crd_b", Sealed: []byte("b")},
	}})
}

// secrets replaces the secrets of the configuration.
func (w *world) secrets(t testing.TB, shard *syncv1.CredentialShard) {
	t.Helper()
	later, err := snapshot.Static([]snapshot.TenantBuilder{resolve.Builder(), plan.Builder()}, nil,
		w.view.Tenant("ten_1").Message, shard,
		&syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_TENANT, Id: "ten_1"})
	if err != nil {
		t.Fatal(err)
	}
	w.view = later
	w.holder.Replace(later)
}

// Do implements Client.
func (w *world) Do(ctx context.Context, c *upstream.Call) (*http.Response, error) {
	if c.BodyDone != nil {
		defer c.BodyDone()
	}
	key := strings.TrimPrefix(c.Header.Get("Authorization"), "Bearer ")
	w.mu.Lock()
	w.calls = append(w.calls, key)
	script := w.scripts[key]
	a := script[0]
	if len(script) > 1 {
		w.scripts[key] = script[1:]
	}
	w.mu.Unlock()
	if a.latency > 0 {
		select {
		case <-time.After(a.latency):
		case <-ctx.Done():
			return nil, &fault.Error{Class: fault.Reset, Err: ctx.Err()}
		}
	}
	if a.status == 0 {
		return nil, a.err
	}
	h := a.header
	if h == nil {
		h = http.Header{}
	}
	var body io.Reader = bytes.NewReader([]byte(a.body))
	if a.stalls {
		body = io.MultiReader(body, stalled{ctx})
	}
	return &http.Response{StatusCode: a.status, Header: h, ContentLength: int64(len(a.body)), Body: io.NopCloser(body)}, nil
}

// stalled sends nothing until the call is ended.
type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// Begin implements Recorder.
func (w *world) Begin(*Request, *plan.Candidate, int) (Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun++
	return &noted{w: w}, nil
}

type noted struct {
	w    *world
	once sync.Once
}

func (n *noted) Progress(relay.Outcome) {}

func (n *noted) Settle(e End) {
	n.once.Do(func() {
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		n.w.ends = append(n.w.ends, e)
	})
}

func (w *world) run(t testing.TB, ctx context.Context, change func(*Request)) (*Result, *httptest.ResponseRecorder) {
	t.Helper()
	codec := openaichat.New()
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`)
	shape, f := codec.Inspect(body, protocol.Target{Protocol: protocol.OpenAIChat, Op: protocol.OpGenerate})
	if f != nil {
		t.Fatal(f)
	}
	p := &auth.Principal{Tenant: w.view.Tenant("ten_1")}
	d := resolve.Decision{Requested: "m", Model: "m"}
	rec := httptest.NewRecorder()
	held := 0
	r := &Request{
		ID: "req_1", Start: time.Now(), View: w.view, Route: &snapshot.Route{Route: &configv1.Route{Id: "rte_1"}},
		Principal: p, Target: protocol.Target{Protocol: protocol.OpenAIChat, Op: protocol.OpGenerate},
		Codec: codec, Shape: shape, Body: body,
		HoldBody:   func() func() { held++; return func() { held-- } },
		Candidates: plan.Expand(w.view, p, d, configv1.Protocol_PROTOCOL_OPENAI_CHAT),
		Groups:     []string{"grp_1"}, Writer: rec, Scheduling: Scheduling{Policy: schedule.DefaultPolicy()},
		Policy: PolicyOf(nil, &configv1.Route{}, false, 0, time.Now()),
	}
	if change != nil {
		change(r)
	}
	res := w.Run(ctx, r)
	if held != 0 {
		t.Errorf("the body is held %d times after the request", held)
	}
	return res, rec
}

// candidates are those of a model.
func (w *world) candidates(r *Request, model string) []plan.Candidate {
	return plan.Expand(w.view, r.Principal, resolve.Decision{Requested: model, Model: model}, configv1.Protocol_PROTOCOL_OPENAI_CHAT)
}

func (w *world) path() string { return strings.Join(w.calls, " ") }

func TestFailuresLeadWhereTheTableSays(t *testing.T) {
	t.Parallel()
	refused := answer{err: &fault.Error{Class: fault.Connect}}
	reset := answer{err: &fault.Error{Class: fault.Reset}}
	for _, tc := range []struct {
		name    string
		scripts map[string][]answer
		change  func(*Request)
		path    string
		status  int // 0 for success
		outcome string
	}{
		{name: "429 goes to the next account at once", scripts: map[string][]answer{"a": {status(429)}, "b": {ok()}}, path: "a b"},
		{name: "500 is tried once more", scripts: map[string][]answer{"a": {status(500), ok()}, "b": {ok()}}, path: "a a"},
		{name: "500 twice goes on", scripts: map[string][]answer{"a": {status(500)}, "b": {ok()}}, path: "a a b"},
		{name: "401 is not the caller's", scripts: map[string][]answer{"a": {status(401)}, "b": {status(401)}}, path: "a b", status: 502},
		{name: "400 stops", scripts: map[string][]answer{"a": {status(400)}, "b": {ok()}}, path: "a", status: 400},
		{name: "413 stops", scripts: map[string][]answer{"a": {status(413)}, "b": {ok()}}, path: "a", status: 413},
		{name: "402 goes to the next account", scripts: map[string][]answer{"a": {status(402)}, "b": {ok()}}, path: "a b"},
		{name: "404 of one account", scripts: map[string][]answer{"a": {status(404)}, "b": {ok()}}, path: "a b"},
		{name: "no connection", scripts: map[string][]answer{"a": {refused, ok()}, "b": {ok()}}, path: "a a"},
		{
			name: "a possible consumption is replayed once", scripts: map[string][]answer{"a": {reset}, "b": {ok()}},
			path: "a a", status: 502, outcome: fault.OutcomePossiblyConsumed,
		},
		{
			name: "a guarded request is not replayed", scripts: map[string][]answer{"a": {reset}, "b": {ok()}},
			change: func(r *Request) { r.Policy.Guarded = true }, path: "a", status: 502, outcome: fault.OutcomePossiblyConsumed,
		},
		{
			name: "a guarded request goes on after what was surely not consumed", scripts: map[string][]answer{"a": {status(429)}, "b": {ok()}},
			change: func(r *Request) { r.Policy.Guarded = true }, path: "a b",
		},
		{
			name: "mode off", scripts: map[string][]answer{"a": {status(429)}, "b": {ok()}},
			change: func(r *Request) { r.Policy.Mode = configv1.FallbackMode_FALLBACK_MODE_OFF }, path: "a", status: 429,
		},
		{name: "attempts are bounded", scripts: map[string][]answer{"a": {status(429)}, "b": {status(429)}, "c": {status(429)}}, change: func(r *Request) { r.Policy.MaxAttempts = 2 }, path: "a b", status: 429},
		{name: "one account is retried", scripts: map[string][]answer{"a": {status(503), status(503), ok()}}, path: "a a a"},
		{name: "one account is retried twice", scripts: map[string][]answer{"a": {status(503)}}, path: "a a a", status: 503},
		{name: "an answer that cannot be read", scripts: map[string][]answer{"a": {{status: 200, body: "{]"}}, "b": {ok()}}, path: "a b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, tc.scripts)
				res, rec := w.run(t, t.Context(), tc.change)
				if got := w.path(); got != tc.path {
					t.Errorf("called %q, want %q", got, tc.path)
				}
				if tc.status == 0 {
					if res.Fault != nil || rec.Body.String() != okBody {
						t.Fatalf("fault %v, body %q", res.Fault, rec.Body)
					}
					return
				}
				if res.Fault == nil {
					t.Fatalf("served %q, want a fault of status %d", rec.Body, tc.status)
				}
				if got := res.Fault.Status(); got != tc.status {
					t.Errorf("status %d (%v), want %d", got, res.Fault, tc.status)
				}
				if got := res.Fault.Gateway.Outcome; got != tc.outcome {
					t.Errorf("outcome %q, want %q", got, tc.outcome)
				}
			})
		})
	}
}

// A credential that was read with a line end does not rest the upstream, whose other
// credentials are sound.
func TestUnfitSecretRestsItsCredentialAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, map[string][]answer{"a": {ok()}, "b": {ok()}})
		w.unfit(t, "a\n")
		res, rec := w.run(t, t.Context(), nil)
		if res.Fault != nil || rec.Body.String() != okBody || w.path() != "b" {
			t.Fatalf("called %q with fault %v, want b alone", w.path(), res.Fault)
		}
		if rests := w.scheduler.Rests(time.Now()); len(rests) != 1 || rests[0].Scope != schedule.Credential || rests[0].Kind != "auth" {
			t.Errorf("cooldowns %+v, want one of the credential", rests)
		}
	})
}

func TestRetryAfterRestsTheAccountExactlySoLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited := status(429)
		limited.header = http.Header{"Retry-After": {"7"}}
		w := newWorld(t, nil, map[string][]answer{"a": {limited, ok()}, "b": {ok()}})
		w.run(t, t.Context(), nil)
		rests := w.scheduler.Rests(time.Now())
		if len(rests) != 1 || !rests[0].Announced || time.Until(rests[0].Until) != 7*time.Second {
			t.Fatalf("cooldowns %+v, want one of 7 s that was announced", rests)
		}
		if r := rests[0]; r.Kind != "rate_limit" || r.Status != 429 || r.RequestID != "req_1" || r.Scope != schedule.QuotaModel {
			t.Errorf("cooldown %+v does not say what caused it", r)
		}
	})
}

// The status is known; only details are missing. A stream has no deadline that would
// end the wait for them.
func TestErrorAnswerThatNeverEndsIsFailedOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck := status(500)
		stuck.stalls = true
		w := newWorld(t, nil, map[string][]answer{"a": {stuck}, "b": {ok()}})
		start := time.Now()
		res, _ := w.run(t, t.Context(), func(r *Request) { r.Policy.Deadline = time.Time{} })
		if res.Fault != nil || !strings.HasSuffix(w.path(), "b") {
			t.Errorf("called %q with fault %v, want the other account's answer", w.path(), res.Fault)
		}
		if took := time.Since(start); took > 3*errorBodyWait {
			t.Errorf("it took %v", took)
		}
		for _, f := range res.Failed {
			if f.Class != fault.ServerError {
				t.Errorf("the status was taken as %v", f.Class)
			}
		}
	})
}

func TestDeadlineEndsTheChain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := answer{status: 200, body: okBody, latency: time.Hour}
		w := newWorld(t, nil, map[string][]answer{"a": {slow}, "b": {slow}})
		start := time.Now()
		res, _ := w.run(t, t.Context(), func(r *Request) { r.Policy.Deadline = start.Add(5 * time.Second) })
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("the request took %v, want 5 s", took)
		}
		if res.Fault == nil || res.Fault.Class != fault.DeadlineExceeded {
			t.Errorf("fault %v, want deadline_exceeded", res.Fault)
		}
		if res.Fault.Consumption() < fault.ConsumedPossible {
			t.Errorf("consumption %v: the upstream may have worked", res.Fault.Consumption())
		}
	})
}

func TestClientThatLeavesEndsTheChain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, map[string][]answer{"a": {{status: 200, body: okBody, latency: time.Hour}}, "b": {ok()}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		inner, leave := context.WithCancel(context.WithoutCancel(ctx))
		context.AfterFunc(ctx, leave)
		res, _ := w.run(t, inner, nil)
		if w.path() != "a" || res.Fault == nil || res.Fault.Class != fault.ClientCanceled {
			t.Errorf("called %q with fault %v, want one call and client_canceled", w.path(), res.Fault)
		}
	})
}

func TestC25_KeyRevokedMeanwhileStartsNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, map[string][]answer{"a": {ok()}})
		later, err := snapshot.Static(nil, nil, &syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_CONSUMER, Id: "con_1"})
		if err != nil {
			t.Fatal(err)
		}
		w.holder.Replace(later)
		res, _ := w.run(t, t.Context(), func(r *Request) {
			v, m := keyed(t)
			p, f := new(auth.Authenticator).Authenticate(v, m, auth.Generate, http.Header{"X-Api-Key": {"k"}}, "", time.Now())
			if f != nil {
				t.Fatal(f)
			}
			r.Principal = p
		})
		if len(w.calls) != 0 || res.Fault == nil || res.Fault.Class != fault.Unauthenticated {
			t.Errorf("%d calls, fault %v; want none and unauthenticated", len(w.calls), res.Fault)
		}
	})
}

// Whatever upstreams do: the bounds hold, every attempt is settled exactly once, all
// slots come back, and after an answer nothing is tried.
func TestBoundsHoldWhateverUpstreamsDo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		scripts := make(map[string][]answer)
		names := []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(rt, "accounts")]
		for _, n := range names {
			list := make([]answer, rapid.IntRange(1, 5).Draw(rt, "length"))
			for i := range list {
				code := rapid.SampledFrom([]int{0, 200, 200, 400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529}).Draw(rt, "status")
				list[i] = status(code)
				switch code {
				case 0:
					list[i] = answer{err: &fault.Error{Class: rapid.SampledFrom([]fault.Class{fault.Connect, fault.Reset}).Draw(rt, "class"), Err: errors.New("broken")}}
				case 200:
					list[i] = ok()
				}
				list[i].latency = time.Duration(rapid.IntRange(0, 3000).Draw(rt, "latency")) * time.Millisecond
			}
			scripts[n] = list
		}
		most := rapid.IntRange(1, 6).Draw(rt, "max attempts")
		budget := time.Duration(rapid.IntRange(1, 8).Draw(rt, "deadline")) * time.Second
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil, scripts)
			start := time.Now()
			res, rec := w.run(t, t.Context(), func(r *Request) {
				r.Policy.MaxAttempts = most
				r.Policy.Deadline = start.Add(budget)
			})
			fail := func(format string, args ...any) { rt.Fatalf("path %q: "+format, append([]any{w.path()}, args...)...) }
			if len(w.calls) > most {
				fail("%d attempts, at most %d are allowed", len(w.calls), most)
			}
			if time.Since(start) > budget {
				fail("took %v of %v", time.Since(start), budget)
			}
			if len(w.ends) != w.begun || w.begun != len(w.calls) {
				fail("%d calls, %d begun, %d settled", len(w.calls), w.begun, len(w.ends))
			}
			for _, n := range names {
				if left := w.scheduler.InFlight("crd_" + n); left != 0 {
					fail("%d slots of %s are held", left, n)
				}
			}
			wrote := rec.Body.Len() > 0
			if wrote != (res.Winner != nil) || wrote == (res.Fault != nil) {
				fail("wrote %v, winner %v, fault %v", wrote, res.Winner, res.Fault)
			}
			for i, e := range w.ends {
				if e.Fault == nil && i != len(w.ends)-1 {
					fail("attempt %d of %d succeeded and another followed", i+1, len(w.ends))
				}
			}
		})
	})
}

func TestRetryBudgetIsAShareOfFirstAttempts(t *testing.T) {
	t.Parallel()
	b := new(retryBudget)
	now := time.Unix(1000, 0)
	for range 100 {
		b.first(now)
	}
	taken := 0
	for range 100 {
		if b.take(0.2, 10, now) {
			taken++
		}
	}
	if taken != 20 {
		t.Errorf("%d retries of 100 first attempts, want 20", taken)
	}
	if b.take(0.2, 10, now.Add(9*time.Second)) {
		t.Error("a retry was allowed while the window is used up")
	}
	later := now.Add(11 * time.Second)
	taken = 0
	for range 100 {
		if b.take(0.2, 10, later) {
			taken++
		}
	}
	if taken != 10 {
		t.Errorf("%d retries in a window without first attempts, want the least, 10", taken)
	}
}

func TestRetryBudgetOfOneTenantIsNotSpentByAnother(t *testing.T) {
	t.Parallel()
	budgets, now := newRetryBudgets(), time.Unix(1000, 0)
	for budgets.of("ten_1", "prv_shared").take(0.2, 10, now) {
	}
	if !budgets.of("ten_2", "prv_shared").take(0.2, 10, now) {
		t.Error("the failures of one tenant's accounts keep another from its first retry")
	}
}

// keyed is a configuration in which the key "k" may call.
func keyed(t testing.TB) (*snapshot.View, route.Match) {
	t.Helper()
	hash := sha256.Sum256([]byte("k"))
	v, err := snapshot.Static(nil, nil,
		&syncv1.TenantShard{
			Tenant: &configv1.Tenant{Id: "ten_1"},
			Routes: []*configv1.Route{{Id: "rte_1", TenantId: "ten_1", PathPrefix: "/", ConsumerApiKeys: true}},
		},
		&syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_TENANT, Id: "ten_1"},
		&syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_CONSUMER, Id: "con_1"},
		&syncv1.KeyRecord{Sha256: hex.EncodeToString(hash[:]), TenantId: "ten_1", Holder: &syncv1.KeyRecord_ConsumerKey{
			ConsumerKey: &configv1.ConsumerAPIKey{Id: "key_1", ConsumerId: "con_1", Scopes: []configv1.Scope{configv1.Scope_SCOPE_CHAT}},
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	m, f := route.Find(v, httptest.NewRequest(http.MethodPost, "http://gateway/v1/chat/completions", nil))
	if f != nil {
		t.Fatal(f)
	}
	return v, m
}
