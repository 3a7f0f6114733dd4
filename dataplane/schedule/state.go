package schedule

import (
	"sync/atomic"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/puzpuzpuz/xsync/v4"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// Config tunes a Scheduler. A zero field takes the default it documents.
type Config struct {
	// Nodes is how many nodes share the accounts, this one included. Limits and slots
	// are divided among them. Default 1.
	Nodes func() int

	// Tell hands on what other nodes should know. It must not block. Default: nobody is told.
	Tell func(Signal)
}

// Scheduler chooses accounts and owns their runtime state, which is keyed by ids and
// outlives configurations. Safe for concurrent use.
type Scheduler struct {
	config Config

	cells       cells
	breakers    breakers
	meters      meters
	slots       slots
	credentials *xsync.Map[string, *credential]
	healths     *xsync.Map[string, *health]
	turns       *xsync.Map[string, *turns]
	levels      *xsync.Map[string, *levels]
	resort      resorts
	outputs     *xsync.Map[string, *average]

	queued  *xsync.Map[string, *atomic.Int64] // by candidate set
	doubts  *xsync.Map[string, *atomic.Bool]  // by candidate set; an attempt against the word of others runs
	cleared clearings
	tickets atomic.Uint64
}

// New returns a Scheduler that has seen no traffic. It starts no goroutine.
func New(cfg Config) *Scheduler {
	if cfg.Nodes == nil {
		cfg.Nodes = func() int { return 1 }
	}
	return &Scheduler{
		config:      cfg,
		cells:       newCells(),
		breakers:    newBreakers(),
		meters:      newMeters(),
		slots:       newSlots(),
		credentials: xsync.NewMap[string, *credential](),
		healths:     xsync.NewMap[string, *health](),
		turns:       xsync.NewMap[string, *turns](),
		levels:      xsync.NewMap[string, *levels](),
		resort:      newResorts(),
		outputs:     xsync.NewMap[string, *average](),
		queued:      xsync.NewMap[string, *atomic.Int64](),
		doubts:      xsync.NewMap[string, *atomic.Bool](),
	}
}

func (s *Scheduler) nodes() float64 { return float64(max(1, s.config.Nodes())) }

// credential is the state of a credential whatever it is used for.
type credential struct {
	fails   atomic.Int64         // in a row
	invalid atomic.Pointer[Rest] // disabled after it failed to authenticate
	quota   atomic.Pointer[quota]
}

// invalidity is why the credential is out until it is restored; nil if it is not. With
// own, what other nodes told does not count. Their word ends by itself, too.
func (c *credential) invalidity(own bool, now time.Time) *Rest {
	r := c.invalid.Load()
	if r == nil || r.Node != "" && (own || !now.Before(r.Until)) {
		return nil
	}
	return r
}

// invalidate takes the credential out and reports whether that is news.
func (c *credential) invalidate(rest *Rest, now time.Time) bool {
	for {
		old := c.invalid.Load()
		if old != nil && (old.Node == "" || rest.Node != "" && now.Before(old.Until) && !rest.Until.After(old.Until)) {
			return false
		}
		if c.invalid.CompareAndSwap(old, rest) {
			return true
		}
	}
}

// quota is what is left of an allowance that expires.
type quota struct {
	reset  time.Time
	window time.Duration
	left   float64 // share, in [0, 1]
}

// handle is all the state that a selection reads of one candidate. It is found once
// and kept with the account, so that a selection looks nothing up by name.
type handle struct {
	next     *handle // of the same account
	owner    *Scheduler
	provider *configv1.Provider
	use      string
	policy   *configv1.CacheSettings

	credential *credential
	cells      [endOfScopes]*cell
	health     *health
	breakers   [breakerClasses]*breaker // by upstream
	own        [breakerClasses]*breaker // by credential
	meters     [4]*meter                // quota group, learned, upstream, provider
	limits     [4][endOfDims]float64
	limited    [4]bool // some limit is configured, by meter
	slots      [3]*slot
	bounded    bool // some bound of concurrency is configured
	turns      *turns

	cache       plan.Cache
	scope       affinity.ScopeID
	countsReads bool // the provider counts cached tokens against its limits
}

// handle returns what is known of a candidate, under whichever policy.
func (s *Scheduler) handle(c *plan.Candidate) *handle {
	first, _ := c.Runtime.Load().(*handle)
	for h := first; h != nil; h = h.next {
		if h.of(s, c) {
			return h
		}
	}
	return s.handleFor(c, nil)
}

// maxHandles bounds the handles of an account: one for each scheduler, use and policy
// that looks at it.
const maxHandles = 16

// handleFor returns what is known of a candidate, with what is known of its cache under
// a policy's settings.
func (s *Scheduler) handleFor(c *plan.Candidate, policy *configv1.CacheSettings) *handle {
	first, _ := c.Runtime.Load().(*handle)
	n := 0
	for h := first; h != nil; h = h.next {
		if h.of(s, c) && h.policy == policy {
			return h
		}
		n++
	}
	h := s.newHandle(c, policy)
	var old any
	if first != nil {
		old = first
	}
	if n < maxHandles {
		h.next = first
	}
	c.Runtime.CompareAndSwap(old, h) // one that is not kept reads the same state
	return h
}

// of reports whether the handle is this scheduler's of the candidate.
func (h *handle) of(s *Scheduler, c *plan.Candidate) bool {
	return h.owner == s && h.provider == c.Provider && h.use == c.Use
}

func (s *Scheduler) newHandle(c *plan.Candidate, policy *configv1.CacheSettings) *handle {
	h := &handle{owner: s, provider: c.Provider, use: c.Use, policy: policy}
	h.credential, _ = s.credentials.LoadOrCompute(c.CredentialKey, func() (*credential, bool) { return new(credential), false })
	for scope := range endOfScopes {
		if subject := subjectOf(scope, c); subject != "" {
			h.cells[scope] = s.cells.of(scope, subject)
		}
	}
	h.health, _ = s.healths.LoadOrCompute(subjectOf(CredentialModel, c), func() (*health, bool) { return new(health), false })
	for class := range breakerClasses {
		h.breakers[class] = s.breakers.of(breakerKey(c, class, false))
		h.own[class] = s.breakers.of(breakerKey(c, class, true))
	}
	configured := [4]*configv1.Limits{c.Credential.GetLimits(), nil, c.Upstream.GetLimits(), c.Provider.GetLimits()}
	for i, key := range [4]string{
		"quota:" + c.QuotaKey, "learned:" + subjectOf(QuotaModel, c), "upstream:" + c.Upstream.GetId(), "provider:" + c.Upstream.GetProviderId(),
	} {
		h.meters[i] = s.meters.of(key)
		h.limits[i] = limitsOf(configured[i])
		h.meters[i].configured(h.limits[i])
		h.countsReads = h.countsReads || configured[i].GetCountCacheReads()
		for _, l := range h.limits[i] {
			h.limited[i] = h.limited[i] || l >= 0
		}
	}
	for i, key := range c.SlotKeys {
		h.slots[i] = s.slots.of(key)
	}
	h.bounded = concurrency(c, 1) != [3]int64{-1, -1, -1}
	h.turns, _ = s.turns.LoadOrCompute(c.Upstream.GetProviderId()+"|"+c.UpstreamModel()+"|"+c.CredentialKey+"|"+c.Upstream.GetId(),
		func() (*turns, bool) { return new(turns), false })
	h.cache = c.Cache(policy)
	h.scope = affinity.ScopeOf(h.cache.Scope)
	return h
}

func (h *handle) breakersOf(p *Policy) *[breakerClasses]*breaker {
	if p.BreakerByCredential {
		return &h.own
	}
	return &h.breakers
}

func (h *handle) maxCacheWait(p *Policy) time.Duration {
	if h.cache.MaxWait >= 0 {
		return h.cache.MaxWait
	}
	return p.MaxCacheWait
}

func (h *handle) minPrefix(p *Policy) int64 {
	if h.cache.Min >= 0 {
		return h.cache.Min
	}
	return p.MinPrefix
}

// invalidate takes a credential out that failed to authenticate, until it is restored.
func (s *Scheduler) invalidate(c *credential, key string, f Failure, now time.Time) {
	rest := &Rest{Scope: Credential, Subject: key, Kind: "auth_invalid", Started: now, Source: f.Source, Status: f.Status, RequestID: f.RequestID, Secret: f.Secret}
	if c.invalidate(rest, now) {
		s.tell(Signal{Rest: rest, Invalid: true})
	}
}

// Attempted notes how an attempt ended for the health and the breakers of its
// candidate: class says whose failure it was, NoBreaker with failed false is an answer,
// and with failed true an ending that says nothing of the upstream.
func (s *Scheduler) Attempted(c *plan.Candidate, p *Policy, class Breaker, failed bool, now time.Time) {
	if failed && class == NoBreaker {
		return
	}
	h := s.handle(c)
	h.health.attempted(failed, now)
	for i, b := range h.breakersOf(p) {
		at := Breaker(i)
		switch {
		case failed && at == class:
			if b.count(true, now) {
				s.tellBreaker(breakerKey(c, at, p.BreakerByCredential), b, now)
			}
		case !failed, at == Transport:
			b.count(false, now)
		}
	}
}

// Observe overwrites what is known of the limits of the candidate's quota group for its
// model by what the upstream said with an answer.
func (s *Scheduler) Observe(c *plan.Candidate, seen []Observation, now time.Time) {
	if len(seen) == 0 {
		return
	}
	m := s.handle(c).meters[1]
	m.observe(seen, s.nodes(), now)
	s.tellLimits(subjectOf(QuotaModel, c), m, seen, now)
}

// QuotaLeft notes what is left of an allowance of the candidate's credential that
// expires at reset, of those that are renewed every window.
func (s *Scheduler) QuotaLeft(c *plan.Candidate, left float64, reset time.Time, window time.Duration) {
	s.handle(c).credential.quota.Store(&quota{reset: reset, window: window, left: left})
}

// average is a moving average of what answers of a model are long.
type average struct{ tokens atomic.Int64 }

// OutputEstimate is how many tokens the answer of a tenant's logical model is expected to
// have; most is what the client allows, 0 if it does not say.
func (s *Scheduler) OutputEstimate(tenant, model string, most int64) int64 {
	const first = 500
	n := int64(first)
	if a, ok := s.outputs.Load(tenant + "|" + model); ok {
		n = a.tokens.Load() / 16
	}
	if most > 0 {
		n = min(n, most)
	}
	return n
}

// Answered adds the length of an answer to the estimate of its tenant's logical model.
func (s *Scheduler) Answered(tenant, model string, tokens int64) {
	if tokens <= 0 {
		return
	}
	tokens = plausible(tokens)
	a, found := s.outputs.LoadOrCompute(tenant+"|"+model, func() (*average, bool) {
		a := new(average)
		a.tokens.Store(16 * tokens)
		return a, false
	})
	if found {
		old := a.tokens.Load()
		a.tokens.CompareAndSwap(old, old+(16*tokens-old)/10)
	}
}
