package admin

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// observeService shows and resets the running state of the fleet.
type observeService struct {
	adminv1connect.UnimplementedObserveServiceHandler
	api *API
}

var _ adminv1connect.ObserveServiceHandler = observeService{}

// commandLife is how long nodes that were away still get a command.
const commandLife = 10 * time.Minute

// ClearRuntime makes a credential usable on every node, whatever nodes learned of it:
// its cooldowns, those of its quota group, address and proxy, the breakers and a failed
// authentication end.
func (s observeService) ClearRuntime(ctx context.Context, req *adminv1.ClearRuntimeRequest) (*adminv1.ClearRuntimeResponse, error) {
	err := s.command(ctx, syncv1.SignalKind_SIGNAL_KIND_CLEAR, "clear_runtime", "UpstreamCredential", "credential", req.GetCredentialId())
	if err != nil {
		return nil, err
	}
	return &adminv1.ClearRuntimeResponse{}, nil
}

// FlushAffinity makes every node forget where prompts of a credential, route or tenant
// are cached.
func (s observeService) FlushAffinity(ctx context.Context, req *adminv1.FlushAffinityRequest) (*adminv1.FlushAffinityResponse, error) {
	var kind, scope, id string
	for _, of := range [...]struct{ kind, scope, id string }{
		{"UpstreamCredential", "credential", req.GetCredentialId()},
		{"Route", "route", req.GetRouteId()},
		{"Tenant", "tenant", req.GetTenantId()},
	} {
		if of.id == "" {
			continue
		}
		if id != "" {
			return nil, wrong(nil, of.scope+"_id", "one_of", "name one of credential_id, route_id and tenant_id, not several")
		}
		kind, scope, id = of.kind, of.scope, of.id
	}
	if id == "" {
		return nil, wrong(nil, "credential_id", "required", "name what is to be forgotten: credential_id, route_id or tenant_id")
	}
	if err := s.command(ctx, syncv1.SignalKind_SIGNAL_KIND_FLUSH_AFFINITY, "flush_affinity", kind, scope, id); err != nil {
		return nil, err
	}
	return &adminv1.FlushAffinityResponse{}, nil
}

// command tells every node to do something to the running state that belongs to a
// resource, and writes down who said so.
func (s observeService) command(ctx context.Context, what syncv1.SignalKind, action, kind, scope, ref string) error {
	actor := access.ActorOf(ctx)
	var m proto.Message
	err := s.api.store.Read(ctx, func(tx *store.Tx) error {
		var err error
		m, err = s.api.find(ctx, tx, actor, s.api.kinds.byName[kind], ref, "")
		return err
	})
	if err != nil {
		return err
	}
	owner := store.TenantID(m)
	if kind == "Tenant" {
		owner = store.ID(m)
	}
	if !actor.CanTenant(owner) {
		return access.Denied(access.ManageRuntime, "this account is limited to some tenants and may not reset what belongs to all of them")
	}
	g := &syncv1.Signal{
		Id: ident.New("sig"), Kind: what, Scope: scope, Subject: store.ID(m),
		StartTime: timestamppb.Now(), Until: timestamppb.New(time.Now().Add(commandLife)),
	}
	event := store.AuditEvent{Action: action, Kind: kind, ResourceID: store.ID(m), ResourceName: text(m, "name"), TenantID: owner}
	if err := s.api.store.PutCommand(ctx, actor.Store(), event, g); err != nil {
		return err
	}
	s.api.fleet.Tell(g)
	return nil
}

// GetDecision reads a decision from the request log, by its id or that of its request.
func (s observeService) GetDecision(ctx context.Context, req *adminv1.GetDecisionRequest) (*adminv1.GetDecisionResponse, error) {
	decision, err := s.api.decision(ctx, req.GetDecisionId())
	if err != nil {
		return nil, err
	}
	return &adminv1.GetDecisionResponse{DecisionJson: decision}, nil
}
