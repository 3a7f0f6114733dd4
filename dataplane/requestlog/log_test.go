package requestlog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect/v2"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// plane is a control plane that stores rows.
type plane struct {
	mu    sync.Mutex
	fail  error                              // guarded by mu
	rows  map[string]*ledgerv1.RequestRecord // guarded by mu
	lost  int64                              // guarded by mu
	calls int                                // guarded by mu
}

func (p *plane) IngestLogs(_ context.Context, b *ledgerv1.IngestLogsRequest) (*ledgerv1.IngestLogsResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.fail != nil {
		return nil, p.fail
	}
	if p.rows == nil {
		p.rows = make(map[string]*ledgerv1.RequestRecord)
	}
	for _, r := range b.GetRecords() {
		p.rows[r.GetRequestId()] = r
	}
	p.lost += b.GetLost()
	return &ledgerv1.IngestLogsResponse{}, nil
}

func (p *plane) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = err
}

func row(size int) *ledgerv1.RequestRecord {
	return &ledgerv1.RequestRecord{RequestId: ident.New(ident.Request), StartTime: timestamppb.Now(), FeaturesJson: string(make([]byte, size))}
}

func open(t testing.TB, dir string, cfg Config) *Log {
	t.Helper()
	l, err := Open(dir, cfg, zerolog.Nop(), noop.NewMeterProvider().Meter(""))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Rows that cannot be sent outlive the process, and arrive when the control plane is
// back.
func TestRowsSurviveAnOutageAndARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := new(plane)
		p.set(connect.NewError(connect.CodeUnavailable, "away"))
		first := open(t, dir, Config{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- first.Run(ctx, "nod_a", p) }()
		for range 700 {
			first.Put(row(100), false)
		}
		time.Sleep(time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if len(p.rows) != 0 || p.calls < 2 || p.calls > 20 {
			t.Errorf("%d rows arrived in %d calls; want none in a few", len(p.rows), p.calls)
		}
		p.set(nil)
		second := open(t, dir, Config{})
		second.Put(row(100), false)
		ctx, stop = context.WithCancel(t.Context())
		go func() { done <- second.Run(ctx, "nod_a", p) }()
		time.Sleep(10 * time.Second)
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if len(p.rows) != 701 || p.lost != 0 {
			t.Errorf("%d rows arrived and %d are told as lost, want 701 and none", len(p.rows), p.lost)
		}
	})
	left, _ := filepath.Glob(filepath.Join(dir, "*.rows"))
	size := int64(0)
	for _, f := range left {
		if info, err := os.Stat(f); err == nil {
			size += info.Size()
		}
	}
	if len(left) > 1 {
		t.Errorf("%d files of %d bytes are left of rows that arrived", len(left), size)
	}
}

// Every row arrives or is told as lost, whatever the bounds; memory and disk keep theirs.
func TestEveryRowArrivesOrIsCounted(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := filepath.Join(base, time.Duration(n).String())
		l := open(t, dir, Config{Memory: rapid.Int64Range(1000, 400_000).Draw(rt, "memory"), Spool: rapid.Int64Range(1<<20, 20<<20).Draw(rt, "spool"), Batch: 100})
		p := new(plane)
		put := int64(0)
		for range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			for range rapid.IntRange(0, 300).Draw(rt, "rows") {
				l.Put(row(rapid.SampledFrom([]int{10, 1000, 30_000, 70_000}).Draw(rt, "size")), false)
				put++
			}
			l.write()
			if l.bytes != 0 || l.spool.size > l.spool.most+segmentBytes {
				rt.Fatalf("%d bytes wait, %d are on disk", l.bytes, l.spool.size)
			}
			if rapid.Bool().Draw(rt, "send") {
				if _, err := l.send(t.Context(), "nod_a", p); err != nil {
					rt.Fatal(err)
				}
			}
		}
		if err := l.Drain(t.Context(), "nod_a", p); err != nil {
			rt.Fatal(err)
		}
		if got := int64(len(p.rows)) + p.lost; got != put {
			rt.Fatalf("%d rows arrived and %d are told as lost, of %d", len(p.rows), p.lost, put)
		}
	})
}

// A full spool gives up its oldest rows, and says how many.
func TestAFullSpoolLosesItsOldestRows(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), Config{Spool: 9 << 20})
	var ids []string
	for range 20 {
		for range 40 {
			r := row(30_000)
			ids = append(ids, r.GetRequestId())
			l.Put(r, false)
		}
		l.write()
	}
	p := new(plane)
	if err := l.Drain(t.Context(), "nod_a", p); err != nil {
		t.Fatal(err)
	}
	if p.lost == 0 || int64(len(p.rows))+p.lost != 800 || p.rows[ids[799]] == nil || p.rows[ids[0]] != nil {
		t.Errorf("%d rows arrived and %d are told as lost, of 800; the newest must be there and the oldest not", len(p.rows), p.lost)
	}
}

// who puts a row never waits, though nothing takes any.
func TestX1PutNeverWaits(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), Config{Memory: 100_000})
	for range 10_000 {
		l.Put(row(100), false)
	}
	if l.bytes > 100_000 || l.lost+int64(len(l.waiting)) != 10_000 {
		t.Errorf("%d bytes of %d rows wait and %d are lost, of 10000 rows in 100000 bytes", l.bytes, len(l.waiting), l.lost)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestEqualRefusalsAboveTenASecondAreOneRow(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), Config{})
	p := new(plane)
	refused := func(key, code string, second int64) {
		r := row(1)
		r.ApiKeyId, r.Code, r.StartTime = key, code, &timestamppb.Timestamp{Seconds: second}
		l.Put(r, true)
	}
	for range 100 {
		refused("key_a", "limit", 1000)
	}
	for range 5 {
		refused("key_b", "limit", 1000)
		refused("key_a", "other", 1000)
	}
	for range 30 {
		refused("key_a", "limit", 1001)
	}
	l.settle(time.Unix(2000, 0))
	l.write()
	if err := l.Drain(t.Context(), "nod_a", p); err != nil {
		t.Fatal(err)
	}
	sum, rows := map[string]int64{}, map[string]int{}
	for _, r := range p.rows {
		k := r.GetApiKeyId() + " " + r.GetCode()
		sum[k] += max(r.GetCount(), 1)
		rows[k]++
	}
	if sum["key_a limit"] != 130 || rows["key_a limit"] != 22 || rows["key_b limit"] != 5 || rows["key_a other"] != 5 {
		t.Errorf("rows %v stand for %v; want 22 for 130 of the first, and 5 of each other", rows, sum)
	}
	if len(l.folds) != 0 {
		t.Errorf("%d refusals are remembered for ever", len(l.folds))
	}
}

func TestADamagedSpoolLosesWhatIsDamagedAndNoMore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, Config{})
	for range 10 {
		l.Put(row(10), false)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.rows"))
	if len(files) != 1 {
		t.Fatalf("files %v", files)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-3] ^= 0xff // in the last row
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	p := new(plane)
	again := open(t, dir, Config{})
	again.Put(row(10), false)
	again.write()
	if err := again.Drain(t.Context(), "nod_a", p); err != nil {
		t.Fatal(err)
	}
	if len(p.rows) != 10 || p.lost != 1 {
		t.Errorf("%d rows arrived and %d are told as lost, want 10 and 1", len(p.rows), p.lost)
	}
	if err := errors.Join(again.Close(), nil); err != nil {
		t.Fatal(err)
	}
}
