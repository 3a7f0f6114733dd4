package distribute

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
)

// Config tunes a Hub. A zero field takes the default it documents.
type Config struct {
	// Version is the release of this control plane, as nodes see it.
	Version string
	// Heartbeat is the time between heartbeats of a stream. Default 10 s. A node
	// that is not heard of for three of them counts as detached.
	Heartbeat time.Duration
	// StreamLife is how long a stream lives, give or take a fifth. Default 30 min.
	StreamLife time.Duration
	// StuckAfter is how old the knowledge of the head may be before nodes are sent
	// to look for another replica. Default 5 s.
	StuckAfter time.Duration
	// WriteTimeout bounds one message on the way to a node (see Deadlines).
	// Default 10 s.
	WriteTimeout time.Duration
	// MaxDeltaBytes is the size from which a node fetches instead. Default 4 MiB.
	MaxDeltaBytes int
	// ChunkBytes is about the size of a chunk of a fetch. Default 1 MiB.
	ChunkBytes int
	// Fetches is how many fetches run at once; more wait. Default 8.
	Fetches int
	// Identify returns the id of the node that calls. The default asks the
	// verified client certificate.
	Identify func(ctx context.Context) (string, error)
	// TrustNodes takes the id that a node states for its identity, and adds nodes
	// that are not known. Only for a listener on the loopback interface or within
	// the process.
	TrustNodes bool
	// Signals is where replicas exchange the soft state of nodes. Default: the nodes of
	// this replica hear of each other alone.
	Signals Signals
}

func (c *Config) defaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&c.Heartbeat, 10*time.Second)
	set(&c.StreamLife, 30*time.Minute)
	set(&c.StuckAfter, 5*time.Second)
	set(&c.WriteTimeout, 10*time.Second)
	if c.MaxDeltaBytes <= 0 {
		c.MaxDeltaBytes = 4 << 20
	}
	if c.ChunkBytes <= 0 {
		c.ChunkBytes = 1 << 20
	}
	if c.Fetches <= 0 {
		c.Fetches = 8
	}
	if c.Identify == nil {
		c.Identify = identifyByCertificate
	}
}

// Hub serves nodes from the last verified state. It does nothing before Run.
// Safe for concurrent use.
type Hub struct {
	cfg   Config
	store Store
	nodes Nodes
	keys  Keys
	ca    Authority
	log   zerolog.Logger
	m     *metrics

	state   atomic.Pointer[state]
	heads   chan Head // latest wins
	poke    chan struct{}
	fetches *semaphore.Weighted
	fleet   fleet
	signals signals
	share   chan struct{} // there are signals for other replicas

	mu       sync.Mutex // guards what follows; never held while sending or reading
	sessions map[*session]struct{}
	stuck    bool
	stopped  bool
	counted  map[string]bool // nodes that are connected, at any replica
	changed  chan struct{}   // closed and replaced when a state or a report arrives
}

var _ syncv1connect.ConfigSyncServiceHandler = (*Hub)(nil)

// New returns a Hub that holds nothing yet. It does no I/O.
func New(store Store, nodes Nodes, keys Keys, ca Authority, cfg Config, log zerolog.Logger, meter metric.Meter) (*Hub, error) {
	if store == nil || nodes == nil || keys == nil || ca == nil || meter == nil {
		return nil, errors.New("a hub needs a store, nodes, keys, an authority and a meter")
	}
	cfg.defaults()
	h := &Hub{
		cfg: cfg, store: store, nodes: nodes, keys: keys, ca: ca,
		log:   log.With().Str("component", "distribute").Logger(),
		heads: make(chan Head, 1), poke: make(chan struct{}, 1), fetches: semaphore.NewWeighted(int64(cfg.Fetches)),
		sessions: map[*session]struct{}{}, changed: make(chan struct{}), counted: map[string]bool{}, share: make(chan struct{}, 1),
	}
	h.fleet.init()
	h.signals.init()
	var err error
	if h.m, err = newMetrics(meter, h); err != nil {
		return nil, err
	}
	return h, nil
}

// Run loads the stored shards, verifies them, and follows the head until ctx
// ends; then it sends every stream away. A store that is not there is tried
// again for ever, and what was last verified is served meanwhile. Run returns
// ctx's error.
func (h *Hub) Run(ctx context.Context) error {
	defer h.stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return h.listen(ctx) })
	g.Go(func() error { return h.follow(ctx) })
	g.Go(func() error { return h.watchHealth(ctx) })
	g.Go(func() error { return h.watchFleet(ctx) })
	if h.cfg.Signals != nil {
		g.Go(func() error { return h.shareSignals(ctx) })
		g.Go(func() error { return h.readSignals(ctx) })
	}
	return g.Wait()
}

// Ready reports whether a verified state is there to serve.
func (h *Hub) Ready() bool { return h.state.Load() != nil }

// Positions returns what nodes are to run; both are nil before Ready.
func (h *Hub) Positions() (identity, policy *syncv1.Position) {
	st := h.state.Load()
	if st == nil {
		return nil, nil
	}
	return st.identity.at.proto(), st.policy.at.proto()
}

// Poke tells that this process committed a generation, so that it is not left to
// the next notification. It does not block.
func (h *Hub) Poke(generation uint64) {
	if st := h.state.Load(); st != nil && st.head >= generation {
		return
	}
	select {
	case h.poke <- struct{}{}:
	default:
	}
}

// publish makes a state the one that is served and wakes everybody.
func (h *Hub) publish(st *state) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Store(st)
	for s := range h.sessions {
		s.rouse()
	}
	h.notify()
}

// notify wakes those who wait in WaitApplied. h.mu is held.
func (h *Hub) notify() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// stop sends every stream away, those that come later too.
func (h *Hub) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	for s := range h.sessions {
		s.leave("the control plane is stopping")
	}
}
