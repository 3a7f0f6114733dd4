package meter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric/noop"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

var noMetrics = noop.NewMeterProvider().Meter("")

func mustMeter(t testing.TB, l *Log, cfg Config) *Meter {
	t.Helper()
	m, err := New(l, cfg, zerolog.Nop(), noMetrics)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Recover(t.Context()); err != nil {
		t.Fatalf("Recover: %v", err)
	}
	return m
}

func intent(request string, attempt int32) *ledgerv1.UsageEvent {
	return &ledgerv1.UsageEvent{
		RequestId: request, Attempt: attempt, TenantId: "ten_1", ModelRequested: "large", Purpose: ledgerv1.Purpose_PURPOSE_SERVE,
		Units: &units{Input: 100, Output: 400},
	}
}

func mustBegin(t testing.TB, m *Meter, e *ledgerv1.UsageEvent) *Attempt {
	t.Helper()
	a, err := m.Begin(t.Context(), e)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return a
}

// settles decodes the SETTLE records of the log.
func settles(t testing.TB, l *Log) []*ledgerv1.Settle {
	t.Helper()
	var out []*ledgerv1.Settle
	for _, r := range readAll(t, l) {
		if r.Type != TypeSettle {
			continue
		}
		s := &ledgerv1.Settle{}
		if err := proto.Unmarshal(r.Payload, s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func TestIntentIsInTheLogBeforeBeginReturns(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), LogConfig{})
	m := mustMeter(t, l, Config{})
	mustBegin(t, m, intent("req_1", 1))
	recs := readAll(t, l)
	if len(recs) != 1 || recs[0].Type != TypeIntent {
		t.Fatalf("log holds %v, want one INTENT", recs)
	}
	var got ledgerv1.Intent
	if err := proto.Unmarshal(recs[0].Payload, &got); err != nil {
		t.Fatal(err)
	}
	want := intent("req_1", 1)
	want.ChargedUnits = &units{}
	if diff := cmp.Diff(want, got.Event, protocmp.Transform()); diff != "" {
		t.Errorf("intent differs (-want +got):\n%s", diff)
	}
}

func TestQ4AttemptIsSettledExactlyOnce(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), LogConfig{})
	m := mustMeter(t, l, Config{})
	a := mustBegin(t, m, intent("req_1", 1))
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			err := a.Settle(Settlement{Outcome: completed, Count: Count{Reported: &units{Output: int64(i)}}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(a.Release(), a.Close(), a.Progress(Progress{})); err != nil {
		t.Error(err)
	}
	if got := len(readAll(t, l)); got != 2 {
		t.Errorf("log holds %d records, want INTENT and one SETTLE", got)
	}
	if got := m.Open(); got != 0 {
		t.Errorf("%d attempts are open, want 0", got)
	}
}

func TestSettleIsCompleteInItself(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), LogConfig{})
	m := mustMeter(t, l, Config{})
	e := intent("req_1", 2)
	e.Labels = map[string]string{"team": "red"}
	e.ChargedUnits = ChargeInput.Units(e.Units)
	a := mustBegin(t, m, e)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	err := a.Settle(Settlement{
		Outcome: completed, Count: Count{Reported: &units{Input: 90, Output: 7}, Final: true},
		ModelServed: "large-2026", ProviderRequestID: "abc", UpstreamStatus: 200, ServiceTier: "flex", At: at,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := intent("req_1", 2)
	want.Labels = map[string]string{"team": "red"}
	want.Kind, want.Outcome, want.UsageSource = settlement, completed, provider
	want.Units = &units{Input: 90, Output: 7}
	want.ModelServed, want.ProviderRequestId, want.UpstreamStatus, want.ServiceTier = "large-2026", "abc", 200, "flex"
	got := settles(t, l)[0]
	if s := got.Event.OccurredAt.AsTime(); !s.Equal(at) {
		t.Errorf("occurred at %v, want %v", s, at)
	}
	got.Event.OccurredAt = nil
	if diff := cmp.Diff(&ledgerv1.Settle{IntentSeq: 1, Event: want}, got, protocmp.Transform()); diff != "" {
		t.Errorf("settlement differs (-want +got):\n%s", diff)
	}
}

func TestUnsentAttemptLeavesNoRow(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), LogConfig{})
	m := mustMeter(t, l, Config{})
	if err := mustBegin(t, m, intent("req_1", 1)).Release(); err != nil {
		t.Fatal(err)
	}
	want := []*ledgerv1.Settle{{IntentSeq: 1}}
	if diff := cmp.Diff(want, settles(t, l), protocmp.Transform()); diff != "" {
		t.Errorf("settlements differ (-want +got):\n%s", diff)
	}
}

