package snapshot

import (
	"context"
	"slices"
	"sync"
	"time"

	connect "connectrpc.com/connect/v2"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

const (
	// maxTold bounds the soft state that waits to be told. The oldest falls out first.
	maxTold = 1000
	// A node tells so much soft state a second, and so much at once.
	tellRate, tellBurst = 100, 100
	// tellGather is the time between two reports of soft state.
	tellGather = 25 * time.Millisecond
)

// signalPrefix begins the ids of signals.
const signalPrefix ident.Prefix = "sig"

// teller tells the control plane of the soft state of this node. What is told of one
// thing replaces what still waits of it.
type teller struct {
	wake    chan struct{}
	dropped func(n int)

	mu     sync.Mutex
	queue  []*syncv1.Signal                      // the oldest first
	client syncv1connect.ConfigSyncServiceClient // nil while there is no stream
	budget float64
	at     time.Time // when budget was counted
}

func newTeller(dropped func(int)) *teller {
	return &teller{wake: make(chan struct{}, 1), dropped: dropped, budget: tellBurst}
}

func sameThing(a, b *syncv1.Signal) bool {
	return a.GetKind() == b.GetKind() && a.GetScope() == b.GetScope() && a.GetSubject() == b.GetSubject() && a.GetDimension() == b.GetDimension()
}

// add queues a signal. It does not block.
func (t *teller) add(g *syncv1.Signal) {
	t.mu.Lock()
	t.queue = slices.DeleteFunc(t.queue, func(o *syncv1.Signal) bool { return sameThing(o, g) })
	t.queue = append(t.queue, g)
	over := t.bound()
	t.mu.Unlock()
	t.lost(over)
	t.poke()
}

// bound lets the oldest fall out of a queue that is too long. t.mu is held.
func (t *teller) bound() int {
	over := max(0, len(t.queue)-maxTold)
	t.queue = slices.Delete(t.queue, 0, over)
	return over
}

func (t *teller) lost(n int) {
	if n > 0 {
		t.dropped(n)
	}
}

// withdraw takes back what waits and is no longer so.
func (t *teller) withdraw(is func(*syncv1.Signal) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = slices.DeleteFunc(t.queue, is)
}

// use sets the client to tell with; nil for none.
func (t *teller) use(c syncv1connect.ConfigSyncServiceClient) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.client = c
	t.poke()
}

func (t *teller) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run tells until ctx ends.
func (t *teller) run(ctx context.Context, node func() *syncv1.NodeInfo, failed func(error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
		batch, client, more := t.next(time.Now())
		pause := tellGather
		if len(batch) > 0 {
			if err := send(ctx, client, &syncv1.ReportRequest{Node: node(), Signals: batch}); err != nil {
				if ctx.Err() != nil {
					return
				}
				failed(err)
				if connect.CodeOf(err) != connect.CodeInvalidArgument { // or it would never be taken
					t.lost(t.giveBack(batch))
				}
				pause, more = reportPause, true
			}
		}
		// What comes meanwhile goes with the next report.
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if more {
			t.poke()
		}
	}
}

// next takes what may be told now; more says that something is left for later.
func (t *teller) next(now time.Time) (batch []*syncv1.Signal, client syncv1connect.ConfigSyncServiceClient, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client == nil {
		return nil, nil, false
	}
	t.queue = slices.DeleteFunc(t.queue, func(g *syncv1.Signal) bool {
		return g.GetUntil() != nil && !now.Before(g.GetUntil().AsTime())
	})
	if !t.at.IsZero() {
		t.budget = min(tellBurst, t.budget+tellRate*now.Sub(t.at).Seconds())
	}
	t.at = now
	n := min(len(t.queue), int(t.budget))
	batch = slices.Clone(t.queue[:n])
	t.queue = slices.Delete(t.queue, 0, n)
	t.budget -= float64(n)
	return batch, t.client, len(t.queue) > 0
}

// giveBack keeps what could not be told, unless something newer waits, and returns how
// much fell out.
func (t *teller) giveBack(batch []*syncv1.Signal) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	batch = slices.DeleteFunc(batch, func(g *syncv1.Signal) bool {
		return slices.ContainsFunc(t.queue, func(o *syncv1.Signal) bool { return sameThing(o, g) })
	})
	t.queue = append(batch, t.queue...)
	return t.bound()
}

// Tell tells the other nodes of soft state of this one, as soon as there is a control
// plane to tell. It does not block.
func (s *Subscriber) Tell(g *syncv1.Signal) {
	g.Id = ident.New(signalPrefix)
	s.teller.add(g)
}

// Withdraw takes back what was not told yet.
func (s *Subscriber) Withdraw(is func(*syncv1.Signal) bool) { s.teller.withdraw(is) }

// shrinkAfter is how long the fleet must have been smaller before a node takes a larger
// part of the limits.
const shrinkAfter = 30 * time.Second

// fleetSize is how many nodes there are, as far as this one heard. It grows at once and
// shrinks late, since nodes that are only away for a moment still use their part. When
// nobody tells any more, the last word stays.
type fleetSize struct {
	mu    sync.Mutex
	words []sizeWord // each smaller than the one before; the first one holds
}

type sizeWord struct {
	size int
	left time.Time // when a smaller size was told; zero for the last word
}

func (f *fleetSize) told(n int, now time.Time) {
	if n <= 0 {
		return // a control plane that does not count
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.words = slices.DeleteFunc(f.words, func(w sizeWord) bool {
		return w.size <= n || !w.left.IsZero() && now.Sub(w.left) >= shrinkAfter
	})
	if k := len(f.words); k > 0 && f.words[k-1].left.IsZero() {
		f.words[k-1].left = now
	}
	f.words = append(f.words, sizeWord{size: n})
}

func (f *fleetSize) get() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.words) == 0 {
		return 0
	}
	return f.words[0].size
}

// Nodes is how many nodes the fleet has, this one included; 0 before anybody told.
func (s *Subscriber) Nodes() int { return s.fleet.get() }
