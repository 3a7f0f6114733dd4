package plan

import (
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// Cache is what is known of the provider's prompt cache as a candidate uses it.
type Cache struct {
	Off     bool
	Scope   string        // within which prompts find each other again
	TTLMin  time.Duration // an entry is sure to live so long after its last use; 0 is unknown
	TTLMax  time.Duration // and sure to be gone after this; 0 is unknown
	Min     int64         // prompts below so many tokens are not cached; negative is unknown
	MaxWait time.Duration // the longest wait that a warm cache is worth; negative is unknown
}

// Cache combines what credential, model, provider and the scheduling policy say; of
// each field the innermost value that is set wins.
//
// Scope is c:<credential>|m:<model>, c:<credential>, p:<provider> or
// p:<provider>|m:<model>; where there is a pool, pool:<pool>
// stands in the place of the credential.
func (c *Candidate) Cache(policy *configv1.CacheSettings) Cache {
	out := Cache{Min: -1, MaxWait: -1}
	scope, pool := configv1.CacheScope_CACHE_SCOPE_UNSPECIFIED, ""
	// From the outermost in; each one overwrites what the one before said.
	for _, s := range [...]*configv1.CacheSettings{policy, c.Provider.GetCache(), c.Model.GetCache(), c.Credential.GetCache()} {
		if s == nil {
			continue
		}
		if s.Enabled != nil {
			out.Off = !s.GetEnabled()
		}
		if v := s.GetScope(); v != configv1.CacheScope_CACHE_SCOPE_UNSPECIFIED {
			scope = v
		}
		if v := s.GetPool(); v != "" {
			pool = v
		}
		if s.TtlMinMs != nil {
			out.TTLMin = time.Duration(s.GetTtlMinMs()) * time.Millisecond
		}
		if s.TtlMaxMs != nil {
			out.TTLMax = time.Duration(s.GetTtlMaxMs()) * time.Millisecond
		}
		if s.MinPrefixTokens != nil {
			out.Min = s.GetMinPrefixTokens()
		}
		if s.MaxWaitMs != nil {
			out.MaxWait = time.Duration(s.GetMaxWaitMs()) * time.Millisecond
		}
	}
	holder := "c:" + c.CredentialKey
	if pool != "" {
		holder = "pool:" + pool
	}
	switch scope {
	case configv1.CacheScope_CACHE_SCOPE_CREDENTIAL:
		out.Scope = holder
	case configv1.CacheScope_CACHE_SCOPE_PROVIDER:
		out.Scope = "p:" + c.Upstream.GetProviderId()
	case configv1.CacheScope_CACHE_SCOPE_PROVIDER_MODEL:
		out.Scope = "p:" + c.Upstream.GetProviderId() + "|m:" + c.UpstreamModel()
	default:
		out.Scope = holder + "|m:" + c.UpstreamModel()
	}
	return out
}
