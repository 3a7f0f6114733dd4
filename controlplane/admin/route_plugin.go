package admin

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// routePluginConfigService keeps the plugins on routes.
type routePluginConfigService struct{ api *API }

var _ adminv1connect.RoutePluginConfigServiceHandler = routePluginConfigService{}

func (s routePluginConfigService) CreateRoutePluginConfig(ctx context.Context, req *adminv1.CreateRoutePluginConfigRequest) (*adminv1.CreateRoutePluginConfigResponse, error) {
	return create[*configv1.RoutePluginConfig](ctx, s.api, req, &adminv1.CreateRoutePluginConfigResponse{})
}

func (s routePluginConfigService) GetRoutePluginConfig(ctx context.Context, req *adminv1.GetRoutePluginConfigRequest) (*adminv1.GetRoutePluginConfigResponse, error) {
	return get[*configv1.RoutePluginConfig](ctx, s.api, req, &adminv1.GetRoutePluginConfigResponse{})
}

func (s routePluginConfigService) ListRoutePluginConfigs(ctx context.Context, req *adminv1.ListRoutePluginConfigsRequest) (*adminv1.ListRoutePluginConfigsResponse, error) {
	return list[*configv1.RoutePluginConfig](ctx, s.api, req, &adminv1.ListRoutePluginConfigsResponse{})
}

func (s routePluginConfigService) UpdateRoutePluginConfig(ctx context.Context, req *adminv1.UpdateRoutePluginConfigRequest) (*adminv1.UpdateRoutePluginConfigResponse, error) {
	return update[*configv1.RoutePluginConfig](ctx, s.api, req, &adminv1.UpdateRoutePluginConfigResponse{})
}

func (s routePluginConfigService) DeleteRoutePluginConfig(ctx context.Context, req *adminv1.DeleteRoutePluginConfigRequest) (*adminv1.DeleteRoutePluginConfigResponse, error) {
	return remove[*configv1.RoutePluginConfig](ctx, s.api, req, &adminv1.DeleteRoutePluginConfigResponse{})
}

// SetRoutePluginConfigs makes the entries of one plugin on one route equal to those
// given, told apart by plugin_sub_key.
func (s routePluginConfigService) SetRoutePluginConfigs(ctx context.Context, req *adminv1.SetRoutePluginConfigsRequest) (*adminv1.SetRoutePluginConfigsResponse, error) {
	kind := s.api.kinds.byName["RoutePluginConfig"]
	res := &adminv1.SetRoutePluginConfigsResponse{}
	_, result, err := s.api.transact(ctx, req, req.GetChange(), res, func(w *write) error {
		route, err := s.api.find(ctx, w.tx, w.actor, s.api.kinds.byName["Route"], req.GetRouteId(), "")
		if err != nil {
			return err
		}
		present, err := store.All[*configv1.RoutePluginConfig](ctx, w.tx, store.Filter{
			ParentID: store.ID(route), Equal: map[string]any{"plugin_key": req.GetPluginKey()},
		})
		if err != nil {
			return err
		}
		old := map[string]*configv1.RoutePluginConfig{}
		for _, c := range present {
			old[c.GetPluginSubKey()] = c
		}
		wanted := map[string]bool{}
		for i, given := range req.GetRoutePluginConfigs() {
			next := proto.CloneOf(given)
			next.TenantId, next.RouteId, next.PluginKey, next.Id, next.Etag = store.TenantID(route), store.ID(route), req.GetPluginKey(), "", ""
			if wanted[next.GetPluginSubKey()] {
				return wrong(next, fmt.Sprintf("route_plugin_configs[%d].plugin_sub_key", i), "unique", "give each plugin_sub_key once")
			}
			wanted[next.GetPluginSubKey()] = true
			var stored proto.Message
			if was := old[next.GetPluginSubKey()]; was != nil {
				next.Id = was.GetId()
				stored, err = w.replace(kind, was, next)
			} else {
				stored, err = w.create(kind, next)
			}
			if err != nil {
				return err
			}
			if err := put[*configv1.RoutePluginConfig](w.actor, res, stored); err != nil {
				return err
			}
		}
		for _, c := range present {
			if !wanted[c.GetPluginSubKey()] {
				if err := w.destroy(kind, c, ""); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	res.Result = result
	return res, nil
}
