package resolve

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

func to(model string, order, weight int32) *configv1.RouteTarget {
	return &configv1.RouteTarget{Model: model, Order: order, Weight: weight}
}

// takes is a logical route that takes a model by its name.
func takes(model string, order int32, targets ...*configv1.RouteTarget) *configv1.LogicalRoute {
	return &configv1.LogicalRoute{
		Id: "lrt_" + model, Name: model, Order: order, Match: &configv1.ModelMatch{Model: model}, Targets: targets,
	}
}

// world is a tenant with the models a, b, c and d of provider one, and b of two, too. The
// model off is switched off.
type world struct {
	view *snapshot.View
	who  *auth.Principal
}

func newWorld(t testing.TB, routes ...*configv1.LogicalRoute) *world {
	t.Helper()
	shard := &syncv1.TenantShard{
		Tenant:    &configv1.Tenant{Id: "ten_1"},
		Groups:    []*configv1.Group{{Id: "grp_1", Name: "default"}},
		Providers: []*configv1.Provider{{Id: "prv_2", Name: "two"}},
		Upstreams: []*configv1.Upstream{{Id: "upr_1", GroupId: "grp_1", ProviderId: "prv_1"}, {Id: "upr_2", GroupId: "grp_1", ProviderId: "prv_2"}},
		Models: []*configv1.UpstreamModel{
			{Id: "upm_1", UpstreamId: "upr_1", Model: "a"},
			{Id: "upm_2", UpstreamId: "upr_1", Model: "b"},
			{Id: "upm_3", UpstreamId: "upr_2", Model: "b"},
			{Id: "upm_4", UpstreamId: "upr_1", Model: "c"},
			{Id: "upm_5", UpstreamId: "upr_1", Model: "d"},
			{Id: "upm_6", UpstreamId: "upr_1", Model: "off", Disabled: true},
		},
		LogicalRoutes: routes,
	}
	v, err := snapshot.Static([]snapshot.TenantBuilder{Builder()}, nil, shard, &syncv1.GlobalShard{Providers: []*configv1.Provider{{Id: "prv_1", Name: "one"}}})
	if err != nil {
		t.Fatal(err)
	}
	return &world{view: v, who: &auth.Principal{Method: auth.APIKey, Tenant: v.Tenant("ten_1"), Key: &snapshot.Key{}}}
}

func (w *world) resolve(f *Features, root string) (Decision, *fault.Error) {
	return Resolve(w.view, w.who, f, func() string { return root })
}