func TestQ4PanicLeavesNoAttemptOpen(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), LogConfig{})
	m := mustMeter(t, l, Config{})
	func() {
		defer func() { _ = recover() }()
		a := mustBegin(t, m, intent("req_1", 1))
		defer a.Close()
		if err := a.Progress(Progress{Units: &units{Output: 33}, ModelServed: "large-2026"}); err != nil {
			t.Fatal(err)
		}
		panic("a defect")
	}()
	if got := m.Open(); got != 0 {
		t.Fatalf("%d attempts are open, want 0", got)
	}
	e := settles(t, l)[0].Event
	if e.Kind != hold || e.Outcome != unknown || e.UsageSource != estimated || e.ModelServed != "large-2026" {
		t.Errorf("event is %v, want a hold with outcome unknown", e)
	}
	if diff := cmp.Diff(&units{Input: 100, Output: 33}, e.Units, protocmp.Transform()); diff != "" {
		t.Errorf("units differ (-want +got):\n%s", diff)
	}
	if e.ChargedUnits == nil || proto.Size(e.ChargedUnits) != 0 {
		t.Errorf("charged units are %v, want zeros", e.ChargedUnits)
	}
}

func TestProviderTextCannotSpoilASettlement(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), LogConfig{})
	m := mustMeter(t, l, Config{})
	e := intent("req_1", 1)
	e.ModelRequested = "\xff" + strings.Repeat("é", 400)
	a := mustBegin(t, m, e)
	bad := strings.Repeat("日", 300) + "\xc3"
	err := a.Settle(Settlement{Outcome: broken, ModelServed: bad, ServiceTier: bad, ProviderRequestID: bad, ErrorClass: bad, UpstreamStatus: -7})
	if err != nil {
		t.Fatal(err)
	}
	got := settles(t, l)[0].Event
	for text, limit := range map[string]int{
		got.ModelRequested: 512, got.ModelServed: 512, got.ServiceTier: 63, got.ProviderRequestId: 256, got.ErrorClass: 63,
	} {
		if len(text) > limit || len(text) < limit-3 || !utf8.ValidString(text) {
			t.Errorf("text of %d bytes, valid %v, want at most %d valid ones", len(text), utf8.ValidString(text), limit)
		}
	}
}

func TestFullLogRefusesAttempts(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, t.TempDir(), small())
	m := mustMeter(t, l, Config{})
	if err := m.Ready(); err != nil {
		t.Fatalf("Ready at first: %v", err)
	}
	var open []*Attempt
	for i := int32(1); ; i++ {
		a, err := m.Begin(t.Context(), intent("req_1", i))
		if err != nil {
			if !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrFull) {
				t.Fatalf("Begin: %v, want ErrUnavailable and ErrFull", err)
			}
			break
		}
		open = append(open, a)
	}
	if err := m.Ready(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Ready: %v, want ErrUnavailable", err)
	}
	if err := open[0].Settle(Settlement{Outcome: completed}); err != nil {
		t.Errorf("an attempt under way cannot be settled: %v", err)
	}
	if got, want := m.Open(), int64(len(open)-1); got != want {
		t.Errorf("%d attempts are open, want %d", got, want)
	}
}

func TestRefusedSettlementIsWrittenLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(dir, LogConfig{}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		m := mustMeter(t, l, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		a := mustBegin(t, m, intent("req_1", 1))
		synctest.Wait()
		write := l.writeAt
		l.writeAt = func(f *os.File, _ []byte, _ int64) (int, error) { return 0, unix.ENOSPC }
		for range 2 {
			if err := a.Settle(Settlement{Outcome: completed, Count: Count{Reported: &units{Output: 5}}}); !errors.Is(err, ErrNoSpace) {
				t.Fatalf("Settle: %v, want ErrNoSpace", err)
			}
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if m.Open() != 1 {
			t.Fatal("the attempt is settled although nothing could be written")
		}
		l.mu.Lock()
		l.writeAt = write
		l.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		got := settles(t, l)
		if len(got) != 1 || got[0].Event.Units.Output != 5 || m.Open() != 0 {
			t.Errorf("settlements %v, %d open; want the one refused before", got, m.Open())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestSyncAlwaysSettlesOnDisk(t *testing.T) {
	t.Parallel()
	for mode, want := range map[SyncMode]uint64{SyncGroup: 0, SyncAlways: 2} {
		l := mustOpen(t, t.TempDir(), LogConfig{})
		m := mustMeter(t, l, Config{Sync: mode})
		if err := mustBegin(t, m, intent("req_1", 1)).Settle(Settlement{Outcome: completed}); err != nil {
			t.Fatal(err)
		}
		if got := l.Durable(); got != want {
			t.Errorf("mode %d: durable is %d after Settle, want %d", mode, got, want)
		}
	}
}

func TestLongStreamDoesNotHoldBackTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := mustOpen(t, dir, small())
	m := mustMeter(t, l, Config{})
	long := mustBegin(t, m, intent("req_long", 1))
	turnover := func() {
		for i := range int32(40) {
			if err := mustBegin(t, m, intent("req_short", i)).Settle(Settlement{Outcome: completed}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := l.Ack(l.Last()); err != nil {
			t.Fatal(err)
		}
	}
	turnover()
	held := len(segmentFiles(t, dir))
	if held < 2 {
		t.Fatal("the segment of an open attempt was deleted")
	}
	if err := long.Progress(Progress{Units: &units{Input: 90, Output: 7}}); err != nil {
		t.Fatal(err)
	}
	turnover()
	if got := readAll(t, l)[0].Seq; got == 1 {
		t.Errorf("the log still starts with record 1")
	}
	// The INTENT that was written anew is one attempt, not two.
	mustClose(t, l)
	l = mustOpen(t, dir, small())
	m, err := New(l, Config{}, zerolog.Nop(), noMetrics)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Recover(t.Context())
	if err != nil || r != (Recovery{Unknown: 1}) {
		t.Fatalf("Recover found %+v (%v), want one unknown attempt", r, err)
	}
	all := settles(t, l)
	if e := all[len(all)-1].Event; e.RequestId != "req_long" || e.Units.Output != 7 || e.Units.Input != 90 {
		t.Errorf("recovered %v, want the long stream with its progress", e)
	}
}

func TestL3RecoverySettlesOpenAttemptsOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := mustOpen(t, dir, LogConfig{})
	m := mustMeter(t, l, Config{})
	charged := intent("req_2", 1)
	charged.ChargedUnits = ChargeInput.Units(charged.Units)
	mustBegin(t, m, intent("req_1", 1))
	a := mustBegin(t, m, charged)
	for n := range int64(3) {
		if err := a.Progress(Progress{Units: &units{Input: 101, Output: n}, ModelServed: "m"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(mustBegin(t, m, intent("req_1", 2)).Settle(Settlement{Outcome: completed}), mustBegin(t, m, intent("req_3", 1)).Release()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	for round, want := range []Recovery{{Unknown: 2}, {}, {}} {
		l = mustOpen(t, dir, LogConfig{})
		m, err := New(l, Config{}, zerolog.Nop(), noMetrics)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Recover(t.Context()); err != nil || got != want {
			t.Fatalf("start %d found %+v (%v), want %+v", round, got, err, want)
		}
		mustClose(t, l)
	}
	l = mustOpen(t, dir, LogConfig{})
	var got []string
	for _, s := range settles(t, l) {
		if e := s.Event; e.GetOutcome() == unknown {
			got = append(got, fmt.Sprintf("%s/%d %v in=%d out=%d charged=%d", e.RequestId, e.Attempt, e.Kind, e.Units.Input, e.Units.Output, e.ChargedUnits.Input))
		}
	}
	want := []string{
		"req_1/1 ENTRY_KIND_HOLD in=100 out=400 charged=0",
		"req_2/1 ENTRY_KIND_HOLD in=101 out=2 charged=100",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("recovered settlements differ (-want +got):\n%s", diff)
	}
}

func TestUndecodableRecordsAreCountedNotFatal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := mustOpen(t, dir, LogConfig{})
	mustAppend(t, l, TypeIntent, "\xff\xff\xff")
	mustAppend(t, l, TypeIntent, "\x0a\x02\x12\x05")
	mustAppend(t, l, TypeSettle, "")
	mustClose(t, l)
	l = mustOpen(t, dir, LogConfig{})
	m, err := New(l, Config{}, zerolog.Nop(), noMetrics)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := m.Recover(t.Context()); err != nil || r != (Recovery{Unreadable: 3}) {
		t.Errorf("Recover found %+v (%v), want 3 unreadable", r, err)
	}
	if _, err := os.Stat(filepath.Join(dir, segmentName(1))); err != nil {
		t.Error(err)
	}
}

func TestBeginNeedsARequestID(t *testing.T) {
	t.Parallel()
	m := mustMeter(t, mustOpen(t, t.TempDir(), LogConfig{}), Config{})
	if _, err := m.Begin(t.Context(), &ledgerv1.UsageEvent{}); err == nil || errors.Is(err, ErrUnavailable) {
		t.Errorf("Begin without a request id: %v, want a plain error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Begin(ctx, intent("req_1", 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Begin after the client left: %v, want context.Canceled", err)
	}
}

func benchEvent() *ledgerv1.UsageEvent {
	return &ledgerv1.UsageEvent{
		RequestId: ident.New(ident.Request), Attempt: 1, TenantId: ident.New(ident.Tenant), ProjectId: ident.New(ident.Project),
		ConsumerId: ident.New(ident.Consumer), ApiKeyId: ident.New(ident.ConsumerAPIKey), RouteId: ident.New(ident.Route),
		ProviderId: ident.New(ident.Provider), UpstreamId: ident.New(ident.Upstream), CredentialId: ident.New(ident.UpstreamCredential),
		ModelRequested: "large", ModelRouted: "large-latest", Class: "interactive", Purpose: ledgerv1.Purpose_PURPOSE_SERVE,
		Units: &units{Input: 1000, Output: 500}, Protocol: "openai_chat", Stream: true,
	}
}

// BenchmarkAttempt records one attempt: INTENT and SETTLE.
func BenchmarkAttempt(b *testing.B) {
	l := benchLog(b)
	m, err := New(l, Config{}, zerolog.Nop(), noMetrics)
	if err != nil {
		b.Fatal(err)
	}
	event := benchEvent()
	count := Count{Reported: &units{Input: 1000, Output: 300}, Final: true}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		a, err := m.Begin(ctx, event)
		if err != nil {
			b.Fatal(err)
		}
		if err := a.Settle(Settlement{Outcome: completed, Count: count, ModelServed: "large-2026", ProviderRequestID: "chatcmpl-1"}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(l.Size())/float64(b.N), "wal-B/op")
}
