package configcheck

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

func TestAValidConfigurationHasNoViolation(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{}, {CrossDomain: true}} {
		for _, v := range newChecker(t, cfg).Check(fixture()) {
			t.Errorf("%+v: %v", cfg, v)
		}
	}
}

// Each case breaks one rule and nothing else.
func TestEachRuleIsToldWithKindNamePathAndHint(t *testing.T) {
	t.Parallel()
	type tenant = *syncv1.TenantShard
	checker := newChecker(t, Config{CrossDomain: true})
	for _, tc := range []struct {
		rule, kind, path string
		breakIt          func(v *View, t tenant)
	}{
		{"shard.features", "TenantShard", "required_features", func(_ *View, t tenant) { t.RequiredFeatures = 1 << 63 }},
		{"shard.features", "GlobalShard", "required_features", func(v *View, _ tenant) { v.GlobalShard.RequiredFeatures = 2 }},
		{"group.default", "Tenant", "groups", func(_ *View, t tenant) { t.Groups[0].Name = "other" }},
		{"group.cycle", "Group", "fallback_groups", func(_ *View, t tenant) { t.Groups[1].FallbackGroups = []string{"grp_2"} }},
		{"ref.missing", "Group", "fallback_groups[0]", func(_ *View, t tenant) { t.Groups[1].FallbackGroups = []string{"grp_9"} }},
		{"unique", "Group", "name", func(_ *View, t tenant) {
			t.Groups = append(t.Groups, &configv1.Group{Id: "grp_3", TenantId: t1, Name: "spare"})
		}},
		{"ref.tenant", "Group", "tenant_id", func(_ *View, t tenant) { t.Groups[1].TenantId = t2 }},
		{"unique", "Group", "id", func(_ *View, t tenant) {
			t.Groups = append(t.Groups, &configv1.Group{Id: "grp_2", TenantId: t1, Name: "third"})
		}},
		{"string.pattern", "Group", "name", func(_ *View, t tenant) { t.Groups[1].Name = "Not Allowed" }},
		{"capability.duplicate", "Provider", "capabilities[1].protocol", func(v *View, _ tenant) {
			v.GlobalShard.Providers[0].Capabilities = append(v.GlobalShard.Providers[0].Capabilities[:1], v.GlobalShard.Providers[0].Capabilities[0])
		}},
		{"url.plaintext", "Provider", "capabilities[0].base_url", func(_ *View, t tenant) { t.Providers[0].AllowPlaintext = false }},
		{"url.private_address", "Provider", "capabilities[0].base_url", func(_ *View, t tenant) { t.Providers[0].AllowPrivateAddress = false }},
		{"url.user_info", "Provider", "capabilities[0].base_url", func(v *View, _ tenant) {
			v.GlobalShard.Providers[0].Capabilities[0].BaseUrl = "https://u:p@example.com/v1"
		}},
		{"url.query", "Provider", "capabilities[0].base_url", func(v *View, _ tenant) {
			v.GlobalShard.Providers[0].Capabilities[0].BaseUrl = "https://example.com/v1?a=b"
		}},
		{"url.fragment", "Provider", "capabilities[0].base_url", func(v *View, _ tenant) {
			v.GlobalShard.Providers[0].Capabilities[0].BaseUrl = "https://example.com/v1#"
		}},
		{"url.port", "Provider", "capabilities[0].base_url", func(v *View, _ tenant) {
			v.GlobalShard.Providers[0].Capabilities[0].BaseUrl = "https://example.com:70000/v1"
		}},
		{"json.object", "Provider", "capabilities[0].extra[0].extra_body_json", func(v *View, _ tenant) {
			v.GlobalShard.Providers[0].Capabilities[0].Extra[0].ExtraBodyJson = `{"a":1,"a":2}`
		}},
		{"header.forbidden", "Provider", "capabilities[0].headers[0].name", func(v *View, _ tenant) {
			v.GlobalShard.Providers[0].Capabilities[0].Headers[0].Name = "authorization"
		}},
		{"header.forbidden", "Upstream", "request_header_overrides[0].name", func(_ *View, t tenant) {
			t.Upstreams[0].RequestHeaderOverrides = []*configv1.HeaderOverride{{Name: "X-Gateway-Foo", Action: configv1.HeaderAction_HEADER_ACTION_REMOVE}}
		}},
		{"header.value", "Upstream", "headers[0].value", func(_ *View, t tenant) {
			t.Upstreams[0].Headers = []*configv1.HeaderOverride{{Name: "X-Foo", Action: configv1.HeaderAction_HEADER_ACTION_PASS, Value: "v"}}
		}},
		{"ref.missing", "Upstream", "provider_id", func(_ *View, t tenant) { t.Upstreams[1].ProviderId = "prv_9"; t.Routes[0].Scheduling = nil }},
		{"ref.missing", "Upstream", "group_id", func(_ *View, t tenant) { t.Upstreams[1].GroupId = "grp_9" }},
		{"upstream.protocol", "Upstream", "base_urls[0].protocol", func(_ *View, t tenant) {
			t.Upstreams[0].BaseUrls[0].Protocol = configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES
		}},
		{"url.private_address", "Upstream", "base_urls[0].url", func(_ *View, t tenant) { t.Upstreams[0].BaseUrls[0].Url = "https://169.254.169.254/v1" }},
		{"url.private_address", "Upstream", "proxy.url", func(_ *View, t tenant) { t.Upstreams[0].Proxy.Url = "http://localhost:3128" }},
		{"url.path", "Upstream", "proxy.url", func(_ *View, t tenant) { t.Upstreams[0].Proxy.Url = "http://proxy.example.com/x" }},
		{"label.unknown", "Upstream", "max_data_label", func(_ *View, t tenant) { t.Upstreams[0].MaxDataLabel = "cosmic" }},
		{"int32.gte_lte", "Upstream", "weight", func(_ *View, t tenant) { t.Upstreams[0].Weight = 10001 }},
		{"ref.missing", "UpstreamCredential", "models[0]", func(_ *View, t tenant) { t.Credentials[0].Models = []string{"gpt-9"} }},
		{"ref.missing", "UpstreamCredential", "upstream_id", func(_ *View, t tenant) { t.Credentials[0].UpstreamId = "upr_9" }},
		{"credential.source", "UpstreamCredential", "aws_sigv4", func(_ *View, t tenant) {
			t.Credentials[0].Kind = configv1.CredentialKind_CREDENTIAL_KIND_AWS_SIGV4
		}},
		{"credential.source", "UpstreamCredential", "oauth2_client", func(_ *View, t tenant) { t.Credentials[1].Kind = 0 }},
		{"url.private_address", "UpstreamCredential", "oauth2_client.token_url", func(_ *View, t tenant) {
			t.Credentials[1].GetOauth2Client().TokenUrl = "https://[::1]/token"
		}},
		{"limits.rpm_le_rpd", "UpstreamCredential", "limits", func(_ *View, t tenant) {
			t.Credentials[0].Limits = &configv1.Limits{Rpm: proto.Int64(5), Rpd: proto.Int64(4)}
		}},
		{"unique", "UpstreamModel", "model", func(_ *View, t tenant) {
			t.Models = append(t.Models, &configv1.UpstreamModel{Id: "upm_9", TenantId: t1, UpstreamId: "upr_1", Model: "gpt-5"})
		}},
		{"model.alias_chain", "UpstreamModel", "alias_of", func(_ *View, t tenant) {
			t.Models = append(t.Models, &configv1.UpstreamModel{Id: "upm_9", TenantId: t1, UpstreamId: "upr_1", Model: "x", AliasOf: "best"})
		}},
		{"ref.missing", "UpstreamModel", "alias_of", func(_ *View, t tenant) { t.Models[1].AliasOf = "meta/llama" }},
		{"route.place_taken", "Route", "path_prefix", func(_ *View, t tenant) {
			t.Routes[1].Host = "shared.example.com."
		}},
		{"route.path", "Route", "path_prefix", func(_ *View, t tenant) { t.Routes[0].PathPrefix = "/a/../b" }},
		{"route.fallback_group", "Route", "fallback_groups[0]", func(_ *View, t tenant) { t.Routes[0].FallbackGroups = []string{"grp_1"} }},
		{"ref.missing", "Route", "group_ids[0]", func(_ *View, t tenant) { t.Routes[0].GroupIds = []string{"grp_9"}; t.Routes[0].FallbackGroups = nil }},
		{"ref.missing", "Route", "jwt_issuers[0]", func(_ *View, t tenant) { t.Routes[0].JwtIssuers = []string{"iss_" + t2} }},
		{"ref.missing", "Route", "policy_id", func(_ *View, t tenant) { t.Routes[0].PolicyId = "pol_9" }},
		{"ref.missing", "Route", "scheduling.models[0]", func(_ *View, t tenant) { t.Routes[0].Scheduling.Models[0] = "nothing" }},
		{"ref.missing", "Route", "scheduling.providers[0]", func(_ *View, t tenant) { t.Routes[0].Scheduling.Providers[0] = "prv_9" }},
		{"route.required_label", "Route", "labels", func(_ *View, t tenant) {
			t.Tenant.RequiredLabelKeys = []string{"cost-center"}
			t.Routes[0].Labels = map[string]string{"cost-center": "7"}
		}},
		{"label.unknown", "Route", "data_label", func(_ *View, t tenant) { t.Routes[0].DataLabel = "cosmic" }},
		{"route.shared_auth", "Route", "disable_auth", func(v *View, _ tenant) { v.GlobalShard.SharedRoutes[0].DisableAuth = true }},
		{"route.shared_ref", "Route", "group_ids", func(v *View, _ tenant) { v.GlobalShard.SharedRoutes[0].GroupIds = []string{"grp_1"} }},
		{"plugin.unknown", "RoutePluginConfig", "plugin_key", func(_ *View, t tenant) { t.RoutePlugins[0].PluginKey = "guard.rot13" }},
		{"plugin.depth", "RoutePluginConfig", "payload", func(_ *View, t tenant) {
			s := &structpb.Struct{}
			for range MaxPluginDepth {
				s = &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewStructValue(s)}}
			}
			t.RoutePlugins[0].Payload = s
		}},
		{"ref.missing", "RoutePluginConfig", "route_id", func(_ *View, t tenant) { t.RoutePlugins[0].RouteId = "rte_9" }},
		{"unique", "RoutePluginConfig", "plugin_key", func(_ *View, t tenant) {
			t.RoutePlugins = append(t.RoutePlugins, &configv1.RoutePluginConfig{Id: "rpc_2", TenantId: t1, RouteId: "rte_1", PluginKey: "guard.pii"})
		}},
		{"provider_plugin.owner", "ProviderPluginConfig", "", func(_ *View, t tenant) { t.ProviderPlugins[0].ProviderId = "prv_own" }},
		{"unique", "LogicalRoute", "order", func(_ *View, t tenant) { t.LogicalRoutes[1].Order = 1 }},
		{"logical.target", "LogicalRoute", "targets[0].model", func(_ *View, t tenant) { t.LogicalRoutes[0].Targets[0].Model = "nothing" }},
		{"logical.cycle", "LogicalRoute", "targets", func(_ *View, t tenant) { t.LogicalRoutes[1].Targets[0].Model = "fast" }},
		{"logical.match", "LogicalRoute", "match", func(_ *View, t tenant) { t.LogicalRoutes[2].Match = &configv1.ModelMatch{} }},
		{"condition.depth", "LogicalRoute", "condition" + strings.Repeat(".not", 8), func(_ *View, t tenant) {
			c := compare(configv1.ConditionField_CONDITION_FIELD_TASK, "", opEqual, &configv1.Literal{Value: &configv1.Literal_StringValue{StringValue: "x"}})
			for range MaxConditionDepth {
				c = &configv1.Condition{Node: &configv1.Condition_Not{Not: c}}
			}
			t.LogicalRoutes[0].Condition = c
		}},
		{"condition.nodes", "LogicalRoute", "condition", func(_ *View, t tenant) {
			all := t.LogicalRoutes[0].GetCondition().GetAll()
			for range MaxConditionNodes - 2 {
				all.Conditions = append(all.Conditions, all.Conditions[0])
			}
			all.Conditions = all.Conditions[:MaxConditionNodes]
		}},
		{"condition.operator", "LogicalRoute", "condition.all.conditions[0].compare.operator", func(_ *View, t tenant) {
			t.LogicalRoutes[0].GetCondition().GetAll().Conditions[0].GetCompare().Operator = opPrefix
		}},
		{"condition.literal", "LogicalRoute", "condition.all.conditions[0].compare.literal", func(_ *View, t tenant) {
			t.LogicalRoutes[0].GetCondition().GetAll().Conditions[0].GetCompare().Literal = &configv1.Literal{Value: &configv1.Literal_BoolValue{}}
		}},
		{"condition.secret", "LogicalRoute", "condition.all.conditions[1].not.compare.key", func(_ *View, t tenant) {
			t.LogicalRoutes[0].GetCondition().GetAll().Conditions[1].GetNot().GetCompare().Key = "Authorization"
		}},
		{"condition.key", "LogicalRoute", "condition.all.conditions[0].compare.key", func(_ *View, t tenant) {
			t.LogicalRoutes[0].GetCondition().GetAll().Conditions[0].GetCompare().Key = "x"
		}},
		{"rewrite.operation", "LogicalRoute", "rewrites[0].operation", func(_ *View, t tenant) {
			t.LogicalRoutes[0].Rewrites[0].Field = configv1.RewriteField_REWRITE_FIELD_TOOL_CHOICE
		}},
		{"rewrite.clamp", "LogicalRoute", "rewrites[0].min", func(_ *View, t tenant) { t.LogicalRoutes[0].Rewrites[0].Min = proto.Int64(101) }},
		{"rewrite.clamp", "LogicalRoute", "rewrites[0].max", func(_ *View, t tenant) { t.LogicalRoutes[0].Rewrites[0].Max = proto.Int64(-1) }},
		{"rewrite.value", "LogicalRoute", "rewrites[0].value", func(_ *View, t tenant) {
			t.LogicalRoutes[0].Rewrites[0] = setting(configv1.RewriteField_REWRITE_FIELD_REASONING_EFFORT, &configv1.Literal{Value: &configv1.Literal_StringValue{StringValue: "enormous"}})
		}},
		{"rewrite.value", "LogicalRoute", "rewrites[0].value", func(_ *View, t tenant) {
			t.LogicalRoutes[0].Rewrites[0] = setting(configv1.RewriteField_REWRITE_FIELD_MAX_OUTPUT_TOKENS, &configv1.Literal{Value: &configv1.Literal_NumberValue{NumberValue: 0.5}})
		}},
		{"rewrite.value", "LogicalRoute", "rewrites[0].value", func(_ *View, t tenant) {
			t.LogicalRoutes[0].Rewrites[0] = setting(configv1.RewriteField_REWRITE_FIELD_TEMPERATURE, &configv1.Literal{Value: &configv1.Literal_NumberValue{NumberValue: 2.5}})
		}},
		{"header.forbidden", "LogicalRoute", "rewrites[0].key", func(_ *View, t tenant) {
			t.LogicalRoutes[0].Rewrites[0] = setting(configv1.RewriteField_REWRITE_FIELD_HEADER, &configv1.Literal{Value: &configv1.Literal_StringValue{StringValue: "x"}})
			t.LogicalRoutes[0].Rewrites[0].Key = "X-Gateway-Class"
		}},
		{"header.name", "LogicalRoute", "rewrites[0].key", func(_ *View, t tenant) {
			t.LogicalRoutes[0].Rewrites[0] = setting(configv1.RewriteField_REWRITE_FIELD_HEADER, &configv1.Literal{Value: &configv1.Literal_StringValue{StringValue: "x"}})
			t.LogicalRoutes[0].Rewrites[0].Key = "x y"
		}},
		{"logical.cycle", "LogicalRoute", "targets", func(_ *View, t tenant) {
			t.LogicalRoutes[1].Rewrites = []*configv1.Rewrite{setting(configv1.RewriteField_REWRITE_FIELD_MODEL, &configv1.Literal{Value: &configv1.Literal_StringValue{StringValue: "fast"}})}
		}},
		{"logical.depth", "LogicalRoute", "targets", func(_ *View, t tenant) {
			for i := range MaxLogicalDepth - 1 {
				t.LogicalRoutes = append(t.LogicalRoutes, &configv1.LogicalRoute{
					Id: fmt.Sprintf("lrt_d%d", i), TenantId: t1, Name: fmt.Sprintf("d%d", i), Order: int32(100 + i),
					Match: &configv1.ModelMatch{Model: fmt.Sprintf("d%d", i)}, Targets: []*configv1.RouteTarget{{Model: fmt.Sprintf("d%d", i+1)}},
				})
			}
			t.LogicalRoutes[len(t.LogicalRoutes)-1].Targets[0].Model = "fast"
		}},
		{"condition.word", "LogicalRoute", "condition.all.conditions[0].compare.literal", func(_ *View, t tenant) {
			t.LogicalRoutes[0].GetCondition().GetAll().Conditions[0] = compare(configv1.ConditionField_CONDITION_FIELD_PROTOCOL, "", opEqual, &configv1.Literal{Value: &configv1.Literal_StringValue{StringValue: "openai"}})
		}},
		{"condition.key", "LogicalRoute", "condition.all.conditions[0].compare.key", func(_ *View, t tenant) {
			t.LogicalRoutes[0].GetCondition().GetAll().Conditions[0] = compare(configv1.ConditionField_CONDITION_FIELD_BODY_FIELD, "a..b", opExists, nil)
		}},
		{"policy.cidr", "Policy", "allowed_cidrs.names[0]", func(_ *View, t tenant) { t.Policies[0].AllowedCidrs.Names[0] = "10.0.0.1/8" }},
		{"policy.cidr", "Policy", "allowed_cidrs.names[1]", func(_ *View, t tenant) { t.Policies[0].AllowedCidrs.Names[1] = "everywhere" }},
		{"limit.window", "Policy", "limits[0].window.unit", func(_ *View, t tenant) {
			t.Policies[0].Limits[0].Window.Unit = configv1.WindowUnit_WINDOW_UNIT_MONTH
		}},
		{"limit.window", "Policy", "limits[0].window", func(_ *View, t tenant) { t.Policies[0].Limits[0].Window = nil }},
		{"time_zone", "Policy", "limits[1].window.time_zone", func(_ *View, t tenant) { t.Policies[0].Limits[1].Window.TimeZone = "Mars/Olympus" }},
		{"time_zone", "Budget", "time_zone", func(_ *View, t tenant) { t.Budgets[0].TimeZone = "Local" }},
		{"number.finite", "Tenant", "scheduling.budget_factor", func(_ *View, t tenant) {
			t.Tenant.Scheduling = &configv1.SchedulingPolicy{BudgetFactor: proto.Float64(inf())}
		}},
		{"price.overlap", "ProviderPricing", "effective_from", func(v *View, _ tenant) { v.GlobalShard.Pricing[0].EffectiveUntil = at(2) }},
		{"price.duplicate", "ProviderPricing", "effective_from", func(v *View, _ tenant) { v.GlobalShard.Pricing[2].EffectiveFrom = at(1) }},
		{"price.until", "ProviderPricing", "effective_until", func(v *View, _ tenant) { v.GlobalShard.Pricing[0].EffectiveUntil = at(0) }},
		{"price.tier_overlap", "PriceBookEntry", "items[1]", func(_ *View, t tenant) { t.PriceBook[0].Items[0].ContextMaxTokens = 200001 }},
		{"ref.missing", "CreditAccount", "consumer_id", func(_ *View, t tenant) { t.CreditAccounts[0].ConsumerId = "con_" + t2 }},
		{"credential.secret", "UpstreamCredential", "secrets[0]", func(v *View, _ tenant) { v.Credentials[t1].Secrets[0].SecretRef = "env:X" }},
		{"credential.secret_ref", "UpstreamCredential", "secrets[1].secret_ref", func(v *View, _ tenant) { v.Credentials[t1].Secrets[1].SecretRef = "file:/run/../etc/shadow" }},
		{"ref.missing", "UpstreamCredential", "secrets[0].credential_id", func(v *View, _ tenant) { v.Credentials[t1].Secrets[0].CredentialId = "crd_9" }},
		{"ref.missing", "Consumer", "project_id", func(v *View, _ tenant) { consumerOf(v).ProjectId = "prj_" + t2 }},
		{"ref.missing", "Consumer", "group_ids[1]", func(v *View, _ tenant) { consumerOf(v).GroupIds[1] = "grp_9" }},
		{"ref.missing", "Consumer", "claims[0].issuer_id", func(v *View, _ tenant) { consumerOf(v).Claims[0].IssuerId = "iss_" + t2 }},
		{"key.groups", "ConsumerAPIKey", "group_ids[0]", func(v *View, _ tenant) { consumerOf(v).GroupIds = []string{"grp_2"} }},
		{"key.scopes", "ConsumerAPIKey", "scopes", func(v *View, _ tenant) { v.Keys[sum1].GetConsumerKey().Scopes = nil }},
		{"ref.missing", "ConsumerAPIKey", "consumer_id", func(v *View, _ tenant) { v.Keys[sum1].GetConsumerKey().ConsumerId = "con_" + t2 }},
		{"ref.missing", "Route", "route_token.route_id", func(v *View, _ tenant) { v.Keys[sum2].GetRouteToken().RouteId = "rte_9" }},
		{"unique", "JWTIssuer", "issuer", func(v *View, _ tenant) {
			twin := proto.CloneOf(v.Issuers["iss_"+t1])
			twin.Issuer.Id, twin.Issuer.Name = "iss_9", "twin"
			v.Issuers["iss_9"] = twin
		}},
		{"issuer.audiences", "JWTIssuer", "audiences", func(v *View, _ tenant) { v.Issuers["iss_"+t1].Issuer.Audiences = nil }},
		{"issuer.scopes", "JWTIssuer", "scopes", func(v *View, _ tenant) { v.Issuers["iss_"+t1].Issuer.Scopes = nil }},
		{"issuer.jwks", "JWTIssuer", "jwks_json", func(v *View, _ tenant) { v.Issuers["iss_"+t1].Issuer.JwksJson = `{"keys":[]}` }},
		{"issuer.url", "JWTIssuer", "issuer", func(v *View, _ tenant) { v.Issuers["iss_"+t1].Issuer.Issuer = "https://login.example.com?x=1" }},
	} {
		t.Run(tc.rule+" of "+tc.kind+" "+tc.path, func(t *testing.T) {
			t.Parallel()
			v := fixture()
			tc.breakIt(v, v.Tenants[t1])
			got := checker.Check(v)
			found := slices.ContainsFunc(got, func(x *syncv1.Violation) bool {
				return x.GetRule() == tc.rule && x.GetKind() == tc.kind && x.GetFieldPath() == tc.path && x.GetHint() != "" && x.GetName() != "" && x.GetShardKey() != ""
			})
			if !found {
				t.Errorf("no violation %s of %s at %q among %v", tc.rule, tc.kind, tc.path, got)
			}
			for _, x := range got {
				if x.GetRule() != tc.rule {
					t.Errorf("a further violation: %v", x)
				}
			}
		})
	}
}

