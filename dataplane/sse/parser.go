// Package sse frames server-sent events: it cuts a byte stream into events
// without changing a byte of it, and writes events of the gateway's own.
//
// The framing follows the "event stream interpretation" chapter of the WHATWG
// HTML standard: lines end in LF, CRLF or CR in any mixture, several data lines
// join with LF, a line that starts with a colon is a comment, and a blank line
// ends an event. Unlike a browser it keeps every byte (comments, blank lines and
// an unfinished event at the end included), because a gateway passes on what it
// got.
package sse

import (
	"bytes"
	"fmt"
)

// DefaultMaxFrame is the largest frame a Parser accepts unless configured
// otherwise: 16 MiB. A single event can carry an image or a whole response.
const DefaultMaxFrame = 16 << 20

// byteOrderMark may stand at the very start of a stream and belongs to no field.
const byteOrderMark = "\xef\xbb\xbf"

// keepBuffer is the largest buffer a Parser keeps after the frame that needed it.
const keepBuffer = 16 << 10

// Frame is one event as it stood on the wire. Its slices are valid until the
// next call on the Parser or Reader that made it.
type Frame struct {
	Raw   []byte // every byte of the frame, its blank line included
	Event []byte // value of the last event field; nil if there was none
	Data  []byte // values of the data fields joined with LF; nil if there was none
	Tail  bool   // the stream ended before the blank line
}

// Empty reports whether the frame carries no event: only comments, blank lines,
// or fields other than event and data.
func (f Frame) Empty() bool { return f.Data == nil && f.Event == nil }

// TooLargeError says that a frame exceeded the limit.
type TooLargeError struct {
	Limit int // the limit in bytes
}

// Error names the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("sse frame is larger than %d bytes", e.Limit)
}

type lineEnd uint8

const (
	endLF lineEnd = iota
	endCR
	endCRLF
)

// Parser cuts chunks of a stream into frames. The zero value is ready to use.
//
// Feed it a chunk, take frames with Next until it reports none, then feed the
// next chunk; at the end of the stream call Finish and take the rest. However
// the stream is cut into chunks, the frames are the same, and their Raw bytes
// put together are the stream. A frame that lies within one chunk is not copied.
// Not safe for concurrent use.
type Parser struct {
	// MaxFrame bounds the size of one frame in bytes. Default DefaultMaxFrame.
	MaxFrame int

	chunk []byte // what is left of the chunk that was fed; not ours
	buf   []byte // start of a frame that began in an earlier chunk
	taken bool   // buf was handed out as a frame and may be reused
	join  []byte // scratch for several data lines
	done  bool   // Finish was called
	begun bool   // the first line has been read, so no byte order mark can follow
	err   error

	end    lineEnd // how the last line ended
	eatLF  bool    // an LF now belongs to the CR that ended the frame before
	cr     bool    // a CR was read; an LF now belongs to it
	blank  bool    // that CR ended a blank line
	pos    int     // offset in the frame up to which it was read
	line   int     // offset in the frame where the current line starts
	event  span
	data   span
	joined bool // data lies in join, not in the frame
}

type span struct {
	from, to int
	set      bool
}

// Feed gives the parser the next bytes of the stream. The chunk must stay
// unchanged until Next has reported that it needs more. Feeding before that
// is allowed but copies what is left.
func (p *Parser) Feed(chunk []byte) {
	p.recycle()
	if len(p.chunk) > 0 {
		// The caller fed early: keep the order by copying what is left.
		chunk = append(append(make([]byte, 0, len(p.chunk)+len(chunk)), p.chunk...), chunk...)
	}
	p.chunk = chunk
}

// Finish says that the stream has ended: Next then hands out an unfinished
// frame, if there is one, marked as Tail.
func (p *Parser) Finish() { p.done = true }

// Next returns the next frame. It reports false when it needs more bytes, when
// the stream is over, or when a frame is larger than MaxFrame; Err tells which.
func (p *Parser) Next() (Frame, bool) {
	if p.err != nil {
		return Frame{}, false
	}
	p.recycle()
	if len(p.buf) == 0 {
		// The usual case: the frame lies in the chunk and needs no copy.
		if n, ok := p.scan(p.chunk); ok {
			raw := p.chunk[:n]
			p.chunk = p.chunk[n:]
			return p.emit(raw, false)
		}
		rest := p.chunk
		p.chunk = nil
		if !p.keep(rest) {
			return Frame{}, false
		}
		return p.finishTail()
	}
	for len(p.chunk) > 0 {
		// Only what belongs to the frame is copied, line by line.
		n := p.piece()
		if !p.keep(p.chunk[:n]) {
			return Frame{}, false
		}
		p.chunk = p.chunk[n:]
		_, ok := p.scan(p.buf)
		if !ok && p.cr && len(p.chunk) > 0 && p.chunk[0] != '\n' {
			ok = p.settleCR()
		}
		if ok {
			p.taken = true
			return p.emit(p.buf, false)
		}
	}
	return p.finishTail()
}

// Err is what stopped the parser: a *TooLargeError, or nil.
func (p *Parser) Err() error { return p.err }

// Buffered is the number of bytes of memory the parser holds.
func (p *Parser) Buffered() int { return cap(p.buf) + cap(p.join) }

