// Package ident makes and reads the ids of everything that has one.
//
// An id is a lower-case prefix, an underscore and a UUID of version 7
// (RFC 9562, section 5.7) in 26 characters of Crockford's base 32, lower case:
//
//	req_01j9zk3v8qf0h7m2x5r4t6w8y0
//
// The text sorts as the UUID does, so ids of one kind sort by the time they
// were made. Of the 128 bits, 48 are Unix milliseconds, 12 order the ids of one
// millisecond (RFC 9562, section 6.2, method 3) and 62 are random from
// crypto/rand, so an id cannot be guessed from the one before it.
package ident

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// ErrMalformed is in the tree of every error that Parse and Time return.
var ErrMalformed = errors.New("malformed id")

const (
	alphabet = "0123456789abcdefghjkmnpqrstvwxyz" // Crockford: no i, l, o, u
	bodyLen  = 26                                 // 130 bits hold 128; the first character is 0 to 7
	fracBits = 12
	maxMilli = 1<<48 - 1
)

// lastTick is the largest 60-bit tick (milliseconds, then 1/4096 of one) this
// process has put into an id. Order within a process cannot be had without
// memory, and it must hold across every caller, so this one word is global.
var lastTick atomic.Uint64

// New returns a new id of kind p. Within a process each id sorts after those
// made before it, whichever goroutine asked; when the wall clock steps back,
// ids go on from the latest time seen until the clock has caught up.
//
// New panics if p is not 2 to 8 lower-case letters, which is a defect of the
// caller. Safe for concurrent use.
func New(p Prefix) string {
	now := tick(time.Now())
	for {
		last := lastTick.Load()
		next := max(now, last+1)
		if lastTick.CompareAndSwap(last, next) {
			return Format(p, assemble(next))
		}
	}
}

// NewAt returns a new id of kind p that carries the time t. Ids of one
// 1/4096 millisecond come in no particular order. A time before 1970 or beyond
// 48 bits of milliseconds (the year 10889) is moved to that bound.
// It panics as New does. Safe for concurrent use.
func NewAt(p Prefix, t time.Time) string {
	return Format(p, assemble(tick(t)))
}

// Format returns the id of kind p over a UUID that is at hand, for instance
// one read back from a database. It does not look at version and variant bits.
// It panics if p is not 2 to 8 lower-case letters.
func Format(p Prefix, uuid [16]byte) string {
	if !p.wellFormed() {
		panic(fmt.Sprintf("ident: prefix %q is not 2 to 8 lower-case letters", string(p)))
	}
	var buf [prefixMax + 1 + bodyLen]byte
	n := copy(buf[:], p)
	buf[n] = '_'
	encode(buf[n+1:n+1+bodyLen], uuid)
	return string(buf[:n+1+bodyLen])
}

// Parse splits an id into its prefix and UUID. It accepts exactly what Format
// writes over a version 7 UUID: upper case, Crockford's look-alike letters and
// other versions are refused, so that one thing has one spelling. A prefix this
// release does not know is accepted; Valid compares it.
func Parse(s string) (Prefix, [16]byte, error) {
	var uuid [16]byte
	head, body, ok := strings.Cut(s, "_")
	p := Prefix(head)
	switch {
	case !ok || !p.wellFormed():
		return "", uuid, fmt.Errorf("%w %s: want a prefix of lower-case letters and an underscore", ErrMalformed, shown(s))
	case len(body) != bodyLen:
		return "", uuid, fmt.Errorf("%w %s: %d characters after the prefix, want %d", ErrMalformed, shown(s), len(body), bodyLen)
	case !decode(body, &uuid):
		return "", [16]byte{}, fmt.Errorf("%w %s: not lower-case base 32 of 128 bits", ErrMalformed, shown(s))
	case uuid[6]>>4 != 7 || uuid[8]>>6 != 0b10:
		return "", [16]byte{}, fmt.Errorf("%w %s: not a version 7 UUID", ErrMalformed, shown(s))
	}
	return p, uuid, nil
}

// Valid reports whether s is an id of kind p.
func Valid(p Prefix, s string) bool {
	got, _, err := Parse(s)
	return err == nil && got == p
}

// Time returns the millisecond in which s was made, in UTC.
func Time(s string) (time.Time, error) {
	_, uuid, err := Parse(s)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(uuid[:8]) >> 16)).UTC(), nil
}

// tick converts t to milliseconds and 1/4096 parts of one, in 60 bits.
func tick(t time.Time) uint64 {
	ms := t.UnixMilli()
	switch {
	case ms < 0:
		return 0
	case ms > maxMilli:
		return maxMilli<<fracBits | (1<<fracBits - 1)
	}
	frac := uint64(t.Nanosecond()%1_000_000) << fracBits / 1_000_000
	return uint64(ms)<<fracBits | frac
}

// assemble lays a tick and 62 random bits out as a version 7 UUID.
func assemble(tick uint64) [16]byte {
	var u [16]byte
	_, _ = rand.Read(u[8:]) // never fails: crypto/rand ends the process instead
	binary.BigEndian.PutUint64(u[:8], tick>>fracBits<<16|7<<fracBits|tick&(1<<fracBits-1))
	u[8] = u[8]&0x3f | 0x80
	return u
}

func encode(dst []byte, u [16]byte) {
	hi, lo := binary.BigEndian.Uint64(u[:8]), binary.BigEndian.Uint64(u[8:])
	for i := bodyLen - 1; i >= 0; i-- {
		dst[i] = alphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
}

func decode(s string, u *[16]byte) bool {
	var hi, lo uint64
	if s[0] > '7' { // more than 128 bits
		return false
	}
	for i := range len(s) {
		v, ok := digit(s[i])
		if !ok {
			return false
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | v
	}
	binary.BigEndian.PutUint64(u[:8], hi)
	binary.BigEndian.PutUint64(u[8:], lo)
	return true
}

// digit returns the value of one base 32 character. The letters i, l, o and u
// are not in the alphabet, so each later letter moves down.
func digit(c byte) (uint64, bool) {
	switch {
	case c >= '0' && c <= '9':
		return uint64(c - '0'), true
	case c >= 'a' && c <= 'h':
		return uint64(c-'a') + 10, true
	case c == 'j' || c == 'k':
		return uint64(c-'j') + 18, true
	case c == 'm' || c == 'n':
		return uint64(c-'m') + 20, true
	case c >= 'p' && c <= 't':
		return uint64(c-'p') + 22, true
	case c >= 'v' && c <= 'z':
		return uint64(c-'v') + 27, true
	}
	return 0, false
}

// shown quotes an id for an error, cut to a length that fits a log line.
func shown(s string) string {
	const most = 64
	if len(s) > most {
		return fmt.Sprintf("%q (cut)", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
