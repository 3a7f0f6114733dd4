package schedule

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
)

// ownedElsewhere reports that the request names stored objects of another account:
// the candidate's provider would not find them, or would find others of that name.
func ownedElsewhere(q *Query, c *plan.Candidate) bool {
	if q.Owner == (stateid.Owner{}) {
		return false
	}
	// An id made before a scope was configured names the credential.
	if q.Owner.Scope != c.StateScope && (c.Credential == nil || q.Owner.Scope != c.Credential.GetId()) {
		return true
	}
	if q.Owner.Upstream == c.Upstream.GetId() {
		return false
	}
	// A scope is a name that operators give, and two providers may have one of it. An
	// upstream that is no more cannot be asked whose it was.
	t := q.View.Tenant(c.TenantID)
	if t == nil {
		return false
	}
	owner := t.Upstreams[q.Owner.Upstream]
	return owner != nil && owner.GetProviderId() != c.Upstream.GetProviderId()
}

func (s *Selection) pinned() bool { return s.query.Owner != (stateid.Owner{}) }

// foreign reports a candidate whose reason says nothing about the request, because
// another account owns what it names.
func (s *Selection) foreign(i int) bool { return ownedElsewhere(s.query, &s.candidates[i]) }

// orphaned reports that no candidate owns what the request names.
func (s *Selection) orphaned() bool {
	for i := range s.candidates {
		if !s.foreign(i) {
			return false
		}
	}
	return len(s.candidates) > 0
}
