package admin

import (
	"context"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// consumerService keeps consumers with their keys and issuers.
type consumerService struct{ api *API }

var _ adminv1connect.ConsumerServiceHandler = consumerService{}

func (s consumerService) CreateConsumer(ctx context.Context, req *adminv1.CreateConsumerRequest) (*adminv1.CreateConsumerResponse, error) {
	return create[*configv1.Consumer](ctx, s.api, req, &adminv1.CreateConsumerResponse{})
}

func (s consumerService) GetConsumer(ctx context.Context, req *adminv1.GetConsumerRequest) (*adminv1.GetConsumerResponse, error) {
	return get[*configv1.Consumer](ctx, s.api, req, &adminv1.GetConsumerResponse{})
}

func (s consumerService) ListConsumers(ctx context.Context, req *adminv1.ListConsumersRequest) (*adminv1.ListConsumersResponse, error) {
	return list[*configv1.Consumer](ctx, s.api, req, &adminv1.ListConsumersResponse{})
}

func (s consumerService) UpdateConsumer(ctx context.Context, req *adminv1.UpdateConsumerRequest) (*adminv1.UpdateConsumerResponse, error) {
	return update[*configv1.Consumer](ctx, s.api, req, &adminv1.UpdateConsumerResponse{})
}

func (s consumerService) DeleteConsumer(ctx context.Context, req *adminv1.DeleteConsumerRequest) (*adminv1.DeleteConsumerResponse, error) {
	return remove[*configv1.Consumer](ctx, s.api, req, &adminv1.DeleteConsumerResponse{})
}

func (s consumerService) CreateConsumerAPIKey(ctx context.Context, req *adminv1.CreateConsumerAPIKeyRequest) (*adminv1.CreateConsumerAPIKeyResponse, error) {
	return create[*configv1.ConsumerAPIKey](ctx, s.api, req, &adminv1.CreateConsumerAPIKeyResponse{})
}

func (s consumerService) GetConsumerAPIKey(ctx context.Context, req *adminv1.GetConsumerAPIKeyRequest) (*adminv1.GetConsumerAPIKeyResponse, error) {
	return get[*configv1.ConsumerAPIKey](ctx, s.api, req, &adminv1.GetConsumerAPIKeyResponse{})
}

func (s consumerService) ListConsumerAPIKeys(ctx context.Context, req *adminv1.ListConsumerAPIKeysRequest) (*adminv1.ListConsumerAPIKeysResponse, error) {
	return list[*configv1.ConsumerAPIKey](ctx, s.api, req, &adminv1.ListConsumerAPIKeysResponse{})
}

func (s consumerService) UpdateConsumerAPIKey(ctx context.Context, req *adminv1.UpdateConsumerAPIKeyRequest) (*adminv1.UpdateConsumerAPIKeyResponse, error) {
	return update[*configv1.ConsumerAPIKey](ctx, s.api, req, &adminv1.UpdateConsumerAPIKeyResponse{})
}

func (s consumerService) DeleteConsumerAPIKey(ctx context.Context, req *adminv1.DeleteConsumerAPIKeyRequest) (*adminv1.DeleteConsumerAPIKeyResponse, error) {
	return remove[*configv1.ConsumerAPIKey](ctx, s.api, req, &adminv1.DeleteConsumerAPIKeyResponse{})
}

func (s consumerService) CreateJWTIssuer(ctx context.Context, req *adminv1.CreateJWTIssuerRequest) (*adminv1.CreateJWTIssuerResponse, error) {
	return create[*configv1.JWTIssuer](ctx, s.api, req, &adminv1.CreateJWTIssuerResponse{})
}

func (s consumerService) GetJWTIssuer(ctx context.Context, req *adminv1.GetJWTIssuerRequest) (*adminv1.GetJWTIssuerResponse, error) {
	return get[*configv1.JWTIssuer](ctx, s.api, req, &adminv1.GetJWTIssuerResponse{})
}

func (s consumerService) ListJWTIssuers(ctx context.Context, req *adminv1.ListJWTIssuersRequest) (*adminv1.ListJWTIssuersResponse, error) {
	return list[*configv1.JWTIssuer](ctx, s.api, req, &adminv1.ListJWTIssuersResponse{})
}

func (s consumerService) UpdateJWTIssuer(ctx context.Context, req *adminv1.UpdateJWTIssuerRequest) (*adminv1.UpdateJWTIssuerResponse, error) {
	return update[*configv1.JWTIssuer](ctx, s.api, req, &adminv1.UpdateJWTIssuerResponse{})
}

func (s consumerService) DeleteJWTIssuer(ctx context.Context, req *adminv1.DeleteJWTIssuerRequest) (*adminv1.DeleteJWTIssuerResponse, error) {
	return remove[*configv1.JWTIssuer](ctx, s.api, req, &adminv1.DeleteJWTIssuerResponse{})
}
