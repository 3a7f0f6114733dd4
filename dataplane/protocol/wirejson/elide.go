package wirejson

import (
	"bytes"
	"io"
)

// elideAt is the size, quotes included, from which on a string counts as cut. The
// elider lets this many bytes of a string pass, then drops the rest of it.
const elideAt = 1024

// elider passes JSON through with long strings cut short, and remembers how long
// they were. It tracks nothing but strings and escapes, so invalid JSON stays
// invalid. Every string of elideAt bytes or more, quotes included, has its length
// queued, so that the reader behind it can tell them by their size alone.
type elider struct {
	src   io.Reader
	store []byte
	buf   []byte // what was read from src and not looked at yet
	err   error

	inside   bool // within a string
	escape   escape
	dropping bool  // the rest of the string is dropped
	passed   int   // bytes of the string let through, its first quote included
	text     int64 // length of the string's text so far

	lengths []int64 // of the cut strings that were not taken yet, in order
	last    int64   // the length taken last
}

// escape is where in an escape sequence the elider is: how many hex digits are
// still to come, or that the character after the backslash is.
type escape int8

const (
	noEscape   escape = 0
	escapeHex  escape = 4
	escapeKind escape = -1
)

func (e *elider) reset(src io.Reader) {
	store := e.store
	if store == nil {
		store = make([]byte, 8<<10)
	}
	*e = elider{src: src, store: store, lengths: e.lengths[:0]}
}

// release drops the source and what was read from it, and keeps the memory.
func (e *elider) release() {
	*e = elider{store: e.store, lengths: e.lengths[:0]}
}

// pop takes the length of the next cut string.
func (e *elider) pop() {
	e.last = 0
	if len(e.lengths) > 0 {
		e.last = e.lengths[0]
		e.lengths = append(e.lengths[:0], e.lengths[1:]...)
	}
}

// Read fills p with JSON whose long strings are cut.
func (e *elider) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if len(e.buf) == 0 {
			if e.err != nil {
				return 0, e.err
			}
			var n int
			n, e.err = e.src.Read(e.store)
			e.buf = e.store[:n]
		}
		n, used := e.move(p, e.buf)
		e.buf = e.buf[used:]
		if n > 0 {
			return n, nil
		}
	}
}

// move copies src to dst without the tails of long strings. It returns how many
// bytes it wrote and how many it looked at.
func (e *elider) move(dst, src []byte) (n, used int) {
	for used < len(src) && n < len(dst) {
		c := src[used]
		keep := true
		switch {
		case !e.inside:
			if c == '"' {
				e.inside, e.dropping, e.passed, e.text = true, false, 0, 0
			}
		case e.escape == escapeKind:
			e.escape = noEscape
			if c == 'u' {
				e.escape = escapeHex
				e.text += 2 // three bytes in all, the usual length of an escaped character
			}
			keep = !e.dropping
		case e.escape > noEscape:
			e.escape--
			keep = !e.dropping
		case c == '"':
			if e.passed+1 >= elideAt {
				e.lengths = append(e.lengths, e.text)
			}
			e.inside = false
		default:
			// An escape is kept or dropped as a whole: the cut is made between characters.
			e.dropping = e.passed >= elideAt-1
			if e.dropping && c != '\\' {
				plain := plainLen(src[used:])
				e.text += int64(plain)
				used += plain
				continue
			}
			keep = !e.dropping
			e.text++
			if c == '\\' {
				e.escape = escapeKind
			}
		}
		used++
		if keep {
			dst[n] = c
			n++
			e.passed++
		}
	}
	return n, used
}

// plainLen is how many bytes at the start of b are neither a quote nor a backslash.
func plainLen(b []byte) int {
	const window = 1024
	for at := 0; at < len(b); at += window {
		w := b[at:min(at+window, len(b))]
		quote := bytes.IndexByte(w, '"')
		if quote >= 0 {
			w = w[:quote]
		}
		if slash := bytes.IndexByte(w, '\\'); slash >= 0 {
			return at + slash
		}
		if quote >= 0 {
			return at + quote
		}
	}
	return len(b)
}
