package meter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

var errDown = errors.New("control plane is down")

// fakeLedger stores events as the ledger does: exactly once by their key.
type fakeLedger struct {
	mu    sync.Mutex // guards the fields below
	rows  map[string]*ledgerv1.UsageEvent
	calls []*ledgerv1.IngestUsageRequest
	times []time.Time
	next  map[string]uint64 // per boot, where the next range must begin at the latest
	gaps  []string

	// answer, if set, decides a call: how many events are stored, whether the
	// answer gets through.
	answer func(call int, req *ledgerv1.IngestUsageRequest) (store int, err error)
}

func rowKey(e *ledgerv1.UsageEvent) string {
	return fmt.Sprintf("%s/%d/%v/%d", e.RequestId, e.Attempt, e.Kind, e.Seq)
}

func (f *fakeLedger) IngestUsage(_ context.Context, req *ledgerv1.IngestUsageRequest) (*ledgerv1.IngestUsageResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rows == nil {
		f.rows, f.next = map[string]*ledgerv1.UsageEvent{}, map[string]uint64{}
	}
	f.calls, f.times = append(f.calls, req), append(f.times, time.Now())
	store, err := len(req.Events), error(nil)
	if f.answer != nil {
		store, err = f.answer(len(f.calls)-1, req)
	}
	var last uint64
	before := req.FirstSeq - 1
	for i, e := range req.Events {
		if e.LogSeq <= before || e.LogSeq > req.LastSeq {
			f.gaps = append(f.gaps, fmt.Sprintf("event %d lies outside %d..%d or is out of order", e.LogSeq, req.FirstSeq, req.LastSeq))
		}
		before = e.LogSeq
		if i < store {
			f.rows[rowKey(e)] = proto.CloneOf(e)
			last = e.LogSeq
		}
	}
	if store == len(req.Events) {
		last = req.LastSeq
	}
	if next, known := f.next[req.BootId]; known && req.FirstSeq > next {
		f.gaps = append(f.gaps, fmt.Sprintf("range %d..%d begins after %d", req.FirstSeq, req.LastSeq, next))
	}
	if last > 0 {
		f.next[req.BootId] = max(f.next[req.BootId], last+1)
	}
	return &ledgerv1.IngestUsageResponse{LastSeq: last, Inserted: int64(store)}, err
}

func (f *fakeLedger) keys() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.rows))
}

