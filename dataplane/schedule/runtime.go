package schedule

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// AccountState is what runs on a credential and what is known of it, for operators. An
// upstream that needs no credential stands under its own id.
type AccountState struct {
	Credential string
	InFlight   int64 // attempts
	Waiting    int64 // requests that wait for one of its slots
	Failures   int64 // in a row
	Invalid    *Rest // it failed to authenticate and is out until it is restored
	Quota      *QuotaState
	Health     []HealthState
	Rotation   []RotationState
}

// QuotaState is what is left of an allowance that expires.
type QuotaState struct {
	Left   float64 // share, in [0, 1]
	Reset  time.Time
	Window time.Duration
}

// HealthState is what is known of a credential's latency and reliability for one model.
type HealthState struct {
	Model     string
	TTFT      float64   // ms, without the time of reading the prompt; 0 if nothing is known
	At        time.Time // of the last sample of TTFT
	ErrorRate float64   // in [0, 1]
	Samples   float64   // that the error rate stands on, each fading with time
}

// RotationState is the credit of a credential in the rotation of a model.
type RotationState struct {
	Upstream, Model string
	Stage           string
	Credit          int64
}

// Accounts returns the state of every credential that a selection ever looked at, by id.
func (s *Scheduler) Accounts(now time.Time) []AccountState {
	byID := make(map[string]*AccountState)
	s.credentials.Range(func(key string, c *credential) bool {
		a := &AccountState{Credential: key, Failures: c.fails.Load(), Invalid: c.invalidity(false, now)}
		if q := c.quota.Load(); q != nil {
			a.Quota = &QuotaState{Left: q.left, Reset: q.reset, Window: q.window}
		}
		if sl, ok := s.slots.byKey.Load("c:" + key); ok {
			sl.mu.Lock()
			waiting := int64(len(sl.tickets))
			sl.mu.Unlock()
			a.InFlight, a.Waiting = sl.running.Load(), waiting
		}
		byID[key] = a
		return true
	})
	s.healths.Range(func(key string, h *health) bool {
		id, model, _ := strings.Cut(key, "|")
		if a := byID[id]; a != nil {
			if state := h.report(now); state != (HealthState{}) {
				state.Model = model
				a.Health = append(a.Health, state)
			}
		}
		return true
	})
	s.turns.Range(func(key string, t *turns) bool {
		parts := strings.Split(key, "|") // provider, model, credential and upstream
		if len(parts) != 4 || byID[parts[2]] == nil {
			return true
		}
		a := byID[parts[2]]
		for stage := range endOfStages {
			if credit := t.credit[stage].Load(); credit != 0 {
				a.Rotation = append(a.Rotation, RotationState{Upstream: parts[3], Model: parts[1], Stage: stage.String(), Credit: credit})
			}
		}
		return true
	})
	out := make([]AccountState, 0, len(byID))
	for _, a := range byID {
		slices.SortFunc(a.Health, func(x, y HealthState) int { return cmp.Compare(x.Model, y.Model) })
		slices.SortFunc(a.Rotation, func(x, y RotationState) int {
			return cmp.Or(cmp.Compare(x.Model, y.Model), cmp.Compare(x.Upstream, y.Upstream), cmp.Compare(x.Stage, y.Stage))
		})
		out = append(out, *a)
	}
	slices.SortFunc(out, func(x, y AccountState) int { return cmp.Compare(x.Credential, y.Credential) })
	return out
}

func (h *health) report(now time.Time) HealthState {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := HealthState{TTFT: h.ttft, At: h.ttftAt}
	if h.samples > 0 {
		f := fade(now.Sub(h.errsAt), errFade)
		out.ErrorRate, out.Samples = h.errs*f, h.samples*f
	}
	return out
}
