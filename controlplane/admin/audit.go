package admin

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// auditService reads the audit trail.
type auditService struct{ api *API }

var _ adminv1connect.AuditServiceHandler = auditService{}

// ListAuditEvents pages through events, newest first.
func (s auditService) ListAuditEvents(ctx context.Context, req *adminv1.ListAuditEventsRequest) (*adminv1.ListAuditEventsResponse, error) {
	before, err := idCursor(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	actor := access.ActorOf(ctx)
	f := store.AuditFilter{ResourceID: req.GetResourceId()}
	if !actor.AllTenants() {
		f.Tenants = actor.Tenants
	}
	if id := req.GetTenantId(); id != "" {
		f.Tenants = []string{id}
		if !actor.CanTenant(id) {
			f.Tenants = []string{}
		}
	}
	if req.GetFrom() != nil {
		f.From = req.GetFrom().AsTime()
	}
	if req.GetTo() != nil {
		f.To = req.GetTo().AsTime()
	}
	size := pageSize(req.GetPageSize())
	events, err := s.api.store.AuditEvents(ctx, f, size+1, before)
	if err != nil {
		return nil, err
	}
	page, next := cutPage(events, size, func(e store.AuditEvent) string { return e.ID })
	res := &adminv1.ListAuditEventsResponse{NextPageToken: next}
	for _, e := range page {
		shown, err := s.event(actor, e)
		if err != nil {
			return nil, err
		}
		res.AuditEvents = append(res.AuditEvents, shown)
	}
	return res, nil
}

func (s auditService) event(actor access.Actor, e store.AuditEvent) (*adminv1.AuditEvent, error) {
	out := &adminv1.AuditEvent{
		Id: e.ID, CreateTime: stamp(e.Time), Actor: e.Actor, Action: e.Action, Kind: e.Kind, ResourceId: e.ResourceID,
		Name: e.ResourceName, TenantId: e.TenantID, Generation: e.Generation, Message: e.Message,
	}
	for _, side := range []struct {
		raw []byte
		to  *string
	}{{e.Before, &out.BeforeJson}, {e.After, &out.AfterJson}} {
		m, err := s.api.store.DecodeResource(e.Kind, side.raw)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		text, err := protojson.Marshal(shown(actor, m))
		if err != nil {
			return nil, fmt.Errorf("show %s: %w", e.Kind, err)
		}
		*side.to = string(text)
	}
	return out, nil
}
