package admin

import (
	"context"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// policyService keeps policies.
type policyService struct{ api *API }

var _ adminv1connect.PolicyServiceHandler = policyService{}

func (s policyService) CreatePolicy(ctx context.Context, req *adminv1.CreatePolicyRequest) (*adminv1.CreatePolicyResponse, error) {
	return create[*configv1.Policy](ctx, s.api, req, &adminv1.CreatePolicyResponse{})
}

func (s policyService) GetPolicy(ctx context.Context, req *adminv1.GetPolicyRequest) (*adminv1.GetPolicyResponse, error) {
	return get[*configv1.Policy](ctx, s.api, req, &adminv1.GetPolicyResponse{})
}

func (s policyService) ListPolicies(ctx context.Context, req *adminv1.ListPoliciesRequest) (*adminv1.ListPoliciesResponse, error) {
	return list[*configv1.Policy](ctx, s.api, req, &adminv1.ListPoliciesResponse{})
}

func (s policyService) UpdatePolicy(ctx context.Context, req *adminv1.UpdatePolicyRequest) (*adminv1.UpdatePolicyResponse, error) {
	return update[*configv1.Policy](ctx, s.api, req, &adminv1.UpdatePolicyResponse{})
}

func (s policyService) DeletePolicy(ctx context.Context, req *adminv1.DeletePolicyRequest) (*adminv1.DeletePolicyResponse, error) {
	return remove[*configv1.Policy](ctx, s.api, req, &adminv1.DeletePolicyResponse{})
}
