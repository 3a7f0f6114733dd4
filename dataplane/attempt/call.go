package attempt

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
	"github.com/aidy-gateway/aidy-gateway/dataplane/upstream"
)

// noSecret tells a caller that the gateway, not the provider, is what went wrong.
const noSecret = "The gateway cannot read its credential for the provider on this node. Tell whoever runs the gateway; their log says what is missing."

// errUnfitSecret: the credential would end the header that carries it.
var errUnfitSecret = errors.New("the credential holds control characters, such as a line end; store it without them")

// errHeaders is the cause with which the wait for an upstream's headers ends.
var errHeaders = errors.New("the upstream sent no response headers in time")

// errUnended is the fault of an attempt of which nobody said how it ended.
var errUnended = fault.New(fault.Internal, "")

// What is read of an upstream's error answer is bounded in size and time. The status is
// known by then: what did not come is done without.
const (
	maxErrorBody  = 64 << 10
	errorBodyWait = 5 * time.Second
)

// errErrorBody is the cause with which the wait for the body of an error answer ends.
var errErrorBody = errors.New("the upstream did not finish its error answer in time")

// attempt makes one call of a provider. A nil fault means that the answer, whole or
// broken, went to the client.
func (x *run) attempt(ctx context.Context, c *plan.Candidate, lease *schedule.Lease, try *Tried) (f *fault.Error) {
	x.attempts++
	x.sent = time.Now()
	x.lease = lease
	defer lease.Release()
	call, f := x.call(c)
	if f != nil {
		return f
	}
	record, err := x.recorder.Begin(x.r, c, x.attempts)
	if err != nil {
		call.BodyDone()
		return fault.As(err)
	}
	// Whatever happens below, the record ends exactly once, and the scheduler hears of it.
	end := End{Sent: true, Fault: errUnended}
	defer func() {
		record.Settle(end)
		x.learn(ctx, c, lease, &end)
	}()

	if x.r.Session != nil {
		return x.converse(ctx, c, call, record, &end, try)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, f := x.send(ctx, cancel, call, c)
	if f != nil {
		end = End{Sent: f.Class != fault.Connect, Fault: f}
		return f
	}
	end.Status, end.Upstream = resp.StatusCode, requestID(resp.Header)
	try.Status, try.UpstreamRequestID = end.Status, end.Upstream
	x.observe(c, resp.Header)
	if resp.StatusCode >= 300 && !x.passes(resp, cancel) {
		f = x.rejected(resp, cancel)
		end.Fault = f
		return f
	}
	f = x.relay(ctx, cancel, resp, c, record, &end)
	if f != nil {
		own := *f // it may be one that every request gets
		own.UpstreamRequestID = end.Upstream
		f, end.Fault = &own, &own
	}
	return f
}

// send waits for the upstream's headers within the bound that the policy gives.
func (x *run) send(ctx context.Context, cancel context.CancelCauseFunc, call *upstream.Call, c *plan.Candidate) (*http.Response, *fault.Error) {
	wait := x.r.Policy.HeaderTimeout
	if ms := c.Provider.GetResponseHeaderTimeoutMs(); ms > 0 {
		wait = time.Duration(ms) * time.Millisecond
	}
	if x.streams() || x.r.Policy.Deadline.IsZero() {
		timer := time.AfterFunc(wait, func() { cancel(errHeaders) })
		defer timer.Stop()
	}
	resp, err := x.client.Do(ctx, call)
	if err == nil {
		return resp, nil
	}
	f := fault.As(err)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errHeaders):
		return nil, &fault.Error{Class: fault.Timeout, Err: err}
	case errors.Is(cause, error(errDeadline)):
		return nil, &fault.Error{Class: fault.Timeout, Err: err}
	case cause != nil:
		return nil, &fault.Error{Class: fault.ClientCanceled, Err: err}
	}
	return nil, f
}

// rejected reads an upstream's error answer and says what it means. cancel ends the
// upstream call.
func (x *run) rejected(resp *http.Response, cancel context.CancelCauseFunc) *fault.Error {
	defer resp.Body.Close()
	defer time.AfterFunc(errorBodyWait, func() { cancel(errErrorBody) }).Stop()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	f := x.codec().Classify(resp.StatusCode, resp.Header, body, time.Now())
	if f.UpstreamRequestID == "" {
		f.UpstreamRequestID = requestID(resp.Header)
	}
	return f
}

