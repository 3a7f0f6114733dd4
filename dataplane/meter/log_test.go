package meter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestReadReturnsWhatWasAppended(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), LogConfig{})
	var want []Record
	for i, typ := range []Type{TypeIntent, TypeProgress, TypeSettle} {
		payload := strings.Repeat("x", i+1)
		seq := mustAppend(t, l, typ, payload)
		want = append(want, Record{Seq: seq, Boot: l.Boot(), Type: typ, Payload: []byte(payload)})
	}
	if diff := cmp.Diff(want, readAll(t, l)); diff != "" {
		t.Errorf("records differ (-want +got):\n%s", diff)
	}
}

func TestDirectoryHasOneOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := mustOpen(t, dir, LogConfig{})
	_, err := Open(dir, LogConfig{}, zerolog.Nop())
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("second Open: %v, want ErrLocked that names process %d", err, os.Getpid())
	}
	mustClose(t, l)
	mustOpen(t, dir, LogConfig{})
}

func TestConfigOutOfRangeIsRefused(t *testing.T) {
	t.Parallel()
	for _, cfg := range []LogConfig{
		{SegmentBytes: 100},
		{MaxBytes: 10 << 20, SegmentBytes: 5 << 20},
		{AlertAt: 2},
		{RefuseAt: -1},
		{SyncInterval: -1},
	} {
		if _, err := Open(t.TempDir(), cfg, zerolog.Nop()); err == nil {
			t.Errorf("Open with %+v succeeded", cfg)
		}
	}
}

func TestClosedLogRefusesUse(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), LogConfig{})
	mustClose(t, l)
	_, appendErr := l.Append(TypeIntent, nil)
	_, syncErr := l.AppendSync(TypeSettle, nil)
	_, readErr := l.ReadFrom(0, 1, 1)
	for name, err := range map[string]error{
		"Append": appendErr, "AppendSync": syncErr, "ReadFrom": readErr, "Sync": l.Sync(),
		"Recovered": l.Recovered(), "Refusing": l.Refusing(),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestOversizedPayloadIsRefused(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), LogConfig{})
	mustAppend(t, l, TypeSettle, strings.Repeat("x", MaxPayload))
	if _, err := l.Append(TypeSettle, make([]byte, MaxPayload+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Append: %v, want ErrTooLarge", err)
	}
	if got := len(readAll(t, l)); got != 1 {
		t.Errorf("log holds %d records, want 1", got)
	}
}

// TestL3LogEqualsItsModel drives a log through appends, reopens and
// acknowledgements and compares what it holds with a plain list.
func TestL3LogEqualsItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "meter")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		cfg := LogConfig{SegmentBytes: 4 << 10, MaxBytes: 1 << 20}
		open := func() *Log {
			l, err := Open(dir, cfg, zerolog.Nop())
			if err != nil {
				rt.Fatalf("Open: %v", err)
			}
			if n := l.Report().DamageFinds; n > 0 {
				rt.Fatalf("Open found %d damages in a sound log: %+v", n, l.Report().Damage)
			}
			if err := l.Recovered(); err != nil {
				rt.Fatal(err)
			}
			return l
		}
		l := open()
		defer func() { l.Close() }()
		var (
			model []Record
			acked uint64
			boots = map[string]bool{l.Boot(): true}
		)
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				typ := rapid.SampledFrom([]Type{TypeIntent, TypeProgress, TypeSettle}).Draw(rt, "type")
				payload := rapid.SliceOfN(rapid.Byte(), 0, 1500).Draw(rt, "payload")
				seq, err := l.Append(typ, payload)
				if err != nil {
					rt.Fatalf("Append: %v", err)
				}
				if n := len(model); n > 0 && seq <= model[n-1].Seq {
					rt.Fatalf("number %d after %d", seq, model[n-1].Seq)
				}
				model = append(model, Record{Seq: seq, Boot: l.Boot(), Type: typ, Payload: payload})
			},
			"reopen": func(rt *rapid.T) {
				if err := l.Close(); err != nil {
					rt.Fatal(err)
				}
				l = open()
				if boots[l.Boot()] {
					rt.Fatalf("boot id %s came twice", l.Boot())
				}
				boots[l.Boot()] = true
			},
			"sync": func(rt *rapid.T) {
				if err := l.Sync(); err != nil {
					rt.Fatal(err)
				}
				if l.Durable() != l.Last() {
					rt.Fatalf("durable is %d after a sync, want %d", l.Durable(), l.Last())
				}
			},
			"ack": func(rt *rapid.T) {
				if len(model) == 0 {
					return
				}
				seq := model[rapid.IntRange(0, len(model)-1).Draw(rt, "at")].Seq
				if err := l.Ack(seq); err != nil {
					rt.Fatalf("Ack(%d): %v", seq, err)
				}
				acked = max(acked, seq)
			},
			"": func(rt *rapid.T) {
				if l.Acked() != acked {
					rt.Fatalf("position is %d, want %d", l.Acked(), acked)
				}
				from := uint64(0)
				if len(model) > 0 {
					from = model[rapid.IntRange(0, len(model)-1).Draw(rt, "from")].Seq
				}
				from = max(from, acked+1)
				want := slices.DeleteFunc(slices.Clone(model), func(r Record) bool { return r.Seq < from })
				var got []Record
				for next := from; ; {
					recs, err := l.ReadFrom(next, 5, 3000)
					if err != nil {
						rt.Fatal(err)
					}
					if len(recs) == 0 {
						break
					}
					for _, r := range recs[1:] {
						if r.Boot != recs[0].Boot {
							rt.Fatalf("one read returned boots %s and %s", recs[0].Boot, r.Boot)
						}
					}
					got = append(got, recs...)
					next = recs[len(recs)-1].Seq + 1
				}
				if len(got) != len(want) {
					rt.Fatalf("read %d records from %d, want %d", len(got), from, len(want))
				}
				for i := range got {
					g, w := got[i], want[i]
					if g.Seq != w.Seq || g.Boot != w.Boot || g.Type != w.Type || string(g.Payload) != string(w.Payload) {
						rt.Fatalf("record %d is %+v, want %+v", i, g, w)
					}
				}
			},
		})
	})
}

