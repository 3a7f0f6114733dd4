package schedule

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/rendezvous"
)

// choose puts the winner first and charges it in the rotation.
func (sel *Selection) choose(s *Scheduler, x *scratch) {
	slices.SortFunc(sel.Order, sel.byScore)
	if len(sel.Order) > 0 {
		// One lock for each set of accounts, so that two requests at once take turns.
		turn := &x.handles[0].turns.mu
		turn.Lock()
		defer turn.Unlock()
		w := sel.pick(x)
		at := slices.Index(sel.Order, w)
		copy(sel.Order[1:at+1], sel.Order[:at])
		sel.Order[0] = w
		if !sel.query.Dry {
			sel.charge(x, w)
		}
	}
	sel.Affinity = sel.outcome()
}

// outcome is what became of the affinity of the request.
func (sel *Selection) outcome() Outcome {
	q := sel.query
	switch {
	case q.Affinity == affinity.None || q.Affinity != affinity.Pinned && sel.query.Policy.PreserveCache == configv1.PreserveCache_PRESERVE_CACHE_OFF:
		return Bypass
	case q.Affinity == affinity.Pinned:
		return Hit
	}
	if len(sel.Order) > 0 {
		if w := &sel.Rows[sel.Order[0]]; w.Hit > 0 || w.Bound || w.Escaped {
			return Hit // one that was to be left, and serves nevertheless, is still warm
		}
	}
	for i := range sel.Rows {
		if sel.Rows[i].Escaped {
			return Escape
		}
	}
	return Miss
}

// pick returns the winner among the considered candidates, which are in the order of
// their scores.
func (sel *Selection) pick(x *scratch) int {
	q, p := sel.query, &sel.query.Policy
	if len(sel.Order) == 1 {
		sel.How = Single
		if w := &sel.Rows[sel.Order[0]]; w.Hit > 0 && w.late {
			sel.How = Warm
		}
		return sel.Order[0]
	}
	for _, i := range sel.Order {
		if sel.Rows[i].Probe {
			sel.How = Probe
			return i
		}
	}
	if p.TopK > 0 {
		sel.How = Drawn
		return sel.draw()
	}
	set := sel.tied(x, sel.leaving())
	if longest := sel.longest(set); longest > 0 {
		set = slices.DeleteFunc(set, func(i int) bool { return sel.own(i) != longest })
		if len(set) == 1 {
			sel.How = Warm
			return set[0]
		}
	} else if slices.ContainsFunc(set, func(i int) bool { return sel.Rows[i].Bound }) {
		set = slices.DeleteFunc(set, func(i int) bool { return !sel.Rows[i].Bound })
		if len(set) == 1 {
			sel.How = Warm
			return set[0]
		}
	}
	band := slices.MinFunc(set, func(a, b int) int { return sel.band(a) - sel.band(b) })
	lowest := sel.band(band)
	set = slices.DeleteFunc(set, func(i int) bool { return sel.band(i) != lowest })
	if len(set) == 1 {
		sel.How = Single
		return set[0]
	}
	if q.Root != "" && !p.RoundRobin && (q.Affinity == affinity.Weak || q.Affinity == affinity.Strong) {
		sel.How = Rendezvous
		return sel.rendezvous(set)
	}
	sel.How = RoundRobin
	return sel.next(x, set)
}

// tied are the candidates whose expected latency and money are the same as the best
// one's, but for noise.
// Those of a priority below from are left out.
func (sel *Selection) tied(x *scratch, from int) []int {
	p := &sel.query.Policy
	order := sel.Order
	for sel.Rows[order[0]].Priority < from {
		order = order[1:]
	}
	best := &sel.Rows[order[0]]
	noise := round(p.TieMS * p.TimeValue)
	dear := float64(best.Money) + p.TieMoney*math.Abs(float64(best.Money))
	set := x.set[:0]
	for _, i := range order {
		if row := &sel.Rows[i]; row.Priority >= from && row.Total-best.Total <= noise && float64(row.Money) <= dear {
			set = append(set, i)
		}
	}
	x.set = set
	return set
}

