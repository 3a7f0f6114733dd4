package snapshot

import (
	"errors"
	"fmt"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// Probe tries a View before it serves, with the keys of shards that changed
// together: it resolves a request for each route they touch, for instance. An error
// holds these shards back. A panic counts as an error.
type Probe func(v *View, touched []string) error

// applier holds both domains and makes each next View. One goroutine uses it.
type applier struct {
	checker  Checker
	builders []TenantBuilder
	probe    Probe // nil for none
	opener   Opener
	holder   *Holder
	swapped  func(old, now *View, tenants []string) // nil for none

	states [domains]*state
}

func newApplier(c Checker, b []TenantBuilder, p Probe, o Opener, h *Holder, swapped func(old, now *View, tenants []string)) *applier {
	return &applier{
		checker: c, builders: b, probe: p, opener: o, holder: h, swapped: swapped,
		states: [domains]*state{emptyState(), emptyState()},
	}
}

// result is a next View that is ready to serve.
type result struct {
	domain  domain
	view    *View
	state   *state
	gone    []dropper
	tenants []string      // whose policy or secrets the View changes
	changed []shardUpdate // those of the update that differ from what the node had
	fresh   int           // pins that were not there before
	// refused are the violations of this round, in order of shard keys; notices say
	// which fields were ignored because this release does not know them.
	refused, notices []*syncv1.Violation
}

func (r *result) outcome() syncv1.Outcome {
	if len(r.state.pins) > 0 {
		return syncv1.Outcome_OUTCOME_APPLIED_WITH_PINS
	}
	return syncv1.Outcome_OUTCOME_APPLIED
}

// rejectedError says that an update cannot be served and that no shard of it can be
// named as the cause. The position does not move.
type rejectedError struct{ violations []*syncv1.Violation }

func (e *rejectedError) Error() string {
	if len(e.violations) == 0 {
		return "update refused"
	}
	v := e.violations[0]
	return fmt.Sprintf("update refused: %s %s: %s", v.GetShardKey(), v.GetRule(), v.GetHint())
}

// prepare works out the View that an update makes. Nothing changes until commit.
// It fails with a *transportError or a *rejectedError.
func (a *applier) prepare(u update) (*result, error) {
	old := a.states[u.domain]
	next := old.received.Clone()
	var changed []shardUpdate
	grown := int64(0)
	for _, s := range u.shards {
		before, _ := next.Get(s.key)
		var differs bool
		if s.gone {
			differs = next.Delete(s.key)
		} else {
			differs = next.Put(s.key, s.hash, s.payload)
		}
		if differs {
			changed = append(changed, s)
		}
		grown += int64(len(s.payload)) - int64(len(before.Payload))
	}
	if next.Root() != u.target.Root {
		return nil, &transportError{
			what:   fmt.Sprintf("%s generation %d does not have the root it was sent with", u.domain, u.target.Generation),
			resync: true,
		}
	}
	r, err := a.plan(u.domain, old, &state{pos: u.target, received: next, bytes: old.bytes + grown}, changed)
	if err != nil {
		return nil, err
	}
	r.changed = changed
	return r, nil
}

// restore makes the state of a domain from disk current. trusted says that this
// version of the node validated it before, so that the Checker need not run again.
// It fails if nothing of the state can serve.
func (a *applier) restore(d domain, from *state, trusted bool) error {
	serves := from.received
	if len(from.pins) > 0 {
		serves = serves.Clone()
		for key, p := range from.pins {
			if p.serves {
				serves.Put(key, shard.Sum(p.held), p.held)
			} else {
				serves.Delete(key)
			}
		}
	}
	all := make([]shardUpdate, 0, serves.Len())
	bytes := int64(0)
	for e := range serves.All() {
		name, err := shard.Parse(e.Key)
		if err != nil {
			return fmt.Errorf("shard on disk: %w", err)
		}
		all = append(all, shardUpdate{key: e.Key, name: name})
		bytes += int64(len(e.Payload))
	}
	checker := a.checker
	if trusted {
		a.checker = nil
	}
	r, err := a.plan(d, emptyState(), &state{pos: from.pos, received: serves, bytes: bytes}, all)
	a.checker = checker
	if err != nil {
		return err
	}
	failed := r.state.pins
	a.commit(r)
	pins := make(map[string]pin, len(from.pins)+len(failed))
	for key, p := range from.pins {
		pins[key] = p
	}
	for key, p := range failed {
		if before, ok := from.pins[key]; ok {
			p.since, p.unit = before.since, before.unit
		}
		pins[key] = p
	}
	now := &state{pos: from.pos, received: from.received, pins: pins, bytes: bytes}
	a.states[d] = now
	if len(pins) == 0 {
		return nil
	}
	// What was refused before may serve now: the node may be another version.
	r, err = a.plan(d, now, &state{pos: now.pos, received: now.received, bytes: bytes}, nil)
	if err == nil {
		a.commit(r)
	}
	return nil
}

// commit makes a result current. Clear text of deleted credentials is gone when it
// returns.
func (a *applier) commit(r *result) {
	a.states[r.domain] = r.state
	old := a.holder.Load()
	a.holder.store(r.view)
	for _, s := range r.gone {
		s.drop()
	}
	if a.swapped != nil {
		a.swapped(old, r.view, r.tenants)
	}
}

// base is the View that changes start from.
func (a *applier) base() *View {
	if v := a.holder.Load(); v != nil {
		return v
	}
	return &View{Global: &Global{Message: new(syncv1.GlobalShard)}}
}

// errPanic is in the tree of what guarded makes of a panic.
var errPanic = errors.New("panic")

// guarded runs f and returns its panic as an error. What f was doing is then a
// defect; the configuration that leads there must not take the node down.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	return f()
}
