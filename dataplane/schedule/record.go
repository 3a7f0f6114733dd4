package schedule

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// Resting returns the cooldown that keeps a candidate out; nil if none does.
func (s *Selection) Resting(i int) *Rest { return s.Rows[i].rest }

// Price is what a scored candidate was weighed at, in nano-USD a token; zero for one
// that was not scored.
func (s *Selection) Price(i int) plan.Price { return s.Rows[i].price }

// IDOf is the id of a candidate.
func (s *Selection) IDOf(i int) string { return s.candidates[i].ID }

// OutputTokens is how long the answer was expected to be.
func (s *Selection) OutputTokens() int64 { return s.query.OutputTokens }

// Scored reports a candidate that passed the filters of its selection, so that its terms
// mean something.
func (s *Selection) Scored(i int) bool { return s.Rows[i].scored }

// Vitals are the readings of a scored candidate's health: the time to its first token in
// milliseconds, and the share of its attempts that fail, of so many that still count.
func (s *Selection) Vitals(i int) (ttft, errors, samples float64) {
	h := &s.Rows[i].health
	return h.ttft, h.errs, h.samples
}

// Remaining is how many candidates were left after a filter.
type Remaining struct {
	Filter string // "stage" for those that are tried at all, a reason, or a class of reasons
	Left   int
}

// Filters are the filters that took candidates out, in the order in which they are
// checked, with what each of them left. The first entry is the size of the stage.
func (s *Selection) Filters() []Remaining {
	left := s.pool()
	out := []Remaining{{"stage", left}}
	for _, step := range filterOrder {
		n := 0
		for i := range s.Rows {
			if r := s.Rows[i].Reason; r != "" && !s.Rows[i].Outside && r.filter() == step {
				n++
			}
		}
		if n > 0 {
			left -= n
			out = append(out, Remaining{step, left})
		}
	}
	return out
}

// filter is the filter that gives a reason: reasons with a class or a dimension in their
// name share one.
func (r Reason) filter() string {
	switch {
	case r.cooldown():
		return "cooldown"
	case r.limit():
		return "limit"
	}
	return string(r)
}

// filterOrder is the order of the hard filters.
var filterOrder = [...]string{
	string(NotInGroup), string(PolicyDenied), string(Disabled), string(Expired), string(AuthInvalid), string(ModelUnsupported),
	string(ProtocolIncompatible), string(CapabilityMissing), string(ContextTooLong), string(QualityBelow), string(CredentialType),
	string(StateOwnerMismatch), string(CacheStrict), string(AlreadyFailed), "cooldown", string(BreakerOpen), string(BreakerProbeBusy),
	string(BreakerHalfOpen), "limit", string(SlotFull), string(SpilloverClosed),
}
