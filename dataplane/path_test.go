package dataplane

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/meter"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
	"github.com/aidy-gateway/aidy-gateway/dataplane/upstream"
)

const (
	testKey = "sk-aidy-test"
	keyA    = "sk-upstream-a"
	keyB    = "sk-upstream-b"
)

// rig is a node without a control plane, before a scripted provider.
type rig struct {
	node     *Node
	url      string
	base     string // of the provider
	provider *fakeprovider.Provider
	wal      *meter.Log
}

type rigOption func(*syncv1.TenantShard)

func newRig(t testing.TB, options ...rigOption) *rig {
	t.Helper()
	provider := fakeprovider.New(fakeprovider.Config{Keys: []string{keyA, keyB}})
	up := httptest.NewServer(provider)
	t.Cleanup(up.Close)
	view := testView(t, up.URL, options...)

	n, err := staticNode(view, t.TempDir(), zerolog.New(zerolog.NewTestWriter(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.wal.Close() })
	t.Cleanup(n.transport.Close)
	front := httptest.NewServer(n)
	t.Cleanup(front.Close)
	return &rig{node: n, url: front.URL, base: up.URL, provider: provider, wal: n.wal}
}

// staticNode is a node with a configuration that never changes and a usage log that
// is never shipped.
func staticNode(view *snapshot.View, dir string, log zerolog.Logger) (*Node, error) {
	wal, err := meter.Open(dir, meter.LogConfig{}, log)
	if err != nil {
		return nil, err
	}
	m := noop.NewMeterProvider().Meter("test")
	mtr, err := meter.New(wal, meter.Config{}, log, m)
	if err != nil {
		return nil, err
	}
	if _, err := mtr.Recover(context.Background()); err != nil {
		return nil, err
	}
	n := &Node{
		log:       log,
		holder:    snapshot.NewStaticHolder(view),
		inbound:   inbound.New(inbound.Config{}, Codecs()...),
		auth:      new(auth.Authenticator),
		scheduler: schedule.New(schedule.Config{}),
		affinity:  affinity.NewStore(affinity.Config{}),
		transport: upstream.New(upstream.Config{}),
		wal:       wal,
		meter:     mtr,
	}
	if n.metrics, err = newMetrics(m, n); err != nil {
		return nil, err
	}
	n.executor = attempt.New(n.scheduler, n.affinity, n.transport, recorder{mtr}, n.holder, answerHead)
	return n, nil
}

func testView(t testing.TB, base string, options ...rigOption) *snapshot.View {
	t.Helper()
	v, err := buildView(base, options...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func buildView(base string, options ...rigOption) (*snapshot.View, error) {
	return buildViewWith(base, testKey, options...)
}

// buildViewWith is buildView for the holder of another key.
func buildViewWith(base, key string, options ...rigOption) (*snapshot.View, error) {
	hash := sha256.Sum256([]byte(key))
	tenant := &syncv1.TenantShard{
		Tenant: &configv1.Tenant{Id: "ten_1", Name: "test"},
		Groups: []*configv1.Group{{Id: "grp_1", TenantId: "ten_1", Name: "default"}},
		Providers: []*configv1.Provider{{
			Id: "prv_1", TenantId: "ten_1", Name: "fake", AllowPlaintext: true, AllowPrivateAddress: true,
			Capabilities: []*configv1.Capability{
				{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: base + "/v1"},
				{Protocol: configv1.Protocol_PROTOCOL_OPENAI_RESPONSES, BaseUrl: base + "/v1"},
				{Protocol: configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES, BaseUrl: base},
				{Protocol: configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT, BaseUrl: base},
			},
		}},
		Upstreams: []*configv1.Upstream{{Id: "upr_1", TenantId: "ten_1", Name: "main", ProviderId: "prv_1", GroupId: "grp_1"}},
		Credentials: []*configv1.UpstreamCredential{
			{Id: "crd_a", TenantId: "ten_1", Name: "a", UpstreamId: "upr_1"},
			{Id: "crd_b", TenantId: "ten_1", Name: "b", UpstreamId: "upr_1"},
		},
		Models: []*configv1.UpstreamModel{
			{Id: "upm_1", TenantId: "ten_1", UpstreamId: "upr_1", Model: "m", UpstreamModel: "fake-large"},
			{Id: "upm_2", TenantId: "ten_1", UpstreamId: "upr_1", Model: "alias", AliasOf: "m"},
		},
		Routes: []*configv1.Route{{Id: "rte_1", TenantId: "ten_1", Name: "main", PathPrefix: "/", ConsumerApiKeys: true}},
	}
	for _, o := range options {
		o(tenant)
	}
	secrets := &syncv1.CredentialShard{TenantId: "ten_1", SealedStateKey: bytes.Repeat([]byte("k"), 32), Secrets: []*syncv1.SealedSecret{
		{CredentialId: "crd_a", Sealed: []byte(keyA)},
		{CredentialId: "crd_b", Sealed: []byte(keyB)},
	}}
	shards := []proto.Message{
		tenant, secrets,
		&syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_TENANT, Id: "ten_1", TenantId: "ten_1"},
		&syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_CONSUMER, Id: "con_1", TenantId: "ten_1"},
		&syncv1.KeyRecord{Sha256: hex.EncodeToString(hash[:]), TenantId: "ten_1", Holder: &syncv1.KeyRecord_ConsumerKey{
			ConsumerKey: &configv1.ConsumerAPIKey{
				Id: "key_1", TenantId: "ten_1", ConsumerId: "con_1",
				Scopes: []configv1.Scope{
					configv1.Scope_SCOPE_INFERENCE, configv1.Scope_SCOPE_MODELS, configv1.Scope_SCOPE_FILES, configv1.Scope_SCOPE_BATCHES, configv1.Scope_SCOPE_RAW,
				},
			},
		}},
	}
	return snapshot.Static(Builders(), nil, shards...)
}

// wire is how a protocol is called.
type wire struct {
	name, path, streamPath string
	protocol               fakeprovider.Protocol
	body                   func(model string, stream bool) string
}

func wires() []wire {
	return []wire{
		{"openai_chat", "/v1/chat/completions", "/v1/chat/completions", fakeprovider.Chat, func(m string, s bool) string {
			return fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"hello there"}]}`, m, s)
		}},
		{"openai_responses", "/v1/responses", "/v1/responses", fakeprovider.Responses, func(m string, s bool) string {
			return fmt.Sprintf(`{"model":%q,"stream":%v,"store":false,"input":"hello there"}`, m, s)
		}},
		{"anthropic_messages", "/v1/messages", "/v1/messages", fakeprovider.Anthropic, func(m string, s bool) string {
			return fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":64,"messages":[{"role":"user","content":"hello there"}]}`, m, s)
		}},
		{"gemini_generate_content", "/v1beta/models/MODEL:generateContent", "/v1beta/models/MODEL:streamGenerateContent?alt=sse", fakeprovider.Gemini, func(string, bool) string {
			return `{"contents":[{"role":"user","parts":[{"text":"hello there"}]}]}`
		}},
	}
}

