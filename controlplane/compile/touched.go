package compile

import (
	"slices"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// Touched returns the keys of the shards that a change of one resource can
// change, sorted. old is nil for a new resource, new for a deleted one; both are
// of one kind. A kind that stands in no shard touches none.
func Touched(old, new proto.Message) []string {
	keys := append(touchedBy(old), touchedBy(new)...)
	slices.Sort(keys)
	return slices.Compact(keys)
}

func touchedBy(m proto.Message) []string {
	if m == nil || !m.ProtoReflect().IsValid() {
		return nil
	}
	switch m := m.(type) {
	case *configv1.Tenant:
		return []string{shard.Tenant(m.GetId()), shard.Subject(shard.SubjectTenant, m.GetId())}
	case *configv1.Project:
		return []string{shard.Subject(shard.SubjectProject, m.GetId())}
	case *configv1.Consumer:
		return []string{shard.Subject(shard.SubjectConsumer, m.GetId())}
	case *configv1.ConsumerAPIKey:
		if m.GetSha256() == "" {
			return nil
		}
		return []string{shard.Key(m.GetSha256())}
	case *configv1.JWTIssuer:
		return []string{shard.Issuer(m.GetId())}
	case *configv1.Upstream:
		return []string{shard.Tenant(m.GetTenantId()), shard.Credentials(m.GetTenantId())}
	case *configv1.UpstreamCredential:
		return []string{shard.Tenant(m.GetTenantId()), shard.Credentials(m.GetTenantId())}
	case *configv1.Route:
		keys := []string{owner(m.GetTenantId())}
		for _, t := range m.GetLegacyBearerAuthTokens() {
			if t.GetSha256() != "" {
				keys = append(keys, shard.Key(t.GetSha256()))
			}
		}
		return keys
	case interface{ GetTenantId() string }:
		return []string{owner(m.GetTenantId())}
	}
	return nil
}

// owner is the policy shard of a tenant, or the global one.
func owner(tenantID string) string {
	if tenantID == "" {
		return shard.Global()
	}
	return shard.Tenant(tenantID)
}
