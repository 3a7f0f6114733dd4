package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectinprocess"
	"connectrpc.com/connect/v2/connectproto"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/aidy-gateway/aidy-gateway/migrations"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"
	"github.com/aidy-gateway/aidy-gateway/shared/seal"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/ledger"
	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg/pgtest"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

var pg = pgtest.New(func(ctx context.Context, url string) error { return migrations.Up(ctx, url, nil) })

func TestMain(m *testing.M) { goleak.VerifyTestMain(pg.Around(m)) }

// nodes is a fleet that does what a test says.
type nodes struct {
	mu      sync.Mutex
	poked   []uint64
	applied Applied
	list    []*adminv1.Node
	revoked []string
	told    []*syncv1.Signal
}

func (f *nodes) Poke(g uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.poked = append(f.poked, g)
}
func (f *nodes) WaitApplied(context.Context, uint64, int) Applied { return f.applied }
func (f *nodes) Nodes(context.Context) ([]*adminv1.Node, error)   { return f.list, nil }
func (f *nodes) Changed() <-chan struct{}                         { return make(chan struct{}) }
func (f *nodes) Retry(string)                                     {}

func (f *nodes) Tell(g *syncv1.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, g)
}
func (f *nodes) Revoke(id string) { f.revoked = append(f.revoked, id) }

type entries struct{ asked []ledger.Filter }

func (e *entries) ListEntries(_ context.Context, f ledger.Filter, _ ledger.Page) ([]*adminv1.LedgerEntry, string, error) {
	e.asked = append(e.asked, f)
	return []*adminv1.LedgerEntry{{EntryId: "ent_1"}}, "", nil
}

// fixture is an API on a database of its own.
type fixture struct {
	*API
	pool    *pgxpool.Pool
	nodes   *nodes
	entries *entries
	gate    *access.Gate
	log     *strings.Builder
}

func setup(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{pool: pg.Pool(t), nodes: &nodes{}, entries: &entries{}, log: &strings.Builder{}}
	log := zerolog.New(f.log)
	judge, err := NewJudge()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.New(f.pool, NewCompiler(), judge, store.Config{PreviewTimeout: time.Minute}, log)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := seal.NewLocalKeyring(secret.New(strings.Repeat("k", seal.KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	key, err := NewContentKey(t.Context(), ring)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.AddFleetKey(t.Context(), key, true); err != nil {
		t.Fatal(err)
	}
	if f.API, err = New(st, f.nodes, f.entries, ring, Config{CA: peer.Hash{1}}, log); err != nil {
		t.Fatal(err)
	}
	if f.gate, err = access.NewGate(st, access.Config{}, log); err != nil {
		t.Fatal(err)
	}
	return f
}

// as is a client of one who calls.
func (f *fixture) as(actor access.Actor) *connect.Client {
	return connect.NewClient(connectinprocess.New(f.Server(f.gate.As(actor))))
}

func (f *fixture) owner() *connect.Client { return f.as(access.System()) }

func role(r adminv1.Role, tenants ...string) access.Actor {
	return access.Actor{AccountID: "adm_test", Role: r, Tenants: tenants, Kind: "token"}
}

// call makes a call by the name of its method, with messages of its types.
func call(ctx context.Context, c *connect.Client, service, method string, req proto.Message) (proto.Message, error) {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("aidy.admin.v1." + service + "." + method))
	if err != nil {
		return nil, err
	}
	m, _ := d.(protoreflect.MethodDescriptor)
	out, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil {
		return nil, err
	}
	res := out.New().Interface()
	spec := connect.Spec{StreamType: connect.StreamTypeUnary, Schema: m, Procedure: "/aidy.admin.v1." + service + "/" + method}
	if err := c.CallUnary(ctx, spec, req, res); err != nil {
		return nil, err
	}
	return res, nil
}

// must fails a test on an error and returns the rest.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%v %v", err, detailOf(err))
		}
		return v
	}
}

// detailOf returns the ErrorInfo of an error, nil if it has none.
func detailOf(err error) *adminv1.ErrorInfo {
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return nil
	}
	for _, d := range ce.Details() {
		if m, err := connectproto.UnmarshalErrorDetail(d); err == nil {
			if info, ok := m.(*adminv1.ErrorInfo); ok {
				return info
			}
		}
	}
	return nil
}

func wantReason(t testing.TB, err error, code connect.Code, reason string) *adminv1.ErrorInfo {
	t.Helper()
	if connect.CodeOf(err) != code {
		t.Fatalf("answered %v, want code %v", err, code)
	}
	info := detailOf(err)
	if info.GetReason() != reason {
		t.Fatalf("answered %v with %v, want reason %s", err, info, reason)
	}
	return info
}

