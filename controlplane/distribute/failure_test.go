package distribute

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric/noop"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

func TestC34NoHelloBeforeRootsVerify(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		d.commit(put{key: "global", payload: "g"}, put{key: keyShard(1), payload: "k"})
		d.slow, d.corrupt = time.Second, true
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		h, stop := startHub(t, ctx, d, Config{})
		defer stop()
		n := newNode(d, func() syncv1connect.ConfigSyncServiceClient { return clientOf(h) })
		try := func() error {
			stream, err := clientOf(h).Watch(n.ctx(ctx), n.request())
			if err != nil {
				return err
			}
			defer func() { _ = stream.Close() }()
			_, err = stream.Receive()
			return err
		}
		if err := try(); connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("while loading: %v, want unavailable", err)
		}
		after(20 * time.Second)
		if err := try(); connect.CodeOf(err) != connect.CodeUnavailable || h.Ready() {
			t.Errorf("with altered bytes: %v, ready %v", err, h.Ready())
		}
		d.set(func(d *database) { d.corrupt, d.lose = false, keyShard(1) })
		after(20 * time.Second)
		if err := try(); connect.CodeOf(err) != connect.CodeUnavailable || h.Ready() {
			t.Errorf("with a shard missing: %v, ready %v", err, h.Ready())
		}
		d.set(func(d *database) { d.lose = "" })
		after(20 * time.Second)
		if err := try(); err != nil || !h.Ready() {
			t.Errorf("after the roots verified: %v", err)
		}
	})
}

func TestC37ANewNodeGetsTheLastViewWhilePostgresIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		known := newNode(w.d, w.hub)
		after(5 * time.Second)
		w.d.set(func(d *database) { d.down = true })
		after(10 * time.Second)
		went := time.Now()
		// Enrolled at another replica just before: this one cannot look it up.
		unknown := newNode(newDatabase(), w.hub)
		for _, n := range []*fakeNode{known, unknown} {
			w.start(n)
		}
		after(20 * time.Second)
		for _, n := range []*fakeNode{known, unknown} {
			if !n.runs(w.d) {
				t.Errorf("a node got nothing: %v", n.history())
			}
			n.get(func(n *fakeNode) {
				// Staleness counts: the check is as old as the outage.
				if !n.checked.Before(went.Add(-5 * time.Second)) {
					t.Errorf("pg_checked_at moved to %v during the outage that began before %v", n.checked, went)
				}
			})
		}
	})
}

func TestC07NodesAreSentAwayWhenTheHeadCannotBeReadAndStayWhenTheyComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		n := w.node()
		after(5 * time.Second)
		n.forget()
		w.d.set(func(d *database) { d.down = true })
		after(5 * time.Second)
		if slices.Contains(n.history(), "goaway") {
			t.Error("sent away before 5 s")
		}
		after(3 * time.Second)
		if !slices.Contains(n.history(), "goaway") {
			t.Errorf("not sent away: %v", n.history())
		}
		n.forget()
		after(5 * time.Minute)
		if got := n.history(); slices.Contains(got, "goaway") {
			t.Errorf("sent away again and again, though there may be no better replica: %v", got)
		}
		// It recovers, and the next outage is a new one.
		w.d.set(func(d *database) { d.down = false })
		after(20 * time.Second)
		n.forget()
		w.d.set(func(d *database) { d.down = true })
		after(10 * time.Second)
		if !slices.Contains(n.history(), "goaway") {
			t.Errorf("the second outage: %v", n.history())
		}
	})
}

func TestFreshnessIsNotClaimedForAHeadThatIsNotServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{StuckAfter: time.Hour})
		defer w.close()
		n := w.node()
		after(5 * time.Second)
		// The head is read, but the shards of the new generation are damaged.
		w.d.set(func(d *database) { d.corrupt = true })
		w.d.commit(put{key: keyShard(2), payload: "revocation"})
		committed := time.Now()
		after(30 * time.Second)
		n.get(func(n *fakeNode) {
			if n.checked.After(committed) {
				t.Errorf("a node was told at %v that it knows everything, though a commit of %v is not served", n.checked, committed)
			}
		})
	})
}

func TestC10AnOlderDatabase(t *testing.T) {
	t.Parallel()
	for _, renewed := range []bool{true, false} {
		t.Run(fmt.Sprint("epoch renewed ", renewed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Config{})
				defer w.close()
				n := w.node()
				for i := range 5 {
					w.d.commit(put{key: "tenant/ten_1", payload: fmt.Sprint("t", i)})
				}
				after(5 * time.Second)
				old := newDatabase()
				old.commit(put{key: "global", payload: "g0"})
				w.d.set(func(d *database) {
					d.gen, d.sets, d.at, d.log, d.blobs = old.gen, old.sets, old.at, old.log, old.blobs
					if renewed {
						d.epoch = 8
					}
				})
				var before, now position
				n.get(func(n *fakeNode) { before = n.at[stable] })
				after(30 * time.Second)
				n.get(func(n *fakeNode) { now = n.at[stable] })
				if n.runs(w.d) != renewed {
					t.Errorf("the node runs the restored database: %v, want %v", !renewed, renewed)
				}
				if !renewed && now != before {
					t.Errorf("the position moved from %s to %s", before, now)
				}
				n.check(t)
			})
		})
	}
}

