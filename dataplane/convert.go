package dataplane

import (
	"bytes"
	"slices"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/bridge"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
)

// convertible lists the protocols to which a call of each protocol is converted, the
// one that carries most first.
var convertible = map[protocol.Name][]configv1.Protocol{
	protocol.OpenAIChat: {
		configv1.Protocol_PROTOCOL_OPENAI_RESPONSES, configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES, configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT,
	},
	protocol.OpenAIResponses: {
		configv1.Protocol_PROTOCOL_OPENAI_CHAT, configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES, configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT,
	},
	protocol.Anthropic: {
		configv1.Protocol_PROTOCOL_OPENAI_RESPONSES, configv1.Protocol_PROTOCOL_OPENAI_CHAT, configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT,
	},
	protocol.Gemini: {
		configv1.Protocol_PROTOCOL_OPENAI_CHAT, configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES, configv1.Protocol_PROTOCOL_OPENAI_RESPONSES,
	},
}

// converter makes the calls of candidates that speak another protocol than the
// caller, or stream where the caller does not.
func (n *Node) converter(call *inbound.Call, who *auth.Principal, public string, options protocol.Options, edits []protocol.Edit) func(*plan.Candidate) (*protocol.Converted, *fault.Error) {
	if call.Target.Op != protocol.OpGenerate {
		return n.endpointConverter(call, public, options, edits)
	}
	var b *bridge.Call
	return func(c *plan.Candidate) (*protocol.Converted, *fault.Error) {
		from, ok1 := n.inbound.Codec(call.Target.Protocol).(bridge.Codec)
		to, ok2 := n.inbound.Codec(protocolName(c.Protocol)).(bridge.Codec)
		if !ok1 || !ok2 {
			return nil, fault.New(fault.RequestNotSupported, "")
		}
		if b == nil {
			key, _ := call.View.StateKey(who.Tenant.ID)
			body := call.Body.Bytes
			if len(edits) > 0 {
				body = bytes.Join(protocol.Splice(body, edits), nil)
			}
			b = &bridge.Call{
				Codec:     from,
				Target:    call.Target,
				Body:      body,
				RequestID: call.ID,
				Started:   call.Start,
				Version:   call.Request.Header.Get("Anthropic-Version"),
				Options:   options,
				StateKey:  key,
			}
		}
		return b.Convert(bridge.To{
			Codec:     to,
			Public:    public,
			Model:     c.UpstreamModel(),
			MaxOutput: c.Model.GetMaxOutputTokens(),
			Compat:    c.Compat(),
			Scope:     c.StateScope,
			// Servers that do not know the mark refuse the call, so silence means no.
			NoBreakpoints: !slices.Contains(c.Model.GetFeatures(), configv1.Feature_FEATURE_PROMPT_CACHE),
		})
	}
}

// foreignState reports whether a conversation holds reasoning that was handed out in
// the place of the protocol's own while another vendor served it: a token of ours, a
// thinking block that nobody signed, or an item of reasoning that only this gateway
// knows. The vendor would refuse all of them.
func foreignState(call *inbound.Call) bool {
	body := call.Body.Bytes
	if call.Target.Op != protocol.OpGenerate {
		return false
	}
	var marks []string
	switch call.Target.Protocol {
	case protocol.Anthropic:
		marks = []string{`"signature":""`, `"signature": ""`}
	case protocol.OpenAIResponses:
		marks = []string{`"rs_` + string(ident.Request) + `_`}
	}
	return stateid.MayHoldToken(body) ||
		slices.ContainsFunc(marks, func(m string) bool { return bytes.Contains(body, []byte(m)) })
}

// protocolName is protocolNumber the other way round.
func protocolName(p configv1.Protocol) protocol.Name {
	for _, name := range [...]protocol.Name{protocol.OpenAIChat, protocol.OpenAIResponses, protocol.Anthropic, protocol.Gemini} {
		if protocolNumber(name) == p {
			return name
		}
	}
	return ""
}
