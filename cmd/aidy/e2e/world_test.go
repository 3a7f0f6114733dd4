package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

// account is a credential of a world, on an upstream of its own unless several name
// the same one.
type account struct {
	upstream, credential string
	priority             int32  // of the upstream
	served               string // what the upstream calls the model
	weight               int32  // of the credential; 0 for the default
	limits               *configv1.Limits
}

// world is a tenant with everything a call needs: cooldowns, rows and keys of one test
// are no other's.
type world struct {
	f        *fleet
	name     string
	tenant   string // id
	consumer string // id
	key      string // the consumer's secret
	keyID    string
}

// model is the public name that every account of a world serves, and alias another
// name of it.
const (
	model = "m"
	alias = "fast"
)

// The two usual pools: credentials of one upstream, and upstreams of one credential.
func oneUpstream() []account {
	return []account{{upstream: "main", credential: "a"}, {upstream: "main", credential: "b"}}
}

func twoUpstreams() []account {
	return []account{{upstream: "first", credential: "a", priority: 1}, {upstream: "second", credential: "b", priority: 2}}
}

// secretOf is the provider's key of an account.
func (w *world) secretOf(credential string) string { return w.secretPrefix() + credential }

func (w *world) secretPrefix() string { return "sk-up-" + w.name + "-" }

// base is where a node serves the world.
func (w *world) base(n *node) string { return n.url + "/" + w.name }

// newWorld makes one through the admin API and waits until every node runs it.
func (f *fleet) newWorld(t *testing.T, name string, accounts []account, more ...*adminv1.BundleResource) *world {
	t.Helper()
	w := &world{f: f, name: name}
	f.apply(t, append(w.resources(accounts), more...)...)

	ctx := t.Context()
	tenant, err := f.admin.tenants.GetTenant(ctx, &adminv1.GetTenantRequest{Id: name})
	if err != nil {
		t.Fatal(err)
	}
	w.tenant = tenant.GetTenant().GetId()
	consumer, err := f.admin.consumers.GetConsumer(ctx, &adminv1.GetConsumerRequest{Id: "caller", TenantId: w.tenant})
	if err != nil {
		t.Fatal(err)
	}
	w.consumer = consumer.GetConsumer().GetId()
	w.key, w.keyID = w.newKey(t, "main")
	return w
}

