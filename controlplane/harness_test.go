package controlplane

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/aidy-gateway/aidy-gateway/migrations"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
	"github.com/aidy-gateway/aidy-gateway/shared/telemetry"

	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg/pgtest"
)

var pg = pgtest.New(func(ctx context.Context, url string) error { return migrations.Up(ctx, url, nil) })

func TestMain(m *testing.M) { goleak.VerifyTestMain(pg.Around(m)) }

const ownerToken = "owner-token-for-tests-0123456789"

// running is a server at work.
type running struct {
	*Server
	cfg    Config
	admin  string // base URL
	sync   string
	ops    string
	client *http.Client
	stop   func()
}

// start runs a server on a database until the test ends, or stop is called.
func start(t testing.TB, url string, change func(*Config)) *running {
	t.Helper()
	return startLogged(t, url, zerolog.Nop(), change)
}

func startLogged(t testing.TB, url string, log zerolog.Logger, change func(*Config)) *running {
	t.Helper()
	cfg := Config{
		BootstrapToken: secret.New(ownerToken), RootKeyFile: filepath.Join(t.TempDir(), "root.key"),
		AdminListener: listen(t), SyncListener: listen(t), OpsListener: listen(t), SyncInsecure: true, Version: "test",
		Drain: 10 * time.Second,
	}
	cfg.Database.URL = secret.New(url)
	if change != nil {
		change(&cfg)
	}
	tel, err := telemetry.Start(t.Context(), telemetry.Config{}, log)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, tel, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	transport := &http.Transport{Protocols: protocols}
	r := &running{
		Server: s, cfg: cfg, client: &http.Client{Transport: transport},
		admin: "http://" + cfg.AdminListener.Addr().String(), sync: "http://" + cfg.SyncListener.Addr().String(), ops: "http://" + cfg.OpsListener.Addr().String(),
	}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("server ended with %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("server did not end")
		}
		transport.CloseIdleConnections()
		_ = tel.Shutdown(context.Background())
	}
	t.Cleanup(r.stop)
	select {
	case <-s.Opened():
	case err := <-done:
		t.Fatalf("server ended at the start: %v", err)
	case <-time.After(60 * time.Second):
		t.Fatal("server did not open the database")
	}
	eventually(t, func() bool { ready, _ := s.Ready(); return ready }, "server is not ready")
	return r
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// rpc is a client of the admin API over HTTP with a token.
func (r *running) rpc(token string, options ...connecthttp.Option) *connect.Client {
	return connect.NewClient(connecthttp.NewTransport(r.client, r.admin, options...), bearer(token))
}

func bearer(token string) connect.ClientInterceptor {
	return func(next connect.ClientFunc) connect.ClientFunc {
		return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
			if info, ok := connect.CallInfoForClientContext(ctx); ok && token != "" {
				info.RequestHeader().Set("Authorization", "Bearer "+token)
			}
			return next(ctx, spec)
		}
	}
}

// eventually waits for something that other goroutines bring about, for ten
// seconds at most.
func eventually(t testing.TB, ok func() bool, what string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
