package snapshot

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

func cools(subject string, length time.Duration) *syncv1.Signal {
	return &syncv1.Signal{
		Kind: syncv1.SignalKind_SIGNAL_KIND_COOLDOWN, Scope: "credential", Subject: subject, Until: timestamppb.New(time.Now().Add(length)),
	}
}

// told returns the soft state that was reported, in order.
func (p *plane) told() (subjects []string, reports int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.reports {
		if len(r.GetSignals()) > 0 {
			reports++
		}
		for _, g := range r.GetSignals() {
			subjects = append(subjects, g.GetSubject())
		}
	}
	return subjects, reports
}

func TestSoftStateIsToldWithin100Milliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{})
		n.at(t, p)
		n.Tell(cools("a", time.Minute))
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if got, _ := p.told(); !slices.Equal(got, []string{"a"}) {
			t.Fatalf("told %v after 100 ms, want a", got)
		}
		for i := range 50 {
			n.Tell(cools(fmt.Sprint("b", i), time.Minute))
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if got, reports := p.told(); len(got) != 51 || reports > 4 {
			t.Errorf("told %d in %d reports, want 51 in few", len(got), reports)
		}
	})
}

func TestSoftStateIsBoundedAndTheNewestIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{})
		n.at(t, p)
		lost := 0
		n.teller.dropped = func(k int) { lost += k }
		const many = 3 * maxTold
		for i := range many {
			n.Tell(cools(fmt.Sprint(i), time.Hour))
			n.Tell(cools(fmt.Sprint(i), time.Hour)) // of the same thing, in its place
		}
		began := time.Now()
		time.Sleep(time.Second)
		synctest.Wait()
		if got, _ := p.told(); len(got) > tellBurst+tellRate {
			t.Errorf("told %d in %s, want %d and %d a second at most", len(got), time.Since(began), tellBurst, tellRate)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		got, _ := p.told()
		if lost+len(got) != many || got[len(got)-1] != fmt.Sprint(many-1) {
			t.Errorf("%d told and %d dropped of %d, the last %s; want the oldest dropped and all counted", len(got), lost, many, got[len(got)-1])
		}
	})
}

func TestSoftStateWaitsForAControlPlaneAndNotLongerThanItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{})
		n.at(t, p)
		p.cut(true)
		time.Sleep(time.Second)
		n.Tell(cools("short", 10*time.Second))
		n.Tell(cools("long", time.Hour))
		n.Tell(cools("withdrawn", time.Hour))
		n.Withdraw(func(g *syncv1.Signal) bool { return g.GetSubject() == "withdrawn" })
		time.Sleep(time.Minute)
		p.heal()
		time.Sleep(backoffCap + time.Second)
		synctest.Wait()
		if got, _ := p.told(); !slices.Equal(got, []string{"long"}) {
			t.Errorf("told %v, want what still runs and was not withdrawn", got)
		}
	})
}

func TestTheFleetGrowsAtOnceAndShrinksLate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var f fleetSize
		now := time.Unix(0, 0)
		type word struct {
			at time.Time
			n  int
		}
		var said []word
		for range rapid.IntRange(1, 30).Draw(t, "words") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
			n := rapid.IntRange(1, 5).Draw(t, "nodes")
			f.told(n, now)
			said = append(said, word{now, n})
			got := f.get()
			if got < n {
				t.Fatalf("%d nodes though %d were told just now", got, n)
			}
			for _, w := range said {
				if now.Sub(w.at) < shrinkAfter && w.n > got {
					t.Fatalf("%d nodes though %d were told %s ago", got, w.n, now.Sub(w.at))
				}
			}
			if !slices.ContainsFunc(said, func(w word) bool { return w.n == got }) {
				t.Fatalf("%d nodes, which nobody told", got)
			}
		}
		before := f.get()
		f.told(0, now.Add(time.Hour)) // a control plane that does not count
		if f.get() != before {
			t.Fatalf("%d nodes, want the last word %d", f.get(), before)
		}
		now = now.Add(time.Hour)
		f.told(1, now)
		f.told(1, now.Add(shrinkAfter))
		if f.get() != 1 {
			t.Fatalf("%d nodes after half a minute of 1", f.get())
		}
	})
}

func TestSwapsAreToldWithTheTenantsTheyConcern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), tenantEdit("t2"), subjectEdit("t1"))
		var mu sync.Mutex
		var tenants []string
		n := start(t, p, options{swapped: func(n *node, old, now *View, ids []string) {
			if n.holder.Load() != now || old == now {
				t.Error("told of a View that does not serve")
			}
			mu.Lock()
			defer mu.Unlock()
			tenants = append(tenants, ids...)
		}})
		n.at(t, p)
		mu.Lock()
		tenants = nil
		mu.Unlock()
		p.commit(edit{key: shard.Tenant("t2")})
		n.at(t, p)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(tenants, []string{"t2"}) {
			t.Errorf("told of %v, want t2 alone", tenants)
		}
	})
}
