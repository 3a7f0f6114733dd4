package configcheck

import (
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// How a target is read: a model that an upstream serves ends the search, so does
// provider/model; any other name is a logical model, which the logical routes
// that match it by name take further. Conditions are left aside: a circle that
// only some requests would run through is a circle too.

// resolves reports whether a name leads anywhere.
func (s *tenantScope) resolves(name string) bool {
	return s.endsAt(name) || len(s.takenBy(name)) > 0
}

// endsAt reports whether name is a served model or provider/model.
func (s *tenantScope) endsAt(name string) bool { return s.served[name] || s.qualified[name] }

// takenBy lists the logical routes, by position, that take a name. Each name is
// worked out once.
func (s *tenantScope) takenBy(name string) []int {
	if known, ok := s.taken[name]; ok {
		return known
	}
	var by []int
	for i, r := range s.shard.GetLogicalRoutes() {
		if takes(r, name) {
			by = append(by, i)
		}
	}
	s.taken[name] = by
	return by
}

// takes reports whether a logical route matches a model by name.
func takes(r *configv1.LogicalRoute, name string) bool {
	m := r.GetMatch()
	if m == nil || name == "" {
		return false // a route of every model defines no model of its own
	}
	has := func(s string) bool { return strings.HasPrefix(name, s) }
	ends := func(s string) bool { return strings.HasSuffix(name, s) }
	return m.GetModel() == name || slices.Contains(m.GetAliases(), name) ||
		slices.ContainsFunc(m.GetPrefixes(), has) || slices.ContainsFunc(m.GetSuffixes(), ends)
}

// leadsTo lists the models that a logical route names for what it takes.
func leadsTo(r *configv1.LogicalRoute) []string {
	var names []string
	for _, t := range r.GetTargets() {
		names = append(names, t.GetModel())
	}
	for _, rw := range r.GetRewrites() {
		if name := rw.GetValue().GetStringValue(); rw.GetField() == configv1.RewriteField_REWRITE_FIELD_MODEL && name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (s *tenantScope) checkLogicalRoutes(l *list) {
	orders := map[int32]bool{}
	shared := map[string]bool{}
	for _, r := range s.view.Global().GetSharedRoutes() {
		shared[r.GetId()] = true
	}
	for _, r := range s.shard.GetLogicalRoutes() {
		who := subjectOf(r)
		if orders[r.GetOrder()] {
			l.add(who, "order", "unique", "another logical route of the tenant has order %d; give this one another, since the first match wins", r.GetOrder())
		}
		orders[r.GetOrder()] = true
		for i, id := range r.GetRouteIds() {
			if s.routes[id] == nil && !shared[id] {
				l.add(who, fmt.Sprintf("route_ids[%d]", i), "ref.missing", "there is no route %s in this tenant; create it or name another", quote(id))
			}
		}
		for i, t := range r.GetTargets() {
			if !s.resolves(t.GetModel()) {
				l.add(who, fmt.Sprintf("targets[%d].model", i), "logical.target", "no upstream serves %s and no logical route takes it; add the model, or write provider/model", quote(t.GetModel()))
			}
		}
		for i, rw := range r.GetRewrites() {
			if name := rw.GetValue().GetStringValue(); rw.GetField() == configv1.RewriteField_REWRITE_FIELD_MODEL && name != "" && !s.resolves(name) {
				l.add(who, fmt.Sprintf("rewrites[%d].value", i), "logical.target", "no upstream serves %s and no logical route takes it", quote(name))
			}
		}
		s.schedulingRefs(l, who, "scheduling", r.GetScheduling())
	}
	s.checkCircles(l)
}

// checkCircles walks the graph of logical routes. A step leads from a route to
// every route that takes one of its targets, or the model that it rewrites to, unless
// that ends the search.
func (s *tenantScope) checkCircles(l *list) {
	routes := s.shard.GetLogicalRoutes()
	const (
		unseen = iota
		onPath
		done
	)
	state := make([]uint8, len(routes))
	next := make([][]int, len(routes))
	for i, r := range routes {
		for _, name := range leadsTo(r) {
			if !s.endsAt(name) {
				next[i] = append(next[i], s.takenBy(name)...)
			}
		}
	}
	depth := make([]int, len(routes)) // routes passed from here on, this one included
	var visit func(i int) bool
	visit = func(i int) (circle bool) {
		state[i], depth[i] = onPath, 1
		for _, j := range next[i] {
			if state[j] == onPath || state[j] == unseen && visit(j) {
				state[i] = done
				return true
			}
			depth[i] = max(depth[i], 1+depth[j])
		}
		state[i] = done
		return false
	}
	for i, r := range routes {
		if state[i] == unseen && visit(i) {
			l.add(subjectOf(r), "targets", "logical.cycle", "following the targets leads back to a route already passed; let one of them name a model that an upstream serves")
		} else if depth[i] > MaxLogicalDepth {
			l.add(subjectOf(r), "targets", "logical.depth", "the targets lead through %d logical routes, one after the other; at most %d are followed", depth[i], MaxLogicalDepth)
		}
	}
}
