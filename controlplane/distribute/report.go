package distribute

import (
	"context"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

const (
	maxStatusPins = 256
	saveTimeout   = 5 * time.Second
)

// Report implements aidy.sync.v1.ConfigSyncService. A report that cannot be stored
// now still counts at this replica, and the node's next one is stored.
func (h *Hub) Report(ctx context.Context, req *syncv1.ReportRequest) (*syncv1.ReportResponse, error) {
	id, err := h.identify(ctx, req.GetNode())
	if err != nil {
		return nil, err
	}
	if len(req.GetSignals()) > 0 {
		h.heard(ctx, id, req.GetSignals())
	}
	if req.GetView() == syncv1.View_VIEW_UNSPECIFIED {
		if len(req.GetSignals()) > 0 {
			return &syncv1.ReportResponse{}, nil // signals alone
		}
		return nil, connect.NewError(connect.CodeInvalidArgument, "the report names no view")
	}
	kept := proto.CloneOf(req)
	kept.Signals = nil
	kept.Pins = kept.GetPins()[:min(len(kept.GetPins()), maxStatusPins)]
	fresh, store, fromDisk := h.fleet.take(kept, time.Now(), h.cfg.Heartbeat)
	if !fresh {
		return &syncv1.ReportResponse{}, nil
	}
	h.tell(ctx, kept)
	h.mu.Lock()
	h.notify()
	h.mu.Unlock()
	if store {
		saveCtx, cancel := context.WithTimeout(ctx, saveTimeout)
		defer cancel()
		if err := h.nodes.SaveStatus(saveCtx, kept, fromDisk); err != nil {
			h.fleet.unsaved(kept)
			h.log.Warn().Err(err).Str("node", id).Msg("a report could not be stored")
		}
	}
	return &syncv1.ReportResponse{}, nil
}

// tell logs and counts what a node did not take.
func (h *Hub) tell(ctx context.Context, r *syncv1.ReportRequest) {
	var reason string
	switch r.GetOutcome() {
	case syncv1.Outcome_OUTCOME_REJECTED:
		reason = "rejected"
	case syncv1.Outcome_OUTCOME_QUARANTINED:
		reason = "quarantined"
	case syncv1.Outcome_OUTCOME_APPLIED_WITH_PINS:
		reason = "pinned"
	case syncv1.Outcome_OUTCOME_NEED_FULL:
		reason = "need_full"
	default:
		return
	}
	h.m.refused(ctx, reason)
	e := h.log.Warn()
	if len(r.GetViolations()) > 0 {
		e = e.Str("rule", r.GetViolations()[0].GetRule()).Str("field_path", r.GetViolations()[0].GetFieldPath())
	}
	e.Str("node", r.GetNode().GetNodeId()).Str("reason", reason).Str("view", r.GetView().String()).
		Uint64("tried", r.GetTried().GetGeneration()).Uint64("running", r.GetRunning().GetGeneration()).
		Int("violations", len(r.GetViolations())).Int("pins", len(r.GetPins())).Msg("a node did not take a generation whole")
}
