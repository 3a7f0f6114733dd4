package upstream

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// outgoing is a request as it is written: head and the beginning of the body in one
// buffer, and what is left of the body as it stands.
type outgoing struct {
	first []byte
	rest  net.Buffers // first, and what follows it; empty if first is all

	scratch *[]byte
	done    func() // the call's BodyDone, once
}

// inlineBody is how much of a body is copied behind the head. A request that fits is
// written at once, before its answer is read: so much finds room in the buffers of
// the connection, whether the upstream reads it or not.
const inlineBody = 16 << 10

var requestScratch = sync.Pool{New: func() any {
	b := make([]byte, 0, inlineBody+(4<<10))
	return &b
}}

// newOutgoing makes the head of a call. It fails if a header could not be read as
// what it is.
func newOutgoing(c *Call) (*outgoing, error) {
	length := int64(0)
	for _, p := range c.Body {
		length += int64(len(p))
	}
	o := &outgoing{scratch: requestScratch.Get().(*[]byte), done: c.BodyDone}
	b, err := appendHead((*o.scratch)[:0], c, length)
	if err != nil {
		o.first = b
		o.done = nil
		o.finish()
		return nil, err
	}
	left := inlineBody
	for i, p := range c.Body {
		n := min(len(p), left)
		b = append(b, p[:n]...)
		left -= n
		if n == len(p) {
			continue
		}
		// From here on as it stands, without a copy.
		o.rest = make(net.Buffers, 0, len(c.Body)-i+1)
		o.rest = append(o.rest, nil, p[n:])
		o.rest = append(o.rest, c.Body[i+1:]...)
		break
	}
	o.first = b
	if o.rest != nil {
		o.rest[0] = b
	}
	return o, nil
}

// write sends the request. It may be called again only if it sent nothing.
func (o *outgoing) write(w io.Writer) (int64, error) {
	if len(o.rest) > 0 {
		return o.rest.WriteTo(w) // one system call for many parts where w can
	}
	n, err := w.Write(o.first)
	return int64(n), err
}

// finish lets go of the body and the buffer. It may be called more than once.
func (o *outgoing) finish() {
	if o.scratch == nil {
		return
	}
	if cap(o.first) <= 4*inlineBody {
		*o.scratch = o.first[:0]
		requestScratch.Put(o.scratch)
	}
	o.scratch, o.first, o.rest = nil, nil, nil
	done(o.done)
}

// appendHead appends the request line and the headers. Values that come from clients
// and configuration are looked at: one that ends its line would begin a header, or a
// request, of its own.
func appendHead(b []byte, c *Call, length int64) ([]byte, error) {
	target := c.URL.RequestURI()
	if !validName(c.Method) || !validTarget(target) || !validTarget(c.URL.Host) {
		return b, fmt.Errorf("the request line to %q is not valid", c.URL.Host)
	}
	b = append(b, c.Method...)
	b = append(b, ' ')
	b = append(b, target...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.URL.Host...)
	b = append(b, "\r\n"...)
	for name, values := range c.Header {
		if ownHeader(name) {
			continue
		}
		if !validName(name) {
			return b, fmt.Errorf("the header name %q is not valid", name)
		}
		for _, v := range values {
			if !validValue(v) {
				return b, fmt.Errorf("the value of header %s holds control characters", name)
			}
			b = append(b, name...)
			b = append(b, ": "...)
			b = append(b, v...)
			b = append(b, "\r\n"...)
		}
	}
	if length > 0 || c.Method == http.MethodPost || c.Method == http.MethodPut || c.Method == http.MethodPatch {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, length, 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...), nil
}

// ownHeader names what the client itself says: where a request goes and where it ends.
func ownHeader(name string) bool {
	switch name {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Expect", "Upgrade":
		return true
	}
	return false
}

// validTarget refuses what would end the request line or the Host header.
func validTarget(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return s != ""
}