func TestC26AReconnectBuildsOnWhatTheNodeClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		n := w.node()
		after(5 * time.Second)
		n.forget()
		// The node lies about its root: it has diverged. A delta cannot be trusted to
		// help; a fetch by buckets does.
		n.get(func(n *fakeNode) {
			p := n.at[stable]
			p.root[0] ^= 1
			n.at[stable] = p
			n.sets[stable].Put("tenant/ten_ghost", [32]byte{1}, nil)
		})
		w.h.endStreams(n.info.GetNodeId(), "test")
		after(5 * time.Second)
		if !n.runs(w.d) || n.deltas != 0 {
			t.Errorf("diverged node: at head %v, %d deltas, %v", n.runs(w.d), n.deltas, n.history())
		}
		if _, ghost := n.sets[stable].Get("tenant/ten_ghost"); ghost {
			t.Error("a shard that is no more survived the fetch")
		}
		// Far behind, beyond what the hub remembers: the log helps, or a fetch of the
		// buckets that differ.
		for _, trim := range []bool{false, true} {
			behind := newNode(w.d, w.hub)
			behind.at = map[syncv1.View]position{identity: n.at[identity], stable: n.at[stable]}
			behind.sets = map[syncv1.View]*shard.Set{identity: n.sets[identity].Clone(), stable: n.sets[stable].Clone()}
			for i := range maxSteps + 20 {
				w.d.commit(put{key: "tenant/ten_1", payload: fmt.Sprint("far", trim, i)})
				synctest.Wait()
			}
			if trim {
				w.d.set(func(d *database) { d.trimmed = d.gen })
			}
			after(2 * time.Second)
			w.start(behind)
			after(5 * time.Second)
			if !behind.runs(w.d) {
				t.Errorf("trimmed %v: not at the head: %v", trim, behind.history())
			}
			behind.get(func(n *fakeNode) {
				if trim && (n.deltas != 0 || n.fetched == 0 || n.fetched > 3) || !trim && (n.deltas != 1 || n.fetched != 0) {
					t.Errorf("trimmed %v: %d deltas, %d fetched shards", trim, n.deltas, n.fetched)
				}
			})
			behind.check(t)
		}
	})
}

func TestC28AConfigurationTenTimesTheSizeComesInChunks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{ChunkBytes: 4 << 10, MaxDeltaBytes: 8 << 10})
		defer w.close()
		puts := make([]put, 0, 500)
		for i := range 500 {
			puts = append(puts, put{key: keyShard(i), payload: fmt.Sprintf("%0200d", i)})
		}
		n := w.node()
		after(5 * time.Second)
		n.forget()
		w.d.commit(puts...)
		after(5 * time.Second)
		if !n.runs(w.d) || n.deltas != 0 || n.fetched < 500 {
			t.Errorf("at head %v, %d deltas, %d shards fetched: a delta beyond the limit must be a fetch", n.runs(w.d), n.deltas, n.fetched)
		}
		stream, err := w.hub().FetchShards(n.ctx(w.ctx), &syncv1.FetchShardsRequest{Node: n.info, View: identity})
		if err != nil {
			t.Fatal(err)
		}
		chunks, last := 0, false
		for !last {
			c, err := stream.Receive()
			if err != nil {
				t.Fatal(err)
			}
			chunks++
			last = c.GetLast()
			size := 0
			for _, s := range c.GetShards() {
				size += len(s.GetPayload())
			}
			if size > 4<<10 {
				t.Errorf("a chunk of %d bytes", size)
			}
		}
		_ = stream.Close()
		if chunks < 25 {
			t.Errorf("%d chunks", chunks)
		}
	})
}

func TestC31HelloDoesNotWaitForFetchesAndFetchesAreCapped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Fetches: 2, ChunkBytes: 1})
		defer w.close()
		after(time.Second)
		// Two fetches that are not read hold both places.
		for range 2 {
			n := newNode(w.d, w.hub)
			s, err := w.hub().FetchShards(n.ctx(w.ctx), &syncv1.FetchShardsRequest{Node: n.info, View: stable})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			if _, err := s.Receive(); err != nil {
				t.Fatal(err)
			}
		}
		var nodes []*fakeNode
		began := time.Now()
		for range 1000 {
			nodes = append(nodes, w.node())
		}
		synctest.Wait()
		for _, n := range nodes {
			if len(n.history()) == 0 || n.history()[0] != "hello" || time.Since(began) > time.Second {
				t.Fatal("a hello waits for fetches")
			}
			if n.fetched > 0 {
				t.Fatal("the cap of fetches does not hold")
			}
		}
	})
}

