package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/route"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

var now = time.Unix(1_800_000_000, 0)

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// world is a tenant with one route, one consumer and its key "sk-good".
type world struct {
	route    *configv1.Route
	tenant   *syncv1.SubjectRecord
	consumer *syncv1.SubjectRecord
	key      *configv1.ConsumerAPIKey
	more     []proto.Message
}

func newWorld() *world {
	return &world{
		route:    &configv1.Route{Id: "rte_1", TenantId: "ten_1", PathPrefix: "/", ConsumerApiKeys: true},
		tenant:   &syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_TENANT, Id: "ten_1", TenantId: "ten_1"},
		consumer: &syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_CONSUMER, Id: "con_1", TenantId: "ten_1"},
		key: &configv1.ConsumerAPIKey{
			Id: "key_1", TenantId: "ten_1", ConsumerId: "con_1",
			Scopes: []configv1.Scope{configv1.Scope_SCOPE_CHAT, configv1.Scope_SCOPE_MODELS},
		},
	}
}

func (w *world) view(t *testing.T) (*snapshot.View, route.Match) {
	t.Helper()
	shards := append([]proto.Message{
		&syncv1.TenantShard{
			Tenant: &configv1.Tenant{Id: "ten_1"},
			Groups: []*configv1.Group{{Id: "grp_1", TenantId: "ten_1", Name: "default"}},
			Routes: []*configv1.Route{w.route},
		},
		w.tenant, w.consumer,
		&syncv1.KeyRecord{Sha256: hash("sk-good"), TenantId: "ten_1", Holder: &syncv1.KeyRecord_ConsumerKey{ConsumerKey: w.key}},
	}, w.more...)
	v, err := snapshot.Static(nil, nil, shards...)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequest(http.MethodPost, "http://gateway/v1/messages", nil)
	m, f := route.Find(v, r)
	if f != nil {
		t.Fatal(f)
	}
	return v, m
}

func TestKeyIsFoundWhereverItsSDKPutsIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header http.Header
		query  string
		want   fault.Class
	}{
		"bearer":              {header: http.Header{"Authorization": {"Bearer sk-good"}}},
		"bearer, lower case":  {header: http.Header{"Authorization": {"bearer sk-good"}}},
		"x-api-key":           {header: http.Header{"X-Api-Key": {"sk-good"}}},
		"x-goog-api-key":      {header: http.Header{"X-Goog-Api-Key": {"sk-good"}}},
		"query":               {query: "alt=sse&key=sk-good"},
		"the same one twice":  {header: http.Header{"Authorization": {"Bearer sk-good"}, "X-Api-Key": {"sk-good"}}},
		"two that differ":     {header: http.Header{"Authorization": {"Bearer sk-good"}, "X-Api-Key": {"sk-other"}}, want: fault.Unauthenticated},
		"differing headers":   {header: http.Header{"X-Api-Key": {"sk-good", "sk-other"}}, want: fault.Unauthenticated},
		"none":                {want: fault.Unauthenticated},
		"unknown":             {header: http.Header{"X-Api-Key": {"sk-bad"}}, want: fault.Unauthenticated},
		"the hash itself":     {header: http.Header{"X-Api-Key": {hash("sk-good")}}, want: fault.Unauthenticated},
		"another scheme":      {header: http.Header{"Authorization": {"Basic sk-good"}}, want: fault.Unauthenticated},
		"query unreadable":    {query: "key=%zz", want: fault.InvalidRequest},
		"empty bearer":        {header: http.Header{"Authorization": {"Bearer "}}, want: fault.Unauthenticated},
		"query and header":    {header: http.Header{"X-Goog-Api-Key": {"sk-good"}}, query: "key=sk-good"},
		"query beside header": {header: http.Header{"X-Goog-Api-Key": {"sk-good"}}, query: "key=sk-other", want: fault.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, m := newWorld().view(t)
			p, f := new(Authenticator).Authenticate(v, m, Generate, tc.header, tc.query, now)
			if tc.want != fault.Internal {
				if f == nil || f.Class != tc.want {
					t.Fatalf("got %v, want %v", f, tc.want)
				}
				return
			}
			if f != nil {
				t.Fatal(f)
			}
			if p.Method != APIKey || p.Key.ID != "key_1" || p.Consumer.GetId() != "con_1" || p.Tenant.ID != "ten_1" {
				t.Errorf("principal %+v is not the holder of the key", p)
			}
		})
	}
}

