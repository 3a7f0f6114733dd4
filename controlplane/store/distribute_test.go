package store

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// replica follows a view by changes alone, as a replica or node does.
type replica struct {
	set        *shard.Set
	generation uint64
}

func (r *replica) follow(t testing.TB, s *Store, view syncv1.View) {
	t.Helper()
	changes, err := s.Changes(context.Background(), view, r.generation)
	if err != nil {
		t.Fatal(err)
	}
	if !changes.Reachable {
		t.Fatalf("generation %d is not reachable", r.generation)
	}
	for _, c := range changes.Shards {
		held, ok := r.set.Get(c.Key)
		if ok != (c.OldHash != nil) || ok && string(held.Hash[:]) != string(c.OldHash) {
			t.Errorf("%s: holds %x, the change starts from %x", c.Key, held.Hash, c.OldHash)
		}
		if c.NewHash == nil {
			r.set.Delete(c.Key)
		} else {
			r.set.Put(c.Key, shard.Hash(c.NewHash), nil)
		}
	}
	r.generation = changes.Head.Generation
	root := r.set.Root()
	if want := changes.Head.Position(view).Root; string(root[:]) != string(want) {
		t.Errorf("%v at generation %d: root %x by changes, want %x", view, r.generation, root, want)
	}
}

// C-01, C-22: whatever is made, changed and deleted, and whenever a reader looks,
// the squashed changes lead from what it had to the head's root. Deletions come as
// tombstones.
func TestC01ChangesLeadFromAnyGenerationToTheHead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant := newTenant(t, s, "acme")
	eager := map[syncv1.View]*replica{viewIdentity: {shard.New(), 0}, viewStable: {shard.New(), 0}}
	lazy := map[syncv1.View]*replica{viewIdentity: {shard.New(), 0}, viewStable: {shard.New(), 0}}
	live := map[string]*configv1.Consumer{}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name")
		_, err := s.Commit(ctx, Change{Actor: me}, func(tx *Tx) error {
			m, ok := live[name]
			switch {
			case !ok:
				m, err := Insert(ctx, tx, &configv1.Consumer{TenantId: tenant.Id, Name: name})
				live[name] = m
				return err
			case rapid.Bool().Draw(rt, "delete"):
				delete(live, name)
				return Delete[*configv1.Consumer](ctx, tx, m.Id, "")
			default:
				m.Suspended = !m.Suspended
				m, err := Update(ctx, tx, m)
				live[name] = m
				return err
			}
		})
		if err != nil {
			rt.Fatal(err)
		}
		for view, r := range eager {
			r.follow(t, s, view)
			if rapid.IntRange(0, 9).Draw(rt, "look") == 0 {
				lazy[view].follow(t, s, view)
			}
		}
	})
	for view, r := range lazy {
		r.follow(t, s, view)
	}
	checkRoots(t, s)
}

func TestSquashDropsWhatChangedBackAndJoinsGroups(t *testing.T) {
	t.Parallel()
	h := func(s string) []byte { return []byte(s) }
	log := []loggedChange{
		{ShardChange{Key: "a", TxGroup: 1, OldHash: nil, NewHash: h("1")}, 1},
		{ShardChange{Key: "b", TxGroup: 2, OldHash: h("x"), NewHash: h("y")}, 1},
		{ShardChange{Key: "c", TxGroup: 1, OldHash: h("p"), NewHash: h("q")}, 2},
		{ShardChange{Key: "a", TxGroup: 1, OldHash: h("1"), NewHash: h("2")}, 2},
		{ShardChange{Key: "b", TxGroup: 1, OldHash: h("y"), NewHash: h("x")}, 3},
		{ShardChange{Key: "d", TxGroup: 2, OldHash: h("k"), NewHash: nil}, 3},
	}
	got := squash(log)
	if len(got) != 3 {
		t.Fatalf("%d changes, want a, c, d: b changed back", len(got))
	}
	a, c, d := got[0], got[1], got[2]
	if a.OldHash != nil || string(a.NewHash) != "2" {
		t.Errorf("a goes from %q to %q, want from nothing to 2", a.OldHash, a.NewHash)
	}
	if a.TxGroup != c.TxGroup || a.TxGroup == d.TxGroup {
		t.Errorf("groups a %d, c %d, d %d: a and c shared a group once, d never did", a.TxGroup, c.TxGroup, d.TxGroup)
	}
	if d.NewHash != nil {
		t.Error("d is no tombstone")
	}
}

