package snapshot

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	connect "connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectinprocess"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric/noop"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// authority is a plane that enrols.
type authority struct {
	*plane
	ca    *peer.CA
	token peer.JoinToken

	mu    sync.Mutex
	used  bool
	node  string
	count int
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	ca, err := peer.NewCA(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &authority{plane: newPlane(), ca: ca, token: peer.NewJoinToken(ca.Hash()), node: ident.New(ident.Node)}
}

func (a *authority) Enroll(_ context.Context, req *syncv1.EnrollRequest) (*syncv1.EnrollResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if text := req.GetJoinToken(); text != "" {
		if text != a.token.Text().Reveal() || a.used {
			return nil, connect.NewError(connect.CodeUnauthenticated, "token is used")
		}
		a.used = true
	} else if a.count == 0 {
		return nil, connect.NewError(connect.CodeUnauthenticated, "no token")
	}
	a.count++
	der, err := a.ca.IssueNode(req.GetCertificateRequest(), a.node, time.Now())
	if err != nil {
		return nil, err
	}
	return &syncv1.EnrollResponse{NodeId: a.node, Certificate: der, CaCertificate: a.ca.DER()}, nil
}

func (a *authority) issued() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

func (a *authority) dial(_ string, conf *tls.Config) (connect.Transport, error) {
	if conf == nil {
		return nil, errors.New("dialled without TLS")
	}
	server := connect.NewServer()
	syncv1connect.RegisterConfigSyncServiceHandler(server, a)
	return connectinprocess.New(server), nil
}

func enrolling(t testing.TB, a *authority, cfg Config, dial Dial) *node {
	t.Helper()
	cfg.Version = "1.0.0"
	if len(cfg.Endpoints) == 0 {
		cfg.Endpoints = []string{"https://127.0.0.1:1"}
	}
	n := &node{holder: new(Holder), done: make(chan struct{})}
	s, err := New(cfg, nil, nil, n.holder, dial, noop.Meter{}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	n.Subscriber = s
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(n.done)
		n.err = s.Run(ctx)
	}()
	t.Cleanup(n.stop)
	return n
}

func TestNodeEnrolsOnceAndKeepsItsIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dir := newAuthority(t), t.TempDir()
		a.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := enrolling(t, a, Config{DataDir: dir, JoinToken: a.token.Text()}, a.dial)
		n.at(t, a.plane)
		id, conf, err := n.Identity()
		if err != nil || id != a.node || conf == nil || n.NodeID() != a.node {
			t.Fatalf("identity %s, %v; want %s", id, err, a.node)
		}
		if w := a.tape().watches[0]; w.GetNode().GetNodeId() != a.node || w.GetNode().GetInstanceId() == "" {
			t.Errorf("stream of %v, want node %s", w.GetNode(), a.node)
		}
		info, err := os.Stat(filepath.Join(dir, identityFile))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("identity file: %v, %v; want mode 0600", info, err)
		}
		first := n.Instance()
		n.stop()
		n = enrolling(t, a, Config{DataDir: dir}, a.dial)
		time.Sleep(time.Second)
		n.at(t, a.plane)
		if a.issued() != 1 || n.Instance() == first {
			t.Errorf("%d certificates, instance %s after %s; want one certificate and a new instance", a.issued(), n.Instance(), first)
		}
	})
}

func TestCertificateIsRenewedAtTwoThirdsOfItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t)
		a.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := enrolling(t, a, Config{DataDir: t.TempDir(), JoinToken: a.token.Text()}, a.dial)
		n.at(t, a.plane)
		first := n.enrolment.current.Load().leaf
		time.Sleep(time.Until(peer.RenewAt(first.NotBefore, first.NotAfter)) - time.Minute)
		if a.issued() != 1 {
			t.Fatal("renewed too early")
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if a.issued() != 2 || n.enrolment.current.Load().leaf.Equal(first) {
			t.Fatalf("%d certificates, want 2", a.issued())
		}
		time.Sleep(9 * time.Hour)
		if _, _, err := n.Identity(); err != nil {
			t.Errorf("after 25 hours: %v", err)
		}
		n.at(t, a.plane)
	})
}

