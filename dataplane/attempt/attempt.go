// Package attempt is the failover loop: it takes one candidate after the other,
// calls its provider, and commits to the first answer that has content. After the
// commit nothing is tried again.
package attempt

import (
	"context"
	"errors"
	"net/http"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/rs/zerolog"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
	"github.com/aidy-gateway/aidy-gateway/dataplane/upstream"
)

// Client calls providers. *upstream.Transport is one.
type Client interface {
	Do(ctx context.Context, c *upstream.Call) (*http.Response, error)
}

// Recorder writes down what is about to be sent and what became of it.
type Recorder interface {
	// Begin records an attempt durably before its first byte goes upstream. It fails
	// with a fault if it cannot, and then nothing may be sent.
	Begin(r *Request, c *plan.Candidate, attempt int) (Record, error)
}

// Record is one attempt that was begun. It must end in Settle.
type Record interface {
	// Progress records what an answer used so far.
	Progress(o relay.Outcome)

	// Settle records how the attempt ended. Only the first call counts.
	Settle(e End)
}

// End is how an attempt ended.
type End struct {
	Sent     bool         // a byte may have gone upstream
	Fault    *fault.Error // nil for a complete answer
	Answer   *relay.Outcome
	Status   int    // of the upstream; 0 without an answer
	Upstream string // the upstream's request id
}

// Request is what the executor needs of a call.
type Request struct {
	ID         string
	Start      time.Time
	View       *snapshot.View
	Route      *snapshot.Route
	Principal  *auth.Principal
	Target     protocol.Target
	Protocol   configv1.Protocol // of Target
	Codec      protocol.Codec
	Shape      *protocol.Shape
	Body       []byte
	Edits      []protocol.Edit         // of Body, for every upstream
	HoldBody   func() (release func()) // keeps Body until released
	Header     http.Header
	Requested  string // the public model asked for
	Routed     string // the model that routing chose
	Class      string // traffic class
	Candidates []plan.Candidate
	Groups     []string
	Policy     Policy
	DecisionID string

	// Convert makes the call for a candidate that does not speak the caller's
	// protocol, or answers in another way than the caller asked for.
	Convert func(c *plan.Candidate) (*protocol.Converted, *fault.Error)

	KeepAlive relay.KeepAlive // for the client of a stream

	// Foreign says that the conversation holds reasoning of another vendor, which no
	// upstream may get: the call is then written anew even in the caller's protocol.
	Foreign bool

	Owner    stateid.Owner // of the stored objects that the request names; zero if it names none
	StateKey *stateid.Key  // makes ids that name their owner; may be nil

	Writer http.ResponseWriter
	Log    zerolog.Logger // of failed attempts
}

// imageTokens is what an image counts as in an estimate.
const imageTokens = 1500

// PromptTokens estimates the size of the prompt: four bytes a token, and a flat
// number for every image.
func (r *Request) PromptTokens() int64 {
	return (r.Shape.PromptBytes+3)/4 + imageTokens*int64(r.Shape.Images)
}

// Tried is one attempt as the response headers and logs tell it.
type Tried struct {
	Candidate *plan.Candidate
	Stage     string
	Class     fault.Class
	Status    int
}

// Result is what became of a request.
type Result struct {
	// Fault is set if nothing was written to the client; the caller renders it.
	Fault *fault.Error

	Winner *plan.Candidate // that answered; nil without one
	Answer relay.Outcome   // of the winner
	Failed []Tried         // in order
	Stages []string        // of every attempt after the first
	Trace  *schedule.Selection
	Lossy  func() string // what the conversion of the winner's call did not carry; nil without one

	// Begun says that the head of a stream, and nothing of an answer, went to the
	// client, so that a Fault must be told as an event of the stream.
	Begun bool

	Hidden     bool // the client is not told which accounts were tried
	DecisionID string
}

// Stage is the stage of the attempt that answered.
func (r *Result) Stage() string {
	if len(r.Stages) == 0 {
		return stageFirst
	}
	return r.Stages[len(r.Stages)-1]
}

