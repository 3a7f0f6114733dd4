// Package upstream calls providers: shared connections, egress proxies, the
// injection of credentials, and the rules for headers.
//
// Calls that leave the node directly go through an HTTP/1.1 client of this package.
// net/http's Transport has two goroutines for each connection and hands every call from
// one to the other and back; where a gateway does little else, that is a large part of
// a call. With it a 1 KB call through the node took 177 and 198 µs of CPU time in two
// runs, with this client 129 and 120 µs; a call of 200 KB 445 and 450 µs, and 361 and
// 359 µs (docs/performance.md). Here the calling goroutine writes the
// request and reads the answer; only a request too large for the connection's buffers
// has a goroutine that writes it. The client speaks what the providers' APIs need and
// no more: no redirects, no compression, no upgrades, no HTTP/2. Calls through an
// egress proxy use net/http.
package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

// Call is one call of a provider.
type Call struct {
	Method string
	URL    *url.URL
	Header http.Header

	// Body is sent as it stands, part after part; empty for none.
	Body [][]byte

	// BodyDone is called once the transport will not touch Body again, which can be
	// after Do has returned. Nil is allowed.
	BodyDone func()

	Egress Egress
}

// Egress is how a call leaves the node.
type Egress struct {
	AllowPrivate   bool // private, loopback and link-local addresses may be called
	ConnectTimeout time.Duration
	Proxy          *Proxy // nil for a direct connection
}

// Proxy is an egress proxy.
type Proxy struct {
	URL      string // http, https or socks5, without user
	Username string
	Password secret.Text
}

// Config tunes a Transport. A zero field takes the default it documents.
type Config struct {
	ConnectTimeout  time.Duration // TCP and proxy; default 5 s
	TLSTimeout      time.Duration // default 5 s
	MaxIdle         int           // idle connections in all; default 4,096
	MaxIdlePerHost  int           // default 1,024
	IdleTimeout     time.Duration // how long an idle connection is kept; default 90 s
	MaxHeaderBytes  int64         // response headers; default 256 KiB
	ReadBufferSize  int           // bytes for each proxied connection; default 4 KiB
	WriteBufferSize int           // bytes for each proxied connection; default 4 KiB

	// TLS is used for https. Nil means the system's roots.
	TLS *tls.Config
}

// Transport calls providers: over HTTP/1.1, or what net/http chooses where there is an
// egress proxy. Calls that leave the node the same way share connections. Safe for
// concurrent use.
type Transport struct {
	cfg      Config
	pool     *pool // of direct connections
	sessions tls.ClientSessionCache

	mu   sync.Mutex
	ways map[way]*http.Transport // of proxied calls; guarded by mu
}

// way is everything that keeps two calls from sharing connections.
type way struct {
	private  bool
	connect  time.Duration
	proxy    string
	username string
	password string // fingerprint
}

// maxWays bounds the transports kept. Ways come from configuration, so this many
// are never in use; the ones of old configurations are closed.
const maxWays = 256

// New returns a Transport. It opens no connection.
func New(cfg Config) *Transport {
	cfg.ConnectTimeout = orDefault(cfg.ConnectTimeout, 5*time.Second)
	cfg.TLSTimeout = orDefault(cfg.TLSTimeout, 5*time.Second)
	cfg.MaxIdle = orDefault(cfg.MaxIdle, 4096)
	cfg.MaxIdlePerHost = orDefault(cfg.MaxIdlePerHost, 1024)
	cfg.IdleTimeout = orDefault(cfg.IdleTimeout, 90*time.Second)
	cfg.MaxHeaderBytes = orDefault(cfg.MaxHeaderBytes, 256<<10)
	cfg.ReadBufferSize = orDefault(cfg.ReadBufferSize, 4<<10)
	cfg.WriteBufferSize = orDefault(cfg.WriteBufferSize, 4<<10)
	return &Transport{
		cfg:      cfg,
		pool:     newPool(cfg.MaxIdle, cfg.MaxIdlePerHost, cfg.IdleTimeout),
		sessions: tls.NewLRUClientSessionCache(0),
		ways:     make(map[way]*http.Transport),
	}
}

func orDefault[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

// Do sends the call and returns the provider's answer once its headers are there.
// The caller reads and closes the body from one goroutine. It never follows a redirect:
// credentials would go along.
//
// The answer may come before the request is out, for instance from an upstream that
// refuses a large body. A connection is used again only after an answer that was read
// to its end.
//
// It fails with fault.Connect if nothing can have been sent, and with fault.Reset if
// the connection broke, or the answer could not be read, before the end of the headers.
// When ctx ends, connection and body fail at once, and the cause is in the error's tree.
func (t *Transport) Do(ctx context.Context, c *Call) (*http.Response, error) {
	if c.Egress.Proxy == nil {
		k, err := keyOf(c)
		if err != nil {
			done(c.BodyDone)
			return nil, t.fault(ctx, c, fault.Connect, err)
		}
		return t.direct(ctx, c, k)
	}
	return t.proxied(ctx, c)
}

// keyOf is where a direct call goes.
func keyOf(c *Call) (hostKey, error) {
	k := hostKey{scheme: c.URL.Scheme, address: c.URL.Host, private: c.Egress.AllowPrivate, connect: c.Egress.ConnectTimeout}
	if k.scheme != "http" && k.scheme != "https" {
		return k, fmt.Errorf("the URL scheme %q is neither http nor https", k.scheme)
	}
	host := c.URL.Hostname()
	if host == "" {
		return k, errors.New("the URL names no host")
	}
	if c.URL.Port() == "" {
		k.address = net.JoinHostPort(host, map[string]string{"http": "80", "https": "443"}[k.scheme])
	}
	return k, nil
}

// proxied makes a call through an egress proxy.
func (t *Transport) proxied(ctx context.Context, c *Call) (*http.Response, error) {
	rt, err := t.transport(c.Egress)
	if err != nil {
		done(c.BodyDone)
		return nil, fault.Wrap(fault.Connect, err)
	}
	req := (&http.Request{
		Method:     c.Method,
		URL:        c.URL,
		Host:       c.URL.Host,
		Header:     c.Header,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
	}).WithContext(ctx)
	if len(c.Body) > 0 {
		b := newBody(c.Body, c.BodyDone)
		req.Body, req.ContentLength = b, b.length
	} else {
		done(c.BodyDone)
	}
	resp, err := rt.RoundTrip(req)
	if err == nil {
		return resp, nil
	}
	return nil, &fault.Error{Class: classOf(err), Proxy: ofProxy(err), Err: fmt.Errorf("call %s: %w", c.URL.Host, withCause(ctx, err))}
}

// ofProxy reports a failure to connect to the egress proxy itself: behind a proxy, it is
// the only one that is dialled. A SOCKS proxy that cannot reach what lies behind it has
// not failed.
func ofProxy(err error) bool {
	var op *net.OpError
	for errors.As(err, &op) {
		if op.Op == "dial" || op.Op == "proxyconnect" {
			return true
		}
		err = op.Err
	}
	return false
}

// withCause keeps the reason for which the caller ended ctx.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return errors.Join(err, cause)
	}
	return err
}

