package distribute

import (
	"testing"
	"testing/synctest"

	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
)

// A wait at one replica counts the nodes of every replica, those included that came
// after it last looked.
func TestC19AWaitCountsANodeThatJustCameToAnotherReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		other, stop := startHub(t, w.ctx, w.d, Config{})
		defer stop()
		after(fleetInterval + fleetInterval/20)
		n := newNode(w.d, func() syncv1connect.ConfigSyncServiceClient { return clientOf(other) })
		w.start(n)
		after(fleetInterval / 20)
		if got := w.h.WaitApplied(w.ctx, w.d.commit(put{key: "tenant/ten_1", payload: "t1"}), 100); len(got.Acked) != 1 || !n.runs(w.d) {
			t.Errorf("got %+v, want the node counted", got)
		}
	})
}
