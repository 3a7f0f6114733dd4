package auth

import (
	"time"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/route"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// MethodNamed returns the method of that name.
func MethodNamed(name string) (Method, bool) {
	for m, n := range methodNames {
		if n == name {
			return Method(m), true
		}
	}
	return Disabled, false
}

// Callers finds the callers of one configuration by the ids of their keys. It is for
// questions about requests, whose secrets nobody has; it never lets a request in.
type Callers struct {
	view *snapshot.View
	keys map[string]snapshot.KeyHash
}

// NewCallers returns the callers of v. It looks at every key once.
func NewCallers(v *snapshot.View) *Callers {
	c := &Callers{view: v, keys: make(map[string]snapshot.KeyHash)}
	v.EachKey(func(h snapshot.KeyHash, k *snapshot.Key) {
		if k.ID != "" {
			c.keys[k.ID] = h
		}
	})
	return c
}

// Principal is who calls on a route with the key of that id at a time, or the tenant
// alone if keyID is empty, as one whom method recognised. It fails as Authenticate does
// for a key that is gone, expired or suspended; scopes are not looked at.
func (c *Callers) Principal(m route.Match, method Method, tenantID, keyID string, now time.Time) (*Principal, *fault.Error) {
	a := new(Authenticator)
	p := &Principal{Method: method}
	if keyID == "" {
		if m.TenantID != "" && tenantID != "" && m.TenantID != tenantID {
			return nil, fault.New(fault.NotPermitted, "the route belongs to another tenant")
		}
		if tenantID == "" {
			tenantID = m.TenantID
		}
		if tenantID == "" {
			return nil, unauthenticated("this route serves several tenants: name the tenant or an API key")
		}
		if f := a.admit(c.view, tenantID, p); f != nil {
			return nil, f
		}
		return p, nil
	}
	hash, ok := c.keys[keyID]
	if !ok {
		return nil, unauthenticated("the API key is unknown, revoked or disabled")
	}
	key := c.view.Key(hash)
	switch {
	case tenantID != "" && key.TenantID != tenantID:
		return nil, unauthenticated("the API key is unknown, revoked or disabled") // to whom asks about one tenant
	case key.RouteID != "" && key.RouteID != m.GetId(), m.TenantID != "" && key.TenantID != m.TenantID:
		return nil, unauthenticated("the API key is not for this route")
	case !key.Expire.IsZero() && !now.Before(key.Expire):
		return nil, unauthenticated("the API key has expired")
	}
	p.Method, p.Key, p.hash = APIKey, key, hash
	if f := a.admit(c.view, key.TenantID, p); f != nil {
		return nil, f
	}
	return p, a.consumer(c.view, p)
}

// consumer finds the consumer and the project of a key.
func (a *Authenticator) consumer(v *snapshot.View, p *Principal) *fault.Error {
	if p.Consumer = v.Subject(syncv1.SubjectKind_SUBJECT_KIND_CONSUMER, p.Key.ConsumerID); blocked(p.Consumer) {
		return fault.New(fault.NotPermitted, "the consumer of this API key is suspended")
	}
	projectID := p.Key.ProjectID
	if projectID == "" {
		projectID = p.Consumer.GetProjectId()
	}
	if projectID == "" {
		return nil
	}
	if p.Project = v.Subject(syncv1.SubjectKind_SUBJECT_KIND_PROJECT, projectID); blocked(p.Project) {
		return fault.New(fault.NotPermitted, "the project of this API key is suspended")
	}
	return nil
}
