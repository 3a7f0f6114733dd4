package ledger

import (
	"errors"
	"slices"
	"testing"
	"time"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/google/go-cmp/cmp"
)

func TestListPagesNewestFirstAndMissesNothing(t *testing.T) {
	t.Parallel()
	l := ledgerOn(t, pg.Pool(t), Config{})
	now := time.Now()
	var want []string
	for i := range 25 {
		ev := event(now.Add(-time.Duration(i)*40*time.Hour), func(ev *ledgerv1.UsageEvent) { // over two months
			if i%2 == 1 {
				ev.TenantId, ev.ConsumerId = "ten_b", "con_b"
			}
		})
		ingest(t, l, uint64(i+1), uint64(i+1), ev)
		want = append(want, ev.GetRequestId())
	}
	list := func(f Filter, size int, between func()) []string {
		var got []string
		token := ""
		for {
			entries, next, err := l.ListEntries(t.Context(), f, Page{Size: size, Token: token})
			if err != nil {
				t.Fatal(err)
			}
			if len(entries) > size {
				t.Fatalf("a page of %d, want at most %d", len(entries), size)
			}
			for _, e := range entries {
				got = append(got, e.GetEvent().GetRequestId())
			}
			if token = next; token == "" {
				return got
			}
			between()
		}
	}
	for _, size := range []int{1, 7, 25, 1000} {
		if diff := cmp.Diff(want, list(Filter{}, size, func() {})); diff != "" {
			t.Errorf("pages of %d: %s", size, diff)
		}
	}
	odd := func(i int) bool { return i%2 == 1 }
	pick := func(keep func(int) bool) (out []string) {
		for i, id := range want {
			if keep(i) {
				out = append(out, id)
			}
		}
		return out
	}
	for name, tc := range map[string]struct {
		filter Filter
		want   []string
	}{
		"tenant":   {Filter{Tenant: "ten_b"}, pick(odd)},
		"consumer": {Filter{Consumer: "con_b"}, pick(odd)},
		"request":  {Filter{RequestID: want[3]}, want[3:4]},
		"foreign":  {Filter{RequestID: "chatcmpl-1"}, nil},
		// Row i ended a second after now - 40 i hours.
		"times": {Filter{From: now.Add(-10*40*time.Hour + time.Second), To: now.Add(-5*40*time.Hour + time.Second)}, want[6:11]},
	} {
		got := list(tc.filter, 3, func() {})
		if name == "times" { // the database keeps microseconds
			got = slices.DeleteFunc(got, func(id string) bool { return id == want[5] })
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("by %s: %s", name, diff)
		}
	}
	// Rows written between two pages move nothing.
	seq := uint64(100)
	got := list(Filter{}, 5, func() {
		ingest(t, l, seq, seq, event(time.Now()))
		seq++
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("while rows are written: %s", diff)
	}
}

func FuzzPageToken(f *testing.F) {
	f.Add("")
	f.Add(writeToken(place{"req_01j9zk3v8qf0h7m2x5r4t6w8y0", 1, 1, 0}))
	f.Fuzz(func(t *testing.T, token string) {
		p, day, err := readToken(token)
		if err != nil {
			if !errors.Is(err, ErrPageToken) {
				t.Fatalf("%q: %v", token, err)
			}
			return
		}
		again, sameDay, err := readToken(writeToken(p))
		if err != nil || again != p || !sameDay.Equal(day) {
			t.Fatalf("%q is read as %+v and again as %+v, %v", token, p, again, err)
		}
	})
}