// Executor runs requests. Safe for concurrent use.
type Executor struct {
	scheduler *schedule.Scheduler
	client    Client
	recorder  Recorder
	current   *snapshot.Holder
	head      HeadFunc
	budgets   retryBudgets
	bases     bases
}

// HeadFunc sets the gateway's response headers just before the commit.
type HeadFunc func(h http.Header, r *Request, res *Result)

// New returns an Executor. current gives the newest configuration, whose identity
// side is looked at before every attempt.
func New(s *schedule.Scheduler, c Client, rec Recorder, current *snapshot.Holder, head HeadFunc) *Executor {
	return &Executor{scheduler: s, client: c, recorder: rec, current: current, head: head, budgets: newRetryBudgets(), bases: newBases()}
}

// errDeadline is the cause with which a request's own deadline ends it.
var errDeadline = &fault.Error{Class: fault.DeadlineExceeded}

// Run serves one request. When it returns, either the answer has been written to
// r.Writer, whole or broken off as the protocol has it, or nothing has and
// Result.Fault says why.
func (e *Executor) Run(ctx context.Context, r *Request) *Result {
	if !r.Policy.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, r.Policy.Deadline, errDeadline)
		defer cancel()
	}
	run := &run{
		Executor: e,
		r:        r,
		res:      Result{Hidden: r.Route.GetHideAccountHeaders(), DecisionID: r.DecisionID},
		query:    query(r),
	}
	if r.Route.GetKeepAliveBeforeHeaders() && r.Target.Framing == protocol.FramingSSE {
		run.pulse = relay.NewPulse(r.Writer, r.KeepAlive, run.earlyHead)
	}
	run.loop(ctx)
	run.res.Begun = run.pulse.Stop() && run.res.Winner == nil
	return &run.res
}

func query(r *Request) schedule.Query {
	return schedule.Query{
		View:         r.View,
		Groups:       r.Groups,
		Protocol:     string(r.Target.Protocol),
		PromptTokens: r.PromptTokens(),
		Needs:        needs(r.Shape),
		DecisionID:   r.DecisionID,
		Owner:        r.Owner,
	}
}

// needs is what a request needs of the model that serves it.
func needs(s *protocol.Shape) schedule.Needs {
	var n schedule.Needs
	for _, m := range [...]struct {
		parts int
		is    configv1.Modality
	}{
		{s.Images, configv1.Modality_MODALITY_IMAGE},
		{s.Documents, configv1.Modality_MODALITY_DOCUMENT},
		{s.Audio, configv1.Modality_MODALITY_AUDIO},
		{s.Video, configv1.Modality_MODALITY_VIDEO},
	} {
		if m.parts > 0 {
			n.Read(m.is)
		}
	}
	if s.AudioOutput {
		n.Write(configv1.Modality_MODALITY_AUDIO)
	}
	if s.ImageOutput {
		n.Write(configv1.Modality_MODALITY_IMAGE)
	}
	for _, f := range [...]struct {
		used bool
		is   configv1.Feature
	}{
		{s.FunctionTools > 0 || s.ServerTools != 0, configv1.Feature_FEATURE_TOOLS},
		{s.StructuredOutput, configv1.Feature_FEATURE_STRUCTURED_OUTPUT},
		{s.ServerTools&protocol.ToolWebSearch != 0, configv1.Feature_FEATURE_WEB_SEARCH},
		{s.ServerTools&protocol.ToolCodeExecution != 0, configv1.Feature_FEATURE_CODE_EXECUTION},
		{s.ServerTools&protocol.ToolFileSearch != 0, configv1.Feature_FEATURE_FILE_SEARCH},
		{s.ServerTools&protocol.ToolComputerUse != 0, configv1.Feature_FEATURE_COMPUTER_USE},
	} {
		if f.used {
			n.Feature(f.is)
		}
	}
	return n
}

