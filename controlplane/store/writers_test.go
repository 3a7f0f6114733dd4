package store

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// C-05: 64 writers on two replicas, all changing one row and its shard, each
// from what it reads: at rest every effect is there and the roots are right.
func TestC05ManyWritersOnTwoReplicasLoseNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := pg.URL(t)
	cfg := Config{GateTimeout: time.Minute, CommitTimeout: 2 * time.Minute}
	stores := []*Store{newStore(t, poolOf(t, url), nil, cfg), newStore(t, poolOf(t, url), nil, cfg)}
	tenant := newTenant(t, stores[0], "acme")
	start := head(t, stores[0]).Generation

	const writers, rounds = 64, 4
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		wg.Go(func() {
			s := stores[w%2]
			for range rounds {
				errs[w] = errors.Join(errs[w], commitErr(s, func(tx *Tx) error {
					m, err := Get[*configv1.Tenant](ctx, tx, tenant.Id)
					if err != nil {
						return err
					}
					m.InboundRateLimitQps = proto.Int64(m.GetInboundRateLimitQps() + 1)
					if _, err = Update(ctx, tx, m); err != nil {
						return err
					}
					_, err = Insert(ctx, tx, &configv1.Project{TenantId: tenant.Id, Name: strings.ReplaceAll(ident.New(ident.Project), "_", "-")})
					return err
				}))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	err := stores[1].Read(ctx, func(tx *Tx) error {
		m, err := Get[*configv1.Tenant](ctx, tx, tenant.Id)
		if err != nil {
			return err
		}
		if m.GetInboundRateLimitQps() != writers*rounds {
			t.Errorf("%d increments survived of %d", m.GetInboundRateLimitQps(), writers*rounds)
		}
		if g := tx.Head().Generation; g != start+writers*rounds {
			t.Errorf("generation %d, want %d: one each", g, start+writers*rounds)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	checkRoots(t, stores[0])
}

// C-06: two bundles on one tenant at once have both effects.
func TestC06TwoBundlesOnOneTenantBothCount(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := pg.URL(t)
	a, b := newStore(t, poolOf(t, url), nil, Config{GateTimeout: time.Minute}), newStore(t, poolOf(t, url), nil, Config{GateTimeout: time.Minute})
	tenant := newTenant(t, a, "acme")
	entered := make(chan struct{})
	var wg sync.WaitGroup
	var errA, errB error
	wg.Go(func() {
		errA = commitErr(a, func(tx *Tx) error {
			close(entered)
			_, err := Insert(ctx, tx, &configv1.Group{TenantId: tenant.Id, Name: "from-a"})
			return err
		})
	})
	wg.Go(func() {
		<-entered
		errB = commitErr(b, func(tx *Tx) error {
			_, err := Insert(ctx, tx, &configv1.Group{TenantId: tenant.Id, Name: "from-b"})
			return err
		})
	})
	wg.Wait()
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	var content []byte
	if err := a.Read(ctx, func(tx *Tx) (err error) { content, err = tx.Shard(ctx, shard.Tenant(tenant.Id)); return err }); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"from-a", "from-b"} {
		if !strings.Contains(string(content), name) {
			t.Errorf("the tenant's shard lost %s", name)
		}
	}
	checkRoots(t, b)
}

// C-08: a replica that dies in the middle of a change leaves nothing of it, and
// the others go on.
func TestC08AKilledCommitLeavesNothingAndBlocksNobody(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := pg.URL(t)
	doomed, other := newStore(t, poolOf(t, url), nil, Config{}), newStore(t, poolOf(t, url), nil, Config{})
	before := head(t, other)
	err := commitErr(doomed, func(tx *Tx) error {
		if _, err := Insert(ctx, tx, &configv1.Tenant{Name: "half"}); err != nil {
			return err
		}
		var pid int
		if err := tx.SQL().QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		_, err := other.pool.Exec(ctx, "SELECT pg_terminate_backend($1, 10000)", pid)
		return err
	})
	if !errors.Is(err, ErrStoreDown) {
		t.Errorf("the killed commit gave %v, want ErrStoreDown", err)
	}
	newTenant(t, other, "whole")
	if after := head(t, other); after.Generation != before.Generation+1 {
		t.Errorf("generation %d, want %d", after.Generation, before.Generation+1)
	}
	_ = other.Read(ctx, func(tx *Tx) error {
		if all, err := All[*configv1.Tenant](ctx, tx, Filter{}); err != nil || len(all) != 1 || all[0].Name != "whole" {
			t.Errorf("tenants %v, %v; want the whole one alone", all, err)
		}
		return nil
	})
}

// C-27 and G-2: writers that alternate between replicas see generations rise, one
// by one, in the order of commits.
func TestC27GenerationsRiseOverAlternatingReplicas(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := pg.URL(t)
	stores := []*Store{newStore(t, poolOf(t, url), nil, Config{}), newStore(t, poolOf(t, url), nil, Config{})}
	tenant := newTenant(t, stores[0], "acme")
	last := head(t, stores[0]).Generation
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	for i := range rounds {
		r := commit(t, stores[i%2], func(tx *Tx) error {
			m, err := Get[*configv1.Tenant](ctx, tx, tenant.Id)
			if err != nil {
				return err
			}
			m.InboundRateLimitQps = proto.Int64(int64(i))
			_, err = Update(ctx, tx, m)
			return err
		})
		if r.Generation != last+1 {
			t.Fatalf("round %d: generation %d after %d", i, r.Generation, last)
		}
		last = r.Generation
	}
}
