package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/grpcreflect/v2"
	"github.com/rs/zerolog"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1/ledgerv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
	"github.com/aidy-gateway/aidy-gateway/shared/settings"
	"github.com/aidy-gateway/aidy-gateway/shared/telemetry"

	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg/pgtest"
)

func testBundle() *adminv1.Bundle {
	return &adminv1.Bundle{Owner: "seed", Resources: []*adminv1.BundleResource{
		{Resource: &adminv1.BundleResource_Tenant{Tenant: &configv1.Tenant{Name: "dev"}}},
		{Resource: &adminv1.BundleResource_Provider{Provider: &configv1.Provider{
			Name: "builtin", AllowPlaintext: true, AllowPrivateAddress: true,
			Capabilities: []*configv1.Capability{{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "http://127.0.0.1:9999/v1"}},
		}}},
		{Resource: &adminv1.BundleResource_Upstream{Upstream: &configv1.Upstream{TenantId: "dev", Name: "main", ProviderId: "builtin", GroupId: "default"}}},
		{Resource: &adminv1.BundleResource_UpstreamCredential{UpstreamCredential: &configv1.UpstreamCredential{TenantId: "dev", UpstreamId: "main", Name: "key-1", Secret: "sk-upstream-secret-1"}}},
		{Resource: &adminv1.BundleResource_UpstreamModel{UpstreamModel: &configv1.UpstreamModel{TenantId: "dev", UpstreamId: "main", Model: "aidy-small"}}},
		{Resource: &adminv1.BundleResource_Route{Route: &configv1.Route{TenantId: "dev", Name: "main", PathPrefix: "/", GroupIds: []string{"default"}, ConsumerApiKeys: true}}},
		{Resource: &adminv1.BundleResource_Consumer{Consumer: &configv1.Consumer{TenantId: "dev", Name: "app"}}},
	}}
}

func TestTheProcessItselfIsAnOwner(t *testing.T) {
	t.Parallel()
	s := start(t, pg.URL(t), nil)
	config := adminv1connect.NewConfigServiceClient(connect.NewClient(s.AdminTransport()))
	res, err := config.ApplyBundle(t.Context(), &adminv1.ApplyBundleRequest{Bundle: testBundle()})
	if err != nil {
		t.Fatal(err)
	}
	if res.GetCreated() != 8 { // the default group comes with its tenant
		t.Errorf("created %d resources, want 8", res.GetCreated())
	}
	eventually(t, func() bool { _, policy := s.parts.Load().hub.Positions(); return policy.GetGeneration() == 1 }, "the hub does not serve the change")
}

