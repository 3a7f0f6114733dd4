package inbound

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

// FirstMessageWait is how long a client may take for the first message of a session:
// some open their connection long before they need it.
const FirstMessageWait = 10 * time.Minute

// eventWait bounds the writing of an event that ends a session.
const eventWait = 5 * time.Second

// sockets are the WebSockets of clients. The server forgets a connection once it is one.
type sockets struct {
	draining chan struct{} // closed when sessions should end as soon as nothing runs in them
	ending   chan struct{} // closed when they must

	mu      sync.Mutex
	drained bool // guarded by mu
	running sync.WaitGroup
}

func newSockets() sockets {
	return sockets{draining: make(chan struct{}), ending: make(chan struct{})}
}

// add counts a new socket, unless no more are taken.
func (s *sockets) add() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drained {
		return false
	}
	s.running.Add(1)
	return true
}

// endBefore is how long before the end of Drain's time sessions are ended.
const endBefore = 2 * time.Second

// Drain has the sessions of WebSockets end: those in which nothing runs at once, the
// others when it is done, and all of them shortly before ctx's deadline. It takes no new
// ones, and returns when there are none left or with the cause of ctx. It may be called once.
func (h *Handler) Drain(ctx context.Context) error {
	s := &h.sockets
	s.mu.Lock()
	s.drained = true
	s.mu.Unlock()
	close(s.draining)
	left := make(chan struct{})
	go func() {
		s.running.Wait()
		close(left)
	}()
	var last <-chan time.Time
	if d, ok := ctx.Deadline(); ok {
		timer := time.NewTimer(time.Until(d) - endBefore)
		defer timer.Stop()
		last = timer.C
	}
	select {
	case <-left:
		return nil
	case <-last:
	case <-ctx.Done():
	}
	close(s.ending)
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Draining is closed when sessions should end as soon as nothing runs in them, Ending
// when they must.
func (h *Handler) Draining() (draining, ending <-chan struct{}) {
	return h.sockets.draining, h.sockets.ending
}

// Socket opens the WebSocket that the client asked for, with a sub-protocol of those it
// offered or none; or returns the one that is open. sameOrigin refuses a browser's page of
// another site. When it fails, the answer is written.
func (c *Call) Socket(subprotocol string, sameOrigin bool) (*websocket.Conn, *fault.Error) {
	if c.socket != nil {
		return c.socket, nil
	}
	if !c.handler.sockets.add() {
		return nil, fault.New(fault.Draining, "")
	}
	var offered []string
	if subprotocol != "" {
		offered = []string{subprotocol}
	}
	conn, err := websocket.Accept(c.Writer, c.Request, &websocket.AcceptOptions{Subprotocols: offered, InsecureSkipVerify: !sameOrigin})
	c.Committed = true
	if err != nil {
		c.handler.sockets.running.Done()
		return nil, &fault.Error{Class: fault.InvalidRequest, Public: "The handshake of the WebSocket cannot be used.", Err: err}
	}
	c.socket = conn
	return conn, nil
}

// Subprotocols are those that the client offers, without the ones that begin with
// withheld, which carry its key.
func (c *Call) Subprotocols(withheld string) (offered []string) {
	for _, v := range c.Request.Header["Sec-Websocket-Protocol"] {
		for p := range strings.SplitSeq(v, ",") {
			if p = strings.TrimSpace(p); p != "" && !strings.HasPrefix(p, withheld) {
				offered = append(offered, p)
			}
		}
	}
	return offered
}

// readFirst opens the client's WebSocket and takes its first message for the body.
func (c *Call) readFirst(limit int64) *fault.Error {
	subprotocol := ""
	if offered := c.Subprotocols("openai-insecure-api-key."); len(offered) > 0 {
		subprotocol = offered[0]
	}
	conn, f := c.Socket(subprotocol, false)
	if f != nil {
		return f
	}
	conn.SetReadLimit(limit)
	ctx, cancel := context.WithTimeout(c.Request.Context(), FirstMessageWait)
	defer cancel()
	type message struct {
		kind websocket.MessageType
		data []byte
		err  error
	}
	got := make(chan message, 1)
	go func() {
		var m message
		m.kind, m.data, m.err = conn.Read(ctx)
		got <- m
	}()
	select {
	case m := <-got:
		switch {
		case errors.Is(m.err, websocket.ErrMessageTooBig):
			return tooLarge(limit)
		case m.err != nil:
			return &fault.Error{Class: fault.ClientClosed, Err: m.err}
		case m.kind != websocket.MessageText:
			return fault.New(fault.InvalidRequest, "The message is binary. Send text messages, each one JSON object.")
		}
		c.Body = &Body{Bytes: m.data}
		c.Body.refs.Store(1)
	case <-c.handler.sockets.draining:
		return fault.New(fault.Draining, "")
	}
	if c.Shape, f = c.Codec.Inspect(c.Body.Bytes, c.Target); f != nil {
		return f
	}
	return nil
}

// errorEvents is a codec of sessions.
type errorEvents interface {
	ErrorEvent(f *fault.Error, requestID string) []byte
}

// failSocket tells a fault on an open WebSocket and closes it.
func (c *Call) failSocket(f *fault.Error) {
	if e, ok := c.Codec.(errorEvents); ok {
		ctx, cancel := context.WithTimeout(context.Background(), eventWait)
		defer cancel()
		_ = c.socket.Write(ctx, websocket.MessageText, e.ErrorEvent(f, c.ID)) // a client that is gone needs no answer
	}
	_ = c.socket.Close(CloseCode(f), f.StableCode())
}

// CloseCode is the status with which a session ends because of a fault (RFC 6455, 7.4).
func CloseCode(f *fault.Error) websocket.StatusCode {
	switch s := f.Status(); {
	case f.Class == fault.Draining:
		return websocket.StatusGoingAway
	case f.Class == fault.BodyTooLarge:
		return websocket.StatusMessageTooBig
	case s == http.StatusTooManyRequests, s == http.StatusServiceUnavailable:
		return websocket.StatusTryAgainLater
	case s < http.StatusInternalServerError:
		return websocket.StatusPolicyViolation
	}
	return websocket.StatusInternalError
}
