package attempt

import (
	"context"
	"net/http"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
)

// translate makes the candidate's call if it is another one than the caller's. It
// reports that the candidate cannot take the call, and that it is out for this
// request: before anything was sent, so that this counts as no attempt.
func (x *run) translate(c *plan.Candidate) (out bool) {
	x.conv = nil
	if !x.converts(c) {
		return false
	}
	conv, f := x.r.Convert(c)
	if f == nil {
		x.conv = conv
		return false
	}
	if x.untold == nil {
		x.untold = f
	}
	if x.skip == nil {
		x.skip = make(map[string]schedule.Reason)
	}
	// What one account of a protocol cannot express, none can.
	for i := range x.r.Candidates {
		if o := &x.r.Candidates[i]; o.ID == c.ID || o.Protocol == c.Protocol && o.Capability == c.Capability && x.converts(o) {
			x.skip[o.ID] = schedule.ProtocolIncompatible
		}
	}
	return true
}

// converts reports a candidate that gets another call than the caller's.
func (x *run) converts(c *plan.Candidate) bool {
	if x.r.Convert == nil || c.Capability == nil {
		return false
	}
	if c.Protocol != x.r.Protocol || x.r.Foreign {
		return true
	}
	compat := c.Compat()
	return x.r.Target.Stream && compat.GetNoStream() || !x.r.Target.Stream && compat.GetStreamOnly()
}

// codec is that of the protocol which the upstream is called in.
func (x *run) codec() protocol.Codec {
	if x.conv != nil {
		return x.conv.Codec
	}
	return x.r.Codec
}

// streams reports whether the upstream is asked for a stream.
func (x *run) streams() bool {
	if x.conv != nil {
		return x.conv.Target.Stream
	}
	return x.r.Target.Stream
}

// relayConverted is relay for a candidate whose answer is converted.
func (x *run) relayConverted(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response, c *plan.Candidate, limits relay.Limits, hooks relay.Hooks) *fault.Error {
	w := x.r.Writer
	whole := func(a *relay.Whole, f *fault.Error) *fault.Error {
		if f != nil {
			return x.orClient(ctx, f)
		}
		hooks.Begun = x.commit(w.Header(), resp, c)
		if x.r.Target.Framing == protocol.FramingSSE {
			relay.StreamHeader(w.Header())
		}
		x.res.Answer = a.Forward(ctx, w, hooks)
		return nil
	}
	if !x.conv.Target.Stream || x.conv.NewStream == nil {
		return whole(relay.OpenConverted(ctx, resp, x.conv, limits, cancel))
	}
	d, conv := x.conv.Codec.NewStream(true), x.conv.NewStream()
	mark := endMark(x.conv.Target.Protocol, c)
	if !x.r.Target.Stream {
		return whole(relay.Collect(ctx, resp, d, conv, limits, mark, cancel))
	}
	s, f := relay.OpenChanged(ctx, resp, d, relay.Change{Convert: conv}, limits, mark, cancel)
	if f != nil {
		return x.orClient(ctx, f)
	}
	hooks.Begun = x.commit(w.Header(), resp, c)
	if x.r.Target.Framing == protocol.FramingSSE {
		relay.StreamHeader(w.Header())
	} else {
		hooks.KeepAlive = relay.KeepAlive{}
	}
	x.res.Answer = s.Forward(ctx, w, hooks, func(f *fault.Error, _ protocol.StreamDecoder) []byte {
		return conv.Fail(nil, f, x.r.ID)
	})
	return nil
}

// earlyHead is the head of a stream whose keep-alives begin before its answer.
func (x *run) earlyHead() {
	h := x.r.Writer.Header()
	h.Set("Content-Type", "text/event-stream")
	relay.StreamHeader(h)
	x.r.Writer.WriteHeader(http.StatusOK)
}