func consumerOf(v *View) *syncv1.SubjectRecord {
	return v.Subjects[SubjectKey{syncv1.SubjectKind_SUBJECT_KIND_CONSUMER, "con_" + t1}]
}

func inf() float64 { f := 1e308; return f * 10 }

func TestGroupsMayFallBackThreeStepsAndNotFour(t *testing.T) {
	t.Parallel()
	for steps, want := range map[int]int{3: 0, 4: 1} {
		v := fixture()
		gs := []*configv1.Group{{Id: "grp_a", TenantId: t1, Name: "a"}}
		for i := range steps - 1 {
			id := "grp_" + string(rune('b'+i))
			gs = append(gs, &configv1.Group{Id: id, TenantId: t1, Name: string(rune('b' + i)), FallbackGroups: []string{gs[len(gs)-1].GetId()}})
		}
		v.Tenants[t1].Groups = append(v.Tenants[t1].Groups, gs...)
		v.Tenants[t1].Groups[1].FallbackGroups = nil
		v.Tenants[t1].Groups[0].FallbackGroups = []string{"grp_2", gs[len(gs)-1].GetId()}
		got := newChecker(t, Config{}).Check(v)
		if len(got) != want {
			t.Errorf("%d steps: %d violations %v, want %d", steps, len(got), got, want)
		}
	}
}

