package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// partitions says which partitions are known to be there.
type partitions struct {
	day        string
	generation uint64 // of config_change, in units of 100,000
}

const generationsPerPartition = 100_000

// ensure makes the partitions that a commit writes to. Migrations and Maintain
// make them ahead of time; this is for the database that nobody maintained.
func (s *Store) ensure(ctx context.Context, pg pgx.Tx, now time.Time, generation uint64) (*partitions, error) {
	want := &partitions{now.Format(time.DateOnly), generation / generationsPerPartition}
	if have := s.ensured.Load(); have != nil && *have == *want {
		return want, nil
	}
	_, err := pg.Exec(ctx, `SELECT aidy_ensure_month('generation_log', $1::date), aidy_ensure_month('resource_revision', $1::date),
		aidy_ensure_month('audit_event', $1::date), aidy_ensure_day('idempotency', $1::date), aidy_ensure_generation($2)`, now, int64(generation))
	return want, err
}

// write stores a plan in one round trip whose last statement moves the head.
func (s *Store) write(ctx context.Context, tx *Tx, change Change, p *plan, changeID string) (*partitions, error) {
	ensured, err := s.ensure(ctx, tx.pg, tx.Now(), p.generation)
	if err != nil {
		return nil, err
	}
	batch := &pgx.Batch{}
	queueShards(batch, p)
	if err := s.queueHistory(batch, tx, change, p, changeID); err != nil {
		return nil, err
	}
	for _, r := range p.revocations {
		batch.Queue("INSERT INTO revocation_outbox (epoch, generation, kind, subject, created_at) VALUES ($1, $2, $3, $4, $5)",
			int64(tx.head.Epoch), int64(p.generation), r.Kind, r.Subject, tx.Now())
	}
	if change.IdempotencyKey != "" {
		response := tx.response
		if response == nil {
			response = []byte{}
		}
		batch.Queue("INSERT INTO idempotency (day, actor, key, request_hash, generation, response, created_at) VALUES ($1::date, $2, $3, $4, $5, $6, $7)",
			tx.Now(), change.Actor.ID, change.IdempotencyKey, nonNil(change.RequestHash), int64(p.generation), response, tx.Now())
	}
	batch.Queue("SELECT pg_notify('aidy_config', $1)", notifyPayload(tx.head.Epoch, p.generation))
	identityRoot, stableRoot := rootOrNil(p, viewIdentity), rootOrNil(p, viewStable)
	batch.Queue(`UPDATE config_head SET generation = generation + 1,
		identity_gen = CASE WHEN $1::bytea IS NULL THEN identity_gen ELSE generation + 1 END, identity_root = coalesce($1, identity_root),
		stable_gen = CASE WHEN $2::bytea IS NULL THEN stable_gen ELSE generation + 1 END, stable_root = coalesce($2, stable_root)`,
		identityRoot, stableRoot)
	return ensured, tx.pg.SendBatch(ctx, batch).Close()
}

