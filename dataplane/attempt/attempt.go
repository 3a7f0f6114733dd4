// Package attempt is the failover loop: it takes one candidate after the other,
// calls its provider, and commits to the first answer that has content. After the
// commit nothing is tried again.
package attempt

import (
	"context"
	"net/http"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/rs/zerolog"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
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
	Rewritten  []*configv1.HeaderOverride // of the headers of every upstream call
	Requested  string                     // the public model asked for
	Routed     string                     // the model that routing chose
	Resolved   resolve.Decision           // how it did, for records
	Class      string                     // traffic class
	Candidates []plan.Candidate
	Groups     []string
	Policy     Policy
	DecisionID string

	// Scheduling is how candidates are weighed, and the rest of what the scheduler is
	// to know of the request.
	Scheduling Scheduling

	// Convert makes the call for a candidate that does not speak the caller's
	// protocol, or answers in another way than the caller asked for.
	Convert func(c *plan.Candidate) (*protocol.Converted, *fault.Error)

	KeepAlive relay.KeepAlive // for the client of a stream
	Session   *Session        // of a call over a WebSocket; nil for others

	// Foreign says that the conversation holds reasoning of another vendor, which no
	// upstream may get: the call is then written anew even in the caller's protocol.
	Foreign bool

	Owner    stateid.Owner // of the stored objects that the request names; zero if it names none
	StateKey *stateid.Key  // makes ids that name their owner; may be nil

	Writer http.ResponseWriter
	Log    zerolog.Logger // of failed attempts
}

// PromptTokens estimates the size of the prompt.
func (r *Request) PromptTokens() int64 { return r.Shape.PromptTokens() }

// Scheduling is what the scheduler is to know of a request beside its shape.
type Scheduling struct {
	Policy   schedule.Policy
	Affinity *affinity.Key // nil for a call that is no prompt
	Matches  []affinity.Match

	HeadRecent int64   // requests of the fleet with the same head
	PriorConf  float64 // confidence in the home of a continued conversation; 0 for none

	Task       string
	MinQuality float64
	Class      uint8 // of traffic, for the queue

	// Fallback are the groups that may be entered, in their order, when a group has no
	// candidate left.
	Fallback func(group string) []string
}

// Tried is one attempt as headers, logs and records tell it.
type Tried struct {
	Candidate         *plan.Candidate
	Stage             string
	OK                bool        // it was answered, whatever became of the answer
	Class             fault.Class // of a failure
	Status            int         // of the upstream; 0 without an answer
	Waited            time.Duration
	Started           time.Time
	Took              time.Duration
	Consumed          fault.Consumption
	Cooldown          *schedule.Rest // that the failure started; nil if none
	UpstreamRequestID string
	Group             string // of the upstream
}

// Stop says why no further attempt was made.
type Stop string

// The reasons.
const (
	StopOK               Stop = "ok"
	StopNotRetryable     Stop = "not_retryable"
	StopExhausted        Stop = "exhausted" // every stage that the mode allows
	StopMaxAttempts      Stop = "max_attempts"
	StopRetryBudget      Stop = "retry_budget"
	StopDeadline         Stop = "deadline"
	StopPossiblyConsumed Stop = "possibly_consumed"
	StopNoCandidate      Stop = "no_candidate"
	StopClient           Stop = "client_canceled"
)

// Result is what became of a request.
type Result struct {
	// Fault is set if nothing was written to the client; the caller renders it.
	Fault *fault.Error

	Winner *plan.Candidate // that answered; nil without one
	Answer relay.Outcome   // of the winner
	Failed []Tried         // in order
	Tries  []Tried         // all attempts, in order
	Stages []string        // of every attempt after the first
	Stop   Stop
	Queued time.Duration // for a free slot

	// Selections are the decisions, in order; First is the one that stands for the request.
	Selections []*schedule.Selection
	Affinity   schedule.Outcome
	Choice     *schedule.Row // of the candidate that was tried last, in its selection; nil before one
	Selecting  time.Duration // that all selections took
	Lossy      func() string // what the conversion of the winner's call did not carry; nil without one

	// Begun says that the head of a stream, and nothing of an answer, went to the
	// client, so that a Fault must be told as an event of the stream.
	Begun bool

	// NativeOnly says that the call could not be converted for a candidate of another
	// protocol.
	NativeOnly bool

	Hidden     bool // the client is not told which accounts were tried
	DecisionID string
}

// Stage is the stage of the attempt that answered.
func (r *Result) Stage() string {
	if len(r.Tries) == 0 {
		return schedule.First.String()
	}
	return r.Tries[len(r.Tries)-1].Stage
}

// Executor runs requests. Safe for concurrent use.
type Executor struct {
	scheduler *schedule.Scheduler
	client    Client
	recorder  Recorder
	current   *snapshot.Holder
	affinity  *affinity.Store
	head      HeadFunc
	budgets   retryBudgets
	bases     bases
}

// HeadFunc sets the gateway's response headers just before the commit.
type HeadFunc func(h http.Header, r *Request, res *Result)

// New returns an Executor. current gives the newest configuration, whose identity
// side is looked at before every attempt. store learns where prompts are cached; it may
// be nil.
func New(s *schedule.Scheduler, store *affinity.Store, c Client, rec Recorder, current *snapshot.Holder, head HeadFunc) *Executor {
	return &Executor{
		scheduler: s, affinity: store, client: c, recorder: rec, current: current, head: head, budgets: newRetryBudgets(), bases: newBases(),
	}
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
		query:    e.query(r),
		groups:   r.Groups,
	}
	if r.Route.GetKeepAliveBeforeHeaders() && r.Target.Framing == protocol.FramingSSE {
		run.pulse = relay.NewPulse(r.Writer, r.KeepAlive, run.earlyHead)
	}
	run.loop(ctx)
	run.res.NativeOnly = run.untold != nil
	run.res.Begun = run.pulse.Stop() && run.res.Winner == nil
	return &run.res
}

// query is what the scheduler is asked.
func (e *Executor) query(r *Request) schedule.Query {
	q := schedule.Query{
		View:         r.View,
		Groups:       r.Groups,
		Protocol:     string(r.Target.Protocol),
		PromptTokens: r.PromptTokens(),
		Needs:        needs(r.Shape),
		DecisionID:   r.DecisionID,
		RequestID:    r.ID,
		Policy:       r.Scheduling.Policy,
		Images:       int64(r.Shape.Images),
		Guarded:      r.Policy.Guarded,
		Task:         r.Scheduling.Task,
		MinQuality:   r.Scheduling.MinQuality,
		Class:        r.Scheduling.Class,
		Owner:        r.Owner,
	}
	q.OutputTokens = e.scheduler.OutputEstimate(r.Principal.Tenant.ID, r.Routed, r.Shape.MaxOutputTokens)
	if k := r.Scheduling.Affinity; k != nil {
		q.Affinity, q.Root, q.Writes = k.Kind, k.Root, k.Writes
		q.Matches = r.Scheduling.Matches
		q.PromptTokens = max(1, k.PromptTokens)
		q.Prior, q.PriorConf = k.PriorTokens, r.Scheduling.PriorConf
		q.HeadTokens, q.HeadRecent = k.HeadTokens, r.Scheduling.HeadRecent
		if e.affinity != nil {
			q.Ratio, q.Confidence = e.affinity.Ratio, e.affinity.PriorConfidence
		}
	}
	if r.Owner != (stateid.Owner{}) {
		q.Affinity = affinity.Pinned
	}
	return q
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
