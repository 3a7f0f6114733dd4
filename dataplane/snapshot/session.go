package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	connect "connectrpc.com/connect/v2"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
)

const (
	defaultHeartbeat = 10 * time.Second
	missedHeartbeats = 3
	// behindGrace is how long after a heartbeat an update may still be on its way.
	behindGrace  = time.Second
	maxReconnect = time.Minute
)

// ending says how a stream ended.
type ending struct {
	err      error         // nil for an orderly end
	after    time.Duration // wait that the control plane asked for
	progress bool          // something was applied, or the node was at its target
	reopen   bool          // the next stream should begin from what the node runs now
}

var (
	errSilent = fmt.Errorf("nothing heard for %d heartbeats", missedHeartbeats)
	// errReopen ends a stream so that the next one starts from what the node runs.
	errReopen = errors.New("reopen the stream from the running position")
)

// received is a message or what ended its stream.
type received[M any] struct {
	message *M
	err     error
}

// pump calls open and the function it returns until that fails or ctx ends. The
// channel is closed when nothing runs any more.
func pump[M any](ctx context.Context, open func() (recv func() (*M, error), done func() error, err error)) <-chan received[M] {
	out := make(chan received[M])
	go func() {
		defer close(out)
		put := func(r received[M]) bool {
			select {
			case out <- r:
				return true
			case <-ctx.Done():
				return false
			}
		}
		recv, done, err := open()
		if err != nil {
			put(received[M]{err: err})
			return
		}
		defer func() { _ = done() }()
		for {
			m, err := recv()
			if !put(received[M]{m, err}) || err != nil {
				return
			}
		}
	}()
	return out
}

// session is one stream.
type session struct {
	s        *Subscriber
	client   syncv1connect.ConfigSyncServiceClient
	interval time.Duration
	progress bool
	behind   *time.Timer // runs while the node is not at its target
	waiting  bool        // behind runs
	fetch    *fetch      // nil if none runs
	want     []domain    // fetched after that
}

// stream opens a Watch and follows it to its end.
func (s *Subscriber) stream(ctx context.Context, transport connect.Transport) ending {
	ctx, cancel := context.WithCancel(ctx)
	client := syncv1connect.NewConfigSyncServiceClient(connect.NewClient(transport))
	se := &session{s: s, client: client, interval: defaultHeartbeat, behind: time.NewTimer(time.Hour)}
	se.behind.Stop()
	req := s.watchRequest()
	messages := pump(ctx, func() (func() (*syncv1.WatchResponse, error), func() error, error) {
		w, err := client.Watch(ctx, req)
		return w.Receive, w.Close, err
	})
	defer func() {
		cancel()
		for range messages {
		}
		se.stopFetch()
		se.behind.Stop()
		s.reporter.use(nil)
		s.teller.use(nil)
	}()
	s.reporter.use(client)
	s.teller.use(client)
	err := se.run(ctx, messages)
	end := ending{err: err, progress: se.progress}
	var away *goaway
	switch {
	case errors.As(err, &away):
		end.err, end.after = nil, away.after
	case errors.Is(err, errReopen):
		end.err, end.reopen = nil, true
	}
	return end
}

// watchRequest says what the node runs. A domain that is in doubt is left out, so
// that the control plane offers it whole.
func (s *Subscriber) watchRequest() *syncv1.WatchRequest {
	s.mu.Lock()
	fromDisk := s.fromDisk
	s.mu.Unlock()
	req := &syncv1.WatchRequest{Node: s.node(), Refused: s.refused, FromDisk: fromDisk}
	if !s.resync[identity] {
		req.Identity = s.applier.states[identity].pos.message()
	}
	if !s.resync[policy] {
		req.Policy = s.applier.states[policy].pos.message()
	}
	return req
}

