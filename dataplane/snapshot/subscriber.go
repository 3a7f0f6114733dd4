package snapshot

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	connect "connectrpc.com/connect/v2"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

const (
	backoffBase = 200 * time.Millisecond
	backoffCap  = 15 * time.Second
	// rebasePause is how often a node tries again to write what its disk refused.
	rebasePause = 10 * time.Second
	// statusPause is how often a node reports new numbers when nothing changes; what it
	// runs it repeats at every heartbeat.
	statusPause = time.Minute
	maxRefused  = 256
)

// Subscriber follows the control plane: it takes in what changes, keeps it on disk,
// and swaps the View that requests see.
type Subscriber struct {
	cfg       Config
	dial      Dial
	log       zerolog.Logger
	metrics   *metrics
	instance  string
	applier   *applier
	keys      *keyStore
	enrolment *enrolment
	age       *age
	reporter  *reporter
	teller    *teller
	fleet     fleetSize
	started   atomic.Bool

	// What follows belongs to the goroutine of Run.

	journals    [domains]*journal // nil without a data directory
	durable     [domains]bool     // what runs is on disk
	rejected    [domains]Position
	quarantined [domains]Position
	resync      [domains]bool // compare by bucket hashes: the node's own set is in doubt
	whole       [domains]bool // fetch everything: the comparison did not help
	alarmed     [domains]Position
	applyTime   [domains]time.Duration
	refused     []*syncv1.Refusal
	attempts    int
	transports  map[string]dialled
	rebaseAt    [domains]time.Time
	ageAt       time.Time
	statusAt    time.Time

	mu        sync.Mutex // guards what follows
	state     State
	ready     bool
	fromDisk  bool
	contact   time.Time // when the control plane was last heard, or the disk was read
	heard     time.Time // when the control plane was last heard; zero for never
	endpoint  string
	lastError string
	public    [domains]public
}

type dialled struct {
	transport connect.Transport
	tls       *tls.Config
}

// New returns a Subscriber that has read and sent nothing yet. checker may be nil,
// which leaves validation to the control plane. builders run on every changed tenant.
// holder gets every View. It fails if cfg is incomplete.
func New(cfg Config, checker Checker, builders []TenantBuilder, holder *Holder, dial Dial, meter metric.Meter, log zerolog.Logger) (*Subscriber, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, fmt.Errorf("configuration of the control plane connection: %w", err)
	}
	m, err := newMetrics(meter)
	if err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	keys := &keyStore{dir: cfg.DataDir}
	return &Subscriber{
		cfg: cfg, dial: dial, metrics: m,
		log:        log.With().Str("component", "snapshot").Logger(),
		instance:   ident.New(ident.Boot),
		applier:    newApplier(checker, builders, cfg.Probe, &opener{keys: keys, folder: cfg.SecretFolder}, holder, cfg.Swapped),
		keys:       keys,
		enrolment:  &enrolment{cfg: cfg, dial: dial},
		age:        newAge(cfg.DataDir, readClock),
		reporter:   newReporter(),
		teller:     newTeller(m.untold),
		transports: make(map[string]dialled),
		state:      Loading,
	}, nil
}

// Run serves the last good configuration from disk, then follows the control plane
// until ctx ends. It never gives up on the control plane. It fails at once if the
// data directory cannot be used, or belongs to another process. Run may be called
// once.
func (s *Subscriber) Run(ctx context.Context) error {
	if s.started.Swap(true) {
		return errors.New("snapshot subscriber runs already")
	}
	reg, err := s.metrics.gauges(s.observe)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	defer func() { _ = reg.Unregister() }()
	unlock, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	parts.Go(func() {
		s.reporter.run(ctx, func(err error) { s.log.Warn().Err(err).Msg("report not delivered") })
	})
	parts.Go(func() {
		s.teller.run(ctx, s.node, func(err error) { s.log.Warn().Err(err).Msg("soft state not delivered") })
	})
	parts.Go(func() { s.renew(ctx) })
	s.follow(ctx)
	cancel()
	parts.Wait()
	s.close()
	return nil
}

// open reads the data directory.
func (s *Subscriber) open(ctx context.Context) (unlock func(), err error) {
	now := time.Now()
	unlock = func() {}
	if dir := s.cfg.DataDir; dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("create data directory: %w", err)
		}
		lock, err := lockDir(dir)
		if err != nil {
			return nil, err
		}
		unlock = func() { _ = lock.Close() }
		if err := s.enrolment.open(); err != nil {
			s.log.Error().Err(err).Msg("identity on disk is not usable")
		}
		if err := s.keys.open(ctx); err != nil {
			s.log.Error().Err(err).Msg("content keys on disk are not usable; sealed secrets wait for the control plane")
		}
		if err := s.age.load(now); err != nil {
			s.log.Error().Err(err).Msg("age of the configuration is unknown")
		}
		for d := range domains {
			s.restore(d, now)
		}
	}
	state := Empty
	if !s.applier.states[identity].pos.IsZero() && !s.applier.states[policy].pos.IsZero() {
		state = Warm
	}
	if err := s.hopeless(state); err != nil {
		unlock()
		return nil, err
	}
	s.mu.Lock()
	s.state, s.contact, s.fromDisk = state, time.Now(), state == Warm
	s.mu.Unlock()
	return unlock, nil
}

