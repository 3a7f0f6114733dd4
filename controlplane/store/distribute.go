package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// maxChangedRows bounds how much of the change log is squashed into one answer;
// a node further behind fetches by buckets instead, which costs less then.
const maxChangedRows = 50_000

// StoredShard is a shard as a view holds it. Hash is nil only in the candidate
// overlay: the shard is removed there.
type StoredShard struct {
	Key        string
	Hash       []byte
	Generation uint64
	Bytes      []byte
}

// LoadShards calls fn for every shard of a view, in the order of keys, with its
// bytes, and returns the head that they belong to. fn must not keep Bytes or
// Hash beyond the call unless it copies them.
func (s *Store) LoadShards(ctx context.Context, view syncv1.View, fn func(StoredShard) error) (Head, error) {
	var head Head
	err := s.Read(ctx, func(tx *Tx) error {
		head = tx.head
		rows, err := tx.pg.Query(ctx, `SELECT s.key, s.hash, s.generation, b.bytes FROM config_shard s LEFT JOIN config_blob b USING (hash)
			WHERE s.view = $1 ORDER BY s.key`, int16(view))
		if err != nil {
			return err
		}
		var shard StoredShard
		var generation int64
		_, err = pgx.ForEachRow(rows, []any{&shard.Key, &shard.Hash, &generation, &shard.Bytes}, func() error {
			shard.Generation = uint64(generation)
			return fn(shard)
		})
		return err
	})
	if err != nil {
		return Head{}, fmt.Errorf("load %v: %w", view, s.cat.classify(err, nil))
	}
	return head, nil
}

// Blobs returns stored bytes by hash; unknown hashes are absent from the answer.
func (s *Store) Blobs(ctx context.Context, hashes [][]byte) (map[[32]byte][]byte, error) {
	rows, err := s.pool.Query(ctx, "SELECT hash, bytes FROM config_blob WHERE hash = ANY($1)", hashes)
	if err != nil {
		return nil, fmt.Errorf("read shard bytes: %w", s.cat.classify(err, nil))
	}
	found := map[[32]byte][]byte{}
	var hash, content []byte
	if _, err := pgx.ForEachRow(rows, []any{&hash, &content}, func() error {
		found[[32]byte(hash)] = bytes.Clone(content)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read shard bytes: %w", s.cat.classify(err, nil))
	}
	return found, nil
}

// Changes is the way of one view from a base to the head.
type Changes struct {
	Head Head
	// Reachable is false if the log does not go back to the base, or goes too
	// far: the reader must fetch by buckets. Shards is empty then.
	Reachable bool
	// Shards are the net differences, sorted by key: what changed back is not
	// among them. Groups that share a shard are joined. Bytes are not loaded.
	Shards []ShardChange
}

// Changes reads what happened to a view after a generation. A base above the
// head, or of another epoch, is the caller's to notice: see Head.Epoch.
func (s *Store) Changes(ctx context.Context, view syncv1.View, since uint64) (Changes, error) {
	var out Changes
	err := s.Read(ctx, func(tx *Tx) error {
		out.Head = tx.head
		if since >= tx.head.Generation {
			out.Reachable = since == tx.head.Generation
			return nil
		}
		var there bool
		if err := tx.pg.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL",
			fmt.Sprintf("config_change_g%d", (since+1)/generationsPerPartition)).Scan(&there); err != nil || !there {
			return err
		}
		rows, err := tx.pg.Query(ctx, `SELECT generation, key, tx_group, old_hash, new_hash FROM config_change
			WHERE view = $1 AND generation > $2 ORDER BY generation, seq LIMIT $3`, int16(view), int64(since), maxChangedRows+1)
		if err != nil {
			return err
		}
		log, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c loggedChange, err error) {
			c.View = view
			err = row.Scan(&c.generation, &c.Key, &c.TxGroup, &c.OldHash, &c.NewHash)
			return c, err
		})
		if err != nil {
			return err
		}
		if len(log) <= maxChangedRows {
			out.Reachable, out.Shards = true, squash(log)
		}
		return nil
	})
	if err != nil {
		return Changes{}, fmt.Errorf("read changes since generation %d: %w", since, s.cat.classify(err, nil))
	}
	return out, nil
}

type loggedChange struct {
	ShardChange
	generation int64
}

// squash joins successive changes of each shard into one and drops those that
// lead back to where they began. Every shard of one group of one generation, and
// so every group that shares a shard with another, ends in one group.
func squash(log []loggedChange) []ShardChange {
	net := map[string]*ShardChange{}
	sets := newDisjoint()
	for i := range log {
		c := &log[i]
		sets.join("shard "+c.Key, fmt.Sprintf("group %d/%d", c.generation, c.TxGroup))
		if earlier, ok := net[c.Key]; ok {
			earlier.NewHash = c.NewHash
			continue
		}
		net[c.Key] = &c.ShardChange
	}
	var out []ShardChange
	for _, c := range net {
		if !bytes.Equal(c.OldHash, c.NewHash) {
			out = append(out, *c)
		}
	}
	slices.SortFunc(out, func(a, b ShardChange) int { return cmp.Compare(a.Key, b.Key) })
	sets.number(out)
	return out
}
