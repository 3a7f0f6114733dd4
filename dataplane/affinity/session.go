package affinity

import (
	"net/http"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// KeyHeader is the header with which a caller names what is to stay together.
const KeyHeader = "x-gateway-cache-affinity-key"

// SessionHeaders are the headers that are taken for the name of a session if nothing else
// is configured, first to last.
var sessionHeaders = []string{"x-gateway-session-id", "x-claude-code-session-id", "session_id", "session-id", "x-session-id"}

// pinned returns the member that ties the request to an object one upstream stores, and
// the object's name.
func pinned(s *protocol.Shape) (source, object string) {
	switch {
	case s.PreviousResponse != "":
		return "previous_response_id", s.PreviousResponse
	case s.Conversation != "":
		return "conversation", s.Conversation
	case s.CachedContent != "":
		return "cachedContent", s.CachedContent
	}
	for i := range s.Refs {
		if s.Refs[i].Pins {
			return "stored_object", s.Refs[i].ID
		}
	}
	return "", ""
}

// session returns what names the session of the request, and the name.
func session(in *Input) (source, name string) {
	if v := in.Header.Get(KeyHeader); v != "" {
		return KeyHeader, v
	}
	fromBody := ""
	if in.Shape != nil {
		fromBody = in.Shape.SessionKey
	}
	if fromBody != "" && in.Protocol != protocol.Anthropic {
		return "prompt_cache_key", fromBody
	}
	names := in.SessionHeaders
	if names == nil {
		names = sessionHeaders
	}
	for _, h := range names {
		if v := headerOf(in.Header, h); v != "" {
			return strings.ToLower(h), v
		}
	}
	if fromBody != "" {
		return "metadata.user_id", fromBody
	}
	return "", ""
}

func headerOf(h http.Header, name string) string {
	if len(h) == 0 {
		return ""
	}
	return strings.TrimSpace(h.Get(name))
}
