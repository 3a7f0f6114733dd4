// Package dev runs the whole product in one process: a private PostgreSQL server, a
// control plane, one node that joins it as any other would, and the built-in provider,
// so that the first call succeeds on a machine that has nothing of ours.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/devstate"
	"github.com/aidy-gateway/aidy-gateway/cmd/internal/decide"
	"github.com/aidy-gateway/aidy-gateway/cmd/internal/release"
	"github.com/aidy-gateway/aidy-gateway/cmd/internal/syncdial"
	"github.com/aidy-gateway/aidy-gateway/controlplane"
	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg"
	"github.com/aidy-gateway/aidy-gateway/dataplane"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/lifecycle"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
	"github.com/aidy-gateway/aidy-gateway/shared/settings"
	"github.com/aidy-gateway/aidy-gateway/shared/telemetry"
)

// Options are the flags of aidy dev.
type Options struct {
	Dir           string // everything it makes; created if absent
	InferenceAddr string
	AdminAddr     string
	SyncAddr      string
	OpsAddr       string // of the node; the control plane's is the next port
	DatabaseURL   string // empty runs a private server below Dir
	Reset         bool   // deletes what an earlier run made
	LogLevel      string

	// Getenv reads the keys of vendors.
	Getenv func(string) string

	// Ready, if not nil, is called once the first call would succeed.
	Ready func(devstate.State)
}

const (
	startLimit = 2 * time.Minute  // everything until the first call would succeed
	drainLimit = 30 * time.Second // everything from the signal to the end
	nodeDrain  = 10 * time.Second // running requests of that
	planeDrain = 5 * time.Second
)

// Run runs the product until ctx ends, and drains it then. What people read goes to
// stdout, logs and progress to stderr. When it returns no process it started is left.
func Run(ctx context.Context, o Options, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	log, err := telemetry.NewLogger(stderr, telemetry.LogConfig{Level: o.LogLevel, Format: telemetry.Console})
	if err != nil {
		return err
	}
	if o.Reset && o.DatabaseURL != "" {
		return errors.New("--reset deletes the private database, and --database-url names another one: empty that yourself, or leave one of the two out")
	}
	h, err := open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if o.Reset {
		if err := h.reset(); err != nil {
			return err
		}
	}
	before, err := devstate.Read(h.statePath())
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	doors, err := bind(o, before.BuiltinURL)
	if err != nil {
		return err
	}
	defer doors.close()

	d := &product{
		options: o, home: h, doors: doors, before: before, log: log, stdout: stdout, stderr: stderr, began: began,
		state: devstate.State{
			InferenceURL: baseURL("http", doors.inference), AdminURL: baseURL("http", doors.admin), SyncURL: baseURL("https", doors.sync),
			OpsURLs:    []string{baseURL("http", doors.nodeOps), baseURL("http", doors.planeOps)},
			BuiltinURL: baseURL("http", doors.builtin),
		},
	}
	stopped, err := d.database(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopped()) }()
	return d.run(ctx)
}

// product is one run.
type product struct {
	options Options
	home    *home
	doors   *listeners
	before  devstate.State // of the last run
	state   devstate.State
	log     zerolog.Logger
	began   time.Time

	stdout, stderr io.Writer

	databaseURL string
	private     *localpg.Server // nil with --database-url
	plane       *controlplane.Server
	joinToken   string // empty if the node has an identity
}

// database starts the private server, unless there is another, and returns what
// stops it.
func (d *product) database(ctx context.Context) (stop func() error, err error) {
	if d.options.DatabaseURL != "" {
		d.databaseURL = d.options.DatabaseURL
		return func() error { return nil }, nil
	}
	fmt.Fprintln(d.stderr, "starting PostgreSQL")
	// A computer that loses its power may lose what was written in the last moment,
	// but not the database: that is what fsync is for.
	d.private, err = localpg.New(localpg.Config{Dir: d.home.postgres(), Fsync: true}, d.log)
	if err != nil {
		return nil, err
	}
	if d.databaseURL, err = d.private.Start(ctx); err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
		defer cancel()
		return d.private.Stop(ctx)
	}, nil
}

func (d *product) run(ctx context.Context) (err error) {
	planeTel, err := telemetry.Start(ctx, telemetry.Config{Service: "aidy-controlplane", Version: release.Version()}, d.log)
	if err != nil {
		return fmt.Errorf("start telemetry: %w", err)
	}
	nodeTel, err := telemetry.Start(ctx, telemetry.Config{Service: "aidy-dataplane", Version: release.Version()}, d.log)
	if err != nil {
		return errors.Join(fmt.Errorf("start telemetry: %w", err), planeTel.Shutdown(ctx))
	}
	defer func() {
		flush := context.WithoutCancel(ctx)
		err = errors.Join(err, planeTel.Shutdown(flush), nodeTel.Shutdown(flush))
	}()

	fmt.Fprintln(d.stderr, "starting the control plane")
	if d.plane, err = d.newPlane(planeTel); err != nil {
		return err
	}
	// Each part is ready before the next starts. All of them together are given
	// startLimit.
	started, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not ready within %s", startLimit))
	defer cancel()
	within := func(ready func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			ctx, stop := context.WithCancelCause(ctx)
			defer stop(nil)
			defer context.AfterFunc(started, func() { stop(context.Cause(started)) })()
			return ready(ctx)
		}
	}
	setUp := make(chan error, 1)
	// What stops it is returned and printed: a log line beside it would say it twice.
	quiet := d.log.Hook(zerolog.HookFunc(func(e *zerolog.Event, level zerolog.Level, _ string) {
		if level == zerolog.ErrorLevel {
			e.Discard()
		}
	}))
	group, err := lifecycle.New(lifecycle.Config{Drain: drainLimit}, quiet,
		lifecycle.Part{Name: "database", Run: d.watchDatabase},
		lifecycle.Part{Name: "built-in provider", Run: d.serveProvider},
		lifecycle.Part{Name: "control plane", Run: d.plane.Run, Ready: within(d.planeReady)},
		lifecycle.Part{
			Name: "configuration", MayEnd: true,
			Run: func(ctx context.Context) error {
				err := d.configure(ctx)
				setUp <- err
				return err
			},
			Ready: within(func(ctx context.Context) error {
				select {
				case err := <-setUp:
					return err
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}),
		},
		lifecycle.Part{Name: "node", Run: func(ctx context.Context) error { return d.runNode(ctx, nodeTel) }},
	)
	if err != nil {
		return err
	}
	return group.Run(ctx)
}

