package schedule

import (
	"math"
	"sync"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/rendezvous"
)

// levels is how busy the priorities of one set of accounts are, smoothed over time.
type levels struct {
	mu sync.Mutex
	at time.Time          // guarded by mu
	u  [maxLevels]float64 // guarded by mu
}

const (
	maxLevels = 8

	// levelTime is the time constant of the smoothing: longer than a burst, shorter than
	// a conversation.
	levelTime = time.Minute

	// A conversation leaves a priority when it is busier than the conversation's own
	// threshold, which lies in this range of the policy's spillover: before the spillover all have
	// left.
	spillFrom, spillTo = 0.55, 0.95
)

// level finds the priority where a conversation belongs that no cache ties to one. When
// the accounts of a priority fill up, conversations leave it one by one, each at a
// threshold of its own that follows from its root: so all nodes of a fleet send the same
// conversations on and the same ones not, though they do not talk to each other. Were it
// the load of the moment that decides, a conversation would find its accounts of the
// first priority full on one node and free on the next, and be read anew on each.
func (sel *Selection) level(s *Scheduler, x *scratch, now time.Time) {
	q := sel.query
	if len(sel.Rows) == 0 || len(x.priorities) < 2 || q.Stage != First || q.Root == "" || q.Policy.RoundRobin ||
		q.Affinity != affinity.Weak && q.Affinity != affinity.Strong {
		sel.Level = sel.lowest()
		return
	}
	var busy, weight [maxLevels]float64
	for i := range sel.Rows {
		row := &sel.Rows[i]
		if row.Outside || row.Reason.static() || row.Priority >= maxLevels {
			continue
		}
		w := float64(sel.candidates[i].Weight)
		weight[row.Priority] += w
		if row.Reason != "" && !row.Reason.full() {
			busy[row.Priority] += w // it rests: as if it were full
		} else {
			busy[row.Priority] += w * min(1, row.busy)
		}
	}
	l, _ := s.levels.LoadOrCompute(sel.candidates[0].RotationKey, func() (*levels, bool) { return new(levels), false })
	l.mu.Lock()
	defer l.mu.Unlock()
	keep := 0.0
	if !l.at.IsZero() {
		keep = math.Exp(-float64(now.Sub(l.at)) / float64(levelTime))
	}
	threshold := q.Policy.Spillover * (spillFrom + (spillTo-spillFrom)*rendezvous.Unit(q.Root, "spillover"))
	sel.Level = -1
	last := 0
	for k := range min(len(x.priorities), maxLevels) {
		if weight[k] == 0 {
			continue
		}
		u := busy[k] / weight[k]
		u += (l.u[k] - u) * keep
		if !q.Dry {
			l.u[k] = u
		}
		last = k
		if sel.Level < 0 && u < threshold {
			sel.Level = k
		}
	}
	if !q.Dry {
		l.at = now
	}
	if sel.Level < 0 {
		sel.Level = last
	}
}

// lowest is the lowest priority that has a candidate which configuration and request
// allow.
func (sel *Selection) lowest() int {
	lowest := -1
	for i := range sel.Rows {
		if row := &sel.Rows[i]; !row.Outside && !row.Reason.static() && (lowest < 0 || row.Priority < lowest) {
			lowest = row.Priority
		}
	}
	return max(0, lowest)
}
