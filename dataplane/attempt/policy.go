package attempt

import (
	"sync"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/puzpuzpuz/xsync/v4"
)

// Policy bounds the attempts of one request.
type Policy struct {
	MaxAttempts     int           // first attempt included; default 4
	Deadline        time.Time     // zero for none
	Hurried         bool          // the deadline is the client's own and earlier than any other
	MinAttempt      time.Duration // an attempt needs this much time; default 1 s
	PossibleReplays int           // replays after an attempt that may have been consumed; default 1
	SingleRetries   int           // retries where only one candidate exists; default 2
	Guarded         bool          // replay only what was certainly not consumed
	Mode            configv1.FallbackMode
	RetryRatio      float64 // retries allowed as a share of first attempts; default 0.2
	MinRetries      int     // retries allowed in any case; default 10
	LastResort      bool
	SwitchOn400     bool
	RetryStatus     []int32                  // statuses that are retried on the same candidate; empty leaves it to the table
	CrossStatus     []int32                  // statuses that may leave the provider; empty leaves it to the table
	Cooldowns       map[string]time.Duration // by kind, where they are not the table's; may be nil
	MaxRetryAfter   time.Duration            // longest announced wait that is obeyed; 0 is 24 h

	ConnectTimeout time.Duration // default 5 s
	HeaderTimeout  time.Duration // default 60 s; a call that is not streamed has until its deadline
	FirstEvent     time.Duration // default 120 s
	Idle           time.Duration // default 120 s
}

// Defaults of a node, where neither route nor scheduling policy says otherwise.
const (
	defaultMaxAttempts   = 4
	defaultMinAttempt    = time.Second
	defaultHeaderTimeout = time.Minute
	defaultFirstEvent    = 2 * time.Minute
	defaultIdle          = 2 * time.Minute
	defaultDeadline      = 10 * time.Minute
)

// PolicyOf combines scheduling policies, the outermost first, with what the route says
// itself, which wins; of each field the innermost value that is set counts. clientTimeout
// tightens the deadline; 0 is none.
func PolicyOf(levels []*configv1.SchedulingPolicy, r *configv1.Route, stream bool, clientTimeout time.Duration, now time.Time) Policy {
	p := Policy{
		MaxAttempts:     defaultMaxAttempts,
		MinAttempt:      defaultMinAttempt,
		PossibleReplays: 1,
		SingleRetries:   2,
		Mode:            configv1.FallbackMode_FALLBACK_MODE_ADAPTIVE,
		RetryRatio:      0.2,
		MinRetries:      10,
		LastResort:      true,
		HeaderTimeout:   defaultHeaderTimeout,
		FirstEvent:      defaultFirstEvent,
		Idle:            defaultIdle,
		Guarded:         r.GetReplay() == configv1.Replay_REPLAY_STRICT,
	}
	for _, s := range levels {
		p.take(s)
	}
	if r.MaxAttempts != nil {
		p.MaxAttempts = int(r.GetMaxAttempts())
	}
	if ms := r.GetFirstEventTimeoutMs(); ms > 0 {
		p.FirstEvent = time.Duration(ms) * time.Millisecond
	}
	if ms := r.GetIdleTimeoutMs(); ms > 0 {
		p.Idle = time.Duration(ms) * time.Millisecond
	}
	whole := time.Duration(r.GetDeadlineMs()) * time.Millisecond
	if whole == 0 && !stream {
		whole = defaultDeadline
	}
	if clientTimeout > 0 && (whole == 0 || clientTimeout < whole) {
		whole, p.Hurried = clientTimeout, true
	}
	if whole > 0 {
		p.Deadline = now.Add(whole)
	}
	return p
}