// leaving is the priority from which on a conversation is placed that left the ones
// before, and that nothing keeps there: 0 if it left none.
func (sel *Selection) leaving() int {
	if sel.Level == 0 {
		return 0
	}
	there := false
	for _, i := range sel.Order {
		row := &sel.Rows[i]
		if sel.own(i) > 0 || row.Bound {
			return 0
		}
		there = there || row.Priority >= sel.Level
	}
	if !there {
		return 0
	}
	return sel.Level
}

// own is the expected hit of a candidate beyond a head that many conversations share.
func (sel *Selection) own(i int) int64 {
	h := sel.Rows[i].Hit
	if sel.query.HeadRecent > 1 && float64(h) <= headTolerance*float64(sel.query.HeadTokens) {
		return 0
	}
	return h
}

// headTolerance is how much longer a hit may be than a shared head and still be taken for
// it: what is remembered was corrected by usage, and the head is an estimate.
const headTolerance = 1.05

func (sel *Selection) longest(set []int) int64 {
	n := int64(0)
	for _, i := range set {
		n = max(n, sel.own(i))
	}
	return n
}

// band is how busy a candidate is, coarsely.
func (sel *Selection) band(i int) int {
	switch u, p := sel.Rows[i].Use, &sel.query.Policy; {
	case u < p.BandLow:
		return 0
	case u < p.Spillover:
		return 1
	}
	return 2
}

// rendezvous returns the home of the conversation among a set: the same one on every
// node.
func (sel *Selection) rendezvous(set []int) int {
	home, best := -1, 0.0
	for _, i := range set {
		c := &sel.candidates[i]
		v := rendezvous.Value(sel.query.Root, c.CredentialKey, c.Weight)
		if home < 0 || v > best || v == best && c.ID < sel.candidates[home].ID {
			home, best = i, v
		}
	}
	return home
}

// draw takes one of the best by chance, in proportion to weight and to how little it
// costs more than the best. The chance follows from the request's id alone.
func (sel *Selection) draw() int {
	p := &sel.query.Policy
	top := sel.Order[:min(p.TopK, len(sel.Order))]
	best := sel.Rows[top[0]].Total
	worth := func(i int) float64 {
		return float64(sel.candidates[i].Weight) * math.Exp(-float64(sel.Rows[i].Total-best)/p.TopKTau)
	}
	sum := 0.0
	for _, i := range top {
		sum += worth(i)
	}
	u := rendezvous.Unit(sel.query.Seed, sel.query.RequestID+"\x00topk") * sum
	for _, i := range top {
		if u -= worth(i); u <= 0 {
			return i
		}
	}
	return top[len(top)-1]
}

// turns are the credits of one credential in smooth weighted round-robin, by stage.
type turns struct {
	mu     sync.Mutex // held while the rotation makes a step whose first candidate this is
	credit [endOfStages]atomic.Int64
}

// next picks the richest of a set after a raise by its weight; the first id among equals.
func (sel *Selection) next(x *scratch, set []int) int {
	winner, best := -1, int64(0)
	for _, i := range set {
		c := &sel.candidates[i]
		credit := x.handles[i].turns.credit[sel.Stage].Load() + int64(c.Weight)
		if winner < 0 || credit > best || credit == best && c.ID < sel.candidates[winner].ID {
			winner, best = i, credit
		}
	}
	return winner
}

// charge is the accounting of smooth weighted round-robin, for every selection however
// it was made: everyone who could have been chosen gains its weight, and the winner
// pays what all gained together. So requests that follow a cache are made up for by
// those that do not. Credit is bound to four rounds, so that an account that was away
// does not take a long run of turns when it returns.
func (sel *Selection) charge(x *scratch, winner int) {
	total := int64(0)
	for i := range sel.Rows {
		if sel.gains(i) {
			total += int64(sel.candidates[i].Weight)
		}
	}
	for i := range sel.Rows {
		credit := &x.handles[i].turns.credit[sel.Stage]
		n := credit.Load()
		if sel.gains(i) {
			n += int64(sel.candidates[i].Weight)
		}
		if i == winner {
			n -= total
		} else if !sel.gains(i) {
			continue
		}
		credit.Store(min(max(n, -4*total), 4*total))
	}
}

// gains reports a candidate that passed the filters and whose priority is open.
func (sel *Selection) gains(i int) bool {
	row := &sel.Rows[i]
	return row.considered && !row.late
}
