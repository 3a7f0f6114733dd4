package dataplane

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/meter"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
)

// recorder turns attempts into entries of the meter.
type recorder struct {
	meter *meter.Meter
}

// estimator is a codec that knows what a call uses before it is answered.
type estimator interface{ Estimate() llm.Usage }

// Begin implements attempt.Recorder.
func (r recorder) Begin(q *attempt.Request, c *plan.Candidate, n int) (attempt.Record, error) {
	if q.Target.Op.Free() {
		return unmetered{}, nil
	}
	// One allocation for all that is kept until the settlement.
	b := new(struct {
		record   record
		event    ledgerv1.UsageEvent
		units    ledgerv1.Units
		charged  ledgerv1.Units
		accepted timestamppb.Timestamp
	})
	estimate := estimateOf(q)
	b.accepted.Seconds, b.accepted.Nanos = q.Start.Unix(), int32(q.Start.Nanosecond())
	e := &b.event
	e.RequestId = q.ID
	e.Attempt = int32(n)
	e.TenantId = c.TenantID
	e.DecisionId = q.DecisionID
	e.RouteId = q.Route.GetId()
	e.ProviderId = c.Provider.GetId()
	e.UpstreamId = c.Upstream.GetId()
	e.CredentialId = c.CredentialID()
	e.Region = c.Upstream.GetRegion()
	e.ModelRequested = q.Requested
	e.ModelRouted = c.Model.GetModel()
	e.ModelServed = c.UpstreamModel()
	e.Class = q.Class
	e.Purpose = ledgerv1.Purpose_PURPOSE_SERVE
	e.PolicyGeneration = q.View.Policy.Generation
	e.IdentityGeneration = q.View.Identity.Generation
	e.Units = &b.units
	if e.Units.Input, e.Units.Request = estimate.Input, 1; estimate != (llm.Usage{Input: estimate.Input}) {
		e.Units = unitsOf(estimate)
	}
	e.ChargedUnits = &b.charged // what the customer pays if the outcome stays unknown: nothing
	e.PriceBook = q.Route.GetPriceBook()
	e.AcceptedAt = &b.accepted
	e.Protocol = string(q.Target.Protocol)
	e.Stream = q.Target.Stream
	if k := q.Principal.Key; k != nil {
		e.ApiKeyId = k.ID
	}
	if s := q.Principal.Consumer; s != nil {
		e.ConsumerId = s.GetId()
		if b := s.GetPriceBook(); b != "" {
			e.PriceBook = b
		}
	}
	if s := q.Principal.Project; s != nil {
		e.ProjectId = s.GetId()
	}
	e.Labels = labels(q)
	if g := q.Principal.Tenant.Groups[c.Upstream.GetGroupId()]; g.GetPriceMultiplier().GetNum() > 0 {
		e.PriceMultiplierNum = g.GetPriceMultiplier().GetNum()
		e.PriceMultiplierDen = max(g.GetPriceMultiplier().GetDen(), 1)
	}
	a, err := r.meter.Begin(context.Background(), e)
	if err != nil {
		return nil, &fault.Error{Class: fault.MeteringUnavailable, Err: err}
	}
	b.record = record{attempt: a, estimate: estimate}
	return &b.record, nil
}

// labels are those of route, consumer and key that the tenant lets into the ledger;
// the inner one wins.
func labels(q *attempt.Request) map[string]string {
	allowed := q.Principal.Tenant.Message.GetTenant().GetLedgerLabels()
	if len(allowed) == 0 {
		return nil
	}
	out := make(map[string]string, len(allowed))
	sources := []map[string]string{q.Route.GetLabels()}
	if s := q.Principal.Consumer; s != nil {
		sources = append(sources, s.GetLabels())
	}
	if k := q.Principal.Key; k != nil {
		sources = append(sources, k.Labels)
	}
	for _, from := range sources {
		for _, name := range allowed {
			if v, ok := from[name]; ok {
				out[name] = v
			}
		}
	}
	return out
}

// record is one attempt under way.
type record struct {
	attempt  *meter.Attempt
	estimate llm.Usage // as far as the request alone says
	settled  bool      // and written; what is said afterwards is not looked at
}

// estimateOf is what is known of a call's usage before it is sent.
func estimateOf(q *attempt.Request) llm.Usage {
	if e, ok := q.Codec.(estimator); ok {
		return e.Estimate()
	}
	return llm.Usage{Input: q.PromptTokens()}
}

// unitsOf is a usage in the ledger's components. Every call is at least one.
func unitsOf(u llm.Usage) *ledgerv1.Units {
	units := meter.UnitsOf(u)
	units.Request = max(units.GetRequest(), 1)
	return units
}

// unmetered is an attempt that costs nothing, whatever becomes of it.
type unmetered struct{}

// Progress implements attempt.Record.
func (unmetered) Progress(relay.Outcome) {}

// Settle implements attempt.Record.
func (unmetered) Settle(attempt.End) {}

// Progress implements attempt.Record. What it cannot write costs precision after a
// crash and nothing else, so it has no error.
func (r *record) Progress(o relay.Outcome) {
	c := r.count(&o)
	units := c.Counted
	if c.Reported != nil {
		units = c.Reported
	}
	_ = r.attempt.Progress(meter.Progress{Units: units, Reported: c.Reported != nil, ModelServed: o.ServedModel})
}

// Settle implements attempt.Record. A settlement that the log refuses is kept and
// written later by the meter itself.
func (r *record) Settle(e attempt.End) {
	if r.settled {
		return
	}
	if !e.Sent {
		r.settled = r.attempt.Release() == nil
		return
	}
	s := meter.Settlement{
		Outcome:           outcomeOf(e),
		UpstreamStatus:    e.Status,
		ProviderRequestID: e.Upstream,
		At:                time.Now(),
	}
	if e.Fault != nil {
		s.ErrorClass = e.Fault.Class.String()
	}
	if e.Answer != nil {
		s.Count = r.count(e.Answer)
		s.ModelServed = e.Answer.ServedModel
	} else {
		s.Count = meter.Count{Counted: unitsOf(r.estimate)}
	}
	r.settled = r.attempt.Settle(s) == nil
}

// count is what is known of an answer's usage.
func (r *record) count(o *relay.Outcome) meter.Count {
	if !o.Reported && o.Usage != (llm.Usage{}) {
		return meter.Count{Counted: unitsOf(o.Usage)} // the codec counted by itself
	}
	counted := r.estimate
	counted.Output += (o.OutputBytes + 3) / 4
	c := meter.Count{Counted: unitsOf(counted)}
	if o.Reported {
		c.Reported, c.Final = unitsOf(o.Usage), o.Ending == relay.Completed
	}
	return c
}

// outcomeOf says how an attempt ended in the ledger's words. An upstream that
// answered with an error before any output is owed nothing; one that never answered
// may have worked.
func outcomeOf(e attempt.End) ledgerv1.AttemptOutcome {
	if e.Answer != nil {
		switch e.Answer.Ending {
		case relay.ClientLeft:
			return ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED
		case relay.Broken:
			return ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_BROKEN
		}
		return ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED
	}
	switch {
	case e.Status >= 300:
		return ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_REFUSED_UPSTREAM
	case e.Fault.Class == fault.ClientCanceled:
		return ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED
	case e.Status == 0:
		return ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_UNKNOWN
	case e.Fault.Consumption() <= fault.ConsumedUnlikely:
		return ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_REFUSED_UPSTREAM
	}
	return ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_BROKEN
}
