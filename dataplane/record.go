package dataplane

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/meter"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
)

// recorder turns attempts into entries of the meter.
type recorder struct {
	meter *meter.Meter
}

// Begin implements attempt.Recorder.
func (r recorder) Begin(q *attempt.Request, c *plan.Candidate, n int) (attempt.Record, error) {
	input := q.PromptTokens()
	e := &ledgerv1.UsageEvent{
		RequestId:          q.ID,
		Attempt:            int32(n),
		TenantId:           c.TenantID,
		DecisionId:         q.DecisionID,
		RouteId:            q.Route.GetId(),
		ProviderId:         c.Provider.GetId(),
		UpstreamId:         c.Upstream.GetId(),
		CredentialId:       c.CredentialID(),
		Region:             c.Upstream.GetRegion(),
		ModelRequested:     q.Requested,
		ModelRouted:        c.Model.GetModel(),
		ModelServed:        c.UpstreamModel(),
		Class:              q.Class,
		Purpose:            ledgerv1.Purpose_PURPOSE_SERVE,
		PolicyGeneration:   q.View.Policy.Generation,
		IdentityGeneration: q.View.Identity.Generation,
		Units:              &ledgerv1.Units{Input: input, Request: 1},
		PriceBook:          q.Route.GetPriceBook(),
		AcceptedAt:         timestamppb.New(q.Start),
		Protocol:           string(q.Target.Protocol),
		Stream:             q.Target.Stream,
	}
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
	return &record{attempt: a, input: input}, nil
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
	attempt *meter.Attempt
	input   int64 // tokens of the prompt, estimated
}

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
	if !e.Sent {
		_ = r.attempt.Release()
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
		s.Count = meter.Count{Counted: &ledgerv1.Units{Input: r.input, Request: 1}}
	}
	_ = r.attempt.Settle(s)
}

// count is what is known of an answer's usage.
func (r *record) count(o *relay.Outcome) meter.Count {
	c := meter.Count{Counted: &ledgerv1.Units{Input: r.input, Output: (o.OutputBytes + 3) / 4, Request: 1}}
	if o.Reported {
		c.Reported = meter.UnitsOf(o.Usage)
		c.Reported.Request = 1
		c.Final = o.Ending == relay.Completed
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
