package dataplane

import (
	"slices"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/endpoint"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/route"
)

// operationOf is the kind of use that an operation is, for the scopes of keys.
func operationOf(op protocol.Operation) auth.Operation {
	switch op {
	case protocol.OpListModels, protocol.OpGetModel:
		return auth.ListModels
	case protocol.OpEmbed, protocol.OpEmbedBatch:
		return auth.Embed
	case protocol.OpRerank:
		return auth.Rerank
	case protocol.OpImage, protocol.OpImageEdit, protocol.OpImageVariation, protocol.OpPredict:
		return auth.Images
	case protocol.OpSpeech, protocol.OpTranscribe, protocol.OpTranslate:
		return auth.Audio
	case protocol.OpVideo, protocol.OpVideoRemix, protocol.OpVideoList, protocol.OpVideoGet, protocol.OpVideoDelete,
		protocol.OpVideoContent, protocol.OpPredictLong, protocol.OpGetOperation:
		return auth.Video
	case protocol.OpFile:
		return auth.Files
	case protocol.OpBatch:
		return auth.Batches
	case protocol.OpRealtime:
		return auth.Realtime
	case protocol.OpRaw:
		return auth.Raw
	}
	return auth.Generate
}

// openAIEndpoint reports an operation of OpenAI's that belongs to neither of its two
// protocols for generation: whoever speaks one of them may have it.
func openAIEndpoint(t protocol.Target) bool {
	return t.Protocol == protocol.OpenAIChat && t.Op != protocol.OpGenerate && !t.Op.Lists()
}

// admits reports whether the route takes the call's protocol.
func admits(match route.Match, t protocol.Target) bool {
	return match.Admits(protocolNumber(t.Protocol)) || openAIEndpoint(t) && match.Admits(configv1.Protocol_PROTOCOL_OPENAI_RESPONSES)
}

// candidates are the accounts that could serve the call.
func candidates(call *inbound.Call, who *auth.Principal, d resolve.Decision) ([]plan.Candidate, *fault.Error) {
	if d.Model == "" && modelless(call) {
		return everyAccount(call, who), nil
	}
	number := protocolNumber(call.Target.Protocol)
	if call.Target.Op == protocol.OpGenerate {
		return plan.Expand(call.View, who, d, number, convertible[call.Target.Protocol]...), nil
	}
	list := plan.Expand(call.View, who, d, number, otherwise(call.Target)...)
	for i := range list {
		list[i].Use = call.Target.Op.String()
	}
	if call.Target.Op != protocol.OpCountTokens && call.Target.Op != protocol.OpCompact && call.Target.Op != protocol.OpResponses {
		for i := range list {
			if list[i].Protocol == configv1.Protocol_PROTOCOL_OPENAI_RESPONSES {
				list[i].Protocol = configv1.Protocol_PROTOCOL_OPENAI_CHAT
			}
		}
	}
	if call.Target.Op == protocol.OpCountTokens {
		// Whoever speaks the caller's protocol counts what the caller sent.
		native := func(c plan.Candidate) bool { return c.Capability != nil && c.Protocol == number }
		if slices.ContainsFunc(list, native) {
			list = slices.DeleteFunc(list, func(c plan.Candidate) bool { return !native(c) })
		}
	}
	need := featureOf(call.Target.Op)
	if need == configv1.Feature_FEATURE_UNSPECIFIED {
		return list, nil
	}
	able := slices.DeleteFunc(slices.Clone(list), func(c plan.Candidate) bool {
		stated := c.Model.GetFeatures()
		return len(stated) > 0 && !slices.Contains(stated, need)
	})
	if len(able) == 0 && len(list) > 0 {
		return nil, fault.Newf(fault.RequestNotSupported, "The model %q is configured with features, and what this call needs (%s) is not among them. Call another model.",
			d.Requested, call.Target.Op)
	}
	return able, nil
}

// otherwise lists the protocols in which an operation can be had of an upstream that
// does not speak the caller's, the best first.
func otherwise(t protocol.Target) []configv1.Protocol {
	var others []configv1.Protocol
	if openAIEndpoint(t) {
		others = append(others, configv1.Protocol_PROTOCOL_OPENAI_RESPONSES)
	}
	for _, name := range endpoint.Convertible(t) {
		others = append(others, protocolNumber(name))
		if name == protocol.OpenAIChat {
			others = append(others, configv1.Protocol_PROTOCOL_OPENAI_RESPONSES)
		}
	}
	return others
}

// featureOf is the feature that a model must have for an operation, if it states any.
func featureOf(op protocol.Operation) configv1.Feature {
	switch op {
	case protocol.OpEmbed, protocol.OpEmbedBatch:
		return configv1.Feature_FEATURE_EMBEDDINGS
	case protocol.OpCompact:
		return configv1.Feature_FEATURE_COMPACT
	case protocol.OpRealtime, protocol.OpResponses:
		return configv1.Feature_FEATURE_WEBSOCKET
	}
	return configv1.Feature_FEATURE_UNSPECIFIED
}
