package ledger

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/money"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/proto"
)

func moneyOf(n int64) money.Amount { return money.Amount(n) }

func poolOf(t testing.TB, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// unknown is an attempt with an estimate of 100 input and 50 output tokens.
func unknown(change ...func(*ledgerv1.UsageEvent)) *ledgerv1.UsageEvent {
	ev := event(time.Now(), func(ev *ledgerv1.UsageEvent) {
		ev.Kind = ledgerv1.EntryKind_ENTRY_KIND_HOLD
		ev.Outcome = ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_UNKNOWN
		ev.UsageSource = ledgerv1.UsageSource_USAGE_SOURCE_ESTIMATED
		ev.Units = &ledgerv1.Units{Input: 100, Output: 50, Request: 1}
	})
	for _, f := range change {
		f(ev)
	}
	return ev
}

// settled is the truth about the attempt: 100 input and 10 output tokens.
func settled(hold *ledgerv1.UsageEvent) *ledgerv1.UsageEvent {
	ev := proto.CloneOf(hold)
	ev.Kind, ev.Outcome = ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT, ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED
	ev.UsageSource = ledgerv1.UsageSource_USAGE_SOURCE_PROVIDER
	ev.Units = &ledgerv1.Units{Input: 100, Output: 10, Request: 1}
	return ev
}

// total adds up all rows, over currencies.
func total(t testing.TB, l *Ledger) Sum {
	t.Helper()
	var out Sum
	for _, s := range sums(t, l) {
		out.Rows += s.Rows
		out.Unpriced += s.Unpriced
		out.Cost += s.Cost
		out.Price += s.Price
		out.Input += s.Input
		out.Output += s.Output
	}
	return out
}

func closeAll(t testing.TB, l *Ledger, at time.Time) int {
	t.Helper()
	n, err := l.closeHolds(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestHoldIsClosedAfterTenMinutesWithTheEstimatedCost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		policy UnknownCharge
		change func(*ledgerv1.UsageEvent)
		cost   money.Amount
		price  money.Amount
	}{
		"none":            {ChargeNone, func(*ledgerv1.UsageEvent) {}, 200, 0},
		"input":           {ChargeInput, func(*ledgerv1.UsageEvent) {}, 200, 300},
		"reserved":        {ChargeReserved, func(*ledgerv1.UsageEvent) {}, 200, 600},
		"said by node":    {ChargeNone, func(ev *ledgerv1.UsageEvent) { ev.ChargedUnits = &ledgerv1.Units{Output: 1} }, 200, 6},
		"of a probe":      {ChargeReserved, func(ev *ledgerv1.UsageEvent) { ev.Purpose = ledgerv1.Purpose_PURPOSE_PROBE }, 200, 0},
		"settled unknown": {ChargeNone, func(ev *ledgerv1.UsageEvent) { ev.Kind = ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT }, 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pg.Pool(t)
			l := ledgerOn(t, pool, Config{Unknown: tc.policy})
			start := time.Now()
			ev := unknown(tc.change)
			for range 2 {
				ingest(t, l, 1, 1, ev)
			}
			if got, want := total(t, l), (Sum{Rows: 1, Input: 100, Output: 50}); got != want {
				t.Errorf("while held: %+v, want %+v", got, want)
			}
			if n := closeAll(t, l, start.Add(10*time.Minute-time.Second)); n != 0 {
				t.Errorf("%d holds closed a second early", n)
			}
			end := time.Now().Add(10 * time.Minute)
			if n := closeAll(t, l, end); n != 1 {
				t.Errorf("%d holds closed, want 1", n)
			}
			want := Sum{Rows: 3, Cost: tc.cost, Price: tc.price, Input: 100, Output: 50}
			if got := total(t, l); got != want {
				t.Errorf("after closing: %+v, want %+v", got, want)
			}
			ingest(t, l, 1, 1, ev) // a replay does not open it again
			if n := closeAll(t, l, end.Add(time.Hour)); n != 0 || total(t, l) != want {
				t.Errorf("%d holds closed once more; sums %+v, want %+v", n, total(t, l), want)
			}
			entries, _, err := l.ListEntries(t.Context(), Filter{RequestID: ev.GetRequestId()}, Page{})
			if err != nil || len(entries) != 3 {
				t.Fatalf("%d entries, %v; want 3", len(entries), err)
			}
			var kinds []string
			for _, e := range entries {
				kinds = append(kinds, kindName(e.GetEvent().GetKind()))
				if e.GetEvent().GetKind() != ledgerv1.EntryKind_ENTRY_KIND_HOLD && e.GetRefEntryId() != entries[1].GetEntryId() {
					t.Errorf("%s points at %q, want the hold", kinds[len(kinds)-1], e.GetRefEntryId())
				}
			}
			if diff := cmp.Diff([]string{"hold_release", "hold", "settlement"}, kinds); diff != "" {
				t.Error(diff)
			}
			if e := entries[2].GetEvent(); e.GetUsageSource() != ledgerv1.UsageSource_USAGE_SOURCE_ESTIMATED || e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_UNKNOWN {
				t.Errorf("settled as %v, %v", e.GetUsageSource(), e.GetOutcome())
			}
			if got := imbalance(t, pool); got != 0 {
				t.Errorf("journal, batches and rows differ by %d", got)
			}
			if n, err := l.VerifyChain(t.Context(), sweeperNode, sweeperBoot); err != nil || n != 1 {
				t.Errorf("%d sound batches, %v; want 1", n, err)
			}
		})
	}
}

