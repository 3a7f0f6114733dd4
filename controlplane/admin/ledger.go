package admin

import (
	"context"
	"errors"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/ledger"
)

// ledgerService reads the usage ledger.
type ledgerService struct {
	adminv1connect.UnimplementedLedgerServiceHandler
	api *API
}

var _ adminv1connect.LedgerServiceHandler = ledgerService{}

// ListEntries pages through ledger rows, newest first.
func (s ledgerService) ListEntries(ctx context.Context, req *adminv1.ListEntriesRequest) (*adminv1.ListEntriesResponse, error) {
	actor := access.ActorOf(ctx)
	f := ledger.Filter{Tenant: req.GetTenantId(), Consumer: req.GetConsumerId(), RequestID: req.GetRequestId()}
	if !actor.AllTenants() {
		if f.Tenant == "" && len(actor.Tenants) == 1 {
			f.Tenant = actor.Tenants[0]
		}
		if f.Tenant == "" {
			return nil, wrong(nil, "tenant_id", "required", "name one of the tenants that this account is limited to")
		}
		if !actor.CanTenant(f.Tenant) {
			return nil, access.Denied(access.ReadLedger, "this account may not see tenant %s", f.Tenant)
		}
	}
	if req.GetFrom() != nil {
		f.From = req.GetFrom().AsTime()
	}
	if req.GetTo() != nil {
		f.To = req.GetTo().AsTime()
	}
	entries, next, err := s.api.entries.ListEntries(ctx, f, ledger.Page{Size: int(req.GetPageSize()), Token: req.GetPageToken()})
	if errors.Is(err, ledger.ErrPageToken) {
		return nil, wrong(nil, "page_token", "page_token", "not a token of an earlier page; begin again without one")
	}
	if err != nil {
		return nil, err
	}
	return &adminv1.ListEntriesResponse{Entries: entries, NextPageToken: next}, nil
}