func (se *session) run(ctx context.Context, messages <-chan received[syncv1.WatchResponse]) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	silence := time.NewTimer(missedHeartbeats * se.interval)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m, ok := <-messages:
			switch {
			case !ok:
				return ctx.Err()
			case m.err != nil:
				return fmt.Errorf("stream: %w", m.err)
			}
			if err := se.handle(ctx, m.message); err != nil {
				return err
			}
			silence.Reset(missedHeartbeats * se.interval)
		case c, ok := <-se.fetch.chunks():
			if err := se.chunk(ctx, c, ok); err != nil {
				return err
			}
		case <-se.fetch.idle():
			return errFetchIdle
		case <-silence.C:
			return errSilent
		case <-se.behind.C:
			se.waiting = false
			if err := se.late(); err != nil {
				return err
			}
		case now := <-tick.C:
			se.s.keepHouse(now)
			if !now.Before(se.s.statusAt) {
				se.s.statusAt = now.Add(statusPause)
				se.s.reportRunning(identity)
			}
		}
	}
}

// goaway is the control plane's wish to be left in good order.
type goaway struct {
	after  time.Duration
	reason string
}

func (g *goaway) Error() string { return "control plane said goaway: " + g.reason }

func (se *session) handle(ctx context.Context, m *syncv1.WatchResponse) error {
	now := time.Now()
	se.s.mu.Lock()
	se.s.heard, se.s.contact, se.s.lastError = now, now, ""
	se.s.mu.Unlock()
	switch m := m.GetMsg().(type) {
	case *syncv1.WatchResponse_Hello:
		se.s.fleet.told(int(m.Hello.GetNodes()), now)
		return se.hello(ctx, m.Hello)
	case *syncv1.WatchResponse_Keys:
		if err := se.s.keys.accept(ctx, m.Keys); err != nil {
			se.s.log.Error().Err(err).Msg("content keys")
		}
	case *syncv1.WatchResponse_Delta:
		return se.delta(ctx, m.Delta)
	case *syncv1.WatchResponse_NeedFetch:
		return se.needFetch(ctx, m.NeedFetch)
	case *syncv1.WatchResponse_Heartbeat:
		se.s.reporter.repeat()
		se.s.fleet.told(int(m.Heartbeat.GetNodes()), now)
		return se.heartbeat(ctx, m.Heartbeat)
	case *syncv1.WatchResponse_Signals:
		if se.s.cfg.Heard != nil {
			se.s.cfg.Heard(m.Signals.GetSignals())
		}
	case *syncv1.WatchResponse_Goaway:
		after := time.Duration(min(max(m.Goaway.GetReconnectAfterMs(), 1), maxReconnect.Milliseconds())) * time.Millisecond
		return &goaway{after: after, reason: m.Goaway.GetReason()}
	}
	// Messages of a later release, and those that concern other packages, pass by.
	return nil
}

func (se *session) hello(ctx context.Context, h *syncv1.Hello) error {
	if ms := h.GetHeartbeatIntervalMs(); ms > 0 {
		se.interval = time.Duration(min(max(ms, 100), maxReconnect.Milliseconds())) * time.Millisecond
	}
	se.s.setState(Syncing)
	for d := range domains {
		// What the control plane knows of this instance may be from before a restart
		// of its own.
		if len(se.s.applier.states[d].pins) > 0 {
			se.s.reportRunning(d)
		}
	}
	return se.heartbeat(ctx, &syncv1.Heartbeat{
		Identity: h.GetIdentity(), Policy: h.GetPolicy(),
		ServerTime: h.GetServerTime(), PgCheckedAt: h.GetPgCheckedAt(),
	})
}

// heartbeat compares what the node runs with what it should run.
func (se *session) heartbeat(ctx context.Context, h *syncv1.Heartbeat) error {
	targets := [domains]*syncv1.Position{h.GetIdentity(), h.GetPolicy()}
	for d := range domains {
		target, err := positionOf(targets[d])
		if err != nil {
			return fmt.Errorf("heartbeat: %w", err)
		}
		if target.IsZero() {
			continue
		}
		running := se.s.applier.states[d].pos
		if target.older(running) {
			se.s.alarm(ctx, d, target)
		}
		se.s.mu.Lock()
		se.s.aimLocked(d, target)
		se.s.mu.Unlock()
		if d == identity && target == running && h.GetPgCheckedAt().IsValid() && h.GetServerTime().IsValid() {
			se.s.confirm(h.GetServerTime().AsTime().Sub(h.GetPgCheckedAt().AsTime()))
		}
	}
	se.settle()
	return nil
}

