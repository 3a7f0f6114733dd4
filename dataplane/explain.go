package dataplane

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/endpoint"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/route"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// Question describes a call of which somebody wants to know where it would go: by its
// shape, or by its whole body, which is looked at and not kept.
type Question struct {
	Tenant string `json:"tenant,omitempty"`  // id or name
	Route  string `json:"route,omitempty"`   // id or name; empty takes the tenant's first that takes the protocol
	APIKey string `json:"api_key,omitempty"` // id of the key that calls; empty asks for the tenant alone

	Protocol string `json:"protocol,omitempty"` // openai_chat if empty
	Model    string `json:"model,omitempty"`    // empty where the body names it
	Stream   bool   `json:"stream,omitempty"`

	PromptTokens     int64    `json:"prompt_tokens,omitempty"`
	MaxOutputTokens  int64    `json:"max_output_tokens,omitempty"`
	Images           int      `json:"images,omitempty"`
	Audio            int      `json:"audio,omitempty"`
	Video            int      `json:"video,omitempty"`
	Documents        int      `json:"documents,omitempty"`
	Tools            int      `json:"tools,omitempty"`        // that the caller runs
	ServerTools      []string `json:"server_tools,omitempty"` // that the provider runs
	StructuredOutput bool     `json:"structured_output,omitempty"`
	Thinking         bool     `json:"thinking,omitempty"`

	SessionKey string `json:"session_key,omitempty"`
	Task       string `json:"task,omitempty"`
	Class      string `json:"class,omitempty"`

	Body json.RawMessage `json:"body,omitempty"`
}

// Bounds of a Question beside those of its body.
const (
	maxAsked       = 512 // bytes of a name
	maxAskedTokens = 100_000_000
	maxAskedParts  = 10_000
)

func (q *Question) check() *fault.Error {
	for _, text := range append([]string{q.Tenant, q.Route, q.APIKey, q.Protocol, q.Model, q.SessionKey, q.Task, q.Class}, q.ServerTools...) {
		if len(text) > maxAsked {
			return fault.Newf(fault.InvalidRequest, "a text of the question is longer than %d bytes", maxAsked)
		}
	}
	for _, n := range [...]int64{q.PromptTokens, q.MaxOutputTokens} {
		if n < 0 || n > maxAskedTokens {
			return fault.Newf(fault.InvalidRequest, "numbers of tokens are from 0 to %d", maxAskedTokens)
		}
	}
	for _, n := range [...]int{q.Images, q.Audio, q.Video, q.Documents, q.Tools, len(q.ServerTools)} {
		if n < 0 || n > maxAskedParts {
			return fault.Newf(fault.InvalidRequest, "numbers of parts and tools are from 0 to %d", maxAskedParts)
		}
	}
	return nil
}

// asked is what a question about a call replaces of what a call brings itself.
type asked struct {
	key *affinity.Key // nil reads it from the body
	dry bool          // changes no state

	// recorded is what is known of a request that is decided again; nil for a question
	// about a call.
	recorded *decision.Features
	id       string // of that request; may be empty

	// unknown is what the question does not say, and guessed what of it the answer turned
	// on.
	unknown, guessed resolve.Inputs
}

// routing puts what is known of the request in the place of what a call would bring, and
// returns what names its conversation.
func (a *asked) routing(f *resolve.Features, root func() string) func() string {
	if a.recorded == nil {
		f.Unknown = a.unknown
		return root
	}
	known := a.recorded.Routing.Restore(f)
	if a.recorded.Owner != nil {
		f.Stored = true
	}
	if known != "" {
		return func() string { return known }
	}
	return func() string {
		if p := a.recorded.Prefix; p != nil && !p.Root.IsZero() {
			text, _ := p.Root.MarshalText()
			return string(text)
		}
		return a.id
	}
}

// Explain says where a call would go now and why, in the state that the node is in. It
// sends nothing and changes no state. A call that would be refused has a record, too; the
// fault is for questions that cannot be understood.
func (n *Node) Explain(q *Question, now time.Time) (*decision.Record, *fault.Error) {
	view := n.holder.Load()
	if !view.Whole() {
		return nil, fault.New(fault.ConfigUnavailable, "")
	}
	if f := q.check(); f != nil {
		return nil, f
	}
	target, f := targetOf(q)
	if f != nil {
		return nil, f
	}
	match, tenant, f := routeOf(view, q, target)
	if f != nil {
		return nil, f
	}
	call := n.imagine(view, target, now)
	q.headers(call.Request.Header)
	if len(q.Body) > 0 {
		call.Body.Bytes = q.Body
		if call.Shape, f = call.Codec.Inspect(q.Body, target); f != nil {
			return nil, f
		}
		if call.Shape.Model == "" {
			call.Shape.Model = target.Model
		}
		if call.Shape.Stream && !target.Stream {
			call.Target.Stream, call.Target.Framing = true, protocol.FramingSSE
		}
	} else {
		call.Shape = q.shape()
	}
	who, f := auth.NewCallers(view).Principal(match, auth.Disabled, tenant, q.APIKey, now)
	if f != nil {
		return n.refusal(call, match, f), nil
	}
	ask := &asked{dry: true, unknown: resolve.InputHeader}
	if len(q.Body) == 0 {
		ask.unknown |= resolve.InputBody | resolve.InputTools | resolve.InputEffort
	}
	req, f := n.prepare(call, who, match, ask)
	if f != nil {
		rec := n.refusal(call, match, f)
		rec.Uncertain = ask.guessed.Names()
		return rec, nil
	}
	if len(q.Body) == 0 {
		req.Convert = nil // there is nothing to convert
		if k := req.Scheduling.Affinity; k != nil {
			k.PromptTokens = q.PromptTokens
		}
	}
	choice := n.executor.Choose(req, true, now)
	rec := decision.OfChoice(req, choice, "")
	rec.Dry, rec.LogicalRoutes, rec.Uncertain = true, call.Passed, ask.guessed.Names()
	return rec, nil
}

