package snapshot

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// checkerFunc refuses the shards for which it returns a hint.
type checkerFunc func(look configcheck.Lookup, key string) string

func (f checkerFunc) CheckChanged(look configcheck.Lookup, changed []string) []*syncv1.Violation {
	var all []*syncv1.Violation
	for _, key := range changed {
		if hint := f(look, key); hint != "" {
			all = append(all, &syncv1.Violation{ShardKey: key, Rule: "test", Hint: hint, FieldPath: "upstreams[0].name"})
		}
	}
	return all
}

// refuseBad refuses a tenant with an upstream named "bad".
var refuseBad = checkerFunc(func(look configcheck.Lookup, key string) string {
	name, _ := shard.Parse(key)
	if name.Kind != shard.KindTenant {
		return ""
	}
	for _, u := range look.Tenant(name.ID).GetUpstreams() {
		if u.GetName() == "bad" {
			return "upstream is bad"
		}
	}
	return ""
})

func upstreams(v *View, tenant string) string {
	ten := v.Tenant(tenant)
	if ten == nil {
		return "none"
	}
	var names []string
	for _, u := range ten.Upstreams {
		names = append(names, u.GetName())
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

func grouped(group uint32, edits ...edit) []edit {
	for i := range edits {
		edits[i].group = group
	}
	return edits
}

func TestG06C17InvalidShardKeepsItsPreviousVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dir := newPlane(), t.TempDir()
		p.commit(tenantEdit("t1", "good"), subjectEdit("t1"), tenantEdit("t2", "old"), subjectEdit("t2"))
		o := options{dir: dir, checker: refuseBad}
		n := start(t, p, o)
		n.at(t, p)
		g := p.commit(tenantEdit("t1", "bad"), tenantEdit("t2", "new"))
		n.at(t, p)
		v := n.holder.Load()
		if upstreams(v, "t1") != "good" || upstreams(v, "t2") != "new" {
			t.Fatalf("t1 serves %s, t2 %s; want good and new", upstreams(v, "t1"), upstreams(v, "t2"))
		}
		if s := n.Status(); s.State != Holding || !s.Ready {
			t.Errorf("state %s, ready %t; want HOLDING and ready", s.State, s.Ready)
		}
		r := p.lastReport(policy)
		if r.GetOutcome() != syncv1.Outcome_OUTCOME_APPLIED_WITH_PINS || len(r.GetPins()) != 1 || r.GetPins()[0].GetSinceGeneration() != g {
			t.Fatalf("report %v, want one pin since generation %d", r, g)
		}
		if len(r.GetViolations()) != 1 || r.GetViolations()[0].GetFieldPath() == "" || r.GetViolations()[0].GetShardKey() != "tenant/t1" {
			t.Errorf("violations %v, want one of tenant/t1 with a field path", r.GetViolations())
		}
		// The pin survives a restart, the held version with it.
		p.cut(true)
		n.stop()
		n = start(t, p, o)
		v = n.settled()
		if upstreams(v, "t1") != "good" || upstreams(v, "t2") != "new" {
			t.Fatalf("after a restart t1 serves %s, t2 %s; want good and new", upstreams(v, "t1"), upstreams(v, "t2"))
		}
		p.heal()
		time.Sleep(backoffCap + time.Second)
		p.commit(tenantEdit("t1", "mended"))
		n.at(t, p)
		if got := upstreams(n.holder.Load(), "t1"); got != "mended" {
			t.Errorf("t1 serves %s, want mended", got)
		}
		if s := n.Status(); s.State != Current || len(s.Policy.Pins) != 0 {
			t.Errorf("state %s with pins %v, want CURRENT without", s.State, s.Policy.Pins)
		}
	})
}

