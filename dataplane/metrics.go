package dataplane

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
)

// metrics are the node's own. Attributes come from configuration or fixed lists;
// their sets are made once and kept.
type metrics struct {
	running  atomic.Int64
	requests metric.Int64Counter
	duration metric.Float64Histogram
	first    metric.Float64Histogram
	attempts metric.Int64Counter
	schedule *schedulerMetrics

	requestSets *xsync.Map[requestLabels, *options]
	attemptSets *xsync.Map[attemptLabels, *options]
}

// options are the attributes of a measurement, as the instruments take them.
type options struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func optionsOf(kv ...attribute.KeyValue) *options {
	set := metric.WithAttributeSet(attribute.NewSet(kv...))
	return &options{add: []metric.AddOption{set}, record: []metric.RecordOption{set}}
}

type requestLabels struct{ protocol, operation, outcome string }

type attemptLabels struct{ provider, credential, stage, outcome string }

func newMetrics(m metric.Meter, n *Node) (*metrics, error) {
	out := &metrics{
		requestSets: xsync.NewMap[requestLabels, *options](),
		attemptSets: xsync.NewMap[attemptLabels, *options](),
	}
	var errs [6]error
	seconds := metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
	out.requests, errs[0] = m.Int64Counter("gateway.inbound.requests",
		metric.WithUnit("{request}"), metric.WithDescription("Requests of clients, by protocol, operation and outcome."))
	out.duration, errs[1] = m.Float64Histogram("gateway.inbound.duration",
		metric.WithUnit("s"), metric.WithDescription("Time from the head of a request to the end of its answer."), seconds)
	out.first, errs[2] = m.Float64Histogram("gateway.relay.first_event",
		metric.WithUnit("s"), metric.WithDescription("Time from the head of a request to the first content of its answer."), seconds)
	out.attempts, errs[3] = m.Int64Counter("gateway.scheduler.attempts",
		metric.WithUnit("{attempt}"), metric.WithDescription("Attempts sent to upstreams, by outcome."))
	_, errs[4] = m.Int64ObservableGauge("gateway.inbound.running",
		metric.WithUnit("{request}"), metric.WithDescription("Requests that run."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(out.running.Load())
			return nil
		}))
	out.schedule, errs[5] = newSchedulerMetrics(m, n)
	return out, errors.Join(errs[:]...)
}

// request counts a request and its attempts.
func (m *metrics) request(ctx context.Context, call *inbound.Call, res *attempt.Result, outcome string, took time.Duration) {
	set := m.requestSet(requestLabels{string(call.Target.Protocol), call.Target.Op.String(), outcome})
	m.requests.Add(ctx, 1, set.add...)
	m.duration.Record(ctx, took.Seconds(), set.record...)
	m.schedule.request(ctx, res)
	for i := range res.Failed {
		t := &res.Failed[i]
		m.attempts.Add(ctx, 1, m.attemptSet(attemptLabels{t.Candidate.Provider.GetName(), t.Candidate.CredentialID(), t.Stage, t.Class.String()}).add...)
	}
	if c := res.Winner; c != nil {
		m.attempts.Add(ctx, 1, m.attemptSet(attemptLabels{c.Provider.GetName(), c.CredentialID(), res.Stage(), outcome}).add...)
		if !res.Answer.FirstEventAt.IsZero() {
			m.first.Record(ctx, res.Answer.FirstEventAt.Sub(call.Start).Seconds(), set.record...)
		}
	}
}

func (m *metrics) requestSet(l requestLabels) *options {
	o, _ := m.requestSets.LoadOrCompute(l, func() (*options, bool) {
		return optionsOf(
			attribute.String("protocol", l.protocol),
			attribute.String("operation", l.operation),
			attribute.String("outcome", l.outcome)), false
	})
	return o
}

func (m *metrics) attemptSet(l attemptLabels) *options {
	o, _ := m.attemptSets.LoadOrCompute(l, func() (*options, bool) {
		return optionsOf(
			attribute.String("provider_name", l.provider),
			attribute.String("credential_id", l.credential),
			attribute.String("stage", l.stage),
			attribute.String("outcome", l.outcome)), false
	})
	return o
}
