package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ShardSize is what one generation did to the size of one shard.
type ShardSize struct {
	Key      string
	Old, New int64 // bytes; 0 where it is absent, or no longer kept
	Removed  bool
}

// ShardsOf lists the shards that a generation changed, in the order of its log;
// empty if the log does not go back that far.
func (s *Store) ShardsOf(ctx context.Context, generation uint64) ([]ShardSize, error) {
	rows, err := s.pool.Query(ctx, `SELECT c.key, coalesce(length(o.bytes), 0), coalesce(length(n.bytes), 0), c.new_hash IS NULL
		FROM config_change c LEFT JOIN config_blob o ON o.hash = c.old_hash LEFT JOIN config_blob n ON n.hash = c.new_hash
		WHERE c.generation = $1 ORDER BY c.seq`, int64(generation))
	if err != nil {
		return nil, fmt.Errorf("list shards of generation %d: %w", generation, s.cat.classify(err, nil))
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c ShardSize, err error) {
		err = row.Scan(&c.Key, &c.Old, &c.New, &c.Removed)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("list shards of generation %d: %w", generation, s.cat.classify(err, nil))
	}
	return out, nil
}
