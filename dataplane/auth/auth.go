// Package auth turns what a caller presents into a principal, by the methods its
// route accepts and nothing but the pinned configuration.
package auth

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/route"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// Method is how a caller was recognised.
type Method uint8

// The methods, in the order in which a route tries them.
const (
	Disabled Method = iota
	Passthrough
	LegacyToken
	APIKey
)

var methodNames = [...]string{"disabled", "passthrough", "legacy_token", "api_key"}

// String is the name used in logs and records.
func (m Method) String() string { return methodNames[m] }

// Principal is who calls. With every method but APIKey it is the tenant alone.
type Principal struct {
	Method   Method
	Tenant   *snapshot.Tenant
	Key      *snapshot.Key     // nil unless Method is APIKey
	Project  *snapshot.Subject // nil if there is none
	Consumer *snapshot.Subject // nil unless Method is APIKey

	// Bearer is the caller's own Authorization of a passthrough route, for the
	// upstream.
	Bearer secret.Text

	hash    snapshot.KeyHash // of the key or token; zero for none
	subject *snapshot.Subject
}

// Authenticator authenticates callers. Its zero value is ready.
type Authenticator struct {
	// Stale reports that the node's knowledge of a tenant's keys is older than the
	// tenant allows, and that the tenant rather denies. Nil means never.
	Stale func(v *snapshot.View, tenantID string) bool
}

// Authenticate returns the principal of a request. It fails with
// fault.Unauthenticated if nothing acceptable is presented, fault.NotPermitted if
// the key may not do op, and fault.ConfigStale if the node knows too little of the
// last changes and the tenant rather denies.
func (a *Authenticator) Authenticate(v *snapshot.View, m route.Match, op Operation, h http.Header, query string, now time.Time) (*Principal, *fault.Error) {
	if m.GetDisableAuth() {
		return a.tenantAlone(v, m, &Principal{Method: Disabled})
	}
	presented, f := presentedToken(h, query)
	if f != nil {
		return nil, f
	}
	if m.GetPassthroughAuthToken() {
		if presented == "" {
			return nil, unauthenticated("this route passes the caller's own provider key on: send it as Authorization: Bearer")
		}
		return a.tenantAlone(v, m, &Principal{Method: Passthrough, Bearer: secret.New(presented)})
	}
	if presented == "" {
		return nil, unauthenticated("no API key was sent; send it as Authorization: Bearer, x-api-key, x-goog-api-key or ?key=")
	}
	hash := snapshot.KeyHash(sha256.Sum256([]byte(presented)))
	key := v.Key(hash)
	switch {
	case key == nil:
		return nil, unauthenticated("the API key is unknown, revoked or disabled")
	case key.RouteID != "" && key.RouteID != m.GetId(), m.TenantID != "" && key.TenantID != m.TenantID:
		return nil, unauthenticated("the API key is not for this route")
	case key.Token:
		return a.tenantAlone(v, m, &Principal{Method: LegacyToken, hash: hash})
	case !m.GetConsumerApiKeys():
		return nil, unauthenticated("this route does not take API keys of consumers")
	case !key.Expire.IsZero() && !now.Before(key.Expire):
		return nil, unauthenticated("the API key has expired")
	}
	p := &Principal{Method: APIKey, Key: key, hash: hash}
	if f := a.admit(v, key.TenantID, p); f != nil {
		return nil, f
	}
	if f := a.consumer(v, p); f != nil {
		return nil, f
	}
	if !allows(key.Scopes, op) {
		return nil, fault.Newf(fault.NotPermitted, "the scopes of this API key do not allow this operation; it takes the scope %s", op.scopes())
	}
	return p, nil
}

// Alive reports whether the principal may still start an upstream attempt under
// the current identity state, which may be newer than the one it was admitted under.
func (p *Principal) Alive(current *snapshot.View, now time.Time) bool {
	if p.subject != nil && blocked(current.Subject(syncv1.SubjectKind_SUBJECT_KIND_TENANT, p.subject.GetId())) {
		return false
	}
	if p.hash == (snapshot.KeyHash{}) {
		return true
	}
	key := current.Key(p.hash)
	if key == nil || !key.Expire.IsZero() && !now.Before(key.Expire) {
		return false
	}
	if p.Method != APIKey {
		return true
	}
	if blocked(current.Subject(syncv1.SubjectKind_SUBJECT_KIND_CONSUMER, key.ConsumerID)) {
		return false
	}
	return p.Project == nil || !blocked(current.Subject(syncv1.SubjectKind_SUBJECT_KIND_PROJECT, p.Project.GetId()))
}

