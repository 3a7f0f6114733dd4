package snapshot

import "strconv"

// units joins shards that must become visible together: those of one tx_group, and
// those that were held back together before. A shard in two groups joins them.
type units struct{ parent map[string]string }

func newUnits() units { return units{parent: make(map[string]string)} }

func (u units) find(x string) string {
	for {
		p, ok := u.parent[x]
		if !ok {
			u.parent[x] = x
			return x
		}
		if p == x {
			return x
		}
		// Halving keeps the paths short without recursion.
		u.parent[x] = u.parent[p]
		x = u.parent[x]
	}
}

func (u units) join(a, b string) {
	if ra, rb := u.find(a), u.find(b); ra != rb {
		// The smaller name stays, so that the result does not depend on the order.
		if ra > rb {
			ra, rb = rb, ra
		}
		u.parent[rb] = ra
	}
}

// Names of groups begin with a byte that no shard key begins with.

func groupName(group uint32) string { return "\x00" + strconv.FormatUint(uint64(group), 10) }

func pinName(unit string) string { return "\x01" + unit }
