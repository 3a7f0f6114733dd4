package attempt

import (
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
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
}

var (
	other = switches{credential: true, provider: true}
	all   = switches{credential: true, model: true, provider: true}
)

// table is the error table of the scheduler: for each class of upstream failure
// what is retried, what may be switched to, and what rests for how long. A class
// without a row stops the request.
var table = map[fault.Class]row{
	fault.Connect:        {1, 100 * time.Millisecond, other, 30 * time.Second, schedule.Upstream, "network", 2, true},
	fault.Reset:          {1, 100 * time.Millisecond, other, 30 * time.Second, schedule.Upstream, "network", 3, true},
	fault.Timeout:        {0, 0, other, time.Minute, schedule.CredentialModel, "server", 2, true},
	fault.RequestTimeout: {1, 200 * time.Millisecond, other, time.Minute, schedule.CredentialModel, "server", 2, true},
	fault.ServerError:    {1, 200 * time.Millisecond, all, time.Minute, schedule.CredentialModel, "server", 2, true},
	fault.Unavailable:    {1, 200 * time.Millisecond, all, time.Minute, schedule.CredentialModel, "server", 2, true},
	fault.Overloaded:     {1, 500 * time.Millisecond, all, 10 * time.Second, schedule.UpstreamModel, "overload", 2, true},
	fault.RateLimited:    {0, 0, all, time.Minute, schedule.QuotaModel, "rate_limit", 1, true},
	fault.Quota:          {0, 0, other, time.Hour, schedule.Quota, "quota", 1, false},
	fault.Auth:           {0, 0, other, 5 * time.Minute, schedule.Credential, "auth", 1, false},
	fault.Permission:     {0, 0, other, 5 * time.Minute, schedule.CredentialModel, "auth", 1, false},
	fault.ModelNotFound:  {0, 0, all, 10 * time.Minute, schedule.CredentialModel, "model", 1, false},
	fault.Conflict:       {1, 250 * time.Millisecond, switches{credential: true}, 0, 0, "", 0, false},
	fault.Malformed:      {0, 0, other, time.Minute, schedule.CredentialModel, "server", 2, true},
	fault.CutBeforeFirst: {1, 100 * time.Millisecond, other, time.Minute, schedule.CredentialModel, "server", 2, true},
}

// rowOf returns the row of a class for a provider, which may override it.
func rowOf(class fault.Class, p *configv1.Provider) row {
	r := table[class]
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
	return r
}
