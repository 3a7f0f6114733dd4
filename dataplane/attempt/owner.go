package attempt

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
)

// rewriter puts ids that name their owner in the place of the provider's in an answer
// that the provider stores, or that tells such ids back. It is nil for all other
// answers, and on a node without a key, which hands out the provider's own.
func (x *run) rewriter(c *plan.Candidate) protocol.Rewriter {
	owned, ok := x.r.Codec.(protocol.Owned)
	if !ok || x.r.StateKey == nil || !x.r.Shape.Store && len(x.r.Shape.Refs) == 0 {
		return nil
	}
	owner := stateid.Owner{Scope: c.StateScope, Upstream: c.Upstream.GetId()}
	return owned.NewRewriter(x.r.Shape.Store, func(id string) string { return x.r.StateKey.Wrap(id, owner) })
}
