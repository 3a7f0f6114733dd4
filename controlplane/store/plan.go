package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

const (
	viewIdentity = syncv1.View_VIEW_IDENTITY
	viewStable   = syncv1.View_VIEW_STABLE
)

// ShardChange is the difference one generation makes to one shard.
type ShardChange struct {
	View syncv1.View
	Key  string
	// TxGroup joins the shards that a node must take together; it counts from 1
	// within the generation.
	TxGroup uint32
	// OldHash and NewHash are SHA-256 of the bytes; nil for a shard that was not
	// there, or is no more.
	OldHash, NewHash []byte
	Bytes            []byte
}

// plan is everything a change will write besides its rows.
type plan struct {
	generation  uint64
	rows        []*RowChange
	shards      []ShardChange
	views       map[syncv1.View]*viewPlan
	revocations []Revocation
	more        bool // something else was written, that no row or shard shows
}

type viewPlan struct {
	buckets map[int][]byte // the hashes of buckets that differ
	root    []byte
}

func (p *plan) unchanged() bool { return len(p.rows) == 0 && len(p.shards) == 0 && !p.more }

func (p *plan) touches(view syncv1.View) bool {
	return slices.ContainsFunc(p.shards, func(c ShardChange) bool { return c.View == view })
}

func (p *plan) root(view syncv1.View, head []byte) []byte {
	if v, ok := p.views[view]; ok {
		return v.root
	}
	return head
}

func (p *plan) result(tx *Tx) Result {
	r := Result{
		Epoch: tx.head.Epoch, Generation: p.generation, Response: tx.response,
		Rows: p.rows, Shards: p.shards, Revocations: p.revocations,
		IdentityRoot: p.root(viewIdentity, tx.head.IdentityRoot),
		StableRoot:   p.root(viewStable, tx.head.StableRoot),
	}
	if p.unchanged() {
		r.Generation, r.Unchanged = tx.head.Generation, true
	}
	return r
}

// compile derives the touched shards from the changed rows, compiles them, drops
// those that equal what is stored, and computes the roots that follow.
func (s *Store) compile(ctx context.Context, tx *Tx, rows []*RowChange) (*plan, error) {
	p := &plan{generation: tx.head.Generation + 1, rows: rows, views: map[syncv1.View]*viewPlan{}}
	p.more = tx.dirty || len(tx.events) > 0
	p.revocations = tx.revoked(rows)
	keys := tx.touchedShards(rows)
	if len(keys) == 0 {
		return p, nil
	}
	compiled, err := s.compiler.Compile(ctx, tx, keys)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	tx.compiled = compiled
	stored, err := tx.storedHashes(ctx, keys)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		content, ok := compiled[key]
		if !ok {
			return nil, fmt.Errorf("compile: no answer for shard %s", key)
		}
		view, err := viewOf(key)
		if err != nil {
			return nil, err
		}
		c := ShardChange{View: view, Key: key, OldHash: stored[key]}
		if content != nil {
			sum := sha256.Sum256(content)
			c.NewHash, c.Bytes = sum[:], content
		}
		if !bytes.Equal(c.OldHash, c.NewHash) {
			p.shards = append(p.shards, c)
		}
	}
	tx.group(rows, p.shards)
	for _, view := range []syncv1.View{viewIdentity, viewStable} {
		if !p.touches(view) {
			continue
		}
		if p.views[view], err = tx.planView(ctx, view, p.shards); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// revoked lists what the change takes from callers, without repetition.
func (tx *Tx) revoked(rows []*RowChange) []Revocation {
	all := slices.Clone(tx.revocations)
	for _, c := range rows {
		if revokes := tx.cat.byName[c.Kind].Revokes; revokes != nil {
			all = append(all, revokes(c.Before, c.After)...)
		}
	}
	slices.SortFunc(all, func(a, b Revocation) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
	})
	return slices.Compact(all)
}

