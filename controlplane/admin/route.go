package admin

import (
	"context"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// routeService keeps routes.
type routeService struct{ api *API }

var _ adminv1connect.RouteServiceHandler = routeService{}

func (s routeService) CreateRoute(ctx context.Context, req *adminv1.CreateRouteRequest) (*adminv1.CreateRouteResponse, error) {
	return create[*configv1.Route](ctx, s.api, req, &adminv1.CreateRouteResponse{})
}

func (s routeService) GetRoute(ctx context.Context, req *adminv1.GetRouteRequest) (*adminv1.GetRouteResponse, error) {
	return get[*configv1.Route](ctx, s.api, req, &adminv1.GetRouteResponse{})
}

func (s routeService) ListRoutes(ctx context.Context, req *adminv1.ListRoutesRequest) (*adminv1.ListRoutesResponse, error) {
	return list[*configv1.Route](ctx, s.api, req, &adminv1.ListRoutesResponse{})
}

func (s routeService) UpdateRoute(ctx context.Context, req *adminv1.UpdateRouteRequest) (*adminv1.UpdateRouteResponse, error) {
	return update[*configv1.Route](ctx, s.api, req, &adminv1.UpdateRouteResponse{})
}

func (s routeService) DeleteRoute(ctx context.Context, req *adminv1.DeleteRouteRequest) (*adminv1.DeleteRouteResponse, error) {
	return remove[*configv1.Route](ctx, s.api, req, &adminv1.DeleteRouteResponse{})
}