// MayUse reports whether the lists of consumer and key contain the model.
func (p *Principal) MayUse(model string) bool {
	if p.Consumer != nil && !p.Consumer.Allowed.Contains(model) {
		return false
	}
	return p.Key == nil || p.Key.Allowed.Contains(model)
}

// Groups returns the ids of the groups that the principal may use on the route:
// route, consumer and key narrow each other, and naming none anywhere means the
// default group.
func (p *Principal) Groups(r *snapshot.Route) []string {
	groups := r.GetGroupIds()
	if p.Consumer != nil {
		groups = narrow(groups, p.Consumer.GetGroupIds())
	}
	if p.Key != nil {
		groups = narrow(groups, p.Key.GroupIDs)
	}
	if groups == nil {
		return []string{p.Tenant.DefaultGroup}
	}
	return groups
}

// narrow intersects two lists of which an empty one does not narrow. The result
// is nil only if neither narrows.
func narrow(outer, inner []string) []string {
	switch {
	case len(inner) == 0:
		return outer
	case len(outer) == 0:
		return inner
	}
	both := make([]string, 0, len(inner))
	for _, g := range inner {
		if slices.Contains(outer, g) {
			both = append(both, g)
		}
	}
	return both
}

func (a *Authenticator) tenantAlone(v *snapshot.View, m route.Match, p *Principal) (*Principal, *fault.Error) {
	if m.TenantID == "" {
		return nil, unauthenticated("this route serves several tenants and needs an API key")
	}
	if f := a.admit(v, m.TenantID, p); f != nil {
		return nil, f
	}
	return p, nil
}

func (a *Authenticator) admit(v *snapshot.View, tenantID string, p *Principal) *fault.Error {
	p.Tenant = v.Tenant(tenantID)
	p.subject = v.Subject(syncv1.SubjectKind_SUBJECT_KIND_TENANT, tenantID)
	if p.Tenant == nil || p.subject == nil {
		return fault.New(fault.ConfigUnavailable, "the configuration of the tenant has not reached this node yet")
	}
	if blocked(p.subject) {
		return fault.New(fault.NotPermitted, "the tenant is suspended")
	}
	if a.Stale != nil && a.Stale(v, tenantID) {
		return fault.New(fault.ConfigStale, "this node has not heard of revoked keys for longer than the tenant allows")
	}
	return nil
}

func blocked(s *snapshot.Subject) bool { return s == nil || s.GetSuspended() }

func unauthenticated(text string) *fault.Error { return fault.New(fault.Unauthenticated, text) }

// SubprotocolKey begins the sub-protocol of a WebSocket that is an API key.
const SubprotocolKey = "openai-insecure-api-key."

// presentedToken returns the one token a request carries; empty if it has none. Older
// and newer SDKs of one vendor use different places, so all are looked at.
func presentedToken(h http.Header, query string) (string, *fault.Error) {
	found := ""
	differ := false
	take := func(token string) {
		if token == "" {
			return
		}
		differ = differ || found != "" && found != token
		found = token
	}
	for _, v := range h["Authorization"] {
		scheme, token, _ := strings.Cut(v, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", unauthenticated("the Authorization header must be of the form: Bearer KEY")
		}
		take(strings.TrimSpace(token))
	}
	for _, name := range [2]string{"X-Api-Key", "X-Goog-Api-Key"} {
		for _, v := range h[name] {
			take(strings.TrimSpace(v))
		}
	}
	for _, v := range h["Sec-Websocket-Protocol"] {
		for p := range strings.SplitSeq(v, ",") { // browsers can set no other header
			if token, ok := strings.CutPrefix(strings.TrimSpace(p), SubprotocolKey); ok {
				take(token)
			}
		}
	}
	if strings.Contains(query, "key=") {
		q, err := url.ParseQuery(query)
		if err != nil {
			return "", fault.New(fault.InvalidRequest, "the query string cannot be read")
		}
		for _, v := range q["key"] {
			take(v)
		}
	}
	if differ {
		return "", unauthenticated("the request carries two different API keys; send one")
	}
	return found, nil
}
