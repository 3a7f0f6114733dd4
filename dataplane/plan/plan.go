// Package plan expands a decision to candidates: everything that could serve the
// request, one by provider, upstream, model and credential. It is pure and judges
// nothing; the scheduler's filters do.
package plan

import (
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

const builderName = "plan"

// Account is the part of a candidate that does not depend on the request: an
// upstream's model as one credential can call it. It is made once for each
// configuration and shared by all requests.
type Account struct {
	ID         string // stable and unique in the tenant
	TenantID   string
	Upstream   *configv1.Upstream
	Model      *configv1.UpstreamModel      // never an alias
	Credential *configv1.UpstreamCredential // nil for an upstream without credentials

	Priority int32 // smaller is preferred
	Weight   int32

	// Keys of runtime state, one for each scope.
	CredentialKey string // the credential, or the upstream that needs none
	QuotaKey      string
	StateScope    string    // whoever shares it can read what the provider stores for the account
	RotationKey   string    // accounts that take turns share it
	SlotKeys      [3]string // credential, upstream and provider, whose running attempts are counted

	Pricing []*configv1.ProviderPricing // the tenant's own
	priced  atomic.Pointer[priced]

	// Runtime is where the scheduler keeps its hold on the state of the account, so
	// that a selection need not look it up by name. What it finds here may be another
	// scheduler's.
	Runtime atomic.Value
}

// Role says why a candidate is one.
type Role uint8

// The roles.
const (
	Primary       Role = iota // the request's own model, at a provider that is no fallback
	ModelChain                // another model that may answer instead
	ProviderChain             // the request's own model, at a provider that is a fallback
)

var roleNames = [...]string{"primary", "model_chain", "provider_chain"}

// String is the name used in records.
func (r Role) String() string { return roleNames[r] }

// CredentialID is the id of the credential; empty if the upstream needs none.
func (a *Account) CredentialID() string { return a.Credential.GetId() }

// ProxyKey is the key of the egress proxy that calls of the account go through: the
// credential's own, else the upstream's; empty without one. It is the tenant's: what one
// cannot reach is no reason for another to stay away from.
func (a *Account) ProxyKey() string {
	p := a.Credential.GetProxy()
	if p == nil {
		p = a.Upstream.GetProxy()
	}
	if p.GetUrl() == "" {
		return ""
	}
	return a.TenantID + "|" + p.GetUrl()
}

// UpstreamModel is the model's name as the upstream knows it.
func (a *Account) UpstreamModel() string {
	if n := a.Model.GetUpstreamModel(); n != "" {
		return n
	}
	return a.Model.GetModel()
}

// Candidate is an account that could serve one request.
type Candidate struct {
	*Account
	Provider   *configv1.Provider   // nil if the node does not know it
	Protocol   configv1.Protocol    // that the upstream is called in: the caller's own if it speaks it
	Capability *configv1.Capability // how the provider speaks Protocol; nil if it speaks none that will do
	BaseURL    string

	// Use tells apart what a model is called for, where that is not generation. An
	// account that fails at one use does not rest for the others.
	Use string

	Role   Role
	Chain  int  // position in its chain
	Denied bool // a policy of the caller forbids it
}

// Compat is how the candidate's server deviates from its protocol, as the capability
// and the upstream say.
func (c *Candidate) Compat() *configv1.Compat {
	of, here := c.Capability.GetCompat(), c.Upstream.GetCompat()
	switch {
	case here == nil:
		return of
	case of == nil:
		return here
	}
	both := proto.CloneOf(of)
	proto.Merge(both, here)
	return both
}

// accounts is what the builder makes of one tenant.
type accounts struct {
	byModel map[string][]*Account // by public name, aliases included; sorted by id
	bare    map[string][]*Account // the same with one account without credential for each upstream

	// For calls that name no model: one account a credential, and one an upstream.
	all, allBare []*Account
}

// Builder makes the accounts of a tenant when its configuration changes.
func Builder() snapshot.TenantBuilder {
	return snapshot.TenantBuilder{Name: builderName, Build: func(t *snapshot.Tenant) (any, error) { return build(t), nil }}
}

type modelKey struct{ upstream, model string }

func build(t *snapshot.Tenant) *accounts {
	credentials := make(map[string][]*configv1.UpstreamCredential)
	for _, c := range t.Message.GetCredentials() {
		credentials[c.GetUpstreamId()] = append(credentials[c.GetUpstreamId()], c)
	}
	rows := make(map[modelKey]*configv1.UpstreamModel)
	for _, m := range t.Message.GetModels() {
		rows[modelKey{m.GetUpstreamId(), m.GetModel()}] = m
	}
	made := make(map[string][]*Account) // by row id
	built := &accounts{byModel: make(map[string][]*Account), bare: make(map[string][]*Account)}
	for _, row := range t.Message.GetModels() {
		served := row
		if alias := row.GetAliasOf(); alias != "" {
			if served = rows[modelKey{row.GetUpstreamId(), alias}]; served == nil {
				continue
			}
			if row.GetDisabled() {
				continue // the alias is switched off, whatever its model is
			}
		}
		u := t.Upstreams[row.GetUpstreamId()]
		if u == nil {
			continue
		}
		list, ok := made[served.GetId()]
		if !ok {
			list = accountsOf(t, u, served, credentials[u.GetId()])
			made[served.GetId()] = list
		}
		built.byModel[row.GetModel()] = append(built.byModel[row.GetModel()], list...)
		built.bare[row.GetModel()] = append(built.bare[row.GetModel()], accountsOf(t, u, served, nil)...)
	}
	for _, u := range t.Message.GetUpstreams() {
		none := &configv1.UpstreamModel{Id: u.GetId(), TenantId: t.ID, UpstreamId: u.GetId()}
		built.all = append(built.all, accountsOf(t, u, none, credentials[u.GetId()])...)
		built.allBare = append(built.allBare, accountsOf(t, u, none, nil)...)
	}
	byID := func(a, b *Account) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(built.all, byID)
	slices.SortFunc(built.allBare, byID)
	for _, lists := range []map[string][]*Account{built.byModel, built.bare} {
		for _, list := range lists {
			slices.SortFunc(list, byID)
		}
	}
	return built
}

func accountsOf(t *snapshot.Tenant, u *configv1.Upstream, m *configv1.UpstreamModel, credentials []*configv1.UpstreamCredential) []*Account {
	base := func() *Account {
		return &Account{
			TenantID:    t.ID,
			Upstream:    u,
			Model:       m,
			Priority:    orOne(u.GetPriority()),
			Weight:      orOne(u.GetWeight()),
			RotationKey: t.ID + "|" + m.GetModel(),
			Pricing:     t.Message.GetPricing(),
		}
	}
	if len(credentials) == 0 {
		a := base()
		a.ID = m.GetId()
		a.CredentialKey, a.QuotaKey, a.StateScope = u.GetId(), u.GetId(), u.GetId()
		a.SlotKeys = slotKeys(a)
		return []*Account{a}
	}
	list := make([]*Account, 0, len(credentials))
	for _, c := range credentials {
		if allow := c.GetModels(); len(allow) > 0 && m.GetModel() != "" && !slices.Contains(allow, m.GetModel()) {
			continue
		}
		a := base()
		a.Credential = c
		a.ID = m.GetId() + "/" + c.GetId()
		if c.Priority != nil {
			a.Priority = orOne(c.GetPriority())
		}
		if c.Weight != nil {
			a.Weight = orOne(c.GetWeight())
		}
		a.CredentialKey, a.QuotaKey, a.StateScope = c.GetId(), c.GetId(), c.GetId()
		if s := c.GetStateScope(); s != "" {
			a.StateScope = s
		}
		if q := c.GetQuotaGroup(); q != "" {
			a.QuotaKey = "group:" + t.ID + ":" + q
		}
		a.SlotKeys = slotKeys(a)
		list = append(list, a)
	}
	return list
}

func slotKeys(a *Account) [3]string {
	return [3]string{"c:" + a.CredentialKey, "u:" + a.Upstream.GetId(), "p:" + a.Upstream.GetProviderId()}
}

func orOne(n int32) int32 {
	if n <= 0 {
		return 1
	}
	return n
}

// Expand returns the candidates of a decision for calls in the given protocol: the
// primary ones in the order of their ids, then those of its chains. others are the
// protocols that a call can be converted to, the best first, for upstreams that do not
// speak the caller's own. A passthrough principal brings its own key: each upstream is
// then one candidate without credential.
func Expand(v *snapshot.View, p *auth.Principal, d resolve.Decision, protocol configv1.Protocol, others ...configv1.Protocol) []Candidate {
	built, _ := p.Tenant.Built(builderName).(*accounts)
	if built == nil {
		return nil
	}
	byModel := built.byModel
	if p.Method == auth.Passthrough {
		byModel = built.bare
	}
	out := candidatesOf(v, p, of(byModel[d.Model], d.Provider), protocol, others)
	chainProviders(out, d.Providers)
	for n, t := range d.Chain {
		if t.Model == d.Model && t.Provider == d.Provider {
			continue
		}
		list := candidatesOf(v, p, of(byModel[t.Model], t.Provider), protocol, others)
		for i := range list {
			c := &list[i]
			if slices.ContainsFunc(out, func(o Candidate) bool { return o.Account == c.Account }) {
				continue
			}
			c.Role, c.Chain, c.Denied = ModelChain, n, !t.Granted && !p.MayUse(t.Model)
			out = append(out, *c)
		}
	}
	return out
}

// of keeps the accounts of one provider; all of them if provider is empty.
func of(list []*Account, provider string) []*Account {
	if provider == "" {
		return list
	}
	var out []*Account
	for _, a := range list {
		if a.Upstream.GetProviderId() == provider {
			out = append(out, a)
		}
	}
	return out
}

// chainProviders makes the candidates of the named providers fallbacks, in the order of
// the names. If nobody else serves the model, the first of them that does is none.
func chainProviders(list []Candidate, providers []string) {
	if len(providers) == 0 {
		return
	}
	at := func(c *Candidate) int { return slices.Index(providers, c.Upstream.GetProviderId()) }
	spared := -1
	if !slices.ContainsFunc(list, func(c Candidate) bool { return at(&c) < 0 }) {
		for i := range list {
			if n := at(&list[i]); spared < 0 || n < spared {
				spared = n
			}
		}
	}
	for i := range list {
		if n := at(&list[i]); n >= 0 && n != spared {
			list[i].Role, list[i].Chain = ProviderChain, n
		}
	}
}

// ExpandAll is Expand for a call that names no model: every account of the tenant
// whose provider speaks one of the protocols, whatever its models are.
func ExpandAll(v *snapshot.View, p *auth.Principal, protocol configv1.Protocol, others ...configv1.Protocol) []Candidate {
	built, _ := p.Tenant.Built(builderName).(*accounts)
	if built == nil {
		return nil
	}
	list := built.all
	if p.Method == auth.Passthrough {
		list = built.allBare
	}
	return slices.DeleteFunc(candidatesOf(v, p, list, protocol, others), func(c Candidate) bool { return c.Capability == nil })
}

func candidatesOf(v *snapshot.View, p *auth.Principal, list []*Account, protocol configv1.Protocol, others []configv1.Protocol) []Candidate {
	t := p.Tenant
	out := make([]Candidate, 0, len(list))
	for _, a := range list {
		c := Candidate{Account: a, Provider: v.Provider(t, a.Upstream.GetProviderId())}
		c.Protocol = protocol
		c.Capability, c.BaseURL = endpoint(c.Provider, a, protocol)
		for _, other := range others {
			if c.Capability != nil {
				break
			}
			if c.Capability, c.BaseURL = endpoint(c.Provider, a, other); c.Capability != nil {
				c.Protocol = other
			}
		}
		out = append(out, c)
	}
	return out
}

// endpoint is how, and where, the account's provider speaks a protocol; nil if it does not.
func endpoint(p *configv1.Provider, a *Account, protocol configv1.Protocol) (*configv1.Capability, string) {
	if ps := a.Model.GetProtocols(); len(ps) > 0 && !slices.Contains(ps, protocol) {
		return nil, ""
	}
	for _, c := range p.GetCapabilities() {
		if c.GetProtocol() != protocol {
			continue
		}
		if models := c.GetModels(); len(models) > 0 && a.UpstreamModel() != "" && !slices.Contains(models, a.UpstreamModel()) {
			continue
		}
		for _, b := range a.Upstream.GetBaseUrls() {
			if b.GetProtocol() == protocol {
				return c, b.GetUrl()
			}
		}
		return c, c.GetBaseUrl()
	}
	return nil, ""
}

// AccountOf returns an account of a credential, whatever model it is for; nil if the
// tenant has none.
func AccountOf(t *snapshot.Tenant, credential string) *Account {
	built, _ := t.Built(builderName).(*accounts)
	if built == nil {
		return nil
	}
	for _, a := range built.all {
		if a.CredentialID() == credential {
			return a
		}
	}
	return nil
}
