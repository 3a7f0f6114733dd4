package compile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

var (
	keySum   = strings.Repeat("a1", 32)
	tokenSum = strings.Repeat("b2", 32)
	when     = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
)

// memory is a set of rows.
type memory struct {
	rows    []proto.Message
	secrets []Secret
	purged  map[string]time.Time
	fail    error
}

func (m *memory) All(_ context.Context, kind proto.Message, tenantID string) ([]proto.Message, error) {
	var out []proto.Message
	for _, r := range m.rows {
		if configcheck.Kind(r) == configcheck.Kind(kind) && textOf(r, "tenant_id") == tenantID {
			out = append(out, r)
		}
	}
	return out, m.fail
}

func (m *memory) Get(_ context.Context, kind proto.Message, id string) (proto.Message, error) {
	for _, r := range m.rows {
		if configcheck.Kind(r) == configcheck.Kind(kind) && textOf(r, "id") == id {
			return r, nil
		}
	}
	return nil, nil
}

func (m *memory) HolderOf(_ context.Context, sum string) (proto.Message, error) {
	for _, r := range m.rows {
		switch r := r.(type) {
		case *configv1.ConsumerAPIKey:
			if r.GetSha256() == sum {
				return r, nil
			}
		case *configv1.Route:
			for _, t := range r.GetLegacyBearerAuthTokens() {
				if t.GetSha256() == sum {
					return r, nil
				}
			}
		}
	}
	return nil, nil
}

func (m *memory) Secrets(_ context.Context, tenantID string) ([]Secret, error) {
	if tenantID != "ten_1" {
		return nil, nil
	}
	return m.secrets, nil
}

func (m *memory) PurgeTime(_ context.Context, _ shard.SubjectKind, id string) (time.Time, error) {
	return m.purged[id], nil
}

func (m *memory) DefaultScheduling(context.Context) (*configv1.SchedulingPolicy, error) {
	return &configv1.SchedulingPolicy{Spillover: proto.Float64(0.7)}, nil
}

func fixture() *memory {
	const t = "ten_1"
	now := timestamppb.New(when)
	return &memory{
		purged: map[string]time.Time{"con_1": when},
		secrets: []Secret{
			{OwnerID: "crd_1", Version: 3, Sealed: []byte("sealed-1")},
			{OwnerID: "crd_1", Proxy: true, Sealed: []byte("sealed-p")},
			{OwnerID: "upr_1", Proxy: true, Version: 2, Sealed: []byte("sealed-u")},
		},
		rows: []proto.Message{
			&configv1.Tenant{Id: t, Name: "acme", Etag: "e1", CreateTime: now, UpdateTime: now},
			&configv1.Project{Id: "prj_1", TenantId: t, Name: "p"},
			&configv1.Provider{Id: "prv_1", Name: "openai", Capabilities: []*configv1.Capability{{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "https://api.openai.com/v1"}}},
			&configv1.Group{Id: "grp_2", TenantId: t, Name: "spare", Etag: "e2"},
			&configv1.Group{Id: "grp_1", TenantId: t, Name: "default", FallbackGroups: []string{"grp_2"}},
			&configv1.Upstream{Id: "upr_1", TenantId: t, Name: "main", ProviderId: "prv_1", GroupId: "grp_1", Proxy: &configv1.EgressProxy{Url: "http://proxy.example.com", Username: "u", SecretFingerprint: "f0"}},
			&configv1.UpstreamCredential{Id: "crd_1", TenantId: t, Name: "a", UpstreamId: "upr_1", SecretFingerprint: "abcd", SecretVersion: 3, ExpireTime: now, Proxy: &configv1.EgressProxy{Url: "http://proxy.example.com"}},
			&configv1.UpstreamCredential{Id: "crd_2", TenantId: t, Name: "b", UpstreamId: "upr_1", SecretRef: "env:AIDY_SECRET_B", Disabled: true},
			&configv1.UpstreamCredential{Id: "crd_3", TenantId: t, Name: "none", UpstreamId: "upr_1"},
			&configv1.UpstreamModel{Id: "upm_1", TenantId: t, UpstreamId: "upr_1", Model: "gpt-5"},
			&configv1.Route{Id: "rte_1", TenantId: t, Name: "main", PathPrefix: "/", ConsumerApiKeys: true, LegacyBearerAuthTokens: []*configv1.LegacyToken{{Token: "clear-token", Sha256: tokenSum, Label: "old"}}},
			&configv1.LogicalRoute{Id: "lrt_1", TenantId: t, Name: "l", Order: 1, Targets: []*configv1.RouteTarget{{Model: "gpt-5"}}},
			&configv1.Policy{Id: "pol_1", TenantId: t, Name: "p"},
			&configv1.Consumer{Id: "con_1", TenantId: t, Name: "bot", ProjectId: "prj_1", GroupIds: []string{"grp_1"}},
			&configv1.ConsumerAPIKey{Id: "key_1", TenantId: t, Name: "k", ConsumerId: "con_1", Sha256: keySum, Hint: "sk-abc", Etag: "x", Scopes: []configv1.Scope{configv1.Scope_SCOPE_CHAT}, ExpireTime: now},
			&configv1.JWTIssuer{Id: "iss_1", TenantId: t, Name: "login", Issuer: "https://login.example.com", Audiences: []string{"gw"}, JwksUrl: "https://login.example.com/jwks", Scopes: []configv1.Scope{configv1.Scope_SCOPE_CHAT}},
			&configv1.ProviderPricing{Id: "prc_1", ProviderId: "prv_1", Model: "gpt-5", Published: true, EffectiveFrom: now, Currency: "USD", Items: []*configv1.PriceItem{{Component: configv1.PriceComponent_PRICE_COMPONENT_INPUT}}},
			&configv1.ProviderPricing{Id: "prc_2", ProviderId: "prv_1", Model: "gpt-5", EffectiveFrom: now},
		},
	}
}

