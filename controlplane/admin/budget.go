package admin

import (
	"context"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// budgetService keeps budgets.
type budgetService struct{ api *API }

var _ adminv1connect.BudgetServiceHandler = budgetService{}

func (s budgetService) CreateBudget(ctx context.Context, req *adminv1.CreateBudgetRequest) (*adminv1.CreateBudgetResponse, error) {
	return create[*configv1.Budget](ctx, s.api, req, &adminv1.CreateBudgetResponse{})
}

func (s budgetService) GetBudget(ctx context.Context, req *adminv1.GetBudgetRequest) (*adminv1.GetBudgetResponse, error) {
	return get[*configv1.Budget](ctx, s.api, req, &adminv1.GetBudgetResponse{})
}

func (s budgetService) ListBudgets(ctx context.Context, req *adminv1.ListBudgetsRequest) (*adminv1.ListBudgetsResponse, error) {
	return list[*configv1.Budget](ctx, s.api, req, &adminv1.ListBudgetsResponse{})
}

func (s budgetService) UpdateBudget(ctx context.Context, req *adminv1.UpdateBudgetRequest) (*adminv1.UpdateBudgetResponse, error) {
	return update[*configv1.Budget](ctx, s.api, req, &adminv1.UpdateBudgetResponse{})
}

func (s budgetService) DeleteBudget(ctx context.Context, req *adminv1.DeleteBudgetRequest) (*adminv1.DeleteBudgetResponse, error) {
	return remove[*configv1.Budget](ctx, s.api, req, &adminv1.DeleteBudgetResponse{})
}
