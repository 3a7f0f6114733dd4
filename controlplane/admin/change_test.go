package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"

	"github.com/aidy-gateway/aidy-gateway/controlplane/compile"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

func (f *fixture) head(t testing.TB) store.Head {
	t.Helper()
	h, err := f.store.Head(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// stored decodes every shard of the committed configuration.
func (f *fixture) stored(t testing.TB) *configcheck.View {
	t.Helper()
	v := configcheck.NewView()
	for _, view := range []syncv1.View{syncv1.View_VIEW_IDENTITY, syncv1.View_VIEW_STABLE} {
		if _, err := f.store.LoadShards(context.WithoutCancel(t.Context()), view, func(s store.StoredShard) error { return v.Put(s.Key, s.Bytes) }); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

func TestG01OneWriteIsOneGenerationOrNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	if g := f.head(t).Generation; g != 1 {
		t.Fatalf("generation %d after a bundle of twenty, want 1", g)
	}
	before := f.stored(t)
	// The last of these is refused by the judge, when all rows are written.
	_, err := tryApply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(
		&configv1.Tenant{Name: "second"},
		&configv1.Group{TenantId: "second", Name: "a", FallbackGroups: []string{"b"}},
		&configv1.Group{TenantId: "second", Name: "b", FallbackGroups: []string{"a"}},
	)}})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
	if g := f.head(t).Generation; g != 1 {
		t.Errorf("generation %d after a refused bundle, want 1", g)
	}
	if len(f.stored(t).Tenants) != len(before.Tenants) {
		t.Error("a part of the refused bundle was committed")
	}
	list := must(call(t.Context(), c, "TenantService", "ListTenants", &adminv1.ListTenantsRequest{}))(t).(*adminv1.ListTenantsResponse)
	if len(list.GetTenants()) != 1 {
		t.Errorf("%d tenants, want 1", len(list.GetTenants()))
	}
}

func TestG04WhatANodeWouldRefuseIsNeverCommitted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	id := f.byName(t)
	tenant := id("Tenant", "acme")
	node, err := configcheck.New(configcheck.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]proto.Message{
		"a private address":        &configv1.Provider{Name: "x", Capabilities: []*configv1.Capability{{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "https://169.254.169.254/v1"}}},
		"plain http":               &configv1.Provider{Name: "x", Capabilities: []*configv1.Capability{{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "http://a.example.com/v1"}}},
		"a header that is ours":    &configv1.Provider{Name: "x", RequestHeaderOverrides: []*configv1.HeaderOverride{{Name: "Host", Action: configv1.HeaderAction_HEADER_ACTION_SET, Value: "evil"}}, Capabilities: []*configv1.Capability{{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "https://a.example.com/v1"}}},
		"a taken place":            &configv1.Route{Name: "shared", PathPrefix: "/acme", ConsumerApiKeys: true},
		"an alias of nothing":      &configv1.UpstreamModel{TenantId: tenant, UpstreamId: id("Upstream", "main"), Model: "m", AliasOf: "nothing"},
		"a group of itself":        &configv1.Group{TenantId: tenant, Name: "x", FallbackGroups: []string{"grp_00000000000000000000000000"}},
		"two routes by one order":  &configv1.LogicalRoute{TenantId: tenant, Name: "x", Order: 1, Match: &configv1.ModelMatch{Model: "y"}, Targets: []*configv1.RouteTarget{{Model: "gpt-5"}}},
		"a target that is nowhere": &configv1.LogicalRoute{TenantId: tenant, Name: "x", Order: 2, Match: &configv1.ModelMatch{Model: "y"}, Targets: []*configv1.RouteTarget{{Model: "no-such"}}},
		"a key beyond its consumer": &configv1.ConsumerAPIKey{
			TenantId: tenant, ConsumerId: id("Consumer", "app"), Name: "x", GroupIds: []string{id("Group", "spare")},
		},
		"an issuer without audience": &configv1.JWTIssuer{TenantId: tenant, Name: "x", Issuer: "https://i.example.com", JwksUrl: "https://i.example.com", Scopes: []configv1.Scope{1}},
		"a zone that is nowhere":     &configv1.Budget{TenantId: tenant, Name: "x", Currency: "USD", Window: 1, TimeZone: "Mars/Olympus"},
	} {
		t.Run(name, func(t *testing.T) {
			generation := f.head(t).Generation
			kind := string(m.ProtoReflect().Descriptor().Name())
			_, err := call(t.Context(), c, serviceOf(kind), "Create"+kind, request(t, "Create"+kind+"Request", map[string]any{snake(kind): m}))
			code := connect.CodeOf(err)
			if err == nil || code != connect.CodeInvalidArgument && code != connect.CodeAlreadyExists {
				t.Fatalf("answered %v, want it refused", err)
			}
			if info := detailOf(err); code == connect.CodeInvalidArgument && (len(info.GetViolations()) == 0 || info.GetViolations()[0].GetHint() == "") {
				t.Errorf("refused without saying what to do: %v", info)
			}
			if g := f.head(t).Generation; g != generation {
				t.Errorf("generation moved from %d to %d", generation, g)
			}
			if found := node.Check(f.stored(t)); len(found) > 0 {
				t.Errorf("a node would refuse what is stored: %v", found)
			}
		})
	}
}