// imagine is a call that nobody makes.
func (n *Node) imagine(view *snapshot.View, target protocol.Target, at time.Time) *inbound.Call {
	return &inbound.Call{
		Start: at, View: view, Target: target, Codec: endpoint.For(n.inbound.Codec(target.Protocol), target),
		Body: new(inbound.Body), Request: &http.Request{Header: make(http.Header)},
	}
}

// refusal is the record of a call that is refused before anything is selected.
func (n *Node) refusal(call *inbound.Call, match route.Match, f *fault.Error) *decision.Record {
	return &decision.Record{
		ID: ident.New(ident.Decision), At: call.Start, Dry: true,
		PolicyGeneration: call.View.Policy.Generation, IdentityGeneration: call.View.Identity.Generation,
		Features: decision.Features{
			Tenant: match.TenantID, Route: match.GetId(), Protocol: string(call.Target.Protocol), Operation: call.Target.Op.String(),
			Model: decision.Cut(call.Shape.Model), Stream: call.Target.Stream,
		},
		LogicalRoutes: call.Passed,
		Refusal:       decision.RefusalOf(f),
		Stop:          string(attempt.StopNoCandidate),
	}
}

// paths are where the protocols are called.
var paths = map[protocol.Name]string{
	protocol.OpenAIChat: "/v1/chat/completions", protocol.OpenAIResponses: "/v1/responses", protocol.Anthropic: "/v1/messages",
}

func targetOf(q *Question) (protocol.Target, *fault.Error) {
	name := protocol.Name(q.Protocol)
	if name == "" {
		name = protocol.OpenAIChat
	}
	path := paths[name]
	if name == protocol.Gemini {
		if q.Model == "" {
			return protocol.Target{}, fault.New(fault.InvalidRequest, "name the model: calls of this protocol have it in their path")
		}
		path = "/v1beta/models/" + q.Model + ":generateContent"
		if q.Stream {
			path = "/v1beta/models/" + q.Model + ":streamGenerateContent"
		}
	}
	if path == "" {
		return protocol.Target{}, fault.Newf(fault.InvalidRequest, "the protocol %q is unknown; it is one of %s, %s, %s and %s",
			q.Protocol, protocol.OpenAIChat, protocol.OpenAIResponses, protocol.Anthropic, protocol.Gemini)
	}
	t, f := protocol.Identify(http.MethodPost, path, "alt=sse", nil)
	if f == nil && q.Stream && !t.Stream {
		t.Stream, t.Framing = true, protocol.FramingSSE
	}
	return t, f
}

// routeOf finds the route that a question names, and the id of the tenant.
func routeOf(v *snapshot.View, q *Question, target protocol.Target) (route.Match, string, *fault.Error) {
	var tenants []*snapshot.Tenant
	if t := v.Tenant(q.Tenant); t != nil {
		tenants = append(tenants, t)
	} else {
		for _, id := range v.Tenants() {
			if t := v.Tenant(id); q.Tenant == "" || t.Message.GetTenant().GetName() == q.Tenant {
				tenants = append(tenants, t)
			}
		}
	}
	if len(tenants) == 0 {
		return route.Match{}, "", fault.Newf(fault.InvalidRequest, "there is no tenant %q in this configuration", q.Tenant)
	}
	find := func(list []*configv1.Route) (route.Match, bool) {
		for _, r := range list {
			if r.GetDisabled() || q.Route != "" && r.GetId() != q.Route && r.GetName() != q.Route {
				continue
			}
			found, _ := v.FindRoute(r.GetHost(), r.GetPathPrefix())
			if found == nil || found.GetId() != r.GetId() {
				continue
			}
			if m := (route.Match{Route: found}); q.Route != "" || admits(m, target) {
				return m, true
			}
		}
		return route.Match{}, false
	}
	for _, t := range tenants {
		if m, ok := find(t.Message.GetRoutes()); ok {
			return m, t.ID, nil
		}
	}
	if m, ok := find(v.Global.Message.GetSharedRoutes()); ok {
		if q.Tenant == "" {
			return m, "", nil
		}
		return m, tenants[0].ID, nil
	}
	return route.Match{}, "", fault.Newf(fault.InvalidRequest, "there is no route %q that is switched on for this tenant and protocol", q.Route)
}