// A node that has the new identity but not yet the policy must not refuse it.
func TestReferencesBetweenDomainsAreSoftOnANode(t *testing.T) {
	t.Parallel()
	v := fixture()
	v.Tenants = map[string]*syncv1.TenantShard{}
	v.GlobalShard = nil
	if got := newChecker(t, Config{}).Check(v); len(got) != 0 {
		t.Errorf("identity alone is refused: %v", got)
	}
	v = fixture()
	v.Subjects, v.Keys, v.Issuers, v.Credentials = nil, nil, nil, nil
	if got := newChecker(t, Config{}).Check(v); len(got) != 0 {
		t.Errorf("policy alone is refused: %v", got)
	}
}

func TestG04ANodeRefusesNothingThatTheControlPlaneAccepts(t *testing.T) {
	t.Parallel()
	// The rules of a node are a part of those of the control plane.
	v := fixture()
	v.Tenants[t1].Routes[0].PolicyId = "pol_9"
	v.Keys[sum1].GetConsumerKey().Scopes = nil
	control, node := newChecker(t, Config{CrossDomain: true}).Check(v), newChecker(t, Config{}).Check(v)
	for _, x := range node {
		if !slices.ContainsFunc(control, func(y *syncv1.Violation) bool { return proto.Equal(x, y) }) {
			t.Errorf("only the node says %v", x)
		}
	}
	if len(node) != 2 {
		t.Errorf("the node found %d violations, want 2", len(node))
	}
}

