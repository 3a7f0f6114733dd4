package snapshot

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

func TestStaticViewAnswersForEveryShard(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("ab", 32)
	builders := []TenantBuilder{{Name: "count", Build: func(t *Tenant) (any, error) { return len(t.Upstreams), nil }}}
	v, err := Static(builders, nil,
		&syncv1.GlobalShard{Providers: []*configv1.Provider{{Id: "prv_1"}}},
		&syncv1.TenantShard{
			Tenant:    &configv1.Tenant{Id: "ten_1"},
			Groups:    []*configv1.Group{{Id: "grp_1", Name: "default"}},
			Upstreams: []*configv1.Upstream{{Id: "upr_1"}},
			Routes:    []*configv1.Route{{Id: "rte_1", PathPrefix: "/team"}},
		},
		&syncv1.CredentialShard{TenantId: "ten_1", Secrets: []*syncv1.SealedSecret{{CredentialId: "crd_1", Sealed: []byte("s3")}}},
		&syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_TENANT, Id: "ten_1"},
		&syncv1.KeyRecord{Sha256: hash, TenantId: "ten_1", Holder: &syncv1.KeyRecord_RouteToken{RouteToken: &syncv1.RouteToken{RouteId: "rte_1"}}},
		&syncv1.IssuerRecord{Issuer: &configv1.JWTIssuer{Id: "iss_1"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	ten := v.Tenant("ten_1")
	if ten == nil || ten.DefaultGroup != "grp_1" || ten.Built("count") != 1 {
		t.Fatalf("tenant = %+v, want the default group and what the builder made", ten)
	}
	if v.Provider(ten, "prv_1") == nil {
		t.Error("global provider is not found")
	}
	if r, rest := v.FindRoute("x.example", "/team/v1/models"); r == nil || rest != "/v1/models" {
		t.Errorf("route = %v, rest %q", r, rest)
	}
	text, err := v.Secret("ten_1", "crd_1").Open()
	if err != nil || text.Reveal() != "s3" {
		t.Errorf("secret = %q, %v", text.Reveal(), err)
	}
	if v.Subject(syncv1.SubjectKind_SUBJECT_KIND_TENANT, "ten_1") == nil || v.Issuer("iss_1") == nil {
		t.Error("subject or issuer is not found")
	}
	var h KeyHash
	for i := range h {
		h[i] = 0xab
	}
	if k := v.Key(h); k == nil || !k.Token || k.RouteID != "rte_1" {
		t.Errorf("key = %+v, want the token of rte_1", k)
	}
	if got := NewStaticHolder(v).Load(); got != v {
		t.Error("static holder gives another view")
	}
}

func TestStaticRefusesWhatIsNoConfiguration(t *testing.T) {
	t.Parallel()
	bad := errors.New("no")
	tenant := &syncv1.TenantShard{Tenant: &configv1.Tenant{Id: "ten_1"}}
	for _, tc := range []struct {
		name     string
		builders []TenantBuilder
		shards   []proto.Message
	}{
		{"twice", nil, []proto.Message{tenant, tenant}},
		{"not a shard", nil, []proto.Message{&configv1.Tenant{}}},
		{"key without holder", nil, []proto.Message{&syncv1.KeyRecord{Sha256: strings.Repeat("00", 32)}}},
		{"key hash", nil, []proto.Message{&syncv1.KeyRecord{Sha256: "xyz"}}},
		{"builder", []TenantBuilder{{Name: "b", Build: func(*Tenant) (any, error) { return nil, bad }}}, []proto.Message{tenant}},
	} {
		if v, err := Static(tc.builders, nil, tc.shards...); err == nil {
			t.Errorf("%s: got %v, want an error", tc.name, v)
		}
	}
}
