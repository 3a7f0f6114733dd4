package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// protects is the promise that what one node learns protects the others within half a
// second, ten times wider, as a machine under load needs.
const protects = 5 * time.Second

// flushes is the promise that a flush reaches every node within two seconds, ten times
// wider.
const flushes = 20 * time.Second

// nodeRuntime is what /runtime of a node tells, as far as the tests ask.
type nodeRuntime struct {
	Node        string `json:"node"`
	Nodes       int    `json:"nodes"`
	Credentials []struct {
		ID          string        `json:"credential_id"`
		InFlight    int64         `json:"in_flight"`
		AuthInvalid *nodeCooldown `json:"auth_invalid"`
	} `json:"credentials"`
	Cooldowns []nodeCooldown `json:"cooldowns"`
	Affinity  int            `json:"affinity_entries"`
}

type nodeCooldown struct {
	Scope     string    `json:"scope"`
	Subject   string    `json:"subject"`
	Kind      string    `json:"kind"`
	Started   time.Time `json:"started"`
	Until     time.Time `json:"until"`
	Source    string    `json:"source"`
	Announced bool      `json:"announced"`
	Status    int       `json:"upstream_status"`
	RequestID string    `json:"request_id"`
	Node      string    `json:"node_id"`
}

func (n *node) runtime(t *testing.T) nodeRuntime {
	t.Helper()
	var r nodeRuntime
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.ops+"/runtime", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := plainClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// cooldown is that of a credential on a node; nil if it does not rest there.
func (n *node) cooldown(t *testing.T, credential string) *nodeCooldown {
	t.Helper()
	for _, c := range n.runtime(t).Cooldowns {
		if first, _, _ := strings.Cut(c.Subject, "|"); first == credential {
			return &c
		}
	}
	return nil
}

func (n *node) invalid(t *testing.T, credential string) *nodeCooldown {
	t.Helper()
	for _, c := range n.runtime(t).Credentials {
		if c.ID == credential {
			return c.AuthInvalid
		}
	}
	return nil
}

// within waits until ok is true and returns how long that took.
func within(t *testing.T, bound time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	eventually(t, what, func() error {
		if !ok() {
			return fmt.Errorf("not after %s", time.Since(began))
		}
		return nil
	})
	took := time.Since(began)
	if took > bound {
		t.Errorf("%s after %s, want %s at most", what, took, bound)
	}
	return took
}

// apart makes two nodes of which each knows one control plane alone.
func apart(t *testing.T) *fleet {
	t.Helper()
	f := newPlanes(t, pg.URL(t), 2, planeOptions{})
	for i, p := range f.planes {
		s := f.spec(t, fmt.Sprintf("node-%d", i+1))
		s.Endpoints = []string{p.syncURL()}
		f.nodes = append(f.nodes, s.start(t))
	}
	for _, n := range f.nodes {
		n.waitCurrent(t)
	}
	return f
}

// limited makes the first answers of an account a 429 that says when to come back.
func (w *world) limited(credential string, wait time.Duration) {
	w.f.provider.SetScript(fakeprovider.Script{
		Match: fakeprovider.Match{Key: w.secretOf(credential)},
		Steps: []fakeprovider.Step{fakeprovider.FailRetryAfter(fakeprovider.RateLimited, wait)},
	})
}

// askUntilTried asks a node until it met what the account answers.
func (w *world) askUntilTried(t *testing.T, n *node, credential string) {
	t.Helper()
	before := w.f.provider.attempts(w.secretOf(credential))
	c := w.talk(t, n, anySDK())
	for i := range 20 {
		if _, err := c.ask(t.Context(), false, vendorsdk.Question{Text: fmt.Sprintf("question %d", i)}); err != nil {
			t.Fatal(err)
		}
		if w.f.provider.attempts(w.secretOf(credential)) > before {
			return
		}
	}
	t.Fatalf("the account %s was never asked", credential)
}

func TestC47_TheLimitThatOneNodeMeetsProtectsTheOthers(t *testing.T) {
	t.Parallel()
	f := apart(t)
	w := f.newWorld(t, "shared", oneUpstream())
	a := w.credential(t, "a")
	w.limited("a", 2*time.Minute)
	w.askUntilTried(t, f.nodes[0], "a")
	met := f.nodes[0].cooldown(t, a)
	if met == nil {
		t.Fatal("the node that met the limit does not let the account rest")
	}
	within(t, protects, "the other node lets the account rest", func() bool { return f.nodes[1].cooldown(t, a) != nil })
	told := f.nodes[1].cooldown(t, a)
	t.Logf("a node at another control plane heard of it %s after the cooldown began", time.Since(met.Started))

	before := f.provider.attempts(w.secretOf("a"))
	c := w.talk(t, f.nodes[1], anySDK())
	for i := range 10 {
		if _, err := c.ask(t.Context(), i%2 == 0, vendorsdk.Question{Text: fmt.Sprint("hello ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.provider.attempts(w.secretOf("a")) - before; n != 0 {
		t.Errorf("the protected node asked the resting account %d times, want 0", n)
	}
	if told.Node != f.nodes[0].runtime(t).Node || met.Node != "" {
		t.Errorf("told by %q, met by %q; want the first node and nobody else", told.Node, met.Node)
	}
	told.Node = ""
	for _, c := range []*nodeCooldown{told, met} { // the database keeps microseconds
		c.Started, c.Until = c.Started.Truncate(time.Microsecond), c.Until.Truncate(time.Microsecond)
	}
	if *told != *met {
		t.Errorf("told %+v, want what the first node met: %+v", *told, *met)
	}
}

func TestField_F05_EveryCooldownSaysWhyAndUntilWhen(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 1)
	w := f.newWorld(t, "cools", oneUpstream())
	w.limited("a", 30*time.Minute)
	c := w.talk(t, f.nodes[0], anySDK())
	var request string
	for i := range 20 {
		if _, err := c.ask(t.Context(), false, vendorsdk.Question{Text: fmt.Sprint("question ", i)}); err != nil {
			t.Fatal(err)
		}
		if request = c.head("X-Gateway-Request-Id"); f.provider.attempts(w.secretOf("a")) > 0 {
			break
		}
	}
	got := f.nodes[0].cooldown(t, w.credential(t, "a"))
	if got == nil {
		t.Fatal("no cooldown")
	}
	if got.Scope == "" || got.Kind != "rate_limit" || got.Status != http.StatusTooManyRequests || !got.Announced ||
		got.Source != "retry-after" || got.RequestID != request {
		t.Errorf("cooldown %+v, want scope, cause, status 429, the header that said it and the request %s", *got, request)
	}
	if length := got.Until.Sub(got.Started); length < 1799*time.Second || length > 1801*time.Second {
		t.Errorf("from %s until %s, want half an hour", got.Started, got.Until)
	}
}

func TestAClearedCredentialIsUsableOnEveryNode(t *testing.T) {
	t.Parallel()
	f := apart(t)
	w := f.newWorld(t, "cleared", oneUpstream())
	a := w.credential(t, "a")
	w.limited("a", time.Hour)
	w.askUntilTried(t, f.nodes[0], "a")
	within(t, protects, "the other node lets the account rest", func() bool { return f.nodes[1].cooldown(t, a) != nil })
	if _, err := f.planes[1].client(t).observe.ClearRuntime(t.Context(), &adminv1.ClearRuntimeRequest{CredentialId: a}); err != nil {
		t.Fatal(err)
	}
	took := within(t, protects, "no node lets the account rest", func() bool {
		return f.nodes[0].cooldown(t, a) == nil && f.nodes[1].cooldown(t, a) == nil
	})
	t.Logf("cleared everywhere after %s", took)
}

func TestANewSecretMakesACredentialUsableOnEveryNode(t *testing.T) {
	t.Parallel()
	f := apart(t)
	w := f.newWorld(t, "renewed", oneUpstream())
	a := w.credential(t, "a")
	update(t, f, a, func(c *configv1.UpstreamCredential) []string {
		c.OnAuthFailure = configv1.OnAuthFailure_ON_AUTH_FAILURE_DISABLE
		return []string{"on_auth_failure"}
	})
	f.provider.SetScript(fakeprovider.Script{
		Match: fakeprovider.Match{Key: w.secretOf("a")}, Steps: []fakeprovider.Step{fakeprovider.Fail(fakeprovider.Unauthorized)},
	})
	w.askUntilTried(t, f.nodes[0], "a")
	for _, n := range f.nodes {
		within(t, protects, "the credential is out on "+n.spec.Name, func() bool { return n.invalid(t, a) != nil })
	}
	made, err := f.admin.upstreams.ReplaceSecret(t.Context(), &adminv1.ReplaceSecretRequest{Id: a, Secret: w.secretOf("a2"), Change: onEveryNode()})
	if err != nil {
		t.Fatal(err)
	}
	f.acked(t, made.GetResult())
	for _, n := range f.nodes {
		if got := n.invalid(t, a); got != nil {
			t.Errorf("%s still holds the old secret's refusal against the new one: %+v", n.spec.Name, *got)
		}
		w.askUntilTried(t, n, "a2")
	}
}

// update changes a credential.
func update(t *testing.T, f *fleet, id string, change func(*configv1.UpstreamCredential) []string) {
	t.Helper()
	got, err := f.admin.upstreams.GetUpstreamCredential(t.Context(), &adminv1.GetUpstreamCredentialRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	c := got.GetUpstreamCredential()
	req := &adminv1.UpdateUpstreamCredentialRequest{UpstreamCredential: c, Change: onEveryNode(), UpdateMask: &fieldmaskpb.FieldMask{Paths: change(c)}}
	res, err := f.admin.upstreams.UpdateUpstreamCredential(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	f.acked(t, res.GetResult())
}

func TestTheNodesKnowHowManyTheyAre(t *testing.T) {
	t.Parallel()
	f := apart(t)
	for _, n := range f.nodes {
		within(t, inForce, n.spec.Name+" knows of two nodes", func() bool { return n.runtime(t).Nodes == 2 })
	}
	f.nodes = append(f.nodes, f.spec(t, "node-3").start(t))
	for _, n := range f.nodes {
		within(t, inForce, n.spec.Name+" knows of three nodes", func() bool { return n.runtime(t).Nodes == 3 })
	}
	for _, p := range f.planes {
		p.stop()
	}
	for _, n := range f.nodes {
		if got := n.runtime(t).Nodes; got != 3 {
			t.Errorf("%s: %d nodes without a control plane, want the last word, 3", n.spec.Name, got)
		}
	}
}

func TestField_F26_ADeadProxyRestsAndNotTheAccountsBehindIt(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 1)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := "http://" + dead.Addr().String()
	dead.Close()
	accounts := []account{{upstream: "behind", credential: "a", priority: 1}, {upstream: "behind", credential: "b", priority: 1}, {upstream: "direct", credential: "c", priority: 2}}
	w := f.newWorld(t, "proxied", accounts)
	for _, name := range []string{"a", "b"} {
		update(t, f, w.credential(t, name), func(c *configv1.UpstreamCredential) []string {
			c.Proxy = &configv1.EgressProxy{Url: proxy}
			return []string{"proxy"}
		})
	}
	c := w.talk(t, f.nodes[0], anySDK())
	for i := range 6 {
		if _, err := c.ask(t.Context(), false, vendorsdk.Question{Text: fmt.Sprint("question ", i)}); err != nil {
			t.Fatal(err)
		}
		if got, want := c.head("X-Gateway-Scheduled-Credential-Id"), w.credential(t, "c"); got != want {
			t.Errorf("answered by %s, want the account that needs no proxy", got)
		}
	}
	var scopes []string
	for _, cd := range f.nodes[0].runtime(t).Cooldowns {
		scopes = append(scopes, cd.Scope+":"+cd.Subject)
	}
	if len(scopes) != 1 || !strings.HasPrefix(scopes[0], "proxy:") || !strings.HasSuffix(scopes[0], "|"+proxy) {
		t.Errorf("cooldowns %q, want that of the proxy alone", scopes)
	}
	if got := c.head("X-Gateway-Fallback-Failures"); got != "" {
		t.Errorf("the last request still met the dead proxy: %s", got)
	}
}

func TestADisabledCredentialFinishesWhatItRuns(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 1)
	w := f.newWorld(t, "drained", oneUpstream())
	gate := make(chan struct{})
	for _, name := range []string{"a", "b"} {
		f.provider.SetScript(fakeprovider.Script{
			Match: fakeprovider.Match{Key: w.secretOf(name)}, Steps: []fakeprovider.Step{{Pieces: []string{"one ", "two ", "three"}, Gate: gate}}, ThenDefault: true,
		})
	}
	c := w.talk(t, f.nodes[0], anySDK())
	type answer struct {
		reply vendorsdk.Reply
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		r, err := c.ask(t.Context(), true, vendorsdk.Question{})
		done <- answer{r, err}
	}()
	used := ""
	eventually(t, "the attempt runs", func() error {
		for _, s := range f.nodes[0].runtime(t).Credentials {
			if s.InFlight == 1 {
				used = s.ID
				return nil
			}
		}
		return fmt.Errorf("nothing runs")
	})
	res, err := f.admin.upstreams.DisableCredential(t.Context(), &adminv1.DisableCredentialRequest{Id: used, Change: onEveryNode()})
	if err != nil {
		t.Fatal(err)
	}
	f.acked(t, res.GetResult())
	close(gate)
	got := <-done
	if got.err != nil || !strings.Contains(got.reply.Text, "three") {
		t.Errorf("the running request ended with %q, %v; want its whole answer", got.reply.Text, got.err)
	}
	other := w.talk(t, f.nodes[0], anySDK())
	for i := range 4 {
		if _, err := other.ask(t.Context(), false, vendorsdk.Question{Text: fmt.Sprint("later ", i)}); err != nil {
			t.Fatal(err)
		}
		if other.head("X-Gateway-Scheduled-Credential-Id") == used {
			t.Error("the disabled credential was used for a new request")
		}
	}
}

// A per-model limit that one node meets rests the account for that model, on the other
// nodes too, and for no other.
func TestField_F06_OneModelsLimitIsToldForThatModelAlone(t *testing.T) {
	t.Parallel()
	f := apart(t)
	w := f.newWorld(t, "models", oneUpstream(), &adminv1.BundleResource{Resource: &adminv1.BundleResource_UpstreamModel{
		UpstreamModel: &configv1.UpstreamModel{TenantId: "models", UpstreamId: "main", Model: "other", UpstreamModel: "fake-small"},
	}})
	a := w.credential(t, "a")
	f.provider.SetScript(fakeprovider.Script{
		Match: fakeprovider.Match{Key: w.secretOf("a"), Model: "fake-large"},
		Steps: []fakeprovider.Step{fakeprovider.FailRetryAfter(fakeprovider.RateLimited, time.Hour)},
	})
	w.askUntilTried(t, f.nodes[0], "a")
	within(t, protects, "the other node lets the account rest", func() bool { return f.nodes[1].cooldown(t, a) != nil })
	if got, want := f.nodes[1].cooldown(t, a).Subject, a+"|fake-large"; got != want {
		t.Errorf("%q rests, want %q", got, want)
	}
	c := w.talk(t, f.nodes[1], anySDK())
	before := f.provider.attempts(w.secretOf("a"))
	for i := range 10 {
		if _, err := c.ask(t.Context(), false, vendorsdk.Question{Model: "other", Text: fmt.Sprint("question ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if f.provider.attempts(w.secretOf("a")) == before {
		t.Error("the account was not used for its other model")
	}
}

// long is a prompt that is worth caching.
func long(text string) string { return strings.Repeat("as I was going to St Ives ", 400) + text }

func TestField_F13_AConversationLeavesAnAccountThatRestsByTheWordOfAnotherNode(t *testing.T) {
	t.Parallel()
	f := apart(t)
	w := f.newWorld(t, "bound", oneUpstream())
	c := w.talk(t, f.nodes[1], anySDK())
	ask := func() string {
		t.Helper()
		if _, err := c.ask(t.Context(), false, vendorsdk.Question{Text: long("")}); err != nil {
			t.Fatal(err)
		}
		return c.head("X-Gateway-Scheduled-Credential-Id")
	}
	used := ask()
	if again := ask(); again != used || c.head("X-Gateway-Cache-Affinity") != "hit" {
		t.Fatalf("the conversation went from %s to %s, affinity %s", used, again, c.head("X-Gateway-Cache-Affinity"))
	}
	name := "a"
	if used != w.credential(t, "a") {
		name = "b"
	}
	w.limited(name, time.Hour)
	w.askUntilTried(t, f.nodes[0], name)
	within(t, protects, "the other node lets the account rest", func() bool { return f.nodes[1].cooldown(t, used) != nil })
	before := f.provider.attempts(w.secretOf(name))
	if next := ask(); next == used {
		t.Error("the conversation stays at the account that rests")
	}
	if n := f.provider.attempts(w.secretOf(name)) - before; n != 0 {
		t.Errorf("the resting account was asked %d times", n)
	}
}

func TestField_F21_AFlushReachesEveryNodeWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	f := apart(t)
	w := f.newWorld(t, "flushed", oneUpstream())
	bind := func() {
		t.Helper()
		for _, n := range f.nodes {
			c := w.talk(t, n, anySDK())
			for range 2 {
				if _, err := c.ask(t.Context(), false, vendorsdk.Question{Text: long("")}); err != nil {
					t.Fatal(err)
				}
			}
			if got := c.head("X-Gateway-Cache-Affinity"); got != "hit" || n.runtime(t).Affinity == 0 {
				t.Fatalf("%s: affinity %q of the second question, want a hit", n.spec.Name, got)
			}
		}
	}
	route, err := f.admin.routes.GetRoute(t.Context(), &adminv1.GetRouteRequest{Id: "main", TenantId: w.tenant})
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range []*adminv1.FlushAffinityRequest{{TenantId: w.tenant}, {RouteId: route.GetRoute().GetId()}} {
		bind()
		if _, err := f.admin.observe.FlushAffinity(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		took := within(t, flushes, "every node has forgotten", func() bool {
			return f.nodes[0].runtime(t).Affinity == 0 && f.nodes[1].runtime(t).Affinity == 0
		})
		t.Logf("flushed everywhere %s after the answer", took)
	}
	bind()
	for _, name := range []string{"a", "b"} { // a conversation is at one of them
		if _, err := f.admin.observe.FlushAffinity(t.Context(), &adminv1.FlushAffinityRequest{CredentialId: w.credential(t, name)}); err != nil {
			t.Fatal(err)
		}
	}
	within(t, flushes, "every node has forgotten both credentials", func() bool {
		return f.nodes[0].runtime(t).Affinity == 0 && f.nodes[1].runtime(t).Affinity == 0
	})
}

// A node that is wrong, or that is refused for a reason of its own, says that every
// account rests: the others go on, and find out.
func TestC47_ANodeThatIsWrongStopsNobody(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 1)
	w := f.newWorld(t, "lied", oneUpstream())
	liar := syncv1connect.NewConfigSyncServiceClient(connect.NewClient(connecthttp.NewTransport(plainClient(t), f.planes[0].syncURL())))
	report := &syncv1.ReportRequest{Node: &syncv1.NodeInfo{NodeId: ident.New(ident.Node), InstanceId: "boot-1", Version: "test"}}
	for _, name := range []string{"a", "b"} {
		report.Signals = append(report.Signals, &syncv1.Signal{
			Id: ident.New("sig"), Kind: syncv1.SignalKind_SIGNAL_KIND_COOLDOWN, Scope: "credential", Subject: w.credential(t, name), Cause: "rate_limit",
			StartTime: timestamppb.Now(), Until: timestamppb.New(time.Now().Add(time.Hour)), Announced: true, Source: "retry-after", Status: 429,
		})
	}
	if _, err := liar.Report(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	within(t, protects, "the node heard of both", func() bool { return len(f.nodes[0].runtime(t).Cooldowns) == 2 })
	c := w.talk(t, f.nodes[0], anySDK())
	for i := range 10 {
		if _, err := c.ask(t.Context(), i%2 == 0, vendorsdk.Question{Text: fmt.Sprint("question ", i)}); err != nil {
			t.Fatalf("question %d: %v", i, err)
		}
	}
	if got := f.nodes[0].runtime(t).Cooldowns; len(got) > 1 {
		t.Errorf("%d accounts still rest by the word of the node that was wrong; the one that answered must not", len(got))
	}
}
