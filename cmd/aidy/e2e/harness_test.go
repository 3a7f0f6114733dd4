package e2e

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// patience bounds every wait. It catches a hang; what has to be quick says so itself.
const patience = 60 * time.Second

// inForce is the promise that a change is in force on every node within a second, ten
// times wider, as a machine under load needs.
const inForce = 10 * time.Second

// fleet is a database with control planes and nodes on it, before a scripted provider.
type fleet struct {
	database string
	planes   []*plane
	nodes    []*node
	provider *provider
	admin    *admin // of the first control plane
}

// newFleet starts control planes and nodes and waits until every node runs the
// configuration, which is empty.
func newFleet(t *testing.T, planes, nodes int) *fleet {
	t.Helper()
	f := newPlanes(t, pg.URL(t), planes, planeOptions{})
	for i := range nodes {
		f.nodes = append(f.nodes, f.spec(t, fmt.Sprintf("node-%d", i+1)).start(t))
	}
	for _, n := range f.nodes {
		n.waitCurrent(t)
	}
	return f
}

// newPlanes starts the control planes of a fleet that has no node yet.
func newPlanes(t *testing.T, database string, planes int, o planeOptions) *fleet {
	t.Helper()
	f := &fleet{database: database, provider: newProvider(t)}
	for i := range planes {
		f.planes = append(f.planes, f.startPlane(t, fmt.Sprintf("plane-%d", i+1), o))
	}
	f.admin = f.planes[0].client(t)
	return f
}

// provider is the scripted provider, which also counts what each credential is used for.
type provider struct {
	*fakeprovider.Provider
	url string

	mu    sync.Mutex
	calls map[string]int // guarded by mu; generation requests by credential
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{calls: map[string]int{}}
	p.Provider = fakeprovider.New(fakeprovider.Config{
		Strict: true, Record: 10000, RecordBytes: 256 << 20,
		OnRequest: func(r *fakeprovider.Request) {
			if r.Operation == fakeprovider.Generate {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.calls[r.Key]++
			}
		},
	})
	s := httptest.NewServer(p.Provider)
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// attempts is how many generation requests came with credentials that begin so.
func (p *provider) attempts(prefix string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for key, calls := range p.calls {
		if strings.HasPrefix(key, prefix) {
			n += calls
		}
	}
	return n
}

// of returns the recorded generation requests whose credential begins so.
func (p *provider) of(prefix string) []fakeprovider.Request {
	var out []fakeprovider.Request
	for _, r := range p.Requests() {
		if r.Operation == fakeprovider.Generate && strings.HasPrefix(r.Key, prefix) {
			out = append(out, r)
		}
	}
	return out
}

// waitFor waits until ok is true of the requests whose credential begins so.
func (p *provider) waitFor(t *testing.T, within time.Duration, prefix, what string, ok func([]fakeprovider.Request) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := p.Wait(ctx, func(fakeprovider.Stats) bool { return ok(p.of(prefix)) }); err != nil {
		t.Fatalf("the provider did not see %s within %s: %v", what, within, err)
	}
}

// admin is the admin API of one control plane, called as the owner.
type admin struct {
	tenants   adminv1connect.TenantServiceClient
	upstreams adminv1connect.UpstreamServiceClient
	routes    adminv1connect.RouteServiceClient
	consumers adminv1connect.ConsumerServiceClient
	config    adminv1connect.ConfigServiceClient
	ledger    adminv1connect.LedgerServiceClient
	nodes     adminv1connect.NodeServiceClient
	projects  adminv1connect.ProjectServiceClient
	observe   adminv1connect.ObserveServiceClient
	logs      adminv1connect.LogServiceClient
}

func newAdmin(t *testing.T, url, token string) *admin {
	client := connect.NewClient(connecthttp.NewTransport(&http.Client{Transport: bearer{token, plainClient(t).Transport}}, url))
	return &admin{
		tenants:   adminv1connect.NewTenantServiceClient(client),
		upstreams: adminv1connect.NewUpstreamServiceClient(client),
		routes:    adminv1connect.NewRouteServiceClient(client),
		consumers: adminv1connect.NewConsumerServiceClient(client),
		config:    adminv1connect.NewConfigServiceClient(client),
		ledger:    adminv1connect.NewLedgerServiceClient(client),
		nodes:     adminv1connect.NewNodeServiceClient(client),
		projects:  adminv1connect.NewProjectServiceClient(client),
		observe:   adminv1connect.NewObserveServiceClient(client),
		logs:      adminv1connect.NewLogServiceClient(client),
	}
}

// bearer adds the token of an operator.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// plainClient is an HTTP client whose connections end with the test.
func plainClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// eventually asks until check has no error. Nothing is waited for in vain: it is for
// states that come by themselves and cannot be waited for otherwise.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-end.C:
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		case <-t.Context().Done():
			t.Fatalf("%s: %v", what, context.Cause(t.Context()))
		case <-tick.C:
		}
	}
}

// roots are the roots of both domains, as hexadecimal.
type roots struct{ identity, policy string }

// headRoots reads the database's own roots.
func (f *fleet) headRoots(t *testing.T) roots {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var identity, stable []byte
	if err := conn.QueryRow(t.Context(), "SELECT identity_root, stable_root FROM config_head").Scan(&identity, &stable); err != nil {
		t.Fatal(err)
	}
	return roots{hex.EncodeToString(identity), hex.EncodeToString(stable)}
}

// atRest waits until every node runs what the database holds, and fails if one ends up
// with anything else.
func (f *fleet) atRest(t *testing.T) {
	t.Helper()
	want := f.headRoots(t)
	eventually(t, "every node runs the database's configuration", func() error {
		var errs []error
		for _, n := range f.nodes {
			s, err := n.status(t)
			if got := (roots{s.Configuration.Identity.Root, s.Configuration.Policy.Root}); err == nil && got != want {
				err = fmt.Errorf("%s runs %v, the database holds %v", n.spec.Name, got, want)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// logger shows errors of a component as lines of the test; warnings too where
// AIDY_E2E_VERBOSE is set, because most of them are what a test provokes.
func logger(t *testing.T, name string) zerolog.Logger {
	level := zerolog.ErrorLevel
	if os.Getenv("AIDY_E2E_VERBOSE") != "" {
		level = zerolog.InfoLevel
	}
	return zerolog.New(zerolog.NewTestWriter(t)).Level(level).With().Str("process", name).Logger()
}