func serviceOf(kind string) string {
	for _, c := range cases(func(string, string) string { return "" }) {
		if c.kind == kind {
			return c.service
		}
	}
	return ""
}

func TestG15APreviewShowsWhatTheChangeDoes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	next := world()
	for _, r := range next {
		switch m := unwrapped(r).(type) {
		case *configv1.UpstreamModel:
			m.Disabled = m.GetModel() == "gpt-5"
			if m.GetModel() == "best" {
				m.Disabled = true
			}
		case *configv1.Route:
			m.DeadlineMs = 1234
		case *configv1.Consumer:
			m.Suspended = true
		}
	}
	req := &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: next}, Change: &adminv1.ChangeContext{ValidateOnly: true}}
	preview := apply(t, c, req)
	if g := f.head(t).Generation; g != 1 || !preview.GetResult().GetValidatedOnly() || preview.GetResult().GetGeneration() != 1 {
		t.Fatalf("the preview moved the generation to %d: %v", g, preview.GetResult())
	}
	req.Change = nil
	done := apply(t, c, req)
	for _, r := range []*adminv1.ApplyBundleResponse{preview, done} {
		r.Result.Generation, r.Result.ValidatedOnly = 0, false
	}
	if d := cmp.Diff(preview, done, protocmp.Transform()); d != "" {
		t.Errorf("the change differs from its preview:\n%s", d)
	}
	impact := done.GetResult().GetImpact()
	if len(impact) != 1 || !cmp.Equal(impact[0].GetModelsLost(), []string{"best", "gpt-5"}) {
		t.Errorf("impact %v, want the loss of best and gpt-5", impact)
	}
}

func TestC06TwoBundlesAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(&configv1.Tenant{Name: "acme"})}})
	const writers = 8
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		wg.Go(func() {
			_, errs[i] = tryApply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(
				&configv1.Consumer{TenantId: "acme", Name: fmt.Sprintf("c%d", i)}, &configv1.Group{TenantId: "acme", Name: fmt.Sprintf("g%d", i)},
			)}})
		})
	}
	wg.Wait()
	view := f.stored(t)
	shard := view.Tenant(f.byName(t)("Tenant", "acme"))
	for i, err := range errs {
		if err != nil && connect.CodeOf(err) != connect.CodeAborted && connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("writer %d: %v", i, err)
		}
		found := false
		for _, g := range shard.GetGroups() {
			found = found || g.GetName() == fmt.Sprintf("g%d", i)
		}
		if found != (err == nil) {
			t.Errorf("writer %d was answered %v and its group is there: %v", i, err, found)
		}
	}
}

func TestC33GrowthIsConfirmedAndBounded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	labels := map[string]string{} // a group with these has about 4 KiB
	for i := range 32 {
		labels[fmt.Sprintf("k%d", i)] = strings.Repeat("y", 120)
	}
	groups := func(from, to int) []proto.Message {
		var out []proto.Message
		for i := from; i < to; i++ {
			out = append(out, &configv1.Group{TenantId: "acme", Name: fmt.Sprintf("g%d", i), Labels: labels})
		}
		return out
	}
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(append(groups(0, 10), &configv1.Tenant{Name: "acme"})...)}})
	grow := &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(groups(10, 40)...)}}
	_, err := tryApply(t, c, grow)
	if info := wantReason(t, err, connect.CodeFailedPrecondition, reasonConfirm); !cmp.Equal(info.GetConfirm(), []string{compile.ConfirmLargeChange}) {
		t.Errorf("asks for %v", info.GetConfirm())
	}
	grow.Change = &adminv1.ChangeContext{ValidateOnly: true}
	preview := apply(t, c, grow)
	if w := preview.GetResult().GetWarnings(); len(w) == 0 || w[0].GetCode() != compile.ConfirmLargeChange {
		t.Errorf("the preview warns of %v", w)
	}
	grow.Change = &adminv1.ChangeContext{Confirm: []string{compile.ConfirmLargeChange}}
	apply(t, c, grow)

	// Beyond the limit nothing helps.
	huge := groups(100, 1250)
	_, err = tryApply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(huge...)}, Change: &adminv1.ChangeContext{Confirm: []string{compile.ConfirmLargeChange}}})
	info := wantReason(t, err, connect.CodeResourceExhausted, reasonLimit)
	if info.GetLimit() != "shard_bytes" || info.GetValue() <= info.GetMax() {
		t.Errorf("limit %v", info)
	}
}

