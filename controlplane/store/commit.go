package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// idempotencyKept is how long the answer to a keyed write is remembered.
const idempotencyKept = 24 * time.Hour

// Actor is who makes a change.
type Actor struct {
	// ID is an admin account, or a word for what the system does by itself.
	ID string
	// Kind is the sort of proof: token, session, system.
	Kind string
	// Remote is the address the call came from.
	Remote string
}

// Change is what is said about a change besides its writes.
type Change struct {
	Actor   Actor
	Message string
	Rollout string
	// IdempotencyKey makes a repetition within 24 h, by the same actor, answer
	// what the first call was answered. RequestHash tells a repetition from
	// another request under the same key.
	IdempotencyKey string
	RequestHash    []byte
	// IfMatchGeneration refuses the change unless the configuration is at this
	// generation; 0 does not ask.
	IfMatchGeneration uint64
	// ValidateOnly does everything but commit.
	ValidateOnly bool
	// OverrideFreeze lets a policy change through a freeze.
	OverrideFreeze bool
}

// Result is what a change did, or would do.
type Result struct {
	Epoch uint64
	// Generation is the one made; for Unchanged, Replayed and ValidatedOnly the
	// one that stood, or stands.
	Generation uint64
	// Unchanged: nothing differs, so nothing was committed.
	Unchanged bool
	// Replayed: an earlier call with the same idempotency key did it; Response
	// is its answer.
	Replayed      bool
	ValidatedOnly bool
	Response      []byte
	// Rows and Shards are what differs, sorted; empty for a replay.
	Rows   []*RowChange
	Shards []ShardChange
	// IdentityRoot and StableRoot are the roots of the resulting views.
	IdentityRoot, StableRoot []byte
	// Revocations are what the change takes away from callers.
	Revocations []Revocation
}

// Commit runs fn and makes everything it wrote one generation, or nothing of it.
//
// The gate, the row of config_head, is locked before fn reads anything: two
// writers of one tenant see each other, and generations follow the order of
// commits. After fn, every touched shard is compiled from the rows; what equals
// its stored bytes drops out. If neither a row nor a shard differs, nothing is
// committed and Result.Unchanged is set. The validator then judges the result.
//
// With ValidateOnly the same happens without the gate, on one consistent state,
// and is rolled back; see Config.Previews and Config.PreviewTimeout.
//
// Errors of fn are returned as they are. ErrGateTimeout and ErrStoreDown mean
// that nothing was committed, unless the text says that the outcome is unknown:
// then an idempotency key makes trying again safe.
func (s *Store) Commit(ctx context.Context, change Change, fn func(tx *Tx) error) (Result, error) {
	if change.ValidateOnly {
		return s.preview(ctx, change, fn)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.CommitTimeout,
		fmt.Errorf("%w: no commit within %s", ErrStoreDown, s.cfg.CommitTimeout))
	defer cancel()

	pg, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return Result{}, fmt.Errorf("begin a change: %w", s.classify(ctx, err))
	}
	defer rollback(ctx, pg)
	tx := newTx(pg, s.cat)
	if tx.head, err = s.lockGate(ctx, pg); err != nil {
		return Result{}, fmt.Errorf("enter the gate: %w", s.classify(ctx, err))
	}
	if replay, err := tx.replay(ctx, change); replay != nil || err != nil {
		return deref(replay), err
	}
	plan, err := s.prepare(ctx, tx, change, fn)
	if err != nil {
		return Result{}, s.classify(ctx, err)
	}
	if plan.unchanged() {
		return plan.result(tx), nil
	}
	changeID := ident.New("chg")
	month, err := s.write(ctx, tx, change, plan, changeID)
	if err != nil {
		return Result{}, fmt.Errorf("write generation %d: %w", plan.generation, s.classify(ctx, err))
	}
	if err := pg.Commit(ctx); err != nil {
		if done, known := s.committed(ctx, plan.generation, changeID); !known {
			return Result{}, fmt.Errorf("commit generation %d, outcome unknown: %w", plan.generation, errors.Join(ErrStoreDown, err))
		} else if !done {
			return Result{}, fmt.Errorf("commit generation %d: %w", plan.generation, s.classify(ctx, err))
		}
	}
	s.ensured.Store(month)
	return plan.result(tx), nil
}

// lockGate waits for the change before this one. The limits set here hold for
// the transaction: a writer that stalls or loses its way frees the gate.
func (s *Store) lockGate(ctx context.Context, pg pgx.Tx) (Head, error) {
	limits := fmt.Sprintf("SET LOCAL lock_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = %d; SET LOCAL statement_timeout = %d",
		s.cfg.GateTimeout.Milliseconds(), (10 * time.Second).Milliseconds(), s.cfg.CommitTimeout.Milliseconds())
	if _, err := pg.Exec(ctx, limits); err != nil {
		return Head{}, err
	}
	return scanHead(pg.QueryRow(ctx, "SELECT "+headColumns+" FROM config_head FOR UPDATE"))
}

