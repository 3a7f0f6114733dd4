package affinity

import (
	"github.com/zeebo/xxh3"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// ScopeID stands for a cache scope: the boundary within which an upstream's prompt
// cache is shared.
type ScopeID uint64

// ScopeOf returns the id of the scope of that name.
func ScopeOf(name string) ScopeID { return ScopeID(xxh3.HashString(name)) }

// ScopeName names the cache scope of an account: "c:<credential>|m:<model>" for
// CREDENTIAL_MODEL, which is what UNSPECIFIED means, "c:<credential>" for CREDENTIAL,
// "p:<provider>|m:<model>" and "p:<provider>" for the other two. A pool takes the
// credential's place, as "pool:<pool>".
func ScopeName(scope configv1.CacheScope, provider, model, credential, pool string) string {
	holder := "c:" + credential
	if pool != "" {
		holder = "pool:" + pool
	}
	switch scope {
	case configv1.CacheScope_CACHE_SCOPE_PROVIDER:
		return "p:" + provider
	case configv1.CacheScope_CACHE_SCOPE_PROVIDER_MODEL:
		return "p:" + provider + "|m:" + model
	case configv1.CacheScope_CACHE_SCOPE_CREDENTIAL:
		return holder
	}
	return holder + "|m:" + model
}
