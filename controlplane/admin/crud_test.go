package admin

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

func stampOf(text string) *timestamppb.Timestamp {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return timestamppb.New(at)
}

// request makes a request message and sets the fields given, by name.
func request(t testing.TB, name string, fields map[string]any) proto.Message {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("aidy.admin.v1." + name))
	if err != nil {
		t.Fatal(err)
	}
	m := mt.New()
	for field, v := range fields {
		fd := m.Descriptor().Fields().ByTextName(field)
		if fd == nil {
			t.Fatalf("%s has no field %s", name, field)
		}
		if sub, ok := v.(proto.Message); ok {
			m.Set(fd, protoreflect.ValueOfMessage(sub.ProtoReflect()))
			continue
		}
		m.Set(fd, protoreflect.ValueOf(v))
	}
	return m.Interface()
}

// resourceIn returns the resource of a response, or those of its list.
func resourcesIn(res proto.Message) []proto.Message {
	var out []proto.Message
	res.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Message() == nil || fd.Message().ParentFile().Package() != "aidy.config.v1" {
			return true
		}
		if !fd.IsList() {
			out = append(out, v.Message().Interface())
			return true
		}
		for i := range v.List().Len() {
			out = append(out, v.List().Get(i).Message().Interface())
		}
		return true
	})
	return out
}

