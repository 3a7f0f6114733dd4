package admin

import (
	"context"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// providerService keeps providers with their pricing and plugins.
type providerService struct{ api *API }

var _ adminv1connect.ProviderServiceHandler = providerService{}

func (s providerService) CreateProvider(ctx context.Context, req *adminv1.CreateProviderRequest) (*adminv1.CreateProviderResponse, error) {
	return create[*configv1.Provider](ctx, s.api, req, &adminv1.CreateProviderResponse{})
}

func (s providerService) GetProvider(ctx context.Context, req *adminv1.GetProviderRequest) (*adminv1.GetProviderResponse, error) {
	return get[*configv1.Provider](ctx, s.api, req, &adminv1.GetProviderResponse{})
}

func (s providerService) ListProviders(ctx context.Context, req *adminv1.ListProvidersRequest) (*adminv1.ListProvidersResponse, error) {
	return list[*configv1.Provider](ctx, s.api, req, &adminv1.ListProvidersResponse{})
}

func (s providerService) UpdateProvider(ctx context.Context, req *adminv1.UpdateProviderRequest) (*adminv1.UpdateProviderResponse, error) {
	return update[*configv1.Provider](ctx, s.api, req, &adminv1.UpdateProviderResponse{})
}

func (s providerService) DeleteProvider(ctx context.Context, req *adminv1.DeleteProviderRequest) (*adminv1.DeleteProviderResponse, error) {
	return remove[*configv1.Provider](ctx, s.api, req, &adminv1.DeleteProviderResponse{})
}

func (s providerService) CreateProviderPricing(ctx context.Context, req *adminv1.CreateProviderPricingRequest) (*adminv1.CreateProviderPricingResponse, error) {
	return create[*configv1.ProviderPricing](ctx, s.api, req, &adminv1.CreateProviderPricingResponse{})
}

func (s providerService) GetProviderPricing(ctx context.Context, req *adminv1.GetProviderPricingRequest) (*adminv1.GetProviderPricingResponse, error) {
	return get[*configv1.ProviderPricing](ctx, s.api, req, &adminv1.GetProviderPricingResponse{})
}

func (s providerService) ListProviderPricings(ctx context.Context, req *adminv1.ListProviderPricingsRequest) (*adminv1.ListProviderPricingsResponse, error) {
	return list[*configv1.ProviderPricing](ctx, s.api, req, &adminv1.ListProviderPricingsResponse{})
}

func (s providerService) UpdateProviderPricing(ctx context.Context, req *adminv1.UpdateProviderPricingRequest) (*adminv1.UpdateProviderPricingResponse, error) {
	return update[*configv1.ProviderPricing](ctx, s.api, req, &adminv1.UpdateProviderPricingResponse{})
}

func (s providerService) DeleteProviderPricing(ctx context.Context, req *adminv1.DeleteProviderPricingRequest) (*adminv1.DeleteProviderPricingResponse, error) {
	return remove[*configv1.ProviderPricing](ctx, s.api, req, &adminv1.DeleteProviderPricingResponse{})
}

func (s providerService) CreateProviderPluginConfig(ctx context.Context, req *adminv1.CreateProviderPluginConfigRequest) (*adminv1.CreateProviderPluginConfigResponse, error) {
	return create[*configv1.ProviderPluginConfig](ctx, s.api, req, &adminv1.CreateProviderPluginConfigResponse{})
}

func (s providerService) GetProviderPluginConfig(ctx context.Context, req *adminv1.GetProviderPluginConfigRequest) (*adminv1.GetProviderPluginConfigResponse, error) {
	return get[*configv1.ProviderPluginConfig](ctx, s.api, req, &adminv1.GetProviderPluginConfigResponse{})
}

func (s providerService) ListProviderPluginConfigs(ctx context.Context, req *adminv1.ListProviderPluginConfigsRequest) (*adminv1.ListProviderPluginConfigsResponse, error) {
	return list[*configv1.ProviderPluginConfig](ctx, s.api, req, &adminv1.ListProviderPluginConfigsResponse{})
}

func (s providerService) UpdateProviderPluginConfig(ctx context.Context, req *adminv1.UpdateProviderPluginConfigRequest) (*adminv1.UpdateProviderPluginConfigResponse, error) {
	return update[*configv1.ProviderPluginConfig](ctx, s.api, req, &adminv1.UpdateProviderPluginConfigResponse{})
}

func (s providerService) DeleteProviderPluginConfig(ctx context.Context, req *adminv1.DeleteProviderPluginConfigRequest) (*adminv1.DeleteProviderPluginConfigResponse, error) {
	return remove[*configv1.ProviderPluginConfig](ctx, s.api, req, &adminv1.DeleteProviderPluginConfigResponse{})
}
