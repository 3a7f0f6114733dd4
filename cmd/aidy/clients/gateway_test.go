//go:build clients

package clients

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/dev"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/devstate"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// patience bounds every wait for the product. It catches a hang. A change waits as long
// for the node at most.
const patience = time.Minute

// gateway is the product, run as aidy dev runs it.
type gateway struct {
	url       string // of the inference listener
	config    adminv1connect.ConfigServiceClient
	consumers adminv1connect.ConsumerServiceClient
}

// startGateway runs the product until the test ends.
func startGateway(t *testing.T) *gateway {
	t.Helper()
	var logs bytes.Buffer
	ready := make(chan devstate.State, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	dir := productFolder(t)
	go func() {
		ended <- dev.Run(ctx, dev.Options{
			Dir:           dir,
			InferenceAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", SyncAddr: "127.0.0.1:0", OpsAddr: "127.0.0.1:0",
			LogLevel: "warn",
			Getenv:   func(string) string { return "" },
			Ready:    func(s devstate.State) { ready <- s },
		}, &logs, &logs)
	}()
	var state devstate.State
	select {
	case state = <-ready:
	case err := <-ended:
		cancel()
		t.Fatalf("start the product: %v\n%s", err, logs.String())
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("stop the product: %v", err)
		}
		if t.Failed() {
			t.Logf("the product said:\n%s", logs.String())
		}
	})

	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: bearer{state.AdminToken, transport}}
	rpc := connect.NewClient(connecthttp.NewTransport(client, state.AdminURL))
	return &gateway{
		url:       state.InferenceURL,
		config:    adminv1connect.NewConfigServiceClient(rpc),
		consumers: adminv1connect.NewConsumerServiceClient(rpc),
	}
}

// productFolder is a folder that the database's account can enter too.
func productFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "aidy-clients-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "dev")
}

// bearer adds the token of an operator.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// servedBy is what a provider of a protocol calls its models: they are the vendor's, of
// the kind that keeps state about its thoughts. Clients that ask a second, small model
// for titles and the like do not use up the script of the first.
func servedBy(p fakeprovider.Protocol) (main, aside string) {
	switch p {
	case fakeprovider.Anthropic:
		return "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001"
	case fakeprovider.Gemini:
		return "gemini-3-pro-preview", "gemini-2.5-flash-lite"
	default:
		return "gpt-5-2025-08-07", "gpt-5-mini-2025-08-07"
	}
}

// mainModels are the names that clients ask for; all of them are one model. Clients
// treat a name as the vendor's model, so each gets one of its own vendor.
func mainModels() []string {
	return []string{"gpt-5", "gpt-4.1", "claude-sonnet-4-5", "gemini-2.5-pro"}
}

// asideModels are the small models that agents use by themselves.
func asideModels() []string {
	return []string{"claude-haiku-4-5", "claude-haiku-4-5-20251001", "gemini-2.5-flash", "gemini-2.5-flash-lite", "gpt-5-mini"}
}

// world is a tenant whose models one provider serves in one protocol.
type world struct {
	base     string // where clients find it, without a version
	key      string
	own      fakeprovider.Protocol // of the client
	upstream fakeprovider.Protocol // of the provider
	served   string                // the provider's name of the main model
	provider *fakeprovider.Provider
}

