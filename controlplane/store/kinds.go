package store

import (
	"google.golang.org/protobuf/proto"

	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// Kinds describes every stored resource, what is named before what names it.
func Kinds() []Kind {
	return []Kind{
		tenantKind(), projectKind(), policyKind(),
		providerKind(), providerPricingKind(), priceBookEntryKind(),
		groupKind(), upstreamKind(), upstreamCredentialKind(), upstreamModelKind(),
		jwtIssuerKind(), routeKind(), routePluginConfigKind(), providerPluginConfigKind(), logicalRouteKind(),
		consumerKind(), consumerAPIKeyKind(),
		budgetKind(), creditAccountKind(),
	}
}

// typed adapts a function on one message type to the form a Kind holds.
func typed[M proto.Message, R any](fn func(M) R) func(proto.Message) R {
	return func(m proto.Message) R { return fn(m.(M)) }
}

// ended adapts a comparison of two states of one message; a missing side is nil.
func ended[M proto.Message](fn func(before, after M) []Revocation) func(before, after proto.Message) []Revocation {
	return func(before, after proto.Message) []Revocation {
		b, _ := before.(M)
		a, _ := after.(M)
		return fn(b, a)
	}
}

// inTenant is the policy shard of a tenant's resource, or the global one of a
// resource that all tenants share.
func inTenant(m proto.Message) []string {
	if tenant := TenantID(m); tenant != "" {
		return []string{shard.Tenant(tenant)}
	}
	return []string{shard.Global()}
}
