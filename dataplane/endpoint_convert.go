package dataplane

import (
	"bytes"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/endpoint"
)

// endpointConverter is converter for an operation beside generation; nil for one that is
// never converted.
func (n *Node) endpointConverter(call *inbound.Call, public string, options protocol.Options, edits []protocol.Edit) func(*plan.Candidate) (*protocol.Converted, *fault.Error) {
	e, ok := call.Codec.(*endpoint.Call)
	if !ok || len(endpoint.Convertible(call.Target)) == 0 {
		return nil
	}
	return func(c *plan.Candidate) (*protocol.Converted, *fault.Error) {
		name := protocolName(c.Protocol)
		if name == call.Target.Protocol {
			// A server that streams all its answers does not stream these.
			body := e.Outgoing(call.Body.Bytes, call.Shape, c.UpstreamModel(), protocol.Outgoing{Edits: edits})
			return &protocol.Converted{
				Codec: e, Target: call.Target, Body: bytes.Join(body, nil),
				Answer: func(answer []byte) ([]byte, *fault.Error) { return answer, nil },
			}, nil
		}
		return e.Convert(call.Body.Bytes, endpoint.To{
			Codec:   n.inbound.Codec(name),
			Public:  public,
			Model:   c.UpstreamModel(),
			Options: options,
			Compat:  c.Compat(),
		})
	}
}
