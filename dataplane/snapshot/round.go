package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// piece is one shard on its way into a View.
type piece struct {
	key     string
	name    shard.Name
	message proto.Message // nil if the shard is gone
	unit    string        // empty if nothing can hold the piece back
	tenant  *Tenant       // what buildTenant made of it, so that it runs once
}

// round is one attempt to make a View of pieces. Units that fail are left out of
// the next attempt.
type round struct {
	a       *applier
	domain  domain
	old     *state
	pieces  []*piece
	failed  map[string]bool                // units
	why     map[string][]*syncv1.Violation // by shard key
	notices []*syncv1.Violation
	base    *View
}

// plan finds the largest part of the changes, in whole units, that can serve, and
// pins the rest. Shards that are pinned already are tried again, since what they
// refer to may have been mended.
func (a *applier) plan(d domain, old, next *state, changed []shardUpdate) (*result, error) {
	r := &round{
		a: a, domain: d, old: old, base: a.base(),
		failed: make(map[string]bool),
		why:    make(map[string][]*syncv1.Violation),
	}
	joined := newUnits()
	keys := make(map[string]shard.Name, len(changed)+len(old.pins))
	for _, s := range changed {
		keys[s.key] = s.name
		if s.group != 0 {
			joined.join(s.key, groupName(s.group))
		}
	}
	for key, p := range old.pins {
		name, err := shard.Parse(key)
		if err != nil {
			return nil, fmt.Errorf("pinned shard: %w", err)
		}
		keys[key] = name
		joined.join(key, pinName(p.unit))
	}
	for key, name := range keys {
		r.add(key, name, next.received, joined.find(key))
	}
	slices.SortFunc(r.pieces, func(x, y *piece) int { return strings.Compare(x.key, y.key) })

	for {
		view, gone, err := r.attempt()
		if err != nil {
			return nil, err
		}
		if view == nil {
			continue
		}
		if d == identity {
			view.Identity = next.pos
		} else {
			view.Policy = next.pos
		}
		next.pins = r.pins(next)
		return &result{
			domain: d, view: view, state: next, gone: gone, tenants: r.tenants(),
			fresh: r.fresh(next), refused: r.refused(), notices: r.notices,
		}, nil
	}
}

// add takes one changed shard in, unless what serves is what was received.
func (r *round) add(key string, name shard.Name, received *shard.Set, unit string) {
	p := &piece{key: key, name: name, unit: unit}
	e, present := received.Get(key)
	serves, ok := r.old.served(key)
	if present == ok && (!ok || e.Hash == shard.Sum(serves)) {
		return
	}
	r.pieces = append(r.pieces, p)
	if !present {
		// A revoked key and a deleted credential go at once: holding them back with
		// the rest of their group would keep a door open.
		if name.Kind == shard.KindKey || name.Kind == shard.KindCredentials {
			p.unit = ""
		}
		return
	}
	m, unknown, err := decodeShard(name, e.Payload)
	if err != nil {
		r.fail(p, "shard.decode", err.Error())
		return
	}
	if unknown != "" {
		r.notices = append(r.notices, violation(p, "shard.unknown_field",
			"the shard has field "+unknown+", which this release does not know; it is ignored"))
	}
	p.message = m
}

// attempt makes a View of the pieces whose units did not fail. It returns nil if
// more of them failed.
func (r *round) attempt() (*View, []dropper, error) {
	good := make([]*piece, 0, len(r.pieces))
	for _, p := range r.pieces {
		if !r.failed[p.unit] {
			good = append(good, p)
		}
	}
	before := len(r.failed)
	if err := r.check(good); err != nil {
		return nil, nil, err
	}
	if len(r.failed) > before {
		return nil, nil, nil
	}
	c := newChange(r.base, r.a.builders)
	for _, p := range good {
		r.build(c, p)
	}
	if len(r.failed) > before {
		return nil, nil, nil
	}
	view := c.done()
	r.probe(view, good)
	if len(r.failed) > before {
		return nil, nil, nil
	}
	return view, c.gone, nil
}

// tenants are those whose policy or secrets the round changes.
func (r *round) tenants() []string {
	ids := make(map[string]bool)
	for _, p := range r.pieces {
		if !r.failed[p.unit] && (p.name.Kind == shard.KindTenant || p.name.Kind == shard.KindCredentials) {
			ids[p.name.ID] = true
		}
	}
	return slices.Collect(maps.Keys(ids))
}

// check asks the Checker about the pieces as they would serve.
func (r *round) check(good []*piece) error {
	if r.a.checker == nil || len(good) == 0 {
		return nil
	}
	look := &lookup{base: r.base, served: r.served, over: make(map[string]proto.Message, len(good))}
	byKey := make(map[string]*piece, len(good))
	keys := make([]string, len(good))
	for i, p := range good {
		look.over[p.key], byKey[p.key], keys[i] = p.message, p, p.key
	}
	var found []*syncv1.Violation
	if err := guarded(func() error { found = r.a.checker.CheckChanged(look, keys); return nil }); err != nil {
		// Find the shard that the checker cannot bear.
		before := len(r.failed)
		for _, p := range good {
			if err := guarded(func() error { r.a.checker.CheckChanged(look, []string{p.key}); return nil }); err != nil && p.unit != "" {
				r.fail(p, "shard.panic", err.Error())
			}
		}
		if len(r.failed) == before {
			return &rejectedError{[]*syncv1.Violation{{Rule: "shard.panic", Hint: err.Error()}}}
		}
		return nil
	}
	for _, v := range found {
		p := byKey[v.GetShardKey()]
		switch {
		case p == nil:
			return &rejectedError{found}
		case p.unit != "":
			r.failed[p.unit] = true
			r.why[p.key] = append(r.why[p.key], v)
		}
	}
	return nil
}