// newWorld makes one and waits until the node runs it. name must be one that may stand
// in the configuration.
func (g *gateway) newWorld(t *testing.T, name string, upstream fakeprovider.Protocol) *world {
	t.Helper()
	main, aside := servedBy(upstream)
	w := &world{base: g.url + "/" + name, upstream: upstream, served: main}
	w.provider = fakeprovider.New(fakeprovider.Config{
		Models: []string{main, aside}, OnlyListed: true, Strict: true, RecordBytes: 64 << 20,
	})
	server := httptest.NewServer(w.provider)
	t.Cleanup(server.Close)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	change := func() *adminv1.ChangeContext {
		return &adminv1.ChangeContext{
			Message: "clients", Confirm: []string{"LARGE_CHANGE"},
			Wait: &adminv1.Wait{QuorumPercent: 100, TimeoutMs: patience.Milliseconds()},
		}
	}
	if _, err := g.config.ApplyBundle(ctx, &adminv1.ApplyBundleRequest{
		Bundle: &adminv1.Bundle{Resources: resources(name, upstream, server.URL)}, Change: change(),
	}); err != nil {
		t.Fatalf("configure %s: %v", name, err)
	}
	caller, err := g.consumers.GetConsumer(ctx, &adminv1.GetConsumerRequest{Id: "caller", TenantId: name})
	if err != nil {
		t.Fatalf("find the consumer of %s: %v", name, err)
	}
	made, err := g.consumers.CreateConsumerAPIKey(ctx, &adminv1.CreateConsumerAPIKeyRequest{
		ConsumerApiKey: &configv1.ConsumerAPIKey{
			TenantId: caller.GetConsumer().GetTenantId(), ConsumerId: caller.GetConsumer().GetId(), Name: "main",
			Scopes: []configv1.Scope{configv1.Scope_SCOPE_INFERENCE, configv1.Scope_SCOPE_MODELS},
		},
		Change: change(),
	})
	if err != nil {
		t.Fatalf("make a key for %s: %v", name, err)
	}
	w.key = made.GetSecret()
	return w
}

// capability is how a provider at url serves a protocol.
func capability(p fakeprovider.Protocol, url string) *configv1.Capability {
	switch p {
	case fakeprovider.Chat:
		return &configv1.Capability{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: url + "/v1"}
	case fakeprovider.Responses:
		return &configv1.Capability{Protocol: configv1.Protocol_PROTOCOL_OPENAI_RESPONSES, BaseUrl: url + "/v1"}
	case fakeprovider.Anthropic:
		return &configv1.Capability{Protocol: configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES, BaseUrl: url}
	default:
		return &configv1.Capability{Protocol: configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT, BaseUrl: url}
	}
}

func resources(tenant string, upstream fakeprovider.Protocol, url string) []*adminv1.BundleResource {
	out := []*adminv1.BundleResource{
		{Resource: &adminv1.BundleResource_Tenant{Tenant: &configv1.Tenant{Name: tenant}}},
		{Resource: &adminv1.BundleResource_Provider{Provider: &configv1.Provider{
			TenantId: tenant, Name: "scripted", AllowPlaintext: true, AllowPrivateAddress: true,
			Capabilities: []*configv1.Capability{capability(upstream, url)},
		}}},
		{Resource: &adminv1.BundleResource_Upstream{Upstream: &configv1.Upstream{
			TenantId: tenant, Name: "scripted", ProviderId: "scripted", GroupId: "default",
		}}},
		{Resource: &adminv1.BundleResource_UpstreamCredential{UpstreamCredential: &configv1.UpstreamCredential{
			TenantId: tenant, Name: "only", UpstreamId: "scripted", Secret: "sk-upstream-" + tenant,
		}}},
		{Resource: &adminv1.BundleResource_Route{Route: &configv1.Route{
			TenantId: tenant, Name: "main", PathPrefix: "/" + tenant, ConsumerApiKeys: true,
		}}},
		{Resource: &adminv1.BundleResource_Consumer{Consumer: &configv1.Consumer{TenantId: tenant, Name: "caller"}}},
	}
	main, aside := servedBy(upstream)
	for served, names := range map[string][]string{main: mainModels(), aside: asideModels()} {
		for _, name := range names {
			out = append(out, &adminv1.BundleResource{Resource: &adminv1.BundleResource_UpstreamModel{UpstreamModel: &configv1.UpstreamModel{
				TenantId: tenant, UpstreamId: "scripted", Model: name, UpstreamModel: served,
			}}})
		}
	}
	return out
}
