package admin

import (
	"context"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
)

// rolloutService freezes and unfreezes policy changes; rollouts in steps are not
// served.
type rolloutService struct {
	adminv1connect.UnimplementedRolloutServiceHandler
	api *API
}

var _ adminv1connect.RolloutServiceHandler = rolloutService{}

// Freeze stops policy commits; identity always flows.
func (s rolloutService) Freeze(ctx context.Context, req *adminv1.FreezeRequest) (*adminv1.FreezeResponse, error) {
	if err := s.api.store.SetFrozen(ctx, access.ActorOf(ctx).Store(), true, req.GetReason()); err != nil {
		return nil, err
	}
	return &adminv1.FreezeResponse{}, nil
}

// Unfreeze lets them go on.
func (s rolloutService) Unfreeze(ctx context.Context, req *adminv1.UnfreezeRequest) (*adminv1.UnfreezeResponse, error) {
	if err := s.api.store.SetFrozen(ctx, access.ActorOf(ctx).Store(), false, req.GetReason()); err != nil {
		return nil, err
	}
	return &adminv1.UnfreezeResponse{}, nil
}
