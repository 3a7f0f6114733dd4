package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// seeded is a control plane with a few resources.
func seeded() *fakeAdmin {
	f := new(fakeAdmin)
	dev, other := f.add(&configv1.Tenant{Name: "dev"}), f.add(&configv1.Tenant{Name: "other", Suspended: true})
	provider := f.add(&configv1.Provider{Name: "openai", Capabilities: []*configv1.Capability{
		{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "https://api.example/v1"},
		{Protocol: configv1.Protocol_PROTOCOL_OPENAI_RESPONSES, BaseUrl: "https://api.example/v1"},
	}})
	group := f.add(&configv1.Group{Name: "default", TenantId: dev})
	first := f.add(&configv1.Upstream{Name: "main", TenantId: dev, ProviderId: provider, GroupId: group, Priority: 5})
	f.add(&configv1.Upstream{Name: "main", TenantId: other, ProviderId: provider, Disabled: true})
	f.add(&configv1.UpstreamModel{Model: "gpt-5", TenantId: dev, UpstreamId: first, Features: []configv1.Feature{configv1.Feature_FEATURE_TOOLS}})
	consumer := f.add(&configv1.Consumer{Name: "team", TenantId: dev})
	f.add(&configv1.ConsumerAPIKey{
		Name: "laptop", TenantId: dev, ConsumerId: consumer, Hint: "sk-aidy-ab",
		ExpireTime: timestamppb.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	})
	f.add(&configv1.Route{Name: "main", TenantId: dev, PathPrefix: "/", ConsumerApiKeys: true, JwtIssuers: []string{"x"}})
	return f
}

func TestTablesShowNamesAndStates(t *testing.T) {
	t.Parallel()
	f := seeded()
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"get", "tenants"}, []string{"NAME", "STATE", "dev    active", "other  suspended"}},
		{[]string{"get", "provider"}, []string{"openai_chat,openai_responses"}},
		{[]string{"get", "ups", "-t", "dev"}, []string{"main  dev     openai    default  5"}},
		{[]string{"get", "models", "-p", "main", "-t", "dev"}, []string{"gpt-5", "tools"}},
		{[]string{"get", "routes"}, []string{"keys,jwt"}},
		{[]string{"keys", "list", "-c", "team"}, []string{"laptop", "expired", "sk-aidy-ab", "2026-01-01T00:00:00Z"}},
	} {
		f.aidy(t, "", tc.args...).want(t, ExitOK, tc.want, nil)
	}
}

func TestOneResourceIsShownWhole(t *testing.T) {
	t.Parallel()
	f := seeded()
	f.aidy(t, "", "get", "provider", "openai").want(t, ExitOK, []string{"name: openai\n", "  - protocol: openai_chat\n    base_url: https://api.example/v1\n"}, nil)
	f.aidy(t, "", "get", "provider", "openai", "-o", "json").want(t, ExitOK, []string{`"protocol": "PROTOCOL_OPENAI_CHAT"`}, nil)
	f.aidy(t, "", "get", "upstream", "main").want(t, ExitError, nil, []string{"2 upstreams are named \"main\"", "--tenant", "upr_"})
	f.aidy(t, "", "get", "upstream", "main", "-t", "dev").want(t, ExitOK, []string{"priority: 5"}, nil)
	f.aidy(t, "", "get", "upstream", "none").want(t, ExitError, nil, []string{`there is no upstream "none"`, "aidy get upstreams"})
	f.aidy(t, "", "get", "upstream", ident.New(ident.Upstream)).want(t, ExitError, nil, []string{"not_found"})
	f.aidy(t, "", "get", "model", "gpt-5").want(t, ExitOK, []string{"model: gpt-5"}, nil)
	f.aidy(t, "", "get", "tenant", "dev", "-p", "x").want(t, ExitUsage, nil, []string{"--parent"})
}