func TestDangersAreConfirmed(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Owner: "ops", Resources: world()}})
	id := f.byName(t)
	open := &adminv1.UpdateRouteRequest{
		Route: &configv1.Route{Id: id("Route", "main"), Etag: "1", DisableAuth: true}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"disable_auth"}},
	}
	_, err := call(t.Context(), c, "RouteService", "UpdateRoute", open)
	if info := wantReason(t, err, connect.CodeFailedPrecondition, reasonConfirm); !cmp.Equal(info.GetConfirm(), []string{compile.ConfirmDisableAuth}) {
		t.Errorf("asks for %v", info.GetConfirm())
	}
	open.Change = &adminv1.ChangeContext{Confirm: []string{compile.ConfirmDisableAuth}}
	must(call(t.Context(), c, "RouteService", "UpdateRoute", open))(t)
	_, err = tryApply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Owner: "ops"}, Prune: true})
	if info := wantReason(t, err, connect.CodeFailedPrecondition, reasonConfirm); !cmp.Equal(info.GetConfirm(), []string{compile.ConfirmMassDelete}) {
		t.Errorf("asks for %v", info.GetConfirm())
	}
	res := apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Owner: "ops"}, Prune: true, Change: &adminv1.ChangeContext{Confirm: []string{compile.ConfirmMassDelete}}})
	if res.GetDeleted() < 19 {
		t.Errorf("deleted %d", res.GetDeleted())
	}
}

func TestARepeatedWriteIsAnsweredAsTheFirst(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	id := f.byName(t)
	req := &adminv1.CreateConsumerAPIKeyRequest{
		ConsumerApiKey: &configv1.ConsumerAPIKey{TenantId: id("Tenant", "acme"), ConsumerId: id("Consumer", "app"), Name: "fresh"},
		Change:         &adminv1.ChangeContext{IdempotencyKey: "once", Message: "a key"},
	}
	first := must(call(t.Context(), c, "ConsumerService", "CreateConsumerAPIKey", req))(t).(*adminv1.CreateConsumerAPIKeyResponse)
	if !strings.HasPrefix(first.GetSecret(), keyPrefix) || len(first.GetSecret()) != len(keyPrefix)+43 {
		t.Fatalf("a secret of %d characters", len(first.GetSecret()))
	}
	if hashText(first.GetSecret()) != first.GetConsumerApiKey().GetSha256() || !strings.HasPrefix(first.GetSecret(), first.GetConsumerApiKey().GetHint()) {
		t.Error("hash or hint are not those of the secret")
	}
	req.Change.Wait = &adminv1.Wait{TimeoutMs: 1} // how long one waits is no part of what one wants
	second := must(call(t.Context(), c, "ConsumerService", "CreateConsumerAPIKey", req))(t).(*adminv1.CreateConsumerAPIKeyResponse)
	if second.GetSecret() != "" {
		t.Error("the repetition shows the secret")
	}
	first.Secret = ""
	for _, r := range []*adminv1.CreateConsumerAPIKeyResponse{first, second} {
		r.Result.Shards = nil // sizes of what was there before are not kept
	}
	if d := cmp.Diff(first, second, protocmp.Transform()); d != "" {
		t.Errorf("the repetition is answered differently:\n%s", d)
	}
	if g := f.head(t).Generation; g != 2 {
		t.Errorf("generation %d, want 2", g)
	}
	req.ConsumerApiKey.Name = "another"
	_, err := call(t.Context(), c, "ConsumerService", "CreateConsumerAPIKey", req)
	wantReason(t, err, connect.CodeAlreadyExists, reasonExists)
}