// settle works out the state and, while the node is behind, gives the update that
// should be on its way a moment to arrive.
func (se *session) settle() {
	se.s.settleState()
	se.s.mu.Lock()
	state := se.s.state
	se.s.mu.Unlock()
	switch {
	case state != Syncing || se.fetch != nil:
		se.behind.Stop()
		se.waiting = false
		se.progress = se.progress || state == Current || state == Holding
	case !se.waiting && len(se.s.behind()) > 0:
		se.behind.Reset(behindGrace)
		se.waiting = true
	}
}

// late ends the stream of a node that is still not at its target.
func (se *session) late() error {
	if se.fetch != nil {
		return nil
	}
	behind := se.s.behind()
	if len(behind) == 0 {
		return nil
	}
	for d, target := range behind {
		se.s.report(d, target, syncv1.Outcome_OUTCOME_NEED_FULL, nil)
	}
	return errReopen
}

// alarm says, once for each position, that the control plane names a generation
// older than the node's in the same epoch: a restored database whose epoch was not
// renewed, or a replica that lags.
func (s *Subscriber) alarm(ctx context.Context, d domain, target Position) {
	if s.alarmed[d] == target {
		return
	}
	s.alarmed[d] = target
	s.metrics.refuse(ctx, d, "older_generation", 1)
	s.log.Error().Stringer("view", d).Uint64("offered", target.Generation).
		Uint64("running", s.applier.states[d].pos.Generation).
		Msg("control plane offers an older generation of the same epoch; ignored. After a restore of its database the epoch has to be renewed")
}

// confirm takes the age of the authorization data back to ago.
func (s *Subscriber) confirm(ago time.Duration) {
	now := time.Now()
	first := s.age.of("", now) == unknownAge
	pinned := make(map[string]bool)
	for _, p := range s.applier.states[identity].pins {
		if p.tenant != "" {
			pinned[p.tenant] = true
		}
	}
	s.age.confirm(now, ago, pinned)
	if first {
		s.ageAt = time.Time{} // to disk with the next tick
	}
}

// delta applies an update that goes on from the running position.
func (se *session) delta(ctx context.Context, m *syncv1.Delta) error {
	d, ok := domainOf(m.GetView())
	if !ok {
		return nil // a view that this release does not hold
	}
	if se.fetch != nil && se.fetch.domain == d {
		return nil // the fetch brings it, or the next stream does
	}
	base, err1 := positionOf(m.GetBase())
	target, err2 := positionOf(m.GetTarget())
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	running := se.s.applier.states[d].pos
	switch {
	case target.older(running):
		se.s.alarm(ctx, d, target)
		return nil
	case target == running:
		return nil
	case base != running && !base.IsZero():
		se.s.report(d, target, syncv1.Outcome_OUTCOME_NEED_FULL, nil)
		return errReopen
	}
	se.s.mu.Lock()
	se.s.aimLocked(d, target)
	se.s.mu.Unlock()
	shards, err := verify(d, m.GetUpdates())
	if err == nil {
		if base.IsZero() {
			shards = wholeSet(se.s.applier.states[d], shards)
		}
		err = se.s.apply(ctx, update{domain: d, target: target, shards: shards})
	}
	if err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	se.progress = se.progress || se.s.applier.states[d].pos == target
	se.settle()
	return nil
}

// wholeSet makes of a complete list of shards the changes that lead to it.
func wholeSet(st *state, shards []shardUpdate) []shardUpdate {
	listed := make(map[string]bool, len(shards))
	for _, u := range shards {
		listed[u.key] = true
	}
	for e := range st.received.All() {
		if !listed[e.Key] {
			shards = append(shards, shardUpdate{key: e.Key, name: mustName(e.Key), gone: true})
		}
	}
	return shards
}

