package distribute

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
)

// board is where replicas exchange signals, in memory.
type board struct {
	mu   sync.Mutex
	down bool
	rows []posted
}

type posted struct {
	at     time.Time
	signal *syncv1.Signal
}

func (b *board) PutSignals(_ context.Context, list []*syncv1.Signal) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return errDown
	}
	for _, g := range list {
		if !slices.ContainsFunc(b.rows, func(p posted) bool { return p.signal.GetId() == g.GetId() }) {
			b.rows = append(b.rows, posted{time.Now(), proto.CloneOf(g)})
		}
	}
	return nil
}

func (b *board) SignalsSince(_ context.Context, since time.Time) (out []*syncv1.Signal, last time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, since, errDown
	}
	last = since
	for _, p := range b.rows {
		if p.at.After(since) {
			out, last = append(out, proto.CloneOf(p.signal)), p.at
		}
	}
	return out, last, nil
}

func (b *board) DropSignals(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = slices.DeleteFunc(b.rows, func(p posted) bool { return time.Now().After(p.signal.GetUntil().AsTime()) })
	return nil
}

// hearer is a node that keeps the soft state it is sent, and how large its fleet is.
type hearer struct {
	*fakeNode
	mu    sync.Mutex
	heard []string // guarded by mu; subjects, in order
	nodes int32    // guarded by mu
}

func (w *world) hearer(hub func() syncv1connect.ConfigSyncServiceClient) *hearer {
	l := &hearer{fakeNode: newNode(w.d, hub)}
	l.drop = func(m *syncv1.WatchResponse) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, g := range m.GetSignals().GetSignals() {
			l.heard = append(l.heard, g.GetSubject())
		}
		if n := m.GetHello().GetNodes() + m.GetHeartbeat().GetNodes(); n > 0 {
			l.nodes = n
		}
		return false
	}
	w.start(l.fakeNode)
	return l
}

func (l *hearer) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.heard)
}

func (l *hearer) fleet() int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes
}

// tell reports soft state to a replica.
func (l *hearer) tell(t *testing.T, ctx context.Context, c syncv1connect.ConfigSyncServiceClient, list ...*syncv1.Signal) {
	t.Helper()
	if _, err := c.Report(l.ctx(ctx), &syncv1.ReportRequest{Node: l.info, Signals: list}); err != nil {
		t.Fatal(err)
	}
}

func cools(id, subject string, length time.Duration) *syncv1.Signal {
	return &syncv1.Signal{
		Id: id, Kind: syncv1.SignalKind_SIGNAL_KIND_COOLDOWN, Scope: "credential", Subject: subject, Cause: "rate_limit",
		StartTime: timestamppb.Now(), Until: timestamppb.New(time.Now().Add(length)),
	}
}

// replicas are two hubs on one database.
func replicas(t *testing.T, cfg Config) (w *world, second func() syncv1connect.ConfigSyncServiceClient, end func()) {
	w = newWorld(t, cfg)
	h, stop := startHub(t, w.ctx, w.d, cfg)
	return w, func() syncv1connect.ConfigSyncServiceClient { return clientOf(h) }, func() { stop(); w.close() }
}

func TestC47_SoftStateReachesEveryOtherNodeOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &board{}
		w, second, end := replicas(t, Config{Signals: b})
		defer end()
		sender, near, far := w.hearer(w.hub), w.hearer(w.hub), w.hearer(second)
		after(5 * time.Second)
		sender.tell(t, w.ctx, w.hub(), cools("s1", "a", time.Minute))
		after(10 * time.Millisecond)
		if got := near.all(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("a node of the same replica heard %v at once, want a", got)
		}
		after(400 * time.Millisecond) // with 100 ms at most on the node's side
		if got := far.all(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("a node of the other replica heard %v in time, want a", got)
		}
		// The same again is nothing new, and neither is what ends earlier.
		sender.tell(t, w.ctx, w.hub(), cools("s1", "a", time.Minute))
		far.tell(t, w.ctx, second(), cools("s2", "a", time.Second))
		after(10 * time.Second)
		if got := [][]string{sender.all(), near.all(), far.all()}; len(got[0]) != 0 || len(got[1]) != 1 || len(got[2]) != 1 {
			t.Errorf("heard %v, want a once by each but its sender", got)
		}
		late := w.hearer(second)
		after(5 * time.Second)
		if got := late.all(); len(got) == 0 || got[0] != "a" {
			t.Errorf("a node that came later heard %v, want what still runs", got)
		}
		after(time.Minute)
		over := w.hearer(w.hub)
		after(5 * time.Second)
		if got := over.all(); len(got) != 0 {
			t.Errorf("a node that came when it was over heard %v", got)
		}
		after(signalDrop)
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.rows) != 0 {
			t.Errorf("%d rows are left of what is over", len(b.rows))
		}
	})
}

func TestSoftStateSurvivesItsTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &board{down: true}
		w, second, end := replicas(t, Config{Signals: b})
		defer end()
		sender, near, far := w.hearer(w.hub), w.hearer(w.hub), w.hearer(second)
		after(5 * time.Second)
		sender.tell(t, w.ctx, w.hub(), cools("s1", "a", time.Minute))
		after(5 * time.Second)
		if len(near.all()) != 1 || len(far.all()) != 0 {
			t.Errorf("without the table %v and %v heard, want those of the replica alone", near.all(), far.all())
		}
		b.mu.Lock()
		b.down = false
		b.mu.Unlock()
		after(3 * time.Second)
		if got := far.all(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("with the table back the other replica's node heard %v", got)
		}
	})
}

func TestANodeCannotGiveCommandsNorFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		defer w.close()
		sender, other := w.hearer(w.hub), w.hearer(w.hub)
		after(5 * time.Second)
		bad := []*syncv1.Signal{cools("c1", "x", time.Minute), cools("c2", "y", time.Minute), cools("c3", "", time.Minute), cools("", "z", time.Minute)}
		bad[0].Kind, bad[1].Kind = syncv1.SignalKind_SIGNAL_KIND_CLEAR, syncv1.SignalKind_SIGNAL_KIND_FLUSH_AFFINITY
		sender.tell(t, w.ctx, w.hub(), bad...)
		after(time.Second)
		if got := other.all(); len(got) != 0 {
			t.Errorf("commands and nonsense of a node were passed on: %v", got)
		}
		const told = 1000
		for i := range told / 100 {
			var list []*syncv1.Signal
			for j := range 100 {
				list = append(list, cools(fmt.Sprint("f", i, "-", j), fmt.Sprint(i, "-", j), time.Minute))
			}
			sender.tell(t, w.ctx, w.hub(), list...)
		}
		after(time.Second)
		if got := len(other.all()); got != signalBurst {
			t.Errorf("%d of %d at once were passed on, want %d", got, told, signalBurst)
		}
	})
}

// Nothing lasts longer than ten minutes on one word.
func TestAWordIsBoundInTime(t *testing.T) {
	t.Parallel()
	s := &signals{}
	s.init()
	now := time.Now()
	s.take([]*syncv1.Signal{cools("a", "a", 24*time.Hour)}, true, now)
	if got, _ := s.after(0, "nod_other", now.Add(signalLife-time.Second)); len(got) != 1 || got[0].GetUntil().AsTime().After(now.Add(signalLife)) {
		t.Errorf("passed on %v", got)
	}
	if got, _ := s.after(0, "nod_other", now.Add(signalLife)); len(got) != 0 {
		t.Errorf("still passed on after ten minutes: %v", got)
	}
}

func TestACommandComesAfterWhatItEndsAndBeforeWhatCameLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Signals: &board{}})
		defer w.close()
		sender := w.hearer(w.hub)
		after(5 * time.Second)
		sender.tell(t, w.ctx, w.hub(), cools("s1", "before", 9*time.Minute))
		after(time.Second)
		w.h.Tell(&syncv1.Signal{Id: "cmd", Kind: syncv1.SignalKind_SIGNAL_KIND_CLEAR, Scope: "credential", Subject: "command"})
		after(time.Second)
		sender.tell(t, w.ctx, w.hub(), cools("s2", "before", time.Minute))
		after(time.Second)
		late := w.hearer(w.hub)
		after(time.Second)
		got := late.all()
		if len(got) < 3 || !slices.Equal(got[len(got)-3:], []string{"before", "command", "before"}) {
			t.Errorf("a node that came later heard %v", got)
		}
		if got := sender.all(); !slices.Equal(got, []string{"command"}) {
			t.Errorf("the sender heard %v, want the command alone", got)
		}
	})
}

func TestEveryNodeHearsHowManyThereAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, second, end := replicas(t, Config{})
		defer end()
		a, b := w.hearer(w.hub), w.hearer(second)
		after(2 * fleetInterval)
		if a.fleet() != 2 || b.fleet() != 2 {
			t.Errorf("%d and %d nodes, want 2 at either replica", a.fleet(), b.fleet())
		}
		ctx, leave := context.WithCancel(w.ctx)
		third := newNode(w.d, second)
		w.wg.Go(func() { third.run(ctx) })
		after(2 * fleetInterval)
		if a.fleet() != 3 || b.fleet() != 3 {
			t.Errorf("%d and %d nodes after a third came, want 3", a.fleet(), b.fleet())
		}
		leave()
		after(time.Minute)
		if a.fleet() != 2 || b.fleet() != 2 {
			t.Errorf("%d and %d nodes after it left, want 2", a.fleet(), b.fleet())
		}
	})
}
