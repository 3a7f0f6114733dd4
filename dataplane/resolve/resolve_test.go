package resolve

import (
	"slices"
	"testing"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// ask resolves a model without anything else being known of the request.
func ask(p *auth.Principal, model string) (Decision, *fault.Error) {
	return Resolve(new(snapshot.View), p, &Features{Model: model}, func() string { return "" })
}

func principal(t *testing.T) *auth.Principal {
	t.Helper()
	v, err := snapshot.Static([]snapshot.TenantBuilder{Builder()}, nil, &syncv1.TenantShard{
		Tenant: &configv1.Tenant{Id: "ten_1"},
		Groups: []*configv1.Group{{Id: "grp_1", Name: "default"}, {Id: "grp_2", Name: "other"}},
		Upstreams: []*configv1.Upstream{
			{Id: "upr_1", GroupId: "grp_1"}, {Id: "upr_2", GroupId: "grp_2"}, {Id: "upr_3", GroupId: "grp_1", Disabled: true},
		},
		Models: []*configv1.UpstreamModel{
			{Id: "upm_1", UpstreamId: "upr_1", Model: "b", MaxContextTokens: 10},
			{Id: "upm_2", UpstreamId: "upr_1", Model: "a", AliasOf: "b"},
			{Id: "upm_3", UpstreamId: "upr_2", Model: "other-group"},
			{Id: "upm_4", UpstreamId: "upr_3", Model: "upstream-off"},
			{Id: "upm_5", UpstreamId: "upr_1", Model: "off", Disabled: true},
			{Id: "upm_6", UpstreamId: "upr_2", Model: "b", MaxContextTokens: 20},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &auth.Principal{Method: auth.APIKey, Tenant: v.Tenant("ten_1"), Key: &snapshot.Key{}}
}

func TestModelResolvesByExactNameOrAlias(t *testing.T) {
	t.Parallel()
	p := principal(t)
	for model, want := range map[string]fault.Class{
		"a": fault.Internal, "b": fault.Internal,
		"A": fault.ModelUnknown, "upstream-off": fault.ModelUnknown, "off": fault.ModelUnknown, "": fault.ModelUnknown,
	} {
		d, f := ask(p, model)
		switch {
		case want == fault.Internal && (f != nil || d.Requested != model):
			t.Errorf("%q: %v, %v", model, d, f)
		case want != fault.Internal && (f == nil || f.Class != want):
			t.Errorf("%q: fault %v, want %v", model, f, want)
		}
	}
}

func TestModelListsOfConsumerAndKeyBothHaveToContainTheModel(t *testing.T) {
	t.Parallel()
	p := principal(t)
	p.Key.Allowed = snapshot.NewNameSet(&configv1.NameList{Names: []string{"a*"}})
	if _, f := ask(p, "b"); f == nil || f.Class != fault.NotPermitted {
		t.Errorf("a model outside the key's list gave %v", f)
	}
	if _, f := ask(p, "a"); f != nil {
		t.Errorf("a model on the key's list gave %v", f)
	}
	p.Consumer = &snapshot.Subject{Allowed: snapshot.NewNameSet(&configv1.NameList{})}
	if _, f := ask(p, "a"); f == nil || f.Class != fault.NotPermitted {
		t.Errorf("an empty list of the consumer allows a model: %v", f)
	}
}

func TestListHasWhatTheCallerMayUse(t *testing.T) {
	t.Parallel()
	p := principal(t)
	names := func(r *configv1.Route) []string {
		var out []string
		for _, m := range List(p, &snapshot.Route{Route: r}) {
			out = append(out, m.Name)
		}
		return out
	}
	if got, want := names(&configv1.Route{}), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("default group: %v, want %v", got, want)
	}
	if got, want := names(&configv1.Route{GroupIds: []string{"grp_2"}}), []string{"b", "other-group"}; !slices.Equal(got, want) {
		t.Errorf("other group: %v, want %v", got, want)
	}
	p.Key.Allowed = snapshot.NewNameSet(&configv1.NameList{Names: []string{"b"}})
	list := List(p, &snapshot.Route{Route: &configv1.Route{}})
	if len(list) != 1 || list[0].Name != "b" || list[0].MaxContext != 20 {
		t.Errorf("allowed by the key: %+v, want b with the largest context", list)
	}
}
