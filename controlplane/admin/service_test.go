package admin

import (
	"io"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

func TestAccountsAndTokensOfAdministrators(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := adminv1connect.NewAdminServiceClient(f.owner())
	ctx := t.Context()
	tenant := must(adminv1connect.NewTenantServiceClient(f.owner()).CreateTenant(ctx, &adminv1.CreateTenantRequest{Tenant: &configv1.Tenant{Name: "acme"}}))(t).GetTenant().GetId()
	owner := must(c.CreateAdminAccount(ctx, &adminv1.CreateAdminAccountRequest{AdminAccount: &adminv1.AdminAccount{Name: "root", Role: adminv1.Role_ROLE_OWNER}}))(t).GetAdminAccount()
	editor := must(c.CreateAdminAccount(ctx, &adminv1.CreateAdminAccountRequest{AdminAccount: &adminv1.AdminAccount{Name: "ci", Role: adminv1.Role_ROLE_EDITOR, TenantIds: []string{tenant}}}))(t).GetAdminAccount()

	// A limit to a tenant that is not there, and a name twice.
	_, err := c.CreateAdminAccount(ctx, &adminv1.CreateAdminAccountRequest{AdminAccount: &adminv1.AdminAccount{Name: "x", Role: adminv1.Role_ROLE_VIEWER, TenantIds: []string{"ten_none"}}})
	wantReason(t, err, connect.CodeNotFound, reasonNotFound)
	_, err = c.CreateAdminAccount(ctx, &adminv1.CreateAdminAccountRequest{AdminAccount: &adminv1.AdminAccount{Name: "ci", Role: adminv1.Role_ROLE_VIEWER}})
	wantReason(t, err, connect.CodeAlreadyExists, reasonExists)
	_, err = c.CreateAdminAccount(ctx, &adminv1.CreateAdminAccountRequest{AdminAccount: &adminv1.AdminAccount{Name: "No Name"}})
	if info := wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid); len(info.GetViolations()) != 2 {
		t.Errorf("violations %v, want name and role", info.GetViolations())
	}

	made := must(c.CreateAdminToken(ctx, &adminv1.CreateAdminTokenRequest{AccountId: editor.GetId(), Name: "laptop", TtlS: 3600}))(t)
	found, account, err := f.store.Authenticate(ctx, access.HashToken(secret.New(made.GetToken())))
	if err != nil || account.ID != editor.GetId() || found.ExpiresAt.Before(time.Now()) {
		t.Errorf("the token is of %v until %v, %v", account.ID, found.ExpiresAt, err)
	}
	if tokens := must(c.ListAdminTokens(ctx, &adminv1.ListAdminTokensRequest{AccountId: editor.GetId()}))(t); len(tokens.GetAdminTokens()) != 1 || strings.Contains(tokens.String(), made.GetToken()) {
		t.Errorf("listed %v", tokens)
	}
	must(c.DeleteAdminToken(ctx, &adminv1.DeleteAdminTokenRequest{Id: made.GetAdminToken().GetId()}))(t)
	if _, _, err := f.store.Authenticate(ctx, access.HashToken(secret.New(made.GetToken()))); err == nil {
		t.Error("a deleted token still works")
	}

	// The last owner stays one, enabled and of all tenants.
	for _, change := range []*adminv1.AdminAccount{
		{Role: adminv1.Role_ROLE_EDITOR}, {Role: adminv1.Role_ROLE_OWNER, Disabled: true}, {Role: adminv1.Role_ROLE_OWNER, TenantIds: []string{tenant}},
	} {
		change.Id, change.Etag, change.Name = owner.GetId(), owner.GetEtag(), "root"
		_, err := c.UpdateAdminAccount(ctx, &adminv1.UpdateAdminAccountRequest{AdminAccount: change, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"role", "disabled", "tenant_ids"}}})
		wantReason(t, err, connect.CodeFailedPrecondition, reasonInvalid)
	}
	_, err = c.DeleteAdminAccount(ctx, &adminv1.DeleteAdminAccountRequest{Id: owner.GetId()})
	wantReason(t, err, connect.CodeFailedPrecondition, reasonInvalid)

	updated := must(c.UpdateAdminAccount(ctx, &adminv1.UpdateAdminAccountRequest{
		AdminAccount: &adminv1.AdminAccount{Id: editor.GetId(), Etag: editor.GetEtag(), Disabled: true}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"disabled"}},
	}))(t).GetAdminAccount()
	if !updated.GetDisabled() || updated.GetName() != "ci" || updated.GetRole() != adminv1.Role_ROLE_EDITOR {
		t.Errorf("updated to %v", updated)
	}
	_, err = c.UpdateAdminAccount(ctx, &adminv1.UpdateAdminAccountRequest{
		AdminAccount: &adminv1.AdminAccount{Id: editor.GetId(), Etag: editor.GetEtag()}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"disabled"}},
	})
	wantReason(t, err, connect.CodeAborted, reasonETag)
	page := must(c.ListAdminAccounts(ctx, &adminv1.ListAdminAccountsRequest{PageSize: 1}))(t)
	rest := must(c.ListAdminAccounts(ctx, &adminv1.ListAdminAccountsRequest{PageSize: 1, PageToken: page.GetNextPageToken()}))(t)
	if len(page.GetAdminAccounts()) != 1 || len(rest.GetAdminAccounts()) != 1 || rest.GetNextPageToken() != "" {
		t.Errorf("pages %v and %v", page, rest)
	}
	if me := must(c.WhoAmI(ctx, &adminv1.WhoAmIRequest{}))(t); me.GetAdminAccount().GetRole() != adminv1.Role_ROLE_OWNER {
		t.Errorf("the system is %v", me)
	}
}

