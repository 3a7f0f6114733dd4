package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

func TestAJoinTokenEnrolsOneNodeOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	hash := sha256.Sum256([]byte("secret"))
	token := JoinToken{ID: ident.New(ident.JoinToken), Name: "t", SHA256: hash, Labels: map[string]string{"zone": "a"}, ExpiresAt: time.Now().Add(time.Hour)}
	if err := s.CreateJoinToken(ctx, me, token); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = s.UseJoinToken(ctx, hash, Node{ID: ident.New(ident.Node), Name: "n"}) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, ErrNotFound) {
			t.Errorf("a loser got %v, want ErrNotFound", err)
		}
	}
	nodes, err := s.Nodes(ctx, 0, "")
	if won != 1 || err != nil || len(nodes) != 1 || nodes[0].Labels["zone"] != "a" {
		t.Fatalf("%d uses, nodes %+v, %v; want one node with the token's labels", won, nodes, err)
	}
	tokens, err := s.JoinTokens(ctx, 0, "")
	if err != nil || len(tokens) != 1 || tokens[0].NodeID != nodes[0].ID || tokens[0].UsedAt.IsZero() || tokens[0].CreatedBy != me.ID {
		t.Errorf("tokens %+v, %v", tokens, err)
	}
	late := sha256.Sum256([]byte("late"))
	if err := s.CreateJoinToken(ctx, me, JoinToken{ID: ident.New(ident.JoinToken), SHA256: late, ExpiresAt: time.Now().Add(-time.Second)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.UseJoinToken(ctx, late, Node{ID: ident.New(ident.Node)}); !errors.Is(err, ErrNotFound) {
		t.Errorf("an expired token gave %v", err)
	}
}

func TestReportsAreKeptOnceAndInOrder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	node := Node{ID: ident.New(ident.Node), Name: "n"}
	if err := s.SaveNode(ctx, node); err != nil {
		t.Fatal(err)
	}
	report := func(instance string, seq, generation uint64) bool {
		t.Helper()
		fresh, err := s.SaveStatus(ctx, &syncv1.ReportRequest{
			Node: &syncv1.NodeInfo{NodeId: node.ID, InstanceId: instance}, Seq: seq, View: viewStable,
			Running: &syncv1.Position{Epoch: 1 << 63, Generation: generation}, Signals: []*syncv1.Signal{{Id: "s"}},
		}, true)
		if err != nil {
			t.Fatal(err)
		}
		return fresh
	}
	for i, tc := range []struct {
		instance        string
		seq, generation uint64
		fresh           bool
	}{{"i1", 5, 10, true}, {"i1", 5, 11, false}, {"i1", 4, 9, false}, {"i1", 6, 12, true}, {"i2", 1, 3, true}} {
		if got := report(tc.instance, tc.seq, tc.generation); got != tc.fresh {
			t.Errorf("report %d counts as new: %v, want %v", i, got, tc.fresh)
		}
	}
	statuses, err := s.Statuses(ctx)
	if err != nil || len(statuses) != 1 || statuses[0].Report.Running.Generation != 3 || statuses[0].Report.Running.Epoch != 1<<63 || statuses[0].Report.Signals != nil {
		t.Errorf("statuses %+v, %v; want the last report without signals", statuses, err)
	}
	if none, err := s.Statuses(ctx, "nod_other"); err != nil || len(none) != 0 {
		t.Errorf("statuses of another node: %v, %v", none, err)
	}
	if err := s.RevokeNode(ctx, me, node.ID, "lost"); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveNode(ctx, node); err != nil {
		t.Fatal(err)
	}
	if got, err := s.GetNode(ctx, node.ID); err != nil || got.RevokedAt.IsZero() {
		t.Errorf("saving a revoked node again brought it back: %+v, %v", got, err)
	}
	if err := s.RevokeNode(ctx, me, node.ID, "again"); !errors.Is(err, ErrNotFound) {
		t.Errorf("revoking twice: %v", err)
	}
}

