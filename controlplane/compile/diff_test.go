package compile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
)

func protoString(s string) protoreflect.Value { return protoreflect.ValueOfString(s) }
func protoBool(b bool) protoreflect.Value     { return protoreflect.ValueOfBool(b) }

func lines(old, new proto.Message) []string {
	var out []string
	for _, c := range Diff(old, new) {
		out = append(out, fmt.Sprintf("%s %s %s %s: %s -> %s", c.GetAction(), c.GetKind(), c.GetName(), c.GetFieldPath(), c.GetBefore(), c.GetAfter()))
	}
	return out
}

func TestDiffListsFieldsAndHidesSecrets(t *testing.T) {
	t.Parallel()
	old := &configv1.UpstreamCredential{
		Id: "crd_1", Name: "a", Etag: "1", UpdateTime: timestamppb.Now(), Secret: "sk-old", Labels: map[string]string{"team": "x"},
		Limits: &configv1.Limits{Rpm: proto.Int64(5)}, Models: []string{"m1"}, Priority: proto.Int32(0),
	}
	new := proto.CloneOf(old)
	new.Etag, new.UpdateTime = "2", timestamppb.Now()
	if got := lines(old, new); len(got) != 0 {
		t.Errorf("bookkeeping is a difference: %v", got)
	}
	new.Secret, new.Limits.Rpm, new.Models, new.Labels = "sk-new", nil, []string{"m1", "m2"}, map[string]string{"team": "y"}
	new.Limits.Tpm, new.Priority = proto.Int64(9), nil
	new.OnAuthFailure = configv1.OnAuthFailure_ON_AUTH_FAILURE_DISABLE
	want := []string{
		`update UpstreamCredential a labels["team"]: x -> y`,
		"update UpstreamCredential a limits.rpm: 5 -> ",
		"update UpstreamCredential a limits.tpm:  -> 9",
		"update UpstreamCredential a models: [m1] -> [m1, m2]",
		"update UpstreamCredential a on_auth_failure:  -> ON_AUTH_FAILURE_DISABLE",
		"update UpstreamCredential a priority: 0 -> ",
		"update UpstreamCredential a secret: fingerprint: -> ",
	}
	got := lines(old, new)
	for _, l := range got {
		if strings.Contains(l, "sk-") {
			t.Errorf("a secret is shown: %s", l)
		}
	}
	// The fingerprints are hashes; compare the rest.
	for _, ls := range [][]string{got, want} {
		for i, l := range ls {
			if at := strings.Index(l, "fingerprint:"); at > 0 {
				ls[i] = l[:at]
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDiffOfNewAndDeletedResources(t *testing.T) {
	t.Parallel()
	r := &configv1.RoutePluginConfig{Id: "rpc_1", RouteId: "rte_1", PluginKey: "bounds", Payload: &structpb.Struct{Fields: map[string]*structpb.Value{
		"b": structpb.NewBoolValue(true), "a": structpb.NewNumberValue(1),
	}}}
	want := []string{
		"create RoutePluginConfig bounds id:  -> rpc_1",
		`create RoutePluginConfig bounds payload:  -> {"a": 1, "b": true}`,
		"create RoutePluginConfig bounds plugin_key:  -> bounds",
		"create RoutePluginConfig bounds route_id:  -> rte_1",
	}
	if diff := cmp.Diff(want, lines(nil, r)); diff != "" {
		t.Error(diff)
	}
	for _, l := range lines(r, nil) {
		if !strings.HasPrefix(l, "delete ") || !strings.HasSuffix(l, "-> ") {
			t.Errorf("deletion shows %s", l)
		}
	}
	if got := Diff(nil, nil); got != nil {
		t.Errorf("nothing differs by %v", got)
	}
	// Present and empty is not absent: an empty list of names allows nothing.
	got := lines(&configv1.Policy{Name: "p"}, &configv1.Policy{Name: "p", AllowedModels: &configv1.NameList{}})
	if len(got) != 1 || !strings.Contains(got[0], "allowed_models:  -> {}") {
		t.Errorf("got %v", got)
	}
}

func TestDiffSortsPositionsAsNumbersAndIsBounded(t *testing.T) {
	t.Parallel()
	r := &configv1.LogicalRoute{}
	for range 600 {
		r.Targets = append(r.Targets, &configv1.RouteTarget{Model: strings.Repeat("x", 2000)})
	}
	got := Diff(nil, r)
	if len(got) != MaxDiff || got[10].GetFieldPath() != "targets[10].model" || len(got[0].GetAfter()) > maxValue+3 {
		t.Errorf("%d changes, the eleventh %s with %d bytes", len(got), got[10].GetFieldPath(), len(got[0].GetAfter()))
	}
}

func TestImpactNamesWhatATenantGainsAndLoses(t *testing.T) {
	t.Parallel()
	v := decode(t, build(t, fixture()))
	before := Side{v.Tenants["ten_1"], v.GlobalShard}
	after := Side{proto.CloneOf(before.Tenant), proto.CloneOf(before.Global)}
	if got := Impact(before, after); got != nil {
		t.Errorf("no change has the impact %v", got)
	}
	after.Tenant.Models = append(after.Tenant.Models, &configv1.UpstreamModel{Id: "upm_2", UpstreamId: "upr_1", Model: "new"})
	after.Tenant.Routes[0].Disabled = true
	got := Impact(before, after)
	if got.GetTenantId() != "ten_1" || cmp.Diff([]string{"new"}, got.GetModelsGained()) != "" || cmp.Diff([]string{"main"}, got.GetRoutesLost()) != "" ||
		got.GetCandidatesGained() != 3 || got.GetCandidatesLost() != 0 {
		t.Errorf("got %v", got)
	}
	after = Side{before.Tenant, proto.CloneOf(before.Global)}
	after.Global.Providers[0].Disabled = true
	if got := Impact(before, after); cmp.Diff([]string{"gpt-5"}, got.GetModelsLost()) != "" || got.GetCandidatesLost() != 3 {
		t.Errorf("a disabled provider: %v", got)
	}
	if got := Impact(before, Side{}); got.GetTenantId() != "ten_1" || len(got.GetRoutesLost()) != 1 {
		t.Errorf("a deleted tenant: %v", got)
	}
}

func TestC33AGeneratedChangeThatDoublesAShardIsConfirmedOrRefused(t *testing.T) {
	t.Parallel()
	const kib = 1 << 10
	for _, tc := range []struct {
		old, new int64
		confirm  bool
	}{
		{100 * kib, 200 * kib, false},
		{100 * kib, 200*kib + 1, true},
		{1 * kib, 64 * kib, false},
		{1 * kib, 64*kib + 1, true},
		{0, 500 * kib, false}, // new: nothing that runs can break
		{500 * kib, 1 * kib, false},
	} {
		needs := Gate(Extent{Sizes: []Size{{"tenant/ten_1", tc.old, tc.new}}})
		if got := len(needs) == 1 && needs[0].Confirm == ConfirmLargeChange; got != tc.confirm {
			t.Errorf("%d to %d bytes: %v, want confirmation = %v", tc.old, tc.new, needs, tc.confirm)
		}
	}
	warnings, err := CheckSizes([]Size{{"tenant/a", 0, WarnShardBytes}, {"tenant/b", 0, WarnShardBytes + 1}, {"tenant/c", 0, MaxShardBytes}})
	if err != nil || len(warnings) != 2 {
		t.Errorf("got %v, %v, want two warnings", warnings, err)
	}
	_, err = CheckSizes([]Size{{"tenant/d", 0, MaxShardBytes + 1}})
	if e, ok := errors.AsType[*LimitError](err); !ok || e.Value != MaxShardBytes+1 || e.Max != MaxShardBytes {
		t.Errorf("C28: got %v, want *LimitError", err)
	}
}

func TestLargeChangeCountsTenants(t *testing.T) {
	t.Parallel()
	x := Extent{Tenants: 50}
	for i := range 11 {
		id := fmt.Sprintf("ten_%d", i)
		x.Sizes = append(x.Sizes, Size{"tenant/" + id, 5, 6}, Size{"cred/" + id, 5, 6}, Size{"subject/consumer/con_" + id, 5, 6})
	}
	if needs := Gate(x); len(needs) != 1 || needs[0].Confirm != ConfirmLargeChange {
		t.Errorf("11 of 50 tenants: %v", needs)
	}
	x.Tenants = 55
	if needs := Gate(x); len(needs) != 0 {
		t.Errorf("11 of 55 tenants: %v", needs)
	}
	x.Tenants, x.Sizes = 1, x.Sizes[:6]
	if needs := Gate(x); len(needs) != 0 {
		t.Errorf("a small installation is stopped: %v", needs)
	}
}

func TestMassDeleteAndDisableAuthAreConfirmed(t *testing.T) {
	t.Parallel()
	x := Extent{Held: map[string]int{"ten_1": 54}}
	for range 11 {
		x.Resources = append(x.Resources, Pair{Old: &configv1.UpstreamModel{TenantId: "ten_1"}})
	}
	if needs := Gate(x); len(needs) != 1 || needs[0].Confirm != ConfirmMassDelete {
		t.Errorf("11 of 54: %v", needs)
	}
	x.Held["ten_1"] = 55
	if needs := Gate(x); len(needs) != 0 {
		t.Errorf("11 of 55: %v", needs)
	}
	closed, open := &configv1.Route{Name: "r"}, &configv1.Route{Name: "r", DisableAuth: true}
	for name, tc := range map[string]struct {
		pair Pair
		want bool
	}{
		"created open": {Pair{nil, open}, true},
		"opened":       {Pair{closed, open}, true},
		"stays open":   {Pair{open, open}, false},
		"closed":       {Pair{open, closed}, false},
		"deleted":      {Pair{open, nil}, false},
		"enabled open": {Pair{&configv1.Route{DisableAuth: true, Disabled: true}, open}, true},
	} {
		needs := Gate(Extent{Resources: []Pair{tc.pair}})
		if got := len(needs) == 1 && needs[0].Confirm == ConfirmDisableAuth; got != tc.want {
			t.Errorf("%s: %v", name, needs)
		}
		if len(Missing(needs, []string{ConfirmDisableAuth})) != 0 {
			t.Errorf("%s: confirmed, and still asked for", name)
		}
		if got := len(Missing(needs, []string{ConfirmMassDelete})); (got == 1) != tc.want {
			t.Errorf("%s: another confirmation counts", name)
		}
	}
}

// source serves an Overlay from compiled shards.
type source struct {
	shards map[string][]byte
	reads  []string
	fail   error
}

func (s *source) Shard(key string) ([]byte, error) {
	s.reads = append(s.reads, key)
	return s.shards[key], s.fail
}

func (s *source) RoutesAt(p configcheck.Place) ([]configcheck.RouteRef, error) {
	return []configcheck.RouteRef{{TenantID: "ten_1", RouteID: "rte_1"}}, nil
}
func (s *source) IssuersAt(string, string) ([]string, error) { return []string{"iss_1"}, nil }
func (s *source) KeysOf(string) ([]string, error)            { return []string{keySum}, nil }

func TestAnOverlayReadsOnlyWhatTheCheckAsksFor(t *testing.T) {
	t.Parallel()
	c, err := configcheck.New(configcheck.Config{CrossDomain: true})
	if err != nil {
		t.Fatal(err)
	}
	src := &source{shards: build(t, fixture())}
	o := NewOverlay(src)
	if got := c.CheckChanged(o, allKeys); len(got) != 0 || o.Err() != nil {
		t.Errorf("got %v, %v", got, o.Err())
	}
	src.reads = nil
	o = NewOverlay(src)
	if got := c.CheckChanged(o, []string{"key/" + keySum}); len(got) != 0 || o.Err() != nil {
		t.Errorf("got %v, %v", got, o.Err())
	}
	for _, key := range src.reads {
		if strings.HasPrefix(key, "cred/") || key == "key/"+tokenSum {
			t.Errorf("checking a key read %s", key)
		}
	}
	o = NewOverlay(&source{fail: errors.New("store is down")})
	c.CheckChanged(o, allKeys)
	if o.Err() == nil {
		t.Error("a failure to read is lost")
	}
	if rec := NewOverlay(src).Subject(syncv1.SubjectKind(77), "x"); rec != nil {
		t.Errorf("an unknown kind of subject is %v", rec)
	}
}
