package configcheck

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

const (
	t1 = "ten_1"
	t2 = "ten_2"
)

// A public key made for these tests alone.
const testJWKS = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","alg":"EdDSA","use":"sig","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`

var (
	sum1 = strings.Repeat("a1", 32)
	sum2 = strings.Repeat("b2", 32)
)

func newChecker(t testing.TB, cfg Config) *Checker {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func at(hour int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC))
}

func price(from, until *timestamppb.Timestamp, id string) *configv1.ProviderPricing {
	return &configv1.ProviderPricing{
		Id: id, ProviderId: "prv_1", Model: "gpt-5*", EffectiveFrom: from, EffectiveUntil: until, Currency: "USD", Published: true,
		Items: []*configv1.PriceItem{{Component: configv1.PriceComponent_PRICE_COMPONENT_INPUT, PerMtokNanos: 1_250_000_000}},
	}
}

// tenantFixture uses every kind of resource of a tenant.
func tenantFixture(id, host string) *syncv1.TenantShard {
	return &syncv1.TenantShard{
		Tenant:    &configv1.Tenant{Id: id, Name: "acme", PolicyId: "pol_1"},
		Providers: []*configv1.Provider{{Id: "prv_own", TenantId: id, Name: "local", AllowPlaintext: true, AllowPrivateAddress: true, Capabilities: []*configv1.Capability{{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "http://127.0.0.1:8000/v1"}}}},
		Groups: []*configv1.Group{
			{Id: "grp_1", TenantId: id, Name: "default", FallbackGroups: []string{"grp_2"}},
			{Id: "grp_2", TenantId: id, Name: "spare"},
		},
		Upstreams: []*configv1.Upstream{
			{Id: "upr_1", TenantId: id, Name: "main", ProviderId: "prv_1", GroupId: "grp_1", BaseUrls: []*configv1.BaseURL{{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, Url: "https://eu.example.com/v1"}}, Proxy: &configv1.EgressProxy{Url: "socks5://proxy.example.com:1080"}},
			{Id: "upr_2", TenantId: id, Name: "local", ProviderId: "prv_own", GroupId: "grp_2"},
		},
		Credentials: []*configv1.UpstreamCredential{
			{Id: "crd_1", TenantId: id, Name: "a", UpstreamId: "upr_1", Models: []string{"gpt-5"}},
			{Id: "crd_2", TenantId: id, Name: "b", UpstreamId: "upr_1", Kind: configv1.CredentialKind_CREDENTIAL_KIND_OAUTH2_CLIENT, Source: &configv1.UpstreamCredential_Oauth2Client{Oauth2Client: &configv1.OAuth2Client{TokenUrl: "https://login.example.com/token", ClientId: "x"}}},
		},
		Models: []*configv1.UpstreamModel{
			{Id: "upm_1", TenantId: id, UpstreamId: "upr_1", Model: "gpt-5"},
			{Id: "upm_2", TenantId: id, UpstreamId: "upr_1", Model: "best", AliasOf: "gpt-5"},
			{Id: "upm_3", TenantId: id, UpstreamId: "upr_2", Model: "meta/llama"},
		},
		Routes: []*configv1.Route{
			{Id: "rte_1", TenantId: id, Name: "main", Host: host, PathPrefix: "/ai", GroupIds: []string{"grp_1"}, FallbackGroups: []string{"grp_2"}, ConsumerApiKeys: true, JwtIssuers: []string{"iss_" + id}, PolicyId: "pol_1", DataLabel: "internal", Scheduling: &configv1.SchedulingPolicy{Models: []string{"meta/llama"}, Providers: []string{"prv_own"}}},
			{Id: "rte_2", TenantId: id, Name: "legacy", Host: host, PathPrefix: "/", LegacyBearerAuthTokens: []*configv1.LegacyToken{{Sha256: sum2, Label: "old"}}},
		},
		RoutePlugins:    []*configv1.RoutePluginConfig{{Id: "rpc_1", TenantId: id, RouteId: "rte_1", PluginKey: "guard.pii", Payload: &structpb.Struct{}}},
		ProviderPlugins: []*configv1.ProviderPluginConfig{{Id: "ppc_1", TenantId: id, UpstreamId: "upr_1", PluginKey: "bounds"}},
		LogicalRoutes: []*configv1.LogicalRoute{
			{
				Id: "lrt_1", TenantId: id, Name: "fast", Order: 1, Match: &configv1.ModelMatch{Model: "fast"}, RouteIds: []string{"rte_1"},
				Condition: &configv1.Condition{Node: &configv1.Condition_All{All: &configv1.Conditions{Conditions: []*configv1.Condition{
					compare(configv1.ConditionField_CONDITION_FIELD_PROMPT_TOKENS, "", opLess, &configv1.Literal{Value: &configv1.Literal_IntValue{IntValue: 1000}}),
					{Node: &configv1.Condition_Not{Not: compare(configv1.ConditionField_CONDITION_FIELD_HEADER, "x-team", opIn, &configv1.Literal{Value: &configv1.Literal_ListValue{ListValue: &configv1.StringList{Values: []string{"a"}}}})}},
				}}}},
				Targets:  []*configv1.RouteTarget{{Model: "meta/llama"}, {Model: "openai/gpt-5", Order: 1}, {Model: "smart", Order: 2}},
				Rewrites: []*configv1.Rewrite{{Operation: configv1.RewriteOperation_REWRITE_OPERATION_CLAMP, Field: configv1.RewriteField_REWRITE_FIELD_MAX_OUTPUT_TOKENS, Max: proto.Int64(100)}},
			},
			{Id: "lrt_2", TenantId: id, Name: "smart", Order: 2, Match: &configv1.ModelMatch{Prefixes: []string{"smart"}}, Targets: []*configv1.RouteTarget{{Model: "gpt-5"}}},
			{Id: "lrt_3", TenantId: id, Name: "all", Order: 3, Targets: []*configv1.RouteTarget{{Model: "gpt-5"}}},
		},
		Policies: []*configv1.Policy{{
			Id: "pol_1", TenantId: id, Name: "usual", AllowedCidrs: &configv1.NameList{Names: []string{"10.0.0.0/8", "2001:db8::/32"}}, MaxDataLabel: "confidential",
			Limits: []*configv1.Limit{
				{Name: "rpm", Dimension: configv1.LimitDimension_LIMIT_DIMENSION_REQUESTS, Amount: 100, Window: &configv1.Window{Kind: configv1.WindowKind_WINDOW_KIND_RATE, Unit: configv1.WindowUnit_WINDOW_UNIT_MINUTE}},
				{Name: "day", Dimension: configv1.LimitDimension_LIMIT_DIMENSION_COST, Amount: 100, Window: &configv1.Window{Kind: configv1.WindowKind_WINDOW_KIND_CALENDAR, Unit: configv1.WindowUnit_WINDOW_UNIT_DAY, TimeZone: "Europe/Berlin"}},
				{Name: "atonce", Dimension: configv1.LimitDimension_LIMIT_DIMENSION_CONCURRENT, Amount: 5},
			},
		}},
		Budgets:        []*configv1.Budget{{Id: "bud_1", TenantId: id, Name: "month", Currency: "USD", AmountNanos: 1, Window: configv1.BudgetWindow_BUDGET_WINDOW_MONTH, TimeZone: "UTC"}},
		CreditAccounts: []*configv1.CreditAccount{{Id: "cra_1", TenantId: id, Name: "prepaid", ConsumerId: "con_" + id, Currency: "USD"}},
		PriceBook: []*configv1.PriceBookEntry{{
			Id: "pbk_1", TenantId: id, Model: "gpt-5", EffectiveFrom: at(0), Currency: "USD", Published: true,
			Items: []*configv1.PriceItem{
				{Component: configv1.PriceComponent_PRICE_COMPONENT_INPUT, ContextMaxTokens: 200000, PerMtokNanos: 1},
				{Component: configv1.PriceComponent_PRICE_COMPONENT_INPUT, ContextMinTokens: 200000, PerMtokNanos: 2},
			},
		}},
	}
}

func compare(f configv1.ConditionField, key string, op configv1.ConditionOperator, lit *configv1.Literal) *configv1.Condition {
	return &configv1.Condition{Node: &configv1.Condition_Compare{Compare: &configv1.Comparison{Field: f, Key: key, Operator: op, Literal: lit}}}
}

// fixture is a valid configuration of two tenants that uses every kind of shard.
func fixture() *View {
	v := NewView()
	v.GlobalShard = &syncv1.GlobalShard{
		Providers: []*configv1.Provider{{
			Id: "prv_1", Name: "openai",
			Capabilities: []*configv1.Capability{
				{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "https://api.openai.com/v1", Headers: []*configv1.HeaderOverride{{Name: "OpenAI-Organization", Action: configv1.HeaderAction_HEADER_ACTION_SET, Value: "org"}}, Extra: []*configv1.ExtraParams{{ExtraBodyJson: `{"a":1}`}}},
				{Protocol: configv1.Protocol_PROTOCOL_OPENAI_RESPONSES, BaseUrl: "https://api.openai.com/v1"},
			},
		}},
		SharedRoutes:    []*configv1.Route{{Id: "rte_s", Name: "shared", Host: "shared.example.com", PathPrefix: "/", ConsumerApiKeys: true, JwtIssuers: []string{"iss_" + t1}}},
		RoutePlugins:    []*configv1.RoutePluginConfig{{Id: "rpc_s", RouteId: "rte_s", PluginKey: "network"}},
		ProviderPlugins: []*configv1.ProviderPluginConfig{{Id: "ppc_s", ProviderId: "prv_1", PluginKey: "data"}},
		Pricing:         []*configv1.ProviderPricing{price(at(0), at(1), "prc_1"), price(at(1), nil, "prc_2"), price(at(2), nil, "prc_3")},
		Scheduling:      &configv1.SchedulingPolicy{Providers: []string{"prv_1"}, Spillover: proto.Float64(0.7)},
	}
	for i, id := range []string{t1, t2} {
		v.Tenants[id] = tenantFixture(id, fmt.Sprintf("h%d.example.com", i))
		v.Credentials[id] = &syncv1.CredentialShard{TenantId: id, Secrets: []*syncv1.SealedSecret{
			{CredentialId: "crd_1", Sealed: []byte{1}},
			{CredentialId: "crd_2", SecretRef: "env:AIDY_SECRET_X"},
			{UpstreamId: "upr_1", SealedProxy: []byte{2}},
		}}
		v.Subjects[SubjectKey{syncv1.SubjectKind_SUBJECT_KIND_TENANT, id}] = &syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_TENANT, Id: id, TenantId: id, MaxAuthStalenessS: 60}
		v.Subjects[SubjectKey{syncv1.SubjectKind_SUBJECT_KIND_PROJECT, "prj_" + id}] = &syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_PROJECT, Id: "prj_" + id, TenantId: id, PolicyId: "pol_1"}
		v.Subjects[SubjectKey{syncv1.SubjectKind_SUBJECT_KIND_CONSUMER, "con_" + id}] = &syncv1.SubjectRecord{
			Kind: syncv1.SubjectKind_SUBJECT_KIND_CONSUMER, Id: "con_" + id, TenantId: id, ProjectId: "prj_" + id, GroupIds: []string{"grp_1", "grp_2"}, PolicyId: "pol_1",
			Claims: []*configv1.ClaimMapping{{Claim: "sub", Value: "bot", IssuerId: "iss_" + id}}, Name: "bot",
		}
		v.Issuers["iss_"+id] = &syncv1.IssuerRecord{Issuer: &configv1.JWTIssuer{
			Id: "iss_" + id, TenantId: id, Name: "login", Issuer: "https://login.example.com", Audiences: []string{"gw"}, JwksJson: testJWKS,
			Scopes: []configv1.Scope{configv1.Scope_SCOPE_CHAT}, GroupIds: []string{"grp_1"},
		}}
	}
	v.Keys[sum1] = &syncv1.KeyRecord{Sha256: sum1, TenantId: t1, Holder: &syncv1.KeyRecord_ConsumerKey{ConsumerKey: &configv1.ConsumerAPIKey{
		Id: "key_1", TenantId: t1, Name: "ci", ConsumerId: "con_" + t1, Scopes: []configv1.Scope{configv1.Scope_SCOPE_CHAT}, GroupIds: []string{"grp_1"}, ProjectId: "prj_" + t1, PolicyId: "pol_1", IssuerRouteId: "rte_1",
	}}}
	v.Keys[sum2] = &syncv1.KeyRecord{Sha256: sum2, TenantId: t1, Holder: &syncv1.KeyRecord_RouteToken{RouteToken: &syncv1.RouteToken{RouteId: "rte_2", Label: "old"}}}
	return v
}