func TestC16RefusedShardIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1", "good"), subjectEdit("t1"))
		n := start(t, p, options{checker: refuseBad})
		n.at(t, p)
		p.commit(tenantEdit("t1", "bad"))
		offered := len(p.tape().offered)
		for range 5 {
			time.Sleep(time.Minute)
			p.cut(false)
		}
		time.Sleep(time.Minute)
		n.at(t, p)
		if len(p.tape().offered) != offered+1 {
			t.Errorf("the refused generation was sent %d times, want once", len(p.tape().offered)-offered)
		}
	})
}

func TestC18HalfInvalidGroupIsHeldWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dir := newPlane(), t.TempDir()
		p.commit(tenantEdit("t1", "one"), tenantEdit("t2", "one"), tenantEdit("t3", "one"), subjectEdit("t1"), subjectEdit("t2"), subjectEdit("t3"))
		o := options{dir: dir, checker: refuseBad}
		n := start(t, p, o)
		n.at(t, p)
		edits := grouped(4, tenantEdit("t1", "two"), tenantEdit("t2", "bad"), tenantEdit("new", "two"), gone(tenantEdit("t3")))
		p.commit(append(edits, tenantEdit("t4", "two"))...)
		check := func(want map[string]string) {
			t.Helper()
			n.at(t, p)
			for id, w := range want {
				if got := upstreams(n.holder.Load(), id); got != w {
					t.Errorf("%s serves %s, want %s", id, got, w)
				}
			}
		}
		held := map[string]string{"t1": "one", "t2": "one", "t3": "one", "new": "none", "t4": "two"}
		check(held)
		// A later change of one member stays with its group.
		p.commit(tenantEdit("t1", "three"))
		check(held)
		n.stop()
		n = start(t, p, o)
		time.Sleep(time.Second)
		check(held)
		p.commit(tenantEdit("t2", "mended"))
		check(map[string]string{"t1": "three", "t2": "mended", "t3": "none", "new": "two", "t4": "two"})
	})
}

func TestRepairingTheReferencedObjectHealsItsReferrers(t *testing.T) {
	needsProvider := checkerFunc(func(look configcheck.Lookup, key string) string {
		name, _ := shard.Parse(key)
		if name.Kind == shard.KindTenant && look.Tenant(name.ID) != nil && len(look.Global().GetProviders()) == 0 {
			return "there is no provider"
		}
		return ""
	})
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1", "a"), subjectEdit("t1"))
		n := start(t, p, options{checker: needsProvider})
		n.at(t, p)
		if got := upstreams(n.holder.Load(), "t1"); got != "none" {
			t.Fatalf("t1 serves %s without its provider", got)
		}
		p.commit(edit{key: "global", message: &syncv1.GlobalShard{Providers: []*configv1.Provider{{Id: "prv"}}}})
		n.at(t, p)
		if got := upstreams(n.holder.Load(), "t1"); got != "a" {
			t.Errorf("t1 serves %s, want a", got)
		}
	})
}

func TestRevocationIsNeverHeldWithItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(subjectEdit("t1"), keyEdit("t1", "k"), tenantEdit("t1"))
		n := start(t, p, options{})
		n.at(t, p)
		p.commit(grouped(1, gone(keyEdit("t1", "k")), subjectEdit("t1", func(m *syncv1.SubjectRecord) { m.RequiredFeatures = 1 << 60 }))...)
		n.at(t, p)
		if n.holder.Load().Key(hashOf("k")) != nil {
			t.Error("a revoked key works, because another shard of its group is refused")
		}
	})
}

func TestC21OneCorruptTenantOfManyHoldsBackOnlyItself(t *testing.T) {
	const tenants = 1000
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.chunk = 200
		edits := []edit{{key: "tenant/broken", raw: []byte{0xff, 0xff, 0xff}}}
		for i := range tenants - 1 {
			edits = append(edits, tenantEdit(fmt.Sprintf("t%d", i)))
		}
		p.commit(append(edits, subjectEdit("t0"))...)
		n := start(t, p, options{})
		n.at(t, p)
		if got := len(n.holder.Load().Tenants()); got != tenants-1 {
			t.Errorf("%d tenants serve, want %d", got, tenants-1)
		}
		if r := p.lastReport(policy); r.GetOutcome() != syncv1.Outcome_OUTCOME_APPLIED_WITH_PINS || len(r.GetPins()) != 1 {
			t.Errorf("outcome %s with %d pins, want one pin", r.GetOutcome(), len(r.GetPins()))
		}
	})
}