// hopeless is what keeps a node from ever serving: it has nothing on disk, and no way
// to be let in by the control plane.
func (s *Subscriber) hopeless(state State) error {
	if s.cfg.Insecure || s.enrolment.current.Load() != nil {
		return nil
	}
	if s.cfg.JoinToken.IsZero() {
		if state == Warm {
			return nil // it serves what it has
		}
		return fmt.Errorf("%w in %s and no join token: make one with `aidy nodes join-token` and give it as control_plane.join_token", errNoIdentity, s.cfg.DataDir)
	}
	if _, err := peer.ParseJoinToken(s.cfg.JoinToken); err != nil {
		return fmt.Errorf("control_plane.join_token: %w", err)
	}
	return nil
}

// restore brings back one domain from disk. Whatever is wrong with it, the node
// starts: then without it.
func (s *Subscriber) restore(d domain, now time.Time) {
	j := newJournal(s.cfg.DataDir, d, s.cfg.Version, s.cfg.CompactBytes, s.log)
	s.journals[d] = j
	img, err := j.open(now)
	s.durable[d] = err == nil
	if err != nil {
		s.log.Error().Err(err).Stringer("view", d).Msg("configuration on disk cannot be written")
	}
	if img == nil {
		return
	}
	s.quarantined[d] = img.quarantine.pos
	if img.quarantine.version != s.cfg.Version {
		s.quarantined[d] = Position{}
	}
	if !img.state.pos.IsZero() {
		err := guarded(func() error {
			return s.applier.restore(d, img.state, img.version == s.cfg.Version && img.version != "")
		})
		if err != nil {
			s.log.Error().Err(err).Stringer("view", d).Msg("configuration on disk is refused; the node waits for the control plane")
			s.applier.states[d] = emptyState()
		}
	}
	s.publish(d)
	if q := s.quarantined[d]; !q.IsZero() {
		s.refuse(d, q)
		s.report(d, q, syncv1.Outcome_OUTCOME_QUARANTINED, []*syncv1.Violation{{
			Kind: "Generation", Rule: "node.quarantine",
			Hint: fmt.Sprintf("this node ended twice within %s of loading the generation; it runs the one before", trialTime),
		}})
	}
}

func (s *Subscriber) close() {
	now := time.Now()
	for _, j := range s.journals {
		if j == nil {
			continue
		}
		// An orderly end is no death.
		if err := j.trust(); err != nil {
			s.log.Warn().Err(err).Msg("configuration journal not finished")
		}
		j.close()
	}
	if err := s.age.save(now); err != nil {
		s.log.Warn().Err(err).Msg("age of the configuration not saved")
	}
	for _, t := range s.transports {
		closeTransport(t.transport)
	}
	s.setState(Detached)
}

// follow keeps a stream open to some replica.
func (s *Subscriber) follow(ctx context.Context) {
	for ctx.Err() == nil {
		endpoint := s.pick()
		end := s.connect(ctx, endpoint)
		if ctx.Err() != nil {
			return
		}
		s.detached(end)
		if end.progress || end.after > 0 {
			s.attempts = 0
		}
		switch {
		case end.after > 0:
			s.pause(ctx, end.after)
		case end.reopen && end.progress:
			// Nothing went wrong: a fetch ends like this.
		default:
			s.pause(ctx, jitter(s.attempts))
			s.attempts++
		}
	}
}

// jitter is how long to wait before attempt n: anything up to a bound that doubles.
func jitter(n int) time.Duration {
	bound := backoffCap
	if n < 10 {
		bound = min(bound, backoffBase<<n)
	}
	return rand.N(bound + 1)
}

// pick chooses an endpoint at random, another one than the last if there is one.
func (s *Subscriber) pick() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := rand.IntN(len(s.cfg.Endpoints))
	if s.cfg.Endpoints[i] == s.endpoint && s.attempts > 0 {
		i = (i + 1) % len(s.cfg.Endpoints)
	}
	s.endpoint = s.cfg.Endpoints[i]
	return s.endpoint
}

