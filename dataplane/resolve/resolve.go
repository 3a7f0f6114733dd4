// Package resolve turns the model that a client asks for, and what else a request is,
// into the models that may answer. It knows nothing of health, limits, keys or caches.
package resolve

import (
	"slices"
	"strings"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// builderName is the name under which a tenant keeps its resolver.
const builderName = "resolve"

// Decision is where a request leads.
type Decision struct {
	Requested string // the public model that the client asked for
	Model     string // the model whose candidates may serve
	Provider  string // id of the only provider that may serve it; empty for any

	// What may answer instead, in order.
	Chain     []Target // other models
	Providers []string // ids of providers that are fallbacks for Model

	// Passed are the logical routes that lead to Model, the first one first.
	Passed []*configv1.LogicalRoute

	// Root is what shares by weight went by; empty if nothing was shared.
	Root string

	// Features are those of the request that it was resolved from.
	Features *Features
}

// Target is a model that may answer instead.
type Target struct {
	Model    string
	Provider string // id of the only provider that may serve it; empty for any

	// Granted says that a logical route leads there: who may ask for what it takes may
	// have what it leads to, whether the caller could ask for that by name or not.
	Granted bool
}

// Model is a public model of a tenant.
type Model struct {
	Name        string
	DisplayName string
	Owner       string   // name of a provider that serves it
	Groups      []string // groups of the upstreams that serve it
	MaxContext  int64    // the largest stated, 0 if none is
	MaxOutput   int64
	Created     time.Time

	// Features are what some upstream's row of the model states; empty if none states any.
	Features []configv1.Feature
}

// resolver is what the builder makes of one tenant.
type resolver struct {
	models      map[string]*Model
	sorted      []*Model
	switchedOff map[string]bool // models that are configured, and off everywhere

	ruleSet
	reads reads
	named []*named // models that rules define, by name
}

// Builder indexes the models of a tenant when its configuration changes.
func Builder() snapshot.TenantBuilder {
	return snapshot.TenantBuilder{Name: builderName, Build: func(t *snapshot.Tenant) (any, error) { return build(t) }}
}

func of(t *snapshot.Tenant) *resolver {
	r, _ := t.Built(builderName).(*resolver)
	return r
}

// build fails for conditions beyond their bounds.
func build(t *snapshot.Tenant) (*resolver, error) {
	r := &resolver{models: make(map[string]*Model), switchedOff: make(map[string]bool)}
	for _, row := range t.Message.GetModels() {
		u := t.Upstreams[row.GetUpstreamId()]
		if u == nil || row.GetDisabled() || u.GetDisabled() {
			r.switchedOff[row.GetModel()] = true
			continue
		}
		m := r.models[row.GetModel()]
		if m == nil {
			m = &Model{Name: row.GetModel(), Owner: ownerName(t, u), Created: created(row.GetId())}
			r.models[row.GetModel()] = m
			r.sorted = append(r.sorted, m)
		}
		if m.DisplayName == "" {
			m.DisplayName = row.GetDisplayName()
		}
		m.MaxContext = max(m.MaxContext, row.GetMaxContextTokens())
		m.MaxOutput = max(m.MaxOutput, row.GetMaxOutputTokens())
		for _, f := range served(t, row).GetFeatures() {
			if !slices.Contains(m.Features, f) {
				m.Features = append(m.Features, f)
			}
		}
		if !slices.Contains(m.Groups, u.GetGroupId()) {
			m.Groups = append(m.Groups, u.GetGroupId())
		}
	}
	for name := range r.models {
		delete(r.switchedOff, name)
	}
	slices.SortFunc(r.sorted, func(a, b *Model) int { return strings.Compare(a.Name, b.Name) })
	if err := r.buildRules(t); err != nil {
		return nil, err
	}
	r.nameRules()
	return r, nil
}

// served is the row that an alias stands for; row itself if it is none.
func served(t *snapshot.Tenant, row *configv1.UpstreamModel) *configv1.UpstreamModel {
	if row.GetAliasOf() == "" {
		return row
	}
	for _, other := range t.Message.GetModels() {
		if other.GetUpstreamId() == row.GetUpstreamId() && other.GetModel() == row.GetAliasOf() {
			return other
		}
	}
	return nil
}

// created is when the row was made: ids carry their time.
func created(id string) time.Time {
	t, err := ident.Time(id)
	if err != nil {
		return time.Time{}
	}
	return t
}

func ownerName(t *snapshot.Tenant, u *configv1.Upstream) string {
	if p := t.Providers[u.GetProviderId()]; p != nil {
		return p.GetName()
	}
	return u.GetName()
}

// Resolve returns where a request leads: by the first logical route that takes it, else
// by its model's exact name or alias. root names the conversation; it is asked only
// where several targets share requests.
//
// It fails with fault.NotPermitted if the caller may not use the model that it asks for,
// whatever that leads to, and with fault.ModelUnknown if nothing serves it.
func Resolve(v *snapshot.View, p *auth.Principal, f *Features, root func() string) (Decision, *fault.Error) {
	r, model := of(p.Tenant), f.Model
	if !p.MayUse(model) {
		return Decision{}, fault.Newf(fault.NotPermitted, "the model %q is not on the list of models that this API key may use", model)
	}
	if r == nil {
		return Decision{}, unknown(model)
	}
	rl := r.match(f)
	if rl == nil {
		if r.models[model] == nil {
			return Decision{}, unknown(model)
		}
		return Decision{Requested: model, Model: model, Features: f}, nil
	}
	w := walk{view: v, who: p, features: f, root: root}
	w.follow(rl)
	if len(w.found) == 0 {
		return Decision{}, fault.Newf(fault.ModelUnknown, "the logical route %q takes the model %q, and none of its targets is served now", rl.GetName(), model)
	}
	to := w.found[0]
	return Decision{Requested: model, Model: to.Model, Provider: to.Provider, Chain: w.found[1:], Passed: w.passed, Root: w.drawn, Features: f}, nil
}

func unknown(model string) *fault.Error {
	return fault.Newf(fault.ModelUnknown, "the model %q is not configured; GET the models list to see what this API key may use", model)
}
