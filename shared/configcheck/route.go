package configcheck

import (
	"fmt"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

func routeAlone(l *list, r *configv1.Route) {
	who := subjectOf(r)
	finite(l, who, "scheduling", r.GetScheduling())
	for part := range strings.SplitSeq(r.GetPathPrefix(), "/") {
		if part == "." || part == ".." {
			l.add(who, "path_prefix", "route.path", "take %q out of the path; clients resolve it before they send", part)
			break
		}
	}
	if h := r.GetHost(); h != "" && (strings.HasPrefix(h, ".") || strings.Contains(h, "..")) {
		l.add(who, "host", "route.host", "%s is no host name", quote(h))
	}
	sums := map[string]bool{}
	for i, t := range r.GetLegacyBearerAuthTokens() {
		at := fmt.Sprintf("legacy_bearer_auth_tokens[%d]", i)
		if t.GetToken() == "" && t.GetSha256() == "" && t.GetLabel() == "" {
			l.add(who, at, "route.token", "give the token; an empty one would let everybody in")
		}
		if sum := t.GetSha256(); sum != "" && sums[sum] {
			l.add(who, at, "unique", "the same token occurs twice; keep one")
		}
		sums[t.GetSha256()] = true
	}
	tasks := map[string]bool{}
	for i, q := range r.GetMinQuality() {
		if tasks[q.GetTask()] {
			l.add(who, fmt.Sprintf("min_quality[%d].task", i), "quality.duplicate", "%s has a floor already; keep one for each task", quote(q.GetTask()))
		}
		tasks[q.GetTask()] = true
	}
}

// placeTaken checks that no other route listens where r does.
func placeTaken(l *list, v Lookup, tenantID string, r *configv1.Route) {
	self := RouteRef{tenantID, r.GetId()}
	mine := 0
	for _, other := range v.RoutesAt(PlaceOf(r.GetHost(), r.GetPathPrefix())) {
		if other == self {
			mine++ // twice, if the shard holds the id twice: said there
			continue
		}
		by := "another route of the tenant"
		if other.TenantID != tenantID {
			// The name of another tenant's route is not the author's to see.
			by = "another tenant's route"
		}
		l.add(subjectOf(r), "path_prefix", "route.place_taken",
			"%s listens at host %s, path %s already; change host or path_prefix", by, quote(r.GetHost()), quote(r.GetPathPrefix()))
		return
	}
}

func (s *tenantScope) checkRoutes(l *list) {
	for _, r := range s.shard.GetRoutes() {
		who := subjectOf(r)
		placeTaken(l, s.view, s.id, r)
		for i, id := range r.GetGroupIds() {
			if s.groups[id] == nil {
				l.add(who, fmt.Sprintf("group_ids[%d]", i), "ref.missing", "there is no group %s in this tenant; create it or name another", quote(id))
			}
		}
		if len(r.GetFallbackGroups()) > 0 {
			allowed := s.fallbacksOf(r.GetGroupIds())
			for i, id := range r.GetFallbackGroups() {
				at := fmt.Sprintf("fallback_groups[%d]", i)
				switch {
				case s.groups[id] == nil:
					l.add(who, at, "ref.missing", "there is no group %s in this tenant; create it or name another", quote(id))
				case !allowed[id]:
					l.add(who, at, "route.fallback_group", "group %s is no fallback of the route's groups; a route may only narrow what its groups allow", quote(s.groups[id].GetName()))
				}
			}
		}
		for i, id := range r.GetJwtIssuers() {
			if rec := s.view.Issuer(id); s.cross && (rec == nil || rec.GetIssuer().GetTenantId() != s.id) {
				l.add(who, fmt.Sprintf("jwt_issuers[%d]", i), "ref.missing", "there is no JWT issuer %s in this tenant; create it or name another", quote(id))
			}
		}
		for _, key := range s.shard.GetTenant().GetRequiredLabelKeys() {
			if _, ok := r.GetLabels()[key]; !ok {
				l.add(who, "labels", "route.required_label", "the tenant asks every route for the label %s; add it", quote(key))
			}
		}
		s.policyRef(l, who, "policy_id", r.GetPolicyId())
		s.label(l, who, "data_label", r.GetDataLabel())
		s.schedulingRefs(l, who, "scheduling", r.GetScheduling())
	}
}

// schedulingRefs checks the chains of a scheduling policy.
func (s *tenantScope) schedulingRefs(l *list, who subject, path string, p *configv1.SchedulingPolicy) {
	for i, m := range p.GetModels() {
		if !s.resolves(m) {
			l.add(who, fmt.Sprintf("%s.models[%d]", path, i), "ref.missing", "no upstream serves %s and no logical route takes it; add the model or name another", quote(m))
		}
	}
	for i, id := range p.GetProviders() {
		if s.provider(id) == nil {
			l.add(who, fmt.Sprintf("%s.providers[%d]", path, i), "ref.missing", "there is no provider %s for this tenant; create it or name another", quote(id))
		}
	}
}

func (c *Checker) checkGlobal(l *list, v Lookup, g *syncv1.GlobalShard) {
	if !features(l, g, g.GetRequiredFeatures()) {
		return
	}
	each(c, l, g.GetProviders(), "", named)
	each(c, l, g.GetSharedRoutes(), "", named)
	// A plugin of a shared route has no owner either.
	each(c, l, g.GetRoutePlugins(), "", func(m *configv1.RoutePluginConfig) string {
		return m.GetRouteId() + "\x00" + m.GetPluginKey() + "\x00" + m.GetPluginSubKey()
	}, "tenant_id")
	each(c, l, g.GetProviderPlugins(), "", func(m *configv1.ProviderPluginConfig) string {
		return m.GetProviderId() + "\x00" + m.GetUpstreamId() + "\x00" + m.GetPluginKey() + "\x00" + m.GetPluginSubKey()
	})
	each(c, l, g.GetPricing(), "", unnamed)
	each(c, l, g.GetPriceBook(), "", unnamed)
	defaults := subject{kind: "GlobalShard", name: "scheduling"}
	if g.GetScheduling() != nil {
		c.contract(l, g.GetScheduling())
		finite(l, defaults, "scheduling", g.GetScheduling())
	}

	scope := globalOf(g)
	for i, id := range g.GetScheduling().GetProviders() {
		if scope.provider(id) == nil {
			l.add(defaults, fmt.Sprintf("scheduling.providers[%d]", i), "ref.missing", "there is no global provider %s; create it or name another", quote(id))
		}
	}
	routes := byID(g.GetSharedRoutes())
	for _, r := range g.GetSharedRoutes() {
		c.sharedRoute(l, v, scope, r)
	}
	for _, p := range g.GetRoutePlugins() {
		if routes[p.GetRouteId()] == nil {
			l.add(subjectOf(p), "route_id", "ref.missing", "there is no shared route %s; create it or name another", quote(p.GetRouteId()))
		}
	}
	for _, p := range g.GetProviderPlugins() {
		if p.GetUpstreamId() != "" {
			l.add(subjectOf(p), "upstream_id", "ref.tenant", "an upstream belongs to a tenant; give the plugin to that tenant")
		} else if scope.provider(p.GetProviderId()) == nil {
			l.add(subjectOf(p), "provider_id", "ref.missing", "there is no global provider %s; create it or name another", quote(p.GetProviderId()))
		}
	}
	var costs, prices []version
	for _, p := range g.GetPricing() {
		if scope.provider(p.GetProviderId()) == nil {
			l.add(subjectOf(p), "provider_id", "ref.missing", "there is no global provider %s; create it or name another", quote(p.GetProviderId()))
		}
		costs = append(costs, versionOfProvider(p))
	}
	for _, p := range g.GetPriceBook() {
		if id := p.GetProviderId(); id != "" && scope.provider(id) == nil {
			l.add(subjectOf(p), "provider_id", "ref.missing", "there is no global provider %s; create it or name another", quote(id))
		}
		prices = append(prices, versionOfBook(p))
	}
	overlaps(l, costs)
	overlaps(l, prices)
}

// sharedRoute checks a route of all tenants: the key or the issuer decides whose
// call it is, so what gives no tenant is refused, and what one tenant owns too.
func (c *Checker) sharedRoute(l *list, v Lookup, scope globalScope, r *configv1.Route) {
	who := subjectOf(r)
	placeTaken(l, v, "", r)
	for _, f := range [...]struct {
		path string
		set  bool
	}{
		{"disable_auth", r.GetDisableAuth()},
		{"passthrough_auth_token", r.GetPassthroughAuthToken()},
		{"legacy_bearer_auth_tokens", len(r.GetLegacyBearerAuthTokens()) > 0},
	} {
		if f.set {
			l.add(who, f.path, "route.shared_auth", "clear it: it names no tenant, and a shared route has none; use consumer_api_keys or jwt_issuers, or make the route a tenant's")
		}
	}
	for _, f := range [...]struct {
		path string
		set  bool
	}{
		{"group_ids", len(r.GetGroupIds()) > 0},
		{"fallback_groups", len(r.GetFallbackGroups()) > 0},
		{"policy_id", r.GetPolicyId() != ""},
	} {
		if f.set {
			l.add(who, f.path, "route.shared_ref", "clear it: groups and policies belong to one tenant, and a shared route serves all")
		}
	}
	for i, id := range r.GetJwtIssuers() {
		if c.cfg.CrossDomain && v.Issuer(id) == nil {
			l.add(who, fmt.Sprintf("jwt_issuers[%d]", i), "ref.missing", "there is no JWT issuer %s; create it or name another", quote(id))
		}
	}
	for i, id := range r.GetScheduling().GetProviders() {
		if scope.provider(id) == nil {
			l.add(who, fmt.Sprintf("scheduling.providers[%d]", i), "ref.missing", "there is no global provider %s; create it or name another", quote(id))
		}
	}
}

// checkProvidersInUse finds tenants whose provider a change of the global shard
// took away.
func (c *Checker) checkProvidersInUse(l *list, v Lookup) {
	scope := globalOf(v.Global())
	missing := map[string]string{}
	for id, tenant := range v.ProvidersInUse() {
		if scope.provider(id) == nil {
			missing[id] = tenant
		}
	}
	for _, id := range sortedKeys(missing) {
		l.add(subject{kind: "Provider", name: id}, "id", "ref.in_use", "upstreams of tenant %s use it; remove them first, or keep it and set disabled", quote(missing[id]))
	}
}