// run is the state of one request.
type run struct {
	*Executor
	r     *Request
	res   Result
	query schedule.Query

	attempts  int
	sameDone  bool // the one retry on the same candidate is spent
	possible  int  // replays after a possible consumption
	skip      map[string]schedule.Reason
	single    bool
	retries   int    // on a single candidate
	provider  string // of the first attempt
	lastFault *fault.Error
	last      *plan.Candidate

	conv   *protocol.Converted // the call of the candidate at hand, if it is not the caller's own
	untold *fault.Error        // why a candidate could not take the call
	pulse  *relay.Pulse        // keep-alives before the answer
}

func (x *run) loop(ctx context.Context) {
	for {
		c, stage, f := x.choose(ctx)
		if f == nil && x.translate(c) {
			continue // to the next one: this candidate cannot take the call as it is
		}
		if f == nil {
			f = x.allowed(ctx, c, stage)
		}
		if f != nil {
			x.res.Fault = f
			return
		}
		if stage != stageFirst {
			x.res.Stages = append(x.res.Stages, stage)
		}
		f = x.attempt(ctx, c)
		if f == nil {
			return
		}
		x.lastFault, x.last = f, c
		x.res.Failed = append(x.res.Failed, Tried{Candidate: c, Stage: stage, Class: f.Class, Status: f.UpstreamStatus})
		x.r.Log.Warn().
			Str("request_id", x.r.ID).
			Str("candidate", c.ID).
			Str("stage", stage).
			Stringer("class", f.Class).
			Int("status", f.UpstreamStatus).
			Dur("retry_after_ms", f.RetryAfter).
			Err(f.Err).
			Msg("attempt failed")
		if !x.after(ctx, c, f) {
			x.res.Fault = x.final(ctx, f)
			return
		}
	}
}

// The stages of failover, as headers and metrics name them.
const (
	stageFirst      = "primary"
	stageSame       = "same_credential_retry"
	stageCredential = "same_provider_other_credential"
	stageCross      = "cross_provider"
	stageLast       = "last_resort"
)

// choose selects the next candidate.
func (x *run) choose(ctx context.Context) (*plan.Candidate, string, *fault.Error) {
	now := time.Now()
	// Who may call, and which credentials are alive, is asked of the newest identity;
	// everything else is as it was at admission.
	x.query.View = x.current.Load()
	if !x.r.Principal.Alive(x.query.View, now) {
		return nil, "", fault.New(fault.Unauthenticated, "the API key was revoked or disabled")
	}
	if x.last != nil && x.skip[x.last.ID] == "" && x.alive(x.last, now) {
		return x.last, stageSame, nil
	}
	sel := x.scheduler.Select(&x.query, x.r.Candidates, x.skip, now)
	x.res.Trace = sel
	if x.attempts == 0 {
		x.single = sel.Usable() == 1
	}
	for _, i := range sel.Order {
		c := &x.r.Candidates[i]
		if stage, ok := x.stageOf(c); ok {
			return c, stage, nil
		}
	}
	if x.r.Policy.LastResort && x.attempts == 0 {
		if i, ok := x.scheduler.LastResort(sel, now); ok {
			return &x.r.Candidates[i], stageLast, nil
		}
	}
	if x.lastFault != nil {
		return nil, "", x.final(ctx, x.lastFault)
	}
	if x.untold != nil && sel.Unconverted() {
		return nil, "", x.untold
	}
	return nil, "", sel.Refusal(now)
}

// alive reports whether the credential of a candidate may still be used.
func (x *run) alive(c *plan.Candidate, now time.Time) bool {
	if c.Credential == nil {
		return true
	}
	s := x.query.View.Secret(c.TenantID, c.CredentialID())
	return s != nil && !s.Disabled && (s.Expire.IsZero() || now.Before(s.Expire))
}

