package configcheck

import "fmt"

// MaxGroupDepth is how many fallback steps lead away from a group.
const MaxGroupDepth = 3

// DefaultGroup is the name of the group that every tenant has.
const DefaultGroup = "default"

func (s *tenantScope) checkGroups(l *list) {
	if s.defaultGroup == nil {
		l.add(subjectOf(s.shard.GetTenant()), "groups", "group.default", "every tenant needs the group %q; create it again", DefaultGroup)
	}
	depth := map[string]int{} // -1 while on the path
	for _, g := range s.shard.GetGroups() {
		who := subjectOf(g)
		for i, id := range g.GetFallbackGroups() {
			if s.groups[id] == nil {
				l.add(who, fmt.Sprintf("fallback_groups[%d]", i), "ref.missing", "there is no group %s in this tenant; create it or name another", quote(id))
			}
		}
		switch d := s.groupDepth(g.GetId(), depth); {
		case d < 0:
			l.add(who, "fallback_groups", "group.cycle", "following fallback_groups leads back to a group already passed; remove one step of the circle")
		case d > MaxGroupDepth:
			l.add(who, "fallback_groups", "group.depth", "the fallbacks are %d steps deep; %d is the most", d, MaxGroupDepth)
		}
	}
}

// groupDepth returns the longest way along fallback groups, or -1 if it meets a
// circle. Each group is worked out once.
func (s *tenantScope) groupDepth(id string, known map[string]int) int {
	if d, ok := known[id]; ok {
		return d
	}
	g := s.groups[id]
	if g == nil {
		return 0
	}
	known[id] = -1
	depth := 0
	for _, next := range g.GetFallbackGroups() {
		if s.groups[next] == nil {
			continue
		}
		d := s.groupDepth(next, known)
		if d < 0 {
			return -1
		}
		depth = max(depth, d+1)
	}
	known[id] = depth
	return depth
}

// fallbacksOf returns every group that the groups ids may fall back to.
func (s *tenantScope) fallbacksOf(ids []string) map[string]bool {
	reach := map[string]bool{}
	var walk func(id string)
	walk = func(id string) {
		for _, next := range s.groups[id].GetFallbackGroups() {
			if !reach[next] {
				reach[next] = true
				walk(next)
			}
		}
	}
	if len(ids) == 0 && s.defaultGroup != nil {
		ids = []string{s.defaultGroup.GetId()}
	}
	for _, id := range ids {
		walk(id)
	}
	return reach
}
