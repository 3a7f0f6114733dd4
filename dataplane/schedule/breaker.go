package schedule

import (
	"sync"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// Breaker is the class of failures that a circuit breaker counts.
type Breaker uint8

// The classes. NoBreaker is of failures that say nothing of an upstream's health.
const (
	Transport Breaker = iota
	Server
	Capacity
	breakerClasses
	NoBreaker = breakerClasses
)

var breakerNames = [...]string{"transport", "server", "capacity", ""}

// String is the name used in keys and metrics.
func (b Breaker) String() string { return breakerNames[b] }

// When a breaker opens, and for how long.
const (
	breakerSlots      = 10
	breakerSlot       = 3 * time.Second
	breakerRequests   = 10 // in the window, to judge a share
	breakerShare      = 0.5
	breakerInARow     = 5
	breakerOpen       = 10 * time.Second // doubled with every time it opens again
	breakerOpenMax    = 5 * time.Minute
	breakerSuccesses  = 2 // probes that close it
	breakerProbeEvery = time.Second
)

// circuit is where a breaker stands.
type circuit uint8

const (
	closed circuit = iota
	open
	halfOpen
)

var circuitNames = [...]string{"closed", "open", "half_open"}

func (c circuit) String() string { return circuitNames[c] }

// breaker is one circuit bucket: provider, upstream, model and class of failure.
type breaker struct {
	mu        sync.Mutex
	requests  [breakerSlots]int // guarded by mu
	failures  [breakerSlots]int // guarded by mu
	slot      int64             // number of the newest slot; guarded by mu
	inARow    int               // guarded by mu
	opened    int               // times in a row; 0 is closed; guarded by mu
	node      string            // that told it was open; empty where this one counted; guarded by mu
	until     time.Time         // while open; guarded by mu
	successes int               // of probes; guarded by mu
	probing   bool              // guarded by mu
	probedAt  time.Time         // guarded by mu
}

// state is closed, open, or half open once the time of being open is over. busy says
// that a half open one takes no probe at the moment.
func (b *breaker) state(now time.Time) (c circuit, until time.Time, busy bool) {
	return b.stateOf(false, now)
}

// stateOf is state; with own, a breaker that is open by the word of another node is
// closed.
func (b *breaker) stateOf(own bool, now time.Time) (c circuit, until time.Time, busy bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.opened == 0, own && b.node != "":
		return closed, time.Time{}, false
	case now.Before(b.until):
		return open, b.until, false
	}
	return halfOpen, b.until, b.probing || now.Sub(b.probedAt) < breakerProbeEvery && !b.probedAt.IsZero()
}

// probe takes the right to probe; end must follow.
func (b *breaker) probe(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened == 0 {
		return true
	}
	if now.Before(b.until) || b.probing || now.Sub(b.probedAt) < breakerProbeEvery && !b.probedAt.IsZero() {
		return false
	}
	b.probing, b.probedAt = true, now
	return true
}

// release gives the right to probe back.
func (b *breaker) release() {
	b.mu.Lock()
	b.probing = false
	b.mu.Unlock()
}

// count notes the end of an attempt and reports whether the breaker opened or closed
// with it.
func (b *breaker) count(failed bool, now time.Time) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened > 0 {
		if now.Before(b.until) {
			if failed {
				b.node = "" // what others told is so
			}
			return false // of an attempt that began before it opened
		}
		if failed {
			b.trip(now)
			return true
		}
		if b.successes++; b.successes >= breakerSuccesses {
			b.clear()
			return true
		}
		return false
	}
	at := b.advance(now)
	b.requests[at]++
	if !failed {
		b.inARow = 0
		return false
	}
	b.failures[at]++
	b.inARow++
	requests, failures := 0, 0
	for i := range b.requests {
		requests += b.requests[i]
		failures += b.failures[i]
	}
	if b.inARow >= breakerInARow || requests >= breakerRequests && float64(failures) >= breakerShare*float64(requests) {
		b.trip(now)
		return true
	}
	return false
}

// trip opens the breaker. The caller holds b.mu.
func (b *breaker) trip(now time.Time) {
	b.opened++
	b.until = now.Add(min(breakerOpen<<min(b.opened-1, 8), breakerOpenMax))
	b.successes, b.inARow, b.node = 0, 0, ""
}

// clear closes the breaker and forgets what it counted. The caller holds b.mu.
func (b *breaker) clear() {
	b.requests, b.failures = [breakerSlots]int{}, [breakerSlots]int{}
	b.inARow, b.opened, b.successes, b.until = 0, 0, 0, time.Time{}
	b.node = ""
}

// reset closes the breaker and reports whether it was open.
func (b *breaker) reset() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.opened > 0
	b.clear()
	return was
}

// advance moves the window to now and returns its newest slot. The caller holds b.mu.
func (b *breaker) advance(now time.Time) int64 {
	n := now.UnixMilli() / breakerSlot.Milliseconds()
	for gone := min(n-b.slot, breakerSlots); gone > 0; gone-- {
		i := (n - gone + 1) % breakerSlots
		b.requests[i], b.failures[i] = 0, 0
	}
	b.slot = max(b.slot, n)
	return b.slot % breakerSlots
}

// breakers are those of a scheduler, by provider|upstream|model|class, and with the
// credential at the end where they are by credential.
type breakers struct{ byKey *xsync.Map[string, *breaker] }

func newBreakers() breakers { return breakers{xsync.NewMap[string, *breaker]()} }

func breakerKey(c *plan.Candidate, class Breaker, byCredential bool) string {
	model := c.UpstreamModel()
	if c.Use != "" {
		model += "+" + c.Use
	}
	key := c.Upstream.GetProviderId() + "|" + c.Upstream.GetId() + "|" + model + "|" + class.String()
	if byCredential {
		key += "|" + c.CredentialKey
	}
	return key
}

func (bs breakers) of(key string) *breaker {
	b, _ := bs.byKey.LoadOrCompute(key, func() (*breaker, bool) { return new(breaker), false })
	return b
}

// BreakerState is a breaker that is not closed, for operators.
type BreakerState struct {
	Key   string // provider|upstream|model|class
	State string // open or half_open
	Until time.Time
	Times int    // it opened in a row
	Node  string // that told of it; empty for this one
}

// Breakers returns the breakers that are not closed.
func (s *Scheduler) Breakers(now time.Time) []BreakerState {
	var out []BreakerState
	s.breakers.byKey.Range(func(key string, b *breaker) bool {
		if c, until, _ := b.state(now); c != closed {
			b.mu.Lock()
			out = append(out, BreakerState{Key: key, State: c.String(), Until: until, Times: b.opened, Node: b.node})
			b.mu.Unlock()
		}
		return true
	})
	return out
}
