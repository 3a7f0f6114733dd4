package upstream

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// peer is an upstream that speaks as a test tells it to, byte for byte.
type peer struct {
	url   string
	conns atomic.Int32
	stop  chan struct{} // closed when the test is over

	mu   sync.Mutex
	open []net.Conn // guarded by mu
	wg   sync.WaitGroup
}

// newPeer serves every connection with the given function, which gets its number from 1.
func newPeer(t *testing.T, serve func(n int, c net.Conn, r *bufio.Reader, stop <-chan struct{})) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return servePeer(t, l, "http", serve)
}

func servePeer(t *testing.T, l net.Listener, scheme string, serve func(n int, c net.Conn, r *bufio.Reader, stop <-chan struct{})) *peer {
	p := &peer{url: scheme + "://" + l.Addr().String(), stop: make(chan struct{})}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := int(p.conns.Add(1))
			p.mu.Lock()
			p.open = append(p.open, c)
			p.mu.Unlock()
			p.wg.Go(func() {
				defer c.Close()
				serve(n, c, bufio.NewReader(c), p.stop)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		close(p.stop)
		p.mu.Lock()
		for _, c := range p.open {
			c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// always answers every request on a connection with the same bytes.
func always(answer string) func(int, net.Conn, *bufio.Reader, <-chan struct{}) {
	return func(_ int, c net.Conn, r *bufio.Reader, _ <-chan struct{}) {
		for readRequest(r) == nil {
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

func readRequest(r *bufio.Reader) error {
	req, err := http.ReadRequest(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err
}

func newTransport(t *testing.T, cfg Config) *Transport {
	t.Helper()
	tr := New(cfg)
	t.Cleanup(tr.Close)
	return tr
}

// bodyEnd counts how often a call's BodyDone was called.
type bodyEnd struct{ n atomic.Int32 }

func (p *peer) call(t *testing.T, end *bodyEnd, body ...string) *Call {
	t.Helper()
	u, err := url.Parse(p.url + "/v1/chat")
	if err != nil {
		t.Fatal(err)
	}
	c := &Call{
		Method: http.MethodPost,
		URL:    u,
		Header: http.Header{"Content-Type": {"application/json"}},
		Egress: Egress{AllowPrivate: true},
	}
	for _, b := range body {
		c.Body = append(c.Body, []byte(b))
	}
	if end != nil {
		c.BodyDone = func() { end.n.Add(1) }
	}
	return c
}

// ask makes a call and reads its answer to the end.
func ask(t *testing.T, tr *Transport, c *Call) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	resp, err := tr.Do(ctx, c)
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read the answer: %v after %d bytes", err, len(b))
	}
	return resp.StatusCode, string(b)
}

func (e *bodyEnd) waitOnce(t *testing.T) {
	t.Helper()
	eventually(t, "the body is let go of once", func() bool { return e.n.Load() == 1 })
}

// eventually waits for what another goroutine is about to do.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not so after 20 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

const plainOK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// testCA is a certificate for 127.0.0.1 and the pool that trusts it.
func testCA(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func big10MB() string { return strings.Repeat("x", 10<<20) }
