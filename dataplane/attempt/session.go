package attempt

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
	"github.com/aidy-gateway/aidy-gateway/dataplane/upstream"
)

// SocketClient is a Client that opens WebSockets, which sessions need.
type SocketClient interface {
	DialWebSocket(ctx context.Context, c *upstream.Call, subprotocols []string) (*websocket.Conn, *http.Response, error)
}

// Session is the client's side of a call that runs over a WebSocket.
type Session struct {
	// Accept opens the client's side, once the provider's is open.
	Accept       func(subprotocol string) (*websocket.Conn, *fault.Error)
	Subprotocols []string // that the client offers
	First        bool     // Request.Body is the first message

	// Dialog reads what is said with the account's provider.
	Dialog func(c *plan.Candidate) relay.Dialog

	Config           relay.SessionConfig
	ErrorEvent       func(*fault.Error) []byte
	CloseCode        func(*fault.Error) websocket.StatusCode
	Draining, Ending <-chan struct{}
}

// converse opens a session with the candidate's provider and stays until it is over. Until
// the provider's side is open, another candidate can take its place.
func (x *run) converse(ctx context.Context, c *plan.Candidate, call *upstream.Call, record Record, end *End, try *Tried) *fault.Error {
	up, f := x.open(ctx, c, call, end, try)
	if f != nil {
		return f
	}
	defer func() { _ = up.CloseNow() }()
	client, f := x.r.Session.Accept(up.Subprotocol())
	if f != nil {
		*end = End{Fault: f} // nothing was said
		x.res.Winner = nil
		return f
	}
	hooks := relay.SessionHooks{
		Settle: func(o relay.Outcome) {
			end.Answer, end.Fault = &o, o.Fault
			if o.Ending == relay.ClientLeft {
				end.Fault = &fault.Error{Class: fault.ClientCanceled}
			}
			record.Settle(*end)
		},
		Progress:   record.Progress,
		Alive:      func() *fault.Error { return x.mayGoOn(c) },
		Failed:     func(f *fault.Error) { x.told(ctx, c, f) },
		ErrorEvent: x.r.Session.ErrorEvent,
		CloseCode:  x.r.Session.CloseCode,
		Draining:   x.r.Session.Draining,
		Ending:     x.r.Session.Ending,
	}
	var first []byte
	if x.r.Session.First {
		first = x.r.Body
	}
	x.res.Answer = relay.NewSession(client, up, x.r.Session.Dialog(c), x.r.Session.Config, hooks).Run(ctx, first)
	return nil
}

// open does the handshake with the provider.
func (x *run) open(ctx context.Context, c *plan.Candidate, call *upstream.Call, end *End, try *Tried) (*websocket.Conn, *fault.Error) {
	wait := x.r.Policy.HeaderTimeout
	if ms := c.Provider.GetResponseHeaderTimeoutMs(); ms > 0 {
		wait = time.Duration(ms) * time.Millisecond
	}
	shake, cancel := context.WithTimeoutCause(ctx, wait, errHeaders)
	defer cancel()
	client, ok := x.client.(SocketClient)
	if !ok {
		*end = End{Fault: fault.New(fault.Internal, "")}
		return nil, end.Fault
	}
	up, resp, err := client.DialWebSocket(shake, call, x.r.Session.Subprotocols)
	switch {
	case err != nil && ctx.Err() != nil:
		*end = End{Fault: fault.As(context.Cause(ctx))}
		return nil, end.Fault
	case err != nil:
		*end = End{Fault: fault.As(err)}
		return nil, end.Fault
	}
	end.Status, end.Upstream = resp.StatusCode, requestID(resp.Header)
	try.Status, try.UpstreamRequestID = end.Status, end.Upstream
	x.observe(c, resp.Header)
	if up == nil {
		end.Fault = x.rejected(resp, func(error) {})
		return nil, end.Fault
	}
	for _, own := range [...]string{"Sec-Websocket-Accept", "Sec-Websocket-Protocol", "Sec-Websocket-Extensions"} {
		resp.Header.Del(own)
	}
	x.commit(x.r.Writer.Header(), resp, c)
	return up, nil
}

// mayGoOn says why a session with the candidate may begin no further response: the
// caller's key, or the account's, is no more.
func (x *run) mayGoOn(c *plan.Candidate) *fault.Error {
	now, view := time.Now(), x.current.Load()
	if !x.r.Principal.Alive(view, now) {
		return fault.New(fault.Unauthenticated, "the API key was revoked or disabled")
	}
	if c.Credential == nil {
		return nil
	}
	if s := view.Secret(c.TenantID, c.CredentialID()); s == nil || s.Disabled || !s.Expire.IsZero() && !now.Before(s.Expire) {
		return fault.New(fault.NoCandidate, "the upstream account of this session is no longer in use; open another session")
	}
	return nil
}

// told rests the account for what an event of a session says is wrong with it.
func (x *run) told(ctx context.Context, c *plan.Candidate, f *fault.Error) {
	if !f.Class.Upstream() || x.asked(ctx, f) {
		return
	}
	if _, known := table[f.Class]; known {
		x.rest(c, f, x.rowOf(f, c), new(Tried))
	}
}
