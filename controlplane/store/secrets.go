package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// Slots of sealed secrets.
const (
	SlotSecret = "secret" // the secret of an upstream credential
	SlotProxy  = "proxy"  // the password of an egress proxy
	SlotState  = "state"  // the state key of a tenant, which owns it itself
)

// SealedSecret is one secret, sealed twice: at rest under a data key of its
// tenant, and under a content key, which are the bytes that nodes receive. A
// secret that does not change keeps both, so sealing anew never looks like a
// change.
type SealedSecret struct {
	OwnerID      string // credential, upstream or tenant
	Slot         string
	TenantID     string
	Version      int64
	DataKeyID    string
	AtRest       []byte
	ContentKeyID string
	Delivered    []byte
	Fingerprint  string
}

const sealedColumns = "owner_id, slot, tenant_id, version, data_key_id, at_rest, content_key_id, delivered, fingerprint"

func scanSealed(row pgx.CollectableRow) (v SealedSecret, err error) {
	err = row.Scan(&v.OwnerID, &v.Slot, &v.TenantID, &v.Version, &v.DataKeyID, &v.AtRest, &v.ContentKeyID, &v.Delivered, &v.Fingerprint)
	return v, err
}

// PutSecret stores a sealed secret and marks the credentials of its tenant for
// compilation. It is part of a Commit.
func (tx *Tx) PutSecret(ctx context.Context, v SealedSecret) error {
	tag, err := tx.pg.Exec(ctx, `INSERT INTO sealed_secret AS old (`+sealedColumns+`, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (owner_id, slot) DO UPDATE SET tenant_id = excluded.tenant_id, version = excluded.version, data_key_id = excluded.data_key_id,
			at_rest = excluded.at_rest, content_key_id = excluded.content_key_id, delivered = excluded.delivered,
			fingerprint = excluded.fingerprint, updated_at = excluded.updated_at
		WHERE (old.version, old.data_key_id, old.at_rest, old.content_key_id, old.delivered, old.fingerprint) IS DISTINCT FROM
			(excluded.version, excluded.data_key_id, excluded.at_rest, excluded.content_key_id, excluded.delivered, excluded.fingerprint)`,
		v.OwnerID, v.Slot, v.TenantID, v.Version, v.DataKeyID, v.AtRest, v.ContentKeyID, v.Delivered, v.Fingerprint, tx.Now())
	if err != nil {
		return fmt.Errorf("store sealed secret of %s: %w", v.OwnerID, tx.cat.classify(err, nil))
	}
	tx.dirty = tx.dirty || tag.RowsAffected() > 0
	tx.Touch(shard.Credentials(v.TenantID))
	return nil
}

// DeleteSecrets removes every sealed secret of an owner.
func (tx *Tx) DeleteSecrets(ctx context.Context, tenantID, ownerID string) error {
	tag, err := tx.pg.Exec(ctx, "DELETE FROM sealed_secret WHERE owner_id = $1 AND tenant_id = $2", ownerID, tenantID)
	if err != nil {
		return fmt.Errorf("delete sealed secrets of %s: %w", ownerID, tx.cat.classify(err, nil))
	}
	tx.dirty = tx.dirty || tag.RowsAffected() > 0
	tx.Touch(shard.Credentials(tenantID))
	return nil
}

// Secrets lists the sealed secrets of a tenant, or of all with an empty id, in
// the order of owners.
func (tx *Tx) Secrets(ctx context.Context, tenantID string) ([]SealedSecret, error) {
	rows, err := tx.pg.Query(ctx, "SELECT "+sealedColumns+" FROM sealed_secret WHERE $1 = '' OR tenant_id = $1 ORDER BY owner_id, slot", tenantID)
	if err != nil {
		return nil, fmt.Errorf("read sealed secrets: %w", tx.cat.classify(err, nil))
	}
	found, err := pgx.CollectRows(rows, scanSealed)
	if err != nil {
		return nil, fmt.Errorf("read sealed secrets: %w", tx.cat.classify(err, nil))
	}
	return found, nil
}

// WithoutStateKey lists at most limit tenants that have no state key.
func (tx *Tx) WithoutStateKey(ctx context.Context, limit int) ([]string, error) {
	rows, err := tx.pg.Query(ctx, `SELECT id FROM tenant t WHERE NOT EXISTS
		(SELECT FROM sealed_secret s WHERE s.owner_id = t.id AND s.slot = $1) ORDER BY id LIMIT $2`, SlotState, limit)
	if err != nil {
		return nil, fmt.Errorf("look for tenants without a state key: %w", tx.cat.classify(err, nil))
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for tenants without a state key: %w", tx.cat.classify(err, nil))
	}
	return found, nil
}

// HasStateKey reports whether a tenant has a state key.
func (tx *Tx) HasStateKey(ctx context.Context, tenantID string) (has bool, err error) {
	if err := tx.pg.QueryRow(ctx, "SELECT EXISTS (SELECT FROM sealed_secret WHERE owner_id = $1 AND slot = $2)", tenantID, SlotState).Scan(&has); err != nil {
		return false, fmt.Errorf("look for the state key of %s: %w", tenantID, tx.cat.classify(err, nil))
	}
	return has, nil
}

