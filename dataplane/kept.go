package dataplane

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/route"
)

// decide says where a call leads: to a model's accounts or, for one on kept objects
// that names no model, to all accounts. What the logical routes that it passes change
// about it is then changed.
func (n *Node) decide(call *inbound.Call, match route.Match, who *auth.Principal, ask *asked) (resolve.Decision, *fault.Error) {
	if !modelless(call) {
		return n.follow(call, match, who, ask)
	}
	if call.Target.Op == protocol.OpBatch && call.Target.Method == http.MethodPost && call.Target.Object == "" && limitedModels(who) {
		return resolve.Decision{}, fault.New(fault.NotPermitted,
			"This API key may use certain models only, and the models of this batch are in a file that the gateway does not read. Use a key without a list of models.")
	}
	if call.Target.Op == protocol.OpRaw && limitedModels(who) {
		return resolve.Decision{}, fault.New(fault.NotPermitted,
			"This API key may use certain models only, and the gateway does not read what this path is sent. Use a key without a list of models.")
	}
	return resolve.Decision{}, nil
}

func modelless(call *inbound.Call) bool {
	return call.Shape.Model == "" && (call.Target.Op.Kept() || call.Target.Op.ByObject() || call.Target.Op == protocol.OpRaw)
}

// limitedModels reports a caller that has a list of models it may use.
func limitedModels(who *auth.Principal) bool {
	return who.Consumer != nil && who.Consumer.Allowed != nil || who.Key != nil && who.Key.Allowed != nil
}

// claim finds the owner of the object that a call's path and query name, and puts the
// provider's ids in their place. owner is that of the objects in the body; zero if it
// names none.
//
// An id that the gateway did not make goes to the only account there is as it is. With
// several, nobody can tell whose it is, and it is refused with StateNotFound. So is a
// list, with RequestNotSupported: each account has its own.
func claim(call *inbound.Call, who *auth.Principal, groups []string, owner stateid.Owner, list []plan.Candidate) (stateid.Owner, *fault.Error) {
	t := &call.Target
	if !t.Op.Kept() && !t.Op.ByObject() {
		return owner, nil
	}
	key, _ := call.View.StateKey(who.Tenant.ID)
	foreign := false
	own := func(wrapped string) (string, *fault.Error) {
		id, o, ok := key.Unwrap(wrapped)
		switch {
		case !ok:
			foreign = true
			return wrapped, nil
		case owner != (stateid.Owner{}) && owner.Scope != o.Scope:
			return "", fault.New(fault.InvalidRequest, "The request names objects that two different upstream accounts keep, and no account has both.")
		}
		owner = o
		return id, nil
	}
	var f *fault.Error
	if t.Object != "" {
		if t.Object, f = own(t.Object); f != nil {
			return owner, f
		}
	}
	if t.RawQuery, f = unwrapQuery(t.RawQuery, own); f != nil {
		return owner, f
	}
	if t.Op.Kept() && t.Object == "" && t.Method == http.MethodGet && who.Method == auth.APIKey {
		return owner, fault.New(fault.RequestNotSupported,
			"What all who share an upstream account keep there stands in one list, so that the gateway does not hand it to one of them. Keep the id of each object that you make, and ask for that.")
	}
	if owner != (stateid.Owner{}) || scopesIn(list, groups) <= 1 {
		return owner, nil
	}
	switch {
	case foreign:
		return owner, fault.New(fault.StateNotFound,
			"The id is not one that this gateway gave out to you, and there are several upstream accounts that could have it. Use the ids from this gateway's own answers.")
	case t.Method == http.MethodGet:
		return owner, fault.New(fault.RequestNotSupported,
			"Several upstream accounts keep objects for you, each with a list of its own, and the gateway does not join them. Keep the ids of what you make and ask for each.")
	}
	return owner, nil
}

// unwrapQuery replaces the wrapped ids in a query, such as the cursor of a list.
func unwrapQuery(raw string, own func(string) (string, *fault.Error)) (string, *fault.Error) {
	if !strings.Contains(raw, "gw1_") {
		return raw, nil
	}
	parts := strings.Split(raw, "&")
	for i, p := range parts {
		name, value, _ := strings.Cut(p, "=")
		text, err := url.QueryUnescape(value)
		if err != nil || !stateid.IsWrapped(text) {
			continue
		}
		id, f := own(text)
		if f != nil {
			return "", f
		}
		parts[i] = name + "=" + url.QueryEscape(id)
	}
	return strings.Join(parts, "&"), nil
}

// scopesIn counts the state scopes among the candidates that the caller may use.
func scopesIn(list []plan.Candidate, groups []string) int {
	var seen []string
	for _, c := range list {
		if c.Capability == nil || !slices.Contains(groups, c.Upstream.GetGroupId()) || c.Upstream.GetDisabled() || c.Credential.GetDisabled() {
			continue
		}
		if !slices.Contains(seen, c.StateScope) {
			seen = append(seen, c.StateScope)
		}
	}
	return len(seen)
}

// everyAccount are the candidates of a call that names no model.
func everyAccount(call *inbound.Call, who *auth.Principal) []plan.Candidate {
	number := protocolNumber(call.Target.Protocol)
	list := plan.ExpandAll(call.View, who, number, otherwise(call.Target)...)
	for i := range list {
		if list[i].Protocol == configv1.Protocol_PROTOCOL_OPENAI_RESPONSES {
			list[i].Protocol = number
		}
		if call.Target.Op == protocol.OpRaw {
			list[i].Use = call.Target.Op.String() // what fails there rests nothing else
		}
	}
	return list
}