func TestWhatKeepsAKeyOut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*world)
		op     Operation
		want   fault.Class
	}{
		"expired":            {func(w *world) { w.key.ExpireTime = timestamppb.New(now) }, Generate, fault.Unauthenticated},
		"consumer suspended": {func(w *world) { w.consumer.Suspended = true }, Generate, fault.NotPermitted},
		"tenant suspended":   {func(w *world) { w.tenant.Suspended = true }, Generate, fault.NotPermitted},
		"scope":              {func(w *world) { w.key.Scopes = []configv1.Scope{configv1.Scope_SCOPE_MODELS} }, Generate, fault.NotPermitted},
		"another route":      {func(w *world) { w.key.IssuerRouteId = "rte_other" }, Generate, fault.Unauthenticated},
		"route without keys": {func(w *world) { w.route.ConsumerApiKeys = false }, Generate, fault.Unauthenticated},
		"project unknown":    {func(w *world) { w.key.ProjectId = "prj_gone" }, Generate, fault.NotPermitted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			tc.change(w)
			v, m := w.view(t)
			_, f := new(Authenticator).Authenticate(v, m, tc.op, http.Header{"X-Api-Key": {"sk-good"}}, "", now)
			if f == nil || f.Class != tc.want {
				t.Errorf("got %v, want %v", f, tc.want)
			}
		})
	}
}

func TestKeyOfAnotherTenantIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.more = []proto.Message{&syncv1.KeyRecord{
		Sha256: hash("sk-other"), TenantId: "ten_2",
		Holder: &syncv1.KeyRecord_ConsumerKey{ConsumerKey: &configv1.ConsumerAPIKey{Id: "key_2", TenantId: "ten_2", ConsumerId: "con_2"}},
	}}
	v, m := w.view(t)
	_, f := new(Authenticator).Authenticate(v, m, Generate, http.Header{"X-Api-Key": {"sk-other"}}, "", now)
	if f == nil || f.Class != fault.Unauthenticated {
		t.Errorf("got %v, want unauthenticated", f)
	}
}

func TestLegacyModesGiveTheTenantAlone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*world)
		header http.Header
		want   Method
	}{
		"disabled":             {func(w *world) { w.route.DisableAuth = true }, nil, Disabled},
		"disabled comes first": {func(w *world) { w.route.DisableAuth = true }, http.Header{"X-Api-Key": {"sk-good"}}, Disabled},
		"passthrough":          {func(w *world) { w.route.PassthroughAuthToken = true }, http.Header{"Authorization": {"Bearer sk-own"}}, Passthrough},
		"legacy token": {func(w *world) {
			w.more = []proto.Message{&syncv1.KeyRecord{
				Sha256: hash("shared"), TenantId: "ten_1",
				Holder: &syncv1.KeyRecord_RouteToken{RouteToken: &syncv1.RouteToken{RouteId: "rte_1"}},
			}}
		}, http.Header{"Authorization": {"Bearer shared"}}, LegacyToken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			tc.change(w)
			v, m := w.view(t)
			p, f := new(Authenticator).Authenticate(v, m, Generate, tc.header, "", now)
			if f != nil {
				t.Fatal(f)
			}
			if p.Method != tc.want || p.Key != nil || p.Consumer != nil {
				t.Errorf("principal %+v, want the tenant alone by %v", p, tc.want)
			}
		})
	}
}

func TestC25_RevokedKeyStartsNoAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld()
	v, m := w.view(t)
	p, f := new(Authenticator).Authenticate(v, m, Generate, http.Header{"X-Api-Key": {"sk-good"}}, "", now)
	if f != nil {
		t.Fatal(f)
	}
	if !p.Alive(v, now) {
		t.Fatal("the key is not alive under the state that admitted it")
	}
	later, err := snapshot.Static(nil, nil, w.tenant, w.consumer)
	if err != nil {
		t.Fatal(err)
	}
	if p.Alive(later, now) {
		t.Error("a key that is gone from the newest state may still start an attempt")
	}
	w.consumer = proto.Clone(w.consumer).(*syncv1.SubjectRecord)
	w.consumer.Suspended = true
	suspended, _ := w.view(t)
	if p.Alive(suspended, now) {
		t.Error("a key of a suspended consumer may still start an attempt")
	}
}

func TestGroupsNarrowFromRouteToKey(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		route, consumer, key, want []string
	}{
		"none anywhere is the default": {nil, nil, nil, []string{"grp_1"}},
		"route alone":                  {[]string{"a", "b"}, nil, nil, []string{"a", "b"}},
		"consumer narrows":             {[]string{"a", "b"}, []string{"b", "c"}, nil, []string{"b"}},
		"key narrows":                  {nil, []string{"a", "b"}, []string{"a"}, []string{"a"}},
		"nothing in common":            {[]string{"a"}, []string{"b"}, nil, []string{}},
		"all three":                    {[]string{"a", "b"}, []string{"a", "b"}, []string{"b"}, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.route.GroupIds, w.consumer.GroupIds, w.key.GroupIds = tc.route, tc.consumer, tc.key
			v, m := w.view(t)
			p, f := new(Authenticator).Authenticate(v, m, Generate, http.Header{"X-Api-Key": {"sk-good"}}, "", now)
			if f != nil {
				t.Fatal(f)
			}
			got := p.Groups(m.Route)
			if len(got) != len(tc.want) {
				t.Fatalf("groups %v, want %v", got, tc.want)
			}
			for i := range got {
				if got[i] != tc.want[i] {
					t.Fatalf("groups %v, want %v", got, tc.want)
				}
			}
		})
	}
}