func TestEveryProtocolAndReflectionWork(t *testing.T) {
	t.Parallel()
	s := start(t, pg.URL(t), nil)
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: h2c}
	defer transport.CloseIdleConnections()
	two := &http.Client{Transport: transport}
	for name, tc := range map[string]struct {
		client  *http.Client
		options []connecthttp.Option
	}{
		"connect":          {s.client, nil},
		"connect with get": {s.client, []connecthttp.Option{connecthttp.WithHTTPGet()}},
		"json":             {s.client, []connecthttp.Option{connecthttp.WithProtoJSON()}},
		"grpc-web":         {s.client, []connecthttp.Option{connecthttp.WithGRPCWeb()}},
		"connect over h2c": {two, nil},
		"grpc":             {two, []connecthttp.Option{connecthttp.WithGRPC()}},
		"grpc with json":   {two, []connecthttp.Option{connecthttp.WithGRPC(), connecthttp.WithProtoJSON()}},
	} {
		c := connect.NewClient(connecthttp.NewTransport(tc.client, s.admin, tc.options...), bearer(ownerToken))
		if _, err := adminv1connect.NewTenantServiceClient(c).ListTenants(t.Context(), &adminv1.ListTenantsRequest{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, err := adminv1connect.NewTenantServiceClient(c).GetTenant(t.Context(), &adminv1.GetTenantRequest{Id: "none"})
		if connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("%s: a missing tenant is %v", name, err)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream := grpcreflect.NewClient(connect.NewClient(connecthttp.NewTransport(two, s.admin, connecthttp.WithGRPC()), bearer(ownerToken))).NewStream(ctx)
	services, err := stream.ListServices()
	if err != nil || len(services) < 22 {
		t.Errorf("reflection lists %v, %v", services, err)
	}
	if _, err := stream.FileContainingSymbol("aidy.admin.v1.TenantService"); err != nil {
		t.Errorf("reflection does not describe a service: %v", err)
	}
	if err := stream.Close(); err != nil {
		t.Errorf("close: %v", err)
	}

	// As with curl, by hand.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.admin+"/aidy.admin.v1.TenantService/CreateTenant", strings.NewReader(`{"tenant":{"name":"by-hand"}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+ownerToken)
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"name":"by-hand"`)) {
		t.Errorf("status %d, %s, %v", res.StatusCode, body, err)
	}
}

func TestWithoutATokenNothingIsAnswered(t *testing.T) {
	t.Parallel()
	s := start(t, pg.URL(t), nil)
	for token, want := range map[string]connect.Code{"": connect.CodeUnauthenticated, "wrong-token-0123456789abcdefgh": connect.CodeUnauthenticated} {
		_, err := adminv1connect.NewAdminServiceClient(s.rpc(token)).WhoAmI(t.Context(), &adminv1.WhoAmIRequest{})
		if connect.CodeOf(err) != want {
			t.Errorf("token %q: %v, want %v", token, err, want)
		}
	}
	me, err := adminv1connect.NewAdminServiceClient(s.rpc(ownerToken)).WhoAmI(t.Context(), &adminv1.WhoAmIRequest{})
	if err != nil || me.GetAdminAccount().GetRole() != adminv1.Role_ROLE_OWNER {
		t.Errorf("the bootstrap token is of %v, %v", me, err)
	}
}

func TestTheOperationsListenerTellsHowItStands(t *testing.T) {
	t.Parallel()
	s := start(t, pg.URL(t), nil)
	get := func(path string) (int, string) {
		t.Helper()
		res, err := s.client.Get(s.ops + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	for _, path := range []string{"/healthz", "/readyz", "/debug/pprof/"} {
		if code, body := get(path); code != http.StatusOK {
			t.Errorf("%s is %d: %s", path, code, body)
		}
	}
	if _, body := get("/metrics"); !strings.Contains(body, "gateway_") || !strings.Contains(body, "go_goroutines") {
		t.Errorf("metrics are %.300s", body)
	}
	var status struct {
		Version string
		Ready   bool
		Policy  map[string]any
	}
	if _, body := get("/status"); json.Unmarshal([]byte(body), &status) != nil || status.Version != "test" || !status.Ready || status.Policy["root"] == "" {
		t.Errorf("status is %s", body)
	}
}

func TestUsageIsTakenFromANodeThatIsBelieved(t *testing.T) {
	t.Parallel()
	s := start(t, pg.URL(t), nil)
	c := ledgerv1connect.NewUsageServiceClient(connect.NewClient(connecthttp.NewTransport(s.client, s.sync)))
	me := ident.New(ident.Node)
	res, err := c.IngestUsage(t.Context(), &ledgerv1.IngestUsageRequest{NodeId: me, BootId: ident.New(ident.Boot), FirstSeq: 1, LastSeq: 1})
	if err != nil || res.GetLastSeq() != 1 {
		t.Errorf("ingested up to %d, %v", res.GetLastSeq(), err)
	}
}

func TestADatabaseThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	tel, err := telemetry.Start(t.Context(), telemetry.Config{}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	run := func(cfg Config) error {
		cfg.AdminListener, cfg.SyncListener, cfg.OpsListener = listen(t), listen(t), listen(t)
		s, err := New(cfg, tel, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		return s.Run(ctx)
	}
	url := pg.URL(t)
	pgtest.Exec(t, url, "UPDATE goose_db_version SET version_id = version_id + 1000 WHERE id = (SELECT max(id) FROM goose_db_version)")
	cfg := Config{RootKeyFile: filepath.Join(t.TempDir(), "k"), BootstrapToken: secret.New(ownerToken), SyncInsecure: true}
	cfg.Database.URL = secret.New(url)
	if err := run(cfg); err == nil || strings.Contains(err.Error(), "password") {
		t.Errorf("a schema of the future: %v", err)
	}
	cfg.Database.URL = secret.New("postgres://u:hunter2@/nowhere?sslmode=what")
	if err := run(cfg); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a broken connection string: %v", err)
	}

	// A key file that is not the one the database was made with.
	whole := pg.URL(t)
	start(t, whole, nil).stop()
	cfg.Database.URL, cfg.RootKeyFile = secret.New(whole), filepath.Join(t.TempDir(), "other")
	if err := run(cfg); err == nil || !strings.Contains(err.Error(), "another root key") {
		t.Errorf("another root key: %v", err)
	}
}

func TestASettingThatOpensNodesToAllIsRefused(t *testing.T) {
	t.Parallel()
	cfg := Config{SyncInsecure: true, SyncAddr: "0.0.0.0:8082", RootKeyFile: "k"}
	cfg.Database.MaxConnections = 16
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "sync_insecure") {
		t.Errorf("plain sync on every address: %v", err)
	}
	for _, ok := range []string{"127.0.0.1:0", "localhost:8082", "[::1]:1"} {
		cfg.SyncAddr = ok
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
}

func TestARestartKeepsEverything(t *testing.T) {
	t.Parallel()
	url := pg.URL(t)
	key := filepath.Join(t.TempDir(), "root.key")
	shared := func(c *Config) { c.RootKeyFile = key }
	a := start(t, url, shared)
	if _, err := adminv1connect.NewConfigServiceClient(a.rpc(ownerToken)).ApplyBundle(t.Context(), &adminv1.ApplyBundleRequest{Bundle: testBundle()}); err != nil {
		t.Fatal(err)
	}
	a.stop()
	b := start(t, url, func(c *Config) { shared(c); c.BootstrapToken = secret.New("another-token-that-is-not-taken") })
	res, err := adminv1connect.NewConfigServiceClient(b.rpc(ownerToken)).ApplyBundle(t.Context(), &adminv1.ApplyBundleRequest{Bundle: testBundle()})
	if err != nil || !res.GetResult().GetUnchanged() {
		t.Errorf("the same bundle after a restart: %v, %v", res, err)
	}
	_, err = adminv1connect.NewAdminServiceClient(b.rpc("another-token-that-is-not-taken")).WhoAmI(t.Context(), &adminv1.WhoAmIRequest{})
	if connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("a bootstrap token works on an installation that has owners: %v", err)
	}
}

func TestSettingsAreReadStrictly(t *testing.T) {
	t.Parallel()
	var cfg Config
	loaded, err := settings.Load(&cfg, settings.Sources{Environ: []string{
		"AIDY_DATABASE_URL=postgres://u:hunter2@/db", "AIDY_BOOTSTRAP_TOKEN=" + ownerToken, "AIDY_ADMIN_ADDR=127.0.0.1:1", "AIDY_ROOT_KEY_FILE=/k",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.AdminAddr != "127.0.0.1:1" || cfg.SyncAddr != "127.0.0.1:8082" || cfg.OpsAddr != "127.0.0.1:9091" || cfg.Drain != 30*time.Second || cfg.Database.MaxConnections != 16 {
		t.Errorf("loaded %+v", cfg)
	}
	var printed strings.Builder
	if err := loaded.Print(&printed); err != nil || strings.Contains(printed.String(), "hunter2") || strings.Contains(printed.String(), ownerToken) {
		t.Errorf("printed %s, %v", printed.String(), err)
	}
	if _, err := settings.Load(&cfg, settings.Sources{Environ: []string{"AIDY_DATABASE_URL=x", "AIDY_ADMIN_ADRR=y"}}); err == nil || !strings.Contains(err.Error(), "AIDY_ADMIN_ADDR") {
		t.Errorf("a misspelt variable: %v", err)
	}
	if _, err := settings.Load(&Config{}, settings.Sources{}); err == nil {
		t.Error("without a database the settings are taken")
	}
}
