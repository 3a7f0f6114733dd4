package configcheck

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// PrivateAddress reports whether a must not be reached unless an owner allowed
// private addresses: loopback, link-local (the metadata services of clouds
// among them), private (RFC 1918, RFC 4193), shared (RFC 6598), unspecified,
// multicast and reserved ranges, also when wrapped as IPv4-mapped IPv6 or under
// the NAT64 prefix of RFC 6052. An invalid address counts as private.
func PrivateAddress(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
		return true
	}
	if a.Is4() {
		b := a.As4()
		return b[0] == 0 || // this network, RFC 1122
			b[0] == 100 && b[1]&0xc0 == 64 || // RFC 6598
			b[0] == 192 && b[1] == 0 && b[2] == 0 || // RFC 6890
			b[0] == 198 && b[1]&0xfe == 18 || // RFC 2544
			b[0] >= 240 // RFC 1112, and broadcast
	}
	b := a.As16()
	if b[0] == 0 && b[1] == 0x64 && b[2] == 0xff && b[3] == 0x9b { // 64:ff9b::/96 and the local 64:ff9b:1::/48
		return b[4] != 0 || b[5] != 0 || PrivateAddress(netip.AddrFrom4([4]byte(b[12:])))
	}
	return false
}

// PrivateHost reports whether the name or literal address host (without a port)
// is private by itself, without asking a name server: a private literal,
// localhost, or digits that some resolvers take for an address, such as 127.1
// and 0x7f000001.
func PrivateHost(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if zone := strings.IndexByte(host, '%'); zone >= 0 {
		return true // a zone only has a meaning on the local link
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return PrivateAddress(a)
	}
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil {
		return true
	}
	return strings.Trim(last, "0123456789") == ""
}

// endpoint is what a URL of an upstream may be.
type endpoint struct {
	schemes        []string
	allowPlaintext bool // http
	allowPrivate   bool
	bare           bool // no path but "/"
}

func (e endpoint) check(l *list, who subject, path, raw string) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Opaque != "" {
		l.add(who, path, "url.parse", "%s is no URL with a scheme and a host; write it like https://api.example.com/v1", quote(raw))
		return
	}
	allowed := false
	for _, s := range e.schemes {
		allowed = allowed || s == u.Scheme
	}
	if !allowed {
		l.add(who, path, "url.scheme", "the scheme is %s; use one of %s", quote(u.Scheme), strings.Join(e.schemes, ", "))
	}
	if u.Scheme == "http" && !e.allowPlaintext {
		l.add(who, path, "url.plaintext", "http sends credentials in clear text; use https, or set allow_plaintext on the provider")
	}
	if u.User != nil {
		l.add(who, path, "url.user_info", "remove user and password from the URL; a secret belongs in a credential")
	}
	if u.RawQuery != "" || u.ForceQuery {
		l.add(who, path, "url.query", "remove the query from the URL")
	}
	if u.Fragment != "" || strings.Contains(raw, "#") {
		l.add(who, path, "url.fragment", "remove the fragment from the URL")
	}
	if e.bare && u.Path != "" && u.Path != "/" {
		l.add(who, path, "url.path", "remove the path from the URL")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			l.add(who, path, "url.port", "%s is no port; use 1 to 65535", quote(port))
		}
	}
	if u.Hostname() == "" {
		l.add(who, path, "url.parse", "%s names no host", quote(raw))
	} else if !e.allowPrivate && PrivateHost(u.Hostname()) {
		l.add(who, path, "url.private_address",
			"%s is a private, loopback or link-local address; use a public one, or let an owner set allow_private_address on the provider", quote(u.Hostname()))
	}
}