func (p *Policy) take(s *configv1.SchedulingPolicy) {
	if s == nil {
		return
	}
	if s.MaxAttempts != nil {
		p.MaxAttempts = int(s.GetMaxAttempts())
	}
	if s.MinAttemptMs != nil {
		p.MinAttempt = time.Duration(s.GetMinAttemptMs()) * time.Millisecond
	}
	if s.MaxPossiblyConsumedReplays != nil {
		p.PossibleReplays = int(s.GetMaxPossiblyConsumedReplays())
	}
	if s.SingleCandidateRetries != nil {
		p.SingleRetries = int(s.GetSingleCandidateRetries())
	}
	if s.RetryRatio != nil {
		p.RetryRatio = s.GetRetryRatio()
	}
	if s.MinRetries != nil {
		p.MinRetries = int(s.GetMinRetries())
	}
	if s.LastResort != nil {
		p.LastResort = s.GetLastResort()
	}
	if s.SwitchOn_400 != nil {
		p.SwitchOn400 = s.GetSwitchOn_400()
	}
	if len(s.GetRetryStatusCodes()) > 0 {
		p.RetryStatus = s.GetRetryStatusCodes()
	}
	if len(s.GetCrossProviderStatusCodes()) > 0 {
		p.CrossStatus = s.GetCrossProviderStatusCodes()
	}
	if s.MaxRetryAfterMs != nil {
		p.MaxRetryAfter = time.Duration(s.GetMaxRetryAfterMs()) * time.Millisecond
	}
	for kind, ms := range map[string]*int64{
		"auth": s.CooldownAuthMs, "rate_limit": s.CooldownRateLimitMs, "quota": s.CooldownQuotaMs, "overload": s.CooldownOverloadMs,
		"server": s.CooldownServerMs, "network": s.CooldownNetworkMs, "model": s.CooldownModelMs,
	} {
		if ms == nil {
			continue
		}
		if p.Cooldowns == nil {
			p.Cooldowns = make(map[string]time.Duration)
		}
		p.Cooldowns[kind] = time.Duration(*ms) * time.Millisecond
	}
	if m := s.GetFallbackMode(); m != configv1.FallbackMode_FALLBACK_MODE_UNSPECIFIED {
		p.Mode = m
	}
}

// retryBudgets bounds retries by provider to a share of its first attempts, so that
// a provider in trouble is not hit harder by everyone's retries. Each tenant has its own:
// one whose accounts fail must not use up what others may retry.
type retryBudgets struct {
	byProvider *xsync.Map[ofTenant, *retryBudget]
}

// ofTenant is a provider as one tenant uses it.
type ofTenant struct{ tenant, provider string }

// budgetSlots of one second make the window of a retry budget.
const budgetSlots = 10

type retryBudget struct {
	mu      sync.Mutex
	firsts  [budgetSlots]int // guarded by mu
	retries [budgetSlots]int // guarded by mu
	second  int64            // of the newest slot; guarded by mu
}

func newRetryBudgets() retryBudgets {
	return retryBudgets{byProvider: xsync.NewMap[ofTenant, *retryBudget]()}
}

func (b retryBudgets) of(tenant, provider string) *retryBudget {
	rb, _ := b.byProvider.LoadOrCompute(ofTenant{tenant, provider}, func() (*retryBudget, bool) { return new(retryBudget), false })
	return rb
}

// first counts a first attempt.
func (b *retryBudget) first(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.firsts[b.slot(now)]++
}

// take counts a retry if the budget allows one more.
func (b *retryBudget) take(ratio float64, least int, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.slot(now)
	firsts, retries := 0, 0
	for i := range budgetSlots {
		firsts += b.firsts[i]
		retries += b.retries[i]
	}
	if float64(retries) >= max(float64(least), ratio*float64(firsts)) {
		return false
	}
	b.retries[at]++
	return true
}

// slot moves the window to now and returns its newest slot. The caller holds b.mu.
func (b *retryBudget) slot(now time.Time) int {
	second := now.Unix()
	for gone := min(second-b.second, budgetSlots); gone > 0; gone-- {
		i := (second - gone + 1) % budgetSlots
		b.firsts[i], b.retries[i] = 0, 0
	}
	b.second = max(b.second, second)
	return int(b.second % budgetSlots)
}
