package snapshot

import (
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// validTenant is a configuration that the validator of both planes accepts.
func validTenant(id, prefix string) edit {
	return edit{key: shard.Tenant(id), message: &syncv1.TenantShard{
		Tenant:    &configv1.Tenant{Id: id, Name: "acme"},
		Groups:    []*configv1.Group{{Id: "grp_" + id, TenantId: id, Name: "default"}},
		Upstreams: []*configv1.Upstream{{Id: "upr_" + id, TenantId: id, Name: "main", ProviderId: "prv_1", GroupId: "grp_" + id}},
		Routes:    []*configv1.Route{{Id: "rte_" + id, TenantId: id, Name: "main", PathPrefix: prefix, GroupIds: []string{"grp_" + id}, ConsumerApiKeys: true}},
	}}
}

func validGlobal() edit {
	return edit{key: shard.Global(), message: &syncv1.GlobalShard{Providers: []*configv1.Provider{{
		Id: "prv_1", Name: "openai",
		Capabilities: []*configv1.Capability{{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "https://api.openai.com/v1"}},
	}}}}
}

func TestTheSharedValidatorHoldsBackWhatItRefuses(t *testing.T) {
	checker, err := configcheck.New(configcheck.Config{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		p, dir := newPlane(), t.TempDir()
		p.commit(validGlobal(), validTenant("ten_1", "/one"), validTenant("ten_2", "/two"), subjectEdit("ten_1"), subjectEdit("ten_2"))
		n := start(t, p, options{dir: dir, checker: checker})
		n.at(t, p)
		serves := func(want ...string) {
			t.Helper()
			v := n.settled()
			for i, path := range []string{"/one", "/two", "/three"} {
				r, _ := v.FindRoute("", path)
				got := ""
				if r != nil {
					got = r.TenantID
				}
				if got != want[i] {
					t.Errorf("%s belongs to %q, want %q; pins %v", path, got, want[i], n.Status().Policy.Pins)
				}
			}
		}
		serves("ten_1", "ten_2", "")
		if s := n.Status(); s.State != Current {
			t.Fatalf("state %s with pins %v", s.State, s.Policy.Pins)
		}

		p.commit(validTenant("ten_2", "/one")) // taken by another tenant
		n.at(t, p)
		serves("ten_1", "ten_2", "")
		p.commit(validTenant("ten_1", "/three")) // which moves away
		n.at(t, p)
		serves("ten_2", "", "ten_1")
		if s := n.Status(); s.State != Current {
			t.Errorf("state %s with pins %v, want CURRENT", s.State, s.Policy.Pins)
		}

		p.commit(gone(validGlobal())) // the provider is in use
		n.at(t, p)
		if v := n.holder.Load(); v.Provider(v.Tenant("ten_1"), "prv_1") == nil {
			t.Error("a provider in use was taken away")
		}
		p.commit(validGlobal())
		n.at(t, p)

		p.commit(gone(subjectEdit("ten_1")), keyEdit("ten_9", "stray")) // a key of no tenant
		n.at(t, p)
		if n.holder.Load().Key(hashOf("stray")) != nil {
			t.Error("a key of a tenant that does not exist works")
		}
		if s := n.Status(); s.State != Holding || len(s.Identity.Pins) != 1 {
			t.Errorf("state %s with pins %v, want one pin", s.State, s.Identity.Pins)
		}

		p.cut(true)
		n.stop()
		n = start(t, p, options{dir: dir, checker: checker, version: "1.0.1"})
		serves("ten_2", "", "ten_1")
	})
}

func TestG12ObjectsKeepTheirIdsAndUnchangedOnesAreTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1", "a", "b"), tenantEdit("t2", "a"), subjectEdit("t1"))
		n := start(t, p, options{})
		n.at(t, p)
		before := n.holder.Load()
		for i := range 20 {
			p.commit(tenantEdit("t1", "a", "b", string(rune('c'+i))))
			n.at(t, p)
			v := n.holder.Load()
			for id, u := range before.Tenant("t1").Upstreams {
				if now := v.Tenant("t1").Upstreams[id]; !proto.Equal(u, now) {
					t.Fatalf("upstream %s is %v, was %v", id, now, u)
				}
			}
			if v.Tenant("t2") != before.Tenant("t2") {
				t.Fatal("an unchanged tenant was built again")
			}
		}
		// A request that pinned the first View still sees it whole.
		if got := upstreams(before, "t1"); got != "a,b" {
			t.Errorf("the pinned View serves %s, want a,b", got)
		}
	})
}

func TestC19NextRequestRunsUnderTheGenerationThatWasReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{dir: t.TempDir()})
		n.at(t, p)
		for i := range 20 {
			g := p.commit(tenantEdit("t1", string(rune('a'+i))))
			for {
				synctest.Wait()
				if r := p.lastReport(policy); r.GetRunning().GetGeneration() == g && r.GetOutcome() == syncv1.Outcome_OUTCOME_APPLIED {
					break
				}
			}
			if v := n.holder.Load(); v.Policy.Generation < g {
				t.Fatalf("reported %d, serves %d", g, v.Policy.Generation)
			}
		}
	})
}