// bundled wraps resources for a bundle.
func bundled(ms ...proto.Message) []*adminv1.BundleResource {
	var out []*adminv1.BundleResource
	for _, m := range ms {
		out = append(out, wrapped(m))
	}
	return out
}

const (
	upstreamSecret = "sk-upstream-0123456789-clear"
	proxySecret    = "proxy-password-clear-987"
	legacyToken    = "legacy-token-clear-456789012345"
)

// world is one of everything, by names.
func world() []*adminv1.BundleResource {
	from := stampOf("2026-01-01T00:00:00Z")
	items := []*configv1.PriceItem{{Component: configv1.PriceComponent_PRICE_COMPONENT_INPUT, PerMtokNanos: 1000}}
	return bundled(
		&configv1.Tenant{Name: "acme", Labels: map[string]string{"tier": "gold"}, PolicyId: "base"},
		&configv1.Project{TenantId: "acme", Name: "web"},
		&configv1.Policy{TenantId: "acme", Name: "base"},
		&configv1.Provider{Name: "openai", Capabilities: []*configv1.Capability{{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "https://api.example.com/v1"}}},
		&configv1.ProviderPricing{ProviderId: "openai", Model: "gpt-5", EffectiveFrom: from, Currency: "USD", Items: items, Published: true},
		&configv1.PriceBookEntry{Model: "gpt-5", EffectiveFrom: from, Currency: "USD", Items: items, Published: true},
		&configv1.Group{TenantId: "acme", Name: "spare"},
		&configv1.Group{TenantId: "acme", Name: "default", FallbackGroups: []string{"spare"}},
		&configv1.Upstream{TenantId: "acme", Name: "main", ProviderId: "openai", GroupId: "default", Proxy: &configv1.EgressProxy{Url: "http://proxy.example.com:3128", Username: "u", Secret: proxySecret + "-u"}},
		&configv1.UpstreamCredential{TenantId: "acme", UpstreamId: "main", Name: "key-1", Secret: upstreamSecret, Proxy: &configv1.EgressProxy{Url: "http://proxy.example.com:3128", Username: "u", Secret: proxySecret}},
		&configv1.UpstreamCredential{TenantId: "acme", UpstreamId: "main", Name: "key-2", SecretRef: "env:AIDY_SECRET_B"},
		&configv1.UpstreamModel{TenantId: "acme", UpstreamId: "main", Model: "gpt-5"},
		&configv1.UpstreamModel{TenantId: "acme", UpstreamId: "main", Model: "best", AliasOf: "gpt-5"},
		&configv1.JWTIssuer{TenantId: "acme", Name: "login", Issuer: "https://login.example.com", Audiences: []string{"gateway"}, JwksUrl: "https://login.example.com/jwks", Scopes: []configv1.Scope{configv1.Scope_SCOPE_CHAT}},
		&configv1.Route{TenantId: "acme", Name: "main", PathPrefix: "/acme", GroupIds: []string{"default"}, ConsumerApiKeys: true, JwtIssuers: []string{"login"}, LegacyBearerAuthTokens: []*configv1.LegacyToken{{Token: legacyToken, Label: "old"}}},
		&configv1.LogicalRoute{TenantId: "acme", Name: "smart", Order: 1, Match: &configv1.ModelMatch{Model: "smart"}, Targets: []*configv1.RouteTarget{{Model: "gpt-5"}}, RouteIds: []string{"main"}},
		&configv1.Consumer{TenantId: "acme", Name: "app", ProjectId: "web", GroupIds: []string{"default"}},
		&configv1.ConsumerAPIKey{TenantId: "acme", ConsumerId: "app", Name: "ci", Sha256: strings.Repeat("ab", 32)},
		&configv1.Budget{TenantId: "acme", Name: "monthly", Currency: "USD", AmountNanos: 1, Window: configv1.BudgetWindow_BUDGET_WINDOW_MONTH},
		&configv1.CreditAccount{TenantId: "acme", Name: "prepaid", ConsumerId: "app", Currency: "USD"},
	)
}

func apply(t testing.TB, c *connect.Client, req *adminv1.ApplyBundleRequest) *adminv1.ApplyBundleResponse {
	t.Helper()
	res, err := tryApply(t, c, req)
	return must(res, err)(t)
}

func tryApply(t testing.TB, c *connect.Client, req *adminv1.ApplyBundleRequest) (*adminv1.ApplyBundleResponse, error) {
	t.Helper()
	res, err := call(context.WithoutCancel(t.Context()), c, "ConfigService", "ApplyBundle", req)
	if err != nil {
		return nil, err
	}
	out, ok := res.(*adminv1.ApplyBundleResponse)
	if !ok {
		return nil, fmt.Errorf("answered with %T", res)
	}
	return out, nil
}
