package attempt

import (
	"cmp"
	"slices"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
)

// switches says what a failure lets the next attempt change.
type switches struct {
	credential bool
	model      bool
	provider   bool
}

// row is what one class of failure leads to.
type row struct {
	same      int           // retries on the same candidate
	delay     time.Duration // before such a retry
	to        switches
	cooldown  time.Duration
	scope     schedule.Scope
	kind      string // of the cooldown
	after     int    // consecutive failures before it
	transient bool   // a single candidate is retried after it instead of resting
	breaker   schedule.Breaker
	stops     bool // nothing else is tried
}

var (
	other = switches{credential: true, provider: true}
	all   = switches{credential: true, model: true, provider: true}
)

// table is the error table of the scheduler: for each class of upstream failure
// what is retried, what may be switched to, and what rests for how long. A class
// without a row stops the request.
var table = map[fault.Class]row{
	fault.Connect:         {1, 100 * time.Millisecond, other, 30 * time.Second, schedule.Upstream, "network", 2, true, schedule.Transport, false},
	fault.Reset:           {1, 100 * time.Millisecond, other, 30 * time.Second, schedule.Upstream, "network", 3, true, schedule.Transport, false},
	fault.Timeout:         {0, 0, other, time.Minute, schedule.CredentialModel, "server", 2, true, schedule.Server, false},
	fault.RequestTimeout:  {1, 200 * time.Millisecond, other, time.Minute, schedule.CredentialModel, "server", 2, true, schedule.Server, false},
	fault.ServerError:     {1, 200 * time.Millisecond, all, time.Minute, schedule.CredentialModel, "server", 2, true, schedule.Server, false},
	fault.Unavailable:     {1, 200 * time.Millisecond, all, time.Minute, schedule.CredentialModel, "server", 2, true, schedule.Server, false},
	fault.Overloaded:      {1, 500 * time.Millisecond, all, 10 * time.Second, schedule.UpstreamModel, "overload", 2, true, schedule.Capacity, false},
	fault.RateLimited:     {0, 0, all, time.Minute, schedule.QuotaModel, "rate_limit", 1, true, schedule.NoBreaker, false},
	fault.Quota:           {0, 0, other, time.Hour, schedule.Quota, "quota", 1, false, schedule.NoBreaker, false},
	fault.Auth:            {0, 0, other, 5 * time.Minute, schedule.Credential, "auth", 1, false, schedule.NoBreaker, false},
	fault.Permission:      {0, 0, other, 5 * time.Minute, schedule.CredentialModel, "auth", 1, false, schedule.NoBreaker, false},
	fault.ModelNotFound:   {0, 0, all, 10 * time.Minute, schedule.CredentialModel, "model", 1, false, schedule.NoBreaker, false},
	fault.Conflict:        {1, 250 * time.Millisecond, switches{credential: true}, 0, 0, "", 0, false, schedule.NoBreaker, false},
	fault.Malformed:       {0, 0, other, time.Minute, schedule.CredentialModel, "server", 2, true, schedule.Server, false},
	fault.ContextOverflow: {0, 0, switches{model: true}, 0, 0, "", 0, false, schedule.NoBreaker, false},
	fault.CutAfterFirst:   {0, 0, switches{}, 0, 0, "", 0, false, schedule.Server, true},
	fault.BadRequest:      {0, 0, switches{}, 0, 0, "", 0, false, schedule.NoBreaker, true},
	fault.CutBeforeFirst:  {1, 100 * time.Millisecond, other, time.Minute, schedule.CredentialModel, "server", 2, true, schedule.Server, false},
}

// rowOf is what the failure of a candidate leads to: the table's row for its class, as
// the policy and the candidate's provider change it.
func (x *run) rowOf(f *fault.Error, c *plan.Candidate) row {
	r := table[f.Class]
	p := &x.r.Policy
	if d, ok := p.Cooldowns[r.kind]; ok && r.kind != "" {
		r.cooldown = d
	}
	if f.Class == fault.BadRequest && p.SwitchOn400 {
		r.stops, r.to = false, all
	}
	override(&r, f.Class, c.Provider)
	if f.UpstreamStatus >= 400 && !r.stops {
		if len(p.RetryStatus) > 0 && f.Class != fault.RateLimited {
			r.same = 0
			if slices.Contains(p.RetryStatus, int32(f.UpstreamStatus)) {
				r.same = 1
				r.delay = cmp.Or(r.delay, 200*time.Millisecond)
			}
		}
		if len(p.CrossStatus) > 0 {
			r.to.provider = slices.Contains(p.CrossStatus, int32(f.UpstreamStatus))
		}
	}
	return r
}

// crossesOn reports whether a model of another provider may follow the failure: always,
// but where the policy lists the statuses that may leave the provider.
func (x *run) crossesOn(f *fault.Error) bool {
	list := x.r.Policy.CrossStatus
	return len(list) == 0 || f.UpstreamStatus < 400 || slices.Contains(list, int32(f.UpstreamStatus))
}

// override applies a provider's own rule for a class.
func override(r *row, class fault.Class, p *configv1.Provider) {
	for _, o := range p.GetErrorRules() {
		if o.GetClass() != class.String() {
			continue
		}
		if o.SameCandidateRetries != nil {
			r.same = int(o.GetSameCandidateRetries())
		}
		if o.RetryDelayMs != nil {
			r.delay = time.Duration(o.GetRetryDelayMs()) * time.Millisecond
		}
		if o.CooldownMs != nil {
			r.cooldown = time.Duration(o.GetCooldownMs()) * time.Millisecond
		}
		if o.CooldownAfter != nil {
			r.after = int(o.GetCooldownAfter())
		}
		if o.SwitchCredential != nil {
			r.to.credential = o.GetSwitchCredential()
		}
		if o.SwitchModel != nil {
			r.to.model = o.GetSwitchModel()
		}
		if o.SwitchProvider != nil {
			r.to.provider = o.GetSwitchProvider()
		}
	}
}
