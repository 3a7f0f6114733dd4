package attempt

import (
	"context"
	"errors"
	"slices"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// run is the state of one request.
type run struct {
	*Executor
	r     *Request
	res   Result
	query schedule.Query

	attempts int
	first    *plan.Candidate // that stages are relative to; nil before the first attempt
	strict   bool            // the request must not leave its warm scope
	skip     map[string]schedule.Reason

	groups   []string        // that candidates come from at the moment
	entered  []string        // groups that were entered as fallbacks
	sameDone bool            // the one retry on the same candidate is spent
	waited   bool            // a wait that an upstream asked for was made
	possible int             // replays after a possible consumption
	retries  int             // on a single candidate
	lone     *bool           // there is one candidate only; nil before somebody asked
	lease    *schedule.Lease // of the attempt at hand
	again    bool            // the next attempt is on the same candidate
	pause    time.Duration
	sent     time.Time // when the attempt at hand began

	sel       *schedule.Selection // the decision behind the attempt at hand
	at        int                 // its candidate there
	refused   *schedule.Selection // the decision that says why nothing is usable
	lastFault *fault.Error
	last      *plan.Candidate

	conv   *protocol.Converted // the call of the candidate at hand, if it is not the caller's own
	untold *fault.Error        // why a candidate could not take the call
	pulse  *relay.Pulse        // keep-alives before the answer

	choice *Choice // that is made instead of an attempt; nil for a request that is served
}

func (x *run) loop(ctx context.Context) {
	for {
		c, stage, lease, f := x.next(ctx)
		if f != nil {
			x.res.Fault = f
			return
		}
		x.res.Choice = &x.sel.Rows[x.at]
		if f = x.allowed(c, lease); f != nil {
			x.res.Fault = f
			return
		}
		if x.first == nil {
			x.first = c
			row := &x.sel.Rows[x.at]
			x.strict = x.query.Policy.PreserveCache == configv1.PreserveCache_PRESERVE_CACHE_STRICT && row.Hit > 0
		}
		if x.attempts > 0 || stage != schedule.First {
			x.res.Stages = append(x.res.Stages, stage.String())
		}
		try := Tried{Candidate: c, Stage: stage.String(), Waited: x.pause, Started: time.Now(), Group: c.Upstream.GetGroupId()}
		x.pause = 0
		f = x.attempt(ctx, c, lease, &try)
		try.Took = time.Since(try.Started)
		if f == nil {
			x.res.Stop = StopOK
			if af := x.res.Answer.Fault; af != nil {
				try.Class, try.Consumed = af.Class, fault.ConsumedCertain
				x.res.Stop = StopNotRetryable
			}
			try.OK = true
			x.res.Tries = append(x.res.Tries, try)
			return
		}
		x.lastFault, x.last = f, c
		try.Class, try.Status, try.Consumed, try.UpstreamRequestID = f.Class, f.UpstreamStatus, f.Consumption(), f.UpstreamRequestID
		x.r.Log.Warn().
			Str("request_id", x.r.ID).
			Str("candidate", c.ID).
			Stringer("stage", stage).
			Stringer("class", f.Class).
			Int("status", f.UpstreamStatus).
			Dur("retry_after_ms", f.RetryAfter).
			Err(f.Err).
			Msg("attempt failed")
		goOn := x.after(ctx, c, f, &try)
		x.res.Failed = append(x.res.Failed, try)
		x.res.Tries = append(x.res.Tries, try)
		if !goOn {
			x.res.Fault = x.final(ctx, f)
			return
		}
	}
}

// next selects the candidate of the next attempt and takes its slot.
func (x *run) next(ctx context.Context) (*plan.Candidate, schedule.Stage, *schedule.Lease, *fault.Error) {
	var queue *schedule.Queue
	defer func() {
		if queue != nil {
			x.res.Queued += queue.Waited()
			x.query.Queued = false
			queue.Close()
		}
	}()
	for {
		now := time.Now()
		// Who may call, and which credentials are alive, is asked of the newest identity;
		// everything else is as it was at admission.
		x.query.View = x.current.Load()
		if !x.r.Principal.Alive(x.query.View, now) {
			return nil, 0, nil, fault.New(fault.Unauthenticated, "the API key was revoked or disabled")
		}
		if x.again {
			x.again = false
			if x.alive(x.last, now) && !x.translate(x.last) {
				if lease, why := x.scheduler.Acquire(x.sel, x.at, now); why == "" {
					return x.last, schedule.SameCredential, lease, nil
				}
			}
			x.forget(x.last, schedule.AlreadyFailed)
		}
		c, stage, lease, f := x.find(ctx, now)
		if lease != nil || f != nil {
			return c, stage, lease, f
		}
		// Everything that would do is full: wait for a slot, in order.
		if queue == nil {
			var ok bool
			if x.refused == nil || x.lastFault != nil {
				return nil, 0, nil, x.none(ctx, now)
			}
			if queue, ok = x.scheduler.Enqueue(x.refused); !ok {
				return nil, 0, nil, x.none(ctx, now)
			}
			x.query.Queued = true
			continue // a slot may have become free before the request stood in the queue
		}
		switch queue.Next(ctx) {
		case schedule.QueueExpired:
			return nil, 0, nil, x.none(ctx, time.Now())
		case schedule.QueueLeft:
			x.res.Stop = StopClient
			return nil, 0, nil, x.left(ctx)
		}
	}
}

// left is the error of a request that ended while it waited for a slot.
func (x *run) left(ctx context.Context) *fault.Error {
	if errors.Is(context.Cause(ctx), error(errDeadline)) {
		x.res.Stop = StopDeadline
		return fault.New(fault.DeadlineExceeded, "")
	}
	return fault.New(fault.ClientClosed, "")
}

// find walks through the stages until one has a candidate whose slot it gets. No
// lease and no fault means that there is none.
func (x *run) find(ctx context.Context, now time.Time) (*plan.Candidate, schedule.Stage, *schedule.Lease, *fault.Error) {
	x.refused = nil
	if x.first == nil {
		// A request that waited begins at its own groups again, whose slots it waited for too.
		x.groups, x.entered = x.r.Groups, nil
	}
	for {
		for n, st := range x.steps() {
			for {
				sel := x.selectIn(st, now)
				if n == 0 && len(x.entered) == 0 || x.refused == nil {
					x.refused = sel
				}
				c, lease, anew, f := x.acquire(ctx, sel)
				if f != nil {
					return nil, 0, nil, f
				}
				if lease != nil {
					return c, st.stage, lease, nil
				}
				if !anew {
					break
				}
			}
			if n == 0 && x.first == nil && len(x.entered) == 0 {
				// No other model stands in for one that is out only by the word of others.
				if c, stage, lease, f := x.doubt(ctx, []step{st}, x.groups, true, now); lease != nil || f != nil {
					return c, stage, lease, f
				}
			}
		}
		if !x.enterFallback() {
			break
		}
	}
	if c, stage, lease, f := x.doubt(ctx, x.steps(), append(slices.Clone(x.r.Groups), x.entered...), false, now); lease != nil || f != nil {
		return c, stage, lease, f
	}
	if x.r.Policy.LastResort && x.attempts == 0 && x.refused != nil {
		if i, ok := x.scheduler.LastResort(x.refused, now); ok {
			c := &x.r.Candidates[i]
			if !x.translate(c) {
				x.sel, x.at = x.refused, i
				if lease, why, _ := x.take(ctx, x.refused, i); why == "" && lease != nil {
					return c, schedule.LastResort, lease, nil
				}
			}
		}
	}
	return nil, 0, nil, nil
}

// doubt looks, among the candidates of some steps, for one that is out only by the word
// of other nodes, and takes its slot.
func (x *run) doubt(ctx context.Context, steps []step, groups []string, alone bool, now time.Time) (*plan.Candidate, schedule.Stage, *schedule.Lease, *fault.Error) {
	at := func(c *plan.Candidate) int {
		return slices.IndexFunc(steps, func(st step) bool { return x.belongs(st, c) })
	}
	q := x.query
	q.Groups, q.Skip = groups, x.skip
	q.In = func(_ int, c *plan.Candidate) bool { return at(c) >= 0 }
	for {
		sel, ok := x.scheduler.Doubt(&q, x.r.Candidates, alone, now)
		if !ok {
			return nil, 0, nil, nil
		}
		sel.Stage = steps[at(&x.r.Candidates[sel.Order[0]])].stage
		c, lease, anew, f := x.acquire(ctx, sel)
		if lease != nil {
			x.res.Selections = append(x.res.Selections, sel)
		}
		if !anew {
			return c, sel.Stage, lease, f
		}
		q.Skip = x.skip
	}
}

// selectIn is one selection among the candidates of a step.
func (x *run) selectIn(st step, now time.Time) *schedule.Selection {
	q := x.query
	q.Groups, q.Skip, q.Stage = x.groups, x.skip, st.stage
	q.In = func(_ int, c *plan.Candidate) bool { return x.belongs(st, c) }
	began := time.Now()
	sel := x.scheduler.Select(&q, x.r.Candidates, now)
	x.res.Selecting += time.Since(began)
	x.res.Selections = append(x.res.Selections, sel)
	return sel
}

// acquire takes the first candidate of a selection that has room. again says that the
// selection must be made anew, because a candidate cannot take the call.
func (x *run) acquire(ctx context.Context, sel *schedule.Selection) (c *plan.Candidate, l *schedule.Lease, again bool, f *fault.Error) {
	for _, i := range sel.Order {
		c := &x.r.Candidates[i]
		if x.translate(c) {
			return nil, nil, true, nil
		}
		lease, why, f := x.take(ctx, sel, i)
		if f != nil {
			return nil, nil, false, f
		}
		if why == "" {
			x.sel, x.at = sel, i
			if x.attempts == 0 {
				x.res.Affinity = x.affinityOf(sel, i)
			}
			return c, lease, false, nil
		}
		sel.Rows[i].Reason = why
	}
	return nil, nil, false, nil
}

// none is the error of a request that has no candidate left.
func (x *run) none(ctx context.Context, now time.Time) *fault.Error {
	if x.lastFault != nil {
		x.res.Stop = StopExhausted
		return x.final(ctx, x.lastFault)
	}
	x.res.Stop = StopNoCandidate
	if x.untold != nil && x.refused != nil && x.refused.Unconverted() {
		return x.untold
	}
	sel := x.refused
	if sel == nil {
		q := x.query
		sel = x.scheduler.Select(&q, nil, now)
	}
	return sel.Refusal(now)
}

// forget takes a candidate out for this request.
func (x *run) forget(c *plan.Candidate, why schedule.Reason) {
	if x.skip == nil {
		x.skip = make(map[string]schedule.Reason)
	}
	x.skip[c.ID] = why
}

// alive reports whether the credential of a candidate may still be used.
func (x *run) alive(c *plan.Candidate, now time.Time) bool {
	if c.Credential == nil {
		return true
	}
	s := x.query.View.Secret(c.TenantID, c.CredentialID())
	return s != nil && !s.Disabled && (s.Expire.IsZero() || now.Before(s.Expire))
}

// allowed checks, right before an attempt, what deadline and budgets leave.
func (x *run) allowed(c *plan.Candidate, lease *schedule.Lease) *fault.Error {
	now := time.Now()
	budget := x.budgets.of(c.TenantID, c.Provider.GetId())
	if x.attempts == 0 {
		budget.first(now)
		return nil
	}
	stop := StopRetryBudget
	switch d := x.r.Policy.Deadline; {
	case !d.IsZero() && d.Sub(now) < x.r.Policy.MinAttempt:
		stop = StopDeadline
	case budget.take(x.r.Policy.RetryRatio, x.r.Policy.MinRetries, now):
		return nil
	}
	lease.Release()
	x.res.Stop = stop
	return x.final(context.Background(), x.lastFault)
}

// after decides whether another attempt may follow a failure, and waits if one on
// the same candidate needs a pause.
func (x *run) after(ctx context.Context, c *plan.Candidate, f *fault.Error, try *Tried) bool {
	if x.callers(f) {
		x.res.Stop = StopNotRetryable
		return false
	}
	_, known := table[f.Class]
	row := x.rowOf(f, c)
	if f.Class.Upstream() && known && !x.renewed(c, f) && !x.asked(ctx, f) {
		x.rest(c, f, row, try)
	}
	switch {
	case f.Class == fault.ClientCanceled:
		x.res.Stop = StopClient
		return false
	case !known || row.stops:
		x.res.Stop = StopNotRetryable
		return false
	case x.r.Policy.Mode == configv1.FallbackMode_FALLBACK_MODE_OFF:
		x.res.Stop = StopExhausted
		return false
	case !x.replayable(f):
		x.res.Stop = StopPossiblyConsumed
		return false
	case x.attempts >= x.r.Policy.MaxAttempts:
		x.res.Stop = StopMaxAttempts
		return false
	case ctx.Err() != nil:
		x.res.Stop = StopDeadline
		return false
	}
	wait, same := x.repeat(c, f, row, try.Cooldown)
	if !same {
		x.forget(c, schedule.AlreadyFailed)
		return true
	}
	if d := x.r.Policy.Deadline; !d.IsZero() && time.Until(d) < wait+x.r.Policy.MinAttempt {
		x.forget(c, schedule.AlreadyFailed)
		return true
	}
	x.again, x.pause = true, wait
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		x.res.Stop = StopClient
		return false
	}
}

