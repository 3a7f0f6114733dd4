package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

func TestG01OneWriteIsOneGenerationWithItsHistory(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	before := head(t, s)
	tenant := &configv1.Tenant{Name: "acme", Labels: map[string]string{"b": "2", "a": "1"}, MaxAuthStalenessS: 60}
	var project *configv1.Project
	r := commit(t, s, func(tx *Tx) (err error) {
		if tenant, err = Insert(ctx, tx, tenant); err != nil {
			return err
		}
		project, err = Insert(ctx, tx, &configv1.Project{TenantId: tenant.Id, Name: "p"})
		return err
	})
	after := head(t, s)
	if after.Generation != before.Generation+1 || r.Generation != after.Generation {
		t.Fatalf("generation went from %d to %d, result says %d; want one step", before.Generation, after.Generation, r.Generation)
	}
	if after.Identity != after.Generation || after.Stable != after.Generation {
		t.Errorf("views at %d and %d, both were touched by %d", after.Identity, after.Stable, after.Generation)
	}
	checkRoots(t, s)

	changes, err := s.Changes(ctx, viewIdentity, before.Generation)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, c := range changes.Shards {
		keys = append(keys, c.Key)
	}
	want := []string{shard.Subject(shard.SubjectProject, project.Id), shard.Subject(shard.SubjectTenant, tenant.Id)}
	if !changes.Reachable || !cmp.Equal(keys, want) {
		t.Errorf("identity changes %v, want %v", keys, want)
	}
	for _, c := range changes.Shards {
		if c.TxGroup != 1 {
			t.Errorf("%s is in group %d: a tenant and the project made with it belong together", c.Key, c.TxGroup)
		}
	}

	log, err := s.Generations(ctx, 10, 0)
	if err != nil || len(log) != 1 || log[0].Generation != r.Generation || log[0].Actor != me.ID || log[0].Resources != 2 {
		t.Errorf("log %+v, %v; want this generation with two resources", log, err)
	}
	revisions, err := s.RevisionsOf(ctx, r.Generation)
	if err != nil || len(revisions) != 2 {
		t.Fatalf("revisions %v, %v", revisions, err)
	}
	if diff := cmp.Diff(tenant, revisions[1].Message, protocmp.Transform()); diff != "" {
		t.Errorf("revision differs from the row:\n%s", diff)
	}
	events, err := s.AuditEvents(ctx, AuditFilter{ResourceID: tenant.Id}, 10, "")
	if err != nil || len(events) != 1 || events[0].Action != "create" || events[0].Generation != r.Generation || events[0].Actor != me.ID {
		t.Errorf("audit %+v, %v", events, err)
	}
}

func TestAViewThatIsNotTouchedKeepsItsGeneration(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant := newTenant(t, s, "acme")
	identity := head(t, s)
	insert(t, s, &configv1.Group{TenantId: tenant.Id, Name: "default"})
	h := head(t, s)
	if h.Identity != identity.Identity || h.Stable != h.Generation {
		t.Errorf("after a policy change identity stands at %d, stable at %d of %d", h.Identity, h.Stable, h.Generation)
	}
	changes, err := s.Changes(ctx, viewIdentity, identity.Generation)
	if err != nil || !changes.Reachable || len(changes.Shards) != 0 {
		t.Errorf("identity changes %+v, %v; want none", changes, err)
	}
	log, err := s.Generations(ctx, 1, 0)
	if err != nil || log[0].TouchedIdentity || !log[0].TouchedPolicy || log[0].Shards != 1 {
		t.Errorf("log %+v, %v; want one shard of policy", log, err)
	}
}