func TestTheLastOwnerStays(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	owner := func(name string, tenants ...string) AdminAccount {
		t.Helper()
		a, err := s.CreateAccount(ctx, me, AdminAccount{ID: ident.New(ident.AdminAccount), Name: name, Role: adminv1.Role_ROLE_OWNER, TenantIDs: tenants})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a, b := owner("a"), owner("b")
	owner("of-one-tenant", "ten_x") // rules nothing as a whole
	var wg sync.WaitGroup
	var errs [2]error
	for i, id := range []string{a.ID, b.ID} {
		wg.Go(func() { errs[i] = s.DeleteAccount(ctx, me, id) })
	}
	wg.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("both owners deleted at once: %v, %v; want exactly one to go", errs[0], errs[1])
	}
	last := a
	if errs[0] == nil {
		last = b
	}
	for name, change := range map[string]func(*AdminAccount){
		"disabled": func(a *AdminAccount) { a.Disabled = true },
		"demoted":  func(a *AdminAccount) { a.Role = adminv1.Role_ROLE_VIEWER },
		"narrowed": func(a *AdminAccount) { a.TenantIDs = []string{"ten_x"} },
	} {
		changed := last
		change(&changed)
		if _, err := s.UpdateAccount(ctx, me, changed, ""); !errors.Is(err, ErrInvalid) {
			t.Errorf("last owner %s: %v, want a refusal", name, err)
		}
	}
	last.Name = "renamed"
	updated, err := s.UpdateAccount(ctx, me, last, last.Etag())
	if err != nil || updated.Etag() == last.Etag() {
		t.Errorf("rename gave %+v, %v", updated, err)
	}
	if _, err := s.UpdateAccount(ctx, me, last, last.Etag()); !errors.Is(err, ErrETagMismatch) {
		t.Errorf("stale etag: %v", err)
	}
	if _, err := s.CreateAccount(ctx, me, AdminAccount{ID: ident.New(ident.AdminAccount), Name: "renamed", Role: 1}); !errors.Is(err, ErrAlreadyExists) {
		t.Errorf("second account of a name: %v", err)
	}
	if found, err := s.FindAccount(ctx, "renamed"); err != nil || found.ID != last.ID {
		t.Errorf("found %+v, %v", found, err)
	}
	if _, err := s.FindAccountOIDC(ctx, "", ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("an empty OIDC subject found somebody: %v", err)
	}
}

func TestOnlyLiveTokensOfEnabledAccountsAuthenticate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	account := func(name string, disabled bool) AdminAccount {
		a, err := s.CreateAccount(ctx, me, AdminAccount{ID: ident.New(ident.AdminAccount), Name: name, Role: adminv1.Role_ROLE_OWNER, Disabled: disabled})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	token := func(a AdminAccount, secret string, expires time.Time) AdminToken {
		tok, err := s.CreateToken(ctx, me, AdminToken{ID: ident.New(ident.AdminToken), AccountID: a.ID, SHA256: sha256.Sum256([]byte(secret)), ExpiresAt: expires})
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	a, off := account("a", false), account("off", true)
	good := token(a, "good", time.Time{})
	token(a, "old", time.Now().Add(-time.Second))
	token(off, "off", time.Time{})
	for secret, want := range map[string]bool{"good": true, "old": false, "off": false, "unknown": false} {
		got, acc, err := s.Authenticate(ctx, sha256.Sum256([]byte(secret)))
		if (err == nil) != want || err != nil && !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", secret, err)
		}
		if err == nil && (got.ID != good.ID || acc.ID != a.ID) {
			t.Errorf("%s: token %s of %s", secret, got.ID, acc.ID)
		}
	}
	tokens, err := s.Tokens(ctx, a.ID, 0, "")
	if err != nil || len(tokens) != 2 || tokens[0].LastUsedAt.IsZero() || !tokens[1].LastUsedAt.IsZero() {
		t.Errorf("tokens %+v, %v; want the use of the first noted", tokens, err)
	}
	if err := s.DeleteToken(ctx, me, good.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Authenticate(ctx, sha256.Sum256([]byte("good"))); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted token: %v", err)
	}
	if err := s.DeleteToken(ctx, me, good.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleting twice: %v", err)
	}
}

