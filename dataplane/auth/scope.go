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
	Files
	Batches
	Realtime
	Raw // a path that is passed on as it is
)

// allowedBy are the scopes of which one allows the operation. The scope inference
// allows every one that generates: keys hold it only where it was never expanded.
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
	case Files:
		return []configv1.Scope{configv1.Scope_SCOPE_FILES}
	case Batches:
		return []configv1.Scope{configv1.Scope_SCOPE_BATCHES}
	case Realtime:
		return []configv1.Scope{configv1.Scope_SCOPE_REALTIME}
	case Raw:
		return []configv1.Scope{configv1.Scope_SCOPE_RAW}
	case ListModels: // whoever may use models may see which
		return []configv1.Scope{
			configv1.Scope_SCOPE_MODELS, configv1.Scope_SCOPE_CHAT, configv1.Scope_SCOPE_EMBEDDINGS,
			configv1.Scope_SCOPE_IMAGES, configv1.Scope_SCOPE_AUDIO, configv1.Scope_SCOPE_VIDEO,
		}
	}
	return []configv1.Scope{configv1.Scope_SCOPE_CHAT}
}

// generates reports an operation that the scope inference stands for.
func (o Operation) generates() bool { return o != Files && o != Batches && o != Raw }

// scopes names the scopes for people.
func (o Operation) scopes() string {
	var names []string
	all := o.allowedBy()
	if o.generates() {
		all = append(all, configv1.Scope_SCOPE_INFERENCE)
	}
	for _, s := range all {
		names = append(names, strings.ToLower(strings.TrimPrefix(s.String(), "SCOPE_")))
	}
	return strings.Join(names, " or ")
}

func allows(scopes map[configv1.Scope]bool, o Operation) bool {
	return o.generates() && scopes[configv1.Scope_SCOPE_INFERENCE] || slices.ContainsFunc(o.allowedBy(), func(s configv1.Scope) bool { return scopes[s] })
}
