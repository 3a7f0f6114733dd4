package schedule

import (
	"sync/atomic"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// Doubt is for a request without a usable candidate: it finds the one that is out only
// by the word of other nodes, and whose end is the soonest. One node that is wrong, or
// that is refused for a reason of its own, must not take a model from all the others;
// so their word is doubted, with one attempt at a time. With alone it does so only where
// nothing but the word of others keeps candidates out.
func (s *Scheduler) Doubt(q *Query, candidates []plan.Candidate, alone bool, now time.Time) (*Selection, bool) {
	own := *q
	own.own, own.Dry = true, true
	sel := s.Select(&own, candidates, now)
	best, until := -1, time.Time{}
	for i := range sel.Rows {
		row := &sel.Rows[i]
		if row.Outside {
			continue
		}
		if row.Reason != "" && row.Reason != SpilloverClosed {
			if alone && !row.Reason.static() {
				return nil, false
			}
			continue
		}
		u, told := s.handle(&candidates[i]).told(&q.Policy, now)
		if !told {
			continue
		}
		if best < 0 || u.Before(until) || u.Equal(until) && candidates[i].ID < candidates[best].ID {
			best, until = i, u
		}
	}
	if best < 0 {
		return nil, false
	}
	sel.Rows[best].Reason, sel.Rows[best].considered = "", true
	sel.Order, sel.How = append(sel.Order[:0], best), Single
	return sel, true
}

// told returns until when the word of other nodes keeps a candidate out.
func (h *handle) told(p *Policy, now time.Time) (until time.Time, told bool) {
	later := func(t time.Time) {
		if told = true; t.After(until) {
			until = t
		}
	}
	for _, c := range h.cells {
		if r := c.heard(now); r != nil {
			later(r.Until)
		}
	}
	if r := h.credential.invalidity(false, now); r != nil && r.Node != "" {
		later(r.Until)
	}
	for _, b := range h.breakersOf(p) {
		if state, t, _ := b.state(now); state != closed {
			if own, _, _ := b.stateOf(true, now); own == closed {
				later(t)
			}
		}
	}
	return until, told
}

// doubt takes the right to the only attempt against the word of others among these
// candidates; nil if one runs.
func (s *Scheduler) doubt(c *plan.Candidate) *atomic.Bool {
	d, _ := s.doubts.LoadOrCompute(c.RotationKey, func() (*atomic.Bool, bool) { return new(atomic.Bool), false })
	if !d.CompareAndSwap(false, true) {
		return nil
	}
	return d
}

// Disproved ends what other nodes told of the candidate of a lease, if the attempt was
// made to see whether it is so: an answer came. It ends no wait that this node knows of
// itself.
func (l *Lease) Disproved() {
	if l == nil || l.doubt == nil {
		return
	}
	for _, c := range l.h.cells {
		if c != nil {
			c.told.Store(nil)
		}
	}
	if r := l.h.credential.invalid.Load(); r != nil && r.Node != "" {
		l.h.credential.invalid.CompareAndSwap(r, nil)
	}
	for _, list := range [...]*[breakerClasses]*breaker{&l.h.breakers, &l.h.own} {
		for _, b := range list {
			b.disprove()
		}
	}
	l.doubt.Store(false)
	l.doubt = nil
}

// disprove closes a breaker that is open by the word of another node.
func (b *breaker) disprove() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.node != "" {
		b.clear()
	}
}
