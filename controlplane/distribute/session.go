package distribute

import (
	"context"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// session is one open Watch. Only its handler's goroutine sends; others write to
// its two slots.
type session struct {
	hub      *Hub
	id       string
	nodeID   string
	instance string
	version  string
	wake     chan struct{} // something to look at; the state itself is the slot
	end      chan string   // why the stream ends; the first reason wins

	// Of the handler's goroutine alone.
	send     func(*syncv1.WatchResponse) error
	offered  map[syncv1.View]position
	fetching map[syncv1.View]bool
	keys     *syncv1.ContentKeys
	warned   map[syncv1.View]bool

	signalled uint64 // how far the node has the soft state of others
	nodes     int    // connected nodes, as the node was told
}

func (s *session) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *session) leave(reason string) {
	select {
	case s.end <- reason:
	default:
	}
}

// Watch implements aidy.sync.v1.ConfigSyncService.
func (h *Hub) Watch(ctx context.Context, req *syncv1.WatchRequest, stream syncv1connect.ConfigSyncServiceWatchServerStream) error {
	nodeID, err := h.identify(ctx, req.GetNode())
	if err != nil {
		return err
	}
	if !h.Ready() {
		return notReady()
	}
	s := &session{
		hub: h, id: ident.New("str"), nodeID: nodeID, instance: req.GetNode().GetInstanceId(), version: req.GetNode().GetVersion(),
		wake: make(chan struct{}, 1), end: make(chan string, 1),
		offered: map[syncv1.View]position{
			syncv1.View_VIEW_IDENTITY: positionOf(req.GetIdentity()),
			syncv1.View_VIEW_STABLE:   positionOf(req.GetPolicy()),
		},
		fetching: map[syncv1.View]bool{}, warned: map[syncv1.View]bool{},
	}
	write := deadlineOf(ctx)
	s.send = func(m *syncv1.WatchResponse) error {
		m.StreamId = s.id
		defer write(h.cfg.WriteTimeout)()
		return stream.Send(m)
	}
	h.fleet.opened(s, req, h.state.Load())
	h.join(s)
	defer h.part(s)
	return s.run(ctx)
}

func notReady() error {
	return connect.NewError(connect.CodeUnavailable, "the configuration is not loaded and verified yet; try again, or another control plane")
}

// join registers a stream. An older one of the same node is ended: a node has one,
// so the other is what a broken connection left behind.
func (h *Hub) join(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for other := range h.sessions {
		if other.nodeID == s.nodeID {
			other.leave("the node opened another stream")
		}
	}
	h.sessions[s] = struct{}{}
	h.counted[s.nodeID] = true
	if h.stopped {
		s.leave("the control plane is stopping")
	}
	h.notify()
}

func (h *Hub) part(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, s)
	h.notify()
}

// streaming returns the nodes that have a stream to this replica.
func (h *Hub) streaming() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := make(map[string]bool, len(h.sessions))
	for s := range h.sessions {
		ids[s.nodeID] = true
	}
	return ids
}

func (s *session) run(ctx context.Context) error {
	if err := s.hello(); err != nil {
		return err
	}
	beat := time.NewTicker(s.hub.cfg.Heartbeat)
	defer beat.Stop()
	life := time.NewTimer(jitter(s.hub.cfg.StreamLife))
	defer life.Stop()
	for {
		if err := s.catchUp(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		case <-beat.C:
			if err := s.heartbeat(); err != nil {
				return err
			}
		case <-life.C:
			return s.goaway("the stream reached its age")
		case reason := <-s.end:
			return s.goaway(reason)
		}
	}
}

func (s *session) hello() error {
	st := s.hub.state.Load()
	s.nodes = s.hub.connected()
	return s.send(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Hello{Hello: &syncv1.Hello{
		ServerVersion: s.hub.cfg.Version, Identity: st.identity.at.proto(), Policy: st.policy.at.proto(),
		ServerTime: timestamppb.Now(), PgCheckedAt: timestamppb.New(st.checkedAt),
		HeartbeatIntervalMs: s.hub.cfg.Heartbeat.Milliseconds(), Nodes: int32(s.nodes),
	}}})
}

func (s *session) heartbeat() error {
	st := s.hub.state.Load()
	s.nodes = s.hub.connected()
	return s.send(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Heartbeat{Heartbeat: &syncv1.Heartbeat{
		Identity: st.identity.at.proto(), Policy: st.policy.at.proto(),
		ServerTime: timestamppb.Now(), PgCheckedAt: timestamppb.New(st.checkedAt), Nodes: int32(s.nodes),
	}}})
}

func (s *session) goaway(reason string) error {
	return s.send(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Goaway{Goaway: &syncv1.Goaway{
		ReconnectAfterMs: 1 + rand.Int64N(1000), Reason: reason,
	}}})
}

// catchUp sends what the node lacks of the newest state: keys first, then who may
// call, then everything else.
func (s *session) catchUp() error {
	st := s.hub.state.Load()
	if s.keys != st.keys {
		if err := s.send(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Keys{Keys: st.keys}}); err != nil {
			return err
		}
		s.keys = st.keys
	}
	for _, view := range views {
		if err := s.offer(st.view(view)); err != nil {
			return err
		}
	}
	if s.nodes != s.hub.connected() {
		if err := s.heartbeat(); err != nil {
			return err
		}
	}
	return s.passSignals()
}

// offer sends the way from what the node was last offered to a state of a view.
func (s *session) offer(v *viewState) error {
	base := s.offered[v.view]
	if base == v.at || s.fetching[v.view] || s.hub.fleet.refused(s.nodeID, s.version, v.view, v.at.generation) {
		return nil
	}
	if base.known && base.epoch == v.at.epoch && base.generation > v.at.generation {
		// The node follows a replica that is further, or the database went back.
		// Its position must not go down.
		if !s.warned[v.view] {
			s.warned[v.view] = true
			s.hub.log.Warn().Str("node", s.nodeID).Str("view", v.view.String()).Stringer("node_at", base).Stringer("served", v.at).Msg("a node is ahead of this replica")
		}
		return nil
	}
	if base.known && base.epoch == v.at.epoch && base.generation < v.at.generation && s.hub.fleet.mayDelta(s, v.view, base) {
		if d := v.delta(s.hub.store, base, s.hub.cfg.MaxDeltaBytes); d != nil {
			s.hub.fleet.sentDelta(s, v.view, base)
			s.offered[v.view] = v.at
			s.hub.m.delta(v.view)
			return s.send(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Delta{Delta: d}})
		}
	}
	// The node fetches and opens another stream. Until then this one has nothing
	// to say of the view but where it stands.
	s.fetching[v.view] = true
	s.hub.m.needFetch(v.view)
	return s.send(&syncv1.WatchResponse{Msg: &syncv1.WatchResponse_NeedFetch{NeedFetch: &syncv1.NeedFetch{View: v.view, Target: v.at.proto()}}})
}
