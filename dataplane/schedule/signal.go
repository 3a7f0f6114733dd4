package schedule

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// Signal is what one node of a fleet tells the others of an account: a cooldown, a
// credential that cannot authenticate, or a breaker that opened. It is soft state: it
// ends by time alone, and nothing depends on its arrival. Who heard it tries an account
// nevertheless where it has no other: see Doubt.
type Signal struct {
	Rest    *Rest // nil for a breaker; its Node is set where another node tells
	Invalid bool  // the credential is out until it is restored

	Limit *LimitSeen // what an upstream said of its limits; nil for anything else

	Breaker string // key of a breaker that opened
	Node    string // that told of the breaker; empty for this one
	Started time.Time
	Until   time.Time
}

// LimitSeen is what an upstream said of a limit of a quota group for a model.
type LimitSeen struct {
	Subject string // quota group and model, joined by |
	Observation
}

// limitTold is how often a limit is told at most, and limitBusy the share in use from
// which on others are told: nobody needs to know of a limit that nobody is near.
const (
	limitTold = time.Second
	limitBusy = 0.5
)

// tellLimits tells the other nodes what an upstream said, where it matters to them.
func (s *Scheduler) tellLimits(subject string, m *meter, seen []Observation, now time.Time) {
	if s.config.Tell == nil || s.nodes() < 2 {
		return
	}
	for _, o := range seen {
		if o.Limit-o.Remaining >= limitBusy*o.Limit && m.mayTell(o.Dim, now) {
			s.tell(Signal{Limit: &LimitSeen{subject, o}, Started: now, Until: now.Add(lessonFresh)})
		}
	}
}

func (m *meter) mayTell(d Dim, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.toldAt[d]) < limitTold {
		return false
	}
	m.toldAt[d] = now
	return true
}

// hear takes over what an upstream said to another node, if that is news.
func (m *meter) hear(o Observation, at time.Time, nodes float64, now time.Time) {
	m.mu.Lock()
	news := m.learned[o.Dim].at.Before(at)
	m.mu.Unlock()
	if news {
		m.observe([]Observation{o}, nodes, now)
	}
}

func (s *Scheduler) tell(sig Signal) {
	if s.config.Tell != nil {
		s.config.Tell(sig)
	}
}

func (s *Scheduler) tellBreaker(key string, b *breaker, now time.Time) {
	if state, until, _ := b.state(now); state == open {
		s.tell(Signal{Breaker: key, Started: now, Until: until})
	}
}

// maxToldRest bounds how long another node's word keeps an account out. What rests
// longer is told again while it lasts.
const maxToldRest = 10 * time.Minute

// Hear takes over what another node told, unless an operator has ended it meanwhile.
func (s *Scheduler) Hear(sig Signal, now time.Time) {
	if s.cleared.cover(&sig) {
		return
	}
	switch {
	case sig.Limit != nil:
		if o := sig.Limit.Observation; o.Dim < endOfDims && o.Limit > 0 && o.Remaining >= 0 && now.Sub(sig.Started) < lessonFresh {
			s.meters.of("learned:"+sig.Limit.Subject).hear(o, sig.Started, s.nodes(), now)
		}
	case sig.Breaker != "":
		if sig.Until.After(now) {
			s.breakers.of(sig.Breaker).hear(sig.Node, minTime(sig.Until, now.Add(breakerOpenMax)), now)
		}
	case sig.Rest == nil || sig.Rest.Subject == "":
	case sig.Invalid:
		c, _ := s.credentials.LoadOrCompute(sig.Rest.Subject, func() (*credential, bool) { return new(credential), false })
		rest := *sig.Rest
		rest.Until = now.Add(maxToldRest)
		c.invalidate(&rest, now)
	case sig.Rest.Until.After(now):
		rest := *sig.Rest
		rest.Until = minTime(rest.Until, now.Add(maxToldRest))
		s.cells.of(rest.Scope, rest.Subject).set(&rest, now)
	}
}

// Repeat tells again what this node knows of itself and what lasts longer than its word
// counts. Call it more often than every ten minutes.
func (s *Scheduler) Repeat(now time.Time) {
	for _, r := range s.Rests(now) {
		if r.Node == "" && r.Until.Sub(r.Started) > maxToldRest {
			s.tell(Signal{Rest: &r})
		}
	}
	s.credentials.Range(func(_ string, c *credential) bool {
		if r := c.invalidity(true, now); r != nil {
			s.tell(Signal{Rest: r, Invalid: true})
		}
		return true
	})
}

