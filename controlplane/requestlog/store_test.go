package requestlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/aidy-gateway/aidy-gateway/migrations"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"

	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg/pgtest"
)

var pg = pgtest.New(func(ctx context.Context, url string) error { return migrations.Up(ctx, url, nil) })

func TestMain(m *testing.M) { os.Exit(pg.Around(m).Run()) }

func open(t *testing.T) *Store {
	t.Helper()
	s, err := New(pg.Pool(t), Config{}, zerolog.New(zerolog.NewTestWriter(t)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func record(at time.Time, set func(*ledgerv1.RequestRecord)) *ledgerv1.RequestRecord {
	r := &ledgerv1.RequestRecord{
		RequestId: ident.NewAt(ident.Request, at), StartTime: timestamppb.New(at), TenantId: "ten_a", ModelRequested: "m", Status: 200,
		Outcome: "ok", DecisionId: ident.NewAt(ident.Decision, at), DecisionJson: `{"id":"x"}`, FeaturesJson: `{"model":"m"}`,
		Units:            &ledgerv1.Units{Input: 5, CacheRead: 7, Output: 3},
		UpstreamRequests: []*ledgerv1.UpstreamRequest{{CredentialId: "crd_a", Ok: true}},
	}
	if set != nil {
		set(r)
	}
	return r
}

func ingest(t *testing.T, s *Store, records ...*ledgerv1.RequestRecord) int64 {
	t.Helper()
	n, err := s.Ingest(t.Context(), "nod_a", records, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestARowThatComesTwiceIsKeptOnce(t *testing.T) {
	t.Parallel()
	s, now := open(t), time.Now()
	a, b := record(now, nil), record(now.Add(-time.Hour), nil)
	if n := ingest(t, s, a, b, a); n != 2 {
		t.Errorf("%d rows are new, want 2", n)
	}
	if n := ingest(t, s, b, a); n != 0 {
		t.Errorf("%d rows of a repeated batch are new, want none", n)
	}
	got, err := s.Get(t.Context(), a.GetRequestId())
	if err != nil {
		t.Fatal(err)
	}
	if got.GetInputTokens() != 12 || got.GetCachedTokens() != 7 || got.GetOutputTokens() != 3 || got.GetAttempts() != 1 || got.GetNodeId() != "nod_a" {
		t.Errorf("kept %v", got)
	}
	if got.GetRecord().GetFeaturesJson() != `{"model":"m"}` || got.GetRecord().GetDecisionJson() != `{"id":"x"}` {
		t.Errorf("the record is not whole: %v", got.GetRecord())
	}
	if d, err := s.Decided(t.Context(), b.GetDecisionId()); err != nil || d.GetRequestId() != b.GetRequestId() {
		t.Errorf("the decision leads to %v, %v; want %s", d.GetRequestId(), err, b.GetRequestId())
	}
	for _, id := range []string{ident.New(ident.Request), "nothing", ""} {
		if _, err := s.Get(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v, want that it is not found", id, err)
		}
	}
}

func TestPagesHoldEveryRowOnceNewestFirst(t *testing.T) {
	t.Parallel()
	s, now := open(t), time.Now().Truncate(time.Millisecond)
	var all []*ledgerv1.RequestRecord
	for i := range 25 {
		all = append(all, record(now.Add(-time.Duration(i/3)*time.Second), func(r *ledgerv1.RequestRecord) { // three at a time
			if i%5 == 0 {
				r.TenantId, r.Status, r.Outcome = "ten_b", 503, "no_candidate"
			}
		}))
	}
	ingest(t, s, all...)
	walk := func(f Filter) (ids []string) {
		for token := ""; ; {
			list, next, err := s.List(t.Context(), f, 4, token)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range list {
				ids = append(ids, fmt.Sprintf("%d/%s", m.GetCreateTime().AsTime().UnixMilli(), m.GetRequestId()))
				if m.GetRecord() != nil {
					t.Error("a list holds whole records")
				}
			}
			if token = next; token == "" {
				return ids
			}
		}
	}
	window := Filter{From: now.Add(-time.Hour), To: now.Add(time.Hour)}
	got := walk(window)
	if len(slices.Compact(slices.Clone(got))) != 25 || !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("%d rows on the pages, want each of 25 once, the newest first: %v", len(got), got)
	}
	for _, tc := range []struct {
		name string
		set  func(*Filter)
		want int
	}{
		{"tenant", func(f *Filter) { f.Tenants = []string{"ten_b"} }, 5},
		{"no tenant", func(f *Filter) { f.Tenants = []string{} }, 0},
		{"status", func(f *Filter) { f.MinStatus = 500 }, 5},
		{"outcome", func(f *Filter) { f.Outcome = "ok" }, 20},
		{"model", func(f *Filter) { f.Model = "other" }, 0},
		{"window", func(f *Filter) { f.From = now.Add(-time.Second) }, 6},
		{"window's end", func(f *Filter) { f.To = now }, 22},
	} {
		f := window
		tc.set(&f)
		if got := walk(f); len(got) != tc.want {
			t.Errorf("%s: %d rows, want %d", tc.name, len(got), tc.want)
		}
	}
	for _, token := range []string{"!", "YWJj", "fA"} {
		if _, _, err := s.List(t.Context(), window, 4, token); !errors.Is(err, ErrPageToken) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	var scanned []time.Time
	if err := s.Scan(t.Context(), window, func(r *ledgerv1.RequestRecord) error {
		scanned = append(scanned, r.GetStartTime().AsTime())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(scanned) != 25 || !slices.IsSortedFunc(scanned, time.Time.Compare) {
		t.Errorf("the scan has %d rows, want 25 in the order of time", len(scanned))
	}
}

// partitions are made ahead and dropped, and what no partition can take is counted.
func TestX3PartitionsAreMadeAheadAndDropped(t *testing.T) {
	t.Parallel()
	s := open(t)
	if _, err := s.pool.Exec(t.Context(), "SELECT aidy_ensure_request_log('2020-01-05 12:00:00+00')"); err != nil {
		t.Fatal(err)
	}
	if err := s.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var days []string
	rows, err := s.pool.Query(t.Context(), "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'request\\_log\\_d%' ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		days = append(days, name)
	}
	if rows.Err() != nil || len(days) != 5 || days[4] != "request_log_d"+time.Now().UTC().AddDate(0, 0, 3).Format("20060102") {
		t.Errorf("partitions %v, want yesterday's to that of three days ahead; %v", days, rows.Err())
	}
	n, err := s.Ingest(t.Context(), "nod_a", []*ledgerv1.RequestRecord{
		record(time.Now(), nil), record(time.Now().AddDate(0, 0, -20), nil), record(time.Now().AddDate(1, 0, 0), nil),
		record(time.Now(), func(r *ledgerv1.RequestRecord) { r.RequestId = "junk" }),
		record(time.Now(), func(r *ledgerv1.RequestRecord) { r.ModelRequested = "a\x00b" }),
	}, 4)
	if err != nil || n != 2 {
		t.Errorf("%d rows are new, want 2: %v", n, err)
	}
	var lost int64
	if err := s.pool.QueryRow(t.Context(), "SELECT sum(lost) FROM request_log_gap").Scan(&lost); err != nil || lost != 7 {
		t.Errorf("%d rows are told as lost, want 7: %v", lost, err)
	}
}
