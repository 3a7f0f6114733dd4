package document

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

const sample = `owner: platform
resources:
  - provider:
      name: local
      capabilities:
        - {protocol: openai_chat, base_url: "http://127.0.0.1:9/v1"}
        - {protocol: PROTOCOL_ANTHROPIC_MESSAGES, base_url: "http://127.0.0.1:9"}
      max_concurrency: 0
---
resources:
  - upstream_model: {tenant_id: dev, upstream_id: local, model: 4.1, max_context_tokens: "200000", features: [tools, Prompt-Cache]}
  - provider_pricing:
      provider_id: local
      model: "*"
      effective_from: 2026-01-01
      currency: USD
      items: [{component: input, per_mtok_nanos: 1_250_000_000}]
  - route_plugin_config:
      tenant_id: dev
      route_id: main
      plugin_key: guard
      payload: {level: 2, names: [a, true, null]}
  - tenant: {name: dev, labels: {team: search}}
`

func TestABundleOfSeveralDocumentsIsReadAsOne(t *testing.T) {
	t.Parallel()
	got, err := Bundle("b.yaml", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	payload, _ := structpb.NewStruct(map[string]any{"level": 2.0, "names": []any{"a", true, nil}})
	want := &adminv1.Bundle{Owner: "platform", Resources: []*adminv1.BundleResource{
		{Resource: &adminv1.BundleResource_Provider{Provider: &configv1.Provider{
			Name: "local", MaxConcurrency: proto.Int32(0),
			Capabilities: []*configv1.Capability{
				{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "http://127.0.0.1:9/v1"},
				{Protocol: configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES, BaseUrl: "http://127.0.0.1:9"},
			},
		}}},
		{Resource: &adminv1.BundleResource_UpstreamModel{UpstreamModel: &configv1.UpstreamModel{
			TenantId: "dev", UpstreamId: "local", Model: "4.1", MaxContextTokens: 200000,
			Features: []configv1.Feature{configv1.Feature_FEATURE_TOOLS, configv1.Feature_FEATURE_PROMPT_CACHE},
		}}},
		{Resource: &adminv1.BundleResource_ProviderPricing{ProviderPricing: &configv1.ProviderPricing{
			ProviderId: "local", Model: "*", Currency: "USD",
			EffectiveFrom: timestamppb.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
			Items:         []*configv1.PriceItem{{Component: configv1.PriceComponent_PRICE_COMPONENT_INPUT, PerMtokNanos: 1_250_000_000}},
		}}},
		{Resource: &adminv1.BundleResource_RoutePluginConfig{RoutePluginConfig: &configv1.RoutePluginConfig{
			TenantId: "dev", RouteId: "main", PluginKey: "guard", Payload: payload,
		}}},
		{Resource: &adminv1.BundleResource_Tenant{Tenant: &configv1.Tenant{Name: "dev", Labels: map[string]string{"team": "search"}}}},
	}}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("read differs (-want +got):\n%s", d)
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	t.Parallel()
	want, err := Bundle("b.yaml", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"yaml": func(b *bytes.Buffer) error { return YAML(b, want) },
		"json": func(b *bytes.Buffer) error { return JSON(b, want) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		got, err := Bundle(name, b.Bytes())
		if err != nil {
			t.Fatalf("%s is not read back: %v\n%s", name, err, b.String())
		}
		if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
			t.Errorf("%s differs (-want +got):\n%s", name, d)
		}
	}
}

func TestTextThatLooksLikeAnotherTypeSurvivesWriting(t *testing.T) {
	t.Parallel()
	want := &configv1.Tenant{Name: "1", Labels: map[string]string{"a": "true", "b": "null", "c": "1e3", "d": "2026-01-01", "e": "", "f": "a: b # c", "g": "two\nlines"}}
	var b bytes.Buffer
	if err := YAML(&b, want); err != nil {
		t.Fatal(err)
	}
	got, err := Decode("t", b.Bytes(), func() proto.Message { return new(configv1.Tenant) })
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if d := cmp.Diff(want, got[0], protocmp.Transform()); d != "" {
		t.Errorf("differs:\n%s", d)
	}
}

func TestWhatIsNotKnownIsRefusedWithItsLineAndTheNearestName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"unknown field", "resources:\n- tenant:\n    nam: a\n", []string{"f.yaml:3: resources[0].tenant.nam: a Tenant has no such field; did you mean name?"}},
		{"unknown kind", "resources:\n- upstreem: {}\n", []string{"f.yaml:2: resources[0].upstreem: a BundleResource has no such field; did you mean upstream?"}},
		{"two kinds in one", "resources:\n- tenant: {name: a}\n  group: {name: b}\n", []string{"f.yaml:3: resources[0].group: cannot stand beside tenant"}},
		{"twice", "owner: a\nowner: b\n", []string{"f.yaml:2: owner: given twice, first on line 1"}},
		{"unknown enum", "resources:\n- provider: {name: p, capabilities: [{protocol: openai-caht}]}\n", []string{"none of openai_chat, openai_responses", "did you mean openai_chat?"}},
		{"not a number", "resources:\n- upstream:\n    weight: heavy\n", []string{"f.yaml:3: resources[0].upstream.weight: expected a whole number of int32, got text"}},
		{"too large", "resources:\n- upstream: {weight: 3000000000}\n", []string{"whole number of int32, got 3000000000"}},
		{"fraction", "resources:\n- upstream: {weight: 1.5}\n", []string{"whole number of int32, got 1.5"}},
		{"bool for text", "owner: true\n", []string{"owner: expected text, got true; put quotes around it"}},
		{"text for bool", "resources:\n- tenant: {disabled: 'true'}\n", []string{"expected true or false, got text"}},
		{"list for message", "resources:\n- tenant: [a]\n", []string{"expected the fields of a Tenant, got a list"}},
		{"scalar for list", "resources: tenant\n", []string{"resources: expected a list, got text"}},
		{"bad time", "resources:\n- consumer_api_key: {expire_time: tomorrow}\n", []string{"expected a time such as 2026-01-31T15:04:05Z, got text"}},
		{"broken", "owner: [\n", []string{"f.yaml:", "not valid YAML"}},
		{"merge key", "resources:\n- tenant: {<<: {name: a}}\n", []string{"merge keys are not read"}},
		{"empty entry", "resources:\n-\n", []string{"resources[0]: empty entry in a list"}},
		{"no kind", "resources:\n- {}\n", []string{"resources[0]: says no kind"}},
		{"owners", "owner: a\n---\nowner: b\n", []string{"different owners, a and b"}},
		{"all at once", "resources:\n- tenant: {x1: 1}\n- group: {x2: 1}\n", []string{"f.yaml:2:", "f.yaml:3:"}},
		{"label twice", "resources:\n- tenant: {labels: {a: '1', a: '2'}}\n", []string{"given twice"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := Bundle("f.yaml", []byte(tc.in))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error\n%v\nlacks %q", err, want)
				}
			}
		})
	}
}