// stageOf names the stage in which a candidate would be tried, and whether mode and
// last failure allow it.
func (x *run) stageOf(c *plan.Candidate) (string, bool) {
	if x.attempts == 0 {
		return stageFirst, true
	}
	to := rowOf(x.lastFault.Class, x.last.Provider).to
	if c.Provider.GetId() == x.provider {
		return stageCredential, to.credential
	}
	mode := x.r.Policy.Mode
	crosses := mode == configv1.FallbackMode_FALLBACK_MODE_ADAPTIVE || mode == configv1.FallbackMode_FALLBACK_MODE_PROVIDER_CHAIN
	if x.r.Principal.Method == auth.Passthrough {
		crosses = false // the caller's own key goes to one provider only
	}
	return stageCross, to.provider && crosses
}

// allowed checks, right before an attempt, what deadline and budgets leave.
func (x *run) allowed(ctx context.Context, c *plan.Candidate, stage string) *fault.Error {
	now := time.Now()
	if d := x.r.Policy.Deadline; !d.IsZero() && d.Sub(now) < x.r.Policy.MinAttempt && x.attempts > 0 {
		return x.final(ctx, x.lastFault)
	}
	budget := x.budgets.of(c.Provider.GetId())
	if x.attempts == 0 {
		x.provider = c.Provider.GetId()
		budget.first(now)
		return nil
	}
	if !budget.take(x.r.Policy.RetryRatio, x.r.Policy.MinRetries, now) {
		return x.final(ctx, x.lastFault)
	}
	return nil
}

// after decides whether another attempt may follow a failure, and waits if one on
// the same candidate needs a pause.
func (x *run) after(ctx context.Context, c *plan.Candidate, f *fault.Error) bool {
	if x.callers(f) {
		return false
	}
	_, known := table[f.Class]
	row := rowOf(f.Class, c.Provider)
	if f.Class.Upstream() {
		x.rest(c, f, row, known)
	}
	if !known || x.r.Policy.Mode == configv1.FallbackMode_FALLBACK_MODE_OFF || x.attempts >= x.r.Policy.MaxAttempts ||
		ctx.Err() != nil || !x.replayable(f) {
		return false
	}
	wait, same := x.again(f, row)
	if !same {
		if x.skip == nil {
			x.skip = make(map[string]schedule.Reason)
		}
		x.skip[c.ID] = schedule.AlreadyFailed
		return true
	}
	if d := x.r.Policy.Deadline; !d.IsZero() && time.Until(d) < wait+x.r.Policy.MinAttempt {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
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

// again says whether the same candidate is tried once more, and after which pause.
func (x *run) again(f *fault.Error, r row) (time.Duration, bool) {
	if x.single && r.transient {
		wait := 500 * time.Millisecond << x.retries
		if f.RetryAfter > 0 {
			wait = f.RetryAfter
		}
		if x.retries < x.r.Policy.SingleRetries && wait <= 3*time.Second {
			x.retries++
			return wait, true
		}
		return 0, false
	}
	if r.same > 0 && !x.sameDone {
		x.sameDone = true
		return r.delay, true
	}
	return 0, false
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

// rest tells the scheduler of a failure.
func (x *run) rest(c *plan.Candidate, f *fault.Error, r row, known bool) {
	if !known || r.cooldown == 0 && f.RetryAfter == 0 {
		return
	}
	if x.single && r.transient && f.RetryAfter == 0 {
		return // the only candidate does not rest: nothing could take its place
	}
	announced := time.Duration(0)
	if f.Class == fault.RateLimited || f.Class == fault.Overloaded || f.Class == fault.Unavailable || f.Class == fault.Quota {
		announced = f.RetryAfter
	}
	x.scheduler.Failed(c, schedule.Failure{
		Scope:     r.scope,
		Kind:      r.kind,
		For:       r.cooldown,
		After:     r.after,
		Announced: announced,
		Status:    f.UpstreamStatus,
		RequestID: x.r.ID,
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
	for _, t := range x.res.Failed {
		out.Consumed = max(out.Consumed, t.Class.Consumption())
	}
	if out.Consumption() >= fault.ConsumedPossible {
		g.Outcome = fault.OutcomePossiblyConsumed
	}
	if x.res.Trace != nil {
		g.Pool = x.res.Trace.Pool()
	}
	out.Gateway = &g
	return &out
}
