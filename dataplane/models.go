package dataplane

import (
	"slices"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/route"
)

// models answers a list of models, or one, in the client's protocol: only what the
// caller may use.
func (n *Node) models(call *inbound.Call, match route.Match, who *auth.Principal) *attempt.Result {
	list := resolve.List(who, match.Route)
	infos := make([]protocol.ModelInfo, 0, len(list))
	for _, m := range list {
		info := protocol.ModelInfo{
			ID:              m.Name,
			DisplayName:     m.DisplayName,
			OwnedBy:         m.Owner,
			Created:         m.Created,
			MaxInputTokens:  m.MaxContext,
			MaxOutputTokens: m.MaxOutput,
			Embeds:          slices.Contains(m.Features, configv1.Feature_FEATURE_EMBEDDINGS),
		}
		info.EmbedsOnly = info.Embeds && len(m.Features) == 1
		if call.Target.Op == protocol.OpGetModel && m.Name == call.Target.Model {
			call.Answer(call.Codec.ModelGet(info))
			return &attempt.Result{}
		}
		infos = append(infos, info)
	}
	if call.Target.Op == protocol.OpGetModel {
		return failed(fault.Newf(fault.ModelUnknown, "the model %q is not configured, or this API key may not use it", call.Target.Model))
	}
	body, f := call.Codec.ModelList(infos, call.Request.URL.Query())
	if f != nil {
		return failed(f)
	}
	call.Answer(body)
	return &attempt.Result{}
}
