package snapshot

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are the instruments of the package. All attributes come from fixed lists.
type metrics struct {
	refused metric.Int64Counter
	untolds metric.Int64Counter
	applied metric.Float64Histogram
	gauges  func(metric.Callback) (metric.Registration, error)

	lag, staleness metric.Float64ObservableGauge
	generation     metric.Int64ObservableGauge
	pinned         metric.Int64ObservableGauge
}

func newMetrics(m metric.Meter) (*metrics, error) {
	refused, err1 := m.Int64Counter("gateway.config.refused",
		metric.WithUnit("{refusal}"),
		metric.WithDescription("Shards and updates that the node refused, by view and reason."))
	applied, err2 := m.Float64Histogram("gateway.config.apply.duration",
		metric.WithUnit("s"),
		metric.WithDescription("Time from a verified update to the swap."),
		metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 20))
	lag, err3 := m.Float64ObservableGauge("gateway.config.lag",
		metric.WithUnit("s"),
		metric.WithDescription("Time since the control plane named a position that the node does not run, by view; 0 at the target."))
	staleness, err4 := m.Float64ObservableGauge("gateway.config.staleness",
		metric.WithUnit("s"),
		metric.WithDescription("Age of the authorization data."))
	generation, err5 := m.Int64ObservableGauge("gateway.config.generation",
		metric.WithUnit("{generation}"),
		metric.WithDescription("Generation that the node runs, by view."))
	pinned, err6 := m.Int64ObservableGauge("gateway.config.pins",
		metric.WithUnit("{shard}"),
		metric.WithDescription("Shards of which a previous version serves, by view."))
	untolds, err7 := m.Int64Counter("gateway.fleet.signals_untold",
		metric.WithUnit("{signal}"),
		metric.WithDescription("Soft state that was not told to the other nodes, because there was too much of it."))
	return &metrics{
		refused: refused, untolds: untolds, applied: applied, lag: lag, staleness: staleness, generation: generation, pinned: pinned,
		gauges: func(f metric.Callback) (metric.Registration, error) {
			return m.RegisterCallback(f, lag, staleness, generation, pinned)
		},
	}, errors.Join(err1, err2, err3, err4, err5, err6, err7)
}

func viewAttr(d domain) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("view", d.String()))
}

func (m *metrics) refuse(ctx context.Context, d domain, reason string, n int) {
	m.refused.Add(ctx, int64(n), metric.WithAttributes(attribute.String("view", d.String()), attribute.String("reason", reason)))
}

func (m *metrics) untold(n int) { m.untolds.Add(context.Background(), int64(n)) }

func (m *metrics) took(ctx context.Context, d domain, t time.Duration) {
	m.applied.Record(ctx, t.Seconds(), viewAttr(d))
}

// observe reads the gauges off the Subscriber.
func (s *Subscriber) observe(_ context.Context, o metric.Observer) error {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for d := range domains {
		o.ObserveFloat64(s.metrics.lag, s.public[d].lag(now).Seconds(), viewAttr(d))
		o.ObserveInt64(s.metrics.generation, int64(s.public[d].running.Generation), viewAttr(d))
		o.ObserveInt64(s.metrics.pinned, int64(s.public[d].pins), viewAttr(d))
	}
	if a := s.age.of("", now); a != unknownAge {
		o.ObserveFloat64(s.metrics.staleness, a.Seconds())
	}
	return nil
}
