package admin

import (
	"context"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// logicalRouteService keeps logical routes.
type logicalRouteService struct{ api *API }

var _ adminv1connect.LogicalRouteServiceHandler = logicalRouteService{}

func (s logicalRouteService) CreateLogicalRoute(ctx context.Context, req *adminv1.CreateLogicalRouteRequest) (*adminv1.CreateLogicalRouteResponse, error) {
	return create[*configv1.LogicalRoute](ctx, s.api, req, &adminv1.CreateLogicalRouteResponse{})
}

func (s logicalRouteService) GetLogicalRoute(ctx context.Context, req *adminv1.GetLogicalRouteRequest) (*adminv1.GetLogicalRouteResponse, error) {
	return get[*configv1.LogicalRoute](ctx, s.api, req, &adminv1.GetLogicalRouteResponse{})
}

func (s logicalRouteService) ListLogicalRoutes(ctx context.Context, req *adminv1.ListLogicalRoutesRequest) (*adminv1.ListLogicalRoutesResponse, error) {
	return list[*configv1.LogicalRoute](ctx, s.api, req, &adminv1.ListLogicalRoutesResponse{})
}

func (s logicalRouteService) UpdateLogicalRoute(ctx context.Context, req *adminv1.UpdateLogicalRouteRequest) (*adminv1.UpdateLogicalRouteResponse, error) {
	return update[*configv1.LogicalRoute](ctx, s.api, req, &adminv1.UpdateLogicalRouteResponse{})
}

func (s logicalRouteService) DeleteLogicalRoute(ctx context.Context, req *adminv1.DeleteLogicalRouteRequest) (*adminv1.DeleteLogicalRouteResponse, error) {
	return remove[*configv1.LogicalRoute](ctx, s.api, req, &adminv1.DeleteLogicalRouteResponse{})
}
