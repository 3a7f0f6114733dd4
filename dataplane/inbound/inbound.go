// Package inbound is the HTTP surface of the data plane: it bounds what comes in,
// names each request, tells protocol and operation by the path, reads the body
// once, and renders faults in the client's protocol.
package inbound

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// Config tunes a Handler. A zero field takes the default it documents.
type Config struct {
	MaxBody        int64 // bytes of a request body; default 16 MiB, at most MaxBodyLimit
	MaxHeaderBytes int   // of all request headers; default 64 KiB
	MaxHeaders     int   // number of request header lines; default 500

	// WriteIdle is how long a client may take nothing of its answer before its
	// connection is ended; default 2 minutes.
	WriteIdle time.Duration
}

// MaxBodyLimit is the largest body that a route may take.
const MaxBodyLimit = 64 << 20

// Handler accepts requests. Safe for concurrent use.
type Handler struct {
	cfg     Config
	codecs  map[protocol.Name]protocol.Codec
	buffers buffers
	sockets sockets
}

// New returns a Handler for the given protocols.
func New(cfg Config, codecs ...protocol.Codec) *Handler {
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = 16 << 20
	}
	if cfg.MaxHeaderBytes <= 0 {
		cfg.MaxHeaderBytes = 64 << 10
	}
	if cfg.MaxHeaders <= 0 {
		cfg.MaxHeaders = 500
	}
	if cfg.WriteIdle <= 0 {
		cfg.WriteIdle = 2 * time.Minute
	}
	h := &Handler{cfg: cfg, codecs: make(map[protocol.Name]protocol.Codec, len(codecs)), sockets: newSockets()}
	for _, c := range codecs {
		h.codecs[c.Name()] = c
	}
	return h
}

// Codec returns the codec of a protocol; nil if there is none.
func (h *Handler) Codec(p protocol.Name) protocol.Codec { return h.codecs[p] }

// Call is one request of a client.
type Call struct {
	ID     string
	Start  time.Time
	View   *snapshot.View
	Target protocol.Target
	Codec  protocol.Codec // nil before Identify
	Body   *Body
	Shape  *protocol.Shape

	Request *http.Request
	Writer  http.ResponseWriter

	// Passed and Skipped are for the request's log event: the logical routes that the
	// call took, and what they would change and could not.
	Passed, Skipped []string

	// Committed says that the head of the answer is written, so no fault can be.
	Committed bool

	handler *Handler
	unread  bool // the client may still be sending its body
	socket  *websocket.Conn
}

// Accept begins a request: it gets its id, and its headers are bounded. view may be
// nil, or not whole, on a node that has no configuration yet, which is a fault. The call is never
// nil, so that any fault can be rendered.
func (h *Handler) Accept(w http.ResponseWriter, r *http.Request, view *snapshot.View) (*Call, *fault.Error) {
	c := &Call{
		ID:      ident.New(ident.Request),
		Start:   time.Now(),
		View:    view,
		Request: r,
		Writer:  &writer{ResponseWriter: w, idle: h.cfg.WriteIdle},
		handler: h,
	}
	c.Writer.(*writer).extend() // what the last call on the connection left may be over
	values := [...]string{c.ID, ""}
	w.Header()["X-Gateway-Request-Id"] = values[0:1:1]
	if f := h.boundHeaders(r.Header); f != nil {
		return c, f
	}
	if !view.Whole() {
		return c, fault.New(fault.ConfigUnavailable, "")
	}
	values[1] = strconv.FormatUint(view.Policy.Generation, 10)
	w.Header()["X-Gateway-Config-Generation"] = values[1:2:2]
	return c, nil
}

