package store

import (
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

func groupKind() Kind {
	return Kind{
		Message: (*configv1.Group)(nil), Prefix: ident.Group, Table: "upstream_group", Parent: "tenant_id",
		References: []Reference{{"tenant_id", "Tenant"}, {"fallback_groups", "Group"}},
		Unique:     map[string][]string{"upstream_group_name": {"tenant_id", "name"}},
		Shards:     inTenant,
	}
}

func upstreamKind() Kind {
	return Kind{
		Message: (*configv1.Upstream)(nil), Prefix: ident.Upstream, Table: "upstream", Parent: "tenant_id",
		References: []Reference{{"tenant_id", "Tenant"}, {"provider_id", "Provider"}, {"group_id", "Group"}},
		Secrets:    []string{"proxy.secret"},
		Unique:     map[string][]string{"upstream_name": {"tenant_id", "name"}},
		Shards: typed(func(m *configv1.Upstream) []string {
			// The sealed password of its proxy lives with the tenant's credentials.
			return []string{shard.Tenant(m.TenantId), shard.Credentials(m.TenantId)}
		}),
	}
}

func upstreamCredentialKind() Kind {
	return Kind{
		Message: (*configv1.UpstreamCredential)(nil), Prefix: ident.UpstreamCredential, Table: "upstream_credential", Parent: "upstream_id",
		References: []Reference{{"tenant_id", "Tenant"}, {"upstream_id", "Upstream"}},
		Secrets:    []string{"secret", "proxy.secret"},
		Unique:     map[string][]string{"upstream_credential_name": {"upstream_id", "name"}},
		Shards: typed(func(m *configv1.UpstreamCredential) []string {
			return []string{shard.Tenant(m.TenantId), shard.Credentials(m.TenantId)}
		}),
		Revokes: ended(func(before, after *configv1.UpstreamCredential) []Revocation {
			return subjectEnded("credential", before.GetId(), before.GetDisabled(), after == nil || after.Disabled)
		}),
	}
}

func upstreamModelKind() Kind {
	return Kind{
		Message: (*configv1.UpstreamModel)(nil), Prefix: ident.UpstreamModel, Table: "upstream_model", Parent: "upstream_id",
		References: []Reference{{"tenant_id", "Tenant"}, {"upstream_id", "Upstream"}},
		Unique:     map[string][]string{"upstream_model_model": {"upstream_id", "model"}},
		Shards:     inTenant,
	}
}
