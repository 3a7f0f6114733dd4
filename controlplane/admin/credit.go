package admin

import (
	"context"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// creditService keeps credit accounts.
type creditService struct {
	adminv1connect.UnimplementedCreditServiceHandler
	api *API
}

var _ adminv1connect.CreditServiceHandler = creditService{}

func (s creditService) CreateCreditAccount(ctx context.Context, req *adminv1.CreateCreditAccountRequest) (*adminv1.CreateCreditAccountResponse, error) {
	return create[*configv1.CreditAccount](ctx, s.api, req, &adminv1.CreateCreditAccountResponse{})
}

func (s creditService) GetCreditAccount(ctx context.Context, req *adminv1.GetCreditAccountRequest) (*adminv1.GetCreditAccountResponse, error) {
	return get[*configv1.CreditAccount](ctx, s.api, req, &adminv1.GetCreditAccountResponse{})
}

func (s creditService) ListCreditAccounts(ctx context.Context, req *adminv1.ListCreditAccountsRequest) (*adminv1.ListCreditAccountsResponse, error) {
	return list[*configv1.CreditAccount](ctx, s.api, req, &adminv1.ListCreditAccountsResponse{})
}

func (s creditService) UpdateCreditAccount(ctx context.Context, req *adminv1.UpdateCreditAccountRequest) (*adminv1.UpdateCreditAccountResponse, error) {
	return update[*configv1.CreditAccount](ctx, s.api, req, &adminv1.UpdateCreditAccountResponse{})
}

func (s creditService) DeleteCreditAccount(ctx context.Context, req *adminv1.DeleteCreditAccountRequest) (*adminv1.DeleteCreditAccountResponse, error) {
	return remove[*configv1.CreditAccount](ctx, s.api, req, &adminv1.DeleteCreditAccountResponse{})
}
