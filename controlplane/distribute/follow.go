package distribute

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

const (
	retryMin    = 100 * time.Millisecond
	retryMax    = 2 * time.Second
	headTimeout = 2 * time.Second
	stepTimeout = 30 * time.Second // one step of the change log
	loadTimeout = 5 * time.Minute  // a whole view
)

// listen hands heads from the store to follow.
func (h *Hub) listen(ctx context.Context) error {
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		err := h.store.Listen(ctx, func(head Head) {
			pause = retryMin
			for {
				select {
				case h.heads <- head:
					return
				default:
				}
				select {
				case <-h.heads: // an older one
				default:
				}
			}
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h.log.Warn().Err(err).Dur("retry_after_ms", pause).Msg("listening for configuration ended")
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// follow keeps the served state at the head.
func (h *Hub) follow(ctx context.Context) error {
	pause := retryMin
	for {
		var head *Head
		select {
		case <-ctx.Done():
			return ctx.Err()
		case got := <-h.heads:
			head = &got
		case <-h.poke:
		}
		for {
			err := h.catchUp(ctx, head)
			if err == nil {
				pause = retryMin
				break
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			h.m.failed(ctx)
			h.log.Error().Err(err).Dur("retry_after_ms", pause).Msg("configuration could not be followed")
			if err := sleep(ctx, pause); err != nil {
				return err
			}
			pause = min(2*pause, retryMax)
			head = nil // read it again
		}
	}
}

// catchUp brings the served state to the head. head is nil if it has to be read.
//
// The time of the check only moves when the head that was seen is the state that
// is served: nodes measure the age of their authorization by it.
func (h *Hub) catchUp(ctx context.Context, head *Head) error {
	seen := time.Now()
	if head == nil {
		read, err := h.readHead(ctx)
		if err != nil {
			return err
		}
		head = &read
	}
	old := h.state.Load()
	if old != nil && head.Epoch == old.identity.at.epoch && head.Generation < old.head {
		// Either this head was read before a newer one overtook it, or the
		// database went back without a new epoch.
		read, err := h.readHead(ctx)
		if err != nil {
			return err
		}
		if head = &read; head.Epoch == old.identity.at.epoch && head.Generation < old.head {
			h.m.wentBack(ctx)
			h.log.Error().Uint64("served", old.head).Uint64("stored", head.Generation).
				Msg("the stored configuration went back to an older generation: renew the epoch if a backup was restored; until then the newer one is served")
			return nil
		}
	}
	next := &state{checkedAt: seen}
	if old != nil {
		next.identity, next.policy, next.keys = old.identity, old.policy, old.keys
	}
	// Reading one view can show a head that is newer than the one the other was
	// brought to: both must be at the same.
	at, moved := *head, old == nil
	for settled := false; !settled; {
		settled = true
		for _, view := range views {
			vs, read, err := h.followView(ctx, next.view(view), at, view)
			if err != nil {
				return err
			}
			if read.Epoch != at.Epoch || read.Generation > at.Generation {
				at, settled = read, false
			}
			moved = moved || vs != next.view(view)
			if view == syncv1.View_VIEW_IDENTITY {
				next.identity = vs
			} else {
				next.policy = vs
			}
		}
	}
	next.head = at.Generation
	if moved || next.keys == nil || old.head != next.head {
		// Keys come before what they open.
		keysCtx, cancel := context.WithTimeout(ctx, headTimeout)
		keys, err := h.keys.ContentKeys(keysCtx)
		cancel()
		if err != nil {
			return err
		}
		if !proto.Equal(keys, next.keys) {
			next.keys, moved = keys, true
		}
	}
	if moved {
		h.log.Info().Uint64("generation", next.head).Stringer("identity", next.identity.at).Stringer("policy", next.policy.at).Msg("configuration to serve")
		h.publish(next)
	} else {
		h.state.Store(next) // nobody needs to be woken for a time
	}
	return nil
}

func (h *Hub) readHead(ctx context.Context) (Head, error) {
	ctx, cancel := context.WithTimeout(ctx, headTimeout)
	defer cancel()
	return h.store.Head(ctx)
}

// followView returns the view at or beyond head, cur itself if it is there already.
func (h *Hub) followView(ctx context.Context, cur *viewState, head Head, view syncv1.View) (*viewState, Head, error) {
	target := positionOf(head.position(view))
	if cur != nil && cur.at.epoch == head.Epoch {
		if cur.at == target || cur.at.generation > target.generation {
			return cur, head, nil
		}
		stepCtx, cancel := context.WithTimeout(ctx, stepTimeout)
		next, at, err := cur.advance(stepCtx, h.store)
		cancel()
		if err == nil {
			return next, at, nil
		}
		var root *rootError
		if !errors.Is(err, errUnreachable) && !errors.As(err, &root) {
			return nil, Head{}, err
		}
		h.log.Warn().Err(err).Str("view", view.String()).Msg("loading a view whole")
	}
	loadCtx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	next, at, err := load(loadCtx, h.store, view)
	if err == nil && cur != nil && cur.at.epoch == next.at.epoch && cur.at.generation < next.at.generation {
		next.steps = append(slices.Clone(cur.steps), step{cur.at, difference(cur.set, next.set)})
	}
	return next, at, err
}

// watchHealth sends streams away when this replica no longer knows the head:
// another one may. Streams that come while it is so stay, since then there may be
// no better replica.
func (h *Hub) watchHealth(ctx context.Context) error {
	tick := time.NewTicker(h.cfg.StuckAfter / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		st := h.state.Load()
		stuck := st != nil && time.Since(st.checkedAt) > h.cfg.StuckAfter
		h.mu.Lock()
		if stuck && !h.stuck {
			h.log.Error().Dur("age_ms", time.Since(st.checkedAt)).Int("streams", len(h.sessions)).Msg("the head cannot be read; nodes are sent to other replicas")
			for s := range h.sessions {
				s.leave("this control plane cannot read the head")
			}
		}
		h.stuck = stuck
		h.mu.Unlock()
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(jitter(d))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// jitter spreads a duration by a fifth to both sides.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