func TestConcurrentAppendsKeepEveryRecord(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 200
	l := mustOpen(t, t.TempDir(), LogConfig{SegmentBytes: 4 << 10, MaxBytes: 1 << 20})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				payload := fmt.Appendf(nil, "%d/%d", w, i)
				var err error
				if i%20 == 0 {
					_, err = l.AppendSync(TypeSettle, payload)
				} else {
					_, err = l.Append(TypeSettle, payload)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			if err := l.Sync(); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	seen := map[string]int{}
	for i, r := range readAll(t, l) {
		seen[string(r.Payload)]++
		if want := uint64(i + 1); r.Seq != want {
			t.Fatalf("record %d has number %d, want %d", i, r.Seq, want)
		}
	}
	if len(seen) != writers*each {
		t.Errorf("log holds %d different records, want %d", len(seen), writers*each)
	}
}

func TestAppendSyncWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), LogConfig{})
	mustAppend(t, l, TypeIntent, "i")
	if l.Durable() >= 1 {
		t.Fatal("a record is called durable before any sync")
	}
	seq, err := l.AppendSync(TypeSettle, []byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	if l.Durable() < seq {
		t.Errorf("durable is %d when AppendSync returns %d", l.Durable(), seq)
	}
}

func TestRunSyncsOneIntervalAfterTheFirstAppend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(dir, LogConfig{SyncInterval: 20 * time.Millisecond}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		time.Sleep(time.Second) // the new segment itself is synced
		mustAppend(t, l, TypeSettle, "a")
		time.Sleep(20*time.Millisecond - time.Nanosecond)
		mustAppend(t, l, TypeSettle, "b")
		if got := l.Durable(); got != 0 {
			t.Errorf("durable is %d before the interval ends, want 0", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := l.Durable(); got != 2 {
			t.Errorf("durable is %d after the interval, want 2", got)
		}
		mustAppend(t, l, TypeSettle, "c")
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if got := l.Durable(); got != 3 {
			t.Errorf("durable is %d after Run ended, want 3", got)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAckDeletesWhollyShippedSegmentsFromTheFront(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := mustOpen(t, dir, small())
	var pinned place
	for i := range 40 {
		p, err := l.append(TypeIntent, make([]byte, 500), place{}, appendOpts{pin: i == 10})
		if err != nil {
			t.Fatal(err)
		}
		if i == 10 {
			pinned = p
		}
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	before := len(segmentFiles(t, dir))
	if err := l.Ack(l.Last()); err != nil {
		t.Fatal(err)
	}
	if got := len(segmentFiles(t, dir)); got != before {
		t.Fatalf("%d segments left before recovery is over, want all %d", got, before)
	}
	if err := l.Recovered(); err != nil {
		t.Fatal(err)
	}
	if got := segmentFiles(t, dir)[0]; got != pinned.seg.path {
		t.Errorf("oldest segment is %s, want the pinned %s", got, pinned.seg.path)
	}
	if _, err := l.append(TypeSettle, nil, pinned, appendOpts{}); err != nil {
		t.Fatal(err)
	}
	if err := l.Ack(l.Last()); err != nil {
		t.Fatal(err)
	}
	if got := segmentFiles(t, dir); len(got) != 1 {
		t.Errorf("%d segments left when all is shipped, want the one being written: %v", len(got), got)
	}
	if info, err := os.Stat(segmentFiles(t, dir)[0]); err != nil || info.Size() != l.Size() {
		t.Errorf("Size is %d, file is %v (%v)", l.Size(), info.Size(), err)
	}
	if err := l.Ack(l.Last() + 1); err == nil {
		t.Error("a number that was never written was acknowledged")
	}
}

func TestUnsyncedSegmentIsNotDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := mustOpen(t, dir, small())
	if err := l.Recovered(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		mustAppend(t, l, TypeSettle, strings.Repeat("x", 500))
	}
	if err := l.Ack(l.Last()); err != nil {
		t.Fatal(err)
	}
	if got := len(segmentFiles(t, dir)); got < 3 {
		t.Errorf("%d segments left, want all: none is synced", got)
	}
}

func TestIntentIsRefusedBeforeSettle(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), small())
	if err := l.Recovered(); err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, 200)
	var last uint64
	fill := func(typ Type) float64 {
		for {
			seq, err := l.Append(typ, payload)
			if errors.Is(err, ErrFull) {
				return l.Fill()
			}
			if err != nil {
				t.Fatal(err)
			}
			last = seq
		}
	}
	if got := fill(TypeIntent); got < 0.94 || got > 0.95 {
		t.Errorf("INTENT is refused at a fill of %.3f, want just below 0.95", got)
	}
	if err := l.Refusing(); !errors.Is(err, ErrFull) {
		t.Errorf("Refusing: %v, want ErrFull", err)
	}
	if got := fill(TypeSettle); got < 0.99 || got > 1 {
		t.Errorf("SETTLE is refused at a fill of %.3f, want just below 1", got)
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := l.Ack(last); err != nil {
		t.Fatal(err)
	}
	if err := l.Refusing(); err != nil {
		t.Errorf("Refusing after everything was shipped: %v", err)
	}
	mustAppend(t, l, TypeIntent, "room again")
}

func TestFailedWriteLeavesTheLogSound(t *testing.T) {
	t.Parallel()
	for _, cut := range []int{0, 1, 16, 17, 30} {
		t.Run(fmt.Sprintf("%d bytes written", cut), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := mustOpen(t, dir, LogConfig{})
			mustAppend(t, l, TypeIntent, "before")
			write := l.writeAt
			l.writeAt = func(f *os.File, b []byte, off int64) (int, error) {
				n, _ := write(f, b[:cut], off)
				return n, &os.PathError{Op: "write", Path: f.Name(), Err: unix.ENOSPC}
			}
			if _, err := l.Append(TypeSettle, make([]byte, 64)); !errors.Is(err, ErrNoSpace) {
				t.Fatalf("Append on a full disk: %v, want ErrNoSpace", err)
			}
			if err := l.Refusing(); !errors.Is(err, ErrNoSpace) {
				t.Errorf("Refusing: %v, want ErrNoSpace", err)
			}
			l.writeAt = write
			mustAppend(t, l, TypeIntent, "after")
			if err := l.Refusing(); err != nil {
				t.Errorf("Refusing with space again: %v", err)
			}
			mustClose(t, l)
			l = mustOpen(t, dir, LogConfig{})
			if r := l.Report(); r.DamageFinds != 0 || r.Records != 2 {
				t.Errorf("report is %+v, want 2 records and no damage", r)
			}
		})
	}
}

func TestSettleFitsWhenNoSegmentCanBeCreated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := mustOpen(t, dir, small())
	for l.Size() < small().SegmentBytes-100 {
		mustAppend(t, l, TypeIntent, "an attempt that is under way")
	}
	write := l.writeAt
	l.writeAt = func(f *os.File, b []byte, off int64) (int, error) {
		if off == 0 {
			return 0, &os.PathError{Op: "write", Path: f.Name(), Err: unix.ENOSPC}
		}
		return write(f, b, off)
	}
	if _, err := l.Append(TypeIntent, make([]byte, 200)); !errors.Is(err, ErrNoSpace) {
		t.Errorf("INTENT without a segment: %v, want ErrNoSpace", err)
	}
	mustAppend(t, l, TypeSettle, strings.Repeat("s", 200))
	if err := l.Refusing(); !errors.Is(err, ErrNoSpace) {
		t.Errorf("Refusing: %v, want ErrNoSpace although a SETTLE fitted", err)
	}
	l.writeAt = write
	mustAppend(t, l, TypeIntent, strings.Repeat("i", 200))
	want := readAll(t, l)
	mustClose(t, l)
	l = mustOpen(t, dir, small())
	if diff := cmp.Diff(want, readAll(t, l)); diff != "" {
		t.Errorf("records differ after reopening (-want +got):\n%s", diff)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*.wal*")); len(names) != 3 {
		t.Errorf("files are %v, want three segments", names)
	}
}

func TestFillMarksAreReportedOnce(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	l, err := Open(t.TempDir(), small(), zerolog.New(&out))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for {
		if _, err := l.Append(TypeIntent, make([]byte, 300)); err != nil {
			break
		}
	}
	for _, msg := range []string{"alert mark", "nearly full", "new calls are refused"} {
		if got := strings.Count(out.String(), msg); got < 1 || got > 2 {
			t.Errorf("%q was logged %d times, want once a passing:\n%s", msg, got, out.String())
		}
	}
}