// cases is one resource of each kind, made of what the world holds, and a field to
// change.
func cases(id func(kind, name string) string) []struct {
	service, kind, many, field string
	make                       func(n string) proto.Message
	change                     func(m proto.Message)
} {
	tenant := id("Tenant", "acme")
	items := []*configv1.PriceItem{{Component: configv1.PriceComponent_PRICE_COMPONENT_OUTPUT, PerMtokNanos: 7}}
	disable := func(m proto.Message) {
		m.ProtoReflect().Set(m.ProtoReflect().Descriptor().Fields().ByName("disabled"), protoreflect.ValueOfBool(true))
	}
	type c = struct {
		service, kind, many, field string
		make                       func(n string) proto.Message
		change                     func(m proto.Message)
	}
	return []c{
		{"TenantService", "Tenant", "Tenants", "disabled", func(n string) proto.Message { return &configv1.Tenant{Name: n} }, disable},
		{"ProjectService", "Project", "Projects", "disabled", func(n string) proto.Message { return &configv1.Project{TenantId: tenant, Name: n} }, disable},
		{"ProviderService", "Provider", "Providers", "display_name", func(n string) proto.Message {
			return &configv1.Provider{TenantId: tenant, Name: n, Capabilities: []*configv1.Capability{{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "https://x.example.com/v1"}}}
		}, func(m proto.Message) { m.(*configv1.Provider).DisplayName = "X" }},
		{"ProviderService", "ProviderPricing", "ProviderPricings", "items", func(n string) proto.Message {
			return &configv1.ProviderPricing{ProviderId: id("Provider", "openai"), Model: n, Currency: "USD", Items: items, EffectiveFrom: stampOf("2026-02-01T00:00:00Z")}
		}, func(m proto.Message) { m.(*configv1.ProviderPricing).Items[0].PerMtokNanos = 8 }},
		{"ProviderService", "ProviderPluginConfig", "ProviderPluginConfigs", "disabled", func(n string) proto.Message {
			return &configv1.ProviderPluginConfig{ProviderId: id("Provider", "openai"), PluginKey: plugin, PluginSubKey: n}
		}, disable},
		{"UpstreamService", "Upstream", "Upstreams", "region", func(n string) proto.Message {
			return &configv1.Upstream{TenantId: tenant, Name: n, ProviderId: id("Provider", "openai"), GroupId: id("Group", "default")}
		}, func(m proto.Message) { m.(*configv1.Upstream).Region = "eu" }},
		{"UpstreamService", "UpstreamCredential", "UpstreamCredentials", "quota_group", func(n string) proto.Message {
			return &configv1.UpstreamCredential{TenantId: tenant, UpstreamId: id("Upstream", "main"), Name: n, Secret: "s3cret-" + n}
		}, func(m proto.Message) { m.(*configv1.UpstreamCredential).QuotaGroup = "q" }},
		{"UpstreamService", "UpstreamModel", "UpstreamModels", "max_context_tokens", func(n string) proto.Message {
			return &configv1.UpstreamModel{TenantId: tenant, UpstreamId: id("Upstream", "main"), Model: n}
		}, func(m proto.Message) { m.(*configv1.UpstreamModel).MaxContextTokens = 9 }},
		{"GroupService", "Group", "Groups", "fallback_groups", func(n string) proto.Message {
			return &configv1.Group{TenantId: tenant, Name: n}
		}, func(m proto.Message) { m.(*configv1.Group).FallbackGroups = []string{id("Group", "spare")} }},
		{"RouteService", "Route", "Routes", "deadline_ms", func(n string) proto.Message {
			return &configv1.Route{TenantId: tenant, Name: n, PathPrefix: "/" + n, ConsumerApiKeys: true}
		}, func(m proto.Message) { m.(*configv1.Route).DeadlineMs = 1000 }},
		{"RoutePluginConfigService", "RoutePluginConfig", "RoutePluginConfigs", "payload", func(n string) proto.Message {
			return &configv1.RoutePluginConfig{TenantId: tenant, RouteId: id("Route", "main"), PluginKey: plugin, PluginSubKey: n}
		}, func(m proto.Message) {
			m.(*configv1.RoutePluginConfig).Payload, _ = structpb.NewStruct(map[string]any{"a": "b"})
		}},
		{"LogicalRouteService", "LogicalRoute", "LogicalRoutes", "targets", func(n string) proto.Message {
			return &configv1.LogicalRoute{TenantId: tenant, Name: n, Order: 77, Match: &configv1.ModelMatch{Model: n}, Targets: []*configv1.RouteTarget{{Model: "gpt-5"}}}
		}, func(m proto.Message) { m.(*configv1.LogicalRoute).Targets[0].Weight = 3 }},
		{"PolicyService", "Policy", "Policies", "disabled", func(n string) proto.Message { return &configv1.Policy{TenantId: tenant, Name: n} }, disable},
		{"ConsumerService", "Consumer", "Consumers", "suspended", func(n string) proto.Message {
			return &configv1.Consumer{TenantId: tenant, Name: n}
		}, func(m proto.Message) { m.(*configv1.Consumer).Suspended = true }},
		{"ConsumerService", "ConsumerAPIKey", "ConsumerAPIKeys", "disabled", func(n string) proto.Message {
			return &configv1.ConsumerAPIKey{TenantId: tenant, ConsumerId: id("Consumer", "app"), Name: n}
		}, disable},
		{"ConsumerService", "JWTIssuer", "JWTIssuers", "audiences", func(n string) proto.Message {
			return &configv1.JWTIssuer{TenantId: tenant, Name: n, Issuer: "https://" + n + ".example.com", Audiences: []string{"a"}, JwksUrl: "https://x.example.com/jwks", Scopes: []configv1.Scope{configv1.Scope_SCOPE_CHAT}}
		}, func(m proto.Message) { m.(*configv1.JWTIssuer).Audiences = []string{"b"} }},
		{"BudgetService", "Budget", "Budgets", "amount_nanos", func(n string) proto.Message {
			return &configv1.Budget{TenantId: tenant, Name: n, Currency: "EUR", AmountNanos: 5, Window: configv1.BudgetWindow_BUDGET_WINDOW_DAY}
		}, func(m proto.Message) { m.(*configv1.Budget).AmountNanos = 6 }},
		{"CreditService", "CreditAccount", "CreditAccounts", "floor_nanos", func(n string) proto.Message {
			return &configv1.CreditAccount{TenantId: tenant, Name: n, ConsumerId: id("Consumer", "app"), ApiKeyId: id("ConsumerAPIKey", "ci"), Currency: "USD"}
		}, func(m proto.Message) { m.(*configv1.CreditAccount).FloorNanos = -5 }},
		{"PriceBookService", "PriceBookEntry", "PriceBookEntries", "items", func(n string) proto.Message {
			return &configv1.PriceBookEntry{Model: n, Currency: "USD", Items: items, EffectiveFrom: stampOf("2026-02-01T00:00:00Z")}
		}, func(m proto.Message) { m.(*configv1.PriceBookEntry).Items[0].PerMtokNanos = 9 }},
	}
}

