package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

const auditPrefix ident.Prefix = "aud"

// AuditEvent is who did what, when. Before and After are encoded messages of the
// resource, without secrets; decode them with Store.DecodeResource.
type AuditEvent struct {
	ID           string
	Time         time.Time
	Actor        string
	ActorKind    string
	Remote       string
	Action       string
	Kind         string
	ResourceID   string
	ResourceName string
	TenantID     string
	Generation   uint64
	Message      string
	Before       []byte
	After        []byte
}

const auditInsert = `INSERT INTO audit_event (id, occurred_at, actor, actor_kind, action, kind, resource_id, resource_name, tenant_id,
	generation, message, remote, before, after) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`

func (e *AuditEvent) args() []any {
	return []any{
		e.ID, e.Time, e.Actor, e.ActorKind, e.Action, e.Kind, e.ResourceID, e.ResourceName, e.TenantID,
		int64(e.Generation), e.Message, e.Remote, e.Before, e.After,
	}
}

func queueAudit(batch *pgx.Batch, e AuditEvent) { batch.Queue(auditInsert, e.args()...) }

// DecodeResource decodes a message that this package encoded, by kind.
func (s *Store) DecodeResource(kindName string, raw []byte) (proto.Message, error) {
	if raw == nil {
		return nil, nil
	}
	k, ok := s.cat.byName[kindName]
	if !ok {
		return nil, fmt.Errorf("decode %s: no such kind", kindName)
	}
	m := k.Message.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("decode %s: %w", kindName, err)
	}
	return m, nil
}

// AuditFilter narrows AuditEvents; its zero fields do not.
type AuditFilter struct {
	Tenants    []string // nil = every tenant and what belongs to none
	ResourceID string
	Actor      string
	From, To   time.Time // [From, To)
}

// AuditEvents lists events, newest first, at most limit (MaxPage if 0). before is
// the id of the last event of the page before, empty for the first.
func (s *Store) AuditEvents(ctx context.Context, f AuditFilter, limit int, before string) ([]AuditEvent, error) {
	if limit <= 0 || limit > MaxPage {
		limit = MaxPage
	}
	var from, to any
	if !f.From.IsZero() {
		from = f.From
	}
	if !f.To.IsZero() {
		to = f.To
	}
	rows, err := s.pool.Query(ctx, `SELECT id, occurred_at, actor, actor_kind, remote, action, kind, resource_id, resource_name, tenant_id,
			generation, message, before, after FROM audit_event
		WHERE ($1::text[] IS NULL OR tenant_id = ANY($1)) AND ($2 = '' OR resource_id = $2) AND ($3 = '' OR actor = $3)
			AND ($4::timestamptz IS NULL OR occurred_at >= $4) AND ($5::timestamptz IS NULL OR occurred_at < $5) AND ($6 = '' OR id < $6)
		ORDER BY id DESC LIMIT $7`, f.Tenants, f.ResourceID, f.Actor, from, to, before, limit)
	if err != nil {
		return nil, fmt.Errorf("list audit events: %w", s.cat.classify(err, nil))
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e AuditEvent, err error) {
		var generation int64
		err = row.Scan(&e.ID, &e.Time, &e.Actor, &e.ActorKind, &e.Remote, &e.Action, &e.Kind, &e.ResourceID, &e.ResourceName, &e.TenantID,
			&generation, &e.Message, &e.Before, &e.After)
		e.Generation = uint64(generation)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("list audit events: %w", s.cat.classify(err, nil))
	}
	return events, nil
}

// GenerationEntry is one line of the log of generations.
type GenerationEntry struct {
	Generation                     uint64
	Time                           time.Time
	Actor, Message, Rollout        string
	TouchedIdentity, TouchedPolicy bool
	Resources, Shards              int
	IdentityRoot, StableRoot       []byte
}

