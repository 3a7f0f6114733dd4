package ledger

import (
	"context"
	"errors"

	"connectrpc.com/connect/v2"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/rs/zerolog"
)

// Caller returns the node that a call came from, as its certificate says. An
// error means that the call carries no identity of a node.
type Caller func(ctx context.Context) (nodeID string, err error)

// Logs takes rows of the request log.
type Logs interface {
	// Ingest stores the rows of a node that are not there yet, and that it lost some.
	Ingest(ctx context.Context, node string, records []*ledgerv1.RequestRecord, lost int64) (inserted int64, err error)
}

// Service serves aidy.ledger.v1 to nodes: it is the handler of both
// UsageService and LeaseService. Safe for concurrent use.
type Service struct {
	ledger *Ledger
	logs   Logs
	caller Caller
	log    zerolog.Logger
}

// NewService returns the handler over a ledger. logs may be nil: then no request log is
// kept.
func NewService(ledger *Ledger, logs Logs, caller Caller, log zerolog.Logger) (*Service, error) {
	if ledger == nil || caller == nil {
		return nil, errors.New("a ledger service needs a ledger and a way to know its callers")
	}
	return &Service{ledger: ledger, logs: logs, caller: caller, log: log.With().Str("component", "ledger_service").Logger()}, nil
}

// IngestUsage stores a batch of the calling node. It answers PermissionDenied
// if the batch names another node, InvalidArgument if it cannot be read,
// FailedPrecondition if sums and detail overlap, and Unavailable for what may
// pass: the node keeps the batch and sends it again.
func (s *Service) IngestUsage(ctx context.Context, req *ledgerv1.IngestUsageRequest) (*ledgerv1.IngestUsageResponse, error) {
	node, err := s.node(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	last, inserted, err := s.ledger.Ingest(ctx, node, req.GetBootId(), req.GetFirstSeq(), req.GetLastSeq(), req.GetEvents())
	switch {
	case err == nil:
		return &ledgerv1.IngestUsageResponse{LastSeq: last, Inserted: inserted}, nil
	case errors.Is(err, ErrBatch):
		return nil, connect.NewError(connect.CodeInvalidArgument, err.Error())
	case errors.Is(err, ErrOverlap):
		return nil, connect.NewError(connect.CodeFailedPrecondition, err.Error())
	case ctx.Err() != nil:
		return nil, connect.NewError(connect.CodeCanceled, "the caller left; send the batch again")
	}
	s.log.Error().Err(err).Str("node", node).Msg("usage not stored")
	return nil, connect.NewError(connect.CodeUnavailable, "usage was not stored; send the batch again")
}

// node is the calling node, which must be the one that the request names.
func (s *Service) node(ctx context.Context, claimed string) (string, error) {
	node, err := s.caller(ctx)
	if err != nil {
		return "", connect.NewError(connect.CodeUnauthenticated, "the call carries no node certificate; enrol the node")
	}
	if node != claimed {
		s.log.Warn().Str("node", node).Str("claimed", printable(claimed)).Msg("node sent usage in the name of another")
		return "", connect.Errorf(connect.CodePermissionDenied, "node_id is %s, but the certificate is that of %s", shown(claimed), shown(node))
	}
	return node, nil
}

// IngestLogs stores rows of the calling node's request log. It answers PermissionDenied
// if the batch names another node, Unimplemented where no request log is kept, and
// Unavailable for what may pass.
func (s *Service) IngestLogs(ctx context.Context, req *ledgerv1.IngestLogsRequest) (*ledgerv1.IngestLogsResponse, error) {
	if s.logs == nil {
		return nil, unimplemented("request_log")
	}
	node, err := s.node(ctx, req.GetNodeId())
	if err != nil {
		return nil, err
	}
	if _, err := s.logs.Ingest(ctx, node, req.GetRecords(), req.GetLost()); err != nil {
		if ctx.Err() != nil {
			return nil, connect.NewError(connect.CodeCanceled, "the caller left; send the batch again")
		}
		s.log.Error().Err(err).Str("node", node).Msg("request log not stored")
		return nil, connect.NewError(connect.CodeUnavailable, "the request log was not stored; send the batch again")
	}
	return &ledgerv1.IngestLogsResponse{}, nil
}

// AcquireCredit answers Unimplemented: this control plane lends no credit.
func (s *Service) AcquireCredit(context.Context, *ledgerv1.AcquireCreditRequest) (*ledgerv1.AcquireCreditResponse, error) {
	return nil, unimplemented("credit_leases")
}

// RenewCredit answers Unimplemented: this control plane lends no credit.
func (s *Service) RenewCredit(context.Context, *ledgerv1.RenewCreditRequest) (*ledgerv1.RenewCreditResponse, error) {
	return nil, unimplemented("credit_leases")
}

// CloseCredit answers Unimplemented: this control plane lends no credit.
func (s *Service) CloseCredit(context.Context, *ledgerv1.CloseCreditRequest) (*ledgerv1.CloseCreditResponse, error) {
	return nil, unimplemented("credit_leases")
}

// LeaseLimits answers Unimplemented: this control plane lends no limits.
func (s *Service) LeaseLimits(context.Context, *ledgerv1.LeaseLimitsRequest) (*ledgerv1.LeaseLimitsResponse, error) {
	return nil, unimplemented("limit_leases")
}

func unimplemented(capability string) error {
	return connect.Errorf(connect.CodeUnimplemented, "this control plane does not have the capability %s", capability)
}
