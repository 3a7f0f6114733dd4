package controlplane

import (
	"testing"

	"connectrpc.com/connect/v2"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

func TestTheSameBundleTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, pg.URL(t), nil)
	tenants := adminv1connect.NewTenantServiceClient(connect.NewClient(s.AdminTransport()))
	made, err := tenants.CreateTenant(t.Context(), &adminv1.CreateTenantRequest{Tenant: &configv1.Tenant{Name: "acme"}})
	if err != nil {
		t.Fatal(err)
	}
	if made.GetResult().GetGeneration() != 1 {
		t.Errorf("the first change is generation %d, want 1", made.GetResult().GetGeneration())
	}
	config := adminv1connect.NewConfigServiceClient(s.rpc(ownerToken))
	res, err := config.ApplyBundle(t.Context(), &adminv1.ApplyBundleRequest{Bundle: testBundle()})
	if err != nil {
		t.Fatal(err)
	}
	if res.GetCreated() != 8 { // the default group comes with its tenant
		t.Errorf("created %d resources, want 8", res.GetCreated())
	}
	again, err := config.ApplyBundle(t.Context(), &adminv1.ApplyBundleRequest{Bundle: testBundle()})
	if err != nil {
		t.Fatal(err)
	}
	if !again.GetResult().GetUnchanged() || again.GetUnchanged() != 7 {
		t.Errorf("the same bundle again: unchanged %v, %d resources; want true, 7", again.GetResult().GetUnchanged(), again.GetUnchanged())
	}
}

func testBundle() *adminv1.Bundle {
	of := func(r *adminv1.BundleResource) *adminv1.BundleResource { return r }
	return &adminv1.Bundle{Owner: "seed", Resources: []*adminv1.BundleResource{
		of(&adminv1.BundleResource{Resource: &adminv1.BundleResource_Tenant{Tenant: &configv1.Tenant{Name: "dev"}}}),
		of(&adminv1.BundleResource{Resource: &adminv1.BundleResource_Provider{Provider: &configv1.Provider{
			Name: "builtin", AllowPlaintext: true, AllowPrivateAddress: true,
			Capabilities: []*configv1.Capability{{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "http://127.0.0.1:9999/v1"}},
		}}}),
		of(&adminv1.BundleResource{Resource: &adminv1.BundleResource_Upstream{Upstream: &configv1.Upstream{TenantId: "dev", Name: "main", ProviderId: "builtin", GroupId: "default"}}}),
		of(&adminv1.BundleResource{Resource: &adminv1.BundleResource_UpstreamCredential{UpstreamCredential: &configv1.UpstreamCredential{TenantId: "dev", UpstreamId: "main", Name: "key-1", Secret: "sk-upstream-secret-1"}}}),
		of(&adminv1.BundleResource{Resource: &adminv1.BundleResource_UpstreamModel{UpstreamModel: &configv1.UpstreamModel{TenantId: "dev", UpstreamId: "main", Model: "aidy-small"}}}),
		of(&adminv1.BundleResource{Resource: &adminv1.BundleResource_Route{Route: &configv1.Route{TenantId: "dev", Name: "main", PathPrefix: "/", GroupIds: []string{"default"}, ConsumerApiKeys: true}}}),
		of(&adminv1.BundleResource{Resource: &adminv1.BundleResource_Consumer{Consumer: &configv1.Consumer{TenantId: "dev", Name: "app"}}}),
	}}
}
