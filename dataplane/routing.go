package dataplane

import (
	"cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/rewrite"
	"github.com/aidy-gateway/aidy-gateway/dataplane/route"
)

// follow resolves the model of a call through the tenant's logical routes, and does what
// they change about its body. Everything after it sees the body as it is then. ask is
// nil but for a question, whose call may have no body to change.
func (n *Node) follow(call *inbound.Call, match route.Match, who *auth.Principal, ask *asked) (resolve.Decision, *fault.Error) {
	features := resolve.Read(call, who, match, classOf(who, call.Request.Header))
	root := func() string { return n.root(call, who) }
	if ask != nil {
		root = ask.routing(features, root)
	}
	d, f := resolve.Resolve(call.View, who, features, root)
	if ask != nil {
		ask.guessed = features.Guessed
	}
	for _, l := range d.Passed {
		call.Passed = append(call.Passed, l.GetName())
	}
	if f != nil || !rewrite.Changes(d.Passed) || ask != nil && len(call.Body.Bytes) == 0 {
		return d, f
	}
	shape := call.Shape
	if call.Target.Op != protocol.OpGenerate {
		shape = nil // the settings are those of a generation
	}
	edits, skipped := rewrite.Edits(d.Passed, call.Body.Bytes, shape, call.Target.Protocol)
	call.Skipped = skipped
	return d, call.Rewrite(edits)
}

// root names the conversation of a call, so that all of it goes to one model. A call
// that belongs to none is a conversation of its own.
func (n *Node) root(call *inbound.Call, who *auth.Principal) string {
	in := n.prompt(call, who)
	if call.Target.Op != protocol.OpGenerate {
		in.Shape = nil // the header alone tells of a session
	}
	return cmp.Or(affinity.Root(in), call.ID)
}
