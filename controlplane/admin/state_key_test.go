package admin

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/seal"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// stateKey is what a node gets of a tenant's state key; empty if it gets none.
func (f *fixture) stateKey(t testing.TB, tenant string) string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	stored, err := f.store.FleetKeys(ctx, store.PurposeContent)
	if err != nil {
		t.Fatal(err)
	}
	blob := f.stored(t).CredentialShard(tenant).GetSealedStateKey()
	if len(blob) == 0 {
		return ""
	}
	key, err := OpenContentKey(ctx, f.vault.ring, stored[0])
	if err != nil {
		t.Fatal(err)
	}
	// As a node does: dataplane/snapshot opens it as version 1 of the tenant's own.
	plain, err := seal.OpenWith([]seal.ContentKey{key}, blob, seal.Context{Tenant: tenant, ID: tenant, Version: 1})
	if err != nil {
		t.Fatalf("open the state key of %s: %v", tenant, err)
	}
	return plain.Reveal()
}

// What clients hold was made with the key: nothing that happens to a tenant or its
// credentials may change it.
func TestATenantsStateKeyNeverChanges(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	made := must(call(t.Context(), c, "TenantService", "CreateTenant", &adminv1.CreateTenantRequest{Tenant: &configv1.Tenant{Name: "second"}}))(t).(*adminv1.CreateTenantResponse).GetTenant()
	id := f.byName(t)
	tenant, credential := id("Tenant", "acme"), id("UpstreamCredential", "key-1")
	first, second := f.stateKey(t, tenant), f.stateKey(t, made.GetId())
	if len(first) != seal.KeySize || len(second) != seal.KeySize || first == second {
		t.Fatalf("keys of %d and %d bytes, equal: %v", len(first), len(second), first == second)
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"a secret replaced", func() error {
			_, err := call(t.Context(), c, "UpstreamService", "ReplaceSecret", &adminv1.ReplaceSecretRequest{Id: credential, Secret: "sk-other-555"})
			return err
		}},
		{"the tenant changed", func() error {
			_, err := call(t.Context(), c, "TenantService", "UpdateTenant", &adminv1.UpdateTenantRequest{
				Tenant: &configv1.Tenant{Id: made.GetId(), Etag: made.GetEtag(), Suspended: true}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"suspended"}},
			})
			return err
		}},
		{"a credential deleted", func() error {
			_, err := call(t.Context(), c, "UpstreamService", "DeleteUpstreamCredential", &adminv1.DeleteUpstreamCredentialRequest{Id: credential})
			return err
		}},
		{"the content key rotated", func() error { return f.rotateContentKey(t.Context(), store.Actor{ID: "system"}, "test") }},
		{"missing keys made", func() error { return f.EnsureStateKeys(t.Context()) }},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if f.stateKey(t, tenant) != first || f.stateKey(t, made.GetId()) != second {
			t.Errorf("%s: a state key changed", step.name)
		}
	}
}

func TestMissingStateKeysAreMadeOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	must(call(t.Context(), c, "TenantService", "CreateTenant", &adminv1.CreateTenantRequest{Tenant: &configv1.Tenant{Name: "second"}}))(t)
	id := f.byName(t)
	tenants := []string{id("Tenant", "acme"), id("Tenant", "second")}
	kept := f.stateKey(t, tenants[0])
	// A release without state keys left none.
	if _, err := f.pool.Exec(t.Context(), "DELETE FROM sealed_secret WHERE owner_id = $1", tenants[1]); err != nil {
		t.Fatal(err)
	}
	if err := f.EnsureStateKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.stateKey(t, tenants[1]); len(got) != seal.KeySize {
		t.Errorf("a tenant without a key has one of %d bytes", len(got))
	}
	if f.stateKey(t, tenants[0]) != kept {
		t.Error("the key of a tenant that had one changed")
	}
	generation := f.head(t).Generation
	if poked := f.nodes.poked; len(poked) == 0 || poked[len(poked)-1] != generation {
		t.Errorf("nodes were told of %v, not of generation %d", poked, generation)
	}
	if err := f.EnsureStateKeys(t.Context()); err != nil || f.head(t).Generation != generation {
		t.Errorf("with nothing to do: %v, generation %d after %d", err, f.head(t).Generation, generation)
	}
}

func TestStateKeyGoesWithItsTenant(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	made := must(call(t.Context(), c, "TenantService", "CreateTenant", &adminv1.CreateTenantRequest{Tenant: &configv1.Tenant{Name: "gone"}}))(t).(*adminv1.CreateTenantResponse).GetTenant()
	must(call(t.Context(), c, "TenantService", "DeleteTenant", &adminv1.DeleteTenantRequest{Id: made.GetId()}))(t)
	var left int
	if err := f.pool.QueryRow(t.Context(), "SELECT count(*) FROM sealed_secret").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d sealed secrets are left, %v", left, err)
	}
	if f.stored(t).CredentialShard(made.GetId()) != nil {
		t.Error("the shard of its secrets is still there")
	}
}

func TestG14StateKeyIsInClearNowhere(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	tenant := f.byName(t)("Tenant", "acme")
	key := f.stateKey(t, tenant)
	var answers strings.Builder
	for _, b := range exported(t, c, &adminv1.ExportRequest{}) {
		raw, err := protojson.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		answers.Write(raw)
	}
	sealedForms := []string{string(f.stored(t).CredentialShard(tenant).GetSealedStateKey())}
	for place, text := range map[string]string{"PostgreSQL": f.everything(t), "an export": answers.String(), "the log": f.log.String()} {
		forms := []string{key, hex.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString([]byte(key)), base64.RawURLEncoding.EncodeToString([]byte(key))}
		if place == "an export" { // not even sealed
			for _, s := range sealedForms {
				forms = append(forms, base64.StdEncoding.EncodeToString([]byte(s)))
			}
		}
		for _, form := range forms {
			if strings.Contains(text, form) {
				t.Errorf("%s holds the state key", place)
			}
		}
	}
	if !strings.Contains(answers.String(), "acme") {
		t.Error("the export is empty: the test looks in the wrong place")
	}
}