// leads checks where a model leads: its model and its chain, each "model" or "model@provider id".
func (w *world) leads(t testing.TB, f *Features, root string, want ...string) {
	t.Helper()
	d, fail := w.resolve(f, root)
	var got []string
	if fail == nil {
		for _, x := range append([]Target{{Model: d.Model, Provider: d.Provider}}, d.Chain...) {
			name := x.Model
			if x.Provider != "" {
				name += "@" + x.Provider
			}
			got = append(got, name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s leads to %v (%v), want %v", f.Model, got, fail, want)
	}
}

func TestTargetsAreFollowedToModels(t *testing.T) {
	t.Parallel()
	w := newWorld(
		t,
		takes("chain", 9, to("c", 2, 0), to("a", 0, 0), to("b", 1, 0)), // by order, not by place
		takes("nested", 1, to("chain", 0, 0), to("d", 1, 0)),
		takes("one", 2, to("one/b", 0, 0)), takes("two", 3, to("two/b", 0, 0)), takes("id", 4, to("prv_2/b", 0, 0)),
		takes("gone", 5, to("three/b", 0, 0), to("a", 1, 0)),
		takes("b", 6, to("two/b", 0, 0), to("b", 1, 0)), // a model that is served leads no further
		takes("off-first", 7, to("off", 0, 0), to("a", 1, 0)),
		takes("nothing", 8, to("off", 0, 0)),
		takes("twice", 10, to("a", 0, 0), to("a", 1, 0), to("nested", 2, 0)),
	)
	for model, want := range map[string][]string{
		"chain": {"a", "b", "c"}, "nested": {"a", "b", "c", "d"}, "one": {"b@prv_1"}, "two": {"b@prv_2"}, "id": {"b@prv_2"},
		"gone": {"a"}, "b": {"b@prv_2", "b"}, "off-first": {"a"}, "a": {"a"}, "twice": {"a", "b", "c", "d"}, "nothing": nil, "off": nil, "unknown": nil,
	} {
		w.leads(t, &Features{Model: model}, "root", want...)
	}
	d, _ := w.resolve(&Features{Model: "nested"}, "root")
	if d.Requested != "nested" || len(d.Passed) != 2 || d.Passed[0].GetName() != "nested" || d.Passed[1].GetName() != "chain" {
		t.Errorf("%q passed %v", d.Requested, d.Passed)
	}
}

func TestFirstMatchWinsWhateverItMatchesBy(t *testing.T) {
	t.Parallel()
	prefix := takes("prefix", 5, to("a", 0, 0))
	prefix.Match = &configv1.ModelMatch{Prefixes: []string{"x"}}
	every := takes("every", 9, to("d", 0, 0))
	every.Match = nil
	elsewhere := takes("elsewhere", 0, to("d", 0, 0))
	elsewhere.Match, elsewhere.RouteIds = nil, []string{"rte_9"}
	w := newWorld(t, every, takes("xz", 6, to("c", 0, 0)), prefix, takes("xy", 1, to("b", 0, 0)), elsewhere)
	for model, want := range map[string]string{"xy": "b", "xz": "a", "x": "a", "z": "d", "c": "d"} {
		w.leads(t, &Features{Model: model, RouteID: "rte_1"}, "", want)
	}
	w.leads(t, &Features{Model: "xy", RouteID: "rte_9"}, "", "d")
}

func TestOnlyTheModelThatIsAskedForMustBeAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, takes("smart", 1, to("a", 0, 0)), takes("other", 2, to("a", 0, 0)))
	w.who.Key.Allowed = snapshot.NewNameSet(&configv1.NameList{Names: []string{"smart"}})
	w.leads(t, &Features{Model: "smart"}, "", "a")
	for _, model := range []string{"other", "a"} {
		if _, f := w.resolve(&Features{Model: model}, ""); f == nil || f.Class != fault.NotPermitted {
			t.Errorf("%s gave %v", model, f)
		}
	}
	var names []string
	for _, m := range List(w.who, &snapshot.Route{Route: &configv1.Route{}}) {
		names = append(names, m.Name)
	}
	if !slices.Equal(names, []string{"smart"}) {
		t.Errorf("the list has %v", names)
	}
}

// A conversation's draw follows from its root alone, and weights are the shares.
func TestEqualOrdersAreSplitByWeight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, takes("split", 1, to("a", 0, 4), to("b", 0, 3), to("c", 0, 2), to("d", 0, 1)))
	shares := map[string]float64{"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}
	seen := make(map[string]int)
	const roots = 20_000
	for i := range roots {
		root := "conversation " + strconv.Itoa(i)
		d, f := w.resolve(&Features{Model: "split"}, root)
		if f != nil || len(d.Chain) != 0 {
			t.Fatalf("%v, chain %v", f, d.Chain)
		}
		if again, _ := w.resolve(&Features{Model: "split"}, root); again.Model != d.Model {
			t.Fatalf("%s moved", root)
		}
		seen[d.Model]++
	}
	chi := 0.0
	for model, share := range shares {
		diff := float64(seen[model]) - share*roots
		chi += diff * diff / (share * roots)
	}
	if chi > 16.27 { // three degrees of freedom, one in a thousand
		t.Errorf("chi square %.1f for %v", chi, seen)
	}
}

// A target that comes takes conversations from the others and moves none among them.
func TestNewTargetMovesOnlyWhatItGains(t *testing.T) {
	t.Parallel()
	before := newWorld(t, takes("split", 1, to("a", 0, 1), to("b", 0, 1)))
	after := newWorld(t, takes("split", 1, to("a", 0, 1), to("b", 0, 1), to("c", 0, 1)))
	for i := range 2000 {
		root := strconv.Itoa(i)
		was, _ := before.resolve(&Features{Model: "split"}, root)
		is, _ := after.resolve(&Features{Model: "split"}, root)
		if is.Model != was.Model && is.Model != "c" {
			t.Fatalf("%s moved from %s to %s", root, was.Model, is.Model)
		}
	}
}

