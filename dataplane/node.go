// Package dataplane is one node: it takes calls of SDK clients, picks the account
// for each, and records what was used. It holds everything it needs in memory and
// serves on when control plane and database are gone.
package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric"

	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/lifecycle"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/meter"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openairesponses"
	"github.com/aidy-gateway/aidy-gateway/dataplane/requestlog"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
	"github.com/aidy-gateway/aidy-gateway/dataplane/upstream"
)

// Deps are what a node gets from its process.
type Deps struct {
	Log    zerolog.Logger
	Meters metric.MeterProvider

	// Metrics answers /metrics. Nil leaves the path out.
	Metrics http.Handler

	// Dial reaches the control plane.
	Dial snapshot.Dial

	// Inference and Ops are listeners that are bound already. Nil binds the
	// addresses of the Config when the node runs.
	Inference, Ops net.Listener
}

// Node is one data-plane node. Make it with New and start it with Run.
type Node struct {
	cfg  Config
	deps Deps
	log  zerolog.Logger

	holder     *snapshot.Holder
	subscriber *snapshot.Subscriber
	inbound    *inbound.Handler
	auth       *auth.Authenticator
	scheduler  *schedule.Scheduler
	affinity   *affinity.Store
	fleet      *fleet
	transport  *upstream.Transport
	executor   *attempt.Executor
	decisions  decision.Ring
	requests   *requestlog.Log
	wal        *meter.Log
	meter      *meter.Meter
	metrics    *metrics

	draining atomic.Bool
	started  time.Time
}

// Builders are what the packages of the request path make of each tenant.
func Builders() []snapshot.TenantBuilder {
	return []snapshot.TenantBuilder{resolve.Builder(), plan.Builder()}
}

// Codecs are the wire protocols that a node speaks.
func Codecs() []protocol.Codec {
	return []protocol.Codec{openaichat.New(), openairesponses.New(), anthropic.New(), gemini.New()}
}

// New composes a node. It opens the node's usage log, so that a directory in use is
// found out at once, and starts nothing else.
func New(cfg Config, deps Deps) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg:       cfg,
		deps:      deps,
		log:       deps.Log,
		holder:    new(snapshot.Holder),
		inbound:   inbound.New(inbound.Config{MaxBody: int64(cfg.MaxBody), MaxHeaderBytes: int(cfg.MaxHeaderBytes)}, Codecs()...),
		affinity:  affinity.NewStore(affinity.Config{}),
		transport: upstream.New(upstream.Config{MaxIdle: cfg.Upstream.MaxIdle, MaxIdlePerHost: cfg.Upstream.MaxIdlePerHost}),
		started:   time.Now(),
	}
	n.scheduler = schedule.New(schedule.Config{Nodes: n.nodes, Tell: n.tell})
	n.fleet = newFleet(n)
	m := deps.Meters.Meter("github.com/aidy-gateway/aidy-gateway/dataplane")
	var err error
	if n.metrics, err = newMetrics(m, n); err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	checker, err := configcheck.New(configcheck.Config{})
	if err != nil {
		return nil, fmt.Errorf("prepare the validator: %w", err)
	}
	n.subscriber, err = snapshot.New(snapshot.Config{
		Endpoints:    cfg.ControlPlane.Endpoints,
		DataDir:      filepath.Join(cfg.DataDir, "config"),
		JoinToken:    cfg.ControlPlane.JoinToken,
		Insecure:     cfg.ControlPlane.Insecure,
		NodeID:       cfg.ControlPlane.NodeID,
		Name:         cfg.Name,
		Version:      cfg.Version,
		Labels:       cfg.Labels,
		SecretFolder: cfg.SecretFolder,
		Swapped:      n.fleet.swapped,
		Heard:        n.fleet.heard,
	}, checker, Builders(), n.holder, deps.Dial, m, deps.Log)
	if err != nil {
		return nil, fmt.Errorf("prepare the configuration: %w", err)
	}
	if err = n.openMeter(m); err != nil {
		return nil, err
	}
	n.requests, err = requestlog.Open(filepath.Join(cfg.DataDir, "requests"), requestlog.Config{Spool: int64(cfg.RequestLog.MaxBytes)}, deps.Log, m)
	if err != nil {
		return nil, errors.Join(err, n.wal.Close())
	}
	n.auth = &auth.Authenticator{Stale: n.subscriber.Stale}
	n.executor = attempt.New(n.scheduler, n.affinity, n.transport, recorder{n.meter}, n.holder, answerHead)
	return n, nil
}