func TestListsReadEveryPage(t *testing.T) {
	t.Parallel()
	f := &fakeAdmin{pageSize: 7}
	for i := range 30 {
		f.add(&configv1.Tenant{Name: fmt.Sprintf("t-%02d", i)})
	}
	o := f.aidy(t, "", "get", "tenants", "-o", "json")
	var got []map[string]any
	if err := json.Unmarshal([]byte(o.out), &got); err != nil || len(got) != 30 {
		t.Fatalf("%d tenants, %v", len(got), err)
	}
	if n := strings.Count(f.aidy(t, "", "get", "tenants", "-o", "yaml").out, "---\n"); n != 29 {
		t.Errorf("%d separators in YAML, want 29", n)
	}
	if n := strings.Count(f.aidy(t, "", "get", "tenants").out, "\n"); n != 31 {
		t.Errorf("%d lines in the table, want 31", n)
	}
	o = f.aidy(t, "", "get", "tenants", "--limit", "3")
	o.want(t, ExitOK, nil, []string{"more than 3"})
	if n := strings.Count(o.out, "t-"); n != 3 {
		t.Errorf("%d tenants, want 3", n)
	}
	f.aidy(t, "", "get", "routes", "-o", "json").want(t, ExitOK, []string{"[]\n"}, nil)
	f.aidy(t, "", "get", "routes").want(t, ExitOK, nil, []string{"no routes"})
}

