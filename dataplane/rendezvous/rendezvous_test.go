package rendezvous

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func winner(root string, weights map[string]int32) string {
	best, at := "", -1.0
	for member, w := range weights {
		if v := Value(root, member, w); v > at || v == at && member < best {
			best, at = member, v
		}
	}
	return best
}

// A member that leaves gives up what it had, and nothing else moves.
func TestOnlyWhatAMemberHadMovesWhenItLeaves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.MapOfN(rapid.StringMatching("[a-z]{1,8}"), rapid.Int32Range(1, 10_000), 2, 8).Draw(t, "members")
		root := rapid.String().Draw(t, "root")
		if u := Unit(root, "x"); u <= 0 || u >= 1 {
			t.Fatalf("unit %v", u)
		}
		before := winner(root, weights)
		gone := rapid.SampledFrom(slices.Sorted(maps.Keys(weights))).Draw(t, "gone")
		delete(weights, gone)
		if after := winner(root, weights); gone != before && after != before {
			t.Fatalf("%q moved from %s to %s when %s left", root, before, after, gone)
		}
	})
}

func TestSharesFollowWeights(t *testing.T) {
	t.Parallel()
	weights := map[string]int32{"a": 70, "b": 20, "c": 10}
	seen := map[string]float64{}
	const n = 20_000
	for i := range n {
		seen[winner(fmt.Sprint("root ", i), weights)]++
	}
	chi := 0.0
	for member, w := range weights {
		want := n * float64(w) / 100
		chi += (seen[member] - want) * (seen[member] - want) / want
	}
	if chi > 13.8 { // two degrees of freedom, one in a thousand
		t.Errorf("chi square %.1f for %v", chi, seen)
	}
}
