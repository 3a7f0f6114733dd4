package dataplane

import (
	"slices"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/route"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
)

// policies are the scheduling policies that hold for a call, the outermost first.
func policies(call *inbound.Call, who *auth.Principal, match route.Match, d resolve.Decision) []*configv1.SchedulingPolicy {
	levels := []*configv1.SchedulingPolicy{
		call.View.Global.Message.GetScheduling(),
		who.Tenant.Message.GetTenant().GetScheduling(),
		match.GetScheduling(),
	}
	for _, l := range d.Passed {
		levels = append(levels, l.GetScheduling())
	}
	return levels
}

// chains puts the models and providers into a decision that the innermost policy with
// such a list allows to answer instead.
func chains(d *resolve.Decision, levels []*configv1.SchedulingPolicy) {
	for _, p := range slices.Backward(levels) {
		if len(d.Providers) == 0 {
			d.Providers = p.GetProviders()
		}
	}
	for _, p := range slices.Backward(levels) {
		if models := p.GetModels(); len(models) > 0 {
			for _, m := range models {
				d.Chain = append(d.Chain, resolve.Target{Model: m})
			}
			return
		}
	}
}

// scheduling is what the scheduler is to know of the call beside its shape.
func (n *Node) scheduling(call *inbound.Call, who *auth.Principal, match route.Match, d resolve.Decision, levels []*configv1.SchedulingPolicy, ask *asked) attempt.Scheduling {
	s := attempt.Scheduling{
		Policy:   schedule.PolicyOf(levels...),
		Task:     call.Request.Header.Get("X-Gateway-Task"),
		Class:    classRank(classOf(who, call.Request.Header)),
		Fallback: fallback(who, match),
	}
	s.MinQuality = floor(match.GetMinQuality(), s.Task)
	if call.Target.Op != protocol.OpGenerate {
		return s
	}
	key, recent := n.prefix(call, who, d), n.affinity.HeadRecent
	if ask != nil {
		if ask.key != nil {
			key = *ask.key
		}
		if ask.dry {
			recent = n.affinity.HeadWould
		}
	}
	s.Affinity = &key
	s.Matches = n.affinity.Lookup(nil, &key, call.Start)
	s.HeadRecent = int64(recent(&key, call.Start)) * int64(n.nodes())
	if n.nodes() > 1 {
		s.PriorConf = s.Policy.PriorConfidence
	}
	return s
}

// floor is the least quality for a task: its own, else the one for every task; 0 is none.
func floor(list []*configv1.QualityFloor, task string) (least float64) {
	for _, q := range list {
		switch q.GetTask() {
		case task:
			return q.GetMin()
		case "":
			least = q.GetMin()
		}
	}
	return least
}

// prefix is what the call shares with earlier ones.
func (n *Node) prefix(call *inbound.Call, who *auth.Principal, d resolve.Decision) affinity.Key {
	in := n.prompt(call, who)
	in.Model, in.Scale = d.Model, n.affinity.Scale(who.Tenant.ID, d.Model)
	return affinity.Read(in)
}

// prompt is what ties the call to others, whatever its model.
func (n *Node) prompt(call *inbound.Call, who *auth.Principal) affinity.Input {
	in := affinity.Input{
		Protocol: call.Target.Protocol,
		Tenant:   who.Tenant.ID,
		EndUser:  call.Shape.User,
		Header:   call.Request.Header,
		Body:     call.Body.Bytes,
		Shape:    call.Shape,
		Seed:     n.seed(),
	}
	if who.Consumer != nil {
		in.Consumer = who.Consumer.GetId()
	}
	return in
}

// seed keys the fleet's prefix hashes.
func (n *Node) seed() affinity.Seed {
	if n.subscriber == nil {
		return 0
	}
	return affinity.NewSeed([]byte(n.subscriber.PrefixSeed().Reveal()))
}

// nodes is how many nodes share the accounts.
func (n *Node) nodes() int {
	if n.subscriber == nil {
		return 1
	}
	return max(1, n.subscriber.Nodes())
}

// fallback names the groups that may be entered after a group: the group's own list, as
// far as the route does not narrow it.
func fallback(who *auth.Principal, match route.Match) func(string) []string {
	groups, narrowed := who.Tenant.Groups, match.GetFallbackGroups()
	any := false
	for _, g := range groups {
		any = any || len(g.GetFallbackGroups()) > 0
	}
	if !any {
		return nil
	}
	return func(from string) []string {
		list := groups[from].GetFallbackGroups()
		if len(narrowed) == 0 {
			return list
		}
		return slices.DeleteFunc(slices.Clone(list), func(g string) bool { return !slices.Contains(narrowed, g) })
	}
}

// classRank orders the traffic classes for the queue.
func classRank(class string) uint8 {
	switch class {
	case "critical":
		return schedule.ClassCritical
	case "batch":
		return schedule.ClassBatch
	}
	return schedule.ClassInteractive
}