// relay opens the answer, which can still fail over, and forwards it, which cannot.
func (x *run) relay(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response, c *plan.Candidate, record Record, end *End) *fault.Error {
	limits := relay.Limits{FirstEvent: x.r.Policy.FirstEvent, Idle: x.r.Policy.Idle}
	hooks := relay.Hooks{
		Settle: func(o relay.Outcome) {
			end.Answer, end.Fault = &o, o.Fault
			if o.Ending == relay.ClientLeft {
				end.Fault = &fault.Error{Class: fault.ClientCanceled}
			}
			record.Settle(*end)
		},
		Progress:  record.Progress,
		KeepAlive: x.r.KeepAlive,
	}
	w := x.r.Writer
	if x.r.Target.Op == protocol.OpRaw {
		return x.relayRaw(ctx, cancel, resp, c, record, end)
	}
	if x.conv != nil {
		return x.relayConverted(ctx, cancel, resp, c, limits, hooks)
	}
	if !x.streams() && !x.r.Policy.Deadline.IsZero() {
		limits.Idle = 0 // an answer that is made whole is silent until it is done
	}
	rw := x.rewriter(c)
	if x.r.Target.Framing != protocol.FramingSSE {
		if rw != nil {
			return x.relayRewritten(ctx, cancel, resp, c, rw, limits, hooks)
		}
		whole, f := relay.OpenWhole(ctx, resp, x.r.Codec, limits, x.r.Target.Stream, cancel)
		if f != nil {
			return x.orClient(ctx, f)
		}
		x.commit(w.Header(), resp, c)
		x.res.Answer = whole.Forward(ctx, w, hooks)
		return nil
	}
	s, f := relay.OpenChanged(ctx, resp, x.r.Codec.NewStream(x.r.Shape.IncludeUsage), relay.Change{Rewrite: rw}, limits, endMark(x.r.Target.Protocol, c), cancel)
	if f != nil {
		return x.orClient(ctx, f)
	}
	hooks.Begun = x.commit(w.Header(), resp, c)
	relay.StreamHeader(w.Header())
	x.res.Answer = s.Forward(ctx, w, hooks, func(f *fault.Error, d protocol.StreamDecoder) []byte {
		events := x.r.Codec.StreamError(f, x.r.ID, d)
		if rw != nil {
			events = protocol.RewriteEvents(nil, events, rw)
		}
		return events
	})
	return nil
}

// relayRewritten relays a whole answer in which ids are changed.
func (x *run) relayRewritten(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response, c *plan.Candidate, rw protocol.Rewriter, limits relay.Limits, hooks relay.Hooks) *fault.Error {
	whole, f := relay.OpenConverted(ctx, resp, &protocol.Converted{
		Codec:  x.r.Codec,
		Answer: func(body []byte) ([]byte, *fault.Error) { return rw.Answer(body), nil },
	}, limits, cancel)
	if f != nil {
		return x.orClient(ctx, f)
	}
	h := x.r.Writer.Header()
	x.commit(h, resp, c)
	h.Del("Content-Length")
	x.res.Answer = whole.Forward(ctx, x.r.Writer, hooks)
	return nil
}

// orClient turns the failure of an answer that the client no longer waits for into
// what it is.
func (x *run) orClient(ctx context.Context, f *fault.Error) *fault.Error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(cause, context.Canceled) {
		return &fault.Error{Class: fault.ClientCanceled, Err: f}
	}
	return f
}

// commit sets the head of the answer. From here on this candidate's answer is the
// request's. It reports that a head went to the client before, with keep-alives: what
// is set here is then too late.
func (x *run) commit(h http.Header, resp *http.Response, c *plan.Candidate) (begun bool) {
	begun = x.pulse.Stop()
	x.scheduler.Succeeded(c)
	if now := time.Now(); x.streams() {
		// As soon as it is known: who waits for a slow account must not be sent there.
		x.scheduler.FirstToken(c, &x.query.Policy, now.Sub(x.sent), x.query.PromptTokens, x.sel.Rows[x.at].Hit, now)
	}
	x.lease.Disproved()
	x.res.Winner = c
	if x.conv == nil {
		relay.CopyHeader(h, resp.Header)
	} else {
		relay.ConvertedHeader(h, x.r.Target.Protocol, requestID(resp.Header))
		x.res.Lossy = x.conv.Lossy
	}
	x.head(h, x.r, &x.res)
	return begun
}

