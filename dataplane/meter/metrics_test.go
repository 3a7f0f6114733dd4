package meter

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestMetricsTellWhatWaits(t *testing.T) {
	t.Parallel()
	reader := sdk.NewManualReader()
	meter := sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test")
	l := mustOpen(t, t.TempDir(), LogConfig{})
	m, err := New(l, Config{}, zerolog.Nop(), meter)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewShipper(l, &fakeLedger{}, "nod_1", ShipperConfig{BatchEvents: 2}, zerolog.Nop(), meter)
	if err != nil {
		t.Fatal(err)
	}
	mustSettle(t, m, "req_1", 5)
	mustBegin(t, m, intent("req_2", 1))
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	for _, sm := range got.ScopeMetrics {
		for _, m := range sm.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Gauge[int64]:
				values[m.Name] = d.DataPoints[0].Value
			case metricdata.Sum[int64]:
				values[m.Name] = d.DataPoints[0].Value
			default:
				values[m.Name] = -1
			}
		}
	}
	want := map[string]int64{
		"gateway.meter.wal": l.Size(), "gateway.meter.fill": -1, "gateway.meter.open_attempts": 1, "gateway.meter.settlements": 5,
		"gateway.meter.damaged_records": 0, "gateway.meter.unshipped_events": 3, "gateway.meter.oldest_unshipped": -1,
		"gateway.meter.shipped_events": 2,
	}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("metrics differ, have %v (-want +got):\n%s", slices.Sorted(maps.Keys(values)), diff)
	}
}
