package dataplane

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

func contextWithin(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// idleAfter bounds the silence of an upstream, in milliseconds.
func idleAfter(ms int64) rigOption {
	return func(ts *syncv1.TenantShard) { ts.Routes[0].IdleTimeoutMs = ms }
}

// leave calls, goes away once the provider has the call (and, with some, something of
// the answer came) and checks that the provider sees it within a second.
func leave(t *testing.T, g *pairRig, stream, some bool) {
	t.Helper()
	w := wireOf(g.from)
	path := w.path
	if stream {
		path = w.streamPath
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+strings.ReplaceAll(path, "MODEL", "m"), strings.NewReader(w.body("m", stream)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", testKey)
	if g.from == fakeprovider.Anthropic {
		r.Header.Set("Anthropic-Version", "2023-06-01")
	}
	gone := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		resp, err := g.client.Do(r)
		if err == nil {
			if _, err = resp.Body.Read(make([]byte, 64)); err == nil {
				close(begun)
			}
			<-ctx.Done()
			resp.Body.Close()
		}
		gone <- err
	}()
	wait, stop := contextWithin(t, 10*time.Second)
	defer stop()
	if some {
		select {
		case <-begun:
		case <-wait.Done():
			t.Fatal("nothing of the answer came")
		}
	} else if err := g.provider.Wait(wait, func(s fakeprovider.Stats) bool { return s.Open == 1 }); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-gone
	soon, stop := contextWithin(t, time.Second)
	defer stop()
	if err := g.provider.WaitCanceled(soon, 1); err != nil {
		t.Fatalf("the provider did not see within 1 s that the client left: %v", err)
	}
	if e := g.settled(t, 1)[0]; e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED {
		t.Errorf("outcome %v, want cancelled", e.GetOutcome())
	}
	if rests := g.node.scheduler.Rests(time.Now()); len(rests) > 0 {
		t.Errorf("the account rests because its client left: %+v", rests)
	}
}
