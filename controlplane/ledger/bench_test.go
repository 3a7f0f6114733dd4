package ledger

import (
	"context"
	"testing"
	"time"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// BenchmarkIngest stores batches of 1000 new events over one connection and
// reports rows a second; the promise is 200,000 rows in well under 20 s.
// The private server of the tests does not sync, so the disk is left out.
func BenchmarkIngest(b *testing.B) {
	config := pg.Pool(b).Config()
	config.MaxConns = 1
	l := ledgerOn(b, poolOf(b, config), Config{})
	const batch = 1000
	events := make([]*ledgerv1.UsageEvent, batch)
	for i := range events {
		events[i] = event(time.Now(), func(ev *ledgerv1.UsageEvent) {
			ev.Labels = map[string]string{"scenario": "chat", "team": "search"}
			ev.ProjectId, ev.ApiKeyId, ev.RouteId, ev.UpstreamId, ev.CredentialId = "prj_a", "key_a", "rte_a", "upr_a", "crd_a"
			ev.DecisionId, ev.ProviderRequestId = ident.New(ident.Decision), "chatcmpl-0123456789abcdef"
		})
	}
	seq := uint64(1)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for _, ev := range events {
			ev.RequestId = ident.New(ident.Request)
		}
		b.StartTimer()
		if _, n, err := l.Ingest(context.Background(), "nod_a", "boot_a", seq, seq+batch-1, events); err != nil || n != batch {
			b.Fatalf("%d rows, %v", n, err)
		}
		seq += batch
	}
	b.ReportMetric(batch*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkReplay offers a batch that is stored already.
func BenchmarkReplay(b *testing.B) {
	l := ledgerOn(b, pg.Pool(b), Config{})
	events := usage(1000)
	for b.Loop() {
		if _, _, err := l.Ingest(context.Background(), "nod_a", "boot_a", 1, 1000, events); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRate rates one everyday event.
func BenchmarkRate(b *testing.B) {
	r := raterOf(b, everydaySet())
	ev := event(day(1))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Rate(context.Background(), ev); err != nil {
			b.Fatal(err)
		}
	}
}
