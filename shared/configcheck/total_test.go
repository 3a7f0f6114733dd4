package configcheck

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// fill draws blank, zero, edge and huge values for every field of m.
func fill(t *rapid.T, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if rapid.IntRange(0, 3).Draw(t, "set") == 0 {
			continue
		}
		switch {
		case fd.IsMap():
			mp := m.Mutable(fd).Map()
			for range rapid.IntRange(0, 2).Draw(t, "pairs") {
				k := scalar(t, fd.MapKey())
				if fd.MapValue().Message() != nil {
					val := mp.NewValue()
					if depth > 0 {
						fill(t, val.Message(), depth-1)
					}
					mp.Set(k.MapKey(), val)
				} else {
					mp.Set(k.MapKey(), scalar(t, fd.MapValue()))
				}
			}
		case fd.IsList():
			l := m.Mutable(fd).List()
			for range rapid.IntRange(0, 2).Draw(t, "items") {
				if fd.Message() != nil {
					val := l.NewElement()
					if depth > 0 {
						fill(t, val.Message(), depth-1)
					}
					l.Append(val)
				} else {
					l.Append(scalar(t, fd))
				}
			}
		case fd.Message() != nil:
			val := m.NewField(fd)
			if depth > 0 {
				fill(t, val.Message(), depth-1)
			}
			m.Set(fd, val)
		default:
			m.Set(fd, scalar(t, fd))
		}
	}
}

func scalar(t *rapid.T, fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.SampledFrom([]int32{0, 1, 2, 3, 99, -1, math.MaxInt32}).Draw(t, "enum")))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(rapid.SampledFrom([]int32{0, 1, -1, math.MaxInt32, math.MinInt32}).Draw(t, "i32"))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(rapid.SampledFrom([]int64{0, 1, -1, math.MaxInt64, math.MinInt64, 253402300800}).Draw(t, "i64"))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(rapid.SampledFrom([]uint32{0, 1, math.MaxUint32}).Draw(t, "u32"))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(rapid.SampledFrom([]uint64{0, 0, 0, 1, math.MaxUint64}).Draw(t, "u64"))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.SampledFrom([]float64{0, 1, -1, math.Inf(1), math.NaN(), math.MaxFloat64}).Draw(t, "f64"))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(1)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SampledFrom([][]byte{{}, {0}, make([]byte, 1<<12)}).Draw(t, "bytes"))
	}
	return protoreflect.ValueOfString(rapid.SampledFrom([]string{
		"", "a", t1, "grp_1", "upr_1", "prv_1", "rte_1", "con_1", "gpt-5", "default", "/", "/a//..", "*", "a*b", "\xff\xfe", "a\x00b",
		"https://example.com", "https://[fe80::1%25eth0]/", "://", "https://%zz", "0.0.0.0/0", "Europe/Berlin", "../etc", "env:", "file:/x",
		`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`, `{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`, `{"keys":null}`,
		"USD", sum1, strings.Repeat("é", 1<<12), "ten_1/grp_1",
	}).Draw(t, "text"))
}

func TestC32NoValueInAnyFieldOfAnyMessagePanics(t *testing.T) {
	t.Parallel()
	strict, node := newChecker(t, Config{CrossDomain: true}), newChecker(t, Config{})
	rapid.Check(t, func(t *rapid.T) {
		v := NewView()
		v.GlobalShard = &syncv1.GlobalShard{}
		ten, cred, subj := &syncv1.TenantShard{}, &syncv1.CredentialShard{}, &syncv1.SubjectRecord{}
		key, iss := &syncv1.KeyRecord{}, &syncv1.IssuerRecord{}
		for _, m := range []proto.Message{v.GlobalShard, ten, cred, subj, key, iss} {
			fill(t, m.ProtoReflect(), rapid.IntRange(0, 6).Draw(t, "depth"))
		}
		v.Tenants[t1], v.Credentials[t1], v.Keys[sum1] = ten, cred, key
		v.Subjects[SubjectKey{subj.GetKind(), subj.GetId()}] = subj
		v.Subjects[SubjectKey{syncv1.SubjectKind_SUBJECT_KIND_TENANT, t1}] = subj
		v.Issuers[iss.GetIssuer().GetId()] = iss
		for _, c := range []*Checker{strict, node} {
			for _, x := range c.Check(v) {
				if _, err := proto.Marshal(x); err != nil {
					t.Fatalf("a violation cannot be sent: %v", err)
				}
			}
		}
		Warnings(ten, v.GlobalShard)
		for _, m := range []proto.Message{
			&configv1.Tenant{}, &configv1.Project{}, &configv1.Consumer{}, &configv1.UpstreamCredential{}, &configv1.LogicalRoute{},
			&configv1.ProviderPluginConfig{}, &configv1.JWTIssuer{}, &configv1.PriceBookEntry{}, &configv1.Route{},
		} {
			fill(t, m.ProtoReflect(), 4)
			node.CheckResource(m)
		}
	})
}

func TestC32MissingMessagesDoNotPanic(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Config{CrossDomain: true})
	v := NewView()
	v.GlobalShard = &syncv1.GlobalShard{Providers: []*configv1.Provider{nil}, SharedRoutes: []*configv1.Route{nil}, Pricing: []*configv1.ProviderPricing{nil}}
	v.Tenants[t1] = &syncv1.TenantShard{
		Tenant: &configv1.Tenant{Id: t1}, Groups: []*configv1.Group{nil}, Upstreams: []*configv1.Upstream{nil}, Credentials: []*configv1.UpstreamCredential{nil},
		Models: []*configv1.UpstreamModel{nil}, Routes: []*configv1.Route{nil}, LogicalRoutes: []*configv1.LogicalRoute{nil}, Policies: []*configv1.Policy{nil},
		RoutePlugins: []*configv1.RoutePluginConfig{nil}, ProviderPlugins: []*configv1.ProviderPluginConfig{nil}, Budgets: []*configv1.Budget{nil},
	}
	v.Tenants[t2] = nil
	v.Credentials[t1] = &syncv1.CredentialShard{Secrets: []*syncv1.SealedSecret{nil}}
	v.Keys[sum1] = &syncv1.KeyRecord{Holder: &syncv1.KeyRecord_ConsumerKey{}}
	v.Keys[sum2] = &syncv1.KeyRecord{Holder: &syncv1.KeyRecord_RouteToken{}}
	v.Issuers["iss_1"] = &syncv1.IssuerRecord{}
	if got := c.Check(v); len(got) == 0 {
		t.Error("a configuration of holes has no violation")
	}
	for _, m := range []proto.Message{nil, (*configv1.Route)(nil), &structpb.Value{}} {
		c.CheckResource(m)
	}
}

func FuzzDecode(f *testing.F) {
	raw, _ := proto.Marshal(tenantFixture(t1, "h"))
	f.Add("tenant/"+t1, raw)
	f.Add("global", []byte{8, 1})
	c, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key string, payload []byte) {
		v := NewView()
		if v.Put(key, payload) == nil {
			c.Check(v)
		}
	})
}
