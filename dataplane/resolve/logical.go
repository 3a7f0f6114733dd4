package resolve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/rendezvous"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// Bounds of one resolution. A name that is reached beyond them leads nowhere.
const (
	maxSteps   = 256 // targets that are looked at
	maxTargets = 64  // that are found
)

// rule is a logical route as requests are matched against it.
type rule struct {
	*configv1.LogicalRoute
	names []string   // exact
	when  condition  // nil for every request
	steps [][]target // by rising order; what has the same order shares the requests

	rank int // its place in the order of rules
}

// target is where a rule leads: a model that is served, a model of one provider, or the
// rules that take its name.
type target struct {
	name      string
	member    string // in the draw among targets of the same order
	weight    int32
	model     *Model
	qualified *qualified
	rules     []*rule
}

// qualified is a model at one provider. Which provider has the name is known only to the
// view, since most belong to no tenant.
type qualified struct {
	model     string
	provider  string   // name or id
	providers []string // ids of those that serve the model
}

// ruleSet are the rules of a tenant. A rule stands in exact or in loose.
type ruleSet struct {
	rules []*rule            // by rising order
	exact map[string][]*rule // that match nothing but names
	loose []*rule
}

func (r *resolver) buildRules(t *snapshot.Tenant) error {
	list := slices.DeleteFunc(slices.Clone(t.Message.GetLogicalRoutes()), func(m *configv1.LogicalRoute) bool { return m.GetDisabled() })
	slices.SortFunc(list, func(a, b *configv1.LogicalRoute) int {
		return cmp.Or(cmp.Compare(a.GetOrder(), b.GetOrder()), strings.Compare(a.GetId(), b.GetId()))
	})
	r.exact = make(map[string][]*rule)
	for i, m := range list {
		rl := &rule{LogicalRoute: m, names: namesOf(m.GetMatch()), rank: i}
		if m.GetCondition() != nil {
			c := compiler{reads: &r.reads}
			when, err := c.compile(m.GetCondition(), 1)
			if err != nil {
				return fmt.Errorf("logical route %s: %w", m.GetName(), err)
			}
			rl.when = when
		}
		r.rules = append(r.rules, rl)
		if m.GetMatch() == nil || len(m.GetMatch().GetPrefixes())+len(m.GetMatch().GetSuffixes()) > 0 {
			r.loose = append(r.loose, rl)
			continue
		}
		for _, name := range rl.names {
			if at := r.exact[name]; len(at) == 0 || at[len(at)-1] != rl {
				r.exact[name] = append(at, rl)
			}
		}
	}
	known := make(map[string]target)
	for _, rl := range r.rules {
		rl.steps = r.stepsOf(t, rl.LogicalRoute, known)
	}
	return nil
}

func namesOf(m *configv1.ModelMatch) []string {
	if m.GetModel() == "" {
		return m.GetAliases()
	}
	return append([]string{m.GetModel()}, m.GetAliases()...)
}

// stepsOf are the targets of a rule. A rewrite of the model stands for those of the
// lowest order.
func (r *resolver) stepsOf(t *snapshot.Tenant, m *configv1.LogicalRoute, known map[string]target) [][]target {
	targets := slices.Clone(m.GetTargets())
	slices.SortStableFunc(targets, func(a, b *configv1.RouteTarget) int { return cmp.Compare(a.GetOrder(), b.GetOrder()) })
	var steps [][]target
	for i, rt := range targets {
		to := r.targetOf(t, rt.GetModel(), known)
		to.weight, to.member = max(rt.GetWeight(), 1), m.GetId()+"\x00"+rt.GetModel()
		if i == 0 || rt.GetOrder() != targets[i-1].GetOrder() {
			steps = append(steps, nil)
		}
		last := len(steps) - 1
		steps[last] = append(steps[last], to)
	}
	for _, rw := range m.GetRewrites() {
		name := rw.GetValue().GetStringValue()
		if rw.GetField() == configv1.RewriteField_REWRITE_FIELD_MODEL && rw.GetOperation() == configv1.RewriteOperation_REWRITE_OPERATION_SET && name != "" {
			to := r.targetOf(t, name, known)
			to.weight = 1
			steps = append([][]target{{to}}, steps[min(1, len(steps)):]...)
		}
	}
	return steps
}

// targetOf is what a name leads to: a model that is served, else a model of one
// provider, else the rules that take the name.
func (r *resolver) targetOf(t *snapshot.Tenant, name string, known map[string]target) target {
	if to, ok := known[name]; ok {
		return to
	}
	to := target{name: name, model: r.models[name]}
	if provider, model, ok := strings.Cut(name, "/"); ok && to.model == nil && r.models[model] != nil {
		q := &qualified{model: model, provider: provider}
		for _, row := range t.Message.GetModels() {
			u := t.Upstreams[row.GetUpstreamId()]
			if row.GetModel() == model && !row.GetDisabled() && !u.GetDisabled() && !slices.Contains(q.providers, u.GetProviderId()) {
				q.providers = append(q.providers, u.GetProviderId())
			}
		}
		slices.Sort(q.providers)
		to.qualified = q
	}
	if to.model == nil && !r.switchedOff[name] {
		for _, rl := range r.rules {
			if rl.GetMatch() != nil && rl.takes(name) { // a rule for every model defines none
				to.rules = append(to.rules, rl)
			}
		}
	}
	known[name] = to
	return to
}

