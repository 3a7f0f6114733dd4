package inbound

import (
	"errors"
	"io"
	"math/bits"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

// Body is a request body in a pooled buffer. It is shared by the handler and the
// upstream attempts; the buffer is reused when the last of them has let go.
type Body struct {
	Bytes []byte

	refs atomic.Int32
	pool *buffers
}

// Hold keeps the buffer until the returned function is called; further calls of it
// do nothing.
func (b *Body) Hold() (release func()) {
	b.refs.Add(1)
	h := &hold{body: b}
	return h.release
}

// hold is one hold of a Body.
type hold struct {
	body     *Body
	released atomic.Bool
}

func (h *hold) release() {
	if !h.released.Swap(true) {
		h.body.release()
	}
}

// release lets go of one hold. The first one is the handler's own.
func (b *Body) release() {
	if b.refs.Add(-1) == 0 && b.pool != nil {
		b.pool.put(b.Bytes)
		b.Bytes, b.pool = nil, nil
	}
}

// A client that sends a body may be silent for bodyIdle, and may take bodyGrace and
// another second for every bodyRate bytes that came: one that sends a byte now and
// then would otherwise hold its buffer for as long as it likes.
const (
	bodyIdle  = 30 * time.Second
	bodyGrace = time.Minute
	bodyRate  = 16 << 10
)

// bodyUntil is when the next bytes of a body must be there.
func bodyUntil(start, now time.Time, have int) time.Time {
	idle := now.Add(bodyIdle)
	if whole := start.Add(bodyGrace + time.Duration(have/bodyRate)*time.Second); whole.Before(idle) {
		return whole
	}
	return idle
}

// firstBuffer is how much is made room for before a byte of the body came. What a
// client announces costs it nothing, so the rest of the room follows what it sends.
const firstBuffer = 256 << 10

// read reads the whole body of a request, at most limit bytes.
func (b *buffers) read(w http.ResponseWriter, r *http.Request, limit int64) (*Body, *fault.Error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, fault.Newf(fault.UnsupportedEncoding, "the request body has the content encoding %.64q; send it without one", enc)
	}
	// One byte more than announced, so that the end is seen without growing.
	size, most := 16<<10, int(limit)+1
	if r.ContentLength >= 0 {
		most = int(r.ContentLength) + 1
		size = min(most, firstBuffer)
	}
	buf := b.get(size)
	start := time.Now()
	rc := http.NewResponseController(w)
	until := time.Time{} // the deadline that is set
	for {
		if len(buf) == cap(buf) {
			bigger := b.get(max(min(growth(cap(buf))*cap(buf), most), cap(buf)+1))
			bigger = append(bigger, buf...)
			b.put(buf)
			buf = bigger
		}
		if next := bodyUntil(start, time.Now(), len(buf)); next.Sub(until) > bodyIdle/16 {
			until = next
			// A server that cannot set deadlines is a test's; the bound then is the test's own.
			_ = rc.SetReadDeadline(until)
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			b.put(buf)
			return nil, tooLarge(limit)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			break
		}
		b.put(buf)
		return nil, readFault(err)
	}
	_ = rc.SetReadDeadline(time.Time{})
	body := &Body{Bytes: buf, pool: b}
	body.refs.Store(1)
	return body, nil
}

// growth is how many times larger the next buffer of a body is. The first step is the
// largest: most prompts that do not fit the first buffer fit the second, and copying
// them along costs as much as reading them.
func growth(size int) int {
	if size <= firstBuffer+firstBuffer/perDoubles {
		return 8
	}
	return 4
}

func tooLarge(limit int64) *fault.Error {
	return fault.Newf(fault.BodyTooLarge, "the request body is larger than the %d bytes this route takes", limit)
}

func readFault(err error) *fault.Error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &fault.Error{Class: fault.BodyTimeout, Err: err}
	}
	var broken *net.OpError
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &broken) {
		return &fault.Error{Class: fault.ClientClosed, Err: err}
	}
	// The client is there and waits for an answer: what it sent is no chunked body.
	return &fault.Error{Class: fault.InvalidRequest, Public: "The body's transfer encoding cannot be read. Send chunks as HTTP/1.1 has them, or a Content-Length.", Err: err}
}

// buffers pools byte slices in classes a quarter apart, so that a buffer is at most
// a quarter larger than what it was asked for: with a thousand bodies in memory at
// once the waste of powers of two would be the largest part of it.
type buffers struct {
	classes [64]sync.Pool
}

const (
	minBuffer  = 4 << 10
	maxPooled  = 4 << 20 // larger ones are rare and left to the collector
	perDoubles = 4
)

// classOf returns the class of the smallest buffer that holds n bytes, and its size.
func classOf(n int) (class, size int) {
	if n <= minBuffer {
		return 0, minBuffer
	}
	double := bits.Len(uint((n - 1) / minBuffer)) // n in (minBuffer<<(double-1), minBuffer<<double]
	base := minBuffer << (double - 1)
	step := base / perDoubles
	quarter := (n - base + step - 1) / step
	return (double-1)*perDoubles + quarter, base + quarter*step
}

func (b *buffers) get(n int) []byte {
	if n > maxPooled {
		return make([]byte, 0, n)
	}
	class, size := classOf(n)
	if p, ok := b.classes[class].Get().(*[]byte); ok {
		return (*p)[:0]
	}
	return make([]byte, 0, size)
}

func (b *buffers) put(buf []byte) {
	class, size := classOf(cap(buf))
	if cap(buf) > maxPooled || size != cap(buf) {
		return
	}
	buf = buf[:0]
	b.classes[class].Put(&buf)
}
