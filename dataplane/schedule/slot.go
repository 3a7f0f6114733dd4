package schedule

import (
	"sync"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// slots counts the attempts that run, for each credential, upstream and provider.
type slots struct {
	running *xsync.Map[string, *atomic.Int64]
}

func newSlots() slots { return slots{running: xsync.NewMap[string, *atomic.Int64]()} }

// bound is one counter that an attempt occupies, and how far it may go.
type bound struct {
	key string
	max int32 // negative for none
}

func boundsOf(c *plan.Candidate) [3]bound {
	var b [3]bound
	for i, limit := range concurrency(c) {
		b[i] = bound{c.SlotKeys[i], -1}
		if limit != nil {
			b[i].max = *limit
		}
	}
	return b
}

// concurrency is the configured bound of credential, upstream and provider; nil is none.
func concurrency(c *plan.Candidate) (limits [3]*int32) {
	if c.Credential != nil {
		limits[0] = c.Credential.MaxConcurrency
	}
	limits[1] = c.Upstream.MaxConcurrency
	if c.Provider != nil {
		limits[2] = c.Provider.MaxConcurrency
	}
	return limits
}

func (s *slots) counter(key string) *atomic.Int64 {
	n, _ := s.running.LoadOrCompute(key, func() (*atomic.Int64, bool) { return new(atomic.Int64), false })
	return n
}

// room reports whether the candidate has a free slot. It may be gone a moment later.
func (s *slots) room(c *plan.Candidate) bool {
	if concurrency(c) == ([3]*int32{}) {
		return true
	}
	for _, b := range boundsOf(c) {
		if b.max >= 0 && s.counter(b.key).Load() >= int64(b.max) {
			return false
		}
	}
	return true
}

// Lease is the right to run one attempt on a candidate.
type Lease struct {
	counters [3]*atomic.Int64
	once     sync.Once
}

// Acquire takes a slot of the candidate, all of its counters or none. It reports
// false if there is none. Every lease must be released; Release may be called
// more than once.
func (s *Scheduler) Acquire(c *plan.Candidate) (*Lease, bool) {
	l := &Lease{}
	for i, b := range boundsOf(c) {
		n := s.slots.counter(b.key)
		if n.Add(1) > int64(b.max) && b.max >= 0 {
			n.Add(-1)
			l.Release()
			return nil, false
		}
		l.counters[i] = n
	}
	return l, true
}

// Release gives the slot back. Only the first call counts.
func (l *Lease) Release() {
	l.once.Do(func() {
		for _, n := range l.counters {
			if n != nil {
				n.Add(-1)
			}
		}
	})
}

// InFlight returns how many attempts run on a credential.
func (s *Scheduler) InFlight(credentialKey string) int64 {
	return s.slots.counter("c:" + credentialKey).Load()
}