func rootOrNil(p *plan, view syncv1.View) []byte {
	if v, ok := p.views[view]; ok {
		return v.root
	}
	return nil
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func queueShards(batch *pgx.Batch, p *plan) {
	var blobHashes, blobs, hashes, oldHashes, newHashes [][]byte
	var views, buckets, logViews, goneViews, bucketViews, bucketNumbers []int16
	var keys, logKeys, goneKeys []string
	var seqs, groups []int32
	var bucketHashes [][]byte
	for i, c := range p.shards {
		seqs, logViews, logKeys = append(seqs, int32(i)), append(logViews, int16(c.View)), append(logKeys, c.Key)
		groups = append(groups, int32(c.TxGroup))
		oldHashes, newHashes = append(oldHashes, c.OldHash), append(newHashes, c.NewHash)
		if c.NewHash == nil {
			goneViews, goneKeys = append(goneViews, int16(c.View)), append(goneKeys, c.Key)
			continue
		}
		blobHashes, blobs = append(blobHashes, c.NewHash), append(blobs, c.Bytes)
		views, keys, buckets, hashes = append(views, int16(c.View)), append(keys, c.Key), append(buckets, int16(bucketOf(c.Key))), append(hashes, c.NewHash)
	}
	for view, v := range p.views {
		for b, hash := range v.buckets {
			bucketViews, bucketNumbers, bucketHashes = append(bucketViews, int16(view)), append(bucketNumbers, int16(b)), append(bucketHashes, hash)
		}
	}
	generation := int64(p.generation)
	if len(blobs) > 0 {
		batch.Queue("INSERT INTO config_blob (hash, bytes) SELECT DISTINCT ON (h) h, b FROM unnest($1::bytea[], $2::bytea[]) AS t(h, b) ON CONFLICT DO NOTHING", blobHashes, blobs)
		batch.Queue(`INSERT INTO config_shard (view, key, bucket, hash, generation)
			SELECT v, k, b, h, $5 FROM unnest($1::smallint[], $2::text[], $3::smallint[], $4::bytea[]) AS t(v, k, b, h)
			ON CONFLICT (view, key) DO UPDATE SET hash = excluded.hash, generation = excluded.generation`, views, keys, buckets, hashes, generation)
	}
	if len(goneKeys) > 0 {
		batch.Queue("DELETE FROM config_shard s USING unnest($1::smallint[], $2::text[]) AS t(v, k) WHERE s.view = t.v AND s.key = t.k", goneViews, goneKeys)
	}
	if len(p.shards) > 0 {
		batch.Queue(`INSERT INTO config_bucket (view, bucket, hash) SELECT v, b, h FROM unnest($1::smallint[], $2::smallint[], $3::bytea[]) AS t(v, b, h)
			ON CONFLICT (view, bucket) DO UPDATE SET hash = excluded.hash`, bucketViews, bucketNumbers, bucketHashes)
		batch.Queue(`INSERT INTO config_change (generation, seq, view, key, tx_group, old_hash, new_hash)
			SELECT $1, s, v, k, g, o, n FROM unnest($2::int[], $3::smallint[], $4::text[], $5::int[], $6::bytea[], $7::bytea[]) AS t(s, v, k, g, o, n)`,
			generation, seqs, logViews, logKeys, groups, oldHashes, newHashes)
	}
}

// queueHistory writes the log of generations, the row of each resource after
// the change, and the audit. None of it holds secrets: rows never did.
func (s *Store) queueHistory(batch *pgx.Batch, tx *Tx, change Change, p *plan, changeID string) error {
	generation := int64(p.generation)
	batch.Queue(`INSERT INTO generation_log (generation, created_at, change_id, actor, message, rollout, touched_identity, touched_policy,
		resources, shards, identity_root, stable_root) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		generation, tx.Now(), changeID, change.Actor.ID, change.Message, change.Rollout, p.touches(viewIdentity), p.touches(viewStable),
		len(p.rows), len(p.shards), p.root(viewIdentity, tx.head.IdentityRoot), p.root(viewStable, tx.head.StableRoot))
	for _, c := range p.rows {
		before, err := marshalOrNil(c.Before)
		if err != nil {
			return err
		}
		after, err := marshalOrNil(c.After)
		if err != nil {
			return err
		}
		batch.Queue(`INSERT INTO resource_revision (kind, id, revision, generation, tenant_id, message, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			c.Kind, c.ID, c.Revision, generation, c.TenantID, after, tx.Now())
		action := "update"
		switch {
		case before == nil:
			action = "create"
		case after == nil:
			action = "delete"
		}
		queueAudit(batch, AuditEvent{
			ID: ident.New(auditPrefix), Time: tx.Now(), Actor: change.Actor.ID, ActorKind: change.Actor.Kind, Remote: change.Actor.Remote,
			Action: action, Kind: c.Kind, ResourceID: c.ID, ResourceName: c.Name, TenantID: c.TenantID,
			Generation: p.generation, Message: change.Message, Before: before, After: after,
		})
	}
	for _, e := range tx.events {
		if e.Action == "" {
			return errors.New("an audit event needs an action")
		}
		e.ID, e.Time, e.Generation = ident.New(auditPrefix), tx.Now(), p.generation
		e.Actor, e.ActorKind, e.Remote, e.Message = change.Actor.ID, change.Actor.Kind, change.Actor.Remote, change.Message
		queueAudit(batch, e)
	}
	return nil
}

// marshalOrNil gives nil for a missing message and never nil for a present one.
func marshalOrNil(m proto.Message) ([]byte, error) {
	if m == nil {
		return nil, nil
	}
	raw, err := Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return nonNil(raw), nil
}