// headers are the hints that a call has in headers.
func (q *Question) headers(h http.Header) {
	for name, v := range map[string]string{"X-Gateway-Session-Id": q.SessionKey, "X-Gateway-Task": q.Task, "X-Gateway-Class": q.Class} {
		if v != "" {
			h.Set(name, v)
		}
	}
}

func (q *Question) shape() *protocol.Shape {
	f := decision.Features{
		Model: q.Model, Stream: q.Stream, PromptTokens: q.PromptTokens, MaxOutput: q.MaxOutputTokens,
		Images: q.Images, Audio: q.Audio, Video: q.Video, Documents: q.Documents, FunctionTools: q.Tools, ServerTools: q.ServerTools,
		StructuredOutput: q.StructuredOutput, Reasoning: q.Thinking,
	}
	return f.Shape()
}

// again prepares a recorded call as it would be decided under the configuration of the
// node. It fails with the refusal of a call that gets no further. ask takes the record,
// and says afterwards what was guessed.
func (n *Node) again(ask *asked, callers *auth.Callers, at time.Time) (*attempt.Request, *fault.Error) {
	f := ask.recorded
	ask.key = f.Key()
	view := n.holder.Load()
	op := protocol.OperationNamed(f.Operation)
	target := protocol.Target{Protocol: protocol.Name(f.Protocol), Op: op, Model: f.Model, Stream: f.Stream}
	if f.Stream {
		target.Framing = protocol.FramingSSE
	}
	match, tenant, fail := routeOf(view, &Question{Tenant: f.Tenant, Route: f.Route}, target)
	if fail != nil {
		return nil, fault.New(fault.UnknownPath, fail.Public)
	}
	if !admits(match, target) {
		return nil, notAdmitted(target.Protocol)
	}
	method, _ := auth.MethodNamed(f.Auth)
	who, fail := callers.Principal(match, method, tenant, f.APIKey, at)
	if fail != nil {
		return nil, fail
	}
	call := n.imagine(view, target, at)
	call.Shape = f.Shape()
	h := call.Request.Header
	hints := map[string]string{"X-Gateway-Task": f.Task, "X-Gateway-Class": f.Class}
	if r := f.Routing; r != nil {
		hints["X-Gateway-Task-Risk"], hints["X-Gateway-Data-Label"] = r.Risk, r.Label
	}
	for name, v := range hints {
		if v != "" {
			h.Set(name, v)
		}
	}
	if f.Guarded {
		h.Set("X-Gateway-Replay", "never")
	}
	req, fail := n.prepare(call, who, match, ask)
	if fail != nil {
		return nil, fail
	}
	req.Convert = nil
	if f.NativeOnly {
		req.Convert = func(*plan.Candidate) (*protocol.Converted, *fault.Error) {
			return nil, fault.New(fault.RequestNotSupported, "the call cannot be converted")
		}
	}
	if f.Owner != nil {
		req.Owner = stateid.Owner{Scope: f.Owner.Scope, Upstream: f.Owner.Upstream}
	}
	return req, nil
}

// Planner decides about calls under one configuration, with the state of a node that has
// just started. It sends nothing. It is not safe for concurrent use.
type Planner struct {
	node    *Node
	callers *auth.Callers
}

// NewPlanner returns a Planner for a configuration.
func NewPlanner(view *snapshot.View) *Planner {
	n := &Node{
		log:       zerolog.Nop(),
		holder:    snapshot.NewStaticHolder(view),
		inbound:   inbound.New(inbound.Config{}, Codecs()...),
		scheduler: schedule.New(schedule.Config{}),
		affinity:  affinity.NewStore(affinity.Config{}),
	}
	n.executor = attempt.New(n.scheduler, n.affinity, nil, nil, n.holder, nil)
	return &Planner{node: n, callers: auth.NewCallers(view)}
}

// Explain is what Node.Explain says in the state that the planner is in.
func (p *Planner) Explain(q *Question, now time.Time) (*decision.Record, *fault.Error) {
	return p.node.Explain(q, now)
}

// ExplainAgain says where a recorded call would go.
func (p *Planner) ExplainAgain(f *decision.Features, now time.Time) *decision.Record {
	ask := &asked{recorded: f, dry: true}
	req, fail := p.node.again(ask, p.callers, now)
	if fail != nil {
		return &decision.Record{
			ID: ident.New(ident.Decision), At: now, Dry: true, Features: *f, Refusal: decision.RefusalOf(fail), Stop: string(attempt.StopNoCandidate),
			Uncertain: ask.guessed.Names(),
		}
	}
	rec := decision.OfChoice(req, p.node.executor.Choose(req, true, now), "")
	rec.Dry, rec.Uncertain = true, ask.guessed.Names()
	return rec
}

// ReadQuestion reads a Question from JSON, in which names are not to be misspelt.
func ReadQuestion(data []byte) (*Question, *fault.Error) {
	q := new(Question)
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(q); err != nil {
		return nil, fault.Newf(fault.InvalidRequest, "read the question: %v", err)
	}
	if dec.More() {
		return nil, fault.New(fault.InvalidRequest, "the question has data after its JSON object")
	}
	return q, nil
}
