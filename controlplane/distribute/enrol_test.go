package distribute

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric/noop"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// listener serves a hub over mutual TLS on loopback.
type listener struct {
	d   *database
	h   *Hub
	ca  *peer.CA
	url string
	ctx context.Context
}

func listen(t *testing.T, d *database, cfg Config) *listener {
	t.Helper()
	ca, err := peer.NewCA(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(d, d, d, ca, cfg, zerolog.Nop(), noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(ctx) }()
	server := connect.NewServer()
	syncv1connect.RegisterConfigSyncServiceHandler(server, h)
	mux := http.NewServeMux()
	connecthttp.Mount(mux, server)
	srv := httptest.NewUnstartedServer(Deadlines(mux))
	srv.TLS = ca.ServerTLS()
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(func() {
		cancel()
		<-done
		srv.CloseClientConnections()
		srv.Close()
	})
	for !h.Ready() {
		select {
		case <-h.Changed():
		case <-ctx.Done():
			t.Fatal("the hub did not become ready")
		}
	}
	return &listener{d, h, ca, srv.URL, ctx}
}

func (l *listener) client(t *testing.T, cfg *tls.Config) syncv1connect.ConfigSyncServiceClient {
	tr := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	return syncv1connect.NewConfigSyncServiceClient(connect.NewClient(connecthttp.NewTransport(&http.Client{Transport: tr}, l.url)))
}

func (l *listener) token() string {
	token := peer.NewJoinToken(l.ca.Hash())
	l.d.set(func(d *database) { d.tokens[token.SecretHash()] = true })
	return token.Text().Reveal()
}

// enrol returns a node's TLS settings and id.
func (l *listener) enrol(t *testing.T) (*tls.Config, *syncv1.EnrollResponse) {
	t.Helper()
	text := l.token()
	token, err := peer.ParseJoinToken(secret.New(text))
	if err != nil {
		t.Fatal(err)
	}
	key, csr, err := peer.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	res, err := l.client(t, peer.EnrolTLS(token.CA)).Enroll(l.ctx, &syncv1.EnrollRequest{JoinToken: text, CertificateRequest: csr, Node: &syncv1.NodeInfo{Name: "edge-1"}})
	if err != nil {
		t.Fatal(err)
	}
	cert, id, err := peer.NodeCertificate(key, res.GetCertificate())
	if err != nil || id != res.GetNodeId() {
		t.Fatalf("certificate of %q for node %q: %v", id, res.GetNodeId(), err)
	}
	cfg, err := peer.NodeTLS(res.GetCaCertificate(), func() *tls.Certificate { return &cert })
	if err != nil {
		t.Fatal(err)
	}
	return cfg, res
}

func TestANodeEnrolsOnceWatchesAndRenewsWithItsCertificate(t *testing.T) {
	t.Parallel()
	d := newDatabase()
	d.commit(put{key: "global", payload: "g"})
	l := listen(t, d, Config{})
	cfg, res := l.enrol(t)
	if life := time.Until(res.GetExpireTime().AsTime()); life < 23*time.Hour || life > 25*time.Hour {
		t.Errorf("the certificate lives %v, want 24 h", life)
	}
	d.set(func(d *database) {
		if d.nodes[res.GetNodeId()].Name != "edge-1" || len(d.tokens) != 0 {
			t.Errorf("stored: %v, %d tokens left", d.nodes, len(d.tokens))
		}
	})
	client := l.client(t, cfg)
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	stream, err := client.Watch(ctx, &syncv1.WatchRequest{Node: &syncv1.NodeInfo{NodeId: res.GetNodeId()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if m, err := stream.Receive(); err != nil || m.GetHello() == nil {
		t.Errorf("first came %v, %v", m, err)
	}
	_, csr, err := peer.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	renewed, err := client.Enroll(l.ctx, &syncv1.EnrollRequest{CertificateRequest: csr, Node: &syncv1.NodeInfo{NodeId: res.GetNodeId()}})
	if err != nil || renewed.GetNodeId() != res.GetNodeId() || bytes.Equal(renewed.GetCertificate(), res.GetCertificate()) {
		t.Errorf("renewal: %v, %v", renewed, err)
	}
	_, err = client.Enroll(l.ctx, &syncv1.EnrollRequest{CertificateRequest: csr, Node: &syncv1.NodeInfo{NodeId: "nod_other"}})
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("renewal for another node: %v", err)
	}
	l.h.Revoke(res.GetNodeId())
	_, err = client.Enroll(l.ctx, &syncv1.EnrollRequest{CertificateRequest: csr, Node: &syncv1.NodeInfo{NodeId: res.GetNodeId()}})
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("renewal of a revoked node: %v", err)
	}
}

func TestJoinTokensThatAreNotGoodAreRefusedAndABadRequestDoesNotCostOne(t *testing.T) {
	t.Parallel()
	l := listen(t, newDatabase(), Config{})
	client := l.client(t, peer.EnrolTLS(l.ca.Hash()))
	_, csr, err := peer.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	good := l.token()
	for _, tc := range []struct {
		name, token string
		csr         []byte
		want        connect.Code
	}{
		{"malformed", "jt_nonsense", csr, connect.CodeUnauthenticated},
		{"unknown", peer.NewJoinToken(l.ca.Hash()).Text().Reveal(), csr, connect.CodeUnauthenticated},
		{"no token, no certificate", "", csr, connect.CodeUnauthenticated},
		{"bad request", good, []byte("x"), connect.CodeInvalidArgument},
		{"good", good, csr, 0},
		{"spent", good, csr, connect.CodeUnauthenticated},
	} {
		_, err := client.Enroll(l.ctx, &syncv1.EnrollRequest{JoinToken: tc.token, CertificateRequest: tc.csr})
		var got connect.Code
		if err != nil {
			got = connect.CodeOf(err)
			if tc.token != "" && strings.Contains(err.Error(), tc.token) {
				t.Errorf("%s: the error shows the token", tc.name)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	// Without a certificate nothing but enrolment is served.
	stream, err := client.Watch(l.ctx, &syncv1.WatchRequest{Node: &syncv1.NodeInfo{NodeId: "nod_x"}})
	if err == nil {
		_, err = stream.Receive()
		_ = stream.Close()
	}
	if connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("watch without a certificate: %v", err)
	}
}

// A node that stops reading its fetch loses the place, and its stream.
func TestANodeThatDoesNotReadIsLetGo(t *testing.T) {
	t.Parallel()
	d := newDatabase()
	puts := make([]put, 0, 64)
	for i := range 64 {
		puts = append(puts, put{key: keyShard(i), payload: strings.Repeat(fmt.Sprint(i%10), 512<<10)})
	}
	d.commit(puts...)
	l := listen(t, d, Config{WriteTimeout: 200 * time.Millisecond, Fetches: 1})
	cfg, res := l.enrol(t)
	cfg = cfg.Clone()
	cfg.NextProtos = []string{"http/1.1"}
	raw, err := tls.Dial("tcp", strings.TrimPrefix(l.url, "https://"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	if tcp, ok := raw.NetConn().(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10)
	}
	body := fmt.Sprintf(`{"node":{"nodeId":%q},"view":"VIEW_IDENTITY"}`, res.GetNodeId())
	frame := append([]byte{0, 0, 0, 0, byte(len(body))}, body...)
	req := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/connect+json\r\nConnect-Protocol-Version: 1\r\nContent-Length: %d\r\n\r\n",
		syncv1connect.ConfigSyncServiceFetchShardsProcedure, peer.ServerName, len(frame))
	if _, err := raw.Write(append([]byte(req), frame...)); err != nil {
		t.Fatal(err)
	}
	if line := make([]byte, 15); true {
		if _, err := io.ReadFull(raw, line); err != nil || string(line) != "HTTP/1.1 200 OK" {
			t.Fatalf("answer %q, %v", line, err)
		}
	}
	// From here on the first node reads nothing. The only place must come free.
	ctx, cancel := context.WithTimeout(l.ctx, 20*time.Second)
	defer cancel()
	cfg2, res2 := l.enrol(t)
	stream, err := l.client(t, cfg2).FetchShards(ctx, &syncv1.FetchShardsRequest{Node: &syncv1.NodeInfo{NodeId: res2.GetNodeId()}, View: identity})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if _, err := stream.Receive(); err != nil {
		t.Errorf("the place of a node that does not read never came free: %v", err)
	}
}