func TestAnExpectedGenerationIsChecked(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(&configv1.Tenant{Name: "a"})}})
	_, err := tryApply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(&configv1.Tenant{Name: "b"})}, Change: &adminv1.ChangeContext{IfMatchGeneration: 7}})
	if info := wantReason(t, err, connect.CodeAborted, reasonMoved); info.GetCurrentGeneration() != 1 {
		t.Errorf("names generation %d, want 1", info.GetCurrentGeneration())
	}
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(&configv1.Tenant{Name: "b"})}, Change: &adminv1.ChangeContext{IfMatchGeneration: 1}})
}

func TestAWaitTellsWhoRunsTheChange(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	made := must(call(t.Context(), c, "TenantService", "CreateTenant", &adminv1.CreateTenantRequest{Tenant: &configv1.Tenant{Name: "acme"}}))(t).(*adminv1.CreateTenantResponse)
	tenant := made.GetTenant().GetId()
	f.nodes.applied = Applied{Acked: []string{"nod_a"}, Pending: []string{"nod_b"}, Refused: []*adminv1.NodeRefusal{{NodeId: "nod_c", Violations: []*syncv1.Violation{
		{ShardKey: "tenant/" + tenant, FieldPath: "routes[0]"}, {ShardKey: "tenant/ten_other", FieldPath: "secret"},
	}}}}
	create := func(c *connect.Client, name string) *adminv1.ChangeResult {
		res := must(call(t.Context(), c, "ConsumerService", "CreateConsumer", &adminv1.CreateConsumerRequest{
			Consumer: &configv1.Consumer{TenantId: tenant, Name: name}, Change: &adminv1.ChangeContext{Wait: &adminv1.Wait{TimeoutMs: 100}},
		}))(t).(*adminv1.CreateConsumerResponse)
		return res.GetResult()
	}
	all := create(c, "a")
	if !cmp.Equal(all.GetAckedNodes(), []string{"nod_a"}) || !cmp.Equal(all.GetPendingNodes(), []string{"nod_b"}) || len(all.GetRefusedNodes()[0].GetViolations()) != 2 {
		t.Errorf("an owner sees %v", all)
	}
	limited := create(f.as(role(adminv1.Role_ROLE_EDITOR, tenant)), "b")
	if v := limited.GetRefusedNodes()[0].GetViolations(); len(v) != 1 || v[0].GetShardKey() != "tenant/"+tenant {
		t.Errorf("who is limited to a tenant sees %v", v)
	}
	if len(f.nodes.poked) != 3 {
		t.Errorf("poked for %v, want each of three generations", f.nodes.poked)
	}
}

func TestKeysExpireInTheFutureAndScopesAreExpanded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	id := f.byName(t)
	create := func(k *configv1.ConsumerAPIKey) (*adminv1.CreateConsumerAPIKeyResponse, error) {
		k.TenantId, k.ConsumerId = id("Tenant", "acme"), id("Consumer", "app")
		res, err := call(t.Context(), c, "ConsumerService", "CreateConsumerAPIKey", &adminv1.CreateConsumerAPIKeyRequest{ConsumerApiKey: k})
		if err != nil {
			return nil, err
		}
		return res.(*adminv1.CreateConsumerAPIKeyResponse), nil
	}
	made := must(create(&configv1.ConsumerAPIKey{Name: "a"}))(t)
	if got := made.GetConsumerApiKey().GetScopes(); len(got) != 7 || got[0] != configv1.Scope_SCOPE_CHAT {
		t.Errorf("scopes %v", got)
	}
	_, err := create(&configv1.ConsumerAPIKey{Name: "b", ExpireTime: timestamppb.New(f.head(t).Now.Add(-1))})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
	_, err = create(&configv1.ConsumerAPIKey{Name: "c", Sha256: strings.Repeat("0", 64)})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
}