// prepare is what a commit and a preview have in common: the writes, the checks
// that need all of them, the shards that follow, and the judgement on those.
func (s *Store) prepare(ctx context.Context, tx *Tx, change Change, fn func(tx *Tx) error) (*plan, error) {
	if want := change.IfMatchGeneration; want != 0 && want != tx.head.Generation {
		return nil, &GenerationError{Expected: want, Current: tx.head.Generation}
	}
	if err := fn(tx); err != nil {
		return nil, err
	}
	rows := tx.rowChanges()
	if err := tx.checkReferences(ctx, rows); err != nil {
		return nil, err
	}
	for _, c := range rows {
		if project := tx.cat.byName[c.Kind].project; project != nil {
			if err := project(ctx, tx, c); err != nil {
				return nil, err
			}
		}
	}
	// What could only be judged once all rows are in place is judged here, so
	// that the error is about the change and not about its commit.
	if _, err := tx.pg.Exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
		return nil, tx.cat.classify(err, nil)
	}
	plan, err := s.compile(ctx, tx, rows)
	if err != nil {
		return nil, err
	}
	if plan.touches(viewStable) && tx.head.FrozenBy != "" && !change.OverrideFreeze {
		return nil, fmt.Errorf("%w by %s; unfreeze, or let an owner override it for this change", ErrFrozen, tx.head.FrozenBy)
	}
	if s.validator != nil && len(plan.shards) > 0 {
		if err := s.validator.Validate(ctx, tx, plan.shards); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// preview runs a change on one consistent state and takes it back. It does not
// enter the gate; the rows it writes are locked until it ends, which is soon.
func (s *Store) preview(ctx context.Context, change Change, fn func(tx *Tx) error) (Result, error) {
	select {
	case s.previews <- struct{}{}:
		defer func() { <-s.previews }()
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.PreviewTimeout,
		fmt.Errorf("%w: no preview within %s", ErrStoreDown, s.cfg.PreviewTimeout))
	defer cancel()
	pg, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return Result{}, fmt.Errorf("begin a preview: %w", s.classify(ctx, err))
	}
	defer rollback(ctx, pg)
	if _, err := pg.Exec(ctx, fmt.Sprintf("SET LOCAL statement_timeout = %d", s.cfg.PreviewTimeout.Milliseconds())); err != nil {
		return Result{}, fmt.Errorf("begin a preview: %w", s.classify(ctx, err))
	}
	tx := newTx(pg, s.cat)
	if tx.head, err = scanHead(pg.QueryRow(ctx, "SELECT "+headColumns+" FROM config_head")); err != nil {
		return Result{}, fmt.Errorf("read the head: %w", s.classify(ctx, err))
	}
	plan, err := s.prepare(ctx, tx, change, fn)
	if err != nil {
		return Result{}, s.classify(ctx, err)
	}
	result := plan.result(tx)
	result.ValidatedOnly = true
	result.Generation = tx.head.Generation
	return result, nil
}

// classify prefers the reason for which we ended the context ourselves.
func (s *Store) classify(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(cause, ErrStoreDown) && !isOurs(err) {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return s.cat.classify(err, nil)
}

// replay returns the answer of an earlier call with the same key, nil if there
// is none. Under the gate no other call with the key can be in flight.
func (tx *Tx) replay(ctx context.Context, change Change) (*Result, error) {
	if change.IdempotencyKey == "" {
		return nil, nil
	}
	kept, err := lookupIdempotency(ctx, tx.pg, change.Actor.ID, change.IdempotencyKey, tx.Now())
	if err != nil || kept == nil {
		return nil, tx.cat.classify(err, nil)
	}
	return kept.answer(tx.head.Epoch, change.RequestHash)
}

// Kept is the remembered answer of a keyed write.
type Kept struct {
	RequestHash []byte
	Generation  uint64
	Response    []byte
}

func (k *Kept) answer(epoch uint64, requestHash []byte) (*Result, error) {
	if !bytes.Equal(k.RequestHash, requestHash) {
		return nil, ErrIdempotencyReuse
	}
	return &Result{Epoch: epoch, Generation: k.Generation, Replayed: true, Response: k.Response}, nil
}

// LookupIdempotency returns what an actor's write under a key was answered in
// the last 24 h, nil if there was none. It fails with ErrIdempotencyReuse if the
// key belongs to another request.
func (s *Store) LookupIdempotency(ctx context.Context, actor, key string, requestHash []byte) (*Kept, error) {
	kept, err := lookupIdempotency(ctx, s.pool, actor, key, time.Now())
	if err != nil {
		return nil, fmt.Errorf("look up idempotency key: %w", s.cat.classify(err, nil))
	}
	if kept != nil && !bytes.Equal(kept.RequestHash, requestHash) {
		return nil, ErrIdempotencyReuse
	}
	return kept, nil
}

type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func lookupIdempotency(ctx context.Context, q queryer, actor, key string, now time.Time) (*Kept, error) {
	var k Kept
	var generation int64
	err := q.QueryRow(ctx, `SELECT request_hash, generation, response FROM idempotency
		WHERE day >= $3::date AND actor = $1 AND key = $2 AND created_at > $4 ORDER BY created_at DESC LIMIT 1`,
		actor, key, now.Add(-idempotencyKept).UTC(), now.Add(-idempotencyKept)).Scan(&k.RequestHash, &generation, &k.Response)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	k.Generation = uint64(generation)
	return &k, err
}

// committed tells whether a commit that gave an error happened all the same.
func (s *Store) committed(ctx context.Context, generation uint64, changeID string) (done, known bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := pgx.BeginFunc(ctx, s.pool, func(pg pgx.Tx) error {
		// The server may still be finishing: once the gate is free it has.
		if _, err := s.lockGate(ctx, pg); err != nil {
			return err
		}
		return pg.QueryRow(ctx, "SELECT EXISTS (SELECT FROM generation_log WHERE generation = $1 AND change_id = $2)",
			int64(generation), changeID).Scan(&done)
	})
	return done, err == nil
}

func deref(r *Result) Result {
	if r == nil {
		return Result{}
	}
	return *r
}

func notifyPayload(epoch, generation uint64) string {
	return strconv.FormatUint(epoch, 10) + " " + strconv.FormatUint(generation, 10)
}