// WrappedKey is a key wrapped under the root key.
type WrappedKey struct {
	ID string
	// Owner is the tenant of a data key, or the purpose of a fleet key.
	Owner     string
	Wrapped   []byte
	Public    []byte // the certificate of a CA key, DER
	CreatedAt time.Time
	RetiredAt time.Time // zero = the current one
}

// Purposes of fleet keys.
const (
	PurposeContent    = "content"     // seals secrets for delivery
	PurposeMAC        = "mac"         // signs revocations and wrapped ids
	PurposePrefixSeed = "prefix_seed" // seeds hashes of prompts
	PurposeCA         = "ca"          // signs certificates of nodes
)

type keyTable struct{ table, owner, public string }

var (
	dataKeys  = keyTable{"data_key", "tenant_id", "NULL::bytea"}
	fleetKeys = keyTable{"fleet_key", "purpose", "public"}
)

// DataKeys lists the data keys of a tenant, or of all with an empty id, the
// current one first.
func (s *Store) DataKeys(ctx context.Context, tenantID string) ([]WrappedKey, error) {
	return s.keys(ctx, dataKeys, tenantID)
}

// FleetKeys lists the keys of a purpose, or of all with an empty one, the
// current one first.
func (s *Store) FleetKeys(ctx context.Context, purpose string) ([]WrappedKey, error) {
	return s.keys(ctx, fleetKeys, purpose)
}

func (s *Store) keys(ctx context.Context, t keyTable, owner string) ([]WrappedKey, error) {
	rows, err := s.pool.Query(ctx, fmt.Sprintf(`SELECT id, %s, wrapped, %s, created_at, coalesce(retired_at, '0001-01-01Z') FROM %s
		WHERE $1 = '' OR %s = $1 ORDER BY %[1]s, retired_at DESC NULLS FIRST, id DESC`, t.owner, t.public, t.table, t.owner), owner)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", s.cat.classify(err, nil))
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k WrappedKey, err error) {
		err = row.Scan(&k.ID, &k.Owner, &k.Wrapped, &k.Public, &k.CreatedAt, &k.RetiredAt)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", s.cat.classify(err, nil))
	}
	return found, nil
}

// AddDataKey makes k the current data key of its tenant and retires the one
// before; the old one still opens what it sealed. With onlyFirst nothing is done
// if there is a current one: it is returned, so that replicas that start at once
// agree.
func (s *Store) AddDataKey(ctx context.Context, k WrappedKey, onlyFirst bool) (WrappedKey, error) {
	return s.addKey(ctx, dataKeys, k, onlyFirst)
}

// AddFleetKey is AddDataKey for a key shared by the nodes.
func (s *Store) AddFleetKey(ctx context.Context, k WrappedKey, onlyFirst bool) (WrappedKey, error) {
	return s.addKey(ctx, fleetKeys, k, onlyFirst)
}

func (s *Store) addKey(ctx context.Context, t keyTable, k WrappedKey, onlyFirst bool) (WrappedKey, error) {
	err := s.inTx(ctx, "add key", func(pg pgx.Tx) error {
		if _, err := pg.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext($1))", t.table+"/"+k.Owner); err != nil {
			return err
		}
		if onlyFirst {
			var current WrappedKey
			err := pg.QueryRow(ctx, fmt.Sprintf("SELECT id, %s, wrapped, %s, created_at FROM %s WHERE %[1]s = $1 AND retired_at IS NULL", t.owner, t.public, t.table), k.Owner).
				Scan(&current.ID, &current.Owner, &current.Wrapped, &current.Public, &current.CreatedAt)
			if err == nil {
				k = current
				return nil
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
		}
		if _, err := pg.Exec(ctx, fmt.Sprintf("UPDATE %s SET retired_at = clock_timestamp() WHERE %s = $1 AND retired_at IS NULL", t.table, t.owner), k.Owner); err != nil {
			return err
		}
		columns, values := fmt.Sprintf("id, %s, wrapped", t.owner), "$1, $2, $3"
		args := []any{k.ID, k.Owner, k.Wrapped}
		if t == fleetKeys {
			columns, values, args = columns+", public", values+", $4", append(args, k.Public)
		}
		return pg.QueryRow(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) RETURNING created_at", t.table, columns, values), args...).Scan(&k.CreatedAt)
	})
	return k, err
}

// Rewrap replaces the wrapped form of data and fleet keys, by id: what a new root
// key asks for. The keys themselves stay.
func (s *Store) Rewrap(ctx context.Context, by Actor, wrapped map[string][]byte) error {
	return s.inTx(ctx, "rewrap keys", func(pg pgx.Tx) error {
		for id, blob := range wrapped {
			var n int64
			for _, table := range []string{dataKeys.table, fleetKeys.table} {
				tag, err := pg.Exec(ctx, "UPDATE "+table+" SET wrapped = $2 WHERE id = $1", id, blob)
				if err != nil {
					return err
				}
				n += tag.RowsAffected()
			}
			if n == 0 {
				return &NotFoundError{"key", id}
			}
		}
		return s.audit(ctx, pg, by.event("rewrap", "Key", "", fmt.Sprintf("%d keys", len(wrapped))))
	})
}
