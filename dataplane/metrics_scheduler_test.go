package dataplane

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// metered is a rig whose metrics can be read.
type metered struct {
	*rig
	reader *sdk.ManualReader
}

func newMetered(t *testing.T, options ...rigOption) *metered {
	t.Helper()
	g := &metered{newRig(t, options...), sdk.NewManualReader()}
	var err error
	if g.node.metrics, err = newMetrics(sdk.NewMeterProvider(sdk.WithReader(g.reader)).Meter("test"), g.node); err != nil {
		t.Fatal(err)
	}
	return g
}

// read returns the scheduler's instruments, name{attribute=value,…}: sums and gauges by
// value, histograms by how many values they have.
func (g *metered) read(t *testing.T) map[string]int64 {
	t.Helper()
	var got metricdata.ResourceMetrics
	if err := g.reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, sm := range got.ScopeMetrics {
		for _, m := range sm.Metrics {
			name, ok := strings.CutPrefix(m.Name, "gateway.scheduler.")
			if !ok {
				continue
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					out[name+"{"+p.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = p.Value
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					out[name+"{"+p.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					out[name+"{"+p.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = int64(p.Count) //nolint:gosec // a few
				}
			default:
				t.Errorf("%s is of a kind that the test does not know", m.Name)
			}
		}
	}
	return out
}

// moved waits until n requests are over, which clients know earlier, and returns what they
// moved, but for the time of selections, which all move, and the scores.
func (g *metered) moved(t *testing.T, n int64) map[string]int64 {
	t.Helper()
	out := g.read(t)
	for deadline := time.Now().Add(5 * time.Second); out["select{}"] != n; out = g.read(t) {
		if time.Now().After(deadline) {
			t.Fatalf("the time of %d selections is told, want %d", out["select{}"], n)
		}
		time.Sleep(time.Millisecond)
	}
	maps.DeleteFunc(out, func(name string, _ int64) bool {
		return name == "select{}" || strings.HasPrefix(name, "candidate_score{")
	})
	return out
}

// TestField_F100_EachMetricMovesForWhatItTells: what the scheduler did shows in its
// metrics, and nothing else does.
func TestField_F100_EachMetricMovesForWhatItTells(t *testing.T) {
	t.Parallel()
	chat := wires()[0]
	attempts := func(credential, stage, outcome string) string {
		return fmt.Sprintf("attempts{credential_id=%s,outcome=%s,provider_name=fake,stage=%s}", credential, outcome, stage)
	}
	const elsewhere = "same_provider_other_credential"
	for _, tc := range []struct {
		name    string
		options []rigOption
		play    func(t *testing.T, g *metered) (requests int64)
		want    map[string]int64
	}{
		{
			name: "a request that is served", options: []rigOption{inOrder},
			play: func(t *testing.T, g *metered) int64 { g.call(t, chat, "m", true); return 1 },
			want: map[string]int64{
				attempts("crd_a", "primary", "ok"): 1, "cache_affinity{outcome=miss}": 1,
				"excluded{reason=spillover_closed}": 1,
			},
		},
		{
			name: "a limit, the other account, and the cooldown after it", options: []rigOption{inOrder},
			play: func(t *testing.T, g *metered) int64 {
				g.provider.Script(fakeprovider.Match{Key: keyA}, fakeprovider.FailRetryAfter(fakeprovider.RateLimited, time.Minute))
				g.call(t, chat, "m", false)
				g.call(t, chat, "m", false)
				return 2
			},
			want: map[string]int64{
				attempts("crd_a", "primary", "rate_limited"): 1, attempts("crd_b", elsewhere, "ok"): 1, attempts("crd_b", "primary", "ok"): 1,
				"cache_affinity{outcome=miss}": 2, "credential_cooldown{reason=rate_limit}": 1,
				"fallback{from_provider=fake,stage=" + elsewhere + ",to_provider=fake}": 1,
				"excluded{reason=spillover_closed}":                                     1, "excluded{reason=already_failed}": 1, "excluded{reason=cooldown_rate_limit}": 1,
				"spillover{priority=2}": 1, // the second request; the first one's is a fallback
			},
		},
		{
			name: "a prompt that is cached", options: []rigOption{inOrder},
			play: func(t *testing.T, g *metered) int64 {
				g.cached()
				a := &agent{g: g.rig}
				a.ask(t, false)
				a.ask(t, false)
				return 2
			},
			want: map[string]int64{
				attempts("crd_a", "primary", "ok"): 2, "cache_affinity{outcome=miss}": 1, "cache_affinity{outcome=hit}": 1,
				"cache_tokens{kind=predicted,model=m,provider_name=fake}": -1, "cache_tokens{kind=read,model=m,provider_name=fake}": 2176,
				"excluded{reason=spillover_closed}": 2,
			},
		},
		{
			name: "an account that is left", options: []rigOption{withPolicy(&configv1.SchedulingPolicy{EscapeErrorRate: proto.Float64(0.1), EscapeMinSamples: proto.Int32(1), ErrorMs: proto.Int64(1e6)}), heavyFirst},
			play: func(t *testing.T, g *metered) int64 {
				a := &agent{g: g.rig}
				_, first, _ := a.ask(t, false)
				g.provider.SetScript(fakeprovider.Script{Match: fakeprovider.Match{Key: keyOfCredential(first)}, Steps: []fakeprovider.Step{fakeprovider.Fail(fakeprovider.ServerError)}, ThenDefault: true})
				a.ask(t, false)
				a.ask(t, false)
				return 3
			},
			want: map[string]int64{
				attempts("crd_a", "primary", "ok"): 1, attempts("crd_a", "primary", "server_error"): 1, attempts("crd_a", "same_credential_retry", "ok"): 1,
				attempts("crd_b", "primary", "ok"): 1, "cache_affinity{outcome=miss}": 1, "cache_affinity{outcome=hit}": 1, "cache_affinity{outcome=escape}": 1,
				"fallback{from_provider=fake,stage=same_credential_retry,to_provider=fake}": 1, "escape{reason=error_rate}": 1,
				"cache_tokens{kind=predicted,model=m,provider_name=fake}": -1,
			},
		},
		{
			name: "too many retries", options: []rigOption{inOrder, withPolicy(&configv1.SchedulingPolicy{MinRetries: proto.Int32(0), RetryRatio: proto.Float64(0)})},
			play: func(t *testing.T, g *metered) int64 {
				g.provider.Script(fakeprovider.Match{Key: keyA}, fakeprovider.Fail(fakeprovider.RateLimited))
				g.call(t, chat, "m", true)
				return 1
			},
			want: map[string]int64{
				attempts("crd_a", "primary", "rate_limited"): 1, "cache_affinity{outcome=miss}": 1, "credential_cooldown{reason=rate_limit}": 1,
				"excluded{reason=spillover_closed}": 1, "excluded{reason=already_failed}": 1, "retry_budget_exhausted{provider_name=fake}": 1,
			},
		},
		{
			name: "an account that fails again and again", options: []rigOption{inOrder, withPolicy(&configv1.SchedulingPolicy{FallbackMode: configv1.FallbackMode_FALLBACK_MODE_OFF, CooldownServerMs: proto.Int64(0)})},
			play: func(t *testing.T, g *metered) int64 {
				g.provider.Script(fakeprovider.Match{Key: keyA}, fakeprovider.Fail(fakeprovider.ServerError))
				for range 5 {
					g.call(t, chat, "m", true)
				}
				return 5
			},
			want: map[string]int64{
				attempts("crd_a", "primary", "server_error"): 5, "cache_affinity{outcome=miss}": 5,
				"excluded{reason=spillover_closed}": 5, "breaker_state{class=server,provider_name=fake,state=open}": 1,
			},
		},
		{
			name: "a request that waits in vain for its turn", options: []rigOption{withPolicy(&configv1.SchedulingPolicy{MaxQueueWaitMs: proto.Int64(20)}), func(t *syncv1.TenantShard) {
				t.Credentials = t.Credentials[:1]
				t.Credentials[0].MaxConcurrency = proto.Int32(1)
			}},
			play: func(t *testing.T, g *metered) int64 {
				gate := make(chan struct{})
				g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{HeaderGate: gate})
				var wg sync.WaitGroup
				wg.Go(func() { g.call(t, chat, "m", false) })
				if err := g.provider.Wait(t.Context(), func(s fakeprovider.Stats) bool { return s.Open == 1 }); err != nil {
					t.Fatal(err)
				}
				if resp, body := g.call(t, chat, "m", false); resp.StatusCode != http.StatusTooManyRequests {
					t.Errorf("status %d: %s", resp.StatusCode, body)
				}
				close(gate)
				wg.Wait()
				return 2
			},
			want: map[string]int64{
				attempts("crd_a", "primary", "ok"): 1, "cache_affinity{outcome=miss}": 1, "excluded{reason=slot_full}": -1, "queue_wait{}": 1,
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := newMetered(t, tc.options...)
			n := tc.play(t, g)
			got := g.moved(t, n)
			for name, v := range tc.want {
				if v < 0 && got[name] > 0 { // an estimate, or as often as a request that waits was looked at
					got[name] = v
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("moved (-want +got):\n%s", diff)
			}
		})
	}
}

// heavyFirst has new conversations go to the first account.
func heavyFirst(t *syncv1.TenantShard) {
	t.Credentials[0].Weight, t.Credentials[1].Weight = proto.Int32(100000), proto.Int32(1)
}

func TestScoresAreToldOfEveryCandidateInTheChoice(t *testing.T) {
	t.Parallel()
	g := newMetered(t)
	g.call(t, wires()[0], "m", false)
	g.moved(t, 1)
	got := g.read(t)
	for _, credential := range []string{"crd_a", "crd_b"} {
		if name := "candidate_score{credential_id=" + credential + ",provider_name=fake}"; got[name] <= 0 {
			t.Errorf("%s is %d, want the score of the first decision", name, got[name])
		}
	}
}