func TestCreateTakesNamesForIds(t *testing.T) {
	t.Parallel()
	f := seeded()
	secret := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(secret, []byte("sk-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.aidy(t, "", "create", "credential", "-t", "dev", "upstream_id=main", "name=a", "secret=@"+secret, "priority=2").
		want(t, ExitOK, []string{"created upstream-credential a (crd_"}, nil)
	made := f.rows["UpstreamCredential"][0].(*configv1.UpstreamCredential)
	if made.GetUpstreamId() != resource.ID(f.rows["Upstream"][0]) || made.GetTenantId() != resource.ID(f.rows["Tenant"][0]) {
		t.Errorf("made %v", made)
	}
	if made.GetSecret() != "sk-file" || made.GetPriority() != 2 {
		t.Errorf("made %v", made)
	}
	f.aidy(t, "name: b\ntenant_id: dev\nupstream_id: main\n", "create", "credential", "-f", "-", "labels.team=x", "secret=@@at").
		want(t, ExitOK, []string{"created upstream-credential b"}, nil)
	if made := f.rows["UpstreamCredential"][1].(*configv1.UpstreamCredential); made.GetSecret() != "@at" || made.GetLabels()["team"] != "x" {
		t.Errorf("made %v", made)
	}
	f.aidy(t, "", "create", "upstream", "-t", "dev", "name=x", "provider_id=openia", "group_id=default").
		want(t, ExitError, nil, []string{`provider_id: there is no provider "openia"`})
	f.aidy(t, "name: a\n---\nname: b\n", "create", "tenant", "-f", "-").want(t, ExitError, nil, []string{"2 documents", "apply takes several"})
}

func TestDeleteFindsByName(t *testing.T) {
	t.Parallel()
	f := seeded()
	f.aidy(t, "", "delete", "upstream", "main", "-t", "dev", "-m", "gone").want(t, ExitOK, []string{"deleted upstream main (upr_"}, nil)
	if n := len(f.rows["Upstream"]); n != 1 {
		t.Errorf("%d upstreams are left, want 1", n)
	}
}

func TestSecretsOfKeysGoToStandardOutputAlone(t *testing.T) {
	t.Parallel()
	f := seeded()
	o := f.aidy(t, "", "keys", "create", "ci", "-c", "team", "--scope", "chat,models", "--expires-in", "24h", "--model", "gpt-*")
	o.want(t, ExitOK, nil, []string{"created consumer-api-key ci (key_", "shown this once"})
	if o.out != "sk-aidy-secret\n" {
		t.Errorf("standard output is %q", o.out)
	}
	key := f.rows["ConsumerAPIKey"][1].(*configv1.ConsumerAPIKey)
	if d := cmp.Diff([]configv1.Scope{configv1.Scope_SCOPE_CHAT, configv1.Scope_SCOPE_MODELS}, key.GetScopes()); d != "" {
		t.Errorf("scopes differ: %s", d)
	}
	if !key.GetExpireTime().AsTime().Equal(time.Date(2026, 6, 2, 12, 0, 0, 0, time.UTC)) || key.GetAllowedModels().GetNames()[0] != "gpt-*" {
		t.Errorf("made %v", key)
	}
	if o := f.aidy(t, "", "keys", "rotate", "laptop", "-c", "team", "--overlap", "1h"); o.out != "sk-aidy-next\n" || o.code != ExitOK {
		t.Errorf("rotation printed %q %s", o.out, o.errout)
	}
	for _, verb := range []string{"revoke", "disable", "enable"} {
		f.aidy(t, "", "keys", verb, "laptop").want(t, ExitOK, []string{verb, "laptop (key_"}, nil)
	}
	f.aidy(t, "", "keys", "create", "ci", "-c", "team", "--scope", "everything").want(t, ExitUsage, nil, []string{"--scope", "none of inference"})
}

func TestNodesAreListedAndJoin(t *testing.T) {
	t.Parallel()
	f := new(fakeAdmin)
	f.aidy(t, "", "nodes", "list").want(t, ExitOK, nil, []string{"no nodes"})
	f.nodes = []*adminv1.Node{{
		Id: ident.New(ident.Node), Name: "edge", State: adminv1.NodeState_NODE_STATE_SYNCING, Version: "v1",
		Views: []*adminv1.NodeView{{View: syncv1.View_VIEW_STABLE, Running: &syncv1.Position{Generation: 4}, Target: &syncv1.Position{Generation: 5}}},
	}}
	f.aidy(t, "", "nodes", "list").want(t, ExitOK, []string{"edge  syncing  v1       4        5"}, nil)
	f.aidy(t, "", "nodes", "get", "edge").want(t, ExitOK, []string{"name: edge"}, nil)
	f.aidy(t, "", "nodes", "get", "none").want(t, ExitError, nil, []string{"there is no node"})
	f.aidy(t, "", "nodes", "revoke", "edge").want(t, ExitOK, []string{"revoked node nod_"}, nil)
	if o := f.aidy(t, "", "nodes", "join-token", "-l", "zone=a"); o.out != "jt_1_secret_hash\n" {
		t.Errorf("join-token printed %q", o.out)
	}
}

func TestEveryKindOfTheContractHasWordsAndColumnsThatExist(t *testing.T) {
	t.Parallel()
	kinds, err := resource.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	if len(kinds) != 19 {
		t.Errorf("%d kinds, want 19", len(kinds))
	}
	seen := map[string]string{}
	for _, k := range kinds {
		for _, w := range append([]string{k.Name, k.Plural}, k.Aliases...) {
			if other, again := seen[w]; again && other != k.Name {
				t.Errorf("%q means %s and %s", w, other, k.Name)
			}
			seen[w] = k.Name
			if found, err := resource.Find(kinds, w); err != nil || found != k {
				t.Errorf("%q is not found", w)
			}
		}
		for _, c := range k.Columns {
			if c.Path == "state" || c.Path == "auth" {
				continue
			}
			d := k.New().ProtoReflect().Descriptor()
			for part := range strings.SplitSeq(c.Path, ".") {
				fd := d.Fields().ByName(protoName(part))
				if fd == nil {
					t.Errorf("%s: column %s names no field", k.Name, c.Path)
					break
				}
				if fd.Message() != nil {
					d = fd.Message()
				}
			}
		}
		if k.ParentField != "" && k.New().ProtoReflect().Descriptor().Fields().ByName(protoName(k.ParentField)) == nil {
			t.Errorf("%s has no parent %s", k.Name, k.ParentField)
		}
	}
}

func TestControlCharactersDoNotReachTheTerminal(t *testing.T) {
	t.Parallel()
	f := new(fakeAdmin)
	f.add(&configv1.UpstreamModel{Model: "a\x1b[31mb\tc"})
	if o := f.aidy(t, "", "get", "models"); strings.ContainsAny(o.out, "\x1b\t") {
		t.Errorf("printed %q", o.out)
	}
}

func TestMoneyIsWrittenInFull(t *testing.T) {
	t.Parallel()
	for nanos, want := range map[int64]string{
		0: "0.00", 1: "0.000000001", 500_000_000_000: "500.00", -1_250_000_000: "-1.25", 1_234_567_890: "1.23456789",
		-9223372036854775808: "-9223372036.854775808",
	} {
		if got := resource.Decimal(nanos); got != want {
			t.Errorf("%d nanos are %s, want %s", nanos, got, want)
		}
	}
}

func TestCompletionScriptsComplete(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		o := run(t, nil, "", "completion", shell)
		o.want(t, ExitOK, []string{"keys create", "upstream-credential", "--admin-url"}, nil)
		golden(t, filepath.Join("completion", shell), o.out)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal("bash is needed to try its script: apt-get install bash")
	}
	script := run(t, nil, "", "completion", "bash").out + `
try() { COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _aidy; echo "${COMPREPLY[*]}"; }
try aidy ke
try aidy keys r
try aidy -o json keys create --sc
try aidy get jwt
try aidy completion f
`
	out, err := exec.CommandContext(t.Context(), bash, "--norc", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := "keys\nrotate revoke\n--scope\njwt-issuer jwt-issuers\nfish\n"
	if string(out) != want {
		t.Errorf("completed\n%s\nwant\n%s", out, want)
	}
}
