package store

import (
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

func consumerKind() Kind {
	return Kind{
		Message: (*configv1.Consumer)(nil), Prefix: ident.Consumer, Table: "consumer", Parent: "tenant_id",
		References: []Reference{
			{"tenant_id", "Tenant"},
			{"project_id", "Project"},
			{"policy_id", "Policy"},
			{"group_ids", "Group"},
			{"claims.issuer_id", "JWTIssuer"},
		},
		Unique: map[string][]string{"consumer_name": {"tenant_id", "name"}},
		Shards: typed(func(m *configv1.Consumer) []string {
			return []string{shard.Subject(shard.SubjectConsumer, m.Id)}
		}),
		Revokes: ended(func(before, after *configv1.Consumer) []Revocation {
			return subjectEnded("consumer", before.GetId(), before.GetSuspended() || before.GetDisabled(),
				after == nil || after.Suspended || after.Disabled)
		}),
	}
}

func consumerAPIKeyKind() Kind {
	return Kind{
		Message: (*configv1.ConsumerAPIKey)(nil), Prefix: ident.ConsumerAPIKey, Table: "consumer_api_key", Parent: "consumer_id",
		References: []Reference{
			{"tenant_id", "Tenant"},
			{"consumer_id", "Consumer"},
			{"project_id", "Project"},
			{"policy_id", "Policy"},
			{"successor_id", "ConsumerAPIKey"},
			{"issuer_route_id", "Route"},
			{"group_ids", "Group"},
		},
		Unique: map[string][]string{
			"consumer_api_key_name":   {"consumer_id", "name"},
			"consumer_api_key_sha256": {"sha256"},
		},
		Shards: typed(func(m *configv1.ConsumerAPIKey) []string { return []string{shard.Key(m.Sha256)} }),
		Revokes: ended(func(before, after *configv1.ConsumerAPIKey) []Revocation {
			was := before.GetDisabled() || before.GetRevokeTime() != nil
			return subjectEnded("key", before.GetSha256(), was,
				after == nil || after.Disabled || after.RevokeTime != nil || after.Sha256 != before.GetSha256())
		}),
	}
}

func jwtIssuerKind() Kind {
	return Kind{
		Message: (*configv1.JWTIssuer)(nil), Prefix: ident.JWTIssuer, Table: "jwt_issuer", Parent: "tenant_id",
		References: []Reference{{"tenant_id", "Tenant"}, {"group_ids", "Group"}},
		Unique: map[string][]string{
			"jwt_issuer_name":   {"tenant_id", "name"},
			"jwt_issuer_issuer": {"tenant_id", "issuer"},
		},
		Shards: typed(func(m *configv1.JWTIssuer) []string { return []string{shard.Issuer(m.Id)} }),
		Revokes: ended(func(before, after *configv1.JWTIssuer) []Revocation {
			return subjectEnded("issuer", before.GetId(), before.GetDisabled(), after == nil || after.Disabled)
		}),
	}
}
