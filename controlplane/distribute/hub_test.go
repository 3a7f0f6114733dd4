package distribute

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
)

func keyShard(i int) string { return fmt.Sprintf("key/%064x", i) }

// world is a database, one hub and nodes in a bubble.
type world struct {
	t     *testing.T
	ctx   context.Context
	d     *database
	mu    sync.Mutex // guards h, which a restart replaces
	h     *Hub
	stop  func()
	wg    sync.WaitGroup
	close func()
}

func newWorld(t *testing.T, cfg Config) *world {
	ctx, cancel := context.WithCancel(t.Context())
	w := &world{t: t, ctx: ctx, d: newDatabase()}
	w.d.commit(put{key: "global", payload: "g0"}, put{key: "tenant/ten_1", payload: "t0"}, put{key: keyShard(1), payload: "k0"})
	w.h, w.stop = startHub(t, ctx, w.d, cfg)
	w.close = func() { w.stop(); cancel(); w.wg.Wait() }
	return w
}

func (w *world) hub() syncv1connect.ConfigSyncServiceClient {
	w.mu.Lock()
	defer w.mu.Unlock()
	return clientOf(w.h)
}

// restart replaces the hub by one that knows nothing.
func (w *world) restart() {
	w.stop()
	h, stop := startHub(w.t, w.ctx, w.d, Config{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.h, w.stop = h, stop
}

func (w *world) start(n *fakeNode) *fakeNode {
	w.wg.Go(func() { n.run(w.ctx) })
	return n
}

func (w *world) node() *fakeNode { return w.start(newNode(w.d, w.hub)) }

// after lets time pass in the bubble.
func after(d time.Duration) { time.Sleep(d); synctest.Wait() }

func TestIdentityIsDeliveredBeforePolicyAndKeysBeforeBoth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		n := w.node()
		after(time.Second)
		n.forget()
		w.d.commit(put{key: "tenant/ten_1", payload: "t1"}, put{key: keyShard(1), payload: "k1"})
		after(100 * time.Millisecond)
		if diff := cmp.Diff([]string{"delta VIEW_IDENTITY", "delta VIEW_STABLE"}, n.history()); diff != "" {
			t.Error(diff)
		}
		n.forget()
		w.d.set(func(d *database) {
			d.keys = &syncv1.ContentKeys{Keys: append([]*syncv1.ContentKey{{Id: "k2"}}, d.keys.Keys...)}
		})
		w.d.commit(put{key: "cred/ten_1", payload: "resealed"})
		after(100 * time.Millisecond)
		if diff := cmp.Diff([]string{"keys", "delta VIEW_IDENTITY"}, n.history()); diff != "" {
			t.Error(diff)
		}
		n.check(t)
	})
}

func TestANodeWithNothingFetchesAndANodeThatIsCurrentGetsHelloAndKeysAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		n := w.node()
		after(5 * time.Second)
		want := []string{"hello", "keys", "fetch VIEW_IDENTITY", "hello", "keys", "fetch VIEW_STABLE", "hello", "keys"}
		if diff := cmp.Diff(want, n.history()); diff != "" {
			t.Error(diff)
		}
		if !n.runs(w.d) {
			t.Error("the node is not at the head")
		}
	})
}

func TestG19RestartingAControlPlaneCostsOneHelloForEachNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		var nodes []*fakeNode
		for range 20 {
			nodes = append(nodes, w.node())
		}
		after(5 * time.Second)
		for _, n := range nodes {
			if !n.runs(w.d) {
				t.Fatal("a node is not at the head")
			}
			n.forget()
		}
		w.restart()
		after(9 * time.Second)
		for _, n := range nodes {
			hellos, others := 0, 0
			for _, what := range n.history() {
				switch {
				case what == "hello":
					hellos++
				case strings.HasPrefix(what, "fetch"), strings.HasPrefix(what, "delta"):
					others++
				}
			}
			if hellos != 1 || others != 0 {
				t.Errorf("a node saw %v", n.history())
			}
		}
	})
}

