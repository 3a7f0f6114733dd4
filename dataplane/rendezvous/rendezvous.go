// Package rendezvous places things on members by weighted rendezvous hashing: whoever
// computes it with the same members chooses the same one, and a member that comes or
// goes moves only what it gains or loses.
package rendezvous

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// Value is how strongly a member attracts what root names; the highest wins. A member
// wins in proportion to its weight, which is at least 1.
func Value(root, member string, weight int32) float64 {
	return -float64(weight) / math.Log(Unit(root, member))
}

// Unit is a number in (0, 1) made of its parts: the first 53 bits of the SHA-256 of the
// parts joined by 0x00.
func Unit(a, b string) float64 {
	var room [160]byte
	buf := append(append(append(room[:0], a...), 0), b...)
	sum := sha256.Sum256(buf)
	return (float64(binary.BigEndian.Uint64(sum[:8])>>11) + 0.5) / (1 << 53)
}
