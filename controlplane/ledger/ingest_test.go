package ledger

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"
)

// usage returns n settlements with differing units, as a node's log holds them.
func usage(n int) []*ledgerv1.UsageEvent {
	now := time.Now()
	out := make([]*ledgerv1.UsageEvent, n)
	for i := range out {
		out[i] = event(now, func(ev *ledgerv1.UsageEvent) {
			ev.LogSeq = uint64(i + 1)
			ev.Units = &ledgerv1.Units{Input: int64(i + 1), Output: int64(2 * i), Request: 1}
		})
	}
	return out
}

func ingest(t testing.TB, l *Ledger, first, last uint64, events ...*ledgerv1.UsageEvent) int64 {
	t.Helper()
	got, inserted, err := l.Ingest(t.Context(), "nod_a", "boot_a", first, last, events)
	if err != nil {
		t.Fatal(err)
	}
	if got != last {
		t.Fatalf("acknowledged up to %d, want %d", got, last)
	}
	return inserted
}

func sums(t testing.TB, l *Ledger) []Sum {
	t.Helper()
	got, err := l.SumByCurrency(t.Context(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// L1 and check 7: the same batch twice, in halves, out of order, by several
// replicas at once: identical rows and sums.
func TestL1ReplayChangesNothing(t *testing.T) {
	t.Parallel()
	const n = 100
	events := usage(n)
	for name, send := range map[string]func(t *testing.T, l *Ledger){
		"once": func(t *testing.T, l *Ledger) {
			if got := ingest(t, l, 1, n, events...); got != n {
				t.Errorf("%d rows were new, want %d", got, n)
			}
		},
		"twice": func(t *testing.T, l *Ledger) {
			ingest(t, l, 1, n, events...)
			if got := ingest(t, l, 1, n, events...); got != 0 {
				t.Errorf("%d rows of a replay were new", got)
			}
		},
		"halves after the whole": func(t *testing.T, l *Ledger) {
			ingest(t, l, 1, n, events...)
			ingest(t, l, 1, n/2, events[:n/2]...)
			ingest(t, l, n/2+1, n, events[n/2:]...)
		},
		"halves out of order, then the whole": func(t *testing.T, l *Ledger) {
			ingest(t, l, n/2+1, n, events[n/2:]...)
			ingest(t, l, 1, n/2, events[:n/2]...)
			ingest(t, l, 1, n, events...)
		},
		"shuffled and overlapping": func(t *testing.T, l *Ledger) {
			for range 10 {
				from := rand.IntN(n)
				part := append([]*ledgerv1.UsageEvent(nil), events[from:min(n, from+30)]...)
				rand.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
				ingest(t, l, uint64(from+1), uint64(min(n, from+30)), part...)
			}
			ingest(t, l, 1, n, events...)
		},
		"twice in one batch": func(t *testing.T, l *Ledger) {
			ingest(t, l, 1, n, append(append([]*ledgerv1.UsageEvent(nil), events...), events...)...)
		},
		"by other boots of the node": func(t *testing.T, l *Ledger) {
			for _, boot := range []string{"boot_1", "boot_2"} {
				if _, _, err := l.Ingest(t.Context(), "nod_a", boot, 1, n, events); err != nil {
					t.Error(err)
				}
			}
		},
		"eight at once": func(t *testing.T, l *Ledger) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			var total int64
			for i := range 8 {
				wg.Go(func() {
					part := append([]*ledgerv1.UsageEvent(nil), events...)
					rand.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
					_, inserted, err := l.Ingest(t.Context(), fmt.Sprintf("nod_%d", i%4), "boot", 1, n, part)
					mu.Lock()
					defer mu.Unlock()
					if total += inserted; err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if total != n {
				t.Errorf("%d rows were said to be new, want %d", total, n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pg.Pool(t)
			l := ledgerOn(t, pool, Config{})
			send(t, l)
			want := []Sum{{CostCurrency: "USD", PriceCurrency: "EUR", Rows: n}}
			for i := range int64(n) {
				want[0].Input += i + 1
				want[0].Output += 2 * i
				want[0].Cost += (moneyOf(i+1) + 2*moneyOf(2*i))
				want[0].Price += 3*moneyOf(i+1) + 6*moneyOf(2*i)
			}
			if got := sums(t, l); !cmp.Equal(got, want) {
				t.Errorf("sums differ: %s", cmp.Diff(want, got))
			}
			if got := imbalance(t, pool); got != 0 {
				t.Errorf("journal, batches and rows differ by %d", got)
			}
			if got := count(t, pool, "SELECT count(*) FROM usage_quarantine"); got != 0 {
				t.Errorf("%d events in quarantine, want none", got)
			}
			for _, node := range []string{"nod_a", "nod_0", "nod_1", "nod_2", "nod_3"} {
				for _, boot := range []string{"boot_a", "boot_1", "boot_2", "boot"} {
					if _, err := l.VerifyChain(t.Context(), node, boot); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

func TestBatchWithoutEventsIsAcknowledged(t *testing.T) {
	t.Parallel()
	pool := pg.Pool(t)
	l := ledgerOn(t, pool, Config{})
	ingest(t, l, 1, 90)
	if got := count(t, pool, "SELECT last_seq FROM ingest_watermark WHERE node_id = 'nod_a' AND boot_id = 'boot_a'"); got != 90 {
		t.Errorf("the watermark is %d, want 90", got)
	}
	ingest(t, l, 1, 50)
	if got := count(t, pool, "SELECT last_seq FROM ingest_watermark"); got != 90 {
		t.Errorf("the watermark went to %d after a replay, want 90", got)
	}
}

func TestRowSaysAllThatTheEventSaid(t *testing.T) {
	t.Parallel()
	l := ledgerOn(t, pg.Pool(t), Config{})
	at := time.Now().UTC().Truncate(time.Microsecond)
	ev := &ledgerv1.UsageEvent{
		RequestId: ident.NewAt(ident.Request, at), Attempt: 2, Kind: ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT, Seq: 3,
		TenantId: "ten_a", ProjectId: "prj", ConsumerId: "con", ApiKeyId: "key", EndUserHmac: []byte{1, 0, 2},
		Labels: map[string]string{"scenario": "a=b", "zone": ""}, ParentRequestId: "req_p", DecisionId: "dec", RouteId: "rte",
		ProviderId: "prv_a", UpstreamId: "upr", CredentialId: "crd", Region: "eu", ModelRequested: "public", ModelRouted: "m", ModelServed: "m",
		ServiceTier: "batch", Class: "batch", Purpose: ledgerv1.Purpose_PURPOSE_EMBED, PolicyGeneration: math.MaxInt64 + 7, IdentityGeneration: 5,
		Units: &ledgerv1.Units{
			Input: 1, CacheRead: 2, CacheWrite_5M: 3, CacheWrite_1H: 4, Output: 5, Reasoning: 6, AudioIn: 7, AudioOut: 8, ImageIn: 9, ImageOut: 10,
			Request: 15,
		},
		ChargedUnits: &ledgerv1.Units{Input: 1}, UsageSource: ledgerv1.UsageSource_USAGE_SOURCE_PARTIAL,
		Outcome: ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_BROKEN, ErrorClass: "stream_cut", UpstreamStatus: 200, ProviderRequestId: "chatcmpl-1",
		CostVersion: "prc_m", PriceVersion: "pbk_gold", PriceBook: "gold", PriceMultiplierNum: 1, PriceMultiplierDen: 2,
		AcceptedAt: timestamppb.New(at), OccurredAt: timestamppb.New(at.Add(time.Second)), Protocol: "openai_chat", Stream: true,
	}
	ingest(t, l, 1, 1, proto.CloneOf(ev))
	got, _, err := l.ListEntries(t.Context(), Filter{}, Page{})
	if err != nil || len(got) != 1 {
		t.Fatalf("%d entries, %v; want 1", len(got), err)
	}
	// Versions stand in the entry; the place in the log is not kept.
	ev.CostVersion, ev.PriceVersion = "", ""
	if diff := cmp.Diff(ev, got[0].GetEvent(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if e := got[0]; e.GetCostVersion() != "prc_m" || e.GetPriceVersion() != "pbk_gold" || e.GetModelBilled() != "public" ||
		e.GetPriceNanos() != 2 || e.GetPriceCurrency() != "EUR" || e.GetUnpriced() || !ident.Valid(ident.LedgerEntry, e.GetEntryId()) {
		t.Errorf("entry is %v", e)
	}
}

func TestUnpricedRowIsStoredAndSaysSo(t *testing.T) {
	t.Parallel()
	pool := pg.Pool(t)
	l := ledgerOn(t, pool, Config{})
	ingest(t, l, 1, 1, event(time.Now(), func(ev *ledgerv1.UsageEvent) { ev.ModelServed = "unheard-of" }))
	got, _, err := l.ListEntries(t.Context(), Filter{}, Page{})
	if err != nil || len(got) != 1 || !got[0].GetUnpriced() || got[0].GetCostNanos() != 0 || got[0].GetPriceNanos() != 360 {
		t.Errorf("entries %v, %v; want one that is unpriced on the cost side alone", got, err)
	}
	if got := count(t, pool, "SELECT count(*) FROM usage_ledger WHERE cost_nano IS NULL AND price_nano = 360"); got != 1 {
		t.Errorf("%d rows have no cost, want 1", got)
	}
	if got := imbalance(t, pool); got != 0 {
		t.Errorf("journal, batches and rows differ by %d", got)
	}
}

// One bad event must not hold up its batch, and must not get lost.
func TestBadEventGoesToQuarantineWithItsReason(t *testing.T) {
	t.Parallel()
	type E = ledgerv1.UsageEvent
	pool := pg.Pool(t)
	l := ledgerOn(t, pool, Config{})
	seq := uint64(1)
	for name, tc := range map[string]struct {
		reason string
		spoil  func(*E)
	}{
		"no id":             {reasonID, func(ev *E) { ev.RequestId = "" }},
		"foreign id":        {reasonID, func(ev *E) { ev.RequestId = "chatcmpl-\x00-1" }},
		"id of another":     {reasonID, func(ev *E) { ev.RequestId = ident.New(ident.Decision) }},
		"far ahead":         {reasonClock, func(ev *E) { ev.RequestId = ident.NewAt(ident.Request, time.Now().AddDate(0, 0, 3)) }},
		"far behind":        {reasonClock, func(ev *E) { ev.RequestId = ident.NewAt(ident.Request, time.Now().AddDate(-3, 0, 0)) }},
		"end far ahead":     {reasonClock, func(ev *E) { ev.OccurredAt = timestamppb.New(time.Now().AddDate(1, 0, 0)) }},
		"end is no time":    {reasonClock, func(ev *E) { ev.OccurredAt = &timestamppb.Timestamp{Nanos: -1} }},
		"kind of operators": {reasonKind, func(ev *E) { ev.Kind = ledgerv1.EntryKind_ENTRY_KIND_REFUND }},
		"unknown kind":      {reasonKind, func(ev *E) { ev.Kind = 99 }},
		"unknown outcome":   {reasonField, func(ev *E) { ev.Outcome = 99 }},
		"negative attempt":  {reasonField, func(ev *E) { ev.Attempt = -1 }},
		"seq of the ledger": {reasonField, func(ev *E) { ev.Seq = gatewaySeq }},
		"zero byte":         {reasonField, func(ev *E) { ev.ModelServed = "a\x00b" }},
		"long text":         {reasonField, func(ev *E) { ev.TenantId = strings.Repeat("x", 64) }},
		"too many labels": {reasonField, func(ev *E) {
			ev.Labels = map[string]string{}
			for i := range 9 {
				ev.Labels[fmt.Sprint(i)] = ""
			}
		}},
		"negative units":        {reasonUnits, func(ev *E) { ev.Units.Output = -1 }},
		"amount out of range":   {reasonOverflow, func(ev *E) { ev.Units.Input = math.MaxInt64 / 2 }},
		"hold out of range":     {reasonOverflow, func(ev *E) { ev.Kind, ev.Units.Output = ledgerv1.EntryKind_ENTRY_KIND_HOLD, math.MaxInt64 }},
		"factor without bottom": {reasonUnits, func(ev *E) { ev.PriceMultiplierNum = 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			rows, kept := count(t, pool, "SELECT count(*) FROM usage_ledger"), count(t, pool, "SELECT count(*) FROM usage_quarantine")
			events := usage(3)
			tc.spoil(events[1])
			for range 2 { // a replay finds it where it is
				ingest(t, l, seq, seq+2, events...)
			}
			seq += 3
			if got := count(t, pool, "SELECT count(*) FROM usage_ledger"); got != rows+2 {
				t.Errorf("%d new rows, want the 2 good ones", got-rows)
			}
			if got := count(t, pool, "SELECT count(*) FROM usage_quarantine"); got != kept+1 {
				t.Fatalf("%d events more in quarantine, want 1", got-kept)
			}
			var reason string
			var body []byte
			if err := pool.QueryRow(t.Context(), "SELECT reason, event FROM usage_quarantine ORDER BY recorded_at DESC LIMIT 1").Scan(&reason, &body); err != nil {
				t.Fatal(err)
			}
			ev := &ledgerv1.UsageEvent{}
			if err := proto.Unmarshal(body, ev); err != nil || reason != tc.reason || !proto.Equal(ev, events[1]) {
				t.Errorf("kept %v for %q, %v; want the whole event for %q", ev, reason, err, tc.reason)
			}
			if got := imbalance(t, pool); got != 0 {
				t.Errorf("journal, batches and rows differ by %d", got)
			}
		})
	}
}

func TestEventThatContradictsAStoredRowIsKept(t *testing.T) {
	t.Parallel()
	pool := pg.Pool(t)
	l := ledgerOn(t, pool, Config{})
	first := event(time.Now())
	other := proto.CloneOf(first)
	other.Units.Output++
	ingest(t, l, 1, 1, first)
	for range 2 {
		if got := ingest(t, l, 1, 1, other); got != 0 {
			t.Errorf("%d rows were new, want 0", got)
		}
	}
	if got := count(t, pool, "SELECT count(*) FROM usage_quarantine WHERE reason = $1", reasonConflict); got != 1 {
		t.Errorf("%d events in quarantine, want 1", got)
	}
	if got := sums(t, l); len(got) != 1 || got[0].Output != 10 {
		t.Errorf("sums are %+v, want those of the first event", got)
	}
}

func TestPartitionOfAnOldMonthIsMade(t *testing.T) {
	t.Parallel()
	pool := pg.Pool(t)
	l := ledgerOn(t, pool, Config{})
	old := time.Now().AddDate(0, -7, 0)
	if got := ingest(t, l, 1, 1, event(old)); got != 1 {
		t.Errorf("%d rows were new, want 1", got)
	}
	if got := count(t, pool, "SELECT count(*) FROM "+"usage_ledger_m"+old.UTC().Format("200601")); got != 1 {
		t.Errorf("%d rows in the partition, want 1", got)
	}
	// A partition that was detached is made again, once the error was seen.
	if _, err := pool.Exec(t.Context(), "ALTER TABLE usage_ledger DETACH PARTITION usage_ledger_m"+old.UTC().Format("200601")); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "ALTER TABLE usage_ledger_m"+old.UTC().Format("200601")+" RENAME TO kept_elsewhere"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Ingest(t.Context(), "nod_a", "boot_a", 2, 2, []*ledgerv1.UsageEvent{event(old)}); err == nil {
		t.Error("a row went into no partition")
	}
	if got := ingest(t, l, 2, 2, event(old)); got != 1 {
		t.Errorf("%d rows were new, want 1", got)
	}
}

func TestBatchThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	l := ledgerOn(t, pg.Pool(t), Config{MaxEvents: 2})
	for name, send := range map[string]func() (uint64, int64, error){
		"no node":         func() (uint64, int64, error) { return l.Ingest(t.Context(), "", "b", 1, 1, nil) },
		"no boot":         func() (uint64, int64, error) { return l.Ingest(t.Context(), "n", "", 1, 1, nil) },
		"own name":        func() (uint64, int64, error) { return l.Ingest(t.Context(), sweeperNode, "b", 1, 1, nil) },
		"zero byte":       func() (uint64, int64, error) { return l.Ingest(t.Context(), "n\x00", "b", 1, 1, nil) },
		"sequence 0":      func() (uint64, int64, error) { return l.Ingest(t.Context(), "n", "b", 0, 1, nil) },
		"backwards":       func() (uint64, int64, error) { return l.Ingest(t.Context(), "n", "b", 5, 4, nil) },
		"past 63 bits":    func() (uint64, int64, error) { return l.Ingest(t.Context(), "n", "b", 5, math.MaxUint64, nil) },
		"too many events": func() (uint64, int64, error) { return l.Ingest(t.Context(), "n", "b", 1, 3, usage(3)) },
		"no event": func() (uint64, int64, error) {
			return l.Ingest(t.Context(), "n", "b", 1, 1, []*ledgerv1.UsageEvent{nil})
		},
	} {
		if _, _, err := send(); !errors.Is(err, ErrBatch) {
			t.Errorf("%s: %v, want ErrBatch", name, err)
		}
	}
}

func TestNothingIsAcknowledgedWhilePricesCannotBeRead(t *testing.T) {
	t.Parallel()
	pool := pg.Pool(t)
	source := &fixedPrices{err: errors.New("gone")}
	c, err := NewCatalog(source, CatalogConfig{}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(pool, NewRater(c), Config{}, zerolog.Nop(), noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	if last, _, err := l.Ingest(t.Context(), "nod_a", "boot_a", 1, 1, []*ledgerv1.UsageEvent{event(time.Now())}); err == nil || errors.Is(err, ErrBatch) || last != 0 {
		t.Errorf("acknowledged up to %d, %v; want an error that may pass", last, err)
	}
	if got := count(t, pool, "SELECT (SELECT count(*) FROM usage_ledger) + (SELECT count(*) FROM usage_quarantine)"); got != 0 {
		t.Errorf("%d rows, want none", got)
	}
}

func folded(at time.Time) *ledgerv1.UsageEvent {
	return event(at, func(ev *ledgerv1.UsageEvent) { ev.Kind = ledgerv1.EntryKind_ENTRY_KIND_FOLDED })
}

// An event whose answer was lost is not counted both in a row and in a sum.
func TestSumsAndDetailOfOneRangeAreNotBothTaken(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, tc := range map[string]struct {
		first, second       [2]uint64
		firstSum, secondSum bool
		want                error
		rows                int64
	}{
		"sum of what is stored":                {[2]uint64{1, 100}, [2]uint64{20, 80}, false, true, nil, 1},
		"sum of more than is stored":           {[2]uint64{1, 100}, [2]uint64{50, 150}, false, true, ErrOverlap, 1},
		"sum around what is stored":            {[2]uint64{20, 80}, [2]uint64{1, 100}, false, true, ErrOverlap, 1},
		"sum beside what is stored":            {[2]uint64{1, 100}, [2]uint64{101, 200}, false, true, nil, 2},
		"detail of what is in a sum":           {[2]uint64{1, 100}, [2]uint64{20, 80}, true, false, nil, 1},
		"detail of more than is in a sum":      {[2]uint64{1, 100}, [2]uint64{50, 150}, true, false, ErrOverlap, 1},
		"the sum again":                        {[2]uint64{1, 100}, [2]uint64{1, 100}, true, true, nil, 1},
		"detail that overlaps detail is taken": {[2]uint64{1, 100}, [2]uint64{50, 150}, false, false, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pg.Pool(t)
			l := ledgerOn(t, pool, Config{})
			make1 := func(sum bool) *ledgerv1.UsageEvent {
				if sum {
					return folded(now)
				}
				return event(now)
			}
			ingest(t, l, tc.first[0], tc.first[1], make1(tc.firstSum))
			_, _, err := l.Ingest(t.Context(), "nod_a", "boot_a", tc.second[0], tc.second[1], []*ledgerv1.UsageEvent{make1(tc.secondSum)})
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if got := count(t, pool, "SELECT count(*) FROM usage_ledger"); got != tc.rows {
				t.Errorf("%d rows, want %d", got, tc.rows)
			}
		})
	}
}

// Whatever a node sends, a batch is taken whole: each event becomes a row or is
// kept in quarantine.
func TestNoEventHoldsUpItsBatch(t *testing.T) {
	t.Parallel()
	pool := pg.Pool(t)
	l := ledgerOn(t, pool, Config{})
	seq, sent := uint64(0), int64(0)
	now := time.Now()
	rapid.Check(t, func(rt *rapid.T) {
		anyText := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "m", "public", "\x00", "\xff\xfe", strings.Repeat("é", 513), "prv_a"}))
		anyUnits := rapid.Custom(func(t *rapid.T) *ledgerv1.Units {
			n := rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 1000))
			return &ledgerv1.Units{Input: n.Draw(t, "input"), CacheRead: n.Draw(t, "cache read"), Output: n.Draw(t, "output"), WebSearch: n.Draw(t, "searches")}
		})
		events := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *ledgerv1.UsageEvent {
			// Each field is spoiled now and then, so that some events are rows.
			spoil := func(field string, f func()) {
				if rapid.IntRange(0, 19).Draw(t, "spoil "+field) == 0 {
					f()
				}
			}
			return event(now, func(ev *ledgerv1.UsageEvent) {
				ev.Kind = ledgerv1.EntryKind(rapid.Int32Range(1, 2).Draw(t, "kind"))
				ev.Outcome = ledgerv1.AttemptOutcome(rapid.Int32Range(1, 7).Draw(t, "outcome"))
				spoil("kind", func() { ev.Kind = ledgerv1.EntryKind(rapid.Int32Range(-1, 9).Draw(t, "any kind")) })
				spoil("outcome", func() { ev.Outcome = ledgerv1.AttemptOutcome(rapid.Int32().Draw(t, "any outcome")) })
				spoil("purpose", func() { ev.Purpose = ledgerv1.Purpose(rapid.Int32Range(-1, 7).Draw(t, "any purpose")) })
				spoil("attempt", func() { ev.Attempt = rapid.Int32().Draw(t, "any attempt") })
				spoil("seq", func() { ev.Seq = rapid.Int32Range(-1, gatewaySeq).Draw(t, "any seq") })
				spoil("tenant", func() { ev.TenantId = anyText.Draw(t, "any tenant") })
				spoil("served", func() { ev.ModelServed = anyText.Draw(t, "any served") })
				spoil("requested", func() { ev.ModelRequested = anyText.Draw(t, "any requested") })
				spoil("region", func() { ev.Region = anyText.Draw(t, "any region") })
				spoil("pinned", func() { ev.CostVersion = anyText.Draw(t, "any pinned") })
				spoil("labels", func() { ev.Labels = rapid.MapOfN(anyText, anyText, 0, 2).Draw(t, "any labels") })
				spoil("status", func() { ev.UpstreamStatus = rapid.Int32().Draw(t, "any status") })
				spoil("generation", func() { ev.PolicyGeneration = rapid.Uint64().Draw(t, "any generation") })
				spoil("factor", func() {
					ev.PriceMultiplierNum, ev.PriceMultiplierDen = rapid.Int64().Draw(t, "num"), rapid.Int64Range(-1, 2).Draw(t, "den")
				})
				spoil("units", func() { ev.Units = anyUnits.Draw(t, "any units") })
				spoil("charged", func() { ev.ChargedUnits = anyUnits.Draw(t, "any charged") })
				spoil("end", func() { ev.OccurredAt = &timestamppb.Timestamp{Seconds: rapid.Int64().Draw(t, "any end")} })
			})
		}), 1, 4).Draw(rt, "events")
		seq++
		sent += int64(len(events))
		if _, _, err := l.Ingest(t.Context(), "nod_a", "boot_a", seq, seq, withoutFolds(events)); err != nil {
			rt.Fatal(err)
		}
		if got := count(t, pool, "SELECT (SELECT count(*) FROM usage_ledger) + (SELECT count(*) FROM usage_quarantine)"); got != sent {
			rt.Fatalf("%d rows and events in quarantine, want %d", got, sent)
		}
	})
	if got := imbalance(t, pool); got != 0 {
		t.Errorf("journal, batches and rows differ by %d", got)
	}
	closeAll(t, l, time.Now().Add(time.Hour))
	if got := count(t, pool, "SELECT count(*) FROM usage_hold"); got != 0 {
		t.Errorf("%d holds could not be closed", got)
	}
	rows := count(t, pool, "SELECT count(*) FROM usage_ledger")
	entries, _, err := l.ListEntries(t.Context(), Filter{}, Page{Size: 1000})
	if stored := len(entries); err != nil || int64(stored) != min(rows, 1000) || rows == 0 {
		t.Errorf("%d of %d rows read back, %v", len(entries), rows, err)
	}
	t.Logf("%d events: %d rows after closing", sent, rows)
}

// withoutFolds turns sums into settlements: sums and detail of one range do not mix.
func withoutFolds(events []*ledgerv1.UsageEvent) []*ledgerv1.UsageEvent {
	for _, ev := range events {
		if ev.GetKind() == ledgerv1.EntryKind_ENTRY_KIND_FOLDED {
			ev.Kind = ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT
		}
	}
	return events
}
