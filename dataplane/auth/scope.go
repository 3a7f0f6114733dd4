package auth

import (
	"slices"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// Operation is a kind of use that a key's scopes allow or not.
type Operation uint8

// The operations that exist.
const (
	Generate   Operation = iota // an answer of a model, and what belongs to it: counts, summaries, moderation
	ListModels                  // see what may be used
	Embed
	Rerank
	Images
	Audio
	Video
)

// allowedBy are the scopes of which one allows the operation. The scope inference
// allows every one of them: keys hold it only where it was never expanded.
func (o Operation) allowedBy() []configv1.Scope {
	switch o {
	case Embed:
		return []configv1.Scope{configv1.Scope_SCOPE_EMBEDDINGS}
	case Rerank:
		return []configv1.Scope{configv1.Scope_SCOPE_EMBEDDINGS, configv1.Scope_SCOPE_CHAT}
	case Images:
		return []configv1.Scope{configv1.Scope_SCOPE_IMAGES}
	case Audio:
		return []configv1.Scope{configv1.Scope_SCOPE_AUDIO}
	case Video:
		return []configv1.Scope{configv1.Scope_SCOPE_VIDEO}
	case ListModels: // whoever may use models may see which
		return []configv1.Scope{
			configv1.Scope_SCOPE_MODELS, configv1.Scope_SCOPE_CHAT, configv1.Scope_SCOPE_EMBEDDINGS,
			configv1.Scope_SCOPE_IMAGES, configv1.Scope_SCOPE_AUDIO, configv1.Scope_SCOPE_VIDEO,
		}
	}
	return []configv1.Scope{configv1.Scope_SCOPE_CHAT}
}

// scopes names the scopes for people.
func (o Operation) scopes() string {
	var names []string
	for _, s := range append(o.allowedBy(), configv1.Scope_SCOPE_INFERENCE) {
		names = append(names, strings.ToLower(strings.TrimPrefix(s.String(), "SCOPE_")))
	}
	return strings.Join(names, " or ")
}

func allows(scopes map[configv1.Scope]bool, op Operation) bool {
	return scopes[configv1.Scope_SCOPE_INFERENCE] || slices.ContainsFunc(op.allowedBy(), func(s configv1.Scope) bool { return scopes[s] })
}
