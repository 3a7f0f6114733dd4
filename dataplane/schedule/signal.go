package schedule

import (
	"time"
)

// Signal is what one node of a fleet tells the others of an account: a cooldown, a
// credential that cannot authenticate, or a breaker that opened. It is soft state: it
// ends by time alone, and nothing depends on its arrival.
type Signal struct {
	Rest    *Rest // nil for a breaker
	Invalid bool  // the credential is out until it is restored

	Breaker string // key of a breaker that opened
	Until   time.Time
}

func (s *Scheduler) tell(sig Signal) {
	if s.config.Tell != nil {
		s.config.Tell(sig)
	}
}

func (s *Scheduler) tellBreaker(key string, b *breaker, now time.Time) {
	if state, until, _ := b.state(now); state == open {
		s.tell(Signal{Breaker: key, Until: until})
	}
}

// maxToldRest bounds how long another node's word keeps an account out. What rests
// longer is told again while it lasts.
const maxToldRest = 10 * time.Minute

// Hear takes over what another node told.
func (s *Scheduler) Hear(sig Signal, now time.Time) {
	switch {
	case sig.Breaker != "":
		if sig.Until.After(now) {
			s.breakers.of(sig.Breaker).hear(minTime(sig.Until, now.Add(breakerOpenMax)), now)
		}
	case sig.Rest == nil || sig.Rest.Subject == "":
	case sig.Invalid:
		c, _ := s.credentials.LoadOrCompute(sig.Rest.Subject, func() (*credential, bool) { return new(credential), false })
		rest := *sig.Rest
		c.invalid.CompareAndSwap(nil, &rest)
	case sig.Rest.Until.After(now):
		rest := *sig.Rest
		rest.Until = minTime(rest.Until, now.Add(maxToldRest))
		s.cells.of(rest.Scope, rest.Subject).set(&rest, now)
	}
}

// hear opens a breaker that opened elsewhere.
func (b *breaker) hear(until, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened == 0 {
		b.trip(now)
		b.until = until
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
