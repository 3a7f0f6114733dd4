package ledger

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

type metrics struct {
	rows        metric.Int64Counter
	batches     metric.Int64Counter
	unpriced    metric.Int64Counter
	quarantined metric.Int64Counter
	corrected   metric.Int64Counter
}

func newMetrics(m metric.Meter) (*metrics, error) {
	rows, err1 := m.Int64Counter("gateway.ledger.rows", metric.WithUnit("{row}"),
		metric.WithDescription("Ledger rows offered, by kind and whether they were new."))
	batches, err2 := m.Int64Counter("gateway.ledger.batches", metric.WithUnit("{batch}"),
		metric.WithDescription("Usage batches of nodes, by result."))
	unpriced, err3 := m.Int64Counter("gateway.ledger.unpriced", metric.WithUnit("{row}"),
		metric.WithDescription("Rows written without a price, by side and reason."))
	quarantined, err4 := m.Int64Counter("gateway.ledger.quarantined", metric.WithUnit("{event}"),
		metric.WithDescription("Events that could not be rows and wait for somebody to look, by reason."))
	corrected, err5 := m.Int64Counter("gateway.ledger.corrections", metric.WithUnit("{row}"),
		metric.WithDescription("Estimated settlements taken back because the true one arrived."))
	return &metrics{rows, batches, unpriced, quarantined, corrected}, errors.Join(err1, err2, err3, err4, err5)
}

func (m *metrics) batch(ctx context.Context, result string) {
	m.batches.Add(ctx, 1, metric.WithAttributes(attribute.String("result", result)))
}

// wrote counts what a transaction wrote, after it is on disk.
func (m *metrics) wrote(ctx context.Context, rows []*row, duplicates int) {
	type key struct{ a, b string }
	kinds, missing := map[string]int64{}, map[key]int64{}
	for _, r := range rows {
		kinds[kindName(r.kind)]++
		for side, c := range map[Side]Charge{CostSide: r.rating.Cost, PriceSide: r.rating.Price} {
			if c.Unpriced != Priced {
				missing[key{side.String(), string(c.Unpriced)}]++
			}
		}
	}
	for kind, n := range kinds {
		m.rows.Add(ctx, n, metric.WithAttributes(attribute.String("kind", kind), attribute.String("result", "new")))
	}
	if duplicates > 0 {
		m.rows.Add(ctx, int64(duplicates), metric.WithAttributes(attribute.String("kind", "any"), attribute.String("result", "duplicate")))
	}
	for k, n := range missing {
		m.unpriced.Add(ctx, n, metric.WithAttributes(attribute.String("side", k.a), attribute.String("reason", k.b)))
	}
}

func (m *metrics) quarantine(ctx context.Context, events []quarantined) {
	for _, q := range events {
		m.quarantined.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", q.why.reason)))
	}
}