// storedHashes reads what the touched shards hold before the change.
func (tx *Tx) storedHashes(ctx context.Context, keys []string) (map[string][]byte, error) {
	rows, err := tx.pg.Query(ctx, "SELECT key, hash FROM config_shard WHERE view IN (1, 2) AND key = ANY($1)", keys)
	if err != nil {
		return nil, fmt.Errorf("read stored shards: %w", tx.cat.classify(err, nil))
	}
	hashes := map[string][]byte{}
	var key string
	var hash []byte
	if _, err := pgx.ForEachRow(rows, []any{&key, &hash}, func() error {
		hashes[key] = bytes.Clone(hash)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read stored shards: %w", tx.cat.classify(err, nil))
	}
	return hashes, nil
}

// Shard returns what a shard holds in the view that would result from this
// transaction; nil if there is no such shard. It is for validators.
func (tx *Tx) Shard(ctx context.Context, key string) ([]byte, error) {
	if content, ok := tx.compiled[key]; ok {
		return content, nil
	}
	rows, err := tx.pg.Query(ctx, "SELECT b.bytes FROM config_shard s JOIN config_blob b USING (hash) WHERE s.view IN (1, 2) AND s.key = $1", key)
	if err != nil {
		return nil, fmt.Errorf("read shard %s: %w", key, tx.cat.classify(err, nil))
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("read shard %s: %w", key, tx.cat.classify(err, nil))
	}
	if len(found) == 0 {
		return nil, nil
	}
	return found[0], nil
}

// group numbers the shards of a change. Shards that one row touches, or that
// rows naming each other touch, belong together; what has nothing to do with
// each other does not hold each other back.
func (tx *Tx) group(rows []*RowChange, shards []ShardChange) {
	sets := newDisjoint()
	changed := map[string]bool{}
	for _, c := range rows {
		changed[c.ID] = true
	}
	for _, c := range rows {
		for _, key := range tx.shardsOf(c) {
			sets.join("row "+c.ID, "shard "+key)
		}
		k := tx.cat.byName[c.Kind]
		for i := range k.refs {
			if c.After == nil {
				continue
			}
			for _, id := range k.refs[i].named(c.After) {
				if changed[id] {
					sets.join("row "+c.ID, "row "+id)
				}
			}
		}
	}
	sets.number(shards)
}

// planView computes the bucket hashes and the root of one view after the change,
// from the stored keys of the touched buckets alone.
func (tx *Tx) planView(ctx context.Context, view syncv1.View, shards []ShardChange) (*viewPlan, error) {
	entries := map[int]map[string][]byte{}
	var touched []int16
	for _, c := range shards {
		if b := bucketOf(c.Key); c.View == view && entries[b] == nil {
			entries[b] = map[string][]byte{}
			touched = append(touched, int16(b))
		}
	}
	rows, err := tx.pg.Query(ctx, "SELECT bucket, key, hash FROM config_shard WHERE view = $1 AND bucket = ANY($2)", int16(view), touched)
	if err != nil {
		return nil, fmt.Errorf("read buckets: %w", tx.cat.classify(err, nil))
	}
	var bucket int16
	var key string
	var hash []byte
	if _, err := pgx.ForEachRow(rows, []any{&bucket, &key, &hash}, func() error {
		entries[int(bucket)][key] = bytes.Clone(hash)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read buckets: %w", tx.cat.classify(err, nil))
	}
	for _, c := range shards {
		switch {
		case c.View != view:
		case c.NewHash == nil:
			delete(entries[bucketOf(c.Key)], c.Key)
		default:
			entries[bucketOf(c.Key)][c.Key] = c.NewHash
		}
	}

	all := emptyBuckets()
	rows, err = tx.pg.Query(ctx, "SELECT bucket, hash FROM config_bucket WHERE view = $1", int16(view))
	if err != nil {
		return nil, fmt.Errorf("read bucket hashes: %w", tx.cat.classify(err, nil))
	}
	if _, err := pgx.ForEachRow(rows, []any{&bucket, &hash}, func() error {
		return all.set(int(bucket), hash)
	}); err != nil {
		return nil, fmt.Errorf("read bucket hashes: %w", tx.cat.classify(err, nil))
	}
	v := &viewPlan{buckets: map[int][]byte{}}
	for b, keys := range entries {
		v.buckets[b] = bucketHash(keys)
		if err := all.set(b, v.buckets[b]); err != nil {
			return nil, err
		}
	}
	v.root = all.root()
	return v, nil
}

// disjoint is a union of sets of names.
type disjoint struct{ parent map[string]string }

func newDisjoint() *disjoint { return &disjoint{map[string]string{}} }

func (d *disjoint) find(name string) string {
	root := name
	for d.parent[root] != "" {
		root = d.parent[root]
	}
	for name != root {
		next := d.parent[name]
		d.parent[name] = root
		name = next
	}
	return root
}

func (d *disjoint) join(a, b string) {
	if a, b = d.find(a), d.find(b); a != b {
		d.parent[a] = b
	}
}

// number gives the shards of each set one number, counting from 1 in their order.
func (d *disjoint) number(shards []ShardChange) {
	numbers := map[string]uint32{}
	for i := range shards {
		root := d.find("shard " + shards[i].Key)
		if numbers[root] == 0 {
			numbers[root] = uint32(len(numbers) + 1)
		}
		shards[i].TxGroup = numbers[root]
	}
}
