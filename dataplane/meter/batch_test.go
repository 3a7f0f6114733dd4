package meter

import (
	"os"
	"path/filepath"
	"testing"

	"connectrpc.com/connect/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

func TestInvalidEventIsFoundAndSetAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := mustOpen(t, dir, LogConfig{})
	m := mustMeter(t, l, Config{})
	f := &fakeLedger{answer: func(_ int, req *ledgerv1.IngestUsageRequest) (int, error) {
		for _, e := range req.Events {
			if e.RequestId == "req_bad" {
				return 0, connect.NewError(connect.CodeInvalidArgument, "event is not valid")
			}
		}
		return len(req.Events), nil
	}}
	s := mustShipper(t, l, f, ShipperConfig{})
	mustSettle(t, m, "req_1", 100)
	mustSettle(t, m, "req_bad", 1)
	mustSettle(t, m, "req_2", 100)
	if left, err := s.Drain(t.Context()); err != nil {
		t.Fatalf("Drain left %+v: %v", left, err)
	}
	want := append(wantKeys("req_1", 100), wantKeys("req_2", 100)...)
	if diff := cmp.Diff(want, f.keys()); diff != "" {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
	if n := len(f.calls); n > 40 {
		t.Errorf("%d calls to find one event in 201, want a search by halves", n)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "rejected-*.pb"))
	if len(files) != 1 {
		t.Fatalf("set aside: %v, want one file", files)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var e ledgerv1.UsageEvent
	if err := proto.Unmarshal(b, &e); err != nil || e.RequestId != "req_bad" {
		t.Errorf("file holds %v (%v), want the bad event", &e, err)
	}
}

func TestLedgerThatRefusesEverythingDoesNotEmptyTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := mustOpen(t, dir, LogConfig{})
	m := mustMeter(t, l, Config{})
	f := &fakeLedger{answer: func(int, *ledgerv1.IngestUsageRequest) (int, error) {
		return 0, connect.NewError(connect.CodeInvalidArgument, "no")
	}}
	s := mustShipper(t, l, f, ShipperConfig{MaxRejected: 3, BackoffMin: 1, BackoffMax: 1})
	mustSettle(t, m, "req_1", 20)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		_, _ = s.step(t.Context())
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "rejected-*.pb")); len(files) != 3 {
		t.Errorf("%d events set aside, want 3", len(files))
	}
	if got := s.Backlog().Events; got != 17 {
		t.Errorf("%d events wait, want 17", got)
	}
}

func TestUnsettledStretchDoesNotHoldBackTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := mustOpen(t, dir, LogConfig{SegmentBytes: 4 << 10, MaxBytes: 1 << 20})
	m := mustMeter(t, l, Config{})
	f := &fakeLedger{}
	s := mustShipper(t, l, f, ShipperConfig{BatchEvents: 5})
	for i := range int32(400) {
		if err := mustBegin(t, m, intent("req_unsent", i)).Release(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(f.calls) != 0 {
		t.Errorf("%d calls for attempts of which nothing is due", len(f.calls))
	}
	if n := len(segmentFiles(t, dir)); n != 1 {
		t.Errorf("%d segments are left, want one", n)
	}
	mustSettle(t, m, "req_1", 1)
	if _, err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := f.calls[0]; c.FirstSeq != 1 || c.LastSeq != l.Last() {
		t.Errorf("range is %d..%d, want 1..%d: what was passed in silence belongs to it", c.FirstSeq, c.LastSeq, l.Last())
	}
}

func TestL3OnlyRecordsOnDiskAreShipped(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), LogConfig{})
	m := mustMeter(t, l, Config{})
	f := &fakeLedger{}
	s := mustShipper(t, l, f, ShipperConfig{})
	mustSettle(t, m, "req_1", 1)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	mustSettle(t, m, "req_2", 1)
	for range 3 {
		if _, err := s.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(wantKeys("req_1", 1), f.keys()); diff != "" {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
}

func TestDamagedSettlementDoesNotStallTheShipper(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := mustOpen(t, dir, LogConfig{})
	m := mustMeter(t, l, Config{})
	f := &fakeLedger{}
	s := mustShipper(t, l, f, ShipperConfig{})
	mustSettle(t, m, "req_1", 1)
	end := l.Size()
	mustSettle(t, m, "req_2", 1)
	file, err := os.OpenFile(segmentFiles(t, dir)[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte{0, 0, 0, 0}, l.Size()-10); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte{0xff}, end-1); err != nil {
		t.Fatal(err)
	}
	if left, err := s.Drain(t.Context()); err != nil || left.Events != 0 {
		t.Errorf("Drain left %+v: %v", left, err)
	}
	if l.lost.Load() != 2 {
		t.Errorf("%d records are counted as lost, want 2", l.lost.Load())
	}
	mustSettle(t, m, "req_3", 1)
	if _, err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantKeys("req_3", 1), f.keys()); diff != "" {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
}
