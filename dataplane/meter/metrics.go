package meter

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

// meterMetrics counts attempts and watches the log.
type meterMetrics struct {
	settled  metric.Int64Counter
	refused  metric.Int64Counter
	outcomes map[ledgerv1.AttemptOutcome][]metric.AddOption
}

func newMeterMetrics(m *Meter, meter metric.Meter) (*meterMetrics, error) {
	settled, err1 := meter.Int64Counter("gateway.meter.settlements",
		metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts whose end was recorded, by outcome."))
	refused, err2 := meter.Int64Counter("gateway.meter.refusals",
		metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts not begun because their usage could not be recorded."))
	open, err3 := meter.Int64ObservableGauge("gateway.meter.open_attempts",
		metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts begun and not yet settled."))
	wal, err4 := meter.Int64ObservableGauge("gateway.meter.wal",
		metric.WithUnit("By"),
		metric.WithDescription("Bytes of the usage log."))
	fill, err5 := meter.Float64ObservableGauge("gateway.meter.fill",
		metric.WithUnit("1"),
		metric.WithDescription("Share of its bound that the usage log holds."))
	lost, err6 := meter.Int64ObservableCounter("gateway.meter.damaged_records",
		metric.WithUnit("{record}"),
		metric.WithDescription("Records of the usage log found unreadable, at least."))
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return nil, err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(open, m.Open())
		o.ObserveInt64(wal, m.log.Size())
		o.ObserveFloat64(fill, m.log.Fill())
		o.ObserveInt64(lost, int64(m.log.lost.Load()))
		return nil
	}, open, wal, fill, lost)
	if err != nil {
		return nil, err
	}
	mm := &meterMetrics{settled: settled, refused: refused, outcomes: map[ledgerv1.AttemptOutcome][]metric.AddOption{}}
	for n, name := range ledgerv1.AttemptOutcome_name {
		name = strings.ToLower(strings.TrimPrefix(name, "ATTEMPT_OUTCOME_"))
		mm.outcomes[ledgerv1.AttemptOutcome(n)] = []metric.AddOption{
			metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", name))),
		}
	}
	return mm, nil
}

func (m *meterMetrics) settle(o ledgerv1.AttemptOutcome) {
	m.settled.Add(context.Background(), 1, m.outcomes[o]...)
}

// shipperMetrics counts batches and watches what waits.
type shipperMetrics struct {
	shipped  metric.Int64Counter
	failures metric.Int64Counter
	rejected metric.Int64Counter
}

func newShipperMetrics(s *Shipper, meter metric.Meter) (*shipperMetrics, error) {
	shipped, err1 := meter.Int64Counter("gateway.meter.shipped_events",
		metric.WithUnit("{event}"),
		metric.WithDescription("Usage events that the control plane has acknowledged."))
	failures, err2 := meter.Int64Counter("gateway.meter.ship_failures",
		metric.WithUnit("{batch}"),
		metric.WithDescription("Batches of usage events that were not acknowledged."))
	rejected, err3 := meter.Int64Counter("gateway.meter.rejected_events",
		metric.WithUnit("{event}"),
		metric.WithDescription("Usage events that the control plane refused as invalid and that were set aside."))
	waiting, err4 := meter.Int64ObservableGauge("gateway.meter.unshipped_events",
		metric.WithUnit("{event}"),
		metric.WithDescription("Usage events that wait for their acknowledgement."))
	oldest, err5 := meter.Float64ObservableGauge("gateway.meter.oldest_unshipped",
		metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest usage event that waits for its acknowledgement."))
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		b := s.Backlog()
		o.ObserveInt64(waiting, int64(b.Events))
		o.ObserveFloat64(oldest, b.Age.Seconds())
		return nil
	}, waiting, oldest)
	return &shipperMetrics{shipped: shipped, failures: failures, rejected: rejected}, err
}