func TestNodeWithoutAValidCertificateServesFromDiskAndSaysWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dir := newAuthority(t), t.TempDir()
		a.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := enrolling(t, a, Config{DataDir: dir, JoinToken: a.token.Text()}, a.dial)
		n.at(t, a.plane)
		n.stop()
		time.Sleep(48 * time.Hour)
		n = enrolling(t, a, Config{DataDir: dir, JoinToken: a.token.Text()}, a.dial)
		time.Sleep(time.Minute)
		if v := n.settled(); v == nil || v.Tenant("t1") == nil {
			t.Error("node does not serve from disk")
		}
		if s := n.Status(); !s.Ready || !strings.Contains(s.LastError, "token") {
			t.Errorf("ready %t, error %q; want ready, and the token named", s.Ready, s.LastError)
		}
		// A new token brings it back.
		n.stop()
		a.mu.Lock()
		a.token, a.used = peer.NewJoinToken(a.ca.Hash()), false
		a.mu.Unlock()
		n = enrolling(t, a, Config{DataDir: dir, JoinToken: a.token.Text()}, a.dial)
		time.Sleep(time.Minute)
		if _, _, err := n.Identity(); err != nil {
			t.Error(err)
		}
	})
}

func TestEnrolmentRefusesAnotherAuthorityThanTheTokenNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, other := newAuthority(t), newAuthority(t)
		a.token = peer.NewJoinToken(other.ca.Hash())
		n := enrolling(t, a, Config{DataDir: t.TempDir(), JoinToken: a.token.Text()}, a.dial)
		time.Sleep(time.Minute)
		if _, _, err := n.Identity(); err == nil {
			t.Error("node took a certificate of another authority")
		}
	})
}

// The whole way over mutual TLS on loopback.
func TestEnrolAndFollowOverTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.commit(tenantEdit("t1"), subjectEdit("t1"))
	server := connect.NewServer()
	syncv1connect.RegisterConfigSyncServiceHandler(server, a)
	mux := http.NewServeMux()
	connecthttp.Mount(mux, server)
	var seen sync.Map
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := peer.RequestNodeID(r)
		if err != nil && !strings.HasSuffix(r.URL.Path, "/Enroll") {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		seen.Store(id, true)
		mux.ServeHTTP(w, r)
	}))
	front.TLS = a.ca.ServerTLS("127.0.0.1")
	front.EnableHTTP2 = true
	front.StartTLS()
	t.Cleanup(front.Close)

	n := enrolling(t, a, Config{DataDir: t.TempDir(), JoinToken: a.token.Text(), Endpoints: []string{front.URL}},
		func(endpoint string, conf *tls.Config) (connect.Transport, error) {
			h := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
			return closing{connecthttp.NewTransport(&http.Client{Transport: h}, endpoint), h}, nil
		})
	deadline := time.Now().Add(20 * time.Second)
	for {
		if v := n.holder.Load(); v != nil && v.Policy == a.head(policy) && v.Identity == a.head(identity) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not at the head: %+v", n.Status())
		}
		time.Sleep(5 * time.Millisecond)
	}
	n.stop()
	if _, ok := seen.Load(a.node); !ok {
		t.Error("the control plane never saw the node's certificate")
	}
}

// closing is a transport that ends its connections when it is no longer needed.
type closing struct {
	connect.Transport
	http *http.Transport
}

func (c closing) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

func TestConfigRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	ok := Config{Endpoints: []string{"https://control.example:7443"}, DataDir: "x"}
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string // empty: no error
	}{
		"complete":             {func(*Config) {}, ""},
		"no endpoint":          {func(c *Config) { c.Endpoints = nil }, "endpoint"},
		"plain endpoint":       {func(c *Config) { c.Endpoints = []string{"http://control.example"} }, "https"},
		"no address":           {func(c *Config) { c.Endpoints = []string{"control.example"} }, "address"},
		"no directory":         {func(c *Config) { c.DataDir = "" }, "data directory"},
		"insecure elsewhere":   {func(c *Config) { c.Insecure, c.NodeID, c.Endpoints = true, testNode, []string{"http://10.0.0.1:1"} }, "loopback"},
		"insecure, no id":      {func(c *Config) { c.Insecure, c.Endpoints = true, []string{"http://localhost:1"} }, "node id"},
		"insecure on loopback": {func(c *Config) { c.Insecure, c.NodeID, c.Endpoints = true, testNode, []string{"http://[::1]:1"} }, ""},
	} {
		cfg := ok
		tc.change(&cfg)
		_, err := New(cfg, nil, nil, new(Holder), nil, noop.Meter{}, zerolog.Nop())
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q in the error", name, err, tc.want)
		}
	}
}

func TestNodeThatCanNeverServeSaysSoAtOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		token string
		want  string
	}{
		"no identity and no token": {"", "aidy nodes join-token"},
		"token that is none":       {"jt_nonsense", "control_plane.join_token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := New(Config{Endpoints: []string{"https://127.0.0.1:1"}, DataDir: t.TempDir(), JoinToken: secret.New(tc.token)},
				nil, nil, new(Holder), newAuthority(t).dial, noop.NewMeterProvider().Meter("test"), zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := s.Run(ctx); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run ended with %v, want an error that names %s", err, tc.want)
			}
		})
	}
}
