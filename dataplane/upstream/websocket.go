package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

// Bounds of what is read of an answer that refuses a handshake.
const (
	maxRefusal  = 64 << 10
	refusalWait = 5 * time.Second
)

// DialWebSocket opens a WebSocket at a provider, by the rules of Do for addresses, proxies
// and redirects. ctx bounds the handshake alone. The response is that of the handshake; if
// the provider refuses it, conn is nil and the response has the beginning of the body.
//
// It fails with fault.Connect: until a handshake is done, nothing was asked for.
func (t *Transport) DialWebSocket(ctx context.Context, c *Call, subprotocols []string) (conn *websocket.Conn, resp *http.Response, err error) {
	defer done(c.BodyDone)
	rt, err := t.transport(c.Egress)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Connect, err)
	}
	// A connection that is a WebSocket is never shared, and needs no more of its context.
	dialled := &refusals{rt: rt}
	conn, resp, err = websocket.Dial(ctx, c.URL.String(), &websocket.DialOptions{
		HTTPClient:   &http.Client{Transport: dialled, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		HTTPHeader:   c.Header,
		Subprotocols: subprotocols,
	})
	if err == nil {
		return conn, resp, nil
	}
	if r := dialled.refusal; r != nil {
		return nil, r, nil
	}
	return nil, nil, &fault.Error{Class: fault.Connect, Err: fmt.Errorf("open a WebSocket at %s: %w", c.URL.Host, withCause(ctx, err))}
}

// refusals keeps an answer that is no WebSocket.
type refusals struct {
	rt      http.RoundTripper
	refusal *http.Response
}

var errNoSocket = errors.New("the upstream refused the handshake of a WebSocket")

// RoundTrip implements http.RoundTripper.
func (r *refusals) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.rt.RoundTrip(req)
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	timer := time.AfterFunc(refusalWait, func() { _ = resp.Body.Close() })
	defer timer.Stop()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // what did not come is done without
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	r.refusal = resp
	return nil, errNoSocket
}
