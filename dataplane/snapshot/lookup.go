package snapshot

import (
	"iter"
	"maps"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// Checker says what is wrong with changed shards. configcheck.Checker is one, the
// same that the control plane runs before it commits.
type Checker interface {
	// CheckChanged returns the violations of the changed shards, each with its
	// shard key. What v answers is the state in which they would be served.
	CheckChanged(v configcheck.Lookup, changed []string) []*syncv1.Violation
}

// lookup is the state a Checker looks at: what is served now, with the changes of
// an update over it. Apart from the changes it decodes nothing but what is asked for.
type lookup struct {
	base *View
	// served gives the bytes of a shard as it is served now.
	served func(key string) ([]byte, bool)
	// over holds the changed shards by key; nil stands for a shard that is gone.
	over map[string]proto.Message

	routes  map[configcheck.Place][]configcheck.RouteRef // of over; nil until asked
	issuers map[issuerClaim][]string                     // of everything; nil until asked
}

type issuerClaim struct{ tenant, issuer string }

// Global implements configcheck.Lookup.
func (l *lookup) Global() *syncv1.GlobalShard {
	if m, ok := l.over[shard.Global()]; ok {
		g, _ := m.(*syncv1.GlobalShard)
		return g
	}
	return l.base.Global.Message
}

// Tenant implements configcheck.Lookup.
func (l *lookup) Tenant(id string) *syncv1.TenantShard {
	if m, ok := l.over[shard.Tenant(id)]; ok {
		t, _ := m.(*syncv1.TenantShard)
		return t
	}
	if t := l.base.Tenant(id); t != nil {
		return t.Message
	}
	return nil
}

// CredentialShard implements configcheck.Lookup.
func (l *lookup) CredentialShard(tenantID string) *syncv1.CredentialShard {
	m, _ := l.decoded(shard.Credentials(tenantID)).(*syncv1.CredentialShard)
	return m
}

// Subject implements configcheck.Lookup.
func (l *lookup) Subject(kind syncv1.SubjectKind, id string) *syncv1.SubjectRecord {
	if m, ok := l.over[shard.Subject(shardSubject(kind), id)]; ok {
		s, _ := m.(*syncv1.SubjectRecord)
		return s
	}
	if s := l.base.Subject(kind, id); s != nil {
		return s.SubjectRecord
	}
	return nil
}

// Key implements configcheck.Lookup.
func (l *lookup) Key(sha256 string) *syncv1.KeyRecord {
	m, _ := l.decoded(shard.Key(sha256)).(*syncv1.KeyRecord)
	return m
}

// Issuer implements configcheck.Lookup.
func (l *lookup) Issuer(id string) *syncv1.IssuerRecord {
	if m, ok := l.over[shard.Issuer(id)]; ok {
		i, _ := m.(*syncv1.IssuerRecord)
		return i
	}
	if i := l.base.Issuer(id); i != nil {
		return &syncv1.IssuerRecord{Issuer: i}
	}
	return nil
}

// decoded reads a shard that the View does not keep as a message.
func (l *lookup) decoded(key string) proto.Message {
	if m, ok := l.over[key]; ok {
		return m
	}
	payload, ok := l.served(key)
	if !ok {
		return nil
	}
	name, err := shard.Parse(key)
	if err != nil {
		return nil
	}
	m, _, err := decodeShard(name, payload)
	if err != nil {
		return nil
	}
	return m
}

// RoutesAt implements configcheck.Lookup. A route that is switched off and did not
// change is not listed: it takes no request, so it cannot be in the way of another.
func (l *lookup) RoutesAt(p configcheck.Place) []configcheck.RouteRef {
	if l.routes == nil {
		l.indexRoutes()
	}
	refs := l.routes[p]
	if r, ok := l.base.routes.get(routeKey(p.Host, p.PathPrefix)); ok {
		key := shard.Global()
		if r.TenantID != "" {
			key = shard.Tenant(r.TenantID)
		}
		if _, changed := l.over[key]; !changed {
			refs = append(refs[:len(refs):len(refs)], configcheck.RouteRef{TenantID: r.TenantID, RouteID: r.GetId()})
		}
	}
	return refs
}

func (l *lookup) indexRoutes() {
	l.routes = make(map[configcheck.Place][]configcheck.RouteRef)
	add := func(tenantID string, routes []*configv1.Route) {
		for _, r := range routes {
			p := configcheck.PlaceOf(r.GetHost(), r.GetPathPrefix())
			l.routes[p] = append(l.routes[p], configcheck.RouteRef{TenantID: tenantID, RouteID: r.GetId()})
		}
	}
	for _, m := range l.over {
		switch m := m.(type) {
		case *syncv1.GlobalShard:
			add("", m.GetSharedRoutes())
		case *syncv1.TenantShard:
			add(m.GetTenant().GetId(), m.GetRoutes())
		}
	}
}

// IssuersAt implements configcheck.Lookup.
func (l *lookup) IssuersAt(tenantID, issuer string) []string {
	if l.issuers == nil {
		l.issuers = make(map[issuerClaim][]string)
		add := func(id string, i *configv1.JWTIssuer) {
			at := issuerClaim{i.GetTenantId(), i.GetIssuer()}
			l.issuers[at] = append(l.issuers[at], id)
		}
		l.base.issuers.each(func(id string, i *configv1.JWTIssuer) {
			if _, changed := l.over[shard.Issuer(id)]; !changed {
				add(id, i)
			}
		})
		for _, m := range l.over {
			if r, ok := m.(*syncv1.IssuerRecord); ok && r != nil {
				add(r.GetIssuer().GetId(), r.GetIssuer())
			}
		}
	}
	return l.issuers[issuerClaim{tenantID, issuer}]
}

// ProvidersInUse implements configcheck.Lookup.
func (l *lookup) ProvidersInUse() iter.Seq2[string, string] {
	used := make(map[string]string)
	add := func(id string, m *syncv1.TenantShard) {
		own := byID(m.GetProviders())
		for _, u := range m.GetUpstreams() {
			if own[u.GetProviderId()] == nil {
				used[u.GetProviderId()] = id
			}
		}
	}
	l.base.tenants.each(func(id string, t *Tenant) {
		if _, changed := l.over[shard.Tenant(id)]; !changed {
			add(id, t.Message)
		}
	})
	for _, m := range l.over {
		if t, ok := m.(*syncv1.TenantShard); ok && t != nil {
			add(t.GetTenant().GetId(), t)
		}
	}
	return maps.All(used)
}
