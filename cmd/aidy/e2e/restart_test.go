package e2e

import (
	"fmt"
	"testing"
)

// TestG19RestartOfTheControlPlaneSyncsNobody: nodes that are current come back with a
// hello each, and nothing is sent to them again.
func TestG19RestartOfTheControlPlaneSyncsNobody(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 3)
	w := f.newWorld(t, "restart", oneUpstream())
	f.atRest(t)
	const streams, deltas, needs, fetches = "gateway_config_streams", "gateway_config_deltas_total", "gateway_config_need_fetches_total", "gateway_config_fetches_total"
	first := f.planes[0]
	if sent := first.metric(t, deltas) + first.metric(t, fetches); sent == 0 {
		t.Fatalf("%s and %s counted nothing while nodes took their first configuration", deltas, fetches)
	}
	first.stop()
	for _, n := range f.nodes {
		n.waitStatus(t, "detached", func(s nodeStatus) bool { return s.Configuration.State == "DETACHED" })
	}
	again := f.startPlane(t, "plane-again", planeOptions{syncAddr: first.sync.String()})
	f.planes, f.admin = []*plane{again}, again.client(t)
	eventually(t, "every node has its stream again", func() error {
		if open := again.metric(t, streams); int(open) != len(f.nodes) {
			return fmt.Errorf("%v streams", open)
		}
		return nil
	})
	for _, n := range f.nodes {
		n.waitCurrent(t)
	}
	f.atRest(t)
	for _, name := range []string{deltas, needs, fetches} {
		if n := again.metric(t, name); n != 0 {
			t.Errorf("%s is %v after the restart, want 0: every node was current", name, n)
		}
	}
	// And the streams are good for more than a hello.
	if _, id := w.newKey(t, "after"); id == "" {
		t.Error("no key was made")
	}
	if again.metric(t, deltas) == 0 {
		t.Errorf("%s is 0 after a change reached every node", deltas)
	}
}
