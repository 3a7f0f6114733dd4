package upstream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

// A proxy that cannot reach what lies behind it has not failed itself: others may need it
// for other places.
func TestProxyIsNotBlamedForWhatLiesBehindIt(t *testing.T) {
	t.Parallel()
	socks := func(_ int, c net.Conn, r *bufio.Reader, _ <-chan struct{}) {
		if _, err := io.ReadFull(r, make([]byte, 3)); err != nil { // version, one method: none
			return
		}
		_, _ = c.Write([]byte{5, 0})
		_, _ = r.ReadByte()
		_, _ = c.Write([]byte{5, 4, 0, 1, 0, 0, 0, 0, 0, 0}) // host unreachable
	}
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	refusing := newPeer(t, always("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"))
	unreachable := newPeer(t, socks)
	for _, tc := range []struct {
		name, proxy string
		blamed      bool
	}{
		{"dead HTTP proxy", "http://" + dead.Addr().String(), true},
		{"dead SOCKS proxy", "socks5://" + dead.Addr().String(), true},
		{"SOCKS proxy without a way", "socks5" + strings.TrimPrefix(unreachable.url, "http"), false},
		{"HTTP proxy that refuses", refusing.url, false},
	} {
		tr := newTransport(t, Config{})
		u, _ := url.Parse("https://api.example.com/v1")
		ctx := t.Context()
		_, err := tr.Do(ctx, &Call{
			Method: http.MethodPost, URL: u, Header: http.Header{}, BodyDone: func() {},
			Egress: Egress{AllowPrivate: true, ConnectTimeout: 5 * time.Second, Proxy: &Proxy{URL: tc.proxy}},
		})
		if err == nil {
			t.Fatalf("%s: the call went through", tc.name)
		}
		if f := fault.As(err); f.Proxy != tc.blamed {
			t.Errorf("%s: blamed %v, want %v: %v", tc.name, f.Proxy, tc.blamed, f)
		}
	}
}
