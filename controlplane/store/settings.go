package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// DefaultScheduling is the scheduling policy below that of every tenant, nil if
// none was set.
func (tx *Tx) DefaultScheduling(ctx context.Context) (*configv1.SchedulingPolicy, error) {
	var raw []byte
	if err := tx.pg.QueryRow(ctx, "SELECT scheduling FROM global_default").Scan(&raw); err != nil {
		return nil, fmt.Errorf("read default scheduling: %w", tx.cat.classify(err, nil))
	}
	if raw == nil {
		return nil, nil
	}
	policy := &configv1.SchedulingPolicy{}
	if err := proto.Unmarshal(raw, policy); err != nil {
		return nil, fmt.Errorf("read default scheduling: %w", err)
	}
	return policy, nil
}

// SetDefaultScheduling replaces it; nil removes it. It is part of a Commit.
func (tx *Tx) SetDefaultScheduling(ctx context.Context, policy *configv1.SchedulingPolicy) error {
	var raw []byte
	if policy != nil {
		encoded, err := Marshal(policy)
		if err != nil {
			return fmt.Errorf("encode default scheduling: %w", err)
		}
		raw = nonNil(encoded)
	}
	tag, err := tx.pg.Exec(ctx, "UPDATE global_default SET scheduling = $1, revision = revision + 1 WHERE scheduling IS DISTINCT FROM $1", raw)
	if err != nil {
		return fmt.Errorf("write default scheduling: %w", tx.cat.classify(err, nil))
	}
	if tag.RowsAffected() > 0 {
		tx.Touch(shard.Global())
		tx.Audit(AuditEvent{Action: "update", Kind: "SchedulingPolicy"})
	}
	return nil
}

// PurgeTime is since when keys of a subject are valid; zero if it was never
// purged.
func (tx *Tx) PurgeTime(ctx context.Context, subject shard.SubjectKind, id string) (time.Time, error) {
	var at time.Time
	err := tx.pg.QueryRow(ctx, "SELECT purge_time FROM subject_purge WHERE kind = $1 AND id = $2", string(subject), id).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read purge time: %w", tx.cat.classify(err, nil))
	}
	return at.UTC(), nil
}

// Purge refuses from now on every key of a subject that was made before. It never
// moves back. It is part of a Commit.
func (tx *Tx) Purge(ctx context.Context, subject shard.SubjectKind, id string) error {
	if _, err := tx.pg.Exec(ctx, `INSERT INTO subject_purge (kind, id, purge_time) VALUES ($1, $2, $3)
		ON CONFLICT (kind, id) DO UPDATE SET purge_time = greatest(subject_purge.purge_time, excluded.purge_time)`,
		string(subject), id, tx.Now()); err != nil {
		return fmt.Errorf("write purge time: %w", tx.cat.classify(err, nil))
	}
	tx.Touch(shard.Subject(subject, id))
	tx.Revoke(Revocation{string(subject), id})
	tx.Audit(AuditEvent{Action: "revoke_all", Kind: string(subject), ResourceID: id})
	return nil
}

// RenewEpoch begins a new lineage: nodes take a full copy whatever they hold. An
// operator does it after an older database was restored. It returns the head.
func (s *Store) RenewEpoch(ctx context.Context, by Actor, message string) (Head, error) {
	var head Head
	err := s.inTx(ctx, "renew the epoch", func(pg pgx.Tx) error {
		if _, err := s.lockGate(ctx, pg); err != nil {
			return err
		}
		var err error
		head, err = scanHead(pg.QueryRow(ctx, `UPDATE config_head
			SET epoch = ('x' || substr(replace(gen_random_uuid()::text, '-', ''), 17))::bit(64)::bigint RETURNING `+headColumns))
		if err != nil {
			return err
		}
		event := by.event("renew_epoch", "Config", "", "")
		event.Message, event.Generation = message, head.Generation
		if err := s.audit(ctx, pg, event); err != nil {
			return err
		}
		_, err = pg.Exec(ctx, "SELECT pg_notify('aidy_config', $1)", notifyPayload(head.Epoch, head.Generation))
		return err
	})
	return head, err
}

// SetFrozen stops policy commits, or lets them go on. Identity always flows.
func (s *Store) SetFrozen(ctx context.Context, by Actor, frozen bool, message string) error {
	return s.inTx(ctx, "set the freeze", func(pg pgx.Tx) error {
		if _, err := s.lockGate(ctx, pg); err != nil {
			return err
		}
		action, holder := "unfreeze", any(nil)
		if frozen {
			action, holder = "freeze", by.ID
		}
		if _, err := pg.Exec(ctx, "UPDATE config_head SET frozen_by = $1", holder); err != nil {
			return err
		}
		event := by.event(action, "Config", "", "")
		event.Message = message
		return s.audit(ctx, pg, event)
	})
}
