package sse

import (
	"errors"
	"io"
)

// readSize is the buffer a Reader reads into: small, because a node holds
// thousands of streams that wait.
const readSize = 4 << 10

// Reader reads frames from a stream. It is the pull form of Parser, for callers
// that handle one frame at a time. Not safe for concurrent use.
type Reader struct {
	src    io.Reader
	parser Parser
	buf    []byte
	err    error
}

// NewReader returns a Reader over src. maxFrame bounds one frame in bytes; 0
// means DefaultMaxFrame.
func NewReader(src io.Reader, maxFrame int) *Reader {
	return &Reader{src: src, parser: Parser{MaxFrame: maxFrame}}
}

// Next returns the next frame, valid until the following call. At the end of the
// stream it returns io.EOF, after an unfinished frame marked Tail if there was
// one. It fails with *TooLargeError for a frame over the limit, and with the
// error of the source. An error is final. When the source fails in the middle of
// a frame, what was read of it is returned as Tail before the error.
func (r *Reader) Next() (Frame, error) {
	for {
		if f, ok := r.parser.Next(); ok {
			return f, nil
		}
		if err := r.parser.Err(); err != nil {
			return Frame{}, err
		}
		if r.err != nil {
			return Frame{}, r.err
		}
		if r.buf == nil {
			r.buf = make([]byte, readSize)
		}
		n, err := r.src.Read(r.buf)
		r.parser.Feed(r.buf[:n])
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.EOF
			}
			r.err = err
			r.parser.Finish()
		}
	}
}

// Buffered is the number of bytes of memory the reader holds.
func (r *Reader) Buffered() int { return cap(r.buf) + r.parser.Buffered() }
