package schedule

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// slot counts the attempts that run on a credential, an upstream or a provider, and
// holds those that wait for one to end.
type slot struct {
	running atomic.Int64
	waiting atomic.Int64 // warm attempts that wait for this very account
	queued  atomic.Int64 // len(tickets)

	mu      sync.Mutex
	tickets []*ticket // guarded by mu
}

type slots struct{ byKey *xsync.Map[string, *slot] }

func newSlots() slots { return slots{byKey: xsync.NewMap[string, *slot]()} }

func (s *slots) of(key string) *slot {
	n, _ := s.byKey.LoadOrCompute(key, func() (*slot, bool) { return new(slot), false })
	return n
}

// concurrency is the configured bound of credential, upstream and provider, as far as
// it is this node's; negative is none.
func concurrency(c *plan.Candidate, nodes float64) (max [3]int64) {
	limits := [3]*int32{nil, c.Upstream.MaxConcurrency, nil}
	if c.Credential != nil {
		limits[0] = c.Credential.MaxConcurrency
	}
	if c.Provider != nil {
		limits[2] = c.Provider.MaxConcurrency
	}
	for i, l := range limits {
		max[i] = -1
		if l != nil {
			max[i] = int64(share(float64(*l), nodes))
		}
	}
	return max
}

// Used is what an attempt really used, for its reservation.
type Used struct {
	Input  int64 // tokens of the prompt that were not read from a cache
	Cached int64 // and those that were
	Output int64
	Images int64
}

// Lease is the right to run one attempt on a candidate: its slots, what it took of the
// limits, and the probe that it is for an account that failed before.
type Lease struct {
	s        *Scheduler
	h        *handle
	nodes    float64
	need     need
	taken    [4]uint64 // epochs of the meters, as they stood
	metes    [4]bool   // of the handle's meters
	slots    [3]bool
	probe    [breakerClasses]bool
	breakers *[breakerClasses]*breaker
	doubt    *atomic.Bool // that the word of other nodes is true; nil if that is not tried

	once    sync.Once
	settled sync.Once
}

// Acquire takes the slots of a candidate of the selection and reserves its limits, in
// one step: all of it or nothing. It reports the reason if there is no room. Every
// lease must be released; Release may be called more than once.
func (s *Scheduler) Acquire(sel *Selection, i int, now time.Time) (*Lease, Reason) {
	c, row := &sel.candidates[i], &sel.Rows[i]
	l := &Lease{s: s, h: s.handle(c), nodes: s.nodes()}
	l.need = sel.query.need(l.h, row.Hit)
	if r := l.take(sel.query, c, row, now); r != "" {
		l.undo(now)
		return nil, r
	}
	l.h.health.try(&sel.query.Policy, now)
	return l, ""
}

func (l *Lease) take(q *Query, c *plan.Candidate, row *Row, now time.Time) Reason {
	for i, m := range concurrency(c, l.nodes) {
		l.slots[i] = true
		if n := l.h.slots[i].running.Add(1); m >= 0 && n > m {
			return SlotFull
		}
	}
	t := l.h.meters[1].told(now)
	for i := range l.h.meters {
		epoch, ok := l.h.meters[i].reserve(&l.h.limits[i], &l.need, l.nodes, &t, now)
		if !ok {
			var v verdict
			l.h.meters[i].check(&v, &l.h.limits[i], &l.need, l.nodes, &t, now)
			return limitReasons[v.dim]
		}
		l.taken[i], l.metes[i] = epoch, true
	}
	if q.own {
		if l.doubt = l.s.doubt(c); l.doubt == nil {
			return doubtBusy
		}
	}
	if row.Probe {
		l.breakers = l.h.breakersOf(&q.Policy)
		for i, b := range l.breakers {
			if state, _, _ := b.state(now); state == closed {
				continue
			}
			if !b.probe(now) {
				return BreakerProbeBusy
			}
			l.probe[i] = true
		}
	}
	return ""
}

// undo gives back all that take got hold of.
func (l *Lease) undo(now time.Time) {
	l.once.Do(func() {
		l.Settle(Used{}, false, now)
		for i, taken := range l.probe {
			if taken {
				l.breakers[i].release()
			}
		}
		if l.doubt != nil {
			l.doubt.Store(false)
		}
		for i, taken := range l.slots {
			if taken {
				l.h.slots[i].running.Add(-1)
			}
		}
		if l.slots != [3]bool{} {
			wake(&l.h.slots, nil)
		}
	})
}

// Release gives the slots back, and what was reserved if nobody settled it. Only the
// first call counts.
func (l *Lease) Release() { l.undo(time.Now()) }

// maxUsed is more than any model reads or writes with one call, in tokens. What an
// upstream claims beyond it must not fill limits that others share.
const maxUsed = 10_000_000

func plausible(tokens int64) int64 { return min(max(tokens, 0), maxUsed) }

// Settle replaces the reservation by what was used; reached says that the upstream got
// the request and counts it. Only the first call counts.
func (l *Lease) Settle(u Used, reached bool, now time.Time) {
	l.settled.Do(func() {
		var used need
		if reached {
			input := plausible(u.Input)
			if l.h.countsReads {
				input += plausible(u.Cached)
			}
			used = needOf(input, plausible(u.Output), u.Images)
		}
		for i := range l.h.meters {
			if l.metes[i] {
				l.h.meters[i].correct(&l.h.limits[i], &l.need, &used, l.nodes, l.taken[i], now)
			}
		}
	})
}

// InFlight returns how many attempts run on a credential.
func (s *Scheduler) InFlight(credentialKey string) int64 {
	return s.slots.of("c:" + credentialKey).running.Load()
}