// callers reports a failure that is about the key a caller brought itself. It says
// nothing of the upstream, which must not rest for others because of it.
func (x *run) callers(f *fault.Error) bool {
	if x.r.Principal.Method != auth.Passthrough {
		return false
	}
	switch f.Class {
	case fault.Auth, fault.Permission, fault.Quota, fault.RateLimited, fault.ModelNotFound:
		return true
	}
	return false
}

// asked reports a failure that the request itself brought about. It says nothing of the
// account, which must not rest for others because of it.
func (x *run) asked(ctx context.Context, f *fault.Error) bool {
	if f.OfRequest || x.callers(f) {
		return true
	}
	if x.r.Target.Op == protocol.OpRaw && (f.Class == fault.Auth || f.Class == fault.Permission) {
		return true // the caller chose the path, which may be one for other keys
	}
	if !errors.Is(context.Cause(ctx), error(errDeadline)) {
		return false
	}
	// A long answer ends with the time of the request, and a caller may give an account
	// less time than anybody could do with.
	return f.Class == fault.CutAfterFirst || x.r.Policy.Hurried && time.Since(x.sent) < x.r.Policy.HeaderTimeout
}

// repeat says whether the same candidate is tried once more, and after which pause. What
// rests from now on, because it failed before, is not.
func (x *run) repeat(c *plan.Candidate, f *fault.Error, r row, rests *schedule.Rest) (time.Duration, bool) {
	if r.transient && x.single() {
		wait := 500 * time.Millisecond << x.retries
		if f.RetryAfter > 0 {
			wait = f.RetryAfter
		}
		if x.retries < x.r.Policy.SingleRetries && wait <= x.scheduler.MaxCacheWait(c, &x.query.Policy) {
			x.retries++
			return wait, true
		}
		return 0, false
	}
	if f.RetryAfter > 0 && (f.Class == fault.RateLimited || f.Class == fault.Overloaded) {
		if !x.waited && x.scheduler.WorthWaiting(x.sel, x.at, f.RetryAfter, x.strict) {
			x.waited = true
			return f.RetryAfter, true
		}
		return 0, false // it said when to come back, so not before
	}
	if r.same > 0 && !x.sameDone && rests == nil {
		x.sameDone = true
		return r.delay, true
	}
	return 0, false
}