// An update that changes nothing, or changes and changes back, is no generation.
func TestNothingChangedIsNoGeneration(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant := newTenant(t, s, "acme")
	before := head(t, s)
	for name, fn := range map[string]func(tx *Tx) error{
		"nothing":     func(*Tx) error { return nil },
		"same values": func(tx *Tx) error { _, err := Update(ctx, tx, tenant); return err },
		"there and back": func(tx *Tx) error {
			other, _ := proto.Clone(tenant).(*configv1.Tenant)
			other.Suspended, other.Etag = true, ""
			if _, err := Update(ctx, tx, other); err != nil {
				return err
			}
			other.Suspended = false
			_, err := Update(ctx, tx, other)
			return err
		},
		"made and deleted": func(tx *Tx) error {
			p, err := Insert(ctx, tx, &configv1.Project{TenantId: tenant.Id, Name: "gone"})
			if err != nil {
				return err
			}
			return Delete[*configv1.Project](ctx, tx, p.Id, "")
		},
	} {
		if r := commit(t, s, fn); !r.Unchanged || r.Generation != before.Generation {
			t.Errorf("%s: result %+v, want unchanged at %d", name, r, before.Generation)
		}
	}
	if after := head(t, s); after.Generation != before.Generation {
		t.Errorf("generation moved to %d", after.Generation)
	}
	// The row itself was rolled back too: its etag stands.
	if _, err := s.Commit(ctx, Change{Actor: me}, func(tx *Tx) error {
		tenant.Suspended = true
		_, err := Update(ctx, tx, tenant)
		return err
	}); err != nil {
		t.Errorf("update with the first etag: %v", err)
	}
}

func TestG04WhatTheValidatorRefusesIsNotCommitted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	refusal := errors.New("refused")
	s := newStore(t, pg.Pool(t), refusing{refusal}, Config{})
	before := head(t, s)
	_, err := s.Commit(ctx, Change{Actor: me}, func(tx *Tx) error {
		_, err := Insert(ctx, tx, &configv1.Tenant{Name: "acme"})
		return err
	})
	if !errors.Is(err, refusal) {
		t.Errorf("commit gave %v, want the validator's error", err)
	}
	if after := head(t, s); after.Generation != before.Generation {
		t.Errorf("generation moved to %d", after.Generation)
	}
	_ = s.Read(ctx, func(tx *Tx) error {
		if all, err := All[*configv1.Tenant](ctx, tx, Filter{}); err != nil || len(all) != 0 {
			t.Errorf("rows %v, %v; want none", all, err)
		}
		return nil
	})
}

func TestG15PreviewShowsWhatACommitWouldDoAndLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant := newTenant(t, s, "acme")
	before := head(t, s)
	change := func(tx *Tx) error {
		m, _ := proto.Clone(tenant).(*configv1.Tenant)
		m.Suspended = true
		_, err := Update(ctx, tx, m)
		return err
	}
	preview, err := s.Commit(ctx, Change{Actor: me, ValidateOnly: true}, change)
	if err != nil {
		t.Fatal(err)
	}
	if h := head(t, s); !cmp.Equal(h, before, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Now" }, cmp.Ignore())) {
		t.Fatalf("a preview moved the head from %+v to %+v", before, h)
	}
	done := commit(t, s, change)
	if !preview.ValidatedOnly || preview.Generation != before.Generation {
		t.Errorf("preview %+v, want one at generation %d", preview, before.Generation)
	}
	if diff := cmp.Diff(preview.Shards, done.Shards); diff != "" {
		t.Errorf("preview and commit differ:\n%s", diff)
	}
	if string(preview.IdentityRoot) != string(done.IdentityRoot) || string(preview.StableRoot) != string(done.StableRoot) {
		t.Error("preview and commit have different roots")
	}
	if len(done.Revocations) != 1 || done.Revocations[0] != (Revocation{"tenant", tenant.Id}) {
		t.Errorf("revocations %v, want the suspended tenant", done.Revocations)
	}
}

func TestPreviewsAreBoundedInTime(t *testing.T) {
	t.Parallel()
	s := newStore(t, pg.Pool(t), nil, Config{PreviewTimeout: 50 * time.Millisecond})
	_, err := s.Commit(context.Background(), Change{Actor: me, ValidateOnly: true}, func(tx *Tx) error {
		_, err := tx.SQL().Exec(context.Background(), "SELECT pg_sleep(30)")
		return err
	})
	if !errors.Is(err, ErrStoreDown) {
		t.Errorf("a preview of 30 s gave %v, want it cut off", err)
	}
}