// watchDatabase fails when the private server ends unasked.
func (d *product) watchDatabase(ctx context.Context) error {
	var ended <-chan struct{}
	if d.private != nil {
		ended = d.private.Done()
	}
	select {
	case <-ended:
		return errors.New("the PostgreSQL server ended by itself; its log is in " + d.private.Home())
	case <-ctx.Done():
		return nil
	}
}

// serveProvider is the provider that costs nothing.
func (d *product) serveProvider(ctx context.Context) error {
	s := &http.Server{Handler: fakeprovider.New(fakeprovider.Config{Record: 1}), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- s.Serve(d.doors.builtin) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	err := s.Close()
	if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

// newPlane composes the control plane. Nodes reach it as they would anywhere: with
// certificates, so that more of them can join.
func (d *product) newPlane(tel *telemetry.Telemetry) (*controlplane.Server, error) {
	var cfg controlplane.Config
	if _, err := settings.Load(&cfg, settings.Sources{Overrides: map[string]string{"database.url": d.databaseURL}}); err != nil {
		return nil, fmt.Errorf("settings of the control plane: %w", err)
	}
	cfg.AutoMigrate = true
	cfg.RootKeyFile = d.home.rootKey()
	cfg.BootstrapTokenFile = d.home.ownerToken()
	cfg.Drain = planeDrain
	cfg.AdminListener, cfg.SyncListener, cfg.OpsListener = d.doors.admin, d.doors.sync, d.doors.planeOps
	cfg.Version = release.Version()
	return controlplane.New(cfg, tel, d.log.With().Str("part", "control plane").Logger(), controlplane.WithDecider(decide.Decider{}))
}

// planeReady waits until the control plane has the database and the configuration.
func (d *product) planeReady(ctx context.Context) error {
	select {
	case <-d.plane.Opened():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return poll(ctx, "the control plane", d.plane.Ready)
}

// runNode runs the node and says when it is ready.
func (d *product) runNode(ctx context.Context, tel *telemetry.Telemetry) error {
	fmt.Fprintln(d.stderr, "starting the node")
	var cfg dataplane.Config
	if _, err := settings.Load(&cfg, settings.Sources{}); err != nil {
		return fmt.Errorf("settings of the node: %w", err)
	}
	cfg.Name = "dev"
	cfg.DataDir = d.home.node()
	cfg.ControlPlane.Endpoints = []string{d.state.SyncURL}
	cfg.ControlPlane.JoinToken = secret.New(d.joinToken)
	cfg.Drain = nodeDrain
	cfg.Version = release.Version()
	node, err := dataplane.New(cfg, dataplane.Deps{
		Log: d.log.With().Str("part", "node").Logger(), Meters: tel.Meters(), Metrics: tel.Handler(), Dial: syncdial.Dial,
		Inference: d.doors.inference, Ops: d.doors.nodeOps,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	announced := make(chan struct{})
	go func() {
		defer close(announced)
		if err := d.announce(ctx, node); err != nil {
			cancel(err)
		}
	}()
	err = node.Run(ctx)
	cancel(nil)
	<-announced
	if cause := context.Cause(ctx); err == nil && errors.Is(cause, errNotReady) {
		err = cause
	}
	return err
}

var errNotReady = errors.New("it did not become ready")

// announce waits until the node serves, writes dev.json and tells people.
func (d *product) announce(ctx context.Context, node *dataplane.Node) error {
	wait, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := poll(wait, "the node", node.Ready); err != nil {
		if ctx.Err() != nil {
			return nil // it is told to stop; that says itself
		}
		return fmt.Errorf("%w within %s: %w", errNotReady, startLimit, err)
	}
	if err := devstate.Write(d.home.statePath(), d.state); err != nil {
		return fmt.Errorf("%w: %w", errNotReady, err)
	}
	banner(d.stdout, d.state, d.home.statePath(), time.Since(d.began))
	if d.options.Ready != nil {
		d.options.Ready(d.state)
	}
	return nil
}

// pollEvery is how often readiness is asked for.
const pollEvery = 20 * time.Millisecond

// poll waits until something is ready. The error gives the last reasons.
func poll(ctx context.Context, what string, ready func() (bool, []string)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, reasons := ready()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %v: %w", what, reasons, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