// connect makes sure that the node has an identity and runs one stream.
func (s *Subscriber) connect(ctx context.Context, endpoint string) ending {
	_, conf, err := s.enrolment.identity(time.Now())
	if errors.Is(err, errNoIdentity) {
		if err = s.enrolment.enrol(ctx, endpoint, s.node()); err != nil {
			return ending{err: err}
		}
		s.log.Info().Str("node_id", s.enrolment.nodeID()).Msg("enrolled")
		_, conf, err = s.enrolment.identity(time.Now())
	}
	if err != nil {
		return ending{err: err}
	}
	transport, err := s.transport(endpoint, conf)
	if err != nil {
		return ending{err: fmt.Errorf("dial %s: %w", endpoint, err)}
	}
	return s.stream(ctx, transport)
}

// transport returns the transport to an endpoint. Settings that changed, as they do
// when the certificate is renewed, make a new one, because a connection keeps the
// certificate it began with.
func (s *Subscriber) transport(endpoint string, conf *tls.Config) (connect.Transport, error) {
	if t, ok := s.transports[endpoint]; ok {
		if t.tls == conf {
			return t.transport, nil
		}
		closeTransport(t.transport)
		delete(s.transports, endpoint)
	}
	t, err := s.dial(endpoint, conf)
	if err != nil {
		return nil, err
	}
	s.transports[endpoint] = dialled{t, conf}
	return t, nil
}

func (s *Subscriber) detached(end ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Empty && s.state != Warm {
		s.state = Detached
	}
	if end.err == nil {
		return
	}
	s.lastError = end.err.Error()
	s.log.Warn().Err(end.err).Str("endpoint", s.endpoint).Int("attempt", s.attempts).Msg("control plane stream ended")
}

// pause waits, and keeps house meanwhile.
func (s *Subscriber) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case now := <-tick.C:
			s.keepHouse(now)
		}
	}
}

// keepHouse does what is due by time alone.
func (s *Subscriber) keepHouse(now time.Time) {
	for d, j := range s.journals {
		if j == nil {
			continue
		}
		if end := j.trialEnds(); !end.IsZero() && !now.Before(end) {
			if err := j.trust(); err != nil {
				s.log.Warn().Err(err).Msg("end of trial not recorded")
			}
		}
		if !s.durable[d] && !now.Before(s.rebaseAt[d]) {
			s.rebaseAt[d] = now.Add(rebasePause)
			s.rebase(domain(d))
		}
	}
	if !now.Before(s.ageAt) {
		s.ageAt = now.Add(agePersist)
		if err := s.age.save(now); err != nil {
			s.log.Warn().Err(err).Msg("age of the configuration not saved")
		}
	}
}

// rebase writes the whole state of a domain, after its journal could not be written.
func (s *Subscriber) rebase(d domain) {
	if err := s.journals[d].rebase(s.applier.states[d]); err != nil {
		s.log.Error().Err(err).Stringer("view", d).Msg("configuration is not on disk; a restart would lose it")
		return
	}
	s.durable[d] = true
	s.publish(d)
	s.reportRunning(d)
}

// renew gets a new certificate when two thirds of the life of the present one are over.
func (s *Subscriber) renew(ctx context.Context) {
	const look = time.Minute
	attempts := 0
	for {
		wait := look
		_, _, err := s.enrolment.identity(time.Now())
		if at := s.enrolment.renewAt(); err == nil && !at.IsZero() {
			if wait = min(look, time.Until(at)); wait <= 0 {
				endpoint := s.cfg.Endpoints[rand.IntN(len(s.cfg.Endpoints))]
				if err := s.enrolment.renew(ctx, endpoint, s.node()); err != nil && ctx.Err() == nil {
					s.log.Warn().Err(err).Msg("certificate not renewed")
					wait = jitter(attempts)
					attempts++
				} else {
					wait, attempts = look, 0
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// node says who this node is.
func (s *Subscriber) node() *syncv1.NodeInfo {
	return &syncv1.NodeInfo{
		NodeId: s.enrolment.nodeID(), InstanceId: s.instance,
		Version: s.cfg.Version, Labels: s.cfg.Labels, Name: s.cfg.Name,
	}
}

// Instance returns the id of this start of the node.
func (s *Subscriber) Instance() string { return s.instance }

// NodeID returns the id of the node; empty before it enrolled.
func (s *Subscriber) NodeID() string { return s.enrolment.nodeID() }

// Identity returns the node's id and the TLS settings for other services of the
// control plane; the settings are nil where the configuration is insecure. It fails
// while the node has no valid certificate. Each connection shows the certificate
// that is current then, so ask again for new connections.
func (s *Subscriber) Identity() (nodeID string, conf *tls.Config, err error) {
	return s.enrolment.identity(time.Now())
}

// PrefixSeed returns the seed of the fleet's prefix hashes; empty before it arrived.
func (s *Subscriber) PrefixSeed() secret.Text { return s.keys.load().seed }

// MACKeys returns the fleet's MAC keys, the current one first; none before they
// arrived. The caller must not change the slice.
func (s *Subscriber) MACKeys() []FleetKey { return s.keys.load().macs }