// plugin is one that configuration may name.
const plugin = "notice"

// byName finds ids of what the world made.
func (f *fixture) byName(t testing.TB) func(kind, name string) string {
	return func(kind, name string) string {
		t.Helper()
		var found string
		if err := f.store.Read(t.Context(), func(tx *store.Tx) error {
			all, err := f.kinds.byName[kind].all(t.Context(), tx, store.Filter{Name: name})
			for _, m := range all {
				found = store.ID(m)
			}
			return err
		}); err != nil || found == "" {
			t.Fatalf("no %s %s: %v", kind, name, err)
		}
		return found
	}
}

func snake(kind string) string {
	kind = strings.NewReplacer("API", "Api", "JWT", "Jwt").Replace(kind)
	var b strings.Builder
	for i, r := range kind {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func TestEveryResourceCanBeMadeReadListedChangedAndDeleted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	for _, tc := range cases(f.byName(t)) {
		t.Run(tc.kind, func(t *testing.T) {
			wanted := tc.make("fresh")
			made := must(call(t.Context(), c, tc.service, "Create"+tc.kind, request(t, "Create"+tc.kind+"Request", map[string]any{snake(tc.kind): wanted})))(t)
			m := resourcesIn(made)[0]
			id, etag := store.ID(m), text(m, "etag")
			if id == "" || etag == "" {
				t.Fatalf("made %v without id or etag", m)
			}
			read := resourcesIn(must(call(t.Context(), c, tc.service, "Get"+tc.kind, request(t, "Get"+tc.kind+"Request", map[string]any{"id": id})))(t))[0]
			if !proto.Equal(m, read) {
				t.Errorf("made %v and read %v", m, read)
			}
			if text(m, "name") != "" {
				tenant := text(m, "tenant_id")
				again := resourcesIn(must(call(t.Context(), c, tc.service, "Get"+tc.kind, request(t, "Get"+tc.kind+"Request", map[string]any{"id": "fresh", "tenant_id": tenant})))(t))[0]
				if store.ID(again) != id {
					t.Errorf("by its name it is %v", again)
				}
			}
			listed := resourcesIn(must(call(t.Context(), c, tc.service, "List"+tc.many, request(t, "List"+tc.many+"Request", map[string]any{"page_size": int32(1000)})))(t))
			found := false
			for _, l := range listed {
				found = found || proto.Equal(l, m)
			}
			if !found {
				t.Errorf("the list of %d does not hold it", len(listed))
			}

			next := proto.Clone(m)
			tc.change(next)
			updated := must(call(t.Context(), c, tc.service, "Update"+tc.kind, request(t, "Update"+tc.kind+"Request", map[string]any{
				snake(tc.kind): next, "update_mask": &fieldmaskpb.FieldMask{Paths: []string{tc.field}},
			})))(t)
			u := resourcesIn(updated)[0]
			if text(u, "etag") == etag {
				t.Errorf("the etag did not change with %s", tc.field)
			}
			_, err := call(t.Context(), c, tc.service, "Update"+tc.kind, request(t, "Update"+tc.kind+"Request", map[string]any{
				snake(tc.kind): next, "update_mask": &fieldmaskpb.FieldMask{Paths: []string{tc.field}},
			}))
			if info := wantReason(t, err, connect.CodeAborted, reasonETag); info.GetCurrentEtag() != text(u, "etag") {
				t.Errorf("the mismatch names %q, the etag is %q", info.GetCurrentEtag(), text(u, "etag"))
			}
			for _, fixed := range []string{"id", "tenant_id", "etag", "create_time"} {
				if u.ProtoReflect().Descriptor().Fields().ByTextName(fixed) == nil {
					continue
				}
				_, err := call(t.Context(), c, tc.service, "Update"+tc.kind, request(t, "Update"+tc.kind+"Request", map[string]any{
					snake(tc.kind): u, "update_mask": &fieldmaskpb.FieldMask{Paths: []string{fixed}},
				}))
				wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
			}
			_, err = call(t.Context(), c, tc.service, "Delete"+tc.kind, request(t, "Delete"+tc.kind+"Request", map[string]any{"id": id, "etag": etag}))
			wantReason(t, err, connect.CodeAborted, reasonETag)
			must(call(t.Context(), c, tc.service, "Delete"+tc.kind, request(t, "Delete"+tc.kind+"Request", map[string]any{"id": id})))(t)
			_, err = call(t.Context(), c, tc.service, "Get"+tc.kind, request(t, "Get"+tc.kind+"Request", map[string]any{"id": id}))
			wantReason(t, err, connect.CodeNotFound, reasonNotFound)
		})
	}
}

func TestPagesFollowEachOtherWithoutRepetition(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	var resources []proto.Message
	for i := range 7 {
		resources = append(resources, &configv1.Tenant{Name: "t-" + string(rune('a'+i)), Labels: map[string]string{"odd": map[bool]string{true: "yes", false: "no"}[i%2 == 1]}})
	}
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(resources...)}})
	seen, token := map[string]bool{}, ""
	for pages := 1; ; pages++ {
		res := must(call(t.Context(), c, "TenantService", "ListTenants", &adminv1.ListTenantsRequest{PageSize: 3, PageToken: token}))(t).(*adminv1.ListTenantsResponse)
		for _, m := range res.GetTenants() {
			if seen[m.GetId()] {
				t.Errorf("%s came twice", m.GetName())
			}
			seen[m.GetId()] = true
		}
		if token = res.GetNextPageToken(); token == "" {
			if pages != 3 {
				t.Errorf("%d pages, want 3", pages)
			}
			break
		}
	}
	if len(seen) != 7 {
		t.Errorf("saw %d tenants, want 7", len(seen))
	}
	res := must(call(t.Context(), c, "TenantService", "ListTenants", &adminv1.ListTenantsRequest{Filter: &adminv1.ListFilter{Labels: map[string]string{"odd": "yes"}}}))(t).(*adminv1.ListTenantsResponse)
	if len(res.GetTenants()) != 3 {
		t.Errorf("%d tenants have the label, want 3", len(res.GetTenants()))
	}
	_, err := call(t.Context(), c, "TenantService", "ListTenants", &adminv1.ListTenantsRequest{PageToken: "not a token"})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
}

