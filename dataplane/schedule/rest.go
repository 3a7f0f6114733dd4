package schedule

import (
	"sync/atomic"
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
	Provider
	Proxy
	endOfScopes
)

var scopeNames = [...]string{
	"credential_model", "credential", "quota_model", "quota", "upstream_model", "upstream", "provider", "proxy",
}

// String is the name used in logs and signals.
func (s Scope) String() string { return scopeNames[s] }

// ScopeNamed returns the scope of that name.
func ScopeNamed(name string) (Scope, bool) {
	for s, n := range scopeNames {
		if n == name {
			return Scope(s), true
		}
	}
	return 0, false
}

// Rest is a cooldown: which accounts rest, why, and until when. It ends by time
// alone.
type Rest struct {
	Scope     Scope
	Subject   string // what the scope's name stands for: ids, joined by |
	Kind      string // auth, rate_limit, quota, overload, server, network or model
	Until     time.Time
	Started   time.Time
	Announced bool   // the upstream said how long
	Source    string // what said how long: the name of a header, or the error table
	Status    int    // upstream status that caused it; 0 without an answer
	RequestID string
	Node      string // that told of it; empty for this one
	Secret    int64  // version of the secret that was refused; 0 if it was not about one
}

// Key names the cooldown.
func (r Rest) Key() string { return r.Scope.String() + ":" + r.Subject }

// cell holds the cooldown of one key as this node met it and as others told of it; nil
// when there was none yet. One's own word is not lost when another's is doubted.
type cell struct{ rest, told atomic.Pointer[Rest] }

// own returns the cooldown that this node met, if it is not over.
func (c *cell) own(now time.Time) *Rest {
	if c == nil {
		return nil
	}
	return running(&c.rest, now)
}

// heard returns the cooldown that others told of, if it is not over.
func (c *cell) heard(now time.Time) *Rest {
	if c == nil {
		return nil
	}
	return running(&c.told, now)
}

func running(at *atomic.Pointer[Rest], now time.Time) *Rest {
	if r := at.Load(); r != nil && now.Before(r.Until) {
		return r
	}
	return nil
}

// active returns the cooldown that ends last, if it is not over.
func (c *cell) active(now time.Time) *Rest {
	own, heard := c.own(now), c.heard(now)
	if own == nil || heard != nil && heard.Until.After(own.Until) {
		return heard
	}
	return own
}

// set starts a cooldown and reports whether it counts: a longer one that runs is
// never shortened.
func (c *cell) set(rest *Rest, now time.Time) bool {
	at := &c.rest
	if rest.Node != "" {
		at = &c.told
	}
	for {
		old := at.Load()
		if old != nil && now.Before(old.Until) && !rest.Until.After(old.Until) {
			return false
		}
		if at.CompareAndSwap(old, rest) {
			return true
		}
	}
}

// end ends both cooldowns and reports whether one ran.
func (c *cell) end(now time.Time) bool {
	own, heard := c.rest.Swap(nil), c.told.Swap(nil)
	return own != nil && now.Before(own.Until) || heard != nil && now.Before(heard.Until)
}

// cells are the cooldowns of a scheduler, by Rest.Key.
type cells struct{ byKey *xsync.Map[string, *cell] }

func newCells() cells { return cells{xsync.NewMap[string, *cell]()} }

func (cs cells) of(s Scope, subject string) *cell {
	c, _ := cs.byKey.LoadOrCompute(s.String()+":"+subject, func() (*cell, bool) { return new(cell), false })
	return c
}

// subjectOf names what a scope covers of a candidate; empty if it covers nothing.
func subjectOf(s Scope, c *plan.Candidate) string {
	model := c.UpstreamModel()
	if c.Use != "" {
		model += "|" + c.Use
	}
	switch s {
	case CredentialModel:
		return c.CredentialKey + "|" + model
	case Credential:
		return c.CredentialKey
	case QuotaModel:
		return c.QuotaKey + "|" + model
	case Quota:
		return c.QuotaKey
	case UpstreamModel:
		return c.Upstream.GetId() + "|" + model
	case Upstream:
		return c.Upstream.GetId()
	case Provider:
		return c.Upstream.GetProviderId()
	case Proxy:
		return c.ProxyKey()
	}
	return ""
}

