package resolve

import (
	"slices"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// named is a model that logical routes take by its very name.
type named struct {
	name  string
	rules []*rule
}

// nameRules collects the names that rules match exactly and that no upstream serves.
func (r *resolver) nameRules() {
	byName := make(map[string]*named)
	for _, rl := range r.rules {
		for _, name := range rl.names {
			if r.models[name] != nil {
				continue
			}
			n := byName[name]
			if n == nil {
				n = &named{name: name}
				byName[name] = n
				r.named = append(r.named, n)
			}
			if !slices.Contains(n.rules, rl) {
				n.rules = append(n.rules, rl)
			}
		}
	}
	slices.SortFunc(r.named, func(a, b *named) int { return strings.Compare(a.name, b.name) })
}

// List returns the models that the principal may use on the route, by name: those that
// are served, and those that logical routes take by their very names.
func List(p *auth.Principal, r *snapshot.Route) []*Model {
	built := of(p.Tenant)
	if built == nil {
		return nil
	}
	groups := p.Groups(r)
	usable := func(m *Model) bool {
		return slices.ContainsFunc(m.Groups, func(g string) bool { return slices.Contains(groups, g) })
	}
	var out []*Model
	for _, m := range built.sorted {
		if p.MayUse(m.Name) && usable(m) {
			out = append(out, m)
		}
	}
	for _, n := range built.named {
		if !p.MayUse(n.name) {
			continue
		}
		l := lister{built: built, route: r.GetId(), usable: usable, seen: make(map[*rule]bool)}
		if m := l.describe(n); m != nil {
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(a, b *Model) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// lister finds out what stands behind a name, whatever conditions say of a request.
type lister struct {
	built  *resolver
	route  string
	usable func(*Model) bool
	seen   map[*rule]bool
}

// describe is the model as a list tells it: the owner of what it leads to first, and the
// largest bounds; nil if it leads to nothing that the caller may use.
func (l *lister) describe(n *named) *Model {
	ends := l.ends(nil, n.rules)
	if len(ends) == 0 {
		return nil
	}
	m := &Model{Name: n.name, Owner: ends[0].Owner, Created: created(n.rules[0].GetId())}
	for _, e := range ends {
		m.MaxContext, m.MaxOutput = max(m.MaxContext, e.MaxContext), max(m.MaxOutput, e.MaxOutput)
		for _, f := range e.Features {
			if !slices.Contains(m.Features, f) {
				m.Features = append(m.Features, f)
			}
		}
	}
	return m
}

func (l *lister) ends(out []*Model, rules []*rule) []*Model {
	for _, rl := range rules {
		if l.seen[rl] || len(rl.GetRouteIds()) > 0 && !slices.Contains(rl.GetRouteIds(), l.route) {
			continue
		}
		l.seen[rl] = true
		for _, step := range rl.steps {
			for i := range step {
				to, m := &step[i], step[i].model
				if to.qualified != nil {
					m = l.built.models[to.qualified.model]
				}
				switch {
				case m == nil:
					out = l.ends(out, to.rules)
				case l.usable(m) && !slices.Contains(out, m):
					out = append(out, m)
				}
			}
		}
	}
	return out
}
