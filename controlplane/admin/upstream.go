package admin

import (
	"context"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// upstreamService keeps upstreams with their credentials and models.
type upstreamService struct {
	adminv1connect.UnimplementedUpstreamServiceHandler
	api *API
}

var _ adminv1connect.UpstreamServiceHandler = upstreamService{}

func (s upstreamService) CreateUpstream(ctx context.Context, req *adminv1.CreateUpstreamRequest) (*adminv1.CreateUpstreamResponse, error) {
	return create[*configv1.Upstream](ctx, s.api, req, &adminv1.CreateUpstreamResponse{})
}

func (s upstreamService) GetUpstream(ctx context.Context, req *adminv1.GetUpstreamRequest) (*adminv1.GetUpstreamResponse, error) {
	return get[*configv1.Upstream](ctx, s.api, req, &adminv1.GetUpstreamResponse{})
}

func (s upstreamService) ListUpstreams(ctx context.Context, req *adminv1.ListUpstreamsRequest) (*adminv1.ListUpstreamsResponse, error) {
	return list[*configv1.Upstream](ctx, s.api, req, &adminv1.ListUpstreamsResponse{})
}

func (s upstreamService) UpdateUpstream(ctx context.Context, req *adminv1.UpdateUpstreamRequest) (*adminv1.UpdateUpstreamResponse, error) {
	return update[*configv1.Upstream](ctx, s.api, req, &adminv1.UpdateUpstreamResponse{})
}

func (s upstreamService) DeleteUpstream(ctx context.Context, req *adminv1.DeleteUpstreamRequest) (*adminv1.DeleteUpstreamResponse, error) {
	return remove[*configv1.Upstream](ctx, s.api, req, &adminv1.DeleteUpstreamResponse{})
}

func (s upstreamService) CreateUpstreamCredential(ctx context.Context, req *adminv1.CreateUpstreamCredentialRequest) (*adminv1.CreateUpstreamCredentialResponse, error) {
	return create[*configv1.UpstreamCredential](ctx, s.api, req, &adminv1.CreateUpstreamCredentialResponse{})
}

func (s upstreamService) GetUpstreamCredential(ctx context.Context, req *adminv1.GetUpstreamCredentialRequest) (*adminv1.GetUpstreamCredentialResponse, error) {
	return get[*configv1.UpstreamCredential](ctx, s.api, req, &adminv1.GetUpstreamCredentialResponse{})
}

func (s upstreamService) ListUpstreamCredentials(ctx context.Context, req *adminv1.ListUpstreamCredentialsRequest) (*adminv1.ListUpstreamCredentialsResponse, error) {
	return list[*configv1.UpstreamCredential](ctx, s.api, req, &adminv1.ListUpstreamCredentialsResponse{})
}

func (s upstreamService) UpdateUpstreamCredential(ctx context.Context, req *adminv1.UpdateUpstreamCredentialRequest) (*adminv1.UpdateUpstreamCredentialResponse, error) {
	return update[*configv1.UpstreamCredential](ctx, s.api, req, &adminv1.UpdateUpstreamCredentialResponse{})
}

func (s upstreamService) DeleteUpstreamCredential(ctx context.Context, req *adminv1.DeleteUpstreamCredentialRequest) (*adminv1.DeleteUpstreamCredentialResponse, error) {
	return remove[*configv1.UpstreamCredential](ctx, s.api, req, &adminv1.DeleteUpstreamCredentialResponse{})
}

func (s upstreamService) CreateUpstreamModel(ctx context.Context, req *adminv1.CreateUpstreamModelRequest) (*adminv1.CreateUpstreamModelResponse, error) {
	return create[*configv1.UpstreamModel](ctx, s.api, req, &adminv1.CreateUpstreamModelResponse{})
}

func (s upstreamService) GetUpstreamModel(ctx context.Context, req *adminv1.GetUpstreamModelRequest) (*adminv1.GetUpstreamModelResponse, error) {
	return get[*configv1.UpstreamModel](ctx, s.api, req, &adminv1.GetUpstreamModelResponse{})
}

func (s upstreamService) ListUpstreamModels(ctx context.Context, req *adminv1.ListUpstreamModelsRequest) (*adminv1.ListUpstreamModelsResponse, error) {
	return list[*configv1.UpstreamModel](ctx, s.api, req, &adminv1.ListUpstreamModelsResponse{})
}

func (s upstreamService) UpdateUpstreamModel(ctx context.Context, req *adminv1.UpdateUpstreamModelRequest) (*adminv1.UpdateUpstreamModelResponse, error) {
	return update[*configv1.UpstreamModel](ctx, s.api, req, &adminv1.UpdateUpstreamModelResponse{})
}

func (s upstreamService) DeleteUpstreamModel(ctx context.Context, req *adminv1.DeleteUpstreamModelRequest) (*adminv1.DeleteUpstreamModelResponse, error) {
	return remove[*configv1.UpstreamModel](ctx, s.api, req, &adminv1.DeleteUpstreamModelResponse{})
}

// EnableCredential lets new attempts use a credential again.
func (s upstreamService) EnableCredential(ctx context.Context, req *adminv1.EnableCredentialRequest) (*adminv1.EnableCredentialResponse, error) {
	return modify(ctx, s.api, req, &adminv1.EnableCredentialResponse{}, func(_ *write, m *configv1.UpstreamCredential) error {
		m.Disabled = false
		return nil
	})
}

// DisableCredential keeps new attempts from a credential.
func (s upstreamService) DisableCredential(ctx context.Context, req *adminv1.DisableCredentialRequest) (*adminv1.DisableCredentialResponse, error) {
	return modify(ctx, s.api, req, &adminv1.DisableCredentialResponse{}, func(_ *write, m *configv1.UpstreamCredential) error {
		m.Disabled = true
		return nil
	})
}

// ReplaceSecret gives a credential a new secret by value, also in the place of a
// reference.
func (s upstreamService) ReplaceSecret(ctx context.Context, req *adminv1.ReplaceSecretRequest) (*adminv1.ReplaceSecretResponse, error) {
	return modify(ctx, s.api, req, &adminv1.ReplaceSecretResponse{}, func(w *write, m *configv1.UpstreamCredential) error {
		w.mask = []string{"secret"}
		m.Secret = req.GetSecret()
		return nil
	})
}
