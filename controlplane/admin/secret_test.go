package admin

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/seal"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// everything reads all that PostgreSQL holds, as text.
func (f *fixture) everything(t testing.TB) string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	rows, err := f.pool.Query(ctx, "SELECT quote_ident(schemaname) || '.' || quote_ident(relname) FROM pg_stat_user_tables ORDER BY 1")
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
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, table := range tables {
		// Bytes are shown as escaped text, so that a secret within them reads as it is.
		rows, err := f.pool.Query(ctx, fmt.Sprintf("SELECT t::text FROM (SELECT set_config('bytea_output', 'escape', true)) s, LATERAL (SELECT * FROM %s) t", table))
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var row string
			if err := rows.Scan(&row); err != nil {
				t.Fatal(err)
			}
			b.WriteString(row)
			b.WriteByte('\n')
		}
		if err := rows.Err(); err != nil {
			t.Fatalf("%s: %v", table, err)
		}
	}
	return b.String()
}

// opened returns what a node gets of a secret, opened with the content keys.
func (f *fixture) opened(t testing.TB, tenant, owner string) (secretText, proxyText string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	stored, err := f.store.FleetKeys(ctx, store.PurposeContent)
	if err != nil {
		t.Fatal(err)
	}
	var keys []seal.ContentKey
	for _, k := range stored {
		key, err := OpenContentKey(ctx, f.vault.ring, k)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	for _, s := range f.stored(t).CredentialShard(tenant).GetSecrets() {
		if s.GetCredentialId() != owner && s.GetUpstreamId() != owner {
			continue
		}
		open := func(blob []byte) string {
			if len(blob) == 0 {
				return ""
			}
			// As a node does: dataplane/snapshot opens both slots with one version.
			plain, err := seal.OpenWith(keys, blob, seal.Context{Tenant: tenant, ID: owner, Version: uint64(s.GetVersion())})
			if err != nil {
				t.Fatalf("open version %d of %s: %v", s.GetVersion(), owner, err)
			}
			return plain.Reveal()
		}
		return open(s.GetSealed()), open(s.GetSealedProxy())
	}
	return "", ""
}

func TestG14NoSecretIsInClearAnywhere(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	const replaced = "sk-replaced-secret-clear-555"
	var answers strings.Builder
	note := func(m proto.Message, err error) proto.Message {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := protojson.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		answers.Write(raw)
		return m
	}
	note(call(t.Context(), c, "ConfigService", "ApplyBundle", &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}, Change: &adminv1.ChangeContext{IdempotencyKey: "a"}}))
	id := f.byName(t)
	tenant, credential := id("Tenant", "acme"), id("UpstreamCredential", "key-1")
	note(call(t.Context(), c, "UpstreamService", "ReplaceSecret", &adminv1.ReplaceSecretRequest{Id: credential, Secret: replaced, Change: &adminv1.ChangeContext{IdempotencyKey: "b", Message: "rotated"}}))
	key := note(call(t.Context(), c, "ConsumerService", "CreateConsumerAPIKey", &adminv1.CreateConsumerAPIKeyRequest{ConsumerApiKey: &configv1.ConsumerAPIKey{TenantId: tenant, ConsumerId: id("Consumer", "app"), Name: "k"}})).(*adminv1.CreateConsumerAPIKeyResponse)
	answers.Reset()
	note(call(t.Context(), c, "UpstreamService", "ListUpstreamCredentials", &adminv1.ListUpstreamCredentialsRequest{}))
	note(call(t.Context(), c, "UpstreamService", "ListUpstreams", &adminv1.ListUpstreamsRequest{}))
	note(call(t.Context(), c, "RouteService", "ListRoutes", &adminv1.ListRoutesRequest{}))
	note(call(t.Context(), c, "AuditService", "ListAuditEvents", &adminv1.ListAuditEventsRequest{PageSize: 900}))
	for g := uint64(1); g <= f.head(t).Generation; g++ {
		note(call(t.Context(), c, "ConfigService", "GetGeneration", &adminv1.GetGenerationRequest{Generation: g}))
	}
	for _, b := range exported(t, c, &adminv1.ExportRequest{}) {
		note(b, nil)
	}
	// Errors about what holds a secret do not hold it.
	for _, bad := range []*configv1.UpstreamCredential{
		{TenantId: tenant, UpstreamId: id("Upstream", "main"), Name: "key-1", Secret: replaced},
		{TenantId: tenant, UpstreamId: id("Upstream", "main"), Name: "Bad Name", Secret: replaced, SecretRef: "env:X"},
	} {
		_, err := call(t.Context(), c, "UpstreamService", "CreateUpstreamCredential", &adminv1.CreateUpstreamCredentialRequest{UpstreamCredential: bad})
		if err == nil {
			t.Fatal("a bad credential was taken")
		}
		fmt.Fprint(&answers, err, detailOf(err))
	}
	for name, value := range map[string]string{
		"the secret": upstreamSecret, "the replaced secret": replaced, "a proxy's password": proxySecret,
		"a legacy token": legacyToken, "a consumer's key": key.GetSecret(),
	} {
		for place, text := range map[string]string{"PostgreSQL": f.everything(t), "an answer": answers.String(), "the log": f.log.String()} {
			if strings.Contains(text, value) {
				t.Errorf("%s holds %s in clear", place, name)
			}
		}
	}
	if stored := f.everything(t); !strings.Contains(stored, "https://api.example.com/v1") {
		t.Error("what stands in bytes is not read: the test looks in the wrong place")
	}
	if s, p := f.opened(t, tenant, credential); s != replaced || p != proxySecret {
		t.Error("a node does not get the replaced secret and the password")
	}
	if !strings.Contains(answers.String(), "secretFingerprint") {
		t.Error("fingerprints are not shown: the test looks in the wrong place")
	}
}

