package dataplane

import (
	"context"
	"net/http"
	"strconv"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"

	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/endpoint"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
	"github.com/aidy-gateway/aidy-gateway/dataplane/rewrite"
	"github.com/aidy-gateway/aidy-gateway/dataplane/route"
)

// ServeHTTP is the path of a request through the data plane, in the order of its
// packages. It holds no logic but the order.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call, f := n.inbound.Accept(w, r, n.holder.Load())
	defer call.Close()
	n.metrics.running.Add(1)
	ctx := r.Context()
	res := &attempt.Result{Fault: f}
	var who *auth.Principal
	var req *attempt.Request
	if f == nil {
		who, req, res = n.serve(ctx, call)
	}
	if res.Fault != nil {
		failHead(w.Header(), call, res)
		if res.Begun {
			call.FailStream(res.Fault)
		}
		call.Fail(res.Fault)
	}
	n.finish(ctx, call, who, req, res)
	if res.Answer.Ending == relay.Broken && call.Target.Framing != protocol.FramingSSE && !call.Target.Op.Session() {
		panic(http.ErrAbortHandler) // only the end of the connection tells the client
	}
}

func (n *Node) serve(ctx context.Context, call *inbound.Call) (*auth.Principal, *attempt.Request, *attempt.Result) {
	match, f := route.Find(call.View, call.Request)
	if f != nil {
		return nil, nil, failed(f)
	}
	if f = call.Identify(match.Rest, match.GetRawPaths()); f != nil {
		return nil, nil, failed(f)
	}
	call.Codec = endpoint.For(call.Codec, call.Target)
	if !admits(match, call.Target) {
		return nil, nil, failed(notAdmitted(call.Target.Protocol))
	}
	who, f := n.auth.Authenticate(call.View, match, operationOf(call.Target.Op), call.Request.Header, call.Request.URL.RawQuery, call.Start)
	if f != nil {
		return nil, nil, failed(f)
	}
	if call.Target.Op.Lists() {
		return who, nil, n.models(call, match, who)
	}
	if f = call.ReadBody(match.GetMaxBodyBytes()); f != nil {
		return who, nil, failed(f)
	}
	req, f := n.prepare(call, who, match, nil)
	if f != nil {
		return who, nil, failed(f)
	}
	res := n.executor.Run(ctx, req)
	call.Committed = call.Committed || res.Winner != nil
	n.countHere(call, res)
	return who, req, res
}

// prepare makes of a call what the executor needs. ask is nil but for a question about
// a call that nobody makes.
func (n *Node) prepare(call *inbound.Call, who *auth.Principal, match route.Match, ask *asked) (*attempt.Request, *fault.Error) {
	to, f := n.decide(call, match, who, ask)
	if f != nil {
		return nil, f
	}
	options, f := protocol.ReadOptions(match.GetConversion(), call.Request.Header[protocol.OptionsHeader], call.Body.Bytes, call.Shape)
	if f != nil {
		return nil, f
	}
	timeout, f := clientTimeout(call.Request.Header)
	if f != nil {
		return nil, f
	}
	levels := policies(call, who, match, to)
	chains(&to, levels)
	policy := attempt.PolicyOf(levels, match.Route.Route, call.Target.Stream, timeout, call.Start)
	policy.Guarded = policy.Guarded || guarded(call)
	list, f := candidates(call, who, to)
	if f != nil {
		return nil, f
	}
	key, _ := call.View.StateKey(who.Tenant.ID)
	owner, edits, f := call.Shape.Resolve(key)
	if f != nil {
		return nil, f
	}
	groups := who.Groups(match.Route)
	if owner, f = claim(call, who, groups, owner, list); f != nil {
		return nil, f
	}
	edits = append(edits, protocol.CutGateway(call.Body.Bytes, call.Shape)...)
	number := protocolNumber(call.Target.Protocol)
	return &attempt.Request{
		ID:         call.ID,
		Start:      call.Start,
		View:       call.View,
		Route:      match.Route,
		Principal:  who,
		Target:     call.Target,
		Protocol:   number,
		Codec:      call.Codec,
		Edits:      edits,
		Shape:      call.Shape,
		Body:       call.Body.Bytes,
		HoldBody:   call.Body.Hold,
		Header:     call.Request.Header,
		Rewritten:  rewrite.Headers(to.Passed),
		Requested:  to.Requested,
		Routed:     to.Model,
		Resolved:   to,
		Class:      classOf(who, call.Request.Header),
		Candidates: list,
		Convert:    n.converter(call, who, to.Requested, options, edits),
		KeepAlive:  relay.KeepAlive{Frame: protocol.KeepAlive(call.Target.Protocol)},
		Foreign:    foreignState(call),
		Owner:      owner,
		StateKey:   key,
		Groups:     groups,
		Policy:     policy,
		Scheduling: n.scheduling(call, who, match, to, levels, ask),
		Session:    n.session(call, match, who, to, policy, key),
		DecisionID: ident.New(ident.Decision),
		Writer:     call.Writer,
		Log:        n.log,
	}, nil
}

func failed(f *fault.Error) *attempt.Result { return &attempt.Result{Fault: f} }

func notAdmitted(p protocol.Name) *fault.Error {
	return fault.Newf(fault.RequestNotSupported, "this route does not take %s calls", p)
}

// clientTimeout is the bound that the client itself sets on its request.
func clientTimeout(h http.Header) (time.Duration, *fault.Error) {
	v := h.Get("X-Gateway-Timeout-Ms")
	if v == "" {
		return 0, nil
	}
	ms, err := strconv.ParseInt(v, 10, 32)
	if err != nil || ms <= 0 {
		return 0, fault.Newf(fault.InvalidRequest, "the header x-gateway-timeout-ms is %.64q; it takes a number of milliseconds above 0", v)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// guarded reports a request whose repetition could repeat an effect.
func guarded(call *inbound.Call) bool {
	return call.Request.Header.Get("X-Gateway-Replay") == "never" || call.Shape.Guarded() ||
		call.Target.Op == protocol.OpRaw && !protocol.SafeMethod(call.Target.Method)
}

// classOf is the traffic class of a request: the key's, or interactive; the client
// may only lower it.
func classOf(who *auth.Principal, h http.Header) string {
	class := configv1.TrafficClass_TRAFFIC_CLASS_INTERACTIVE
	if who.Key != nil && who.Key.Class != configv1.TrafficClass_TRAFFIC_CLASS_UNSPECIFIED {
		class = who.Key.Class
	}
	switch h.Get("X-Gateway-Class") {
	case "batch":
		class = configv1.TrafficClass_TRAFFIC_CLASS_BATCH
	case "interactive":
		class = max(class, configv1.TrafficClass_TRAFFIC_CLASS_INTERACTIVE)
	}
	switch class {
	case configv1.TrafficClass_TRAFFIC_CLASS_CRITICAL:
		return "critical"
	case configv1.TrafficClass_TRAFFIC_CLASS_BATCH:
		return "batch"
	}
	return "interactive"
}

// protocolNumber is the configuration's word for a wire protocol.
func protocolNumber(p protocol.Name) configv1.Protocol {
	switch p {
	case protocol.OpenAIChat:
		return configv1.Protocol_PROTOCOL_OPENAI_CHAT
	case protocol.OpenAIResponses:
		return configv1.Protocol_PROTOCOL_OPENAI_RESPONSES
	case protocol.Anthropic:
		return configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES
	case protocol.Gemini:
		return configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT
	}
	return configv1.Protocol_PROTOCOL_UNSPECIFIED
}