// Generations lists the log, newest first, at most limit (MaxPage if 0), below
// generation before (0 = from the newest).
func (s *Store) Generations(ctx context.Context, limit int, before uint64) ([]GenerationEntry, error) {
	if limit <= 0 || limit > MaxPage {
		limit = MaxPage
	}
	rows, err := s.pool.Query(ctx, `SELECT generation, created_at, actor, message, rollout, touched_identity, touched_policy, resources, shards,
			identity_root, stable_root FROM generation_log WHERE $1::bigint = 0 OR generation < $1 ORDER BY generation DESC LIMIT $2`, int64(before), limit)
	if err != nil {
		return nil, fmt.Errorf("list generations: %w", s.cat.classify(err, nil))
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (g GenerationEntry, err error) {
		var generation int64
		err = row.Scan(&generation, &g.Time, &g.Actor, &g.Message, &g.Rollout, &g.TouchedIdentity, &g.TouchedPolicy,
			&g.Resources, &g.Shards, &g.IdentityRoot, &g.StableRoot)
		g.Generation = uint64(generation)
		return g, err
	})
	if err != nil {
		return nil, fmt.Errorf("list generations: %w", s.cat.classify(err, nil))
	}
	return entries, nil
}

// Revision is a resource as it was after one change; Message is nil if the
// change deleted it.
type Revision struct {
	Kind, ID, TenantID string
	Revision           int64
	Generation         uint64
	Time               time.Time
	Message            proto.Message
}

// RevisionsOf lists what a generation did to each resource.
func (s *Store) RevisionsOf(ctx context.Context, generation uint64) ([]Revision, error) {
	return s.revisions(ctx, "generation = $1 ORDER BY kind, id", int64(generation))
}

// RevisionAt returns a resource as it stood at a generation: its newest change
// at or before it. It fails with ErrNotFound if none is kept.
func (s *Store) RevisionAt(ctx context.Context, kindName, id string, generation uint64) (Revision, error) {
	found, err := s.revisions(ctx, "kind = $1 AND id = $2 AND generation <= $3 ORDER BY generation DESC LIMIT 1", kindName, id, int64(generation))
	if err != nil {
		return Revision{}, err
	}
	if len(found) == 0 {
		return Revision{}, &NotFoundError{kindName, id}
	}
	return found[0], nil
}

func (s *Store) revisions(ctx context.Context, condition string, args ...any) ([]Revision, error) {
	rows, err := s.pool.Query(ctx, "SELECT kind, id, tenant_id, revision, generation, created_at, message FROM resource_revision WHERE "+condition, args...)
	if err != nil {
		return nil, fmt.Errorf("list revisions: %w", s.cat.classify(err, nil))
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Revision, err error) {
		var generation int64
		var raw []byte
		if err = row.Scan(&r.Kind, &r.ID, &r.TenantID, &r.Revision, &generation, &r.Time, &raw); err != nil {
			return r, err
		}
		r.Generation = uint64(generation)
		r.Message, err = s.DecodeResource(r.Kind, raw)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("list revisions: %w", s.cat.classify(err, nil))
	}
	return out, nil
}

// RecordAudit stores an event that is no configuration change: a login, a
// refused call, a token made. Time and id are filled in.
func (s *Store) RecordAudit(ctx context.Context, e AuditEvent) error {
	if e.Action == "" || e.Actor == "" {
		return errors.New("an audit event needs actor and action")
	}
	return s.inTx(ctx, "record audit event", func(pg pgx.Tx) error { return s.audit(ctx, pg, e) })
}

func (s *Store) audit(ctx context.Context, pg pgx.Tx, e AuditEvent) error {
	if err := pg.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&e.Time); err != nil {
		return err
	}
	if _, err := pg.Exec(ctx, "SELECT aidy_ensure_month('audit_event', $1::date)", e.Time.UTC()); err != nil {
		return err
	}
	e.ID = ident.New(auditPrefix)
	_, err := pg.Exec(ctx, auditInsert, e.args()...)
	return err
}

// inTx runs fn in a transaction of its own, outside the gate: for rows that are
// no configuration.
func (s *Store) inTx(ctx context.Context, what string, fn func(pg pgx.Tx) error) error {
	if err := pgx.BeginFunc(ctx, s.pool, fn); err != nil {
		return fmt.Errorf("%s: %w", what, s.cat.classify(err, nil))
	}
	return nil
}
