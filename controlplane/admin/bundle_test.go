package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

func exported(t testing.TB, c *connect.Client, req *adminv1.ExportRequest) []*adminv1.Bundle {
	t.Helper()
	stream, err := adminv1connect.NewConfigServiceClient(c).Export(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var out []*adminv1.Bundle
	for {
		res, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, res.GetBundle())
	}
}

func TestABundleOfEverythingIsOneGeneration(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	res := apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Owner: "ops", Resources: world()}})
	if res.GetCreated() != 20 || res.GetResult().GetGeneration() != 1 {
		t.Errorf("created %d in generation %d, want 20 in 1", res.GetCreated(), res.GetResult().GetGeneration())
	}
	again := apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Owner: "ops", Resources: world()}})
	if !again.GetResult().GetUnchanged() || again.GetUnchanged() != 20 || len(again.GetResult().GetDiff()) != 0 {
		t.Errorf("again: %v", again)
	}
	// The order of a bundle means nothing.
	backwards := world()
	for i, j := 0, len(backwards)-1; i < j; i, j = i+1, j-1 {
		backwards[i], backwards[j] = backwards[j], backwards[i]
	}
	g := setup(t)
	if res := apply(t, g.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: backwards}}); res.GetCreated() != 20 {
		t.Errorf("backwards created %d, want 20", res.GetCreated())
	}
}

func TestApplyingAnExportChangesNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Owner: "ops", Resources: world()}})
	id := f.byName(t)
	must(call(t.Context(), c, "ConsumerService", "RotateAPIKey", &adminv1.RotateAPIKeyRequest{Id: id("ConsumerAPIKey", "ci")}))(t)
	for _, req := range []*adminv1.ExportRequest{{}, {Owner: "ops"}, {TenantId: "acme"}} {
		bundles := exported(t, c, req)
		if len(bundles) == 0 {
			t.Fatalf("export %v is empty", req)
		}
		for _, b := range bundles {
			if text := b.String(); strings.Contains(text, upstreamSecret) || strings.Contains(text, proxySecret) || strings.Contains(text, legacyToken) {
				t.Error("the export holds a secret in clear")
			}
			for _, r := range b.GetResources() {
				if store.ID(unwrapped(r)) != "" {
					t.Errorf("%v has an id", r)
				}
			}
			res := apply(t, c, &adminv1.ApplyBundleRequest{Bundle: b})
			if !res.GetResult().GetUnchanged() || int(res.GetUnchanged()) != len(b.GetResources()) {
				t.Errorf("export %v applied: %v", req, res)
			}
		}
	}
	// And with prune, where one bundle is all that an owner has.
	owned := exported(t, c, &adminv1.ExportRequest{Owner: "ops"})
	joined := &adminv1.Bundle{Owner: "ops"}
	for _, b := range owned {
		joined.Resources = append(joined.Resources, b.GetResources()...)
	}
	res := apply(t, c, &adminv1.ApplyBundleRequest{Bundle: joined, Prune: true})
	if !res.GetResult().GetUnchanged() || res.GetDeleted() != 0 {
		t.Errorf("pruned with its own export: %v", res)
	}
}

