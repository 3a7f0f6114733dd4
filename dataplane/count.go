package dataplane

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/endpoint"
)

// countHeader marks a count that the gateway made itself.
const countHeader = "X-Gateway-Token-Count"

// countHere answers a request for a count of tokens that no upstream could answer, by an
// estimate that is marked as one. What is wrong with the request itself stays an error.
func (n *Node) countHere(call *inbound.Call, res *attempt.Result) {
	e, ok := call.Codec.(*endpoint.Call)
	if !ok || call.Target.Op != protocol.OpCountTokens || res.Fault == nil || callersOwn(res.Fault.Class) {
		return
	}
	tokens, f := e.EstimateCount(call.Body.Bytes)
	if f != nil {
		res.Fault = f
		return
	}
	res.Fault = nil
	call.Writer.Header()[countHeader] = []string{"estimated"}
	call.Answer(endpoint.CountAnswer(call.Target.Protocol, tokens))
}

// callersOwn reports a failure that the caller has to mend, or that nobody waits for.
func callersOwn(c fault.Class) bool {
	switch c {
	case fault.BadRequest, fault.Unprocessable, fault.ContextOverflow, fault.TooLarge, fault.InvalidRequest, fault.StateNotFound,
		fault.Unauthenticated, fault.NotPermitted, fault.ClientCanceled, fault.Internal:
		return true
	}
	return false
}
