// Package syncdial reaches the sync listener of a control plane over HTTP.
package syncdial

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
)

// maxMessage bounds one message in either direction: the largest shard and what
// frames it. Full syncs come in chunks of about 1 MiB.
const maxMessage = 16 << 20

// Transport is a transport over connections of its own.
type Transport struct {
	connect.Transport
	http *http.Transport
}

// Close closes connections that are idle.
func (t Transport) Close() error {
	t.http.CloseIdleConnections()
	return nil
}

// Dial makes a transport to an endpoint. With a TLS configuration it speaks HTTP/2,
// or HTTP/1.1 to a proxy that knows no better; without one it speaks plain HTTP/1.1.
// Nothing is sent yet.
func Dial(endpoint string, conf *tls.Config) (connect.Transport, error) {
	h := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:     conf,
		TLSHandshakeTimeout: 5 * time.Second,
		ForceAttemptHTTP2:   conf != nil,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     90 * time.Second,
		// No ResponseHeaderTimeout: whoever waits says how long.
	}
	client := &http.Client{
		Transport:     h,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return Transport{
		connecthttp.NewTransport(client, endpoint, connecthttp.WithReadMaxBytes(maxMessage), connecthttp.WithSendMaxBytes(maxMessage)),
		h,
	}, nil
}