// call sends one request and returns the answer with its body read.
func (g *rig) call(t testing.TB, w wire, model string, stream bool) (*http.Response, string) {
	t.Helper()
	path := w.path
	if stream {
		path = w.streamPath
	}
	path = strings.ReplaceAll(path, "MODEL", model)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+path, strings.NewReader(w.body(model, stream)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	req.Header.Set("Content-Type", "application/json")
	if w.protocol == fakeprovider.Anthropic {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// settled waits until every attempt is settled and returns the settlements in order.
func (g *rig) settled(t testing.TB, n int) []*ledgerv1.UsageEvent {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		if err := g.wal.Sync(); err != nil {
			t.Fatal(err)
		}
		records, err := g.wal.ReadFrom(1, 10000, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		var events []*ledgerv1.UsageEvent
		for _, r := range records {
			if r.Type != meter.TypeSettle {
				continue
			}
			s := new(ledgerv1.Settle)
			if err := proto.Unmarshal(r.Payload, s); err != nil {
				t.Fatal(err)
			}
			if s.GetEvent() != nil {
				events = append(events, s.GetEvent())
			}
		}
		if len(events) >= n && g.node.meter.Open() == 0 {
			if len(events) != n {
				t.Fatalf("%d settlements, want %d: %v", len(events), n, events)
			}
			return events
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d settlements after 5 s, want %d", len(events), n)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestEveryProtocolAnswersAndIsMetered(t *testing.T) {
	t.Parallel()
	for _, w := range wires() {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream=%v", w.name, stream), func(t *testing.T) {
				t.Parallel()
				g := newRig(t)
				g.provider.Script(fakeprovider.Match{Protocol: w.protocol}, fakeprovider.Step{
					Usage: &fakeprovider.Usage{Input: 100, Output: 20, Cached: 30, Reasoning: 5},
				})
				resp, body := g.call(t, w, "alias", stream)
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("status %d: %s", resp.StatusCode, body)
				}
				for name, want := range map[string]string{
					"X-Gateway-Scheduled-Provider":      w.name,
					"X-Gateway-Scheduled-Provider-Name": "fake",
					"X-Gateway-Scheduled-Model":         "fake-large",
					"X-Gateway-Fallback-Used":           "false",
					"X-Gateway-Config-Generation":       "1",
				} {
					if got := resp.Header.Get(name); got != want {
						t.Errorf("%s is %q, want %q", name, got, want)
					}
				}
				if resp.Header.Get("X-Gateway-Request-Id") == "" || resp.Header.Get("X-Gateway-Scheduled-Credential-Id") == "" {
					t.Errorf("headers %v name no request or credential", resp.Header)
				}
				e := g.settled(t, 1)[0]
				u := e.GetUnits()
				if u.GetInput() != 100 || u.GetCacheRead() != 30 || u.GetOutput() != 20 || u.GetReasoning() != 5 || u.GetRequest() != 1 {
					t.Errorf("units %v, want input 100, cache_read 30, output 20, reasoning 5", u)
				}
				if e.GetModelRequested() != "alias" || e.GetModelRouted() != "m" || !strings.HasPrefix(e.GetModelServed(), "fake-large") {
					t.Errorf("models %q, %q, %q", e.GetModelRequested(), e.GetModelRouted(), e.GetModelServed())
				}
				if e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED || e.GetUsageSource() != ledgerv1.UsageSource_USAGE_SOURCE_PROVIDER {
					t.Errorf("outcome %v by %v", e.GetOutcome(), e.GetUsageSource())
				}
			})
		}
	}
}

func TestFailoverBeforeTheFirstEventReachesTheOtherCredential(t *testing.T) {
	t.Parallel()
	// Overload rests the upstream and not the credential, so there the second
	// credential is one of another upstream.
	elsewhere := func(ts *syncv1.TenantShard) {
		ts.Upstreams = append(ts.Upstreams, &configv1.Upstream{Id: "upr_2", TenantId: "ten_1", Name: "second", ProviderId: "prv_1", GroupId: "grp_1"})
		ts.Credentials[1].UpstreamId = "upr_2"
		ts.Models = append(ts.Models, &configv1.UpstreamModel{Id: "upm_3", TenantId: "ten_1", UpstreamId: "upr_2", Model: "m", UpstreamModel: "fake-large"})
	}
	for _, kind := range []fakeprovider.ErrorKind{fakeprovider.RateLimited, fakeprovider.Overloaded, fakeprovider.ServerError, fakeprovider.Unauthorized} {
		for _, w := range wires() {
			t.Run(fmt.Sprintf("%v %s", kind, w.name), func(t *testing.T) {
				t.Parallel()
				g := newRig(t, elsewhere)
				g.provider.Script(fakeprovider.Match{Key: keyA}, fakeprovider.Fail(kind))
				resp, body := g.call(t, w, "m", true)
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("status %d: %s", resp.StatusCode, body)
				}
				if got := resp.Header.Get("X-Gateway-Scheduled-Credential-Id"); got != "crd_b" {
					t.Errorf("served by %q, want crd_b", got)
				}
				if resp.Header.Get("X-Gateway-Fallback-Used") == "true" {
					if f := resp.Header.Get("X-Gateway-Fallback-Failures"); !strings.HasPrefix(f, "fake/crd_a:") {
						t.Errorf("failures %q do not name crd_a", f)
					}
				}
			})
		}
	}
}