// served gives a shard of either domain as it serves now.
func (r *round) served(key string) ([]byte, bool) {
	d, err := shard.DomainOf(key)
	if err != nil {
		return nil, false
	}
	if d == r.domain.shards() {
		return r.old.served(key)
	}
	return r.a.states[1-r.domain].served(key)
}

// build puts one piece into the change.
func (r *round) build(c *change, p *piece) {
	err := guarded(func() error {
		switch m := p.message.(type) {
		case nil:
			return r.remove(c, p)
		case *syncv1.GlobalShard:
			c.global(m)
		case *syncv1.TenantShard:
			if p.tenant == nil {
				t, err := buildTenant(r.a.builders, p.name.ID, m)
				if err != nil {
					return err
				}
				p.tenant = t
			}
			c.putTenant(p.name.ID, p.tenant)
		case *syncv1.CredentialShard:
			c.credentials(p.name.ID, m, r.a.opener)
		case *syncv1.SubjectRecord:
			c.subject(m.GetKind(), p.name.ID, m)
		case *syncv1.KeyRecord:
			return c.key(p.name.ID, m)
		case *syncv1.IssuerRecord:
			c.issuer(p.name.ID, m)
		}
		return nil
	})
	if err != nil {
		r.fail(p, "shard.build", err.Error())
	}
}

func (r *round) remove(c *change, p *piece) error {
	switch p.name.Kind {
	case shard.KindGlobal:
		c.global(nil)
	case shard.KindTenant:
		c.putTenant(p.name.ID, nil)
	case shard.KindCredentials:
		c.credentials(p.name.ID, nil, nil)
	case shard.KindSubject:
		c.subject(subjectKindOf(p.name.Subject), p.name.ID, nil)
	case shard.KindKey:
		return c.key(p.name.ID, nil)
	case shard.KindIssuer:
		c.issuer(p.name.ID, nil)
	}
	return nil
}

// probe tries the View with each unit's shards.
func (r *round) probe(v *View, good []*piece) {
	if r.a.probe == nil {
		return
	}
	byUnit := make(map[string][]*piece)
	var order []string
	for _, p := range good {
		if len(byUnit[p.unit]) == 0 {
			order = append(order, p.unit)
		}
		byUnit[p.unit] = append(byUnit[p.unit], p)
	}
	for _, unit := range order {
		touched := make([]string, len(byUnit[unit]))
		for i, p := range byUnit[unit] {
			touched[i] = p.key
		}
		if err := guarded(func() error { return r.a.probe(v, touched) }); err != nil && unit != "" {
			r.fail(byUnit[unit][0], "shard.probe", err.Error())
		}
	}
}

func (r *round) fail(p *piece, rule, hint string) {
	if p.unit == "" {
		return
	}
	r.failed[p.unit] = true
	r.why[p.key] = append(r.why[p.key], violation(p, rule, hint))
}

func violation(p *piece, rule, hint string) *syncv1.Violation {
	return &syncv1.Violation{
		Kind: string(p.name.Kind), Name: p.name.ID, Rule: rule, ShardKey: p.key,
		Hint: strings.ToValidUTF8(hint[:min(len(hint), 512)], "�"),
	}
}

// pins are the pieces whose units failed.
func (r *round) pins(next *state) map[string]pin {
	pins := make(map[string]pin)
	cause := make(map[string]string) // of each unit
	for _, p := range r.pieces {
		if r.failed[p.unit] && len(r.why[p.key]) > 0 && cause[p.unit] == "" {
			cause[p.unit] = p.key
		}
	}
	for _, p := range r.pieces {
		if !r.failed[p.unit] {
			continue
		}
		now := pin{since: next.pos.Generation, unit: p.unit, why: r.why[p.key]}
		now.held, now.serves = r.old.served(p.key)
		if before, ok := r.old.pins[p.key]; ok {
			now.since = before.since
		}
		if len(now.why) == 0 {
			now.why = []*syncv1.Violation{violation(p, "shard.held", "the shard waits for "+cause[p.unit]+", with which it was changed")}
		}
		now.tenant = tenantOf(p.name, p.message, now.held)
		pins[p.key] = now
	}
	// A unit is named by one of its keys, so that the name does not collide with a
	// group of a later update.
	first := make(map[string]string)
	for _, p := range r.pieces {
		if r.failed[p.unit] && first[p.unit] == "" {
			first[p.unit] = p.key
		}
	}
	for key, p := range pins {
		p.unit = first[p.unit]
		pins[key] = p
	}
	return pins
}

// fresh counts the pins that the round before did not have, or had for other bytes.
func (r *round) fresh(next *state) int {
	n := 0
	for key := range next.pins {
		if _, ok := r.old.pins[key]; ok {
			before, was := r.old.received.Get(key)
			now, is := next.received.Get(key)
			if was == is && before.Hash == now.Hash {
				continue
			}
		}
		n++
	}
	return n
}

func (r *round) refused() []*syncv1.Violation {
	var all []*syncv1.Violation
	for _, p := range r.pieces {
		all = append(all, r.why[p.key]...)
	}
	return all
}

// tenantOf returns the tenant that a shard belongs to; empty if it is not known.
func tenantOf(name shard.Name, m proto.Message, held []byte) string {
	switch name.Kind {
	case shard.KindTenant, shard.KindCredentials:
		return name.ID
	case shard.KindSubject:
		if name.Subject == shard.SubjectTenant {
			return name.ID
		}
	}
	if m == nil && held != nil {
		m, _, _ = decodeShard(name, held)
	}
	switch m := m.(type) {
	case interface{ GetTenantId() string }:
		return m.GetTenantId()
	case *syncv1.IssuerRecord:
		return m.GetIssuer().GetTenantId()
	}
	return ""
}