func (h *Handler) boundHeaders(header http.Header) *fault.Error {
	lines, size := 0, 0
	for name, values := range header {
		for _, v := range values {
			lines++
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	if lines > h.cfg.MaxHeaders || size > h.cfg.MaxHeaderBytes {
		return fault.Newf(fault.HeadersTooLarge, "the request has %d header lines of %d bytes; at most %d lines of %d bytes are taken",
			lines, size, h.cfg.MaxHeaders, h.cfg.MaxHeaderBytes)
	}
	return nil
}

// Identify tells protocol and operation from the path below the route's prefix. raw are
// the paths that the route passes on as they are.
func (c *Call) Identify(rest string, raw []string) *fault.Error {
	target, f := protocol.Identify(c.Request.Method, rest, c.Request.URL.RawQuery, c.Request.Header)
	if f != nil && f.Class == fault.UnknownPath {
		if t, rf, ok := protocol.IdentifyRaw(c.Request.Method, rest, c.Request.URL.RawQuery, c.Request.Header, raw); ok {
			target, f = t, rf
		}
	}
	if codec := c.handler.codecs[target.Protocol]; codec != nil {
		c.Codec = codec
	}
	c.Target = target
	return f
}

// ReadBody reads and inspects the request body, at most limit bytes; 0 is the
// handler's own limit.
func (c *Call) ReadBody(limit int64) *fault.Error {
	if limit <= 0 {
		limit = c.handler.cfg.MaxBody
	}
	if c.Target.Op == protocol.OpResponses {
		return c.readFirst(min(limit, MaxBodyLimit))
	}
	body, f := c.handler.buffers.read(c.Writer, c.Request, min(limit, MaxBodyLimit))
	if f != nil {
		// What is left of the body is not worth reading, and what would follow it on
		// the connection cannot be found without.
		c.Writer.Header().Set("Connection", "close")
		c.unread = true
		return f
	}
	c.Body = body
	return c.inspect()
}

// inspect reads the body anew.
func (c *Call) inspect() (f *fault.Error) {
	if c.Shape, f = c.Codec.Inspect(c.Body.Bytes, c.Target); f != nil {
		return f
	}
	if c.Shape.Model == "" {
		c.Shape.Model = c.Target.Model
	}
	if c.Shape.Stream && !c.Target.Stream {
		c.Target.Stream, c.Target.Framing = true, protocol.FramingSSE
	}
	return nil
}

// Rewrite changes the body before anybody else holds it, and inspects what it is then.
func (c *Call) Rewrite(edits []protocol.Edit) *fault.Error {
	if len(edits) == 0 {
		return nil
	}
	size := len(c.Body.Bytes)
	for _, e := range edits {
		size += len(e.Text)
	}
	now := &Body{pool: c.Body.pool}
	if now.pool != nil {
		now.Bytes = now.pool.get(size)
	}
	for _, part := range protocol.Splice(c.Body.Bytes, edits) {
		now.Bytes = append(now.Bytes, part...)
	}
	now.refs.Store(1)
	c.Body.release()
	c.Body = now
	return c.inspect()
}

// Close lets go of the body.
func (c *Call) Close() {
	if c.Body != nil {
		c.Body.release()
		c.Body = nil
	}
	if c.socket != nil {
		_ = c.socket.CloseNow() // nothing remains to be said on it
		c.handler.sockets.running.Done()
	}
}

// Fail renders a fault in the client's protocol, unless the answer has begun. A client
// that left is answered too: one that closed its sending side alone still listens, and
// without an answer the server would tell it that all is well.
func (c *Call) Fail(f *fault.Error) {
	if c.socket != nil {
		c.failSocket(f)
		return
	}
	if c.Committed {
		return
	}
	if c.Codec == nil {
		// The route is not known, so the protocol is a guess, for the shape of the error.
		r := c.Request
		guess, _ := protocol.Identify(r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header)
		c.Codec = c.handler.codecs[guess.Protocol]
	}
	answer := c.Codec.EncodeError(f, c.ID)
	h := c.Writer.Header()
	for name, values := range answer.Header {
		h[name] = values
	}
	c.write(answer.Status, answer.Body)
	if c.unread {
		c.linger()
	}
}

// FailStream tells a fault to a client whose stream has begun with keep-alives alone.
func (c *Call) FailStream(f *fault.Error) {
	c.Committed = true
	_, _ = c.Writer.Write(c.Codec.StreamError(f, c.ID, nil)) // a client that is gone needs no answer
}

// Bounds of linger.
const (
	lingerTime  = 5 * time.Second
	lingerBytes = 32 << 20
)

// linger takes what the client is still sending, for a while. A connection that is
// closed while bytes come in is reset, and the reset may overtake the answer.
func (c *Call) linger() {
	rc := http.NewResponseController(c.Writer)
	if rc.Flush() != nil || rc.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(c.Request.Body, lingerBytes)) // whatever comes is of no interest
}

// Answer writes a whole answer that the gateway made itself.
func (c *Call) Answer(body []byte) {
	c.Writer.Header().Set("Content-Type", "application/json")
	c.write(http.StatusOK, body)
}

// unreadWait is how long the server waits for a body that nobody will read, so that
// the connection can be used again.
const unreadWait = 5 * time.Second

func (c *Call) write(status int, body []byte) {
	if c.Body == nil && c.Request.ContentLength != 0 {
		// The server reads what is left of a small body before it answers, however
		// long that takes.
		_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Now().Add(unreadWait))
	}
	c.Writer.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.Committed = true
	c.Writer.WriteHeader(status)
	if c.Request.Method != http.MethodHead {
		_, _ = c.Writer.Write(body) // a client that is gone needs no answer
	}
}
