package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

// direct makes a call over a connection of its own pool. Its errors are faults of
// class Connect, if nothing can have been sent, or Reset.
func (t *Transport) direct(ctx context.Context, c *Call, k hostKey) (*http.Response, error) {
	out, err := newOutgoing(c)
	if err != nil {
		done(c.BodyDone)
		return nil, t.fault(ctx, c, fault.Connect, err)
	}
	for {
		if err := ctx.Err(); err != nil {
			out.finish()
			return nil, t.fault(ctx, c, fault.Connect, err)
		}
		cn, reused, err := t.acquire(ctx, k, c.URL.Hostname())
		if err != nil {
			out.finish()
			return nil, t.fault(ctx, c, fault.Connect, err)
		}
		a := &answer{transport: t, conn: cn, ctx: ctx}
		a.stop = context.AfterFunc(ctx, cn.interrupt)
		sent, err := a.exchange(out, c.Method)
		if err == nil {
			return &a.Response, nil
		}
		a.over(false)
		switch {
		case sent:
			return nil, t.fault(ctx, c, fault.Reset, err)
		case reused && ctx.Err() == nil:
			// A kept connection that ended before it took a byte says nothing about the
			// provider: the call goes out on another one.
			continue
		}
		out.finish()
		return nil, t.fault(ctx, c, fault.Connect, err)
	}
}

func (t *Transport) fault(ctx context.Context, c *Call, class fault.Class, err error) error {
	return &fault.Error{Class: class, Err: fmt.Errorf("call %s: %w", c.URL.Host, withCause(ctx, err))}
}

// answer is a provider's answer and the connection on which it comes. It is the
// Response's body, for one goroutine at a time.
type answer struct {
	http.Response
	transport *Transport
	conn      *conn // nil once the call is over
	ctx       context.Context
	stop      func() bool // keeps the end of ctx from touching the connection

	last    bool       // the connection must not be used again
	left    int64      // of a body with a length
	chunked *chunked   // of a body in chunks
	toClose bool       // the body ends with the connection
	written chan error // from the goroutine that writes the request; nil without one
	err     error      // of every further Read
}

// exchange sends the request and reads the head of the answer. The answer may come
// before the request is out: an upstream that refuses a large body need not read it.
// It reports whether a byte may have been sent; if so, out is or will be finished.
func (a *answer) exchange(out *outgoing, method string) (sent bool, err error) {
	var werr error
	if len(out.rest) == 0 {
		var n int64
		n, werr = out.write(a.conn)
		// How much of a failed write TLS had sent, it does not say.
		if werr != nil && n == 0 && a.conn.secure == nil {
			return false, werr
		}
		out.finish()
	} else {
		a.written = make(chan error, 1)
		go a.send(a.conn.Conn, out)
	}
	h, err := readHead(a.conn.buf, method, a.transport.cfg.MaxHeaderBytes)
	switch {
	case err != nil && werr != nil:
		return true, errors.Join(werr, err)
	case err != nil:
		return true, err
	}
	a.last = h.last || werr != nil
	a.Response = http.Response{
		Status:        h.status,
		StatusCode:    h.code,
		Proto:         h.proto,
		ProtoMajor:    1,
		ProtoMinor:    h.minor,
		Header:        h.header,
		ContentLength: h.length,
		Close:         h.last,
		Body:          a,
	}
	switch h.framing {
	case framedLength:
		if a.left = h.length; a.left == 0 {
			a.over(true)
			a.err = io.EOF
		}
	case framedChunked:
		a.chunked = newChunked(a.conn.buf)
	case framedClose:
		a.toClose = true
	}
	return true, nil
}

// afterFailedWrite is how long an answer is waited for when the request could not be
// written whole: the upstream may have said why.
const afterFailedWrite = 2 * time.Second

// send writes the request beside the reading of its answer.
func (a *answer) send(c net.Conn, out *outgoing) {
	_, err := out.write(c)
	out.finish()
	if err != nil {
		_ = c.SetReadDeadline(time.Now().Add(afterFailedWrite))
		if a.ctx.Err() != nil {
			_ = c.SetReadDeadline(longAgo)
		}
	}
	a.written <- err
}

// Read implements io.Reader. The read that takes the last byte of a body reports its
// end. When the call's context ended, its cause is in the error's tree.
func (a *answer) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := a.read(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		a.over(true)
		a.err = io.EOF
	default:
		a.over(false)
		a.err = withCause(a.ctx, err)
	}
	return n, a.err
}

func (a *answer) read(p []byte) (n int, err error) {
	switch {
	case a.chunked != nil:
		return a.chunked.Read(p)
	case a.toClose:
		return a.conn.buf.Read(p)
	}
	if int64(len(p)) > a.left {
		p = p[:a.left]
	}
	n, err = a.conn.buf.Read(p)
	a.left -= int64(n)
	switch {
	case a.left == 0:
		err = io.EOF
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close implements io.Closer. A body that was not read to its end takes its
// connection along.
func (a *answer) Close() error {
	if a.err == nil {
		a.err = errClosed
	}
	a.over(false)
	return nil
}

var errClosed = fmt.Errorf("read a closed response body: %w", os.ErrClosed)

// over ends the call. whole says that the answer was read to its end.
func (a *answer) over(whole bool) {
	if a.conn == nil {
		return
	}
	c := a.conn
	a.conn, a.chunked = nil, nil
	keep := a.stop() && whole && !a.last
	if keep && a.written != nil {
		keep = writtenInTime(a.written)
	}
	a.transport.release(c, keep)
}

// writeGrace is how long the end of a request is waited for when its answer is read
// whole. As a rule it has been written long ago and its goroutine is about to say so.
const writeGrace = 50 * time.Millisecond

func writtenInTime(written <-chan error) bool {
	select {
	case err := <-written:
		return err == nil
	default:
	}
	timer := time.NewTimer(writeGrace)
	defer timer.Stop()
	select {
	case err := <-written:
		return err == nil
	case <-timer.C:
		return false
	}
}
