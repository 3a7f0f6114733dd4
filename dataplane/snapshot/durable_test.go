package snapshot

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestAppliedIsReportedOnlyOnceItIsOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dir := newPlane(), t.TempDir()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{dir: dir})
		n.at(t, p)
		synctest.Wait()
		for d := range domains {
			_ = n.journals[d].f.Close() // the disk fails
		}
		g := p.commit(tenantEdit("t1", "a"), subjectEdit("t1", suspend))
		n.at(t, p) // it serves all the same
		for d := range domains {
			if r := p.lastReport(d); r.GetRunning().GetGeneration() == g {
				t.Errorf("%s: reported as running before it was on disk", d)
			}
		}
		if n.Status().Policy.Durable {
			t.Error("status says that the configuration is on disk")
		}
		time.Sleep(2 * time.Second) // the disk is well again
		synctest.Wait()
		for d := range domains {
			if r := p.lastReport(d); r.GetRunning().GetGeneration() != g {
				t.Errorf("%s: not reported after it was written: %v", d, r.GetRunning())
			}
		}
		p.cut(true)
		n.stop()
		n = start(t, p, options{dir: dir})
		if v := n.settled(); v.Policy.Generation != g || v.Identity.Generation != g {
			t.Errorf("after a restart the node runs %v and %v, want %d", v.Identity, v.Policy, g)
		}
	})
}

func TestMetricsTellGenerationLagStalenessAndRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1", "good"), subjectEdit("t1"))
		reader := sdk.NewManualReader()
		provider := sdk.NewMeterProvider(sdk.WithReader(reader))
		holder := new(Holder)
		s, err := New(Config{Endpoints: []string{"http://127.0.0.1:1"}, Insecure: true, NodeID: testNode}, refuseBad, nil, holder, p.dial, provider.Meter("test"), zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Run(ctx) }()
		synctest.Wait()
		g := p.commit(tenantEdit("t1", "bad"))
		time.Sleep(15 * time.Second)
		synctest.Wait()
		got := map[string]float64{}
		var rm metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &rm); err != nil {
			t.Fatal(err)
		}
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				switch data := m.Data.(type) {
				case metricdata.Gauge[int64]:
					for _, pt := range data.DataPoints {
						got[m.Name] = max(got[m.Name], float64(pt.Value))
					}
				case metricdata.Gauge[float64]:
					for _, pt := range data.DataPoints {
						got[m.Name] = max(got[m.Name], pt.Value)
					}
				case metricdata.Sum[int64]:
					for _, pt := range data.DataPoints {
						got[m.Name] += float64(pt.Value)
					}
				}
			}
		}
		for name, want := range map[string]float64{
			"gateway.config.generation": float64(g), "gateway.config.lag": 0, "gateway.config.staleness": 5,
			"gateway.config.pins": 1, "gateway.config.refused": 1,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s = %v (there %t), want %v", name, v, ok, want)
			}
		}
		cancel()
		<-done
	})
}