// classOf tells a connection that never was from one that broke.
func classOf(err error) fault.Class {
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect") {
		return fault.Connect
	}
	var dns *net.DNSError
	var unknownCA *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &dns), errors.As(err, &unknownCA), errors.As(err, &record), errors.As(err, &alert),
		errors.Is(err, errPrivate), isTLSTimeout(err):
		return fault.Connect
	}
	return fault.Reset
}

func isTLSTimeout(err error) bool {
	return err.Error() == "net/http: TLS handshake timeout"
}

// Close ends all idle connections; those in use end with their calls.
func (t *Transport) Close() {
	t.pool.empty(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, rt := range t.ways {
		rt.CloseIdleConnections()
	}
}

func (t *Transport) transport(e Egress) (*http.Transport, error) {
	w := way{private: e.AllowPrivate, connect: e.ConnectTimeout}
	if e.Proxy != nil {
		w.proxy, w.username, w.password = e.Proxy.URL, e.Proxy.Username, e.Proxy.Password.Fingerprint()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if rt := t.ways[w]; rt != nil {
		return rt, nil
	}
	rt, err := t.open(e)
	if err != nil {
		return nil, err
	}
	if len(t.ways) >= maxWays {
		for old, rt := range t.ways {
			rt.CloseIdleConnections()
			delete(t.ways, old)
			break
		}
	}
	t.ways[w] = rt
	return rt, nil
}

func (t *Transport) open(e Egress) (*http.Transport, error) {
	dialer := &net.Dialer{
		Timeout:   orDefault(e.ConnectTimeout, t.cfg.ConnectTimeout),
		KeepAlive: 30 * time.Second,
	}
	if !e.AllowPrivate {
		dialer.Control = refusePrivate
	}
	rt := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        t.cfg.TLS,
		TLSHandshakeTimeout:    t.cfg.TLSTimeout,
		MaxIdleConns:           t.cfg.MaxIdle,
		MaxIdleConnsPerHost:    t.cfg.MaxIdlePerHost,
		IdleConnTimeout:        t.cfg.IdleTimeout,
		MaxResponseHeaderBytes: t.cfg.MaxHeaderBytes,
		ReadBufferSize:         t.cfg.ReadBufferSize,
		WriteBufferSize:        t.cfg.WriteBufferSize,
		DisableCompression:     true, // the answer is relayed as it comes
		ForceAttemptHTTP2:      true,
	}
	if e.Proxy == nil {
		return rt, nil
	}
	u, err := url.Parse(e.Proxy.URL)
	if err != nil {
		return nil, fmt.Errorf("egress proxy: its URL cannot be read")
	}
	if e.Proxy.Username != "" {
		u.User = url.UserPassword(e.Proxy.Username, e.Proxy.Password.Reveal())
	}
	rt.Proxy = http.ProxyURL(u)
	return rt, nil
}

var errPrivate = errors.New("the address is private, loopback or link-local, and the provider does not allow that (allow_private_address)")

// reserved are ranges that lead nowhere public beside those netip has names for: this
// network (RFC 791), inside carriers' networks (RFC 6598), protocol assignments
// (RFC 6890), benchmarks (RFC 2544), class E with broadcast (RFC 1112), site-local
// (RFC 3879), and translation to a network's own IPv4 (RFC 8215).
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("64:ff9b:1::/48"),
}

// carriers are ranges of IPv6 that carry an IPv4 address, and where in it: compatible
// (RFC 4291), translated (RFC 6052) and 6to4 (RFC 3056). A gateway on the way calls
// the address inside.
var carriers = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::/96"), 12},
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
}

// refusePrivate looks at the very address that is dialled, after name lookup, so
// that a name cannot lead into the node's own network.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial address %q: %w", address, err)
	}
	a := ap.Addr().Unmap().WithZone("")
	if isPrivate(a) {
		return errPrivate
	}
	for _, c := range carriers {
		if raw := a.As16(); a.Is6() && c.prefix.Contains(a) && isPrivate(netip.AddrFrom4([4]byte(raw[c.at:]))) {
			return errPrivate
		}
	}
	return nil
}

func isPrivate(a netip.Addr) bool {
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() ||
		slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}
