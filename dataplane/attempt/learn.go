package attempt

import (
	"context"
	"net/http"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
	"github.com/aidy-gateway/aidy-gateway/dataplane/upstream"
)

// learn tells the scheduler how an attempt ended: for health and breakers, for limits,
// and for what of the prompt is cached where.
func (x *run) learn(ctx context.Context, c *plan.Candidate, lease *schedule.Lease, end *End) {
	now := time.Now()
	x.judge(ctx, c, end, now)
	if end.Answer == nil {
		reached := end.Fault == nil || end.Fault.Consumption() != fault.ConsumedNone
		lease.Settle(schedule.Used{Input: x.query.PromptTokens}, reached, now)
		return
	}
	a := end.Answer
	used := schedule.Used{Input: x.query.PromptTokens, Output: (a.OutputBytes + 3) / 4, Images: x.query.Images}
	if a.Reported {
		used.Cached = a.Usage.CacheRead
		used.Input, used.Output = a.Usage.PromptTokens()-used.Cached, a.Usage.CompletionTokens()
	}
	lease.Settle(used, true, now)
	if a.Ending != relay.Completed {
		return
	}
	x.scheduler.Answered(c.TenantID, x.r.Routed, used.Output)
	x.remember(c, a, now)
}

// observe notes what an answer's headers say of the account's limits and allowances. Those
// of a caller who brought its own account are nobody else's.
func (x *run) observe(c *plan.Candidate, h http.Header) {
	if x.r.Principal.Method == auth.Passthrough {
		return
	}
	now := time.Now()
	x.scheduler.Observe(c, upstream.RateLimits(h, now), now)
	if a, ok := upstream.Allowances(h, now); ok {
		x.scheduler.QuotaLeft(c, a.Left, a.Reset, a.Window)
	}
}

// judge counts the attempt for its account's health.
func (x *run) judge(ctx context.Context, c *plan.Candidate, end *End, now time.Time) {
	f := end.Fault
	if f == nil {
		x.scheduler.Attempted(c, &x.query.Policy, schedule.NoBreaker, false, now)
		return
	}
	switch f.Class {
	case fault.Refusal, fault.BadRequest, fault.Unprocessable, fault.TooLarge, fault.ContextOverflow, fault.StateNotFound,
		fault.OtherRejection, fault.Conflict:
		x.scheduler.Attempted(c, &x.query.Policy, schedule.NoBreaker, false, now) // a healthy answer
		return
	}
	row, known := table[f.Class]
	if !known || !f.Class.Upstream() || x.asked(ctx, f) {
		return
	}
	x.scheduler.Attempted(c, &x.query.Policy, row.breaker, true, now)
}

// remember notes what of the prompt the account has cached now.
func (x *run) remember(c *plan.Candidate, a *relay.Outcome, now time.Time) {
	key := x.r.Scheduling.Affinity
	if x.affinity == nil || key == nil || len(key.Chain) == 0 || x.sel == nil {
		return
	}
	served := x.scheduler.Served(x.sel, x.at)
	if served.Scope == 0 {
		return
	}
	u := a.Usage
	served.Read, served.Written, served.Prompt = u.CacheRead, u.CacheWrite(), u.PromptTokens()
	served.Reported = a.Reported
	// Anthropic tells what was written with every answer; others tell it when they did.
	served.ReportsWrites = a.Reported && (u.CacheWrite() > 0 || c.Protocol == configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES)
	served.Start = x.r.Start
	served.Tenant, served.Route, served.Credential = c.TenantID, x.r.Route.GetId(), c.CredentialKey
	served.Provider, served.Model, served.Logical = c.Upstream.GetProviderId(), c.UpstreamModel(), x.r.Routed
	x.affinity.Succeeded(key, served, now)
}

// affinityOf is what the client is told of the affinity of its request.
func (x *run) affinityOf(sel *schedule.Selection, i int) schedule.Outcome {
	key := x.r.Scheduling.Affinity
	if sel.Affinity != schedule.Miss || key == nil || key.Kind != affinity.Strong || x.scheduler.KeepsBinding(sel, i) {
		return sel.Affinity
	}
	for m := range x.query.Matches {
		if x.query.Matches[m].Session {
			return schedule.Updated
		}
	}
	return sel.Affinity
}
