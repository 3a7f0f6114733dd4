package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// OutboxEntry is a revocation on its way to the fleet's fast path.
type OutboxEntry struct {
	Revocation
	ID                int64
	Epoch, Generation uint64
	CreatedAt         time.Time
}

// DrainOutbox hands unsent revocations to send, oldest first, at most limit, and
// marks them sent if it returns nil. Replicas draining at once get different
// ones; one that fails is handed out again, so sending must be repeatable. It
// returns how many were sent.
func (s *Store) DrainOutbox(ctx context.Context, limit int, send func([]OutboxEntry) error) (int, error) {
	n := 0
	err := s.inTx(ctx, "drain the revocation outbox", func(pg pgx.Tx) error {
		rows, err := pg.Query(ctx, `SELECT id, epoch, generation, kind, subject, created_at FROM revocation_outbox
			WHERE sent_at IS NULL ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED`, limit)
		if err != nil {
			return err
		}
		var ids []int64
		entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e OutboxEntry, err error) {
			var epoch, generation int64
			err = row.Scan(&e.ID, &epoch, &generation, &e.Kind, &e.Subject, &e.CreatedAt)
			e.Epoch, e.Generation = uint64(epoch), uint64(generation)
			ids = append(ids, e.ID)
			return e, err
		})
		if err != nil || len(entries) == 0 {
			return err
		}
		if err := send(entries); err != nil {
			return err
		}
		n = len(entries)
		_, err = pg.Exec(ctx, "UPDATE revocation_outbox SET sent_at = clock_timestamp() WHERE id = ANY($1)", ids)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// blobsPerSweep bounds how long Maintain holds the gate at a time.
const blobsPerSweep = 500

// Maintain makes partitions ahead, drops those past their keep time, and removes
// rows that nobody needs any more: sent revocations after a day, old signals,
// join tokens a month after they ended, and bytes of shards that no view and no
// kept generation refers to. Any replica may call it, at any time; once an hour
// is enough.
func (s *Store) Maintain(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, "SELECT aidy_ensure_partitions(clock_timestamp())"); err != nil {
		return fmt.Errorf("make partitions: %w", s.cat.classify(err, nil))
	}
	rows, err := s.pool.Query(ctx, "SELECT aidy_drop_expired(clock_timestamp())")
	if err != nil {
		return fmt.Errorf("drop expired partitions: %w", s.cat.classify(err, nil))
	}
	dropped, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("drop expired partitions: %w", s.cat.classify(err, nil))
	}
	if len(dropped) > 0 {
		s.log.Info().Strs("partitions", dropped).Msg("expired partitions dropped")
	}
	for _, sql := range []string{
		"DELETE FROM revocation_outbox WHERE sent_at < clock_timestamp() - interval '1 day'",
		"DELETE FROM join_token WHERE expires_at < clock_timestamp() - interval '30 days'",
	} {
		if _, err := s.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("remove old rows: %w", s.cat.classify(err, nil))
		}
	}
	if err := s.DropSignals(ctx); err != nil {
		return err
	}
	for {
		n, err := s.sweepBlobs(ctx)
		if err != nil {
			return fmt.Errorf("remove unused shard bytes: %w", s.cat.classify(err, nil))
		}
		if n < blobsPerSweep {
			return nil
		}
	}
}

// sweepBlobs looks for unused bytes without disturbing anybody, and removes what
// is still unused under the gate, where no commit can take them up again.
func (s *Store) sweepBlobs(ctx context.Context) (int, error) {
	const unused = `NOT EXISTS (SELECT FROM config_shard s WHERE s.hash = b.hash)
		AND NOT EXISTS (SELECT FROM config_change c WHERE c.old_hash = b.hash)
		AND NOT EXISTS (SELECT FROM config_change c WHERE c.new_hash = b.hash)`
	rows, err := s.pool.Query(ctx, "SELECT hash FROM config_blob b WHERE "+unused+" LIMIT $1", blobsPerSweep)
	if err != nil {
		return 0, err
	}
	hashes, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil || len(hashes) == 0 {
		return 0, err
	}
	err = pgx.BeginFunc(ctx, s.pool, func(pg pgx.Tx) error {
		if _, err := s.lockGate(ctx, pg); err != nil {
			return err
		}
		_, err := pg.Exec(ctx, "DELETE FROM config_blob b WHERE hash = ANY($1) AND "+unused, hashes)
		return err
	})
	return len(hashes), err
}
