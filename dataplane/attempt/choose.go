package attempt

import (
	"context"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
)

// Choice is where a request would go: the first attempt that Run would make.
type Choice struct {
	// Result has the selections and, if nobody would get the request, the Fault and Stop
	// of that.
	Result

	Candidate *plan.Candidate // nil if nobody would get it
	Stage     schedule.Stage
	Hit       int64      // tokens of the prompt that are expected to be cached there
	Predicted int64      // tokens of the longest prefix that was seen there, however likely it is to be there still
	Price     plan.Price // that the candidate was weighed at

	run   *run
	dry   bool
	now   time.Time
	lease *schedule.Lease
}

// Choose decides as Run does at the time now, and sends nothing. A request that Run would
// let wait in the queue is refused.
//
// A dry choice changes no state. Any other takes the slot and the limits of its
// candidate, and End must follow.
func (e *Executor) Choose(r *Request, dry bool, now time.Time) *Choice {
	c := &Choice{dry: dry, now: now}
	x := &run{
		Executor: e,
		r:        r,
		res:      Result{DecisionID: r.DecisionID},
		query:    e.query(r),
		groups:   r.Groups,
		choice:   c,
	}
	x.query.View, x.query.Dry = r.View, dry
	candidate, stage, lease, f := x.find(context.Background(), now)
	switch {
	case lease != nil:
		c.Candidate, c.Stage, c.run, c.lease = candidate, stage, x, lease
		row := &x.sel.Rows[x.at]
		served := e.scheduler.Served(x.sel, x.at)
		c.Hit, c.Predicted, c.Price = row.Hit, served.Predicted, x.sel.Price(x.at)
	case f != nil:
		x.res.Fault = f
	default:
		x.res.Fault = x.none(context.Background(), now)
	}
	x.res.NativeOnly = x.untold != nil
	c.Result = x.res
	return c
}

// take stands in for the acquisition of an attempt that will be made. Where that would
// wait for room, time passes at once.
func (c *Choice) take(x *run, sel *schedule.Selection, i int) (*schedule.Lease, schedule.Reason) {
	wait := max(sel.Rows[i].Wait, sel.Rows[i].SlotWait)
	x.res.Queued += wait
	if c.dry {
		return new(schedule.Lease), ""
	}
	return x.scheduler.Acquire(sel, i, c.now.Add(wait))
}

// Answered tells scheduler and affinity store what the candidate's answer used, as the
// end of an attempt does.
func (c *Choice) Answered(u llm.Usage, now time.Time) {
	used := schedule.Used{Input: u.PromptTokens() - u.CacheRead, Cached: u.CacheRead, Output: u.CompletionTokens(), Images: c.run.query.Images}
	c.lease.Settle(used, true, now)
	c.run.scheduler.Answered(c.Candidate.TenantID, c.run.r.Routed, used.Output)
	c.run.remember(c.Candidate, &relay.Outcome{Ending: relay.Completed, Usage: u, Reported: true}, now)
}

// End gives back the slot that the choice took. It may be called once, and not for a dry
// choice or one without a candidate.
func (c *Choice) End() { c.lease.Release() }

// take waits until a candidate of a selection has room, and takes its slot.
func (x *run) take(ctx context.Context, sel *schedule.Selection, i int) (*schedule.Lease, schedule.Reason, *fault.Error) {
	if x.choice != nil {
		lease, why := x.choice.take(x, sel, i)
		return lease, why, nil
	}
	if row := &sel.Rows[i]; row.Wait > 0 || row.SlotWait > 0 {
		began := time.Now()
		if !x.scheduler.Wait(ctx, sel, i) {
			x.res.Stop = StopClient
			return nil, "", x.left(ctx)
		}
		x.res.Queued += time.Since(began)
	}
	lease, why := x.scheduler.Acquire(sel, i, time.Now())
	return lease, why, nil
}
