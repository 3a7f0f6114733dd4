package meter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"connectrpc.com/connect/v2"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

// Ingester takes batches of usage events to the ledger. The client of
// aidy.ledger.v1.UsageService is one.
//
// It stores each event exactly once, by (request_id, attempt, kind, seq), and
// answers only when they are committed. An error with connect.CodeInvalidArgument
// means that it will never take the batch as it is; any other may pass.
type Ingester interface {
	IngestUsage(ctx context.Context, batch *ledgerv1.IngestUsageRequest) (*ledgerv1.IngestUsageResponse, error)
}

// ShipperConfig tunes a Shipper. A zero field takes the default it documents.
type ShipperConfig struct {
	// BatchEvents and BatchBytes bound one batch. Default 500 events, 1 MiB; at
	// most 1000 events.
	BatchEvents, BatchBytes int

	// Linger is how long an event may wait for others to share its batch.
	// Default 200 ms.
	Linger time.Duration

	// Timeout bounds one call. Default 30 s.
	Timeout time.Duration

	// BackoffMin and BackoffMax bound the wait after a failure: the n-th wait is
	// random between 0 and BackoffMin doubled n times, never above BackoffMax.
	// Default 200 ms and 30 s.
	BackoffMin, BackoffMax time.Duration

	// MaxRejected is how many events the process sets aside because the control
	// plane calls them invalid. Past it they are offered again for ever: then the
	// fault is hardly in the events. Default 100.
	MaxRejected int
}

func (c ShipperConfig) withDefaults() (ShipperConfig, error) {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	wait := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.BatchEvents, 500)
	set(&c.BatchBytes, 1<<20)
	set(&c.MaxRejected, 100)
	wait(&c.Linger, 200*time.Millisecond)
	wait(&c.Timeout, 30*time.Second)
	wait(&c.BackoffMin, 200*time.Millisecond)
	wait(&c.BackoffMax, 30*time.Second)
	if c.BatchEvents < 1 || c.BatchEvents > 1000 || c.BatchBytes < 1 || c.MaxRejected < 0 ||
		min(c.Linger, c.Timeout, c.BackoffMin) < 0 || c.BackoffMax < c.BackoffMin {
		return c, fmt.Errorf("shipper configuration %+v is out of range", c)
	}
	return c, nil
}

// Backlog is what waits to be shipped.
type Backlog struct {
	// Events counts SETTLEs without an acknowledgement.
	Events uint64
	// Age is how long ago the oldest of them that was looked at ended.
	Age time.Duration
}

// Shipper carries settlements from a Log to the ledger, in order and until each
// is acknowledged.
//
// Only SETTLE records travel: each is complete in itself. INTENT and PROGRESS
// stay, and become a SETTLE on the node if the process dies. A batch speaks for
// the range first_seq to last_seq of one boot; it begins where the batch before
// it ended, so that a range left out is visible as such. Only records that are
// on the node's disk are shipped.
type Shipper struct {
	log    *Log
	to     Ingester
	node   string
	cfg    ShipperConfig
	logger zerolog.Logger
	m      *shipperMetrics

	turn    chan struct{} // holds one token; guards the fields below
	base    uint64        // first number the next batch speaks for; 0 before the first
	boot    string        // boot that base belongs to
	limit   int           // events of the next batch, less than BatchEvents after a rejection
	aside   int           // events set aside
	failing int           // failures in a row

	shipped atomic.Uint64 // SETTLEs dealt with, counted as Log.settles is
	oldest  atomic.Int64  // Unix nanoseconds of the oldest event under way, 0 if none
}

// NewShipper returns a Shipper that ships log to the ledger in the name of
// node. A log has one Shipper.
func NewShipper(log *Log, to Ingester, node string, cfg ShipperConfig, logger zerolog.Logger, meter metric.Meter) (*Shipper, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if node == "" {
		return nil, errors.New("shipper needs a node id")
	}
	s := &Shipper{
		log: log, to: to, node: node, cfg: cfg, logger: logger.With().Str("component", "meter").Logger(),
		turn: make(chan struct{}, 1), limit: cfg.BatchEvents,
	}
	s.turn <- struct{}{}
	if s.m, err = newShipperMetrics(s, meter); err != nil {
		return nil, fmt.Errorf("create shipper metrics: %w", err)
	}
	return s, nil
}

// Backlog returns what waits to be shipped. Safe for concurrent use.
func (s *Shipper) Backlog() Backlog {
	b := Backlog{Events: s.unshipped()}
	if at := s.oldest.Load(); at != 0 && b.Events > 0 {
		b.Age = max(time.Since(time.Unix(0, at)), 0)
	}
	return b
}

func (s *Shipper) unshipped() uint64 {
	done := s.shipped.Load() // first: it never overtakes the other
	return s.log.settles.Load() - done
}

// Run ships until ctx ends and returns nil. What fails is tried again for ever,
// with full jitter: every wait is random, so that nodes cut off together do not
// come back together.
func (s *Shipper) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if s.unshipped() == 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-s.log.moved:
			}
		}
		s.linger(ctx)
		switch more, err := s.step(ctx); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			sleep(ctx, s.backoff())
		case !more:
			select {
			case <-ctx.Done():
				return nil
			case <-s.log.moved:
			}
		}
	}
	return nil
}

