package compile

import (
	"slices"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
)

// Side is one side of a comparison: a tenant's shard and the global shard beside
// it. A nil shard is an absent one.
type Side struct {
	Tenant *syncv1.TenantShard
	Global *syncv1.GlobalShard
}

// Impact returns what a tenant gains and loses, nil if nothing. Models count by
// their public name and only while something serves them, routes by name,
// candidates as (model, upstream, credential). Switching something off loses it.
func Impact(before, after Side) *adminv1.TenantImpact {
	b, a := inventory(before), inventory(after)
	out := &adminv1.TenantImpact{TenantId: b.tenantID}
	if a.tenantID != "" {
		out.TenantId = a.tenantID
	}
	out.ModelsGained, out.ModelsLost = differ(b.models, a.models)
	out.RoutesGained, out.RoutesLost = differ(b.routes, a.routes)
	gained, lost := differ(b.candidates, a.candidates)
	out.CandidatesGained, out.CandidatesLost = int32(len(gained)), int32(len(lost))
	if len(out.GetModelsGained())+len(out.GetModelsLost())+len(out.GetRoutesGained())+len(out.GetRoutesLost())+len(gained)+len(lost) == 0 {
		return nil
	}
	return out
}

type stock struct {
	tenantID                   string
	models, routes, candidates map[string]bool
}

func inventory(s Side) stock {
	st := stock{s.Tenant.GetTenant().GetId(), map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for c := range configcheck.Candidates(s.Tenant, s.Global) {
		st.models[c.Model.GetModel()] = true
		st.candidates[c.Model.GetId()+"\x00"+c.Upstream.GetId()+"\x00"+c.Credential.GetId()] = true
	}
	for _, r := range s.Tenant.GetRoutes() {
		if !r.GetDisabled() {
			st.routes[r.GetName()] = true
		}
	}
	return st
}

func differ(before, after map[string]bool) (gained, lost []string) {
	for name := range after {
		if !before[name] {
			gained = append(gained, name)
		}
	}
	for name := range before {
		if !after[name] {
			lost = append(lost, name)
		}
	}
	slices.Sort(gained)
	slices.Sort(lost)
	return gained, lost
}

// Warnings returns what to look at in a tenant's shard; see configcheck.
func Warnings(s Side) []*adminv1.Warning {
	var out []*adminv1.Warning
	for _, w := range configcheck.Warnings(s.Tenant, s.Global) {
		out = append(out, &adminv1.Warning{Code: w.Code, Message: w.Message, Kind: w.Kind, Id: w.ID})
	}
	return out
}
