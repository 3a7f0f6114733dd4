package relay

import (
	"net/http"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// CopyHeader copies an upstream's response headers to the client's, less what
// belongs to the connection and what describes the gateway's own account with the
// provider: its limits, organisation and cookies.
func CopyHeader(dst, src http.Header) {
	for name, values := range src {
		if !kept(name) {
			continue
		}
		dst[name] = values
	}
}

func kept(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Te", "Trailer", "Transfer-Encoding",
		"Upgrade", "Alt-Svc", "Strict-Transport-Security", "Set-Cookie", "Server", "Date", "Via",
		"Openai-Organization", "Openai-Project", "Anthropic-Organization-Id", "Retry-After", "Retry-After-Ms",
		"X-Should-Retry":
		return false
	}
	lower := strings.ToLower(name)
	return !strings.HasPrefix(lower, "x-ratelimit-") && !strings.HasPrefix(lower, "anthropic-ratelimit-") &&
		!strings.HasPrefix(lower, "ratelimit") && !strings.HasPrefix(lower, "x-gateway-") && !strings.HasPrefix(lower, "cf-")
}

// ConvertedHeader sets the head of an answer that was converted: nothing of the
// upstream's but its request id, under the name that the caller's SDK reads.
func ConvertedHeader(dst http.Header, p protocol.Name, requestID string) {
	dst["Content-Type"] = []string{"application/json"}
	if requestID == "" {
		return
	}
	switch p {
	case protocol.Anthropic:
		dst["Request-Id"] = []string{requestID}
	case protocol.OpenAIChat, protocol.OpenAIResponses:
		dst["X-Request-Id"] = []string{requestID}
	}
}

// StreamHeader sets what keeps intermediaries from holding a stream back.
func StreamHeader(h http.Header) {
	if ct := h.Get("Content-Type"); !strings.HasPrefix(ct, "text/event-stream") {
		h.Set("Content-Type", "text/event-stream")
	}
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	h.Del("Content-Length")
	h.Del("Content-Encoding")
}
