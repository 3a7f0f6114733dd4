package sim

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var long = flag.Bool("long", false, "simulate hours instead of minutes, and the other ways to choose beside the scheduler")

// goal is what the scheduler promises in a situation.
type goal struct {
	situation
	share     float64       // cached share of the prompt tokens, of the bound
	over      float64       // p99 of the time to the first token, as a share over the bound's
	most      time.Duration // or its absolute value
	misplaced float64       // 0 for no promise
	limited   float64       // upstream 429 a call; negative for no promise
	failed    float64       // failed attempts a node and minute of an outage; 0 for no promise
}

var weights = []int32{4, 3, 2, 1, 1, 1}

func goals(length time.Duration) []goal {
	base := situation{nodes: 3, weights: weights, length: length, rate: 80, seed: 11}
	with := func(name string, change func(*situation)) situation {
		s := base
		s.name = name
		change(&s)
		return s
	}
	// A conversation of 23 turns sends about 43,000 tokens that are not cached.
	demand := base.rate * 50_000
	limits := func(factor float64) []float64 {
		out := make([]float64, len(weights))
		for i, w := range weights {
			out[i] = demand * factor * float64(w) / 12
		}
		return out
	}
	middle := length / 3
	return []goal{
		{situation: with("one node, no limits", func(s *situation) { s.nodes = 1 }), share: 0.98, over: 0.10, misplaced: 0.12, limited: -1},
		{situation: with("three nodes, no limits", func(*situation) {}), share: 0.98, over: 0.10, misplaced: 0.12, limited: -1},
		{situation: with("limits, half used", func(s *situation) { s.limits = limits(2) }), share: 0.98, over: 0.10, limited: 0.001},
		{situation: with("first priority too small", func(s *situation) {
			s.priority = []int32{2, 2, 2, 1, 1, 1}
			s.limits = limits(2)
		}), share: 0.96, over: 0.20, limited: -1},
		{situation: with("heaviest account down for 10 min", func(s *situation) {
			s.troubles = []trouble{{"crd_0", "down", middle, middle + 10*time.Minute}}
		}), share: 0.97, over: 0.15, limited: -1, failed: 2},
		{situation: with("heaviest account ten times slower for 10 min", func(s *situation) {
			s.troubles = []trouble{{"crd_0", "slow", middle, middle + 10*time.Minute}}
		}), share: 0.97, most: 3 * time.Second, limited: -1},
	}
}

// TestQualityGoals holds the scheduler to what it promises of caches, latency, shares
// and errors, in a fleet that shares no affinity state.
func TestQualityGoals(t *testing.T) {
	t.Parallel()
	length := 45 * time.Minute
	if raced {
		length = time.Minute
	}
	if *long {
		length = 2 * time.Hour
	}
	for _, g := range goals(length) {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			r := g.run(t, nil)
			g.check(t, r)
			t.Log(line("scheduler", g, r))
			if !*long {
				return
			}
			for _, peer := range peers {
				t.Log(line(peer.name, g, g.run(t, peer.make)))
			}
		})
	}
}

func line(name string, g goal, r *result) string {
	over := float64(p99(r.ttft))/float64(p99(r.boundTTFT)) - 1
	return fmt.Sprintf("%-20s %6d calls, %4d errors, cached %5.1f%% of the bound, p99 first token %5.2fs (%+.0f%%), misplaced %4.1f%%, %d limited, %d failed attempts, back after %v",
		name, r.calls, r.errors, 100*r.share(), p99(r.ttft).Seconds(), 100*over, 100*r.misplaced, r.limited, r.failed, r.back)
}

func (g goal) check(t *testing.T, r *result) {
	t.Helper()
	if r.errors > 0 {
		t.Errorf("%d of %d clients got an error", r.errors, r.calls)
	}
	if raced {
		return
	}
	got, bound := p99(r.ttft), p99(r.boundTTFT)
	if s := r.share(); s < g.share {
		t.Errorf("cached %.1f%% of the bound, want at least %.0f%%", 100*s, 100*g.share)
	}
	if g.most > 0 && got > g.most {
		t.Errorf("p99 of the first token %v, want at most %v", got, g.most)
	}
	if g.most == 0 && float64(got) > (1+g.over)*float64(bound) {
		t.Errorf("p99 of the first token %v, want at most %.0f%% over %v", got, 100*g.over, bound)
	}
	if g.misplaced > 0 && r.misplaced > g.misplaced {
		t.Errorf("%.1f%% of the tokens went elsewhere than the weights say, want at most %.0f%%", 100*r.misplaced, 100*g.misplaced)
	}
	if g.limited >= 0 && float64(r.limited) > g.limited*float64(r.calls) {
		t.Errorf("%d of %d calls met a limit upstream", r.limited, r.calls)
	}
	if r.back < 0 || r.back > 10*time.Minute {
		t.Errorf("the account has its share again %v after its trouble, want at most 10 min", r.back)
	}
	if g.failed > 0 {
		if perMinute := float64(r.failed) / 10 / float64(g.nodes); perMinute > g.failed {
			t.Errorf("%.1f failed attempts a node and minute, want at most %.0f", perMinute, g.failed)
		}
	}
}