// call builds the upstream call of a candidate.
func (x *run) call(c *plan.Candidate) (*upstream.Call, *fault.Error) {
	target := x.r.Target
	if x.conv != nil {
		target = x.conv.Target
	}
	path, query := x.codec().UpstreamURL(target, c.UpstreamModel())
	u, err := x.bases.join(c.BaseURL, path, query)
	if err != nil {
		return nil, &fault.Error{Class: fault.Connect, Err: err}
	}
	var key, bearer secret.Text
	if x.r.Principal.Method == auth.Passthrough {
		bearer = x.r.Principal.Bearer
	} else if c.Credential != nil {
		s := x.current.Load().Secret(c.TenantID, c.Credential.GetId())
		if s == nil {
			return nil, fault.New(fault.Auth, noSecret)
		}
		if key, err = s.Open(); err != nil {
			return nil, &fault.Error{Class: fault.Auth, Public: noSecret, Err: err}
		}
		if !upstream.CanCarry(key) {
			return nil, &fault.Error{Class: fault.Auth, Public: noSecret, Err: errUnfitSecret}
		}
	}
	egress, err := x.egress(c)
	if err != nil {
		return nil, &fault.Error{Class: fault.Connect, Err: err}
	}
	if x.conv != nil {
		return &upstream.Call{
			Method:   http.MethodPost,
			URL:      u,
			Header:   upstream.ConvertedHeaders(x.r.Header, x.conv.Header, x.r.Rewritten, c, key, bearer),
			Body:     extraIn(x.conv.Body, c),
			BodyDone: func() {},
			Egress:   egress,
		}, nil
	}
	ask := x.r.Target.Stream && !noStreamOptions(c)
	return &upstream.Call{
		Method:   cmp.Or(target.Method, http.MethodPost),
		URL:      u,
		Header:   upstream.Headers(x.r.Header, x.r.Rewritten, c, key, bearer),
		Body:     x.r.Codec.Outgoing(x.r.Body, x.r.Shape, c.UpstreamModel(), protocol.Outgoing{IncludeUsage: ask, Edits: append(x.extraOf(c), x.r.Edits...)}),
		BodyDone: x.r.HoldBody(),
		Egress:   egress,
	}, nil
}

// endMark is how streams of the candidate tell their end.
func endMark(p protocol.Name, c *plan.Candidate) relay.EndMark {
	switch {
	case p == protocol.Gemini:
		return relay.LateMark
	case c.Capability.GetCompat().GetNoDoneMarker() || c.Upstream.GetCompat().GetNoDoneMarker():
		return relay.BodyMark
	}
	return relay.OwnMark
}

func noStreamOptions(c *plan.Candidate) bool {
	return c.Capability.GetCompat().GetNoStreamOptions() || c.Upstream.GetCompat().GetNoStreamOptions()
}

// egress is how calls of the candidate leave the node: the credential's proxy comes
// before the upstream's.
func (x *run) egress(c *plan.Candidate) (upstream.Egress, error) {
	e := upstream.Egress{
		AllowPrivate:   c.Provider.GetAllowPrivateAddress(),
		ConnectTimeout: time.Duration(c.Provider.GetConnectTimeoutMs()) * time.Millisecond,
	}
	view := x.current.Load()
	var p *configv1.EgressProxy
	var password secret.Text
	var err error
	if p = c.Credential.GetProxy(); p != nil {
		if s := view.Secret(c.TenantID, c.CredentialID()); s != nil && s.HasProxy() {
			password, err = s.OpenProxy()
		}
	} else if p = c.Upstream.GetProxy(); p != nil {
		if s := view.ProxySecret(c.TenantID, c.Upstream.GetId()); s != nil {
			password, err = s.OpenProxy()
		}
	}
	if p != nil {
		e.Proxy = &upstream.Proxy{URL: p.GetUrl(), Username: p.GetUsername(), Password: password}
	}
	return e, err
}

// requestID is the upstream's own id of a call, for its support.
func requestID(h http.Header) string {
	for _, name := range [...]string{"X-Request-Id", "Request-Id", "Apim-Request-Id", "X-Goog-Request-Id"} {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}