// linger waits until a batch is full or Linger has passed.
func (s *Shipper) linger(ctx context.Context) {
	timer := time.NewTimer(s.cfg.Linger)
	defer timer.Stop()
	for s.unshipped() < uint64(s.cfg.BatchEvents) {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-s.log.moved:
		}
	}
}

// Drain ships everything appended so far, without lingering, until it is
// acknowledged or ctx ends. It returns what is left, and an error if that is
// anything. Run may go on meanwhile.
func (s *Shipper) Drain(ctx context.Context) (Backlog, error) {
	last := s.log.Sync()
	for last == nil && s.unshipped() > 0 {
		more, err := s.step(ctx)
		if ctx.Err() != nil {
			last = errors.Join(context.Cause(ctx), err)
			break
		}
		if err == nil && !more {
			break
		}
		if err != nil {
			sleep(ctx, s.backoff())
		}
	}
	left := s.Backlog()
	if left.Events == 0 {
		s.logger.Info().Msg("usage log is shipped")
		return left, nil
	}
	s.logger.Warn().Uint64("unshipped_events", left.Events).Dur("oldest_ms", left.Age).AnErr("reason", last).
		Msg("usage log is not shipped, the rest goes when this node starts again")
	return left, fmt.Errorf("drain usage log: %d events are left for the next start of this node: %w", left.Events, orNotDurable(last))
}

var errNotDurable = errors.New("the disk has not confirmed them")

func orNotDurable(err error) error {
	if err == nil {
		return errNotDurable
	}
	return err
}

// backoff returns the next wait after a failure.
func (s *Shipper) backoff() time.Duration {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	top := s.cfg.BackoffMax
	if n := s.failing - 1; n < 32 {
		top = min(top, s.cfg.BackoffMin<<max(n, 0))
	}
	if top <= 0 {
		top = s.cfg.BackoffMax
	}
	return time.Duration(rand.Int64N(int64(top) + 1))
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// step ships one batch. more is false when nothing was there to ship.
func (s *Shipper) step(ctx context.Context) (more bool, err error) {
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-s.turn:
	}
	defer func() { s.turn <- struct{}{} }()

	b, err := s.next()
	if err != nil {
		return false, s.failed(err)
	}
	if b == nil {
		return false, nil
	}
	s.oldest.Store(b.oldest)
	if len(b.req.Events) == 0 { // nothing is due in this range
		return true, s.acked(ctx, b, b.req.LastSeq)
	}
	call, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	res, err := s.to.IngestUsage(call, b.req)
	switch {
	case err != nil && ctx.Err() != nil:
		return true, ctx.Err()
	case err == nil && res.GetLastSeq() < b.req.Events[0].LogSeq:
		return true, s.failed(fmt.Errorf("ship usage: nothing of records %d to %d was stored, the answer is %d",
			b.req.FirstSeq, b.req.LastSeq, res.GetLastSeq()))
	case err == nil:
		s.limit = min(2*s.limit, s.cfg.BatchEvents)
		return true, s.acked(ctx, b, min(res.GetLastSeq(), b.req.LastSeq))
	case connect.CodeOf(err) == connect.CodeInvalidArgument && len(b.req.Events) > 1:
		// Some event is to blame. Halving finds it in a few calls.
		s.limit = len(b.req.Events) / 2
		s.logger.Warn().Err(err).Int("events", len(b.req.Events)).Msg("usage batch is refused as invalid, trying smaller ones")
		return true, nil
	case connect.CodeOf(err) == connect.CodeInvalidArgument && s.aside < s.cfg.MaxRejected:
		if err := s.setAside(ctx, b, err); err != nil {
			return true, s.failed(err)
		}
		return true, s.acked(ctx, b, b.req.LastSeq)
	default:
		return true, s.failed(fmt.Errorf("ship usage: records %d to %d: %w", b.req.FirstSeq, b.req.LastSeq, err))
	}
}

// failed counts a failure, logs the first and then about one a minute, and
// returns err.
func (s *Shipper) failed(err error) error {
	s.m.failures.Add(context.Background(), 1)
	if s.failing == 0 || s.failing%4 == 0 && s.failing > 8 {
		s.logger.Warn().Err(err).Int("failures", s.failing+1).Uint64("unshipped_events", s.unshipped()).
			Msg("usage is not acknowledged, trying again")
	}
	s.failing++
	return err
}

// acked moves the shipped position to seq, which lies in b.
func (s *Shipper) acked(ctx context.Context, b *batch, seq uint64) error {
	if err := s.log.Ack(seq); err != nil {
		return s.failed(err)
	}
	n, events := 0, 0
	for _, st := range b.settles {
		if st.seq <= seq {
			n++
			if st.event {
				events++
			}
		}
	}
	s.base, s.boot = seq+1, b.req.BootId
	if len(b.req.Events) == 0 {
		s.base = b.req.FirstSeq // the ledger has not heard of this stretch yet
	}
	s.shipped.Add(uint64(n))
	s.m.shipped.Add(ctx, int64(events))
	s.oldest.Store(0)
	if s.failing > 0 {
		s.logger.Info().Int("failures", s.failing).Uint64("unshipped_events", s.unshipped()).Msg("usage is acknowledged again")
		s.failing = 0
	}
	return nil
}