// finishTail hands out what is left once the stream has ended.
func (p *Parser) finishTail() (Frame, bool) {
	if !p.done || len(p.buf) == 0 {
		return Frame{}, false
	}
	p.taken = true
	if p.cr && p.settleCR() {
		return p.emit(p.buf, false)
	}
	if p.line < len(p.buf) {
		p.field(p.buf, p.line, len(p.buf))
	}
	lone := len(p.buf) == 1 && p.line == 1 // the LF of the CR that ended the frame before
	return p.emit(p.buf, !lone)
}

// piece is how much of the chunk goes to the buffer before the buffer is looked
// at again: up to and with the next line end.
func (p *Parser) piece() int {
	if p.cr {
		if p.chunk[0] == '\n' {
			return 1
		}
		return 0
	}
	if i := lineEndIn(p.chunk); i >= 0 {
		return i + 1
	}
	return len(p.chunk)
}

func (p *Parser) keep(b []byte) bool {
	if len(p.buf)+len(b) > p.limit() {
		p.fail()
		return false
	}
	p.buf = append(p.buf, b...)
	return true
}

func (p *Parser) fail() {
	p.err = &TooLargeError{Limit: p.limit()}
	p.buf, p.chunk, p.join = nil, nil, nil
}

func (p *Parser) limit() int {
	if p.MaxFrame > 0 {
		return p.MaxFrame
	}
	return DefaultMaxFrame
}

// recycle takes back the buffer of the frame that was handed out last. A giant
// frame must not cost its memory for the rest of the stream.
func (p *Parser) recycle() {
	if cap(p.join) > keepBuffer {
		p.join = nil
	}
	if !p.taken {
		return
	}
	p.taken = false
	p.buf = p.buf[:0]
	if cap(p.buf) > keepBuffer {
		p.buf = nil
	}
}

// scan reads b, which starts at the frame's first byte, from where it stopped
// before. It returns the frame's length once the frame is complete.
func (p *Parser) scan(b []byte) (int, bool) {
	if p.eatLF && len(b) > 0 {
		p.eatLF = false
		if b[0] == '\n' {
			p.pos, p.line = 1, 1
		}
	}
	for p.pos < len(b) {
		if p.cr {
			if b[p.pos] == '\n' {
				p.pos++
				p.end = endCRLF
			}
			if p.settleCR() {
				return p.pos, true
			}
			continue
		}
		i := lineEndIn(b[p.pos:])
		if i < 0 {
			p.pos = len(b)
			return 0, false
		}
		i += p.pos
		p.pos = i + 1
		isCR := b[i] == '\r'
		blank := i == p.line
		if blank && isCR && p.end == endCR {
			// In a stream of CR lines an LF would never come: do not wait for it.
			p.eatLF = true
			return p.pos, true
		}
		if !blank {
			p.field(b, p.line, i)
		}
		p.line = p.pos
		if isCR {
			p.cr, p.blank, p.end = true, blank, endCR
			continue
		}
		p.end = endLF
		if blank {
			return p.pos, true
		}
	}
	return 0, false
}

// settleCR ends the line whose CR was read: its LF was just read, or will not
// come. It reports whether that line ended the frame.
func (p *Parser) settleCR() bool {
	p.cr = false
	p.line = p.pos
	return p.blank
}

// field notes the value of the line b[from:to]. b starts at the frame's first byte.
func (p *Parser) field(b []byte, from, to int) {
	if !p.begun {
		p.begun = true
		if bytes.HasPrefix(b[from:to], []byte(byteOrderMark)) {
			from += len(byteOrderMark)
		}
	}
	line := b[from:to]
	colon := bytes.IndexByte(line, ':')
	name, value := line, span{from: to, to: to, set: true}
	if colon >= 0 {
		name = line[:colon]
		value.from = from + colon + 1
		if value.from < to && b[value.from] == ' ' {
			value.from++
		}
	}
	switch string(name) {
	case "event":
		p.event = value
	case "data":
		switch {
		case !p.data.set:
			p.data = value
		case !p.joined:
			p.joined = true
			p.join = append(p.join[:0], b[p.data.from:p.data.to]...)
			fallthrough
		default:
			p.join = append(append(p.join, '\n'), b[value.from:value.to]...)
		}
	}
}

// emit makes a frame of raw and readies the parser for the next one.
func (p *Parser) emit(raw []byte, tail bool) (Frame, bool) {
	if len(raw) > p.limit() {
		p.fail()
		return Frame{}, false
	}
	f := Frame{Raw: raw, Tail: tail}
	if p.event.set {
		f.Event = raw[p.event.from:p.event.to]
	}
	switch {
	case p.joined:
		f.Data = p.join
	case p.data.set:
		f.Data = raw[p.data.from:p.data.to]
	}
	p.pos, p.line, p.cr, p.blank = 0, 0, false, false
	p.event, p.data, p.joined = span{}, span{}, false
	return f, true
}

// lineEndIn is the offset of the first CR or LF in b, or -1. It looks in windows
// so that a stream of CR lines does not search far for an LF on every line.
func lineEndIn(b []byte) int {
	const window = 2048
	for at := 0; at < len(b); at += window {
		w := b[at:min(at+window, len(b))]
		lf := bytes.IndexByte(w, '\n')
		if lf >= 0 {
			w = w[:lf]
		}
		if cr := bytes.IndexByte(w, '\r'); cr >= 0 {
			return at + cr
		}
		if lf >= 0 {
			return at + lf
		}
	}
	return -1
}
