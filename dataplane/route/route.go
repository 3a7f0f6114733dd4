// Package route finds where a call belongs: the longest path prefix of the
// configuration gives the Route and, but for shared routes, the tenant.
package route

import (
	"net"
	"net/http"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// Match is the route of a call and what its prefix leaves of the path.
type Match struct {
	*snapshot.Route
	// Rest is the escaped path below the prefix. It begins with a slash or is empty, and
	// names protocol and operation; the prefix never goes upstream.
	Rest string
}

// Find returns the route of a request, or fault.UnknownPath.
func Find(v *snapshot.View, r *http.Request) (Match, *fault.Error) {
	found, rest := v.FindRoute(hostOf(r.Host), r.URL.EscapedPath())
	if found == nil {
		return Match{}, fault.New(fault.UnknownPath,
			"no route is configured for this host and path; check the base URL of your client")
	}
	return Match{Route: found, Rest: rest}, nil
}

// Admits reports whether the route takes the protocol.
func (m Match) Admits(p configv1.Protocol) bool {
	if m.Protocols == nil {
		return true
	}
	_, ok := m.Protocols[p]
	return ok
}

func hostOf(hostport string) string {
	host := hostport
	if strings.Contains(hostport, ":") {
		if h, _, err := net.SplitHostPort(hostport); err == nil {
			host = h
		}
	}
	return strings.ToLower(host)
}