func TestSecretsAreNotRepeatedInErrors(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"resources:\n- upstream_credential: {weight: sk-very-secret}\n",
		"resources:\n- upstream_credential: {limits: sk-very-secret}\n",
		"resources:\n- upstream_credential: {expire_time: sk-very-secret}\n",
	} {
		if _, err := Bundle("f.yaml", []byte(in)); err == nil || strings.Contains(err.Error(), "very-secret") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestBoundsOfADocumentAreKept(t *testing.T) {
	t.Parallel()
	if _, err := Bundle("f", make([]byte, MaxBytes+1)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a file that is too large: %v", err)
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 8 {
		bomb += string(rune('b'+i)) + ": &" + string(rune('b'+i)) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(rune('a'+i))+",", 10), ",") + "]\n"
	}
	doc := "resources:\n- route_plugin_config:\n    payload:\n" + indent(bomb, "      ")
	if _, err := Bundle("f", []byte(doc)); err == nil || !strings.Contains(err.Error(), "values") {
		t.Errorf("anchors that multiply: %v", err)
	}
	deep := "resources: [{route_plugin_config: {payload: {a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}}}]"
	if _, err := Bundle("f", []byte(deep)); err == nil || !strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("deep nesting: %v", err)
	}
	self := "resources: [{route_plugin_config: {payload: &p {a: *p, b: *p}}}]"
	if _, err := Bundle("f", []byte(self)); err == nil {
		t.Error("an anchor inside itself is accepted")
	}
}