func TestC44PanicInBuilderOrProbeIsARefusalOfThatShard(t *testing.T) {
	explode := func(ten *Tenant) {
		for _, u := range ten.Upstreams {
			if u.GetName() == "bad" {
				panic("boom")
			}
		}
	}
	for name, o := range map[string]options{
		"builder": {builders: []TenantBuilder{{Name: "b", Build: func(ten *Tenant) (any, error) { explode(ten); return 1, nil }}}},
		"probe": {probe: func(v *View, touched []string) error {
			for _, key := range touched {
				if name, _ := shard.Parse(key); name.Kind == shard.KindTenant && v.Tenant(name.ID) != nil {
					explode(v.Tenant(name.ID))
				}
			}
			return nil
		}},
		"checker": {checker: checkerFunc(func(look configcheck.Lookup, key string) string {
			if refuseBad(look, key) != "" {
				panic("boom")
			}
			return ""
		})},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane()
				p.commit(tenantEdit("t1", "good"), tenantEdit("t2", "old"), subjectEdit("t1"))
				n := start(t, p, o)
				n.at(t, p)
				p.commit(tenantEdit("t1", "bad"), tenantEdit("t2", "new"))
				n.at(t, p)
				if v := n.holder.Load(); upstreams(v, "t1") != "good" || upstreams(v, "t2") != "new" {
					t.Errorf("t1 serves %s, t2 %s; want good and new", upstreams(v, "t1"), upstreams(v, "t2"))
				}
			})
		})
	}
}

func TestUpdateWithoutANameableCauseIsRejectedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1", "good"), subjectEdit("t1"))
		refuse := false
		n := start(t, p, options{checker: strayChecker(func() bool { return refuse })})
		n.at(t, p)
		before := n.holder.Load()
		refuse = true
		g := p.commit(tenantEdit("t1", "a"))
		if n.settled() != before {
			t.Fatal("the position moved")
		}
		if r := p.lastReport(policy); r.GetOutcome() != syncv1.Outcome_OUTCOME_REJECTED || r.GetTried().GetGeneration() != g {
			t.Fatalf("report %v, want REJECTED of %d", r, g)
		}
		p.cut(false)
		time.Sleep(5 * time.Minute)
		if s := n.Status(); s.State != Holding {
			t.Errorf("state %s, want HOLDING", s.State)
		}
		w := p.lastWatch()
		if len(w.GetRefused()) != 1 || w.GetRefused()[0].GetGeneration() != g || w.GetRefused()[0].GetNodeVersion() != "1.0.0" {
			t.Errorf("refused list %v, want generation %d of 1.0.0", w.GetRefused(), g)
		}
		refuse = false
		p.commit(tenantEdit("t1", "b"))
		time.Sleep(time.Second)
		n.at(t, p)
	})
}

type strayChecker func() bool

func (f strayChecker) CheckChanged(configcheck.Lookup, []string) []*syncv1.Violation {
	if f() {
		return []*syncv1.Violation{{ShardKey: "tenant/elsewhere", Rule: "test"}}
	}
	return nil
}

func TestUnknownRequiredFeatureRefusesTheShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1", "good"), subjectEdit("t1"))
		n := start(t, p, options{})
		n.at(t, p)
		e := tenantEdit("t1", "new")
		e.message.(*syncv1.TenantShard).RequiredFeatures = 1 << 63
		p.commit(e)
		n.at(t, p)
		if got := upstreams(n.holder.Load(), "t1"); got != "good" {
			t.Errorf("t1 serves %s, want good", got)
		}
	})
}

func TestUnknownFieldIsIgnoredAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		e := tenantEdit("t1", "good")
		b, _ := proto.Marshal(e.message)
		b = protowire.AppendTag(b, 9999, protowire.VarintType)
		e.message, e.raw = nil, protowire.AppendVarint(b, 1)
		p.commit(e, subjectEdit("t1"))
		n := start(t, p, options{})
		n.at(t, p)
		if got := upstreams(n.holder.Load(), "t1"); got != "good" {
			t.Errorf("t1 serves %s, want good", got)
		}
		found := false
		for _, r := range p.tape().reports {
			for _, v := range r.GetViolations() {
				found = found || v.GetRule() == "shard.unknown_field" && strings.Contains(v.GetHint(), "9999")
			}
		}
		if !found {
			t.Error("the unknown field was not reported")
		}
	})
}

func TestEqualContentCausesNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		built := 0
		p.commit(tenantEdit("t1", "a"), tenantEdit("t2", "a"), subjectEdit("t1"))
		n := start(t, p, options{builders: []TenantBuilder{{Name: "n", Build: func(*Tenant) (any, error) { built++; return nil, nil }}}})
		n.at(t, p)
		before, was := n.holder.Load().Tenant("t1"), built
		p.commit(tenantEdit("t1", "a"), tenantEdit("t2", "b"))
		n.at(t, p)
		if n.holder.Load().Tenant("t1") != before || built != was+1 {
			t.Errorf("%d tenants were built, want the one that changed", built-was)
		}
	})
}

// Blank, zero and huge values in every message of the stream end no node.
func TestC32StrangeMessagesNeverPanic(t *testing.T) {
	huge := &syncv1.Position{Epoch: math.MaxUint64, Generation: math.MaxUint64, Root: make([]byte, 32)}
	w := func(m *syncv1.WatchResponse) *syncv1.WatchResponse { return m }
	for i, m := range []*syncv1.WatchResponse{
		{},
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Hello{}}),
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Hello{Hello: &syncv1.Hello{HeartbeatIntervalMs: math.MinInt64}}}),
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Hello{Hello: &syncv1.Hello{HeartbeatIntervalMs: math.MaxInt64, Identity: huge}}}),
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Keys{Keys: &syncv1.ContentKeys{Keys: []*syncv1.ContentKey{nil, {}}}}}),
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Delta{}}),
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Delta{Delta: &syncv1.Delta{View: 1, Target: huge, Updates: []*syncv1.ShardUpdate{nil, {}, {Key: "key/x"}}}}}),
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Delta{Delta: &syncv1.Delta{View: 99, Target: huge}}}),
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_NeedFetch{NeedFetch: &syncv1.NeedFetch{View: 2, Target: huge}}}),
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_NeedFetch{}}),
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Heartbeat{Heartbeat: &syncv1.Heartbeat{Identity: &syncv1.Position{Root: []byte{1}}}}}),
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Goaway{Goaway: &syncv1.Goaway{ReconnectAfterMs: math.MaxInt64}}}),
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Goaway{Goaway: &syncv1.Goaway{ReconnectAfterMs: math.MinInt64}}}),
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Rollout{}}),
		w(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Signals{}}),
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPlane()
			p.commit(tenantEdit("t1"), subjectEdit("t1"))
			n := start(t, p, options{})
			n.at(t, p)
			p.set(func() {
				p.alter = func(*syncv1.WatchResponse) *syncv1.WatchResponse {
					p.mu.Lock()
					defer p.mu.Unlock()
					p.alter = nil
					return m
				}
			})
			p.commit(tenantEdit("t1", "a"))
			time.Sleep(3 * time.Minute)
			if v := n.settled(); v.Policy != p.head(policy) {
				t.Errorf("message %d: node runs %v, want the head %v", i, v.Policy, p.head(policy))
			}
		})
	}
}
