package admin

import (
	"context"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// tenantService keeps tenants.
type tenantService struct{ api *API }

var _ adminv1connect.TenantServiceHandler = tenantService{}

func (s tenantService) CreateTenant(ctx context.Context, req *adminv1.CreateTenantRequest) (*adminv1.CreateTenantResponse, error) {
	return create[*configv1.Tenant](ctx, s.api, req, &adminv1.CreateTenantResponse{})
}

func (s tenantService) GetTenant(ctx context.Context, req *adminv1.GetTenantRequest) (*adminv1.GetTenantResponse, error) {
	return get[*configv1.Tenant](ctx, s.api, req, &adminv1.GetTenantResponse{})
}

func (s tenantService) ListTenants(ctx context.Context, req *adminv1.ListTenantsRequest) (*adminv1.ListTenantsResponse, error) {
	return list[*configv1.Tenant](ctx, s.api, req, &adminv1.ListTenantsResponse{})
}

func (s tenantService) UpdateTenant(ctx context.Context, req *adminv1.UpdateTenantRequest) (*adminv1.UpdateTenantResponse, error) {
	return update[*configv1.Tenant](ctx, s.api, req, &adminv1.UpdateTenantResponse{})
}

func (s tenantService) DeleteTenant(ctx context.Context, req *adminv1.DeleteTenantRequest) (*adminv1.DeleteTenantResponse, error) {
	return remove[*configv1.Tenant](ctx, s.api, req, &adminv1.DeleteTenantResponse{})
}