// single reports whether exactly one candidate could serve the request at all: nothing
// could take its place.
func (x *run) single() bool {
	if x.lone == nil {
		q := x.query
		q.Groups = x.reachable()
		q.In = func(_ int, c *plan.Candidate) bool { return x.roleAllowed(c) }
		one := x.scheduler.Usable(&q, x.r.Candidates, x.skip, time.Now()) == 1
		x.lone = &one
	}
	return *x.lone
}

// replayable: after an attempt that may have had an effect, a request is repeated
// once, and not at all if it is guarded.
func (x *run) replayable(f *fault.Error) bool {
	switch f.Consumption() {
	case fault.ConsumedNone:
		return true
	case fault.ConsumedUnlikely:
		return !x.r.Policy.Guarded
	case fault.ConsumedPossible:
		x.possible++
		return !x.r.Policy.Guarded && x.possible <= x.r.Policy.PossibleReplays
	}
	return false
}

// renewed reports an authentication failure of a secret that was replaced since: it says
// nothing of the present one.
func (x *run) renewed(c *plan.Candidate, f *fault.Error) bool {
	return f.Class == fault.Auth && x.secretVersion(x.current.Load(), c) != x.secretVersion(x.query.View, c)
}

// secretVersion is the version of a candidate's secret in a View; 0 if it has none.
func (x *run) secretVersion(v *snapshot.View, c *plan.Candidate) int64 {
	if c.Credential == nil {
		return 0
	}
	s := v.Secret(c.TenantID, c.CredentialID())
	if s == nil {
		return 0
	}
	return s.Version
}