func TestIdempotencyKeyAnswersOnceForADay(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	change := Change{Actor: me, IdempotencyKey: "k", RequestHash: []byte("h1")}
	create := func(tx *Tx) error {
		m, err := Insert(ctx, tx, &configv1.Tenant{Name: "acme"})
		if err == nil {
			tx.Respond([]byte(m.Id))
		}
		return err
	}
	first, err := s.Commit(ctx, change, create)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Commit(ctx, change, create)
	if err != nil || !again.Replayed || again.Generation != first.Generation || string(again.Response) != string(first.Response) {
		t.Errorf("repetition gave %+v, %v; want the answer of generation %d", again, err, first.Generation)
	}
	kept, err := s.LookupIdempotency(ctx, me.ID, "k", []byte("h1"))
	if err != nil || kept == nil || string(kept.Response) != string(first.Response) {
		t.Errorf("lookup gave %+v, %v", kept, err)
	}
	change.RequestHash = []byte("h2")
	if _, err := s.Commit(ctx, change, create); !errors.Is(err, ErrIdempotencyReuse) {
		t.Errorf("another request under the key gave %v, want a refusal", err)
	}
	change.Actor.ID = "adm_other" // keys are each actor's own
	if _, err := s.Commit(ctx, change, func(tx *Tx) error {
		_, err := Insert(ctx, tx, &configv1.Tenant{Name: "other"})
		return err
	}); err != nil {
		t.Errorf("another actor with the same key: %v", err)
	}
	if _, err := s.pool.Exec(ctx, "UPDATE idempotency SET created_at = created_at - interval '25 hours'"); err != nil {
		t.Fatal(err)
	}
	if kept, err := s.LookupIdempotency(ctx, me.ID, "k", []byte("h1")); kept != nil || err != nil {
		t.Errorf("after 25 h lookup gives %+v, %v; want nothing", kept, err)
	}
}

func TestEtagAndGenerationGuardAgainstOthersChanges(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant := newTenant(t, s, "acme")
	read := head(t, s).Generation

	mine, _ := proto.Clone(tenant).(*configv1.Tenant)
	mine.Suspended = true
	commit(t, s, func(tx *Tx) error { _, err := Update(ctx, tx, mine); return err })

	tenant.Disabled = true
	_, err := s.Commit(ctx, Change{Actor: me}, func(tx *Tx) error { _, err := Update(ctx, tx, tenant); return err })
	if e, ok := errors.AsType[*ETagError](err); !ok || e.Current != "2" || !errors.Is(err, ErrETagMismatch) {
		t.Errorf("stale etag gave %v, want ETagError with the current one", err)
	}
	err2 := errors.New("fn ran")
	_, err = s.Commit(ctx, Change{Actor: me, IfMatchGeneration: read}, func(*Tx) error { return err2 })
	if e, ok := errors.AsType[*GenerationError](err); !ok || e.Current != read+1 {
		t.Errorf("stale generation gave %v, want GenerationError", err)
	}
	err = commitErr(s, func(tx *Tx) error { return Delete[*configv1.Tenant](ctx, tx, tenant.Id, tenant.Etag) })
	if !errors.Is(err, ErrETagMismatch) {
		t.Errorf("delete with a stale etag gave %v", err)
	}
	missing := ident.New(ident.Tenant)
	if err := commitErr(s, func(tx *Tx) error { return Delete[*configv1.Tenant](ctx, tx, missing, "") }); !errors.Is(err, ErrNotFound) {
		t.Errorf("delete of nothing gave %v", err)
	}
}

func commitErr(s *Store, fn func(tx *Tx) error) error {
	_, err := s.Commit(context.Background(), Change{Actor: me}, fn)
	return err
}

