package store

import (
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

func tenantKind() Kind {
	return Kind{
		Message: (*configv1.Tenant)(nil), Prefix: ident.Tenant, Table: "tenant",
		References: append([]Reference{{"policy_id", "Policy"}}, schedulingReferences...),
		Unique:     map[string][]string{"tenant_name": {"name"}},
		Shards: typed(func(m *configv1.Tenant) []string {
			return []string{shard.Subject(shard.SubjectTenant, m.Id), shard.Tenant(m.Id)}
		}),
		Revokes: ended(func(before, after *configv1.Tenant) []Revocation {
			return subjectEnded("tenant", before.GetId(), before.GetSuspended() || before.GetDisabled(),
				after == nil || after.Suspended || after.Disabled)
		}),
	}
}

func projectKind() Kind {
	return Kind{
		Message: (*configv1.Project)(nil), Prefix: ident.Project, Table: "project", Parent: "tenant_id",
		References: []Reference{{"tenant_id", "Tenant"}, {"policy_id", "Policy"}},
		Unique:     map[string][]string{"project_name": {"tenant_id", "name"}},
		Shards: typed(func(m *configv1.Project) []string {
			return []string{shard.Subject(shard.SubjectProject, m.Id)}
		}),
		Revokes: ended(func(before, after *configv1.Project) []Revocation {
			return subjectEnded("project", before.GetId(), before.GetSuspended() || before.GetDisabled(),
				after == nil || after.Suspended || after.Disabled)
		}),
	}
}

// subjectEnded is the revocation of a subject that could call before the change
// and cannot after it.
func subjectEnded(kind, id string, was, is bool) []Revocation {
	if id == "" || was || !is {
		return nil
	}
	return []Revocation{{kind, id}}
}

// schedulingReferences are those of a SchedulingPolicy in the field scheduling.
var schedulingReferences = []Reference{{"scheduling.providers", "Provider"}}
