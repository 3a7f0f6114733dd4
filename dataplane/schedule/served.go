package schedule

import (
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// MaxCacheWait is the longest wait that a warm cache of the candidate is worth.
func (s *Scheduler) MaxCacheWait(c *plan.Candidate, p *Policy) time.Duration {
	return s.handleFor(c, p.Cache).maxCacheWait(p)
}

// WorthWaiting reports whether what the candidate of a selection has cached is worth the
// wait that its upstream asked for. strict means that nobody else may have the request.
func (s *Scheduler) WorthWaiting(sel *Selection, i int, wait time.Duration, strict bool) bool {
	row, q := &sel.Rows[i], sel.query
	if row.Hit == 0 || wait > s.MaxCacheWait(&sel.candidates[i], &q.Policy) {
		return false
	}
	if strict {
		return true
	}
	fresh := row.price.In
	if q.Writes && row.price.Write > 0 {
		fresh = row.price.Write
	}
	hit := float64(row.Hit)
	return hit*(fresh-row.price.Read)+q.Policy.TimeValue*q.Policy.PrefillMS*hit/1000 >= q.Policy.TimeValue*ms(wait)
}

// Usable counts the candidates that configuration and request alone allow, and that are
// not skipped for what they cannot do.
func (s *Scheduler) Usable(q *Query, candidates []plan.Candidate, skip map[string]Reason, now time.Time) int {
	n := 0
	for i := range candidates {
		c := &candidates[i]
		if q.In != nil && !q.In(i, c) || skip[c.ID].static() {
			continue
		}
		if static(q, c, s.handleFor(c, q.Policy.Cache), now) == "" {
			n++
		}
	}
	return n
}

// Served is what the affinity store is told of the candidate of a selection that served:
// where the prompt is cached, for how long, and what was expected. Its Scope is zero if
// the candidate's cache is not to be counted on.
func (s *Scheduler) Served(sel *Selection, i int) affinity.Served {
	c, row, q := &sel.candidates[i], &sel.Rows[i], sel.query
	h := s.handleFor(c, q.Policy.Cache)
	if h.cache.Off || q.Policy.PreserveCache == configv1.PreserveCache_PRESERVE_CACHE_OFF {
		return affinity.Served{}
	}
	out := affinity.Served{Scope: h.scope, MinPrefix: h.minPrefix(&q.Policy), TTLMin: h.cache.TTLMin, TTLMax: h.cache.TTLMax, KeepBinding: s.KeepsBinding(sel, i)}
	least, most := affinity.DefaultTTL(c.Protocol)
	if out.TTLMin == 0 {
		out.TTLMin = least
	}
	if out.TTLMax == 0 {
		out.TTLMax = max(most, out.TTLMin)
	}
	out.TTLMin = min(out.TTLMin, out.TTLMax)
	for m := range q.Matches {
		if match := &q.Matches[m]; match.Scope == h.scope && match.Tokens > 0 {
			out.Predicted = min(match.Tokens, q.PromptTokens)
		}
	}
	if out.Predicted == 0 && row.Hit > 0 {
		out.Predicted, out.Prior = q.Prior, true
	}
	return out
}

// KeepsBinding reports that the request left the scope that its session is bound to for
// a reason that passes: the session is to return to it.
func (s *Scheduler) KeepsBinding(sel *Selection, i int) bool {
	if sel.Rows[i].late {
		return true
	}
	for j := range sel.Rows {
		if sel.Rows[j].Escaped && j != i {
			return true
		}
	}
	return false
}
