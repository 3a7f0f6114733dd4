package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"sync/atomic"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectinprocess"
	"connectrpc.com/grpcreflect/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric"

	"github.com/aidy-gateway/aidy-gateway/migrations"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1/ledgerv1connect"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/lifecycle"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"
	"github.com/aidy-gateway/aidy-gateway/shared/seal"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
	"github.com/aidy-gateway/aidy-gateway/shared/telemetry"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/admin"
	"github.com/aidy-gateway/aidy-gateway/controlplane/distribute"
	"github.com/aidy-gateway/aidy-gateway/controlplane/ledger"
	"github.com/aidy-gateway/aidy-gateway/controlplane/requestlog"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// setupTimeout bounds what happens before the listeners open, migrations apart.
const setupTimeout = time.Minute

// Server is a control plane. Make it with New and call Run once.
type Server struct {
	cfg    Config
	tel    *telemetry.Telemetry
	print  func(io.Writer) error
	decide admin.Decider
	log    zerolog.Logger
	meters metric.MeterProvider

	// opened is closed when parts is set: Run got past the database.
	opened chan struct{}
	parts  atomic.Pointer[parts]
}

// parts is what needs a database that is there.
type parts struct {
	pool     *pgxpool.Pool
	store    *store.Store
	hub      *distribute.Hub
	catalog  *ledger.Catalog
	ledger   *ledger.Ledger
	logs     *pgxpool.Pool // of the request log
	requests *requestlog.Store
	ca       *peer.CA

	api    *admin.API
	admin  *connect.Server // for the listener, behind tokens
	system *connect.Server // for this process, as an owner
	sync   *connect.Server
	token  string // file to which a first owner's token was written
}

// Option adds something that a Server can do without.
type Option func(*Server)

// WithSettings shows the effective settings of the process, as print writes them,
// to administrators. Secrets must be redacted.
func WithSettings(show func(io.Writer) error) Option { return func(s *Server) { s.print = show } }

// WithDecider answers administrators' questions about decisions.
func WithDecider(d admin.Decider) Option { return func(s *Server) { s.decide = d } }

// New returns a server. It does no I/O: Run opens the database and the listeners.
// It fails if cfg makes no sense.
func New(cfg Config, tel *telemetry.Telemetry, log zerolog.Logger, options ...Option) (*Server, error) {
	if tel == nil {
		return nil, errors.New("a control plane needs telemetry")
	}
	if cfg.Database.MaxConnections == 0 {
		cfg.Database.MaxConnections = 16
	}
	if cfg.Drain == 0 {
		cfg.Drain = lifecycle.DefaultDrain
	}
	if cfg.Database.URL.IsZero() {
		return nil, errors.New("database.url: give the connection string of PostgreSQL")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, tel: tel, log: log, meters: tel.Meters(), opened: make(chan struct{})}
	for _, o := range options {
		o(s)
	}
	return s, nil
}

// Run opens the database, makes what an empty installation lacks, opens the
// listeners and serves until ctx ends; then it drains. It refuses a database whose
// schema is not the one of this release, unless AutoMigrate is set.
func (s *Server) Run(ctx context.Context) error {
	setupCtx, cancel := context.WithTimeoutCause(ctx, setupTimeout, fmt.Errorf("not ready to serve within %s", setupTimeout))
	defer cancel()
	p, err := s.open(setupCtx, ctx)
	if err != nil {
		s.closeListeners()
		return err
	}
	defer p.pool.Close()
	defer p.logs.Close()
	s.parts.Store(p)
	close(s.opened)

	fronts, err := s.fronts(p)
	if err != nil {
		s.closeListeners()
		return err
	}
	group, err := lifecycle.New(lifecycle.Config{Drain: s.cfg.Drain}, s.log, append([]lifecycle.Part{
		{Name: "prices", Run: p.catalog.Run},
		{Name: "ledger", Run: p.ledger.Run},
		{Name: "maintenance", Run: func(ctx context.Context) error { return s.maintain(ctx, p) }},
		{Name: "distribution", Run: p.hub.Run},
	}, fronts...)...)
	if err != nil {
		s.closeListeners()
		return err
	}
	return group.Run(ctx)
}

