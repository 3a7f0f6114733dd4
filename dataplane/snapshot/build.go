package snapshot

import (
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// TenantBuilder makes what a package of the request path needs of one tenant. It
// runs once for every changed tenant shard, before the swap; an error holds the
// shard back. It must not keep or change the tenant's other parts.
type TenantBuilder struct {
	Name  string
	Build func(*Tenant) (any, error)
}

// change collects the decoded shards of one update and builds the next View.
type change struct {
	builders []TenantBuilder
	next     View

	tenants  *cowWriter[*Tenant]
	subjects *cowWriter[*Subject]
	keys     *cowWriter[*Key]
	issuers  *cowWriter[*configv1.JWTIssuer]
	secrets  *cowWriter[*Secrets]
	routes   *cowWriter[*Route]

	// gone are the secrets that the next View does not have any more. Their clear
	// text is dropped once that View is current.
	gone []dropper
}

// dropper holds clear text that can be dropped.
type dropper interface{ drop() }

func newChange(base *View, builders []TenantBuilder) *change {
	if base == nil {
		base = &View{Global: &Global{Message: &syncv1.GlobalShard{}}}
	}
	return &change{
		builders: builders,
		next:     *base,
		tenants:  base.tenants.writer(),
		subjects: base.subjects.writer(),
		keys:     base.keys.writer(),
		issuers:  base.issuers.writer(),
		secrets:  base.secrets.writer(),
		routes:   base.routes.writer(),
	}
}

// done returns the View that the changes make. The change must not be used again.
func (c *change) done() *View {
	v := c.next
	v.tenants, v.subjects, v.keys = c.tenants.done(), c.subjects.done(), c.keys.done()
	v.issuers, v.secrets, v.routes = c.issuers.done(), c.secrets.done(), c.routes.done()
	return &v
}

// global replaces what belongs to no tenant; nil removes it.
func (c *change) global(m *syncv1.GlobalShard) {
	for _, r := range c.next.Global.Message.GetSharedRoutes() {
		c.removeRoute(r, "")
	}
	if m == nil {
		m = &syncv1.GlobalShard{}
	}
	g := &Global{Message: m, Providers: byID(m.GetProviders())}
	for _, r := range m.GetSharedRoutes() {
		c.putRoute(r, "")
	}
	c.next.Global = g
}

// tenant replaces the policy side of a tenant; nil removes it. Nothing has changed
// when it fails.
func (c *change) tenant(id string, m *syncv1.TenantShard) error {
	if m == nil {
		c.putTenant(id, nil)
		return nil
	}
	t, err := buildTenant(c.builders, id, m)
	if err != nil {
		return err
	}
	c.putTenant(id, t)
	return nil
}

// buildTenant indexes one tenant and runs the builders on it.
func buildTenant(builders []TenantBuilder, id string, m *syncv1.TenantShard) (*Tenant, error) {
	t := &Tenant{
		ID:        id,
		Message:   m,
		Groups:    byID(m.GetGroups()),
		Upstreams: byID(m.GetUpstreams()),
		Providers: byID(m.GetProviders()),
		Policies:  byID(m.GetPolicies()),
		built:     make(map[string]any, len(builders)),
	}
	for _, g := range m.GetGroups() {
		if g.GetName() == "default" {
			t.DefaultGroup = g.GetId()
		}
	}
	for _, b := range builders {
		built, err := b.Build(t)
		if err != nil {
			return nil, fmt.Errorf("build %s of tenant %s: %w", b.Name, id, err)
		}
		t.built[b.Name] = built
	}
	return t, nil
}

// putTenant replaces a tenant by one that buildTenant made; nil removes it.
func (c *change) putTenant(id string, t *Tenant) {
	if old, ok := c.tenants.get(id); ok {
		for _, r := range old.Message.GetRoutes() {
			c.removeRoute(r, id)
		}
	}
	if t == nil {
		c.tenants.remove(id)
		return
	}
	for _, r := range t.Message.GetRoutes() {
		c.putRoute(r, id)
	}
	c.tenants.put(id, t)
}

func (c *change) putRoute(r *configv1.Route, tenantID string) {
	if r.GetDisabled() {
		return
	}
	route := &Route{Route: r, TenantID: tenantID}
	if ps := r.GetProtocols(); len(ps) > 0 {
		route.Protocols = make(map[configv1.Protocol]struct{}, len(ps))
		for _, p := range ps {
			route.Protocols[p] = struct{}{}
		}
	}
	c.routes.put(routeKey(r.GetHost(), r.GetPathPrefix()), route)
}

// removeRoute removes the entry of a route unless another route took its place.
func (c *change) removeRoute(r *configv1.Route, tenantID string) {
	key := routeKey(r.GetHost(), r.GetPathPrefix())
	if now, ok := c.routes.get(key); ok && now.GetId() == r.GetId() && now.TenantID == tenantID {
		c.routes.remove(key)
	}
}

func (c *change) subject(kind syncv1.SubjectKind, id string, m *syncv1.SubjectRecord) {
	if m == nil {
		c.subjects.remove(subjectKey(kind, id))
		return
	}
	c.subjects.put(subjectKey(kind, id), &Subject{SubjectRecord: m, Allowed: NewNameSet(m.GetAllowedModels())})
}

// key replaces a key; nil removes it. hash is hexadecimal.
func (c *change) key(hash string, m *syncv1.KeyRecord) error {
	raw, err := hex.DecodeString(hash)
	if err != nil || len(raw) != len(KeyHash{}) {
		return fmt.Errorf("key hash %q is not a SHA-256 in hexadecimal", hash)
	}
	if m == nil {
		c.keys.remove(string(raw))
		return nil
	}
	k := &Key{TenantID: m.GetTenantId()}
	switch h := m.GetHolder().(type) {
	case *syncv1.KeyRecord_ConsumerKey:
		ck := h.ConsumerKey
		k.ID, k.ProjectID, k.ConsumerID = ck.GetId(), ck.GetProjectId(), ck.GetConsumerId()
		k.RouteID, k.GroupIDs, k.Class = ck.GetIssuerRouteId(), ck.GetGroupIds(), ck.GetTrafficClass()
		k.Scopes = make(map[configv1.Scope]bool, len(ck.GetScopes()))
		for _, s := range ck.GetScopes() {
			k.Scopes[s] = true
		}
		k.Expire = timeOf(ck.GetExpireTime().GetSeconds(), ck.GetExpireTime().GetNanos())
		k.Allowed, k.Labels = NewNameSet(ck.GetAllowedModels()), ck.GetLabels()
	case *syncv1.KeyRecord_RouteToken:
		k.Token, k.RouteID = true, h.RouteToken.GetRouteId()
	default:
		return fmt.Errorf("key record has no holder")
	}
	c.keys.put(string(raw), k)
	return nil
}

func (c *change) issuer(id string, m *syncv1.IssuerRecord) {
	if m == nil {
		c.issuers.remove(id)
		return
	}
	c.issuers.put(id, m.GetIssuer())
}

// credentials replaces the secrets of a tenant; nil removes them. A secret whose
// sealed bytes did not change keeps its opened value.
func (c *change) credentials(tenantID string, m *syncv1.CredentialShard, opener Opener) {
	old, _ := c.secrets.get(tenantID)
	s := &Secrets{ByCredential: make(map[string]*Secret), ByProxy: make(map[string]*Secret)}
	for _, sealed := range m.GetSecrets() {
		if id := sealed.GetUpstreamId(); id != "" {
			s.ByProxy[id] = newSecret(tenantID, sealed, opener, old.proxy(id))
			continue
		}
		id := sealed.GetCredentialId()
		s.ByCredential[id] = newSecret(tenantID, sealed, opener, old.credential(id))
	}
	var oldState *stateKey
	if old != nil {
		oldState = old.state
	}
	if s.state = newStateKey(tenantID, m, opener, oldState); s.state == nil && oldState != nil {
		c.gone = append(c.gone, oldState)
	}
	if old != nil {
		c.gone = appendGone(c.gone, old.ByCredential, s.ByCredential)
		c.gone = appendGone(c.gone, old.ByProxy, s.ByProxy)
	}
	if m == nil {
		c.secrets.remove(tenantID)
		return
	}
	c.secrets.put(tenantID, s)
}

func appendGone(gone []dropper, old, next map[string]*Secret) []dropper {
	for id, s := range old {
		if next[id] == nil {
			gone = append(gone, s)
		}
	}
	return gone
}

func (s *Secrets) credential(id string) *Secret {
	if s == nil {
		return nil
	}
	return s.ByCredential[id]
}

func (s *Secrets) proxy(id string) *Secret {
	if s == nil {
		return nil
	}
	return s.ByProxy[id]
}

func byID[M interface{ GetId() string }](list []M) map[string]M {
	m := make(map[string]M, len(list))
	for _, x := range list {
		m[x.GetId()] = x
	}
	return m
}

func timeOf(seconds int64, nanos int32) time.Time {
	if seconds == 0 && nanos == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanos))
}

// Tenants returns the ids of all tenants, sorted. It is for operators and tests,
// not for the request path.
func (v *View) Tenants() []string {
	ids := make([]string, 0, v.tenants.size())
	v.tenants.each(func(id string, _ *Tenant) { ids = append(ids, id) })
	slices.Sort(ids)
	return ids
}
