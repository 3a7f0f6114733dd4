package schedule

import (
	"sync"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// Scope is what a cooldown covers.
type Scope uint8

// The scopes, from the narrowest.
const (
	CredentialModel Scope = iota
	Credential
	QuotaModel
	Quota
	UpstreamModel
	Upstream
	endOfScopes
)

var scopeNames = [...]string{"credential_model", "credential", "quota_model", "quota", "upstream_model", "upstream"}

// String is the name used in logs and signals.
func (s Scope) String() string { return scopeNames[s] }

// Rest is a cooldown: which accounts rest, why, and until when. It ends by time
// alone.
type Rest struct {
	Scope     Scope
	Subject   string // key of the scope
	Kind      string // auth, rate_limit, quota, overload, server, network or model
	Until     time.Time
	Started   time.Time
	Announced bool // the upstream said how long
	Status    int  // upstream status that caused it; 0 without an answer
	RequestID string
}

// rests holds cooldowns and counts of consecutive failures.
type rests struct {
	byKey *xsync.Map[restKey, Rest]
	fails *xsync.Map[string, *failures]
}

type restKey struct {
	scope   Scope
	subject string
	model   string
	use     string // plan.Candidate.Use, in the scopes of a model
}

type failures struct {
	mu sync.Mutex
	n  int // guarded by mu
}

func newRests() rests {
	return rests{byKey: xsync.NewMap[restKey, Rest](), fails: xsync.NewMap[string, *failures]()}
}

func keyOf(s Scope, c *plan.Candidate) restKey {
	switch s {
	case Credential:
		return restKey{scope: s, subject: c.CredentialKey}
	case QuotaModel:
		return restKey{s, c.QuotaKey, c.UpstreamModel(), c.Use}
	case Quota:
		return restKey{scope: s, subject: c.QuotaKey}
	case UpstreamModel:
		return restKey{s, c.Upstream.GetId(), c.UpstreamModel(), c.Use}
	case Upstream:
		return restKey{scope: s, subject: c.Upstream.GetId()}
	}
	return restKey{CredentialModel, c.CredentialKey, c.UpstreamModel(), c.Use}
}

// active returns the cooldown of the candidate that ends last.
func (r *rests) active(c *plan.Candidate, now time.Time) (kind string, until time.Time, resting bool) {
	if r.byKey.Size() == 0 {
		return "", time.Time{}, false
	}
	for s := range endOfScopes {
		rest, ok := r.byKey.Load(keyOf(s, c))
		if ok && now.Before(rest.Until) && rest.Until.After(until) {
			kind, until, resting = rest.Kind, rest.Until, true
		}
	}
	return kind, until, resting
}

// announced reports whether the upstream itself asked for a wait that is not over.
func (r *rests) announced(c *plan.Candidate, now time.Time) bool {
	for s := range endOfScopes {
		if rest, ok := r.byKey.Load(keyOf(s, c)); ok && rest.Announced && now.Before(rest.Until) {
			return true
		}
	}
	return false
}

// set starts a cooldown. A longer one that runs is never shortened. Cooldowns that
// are over are dropped now and then, so the map holds what rests and little more.
func (r *rests) set(key restKey, rest Rest, now time.Time) {
	if r.byKey.Size() >= sweepAbove {
		r.byKey.Range(func(k restKey, old Rest) bool {
			if !now.Before(old.Until) {
				r.byKey.Delete(k)
			}
			return true
		})
	}
	r.byKey.Compute(key, func(old Rest, loaded bool) (Rest, xsync.ComputeOp) {
		if loaded && old.Until.After(rest.Until) {
			return old, xsync.CancelOp
		}
		return rest, xsync.UpdateOp
	})
}

// sweepAbove is the number of kept cooldowns from which over ones are dropped.
const sweepAbove = 4096

// failed counts a failure of a credential and returns how many came in a row.
func (r *rests) failed(credential string) int {
	f, _ := r.fails.LoadOrCompute(credential, func() (*failures, bool) { return new(failures), false })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	return f.n
}

func (r *rests) succeeded(c *plan.Candidate) {
	if f, ok := r.fails.Load(c.CredentialKey); ok {
		f.mu.Lock()
		f.n = 0
		f.mu.Unlock()
	}
	if r.byKey.Size() > 0 {
		r.byKey.Delete(keyOf(CredentialModel, c))
	}
}

// Failure is a failed attempt as far as it decides about a cooldown.
type Failure struct {
	Scope     Scope
	Kind      string
	For       time.Duration // without a wait that the upstream announced
	After     int           // consecutive failures from which on it rests
	Announced time.Duration // the wait that the upstream announced; 0 if none
	Status    int
	RequestID string
}

// MaxAnnounced is the longest wait of an upstream that is obeyed.
const MaxAnnounced = 24 * time.Hour

// Failed counts a failure of the candidate's credential and starts the cooldown
// that it calls for. An announced wait is obeyed at once and exactly, up to
// MaxAnnounced.
func (s *Scheduler) Failed(c *plan.Candidate, f Failure, now time.Time) {
	n := s.rests.failed(c.CredentialKey)
	length := f.For
	if f.Announced > 0 {
		length = min(f.Announced, MaxAnnounced)
	} else if n < f.After || length <= 0 {
		return
	}
	key := keyOf(f.Scope, c)
	s.rests.set(key, Rest{
		Scope:     f.Scope,
		Subject:   key.subject,
		Kind:      f.Kind,
		Until:     now.Add(length),
		Started:   now,
		Announced: f.Announced > 0,
		Status:    f.Status,
		RequestID: f.RequestID,
	}, now)
}

// Succeeded ends the count of failures of the candidate's credential and its
// cooldown for this model.
func (s *Scheduler) Succeeded(c *plan.Candidate) { s.rests.succeeded(c) }

// Rests returns the cooldowns that are not over, for operators.
func (s *Scheduler) Rests(now time.Time) []Rest {
	var out []Rest
	s.rests.byKey.Range(func(_ restKey, r Rest) bool {
		if now.Before(r.Until) {
			out = append(out, r)
		}
		return true
	})
	return out
}