// open connects to the database and builds what stands on it. migrateCtx bounds
// migrations, which may take their time.
func (s *Server) open(ctx, migrateCtx context.Context) (*parts, error) {
	ring, err := keyring(&s.cfg)
	if err != nil {
		return nil, err
	}
	if s.cfg.AutoMigrate {
		if err := migrations.Up(migrateCtx, s.cfg.Database.URL.Reveal(), func(step migrations.Step) {
			s.log.Info().Int64("version", step.Version).Str("name", step.Name).Dur("took_ms", step.Took).Msg("migration applied")
		}); err != nil {
			return nil, err
		}
	}
	pool, err := s.pool(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.build(ctx, pool, ring)
	if err != nil {
		pool.Close()
		if p != nil && p.logs != nil {
			p.logs.Close()
		}
		return nil, err
	}
	return p, nil
}

func (s *Server) pool(ctx context.Context) (*pgxpool.Pool, error) {
	pool, err := openPool(ctx, "database.url", s.cfg.Database.URL, s.cfg.Database.MaxConnections, nil)
	if err != nil {
		return nil, err
	}
	if err := migrations.Check(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// requestLogTimeout bounds every statement on the request log.
const requestLogTimeout = 3 * time.Second

// openRequestLog opens the request log in its own pool, and in its own database where one
// is given, so that it cannot keep the configuration and the ledger waiting.
func (s *Server) openRequestLog(ctx context.Context, p *parts) error {
	key, url := "database.url", s.cfg.Database.URL
	if own := s.cfg.RequestLog.URL; !own.IsZero() {
		key, url = "request_log.url", own
		if s.cfg.AutoMigrate {
			if err := migrations.Up(ctx, own.Reveal(), nil); err != nil {
				return fmt.Errorf("request_log.url: %w", err)
			}
		}
	}
	connections := s.cfg.RequestLog.MaxConnections
	if connections == 0 {
		connections = 4
	}
	var err error
	if p.logs, err = openPool(ctx, key, url, connections, map[string]string{
		"statement_timeout": strconv.FormatInt(requestLogTimeout.Milliseconds(), 10),
	}); err != nil {
		return err
	}
	if err = migrations.Check(ctx, p.logs); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if p.requests, err = requestlog.New(p.logs, requestlog.Config{Keep: s.cfg.RequestLog.KeepDays, Timeout: requestLogTimeout}, s.log); err != nil {
		return err
	}
	return p.requests.Maintain(ctx)
}

// openPool connects to a database. key names its setting.
func openPool(ctx context.Context, key string, url secret.Text, connections int, params map[string]string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url.Reveal())
	if err != nil {
		// What the parser says may quote the string, and with it the password.
		return nil, fmt.Errorf("%s: not a PostgreSQL connection string; expected postgres://user:password@host:port/database", key)
	}
	cfg.MaxConns = int32(connections)
	cfg.ConnConfig.RuntimeParams["application_name"] = "aidy-controlplane"
	maps.Copy(cfg.ConnConfig.RuntimeParams, params)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database of %s: %w", key, err)
	}
	return pool, nil
}

func (s *Server) build(ctx context.Context, pool *pgxpool.Pool, ring seal.Keyring) (*parts, error) {
	p := &parts{pool: pool}
	if err := s.openRequestLog(ctx, p); err != nil {
		return p, err
	}
	judge, err := admin.NewJudge()
	if err != nil {
		return p, err
	}
	if p.store, err = store.New(pool, admin.NewCompiler(), judge, store.Config{}, s.log); err != nil {
		return p, err
	}
	if err := p.store.Maintain(ctx); err != nil {
		return p, err
	}
	if p.ca, err = fleetKeys(ctx, p.store, ring); err != nil {
		return p, err
	}
	if p.token, err = access.Bootstrap(ctx, p.store, access.BootstrapConfig{Token: s.cfg.BootstrapToken, File: s.cfg.BootstrapTokenFile}, s.log); err != nil {
		return p, err
	}
	if err := s.buildLedger(p); err != nil {
		return p, err
	}
	meter := s.meters.Meter("aidy/distribute")
	if p.hub, err = distribute.New(hubStore{p.store, p.catalog}, hubNodes{p.store}, keys{p.store, ring}, p.ca, distribute.Config{
		Version: s.cfg.Version, Heartbeat: s.cfg.Heartbeat, TrustNodes: s.cfg.SyncInsecure, Signals: p.store,
	}, s.log, meter); err != nil {
		return p, err
	}
	cfg := admin.Config{PrintSettings: s.print, Decider: s.decide, Requests: p.requests}
	if !s.cfg.SyncInsecure {
		cfg.CA = p.ca.Hash()
	}
	api, err := admin.New(p.store, fleet{p.hub, p.catalog}, p.ledger, ring, cfg, s.log)
	if err != nil {
		return p, err
	}
	p.api = api
	gate, err := access.NewGate(p.store, access.Config{}, s.log)
	if err != nil {
		return p, err
	}
	p.admin = api.Server(gate.Interceptor())
	grpcreflect.Register(p.admin)
	p.system = api.Server(gate.As(access.System()))
	return p, s.buildSync(p)
}

func (s *Server) buildLedger(p *parts) error {
	var err error
	if p.catalog, err = ledger.NewCatalog(prices{p.store}, ledger.CatalogConfig{}, s.log); err != nil {
		return err
	}
	p.ledger, err = ledger.New(p.pool, ledger.NewRater(p.catalog), ledger.Config{}, s.log, s.meters.Meter("aidy/ledger"))
	return err
}

// buildSync makes the server that nodes call: configuration, and usage.
func (s *Server) buildSync(p *parts) error {
	caller := certificateCaller(p.store)
	interceptors := []connect.ServerInterceptor{}
	if s.cfg.SyncInsecure {
		caller = statedCaller
		interceptors = append(interceptors, believeNodes)
	}
	usage, err := ledger.NewService(p.ledger, p.requests, caller, s.log)
	if err != nil {
		return err
	}
	p.sync = connect.NewServer(append(interceptors, validated())...)
	syncv1connect.RegisterConfigSyncServiceHandler(p.sync, p.hub)
	ledgerv1connect.RegisterUsageServiceHandler(p.sync, usage)
	ledgerv1connect.RegisterLeaseServiceHandler(p.sync, usage)
	return nil
}

// outboxBatch is how many revocations are taken from the outbox at a time.
const outboxBatch = 1000

// maintain keeps partitions ahead, removes what nobody needs and makes the state keys
// that a replica of an older release left out: the latter also at once, the rest
// once an hour. The outbox of revocations is emptied each minute: nodes have them
// from their streams, and there is no second path to send them on.
func (s *Server) maintain(ctx context.Context, p *parts) error {
	hourly, minutely := time.NewTicker(time.Hour), time.NewTicker(time.Minute)
	defer hourly.Stop()
	defer minutely.Stop()
	err := p.api.EnsureStateKeys(ctx)
	for {
		if err != nil && ctx.Err() == nil {
			s.log.Error().Err(err).Msg("maintenance of the database failed; it is tried again")
		}
		err = nil
		select {
		case <-ctx.Done():
			return nil
		case <-hourly.C:
			err = errors.Join(p.store.Maintain(ctx), p.api.EnsureStateKeys(ctx), p.requests.Maintain(ctx))
		case <-minutely.C:
			for n := outboxBatch; n == outboxBatch && err == nil; {
				n, err = p.store.DrainOutbox(ctx, outboxBatch, func([]store.OutboxEntry) error { return nil })
			}
		}
	}
}

// Opened is closed once the database is open: AdminTransport and SyncServer work
// from then on. It stays open if Run fails before.
func (s *Server) Opened() <-chan struct{} { return s.opened }

// AdminTransport returns a transport within the process to the admin API, on which
// every call is made by the system itself as an owner. Nil before Opened.
func (s *Server) AdminTransport() connect.Transport {
	p := s.parts.Load()
	if p == nil {
		return nil
	}
	return connectinprocess.New(p.system)
}

// SyncServer returns the server that nodes call, for a node in the same process
// (connectinprocess). Such a node has no certificate, so SyncInsecure must be set.
// Nil before Opened.
func (s *Server) SyncServer() *connect.Server {
	p := s.parts.Load()
	if p == nil {
		return nil
	}
	return p.sync
}

// Store returns the store, for tests and tools of the same process. Nil before
// Opened.
func (s *Server) Store() *store.Store {
	p := s.parts.Load()
	if p == nil {
		return nil
	}
	return p.store
}

// TokenFile returns the file to which this start wrote the token of a first owner,
// empty if it made none. It is known once Opened is closed.
func (s *Server) TokenFile() string {
	p := s.parts.Load()
	if p == nil {
		return ""
	}
	return p.token
}

// Ready reports whether the server may be sent traffic, and why not.
func (s *Server) Ready() (bool, []string) {
	p := s.parts.Load()
	if p == nil {
		return false, []string{"the database is not open yet"}
	}
	if !p.hub.Ready() {
		return false, []string{"the configuration is not loaded and verified yet"}
	}
	return true, nil
}