// newKey makes a key that every node knows when it returns.
func (w *world) newKey(t *testing.T, name string) (secret, id string) {
	t.Helper()
	made, err := w.f.admin.consumers.CreateConsumerAPIKey(t.Context(), &adminv1.CreateConsumerAPIKeyRequest{
		ConsumerApiKey: &configv1.ConsumerAPIKey{
			TenantId: w.tenant, Name: name, ConsumerId: w.consumer,
			Scopes: []configv1.Scope{configv1.Scope_SCOPE_INFERENCE, configv1.Scope_SCOPE_MODELS},
		},
		Change: onEveryNode(),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.f.acked(t, made.GetResult())
	return made.GetSecret(), made.GetConsumerApiKey().GetId()
}

func (w *world) resources(accounts []account) []*adminv1.BundleResource {
	out := []*adminv1.BundleResource{
		{Resource: &adminv1.BundleResource_Tenant{Tenant: &configv1.Tenant{Name: w.name}}},
		{Resource: &adminv1.BundleResource_Provider{Provider: &configv1.Provider{
			TenantId: w.name, Name: "fake", AllowPlaintext: true, AllowPrivateAddress: true,
			Capabilities: []*configv1.Capability{
				{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: w.f.provider.url + "/v1"},
				{Protocol: configv1.Protocol_PROTOCOL_OPENAI_RESPONSES, BaseUrl: w.f.provider.url + "/v1"},
				{Protocol: configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES, BaseUrl: w.f.provider.url},
				{Protocol: configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT, BaseUrl: w.f.provider.url},
			},
		}}},
	}
	made := map[string]bool{}
	for _, a := range accounts {
		if !made[a.upstream] {
			made[a.upstream] = true
			served := a.served
			if served == "" {
				served = "fake-large"
			}
			out = append(out,
				&adminv1.BundleResource{Resource: &adminv1.BundleResource_Upstream{Upstream: &configv1.Upstream{
					TenantId: w.name, Name: a.upstream, ProviderId: "fake", GroupId: "default", Priority: a.priority,
				}}},
				&adminv1.BundleResource{Resource: &adminv1.BundleResource_UpstreamModel{UpstreamModel: &configv1.UpstreamModel{
					TenantId: w.name, UpstreamId: a.upstream, Model: model, UpstreamModel: served,
				}}},
				&adminv1.BundleResource{Resource: &adminv1.BundleResource_UpstreamModel{UpstreamModel: &configv1.UpstreamModel{
					TenantId: w.name, UpstreamId: a.upstream, Model: alias, AliasOf: model,
				}}})
		}
		c := &configv1.UpstreamCredential{
			TenantId: w.name, Name: a.credential, UpstreamId: a.upstream, Secret: w.secretOf(a.credential), Limits: a.limits,
		}
		if a.weight != 0 {
			c.Weight = &a.weight
		}
		out = append(out, &adminv1.BundleResource{Resource: &adminv1.BundleResource_UpstreamCredential{UpstreamCredential: c}})
	}
	return append(out,
		&adminv1.BundleResource{Resource: &adminv1.BundleResource_Route{Route: &configv1.Route{
			TenantId: w.name, Name: "main", PathPrefix: "/" + w.name, ConsumerApiKeys: true,
		}}},
		&adminv1.BundleResource{Resource: &adminv1.BundleResource_Consumer{Consumer: &configv1.Consumer{TenantId: w.name, Name: "caller"}}})
}

// credential is the id of an account's credential.
func (w *world) credential(t *testing.T, name string) string {
	t.Helper()
	got, err := w.f.admin.upstreams.GetUpstreamCredential(t.Context(), &adminv1.GetUpstreamCredentialRequest{Id: name, TenantId: w.tenant})
	if err != nil {
		t.Fatal(err)
	}
	return got.GetUpstreamCredential().GetId()
}

// onEveryNode asks a change to wait for every node.
func onEveryNode() *adminv1.ChangeContext {
	return &adminv1.ChangeContext{
		Message: "end to end", Confirm: []string{"LARGE_CHANGE"},
		Wait: &adminv1.Wait{QuorumPercent: 100, TimeoutMs: inForce.Milliseconds()},
	}
}

// acked fails the test unless every node said that it runs a change.
func (f *fleet) acked(t *testing.T, r *adminv1.ChangeResult) {
	t.Helper()
	if len(r.GetPendingNodes()) > 0 || len(r.GetRefusedNodes()) > 0 || len(r.GetAckedNodes()) != len(f.nodes) {
		t.Fatalf("generation %d: applied by %v of %d nodes, pending %v, refused %v",
			r.GetGeneration(), r.GetAckedNodes(), len(f.nodes), r.GetPendingNodes(), r.GetRefusedNodes())
	}
}

// apply makes resources in one change that every node runs when it returns.
func (f *fleet) apply(t *testing.T, resources ...*adminv1.BundleResource) *adminv1.ChangeResult {
	t.Helper()
	res, err := f.admin.config.ApplyBundle(t.Context(), &adminv1.ApplyBundleRequest{
		Bundle: &adminv1.Bundle{Resources: resources}, Change: onEveryNode(),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.acked(t, res.GetResult())
	return res.GetResult()
}

// conversation puts questions to a node as an SDK does and keeps the response headers.
type conversation struct {
	w    *world
	sdk  vendorsdk.SDK
	base string
	key  string

	client *http.Client

	mu    sync.Mutex
	heads []http.Header // guarded by mu; of the responses, in order
}

func (w *world) talk(t *testing.T, n *node, sdk vendorsdk.SDK) *conversation {
	t.Helper()
	c := &conversation{w: w, sdk: sdk, base: w.base(n), key: w.key}
	c.client = &http.Client{Transport: tap{c, plainClient(t).Transport}}
	return c
}

// tap keeps the headers of what passes.
type tap struct {
	c    *conversation
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t tap) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err == nil {
		t.c.mu.Lock()
		t.c.heads = append(t.c.heads, resp.Header.Clone())
		t.c.mu.Unlock()
	}
	return resp, err
}

// head is a header of the last response.
func (c *conversation) head(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heads) == 0 {
		return ""
	}
	return c.heads[len(c.heads)-1].Get(name)
}

// question fills in what every question has.
func (c *conversation) question(q vendorsdk.Question) vendorsdk.Question {
	q.Client = c.client
	if q.Key == "" {
		q.Key = c.key
	}
	if q.Model == "" {
		q.Model = model
	}
	if q.Text == "" {
		q.Text = "good morning"
	}
	return q
}

// ask gets an answer, streamed or whole, within the test's patience.
func (c *conversation) ask(ctx context.Context, stream bool, q vendorsdk.Question) (vendorsdk.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if stream {
		return c.sdk.Stream(ctx, c.base, c.question(q), func() {})
	}
	return c.sdk.Ask(ctx, c.base, c.question(q))
}

// named makes a name that may stand in the configuration out of words.
func named(words ...any) string {
	s := strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(fmt.Sprintln(words...), "\n"), " ", "-"))
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, s)
}

// anySDK and anyQuestion are for tests that are not about what is asked.
func anySDK() vendorsdk.SDK { return vendorsdk.All()[0] }

func anyQuestion() vendorsdk.Question { return vendorsdk.Question{} }