func TestAMaskChangesWhatItNamesAndNothingElse(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(&configv1.Tenant{
		Name: "acme", Labels: map[string]string{"a": "b"}, MaxAuthStalenessS: 60,
		Scheduling: &configv1.SchedulingPolicy{LoadMs: proto.Int64(5), TimeValueNusdPerMs: proto.Int64(6)},
	})}})
	update := func(m *configv1.Tenant, paths ...string) (*configv1.Tenant, error) {
		res, err := call(t.Context(), c, "TenantService", "UpdateTenant", &adminv1.UpdateTenantRequest{Tenant: m, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
		if err != nil {
			return nil, err
		}
		return res.(*adminv1.UpdateTenantResponse).GetTenant(), nil
	}
	id := f.byName(t)("Tenant", "acme")
	got := must(update(&configv1.Tenant{Id: id, Etag: "1", Suspended: true, Scheduling: &configv1.SchedulingPolicy{LoadMs: proto.Int64(9)}}, "scheduling.load_ms", "labels"))(t)
	if got.GetSuspended() || got.GetMaxAuthStalenessS() != 60 || got.GetScheduling().GetTimeValueNusdPerMs() != 6 || got.GetScheduling().GetLoadMs() != 9 || len(got.GetLabels()) != 0 {
		t.Errorf("updated to %v", got)
	}
	got = must(update(&configv1.Tenant{Id: id, Etag: "2"}, "scheduling"))(t)
	if got.GetScheduling() != nil {
		t.Errorf("named and empty is %v, want it cleared", got.GetScheduling())
	}
	for _, path := range []string{"nonsense", "scheduling.nonsense", "labels.a", "name.x", ""} {
		_, err := update(&configv1.Tenant{Id: id, Etag: "3"}, path)
		if info := wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid); len(info.GetViolations()) != 1 || info.GetViolations()[0].GetHint() == "" {
			t.Errorf("path %q: violations %v", path, info.GetViolations())
		}
	}
	if _, err := update(&configv1.Tenant{Id: id}, "suspended"); detailOf(err).GetReason() != reasonInvalid {
		t.Errorf("without an etag: %v", err)
	}
	if _, err := update(&configv1.Tenant{Id: id, Etag: "3"}); detailOf(err).GetReason() != reasonInvalid {
		t.Errorf("without a mask: %v", err)
	}
}