func TestUnrelatedRowsOfOneChangeAreSeparateGroups(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	a, b := newTenant(t, s, "a"), newTenant(t, s, "b")
	r := commit(t, s, func(tx *Tx) error {
		p, err := Insert(ctx, tx, &configv1.Provider{Name: "shared"})
		if err != nil {
			return err
		}
		g, err := Insert(ctx, tx, &configv1.Group{TenantId: a.Id, Name: "default"})
		if err != nil {
			return err
		}
		if _, err = Insert(ctx, tx, &configv1.Upstream{TenantId: a.Id, Name: "u", ProviderId: p.Id, GroupId: g.Id}); err != nil {
			return err
		}
		_, err = Insert(ctx, tx, &configv1.Group{TenantId: b.Id, Name: "default"})
		return err
	})
	groups := map[string]uint32{}
	for _, c := range r.Shards {
		groups[c.Key] = c.TxGroup
	}
	if groups[shard.Global()] == 0 || groups[shard.Global()] != groups[shard.Tenant(a.Id)] {
		t.Errorf("groups %v: the new provider and the tenant whose upstream uses it belong together", groups)
	}
	if groups[shard.Tenant(b.Id)] == groups[shard.Tenant(a.Id)] {
		t.Errorf("groups %v: two tenants that share nothing hold each other back", groups)
	}
}

func TestChangesBeyondTheLogSendTheReaderToFetch(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	newTenant(t, s, "acme")
	if _, err := s.pool.Exec(ctx, "UPDATE config_head SET generation = 250000"); err != nil {
		t.Fatal(err)
	}
	newTenant(t, s, "second") // makes its partition by itself
	if _, err := s.pool.Exec(ctx, "DROP TABLE config_change_g0"); err != nil {
		t.Fatal(err)
	}
	for since, want := range map[uint64]bool{0: false, 99_000: false, 250_000: true, 250_001: true, 250_002: false} {
		if c, err := s.Changes(ctx, viewIdentity, since); err != nil || c.Reachable != want {
			t.Errorf("since %d: reachable %v (%v), want %v", since, c.Reachable, err, want)
		}
	}
}

func TestBlobsAreFoundByHashAndSweptWhenUnused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant := newTenant(t, s, "acme")
	r := commit(t, s, func(tx *Tx) error {
		tenant.Suspended = true
		_, err := Update(ctx, tx, tenant)
		return err
	})
	c := r.Shards[0]
	found, err := s.Blobs(ctx, [][]byte{c.OldHash, c.NewHash, make([]byte, 32)})
	if err != nil || len(found) != 2 || string(found[[32]byte(c.NewHash)]) != string(c.Bytes) {
		t.Fatalf("found %d blobs, %v; want the old and the new one", len(found), err)
	}
	if err := s.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	if found, err = s.Blobs(ctx, [][]byte{c.OldHash}); err != nil || len(found) != 1 {
		t.Errorf("bytes that the kept log names were swept (%v)", err)
	}
	if _, err := s.pool.Exec(ctx, "TRUNCATE config_change"); err != nil {
		t.Fatal(err)
	}
	if err := s.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	if found, err = s.Blobs(ctx, [][]byte{c.OldHash, c.NewHash}); err != nil || len(found) != 1 {
		t.Errorf("%d blobs left (%v), want the one in use", len(found), err)
	}
	checkRoots(t, s)
}

// G-3 and C-09: a listener hears of a commit at once, and by its poll when the
// notification is lost with the connection.
func TestC09AListenerThatLosesItsConnectionCatchesUp(t *testing.T) {
	t.Parallel()
	url := pg.URL(t)
	listening := newStore(t, poolOf(t, url), nil, Config{PollInterval: 200 * time.Millisecond})
	writing := newStore(t, poolOf(t, url), nil, Config{})
	ctx, cancel := context.WithCancel(context.Background())
	var newest atomic.Uint64
	moved := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() {
		done <- listening.Listen(ctx, func(h Head) {
			if h.Generation > newest.Swap(h.Generation) || h.Generation == 0 {
				select {
				case moved <- struct{}{}:
				default:
				}
			}
		})
	}()
	reached := func(generation uint64) {
		t.Helper()
		limit := time.After(15 * time.Second)
		for newest.Load() < generation {
			select {
			case <-moved:
			case <-limit:
				t.Fatalf("the listener is at %d, want %d", newest.Load(), generation)
			}
		}
	}
	tenant := newTenant(t, writing, "acme")
	reached(1)
	if _, err := writing.pool.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%config_head%' AND pid <> pg_backend_pid()"); err != nil {
		t.Fatal(err)
	}
	commit(t, newStore(t, poolOf(t, url), nil, Config{}), func(tx *Tx) error {
		tenant.InboundRateLimitQps = proto.Int64(5)
		_, err := Update(ctx, tx, tenant)
		return err
	})
	reached(2)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("listener ended with %v", err)
	}
}

// C-10: a renewed epoch is another lineage at the same generation.
func TestC10RenewEpochBeginsAnotherLineage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	newTenant(t, s, "acme")
	before := head(t, s)
	renewed, err := s.RenewEpoch(ctx, me, "restored from backup")
	if err != nil {
		t.Fatal(err)
	}
	after := head(t, s)
	if after.Epoch == before.Epoch || after.Epoch != renewed.Epoch || after.Generation != before.Generation {
		t.Errorf("head went from %+v to %+v", before, after)
	}
	events, err := s.AuditEvents(ctx, AuditFilter{}, 1, "")
	if err != nil || len(events) != 1 || events[0].Action != "renew_epoch" {
		t.Errorf("audit %+v, %v", events, err)
	}
}
