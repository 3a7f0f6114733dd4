package snapshot

import (
	"testing"
	"testing/synctest"
	"time"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// The first start of a node ends at the head, ready, with both domains reported.
func TestC35NodeIsNotReadyBeforeConfigurationArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.down = true
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{dir: t.TempDir()})
		time.Sleep(time.Minute)
		synctest.Wait()
		if ready, reasons := n.Ready(); ready || len(reasons) == 0 {
			t.Fatalf("ready = %t, reasons %q; want not ready, with reasons", ready, reasons)
		}
		if n.holder.Load() != nil || n.Status().State != Empty {
			t.Fatalf("view %v in state %s, want none and EMPTY", n.holder.Load(), n.Status().State)
		}
		p.heal()
		time.Sleep(backoffCap + time.Second)
		n.at(t, p)
		if ready, reasons := n.Ready(); !ready {
			t.Fatalf("not ready at the head: %q", reasons)
		}
		if s := n.Status(); s.State != Current {
			t.Fatalf("state %s, want CURRENT", s.State)
		}
		for d := range domains {
			if r := p.lastReport(d); r.GetOutcome() != syncv1.Outcome_OUTCOME_APPLIED || r.GetRunning().GetGeneration() != 1 {
				t.Errorf("%s: last report %v, want APPLIED at generation 1", d, r)
			}
		}
	})
}
