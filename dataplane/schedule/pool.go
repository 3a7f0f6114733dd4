package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// Usable is the number of candidates that configuration and request alone allow.
func (s *Selection) Usable() int {
	n := 0
	for i := range s.Rows {
		if r := s.Rows[i].Reason; !s.Rows[i].Outside && (!r.static() || r == CacheStrict) {
			n++
		}
	}
	return n
}

// Candidate is the candidate of a row.
func (s *Selection) Candidate(i int) *plan.Candidate { return &s.candidates[i] }

// pool is how many candidates the stage has.
func (s *Selection) pool() int {
	n := 0
	for i := range s.Rows {
		if !s.Rows[i].Outside {
			n++
		}
	}
	return n
}

// Pool summarises a selection for people: how many candidates there are and how
// many are out for which reason, in the order of the reasons.
func (s *Selection) Pool() string {
	counts := make(map[Reason]int)
	for i := range s.Rows {
		if r := s.Rows[i].Reason; r != "" {
			counts[r]++
		}
	}
	names := make([]string, 0, len(counts))
	for r := range counts {
		names = append(names, string(r))
	}
	slices.Sort(names)
	var b strings.Builder
	fmt.Fprintf(&b, "pool=%d excluded:", s.pool())
	if len(names) == 0 {
		b.WriteString(" none")
	}
	for _, n := range names {
		fmt.Fprintf(&b, " %s=%d", n, counts[Reason(n)])
	}
	return b.String()
}

// Unconverted reports whether candidates are out because they cannot take the call in
// their protocol, and none is out for a reason that passes with time.
func (s *Selection) Unconverted() bool {
	return s.any(func(r Reason) bool { return r == ProtocolIncompatible }) &&
		!s.any(func(r Reason) bool { return r == AuthInvalid || !r.static() })
}

// protocols says which protocol was asked for and which ones the model is served in.
func (s *Selection) protocols() string {
	var served []string
	for i := range s.Rows {
		if s.Rows[i].Reason != ProtocolIncompatible {
			continue
		}
		for _, c := range s.candidates[i].Provider.GetCapabilities() {
			name := strings.ToLower(strings.TrimPrefix(c.GetProtocol().String(), "PROTOCOL_"))
			if !slices.Contains(served, name) {
				served = append(served, name)
			}
		}
	}
	slices.Sort(served)
	return fmt.Sprintf("the call speaks %s, but the upstreams of this model speak %s and this call cannot be converted; call the model through %s, or add an upstream that speaks %s",
		s.query.Protocol, strings.Join(served, ", "), strings.Join(served, " or "), s.query.Protocol)
}

// LastResort returns the candidate that returns first of those that are out only for a
// server or network cooldown or for their breaker; it is given at most once a second for
// each candidate, and never against a wait that the upstream announced. It is for a
// request that has no usable candidate left.
func (s *Scheduler) LastResort(sel *Selection, now time.Time) (int, bool) {
	best := -1
	var until time.Time
	for i := range sel.Rows {
		row := &sel.Rows[i]
		var u time.Time
		h := s.handle(&sel.candidates[i])
		switch row.Reason {
		case cooldownPrefix + "server", cooldownPrefix + "network":
			if h.announced(now) {
				continue
			}
			u = row.rest.Until
		case BreakerOpen, BreakerHalfOpen:
			for _, b := range h.breakersOf(&sel.query.Policy) {
				if state, t, _ := b.state(now); state == open && t.After(u) {
					u = t
				}
			}
		default:
			continue
		}
		if best < 0 || u.Before(until) || u.Equal(until) && sel.candidates[i].ID < sel.candidates[best].ID {
			best, until = i, u
		}
	}
	if best < 0 || !s.resort.take(sel.candidates[best].ID, sel.query.Dry, now) {
		return 0, false
	}
	return best, true
}
