package upstream

import (
	"bufio"
	"errors"
	"io"
	"net/http/httputil"
)

// chunked reads a chunked body to its end, trailer included, so that the connection
// stands before the next answer.
type chunked struct {
	src   *bufio.Reader
	data  io.Reader
	ended bool // the last chunk was read, the trailer was not
}

func newChunked(src *bufio.Reader) *chunked {
	return &chunked{src: src, data: httputil.NewChunkedReader(src)}
}

// Read implements io.Reader. io.EOF means that the last chunk and the trailer were
// read; a body that breaks off ends with io.ErrUnexpectedEOF.
func (c *chunked) Read(p []byte) (int, error) {
	n := 0
	if !c.ended {
		var err error
		if n, err = c.data.Read(p); !errors.Is(err, io.EOF) {
			return n, err
		}
		c.ended = true
		if n > 0 && c.src.Buffered() < len("\r\n") {
			return n, nil // what there is does not wait for the trailer
		}
	}
	if err := c.trailer(); err != nil {
		return n, err
	}
	return n, io.EOF
}

// maxTrailer bounds the trailer, which is read and dropped: no provider's protocol
// uses one.
const maxTrailer = 16 << 10

func (c *chunked) trailer() error {
	left := maxTrailer
	for {
		line, err := c.src.ReadSlice('\n')
		if left -= len(line); left < 0 {
			return malformedError("its trailer is too large")
		}
		switch {
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case errors.Is(err, bufio.ErrBufferFull):
			return malformedError("a line of its trailer is too long")
		case err != nil:
			return err
		}
		if len(line) == 1 || len(line) == 2 && line[0] == '\r' {
			return nil
		}
	}
}
