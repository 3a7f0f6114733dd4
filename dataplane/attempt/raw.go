package attempt

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
)

// passes reports an answer without success that is the caller's own business, and goes to
// it as it is: one of a raw call that says nothing of the account. The body can be read
// from its beginning afterwards.
func (x *run) passes(resp *http.Response, cancel context.CancelCauseFunc) bool {
	if x.r.Target.Op != protocol.OpRaw {
		return false
	}
	if resp.StatusCode < http.StatusBadRequest {
		return true
	}
	timer := time.AfterFunc(errorBodyWait, func() { cancel(errErrorBody) })
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	timer.Stop()
	resp.Body = &rejoined{Reader: io.MultiReader(bytes.NewReader(head), resp.Body), Closer: resp.Body}
	if err != nil {
		return false
	}
	switch x.codec().Classify(resp.StatusCode, resp.Header, head, time.Now()).Class {
	case fault.ModelNotFound, fault.StateNotFound, fault.Conflict, fault.ContextOverflow, fault.TooLarge,
		fault.BadRequest, fault.Unprocessable, fault.Refusal, fault.OtherRejection:
		return true
	}
	return false
}

// rejoined is a body of which a part was read before.
type rejoined struct {
	io.Reader
	io.Closer
}

// relayRaw passes an answer on piece by piece.
func (x *run) relayRaw(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response, c *plan.Candidate, record Record, end *End) *fault.Error {
	limits := relay.Limits{Idle: x.r.Policy.Idle}
	if !x.r.Policy.Deadline.IsZero() {
		limits.Idle = 0 // an answer that is made whole is silent until it is done
	}
	whole, f := relay.OpenWhole(ctx, resp, x.r.Codec, limits, true, cancel)
	if f != nil {
		return x.orClient(ctx, f)
	}
	x.commit(x.r.Writer.Header(), resp, c)
	x.res.Answer = whole.Forward(ctx, x.r.Writer, relay.Hooks{Settle: func(o relay.Outcome) {
		end.Fault = o.Fault
		if o.Ending == relay.ClientLeft {
			end.Fault = &fault.Error{Class: fault.ClientCanceled}
		}
		if resp.StatusCode < 300 {
			end.Answer = &o // what is not a success costs nothing
		}
		record.Settle(*end)
	}})
	return nil
}