// rest tells the scheduler of a failure.
func (x *run) rest(c *plan.Candidate, f *fault.Error, r row, try *Tried) {
	if r.cooldown == 0 && f.RetryAfter == 0 {
		return
	}
	announced := time.Duration(0)
	switch f.Class {
	case fault.RateLimited, fault.Overloaded, fault.Unavailable, fault.Quota:
		announced = f.RetryAfter
	}
	if r.transient && announced == 0 && x.single() {
		return // the only candidate does not rest: nothing could take its place
	}
	scope := r.scope
	if f.Class == fault.Connect && f.Proxy {
		scope = schedule.Proxy // the way is broken, not where it leads
	}
	secret := int64(0)
	if f.Class == fault.Auth {
		secret = x.secretVersion(x.query.View, c)
	}
	try.Cooldown = x.scheduler.Failed(c, schedule.Failure{
		Scope:     scope,
		Kind:      r.kind,
		For:       r.cooldown,
		After:     r.after,
		Announced: announced,
		Longest:   x.r.Policy.MaxRetryAfter,
		Source:    "retry-after",
		Disable:   f.Class == fault.Auth && c.Credential.GetOnAuthFailure() == configv1.OnAuthFailure_ON_AUTH_FAILURE_DISABLE,
		Status:    f.UpstreamStatus,
		RequestID: x.r.ID,
		Secret:    secret,
	}, time.Now())
}

