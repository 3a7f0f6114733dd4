package plan

import (
	"testing"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// Two tenants may use one egress proxy: that one of them cannot reach it is no reason for
// the other to stay away from it.
func TestProxyIsKeptApartByTenant(t *testing.T) {
	t.Parallel()
	proxied := func(tenant, url string) *Account {
		return &Account{TenantID: tenant, Upstream: &configv1.Upstream{Proxy: &configv1.EgressProxy{Url: url}}}
	}
	const proxy = "http://proxy.example.com:3128"
	if a, b := proxied("ten_1", proxy).ProxyKey(), proxied("ten_2", proxy).ProxyKey(); a == "" || a == b {
		t.Errorf("keys %q and %q, want two", a, b)
	}
	if key := proxied("ten_1", "").ProxyKey(); key != "" {
		t.Errorf("an account without a proxy has the key %q", key)
	}
}