func TestGateTimeoutIsSaidAndFreesItself(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := pg.Pool(t)
	s := newStore(t, pool, nil, Config{GateTimeout: 50 * time.Millisecond})
	holder, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer rollback(ctx, holder)
	if _, err := holder.Exec(ctx, "SELECT * FROM config_head FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if err := commitErr(s, func(*Tx) error { return nil }); !errors.Is(err, ErrGateTimeout) || RetryAfter(err) <= 0 {
		t.Errorf("behind a held gate: %v, want ErrGateTimeout with a time to retry", err)
	}
	// A preview does not need the gate.
	if _, err := s.Commit(ctx, Change{Actor: me, ValidateOnly: true}, func(*Tx) error { return nil }); err != nil {
		t.Errorf("preview behind a held gate: %v", err)
	}
	rollback(ctx, holder)
	newTenant(t, s, "acme")
}

func TestFreezeStopsPolicyAndLetsIdentityFlow(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant := newTenant(t, s, "acme")
	if err := s.SetFrozen(ctx, me, true, "incident"); err != nil {
		t.Fatal(err)
	}
	policy := func(tx *Tx) error {
		_, err := Insert(ctx, tx, &configv1.Group{TenantId: tenant.Id, Name: "default"})
		return err
	}
	if err := commitErr(s, policy); !errors.Is(err, ErrFrozen) {
		t.Errorf("policy change while frozen: %v", err)
	}
	insert(t, s, &configv1.Consumer{TenantId: tenant.Id, Name: "c"})
	if _, err := s.Commit(ctx, Change{Actor: me, OverrideFreeze: true}, policy); err != nil {
		t.Errorf("override: %v", err)
	}
	if err := s.SetFrozen(ctx, me, false, ""); err != nil || head(t, s).FrozenBy != "" {
		t.Errorf("unfreeze: %v", err)
	}
}

// G-14: a secret given with a resource is in no table, in no form.
func TestG14NoSecretReachesAnyTable(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant := newTenant(t, s, "acme")
	_, _, up := newUpstream(t, s, tenant)
	const secret = "sk-very-secret-0123456789"
	up.Proxy = &configv1.EgressProxy{Url: "http://proxy.example", Secret: secret}
	cred := &configv1.UpstreamCredential{
		TenantId: tenant.Id, UpstreamId: up.Id, Name: "c", Secret: secret,
		Proxy: &configv1.EgressProxy{Url: "http://proxy.example", Secret: secret},
	}
	route := &configv1.Route{
		TenantId: tenant.Id, Name: "r", PathPrefix: "/",
		LegacyBearerAuthTokens: []*configv1.LegacyToken{{Token: secret, Sha256: sha("a"), Label: "old"}},
	}
	compiled := commit(t, s, func(tx *Tx) error {
		if _, err := Update(ctx, tx, up); err != nil {
			return err
		}
		stored, err := Insert(ctx, tx, cred)
		if err != nil {
			return err
		}
		if stored.Secret != "" || stored.Proxy.Secret != "" || cred.Secret != secret {
			t.Error("the returned row must be without the secret, the argument left as it was")
		}
		_, err = Insert(ctx, tx, route)
		return err
	})
	for _, c := range compiled.Shards {
		if strings.Contains(string(c.Bytes), secret) {
			t.Errorf("shard %s holds the secret", c.Key)
		}
	}
	rows, err := s.pool.Query(ctx, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
	}
	if err := rows.Err(); err != nil || len(tables) < 40 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for _, table := range tables {
		var n int
		err := s.pool.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM %s t WHERE strpos(t::text, $1) > 0 OR strpos(t::text, $2) > 0", quote(table)),
			secret, hex.EncodeToString([]byte(secret))).Scan(&n)
		if err != nil || n > 0 {
			t.Errorf("table %s holds the secret in %d rows (%v)", table, n, err)
		}
	}
}

func TestADeadStoreIsSaid(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, "postgres://nobody@127.0.0.1:1/none?connect_timeout=1")
	s := newStore(t, pool, nil, Config{})
	if _, err := s.Head(context.Background()); !errors.Is(err, ErrStoreDown) || RetryAfter(err) <= 0 {
		t.Errorf("head: %v, want ErrStoreDown", err)
	}
	if err := commitErr(s, func(*Tx) error { return nil }); !errors.Is(err, ErrStoreDown) {
		t.Errorf("commit: %v, want ErrStoreDown", err)
	}
}
