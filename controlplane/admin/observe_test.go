package admin

import (
	"testing"

	"connectrpc.com/connect/v2"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

func TestCommandsReachTheNodesAndTheAuditTrail(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()
	apply(t, f.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: append(world(), bundled(&configv1.Tenant{Name: "other"})...)}})
	id := f.byName(t)
	credential, route, tenant := id("UpstreamCredential", "key-1"), id("Route", "main"), id("Tenant", "acme")
	editor := adminv1connect.NewObserveServiceClient(f.as(role(adminv1.Role_ROLE_EDITOR, tenant)))
	must(editor.ClearRuntime(ctx, &adminv1.ClearRuntimeRequest{CredentialId: credential}))(t)
	must(editor.FlushAffinity(ctx, &adminv1.FlushAffinityRequest{CredentialId: credential}))(t)
	must(editor.FlushAffinity(ctx, &adminv1.FlushAffinityRequest{RouteId: route}))(t)
	must(editor.FlushAffinity(ctx, &adminv1.FlushAffinityRequest{TenantId: tenant}))(t)

	want := []struct {
		kind                          syncv1.SignalKind
		scope, subject, action, named string
	}{
		{syncv1.SignalKind_SIGNAL_KIND_CLEAR, "credential", credential, "clear_runtime", "key-1"},
		{syncv1.SignalKind_SIGNAL_KIND_FLUSH_AFFINITY, "credential", credential, "flush_affinity", "key-1"},
		{syncv1.SignalKind_SIGNAL_KIND_FLUSH_AFFINITY, "route", route, "flush_affinity", "main"},
		{syncv1.SignalKind_SIGNAL_KIND_FLUSH_AFFINITY, "tenant", tenant, "flush_affinity", "acme"},
	}
	audit := must(adminv1connect.NewAuditServiceClient(f.owner()).ListAuditEvents(ctx, &adminv1.ListAuditEventsRequest{PageSize: int32(len(want))}))(t).GetAuditEvents()
	if len(f.nodes.told) != len(want) || len(audit) != len(want) {
		t.Fatalf("told %v, written down %v; want %d of each", f.nodes.told, audit, len(want))
	}
	for i, w := range want {
		g, e := f.nodes.told[i], audit[len(want)-1-i]
		if g.GetKind() != w.kind || g.GetScope() != w.scope || g.GetSubject() != w.subject || g.GetId() == "" || g.GetNodeId() != "" || g.GetStartTime() == nil {
			t.Errorf("told %v, want %s of %s %s", g, w.kind, w.scope, w.subject)
		}
		if e.GetAction() != w.action || e.GetResourceId() != w.subject || e.GetName() != w.named || e.GetTenantId() != tenant || e.GetActor() != "adm_test" {
			t.Errorf("written down %v, want %s of %s", e, w.action, w.subject)
		}
	}
	// Other replicas find them in the store.
	stored, _, err := f.store.SignalsSince(ctx, stampOf("2026-01-01T00:00:00Z").AsTime())
	if err != nil || len(stored) != len(want) {
		t.Errorf("stored %v, %v", stored, err)
	}
}

func TestCommandsNeedTheRightAndANamedThing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()
	apply(t, f.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: append(world(), bundled(
		&configv1.Tenant{Name: "other"}, &configv1.Route{Name: "shared", PathPrefix: "/shared", ConsumerApiKeys: true})...)}})
	id := f.byName(t)
	credential := id("UpstreamCredential", "key-1")
	viewer := adminv1connect.NewObserveServiceClient(f.as(role(adminv1.Role_ROLE_VIEWER)))
	if _, err := viewer.ClearRuntime(ctx, &adminv1.ClearRuntimeRequest{CredentialId: credential}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a viewer is answered %v", err)
	}
	stranger := adminv1connect.NewObserveServiceClient(f.as(role(adminv1.Role_ROLE_EDITOR, id("Tenant", "other"))))
	_, err := stranger.ClearRuntime(ctx, &adminv1.ClearRuntimeRequest{CredentialId: credential})
	wantReason(t, err, connect.CodeNotFound, reasonNotFound)
	if _, err = stranger.FlushAffinity(ctx, &adminv1.FlushAffinityRequest{RouteId: id("Route", "shared")}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("an editor of one tenant flushes the route of all: %v", err)
	}
	owner := adminv1connect.NewObserveServiceClient(f.owner())
	_, err = owner.FlushAffinity(ctx, &adminv1.FlushAffinityRequest{})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
	_, err = owner.FlushAffinity(ctx, &adminv1.FlushAffinityRequest{CredentialId: credential, TenantId: id("Tenant", "acme")})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
	_, err = owner.ClearRuntime(ctx, &adminv1.ClearRuntimeRequest{CredentialId: "crd_00000000000000000000000000"})
	wantReason(t, err, connect.CodeNotFound, reasonNotFound)
	if len(f.nodes.told) != 0 {
		t.Errorf("told %v", f.nodes.told)
	}
}