func TestPricesAreDraftedByManyAndPublishedByFinance(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()
	apply(t, f.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	entry := func(from string, published bool) *configv1.PriceBookEntry {
		return &configv1.PriceBookEntry{
			Model: "gpt-6", Currency: "USD", EffectiveFrom: stampOf(from), Published: published,
			Items: []*configv1.PriceItem{{Component: configv1.PriceComponent_PRICE_COMPONENT_INPUT, PerMtokNanos: 10}},
		}
	}
	editor := adminv1connect.NewPriceBookServiceClient(f.as(role(adminv1.Role_ROLE_EDITOR)))
	finance := adminv1connect.NewPriceBookServiceClient(f.as(role(adminv1.Role_ROLE_FINANCE)))
	_, err := editor.ImportPrices(ctx, &adminv1.ImportPricesRequest{PriceBookEntries: []*configv1.PriceBookEntry{entry("2026-03-01T00:00:00Z", true)}})
	if info := wantReason(t, err, connect.CodePermissionDenied, "PERMISSION"); info.GetPermission() != string(access.ApprovePrices) {
		t.Errorf("lacks %q", info.GetPermission())
	}
	res := must(editor.ImportPrices(ctx, &adminv1.ImportPricesRequest{
		PriceBookEntries: []*configv1.PriceBookEntry{entry("2026-03-01T00:00:00Z", false)},
		ProviderPricings: []*configv1.ProviderPricing{{ProviderId: f.byName(t)("Provider", "openai"), Model: "gpt-6", Currency: "USD", EffectiveFrom: stampOf("2026-03-01T00:00:00Z"), Items: entry("2026-03-01T00:00:00Z", false).Items}},
	}))(t)
	if res.GetCreated() != 2 {
		t.Errorf("imported %d, want 2", res.GetCreated())
	}
	var draft *configv1.PriceBookEntry
	for _, e := range must(editor.ListPriceBookEntries(ctx, &adminv1.ListPriceBookEntriesRequest{}))(t).GetPriceBookEntries() {
		if e.GetModel() == "gpt-6" {
			draft = e
		}
	}
	must(finance.ApproveVersion(ctx, &adminv1.ApproveVersionRequest{Id: draft.GetId()}))(t)
	published := 0
	for _, e := range f.stored(t).Global().GetPriceBook() {
		if e.GetModel() == "gpt-6" {
			published++
		}
	}
	if published != 1 {
		t.Errorf("nodes know %d versions, want the published one", published)
	}
	draft.Items[0].PerMtokNanos = 11
	_, err = finance.UpdatePriceBookEntry(ctx, &adminv1.UpdatePriceBookEntryRequest{
		PriceBookEntry: &configv1.PriceBookEntry{Id: draft.GetId(), Etag: "2", Items: draft.GetItems()}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"items"}},
	})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
}

