package distribute

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// Signals is where replicas exchange the soft state of nodes. Its methods are called
// from several goroutines.
type Signals interface {
	// PutSignals shares signals. One that is there already is left as it is.
	PutSignals(ctx context.Context, signals []*syncv1.Signal) error
	// SignalsSince returns what was shared after a time of the store's clock, the oldest
	// first, and the time of the last.
	SignalsSince(ctx context.Context, since time.Time) ([]*syncv1.Signal, time.Time, error)
	// DropSignals removes those that are over.
	DropSignals(ctx context.Context) error
}

const (
	// signalLife is how long a signal holds. What lasts longer is told again.
	signalLife = 10 * time.Minute
	// signalPoll is how often signals of other replicas are read, and signalOverlap how
	// far back: a row can become visible after a later one.
	signalPoll    = 250 * time.Millisecond
	signalOverlap = 5 * time.Second
	// signalGather is how long signals are gathered before they are shared.
	signalGather = 10 * time.Millisecond
	signalDrop   = time.Minute
	// A node may tell so many signals a second, and so many at once.
	signalRate, signalBurst = 100, 400
	maxSignals              = 50_000 // that a replica keeps, and that wait to be shared
	maxSignalIDs            = 4 * maxSignals
	signalsPerMessage       = 500
)

// signals is the soft state of nodes as a replica passes it on. Sessions read it from
// where they stand, so that a slow one holds nobody up.
type signals struct {
	mu      sync.Mutex // guards everything below
	next    uint64
	list    []*passed            // in the order in which nodes get them
	newest  map[string]*passed   // state by what it is about
	known   map[string]time.Time // ids, and when they came
	unsaved []*syncv1.Signal
	budgets map[string]*signalBudget // by node
}

// passed is a signal with its place in the order.
type passed struct {
	seq    uint64
	signal *syncv1.Signal
	until  time.Time
	gone   bool // a later one stands in its place
}

// signalBudget bounds what a node may tell.
type signalBudget struct {
	left float64
	at   time.Time
}

func (s *signals) init() {
	s.newest, s.known, s.budgets = map[string]*passed{}, map[string]time.Time{}, map[string]*signalBudget{}
}

// fromNode keeps of what a node reported what a node may say, and as much as it may.
func (s *signals) fromNode(nodeID string, told []*syncv1.Signal, now time.Time) (kept []*syncv1.Signal, dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.budgets[nodeID]
	if b == nil {
		b = &signalBudget{left: signalBurst, at: now}
		s.budgets[nodeID] = b
	}
	b.left = min(signalBurst, b.left+signalRate*now.Sub(b.at).Seconds())
	b.at = now
	for _, g := range told {
		switch g.GetKind() {
		case syncv1.SignalKind_SIGNAL_KIND_COOLDOWN, syncv1.SignalKind_SIGNAL_KIND_BREAKER, syncv1.SignalKind_SIGNAL_KIND_AUTH_INVALID,
			syncv1.SignalKind_SIGNAL_KIND_LIMIT:
		default:
			continue // of a later release; commands are for operators alone
		}
		if g.GetId() == "" || g.GetSubject() == "" {
			continue
		}
		if b.left < 1 {
			dropped++
			continue
		}
		b.left--
		g = proto.CloneOf(g)
		g.NodeId = nodeID
		kept = append(kept, g)
	}
	return kept, dropped
}

// take puts signals in their order; share says that the other replicas do not have
// them yet. It reports whether there was a new one.
func (s *signals) take(list []*syncv1.Signal, share bool, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	any := false
	for _, g := range list {
		if _, known := s.known[g.GetId()]; known || len(s.known) >= maxSignalIDs {
			continue
		}
		until := now.Add(signalLife)
		if t := g.GetUntil(); t != nil && t.AsTime().Before(until) {
			until = t.AsTime()
		}
		if !now.Before(until) {
			continue
		}
		s.known[g.GetId()] = now
		if share {
			s.unsaved = append(s.unsaved, g)
		}
		any = s.place(g, until) || any
	}
	if over := len(s.unsaved) - maxSignals; over > 0 {
		s.unsaved = slices.Delete(s.unsaved, 0, over)
	}
	if over := len(s.list) - maxSignals; over > 0 {
		s.prune(now)
		if over = len(s.list) - maxSignals; over > 0 {
			s.list = slices.Delete(s.list, 0, over)
		}
	}
	return any
}

// place puts one signal at the end. State that lasts no longer than what is known of
// the same thing says nothing new. s.mu is held.
func (s *signals) place(g *syncv1.Signal, until time.Time) bool {
	g = proto.CloneOf(g)
	g.Until = timestamppb.New(until)
	s.next++
	p := &passed{seq: s.next, signal: g, until: until}
	switch g.GetKind() {
	case syncv1.SignalKind_SIGNAL_KIND_FLUSH_AFFINITY:
	case syncv1.SignalKind_SIGNAL_KIND_CLEAR:
		// What comes later stands beside what came before, since that is over for
		// the nodes that heard of this.
		clear(s.newest)
	default:
		key := g.GetKind().String() + "|" + g.GetScope() + "|" + g.GetSubject() + "|" + g.GetDimension()
		if old := s.newest[key]; old != nil {
			if !until.After(old.until) && old.signal.GetNodeId() != g.GetNodeId() {
				return false
			}
			old.gone = true
		}
		s.newest[key] = p
	}
	s.list = append(s.list, p)
	return true
}

