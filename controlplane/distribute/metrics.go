package distribute

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

type metrics struct {
	deltas, needFetches, fetches, refusals, failures, backwards, signals metric.Int64Counter
	byView                                                               map[syncv1.View]metric.MeasurementOption
}

func newMetrics(m metric.Meter, h *Hub) (*metrics, error) {
	x := &metrics{byView: map[syncv1.View]metric.MeasurementOption{}}
	for _, v := range views {
		x.byView[v] = metric.WithAttributeSet(attribute.NewSet(attribute.String("view", viewName(v))))
	}
	var errs []error
	counter := func(dst *metric.Int64Counter, name, unit, what string) {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		*dst = c
	}
	counter(&x.deltas, "gateway.config.deltas", "{delta}", "Deltas sent to nodes.")
	counter(&x.needFetches, "gateway.config.need_fetches", "{message}", "Nodes told to fetch, because no delta could help them.")
	counter(&x.fetches, "gateway.config.fetches", "{fetch}", "Fetches by nodes.")
	counter(&x.refusals, "gateway.config.refused", "{report}", "Reports of nodes that did not take a generation whole, by reason.")
	counter(&x.failures, "gateway.config.follow_failures", "{failure}", "Times the stored configuration could not be followed.")
	counter(&x.backwards, "gateway.config.backwards", "{event}", "Times the stored generation was found lower than the served one.")
	counter(&x.signals, "gateway.fleet.signals_dropped", "{signal}", "Soft state of nodes that was not passed on, because its node told too much.")
	_, err := m.Int64ObservableGauge("gateway.config.streams", metric.WithUnit("{stream}"), metric.WithDescription("Open streams to nodes."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			o.Observe(int64(len(h.sessions)))
			return nil
		}))
	errs = append(errs, err)
	return x, errors.Join(errs...)
}

func viewName(v syncv1.View) string {
	if v == syncv1.View_VIEW_IDENTITY {
		return "identity"
	}
	return "stable"
}

func (x *metrics) delta(v syncv1.View) { x.deltas.Add(context.Background(), 1, x.byView[v]) }

func (x *metrics) needFetch(v syncv1.View) { x.needFetches.Add(context.Background(), 1, x.byView[v]) }

func (x *metrics) fetch(v syncv1.View) { x.fetches.Add(context.Background(), 1, x.byView[v]) }

func (x *metrics) refused(ctx context.Context, reason string) {
	x.refusals.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
}

func (x *metrics) signalsDropped(ctx context.Context, n int) { x.signals.Add(ctx, int64(n)) }

func (x *metrics) failed(ctx context.Context) { x.failures.Add(ctx, 1) }

func (x *metrics) wentBack(ctx context.Context) { x.backwards.Add(ctx, 1) }
