package sim

import (
	"testing"
	"time"
)

// Accounts near their limits, and one of them answers 503 for two seconds: those that
// remain must not be pushed over their limits one after the other until nobody serves.
func TestField_F03_CascadeDoesNotFollowOneFailure(t *testing.T) { testCascade(t) }

func testCascade(t *testing.T) {
	t.Parallel()
	length, rate := 20*time.Minute, 80.0
	if raced {
		length, rate = time.Minute, 20
	}
	limits := make([]float64, len(weights))
	for i, w := range weights {
		limits[i] = rate * 75_000 * float64(w) / 12 // about 85 % used
	}
	s := situation{
		nodes: 3, weights: weights, limits: limits, length: length, rate: rate, seed: 5,
		troubles: []trouble{{"crd_1", "down", length / 2, length/2 + 2*time.Second}},
	}
	r := s.run(t, nil)
	t.Log(line("scheduler", goal{situation: s}, r))
	if share := float64(r.errors) / float64(r.calls); share >= 0.01 {
		t.Errorf("%.1f%% of the clients got an error, want less than 1%%", 100*share)
	}
}