func TestErrorAfterTheFirstEventEndsInTheProtocolsOwnErrorEvent(t *testing.T) {
	t.Parallel()
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Fault: fakeprovider.FaultCut, FaultAfter: 2, Pieces: []string{"a", "b", "c", "d"}})
			resp, body := g.call(t, w, "m", true)
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("status %d: %s", resp.StatusCode, body)
			}
			if !strings.Contains(body, "stream_incomplete") || !strings.Contains(body, "error") {
				t.Errorf("the broken stream does not end in an error event:\n%s", body)
			}
			if n := g.provider.Attempts(); n != 1 {
				t.Errorf("%d attempts, want 1: nothing is tried after the first event", n)
			}
			e := g.settled(t, 1)[0]
			if e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_BROKEN || e.GetUnits().GetInput() == 0 {
				t.Errorf("outcome %v with %v, want broken and an estimate", e.GetOutcome(), e.GetUnits())
			}
		})
	}
}

func TestUsageChunkIsHiddenFromACallerWhoDidNotAsk(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	w := wires()[0]
	_, body := g.call(t, w, "m", true)
	if strings.Contains(body, `"choices":[]`) {
		t.Errorf("the usage chunk was passed on:\n%s", body)
	}
	if !strings.HasSuffix(strings.TrimSpace(body), "data: [DONE]") {
		t.Errorf("the stream does not end in [DONE]:\n%s", body)
	}
	if e := g.settled(t, 1)[0]; e.GetUsageSource() != ledgerv1.UsageSource_USAGE_SOURCE_PROVIDER {
		t.Errorf("usage is %v, want the provider's: the gateway must ask for it", e.GetUsageSource())
	}
	w.body = func(m string, _ bool) string {
		return fmt.Sprintf(`{"model":%q,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}`, m)
	}
	if _, body = g.call(t, w, "m", true); !strings.Contains(body, `"choices":[]`) {
		t.Errorf("the usage chunk that the caller asked for is missing:\n%s", body)
	}
}