func indent(s, by string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n"+by) + "\n"
}

func TestNothingIsExpanded(t *testing.T) {
	t.Setenv("OWNER", "x")
	got, err := Bundle("f", []byte("resources: [{upstream_credential: {secret: '${OWNER}$OWNER'}}]"))
	if err != nil {
		t.Fatal(err)
	}
	if s := got.GetResources()[0].GetUpstreamCredential().GetSecret(); s != "${OWNER}$OWNER" {
		t.Errorf("secret is %q", s)
	}
}

func TestJSONWithTabsIsRead(t *testing.T) {
	t.Parallel()
	if _, err := Bundle("f.json", []byte("{\n\t\"owner\":\t\"a\\tb\",\n\t\"resources\": [{\"tenant\": {\"name\": \"x\"}}]\n}")); err != nil {
		t.Error(err)
	}
}

func TestArgumentsSetFieldsByTheirType(t *testing.T) {
	t.Parallel()
	got := new(configv1.UpstreamCredential)
	args := []string{
		"name=main", "secret=sk: a, # b {", "weight=5", "labels.team=search", "labels.a.b/c=d", "models=gpt-5, gpt-5-mini",
		"limits.rpm=600", "cache={enabled: true, ttl_min_ms: 1000}", "on_auth_failure=disable", "expire_time=2027-01-01T00:00:00Z", "disabled=true",
	}
	if err := Set(got, parseAll(t, args)); err != nil {
		t.Fatal(err)
	}
	want := &configv1.UpstreamCredential{
		Name: "main", Secret: "sk: a, # b {", Weight: proto.Int32(5), Labels: map[string]string{"team": "search", "a.b/c": "d"},
		Models: []string{"gpt-5", "gpt-5-mini"}, Limits: &configv1.Limits{Rpm: proto.Int64(600)},
		Cache:         &configv1.CacheSettings{Enabled: proto.Bool(true), TtlMinMs: proto.Int64(1000)},
		OnAuthFailure: configv1.OnAuthFailure_ON_AUTH_FAILURE_DISABLE, Disabled: true,
		ExpireTime: timestamppb.New(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("differs (-want +got):\n%s", d)
	}
	provider := new(configv1.Provider)
	if err := Set(provider, parseAll(t, []string{"capabilities=[{protocol: openai_chat, base_url: 'https://x.example/v1'}]"})); err != nil {
		t.Fatal(err)
	}
	if provider.GetCapabilities()[0].GetBaseUrl() != "https://x.example/v1" {
		t.Errorf("got %v", provider)
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"nam=x"}, {"name=a", "name=b"}, {"limits=1", "limits.rpm=2"}, {"weight=x"}, {"limits.rpm.x=1"}, {"cache=["}, {"disabled=yes"}, {"models.a=b"},
	} {
		if err := Set(new(configv1.UpstreamCredential), parseAll(t, args)); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	for _, s := range []string{"name", "=x", ""} {
		if _, err := ParseArgument(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

func parseAll(t *testing.T, in []string) []Argument {
	t.Helper()
	var out []Argument
	for _, s := range in {
		a, err := ParseArgument(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

func FuzzBundle(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`{"owner":"a","resources":[{"tenant":{"name":"x"}}]}`))
	f.Add([]byte("resources: [{route_plugin_config: {payload: &p {a: *p}}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Bundle("f", data)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := YAML(&out, b); err != nil {
			t.Fatal(err)
		}
		again, err := Bundle("f", out.Bytes())
		if err != nil {
			t.Fatalf("what was written is not read: %v\n%s", err, out.String())
		}
		if d := cmp.Diff(b, again, protocmp.Transform()); d != "" {
			t.Fatalf("differs:\n%s", d)
		}
	})
}