// final is the error of a request whose last attempt failed with f.
func (x *run) final(ctx context.Context, f *fault.Error) *fault.Error {
	if errors.Is(context.Cause(ctx), error(errDeadline)) {
		out := *errDeadline
		out.Consumed, out.Err = f.Consumption(), f
		f = &out
	}
	out := *f
	if x.callers(f) {
		switch f.Class {
		case fault.Auth:
			out.Class, out.Public = fault.Unauthenticated, "The provider refused the API key that you sent."
		case fault.Permission:
			out.Class, out.Public = fault.NotPermitted, "The provider does not permit this call with the API key that you sent."
		}
	}
	g := fault.Gateway{DecisionID: x.r.DecisionID}
	if f.Gateway != nil {
		g = *f.Gateway
	}
	inVain := fault.ConsumedNone // a refusal is an answer, and nothing in vain
	for _, t := range x.res.Failed {
		out.Consumed = max(out.Consumed, t.Class.Consumption())
		if t.Class != fault.Refusal {
			inVain = max(inVain, t.Class.Consumption())
		}
	}
	if f.Class != fault.Refusal {
		inVain = max(inVain, out.Consumption())
	}
	if inVain >= fault.ConsumedPossible {
		g.Outcome = fault.OutcomePossiblyConsumed
	}
	if n := len(x.res.Selections); n > 0 {
		g.Pool = x.res.Selections[n-1].Pool()
	}
	out.Gateway = &g
	return &out
}
