package store

import (
	"slices"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

func routeKind() Kind {
	return Kind{
		Message: (*configv1.Route)(nil), Prefix: ident.Route, Table: "route", Parent: "tenant_id",
		References: append([]Reference{
			{"tenant_id", "Tenant"}, {"policy_id", "Policy"}, {"group_ids", "Group"}, {"fallback_groups", "Group"}, {"jwt_issuers", "JWTIssuer"},
		}, schedulingReferences...),
		Secrets: []string{"legacy_bearer_auth_tokens.token"},
		Unique: map[string][]string{
			"route_name":        {"tenant_id", "name"},
			"route_path_prefix": {"host", "path_prefix"},
		},
		Shards: typed(func(m *configv1.Route) []string {
			keys := inTenant(m)
			for _, t := range m.LegacyBearerAuthTokens {
				keys = append(keys, shard.Key(t.Sha256))
			}
			return keys
		}),
		Revokes: ended(func(before, after *configv1.Route) []Revocation {
			var gone []Revocation
			for _, t := range before.GetLegacyBearerAuthTokens() {
				kept := slices.ContainsFunc(after.GetLegacyBearerAuthTokens(), func(o *configv1.LegacyToken) bool { return o.Sha256 == t.Sha256 })
				if !kept {
					gone = append(gone, Revocation{"key", t.Sha256})
				}
			}
			return gone
		}),
	}
}

func routePluginConfigKind() Kind {
	return Kind{
		Message: (*configv1.RoutePluginConfig)(nil), Prefix: ident.RoutePluginConfig, Table: "route_plugin_config", Parent: "route_id",
		References: []Reference{{"tenant_id", "Tenant"}, {"route_id", "Route"}},
		Unique:     map[string][]string{"route_plugin_config_key": {"route_id", "plugin_key", "plugin_sub_key"}},
		Shards:     inTenant,
	}
}

func logicalRouteKind() Kind {
	return Kind{
		Message: (*configv1.LogicalRoute)(nil), Prefix: ident.LogicalRoute, Table: "logical_route", Parent: "tenant_id",
		References: append([]Reference{{"tenant_id", "Tenant"}, {"route_ids", "Route"}}, schedulingReferences...),
		Unique: map[string][]string{
			"logical_route_name":  {"tenant_id", "name"},
			"logical_route_order": {"tenant_id", "order"},
		},
		Shards: inTenant,
	}
}
