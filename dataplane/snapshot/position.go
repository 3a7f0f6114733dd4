package snapshot

import (
	"encoding/hex"
	"fmt"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// String returns the position as people compare it: epoch, generation and the
// first digits of the root.
func (p Position) String() string {
	if p.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%016x/%d/%s", p.Epoch, p.Generation, hex.EncodeToString(p.Root[:4]))
}

// message returns p for the wire; nil if there is none.
func (p Position) message() *syncv1.Position {
	if p.IsZero() {
		return nil
	}
	return &syncv1.Position{Epoch: p.Epoch, Generation: p.Generation, Root: p.Root[:]}
}

// positionOf reads a position from the wire. It fails unless the root is a SHA-256.
func positionOf(m *syncv1.Position) (Position, error) {
	p := Position{Epoch: m.GetEpoch(), Generation: m.GetGeneration()}
	if m == nil {
		return p, nil
	}
	if len(m.GetRoot()) != len(p.Root) {
		return Position{}, fmt.Errorf("root of generation %d has %d bytes, want %d", p.Generation, len(m.GetRoot()), len(p.Root))
	}
	copy(p.Root[:], m.GetRoot())
	return p, nil
}

// sameGeneration reports whether both are one generation of one epoch.
func (p Position) sameGeneration(o Position) bool {
	return p.Epoch == o.Epoch && p.Generation == o.Generation
}

// older reports whether p lies before o in the same epoch. Positions of different
// epochs have no order.
func (p Position) older(o Position) bool {
	return p.Epoch == o.Epoch && p.Generation < o.Generation
}

// domain is what distinguishes the two views a node holds.
type domain int

const (
	identity domain = iota
	policy
	domains
)

func (d domain) view() syncv1.View {
	if d == identity {
		return syncv1.View_VIEW_IDENTITY
	}
	return syncv1.View_VIEW_STABLE
}

func (d domain) shards() shard.Domain {
	if d == identity {
		return shard.Identity
	}
	return shard.Policy
}

// String names the domain in logs, metrics and file names.
func (d domain) String() string {
	if d == identity {
		return "identity"
	}
	return "policy"
}

func domainOf(v syncv1.View) (domain, bool) {
	switch v {
	case syncv1.View_VIEW_IDENTITY:
		return identity, true
	case syncv1.View_VIEW_STABLE:
		return policy, true
	}
	return 0, false
}