func TestReplicasThatStartAtOnceAgreeOnKeys(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	var wg sync.WaitGroup
	keys := make([]WrappedKey, 6)
	errs := make([]error, len(keys))
	for i := range keys {
		wg.Go(func() {
			keys[i], errs[i] = s.AddFleetKey(ctx, WrappedKey{ID: ident.New("ck"), Owner: PurposeContent, Wrapped: []byte{byte(i)}}, true)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys[1:] {
		if k.ID != keys[0].ID {
			t.Errorf("replicas hold %s and %s", keys[0].ID, k.ID)
		}
	}
	next, err := s.AddFleetKey(ctx, WrappedKey{ID: ident.New("ck"), Owner: PurposeContent, Wrapped: []byte("n"), Public: []byte("p")}, false)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.FleetKeys(ctx, PurposeContent)
	if err != nil || len(all) != 2 || all[0].ID != next.ID || !all[0].RetiredAt.IsZero() || all[1].RetiredAt.IsZero() || string(all[0].Public) != "p" {
		t.Errorf("keys %+v, %v; want the new one first and the old one retired", all, err)
	}
	if err := s.Rewrap(ctx, me, map[string][]byte{next.ID: []byte("rewrapped")}); err != nil {
		t.Fatal(err)
	}
	if all, err = s.FleetKeys(ctx, ""); err != nil || string(all[0].Wrapped) != "rewrapped" {
		t.Errorf("after rewrap %+v, %v", all, err)
	}
	if err := s.Rewrap(ctx, me, map[string][]byte{"none": nil}); !errors.Is(err, ErrNotFound) {
		t.Errorf("rewrap of an unknown key: %v", err)
	}
}

// Sealing a secret again, or keeping it, is no change; a new one is.
func TestSealedSecretsAreContentOfTheCredentialShard(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant := newTenant(t, s, "acme")
	_, _, up := newUpstream(t, s, tenant)
	data, err := s.AddDataKey(ctx, WrappedKey{ID: ident.New("dk"), Owner: tenant.Id, Wrapped: []byte("w")}, true)
	if err != nil {
		t.Fatal(err)
	}
	content, err := s.AddFleetKey(ctx, WrappedKey{ID: ident.New("ck"), Owner: PurposeContent, Wrapped: []byte("w")}, true)
	if err != nil {
		t.Fatal(err)
	}
	cred := insert(t, s, &configv1.UpstreamCredential{TenantId: tenant.Id, UpstreamId: up.Id, Name: "c"})
	secret := SealedSecret{
		OwnerID: cred.Id, Slot: SlotSecret, TenantID: tenant.Id, Version: 1, DataKeyID: data.ID, AtRest: []byte("rest"),
		ContentKeyID: content.ID, Delivered: []byte("sealed"), Fingerprint: "f",
	}
	put := func() Result { return commit(t, s, func(tx *Tx) error { return tx.PutSecret(ctx, secret) }) }
	if r := put(); len(r.Shards) != 1 || r.Shards[0].Key != shard.Credentials(tenant.Id) {
		t.Errorf("first secret changes %+v, want the credential shard", r.Shards)
	}
	if r := put(); !r.Unchanged {
		t.Errorf("the same secret again: %+v, want unchanged", r)
	}
	secret.AtRest = []byte("sealed anew at rest")
	if r := put(); r.Unchanged || len(r.Shards) != 0 {
		t.Errorf("sealed anew at rest: %+v, want it kept without touching a shard", r)
	}
	secret.Version, secret.Delivered = 2, []byte("sealed2")
	if r := put(); len(r.Shards) != 1 {
		t.Errorf("a new secret changes %+v", r.Shards)
	}
	if err := s.Read(ctx, func(tx *Tx) error {
		got, err := tx.Secrets(ctx, tenant.Id)
		if diff := cmp.Diff([]SealedSecret{secret}, got); diff != "" {
			t.Errorf("secrets differ:\n%s", diff)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	proxy := secret
	proxy.Slot = SlotProxy
	commit(t, s, func(tx *Tx) error { return tx.PutSecret(ctx, proxy) })
	commit(t, s, func(tx *Tx) error { return tx.DeleteSecrets(ctx, tenant.Id, cred.Id) })
	put()
	r := commit(t, s, func(tx *Tx) error { return Delete[*configv1.UpstreamCredential](ctx, tx, cred.Id, "") })
	if err := s.Read(ctx, func(tx *Tx) error {
		got, err := tx.Secrets(ctx, "")
		if len(got) != 0 {
			t.Errorf("%d sealed secrets outlived their credential", len(got))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal(r.Revocations, []Revocation{{"credential", cred.Id}}) {
		t.Errorf("revocations %v, want the credential", r.Revocations)
	}
}

func TestRevocationsWaitInTheOutboxUntilSent(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	tenant := newTenant(t, s, "acme")
	consumer := insert(t, s, &configv1.Consumer{TenantId: tenant.Id, Name: "c"})
	key := insert(t, s, &configv1.ConsumerAPIKey{TenantId: tenant.Id, ConsumerId: consumer.Id, Name: "k", Sha256: sha("b")})
	key.RevokeTime = timestamppb.Now()
	r := commit(t, s, func(tx *Tx) error { _, err := Update(ctx, tx, key); return err })
	commit(t, s, func(tx *Tx) error { return tx.Purge(ctx, shard.SubjectConsumer, consumer.Id) })

	broken := errors.New("no redis")
	if _, err := s.DrainOutbox(ctx, 10, func([]OutboxEntry) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("drain gave %v, want the sender's error", err)
	}
	var sent []OutboxEntry
	for {
		n, err := s.DrainOutbox(ctx, 1, func(e []OutboxEntry) error { sent = append(sent, e...); return nil })
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if len(sent) != 2 || sent[0].Revocation != (Revocation{"key", sha("b")}) || sent[0].Generation != r.Generation || sent[1].Revocation != (Revocation{"consumer", consumer.Id}) {
		t.Errorf("sent %+v; want the key, then the consumer", sent)
	}
	if err := s.Read(ctx, func(tx *Tx) error {
		at, err := tx.PurgeTime(ctx, shard.SubjectConsumer, consumer.Id)
		if at.IsZero() {
			t.Error("no purge time")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestSignalsReachOtherReplicasOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	g := &syncv1.Signal{
		Id: "s1", Kind: syncv1.SignalKind_SIGNAL_KIND_COOLDOWN, Scope: "credential", Subject: "crd_x", Cause: "rate", Until: timestamppb.New(time.UnixMicro(1e15)), NodeId: "nod_x",
		Dimension: "tpm", Limit: 30_000, Remaining: 1.5, ResetMs: 250,
	}
	for range 2 {
		if err := s.PutSignals(ctx, []*syncv1.Signal{g}); err != nil {
			t.Fatal(err)
		}
	}
	got, next, err := s.SignalsSince(ctx, time.Time{})
	if err != nil || len(got) != 1 {
		t.Fatalf("signals %v, %v", got, err)
	}
	if diff := cmp.Diff(g, got[0], protocmp.Transform()); diff != "" {
		t.Errorf("signal differs:\n%s", diff)
	}
	if got, _, err = s.SignalsSince(ctx, next); err != nil || len(got) != 0 {
		t.Errorf("asked again: %v, %v; want none", got, err)
	}
}

func TestDefaultSchedulingIsContentOfTheGlobalShard(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	set := func(p *configv1.SchedulingPolicy) Result {
		return commit(t, s, func(tx *Tx) error { return tx.SetDefaultScheduling(ctx, p) })
	}
	policy := &configv1.SchedulingPolicy{FallbackMode: configv1.FallbackMode_FALLBACK_MODE_RETRY}
	if r := set(policy); len(r.Shards) != 1 || r.Shards[0].Key != shard.Global() {
		t.Errorf("set: %+v, want the global shard", r.Shards)
	}
	if r := set(policy); !r.Unchanged {
		t.Errorf("set again: %+v, want unchanged", r)
	}
	if r := set(nil); r.Unchanged {
		t.Error("removing it is a change")
	}
}

func TestAuditListsNewestFirstByPage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := freshStore(t)
	for _, action := range []string{"a", "b", "c"} {
		if err := s.RecordAudit(ctx, AuditEvent{Actor: "x", Action: action, TenantID: "ten_" + action}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.AuditEvents(ctx, AuditFilter{}, 2, "")
	if err != nil || len(page) != 2 || page[0].Action != "c" {
		t.Fatalf("first page %+v, %v", page, err)
	}
	if page, err = s.AuditEvents(ctx, AuditFilter{}, 2, page[1].ID); err != nil || len(page) != 1 || page[0].Action != "a" {
		t.Errorf("second page %+v, %v", page, err)
	}
	if page, err = s.AuditEvents(ctx, AuditFilter{Tenants: []string{"ten_b"}}, 0, ""); err != nil || len(page) != 1 || page[0].Action != "b" {
		t.Errorf("of one tenant %+v, %v", page, err)
	}
	if page, err = s.AuditEvents(ctx, AuditFilter{From: time.Now().Add(time.Hour)}, 0, ""); err != nil || len(page) != 0 {
		t.Errorf("of the future %+v, %v", page, err)
	}
}