// countingLookup counts what a check reads.
type countingLookup struct {
	*View
	tenants map[string]bool
}

func (c *countingLookup) Tenant(id string) *syncv1.TenantShard {
	c.tenants[id] = true
	return c.View.Tenant(id)
}

func TestCheckChangedLooksOnlyAtWhatChanged(t *testing.T) {
	t.Parallel()
	v := fixture()
	v.Tenants[t2].Groups = nil // broken, but not part of the change
	v.Tenants[t1].Routes[0].PolicyId = "pol_9"
	v.Index()
	look := &countingLookup{View: v, tenants: map[string]bool{}}
	c := newChecker(t, Config{CrossDomain: true})
	got := c.CheckChanged(look, []string{"tenant/" + t1, "tenant/" + t1})
	if len(got) != 1 || got[0].GetFieldPath() != "policy_id" || got[0].GetShardKey() != "tenant/"+t1 {
		t.Errorf("got %v, want the one violation of the changed tenant", got)
	}
	if look.tenants[t2] {
		t.Error("another tenant was read")
	}
}

func TestCheckChangedFindsAPlaceTakenByAnotherTenant(t *testing.T) {
	t.Parallel()
	v := fixture()
	v.Tenants[t1].Routes[0].Host = v.Tenants[t2].Routes[0].GetHost()
	v.Index()
	got := newChecker(t, Config{}).CheckChanged(v, []string{"tenant/" + t1})
	if len(got) != 1 || got[0].GetRule() != "route.place_taken" {
		t.Fatalf("got %v, want route.place_taken", got)
	}
	if strings.Contains(got[0].GetHint(), t2) {
		t.Errorf("the hint names the other tenant: %s", got[0].GetHint())
	}
}

