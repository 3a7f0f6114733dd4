package snapshot

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A file of the last good configuration is a list of frames:
//
//	length of type and body   4 bytes, big endian
//	CRC-32C of type and body  4 bytes, big endian
//	type                      1 byte
//	body
//
// The first frame is a header. Shard frames that follow each other belong to the
// commit frame after them; without one they are void. In bodies, numbers are big
// endian and texts stand after their length in 2 bytes.
const (
	frameHeader     = 'H' // format version, domain, 1 if a base state follows
	framePut        = 'P' // key, bytes of the shard
	frameDelete     = 'D' // key
	frameHeld       = 'h' // key, 1 if a version serves, bytes of that version
	frameCommit     = 'C' // position, version of the node, pins
	frameTrying     = 'T' // deaths, first and last position on trial; no body: none
	frameQuarantine = 'Q' // position, version of the node
)

const (
	formatVersion = 1
	// maxFrame bounds a frame: a commit that pins 100,000 shards still fits.
	maxFrame = 32 << 20
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	errFrame = errors.New("damaged frame")
)

// appendFrame adds a frame to b; body writes what follows the type.
func appendFrame(b []byte, kind byte, body func([]byte) []byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, kind)
	if body != nil {
		b = body(b)
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-8))
	binary.BigEndian.PutUint32(b[at+4:], crc32.Checksum(b[at+8:], castagnoli))
	return b
}

// frameReader reads frames and knows where the next one begins.
type frameReader struct {
	r  *bufio.Reader
	at int64
}

func newFrameReader(r io.Reader) *frameReader { return &frameReader{r: bufio.NewReaderSize(r, 1<<20)} }

// next returns the type and body of a frame; the body is the caller's. At the end
// it returns io.EOF, at a torn or changed frame errFrame.
func (f *frameReader) next() (kind byte, body []byte, err error) {
	var head [8]byte
	switch _, err := io.ReadFull(f.r, head[:]); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return 0, nil, errFrame
	case err != nil:
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxFrame {
		return 0, nil, errFrame
	}
	// Grow with what is there, so that a damaged length does not take memory.
	frame := make([]byte, 0, min(n, 64<<10))
	for len(frame) < int(n) {
		step := min(int(n)-len(frame), max(cap(frame)-len(frame), 64<<10))
		frame = append(frame, make([]byte, step)...)
		if _, err := io.ReadFull(f.r, frame[len(frame)-step:]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return 0, nil, errFrame
			}
			return 0, nil, err
		}
	}
	if crc32.Checksum(frame, castagnoli) != binary.BigEndian.Uint32(head[4:]) {
		return 0, nil, errFrame
	}
	f.at += int64(len(head)) + int64(n)
	return frame[0], frame[1:], nil
}

func appendText(b []byte, s string) []byte {
	s = s[:min(len(s), 1<<16-1)]
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendFlag(b []byte, f bool) []byte {
	if f {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendPosition(b []byte, p Position) []byte {
	b = binary.BigEndian.AppendUint64(b, p.Epoch)
	b = binary.BigEndian.AppendUint64(b, p.Generation)
	return append(b, p.Root[:]...)
}

// cursor reads a body. After the first thing that is not there it reads zeros, and
// err is set.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.err, c.b = fmt.Errorf("%w: body too short", errFrame), nil
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) u16() int {
	if b := c.take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) flag() bool {
	b := c.take(1)
	return b != nil && b[0] != 0
}

func (c *cursor) text() string { return string(c.take(c.u16())) }

func (c *cursor) position() Position {
	p := Position{Epoch: c.u64(), Generation: c.u64()}
	copy(p.Root[:], c.take(len(p.Root)))
	return p
}