func TestFleetDefaultsAreOneDocument(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.cfg.PrintSettings = func(w io.Writer) error { _, err := io.WriteString(w, "admin_addr: x # default\n"); return err }
	ctx := t.Context()
	c := adminv1connect.NewSettingsServiceClient(f.owner())
	first := must(c.GetSettings(ctx, &adminv1.GetSettingsRequest{}))(t).GetSettings()
	if first.GetEtag() == "" || first.GetProcessYaml() == "" {
		t.Fatalf("settings %v", first)
	}
	res := must(c.UpdateSettings(ctx, &adminv1.UpdateSettingsRequest{
		Settings: &adminv1.Settings{Etag: first.GetEtag(), Scheduling: &configv1.SchedulingPolicy{LoadMs: proto.Int64(7)}}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"scheduling.load_ms"}},
	}))(t)
	if f.stored(t).Global().GetScheduling().GetLoadMs() != 7 || res.GetResult().GetGeneration() != 1 {
		t.Errorf("stored %v in generation %d", f.stored(t).Global().GetScheduling(), res.GetResult().GetGeneration())
	}
	_, err := c.UpdateSettings(ctx, &adminv1.UpdateSettingsRequest{Settings: first, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"scheduling"}}})
	if info := wantReason(t, err, connect.CodeAborted, reasonETag); info.GetCurrentEtag() != res.GetSettings().GetEtag() {
		t.Errorf("names etag %q, want %q", info.GetCurrentEtag(), res.GetSettings().GetEtag())
	}
	_, err = c.UpdateSettings(ctx, &adminv1.UpdateSettingsRequest{
		Settings: &adminv1.Settings{Etag: res.GetSettings().GetEtag(), Scheduling: &configv1.SchedulingPolicy{LoadMs: proto.Int64(-7)}}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"scheduling"}},
	})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
}

func TestPluginsOfARouteAreReplacedTogether(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()
	apply(t, f.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	c := adminv1connect.NewRoutePluginConfigServiceClient(f.owner())
	route := f.byName(t)("Route", "main")
	set := func(subs ...string) *adminv1.SetRoutePluginConfigsResponse {
		req := &adminv1.SetRoutePluginConfigsRequest{RouteId: route, PluginKey: plugin}
		for _, s := range subs {
			payload, err := structpb.NewStruct(map[string]any{"text": s})
			if err != nil {
				t.Fatal(err)
			}
			req.RoutePluginConfigs = append(req.RoutePluginConfigs, &configv1.RoutePluginConfig{PluginSubKey: s, Payload: payload})
		}
		return must(c.SetRoutePluginConfigs(ctx, req))(t)
	}
	first := set("a", "b")
	again := set("a", "b")
	if !again.GetResult().GetUnchanged() {
		t.Errorf("the same again changed %v", again.GetResult().GetDiff())
	}
	next := set("b", "c")
	if got := next.GetRoutePluginConfigs(); len(got) != 2 || got[0].GetId() != first.GetRoutePluginConfigs()[1].GetId() {
		t.Errorf("now %v, want b kept and c made", got)
	}
	if all := must(c.ListRoutePluginConfigs(ctx, &adminv1.ListRoutePluginConfigsRequest{Filter: &adminv1.ListFilter{ParentId: route}}))(t); len(all.GetRoutePluginConfigs()) != 2 {
		t.Errorf("%d are left, want 2", len(all.GetRoutePluginConfigs()))
	}
	_, err := c.SetRoutePluginConfigs(ctx, &adminv1.SetRoutePluginConfigsRequest{RouteId: route, PluginKey: plugin, RoutePluginConfigs: []*configv1.RoutePluginConfig{{}, {}}})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
}

func TestJoinTokensAreShownOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()
	c := adminv1connect.NewNodeServiceClient(f.owner())
	made := must(c.CreateJoinToken(ctx, &adminv1.CreateJoinTokenRequest{Name: "edge", Labels: map[string]string{"zone": "a"}}))(t)
	parsed, err := peer.ParseJoinToken(secret.New(made.GetToken()))
	if err != nil || parsed.ID != made.GetJoinToken().GetId() || parsed.CA != (peer.Hash{1}) {
		t.Fatalf("token %v, %v", parsed.ID, err)
	}
	if _, err := f.store.UseJoinToken(ctx, parsed.SecretHash(), store.Node{ID: "nod_01m8n4b48pepsta2v86r4j3wsf"}); err != nil {
		t.Errorf("the token does not let a node in: %v", err)
	}
	list := must(c.ListJoinTokens(ctx, &adminv1.ListJoinTokensRequest{}))(t)
	if len(list.GetJoinTokens()) != 1 || list.GetJoinTokens()[0].GetNodeId() == "" || strings.Contains(list.String(), made.GetToken()) {
		t.Errorf("listed %v", list)
	}
	f.nodes.list = []*adminv1.Node{{Id: "nod_a"}, {Id: "nod_b"}, {Id: "nod_c"}}
	page := must(c.ListNodes(ctx, &adminv1.ListNodesRequest{PageSize: 2}))(t)
	rest := must(c.ListNodes(ctx, &adminv1.ListNodesRequest{PageSize: 2, PageToken: page.GetNextPageToken()}))(t)
	if len(page.GetNodes()) != 2 || len(rest.GetNodes()) != 1 || rest.GetNodes()[0].GetId() != "nod_c" {
		t.Errorf("pages %v and %v", page, rest)
	}
	_, err = c.GetNode(ctx, &adminv1.GetNodeRequest{Id: "nod_x"})
	wantReason(t, err, connect.CodeNotFound, reasonNotFound)
}

