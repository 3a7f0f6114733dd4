package configcheck

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

type modelKey struct{ upstreamID, model string }

// tenantScope finds what a tenant's resources may refer to.
type tenantScope struct {
	id     string
	shard  *syncv1.TenantShard
	view   Lookup
	cross  bool
	global globalScope

	providers    map[string]*configv1.Provider
	groups       map[string]*configv1.Group
	defaultGroup *configv1.Group
	upstreams    map[string]*configv1.Upstream
	credentials  map[string]*configv1.UpstreamCredential
	models       map[modelKey]*configv1.UpstreamModel
	served       map[string]bool // public model names
	qualified    map[string]bool // provider/model, by name and by id of the provider
	taken        map[string][]int
	routes       map[string]*configv1.Route
	policies     map[string]*configv1.Policy
}

func (c *Checker) tenantScope(v Lookup, id string, t *syncv1.TenantShard) *tenantScope {
	s := &tenantScope{
		id: id, shard: t, view: v, cross: c.cfg.CrossDomain, global: globalOf(v.Global()),
		providers: byID(t.GetProviders()), groups: byID(t.GetGroups()), upstreams: byID(t.GetUpstreams()),
		credentials: byID(t.GetCredentials()), routes: byID(t.GetRoutes()), policies: byID(t.GetPolicies()),
		models: map[modelKey]*configv1.UpstreamModel{}, served: map[string]bool{}, qualified: map[string]bool{}, taken: map[string][]int{},
	}
	for _, g := range t.GetGroups() {
		if g.GetName() == DefaultGroup {
			s.defaultGroup = g
		}
	}
	for _, m := range t.GetModels() {
		k := modelKey{m.GetUpstreamId(), m.GetModel()}
		if s.models[k] == nil {
			s.models[k] = m
		}
		s.served[m.GetModel()] = true
		if p := s.provider(s.upstreams[m.GetUpstreamId()].GetProviderId()); p != nil {
			s.qualified[p.GetName()+"/"+m.GetModel()] = true
			s.qualified[p.GetId()+"/"+m.GetModel()] = true
		}
	}
	return s
}

func byID[M interface{ GetId() string }](ms []M) map[string]M {
	by := make(map[string]M, len(ms))
	for _, m := range ms {
		by[m.GetId()] = m
	}
	return by
}

func globalOf(g *syncv1.GlobalShard) globalScope {
	return globalScope{providers: byID(g.GetProviders())}
}

func (c *Checker) checkTenant(l *list, v Lookup, id string, t *syncv1.TenantShard) {
	if !features(l, t, t.GetRequiredFeatures()) {
		return
	}
	if t.GetTenant() == nil {
		l.add(subject{kind: "Tenant", name: id}, "", "shard.tenant", "the shard holds no tenant; compile it again")
		return
	}
	who := subjectOf(t.GetTenant())
	if t.GetTenant().GetId() != id {
		l.add(who, "id", "shard.tenant", "the shard of tenant %s holds tenant %s; compile it again", quote(id), quote(t.GetTenant().GetId()))
	}
	c.alone(l, t.GetTenant())

	each(c, l, t.GetProviders(), id, named)
	each(c, l, t.GetGroups(), id, named)
	each(c, l, t.GetUpstreams(), id, named)
	each(c, l, t.GetCredentials(), id, func(m *configv1.UpstreamCredential) string { return m.GetUpstreamId() + "\x00" + m.GetName() })
	each(c, l, t.GetModels(), id, unnamed)
	each(c, l, t.GetRoutes(), id, named)
	each(c, l, t.GetRoutePlugins(), id, func(m *configv1.RoutePluginConfig) string {
		return m.GetRouteId() + "\x00" + m.GetPluginKey() + "\x00" + m.GetPluginSubKey()
	})
	each(c, l, t.GetProviderPlugins(), id, func(m *configv1.ProviderPluginConfig) string {
		return m.GetProviderId() + "\x00" + m.GetUpstreamId() + "\x00" + m.GetPluginKey() + "\x00" + m.GetPluginSubKey()
	})
	each(c, l, t.GetLogicalRoutes(), id, named)
	each(c, l, t.GetPolicies(), id, named)
	each(c, l, t.GetBudgets(), id, named)
	each(c, l, t.GetCreditAccounts(), id, named)
	each(c, l, t.GetPricing(), id, unnamed)
	each(c, l, t.GetPriceBook(), id, unnamed)

	s := c.tenantScope(v, id, t)
	s.policyRef(l, who, "policy_id", t.GetTenant().GetPolicyId())
	s.schedulingRefs(l, who, "scheduling", t.GetTenant().GetScheduling())
	s.checkGroups(l)
	s.checkUpstreams(l)
	s.checkRoutes(l)
	s.checkPlugins(l)
	s.checkLogicalRoutes(l)
	for _, p := range t.GetPolicies() {
		s.label(l, subjectOf(p), "max_data_label", p.GetMaxDataLabel())
	}
	s.checkMoney(l)
}