func TestClientThatLeavesIsSeenUpstreamAndMetered(t *testing.T) {
	t.Parallel()
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Fault: fakeprovider.FaultStall, FaultAfter: 2, Pieces: []string{"some ", "text ", "more"}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			path := strings.ReplaceAll(w.streamPath, "MODEL", "m")
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, g.url+path, strings.NewReader(w.body("m", true)))
			req.Header.Set("X-Api-Key", testKey)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, err := resp.Body.Read(make([]byte, 64)); err != nil {
				t.Fatal(err)
			}
			cancel()
			wait, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			if err := g.provider.WaitCanceled(wait, 1); err != nil {
				t.Fatalf("the upstream did not see the cancellation within 1 s: %v", err)
			}
			e := g.settled(t, 1)[0]
			if e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED {
				t.Errorf("outcome %v, want cancelled", e.GetOutcome())
			}
			if e.GetUnits().GetInput() == 0 || e.GetUnits().GetOutput() == 0 {
				t.Errorf("units %v, want what was counted", e.GetUnits())
			}
		})
	}
}

func TestCompatibleServerWithoutADoneMarkerEndsWithItsBody(t *testing.T) {
	t.Parallel()
	stream := "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n" +
		"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("configured %v", known), func(t *testing.T) {
			t.Parallel()
			g := newRig(t, func(ts *syncv1.TenantShard) {
				ts.Providers[0].Capabilities[0].Compat = &configv1.Compat{NoDoneMarker: known}
			})
			g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Raw: []byte(stream), RawType: "text/event-stream"})
			_, body := g.call(t, wires()[0], "m", true)
			want := ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED
			if !known {
				want = ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_BROKEN
			}
			if got := g.settled(t, 1)[0].GetOutcome(); got != want {
				t.Errorf("outcome %v, want %v", got, want)
			}
			if known && body != stream {
				t.Errorf("body %q, want what the server sent", body)
			}
		})
	}
}

func TestEventThatCannotBeReadEndsInAnErrorEvent(t *testing.T) {
	t.Parallel()
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Fault: fakeprovider.FaultMalformed, FaultAfter: 2, Pieces: []string{"a", "b", "c", "d"}})
			_, body := g.call(t, w, "m", true)
			e := g.settled(t, 1)[0]
			complete := e.GetOutcome() == ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED
			if told := strings.Contains(body, "stream_incomplete"); told == complete {
				t.Errorf("outcome %v, but the client was told of a break: %v\n%s", e.GetOutcome(), told, body)
			}
			if n := g.provider.Attempts(); n != 1 {
				t.Errorf("%d attempts, want 1", n)
			}
		})
	}
}
