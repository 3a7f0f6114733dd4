package admin

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// priceBookService keeps what customers pay.
type priceBookService struct{ api *API }

var _ adminv1connect.PriceBookServiceHandler = priceBookService{}

func (s priceBookService) CreatePriceBookEntry(ctx context.Context, req *adminv1.CreatePriceBookEntryRequest) (*adminv1.CreatePriceBookEntryResponse, error) {
	return create[*configv1.PriceBookEntry](ctx, s.api, req, &adminv1.CreatePriceBookEntryResponse{})
}

func (s priceBookService) GetPriceBookEntry(ctx context.Context, req *adminv1.GetPriceBookEntryRequest) (*adminv1.GetPriceBookEntryResponse, error) {
	return get[*configv1.PriceBookEntry](ctx, s.api, req, &adminv1.GetPriceBookEntryResponse{})
}

func (s priceBookService) ListPriceBookEntries(ctx context.Context, req *adminv1.ListPriceBookEntriesRequest) (*adminv1.ListPriceBookEntriesResponse, error) {
	return list[*configv1.PriceBookEntry](ctx, s.api, req, &adminv1.ListPriceBookEntriesResponse{})
}

func (s priceBookService) UpdatePriceBookEntry(ctx context.Context, req *adminv1.UpdatePriceBookEntryRequest) (*adminv1.UpdatePriceBookEntryResponse, error) {
	return update[*configv1.PriceBookEntry](ctx, s.api, req, &adminv1.UpdatePriceBookEntryResponse{})
}

func (s priceBookService) DeletePriceBookEntry(ctx context.Context, req *adminv1.DeletePriceBookEntryRequest) (*adminv1.DeletePriceBookEntryResponse, error) {
	return remove[*configv1.PriceBookEntry](ctx, s.api, req, &adminv1.DeletePriceBookEntryResponse{})
}

// ImportPrices makes price versions of both sides in one change.
func (s priceBookService) ImportPrices(ctx context.Context, req *adminv1.ImportPricesRequest) (*adminv1.ImportPricesResponse, error) {
	res := &adminv1.ImportPricesResponse{}
	_, result, err := s.api.transact(ctx, req, req.GetChange(), res, func(w *write) error {
		bad := &invalidError{}
		for _, m := range append(erased(req.GetPriceBookEntries()), erased(req.GetProviderPricings())...) {
			r, err := s.api.kinds.of(m)
			if err != nil {
				return err
			}
			_, err = w.create(r, proto.Clone(m))
			if invalid, ok := errors.AsType[*invalidError](err); ok {
				bad.violations = append(bad.violations, invalid.violations...)
				continue
			}
			if err != nil {
				return err
			}
			res.Created++
		}
		if len(bad.violations) > 0 {
			return bad
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	res.Result = result
	return res, nil
}

// ApproveVersion publishes a draft, which then never changes again.
func (s priceBookService) ApproveVersion(ctx context.Context, req *adminv1.ApproveVersionRequest) (*adminv1.ApproveVersionResponse, error) {
	res := &adminv1.ApproveVersionResponse{}
	if ident.Valid(ident.ProviderPricing, req.GetId()) {
		return modify(ctx, s.api, req, res, func(_ *write, m *configv1.ProviderPricing) error {
			m.Published = true
			return nil
		})
	}
	return modify(ctx, s.api, req, res, func(_ *write, m *configv1.PriceBookEntry) error {
		m.Published = true
		return nil
	})
}