func TestG03WhateverIsLostIsNoticedWithinOneHeartbeat(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		// Each of the first messages is lost or not; so is each after the commit.
		lost := rapid.SliceOfN(rapid.Bool(), 1, 12).Draw(rt, "lost")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Config{})
			defer w.close()
			var mu sync.Mutex
			i := 0
			n := newNode(w.d, w.hub)
			n.drop = func(m *syncv1.WatchResponse) bool {
				if m.GetHeartbeat() != nil {
					return false // "within one heartbeat" means one that arrives
				}
				mu.Lock()
				defer mu.Unlock()
				i++
				return i <= len(lost) && lost[i-1]
			}
			w.start(n)
			w.d.commit(put{key: keyShard(2), payload: "new"})
			// Every loss costs at most a heartbeat, and what follows it.
			after(time.Duration(len(lost)+1) * 11 * time.Second)
			if !n.runs(w.d) {
				t.Errorf("lost %v: not at the head after %d losses: %v", lost, len(lost), n.history())
			}
			n.forget()
			mu.Lock()
			i, lost = 0, []bool{true} // the delta
			mu.Unlock()
			w.d.commit(put{key: "tenant/ten_1", payload: "t1"})
			after(11 * time.Second)
			if !n.runs(w.d) {
				t.Errorf("a lost delta was not noticed within a heartbeat: %v", n.history())
			}
			n.check(t)
		})
	})
}

func TestG02PositionsNeverGoDownWithinAnEpoch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		// A second replica that lags: it hears nothing and sees an older database.
		old := newDatabase()
		old.commit(put{key: "global", payload: "g0"}, put{key: "tenant/ten_1", payload: "t0"}, put{key: keyShard(1), payload: "k0"})
		lag, stop := startHub(t, w.ctx, old, Config{TrustNodes: true})
		defer stop()
		turn := 0
		n := newNode(w.d, func() syncv1connect.ConfigSyncServiceClient {
			if turn++; turn%2 == 0 {
				return clientOf(lag)
			}
			return clientOf(w.h)
		})
		w.start(n)
		for i := range 50 {
			w.d.commit(put{key: "tenant/ten_1", payload: fmt.Sprint("t", i)}, put{key: keyShard(i), payload: "k"})
			after(7 * time.Second)
			w.h.endStreams(n.info.GetNodeId(), "test")
			lag.endStreams(n.info.GetNodeId(), "test")
		}
		after(time.Minute)
		n.check(t) // says G-2 if one went down
		n.get(func(n *fakeNode) {
			if n.at[stable].generation < 40 {
				t.Errorf("the node stayed at %s", n.at[stable])
			}
		})
	})
}

func TestC01RandomCommitsAndReconnectsEndAtTheHead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		actions := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 40).Draw(rt, "actions")
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Config{})
			defer w.close()
			nodes := []*fakeNode{w.node(), w.node(), w.node()}
			for i, a := range actions {
				switch a {
				case 0:
					w.d.commit(put{key: fmt.Sprintf("tenant/ten_%d", i%7), payload: fmt.Sprint("v", i)})
				case 1:
					w.d.commit(put{key: keyShard(i % 5), payload: fmt.Sprint("k", i)}, put{key: fmt.Sprintf("tenant/ten_%d", i%3), payload: fmt.Sprint("w", i), group: 2})
				case 2:
					w.d.commit(put{key: keyShard(i % 5)})
				case 3:
					w.h.endStreams(nodes[i%3].info.GetNodeId(), "test")
				case 4:
					w.d.set(func(d *database) { d.trimmed = d.gen })
				case 5:
					after(time.Duration(i) * 100 * time.Millisecond)
				}
			}
			after(30 * time.Second)
			for _, n := range nodes {
				if !n.runs(w.d) {
					t.Errorf("after %v a node is not at the head: %v", actions, n.history())
				}
				n.check(t)
				n.forget()
			}
			// Unchanged shards are not sent again.
			w.d.commit(put{key: "global", payload: "g9"})
			after(5 * time.Second)
			for _, n := range nodes {
				n.get(func(n *fakeNode) {
					if n.fetched != 0 || n.deltas != 1 {
						t.Errorf("one changed shard cost %d deltas and %d fetched shards", n.deltas, n.fetched)
					}
				})
			}
		})
	})
}

func TestC03OpenedAndDroppedStreamsLeaveTheHubEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		live := w.node()
		other := newNode(w.d, w.hub)
		after(5 * time.Second)
		for i := range 2000 {
			ctx, cancel := context.WithCancel(other.ctx(w.ctx))
			stream, err := w.hub().Watch(ctx, other.request())
			if err != nil {
				t.Fatal(err)
			}
			for range i % 3 {
				_, _ = stream.Receive()
			}
			cancel()
			_ = stream.Close()
		}
		synctest.Wait()
		w.h.mu.Lock()
		left := len(w.h.sessions)
		w.h.mu.Unlock()
		if left != 1 || !w.h.streaming()[live.info.GetNodeId()] {
			t.Errorf("%d streams are registered, want that of the live node alone", left)
		}
	})
}

func TestC16ARefusedGenerationIsOfferedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		n := newNode(w.d, w.hub)
		w.start(n)
		after(5 * time.Second)
		n.get(func(n *fakeNode) {
			n.refuse = func(d *syncv1.Delta) bool { return d.GetUpdates()[0].GetKey() == "tenant/ten_bad" }
		})
		n.forget()
		gen := w.d.commit(put{key: "tenant/ten_bad", payload: "bad"})
		after(time.Second)
		w.h.endStreams(n.info.GetNodeId(), "test") // and comes back
		after(2 * time.Minute)
		w.restart() // as at another replica
		after(2 * time.Minute)
		n.get(func(n *fakeNode) {
			if got := n.offers[fmt.Sprint(stable, gen)]; got != 1 {
				t.Errorf("the refused generation was offered %d times", got)
			}
			n.refuse = nil
		})
		if got := w.state(n); got != adminv1.NodeState_NODE_STATE_HOLDING {
			t.Errorf("the node is %v, want HOLDING", got)
		}
		w.d.commit(put{key: "tenant/ten_bad", payload: "mended"})
		after(15 * time.Second)
		if !n.runs(w.d) {
			t.Errorf("a newer generation did not help: %v", n.history())
		}
		n.check(t)
	})
}

func (w *world) state(n *fakeNode) adminv1.NodeState {
	nodes, err := w.h.Nodes(w.ctx)
	if err != nil {
		w.t.Error(err)
	}
	for _, x := range nodes {
		if x.GetId() == n.info.GetNodeId() {
			return x.GetState()
		}
	}
	return adminv1.NodeState_NODE_STATE_UNSPECIFIED
}

func TestRetryOffersARefusedGenerationAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		n := w.node()
		after(5 * time.Second)
		n.get(func(n *fakeNode) { n.refuse = func(*syncv1.Delta) bool { return true } })
		w.d.commit(put{key: "tenant/ten_bad", payload: "bad"})
		after(time.Second)
		n.get(func(n *fakeNode) { n.refuse = nil })
		w.h.Retry(n.info.GetNodeId())
		after(15 * time.Second)
		if !n.runs(w.d) {
			t.Errorf("the node was not offered it again: %v", n.history())
		}
	})
}

func TestC19AppliedIsSaidOnlyOfNodesThatRunIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		a, b, bad := w.node(), w.node(), newNode(w.d, w.hub)
		w.start(bad)
		after(15 * time.Second)
		bad.get(func(n *fakeNode) { n.refuse = func(*syncv1.Delta) bool { return true } })
		gen := w.d.commit(put{key: "tenant/ten_1", payload: "t1"})
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
		defer cancel()
		got := w.h.WaitApplied(ctx, gen, 100)
		want := []string{a.info.GetNodeId(), b.info.GetNodeId()}
		slices.Sort(want)
		if diff := cmp.Diff(want, got.Acked); diff != "" || len(got.Pending) != 0 || len(got.Refused) != 1 {
			t.Errorf("got %+v (%s)", got, diff)
		}
		if len(got.Refused) == 1 && (got.Refused[0].GetNodeId() != bad.info.GetNodeId() || len(got.Refused[0].GetViolations()) != 1) {
			t.Errorf("refused by %v", got.Refused[0])
		}
		if !a.runs(w.d) || !b.runs(w.d) {
			t.Error("a node that is said to have applied it does not run it")
		}
		// A generation that touched another view alone asks nothing new of this one.
		gen = w.d.commit(put{key: keyShard(9), payload: "k"})
		bad.get(func(n *fakeNode) { n.refuse = nil })
		if got := w.h.WaitApplied(ctx, gen, 50); len(got.Acked) < 2 {
			t.Errorf("a quorum of 50 %%: %+v", got)
		}
	})
}

func TestC30SentIsNotApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		after(time.Second)
		frozen := newNode(w.d, w.hub)
		stream, err := w.hub().Watch(frozen.ctx(w.ctx), frozen.request())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = stream.Close() }()
		if _, err := stream.Receive(); err != nil { // and reads no more
			t.Fatal(err)
		}
		mute := newNode(w.d, w.hub)
		mute.silent = true
		w.start(mute)
		good := w.node()
		after(5 * time.Second)
		gen := w.d.commit(put{key: "tenant/ten_1", payload: "t1"})
		ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
		defer cancel()
		got := w.h.WaitApplied(ctx, gen, 100)
		if diff := cmp.Diff([]string{good.info.GetNodeId()}, got.Acked); diff != "" || len(got.Pending) != 2 {
			t.Errorf("got %+v: a frozen reader holds up others, or counts as applied (%s)", got, diff)
		}
		if !mute.runs(w.d) {
			t.Error("the node that does not report did not get it")
		}
		for _, n := range []*fakeNode{frozen, mute} {
			if s := w.state(n); s != adminv1.NodeState_NODE_STATE_SYNCING {
				t.Errorf("a node that reports nothing is %v", s)
			}
		}
	})
}

func TestNodeStatesFollowReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		n := newNode(w.d, w.hub)
		ctx, cancel := context.WithCancel(w.ctx)
		w.wg.Go(func() { n.run(ctx) })
		after(15 * time.Second)
		if got := w.state(n); got != adminv1.NodeState_NODE_STATE_CURRENT {
			t.Errorf("a node at the head is %v", got)
		}
		cancel()
		after(20 * time.Second)
		if got := w.state(n); got != adminv1.NodeState_NODE_STATE_CURRENT {
			t.Errorf("after two heartbeats it is %v", got)
		}
		after(15 * time.Second)
		if got := w.state(n); got != adminv1.NodeState_NODE_STATE_DETACHED {
			t.Errorf("after more than three heartbeats it is %v", got)
		}
		w.d.set(func(d *database) {
			x := d.nodes[n.info.GetNodeId()]
			x.RevokedAt = time.Now()
			d.nodes[x.ID] = x
		})
		if got := w.state(n); got != adminv1.NodeState_NODE_STATE_REVOKED {
			t.Errorf("revoked, it is %v", got)
		}
	})
}

func TestG06G07PinsHoldNothingElseAndReachTheAuthor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		n := w.node()
		after(5 * time.Second)
		gen := w.d.commit(put{key: "tenant/ten_1", payload: "t1"})
		after(time.Second)
		report := &syncv1.ReportRequest{
			Node: n.info, Seq: 1 << 20, View: stable, Outcome: syncv1.Outcome_OUTCOME_APPLIED_WITH_PINS,
			Running:    &syncv1.Position{Epoch: 7, Generation: gen, Root: make([]byte, 32)},
			Pins:       []*syncv1.Pin{{Key: "tenant/ten_1", SinceGeneration: gen}},
			Violations: []*syncv1.Violation{{Rule: "x", FieldPath: "routes[0]"}},
		}
		n.silent = true
		if _, err := w.hub().Report(n.ctx(w.ctx), report); err != nil {
			t.Fatal(err)
		}
		if got := w.state(n); got != adminv1.NodeState_NODE_STATE_HOLDING {
			t.Errorf("a node that pins is %v", got)
		}
		// G-07: the author of this generation hears of it at once, one of an earlier
		// generation does not.
		if got := w.h.WaitApplied(w.ctx, gen, 100); len(got.Refused) != 1 || got.Refused[0].GetViolations()[0].GetFieldPath() != "routes[0]" {
			t.Errorf("G-7: got %+v", got)
		}
		report.Seq, report.Pins[0].SinceGeneration = report.Seq+1, gen-1
		report.Running.Root = nil
		r := proto.CloneOf(report)
		root := w.d.sets[stable].Root()
		r.Running.Root = root[:]
		if _, err := w.hub().Report(n.ctx(w.ctx), r); err != nil {
			t.Fatal(err)
		}
		if got := w.h.WaitApplied(w.ctx, gen, 100); len(got.Acked) != 1 {
			t.Errorf("an older pin refuses a newer generation: %+v", got)
		}
	})
}

func TestReportsAreIdempotentByInstanceAndSequence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		after(time.Second)
		n := newNode(w.d, w.hub)
		say := func(seq uint64, gen uint64) {
			_, err := w.hub().Report(n.ctx(w.ctx), &syncv1.ReportRequest{
				Node: n.info, Seq: seq, View: stable, Outcome: syncv1.Outcome_OUTCOME_APPLIED,
				Running: &syncv1.Position{Epoch: 7, Generation: gen, Root: make([]byte, 32)},
			})
			if err != nil {
				t.Error(err)
			}
		}
		running := func() uint64 {
			return w.d.statuses[viewOf{n.info.GetNodeId(), stable}].Report.GetRunning().GetGeneration()
		}
		say(5, 50)
		say(4, 40)
		say(5, 49)
		if running() != 50 {
			t.Errorf("a late report replaced a newer one: %d", running())
		}
		n.info = proto.CloneOf(n.info)
		n.info.InstanceId = "boot_2"
		say(1, 10)
		if running() != 10 {
			t.Errorf("the first report of another start is ignored: %d", running())
		}
		if _, err := w.hub().Report(n.ctx(w.ctx), &syncv1.ReportRequest{Node: n.info}); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("a report of no view: %v", err)
		}
	})
}
