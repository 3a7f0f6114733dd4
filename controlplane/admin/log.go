package admin

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect/v2"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/requestlog"
)

// Requests is the request log. *requestlog.Store is one.
type Requests interface {
	List(ctx context.Context, f requestlog.Filter, size int, token string) ([]*adminv1.RequestLog, string, error)
	Get(ctx context.Context, requestID string) (*adminv1.RequestLog, error)
	Decided(ctx context.Context, decisionID string) (*adminv1.RequestLog, error)
	Scan(ctx context.Context, f requestlog.Filter, fn func(*ledgerv1.RequestRecord) error) error
}

// logService reads the request log.
type logService struct {
	adminv1connect.UnimplementedLogServiceHandler
	api *API
}

var _ adminv1connect.LogServiceHandler = logService{}

// Bounds of the window of a search.
const (
	defaultWindow = time.Hour
	maxWindow     = 24 * time.Hour
)

func (a *API) requests() (Requests, error) {
	if a.cfg.Requests == nil {
		return nil, connect.NewError(connect.CodeFailedPrecondition, "this control plane was started without a request log")
	}
	return a.cfg.Requests, nil
}

// ListRequestLogs pages through requests, newest first.
func (s logService) ListRequestLogs(ctx context.Context, req *adminv1.ListRequestLogsRequest) (*adminv1.ListRequestLogsResponse, error) {
	log, err := s.api.requests()
	if err != nil {
		return nil, err
	}
	if id := req.GetRequestId(); id != "" {
		found, err := s.api.request(ctx, func() (*adminv1.RequestLog, error) { return log.Get(ctx, id) }, id)
		if connect.CodeOf(err) == connect.CodeNotFound {
			return &adminv1.ListRequestLogsResponse{}, nil
		}
		if err != nil {
			return nil, err
		}
		found.Record = nil
		return &adminv1.ListRequestLogsResponse{RequestLogs: []*adminv1.RequestLog{found}}, nil
	}
	tenants, err := tenantsAsked(ctx, req.GetTenantId())
	if err != nil {
		return nil, err
	}
	f := requestlog.Filter{
		Tenants: tenants, Consumer: req.GetConsumerId(), APIKey: req.GetApiKeyId(), Route: req.GetRouteId(), Model: req.GetModel(),
		Credential: req.GetCredentialId(), Outcome: req.GetOutcome(), Code: req.GetCode(), DecisionID: req.GetDecisionId(),
		MinStatus: req.GetMinStatus(), MaxStatus: req.GetMaxStatus(), MinAttempts: req.GetMinAttempts(),
		MinDuration: time.Duration(req.GetMinDurationMs()) * time.Millisecond, To: time.Now(),
	}
	if req.GetTo() != nil {
		f.To = req.GetTo().AsTime()
	}
	f.From = f.To.Add(-defaultWindow)
	if req.GetFrom() != nil {
		f.From = req.GetFrom().AsTime()
	}
	if !f.From.Before(f.To) {
		return nil, wrong(nil, "from", "window", "must be before to")
	}
	if f.To.Sub(f.From) > maxWindow {
		return nil, wrong(nil, "from", "window", "at most %s before to: page through longer times a day at a time", maxWindow)
	}
	list, next, err := log.List(ctx, f, pageSize(req.GetPageSize()), req.GetPageToken())
	if errors.Is(err, requestlog.ErrPageToken) {
		return nil, wrong(nil, "page_token", "page_token", "not a token of an earlier page; begin again without one")
	}
	if err != nil {
		return nil, err
	}
	return &adminv1.ListRequestLogsResponse{RequestLogs: list, NextPageToken: next}, nil
}

// tenantsAsked are the tenants whose rows the caller gets; nil for all.
func tenantsAsked(ctx context.Context, tenant string) ([]string, error) {
	actor := access.ActorOf(ctx)
	switch {
	case tenant != "" && !actor.CanTenant(tenant):
		return nil, access.Denied(access.ReadLogs, "this account may not see tenant %s", tenant)
	case tenant != "":
		return []string{tenant}, nil
	case actor.AllTenants():
		return nil, nil
	}
	return actor.Tenants, nil
}

// GetRequest reads everything that is kept of one request.
func (s logService) GetRequest(ctx context.Context, req *adminv1.GetRequestRequest) (*adminv1.GetRequestResponse, error) {
	log, err := s.api.requests()
	if err != nil {
		return nil, err
	}
	id := req.GetRequestId()
	found, err := s.api.request(ctx, func() (*adminv1.RequestLog, error) { return log.Get(ctx, id) }, id)
	if err != nil {
		return nil, err
	}
	return &adminv1.GetRequestResponse{RequestLog: found}, nil
}

// request reads one request, if the caller may see it.
func (a *API) request(ctx context.Context, get func() (*adminv1.RequestLog, error), id string) (*adminv1.RequestLog, error) {
	missing := connect.Errorf(connect.CodeNotFound,
		"the request log has nothing of %s: rows come some seconds after the answer and go after request_log.keep_days", id)
	found, err := get()
	switch actor := access.ActorOf(ctx); {
	case errors.Is(err, requestlog.ErrNotFound):
		return nil, missing
	case err != nil:
		return nil, err
	case !actor.AllTenants() && !actor.CanTenant(found.GetTenantId()):
		return nil, missing
	}
	return found, nil
}

// decision reads the decision of that id, or of the request of that id, from the log.
func (a *API) decision(ctx context.Context, id string) (string, error) {
	log, err := a.requests()
	if err != nil {
		return "", err
	}
	found, err := a.request(ctx, func() (*adminv1.RequestLog, error) {
		m, err := log.Decided(ctx, id)
		if errors.Is(err, requestlog.ErrNotFound) {
			return log.Get(ctx, id)
		}
		return m, err
	}, id)
	if err != nil {
		return "", err
	}
	if found.GetRecord().GetDecisionJson() == "" {
		return "", connect.Errorf(connect.CodeNotFound,
			"the request %s is in the log without its decision: it is kept for failures, slow requests, fallbacks and a hundredth of the others; its node may have it still", found.GetRequestId())
	}
	return found.GetRecord().GetDecisionJson(), nil
}