func TestAnExportMakesTheSameElsewhere(t *testing.T) {
	t.Parallel()
	f, g := setup(t), setup(t)
	apply(t, f.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	for _, b := range exported(t, f.owner(), &adminv1.ExportRequest{}) {
		apply(t, g.owner(), &adminv1.ApplyBundleRequest{Bundle: b})
	}
	here, there := exported(t, f.owner(), &adminv1.ExportRequest{}), exported(t, g.owner(), &adminv1.ExportRequest{})
	if len(here) != len(there) {
		t.Fatalf("%d and %d bundles", len(here), len(there))
	}
	count := func(bs []*adminv1.Bundle) map[string]int {
		kinds := map[string]int{}
		for _, b := range bs {
			for _, r := range b.GetResources() {
				m := unwrapped(r)
				if c, ok := m.(*configv1.UpstreamCredential); ok { // secrets do not travel
					c.SecretFingerprint, c.SecretVersion, c.Proxy = "", 0, nil
				}
				if u, ok := m.(*configv1.Upstream); ok {
					u.Proxy = nil
				}
				raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
				kinds[string(m.ProtoReflect().Descriptor().Name())+string(raw)]++
			}
		}
		return kinds
	}
	a, b := count(here), count(there)
	for k := range a {
		if a[k] != b[k] {
			t.Errorf("differs: %.200q", k)
		}
	}
}

// Random configurations of tenants, groups, consumers and models survive the way
// out and in.
func TestExportAndApplyAreInverse(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		tenant := fmt.Sprintf("t%d", n)
		labels := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.StringMatching(`[a-z =]{0,8}`), 0, 3)
		resources := []proto.Message{&configv1.Tenant{
			Name: tenant, Labels: labels.Draw(rt, "labels"), Suspended: rapid.Bool().Draw(rt, "suspended"),
			Metering: configv1.Metering(rapid.IntRange(0, 2).Draw(rt, "metering")),
		}}
		groups := rapid.IntRange(0, 4).Draw(rt, "groups")
		for i := range groups {
			g := &configv1.Group{TenantId: tenant, Name: fmt.Sprintf("g%d", i), Disabled: rapid.Bool().Draw(rt, "disabled")}
			if i > 0 && i < 3 && rapid.Bool().Draw(rt, "falls back") {
				g.FallbackGroups = []string{fmt.Sprintf("g%d", i-1)}
			}
			resources = append(resources, g)
		}
		for i := range rapid.IntRange(0, 3).Draw(rt, "consumers") {
			consumer := &configv1.Consumer{TenantId: tenant, Name: fmt.Sprintf("c%d", i), Labels: labels.Draw(rt, "labels")}
			if groups > 0 {
				consumer.GroupIds = []string{fmt.Sprintf("g%d", rapid.IntRange(0, groups-1).Draw(rt, "group"))}
			}
			if rapid.Bool().Draw(rt, "bounded models") {
				consumer.AllowedModels = &configv1.NameList{Names: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b*", "c"}), 0, 3, rapid.ID).Draw(rt, "models")}
			}
			resources = append(resources, consumer)
		}
		if _, err := tryApply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(resources...)}}); err != nil {
			rt.Fatalf("apply: %v", err)
		}
		for _, b := range exported(t, c, &adminv1.ExportRequest{TenantId: tenant}) {
			res, err := tryApply(t, c, &adminv1.ApplyBundleRequest{Bundle: b})
			if err != nil {
				rt.Fatalf("apply the export: %v", err)
			}
			if !res.GetResult().GetUnchanged() {
				rt.Fatalf("the export changed %v", res.GetResult().GetDiff())
			}
		}
	})
}

func TestPruneRemovesWhatTheOwnerDoesNotNameAnyMore(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Owner: "ops", Resources: bundled(
		&configv1.Tenant{Name: "acme"}, &configv1.Consumer{TenantId: "acme", Name: "a"}, &configv1.Consumer{TenantId: "acme", Name: "b"},
	)}})
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Owner: "team", Resources: bundled(&configv1.Consumer{TenantId: "acme", Name: "theirs"})}})
	next := bundled(&configv1.Tenant{Name: "acme"}, &configv1.Consumer{TenantId: "acme", Name: "a"})
	kept := apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Owner: "ops", Resources: next}})
	if kept.GetDeleted() != 0 {
		t.Errorf("without prune %d were deleted", kept.GetDeleted())
	}
	res := apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Owner: "ops", Resources: next}, Prune: true})
	if res.GetDeleted() != 1 || len(res.GetResult().GetDiff()) == 0 || res.GetResult().GetDiff()[0].GetName() != "b" {
		t.Errorf("pruned %d: %v", res.GetDeleted(), res.GetResult().GetDiff())
	}
	f.byName(t)("Consumer", "theirs")
	_, err := tryApply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: next}, Prune: true})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
	_, err = tryApply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Owner: "ops", Resources: bundled(&configv1.Consumer{TenantId: "acme", Name: "theirs"})}})
	wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
	// The last of an owner takes a tenant away, default group and all.
	gone := apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Owner: "team"}, Prune: true})
	if gone.GetDeleted() != 1 {
		t.Errorf("pruned %d of the team", gone.GetDeleted())
	}
	gone = apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Owner: "ops"}, Prune: true})
	if gone.GetDeleted() != 2 {
		t.Errorf("pruned %d of ops, want the tenant and its consumer", gone.GetDeleted())
	}
}

func TestABundleTellsEverythingThatIsWrongAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, err := tryApply(t, f.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: bundled(
		&configv1.Tenant{Name: "acme"},
		&configv1.Consumer{TenantId: "acme", Name: "a", GroupIds: []string{"nowhere"}},
		&configv1.Consumer{TenantId: "nobody", Name: "b"},
		&configv1.Tenant{Name: "acme"},
	)}})
	info := wantReason(t, err, connect.CodeInvalidArgument, reasonInvalid)
	if len(info.GetViolations()) != 3 {
		t.Errorf("%d violations, want 3: %v", len(info.GetViolations()), info.GetViolations())
	}
	for _, v := range info.GetViolations() {
		if !strings.HasPrefix(v.GetFieldPath(), "resources[") || v.GetKind() == "" || v.GetHint() == "" {
			t.Errorf("violation without place, kind or hint: %v", v)
		}
	}
	head, err := f.store.Head(context.WithoutCancel(t.Context()))
	if err != nil || head.Generation != 0 {
		t.Errorf("generation %d, %v; want nothing committed", head.Generation, err)
	}
}