// takes reports whether the rule is for the model.
func (rl *rule) takes(model string) bool {
	m := rl.GetMatch()
	if m == nil {
		return true
	}
	if slices.Contains(rl.names, model) {
		return true
	}
	for _, p := range m.GetPrefixes() {
		if strings.HasPrefix(model, p) {
			return true
		}
	}
	for _, s := range m.GetSuffixes() {
		if strings.HasSuffix(model, s) {
			return true
		}
	}
	return false
}

// holds reports whether the rule is for such requests, whatever their model.
func (rl *rule) holds(f *Features) bool {
	if ids := rl.GetRouteIds(); len(ids) > 0 && !slices.Contains(ids, f.RouteID) {
		return false
	}
	return rl.when == nil || rl.when.holds(f)
}

// match returns the first rule that takes a request; nil if none does.
func (s *ruleSet) match(f *Features) *rule {
	exact, loose := s.exact[f.Model], s.loose
	for len(exact)+len(loose) > 0 {
		var next *rule
		if len(loose) == 0 || len(exact) > 0 && exact[0].rank < loose[0].rank {
			next, exact = exact[0], exact[1:]
		} else {
			next, loose = loose[0], loose[1:]
			if !next.takes(f.Model) {
				continue
			}
		}
		if next.holds(f) {
			return next
		}
	}
	return nil
}

// walk follows rules to the models at their ends.
type walk struct {
	view     *snapshot.View
	who      *auth.Principal
	features *Features
	root     func() string
	drawn    string // what root said, once it was asked

	found  []Target
	path   []*rule // from the first rule to the one at hand
	passed []*configv1.LogicalRoute
	steps  int
}

// follow adds what a rule leads to. Of the lowest order that leads anywhere one target
// is taken, by weight; those of later orders follow it. Of a request that only one
// account can serve all are taken: nobody knows here which of them is that account's.
func (w *walk) follow(rl *rule) {
	if len(w.path) == configcheck.MaxLogicalDepth || slices.Contains(w.path, rl) {
		return
	}
	w.path = append(w.path, rl)
	before := len(w.found)
	for _, step := range rl.steps {
		first := len(w.found) == before
		for _, i := range w.draw(step) {
			w.lead(&step[i])
			if first && len(w.found) > before && !w.features.Stored {
				break
			}
		}
	}
	w.path = w.path[:len(w.path)-1]
}

// lead adds what a target leads to.
func (w *walk) lead(to *target) {
	if w.steps++; w.steps > maxSteps {
		return
	}
	switch {
	case to.model != nil:
		w.add(Target{Model: to.model.Name, Granted: true})
		return
	case to.qualified != nil:
		if id := w.providerOf(to.qualified); id != "" {
			w.add(Target{Model: to.qualified.model, Provider: id, Granted: true})
			return
		}
	}
	for _, rl := range to.rules {
		if rl.holds(w.features) {
			w.follow(rl)
			return
		}
	}
}

func (w *walk) add(t Target) {
	if len(w.found) == maxTargets || slices.Contains(w.found, t) {
		return
	}
	if len(w.found) == 0 {
		for _, rl := range w.path {
			w.passed = append(w.passed, rl.LogicalRoute)
		}
	}
	w.found = append(w.found, t)
}

// providerOf is the id of the provider that is meant; empty if it does not serve the
// model. A tenant's own comes before one of all tenants.
func (w *walk) providerOf(q *qualified) (id string) {
	for _, p := range q.providers {
		if p != q.provider && w.view.Provider(w.who.Tenant, p).GetName() != q.provider {
			continue
		}
		if _, own := w.who.Tenant.Providers[p]; own || id == "" {
			id = p
		}
	}
	return id
}

// draw ranks targets that share requests: the same for all requests with one root, and
// first in proportion to weight.
func (w *walk) draw(step []target) []int {
	order := make([]int, len(step))
	for i := range order {
		order[i] = i
	}
	if len(step) == 1 {
		return order
	}
	if w.drawn == "" {
		w.drawn = w.root()
	}
	w.features.Guessed |= w.features.Unknown & InputRoot
	root, values := w.drawn, make([]float64, len(step))
	for i := range step {
		values[i] = rendezvous.Value(root, step[i].member, step[i].weight)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[b], values[a]) })
	return order
}
