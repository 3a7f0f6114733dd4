package admin

import (
	"context"
	"fmt"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"

	"github.com/aidy-gateway/aidy-gateway/controlplane/compile"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// Judge refuses changes that a node would refuse, and dangerous ones that their
// author has not confirmed. It is the store.Validator of the product: it runs
// inside the transaction of a change, on the shards that would result. Safe for
// concurrent use.
type Judge struct{ check *configcheck.Checker }

var _ store.Validator = (*Judge)(nil)

// NewJudge returns a judge. It fails if the rules of the contracts do not compile.
func NewJudge() (*Judge, error) {
	check, err := configcheck.New(configcheck.Config{CrossDomain: true})
	if err != nil {
		return nil, err
	}
	return &Judge{check}, nil
}

// Validate implements store.Validator.
func (j *Judge) Validate(ctx context.Context, tx *store.Tx, changes []store.ShardChange) error {
	rev := reviewOf(ctx)
	keys := make([]string, 0, len(changes))
	for _, c := range changes {
		old, err := tx.StoredShard(ctx, c.Key)
		if err != nil {
			return err
		}
		keys = append(keys, c.Key)
		rev.shards = append(rev.shards, shardBytes{c.Key, old, c.Bytes})
	}
	warnings, err := compile.CheckSizes(rev.sizes())
	if err != nil {
		return err
	}
	rev.warnings = append(rev.warnings, warnings...)
	overlay := compile.NewOverlay(source{ctx, tx})
	violations := j.check.CheckChanged(overlay, keys)
	if err := overlay.Err(); err != nil {
		return fmt.Errorf("read the configuration to check: %w", err)
	}
	if len(violations) > 0 {
		return &invalidError{violations}
	}
	if err := rev.confirmed(ctx, tx); err != nil {
		return err
	}
	return rev.surroundings(ctx, tx)
}

// source reads a transaction for the checker. A checker asks without a context,
// so the one of the commit is kept for its duration.
type source struct {
	ctx context.Context //nolint:containedctx // lives within one check
	tx  *store.Tx
}

func (s source) Shard(key string) ([]byte, error) { return s.tx.Shard(s.ctx, key) }

func (s source) RoutesAt(p configcheck.Place) ([]configcheck.RouteRef, error) {
	var refs []configcheck.RouteRef
	hosts := []string{p.Host}
	if p.Host != "" {
		hosts = append(hosts, p.Host+".") // the same host, written with its root
	}
	for _, host := range hosts {
		routes, err := store.All[*configv1.Route](s.ctx, s.tx, store.Filter{Equal: map[string]any{"host": host, "path_prefix": p.PathPrefix}})
		if err != nil {
			return nil, err
		}
		for _, r := range routes {
			refs = append(refs, configcheck.RouteRef{TenantID: r.GetTenantId(), RouteID: r.GetId()})
		}
	}
	return refs, nil
}

func (s source) IssuersAt(tenantID, issuer string) ([]string, error) {
	issuers, err := store.All[*configv1.JWTIssuer](s.ctx, s.tx, store.Filter{Tenants: []string{tenantID}, Equal: map[string]any{"issuer": issuer}})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, i := range issuers {
		ids = append(ids, i.GetId())
	}
	return ids, nil
}

func (s source) KeysOf(consumerID string) ([]string, error) {
	keys, err := store.All[*configv1.ConsumerAPIKey](s.ctx, s.tx, store.Filter{ParentID: consumerID})
	if err != nil {
		return nil, err
	}
	var sums []string
	for _, k := range keys {
		sums = append(sums, k.GetSha256())
	}
	return sums, nil
}