func TestDeletingWhatIsReferredToListsTheReferrers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	id := f.byName(t)
	_, err := call(t.Context(), c, "ProviderService", "DeleteProvider", &adminv1.DeleteProviderRequest{Id: id("Provider", "openai")})
	info := wantReason(t, err, connect.CodeFailedPrecondition, reasonReferenced)
	if want := "Upstream/main/" + id("Upstream", "main"); !strings.Contains(strings.Join(info.GetReferrers(), " "), want) {
		t.Errorf("referrers %v, want %s among them", info.GetReferrers(), want)
	}
	_, err = call(t.Context(), c, "GroupService", "DeleteGroup", &adminv1.DeleteGroupRequest{Id: id("Group", "default")})
	if connect.CodeOf(err) != connect.CodeInvalidArgument && connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("the default group went: %v", err)
	}
}

func TestATenantComesAndGoesWithItsDefaultGroup(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	made := must(call(t.Context(), c, "TenantService", "CreateTenant", &adminv1.CreateTenantRequest{Tenant: &configv1.Tenant{Name: "acme"}}))(t).(*adminv1.CreateTenantResponse)
	if made.GetResult().GetGeneration() != 1 {
		t.Errorf("a tenant and its group took generation %d, want one generation", made.GetResult().GetGeneration())
	}
	f.byName(t)("Group", "default")
	must(call(t.Context(), c, "TenantService", "DeleteTenant", &adminv1.DeleteTenantRequest{Id: made.GetTenant().GetId()}))(t)
	list := must(call(t.Context(), c, "GroupService", "ListGroups", &adminv1.ListGroupsRequest{}))(t).(*adminv1.ListGroupsResponse)
	if len(list.GetGroups()) != 0 {
		t.Errorf("groups %v are left", list.GetGroups())
	}
}