func TestAFreezeStopsPolicyAndLetsIdentityFlow(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()
	apply(t, f.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	id := f.byName(t)
	rollouts := adminv1connect.NewRolloutServiceClient(f.owner())
	must(rollouts.Freeze(ctx, &adminv1.FreezeRequest{Reason: "holidays"}))(t)
	group := func(c *connect.Client, name string, confirm ...string) error {
		_, err := call(ctx, c, "GroupService", "CreateGroup", &adminv1.CreateGroupRequest{
			Group: &configv1.Group{TenantId: id("Tenant", "acme"), Name: name}, Change: &adminv1.ChangeContext{Confirm: confirm},
		})
		return err
	}
	wantReason(t, group(f.owner(), "a"), connect.CodeFailedPrecondition, reasonFrozen)
	wantReason(t, group(f.as(role(adminv1.Role_ROLE_EDITOR)), "a", confirmFreeze), connect.CodeFailedPrecondition, reasonFrozen)
	must(call(ctx, f.owner(), "ConsumerService", "RevokeAPIKey", &adminv1.RevokeAPIKeyRequest{Id: id("ConsumerAPIKey", "ci")}))(t)
	if err := group(f.owner(), "a", confirmFreeze); err != nil {
		t.Errorf("an owner could not override the freeze: %v", err)
	}
	must(rollouts.Unfreeze(ctx, &adminv1.UnfreezeRequest{}))(t)
	if err := group(f.owner(), "b"); err != nil {
		t.Errorf("after the freeze: %v", err)
	}
}

func TestGenerationsTellWhoChangedWhat(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ctx := t.Context()
	apply(t, f.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: append(world(), bundled(&configv1.Tenant{Name: "other"})...)}})
	id := f.byName(t)
	done := must(call(ctx, f.as(role(adminv1.Role_ROLE_EDITOR)), "ConsumerService", "UpdateConsumer", &adminv1.UpdateConsumerRequest{
		Consumer: &configv1.Consumer{Id: id("Consumer", "app"), Etag: "1", Suspended: true}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"suspended"}},
		Change: &adminv1.ChangeContext{Message: "unpaid"},
	}))(t).(*adminv1.UpdateConsumerResponse)
	c := adminv1connect.NewConfigServiceClient(f.owner())
	list := must(c.ListGenerations(ctx, &adminv1.ListGenerationsRequest{PageSize: 1}))(t)
	if g := list.GetGenerations()[0]; g.GetGeneration() != 2 || g.GetActor() != "adm_test" || g.GetMessage() != "unpaid" || list.GetNextPageToken() != "2" {
		t.Errorf("listed %v", list)
	}
	rest := must(c.ListGenerations(ctx, &adminv1.ListGenerationsRequest{PageSize: 5, PageToken: list.GetNextPageToken()}))(t)
	if len(rest.GetGenerations()) != 1 || rest.GetNextPageToken() != "" {
		t.Errorf("then %v", rest)
	}
	got := must(c.GetGeneration(ctx, &adminv1.GetGenerationRequest{}))(t)
	if len(got.GetDiff()) != 1 || !proto.Equal(got.GetDiff()[0], done.GetResult().GetDiff()[0]) || got.GetDiff()[0].GetFieldPath() != "suspended" || len(got.GetShards()) != 1 {
		t.Errorf("generation %v, its change said %v", got, done.GetResult().GetDiff())
	}
	limited := adminv1connect.NewConfigServiceClient(f.as(role(adminv1.Role_ROLE_VIEWER, id("Tenant", "other"))))
	_, err := limited.GetGeneration(ctx, &adminv1.GetGenerationRequest{Generation: 2})
	wantReason(t, err, connect.CodeNotFound, reasonNotFound)
	seen := must(limited.GetGeneration(ctx, &adminv1.GetGenerationRequest{Generation: 1}))(t)
	for _, d := range seen.GetDiff() {
		if d.GetId() != id("Tenant", "other") && d.GetKind() != "Group" {
			t.Errorf("who is limited to a tenant sees %v", d)
		}
	}
	renewed := must(c.RenewEpoch(ctx, &adminv1.RenewEpochRequest{Message: "restored"}))(t)
	if renewed.GetEpoch() == 0 || renewed.GetEpoch() != f.head(t).Epoch {
		t.Errorf("epoch %d, want %d", renewed.GetEpoch(), f.head(t).Epoch)
	}
}