// prune forgets what is over.
func (s *signals) prune(now time.Time) {
	s.list = slices.DeleteFunc(s.list, func(p *passed) bool { return p.gone || !now.Before(p.until) })
	for key, p := range s.newest {
		if !now.Before(p.until) {
			delete(s.newest, key)
		}
	}
	for id, came := range s.known {
		if now.Sub(came) > 2*signalLife {
			delete(s.known, id)
		}
	}
	for node, b := range s.budgets {
		if now.Sub(b.at) > signalLife {
			delete(s.budgets, node)
		}
	}
}

// after returns what runs of what came after seq, without what a node told itself, and
// how far that goes.
func (s *signals) after(seq uint64, nodeID string, now time.Time) ([]*syncv1.Signal, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, _ := slices.BinarySearchFunc(s.list, seq+1, func(p *passed, want uint64) int {
		return int(int64(p.seq) - int64(want))
	})
	var out []*syncv1.Signal
	for _, p := range s.list[from:] {
		if !p.gone && p.signal.GetNodeId() != nodeID && now.Before(p.until) {
			out = append(out, p.signal)
		}
	}
	return out, s.next
}

func (s *signals) takeUnsaved() []*syncv1.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.unsaved
	s.unsaved = nil
	return list
}

// giveBack keeps what could not be shared for the next time.
func (s *signals) giveBack(list []*syncv1.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsaved = append(list, s.unsaved...)
	if over := len(s.unsaved) - maxSignals; over > 0 {
		s.unsaved = slices.Delete(s.unsaved, 0, over)
	}
}

// heard passes on what a node told.
func (h *Hub) heard(ctx context.Context, nodeID string, told []*syncv1.Signal) {
	now := time.Now()
	kept, dropped := h.signals.fromNode(nodeID, told, now)
	if dropped > 0 {
		h.m.signalsDropped(ctx, dropped)
	}
	if h.signals.take(kept, true, now) {
		h.rouse()
		h.toShare()
	}
}

// Tell passes a command on to every node of this replica. The caller stores it, which
// brings it to the other replicas.
func (h *Hub) Tell(g *syncv1.Signal) {
	if h.signals.take([]*syncv1.Signal{g}, false, time.Now()) {
		h.rouse()
	}
}

func (h *Hub) toShare() {
	select {
	case h.share <- struct{}{}:
	default:
	}
}

// rouse lets every session look at what there is to send.
func (h *Hub) rouse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.sessions {
		s.rouse()
	}
}

// shareSignals gives the other replicas what nodes told this one.
func (h *Hub) shareSignals(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.share:
		}
		if err := sleep(ctx, signalGather); err != nil {
			return err
		}
		list := h.signals.takeUnsaved()
		if len(list) == 0 {
			continue
		}
		putCtx, cancel := context.WithTimeout(ctx, headTimeout)
		err := h.cfg.Signals.PutSignals(putCtx, list)
		cancel()
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			h.log.Warn().Err(err).Int("signals", len(list)).Msg("soft state of nodes could not be shared with other replicas")
			h.signals.giveBack(list)
			if err := sleep(ctx, time.Second); err != nil {
				return err
			}
			h.toShare()
		}
	}
}

// readSignals takes what other replicas were told.
func (h *Hub) readSignals(ctx context.Context) error {
	var last, dropped time.Time
	for {
		now := time.Now()
		since := last
		if !since.IsZero() {
			since = since.Add(-signalOverlap)
		}
		readCtx, cancel := context.WithTimeout(ctx, headTimeout)
		list, at, err := h.cfg.Signals.SignalsSince(readCtx, since)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			h.log.Debug().Err(err).Msg("soft state of other replicas' nodes could not be read")
		default:
			if at.After(last) {
				last = at
			}
			if h.signals.take(list, false, now) {
				h.rouse()
			}
		}
		if now.Sub(dropped) >= signalDrop {
			dropped = now
			h.tidySignals(ctx, now)
		}
		if err := sleep(ctx, signalPoll); err != nil {
			return err
		}
	}
}

func (h *Hub) tidySignals(ctx context.Context, now time.Time) {
	h.signals.mu.Lock()
	h.signals.prune(now)
	h.signals.mu.Unlock()
	dropCtx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	if err := h.cfg.Signals.DropSignals(dropCtx); err != nil && ctx.Err() == nil {
		h.log.Debug().Err(err).Msg("soft state that is over could not be removed")
	}
}

// passSignals sends the node what others told since it was last sent something.
func (s *session) passSignals() error {
	list, at := s.hub.signals.after(s.signalled, s.nodeID, time.Now())
	s.signalled = at
	for chunk := range slices.Chunk(list, signalsPerMessage) {
		err := s.send(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Signals{Signals: &syncv1.FleetSignals{Signals: chunk}}})
		if err != nil {
			return err
		}
	}
	return nil
}
