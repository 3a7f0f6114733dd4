package attempt

import (
	"slices"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
)

// step is a stage of failover, or a position of one of its chains.
type step struct {
	stage schedule.Stage
	role  plan.Role
	chain int
}

// steps are what may be tried next, in order: before the first attempt the primary
// candidates and then the chains; after it the stages that mode and failure allow,
// relative to the first candidate.
func (x *run) steps() []step {
	mode := x.r.Policy.Mode
	models := mode == configv1.FallbackMode_FALLBACK_MODE_ADAPTIVE || mode == configv1.FallbackMode_FALLBACK_MODE_MODEL_CHAIN
	providers := x.crosses()
	if x.first == nil {
		out := []step{{stage: schedule.First}}
		if mode == configv1.FallbackMode_FALLBACK_MODE_OFF {
			return out
		}
		if models {
			out = x.chains(out, schedule.ModelChain, plan.ModelChain)
		}
		if providers {
			out = x.chains(out, schedule.CrossProvider, plan.ProviderChain)
		}
		return out
	}
	to := x.rowOf(x.lastFault, x.last).to
	var out []step
	if to.credential {
		out = append(out, step{stage: schedule.SameScope}, step{stage: schedule.OtherCredential})
	}
	if x.strict {
		return out[:min(len(out), 1)]
	}
	if to.model && models {
		out = x.chains(out, schedule.OtherModel, plan.ModelChain)
		out = x.chains(out, schedule.ModelChain, plan.ModelChain)
	}
	if to.provider && providers {
		out = append(out, step{stage: schedule.CrossProvider})
		out = x.chains(out, schedule.CrossProvider, plan.ProviderChain)
	}
	return out
}

// crosses reports whether the request may leave its first provider.
func (x *run) crosses() bool {
	if x.r.Principal.Method == auth.Passthrough {
		return false // the caller's own key goes to one provider only
	}
	mode := x.r.Policy.Mode
	return mode == configv1.FallbackMode_FALLBACK_MODE_ADAPTIVE || mode == configv1.FallbackMode_FALLBACK_MODE_PROVIDER_CHAIN
}

// chains adds one step for each position of a chain.
func (x *run) chains(out []step, stage schedule.Stage, role plan.Role) []step {
	var at []int
	for i := range x.r.Candidates {
		if c := &x.r.Candidates[i]; c.Role == role && !slices.Contains(at, c.Chain) {
			at = append(at, c.Chain)
		}
	}
	slices.Sort(at)
	for _, n := range at {
		out = append(out, step{stage, role, n})
	}
	return out
}

// belongs reports whether a candidate is tried in a step.
func (x *run) belongs(st step, c *plan.Candidate) bool {
	if c.Role != st.role || c.Role != plan.Primary && c.Chain != st.chain {
		return false
	}
	if x.first == nil {
		return true
	}
	same := c.Upstream.GetProviderId() == x.first.Upstream.GetProviderId()
	if x.lastFault.Class == fault.ContextOverflow && !larger(c, x.last) {
		return false
	}
	switch st.stage {
	case schedule.SameScope:
		return same && x.scope(c) == x.scope(x.first)
	case schedule.OtherCredential:
		return same && x.scope(c) != x.scope(x.first)
	case schedule.OtherModel:
		return same
	case schedule.ModelChain:
		return !same && x.crossesOn(x.lastFault)
	}
	return !same
}

func (x *run) scope(c *plan.Candidate) string { return c.Cache(x.query.Policy.Cache).Scope }

// larger reports a candidate whose model takes longer prompts than the one that the
// prompt did not fit.
func larger(c, than *plan.Candidate) bool {
	return c.Model.GetMaxContextTokens() > than.Model.GetMaxContextTokens()
}

// roleAllowed reports a candidate that the mode could ever lead to.
func (x *run) roleAllowed(c *plan.Candidate) bool {
	mode := x.r.Policy.Mode
	switch c.Role {
	case plan.ModelChain:
		return mode == configv1.FallbackMode_FALLBACK_MODE_ADAPTIVE || mode == configv1.FallbackMode_FALLBACK_MODE_MODEL_CHAIN
	case plan.ProviderChain:
		return x.crosses()
	}
	return true
}

// reachable are the groups that candidates may come from, fallbacks included.
func (x *run) reachable() []string {
	out := slices.Clone(x.r.Groups)
	if !x.mayEnter() {
		return out
	}
	for i := 0; i < len(out); i++ {
		for _, g := range x.r.Scheduling.Fallback(out[i]) {
			if !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
	}
	return out
}

// mayEnter reports whether groups may be entered as fallbacks.
func (x *run) mayEnter() bool {
	return x.r.Scheduling.Fallback != nil && x.r.Policy.Mode != configv1.FallbackMode_FALLBACK_MODE_OFF && !x.strict && x.r.Principal.Method != auth.Passthrough
}

// enterFallback goes to the next group that may stand in for the ones that have no
// candidate left. It reports whether there is one.
func (x *run) enterFallback() bool {
	if !x.mayEnter() {
		return false
	}
	for _, from := range append(slices.Clone(x.r.Groups), x.entered...) {
		for _, g := range x.r.Scheduling.Fallback(from) {
			if slices.Contains(x.r.Groups, g) || slices.Contains(x.entered, g) {
				continue
			}
			x.entered = append(x.entered, g)
			x.groups = []string{g}
			return true
		}
	}
	return false
}
