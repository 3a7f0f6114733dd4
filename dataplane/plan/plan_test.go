package plan

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

const chat = configv1.Protocol_PROTOCOL_OPENAI_CHAT

func shard() *syncv1.TenantShard {
	return &syncv1.TenantShard{
		Tenant: &configv1.Tenant{Id: "ten_1"},
		Groups: []*configv1.Group{{Id: "grp_1", Name: "default"}},
		Providers: []*configv1.Provider{{Id: "prv_1", Name: "one", Capabilities: []*configv1.Capability{
			{Protocol: chat, BaseUrl: "https://one.example/v1"},
			{Protocol: configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES, BaseUrl: "https://one.example", Models: []string{"up-b"}},
		}}},
		Upstreams: []*configv1.Upstream{
			{Id: "upr_1", ProviderId: "prv_1", GroupId: "grp_1", Priority: 2, Weight: 5},
			{Id: "upr_2", ProviderId: "prv_1", GroupId: "grp_1", BaseUrls: []*configv1.BaseURL{{Protocol: chat, Url: "https://eu.one.example/v1"}}},
		},
		Credentials: []*configv1.UpstreamCredential{
			{Id: "crd_1", UpstreamId: "upr_1", Priority: proto.Int32(1)},
			{Id: "crd_2", UpstreamId: "upr_1", Weight: proto.Int32(9), Models: []string{"a"}, QuotaGroup: "shared"},
		},
		Models: []*configv1.UpstreamModel{
			{Id: "upm_1a", UpstreamId: "upr_1", Model: "a", UpstreamModel: "up-a"},
			{Id: "upm_1b", UpstreamId: "upr_1", Model: "b", UpstreamModel: "up-b"},
			{Id: "upm_1x", UpstreamId: "upr_1", Model: "alias", AliasOf: "a"},
			{Id: "upm_2a", UpstreamId: "upr_2", Model: "a"},
		},
	}
}

func expand(t *testing.T, s *syncv1.TenantShard, model string, p configv1.Protocol, method auth.Method) []Candidate {
	t.Helper()
	v, err := snapshot.Static([]snapshot.TenantBuilder{Builder()}, nil, s)
	if err != nil {
		t.Fatal(err)
	}
	who := &auth.Principal{Method: method, Tenant: v.Tenant("ten_1")}
	return Expand(v, who, resolve.Decision{Requested: model, Model: model}, p)
}

func ids(cs []Candidate) []string {
	var out []string
	for _, c := range cs {
		out = append(out, c.ID)
	}
	return out
}

func TestEveryCredentialThatMayServeTheModelIsACandidate(t *testing.T) {
	t.Parallel()
	for model, want := range map[string][]string{
		"a":       {"upm_1a/crd_1", "upm_1a/crd_2", "upm_2a"}, // an upstream without credentials is one candidate
		"b":       {"upm_1b/crd_1"},                           // crd_2 may not serve it
		"alias":   {"upm_1a/crd_1", "upm_1a/crd_2"},           // an alias leads to the model's own accounts
		"unknown": nil,
	} {
		if got := ids(expand(t, shard(), model, chat, auth.APIKey)); !slices.Equal(got, want) {
			t.Errorf("%s: candidates %v, want %v", model, got, want)
		}
	}
}

func TestCredentialsOwnValuesComeBeforeTheUpstreams(t *testing.T) {
	t.Parallel()
	cs := expand(t, shard(), "a", chat, auth.APIKey)
	if cs[0].Priority != 1 || cs[0].Weight != 5 {
		t.Errorf("crd_1 has priority %d and weight %d, want its own 1 and the upstream's 5", cs[0].Priority, cs[0].Weight)
	}
	if cs[1].Priority != 2 || cs[1].Weight != 9 || cs[1].QuotaKey == cs[1].CredentialKey {
		t.Errorf("crd_2 has priority %d, weight %d, quota key %q", cs[1].Priority, cs[1].Weight, cs[1].QuotaKey)
	}
	if cs[2].Priority != 1 || cs[2].Weight != 1 {
		t.Errorf("an upstream that says nothing has priority %d and weight %d, want 1 and 1", cs[2].Priority, cs[2].Weight)
	}
}

