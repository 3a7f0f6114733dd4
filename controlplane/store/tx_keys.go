package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// StoredShard returns what a shard held before this transaction; nil if there was
// no such shard. See Shard for what it would hold after it.
func (tx *Tx) StoredShard(ctx context.Context, key string) ([]byte, error) {
	var raw []byte
	err := tx.pg.QueryRow(ctx, "SELECT b.bytes FROM config_shard s JOIN config_blob b USING (hash) WHERE s.view IN (1, 2) AND s.key = $1", key).Scan(&raw)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read shard %s: %w", key, tx.cat.classify(err, nil))
	}
	return raw, nil
}

// TenantShards returns the policy shards of at most limit tenants as they would be
// after this transaction, and false if there are more tenants.
func (tx *Tx) TenantShards(ctx context.Context, limit int) (map[string][]byte, bool, error) {
	rows, err := tx.pg.Query(ctx, `SELECT s.key, b.bytes FROM config_shard s JOIN config_blob b USING (hash)
		WHERE s.view = $1 AND s.key LIKE 'tenant/%' LIMIT $2`, int16(viewStable), limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("read the shards of tenants: %w", tx.cat.classify(err, nil))
	}
	found := map[string][]byte{}
	var key string
	var content []byte
	if _, err := pgx.ForEachRow(rows, []any{&key, &content}, func() error {
		found[key] = bytes.Clone(content)
		return nil
	}); err != nil {
		return nil, false, fmt.Errorf("read the shards of tenants: %w", tx.cat.classify(err, nil))
	}
	for key, content := range tx.compiled {
		switch n, err := shard.Parse(key); {
		case err != nil || n.Kind != shard.KindTenant:
		case content == nil:
			delete(found, key)
		default:
			found[key] = content
		}
	}
	if len(found) > limit {
		return nil, false, nil
	}
	return found, true, nil
}

// CurrentDataKey returns the data key that seals the secrets of a tenant now; ok
// is false if it has none yet.
func (tx *Tx) CurrentDataKey(ctx context.Context, tenantID string) (k WrappedKey, ok bool, err error) {
	return tx.key(ctx, dataKeys, "tenant_id = $1 AND retired_at IS NULL", tenantID)
}

// DataKey returns a data key by its id. It fails with *NotFoundError.
func (tx *Tx) DataKey(ctx context.Context, id string) (WrappedKey, error) {
	k, ok, err := tx.key(ctx, dataKeys, "id = $1", id)
	if err == nil && !ok {
		return k, &NotFoundError{"DataKey", id}
	}
	return k, err
}

// CurrentFleetKey returns the current key of a purpose; ok is false if there is
// none.
func (tx *Tx) CurrentFleetKey(ctx context.Context, purpose string) (k WrappedKey, ok bool, err error) {
	return tx.key(ctx, fleetKeys, "purpose = $1 AND retired_at IS NULL", purpose)
}

func (tx *Tx) key(ctx context.Context, t keyTable, condition, arg string) (k WrappedKey, ok bool, err error) {
	err = tx.pg.QueryRow(ctx, fmt.Sprintf("SELECT id, %s, wrapped, %s, created_at FROM %s WHERE %s", t.owner, t.public, t.table, condition), arg).
		Scan(&k.ID, &k.Owner, &k.Wrapped, &k.Public, &k.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return WrappedKey{}, false, nil
	}
	if err != nil {
		return WrappedKey{}, false, fmt.Errorf("read keys: %w", tx.cat.classify(err, nil))
	}
	return k, true, nil
}

// PutDataKey adds the first data key of a tenant as part of this transaction, so
// that a tenant and its first secret can be one change.
func (tx *Tx) PutDataKey(ctx context.Context, k WrappedKey) error {
	if _, err := tx.pg.Exec(ctx, "INSERT INTO data_key (id, tenant_id, wrapped) VALUES ($1, $2, $3)", k.ID, k.Owner, k.Wrapped); err != nil {
		return fmt.Errorf("add data key: %w", tx.cat.classify(err, nil))
	}
	return nil
}

// RouteOfToken returns the route that has a legacy token of this hash, nil if none
// has; of several the oldest. Tokens stand in an encoded column: what has the hash
// anywhere in it is read and looked at.
func (tx *Tx) RouteOfToken(ctx context.Context, sha256 string) (*configv1.Route, error) {
	k, err := tx.cat.of((*configv1.Route)(nil))
	if err != nil {
		return nil, err
	}
	rows, err := tx.pg.Query(ctx, k.sql.selectRow+` WHERE legacy_bearer_auth_tokens IS NOT NULL
		AND position(convert_to($1, 'UTF8') IN legacy_bearer_auth_tokens) > 0 ORDER BY id`, sha256)
	if err != nil {
		return nil, fmt.Errorf("look for the route of a token: %w", tx.cat.classify(err, k))
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*configv1.Route, error) {
		m, _, err := k.scan(row)
		if err != nil {
			return nil, err
		}
		route, _ := m.(*configv1.Route)
		return route, nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for the route of a token: %w", tx.cat.classify(err, k))
	}
	for _, route := range found {
		for _, token := range route.GetLegacyBearerAuthTokens() {
			if token.GetSha256() == sha256 {
				return route, nil
			}
		}
	}
	return nil, nil
}

// CountTenants returns how many tenants there are.
func (tx *Tx) CountTenants(ctx context.Context) (int, error) {
	return tx.count(ctx, "SELECT count(*) FROM tenant")
}

// CountResources returns how many resources a tenant has, itself included; an
// empty id stands for what belongs to no tenant.
func (tx *Tx) CountResources(ctx context.Context, tenantID string) (int, error) {
	var parts []string
	for _, k := range tx.cat.ordered {
		owner := "id"
		if k.hasTenant {
			owner = "coalesce(tenant_id, '')"
		}
		parts = append(parts, "(SELECT count(*) FROM "+quote(k.Table)+" WHERE "+owner+" = $1)")
	}
	return tx.count(ctx, "SELECT "+strings.Join(parts, " + "), tenantID)
}

func (tx *Tx) count(ctx context.Context, sql string, args ...any) (int, error) {
	var n int
	if err := tx.pg.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count resources: %w", tx.cat.classify(err, nil))
	}
	return n, nil
}
