package dataplane

import (
	"github.com/coder/websocket"

	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/endpoint"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/route"
)

// defaultMessage is the largest message of a client, unless the route says otherwise.
const defaultMessage = 16 << 20

// session is the client's side of a call over a WebSocket; nil for another call.
func (n *Node) session(call *inbound.Call, match route.Match, who *auth.Principal, d resolve.Decision, p attempt.Policy, key *stateid.Key) *attempt.Session {
	codec, ok := call.Codec.(*endpoint.Session)
	if !ok {
		return nil
	}
	most := match.GetMaxBodyBytes()
	if most <= 0 {
		most = defaultMessage
	}
	s := &attempt.Session{
		Accept: func(subprotocol string) (*websocket.Conn, *fault.Error) {
			// Without a key anybody's page could use the route through its readers' browsers.
			return call.Socket(subprotocol, who.Method == auth.Disabled)
		},
		Subprotocols: call.Subprotocols(auth.SubprotocolKey),
		First:        call.Target.Op == protocol.OpResponses,
		Config:       relay.SessionConfig{MaxMessage: most, Silence: p.Idle},
		ErrorEvent:   func(f *fault.Error) []byte { return codec.ErrorEvent(f, call.ID) },
		CloseCode:    inbound.CloseCode,
		Dialog: func(c *plan.Candidate) relay.Dialog {
			terms := endpoint.Terms{
				Public:   d.Requested,
				Upstream: c.UpstreamModel(),
				MayUse:   who.MayUse,
				Resolve:  func(s *protocol.Shape) ([]protocol.Edit, *fault.Error) { return ownIDs(s, key, c) },
			}
			if key != nil {
				owner := stateid.Owner{Scope: c.StateScope, Upstream: c.Upstream.GetId()}
				terms.Wrap = func(id string) string { return key.Wrap(id, owner) }
			}
			return codec.NewDialog(terms)
		},
	}
	s.Draining, s.Ending = n.inbound.Draining()
	return s
}

// ownIDs puts the provider's ids in the place of those that the gateway made, in a request
// that has to go to the candidate.
func ownIDs(s *protocol.Shape, key *stateid.Key, c *plan.Candidate) ([]protocol.Edit, *fault.Error) {
	owner, edits, f := s.Resolve(key)
	if f == nil && owner != (stateid.Owner{}) && owner.Scope != c.StateScope {
		return nil, fault.New(fault.StateNotFound, "What the request refers to is kept by another upstream account than the one of this session. Open another session for it.")
	}
	return edits, f
}
