package compile

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// Rows reads the rows of one transaction. kind is any message of the kind that
// is asked for; answers hold messages of it. An empty tenant stands for what no
// tenant owns.
type Rows interface {
	// All returns every row of a kind that a tenant owns.
	All(ctx context.Context, kind proto.Message, tenantID string) ([]proto.Message, error)
	// Get returns one row, nil if there is none.
	Get(ctx context.Context, kind proto.Message, id string) (proto.Message, error)
	// HolderOf returns the ConsumerAPIKey, or the Route with a legacy token, of
	// that hash; nil if there is neither.
	HolderOf(ctx context.Context, sha256 string) (proto.Message, error)
	// Secrets returns the sealed secrets of a tenant.
	Secrets(ctx context.Context, tenantID string) ([]Secret, error)
	// PurgeTime returns since when the keys of a subject are valid, zero if all
	// are.
	PurgeTime(ctx context.Context, kind shard.SubjectKind, id string) (time.Time, error)
	// DefaultScheduling returns the policy below that of every tenant, or nil.
	DefaultScheduling(ctx context.Context) (*configv1.SchedulingPolicy, error)
}

// Build returns the bytes of each shard asked for, nil for one that is no more.
func Build(ctx context.Context, rows Rows, keys []string) (map[string][]byte, error) {
	out := make(map[string][]byte, len(keys))
	for _, key := range keys {
		if _, done := out[key]; done {
			continue
		}
		m, err := buildOne(ctx, rows, key)
		if err != nil {
			return nil, fmt.Errorf("compile shard %s: %w", key, err)
		}
		if m == nil {
			out[key] = nil
			continue
		}
		if out[key], err = Bytes(m); err != nil {
			return nil, fmt.Errorf("compile shard %s: %w", key, err)
		}
	}
	return out, nil
}

// buildOne returns a nil interface for a shard that is no more.
func buildOne(ctx context.Context, rows Rows, key string) (proto.Message, error) {
	n, err := shard.Parse(key)
	if err != nil {
		return nil, err
	}
	switch n.Kind {
	case shard.KindGlobal:
		return buildGlobal(ctx, rows)
	case shard.KindTenant:
		return buildTenant(ctx, rows, n.ID)
	case shard.KindCredentials:
		return buildCredentials(ctx, rows, n.ID)
	case shard.KindSubject:
		return buildSubject(ctx, rows, n)
	case shard.KindKey:
		holder, err := rows.HolderOf(ctx, n.ID)
		if err != nil {
			return nil, err
		}
		switch h := holder.(type) {
		case *configv1.ConsumerAPIKey:
			return orNil(ConsumerKey(h)), nil
		case *configv1.Route:
			return orNil(RouteToken(h, n.ID)), nil
		}
		return nil, nil
	case shard.KindIssuer:
		i, err := get[*configv1.JWTIssuer](ctx, rows, n.ID)
		if err != nil {
			return nil, err
		}
		return orNil(Issuer(i)), nil
	}
	return nil, fmt.Errorf("%w: unknown kind %s", shard.ErrKey, n.Kind)
}

func buildSubject(ctx context.Context, rows Rows, n shard.Name) (proto.Message, error) {
	purged, err := rows.PurgeTime(ctx, n.Subject, n.ID)
	if err != nil {
		return nil, err
	}
	switch n.Subject {
	case shard.SubjectTenant:
		t, err := get[*configv1.Tenant](ctx, rows, n.ID)
		if t == nil || err != nil {
			return nil, err
		}
		return TenantSubject(t, purged), nil
	case shard.SubjectProject:
		p, err := get[*configv1.Project](ctx, rows, n.ID)
		if p == nil || err != nil {
			return nil, err
		}
		return ProjectSubject(p, purged), nil
	default:
		c, err := get[*configv1.Consumer](ctx, rows, n.ID)
		if c == nil || err != nil {
			return nil, err
		}
		return ConsumerSubject(c, purged), nil
	}
}

func buildGlobal(ctx context.Context, rows Rows) (proto.Message, error) {
	var r GlobalRows
	var err error
	if r.Scheduling, err = rows.DefaultScheduling(ctx); err != nil {
		return nil, err
	}
	g := gather{ctx: ctx, rows: rows}
	into(&g, &r.Providers)
	into(&g, &r.Routes)
	into(&g, &r.RoutePlugins)
	into(&g, &r.ProviderPlugins)
	into(&g, &r.Pricing)
	into(&g, &r.PriceBook)
	return Global(r), g.err
}

func buildTenant(ctx context.Context, rows Rows, id string) (proto.Message, error) {
	var r TenantRows
	var err error
	if r.Tenant, err = get[*configv1.Tenant](ctx, rows, id); err != nil || r.Tenant == nil {
		return nil, err
	}
	g := gather{ctx: ctx, rows: rows, tenantID: id}
	into(&g, &r.Providers)
	into(&g, &r.Groups)
	into(&g, &r.Upstreams)
	into(&g, &r.Credentials)
	into(&g, &r.Models)
	into(&g, &r.Routes)
	into(&g, &r.RoutePlugins)
	into(&g, &r.ProviderPlugins)
	into(&g, &r.LogicalRoutes)
	into(&g, &r.Policies)
	into(&g, &r.Budgets)
	into(&g, &r.CreditAccounts)
	into(&g, &r.Pricing)
	into(&g, &r.PriceBook)
	return Tenant(r), g.err
}

func buildCredentials(ctx context.Context, rows Rows, tenantID string) (proto.Message, error) {
	g := gather{ctx: ctx, rows: rows, tenantID: tenantID}
	var credentials []*configv1.UpstreamCredential
	var upstreams []*configv1.Upstream
	into(&g, &credentials)
	into(&g, &upstreams)
	if g.err != nil {
		return nil, g.err
	}
	secrets, err := rows.Secrets(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	s, err := Credentials(tenantID, credentials, upstreams, secrets)
	return orNil(s), err
}

// gather reads kind after kind until one fails.
type gather struct {
	ctx      context.Context //nolint:containedctx // lives within one call
	rows     Rows
	tenantID string
	err      error
}

func into[M proto.Message](g *gather, dst *[]M) {
	if g.err != nil {
		return
	}
	var kind M
	found, err := g.rows.All(g.ctx, kind, g.tenantID)
	if err != nil {
		g.err = err
		return
	}
	for _, m := range found {
		typed, ok := m.(M)
		if !ok {
			g.err = fmt.Errorf("asked for rows of %T and got %T", kind, m)
			return
		}
		*dst = append(*dst, typed)
	}
}

// get returns nil for a row that is not there.
func get[M proto.Message](ctx context.Context, rows Rows, id string) (M, error) {
	var none M
	m, err := rows.Get(ctx, none, id)
	if err != nil || m == nil {
		return none, err
	}
	typed, ok := m.(M)
	if !ok {
		return none, fmt.Errorf("asked for a row of %T and got %T", none, m)
	}
	return typed, nil
}

// orNil turns a typed nil into a nil interface.
func orNil[M interface {
	comparable
	proto.Message
}](m M) proto.Message {
	var none M
	if m == none {
		return nil
	}
	return m
}