// Failure is a failed attempt as far as it decides about a cooldown.
type Failure struct {
	Scope     Scope
	Kind      string
	For       time.Duration // without a wait that the upstream announced
	After     int           // consecutive failures from which on it rests
	Announced time.Duration // the wait that the upstream announced; 0 if none
	Longest   time.Duration // announced wait that is obeyed; 0 is MaxAnnounced
	Source    string        // of the announced wait
	Disable   bool          // an auth failure that takes the credential out until it is restored
	Status    int
	RequestID string
	Secret    int64 // version of the secret that was refused; 0 where it is not about one
}

// MaxAnnounced is the longest wait of an upstream that is obeyed.
const MaxAnnounced = 24 * time.Hour

// Failed counts a failure of the candidate's credential and starts the cooldown
// that it calls for; it returns the one that was started, nil if none was. An
// announced wait is obeyed at once and exactly, up to Longest.
func (s *Scheduler) Failed(c *plan.Candidate, f Failure, now time.Time) *Rest {
	h := s.handle(c)
	n := h.credential.fails.Add(1)
	if f.Disable {
		s.invalidate(h.credential, c.CredentialKey, f, now)
		return nil
	}
	length, source := f.For, "error table"
	if f.Announced > 0 {
		longest := f.Longest
		if longest <= 0 {
			longest = MaxAnnounced
		}
		length, source = min(f.Announced, longest), f.Source
	} else if n < int64(f.After) || length <= 0 {
		return nil
	}
	subject := subjectOf(f.Scope, c)
	if subject == "" {
		return nil
	}
	rest := &Rest{
		Scope:     f.Scope,
		Subject:   subject,
		Kind:      f.Kind,
		Until:     now.Add(length),
		Started:   now,
		Announced: f.Announced > 0,
		Source:    source,
		Status:    f.Status,
		RequestID: f.RequestID,
		Secret:    f.Secret,
	}
	if s.cells.of(f.Scope, subject).set(rest, now) {
		s.tell(Signal{Rest: rest})
	}
	return rest
}

// Succeeded ends the count of failures of the candidate's credential and its
// cooldown for this model.
func (s *Scheduler) Succeeded(c *plan.Candidate) {
	h := s.handle(c)
	if h.credential.fails.Load() != 0 {
		h.credential.fails.Store(0)
	}
	if at := h.cells[CredentialModel]; at.rest.Load() != nil {
		at.rest.Store(nil)
	}
}

// resting returns the first cooldown of the candidate, in the order of the scopes,
// that ends last of all that run. With own, what other nodes told does not count.
func (h *handle) resting(own bool, now time.Time) *Rest {
	var longest *Rest
	for _, c := range h.cells {
		r := c.own(now)
		if !own {
			r = c.active(now)
		}
		if r != nil && (longest == nil || r.Until.After(longest.Until)) {
			longest = r
		}
	}
	return longest
}

// announced reports whether the upstream itself asked for a wait that is not over.
func (h *handle) announced(now time.Time) bool {
	for _, c := range h.cells {
		for _, r := range [...]*Rest{c.own(now), c.heard(now)} {
			if r != nil && r.Announced {
				return true
			}
		}
	}
	return false
}

// Rests returns the cooldowns that are not over, for operators: one's own and what
// others told.
func (s *Scheduler) Rests(now time.Time) []Rest {
	var out []Rest
	s.cells.byKey.Range(func(_ string, c *cell) bool {
		for _, r := range [...]*Rest{c.own(now), c.heard(now)} {
			if r != nil {
				out = append(out, *r)
			}
		}
		return true
	})
	return out
}