func TestAGlobalProviderInUseCannotGo(t *testing.T) {
	t.Parallel()
	v := fixture()
	g := v.GlobalShard
	g.Providers, g.Pricing, g.ProviderPlugins, g.Scheduling = nil, nil, nil, nil
	got := newChecker(t, Config{}).CheckChanged(v, []string{"global"})
	if len(got) != 1 || got[0].GetRule() != "ref.in_use" {
		t.Errorf("got %v, want ref.in_use", got)
	}
}

func TestNarrowingAConsumerChecksItsKeys(t *testing.T) {
	t.Parallel()
	v := fixture()
	consumerOf(v).GroupIds = []string{"grp_2"}
	v.Index()
	got := newChecker(t, Config{}).CheckChanged(v, []string{"subject/consumer/con_" + t1})
	if len(got) != 1 || got[0].GetRule() != "key.groups" {
		t.Errorf("got %v, want key.groups", got)
	}
}

func TestARouteIndexFollowsATenantsRoutes(t *testing.T) {
	t.Parallel()
	var x RouteIndex
	x.Set("a", []*configv1.Route{{Id: "1", Host: "H.", PathPrefix: "/p/"}})
	x.Set("b", []*configv1.Route{{Id: "2", Host: "h", PathPrefix: "/p"}})
	want := []RouteRef{{"a", "1"}, {"b", "2"}}
	if diff := cmp.Diff(want, x.At(PlaceOf("h", "/p"))); diff != "" {
		t.Error(diff)
	}
	x.Set("a", nil)
	x.Set("b", []*configv1.Route{{Id: "3", PathPrefix: "//"}})
	if got := x.At(PlaceOf("h", "/p")); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
	if diff := cmp.Diff([]RouteRef{{"b", "3"}}, x.At(Place{PathPrefix: "/"})); diff != "" {
		t.Error(diff)
	}
}

