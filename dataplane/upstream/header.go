package upstream

import (
	"net/http"
	"net/textproto"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// withheld reports a header of the client that never goes to a provider: what
// belongs to the connection, what says who the caller is, and what is meant for
// the gateway.
func withheld(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te",
		"Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Host", "Content-Length", // the connection (RFC 9110, 7.6.1)
		"Accept-Encoding",                                                   // the usage must be readable
		"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie", // credentials
		"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
		"X-Real-Ip", "Via", "True-Client-Ip", "Cf-Connecting-Ip", // the caller's network
		"Traceparent", "Tracestate", "Baggage": // the caller's trace
		return true
	}
	// The handshake of a WebSocket belongs to the connection too, and some SDKs put
	// their key into the list of sub-protocols.
	return strings.HasPrefix(name, "X-Gateway-") || strings.HasPrefix(name, "Sec-Websocket-")
}

// Headers returns what is sent to the candidate's provider: the client's headers
// less what is withheld, what routing rewrites, the overrides of capability, provider
// and upstream, and the credential last, which no override can reach. in is not changed.
func Headers(in http.Header, rewritten []*configv1.HeaderOverride, c *plan.Candidate, key secret.Text, bearer secret.Text) http.Header {
	out := make(http.Header, len(in)+4)
	var named []string
	for _, v := range in["Connection"] {
		named = append(named, strings.Split(v, ",")...)
	}
	for name, values := range in {
		if !withheld(name) {
			out[name] = values
		}
	}
	for _, n := range named {
		delete(out, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(n)))
	}
	if out["User-Agent"] == nil {
		out["User-Agent"] = nil // keeps the transport from adding its own
	}
	override(out, in, rewritten)
	overrides(out, in, c)
	authorize(out, in, c, key, bearer)
	return out
}

// ConvertedHeaders is Headers for a call that leaves in another protocol than it came
// in. The client's headers speak of its own protocol, and some tell what other vendors
// need not know, so none of them goes along unless an override passes it on. own are
// the headers that the upstream's protocol needs.
func ConvertedHeaders(in http.Header, own map[string]string, rewritten []*configv1.HeaderOverride, c *plan.Candidate, key, bearer secret.Text) http.Header {
	out := http.Header{"Content-Type": {"application/json"}, "User-Agent": nil}
	for name, value := range own {
		out[textproto.CanonicalMIMEHeaderKey(name)] = []string{value}
	}
	override(out, in, rewritten)
	overrides(out, in, c)
	authorize(out, nil, c, key, bearer) // a caller's own key goes where this provider expects it
	return out
}

func overrides(out, in http.Header, c *plan.Candidate) {
	override(out, in, c.Capability.GetHeaders())
	for _, extra := range c.Capability.GetExtra() {
		if appliesTo(extra.GetModels(), c.UpstreamModel()) {
			override(out, in, extra.GetExtraHeaders())
		}
	}
	override(out, in, c.Provider.GetRequestHeaderOverrides())
	override(out, in, c.Upstream.GetHeaders())
	override(out, in, c.Upstream.GetRequestHeaderOverrides())
}

func appliesTo(models []string, model string) bool {
	if len(models) == 0 {
		return true
	}
	for _, m := range models {
		if m == model {
			return true
		}
	}
	return false
}

func override(out, in http.Header, rules []*configv1.HeaderOverride) {
	for _, r := range rules {
		name := textproto.CanonicalMIMEHeaderKey(r.GetName())
		switch r.GetAction() {
		case configv1.HeaderAction_HEADER_ACTION_SET:
			out[name] = []string{r.GetValue()}
		case configv1.HeaderAction_HEADER_ACTION_REMOVE:
			delete(out, name)
		case configv1.HeaderAction_HEADER_ACTION_PASS:
			if v, ok := in[name]; ok && !credentialHeader(name) {
				out[name] = v
			}
		}
	}
}

func credentialHeader(name string) bool {
	switch name {
	case "Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie", "Proxy-Authorization":
		return true
	}
	return strings.HasPrefix(name, "X-Gateway-")
}

// authorize puts the credential where the provider expects it: Authorization for
// OpenAI, x-api-key for Anthropic, x-goog-api-key for Gemini, or what compat says.
// A caller's own key goes where the caller put it.
func authorize(out, in http.Header, c *plan.Candidate, key, bearer secret.Text) {
	own := !bearer.IsZero()
	placed := false
	for _, name := range [...]string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"} {
		delete(out, name)
		if v := in[name]; own && len(v) > 0 {
			out[name] = v[:1]
			placed = true
		}
	}
	if placed {
		return
	}
	if own {
		key = bearer
	}
	token := key.Reveal()
	if token == "" {
		return
	}
	where := c.Capability.GetCompat().GetAuthHeader()
	if w := c.Upstream.GetCompat().GetAuthHeader(); w != configv1.AuthHeader_AUTH_HEADER_UNSPECIFIED {
		where = w
	}
	if where == configv1.AuthHeader_AUTH_HEADER_UNSPECIFIED {
		switch c.Capability.GetProtocol() {
		case configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES:
			where = configv1.AuthHeader_AUTH_HEADER_X_API_KEY
		case configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT:
			where = configv1.AuthHeader_AUTH_HEADER_X_GOOG_API_KEY
		}
	}
	switch where {
	case configv1.AuthHeader_AUTH_HEADER_X_API_KEY:
		out["X-Api-Key"] = []string{token}
	case configv1.AuthHeader_AUTH_HEADER_X_GOOG_API_KEY:
		out["X-Goog-Api-Key"] = []string{token}
	case configv1.AuthHeader_AUTH_HEADER_API_KEY:
		out["Api-Key"] = []string{token}
	default:
		out["Authorization"] = []string{"Bearer " + token}
	}
}