func mustShipper(t testing.TB, l *Log, to Ingester, cfg ShipperConfig) *Shipper {
	t.Helper()
	s, err := NewShipper(l, to, "nod_1", cfg, zerolog.Nop(), noMetrics)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustSettle(t testing.TB, m *Meter, request string, n int) {
	t.Helper()
	for i := range n {
		a := mustBegin(t, m, intent(request, int32(i+1)))
		if err := a.Settle(Settlement{Outcome: completed, Count: Count{Reported: &units{Output: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
}

func wantKeys(request string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%s/%d/%v/0", request, i+1, settlement))
	}
	slices.Sort(keys)
	return keys
}

func TestDrainShipsEverythingOnce(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), small())
	m := mustMeter(t, l, Config{})
	f := &fakeLedger{}
	s := mustShipper(t, l, f, ShipperConfig{BatchEvents: 7})
	mustSettle(t, m, "req_1", 50)
	if err := mustBegin(t, m, intent("req_unsent", 1)).Release(); err != nil {
		t.Fatal(err)
	}
	mustBegin(t, m, intent("req_open", 1))
	left, err := s.Drain(t.Context())
	if err != nil || left != (Backlog{}) {
		t.Errorf("Drain left %+v (%v), want nothing", left, err)
	}
	if diff := cmp.Diff(wantKeys("req_1", 50), f.keys()); diff != "" {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
	if len(f.gaps) > 0 {
		t.Error(f.gaps)
	}
	for _, c := range f.calls {
		if len(c.Events) > 7 || c.NodeId != "nod_1" || c.BootId != l.Boot() {
			t.Errorf("batch of %d events from %s, boot %s", len(c.Events), c.NodeId, c.BootId)
		}
	}
	if f.calls[0].FirstSeq != 1 {
		t.Errorf("the first range begins at %d, want 1", f.calls[0].FirstSeq)
	}
}

func TestBatchIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), LogConfig{})
	m := mustMeter(t, l, Config{})
	f := &fakeLedger{}
	s := mustShipper(t, l, f, ShipperConfig{BatchBytes: 2000})
	mustSettle(t, m, "req_1", 100)
	if _, err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range f.calls {
		if n := proto.Size(c); n > 3000 {
			t.Errorf("batch of %d bytes, want about 2000", n)
		}
	}
	if len(f.rows) != 100 {
		t.Errorf("%d rows, want 100", len(f.rows))
	}
}

// TestL1L3LostAnswersAndDuplicates ships through a ledger that fails, stores
// without answering, and stores a part, over restarts of the node.
func TestL1L3LostAnswersAndDuplicates(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "log")
		if err != nil {
			rt.Fatal(err)
		}
		f := &fakeLedger{}
		f.answer = func(_ int, req *ledgerv1.IngestUsageRequest) (int, error) {
			n := len(req.Events)
			switch rapid.SampledFrom([]string{"ok", "ok", "ok", "down", "lost", "part", "lost part"}).Draw(rt, "answer") {
			case "down":
				return 0, errDown
			case "lost":
				return n, errDown
			case "part":
				return rapid.IntRange(0, n).Draw(rt, "stored"), nil
			case "lost part":
				return rapid.IntRange(0, n).Draw(rt, "stored"), errDown
			}
			return n, nil
		}
		var want []string
		for boot := range rapid.IntRange(1, 3).Draw(rt, "boots") {
			l, err := Open(dir, small(), zerolog.Nop())
			if err != nil {
				rt.Fatal(err)
			}
			m, err := New(l, Config{}, zerolog.Nop(), noMetrics)
			if err != nil {
				rt.Fatal(err)
			}
			if _, err := m.Recover(t.Context()); err != nil {
				rt.Fatal(err)
			}
			s := mustShipper(t, l, f, ShipperConfig{BatchEvents: rapid.IntRange(1, 9).Draw(rt, "batch"), BackoffMin: 1, BackoffMax: 2})
			for i := range rapid.IntRange(0, 30).Draw(rt, "attempts") {
				e := intent(fmt.Sprint("req_", boot), int32(i+1))
				key := func(kind ledgerv1.EntryKind) string { return fmt.Sprintf("%s/%d/%v/0", e.RequestId, e.Attempt, kind) }
				settled, held := key(settlement), key(hold)
				a, err := m.Begin(t.Context(), e)
				if err != nil {
					rt.Fatal(err)
				}
				switch rapid.SampledFrom([]string{"settle", "settle", "release", "leave"}).Draw(rt, "end") {
				case "settle":
					err, want = a.Settle(Settlement{Outcome: completed}), append(want, settled)
				case "release":
					err = a.Release()
				case "leave":
					want = append(want, held)
				}
				if err != nil {
					rt.Fatal(err)
				}
			}
			if rapid.Bool().Draw(rt, "drain") {
				if left, err := s.Drain(t.Context()); err != nil || left.Events != 0 {
					rt.Fatalf("Drain left %+v: %v", left, err)
				}
			} else if err := l.Sync(); err != nil {
				rt.Fatal(err)
			} else if _, err := s.step(t.Context()); err != nil && !errors.Is(err, errDown) && !strings.Contains(err.Error(), "was stored") {
				rt.Fatal(err)
			}
			if err := l.Close(); err != nil {
				rt.Fatal(err)
			}
		}
		l, err := Open(dir, small(), zerolog.Nop())
		if err != nil {
			rt.Fatal(err)
		}
		defer l.Close()
		m, err := New(l, Config{}, zerolog.Nop(), noMetrics)
		if err != nil {
			rt.Fatal(err)
		}
		if _, err := m.Recover(t.Context()); err != nil {
			rt.Fatal(err)
		}
		f.answer = nil
		if _, err := mustShipper(t, l, f, ShipperConfig{}).Drain(t.Context()); err != nil {
			rt.Fatal(err)
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, f.keys(), cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
			rt.Fatalf("rows differ (-want +got):\n%s", diff)
		}
		if len(f.gaps) > 0 {
			rt.Fatal(f.gaps)
		}
	})
}

func TestDrainSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(dir, LogConfig{}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		m := mustMeter(t, l, Config{})
		f := &fakeLedger{answer: func(call int, req *ledgerv1.IngestUsageRequest) (int, error) {
			if call == 0 {
				return len(req.Events), nil
			}
			return 0, errDown
		}}
		s := mustShipper(t, l, f, ShipperConfig{BatchEvents: 4})
		mustSettle(t, m, "req_1", 10)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		left, err := s.Drain(ctx)
		if left.Events != 6 || left.Age != 10*time.Second {
			t.Errorf("left is %+v, want 6 events of 10 s", left)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "6 events") {
			t.Errorf("Drain: %v, want the deadline and the number left", err)
		}
	})
}

func TestRunSendsAFullBatchAtOnceAndOthersAfterLinger(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(dir, LogConfig{SyncInterval: time.Millisecond}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		m := mustMeter(t, l, Config{})
		f := &fakeLedger{}
		s := mustShipper(t, l, f, ShipperConfig{BatchEvents: 5, Linger: 200 * time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, run := range []func(context.Context) error{l.Run, s.Run} {
			wg.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		start := time.Now()
		mustSettle(t, m, "req_1", 2)
		time.Sleep(time.Second)
		mustSettle(t, m, "req_2", 5)
		time.Sleep(time.Second)
		synctest.Wait()
		var took []time.Duration
		for _, at := range f.times {
			took = append(took, at.Sub(start))
		}
		want := []time.Duration{201 * time.Millisecond, 1001 * time.Millisecond}
		if diff := cmp.Diff(want, took); diff != "" {
			t.Errorf("batches went at (-want +got):\n%s", diff)
		}
		if got := s.Backlog(); got != (Backlog{}) {
			t.Errorf("backlog is %+v, want none", got)
		}
		cancel()
		wg.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestRunRetriesForEverWithBoundedWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(dir, LogConfig{}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		m := mustMeter(t, l, Config{})
		start := time.Now()
		f := &fakeLedger{answer: func(_ int, req *ledgerv1.IngestUsageRequest) (int, error) {
			if time.Since(start) < 8*time.Hour {
				return 0, errDown
			}
			return len(req.Events), nil
		}}
		s := mustShipper(t, l, f, ShipperConfig{})
		mustSettle(t, m, "req_1", 3)
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(4 * time.Hour)
		if b := s.Backlog(); b.Events != 3 || b.Age != 4*time.Hour {
			t.Errorf("backlog is %+v, want 3 events of 4 h", b)
		}
		time.Sleep(4*time.Hour + 31*time.Second)
		synctest.Wait()
		if diff := cmp.Diff(wantKeys("req_1", 3), f.keys()); diff != "" {
			t.Errorf("rows differ (-want +got):\n%s", diff)
		}
		for i := 1; i < len(f.times); i++ {
			if d := f.times[i].Sub(f.times[i-1]); d > 30*time.Second+200*time.Millisecond {
				t.Fatalf("wait %d is %v, want at most 30 s and a linger", i, d)
			}
		}
		// Full jitter up to 30 s means 15 s on average: 1920 calls in 8 h.
		if n := len(f.calls); n < 1500 || n > 2400 {
			t.Errorf("%d calls in 8 h, want about 1920", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestHungCallEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(dir, LogConfig{}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		m := mustMeter(t, l, Config{})
		mustSettle(t, m, "req_1", 1)
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		s := mustShipper(t, l, hung{}, ShipperConfig{Timeout: 5 * time.Second})
		start := time.Now()
		if _, err := s.step(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 5*time.Second {
			t.Errorf("step ended after %v with %v, want the deadline after 5 s", time.Since(start), err)
		}
	})
}

type hung struct{}

func (hung) IngestUsage(ctx context.Context, _ *ledgerv1.IngestUsageRequest) (*ledgerv1.IngestUsageResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