// hear opens a breaker that opened elsewhere.
func (b *breaker) hear(node string, until, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened == 0 {
		b.trip(now)
		b.until, b.node = until, node
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// covers reports whether state under a key is about the account: its credential, or
// what the credential has its quota, address and proxy from.
func covers(a *plan.Account, s Scope, subject string) bool {
	first, _, _ := strings.Cut(subject, "|")
	switch s {
	case CredentialModel, Credential:
		return first == a.CredentialKey
	case QuotaModel, Quota:
		return first == a.QuotaKey
	case UpstreamModel, Upstream:
		return first == a.Upstream.GetId()
	case Provider:
		return subject == a.Upstream.GetProviderId()
	case Proxy:
		return subject == a.ProxyKey()
	}
	return false
}

// coversBreaker is covers for the key of a breaker.
func coversBreaker(a *plan.Account, key string) bool {
	parts := strings.Split(key, "|")
	return len(parts) > 1 && parts[1] == a.Upstream.GetId() && (len(parts) < 5 || parts[4] == a.CredentialKey)
}

// Clear ends everything that was learned and keeps the account from being used:
// cooldowns, breakers, and that it could not authenticate. What another node tells later
// of what began before given is not believed any more. It returns how much it ended.
func (s *Scheduler) Clear(a *plan.Account, given, now time.Time) (ended int) {
	s.cleared.add(clearing{a, given, now})
	s.cells.byKey.Range(func(key string, c *cell) bool {
		name, subject, _ := strings.Cut(key, ":")
		scope, _ := ScopeNamed(name)
		if covers(a, scope, subject) && c.end(now) {
			ended++
		}
		return true
	})
	s.breakers.byKey.Range(func(key string, b *breaker) bool {
		if coversBreaker(a, key) && b.reset() {
			ended++
		}
		return true
	})
	if c, ok := s.credentials.Load(a.CredentialKey); ok {
		c.fails.Store(0)
		if c.invalid.Swap(nil) != nil {
			ended++
		}
	}
	return ended
}

// Covers reports whether a signal is about the account.
func Covers(a *plan.Account, sig *Signal) bool {
	switch {
	case sig.Breaker != "":
		return coversBreaker(a, sig.Breaker)
	case sig.Rest == nil:
		return false
	}
	return covers(a, sig.Rest.Scope, sig.Rest.Subject)
}

// clearing is what an operator ended.
type clearing struct {
	account *plan.Account
	given   time.Time
	at      time.Time
}

const maxClearings = 1000

// clearings are the last ones: a node's word can be on its way while it is ended.
type clearings struct {
	mu   sync.Mutex
	list []clearing // guarded by mu
}

func (c *clearings) add(n clearing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.list, func(o clearing) bool { return n.at.Sub(o.at) > maxToldRest })
	if len(c.list) >= maxClearings {
		c.list = c.list[1:]
	}
	c.list = append(c.list, n)
}

// cover reports whether what a signal tells began before an operator ended it.
func (c *clearings) cover(sig *Signal) bool {
	began := sig.Started
	if sig.Rest != nil {
		began = sig.Rest.Started
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.list {
		if !began.After(c.list[i].given) && Covers(c.list[i].account, sig) {
			return true
		}
	}
	return false
}

// Renewed makes a credential usable whose secret was refused and has been replaced
// since: version is that of the present one.
func (s *Scheduler) Renewed(credential string, version int64) {
	stale := func(r *Rest) bool { return r != nil && r.Secret != 0 && r.Secret < version }
	if c, ok := s.credentials.Load(credential); ok {
		if r := c.invalid.Load(); stale(r) && c.invalid.CompareAndSwap(r, nil) {
			c.fails.Store(0)
		}
	}
	s.cells.byKey.Range(func(_ string, c *cell) bool {
		for _, at := range [...]*atomic.Pointer[Rest]{&c.rest, &c.told} {
			if r := at.Load(); stale(r) && r.Subject == credential {
				at.CompareAndSwap(r, nil)
			}
		}
		return true
	})
}

// Forget drops the state of credentials that are gone. The state of what they shared
// with others stays.
func (s *Scheduler) Forget(gone func(credential string) bool) {
	known := make(map[string]bool)
	is := func(key string) bool {
		g, ok := known[key]
		if !ok {
			g = gone(key)
			known[key] = g
		}
		return g
	}
	s.credentials.Range(func(key string, _ *credential) bool {
		if is(key) {
			s.credentials.Delete(key)
			s.slots.byKey.Delete("c:" + key)
			s.meters.byKey.Delete("quota:" + key)
		}
		return true
	})
	s.cells.byKey.Range(func(key string, _ *cell) bool {
		name, subject, _ := strings.Cut(key, ":")
		first, _, _ := strings.Cut(subject, "|")
		if scope, _ := ScopeNamed(name); scope <= Quota && is(first) {
			s.cells.byKey.Delete(key)
		}
		return true
	})
	s.meters.byKey.Range(func(key string, _ *meter) bool {
		if subject, ok := strings.CutPrefix(key, "learned:"); ok {
			if first, _, _ := strings.Cut(subject, "|"); is(first) {
				s.meters.byKey.Delete(key)
			}
		}
		return true
	})
	s.healths.Range(func(key string, _ *health) bool {
		if first, _, _ := strings.Cut(key, "|"); is(first) {
			s.healths.Delete(key)
		}
		return true
	})
	s.turns.Range(func(key string, _ *turns) bool {
		if parts := strings.Split(key, "|"); len(parts) == 4 && is(parts[2]) {
			s.turns.Delete(key)
		}
		return true
	})
	s.breakers.byKey.Range(func(key string, _ *breaker) bool {
		if parts := strings.Split(key, "|"); len(parts) > 4 && is(parts[4]) {
			s.breakers.byKey.Delete(key)
		}
		return true
	})
}
