package admin

import (
	"cmp"
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

// review travels with one change through the store: what its author confirmed
// goes in, what the result is made of comes out.
type review struct {
	confirm  []string
	preview  bool
	pairs    []compile.Pair
	shards   []shardBytes
	warnings []*adminv1.Warning

	// What stands beside the changed shards, for the impact on tenants.
	globalOld, globalNew []byte
	bystanders           map[string][]byte // tenants touched by a change of what belongs to all
}

// maxBystanders is the number of tenants up to which a change of what belongs to
// all is followed into each of them.
const maxBystanders = 100

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
	// Against nothing held, every gate that could close does. Only then is counted:
	// this runs while others wait to commit.
	suspected := compile.Gate(x)
	if len(suspected) == 0 {
		return nil
	}
	balance, tenants := map[string]int{}, 0 // what the change takes, less what it adds
	for _, p := range r.pairs {
		is, less := p.Old, 1
		if p.New != nil {
			is, less = p.New, -1
		}
		if p.Old != nil && p.New != nil {
			continue
		}
		balance[store.TenantID(is)] += less
		if _, ok := is.(*configv1.Tenant); ok {
			tenants += less
		}
	}
	for _, need := range suspected {
		switch need.Confirm {
		case compile.ConfirmLargeChange:
			n, err := tx.CountTenants(ctx)
			if err != nil {
				return err
			}
			x.Tenants = n + tenants
		case compile.ConfirmMassDelete:
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
		}
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

// surroundings reads what the impact on tenants depends on besides their changed
// shards. What they gain and lose is worked out after the commit, from bytes.
func (r *review) surroundings(ctx context.Context, tx *store.Tx) error {
	kinds := map[shard.Kind]bool{}
	for _, s := range r.shards {
		if n, err := shard.Parse(s.key); err == nil {
			kinds[n.Kind] = true
		}
		if s.key == shard.Global() {
			r.globalOld, r.globalNew = s.old, s.new
		}
	}
	if kinds[shard.KindGlobal] {
		all, whole, err := tx.TenantShards(ctx, maxBystanders)
		if err != nil {
			return err
		}
		if !whole {
			r.warnings = append(r.warnings, &adminv1.Warning{
				Code: "IMPACT_PARTIAL", Message: fmt.Sprintf("the change touches what belongs to all of more than %d tenants; what it means to each is not listed", maxBystanders),
			})
		}
		r.bystanders = all
		return nil
	}
	if !kinds[shard.KindTenant] {
		return nil
	}
	global, err := tx.StoredShard(ctx, shard.Global())
	r.globalOld, r.globalNew = global, global
	return err
}

// impact says what tenants gain and lose, and what to look at in their result.
func (r *review) impact() ([]*adminv1.TenantImpact, []*adminv1.Warning) {
	touched := slices.Clone(r.shards)
	changed := map[string]bool{}
	for _, s := range r.shards {
		changed[s.key] = true
	}
	for key, content := range r.bystanders {
		if !changed[key] {
			touched = append(touched, shardBytes{key, content, content})
		}
	}
	slices.SortFunc(touched, func(a, b shardBytes) int { return cmp.Compare(a.key, b.key) })
	var impacts []*adminv1.TenantImpact
	warnings := r.warnings
	before, after := decoded[*syncv1.GlobalShard](shard.Global(), r.globalOld), decoded[*syncv1.GlobalShard](shard.Global(), r.globalNew)
	for _, s := range touched {
		n, err := shard.Parse(s.key)
		if err != nil || n.Kind != shard.KindTenant {
			continue
		}
		was := compile.Side{Tenant: decoded[*syncv1.TenantShard](s.key, s.old), Global: before}
		is := compile.Side{Tenant: decoded[*syncv1.TenantShard](s.key, s.new), Global: after}
		change := compile.Impact(was, is)
		if change != nil {
			impacts = append(impacts, change)
		}
		warnings = append(warnings, arisen(was, is)...)
	}
	return impacts, warnings
}

// arisen returns the warnings about a tenant that were not there before the change:
// its author is told of what the change did, not of all that was so already.
func arisen(was, is compile.Side) []*adminv1.Warning {
	if is.Tenant == nil {
		return nil
	}
	after := compile.Warnings(is)
	if was.Tenant == nil {
		return after
	}
	known := make(map[string]bool)
	for _, w := range compile.Warnings(was) {
		known[w.String()] = true
	}
	return slices.DeleteFunc(after, func(w *adminv1.Warning) bool { return known[w.String()] })
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
