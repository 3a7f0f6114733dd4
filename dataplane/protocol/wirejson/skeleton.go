package wirejson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

const (
	// skeletonFrom is the size of a body from which on a skeleton is worth making.
	skeletonFrom = 4 << 10
	// skeletonMax is what a skeleton may take, or an eighth of the body if that is more.
	skeletonMax = 64 << 10
	// keepOfRun is how many bytes of a run stay at its start. The hex digits of an escape
	// that ends there are among them, and what stands before and after never meet: no two
	// halves of a surrogate pair, no two parts of a character.
	keepOfRun = 8
	// cutFrom is how many bytes a cut takes out at least.
	cutFrom = 32
)

// skeleton is a body without the insides of its long texts. It is valid JSON exactly
// if the body is, and has the same tokens in the same order; only values that are
// strings are shorter. What is left out was found to be harmless: valid UTF-8 without
// quotes, backslashes and control characters, from within a string. Names of members
// stay whole, so that duplicates are found.
//
// It exists because the tokenizer looks at every byte of a string by itself, and this
// looks at eight at once.
type skeleton struct {
	buf  []byte
	cuts []cut
	next int // the first cut that the offset asked for last did not pass
	gone int // bytes left out before it
}

// cut is a place where bytes were left out.
type cut struct {
	at   int // in the skeleton
	gone int // bytes left out here and at all places before
}

// of makes the skeleton of a body. It reports false, and is of no use, if there is
// nothing to gain or if the body has something in a string that is not allowed: the
// caller then reads the body itself, and finds the error where it is.
func (s *skeleton) of(data []byte) bool {
	s.buf, s.cuts, s.next, s.gone = s.buf[:0], s.cuts[:0], 0, 0
	if len(data) < skeletonFrom {
		return false
	}
	limit := max(skeletonMax, len(data)/8)
	if s.buf == nil { // room at once for what agents send, instead of growing to it
		s.buf, s.cuts = make([]byte, 0, min(len(data)/8, skeletonMax)), make([]cut, 0, min(len(data), 8*skeletonMax)/512)
	}
	from := 0 // what follows was neither kept nor left out yet
	for at := 0; ; {
		quote := bytes.IndexByte(data[at:], '"')
		if quote < 0 {
			break
		}
		at += quote + 1
		whole, cuts, before := len(s.buf), len(s.cuts), from
		for {
			n, ascii := plainRun(data[at:])
			end := at + n
			if end >= len(data) || !ascii && !utf8.Valid(data[at:end]) {
				return false
			}
			if n >= keepOfRun+utf8.UTFMax+cutFrom {
				at += keepOfRun
				for !utf8.RuneStart(data[at]) {
					at++
				}
				s.leaveOut(data, from, at, end)
				from = end
			}
			at = end + 1
			if data[end] == '"' {
				break
			}
			if data[end] != '\\' || at >= len(data) {
				return false
			}
			at++ // what the backslash escapes is judged by the tokenizer
		}
		if len(s.cuts) > cuts && startsName(data[at:]) {
			s.buf, s.cuts, from = s.buf[:whole], s.cuts[:cuts], before
		}
		if len(s.buf)+at-from > limit {
			return false
		}
	}
	if len(s.cuts) == 0 || len(s.buf)+len(data)-from > limit {
		return false
	}
	s.buf = append(s.buf, data[from:]...)
	return true
}

// leaveOut keeps data up to at and leaves out what comes then, up to end.
func (s *skeleton) leaveOut(data []byte, from, at, end int) {
	s.buf = append(s.buf, data[from:at]...)
	gone := end - at
	if n := len(s.cuts); n > 0 {
		gone += s.cuts[n-1].gone
	}
	s.cuts = append(s.cuts, cut{at: len(s.buf), gone: gone})
}

// offset is where in the body the skeleton's byte at stands, for offsets between
// tokens. They must not decrease from call to call.
func (s *skeleton) offset(at int) int {
	for s.next < len(s.cuts) && s.cuts[s.next].at < at {
		s.gone = s.cuts[s.next].gone
		s.next++
	}
	return at + s.gone
}

// release gives up memory that only large bodies need.
func (s *skeleton) release() {
	if cap(s.buf) > 4*skeletonMax || cap(s.cuts) > skeletonMax/8 {
		*s = skeleton{}
	}
}

// startsName reports whether a string that ends before b is the name of a member.
func startsName(b []byte) bool {
	b = skipSpace(b)
	return len(b) > 0 && b[0] == ':'
}

// plainRun is how many bytes at the start of b are neither quotes, backslashes nor
// control characters, and whether all of them are ASCII.
//
// It looks at eight bytes at once: with every byte below 0x80, c-k borrows into the
// high bit of a byte exactly if c < k. c^0x02 is below 0x21 for a quote (0x22) and for
// what is below 0x20, and nothing else; c^'\\' is below 1 for a backslash. Bytes from
// 0x80 on are masked out. A borrow can reach the bytes above a hit, never those
// below, so the lowest hit is a true one.
func plainRun(b []byte) (n int, ascii bool) {
	const (
		ones = 0x0101010101010101
		high = 0x80 * ones
	)
	hitsOf := func(w uint64) uint64 {
		return ((w ^ 0x02*ones - 0x21*ones) | (w ^ '\\'*ones - ones)) &^ w & high
	}
	seen := uint64(0)
	for len(b)-n >= 32 {
		four := (*[32]byte)(b[n:])
		w0, w1 := binary.LittleEndian.Uint64(four[:8]), binary.LittleEndian.Uint64(four[8:16])
		w2, w3 := binary.LittleEndian.Uint64(four[16:24]), binary.LittleEndian.Uint64(four[24:])
		if hitsOf(w0)|hitsOf(w1)|hitsOf(w2)|hitsOf(w3) != 0 {
			break
		}
		seen |= w0 | w1 | w2 | w3
		n += 32
	}
	for len(b)-n >= 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		hits := hitsOf(w)
		if hits != 0 {
			i := bits.TrailingZeros64(hits) &^ 7
			return n + i/8, (seen|w&(1<<i-1))&high == 0
		}
		seen |= w
		n += 8
	}
	for n < len(b) && b[n] >= ' ' && b[n] != '"' && b[n] != '\\' {
		seen |= uint64(b[n])
		n++
	}
	return n, seen&high == 0
}
