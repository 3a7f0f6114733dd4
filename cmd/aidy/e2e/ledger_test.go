package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

// entries reads every ledger row of the world, the oldest request and attempt first.
func (w *world) entries(t *testing.T) []*adminv1.LedgerEntry {
	t.Helper()
	var out []*adminv1.LedgerEntry
	req := &adminv1.ListEntriesRequest{TenantId: w.tenant, PageSize: 500}
	for {
		page, err := w.f.admin.ledger.ListEntries(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, page.GetEntries()...)
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			slices.Reverse(out)
			return out
		}
	}
}

// rows waits until the ledger has n rows of the world, and fails if it has more, or if
// one attempt has two.
func (w *world) rows(t *testing.T, n int) []*adminv1.LedgerEntry {
	t.Helper()
	var got []*adminv1.LedgerEntry
	eventually(t, fmt.Sprintf("%d ledger rows of %s", n, w.name), func() error {
		if got = w.entries(t); len(got) < n {
			return fmt.Errorf("%d rows", len(got))
		}
		return nil
	})
	if len(got) != n {
		t.Errorf("%d ledger rows, want %d:\n%s", len(got), n, rowText(got))
	}
	seen := map[string]bool{}
	for _, e := range got {
		id := fmt.Sprintf("%s/%d", e.GetEvent().GetRequestId(), e.GetEvent().GetAttempt())
		if seen[id] {
			t.Errorf("attempt %s has two rows:\n%s", id, rowText(got))
		}
		seen[id] = true
	}
	return got
}

// rowText shows rows in the messages of a failing test.
func rowText(rows []*adminv1.LedgerEntry) string {
	var b strings.Builder
	for _, e := range rows {
		ev := e.GetEvent()
		fmt.Fprintf(&b, "  %s/%d %s %s %s units %v models %q %q %q %q cost %d %s price %d %s unpriced %v\n",
			ev.GetRequestId(), ev.GetAttempt(), ev.GetKind(), ev.GetOutcome(), ev.GetUsageSource(), ev.GetUnits(),
			ev.GetModelRequested(), ev.GetModelRouted(), ev.GetModelServed(), e.GetModelBilled(),
			e.GetCostNanos(), e.GetCostCurrency(), e.GetPriceNanos(), e.GetPriceCurrency(), e.GetUnpriced())
	}
	return b.String()
}