func TestKeysAreRotatedAndRevoked(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	id := f.byName(t)
	old := id("ConsumerAPIKey", "ci")
	get := func(id string) *configv1.ConsumerAPIKey {
		return must(call(t.Context(), c, "ConsumerService", "GetConsumerAPIKey", &adminv1.GetConsumerAPIKeyRequest{Id: id}))(t).(*adminv1.GetConsumerAPIKeyResponse).GetConsumerApiKey()
	}
	rotated := must(call(t.Context(), c, "ConsumerService", "RotateAPIKey", &adminv1.RotateAPIKeyRequest{Id: old, OverlapS: 3600}))(t).(*adminv1.RotateAPIKeyResponse)
	next := rotated.GetConsumerApiKey()
	if rotated.GetSecret() == "" || next.GetName() != "ci-2" || next.GetSha256() == get(old).GetSha256() {
		t.Errorf("rotated to %v", next)
	}
	if k := get(old); k.GetSuccessorId() != next.GetId() || k.GetRevokeTime() != nil || k.GetExpireTime().AsTime().Sub(k.GetUpdateTime().AsTime()).Hours() != 1 {
		t.Errorf("the old key is %v, want an hour left", k)
	}
	view := f.stored(t)
	if view.Key(get(old).GetSha256()) == nil || view.Key(next.GetSha256()) == nil {
		t.Error("both keys must be served during the overlap")
	}
	_, err := call(t.Context(), c, "ConsumerService", "RotateAPIKey", &adminv1.RotateAPIKeyRequest{Id: old})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)

	must(call(t.Context(), c, "ConsumerService", "RevokeAPIKey", &adminv1.RevokeAPIKeyRequest{Id: next.GetId()}))(t)
	if f.stored(t).Key(next.GetSha256()) != nil {
		t.Error("a revoked key is still served")
	}
	_, err = call(t.Context(), c, "ConsumerService", "UpdateConsumerAPIKey", &adminv1.UpdateConsumerAPIKeyRequest{
		ConsumerApiKey: &configv1.ConsumerAPIKey{Id: next.GetId(), Etag: "2"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"revoke_time"}},
	})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)

	all := must(call(t.Context(), c, "ConsumerService", "RevokeAll", &adminv1.RevokeAllRequest{ConsumerId: id("Consumer", "app")}))(t).(*adminv1.RevokeAllResponse)
	if all.GetRevoked() != 1 || f.stored(t).Key(get(old).GetSha256()) != nil {
		t.Errorf("revoked %d", all.GetRevoked())
	}
	if s := f.stored(t).Subject(syncv1.SubjectKind_SUBJECT_KIND_CONSUMER, id("Consumer", "app")); s.GetPurgeTime() == nil {
		t.Error("the consumer has no purge time")
	}
	_, err = call(t.Context(), c, "ConsumerService", "RevokeAll", &adminv1.RevokeAllRequest{ConsumerId: "a", TenantId: "b"})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
}

func TestAChangeOfWhatBelongsToAllIsFollowedIntoTenants(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: append(world(), bundled(&configv1.Tenant{Name: "other"})...)}})
	id := f.byName(t)
	res := must(call(t.Context(), c, "ProviderService", "UpdateProvider", &adminv1.UpdateProviderRequest{
		Provider: &configv1.Provider{Id: id("Provider", "openai"), Etag: "1", Disabled: true}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"disabled"}},
	}))(t).(*adminv1.UpdateProviderResponse)
	impact := res.GetResult().GetImpact()
	if len(impact) != 1 || impact[0].GetTenantId() != id("Tenant", "acme") || !cmp.Equal(impact[0].GetModelsLost(), []string{"best", "gpt-5"}) {
		t.Errorf("impact %v, want what acme loses", impact)
	}
}

func TestWarningsAreAboutWhatTheChangeDid(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	codes := func(r *adminv1.ApplyBundleResponse) map[string]bool {
		out := map[string]bool{}
		for _, w := range r.GetResult().GetWarnings() {
			out[w.GetCode()] = true
		}
		return out
	}
	// lonely has one credential, so its models have one candidate.
	lonely := func() []*adminv1.BundleResource {
		return slices.DeleteFunc(world(), func(r *adminv1.BundleResource) bool {
			m, ok := unwrapped(r).(*configv1.UpstreamCredential)
			return ok && m.GetName() != "key-1"
		})
	}
	first := apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: lonely()}})
	if !codes(first)["SINGLE_POINT"] {
		t.Fatalf("warnings %v: the first bundle has models with one candidate", first.GetResult().GetWarnings())
	}
	next := lonely()
	for _, r := range next {
		if m, ok := unwrapped(r).(*configv1.Route); ok {
			m.DeadlineMs = 4321
		}
	}
	if again := apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: next}}); codes(again)["SINGLE_POINT"] {
		t.Errorf("a new deadline of a route repeats %v", again.GetResult().GetWarnings())
	}
}
