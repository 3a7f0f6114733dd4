package distribute

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// silentBeats is how many heartbeats a node may be silent.
const silentBeats = 3

// Nodes returns every node with what it last reported, by id. It reads what other
// replicas were told first; if that fails, what is known here is returned with
// the error.
func (h *Hub) Nodes(ctx context.Context) ([]*adminv1.Node, error) {
	err := h.readFleet(ctx)
	nodes, reports := h.fleet.all()
	out := make([]*adminv1.Node, 0, len(nodes))
	streaming := h.streaming()
	for _, n := range nodes {
		out = append(out, h.describe(n, reports, h.alive(n.ID, reports, streaming, time.Now())))
	}
	return out, err
}

// Changed returns a channel that is closed when a node, a report or what is served
// changes.
func (h *Hub) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

// alive reports whether a node was heard of lately, here or at another replica.
func (h *Hub) alive(nodeID string, reports map[viewOf]Status, streaming map[string]bool, now time.Time) bool {
	if streaming[nodeID] {
		return true
	}
	for _, v := range views {
		if st, ok := reports[viewOf{nodeID, v}]; ok && now.Sub(st.ReportedAt) <= silentBeats*h.cfg.Heartbeat {
			return true
		}
	}
	return false
}

func (h *Hub) describe(n Node, reports map[viewOf]Status, alive bool) *adminv1.Node {
	out := &adminv1.Node{Id: n.ID, Name: n.Name, Labels: n.Labels, EnrollTime: stamp(n.EnrolledAt), CertificateExpireTime: stamp(n.CertificateExpiresAt)}
	st := h.state.Load()
	var seen time.Time
	for _, v := range views {
		status, ok := reports[viewOf{n.ID, v}]
		if !ok {
			continue
		}
		r := status.Report
		if status.ReportedAt.After(seen) {
			seen = status.ReportedAt
			out.InstanceId, out.Version, out.FromDisk = r.GetNode().GetInstanceId(), r.GetNode().GetVersion(), status.FromDisk
		}
		view := &adminv1.NodeView{View: v, Running: r.GetRunning(), Outcome: r.GetOutcome(), Pins: r.GetPins(), Violations: r.GetViolations(), Stats: r.GetStats()}
		if st != nil {
			view.Target = st.view(v).at.proto()
		}
		out.Views = append(out.Views, view)
	}
	out.LastSeenTime = stamp(seen)
	out.State = stateOf(out.GetViews(), !n.RevokedAt.IsZero(), alive)
	return out
}

// stateOf derives where a node stands from its reports alone: that something was
// sent to it says nothing.
func stateOf(reported []*adminv1.NodeView, revoked, alive bool) adminv1.NodeState {
	switch {
	case revoked:
		return adminv1.NodeState_NODE_STATE_REVOKED
	case !alive:
		return adminv1.NodeState_NODE_STATE_DETACHED
	}
	current := len(reported) == len(views)
	for _, v := range reported {
		switch v.GetOutcome() {
		case syncv1.Outcome_OUTCOME_REJECTED, syncv1.Outcome_OUTCOME_QUARANTINED:
			return adminv1.NodeState_NODE_STATE_HOLDING
		}
		if len(v.GetPins()) > 0 {
			return adminv1.NodeState_NODE_STATE_HOLDING
		}
		running := positionOf(v.GetRunning())
		current = current && running.known && running == positionOf(v.GetTarget())
	}
	if current {
		return adminv1.NodeState_NODE_STATE_CURRENT
	}
	return adminv1.NodeState_NODE_STATE_SYNCING
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// Applied is how far a generation came.
type Applied struct {
	Acked   []string // nodes, by id, that run it
	Pending []string // nodes that are alive and have not answered
	Refused []*adminv1.NodeRefusal
}

// waitPoll is how often a wait reads what other replicas were told.
const waitPoll = 200 * time.Millisecond

// waitBurst is how long a wait lets reports gather before it counts them.
const waitBurst = 5 * time.Millisecond

// WaitApplied waits until quorumPercent of the nodes that are alive run a
// generation, until all of them answered one way or the other, or until ctx ends;
// it returns how far it came. That it did not come far enough is no error. A node
// that took it with shards held back that this generation or a later one changed
// counts as one that refused it. A quorum of 0 or less does not wait.
func (h *Hub) WaitApplied(ctx context.Context, generation uint64, quorumPercent int) Applied {
	h.Poke(generation)
	if quorumPercent > 0 {
		// A node that came to another replica a moment ago counts too.
		h.lookAround(ctx)
	}
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for {
		changed := h.Changed()
		a, reached := h.applied(generation)
		alive := len(a.Acked) + len(a.Pending) + len(a.Refused)
		enough := len(a.Acked)*100 >= quorumPercent*alive
		if quorumPercent <= 0 || reached && (enough || len(a.Pending) == 0) {
			return a
		}
		select {
		case <-ctx.Done():
			return a
		case <-changed:
			// Reports come in bursts, one for each node.
			if sleep(ctx, waitBurst) != nil {
				a, _ = h.applied(generation)
				return a
			}
		case <-tick.C:
			h.lookAround(ctx)
		}
	}
}

// lookAround reads what other replicas were told, if it can be read.
func (h *Hub) lookAround(ctx context.Context) {
	if err := h.readFleet(ctx); err != nil && ctx.Err() == nil {
		h.log.Debug().Err(err).Msg("nodes could not be read")
	}
}

// applied sorts the nodes that are alive by what they said of a generation.
// reached tells whether this replica itself has it.
func (h *Hub) applied(generation uint64) (a Applied, reached bool) {
	st := h.state.Load()
	reached = st != nil && st.head >= generation
	now := time.Now()
	nodes, reports := h.fleet.all()
	streaming := h.streaming()
	for _, n := range nodes {
		if !n.RevokedAt.IsZero() || !h.alive(n.ID, reports, streaming, now) {
			continue
		}
		if !reached {
			a.Pending = append(a.Pending, n.ID)
			continue
		}
		acked, refusal := true, (*adminv1.NodeRefusal)(nil)
		for _, v := range views {
			// A view that the generation did not touch asks for what it had.
			need := min(generation, st.view(v).at.generation)
			r := reports[viewOf{n.ID, v}].Report
			running := positionOf(r.GetRunning())
			done := running.known && running.epoch == st.view(v).at.epoch && running.generation >= need
			if done && pinnedSince(r, generation) || !done && gaveUp(r, need) {
				if refusal == nil {
					refusal = &adminv1.NodeRefusal{NodeId: n.ID}
				}
				refusal.Violations = append(refusal.Violations, r.GetViolations()...)
			}
			acked = acked && done
		}
		switch {
		case refusal != nil:
			a.Refused = append(a.Refused, refusal)
		case acked:
			a.Acked = append(a.Acked, n.ID)
		default:
			a.Pending = append(a.Pending, n.ID)
		}
	}
	return a, reached
}

// pinnedSince reports whether a node holds back a shard since a generation.
func pinnedSince(r *syncv1.ReportRequest, generation uint64) bool {
	for _, p := range r.GetPins() {
		if p.GetSinceGeneration() >= generation {
			return true
		}
	}
	return false
}

// gaveUp reports whether a node refused a generation that it needed.
func gaveUp(r *syncv1.ReportRequest, need uint64) bool {
	o := r.GetOutcome()
	return (o == syncv1.Outcome_OUTCOME_REJECTED || o == syncv1.Outcome_OUTCOME_QUARANTINED) && r.GetTried().GetGeneration() >= need
}