func (n *Node) openMeter(m metric.Meter) error {
	var err error
	n.wal, err = meter.Open(filepath.Join(n.cfg.DataDir, "usage"), meter.LogConfig{
		MaxBytes:     int64(n.cfg.WAL.MaxBytes),
		SyncInterval: n.cfg.WAL.SyncInterval,
	}, n.log)
	if err != nil {
		return fmt.Errorf("open the usage log: %w", err)
	}
	sync := meter.SyncGroup
	if n.cfg.WAL.Sync == "always" {
		sync = meter.SyncAlways
	}
	if n.meter, err = meter.New(n.wal, meter.Config{Sync: sync}, n.log, m); err != nil {
		return errors.Join(err, n.wal.Close())
	}
	return nil
}

// Run serves until ctx ends, then drains: no new request is taken, running ones
// finish within the drain time, and usage is shipped until it is acknowledged or
// that time is over.
func (n *Node) Run(ctx context.Context) error {
	defer n.wal.Close()
	defer n.transport.Close()
	ops, err := listen(n.deps.Ops, n.cfg.OpsAddr, "ops_addr")
	if err != nil {
		return err
	}
	inference, err := listen(n.deps.Inference, n.cfg.InferenceAddr, "inference_addr")
	if err != nil {
		return errors.Join(err, ops.Close())
	}
	n.log.Info().Stringer("inference_addr", inference.Addr()).Stringer("ops_addr", ops.Addr()).Msg("node listens")
	parts := []lifecycle.Part{
		n.httpPart("operations listener", n.opsServer(), ops),
		{Name: "usage log", Run: n.wal.Run},
		{Name: "meter", Run: n.runMeter},
		{Name: "shipper", Run: n.ship},
		{Name: "request log", Run: n.shipLogs},
		{Name: "configuration", Run: n.subscriber.Run},
		{Name: "fleet", Run: n.fleet.run},
		n.httpPart("inference listener", n.inferenceServer(), inference),
	}
	group, err := lifecycle.New(lifecycle.Config{Drain: n.cfg.Drain}, n.log, parts...)
	if err != nil {
		return errors.Join(err, ops.Close(), inference.Close())
	}
	return group.Run(ctx)
}

// runMeter books what the last run left open, then keeps the meter at work.
func (n *Node) runMeter(ctx context.Context) error {
	if _, err := n.meter.Recover(ctx); err != nil {
		return fmt.Errorf("recover the usage log: %w", err)
	}
	return n.meter.Run(ctx)
}

func listen(ready net.Listener, addr, key string) (net.Listener, error) {
	if ready != nil {
		return ready, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: listen on %s: %w; stop what holds the port or choose another address", key, addr, err)
	}
	return l, nil
}

// httpPart serves on a listener; when told to drain it takes no more connections and
// waits for running requests.
func (n *Node) httpPart(name string, s *http.Server, l net.Listener) lifecycle.Part {
	return lifecycle.Part{
		Name: name,
		Run: func(ctx context.Context) error {
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			select {
			case err := <-served:
				if errors.Is(err, http.ErrServerClosed) { // drained
					<-ctx.Done()
					return nil
				}
				return err
			case <-ctx.Done():
			}
			err := s.Close()
			_ = <-served
			return err
		},
		Drain: func(ctx context.Context) error {
			if s.Handler != http.Handler(n) {
				return nil // operators may look until the end
			}
			n.draining.Store(true)
			ended := make(chan error, 1)
			go func() { ended <- n.inbound.Drain(ctx) }()
			return errors.Join(s.Shutdown(ctx), <-ended)
		},
	}
}

func (n *Node) inferenceServer() *http.Server {
	return &http.Server{
		Handler:           n,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       120 * time.Second,
		// The handler bounds headers itself, with an answer in the client's protocol;
		// this bound is for what would not even be read.
		MaxHeaderBytes: 1 << 20,
		ErrorLog:       stdLogger(n.log, "inference listener"),
	}
}
