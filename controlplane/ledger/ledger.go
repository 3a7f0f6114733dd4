package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric"
)

// UnknownCharge is what a customer pays for an attempt of unknown outcome.
type UnknownCharge uint8

// The policies. The upstream cost is booked as estimated under each of them,
// and charged_units of the node's event, where set, go before them.
const (
	// ChargeNone charges nothing.
	ChargeNone UnknownCharge = iota
	// ChargeInput charges the prompt.
	ChargeInput
	// ChargeReserved charges all that was reserved.
	ChargeReserved
)

// Config tunes a Ledger. A zero field takes the default it documents.
type Config struct {
	// HoldFor is how long an attempt of unknown outcome is held before it is
	// closed. Default 10 min.
	HoldFor time.Duration
	// Unknown is what the customer pays for it. Default ChargeNone.
	Unknown UnknownCharge
	// SweepInterval is the pause between two looks for holds to close, drawn
	// anew each time from 50 % to 150 % of it. Default 15 s.
	SweepInterval time.Duration
	// MaxEvents bounds a batch. Default 1000.
	MaxEvents int
	// MaxAhead and MaxBehind bound how far the clock of an event may be from
	// ours; beyond, it goes to quarantine. Defaults 24 h and 366 days: a node
	// may have been cut off for long, and its usage still counts.
	MaxAhead, MaxBehind time.Duration
	// Timeout bounds one transaction. Default 30 s.
	Timeout time.Duration
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&c.HoldFor, 10*time.Minute)
	set(&c.SweepInterval, 15*time.Second)
	set(&c.MaxAhead, 24*time.Hour)
	set(&c.MaxBehind, 366*24*time.Hour)
	set(&c.Timeout, 30*time.Second)
	if c.MaxEvents <= 0 {
		c.MaxEvents = 1000
	}
	return c
}

// Ledger owns the tables of usage and money. Any number of replicas may work on
// one database. All methods are safe for concurrent use.
type Ledger struct {
	pool    *pgxpool.Pool
	rater   *Rater
	cfg     Config
	log     zerolog.Logger
	metrics *metrics
	schema  *schema

	months sync.Map // first of month, as "2006-01", to struct{}: partitions that exist
}

// New returns a ledger on a migrated database. It does not connect and starts no
// goroutine.
func New(pool *pgxpool.Pool, rater *Rater, cfg Config, log zerolog.Logger, meter metric.Meter) (*Ledger, error) {
	if pool == nil || rater == nil || meter == nil {
		return nil, errors.New("a ledger needs a pool, a rater and a meter")
	}
	if cfg.Unknown > ChargeReserved {
		return nil, fmt.Errorf("ledger: unknown charge policy %d", cfg.Unknown)
	}
	m, err := newMetrics(meter)
	if err != nil {
		return nil, fmt.Errorf("ledger metrics: %w", err)
	}
	return &Ledger{
		pool: pool, rater: rater, cfg: cfg.withDefaults(), metrics: m, schema: newSchema(),
		log: log.With().Str("component", "ledger").Logger(),
	}, nil
}

// Run closes holds that are due until ctx ends, and then returns nil. Every
// replica may run it: a hold is closed by whoever locks it first.
func (l *Ledger) Run(ctx context.Context) error {
	for {
		wait := l.cfg.SweepInterval/2 + time.Duration(rand.Int64N(int64(l.cfg.SweepInterval)))
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if _, err := l.CloseHolds(ctx); err != nil && ctx.Err() == nil {
			l.log.Error().Err(err).Msg("holds not closed")
		}
	}
}

// attempts bounds how often a transaction is tried that lost against another.
const attempts = 4

// transact runs fn in a transaction that is on disk when it returns nil. fn may
// run more than once.
func (l *Ledger) transact(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	var err error
	for range attempts {
		// Read committed: each statement sees what others committed before it,
		// which the order of locks in store relies on.
		err = pgx.BeginTxFunc(ctx, l.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			// Whatever the role or database is set to: an acknowledgement means disk.
			if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = on"); err != nil {
				return err
			}
			return fn(ctx, tx)
		})
		if !lost(err) {
			return err
		}
	}
	return err
}

// lost reports whether a transaction failed only because of another one.
func lost(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "40001" || pg.Code == "40P01") // serialization_failure, deadlock_detected
}

// noPartition reports whether a row had no partition to go to.
func noPartition(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "23514" && pg.ConstraintName == "" // check_violation of no check
}

// ensureMonth makes the partition that holds a day, in a transaction of its
// own: making one locks the whole table for a moment.
func (l *Ledger) ensureMonth(ctx context.Context, day time.Time) error {
	key := day.Format("2006-01")
	if _, ok := l.months.Load(key); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	if _, err := l.pool.Exec(ctx, "SELECT aidy_ensure_month('usage_ledger', $1)", day); err != nil {
		return fmt.Errorf("make the partition of %s: %w", key, err)
	}
	l.months.Store(key, struct{}{})
	return nil
}
