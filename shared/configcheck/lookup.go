package configcheck

import (
	"iter"
	"maps"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// Lookup is where a check reads decoded shards. A method returns nil for a shard
// that does not exist. All answers must come from one state of the
// configuration, the one that is being checked; returned messages are only read.
//
// [View] implements it over maps.
type Lookup interface {
	Global() *syncv1.GlobalShard
	Tenant(id string) *syncv1.TenantShard
	CredentialShard(tenantID string) *syncv1.CredentialShard
	Subject(kind syncv1.SubjectKind, id string) *syncv1.SubjectRecord
	Key(sha256 string) *syncv1.KeyRecord
	Issuer(id string) *syncv1.IssuerRecord

	// RoutesAt lists every route, of any tenant, at a place.
	RoutesAt(Place) []RouteRef
	// IssuersAt lists the ids of the tenant's issuers with that iss claim.
	IssuersAt(tenantID, issuer string) []string
	// ProvidersInUse yields the global providers that tenants refer to, each
	// with one such tenant. It is asked only when the global shard changed.
	// Where foreign keys already rule out a dangling reference it may yield none.
	ProvidersInUse() iter.Seq2[string, string]
}

// KeyLister is implemented by a Lookup that can list the keys of a consumer.
// Then a change of a consumer's groups also checks its keys.
type KeyLister interface {
	KeysOf(consumerID string) iter.Seq[*syncv1.KeyRecord]
}

// RouteRef names a route. TenantID is empty for a route of all tenants.
type RouteRef struct {
	TenantID string
	RouteID  string
}

// View is a configuration held in maps. Its zero value is empty. Fill the maps,
// then call Index; after a change of a shard call Index again.
//
// A View is not safe for concurrent use while it changes.
type View struct {
	GlobalShard *syncv1.GlobalShard
	Tenants     map[string]*syncv1.TenantShard     // by tenant id
	Credentials map[string]*syncv1.CredentialShard // by tenant id
	Subjects    map[SubjectKey]*syncv1.SubjectRecord
	Keys        map[string]*syncv1.KeyRecord    // by the hex SHA-256 of the key
	Issuers     map[string]*syncv1.IssuerRecord // by issuer id

	routes  RouteIndex
	issuers map[issuerKey][]string
}

// SubjectKey names a subject record.
type SubjectKey struct {
	Kind syncv1.SubjectKind
	ID   string
}

type issuerKey struct{ tenantID, issuer string }

// NewView returns an empty View whose maps are made.
func NewView() *View {
	return &View{
		Tenants:     map[string]*syncv1.TenantShard{},
		Credentials: map[string]*syncv1.CredentialShard{},
		Subjects:    map[SubjectKey]*syncv1.SubjectRecord{},
		Keys:        map[string]*syncv1.KeyRecord{},
		Issuers:     map[string]*syncv1.IssuerRecord{},
	}
}

// Index rebuilds what RoutesAt and IssuersAt answer from.
func (v *View) Index() {
	v.routes = RouteIndex{}
	v.routes.Set("", v.GlobalShard.GetSharedRoutes())
	for id, t := range v.Tenants {
		if id != "" {
			v.routes.Set(id, t.GetRoutes())
		}
	}
	v.issuers = map[issuerKey][]string{}
	for id, rec := range v.Issuers {
		k := issuerKey{rec.GetIssuer().GetTenantId(), rec.GetIssuer().GetIssuer()}
		v.issuers[k] = append(v.issuers[k], id)
	}
}

// Global implements Lookup.
func (v *View) Global() *syncv1.GlobalShard { return v.GlobalShard }

// Tenant implements Lookup.
func (v *View) Tenant(id string) *syncv1.TenantShard { return v.Tenants[id] }

// CredentialShard implements Lookup.
func (v *View) CredentialShard(tenantID string) *syncv1.CredentialShard {
	return v.Credentials[tenantID]
}

// Subject implements Lookup.
func (v *View) Subject(kind syncv1.SubjectKind, id string) *syncv1.SubjectRecord {
	return v.Subjects[SubjectKey{kind, id}]
}

// Key implements Lookup.
func (v *View) Key(sha256 string) *syncv1.KeyRecord { return v.Keys[sha256] }

// Issuer implements Lookup.
func (v *View) Issuer(id string) *syncv1.IssuerRecord { return v.Issuers[id] }

// RoutesAt implements Lookup.
func (v *View) RoutesAt(p Place) []RouteRef { return v.routes.At(p) }

// IssuersAt implements Lookup.
func (v *View) IssuersAt(tenantID, issuer string) []string {
	return v.issuers[issuerKey{tenantID, issuer}]
}

// ProvidersInUse implements Lookup.
func (v *View) ProvidersInUse() iter.Seq2[string, string] {
	used := map[string]string{}
	for id, t := range v.Tenants {
		own := map[string]bool{}
		for _, p := range t.GetProviders() {
			own[p.GetId()] = true
		}
		for _, u := range t.GetUpstreams() {
			if pid := u.GetProviderId(); !own[pid] {
				used[pid] = id
			}
		}
	}
	return maps.All(used)
}

// KeysOf implements KeyLister.
func (v *View) KeysOf(consumerID string) iter.Seq[*syncv1.KeyRecord] {
	return func(yield func(*syncv1.KeyRecord) bool) {
		for _, k := range v.Keys {
			if k.GetConsumerKey() != nil && k.GetConsumerKey().GetConsumerId() == consumerID && !yield(k) {
				return
			}
		}
	}
}
