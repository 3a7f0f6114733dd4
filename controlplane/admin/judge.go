package admin

import (
	"context"
	"fmt"
	"slices"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"

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
	// What tenants gain and lose is worked out after the commit, from bytes.
	if slices.ContainsFunc(keys, func(key string) bool { n, err := shard.Parse(key); return err == nil && n.Kind == shard.KindTenant }) {
		if rev.globalOld, err = tx.StoredShard(ctx, shard.Global()); err != nil {
			return err
		}
		if rev.globalNew, err = tx.Shard(ctx, shard.Global()); err != nil {
			return err
		}
	}
	return nil
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

// review travels with one change through the store: what its author confirmed
// goes in, what the result is made of comes out.
type review struct {
	confirm  []string
	preview  bool
	pairs    []compile.Pair
	shards   []shardBytes
	warnings []*adminv1.Warning

	globalOld, globalNew []byte
}

type shardBytes struct {
	key      string
	old, new []byte
}

type reviewKey struct{}

func withReview(ctx context.Context, r *review) context.Context {
	return context.WithValue(ctx, reviewKey{}, r)
}

// reviewOf returns the review of a change. A change that brought none is the
// system's own, which confirms what it does.
func reviewOf(ctx context.Context) *review {
	if r, ok := ctx.Value(reviewKey{}).(*review); ok {
		return r
	}
	return &review{confirm: []string{compile.ConfirmDisableAuth, compile.ConfirmLargeChange, compile.ConfirmMassDelete}}
}

func (r *review) sizes() []compile.Size {
	var out []compile.Size
	for _, s := range r.shards {
		out = append(out, compile.Size{Key: s.key, Old: int64(len(s.old)), New: int64(len(s.new))})
	}
	return out
}

// confirmed refuses dangers that the author has not confirmed. A preview tells
// them as warnings instead.
func (r *review) confirmed(ctx context.Context, tx *store.Tx) error {
	x := compile.Extent{Sizes: r.sizes(), Resources: r.pairs, Held: map[string]int{}}
	var err error
	if x.Tenants, err = tx.CountTenants(ctx); err != nil {
		return err
	}
	balance := map[string]int{} // what the change takes, less what it adds, by tenant
	for _, p := range r.pairs {
		switch {
		case p.New == nil:
			balance[store.TenantID(p.Old)]++
			if _, ok := p.Old.(*configv1.Tenant); ok {
				x.Tenants++
			}
		case p.Old == nil:
			balance[store.TenantID(p.New)]--
			if _, ok := p.New.(*configv1.Tenant); ok {
				x.Tenants--
			}
		}
	}
	for tenant, less := range balance {
		if less <= 0 {
			continue
		}
		left, err := tx.CountResources(ctx, tenant)
		if err != nil {
			return err
		}
		x.Held[tenant] = left + less
	}
	missing := compile.Missing(compile.Gate(x), r.confirm)
	if len(missing) == 0 {
		return nil
	}
	if !r.preview {
		return &confirmError{missing}
	}
	for _, n := range missing {
		r.warnings = append(r.warnings, &adminv1.Warning{Code: n.Confirm, Message: n.Reason + "; the change itself will have to confirm it"})
	}
	return nil
}

// impact says what tenants gain and lose, and what to look at in their result.
func (r *review) impact() ([]*adminv1.TenantImpact, []*adminv1.Warning) {
	var impacts []*adminv1.TenantImpact
	warnings := r.warnings
	var before, after *syncv1.GlobalShard
	for _, s := range r.shards {
		n, err := shard.Parse(s.key)
		if err != nil || n.Kind != shard.KindTenant {
			continue
		}
		if before == nil {
			before, after = decoded[*syncv1.GlobalShard](shard.Global(), r.globalOld), decoded[*syncv1.GlobalShard](shard.Global(), r.globalNew)
		}
		was := compile.Side{Tenant: decoded[*syncv1.TenantShard](s.key, s.old), Global: before}
		is := compile.Side{Tenant: decoded[*syncv1.TenantShard](s.key, s.new), Global: after}
		if change := compile.Impact(was, is); change != nil {
			impacts = append(impacts, change)
		}
		if is.Tenant != nil {
			warnings = append(warnings, compile.Warnings(is)...)
		}
	}
	return impacts, warnings
}

// decoded reads a shard that was checked before; nil bytes give a nil shard.
func decoded[M any](key string, raw []byte) M {
	var none M
	if raw == nil {
		return none
	}
	m, err := configcheck.Decode(key, raw)
	if err != nil {
		return none
	}
	typed, ok := m.(M)
	if !ok {
		return none
	}
	return typed
}
