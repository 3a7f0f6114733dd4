// Package store owns PostgreSQL for the configuration: resources, the
// transaction in which a change becomes one generation, and what replicas read
// to distribute it. No other package writes these tables.
package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// Config tunes a Store. A zero field takes the default it documents.
type Config struct {
	// GateTimeout is how long a commit waits for the one before it. Default 2 s.
	GateTimeout time.Duration
	// CommitTimeout bounds a whole commit. Default 30 s.
	CommitTimeout time.Duration
	// PreviewTimeout bounds a validate-only change. Default 2 s.
	PreviewTimeout time.Duration
	// Previews is how many validate-only changes run at once; more wait.
	// Default 4.
	Previews int
	// PollInterval is how often Listen reads the head whatever it hears, give or
	// take a fifth. Default 1 s.
	PollInterval time.Duration
}

// Compiler turns rows into the bytes that nodes receive. It runs inside the
// transaction of a change, after its writes.
type Compiler interface {
	// Compile returns what each of the shards holds according to the rows that
	// tx sees; nil bytes mean that the shard is no more. Every key asked for
	// must be in the answer. Equal rows must give equal bytes.
	Compile(ctx context.Context, tx *Tx, keys []string) (map[string][]byte, error)
}

// Validator judges a change before it is committed; its error refuses it.
// tx.Shard reads any shard of the view that would result.
type Validator interface {
	Validate(ctx context.Context, tx *Tx, changes []ShardChange) error
}

// Store is safe for concurrent use. Several stores on one database, in one
// process or many, see one order of generations.
type Store struct {
	cfg       Config
	pool      *pgxpool.Pool
	cat       *catalog
	compiler  Compiler
	validator Validator
	log       zerolog.Logger
	previews  chan struct{}
	ensured   atomic.Pointer[partitions]
}

// New returns a store on a migrated database. It does not connect. validator may
// be nil: nothing is refused then.
func New(pool *pgxpool.Pool, compiler Compiler, validator Validator, cfg Config, log zerolog.Logger) (*Store, error) {
	if pool == nil || compiler == nil {
		return nil, errors.New("a store needs a pool and a compiler")
	}
	defaults := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	defaults(&cfg.GateTimeout, 2*time.Second)
	defaults(&cfg.CommitTimeout, 30*time.Second)
	defaults(&cfg.PreviewTimeout, 2*time.Second)
	defaults(&cfg.PollInterval, time.Second)
	if cfg.Previews <= 0 {
		cfg.Previews = 4
	}
	cat, err := newCatalog()
	if err != nil {
		return nil, fmt.Errorf("describe resources: %w", err)
	}
	return &Store{
		cfg: cfg, pool: pool, cat: cat, compiler: compiler, validator: validator,
		log: log.With().Str("component", "store").Logger(), previews: make(chan struct{}, cfg.Previews),
	}, nil
}

// Head is where the configuration stands.
type Head struct {
	// Epoch names the lineage of the database: positions of different epochs do
	// not compare.
	Epoch      uint64
	Generation uint64
	// Identity and Stable are the newest generations that touched each view.
	Identity, Stable uint64
	// Candidate is the generation of a running rollout's overlay, 0 for none.
	Candidate                               uint64
	IdentityRoot, StableRoot, CandidateRoot []byte
	// FrozenBy is the admin account that froze policy changes, empty for none.
	FrozenBy string
	// Now is the database's clock when the head was read.
	Now time.Time
}

// Position is the part of the head that one view's nodes compare with. A view
// that never changed has generation 0 and the root of the empty set.
func (h Head) Position(view syncv1.View) *syncv1.Position {
	p := &syncv1.Position{Epoch: h.Epoch}
	switch view {
	case syncv1.View_VIEW_IDENTITY:
		p.Generation, p.Root = h.Identity, h.IdentityRoot
	case syncv1.View_VIEW_STABLE:
		p.Generation, p.Root = h.Stable, h.StableRoot
	case syncv1.View_VIEW_CANDIDATE:
		p.Generation, p.Root = h.Candidate, h.CandidateRoot
	}
	return p
}

const headColumns = `epoch, generation, identity_gen, stable_gen, coalesce(candidate_gen, 0),
	identity_root, stable_root, candidate_root, coalesce(frozen_by, ''), clock_timestamp()`

func scanHead(row pgx.Row) (Head, error) {
	var h Head
	var epoch, generation, identity, stable, candidate int64
	err := row.Scan(&epoch, &generation, &identity, &stable, &candidate,
		&h.IdentityRoot, &h.StableRoot, &h.CandidateRoot, &h.FrozenBy, &h.Now)
	h.Epoch, h.Generation, h.Identity = uint64(epoch), uint64(generation), uint64(identity)
	h.Stable, h.Candidate, h.Now = uint64(stable), uint64(candidate), h.Now.UTC()
	if h.IdentityRoot == nil {
		h.IdentityRoot = emptyRoot()
	}
	if h.StableRoot == nil {
		h.StableRoot = emptyRoot()
	}
	return h, err
}

// Head reads where the configuration stands. It fails with ErrStoreDown if
// PostgreSQL does not answer.
func (s *Store) Head(ctx context.Context) (Head, error) {
	h, err := scanHead(s.pool.QueryRow(ctx, "SELECT "+headColumns+" FROM config_head"))
	if err != nil {
		return Head{}, fmt.Errorf("read the head: %w", s.cat.classify(err, nil))
	}
	return h, nil
}

// Read runs fn in a transaction that sees one state of the database and cannot
// write.
func (s *Store) Read(ctx context.Context, fn func(tx *Tx) error) error {
	pg, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("begin reading: %w", s.cat.classify(err, nil))
	}
	defer rollback(ctx, pg)
	tx := newTx(pg, s.cat)
	tx.readOnly = true
	if tx.head, err = scanHead(pg.QueryRow(ctx, "SELECT "+headColumns+" FROM config_head")); err != nil {
		return fmt.Errorf("read the head: %w", s.cat.classify(err, nil))
	}
	return fn(tx)
}

// rollback ends a transaction even if its context is over, within a bound.
func rollback(ctx context.Context, pg pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = pg.Rollback(ctx) // after a commit it has nothing to do; a broken connection rolls back by itself
}
