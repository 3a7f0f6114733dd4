package configcheck

import (
	"fmt"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// ForbiddenHeader reports whether configuration must not touch a request header
// on its way to an upstream, and why. Names compare without case.
func ForbiddenHeader(name string) (why string, forbidden bool) {
	name = strings.ToLower(name)
	switch name {
	case "host":
		return "the host follows from the base URL", true
	case "connection", "proxy-connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade":
		return "it belongs to one connection (RFC 9110, section 7.6.1)", true
	case "content-length", "content-encoding", "accept-encoding":
		return "it describes the body as the gateway sends it", true
	case "authorization", "proxy-authorization", "proxy-authenticate", "www-authenticate", "x-api-key", "x-goog-api-key", "api-key", "cookie", "set-cookie":
		return "it carries credentials, which belong in an upstream credential", true
	}
	if strings.HasPrefix(name, "x-gateway-") {
		return "it is the gateway's own and never leaves it", true
	}
	return "", false
}

// headerName reports whether a text can be the name of a header (RFC 9110, section 5.1).
func headerName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func headers(l *list, who subject, path string, overrides []*configv1.HeaderOverride) {
	seen := map[string]bool{}
	for i, h := range overrides {
		at := fmt.Sprintf("%s[%d]", path, i)
		name := strings.ToLower(h.GetName())
		if why, no := ForbiddenHeader(name); no {
			l.add(who, at+".name", "header.forbidden", "remove the override of %s: %s", quote(h.GetName()), why)
		}
		if seen[name] {
			l.add(who, at+".name", "header.duplicate", "%s is overridden twice; keep one", quote(h.GetName()))
		}
		seen[name] = true
		if h.GetValue() != "" && h.GetAction() != configv1.HeaderAction_HEADER_ACTION_SET {
			l.add(who, at+".value", "header.value", "only the action SET takes a value; clear it")
		}
	}
}
