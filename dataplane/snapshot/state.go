package snapshot

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// state is what a node holds of one domain. It is replaced as a whole, never changed.
type state struct {
	pos Position
	// received is every shard as the control plane has it at pos, refused ones
	// included, so that its root is the root of pos.
	received *shard.Set
	// pins are the shards of which another version serves than the received one.
	pins map[string]pin
	// bytes is the size of everything received.
	bytes int64
}

// pin keeps a shard at its previous version.
type pin struct {
	held   []byte // what serves
	serves bool   // whether anything does; false where no version was ever good
	since  uint64 // generation that was refused first
	// unit joins the pins that are taken back together.
	unit   string
	tenant string // empty if it is not known or the pin concerns all tenants
	why    []*syncv1.Violation
}

func emptyState() *state { return &state{received: shard.New()} }

// served returns the bytes of the version that serves.
func (s *state) served(key string) ([]byte, bool) {
	if p, ok := s.pins[key]; ok {
		return p.held, p.serves
	}
	e, ok := s.received.Get(key)
	return e.Payload, ok
}

// serving counts the shards that serve.
func (s *state) serving() int {
	n := s.received.Len()
	for key, p := range s.pins {
		_, received := s.received.Get(key)
		switch {
		case received && !p.serves:
			n--
		case !received && p.serves:
			n++
		}
	}
	return n
}

// pinList returns the pins for a report, at most as many as it may hold.
func (s *state) pinList() []*syncv1.Pin {
	const most = 1024
	keys := make([]string, 0, len(s.pins))
	for key := range s.pins {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	list := make([]*syncv1.Pin, 0, min(len(keys), most))
	for _, key := range keys[:min(len(keys), most)] {
		p := s.pins[key]
		m := &syncv1.Pin{Key: key, SinceGeneration: p.since}
		if p.serves {
			h := shard.Sum(p.held)
			m.HeldHash = h[:]
		}
		if e, ok := s.received.Get(key); ok {
			m.RefusedHash = e.Hash[:]
		}
		list = append(list, m)
	}
	return list
}

// shardUpdate is one verified change of an update.
type shardUpdate struct {
	key     string
	name    shard.Name
	group   uint32 // updates of one group become visible together; 0 is no group
	hash    shard.Hash
	payload []byte
	gone    bool
}

// update takes a domain from what the node holds to target.
type update struct {
	domain domain
	target Position
	shards []shardUpdate
}

// transportError says that what arrived is not what was sent, or does not add up.
// It is no refusal: the node reconnects and asks again.
type transportError struct {
	what string
	// resync asks for a comparison by bucket hashes, because the node's own set may
	// be what is wrong.
	resync bool
}

func (e *transportError) Error() string { return e.what }

// verify checks the hashes and keys of shards that arrived for a domain.
func verify(d domain, in []*syncv1.ShardUpdate) ([]shardUpdate, error) {
	out := make([]shardUpdate, 0, len(in))
	seen := make(map[string]bool, len(in))
	for _, m := range in {
		name, err := shard.Parse(m.GetKey())
		if err != nil {
			return nil, &transportError{what: err.Error()}
		}
		u := shardUpdate{key: m.GetKey(), name: name, group: m.GetTxGroup()}
		switch {
		case name.Domain() != d.shards():
			return nil, &transportError{what: fmt.Sprintf("shard %s arrived in the %s view", u.key, d)}
		case seen[u.key]:
			return nil, &transportError{what: fmt.Sprintf("shard %s arrived twice in one update", u.key)}
		}
		seen[u.key] = true
		switch c := m.GetChange().(type) {
		case *syncv1.ShardUpdate_Payload:
			u.payload, u.hash = c.Payload, shard.Sum(c.Payload)
			if !bytes.Equal(u.hash[:], m.GetHash()) {
				return nil, &transportError{what: fmt.Sprintf("shard %s does not have the hash it was sent with", u.key)}
			}
		case *syncv1.ShardUpdate_Tombstone:
			if !c.Tombstone {
				return nil, &transportError{what: fmt.Sprintf("shard %s has neither content nor a tombstone", u.key)}
			}
			u.gone = true
		default:
			return nil, &transportError{what: fmt.Sprintf("shard %s has neither content nor a tombstone", u.key)}
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b shardUpdate) int { return cmp.Compare(a.key, b.key) })
	return out, nil
}
