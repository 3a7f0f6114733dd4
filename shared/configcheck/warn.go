package configcheck

import (
	"cmp"
	"fmt"
	"iter"
	"maps"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// Codes of warnings.
const (
	// WarnSinglePoint: a model has one candidate, so one failure ends it.
	WarnSinglePoint = "SINGLE_POINT"
	// WarnStarvedPriority: nothing bounds the candidates of better priority, so
	// the others are used only when those fail.
	WarnStarvedPriority = "STARVED_PRIORITY"
	// WarnSoonestReset: the policy prefers quotas that reset soon, which spends
	// all accounts evenly to their ends and moves conversations off warm caches.
	WarnSoonestReset = "SOONEST_RESET"
	// WarnSwitchOn400: the policy sends a request that one upstream called
	// malformed to others, which multiplies the cost of every mistake.
	WarnSwitchOn400 = "SWITCH_ON_400"
)

// Warning is something that is allowed and often a mistake.
type Warning struct {
	Code    string
	Message string
	Kind    string // of the resource, such as "UpstreamModel"
	ID      string
}

// MaxWarnings bounds the warnings of one tenant.
const MaxWarnings = 256

// Warnings returns what to look at in a tenant's shard, in a fixed order. global
// may be nil. The shard need not be valid.
func Warnings(t *syncv1.TenantShard, global *syncv1.GlobalShard) []Warning {
	var ws []Warning
	add := func(code, kind, id, format string, args ...any) {
		if len(ws) < MaxWarnings {
			ws = append(ws, Warning{code, fmt.Sprintf(format, args...), kind, id})
		}
	}
	pools := poolsOf(t, global)
	for _, model := range sortedKeys(pools) {
		p := pools[model]
		if p.candidates == 1 {
			add(WarnSinglePoint, "UpstreamModel", p.id, "model %s has one candidate; add an upstream or a credential that serves it", quote(model))
		}
		if prio, starved := p.starved(); starved {
			add(WarnStarvedPriority, "UpstreamModel", p.id,
				"model %s: no limit bounds the candidates of a priority better than %d, so those of %d serve only when the others fail; set limits, or give them the same priority", quote(model), prio, prio)
		}
	}
	for _, s := range policiesOf(t) {
		if s.policy.GetResetBonusNusd() > 0 {
			add(WarnSoonestReset, s.kind, s.id, "reset_bonus_nusd prefers accounts whose quota resets soon; it suits use-it-or-lose-it quotas only")
		}
		if s.policy.GetSwitchOn_400() {
			add(WarnSwitchOn400, s.kind, s.id, "switch_on_400 sends requests that one upstream refused as malformed to others; mistakes of callers will cost more")
		}
	}
	return ws
}

type placedPolicy struct {
	kind, id string
	policy   *configv1.SchedulingPolicy
}

func policiesOf(t *syncv1.TenantShard) []placedPolicy {
	all := []placedPolicy{{"Tenant", t.GetTenant().GetId(), t.GetTenant().GetScheduling()}}
	for _, r := range t.GetRoutes() {
		all = append(all, placedPolicy{"Route", r.GetId(), r.GetScheduling()})
	}
	for _, r := range t.GetLogicalRoutes() {
		all = append(all, placedPolicy{"LogicalRoute", r.GetId(), r.GetScheduling()})
	}
	return all
}

// pool is the candidates of one public model.
type pool struct {
	id         string // of the first row that serves it
	candidates int
	bounded    map[int32]bool // by priority: something bounds a candidate of it
}

// starved returns the best priority that stays closed while the ones before it
// work: a priority opens when the candidates before it are used to a share of
// their limits, and without a limit they never are.
func (p *pool) starved() (int32, bool) {
	prios := sortedKeys(p.bounded)
	for i := 1; i < len(prios); i++ {
		if !p.bounded[prios[i-1]] {
			return prios[i], true
		}
	}
	return 0, false
}

// poolsOf gathers the candidates of each public model.
func poolsOf(t *syncv1.TenantShard, global *syncv1.GlobalShard) map[string]*pool {
	pools := map[string]*pool{}
	for c := range Candidates(t, global) {
		p := pools[c.Model.GetModel()]
		if p == nil {
			p = &pool{id: c.Model.GetId(), bounded: map[int32]bool{}}
			pools[c.Model.GetModel()] = p
		}
		prio := cmp.Or(c.Upstream.GetPriority(), 1)
		bounded := limited(c.Upstream.GetLimits()) || limited(c.Provider.GetLimits()) ||
			c.Upstream.MaxConcurrency != nil || c.Provider != nil && c.Provider.MaxConcurrency != nil
		if c.Credential != nil {
			if c.Credential.Priority != nil {
				prio = c.Credential.GetPriority()
			}
			bounded = bounded || limited(c.Credential.GetLimits()) || c.Credential.MaxConcurrency != nil
		}
		p.candidates++
		p.bounded[prio] = p.bounded[prio] || bounded
	}
	return pools
}

// Candidate is one way to serve a public model.
type Candidate struct {
	Model      *configv1.UpstreamModel
	Upstream   *configv1.Upstream
	Provider   *configv1.Provider           // nil if the shards hold none
	Credential *configv1.UpstreamCredential // nil for an upstream without credentials
}

// Candidates yields what may serve a tenant's models, in the order of the
// shard: pairs of a model and a credential of its upstream that are not switched
// off in the policy domain. global may be nil.
func Candidates(t *syncv1.TenantShard, global *syncv1.GlobalShard) iter.Seq[Candidate] {
	providers := byID(global.GetProviders())
	maps.Copy(providers, byID(t.GetProviders()))
	upstreams := byID(t.GetUpstreams())
	credentials := map[string][]*configv1.UpstreamCredential{}
	for _, c := range t.GetCredentials() {
		credentials[c.GetUpstreamId()] = append(credentials[c.GetUpstreamId()], c)
	}
	return func(yield func(Candidate) bool) {
		for _, m := range t.GetModels() {
			u := upstreams[m.GetUpstreamId()]
			p := providers[u.GetProviderId()]
			if m.GetDisabled() || u == nil || u.GetDisabled() || p.GetDisabled() {
				continue
			}
			own := credentials[u.GetId()]
			if len(own) == 0 && !yield(Candidate{m, u, p, nil}) {
				return
			}
			for _, c := range own {
				if !c.GetDisabled() && serves(c, m) && !yield(Candidate{m, u, p, c}) {
					return
				}
			}
		}
	}
}

// serves reports whether a credential's model list lets it serve a model, by
// its public name or by the name it is an alias of.
func serves(c *configv1.UpstreamCredential, m *configv1.UpstreamModel) bool {
	if len(c.GetModels()) == 0 {
		return true
	}
	for _, name := range c.GetModels() {
		if name == m.GetModel() || m.GetAliasOf() != "" && name == m.GetAliasOf() {
			return true
		}
	}
	return false
}

func limited(l *configv1.Limits) bool {
	return l != nil && (l.Rpm != nil || l.Tpm != nil || l.Itpm != nil || l.Otpm != nil || l.Ipm != nil || l.Rpd != nil || l.Tpd != nil)
}