// checkMoney checks prices, budgets and credit.
func (s *tenantScope) checkMoney(l *list) {
	var costs, prices []version
	for _, p := range s.shard.GetPricing() {
		if s.provider(p.GetProviderId()) == nil {
			l.add(subjectOf(p), "provider_id", "ref.missing", "there is no provider %s for this tenant; create it or name another", quote(p.GetProviderId()))
		}
		costs = append(costs, versionOfProvider(p))
	}
	for _, p := range s.shard.GetPriceBook() {
		if id := p.GetProviderId(); id != "" && s.provider(id) == nil {
			l.add(subjectOf(p), "provider_id", "ref.missing", "there is no provider %s for this tenant; create it or name another", quote(id))
		}
		prices = append(prices, versionOfBook(p))
	}
	overlaps(l, costs)
	overlaps(l, prices)
	if !s.cross {
		return
	}
	for _, a := range s.shard.GetCreditAccounts() {
		rec := s.view.Subject(syncv1.SubjectKind_SUBJECT_KIND_CONSUMER, a.GetConsumerId())
		if rec == nil || rec.GetTenantId() != s.id {
			l.add(subjectOf(a), "consumer_id", "ref.missing", "there is no consumer %s in this tenant; create it or name another", quote(a.GetConsumerId()))
		}
	}
}

// named keeps names unique among the resources of one kind in a tenant.
func named[M interface{ GetName() string }](m M) string { return m.GetName() }

// unnamed is for kinds that are told apart in another way.
func unnamed[M any](M) string { return "" }

type resource interface {
	proto.Message
	comparable
	GetId() string
	GetTenantId() string
}

// each checks every resource of one kind alone, that ids and the unique key of
// the kind occur once, and that the owner is tenantID.
func each[M resource](c *Checker, l *list, ms []M, tenantID string, unique func(M) string, skip ...string) {
	ids, keys := make(map[string]bool, len(ms)), make(map[string]bool, len(ms))
	for i, m := range ms {
		if !m.ProtoReflect().IsValid() {
			l.add(subject{kind: Kind(m)}, fmt.Sprintf("[%d]", i), "required", "an entry of the shard is empty; compile it again")
			continue
		}
		c.alone(l, m, skip...)
		who := subjectOf(m)
		switch id := m.GetId(); {
		case id == "":
			l.add(who, "id", "required", "the resource has no id; the control plane gives it one")
		case ids[id]:
			l.add(who, "id", "unique", "the id %s occurs twice in the shard", quote(id))
		default:
			ids[id] = true
		}
		if m.GetTenantId() != tenantID {
			l.add(who, "tenant_id", "ref.tenant", "the owner is %s, the shard belongs to %s; a resource stays with its tenant", quote(m.GetTenantId()), quote(tenantID))
		}
		if k := unique(m); k != "" {
			if keys[k] {
				l.add(who, uniquePath(m), "unique", "another %s of the same parent is called the same; rename or delete one", Kind(m))
			}
			keys[k] = true
		}
	}
}

func uniquePath(m proto.Message) string {
	if m.ProtoReflect().Descriptor().Fields().ByName("name") != nil {
		return "name"
	}
	return "plugin_key"
}

func (s *tenantScope) policyRef(l *list, who subject, path, id string) {
	if id != "" && s.policies[id] == nil {
		l.add(who, path, "ref.missing", "there is no policy %s in this tenant; create it or name another", quote(id))
	}
}

// label checks a data label against the order that the tenant gives.
func (s *tenantScope) label(l *list, who subject, path, label string) {
	if label == "" {
		return
	}
	if known := dataLabels(s.shard.GetTenant()); !slices.Contains(known, label) {
		l.add(who, path, "label.unknown", "%s is no data label of the tenant; use one of %q or add it to data_labels", quote(label), known)
	}
}

// dataLabels are the labels of a tenant from least to most sensitive.
func dataLabels(t *configv1.Tenant) []string {
	if own := t.GetDataLabels(); len(own) > 0 {
		return own
	}
	return []string{"public", "internal", "confidential", "restricted"}
}