// apply brings an update into service. It returns an error if what arrived is not
// whole; then the position has not moved. A refusal is no error: it is reported.
func (s *Subscriber) apply(ctx context.Context, u update) error {
	d, began := u.domain, time.Now()
	if u.target.sameGeneration(s.quarantined[d]) {
		s.report(d, u.target, syncv1.Outcome_OUTCOME_QUARANTINED, nil)
		return nil
	}
	var r *result
	err := guarded(func() (err error) { r, err = s.applier.prepare(u); return err })
	if transport, ok := errors.AsType[*transportError](err); ok {
		s.whole[d] = transport.resync && s.resync[d]
		s.resync[d] = s.resync[d] || transport.resync
		s.metrics.refuse(ctx, d, "transport", 1)
		return err
	}
	if err != nil {
		s.reject(ctx, u, err)
		return nil
	}
	if n := r.fresh; n > 0 {
		s.metrics.refuse(ctx, d, "shard", n)
		s.log.Error().Stringer("view", d).Uint64("generation", u.target.Generation).Int("shards", n).
			Str("first", firstHint(r.refused)).Msg("shards refused; their previous versions serve")
	}
	s.install(r)
	s.resync[d], s.whole[d] = false, false
	s.rejected[d], s.quarantined[d] = Position{}, Position{}
	s.applyTime[d] = time.Since(began)
	s.metrics.took(ctx, d, s.applyTime[d])
	s.mu.Lock()
	s.fromDisk = false
	s.mu.Unlock()
	s.publish(d)
	if s.durable[d] {
		s.report(d, u.target, r.outcome(), append(r.refused, r.notices...))
	}
	s.log.Info().Stringer("view", d).Uint64("generation", u.target.Generation).Int("changed", len(r.changed)).
		Int("pins", len(r.state.pins)).Dur("apply_ms", s.applyTime[d]).Msg("configuration applied")
	return nil
}

// install swaps the View and puts the update on disk. Identity swaps first, because
// a revocation must not wait for a disk; policy is on disk first, so that a
// generation that ends the process is known by then.
func (s *Subscriber) install(r *result) {
	d, j := r.domain, s.journals[r.domain]
	if d == identity {
		s.applier.commit(r)
	}
	s.durable[d] = true
	if j != nil {
		if err := j.record(r.state, r.changed, time.Now()); err != nil {
			s.durable[d] = false
			s.log.Error().Err(err).Stringer("view", d).Msg("configuration is not on disk; a restart would lose it")
		}
	}
	if d == policy {
		s.applier.commit(r)
	}
}

// reject notes an update that cannot be served at all.
func (s *Subscriber) reject(ctx context.Context, u update, err error) {
	var violations []*syncv1.Violation
	if rejected, ok := errors.AsType[*rejectedError](err); ok {
		violations = rejected.violations
	} else {
		violations = []*syncv1.Violation{{Kind: "Generation", Rule: "node.apply", Hint: err.Error()}}
	}
	s.rejected[u.domain] = u.target
	s.refuse(u.domain, u.target)
	s.metrics.refuse(ctx, u.domain, "update", 1)
	s.log.Error().Err(err).Stringer("view", u.domain).Uint64("generation", u.target.Generation).Msg("update refused")
	s.publish(u.domain)
	s.report(u.domain, u.target, syncv1.Outcome_OUTCOME_REJECTED, violations)
}

// refuse puts a generation on the list that each Watch carries.
func (s *Subscriber) refuse(d domain, p Position) {
	for _, r := range s.refused {
		if r.GetView() == d.view() && r.GetGeneration() == p.Generation {
			return
		}
	}
	if len(s.refused) >= maxRefused {
		s.refused = s.refused[1:]
	}
	s.refused = append(s.refused, &syncv1.Refusal{View: d.view(), Generation: p.Generation, NodeVersion: s.cfg.Version})
}

func firstHint(v []*syncv1.Violation) string {
	if len(v) == 0 {
		return ""
	}
	return v[0].GetShardKey() + ": " + v[0].GetHint()
}
