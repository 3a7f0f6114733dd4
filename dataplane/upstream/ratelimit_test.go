package upstream

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
)

func header(kv ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(kv); i += 2 {
		h.Set(kv[i], kv[i+1])
	}
	return h
}

func TestRateLimitsOfBothFamiliesAreRead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name string
		h    http.Header
		want []schedule.Observation
	}{
		{"durations", header(
			"x-ratelimit-limit-requests", "500", "x-ratelimit-remaining-requests", "499", "x-ratelimit-reset-requests", "120ms",
			"x-ratelimit-limit-tokens", "30000", "x-ratelimit-remaining-tokens", "100", "x-ratelimit-reset-tokens", "6m0s",
		), []schedule.Observation{
			{Dim: schedule.RPM, Limit: 500, Remaining: 499, Reset: 120 * time.Millisecond},
			{Dim: schedule.TPM, Limit: 30000, Remaining: 100, Reset: 6 * time.Minute},
		}},
		{"times", header(
			"anthropic-ratelimit-input-tokens-limit", "80000", "anthropic-ratelimit-input-tokens-remaining", "0",
			"anthropic-ratelimit-input-tokens-reset", now.Add(30*time.Second).Format(time.RFC3339),
		), []schedule.Observation{{Dim: schedule.ITPM, Limit: 80000, Remaining: 0, Reset: 30 * time.Second}}},
		{"unknown is not zero", header(
			"x-ratelimit-limit-requests", "-1", "x-ratelimit-remaining-requests", "-1",
			"x-ratelimit-limit-tokens", "many", "x-ratelimit-remaining-tokens", "5",
			"anthropic-ratelimit-tokens-limit", "100",
			"anthropic-ratelimit-requests-limit", "0", "anthropic-ratelimit-requests-remaining", "0",
		), nil},
		{"a reset that is over", header(
			"x-ratelimit-limit-requests", "5", "x-ratelimit-remaining-requests", "1", "x-ratelimit-reset-requests", now.Add(-time.Hour).Format(time.RFC3339),
		), []schedule.Observation{{Dim: schedule.RPM, Limit: 5, Remaining: 1}}},
		{"nothing", http.Header{}, nil},
	} {
		if diff := cmp.Diff(tc.want, RateLimits(tc.h, now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestAllowanceThatIsRenewedFirstCounts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	h := header(
		"anthropic-ratelimit-unified-5h-utilization", "0.4", "anthropic-ratelimit-unified-5h-reset", at(time.Hour),
		"anthropic-ratelimit-unified-7d-utilization", "0.9", "anthropic-ratelimit-unified-7d-reset", at(72*time.Hour),
		"anthropic-ratelimit-unified-status", "allowed",
	)
	got, ok := Allowances(h, now)
	if want := (Allowance{Left: 0.6, Reset: now.Add(time.Hour).Local(), Window: 5 * time.Hour}); !ok || !got.Reset.Equal(want.Reset) || got.Left != want.Left || got.Window != want.Window {
		t.Errorf("%+v, %v, want %+v", got, ok, want)
	}
	for _, bad := range []http.Header{
		{},
		header("anthropic-ratelimit-unified-5h-utilization", "0.4"),
		header("anthropic-ratelimit-unified-5h-utilization", "x", "anthropic-ratelimit-unified-5h-reset", at(time.Hour)),
		header("anthropic-ratelimit-unified-5h-utilization", "0.4", "anthropic-ratelimit-unified-5h-reset", at(-time.Hour)),
		header("anthropic-ratelimit-unified-weekly-utilization", "0.4", "anthropic-ratelimit-unified-weekly-reset", at(time.Hour)),
	} {
		if got, ok := Allowances(bad, now); ok {
			t.Errorf("%v gave %+v", bad, got)
		}
	}
}