func TestALimitedActorSeesAndTouchesItsTenantsAlone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: append(world(), bundled(&configv1.Tenant{Name: "other"}, &configv1.Consumer{TenantId: "other", Name: "theirs"})...)}})
	id := f.byName(t)
	mine, theirs := id("Tenant", "acme"), id("Tenant", "other")
	limited := f.as(role(adminv1.Role_ROLE_EDITOR, mine))

	list := must(call(t.Context(), limited, "TenantService", "ListTenants", &adminv1.ListTenantsRequest{}))(t).(*adminv1.ListTenantsResponse)
	if len(list.GetTenants()) != 1 || list.GetTenants()[0].GetId() != mine {
		t.Errorf("sees tenants %v", list.GetTenants())
	}
	list = must(call(t.Context(), limited, "TenantService", "ListTenants", &adminv1.ListTenantsRequest{Filter: &adminv1.ListFilter{TenantId: theirs}}))(t).(*adminv1.ListTenantsResponse)
	if len(list.GetTenants()) != 0 {
		t.Errorf("sees the other tenant when it asks for it")
	}
	providers := must(call(t.Context(), limited, "ProviderService", "ListProviders", &adminv1.ListProvidersRequest{}))(t).(*adminv1.ListProvidersResponse)
	if len(providers.GetProviders()) != 1 {
		t.Errorf("sees %d providers, want the shared one", len(providers.GetProviders()))
	}
	_, err := call(t.Context(), limited, "ConsumerService", "GetConsumer", &adminv1.GetConsumerRequest{Id: id("Consumer", "theirs")})
	wantReason(t, err, connect.CodeNotFound, reasonNotFound)
	_, err = call(t.Context(), limited, "ConsumerService", "DeleteConsumer", &adminv1.DeleteConsumerRequest{Id: id("Consumer", "theirs")})
	wantReason(t, err, connect.CodeNotFound, reasonNotFound)
	_, err = call(t.Context(), limited, "ConsumerService", "CreateConsumer", &adminv1.CreateConsumerRequest{Consumer: &configv1.Consumer{TenantId: theirs, Name: "mine"}})
	wantReason(t, err, connect.CodePermissionDenied, "PERMISSION")
	_, err = call(t.Context(), limited, "ProviderService", "DeleteProvider", &adminv1.DeleteProviderRequest{Id: id("Provider", "openai")})
	wantReason(t, err, connect.CodePermissionDenied, "PERMISSION")
	_, err = call(t.Context(), limited, "TenantService", "CreateTenant", &adminv1.CreateTenantRequest{Tenant: &configv1.Tenant{Name: "third"}})
	wantReason(t, err, connect.CodePermissionDenied, "PERMISSION")
	_, err = tryApply(t, limited, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(&configv1.Consumer{TenantId: "other", Name: "theirs"})}})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid) // the name leads nowhere for it
	must(call(t.Context(), limited, "ConsumerService", "CreateConsumer", &adminv1.CreateConsumerRequest{Consumer: &configv1.Consumer{TenantId: mine, Name: "new"}}))(t)

	audit := must(call(t.Context(), limited, "AuditService", "ListAuditEvents", &adminv1.ListAuditEventsRequest{PageSize: 500}))(t).(*adminv1.ListAuditEventsResponse)
	for _, e := range audit.GetAuditEvents() {
		if e.GetTenantId() != mine {
			t.Errorf("sees the event %v", e)
		}
	}
	if len(audit.GetAuditEvents()) == 0 {
		t.Error("sees no events of its own tenant")
	}
	_, err = call(t.Context(), limited, "LedgerService", "ListEntries", &adminv1.ListEntriesRequest{TenantId: theirs})
	wantReason(t, err, connect.CodePermissionDenied, "PERMISSION")
	must(call(t.Context(), limited, "LedgerService", "ListEntries", &adminv1.ListEntriesRequest{}))(t)
	if got := f.entries.asked[len(f.entries.asked)-1].Tenant; got != mine {
		t.Errorf("asked the ledger for tenant %q", got)
	}
}