func TestSplitKeepsLaterTargetsAndThoseOfStoredState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, takes("split", 1, to("a", 0, 1), to("b", 0, 1), to("c", 1, 1), to("d", 1, 1)))
	for i := range 20 {
		d, _ := w.resolve(&Features{Model: "split"}, strconv.Itoa(i))
		if len(d.Chain) != 2 || d.Chain[0].Model != "c" && d.Chain[0].Model != "d" || d.Chain[0] == d.Chain[1] {
			t.Errorf("the chain is %v", d.Chain)
		}
		d, _ = w.resolve(&Features{Model: "split", Stored: true}, strconv.Itoa(i))
		if len(d.Chain) != 3 || d.Chain[0].Model != "a" && d.Chain[0].Model != "b" {
			t.Errorf("of what one account stores the chain is %v", d.Chain)
		}
	}
}

func TestNoRootIsAskedForWithoutASplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, takes("chain", 1, to("a", 0, 0), to("b", 1, 0)))
	_, f := Resolve(w.view, w.who, &Features{Model: "chain"}, func() string { t.Error("the prompt is read for nothing"); return "" })
	if f != nil {
		t.Error(f)
	}
}

// Whatever the graph of routes is, circles included, following it ends within bounds.
func TestResolutionIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		names := []string{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "a", "off", "two/b", "nobody/b"}
		var routes []*configv1.LogicalRoute
		for i := range rapid.IntRange(1, 10).Draw(rt, "routes") {
			r := takes(names[i], int32(i))
			for range rapid.IntRange(1, 12).Draw(rt, "targets") {
				r.Targets = append(r.Targets, to(rapid.SampledFrom(names).Draw(rt, "target"), int32(rapid.IntRange(0, 2).Draw(rt, "order")), 1))
			}
			routes = append(routes, r)
		}
		w := newWorld(t, routes...)
		d, f := w.resolve(&Features{Model: "r0"}, rapid.String().Draw(rt, "root"))
		if f == nil && (d.Model == "" || len(d.Chain) >= maxTargets || len(d.Passed) > configcheck.MaxLogicalDepth) {
			rt.Fatalf("%+v", d)
		}
	})
}

func TestConditionBeyondTheBoundsHoldsTheTenantBack(t *testing.T) {
	t.Parallel()
	bad := takes("x", 1, to("a", 0, 0))
	bad.Condition = &configv1.Condition{}
	_, err := snapshot.Static([]snapshot.TenantBuilder{Builder()}, nil, &syncv1.TenantShard{Tenant: &configv1.Tenant{Id: "ten_1"}, LogicalRoutes: []*configv1.LogicalRoute{bad}})
	if err == nil {
		t.Error("a condition without a node is built")
	}
}

func BenchmarkResolve(b *testing.B) {
	var exact, loose []*configv1.LogicalRoute
	for i := range 200 {
		exact = append(exact, takes(fmt.Sprintf("model-%d", i), int32(i), to("a", 0, 1), to("b", 1, 1)))
		r := takes("", int32(i), to("a", 0, 1), to("b", 1, 1))
		r.Id, r.Match = fmt.Sprintf("lrt_%d", i), &configv1.ModelMatch{Prefixes: []string{fmt.Sprintf("model-%d-", i)}}
		loose = append(loose, r)
	}
	split := slices.Clone(exact)
	split[199] = takes("model-199", 199, to("a", 0, 1), to("b", 0, 1))
	for _, c := range []struct {
		name, model string
		routes      []*configv1.LogicalRoute
	}{{"none", "a", nil}, {"exact", "model-199", exact}, {"prefix", "model-199-x", loose}, {"miss", "a", loose}, {"split", "model-199", split}} {
		b.Run(c.name, func(b *testing.B) {
			w, f := newWorld(b, c.routes...), &Features{Model: c.model}
			b.ReportAllocs()
			for b.Loop() {
				if _, fail := w.resolve(f, "root"); fail != nil {
					b.Fatal(fail)
				}
			}
		})
	}
}