var allKeys = []string{
	"global", "tenant/ten_1", "cred/ten_1", "subject/tenant/ten_1", "subject/project/prj_1", "subject/consumer/con_1",
	"key/" + keySum, "key/" + tokenSum, "issuer/iss_1",
}

func build(t testing.TB, m *memory) map[string][]byte {
	t.Helper()
	out, err := Build(t.Context(), m, allKeys)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func decode(t testing.TB, shards map[string][]byte) *configcheck.View {
	t.Helper()
	v := configcheck.NewView()
	for key, raw := range shards {
		if raw == nil {
			continue
		}
		if err := v.Put(key, raw); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

func TestG04WhatIsCompiledPassesTheValidator(t *testing.T) {
	t.Parallel()
	c, err := configcheck.New(configcheck.Config{CrossDomain: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range c.Check(decode(t, build(t, fixture()))) {
		t.Error(v)
	}
}

func TestG15EqualRowsGiveEqualBytesInAnyOrder(t *testing.T) {
	t.Parallel()
	want := build(t, fixture())
	rapid.Check(t, func(t *rapid.T) {
		m := fixture()
		r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		r.Shuffle(len(m.rows), func(i, j int) { m.rows[i], m.rows[j] = m.rows[j], m.rows[i] })
		r.Shuffle(len(m.secrets), func(i, j int) { m.secrets[i], m.secrets[j] = m.secrets[j], m.secrets[i] })
		for _, row := range m.rows { // a new etag alone changes nothing
			fd := row.ProtoReflect().Descriptor().Fields().ByName("etag")
			row.ProtoReflect().Set(fd, protoString(fmt.Sprint(r.Int())))
		}
		got, err := Build(t.Context(), m, allKeys)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range allKeys {
			if !bytes.Equal(got[key], want[key]) {
				t.Fatalf("shard %s differs", key)
			}
		}
	})
}

func TestG14NoSecretAndNothingOfTheIdentityDomainIsInThePolicyShard(t *testing.T) {
	t.Parallel()
	m := fixture()
	for _, r := range m.rows {
		if c, ok := r.(*configv1.UpstreamCredential); ok {
			c.Secret = "clear-secret"
			if c.Proxy != nil {
				c.Proxy.Secret = "clear-proxy"
			}
		}
	}
	shards := build(t, m)
	for key, raw := range shards {
		for _, word := range []string{"clear-", "sk-abc", "f0", "abcd"} {
			if bytes.Contains(raw, []byte(word)) {
				t.Errorf("shard %s contains %q", key, word)
			}
		}
	}
	ten := decode(t, shards).Tenants["ten_1"]
	for _, c := range ten.GetCredentials() {
		if c.GetDisabled() || c.GetExpireTime() != nil || c.GetSecretRef() != "" {
			t.Errorf("credential %s carries identity fields: %v", c.GetId(), c)
		}
	}
	if got := ten.GetRoutes()[0].GetLegacyBearerAuthTokens()[0]; got.GetSha256() != tokenSum || got.GetLabel() != "old" {
		t.Errorf("the route lost its token: %v", got)
	}
}

func TestSecretsAreSplitFromSchedulingFields(t *testing.T) {
	t.Parallel()
	got := decode(t, build(t, fixture())).Credentials["ten_1"].GetSecrets()
	if len(got) != 3 {
		t.Fatalf("%d secrets %v, want those of the upstream's proxy and of two credentials", len(got), got)
	}
	if s := got[0]; s.GetUpstreamId() != "upr_1" || string(s.GetSealedProxy()) != "sealed-u" {
		t.Errorf("proxy of the upstream: %v", s)
	}
	if s := got[1]; s.GetCredentialId() != "crd_1" || string(s.GetSealed()) != "sealed-1" || string(s.GetSealedProxy()) != "sealed-p" || s.GetVersion() != 3 || s.GetExpireTime() == nil {
		t.Errorf("credential by value: %v", s)
	}
	if s := got[2]; s.GetCredentialId() != "crd_2" || s.GetSecretRef() == "" || !s.GetDisabled() {
		t.Errorf("credential by reference: %v", s)
	}
	if _, err := Credentials("ten_1", []*configv1.UpstreamCredential{{Id: "c", SecretRef: "env:A"}}, nil, []Secret{{OwnerID: "c", Sealed: []byte{1}}}); err == nil {
		t.Error("a secret by value and by reference is accepted")
	}
	if s, err := Credentials("ten_2", nil, nil, nil); s != nil || err != nil {
		t.Errorf("a tenant without secrets has a shard: %v %v", s, err)
	}
}

func TestKeysThatEndBecomeTombstonesAndExpiryStaysWithTheNode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(k *configv1.ConsumerAPIKey)
		gone   bool
	}{
		"live":     {func(*configv1.ConsumerAPIKey) {}, false},
		"expired":  {func(k *configv1.ConsumerAPIKey) { k.ExpireTime = timestamppb.New(time.Unix(1, 0)) }, false},
		"disabled": {func(k *configv1.ConsumerAPIKey) { k.Disabled = true }, true},
		"revoked":  {func(k *configv1.ConsumerAPIKey) { k.RevokeTime = timestamppb.New(when) }, true},
	} {
		m := fixture()
		for _, r := range m.rows {
			if k, ok := r.(*configv1.ConsumerAPIKey); ok {
				tc.change(k)
			}
		}
		raw, asked := build(t, m)["key/"+keySum]
		if !asked || (raw == nil) != tc.gone {
			t.Errorf("%s: gone = %v, want %v", name, raw == nil, tc.gone)
		}
	}
	m := fixture()
	rec := decode(t, build(t, m))
	if k := rec.Keys[keySum].GetConsumerKey(); k.GetSha256() != "" || k.GetHint() != "" || k.GetEtag() != "" || k.GetExpireTime() == nil {
		t.Errorf("the record of a key: %v", k)
	}
	if r := rec.Keys[tokenSum].GetRouteToken(); r.GetRouteId() != "rte_1" {
		t.Errorf("the record of a token: %v", r)
	}
}

func TestSuspensionIsAFlagOfTheSubjectAlone(t *testing.T) {
	t.Parallel()
	m := fixture()
	before := build(t, m)
	m.rows[0].(*configv1.Tenant).Suspended = true
	after := build(t, m)
	for _, key := range allKeys {
		if changed := !bytes.Equal(before[key], after[key]); changed != (key == "subject/tenant/ten_1") {
			t.Errorf("shard %s: changed = %v", key, changed)
		}
	}
	v := decode(t, after)
	for k, rec := range v.Subjects {
		if rec.GetSuspended() != (k.ID == "ten_1") {
			t.Errorf("%v: suspended = %v", k, rec.GetSuspended())
		}
		if (rec.GetPurgeTime() != nil) != (k.ID == "con_1") {
			t.Errorf("%v: purge time %v", k, rec.GetPurgeTime())
		}
	}
}

// Deleting or changing any row changes no shard but those that Touched names.
func TestTouchedNamesEveryShardThatChanges(t *testing.T) {
	t.Parallel()
	before := build(t, fixture())
	for i := range fixture().rows {
		deleted := fixture()
		old := deleted.rows[i]
		deleted.rows = slices.Delete(deleted.rows, i, i+1)
		changed := fixture()
		changed.rows[i].ProtoReflect().Set(old.ProtoReflect().Descriptor().Fields().ByName("disabled"), protoBool(true))
		for what, after := range map[string]map[string][]byte{"deleted": build(t, deleted), "disabled": build(t, changed)} {
			touched := Touched(old, nil)
			for _, key := range allKeys {
				if !bytes.Equal(before[key], after[key]) && !slices.Contains(touched, key) {
					t.Errorf("%s %s: shard %s changes, Touched has %v", configcheck.Kind(old), what, key, touched)
				}
			}
		}
	}
	if got := Touched(nil, nil); len(got) != 0 {
		t.Errorf("nothing touches %v", got)
	}
	a := &configv1.ConsumerAPIKey{Sha256: keySum}
	b := &configv1.ConsumerAPIKey{Sha256: tokenSum}
	if diff := cmp.Diff([]string{"key/" + keySum, "key/" + tokenSum}, Touched(a, b)); diff != "" {
		t.Error(diff)
	}
}

func TestMissingRowsAreTombstonesAndFailuresAreToldWithTheShard(t *testing.T) {
	t.Parallel()
	for key, raw := range build(t, &memory{}) {
		if (raw == nil) != (key != "global") {
			t.Errorf("shard %s of no rows: %q", key, raw)
		}
	}
	_, err := Build(t.Context(), &memory{rows: fixture().rows, fail: errors.New("boom")}, []string{"tenant/ten_1"})
	if err == nil || !strings.Contains(err.Error(), "tenant/ten_1") {
		t.Errorf("got %v, want an error that names the shard", err)
	}
	if _, err := Build(t.Context(), &memory{}, []string{"nonsense"}); !errors.Is(err, shard.ErrKey) {
		t.Errorf("got %v, want %v", err, shard.ErrKey)
	}
}
