package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg/pgtest"
	"github.com/aidy-gateway/aidy-gateway/migrations"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

var pg = pgtest.New(func(ctx context.Context, url string) error { return migrations.Up(ctx, url, nil) })

func TestMain(m *testing.M) { goleak.VerifyTestMain(pg.Around(m)) }

// rowsCompiler makes shards of the rows as the product does, in the small.
type rowsCompiler struct{}

func (rowsCompiler) Compile(ctx context.Context, tx *Tx, keys []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, key := range keys {
		m, err := compileOne(ctx, tx, key)
		if err != nil {
			return nil, err
		}
		out[key] = nil
		if m != nil {
			if out[key], err = Marshal(m); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func compileOne(ctx context.Context, tx *Tx, key string) (proto.Message, error) {
	name, err := shard.Parse(key)
	if err != nil {
		return nil, err
	}
	in := func(tenant string) Filter { return Filter{Tenants: []string{tenant}} }
	switch name.Kind {
	case shard.KindGlobal:
		g := &syncv1.GlobalShard{}
		var errs [2]error
		g.Providers, errs[0] = All[*configv1.Provider](ctx, tx, in(""))
		g.Scheduling, errs[1] = tx.DefaultScheduling(ctx)
		clearServed(g.Providers)
		return g, errors.Join(errs[:]...)
	case shard.KindTenant:
		tenant, err := Get[*configv1.Tenant](ctx, tx, name.ID)
		if errors.Is(err, ErrNotFound) {
			return nil, nil
		}
		t := &syncv1.TenantShard{Tenant: tenant}
		var errs [8]error
		t.Providers, errs[0] = All[*configv1.Provider](ctx, tx, in(name.ID))
		t.Groups, errs[1] = All[*configv1.Group](ctx, tx, in(name.ID))
		t.Upstreams, errs[2] = All[*configv1.Upstream](ctx, tx, in(name.ID))
		t.Credentials, errs[3] = All[*configv1.UpstreamCredential](ctx, tx, in(name.ID))
		t.Routes, errs[4] = All[*configv1.Route](ctx, tx, in(name.ID))
		t.Policies, errs[5] = All[*configv1.Policy](ctx, tx, in(name.ID))
		t.LogicalRoutes, errs[6] = All[*configv1.LogicalRoute](ctx, tx, in(name.ID))
		t.Models, errs[7] = All[*configv1.UpstreamModel](ctx, tx, in(name.ID))
		clearServed([]*configv1.Tenant{tenant})
		clearServed(t.Providers)
		clearServed(t.Groups)
		clearServed(t.Upstreams)
		clearServed(t.Credentials)
		clearServed(t.Routes)
		clearServed(t.Policies)
		clearServed(t.LogicalRoutes)
		clearServed(t.Models)
		return t, errors.Join(append(errs[:], err)...)
	case shard.KindCredentials:
		secrets, err := tx.Secrets(ctx, name.ID)
		if err != nil || len(secrets) == 0 {
			return nil, err
		}
		c := &syncv1.CredentialShard{TenantId: name.ID}
		for _, v := range secrets {
			c.Secrets = append(c.Secrets, &syncv1.SealedSecret{CredentialId: v.OwnerID, Sealed: v.Delivered, Version: v.Version})
		}
		return c, nil
	case shard.KindSubject:
		r := &syncv1.SubjectRecord{Id: name.ID}
		var err error
		switch name.Subject {
		case shard.SubjectTenant:
			var m *configv1.Tenant
			if m, err = Get[*configv1.Tenant](ctx, tx, name.ID); err == nil {
				r.Name, r.Suspended = m.Name, m.Suspended
			}
		case shard.SubjectConsumer:
			var m *configv1.Consumer
			if m, err = Get[*configv1.Consumer](ctx, tx, name.ID); err == nil {
				r.Name, r.TenantId, r.Suspended = m.Name, m.TenantId, m.Suspended
			}
		default:
			var m *configv1.Project
			if m, err = Get[*configv1.Project](ctx, tx, name.ID); err == nil {
				r.Name, r.TenantId = m.Name, m.TenantId
			}
		}
		if errors.Is(err, ErrNotFound) {
			return nil, nil
		}
		return r, err
	case shard.KindKey:
		keys, err := All[*configv1.ConsumerAPIKey](ctx, tx, Filter{Equal: map[string]any{"sha256": name.ID}})
		if err != nil || len(keys) == 0 {
			return nil, err
		}
		clearServed(keys)
		return &syncv1.KeyRecord{Sha256: name.ID, TenantId: keys[0].TenantId, Holder: &syncv1.KeyRecord_ConsumerKey{ConsumerKey: keys[0]}}, nil
	}
	return nil, fmt.Errorf("no test shard for %s", key)
}

// clearServed takes out what moves with every write but is no content.
func clearServed[M proto.Message](list []M) {
	for _, m := range list {
		for _, name := range []string{fieldEtag, fieldCreate, fieldUpdate} {
			fd := m.ProtoReflect().Descriptor().Fields().ByTextName(name)
			m.ProtoReflect().Clear(fd)
		}
	}
}

type refusing struct{ err error }

func (r refusing) Validate(context.Context, *Tx, []ShardChange) error { return r.err }

func newStore(t testing.TB, pool *pgxpool.Pool, validator Validator, cfg Config) *Store {
	t.Helper()
	s, err := New(pool, rowsCompiler{}, validator, cfg, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func freshStore(t testing.TB) *Store {
	t.Helper()
	return newStore(t, pg.Pool(t), nil, Config{})
}

var me = Actor{ID: "adm_me", Kind: "token"}

func commit(t testing.TB, s *Store, fn func(tx *Tx) error) Result {
	t.Helper()
	r, err := s.Commit(context.Background(), Change{Actor: me, Message: t.Name()}, fn)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func insert[M proto.Message](t testing.TB, s *Store, m M) M {
	t.Helper()
	var out M
	commit(t, s, func(tx *Tx) (err error) { out, err = Insert(context.Background(), tx, m); return err })
	return out
}

func newTenant(t testing.TB, s *Store, name string) *configv1.Tenant {
	t.Helper()
	return insert(t, s, &configv1.Tenant{Name: name})
}

// newUpstream makes a provider, a group and an upstream of a tenant.
func newUpstream(t testing.TB, s *Store, tenant *configv1.Tenant) (p *configv1.Provider, g *configv1.Group, u *configv1.Upstream) {
	t.Helper()
	ctx := context.Background()
	commit(t, s, func(tx *Tx) (err error) {
		if p, err = Insert(ctx, tx, &configv1.Provider{TenantId: tenant.Id, Name: "prov"}); err != nil {
			return err
		}
		if g, err = Insert(ctx, tx, &configv1.Group{TenantId: tenant.Id, Name: "default"}); err != nil {
			return err
		}
		u, err = Insert(ctx, tx, &configv1.Upstream{TenantId: tenant.Id, Name: "up", ProviderId: p.Id, GroupId: g.Id})
		return err
	})
	return p, g, u
}

func head(t testing.TB, s *Store) Head {
	t.Helper()
	h, err := s.Head(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// checkRoots recomputes both roots from the stored bytes alone.
func checkRoots(t testing.TB, s *Store) {
	t.Helper()
	for _, view := range []syncv1.View{viewIdentity, viewStable} {
		set := shard.New()
		h, err := s.LoadShards(context.Background(), view, func(sh StoredShard) error {
			if shard.Sum(sh.Bytes) != shard.Hash(sh.Hash) {
				t.Errorf("%v %s: bytes do not have the stored hash", view, sh.Key)
			}
			set.Put(sh.Key, shard.Hash(sh.Hash), nil)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		root := set.Root()
		if got := h.Position(view).Root; string(got) != string(root[:]) {
			t.Errorf("%v: stored root %x, its shards have %x", view, got, root)
		}
	}
}

func sha(c string) string { return strings.Repeat(c, 64) }

func poolOf(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
