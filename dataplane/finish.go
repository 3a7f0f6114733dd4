package dataplane

import (
	"context"
	"io"
	stdlog "log"
	"time"

	"github.com/rs/zerolog"

	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
)

// finish writes the one log event of the request, counts it, and keeps what was decided. The event carries the
// request's id itself: a logger for each request would be made for this one line.
func (n *Node) finish(ctx context.Context, call *inbound.Call, who *auth.Principal, req *attempt.Request, res *attempt.Result) {
	n.metrics.running.Add(-1)
	took := time.Since(call.Start)
	outcome := outcomeName(res)
	n.metrics.request(ctx, call, res, outcome, took)
	var rec *decision.Record
	if req != nil {
		rec = decision.Of(req, res, call.ID)
		rec.LogicalRoutes = call.Passed
		n.decisions.Add(rec)
	}
	n.logRequest(call, who, req, res, rec, outcome, took)
	e := n.log.Info()
	if res.Fault != nil && res.Fault.Class == fault.Internal {
		e = n.log.Error()
	}
	if !e.Enabled() {
		return
	}
	e = e.Str("request_id", call.ID).
		Str("protocol", string(call.Target.Protocol)).
		Stringer("operation", call.Target.Op).
		Str("outcome", outcome).
		Dur("duration_ms", took).
		Int("attempts", len(res.Failed)+boolInt(res.Winner != nil))
	if who != nil {
		e = e.Str("tenant", who.Tenant.ID).Stringer("auth", who.Method)
		if who.Key != nil {
			e = e.Str("api_key", who.Key.ID).Str("consumer", who.Key.ConsumerID)
		}
	}
	if call.Shape != nil {
		e = e.Str("model", call.Shape.Model).Bool("stream", call.Target.Stream)
	}
	if len(call.Passed) > 0 {
		e = e.Strs("logical_routes", call.Passed)
	}
	if len(call.Skipped) > 0 {
		e = e.Strs("rewrites_skipped", call.Skipped)
	}
	if v := call.Writer.Header().Get(countHeader); v != "" {
		e = e.Str("token_count", v)
	}
	if c := res.Winner; c != nil {
		e = e.Str("candidate", c.ID).
			Int64("bytes", res.Answer.Bytes).
			Int64("input_tokens", res.Answer.Usage.PromptTokens()).
			Int64("output_tokens", res.Answer.Usage.CompletionTokens())
		if !res.Answer.FirstEventAt.IsZero() {
			e = e.Dur("first_event_ms", res.Answer.FirstEventAt.Sub(call.Start))
		}
		if res.Lossy != nil {
			e = e.Str("upstream_protocol", string(protocolName(c.Protocol)))
			if lossy := res.Lossy(); lossy != "" {
				e = e.Str("lossy", lossy)
			}
		}
		if f := res.Answer.Fault; f != nil {
			e = e.Err(f)
		}
	}
	if f := res.Fault; f != nil {
		e = e.Int("status", f.Status()).Str("code", f.StableCode()).AnErr("error", f)
	}
	e.Msg("request served")
}

// outcomeName is how a request ended, from a fixed list.
func outcomeName(res *attempt.Result) string {
	switch {
	case res.Fault != nil:
		return res.Fault.Class.String()
	case res.Winner == nil:
		return "ok"
	case res.Answer.Ending == relay.ClientLeft:
		return fault.ClientCanceled.String()
	case res.Answer.Ending == relay.Broken:
		return fault.CutAfterFirst.String()
	}
	return "ok"
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// stdLogger takes what net/http says of connections; it is about clients that broke
// off, so it is written at debug level.
func stdLogger(log zerolog.Logger, component string) *stdlog.Logger {
	return stdlog.New(lineWriter{log.With().Str("component", component).Logger()}, "", 0)
}

type lineWriter struct{ log zerolog.Logger }

// Write implements io.Writer.
func (w lineWriter) Write(p []byte) (int, error) {
	w.log.Debug().Bytes("detail", p).Msg("connection")
	return len(p), nil
}

var _ io.Writer = lineWriter{}