func TestProtocolAndAddressAreTheCapabilitysOrTheUpstreams(t *testing.T) {
	t.Parallel()
	cs := expand(t, shard(), "a", chat, auth.APIKey)
	if cs[0].BaseURL != "https://one.example/v1" || cs[2].BaseURL != "https://eu.one.example/v1" {
		t.Errorf("addresses %q and %q", cs[0].BaseURL, cs[2].BaseURL)
	}
	if cs[0].UpstreamModel() != "up-a" || cs[2].UpstreamModel() != "a" {
		t.Errorf("upstream models %q and %q", cs[0].UpstreamModel(), cs[2].UpstreamModel())
	}
	anthropic := configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES
	if c := expand(t, shard(), "a", anthropic, auth.APIKey)[0]; c.Capability != nil {
		t.Error("a model that the capability does not list is served in its protocol")
	}
	if c := expand(t, shard(), "b", anthropic, auth.APIKey)[0]; c.Capability == nil {
		t.Error("a model that the capability lists is not served in its protocol")
	}
	if c := expand(t, shard(), "a", configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT, auth.APIKey)[0]; c.Capability != nil {
		t.Error("a protocol that the provider does not speak has a capability")
	}
}

func TestPassthroughHasOneCandidateWithoutCredentialForEachUpstream(t *testing.T) {
	t.Parallel()
	cs := expand(t, shard(), "a", chat, auth.Passthrough)
	if want := []string{"upm_1a", "upm_2a"}; !slices.Equal(ids(cs), want) {
		t.Fatalf("candidates %v, want %v", ids(cs), want)
	}
	for _, c := range cs {
		if c.Credential != nil {
			t.Errorf("%s has the credential %s: a secret of ours would go out for a caller's own key", c.ID, c.CredentialID())
		}
	}
}

func TestDisabledAliasIsNoWayToItsModel(t *testing.T) {
	t.Parallel()
	s := shard()
	s.Models[2].Disabled = true
	if got := ids(expand(t, s, "alias", chat, auth.APIKey)); got != nil {
		t.Errorf("a disabled alias has the candidates %v", got)
	}
}

// Models that a policy lists may answer for callers who may ask for them; those that a
// logical route leads to, for all who may ask for what the route takes.
func TestChainModelsNeedTheCallersListUnlessARouteLeadsThere(t *testing.T) {
	t.Parallel()
	v, err := snapshot.Static([]snapshot.TenantBuilder{Builder()}, nil, &syncv1.TenantShard{
		Tenant:    &configv1.Tenant{Id: "ten_1"},
		Upstreams: []*configv1.Upstream{{Id: "upr_1", ProviderId: "prv_1"}},
		Models: []*configv1.UpstreamModel{
			{Id: "upm_1", UpstreamId: "upr_1", Model: "asked"}, {Id: "upm_2", UpstreamId: "upr_1", Model: "other"}, {Id: "upm_3", UpstreamId: "upr_1", Model: "led"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &auth.Principal{Tenant: v.Tenant("ten_1"), Key: &snapshot.Key{Allowed: snapshot.NewNameSet(&configv1.NameList{Names: []string{"asked"}})}}
	list := Expand(v, p, resolve.Decision{Requested: "asked", Model: "asked", Chain: []resolve.Target{{Model: "other"}, {Model: "led", Granted: true}}}, configv1.Protocol_PROTOCOL_OPENAI_CHAT)
	got := make(map[string]bool)
	for _, c := range list {
		got[c.Model.GetModel()] = c.Denied
	}
	if len(got) != 3 || got["asked"] || !got["other"] || got["led"] {
		t.Errorf("denied: %v, want other alone", got)
	}
}