func TestASecretIsGivenByValueOrByReference(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Config{})
	cred := &configv1.UpstreamCredential{TenantId: t1, Name: "a", UpstreamId: "u", Secret: "sk-secret", SecretRef: "env:AIDY_SECRET_A"}
	got := c.CheckResource(cred)
	if len(got) != 1 || got[0].GetRule() != "credential.secret" || strings.Contains(got[0].String(), "sk-secret") {
		t.Errorf("got %v, want credential.secret without the secret", got)
	}
	for ref, ok := range map[string]bool{"env:A": true, "file:/run/secrets/a": true, "file:relative": false, "file:/a/../b": false} {
		cred := &configv1.UpstreamCredential{TenantId: t1, Name: "a", UpstreamId: "u", SecretRef: ref}
		if got := c.CheckResource(cred); (len(got) == 0) != ok {
			t.Errorf("%s: %v, want accepted = %v", ref, got, ok)
		}
	}
}

func TestViolationsAreBounded(t *testing.T) {
	t.Parallel()
	v := fixture()
	for range 1000 {
		v.Tenants[t1].Groups = append(v.Tenants[t1].Groups, &configv1.Group{Name: strings.Repeat("X", 1<<12)})
	}
	got := newChecker(t, Config{}).Check(v)
	if len(got) != MaxViolations+1 || got[MaxViolations].GetRule() != "more" {
		t.Fatalf("%d violations, want %d and one that counts the rest", len(got), MaxViolations)
	}
	for _, x := range got {
		if proto.Size(x) > 4*maxText {
			t.Errorf("a violation of %d bytes", proto.Size(x))
		}
	}
}

func TestShardsSurviveEncodingAndUnknownKeysAreRefused(t *testing.T) {
	t.Parallel()
	v := NewView()
	in := tenantFixture(t1, "h")
	raw, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Put("tenant/"+t1, raw); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, v.Tenants[t1], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	for _, key := range []string{"", "tenants/x", "tenant/", "key/xyz"} {
		if _, err := Decode(key, nil); err == nil {
			t.Errorf("key %q is accepted", key)
		}
	}
	if _, err := Decode("global", make([]byte, MaxShardBytes+1)); err == nil {
		t.Error("a shard beyond the limit is accepted")
	}
	if got := newChecker(t, Config{}).CheckChanged(v, []string{"bogus"}); len(got) != 1 {
		t.Errorf("an unknown shard key gives %v", got)
	}
}

// setting is a rewrite that sets a field.
func setting(f configv1.RewriteField, v *configv1.Literal) *configv1.Rewrite {
	return &configv1.Rewrite{Operation: configv1.RewriteOperation_REWRITE_OPERATION_SET, Field: f, Value: v}
}