func TestAStreamEndsInGoodOrderAfterItsLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		n := w.node()
		after(23 * time.Minute)
		if slices.Contains(n.history(), "goaway") {
			t.Error("the stream ended before 24 min")
		}
		after(14 * time.Minute)
		if !slices.Contains(n.history(), "goaway") || !n.runs(w.d) {
			t.Errorf("no goaway within 36 min, or not at the head")
		}
		last := len(n.history())
		w.stop()
		after(time.Second)
		if got := n.history(); !slices.Contains(got[last:], "goaway") {
			t.Errorf("a stopping hub does not send nodes away: %v", got[last:])
		}
	})
}

func TestNotificationsAreOnlyHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		n := w.node()
		after(5 * time.Second)
		w.d.set(func(d *database) { d.mute = true })
		w.d.commit(put{key: keyShard(3), payload: "k"})
		after(1500 * time.Millisecond)
		if !n.runs(w.d) {
			t.Error("a lost notification is not made good by the poll")
		}
		gen := w.d.commit(put{key: keyShard(4), payload: "k"})
		w.h.Poke(gen)
		synctest.Wait()
		if !n.runs(w.d) {
			t.Error("Poke does not make the hub look")
		}
	})
}

func TestQuarantinedGenerationsAreOfferedToNoNodeOfThatVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		a, b := w.node(), newNode(w.d, w.hub)
		after(5 * time.Second)
		w.d.set(func(d *database) { d.mute = true })
		gen := w.d.commit(put{key: "tenant/ten_1", payload: "crashes"})
		// The node crashed twice on it at another replica.
		w.d.set(func(d *database) {
			d.statuses[viewOf{"nod_x", stable}] = Status{Report: &syncv1.ReportRequest{
				Node: &syncv1.NodeInfo{NodeId: "nod_x", Version: "1.0.0"}, View: stable, Outcome: syncv1.Outcome_OUTCOME_QUARANTINED, Tried: &syncv1.Position{Generation: gen},
			}, ReportedAt: time.Now()}
		})
		if err := w.h.readFleet(w.ctx); err != nil {
			t.Fatal(err)
		}
		newer := newNode(w.d, w.hub)
		newer.info.Version = "1.0.1"
		w.start(b)
		w.start(newer)
		after(time.Minute)
		if a.runs(w.d) || b.runs(w.d) {
			t.Error("a node of the version got the quarantined generation")
		}
		if !newer.runs(w.d) {
			t.Error("a node of another version did not")
		}
		if s := w.state(newer); s != adminv1.NodeState_NODE_STATE_CURRENT {
			t.Errorf("the newer node is %v", s)
		}
	})
}

func TestOnlyTheNodeOfTheCertificateIsServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		n := w.node()
		after(5 * time.Second)
		watch := func(ctx context.Context, node *syncv1.NodeInfo) connect.Code {
			s, err := w.hub().Watch(ctx, &syncv1.WatchRequest{Node: node})
			if err == nil {
				defer func() { _ = s.Close() }()
				_, err = s.Receive()
			}
			if err == nil {
				return 0
			}
			return connect.CodeOf(err)
		}
		other := newNode(w.d, w.hub)
		if got := watch(w.ctx, n.info); got != connect.CodeUnauthenticated {
			t.Errorf("no certificate: %v", got)
		}
		if got := watch(other.ctx(w.ctx), n.info); got != connect.CodePermissionDenied {
			t.Errorf("another node's id: %v", got)
		}
		stranger := &fakeNode{info: &syncv1.NodeInfo{NodeId: ident.New(ident.Node)}}
		if got := watch(stranger.ctx(w.ctx), stranger.info); got != connect.CodePermissionDenied {
			t.Errorf("a node that is not known: %v", got)
		}
		n.forget()
		w.h.Revoke(n.info.GetNodeId())
		synctest.Wait()
		if !slices.Contains(n.history(), "goaway") {
			t.Error("C-48: the stream of a revoked node stays open")
		}
		after(time.Minute)
		if got := watch(n.ctx(w.ctx), n.info); got != connect.CodePermissionDenied {
			t.Errorf("a revoked node: %v", got)
		}
		if _, err := w.hub().FetchShards(n.ctx(w.ctx), &syncv1.FetchShardsRequest{Node: n.info, View: stable}); err == nil {
			s, _ := w.hub().FetchShards(n.ctx(w.ctx), &syncv1.FetchShardsRequest{Node: n.info, View: stable})
			if _, err := s.Receive(); connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Errorf("a revoked node fetches: %v", err)
			}
			_ = s.Close()
		}
		if _, err := w.hub().Report(n.ctx(w.ctx), &syncv1.ReportRequest{Node: n.info, View: stable}); connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("a revoked node reports: %v", err)
		}
	})
}

func TestAMalformedFetchIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		n := newNode(w.d, w.hub)
		after(time.Second)
		for name, req := range map[string]*syncv1.FetchShardsRequest{
			"hashes cut short": {Node: n.info, View: stable, BucketHashes: make([]byte, 100)},
			"no view":          {Node: n.info},
			"candidate":        {Node: n.info, View: syncv1.View_VIEW_CANDIDATE},
		} {
			s, err := w.hub().FetchShards(n.ctx(w.ctx), req)
			if err == nil {
				_, err = s.Receive()
				_ = s.Close()
			}
			if connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("%s: %v, want invalid_argument", name, err)
			}
		}
	})
}

// Nothing depends on a report: a node that a delta did not help gets no second one.
func TestADivergedNodeIsHelpedByAFetchWhereverItStands(t *testing.T) {
	t.Parallel()
	for name, behind := range map[string]int{"at the head": 0, "one behind": 1, "further than the hub remembers": maxSteps + 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Config{})
				defer w.close()
				n := newNode(w.d, w.hub)
				ctx, cancel := context.WithCancel(w.ctx)
				w.wg.Go(func() { n.run(ctx) })
				after(5 * time.Second)
				cancel()
				after(time.Second)
				n.silent = true
				n.get(func(n *fakeNode) {
					n.sets[stable].Put("tenant/ten_ghost", [32]byte{1}, nil)
					if behind != maxSteps+20 {
						p := n.at[stable]
						p.root = n.sets[stable].Root()
						n.at[stable] = p
					}
				})
				for i := range behind {
					w.d.commit(put{key: "tenant/ten_1", payload: fmt.Sprint("x", i)})
					synctest.Wait()
				}
				after(2 * time.Second)
				n.forget()
				n.get(func(n *fakeNode) { n.problems = nil })
				w.start(n)
				after(5 * time.Second)
				wantDeltas := 0
				if behind > maxSteps {
					wantDeltas = 1 // only the node can see that it does not lead to the root
				}
				if !n.runs(w.d) || n.deltas != wantDeltas || !slices.Contains(n.history(), "fetch VIEW_STABLE") {
					t.Errorf("at head %v after %d deltas and %d fetched shards: %v", n.runs(w.d), n.deltas, n.fetched, n.history())
				}
			})
		})
	}
}

func TestANodeHasOneStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		n := w.node()
		after(5 * time.Second)
		n.forget()
		twin := &fakeNode{info: n.info}
		stream, err := w.hub().Watch(twin.ctx(w.ctx), &syncv1.WatchRequest{Node: n.info, Identity: n.at[identity].proto(), Policy: n.at[stable].proto()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = stream.Close() }()
		if _, err := stream.Receive(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !slices.Contains(n.history(), "goaway") {
			t.Errorf("the older stream stays: %v", n.history())
		}
	})
}

func TestBothViewsAreServedAtOneHead(t *testing.T) {
	t.Parallel()
	d := newDatabase()
	h, err := New(d, d, d, authority{}, Config{}, zerolog.Nop(), noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	both := func(p string) uint64 {
		return d.commit(put{key: keyShard(1), payload: p}, put{key: "tenant/ten_1", payload: p})
	}
	both("a")
	if err := h.catchUp(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	d.commit(put{key: keyShard(1), payload: "b"})
	head, err := d.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var newest uint64
	d.set(func(d *database) { d.onChange = func() { newest = both("c") } })
	if err := h.catchUp(t.Context(), &head); err != nil {
		t.Fatal(err)
	}
	i, p := h.Positions()
	if i.GetGeneration() != newest || p.GetGeneration() != newest {
		t.Errorf("identity is at %d, policy at %d; a change to both at %d was seen by one", i.GetGeneration(), p.GetGeneration(), newest)
	}
}

func TestGroupsThatShareAShardBecomeOne(t *testing.T) {
	t.Parallel()
	got := joined([]step{
		{changes: []Change{{Key: "a", Group: 1}, {Key: "b", Group: 1}, {Key: "x", Group: 2}}},
		{changes: []Change{{Key: "b", Group: 1}, {Key: "c", Group: 1}, {Key: "y", Group: 2}}},
	})
	want := map[string]uint32{"a": 1, "b": 1, "c": 1, "x": 2, "y": 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