func TestOnlyAnOwnerOpensPrivateAddresses(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p := func() *configv1.Provider {
		return &configv1.Provider{Name: "inside", AllowPlaintext: true, AllowPrivateAddress: true, Capabilities: []*configv1.Capability{{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "http://10.0.0.7:8000/v1"}}}
	}
	editor := f.as(role(adminv1.Role_ROLE_EDITOR))
	_, err := call(t.Context(), editor, "ProviderService", "CreateProvider", &adminv1.CreateProviderRequest{Provider: p()})
	if info := wantReason(t, err, connect.CodePermissionDenied, "PERMISSION"); info.GetPermission() != string(access.AllowPrivate) {
		t.Errorf("lacks %q, want %q", info.GetPermission(), access.AllowPrivate)
	}
	// The network is not one tenant's, so neither is the right to open it.
	apply(t, f.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	mine := f.byName(t)("Tenant", "acme")
	inside := p()
	inside.TenantId = mine
	_, err = call(t.Context(), f.as(role(adminv1.Role_ROLE_OWNER, mine)), "ProviderService", "CreateProvider", &adminv1.CreateProviderRequest{Provider: inside})
	wantReason(t, err, connect.CodePermissionDenied, "PERMISSION")
	made := must(call(t.Context(), f.owner(), "ProviderService", "CreateProvider", &adminv1.CreateProviderRequest{Provider: p()}))(t).(*adminv1.CreateProviderResponse)
	// An editor may still change the rest of it.
	must(call(t.Context(), editor, "ProviderService", "UpdateProvider", &adminv1.UpdateProviderRequest{
		Provider: &configv1.Provider{Id: made.GetProvider().GetId(), Etag: "1", DisplayName: "Inside"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name"}},
	}))(t)
}

// Nodes have one environment for all tenants: whoever may name any variable of it for a
// provider of its own is sent the others' secrets.
func TestOnlyAnAdministratorOfAllTenantsRefersToSecretsOfNodes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	apply(t, f.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	list := must(call(t.Context(), f.owner(), "UpstreamService", "ListUpstreams", &adminv1.ListUpstreamsRequest{}))(t).(*adminv1.ListUpstreamsResponse)
	up := list.GetUpstreams()[0]
	c := func() *adminv1.CreateUpstreamCredentialRequest {
		return &adminv1.CreateUpstreamCredentialRequest{UpstreamCredential: &configv1.UpstreamCredential{
			TenantId: up.GetTenantId(), UpstreamId: up.GetId(), Name: "by-reference", SecretRef: "env:AIDY_SECRET_OTHER",
		}}
	}
	limited := f.as(role(adminv1.Role_ROLE_EDITOR, up.GetTenantId()))
	_, err := call(t.Context(), limited, "UpstreamService", "CreateUpstreamCredential", c())
	wantReason(t, err, connect.CodePermissionDenied, "PERMISSION")
	made := must(call(t.Context(), f.as(role(adminv1.Role_ROLE_EDITOR)), "UpstreamService", "CreateUpstreamCredential", c()))(t).(*adminv1.CreateUpstreamCredentialResponse)
	// What it refers to already stays, whatever else of it changes.
	must(call(t.Context(), limited, "UpstreamService", "UpdateUpstreamCredential", &adminv1.UpdateUpstreamCredentialRequest{
		UpstreamCredential: &configv1.UpstreamCredential{Id: made.GetUpstreamCredential().GetId(), Etag: made.GetUpstreamCredential().GetEtag(), Disabled: true},
		UpdateMask:         &fieldmaskpb.FieldMask{Paths: []string{"disabled"}},
	}))(t)
}

func TestAnAPIKeyThatNoHeaderCanCarryIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	apply(t, f.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	list := must(call(t.Context(), f.owner(), "UpstreamService", "ListUpstreams", &adminv1.ListUpstreamsRequest{}))(t).(*adminv1.ListUpstreamsResponse)
	up := list.GetUpstreams()[0]
	for _, secret := range []string{"sk-pasted\n", "sk\r\nX-Other: 1", "\x00"} {
		_, err := call(t.Context(), f.owner(), "UpstreamService", "CreateUpstreamCredential", &adminv1.CreateUpstreamCredentialRequest{
			UpstreamCredential: &configv1.UpstreamCredential{TenantId: up.GetTenantId(), UpstreamId: up.GetId(), Name: "pasted", Secret: secret},
		})
		if connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("the secret %q: %v", secret, err)
		}
	}
}
