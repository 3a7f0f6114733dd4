// Package snapshot holds what a node knows of the configuration: it follows the
// control plane, verifies and indexes what comes, keeps the last good state on
// disk, and swaps it in one step. A request pins one View at admission and keeps
// it to its end.
package snapshot

import (
	"crypto/sha256"
	"sync/atomic"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// Position is one state of a domain.
type Position struct {
	Epoch      uint64
	Generation uint64
	Root       [sha256.Size]byte
}

// IsZero reports that nothing was ever loaded.
func (p Position) IsZero() bool { return p == Position{} }

// View is one immutable state of the configuration, indexed for the request path.
// Everything reached through it is shared by all requests and must not be changed.
type View struct {
	Identity Position
	Policy   Position

	Global *Global

	tenants  cow[*Tenant]
	subjects cow[*Subject]
	keys     cow[*Key]
	issuers  cow[*configv1.JWTIssuer]
	secrets  cow[*Secrets]
	routes   cow[*Route] // by host, 0, path prefix
}

// Whole reports whether there is a state of every domain. A View that is not whole is
// that of a node which has just started: with it every call would be refused for a
// reason that is not so, an unknown path or an unknown key.
func (v *View) Whole() bool { return v != nil && !v.Identity.IsZero() && !v.Policy.IsZero() }

// Global is what belongs to no tenant.
type Global struct {
	Message   *syncv1.GlobalShard
	Providers map[string]*configv1.Provider // by id
}

// Tenant is the policy side of one tenant.
type Tenant struct {
	ID      string
	Message *syncv1.TenantShard

	Groups    map[string]*configv1.Group    // by id
	Upstreams map[string]*configv1.Upstream // by id
	Providers map[string]*configv1.Provider // the tenant's own, by id
	Policies  map[string]*configv1.Policy   // by id

	// DefaultGroup is the id of the group named "default".
	DefaultGroup string

	// built holds what the registered builders made of the shard, by their names.
	built map[string]any
}

// Built returns what the builder of that name made of the tenant; nil if there is none.
func (t *Tenant) Built(name string) any { return t.built[name] }

// Subject is the identity side of a tenant, project or consumer.
type Subject struct {
	*syncv1.SubjectRecord
	Allowed *NameSet // nil allows every model
}

// KeyHash is the SHA-256 of a caller's secret.
type KeyHash [sha256.Size]byte

// Key is one secret that callers present: a consumer's key, or a route's token.
type Key struct {
	ID         string // empty for a route token
	TenantID   string
	ProjectID  string
	ConsumerID string
	RouteID    string // the only route it is for; empty for every route of the tenant
	GroupIDs   []string
	Scopes     map[configv1.Scope]bool
	Expire     time.Time // zero for none
	Class      configv1.TrafficClass
	Allowed    *NameSet // nil allows every model
	Labels     map[string]string
	Token      bool // a route's legacy token: a principal of the tenant alone
}

// Route is one place where clients call.
type Route struct {
	*configv1.Route
	TenantID  string                         // empty on a shared route
	Protocols map[configv1.Protocol]struct{} // nil takes all
}

// Secrets are the secrets of one tenant.
type Secrets struct {
	ByCredential map[string]*Secret
	ByProxy      map[string]*Secret // passwords of upstreams' egress proxies, by upstream

	state *stateKey // nil if there is none
}

// FindRoute returns the route whose prefix is the longest one that path begins
// with, on whole segments, and what follows the prefix. The route of the very
// host comes before one for any host. host carries no port and is lower case.
func (v *View) FindRoute(host, path string) (r *Route, rest string) {
	for _, h := range [2]string{host, ""} {
		for end := len(path); ; {
			prefix := path[:end]
			if prefix == "" {
				prefix = "/"
			}
			if r, ok := v.routes.get(routeKey(h, prefix)); ok {
				return r, path[end:]
			}
			if end == 0 {
				break
			}
			end--
			for end > 0 && path[end] != '/' {
				end--
			}
		}
		if host == "" {
			break
		}
	}
	return nil, ""
}

func routeKey(host, prefix string) string { return host + "\x00" + prefix }

// Tenant returns the policy side of a tenant; nil if the node does not have it.
func (v *View) Tenant(id string) *Tenant {
	t, _ := v.tenants.get(id)
	return t
}

// EachTenant calls fn with every tenant, in no order, until it returns false.
func (v *View) EachTenant(fn func(*Tenant) bool) {
	if v.tenants.parts == nil {
		return
	}
	for _, p := range v.tenants.parts {
		for _, t := range p {
			if !fn(t) {
				return
			}
		}
	}
}

// Subject returns the identity side of a tenant, project or consumer; nil if there is none.
func (v *View) Subject(kind syncv1.SubjectKind, id string) *Subject {
	s, _ := v.subjects.get(subjectKey(kind, id))
	return s
}

func subjectKey(kind syncv1.SubjectKind, id string) string {
	return string(rune('0'+kind)) + id
}

// Key returns the key whose secret has this hash; nil if there is none.
func (v *View) Key(h KeyHash) *Key {
	k, _ := v.keys.get(string(h[:]))
	return k
}

// EachKey calls f for every key, in no order. It is for operators' questions, not for the
// request path.
func (v *View) EachKey(f func(KeyHash, *Key)) {
	v.keys.each(func(hash string, k *Key) { f(KeyHash([]byte(hash)), k) })
}

// Issuer returns a JWT issuer by id; nil if there is none.
func (v *View) Issuer(id string) *configv1.JWTIssuer {
	i, _ := v.issuers.get(id)
	return i
}

// Provider returns a provider of the tenant, or a global one; nil if there is none.
func (v *View) Provider(t *Tenant, id string) *configv1.Provider {
	if p := t.Providers[id]; p != nil {
		return p
	}
	return v.Global.Providers[id]
}

// Secret returns the secret of a credential; nil if it is not on this node, which
// keeps the credential from being used.
func (v *View) Secret(tenantID, credentialID string) *Secret {
	s, ok := v.secrets.get(tenantID)
	if !ok {
		return nil
	}
	return s.ByCredential[credentialID]
}

// ProxySecret returns the password of an upstream's egress proxy; nil if there is none.
func (v *View) ProxySecret(tenantID, upstreamID string) *Secret {
	s, ok := v.secrets.get(tenantID)
	if !ok {
		return nil
	}
	return s.ByProxy[upstreamID]
}

// Holder gives requests the current View. Its zero value holds none.
type Holder struct {
	current atomic.Pointer[View]
}

// Load returns the current View; nil before the first one. It takes no lock.
func (h *Holder) Load() *View { return h.current.Load() }

func (h *Holder) store(v *View) { h.current.Store(v) }
