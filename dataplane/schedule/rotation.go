package schedule

import (
	"sync"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// rotations holds the turns of smooth weighted round-robin, for each tenant and
// model.
type rotations struct {
	byKey *xsync.Map[string, *rotation]
}

type rotation struct {
	mu      sync.Mutex
	current map[string]int64 // by account id; guarded by mu
}

func newRotations() rotations { return rotations{byKey: xsync.NewMap[string, *rotation]()} }

// next picks the winner among the given candidates and charges it.
func (r *rotations) next(candidates []plan.Candidate, among []int) int {
	if len(among) == 1 {
		return among[0]
	}
	rot, _ := r.byKey.LoadOrCompute(candidates[among[0]].RotationKey, func() (*rotation, bool) {
		return &rotation{current: make(map[string]int64)}, false
	})
	rot.mu.Lock()
	defer rot.mu.Unlock()
	return rot.pick(candidates, among)
}

// pick is one step of smooth weighted round-robin: everyone gains its weight, the
// richest wins, the first id among equals, and pays what all gained together. So a
// heavy account's turns are spread out, and after a whole round every account has
// had its share exactly. Credit is bound to four rounds, so that an account that
// was away does not take a long run of turns when it returns. The caller holds rot.mu.
func (rot *rotation) pick(candidates []plan.Candidate, among []int) int {
	total := int64(0)
	winner, best := -1, int64(0)
	for _, i := range among {
		a := candidates[i].Account
		total += int64(a.Weight)
		credit := rot.current[a.ID] + int64(a.Weight)
		rot.current[a.ID] = credit
		if winner < 0 || credit > best || credit == best && a.ID < candidates[winner].ID {
			winner, best = i, credit
		}
	}
	rot.current[candidates[winner].ID] -= total
	for _, i := range among {
		id := candidates[i].ID
		rot.current[id] = min(max(rot.current[id], -4*total), 4*total)
	}
	if len(rot.current) > 4*len(candidates)+64 {
		rot.forget(candidates)
	}
	return winner
}

// forget drops accounts that are gone from the configuration. The caller holds rot.mu.
func (rot *rotation) forget(candidates []plan.Candidate) {
	kept := make(map[string]int64, len(candidates))
	for i := range candidates {
		if n, ok := rot.current[candidates[i].ID]; ok {
			kept[candidates[i].ID] = n
		}
	}
	rot.current = kept
}

// resorts bounds last resorts to one a second and candidate.
type resorts struct {
	last *xsync.Map[string, time.Time]
}

func newResorts() resorts { return resorts{last: xsync.NewMap[string, time.Time]()} }

func (r *resorts) take(id string, now time.Time) bool {
	taken := false
	r.last.Compute(id, func(old time.Time, loaded bool) (time.Time, xsync.ComputeOp) {
		if loaded && now.Sub(old) < time.Second {
			return old, xsync.CancelOp
		}
		taken = true
		return now, xsync.UpdateOp
	})
	return taken
}