// Whenever the truth arrives, it alone is in the sums, once.
func TestLateSettlementIsNotCountedTwice(t *testing.T) {
	t.Parallel()
	const hold, truth, sweep = 'h', 's', 'c'
	for _, order := range []string{"hs", "sh", "hsc", "shc", "hcs", "hcss", "hchsc", "hccs", "shcsc"} {
		for _, policy := range []UnknownCharge{ChargeNone, ChargeReserved} {
			t.Run(order, func(t *testing.T) {
				t.Parallel()
				pool := pg.Pool(t)
				l := ledgerOn(t, pool, Config{HoldFor: time.Nanosecond, Unknown: policy})
				held := unknown()
				for _, step := range order {
					switch step {
					case hold:
						ingest(t, l, 1, 1, held)
					case truth:
						ingest(t, l, 2, 2, settled(held))
					case sweep:
						closeAll(t, l, time.Now().Add(time.Second))
					}
				}
				closeAll(t, l, time.Now().Add(time.Second))
				got := total(t, l)
				got.Rows = 0
				if want := (Sum{Cost: 120, Price: 360, Input: 100, Output: 10}); got != want {
					t.Errorf("sums %+v, want %+v", got, want)
				}
				if got := count(t, pool, "SELECT count(*) FROM usage_hold"); got != 0 {
					t.Errorf("%d holds are left", got)
				}
				if got := imbalance(t, pool); got != 0 {
					t.Errorf("journal, batches and rows differ by %d", got)
				}
			})
		}
	}
}

// Replicas that sweep while nodes settle: each hold is closed once, and each
// attempt counted once.
func TestSweepersAndSettlementsRace(t *testing.T) {
	t.Parallel()
	pool := pg.Pool(t)
	l := ledgerOn(t, pool, Config{HoldFor: time.Nanosecond, Unknown: ChargeReserved})
	const n = 400
	held := make([]*ledgerv1.UsageEvent, n)
	for i := range held {
		held[i] = unknown()
	}
	ingest(t, l, 1, n, held...)

	var wg sync.WaitGroup
	var mu sync.Mutex
	closed := 0
	for range 3 {
		wg.Go(func() {
			for range 5 {
				got, err := l.closeHolds(t.Context(), time.Now().Add(time.Second))
				mu.Lock()
				closed += got
				mu.Unlock()
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 3 {
		wg.Go(func() {
			order := rand.Perm(n)
			for len(order) > 0 {
				var part []*ledgerv1.UsageEvent
				for _, i := range order[:20] {
					part = append(part, settled(held[i]))
				}
				order = order[20:]
				if _, _, err := l.Ingest(t.Context(), "nod_b", "boot_b", n+1, 2*n, part); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	closed += closeAll(t, l, time.Now().Add(time.Second))
	if closed != n {
		t.Errorf("%d holds closed, want %d", closed, n)
	}
	got := total(t, l)
	got.Rows = 0
	if want := (Sum{Cost: 120 * n, Price: 360 * n, Input: 100 * n, Output: 10 * n}); got != want {
		t.Errorf("sums %+v, want %+v", got, want)
	}
	if got := imbalance(t, pool); got != 0 {
		t.Errorf("journal, batches and rows differ by %d", got)
	}
	for _, chain := range [][2]string{{"nod_b", "boot_b"}, {sweeperNode, sweeperBoot}} {
		if _, err := l.VerifyChain(t.Context(), chain[0], chain[1]); err != nil {
			t.Error(err)
		}
	}
}

func TestRunClosesHoldsAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	pool := pg.Pool(t)
	l := ledgerOn(t, pool, Config{HoldFor: time.Nanosecond, SweepInterval: time.Millisecond})
	ingest(t, l, 1, 1, unknown())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	for count(t, pool, "SELECT count(*) FROM usage_hold") != 0 && t.Context().Err() == nil {
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run returned %v, want nil", err)
	}
	if got := total(t, l); got.Cost != 200 {
		t.Errorf("cost %d, want 200", got.Cost)
	}
}
