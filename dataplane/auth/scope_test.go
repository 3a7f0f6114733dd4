package auth

import (
	"net/http"
	"strings"
	"testing"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// Each scope allows its own operations and no others.
func TestScopesAllowTheirOperationsAlone(t *testing.T) {
	t.Parallel()
	operations := map[Operation]string{
		Generate: "generate", ListModels: "list", Embed: "embed", Rerank: "rerank", Images: "images", Audio: "audio", Video: "video", Raw: "raw", Realtime: "realtime",
	}
	for scope, allowed := range map[configv1.Scope]string{
		configv1.Scope_SCOPE_INFERENCE:  "generate list embed rerank images audio video realtime",
		configv1.Scope_SCOPE_CHAT:       "generate list rerank",
		configv1.Scope_SCOPE_EMBEDDINGS: "list embed rerank",
		configv1.Scope_SCOPE_IMAGES:     "list images",
		configv1.Scope_SCOPE_AUDIO:      "list audio",
		configv1.Scope_SCOPE_VIDEO:      "list video",
		configv1.Scope_SCOPE_MODELS:     "list",
		configv1.Scope_SCOPE_FILES:      "",
		configv1.Scope_SCOPE_BATCHES:    "",
		configv1.Scope_SCOPE_REALTIME:   "realtime",
		configv1.Scope_SCOPE_RAW:        "raw",
		configv1.Scope_SCOPE_ACT_FOR:    "",
	} {
		w := newWorld()
		w.key.Scopes = []configv1.Scope{scope}
		v, m := w.view(t)
		for op, name := range operations {
			_, f := new(Authenticator).Authenticate(v, m, op, http.Header{"X-Api-Key": {"sk-good"}}, "", now)
			if want := strings.Contains(" "+allowed+" ", " "+name+" "); (f == nil) != want {
				t.Errorf("%v to %s: %v, want it allowed: %v", scope, name, f, want)
			}
			if f != nil && !strings.Contains(f.Public, "it takes the scope") {
				t.Errorf("%v to %s: %q does not say which scope is missing", scope, name, f.Public)
			}
		}
	}
}
