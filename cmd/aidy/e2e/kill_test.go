package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

// TestL3KilledNodeLosesNoAttempt: nodes are killed while attempts are in every state. The provider counts what it was sent, and the ledger has as many attempts, each
// once: a settlement where the answer was over, a hold where nobody can know.
func TestL3KilledNodeLosesNoAttempt(t *testing.T) {
	t.Parallel()
	f := newPlanes(t, pg.URL(t), 1, planeOptions{})
	for i := range 2 {
		n := f.spec(t, fmt.Sprintf("killed-%d", i+1)).spawn(t)
		n.waitCurrent(t)
		f.nodes = append(f.nodes, n)
	}
	w := f.newWorld(t, "kill", oneUpstream(), tariffs("kill")...)

	const complete, streaming, silent = 3, 3, 2
	gate := make(chan struct{})
	defer close(gate)
	sdks := vendorsdk.All()
	for round, n := range f.nodes {
		sent := f.provider.attempts(w.secretPrefix())
		script := func(s fakeprovider.Step) {
			for _, credential := range []string{"a", "b"} {
				f.provider.Script(fakeprovider.Match{Key: w.secretOf(credential)}, s)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		cut := func(i int, firstEvent func()) {
			calls.Go(func() {
				c := w.talk(t, n, sdks[i%len(sdks)])
				var once sync.Once
				if _, err := c.sdk.Stream(ctx, c.base, c.question(vendorsdk.Question{}), func() { once.Do(firstEvent) }); err == nil {
					t.Errorf("round %d: a call of a node that was killed ended well", round)
				}
			})
		}
		// In the middle of their answers.
		script(fakeprovider.Step{Pieces: []string{"one ", "two ", "three"}, Fault: fakeprovider.FaultStall, FaultAfter: 2})
		var begun sync.WaitGroup
		begun.Add(streaming)
		for i := range streaming {
			cut(i, begun.Done)
		}
		begun.Wait()
		// Sent, and without an answer.
		script(fakeprovider.Step{HeaderGate: gate})
		for i := range silent {
			cut(i, func() { t.Errorf("round %d: an event came through a closed gate", round) })
		}
		f.provider.waitFor(t, patience, w.secretPrefix(), "every open attempt", func(seen []fakeprovider.Request) bool {
			return len(seen) == sent+streaming+silent
		})
		// Over, and perhaps not shipped yet.
		script(fakeprovider.Step{})
		for i := range complete {
			if _, err := w.talk(t, n, sdks[i%len(sdks)]).ask(t.Context(), i%2 == 0, vendorsdk.Question{}); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}

		n.kill()
		calls.Wait()
		cancel()
		n = n.spec.spawn(t)
		n.waitCurrent(t)
		f.nodes[round] = n
		if _, err := w.talk(t, n, sdks[round]).ask(t.Context(), true, vendorsdk.Question{}); err != nil {
			t.Fatalf("round %d: after the restart: %v", round, err)
		}
	}

	rows := w.rows(t, len(f.nodes)*(streaming+silent+complete+1))
	for _, n := range f.nodes {
		n.waitShipped(t)
	}
	rows = w.rows(t, len(rows))
	if sent := f.provider.attempts(w.secretPrefix()); sent != len(rows) {
		t.Errorf("the provider saw %d attempts, the ledger has %d", sent, len(rows))
	}
	held := 0
	for _, e := range rows {
		ev := e.GetEvent()
		switch ev.GetKind() {
		case ledgerv1.EntryKind_ENTRY_KIND_HOLD:
			held++
			if ev.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_UNKNOWN || e.GetCostNanos() != 0 || e.GetPriceNanos() != 0 {
				t.Errorf("a hold moves no money before its outcome is known: %s", rowText(rows))
			}
			if ev.GetUnits().GetInput() == 0 {
				t.Errorf("the hold of %s has no estimate: %v", ev.GetRequestId(), ev.GetUnits())
			}
		case ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT:
			if ev.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED {
				t.Errorf("%s is settled as %s, want completed", ev.GetRequestId(), ev.GetOutcome())
			}
			checkMoney(t, e, costLarge, priceModel, 1, 1)
		default:
			t.Errorf("row of kind %s", ev.GetKind())
		}
	}
	if want := len(f.nodes) * (streaming + silent); held != want {
		t.Errorf("%d holds, want %d: one for each attempt that the kill left open", held, want)
	}
}
