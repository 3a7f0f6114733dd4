// Package schedule chooses the account for an attempt: hard filters with a reason
// for each refusal, then priority, then smooth weighted round-robin. It owns the
// runtime state of credentials, which is keyed by id and outlives configurations.
package schedule

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// Query is what a selection needs to know of the request.
type Query struct {
	View         *snapshot.View
	Groups       []string // ids of the groups that may serve
	Protocol     string   // the inbound protocol, for texts
	PromptTokens int64    // estimate
	Needs        Needs
	DecisionID   string

	// Owner is whom the stored objects belong to that the request names; zero if it
	// names none. Nobody else may get the request.
	Owner stateid.Owner
}

// Selection is the outcome of one selection, with the reason of every candidate
// that is out.
type Selection struct {
	Order      []int    // usable candidates, the winner first, as indexes into Candidates
	Reasons    []Reason // by candidate; empty for a usable one
	DecisionID string

	candidates []plan.Candidate
	query      *Query
	earliest   time.Time // when the first resting candidate returns; zero if none rests
	usable     int       // candidates that configuration and request alone allow

	// Room for the lists of a model with few accounts, which most have.
	reasonRoom [few]Reason
	orderRoom  [few]int
}

const few = 4

// Scheduler chooses accounts. Safe for concurrent use.
type Scheduler struct {
	rests     rests
	rotations rotations
	slots     slots
	resort    resorts
}

// New returns a Scheduler that has seen no traffic. It starts no goroutine.
func New() *Scheduler {
	return &Scheduler{rests: newRests(), rotations: newRotations(), slots: newSlots(), resort: newResorts()}
}

// Select filters and orders the candidates. skip holds the ids of candidates that
// this request must not use again; it may be nil. It takes no slot: see Acquire.
func (s *Scheduler) Select(q *Query, candidates []plan.Candidate, skip map[string]Reason, now time.Time) *Selection {
	sel := &Selection{
		DecisionID: q.DecisionID,
		candidates: candidates,
		query:      q,
	}
	if len(candidates) <= few {
		sel.Reasons, sel.Order = sel.reasonRoom[:len(candidates)], sel.orderRoom[:0]
	} else {
		sel.Reasons, sel.Order = make([]Reason, len(candidates)), make([]int, 0, len(candidates))
	}
	open := int32(0)
	for i := range candidates {
		c := &candidates[i]
		r := static(q, c, now)
		if r == "" {
			if r = s.runtime(sel, c, skip, now); r != ProtocolIncompatible {
				sel.usable++
			}
		}
		sel.Reasons[i] = r
		if r == "" && (open == 0 || c.Priority < open) {
			open = c.Priority
		}
	}
	if open == 0 {
		return sel
	}
	var later []int
	for i := range candidates {
		switch {
		case sel.Reasons[i] != "":
		case candidates[i].Priority == open:
			sel.Order = append(sel.Order, i)
		default:
			later = append(later, i)
		}
	}
	winner := s.rotations.next(candidates, sel.Order)
	at := slices.Index(sel.Order, winner)
	copy(sel.Order[1:at+1], sel.Order[:at])
	sel.Order[0] = winner
	sort.SliceStable(later, func(a, b int) bool { return candidates[later[a]].Priority < candidates[later[b]].Priority })
	sel.Order = append(sel.Order, later...)
	return sel
}

// runtime checks what the state of this node decides.
func (s *Scheduler) runtime(sel *Selection, c *plan.Candidate, skip map[string]Reason, now time.Time) Reason {
	if r, ok := skip[c.ID]; ok {
		return r
	}
	if kind, until, resting := s.rests.active(c, now); resting {
		if sel.earliest.IsZero() || until.Before(sel.earliest) {
			sel.earliest = until
		}
		return cooldownPrefix + Reason(kind)
	}
	if !s.slots.room(c) {
		return SlotFull
	}
	return ""
}

// Usable is the number of candidates that configuration and request alone allow.
func (s *Selection) Usable() int { return s.usable }

// Pool summarises a selection for people: how many candidates there are and how
// many are out for which reason, in the order of the reasons.
func (s *Selection) Pool() string {
	counts := make(map[Reason]int)
	for _, r := range s.Reasons {
		if r != "" {
			counts[r]++
		}
	}
	names := make([]string, 0, len(counts))
	for r := range counts {
		names = append(names, string(r))
	}
	slices.Sort(names)
	var b strings.Builder
	fmt.Fprintf(&b, "pool=%d excluded:", len(s.Reasons))
	if len(names) == 0 {
		b.WriteString(" none")
	}
	for _, n := range names {
		fmt.Fprintf(&b, " %s=%d", n, counts[Reason(n)])
	}
	return b.String()
}

// Unconverted reports whether candidates are out because they cannot take the call in
// their protocol, and none is out for a reason that passes with time.
func (s *Selection) Unconverted() bool {
	return s.any(func(r Reason) bool { return r == ProtocolIncompatible }) &&
		!s.any(func(r Reason) bool { return r == SlotFull || r == AuthInvalid || r == AlreadyFailed || r.cooldown() })
}

// protocols says which protocol was asked for and which ones the model is served in.
func (s *Selection) protocols() string {
	var served []string
	for i, r := range s.Reasons {
		if r != ProtocolIncompatible {
			continue
		}
		for _, c := range s.candidates[i].Provider.GetCapabilities() {
			name := strings.ToLower(strings.TrimPrefix(c.GetProtocol().String(), "PROTOCOL_"))
			if !slices.Contains(served, name) {
				served = append(served, name)
			}
		}
	}
	slices.Sort(served)
	return fmt.Sprintf("the call speaks %s, but the upstreams of this model speak %s and this call cannot be converted; call the model through %s, or add an upstream that speaks %s",
		s.query.Protocol, strings.Join(served, ", "), strings.Join(served, " or "), s.query.Protocol)
}

// LastResort returns the candidate, out only for a server or network cooldown,
// that returns first; it is given at most once a second for each candidate. It is
// for a request that has no usable candidate left.
func (s *Scheduler) LastResort(sel *Selection, now time.Time) (int, bool) {
	best := -1
	var until time.Time
	for i, r := range sel.Reasons {
		if r != cooldownPrefix+"server" && r != cooldownPrefix+"network" {
			continue
		}
		c := &sel.candidates[i]
		if s.rests.announced(c, now) {
			continue
		}
		_, u, _ := s.rests.active(c, now)
		if best < 0 || u.Before(until) {
			best, until = i, u
		}
	}
	if best < 0 || !s.resort.take(sel.candidates[best].ID, now) {
		return 0, false
	}
	return best, true
}