func TestASecretIsReplacedKeptOrCleared(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	id := f.byName(t)
	tenant, credential, upstream := id("Tenant", "acme"), id("UpstreamCredential", "key-1"), id("Upstream", "main")
	get := func() *configv1.UpstreamCredential {
		return must(call(t.Context(), c, "UpstreamService", "GetUpstreamCredential", &adminv1.GetUpstreamCredentialRequest{Id: credential}))(t).(*adminv1.GetUpstreamCredentialResponse).GetUpstreamCredential()
	}
	update := func(m *configv1.UpstreamCredential, paths ...string) {
		t.Helper()
		m.Id, m.Etag = credential, get().GetEtag()
		must(call(t.Context(), c, "UpstreamService", "UpdateUpstreamCredential", &adminv1.UpdateUpstreamCredentialRequest{UpstreamCredential: m, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}}))(t)
	}
	want := func(step, secretText, proxyText, ref string) {
		t.Helper()
		s, p := f.opened(t, tenant, credential)
		m := get()
		if s != secretText || p != proxyText || m.GetSecretRef() != ref || (m.GetSecretFingerprint() != "") != (secretText != "") || (m.GetProxy().GetSecretFingerprint() != "") != (proxyText != "") {
			t.Errorf("%s: secret %q, proxy %q, row %v", step, s, p, m)
		}
	}
	if s, p := f.opened(t, tenant, upstream); s != "" || p != proxySecret+"-u" {
		t.Errorf("the upstream's proxy has %q, %q", s, p)
	}
	want("at first", upstreamSecret, proxySecret, "")
	version := get().GetSecretVersion()
	update(&configv1.UpstreamCredential{QuotaGroup: "q"}, "quota_group")
	want("another field changed", upstreamSecret, proxySecret, "")
	if get().GetSecretVersion() != version {
		t.Error("the version moved without a new secret")
	}
	before := f.head(t).Generation
	must(call(t.Context(), c, "UpstreamService", "ReplaceSecret", &adminv1.ReplaceSecretRequest{Id: credential, Secret: upstreamSecret}))(t)
	if g := f.head(t).Generation; g != before {
		t.Errorf("the same secret again made generation %d", g)
	}
	update(&configv1.UpstreamCredential{Secret: "next"}, "secret")
	want("a new secret", "next", proxySecret, "")
	update(&configv1.UpstreamCredential{Proxy: &configv1.EgressProxy{Url: "http://other.example.com:1", Username: "u"}}, "proxy")
	want("another proxy, its password omitted", "next", proxySecret, "")
	update(&configv1.UpstreamCredential{Proxy: &configv1.EgressProxy{}}, "proxy.secret")
	want("the password cleared", "next", "", "")
	update(&configv1.UpstreamCredential{Proxy: &configv1.EgressProxy{Secret: "pw"}}, "proxy.secret")
	want("a password again", "next", "pw", "")
	update(&configv1.UpstreamCredential{SecretRef: "env:AIDY_SECRET_A"}, "secret_ref")
	want("a reference in its place", "", "pw", "env:AIDY_SECRET_A")
	must(call(t.Context(), c, "UpstreamService", "ReplaceSecret", &adminv1.ReplaceSecretRequest{Id: credential, Secret: "back"}))(t)
	want("a value in place of the reference", "back", "pw", "")
	update(&configv1.UpstreamCredential{}, "proxy")
	want("the proxy gone", "back", "", "")

	res := must(call(t.Context(), c, "UpstreamService", "DisableCredential", &adminv1.DisableCredentialRequest{Id: credential}))(t).(*adminv1.DisableCredentialResponse)
	if !res.GetUpstreamCredential().GetDisabled() || !f.secretOf(t, tenant, credential).GetDisabled() {
		t.Error("a disabled credential is not disabled where nodes look")
	}
	must(call(t.Context(), c, "UpstreamService", "EnableCredential", &adminv1.EnableCredentialRequest{Id: credential}))(t)
	must(call(t.Context(), c, "UpstreamService", "DeleteUpstreamCredential", &adminv1.DeleteUpstreamCredentialRequest{Id: credential}))(t)
	if f.secretOf(t, tenant, credential) != nil {
		t.Error("the secret of a deleted credential is still delivered")
	}
	var left int
	if err := f.pool.QueryRow(t.Context(), "SELECT count(*) FROM sealed_secret WHERE owner_id = $1", credential).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d sealed secrets are left, %v", left, err)
	}
}

