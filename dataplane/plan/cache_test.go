package plan

import (
	"testing"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

func TestCacheScopeIsNamedByWhatSharesIt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		scope configv1.CacheScope
		pool  string
		want  string
	}{
		{configv1.CacheScope_CACHE_SCOPE_UNSPECIFIED, "", "c:c1|m:m1"},
		{configv1.CacheScope_CACHE_SCOPE_CREDENTIAL_MODEL, "org", "pool:org|m:m1"},
		{configv1.CacheScope_CACHE_SCOPE_CREDENTIAL, "", "c:c1"},
		{configv1.CacheScope_CACHE_SCOPE_CREDENTIAL, "org", "pool:org"},
		{configv1.CacheScope_CACHE_SCOPE_PROVIDER_MODEL, "org", "p:p1|m:m1"},
		{configv1.CacheScope_CACHE_SCOPE_PROVIDER, "", "p:p1"},
	} {
		c := Candidate{
			Account: &Account{
				CredentialKey: "c1", Upstream: &configv1.Upstream{ProviderId: "p1"}, Model: &configv1.UpstreamModel{Model: "m1"},
				Credential: &configv1.UpstreamCredential{Cache: &configv1.CacheSettings{Scope: tc.scope, Pool: tc.pool}},
			},
			Provider: &configv1.Provider{},
		}
		if got := c.Cache(nil).Scope; got != tc.want {
			t.Errorf("%v with pool %q: %q, want %q", tc.scope, tc.pool, got, tc.want)
		}
	}
}
