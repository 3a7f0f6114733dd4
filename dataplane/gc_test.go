package dataplane

import "testing"

func TestGarbageIsBounded(t *testing.T) {
	t.Parallel()
	for live := uint64(1 << 16); live < 1<<36; live += live / 7 {
		percent := gcPercent(live)
		if percent < gcMinPercent || percent > gcMaxPercent {
			t.Fatalf("%d%% for %d live bytes", percent, live)
		}
		if garbage := live * uint64(percent) / 100; garbage > gcSlack && percent > gcMinPercent {
			t.Fatalf("%d bytes of garbage for %d live bytes, more than %d", garbage, live, gcSlack)
		}
	}
}