func (f *fixture) secretOf(t testing.TB, tenant, credential string) *syncv1.SealedSecret {
	t.Helper()
	for _, s := range f.stored(t).CredentialShard(tenant).GetSecrets() {
		if s.GetCredentialId() == credential {
			return s
		}
	}
	return nil
}

func TestRevokingANodeSealsEverythingUnderAKeyItDoesNotHave(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	id := f.byName(t)
	tenant, credential := id("Tenant", "acme"), id("UpstreamCredential", "key-1")
	const node = "nod_01m8n4b48pepsta2v86r4j3wsf"
	if err := f.store.SaveNode(t.Context(), store.Node{ID: node, Name: "n"}); err != nil {
		t.Fatal(err)
	}
	held, err := f.store.FleetKeys(t.Context(), store.PurposeContent)
	if err != nil {
		t.Fatal(err)
	}
	old, err := OpenContentKey(t.Context(), f.vault.ring, held[0])
	if err != nil {
		t.Fatal(err)
	}
	must(call(t.Context(), c, "NodeService", "RevokeNode", &adminv1.RevokeNodeRequest{Id: node, Reason: "lost"}))(t)
	s := f.secretOf(t, tenant, credential)
	if _, err := seal.OpenWith([]seal.ContentKey{old}, s.GetSealed(), seal.Context{Tenant: tenant, ID: credential, Version: uint64(s.GetVersion())}); err == nil {
		t.Error("the key that the node holds still opens the secret")
	}
	if got, proxy := f.opened(t, tenant, credential); got != upstreamSecret || proxy != proxySecret {
		t.Error("other nodes cannot open the secret any more")
	}
	if len(f.nodes.revoked) != 1 || f.nodes.revoked[0] != node {
		t.Errorf("streams ended of %v", f.nodes.revoked)
	}
	_, err = call(t.Context(), c, "NodeService", "RevokeNode", &adminv1.RevokeNodeRequest{Id: "nod_01m8n4b48pepsta2v86r4j3wsg"})
	wantReason(t, err, connect.CodeNotFound, reasonNotFound)
}

func TestReadersDoNotGetHashesToGuessAt(t *testing.T) {
	t.Parallel()
	f := setup(t)
	apply(t, f.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	for r, want := range map[adminv1.Role]bool{adminv1.Role_ROLE_VIEWER: false, adminv1.Role_ROLE_FINANCE: false, adminv1.Role_ROLE_EDITOR: true} {
		res := must(call(t.Context(), f.as(role(r)), "RouteService", "ListRoutes", &adminv1.ListRoutesRequest{}))(t).(*adminv1.ListRoutesResponse)
		if got := res.GetRoutes()[0].GetLegacyBearerAuthTokens()[0].GetSha256() != ""; got != want {
			t.Errorf("%v sees the hash: %v, want %v", r, got, want)
		}
	}
}
