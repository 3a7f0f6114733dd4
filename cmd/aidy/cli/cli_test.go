package cli

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"
	"go.uber.org/goleak"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/devstate"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/document"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	// The environment of whoever runs the tests says nothing about the tests.
	for _, name := range []string{"AIDY_ADMIN_URL", "AIDY_ADMIN_TOKEN", "AIDY_DIR", "AIDY_TENANT", "AIDY_DATABASE_URL"} {
		_ = os.Unsetenv(name)
	}
	_ = os.Setenv("COLUMNS", "100")
	flag.Parse()
	goleak.VerifyTestMain(m)
}

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"", "dev", "migrate", "migrate up", "migrate status", "apply", "export", "get", "create", "delete",
		"keys", "keys create", "keys list", "keys rotate", "keys revoke", "keys disable", "keys enable",
		"nodes", "nodes list", "nodes get", "nodes join-token", "nodes revoke", "seed", "version", "completion",
	} {
		t.Run(orElse(path, "aidy"), func(t *testing.T) {
			t.Parallel()
			o := run(t, nil, "", append(strings.Fields(path), "--help")...)
			if o.code != ExitOK {
				t.Fatalf("exit code %d: %s", o.code, o.errout)
			}
			if path != "" && !strings.Contains(o.out, "aidy "+path) {
				t.Errorf("no example of the command in\n%s", o.out)
			}
			if path != "" && !strings.Contains(o.out, "Example") && !strings.Contains(o.out, "Examples:") {
				t.Errorf("no examples in\n%s", o.out)
			}
			golden(t, filepath.Join("help", strings.ReplaceAll(orElse(path, "aidy"), " ", "-")+".txt"), o.out)
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test -update writes it anew. Got\n%s", path, got)
	}
}

func TestExitCodesTellUsageFromFailure(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args string
		code int
		err  string
	}{
		{"version", ExitOK, ""},
		{"--help", ExitOK, ""},
		{"frobnicate", ExitUsage, "unexpected argument frobnicate"},
		{"get", ExitUsage, "expected"},
		{"get tenants -o xml", ExitUsage, "must be one of"},
		{"get zebra", ExitUsage, `there is no kind "zebra"; expected one of tenant, project`},
		{"get upsteams", ExitUsage, "did you mean upstreams?"},
		{"apply", ExitUsage, "--file"},
		{"seed", ExitUsage, "--profile dev, demo or mock"},
		{"seed --profile dev --seed-file x", ExitUsage, "can't be used together"},
		{"keys rotate k --overlap 200h", ExitUsage, "--overlap"},
		{"nodes join-token --ttl 48h", ExitUsage, "--ttl"},
		{"migrate up", ExitUsage, "AIDY_DATABASE_URL"},
		{"create tenant", ExitUsage, "give the fields of the tenant"},
		{"create tenant nam=x", ExitUsage, "did you mean name?"},
		{"apply -f /does/not/exist", ExitError, "no such file"},
		{"--dir /does/not/exist get tenants", ExitError, "start one with `aidy dev`"},
		{"--admin-url ftp://x --token y get tenants", ExitUsage, "--admin-url"},
		{"--admin-url http://127.0.0.1:1 get tenants", ExitError, "no token for http://127.0.0.1:1"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			t.Parallel()
			o := run(t, new(fakeAdmin).transport(), "", strings.Fields(tc.args)...)
			if o.code != tc.code {
				t.Errorf("exit code %d, want %d", o.code, tc.code)
			}
			if !strings.Contains(o.errout, tc.err) {
				t.Errorf("error\n%s\nlacks %q", o.errout, tc.err)
			}
		})
	}
}

func TestErrorsOfTheAPISayWhatAndWhereAndWhatNext(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		err  *connect.Error
		want []string
	}{
		{"violations", refusedFields(), []string{
			"aidy: invalid_argument: 2 fields are not valid\n",
			"  Upstream local: weight: at most 10000 (int32.lte)\n",
			"  Route main: path_prefix: begin it with /\n",
		}},
		{
			"referrers", failure(connect.CodeFailedPrecondition, "it is in use", &adminv1.ErrorInfo{Referrers: []string{"upstream/main/upr_1"}}),
			[]string{"still named by upstream/main/upr_1"},
		},
		{"confirm", failure(connect.CodeFailedPrecondition, "dangerous", &adminv1.ErrorInfo{Confirm: []string{"MASS_DELETE"}}), []string{"--confirm MASS_DELETE"}},
		{"permission", failure(connect.CodePermissionDenied, "not allowed", &adminv1.ErrorInfo{Permission: "resources.write"}), []string{"missing permission: resources.write"}},
		{"limit", failure(connect.CodeResourceExhausted, "too large", &adminv1.ErrorInfo{Limit: "shard_bytes", Value: 9, Max: 4}), []string{"limit shard_bytes: 9, at most 4"}},
		{"moved", failure(connect.CodeAborted, "changed", &adminv1.ErrorInfo{CurrentEtag: "e2", CurrentGeneration: 12}), []string{"etag is now e2", "generation 12"}},
		{"busy", failure(connect.CodeUnavailable, "busy", &adminv1.ErrorInfo{RetryAfterMs: 250}), []string{"try again in 250 ms"}},
		{"token", connect.NewError(connect.CodeUnauthenticated, "unknown token"), []string{"AIDY_ADMIN_TOKEN"}},
		{"down", connect.NewError(connect.CodeUnavailable, "connection refused"), []string{"is the control plane running"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := &fakeAdmin{fail: tc.err}
			f.aidy(t, "", "get", "tenants").want(t, ExitError, nil, tc.want)
		})
	}
	if got := explain(errors.New("a\nb")); len(got) != 2 {
		t.Errorf("lines of a joined error: %q", got)
	}
}

func TestTheTokenOfDevGoesToItsOwnAddressAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := devstate.Write(filepath.Join(dir, devstate.File), devstate.State{AdminURL: "http://127.0.0.1:8081", AdminToken: "dev-token"}); err != nil {
		t.Fatal(err)
	}
	f := new(fakeAdmin)
	run(t, f.transport(), "", "--dir", dir, "get", "tenants").want(t, ExitOK, nil, nil)
	if f.auth[0] != "Bearer dev-token" {
		t.Errorf("sent %q", f.auth[0])
	}
	run(t, f.transport(), "", "--dir", dir, "--admin-url", "http://127.0.0.1:8081/", "get", "tenants").want(t, ExitOK, nil, nil)
	run(t, f.transport(), "", "--dir", dir, "--admin-url", "http://127.0.0.1:9999", "get", "tenants").want(t, ExitError, nil, []string{"no token"})
	run(t, f.transport(), "", "--admin-url", "http://control.example", "--token", "x", "get", "tenants").want(t, ExitOK, nil, []string{"clear text"})
}

func TestADamagedDevFileIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, devstate.File), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, nil, "", "--dir", dir, "get", "tenants").want(t, ExitError, nil, []string{"dev.json", "writes it anew"})
}

func TestVersionIsPrintedInEveryForm(t *testing.T) {
	t.Parallel()
	run(t, nil, "", "version").want(t, ExitOK, []string{"aidy ", "go1."}, nil)
	run(t, nil, "", "version", "-o", "yaml").want(t, ExitOK, []string{"program: aidy"}, nil)
	var v map[string]string
	if err := json.Unmarshal([]byte(run(t, nil, "", "version", "-o", "json").out), &v); err != nil || v["program"] != "aidy" {
		t.Errorf("%v %v", v, err)
	}
}

func TestABundleIsAppliedAsItStands(t *testing.T) {
	t.Parallel()
	f := new(fakeAdmin)
	in := "owner: me\nresources: [{tenant: {name: dev}}]\n"
	f.aidy(t, in, "apply", "-f", "-", "--prune", "-m", "why", "--wait", "--wait-timeout", "5s", "--confirm", "MASS_DELETE").want(t, ExitOK,
		[]string{"+ Tenant dev\n", "~ Upstream local weight: 1 -> 2\n", "- Route old\n", "1 created, 0 updated, 0 deleted, 0 unchanged in generation 7\n"},
		[]string{"warning SINGLE_POINT: model gpt-5 has one candidate", "gains models: gpt-5", "nodes: 1 run it, 0 pending, 0 refused", "waiting up to 5s"})
	req := f.applied[0]
	if !req.GetPrune() || req.GetBundle().GetOwner() != "me" || req.GetChange().GetMessage() != "why" ||
		req.GetChange().GetWait().GetTimeoutMs() != 5000 || req.GetChange().GetConfirm()[0] != "MASS_DELETE" {
		t.Errorf("sent %v", req)
	}
	f.aidy(t, in, "apply", "-f", "-", "--dry-run").want(t, ExitOK, []string{"nothing was stored"}, nil)
	f.aidy(t, in, "apply", "-f", "-", "--validate-only", "-o", "json").want(t, ExitOK, []string{`"validated_only": true`}, nil)
	f.aidy(t, "resources: [{tenant: {nam: x}}]", "apply", "-f", "-").want(t, ExitError, nil, []string{"standard input:1: resources[0].tenant.nam", "did you mean name?"})
	f.aidy(t, "resources: [{tenant: {name: x}}]", "apply", "-f", "-", "--prune").want(t, ExitUsage, nil, []string{"owner"})
	f.aidy(t, "", "apply", "-f", "-").want(t, ExitError, nil, []string{"names no resource"})
}

func TestAnExportIsWhatApplyTakes(t *testing.T) {
	t.Parallel()
	f := new(fakeAdmin)
	for _, form := range []string{"table", "yaml", "json"} {
		o := f.aidy(t, "", "export", "-o", form)
		o.want(t, ExitOK, nil, []string{"1 resources of generation 7"})
		b, err := document.Bundle(form, []byte(o.out))
		if err != nil || b.GetResources()[0].GetTenant().GetName() != "dev" {
			t.Errorf("%s: %v %v", form, b, err)
		}
	}
}

func TestEveryProfileCanBeSeeded(t *testing.T) {
	t.Parallel()
	f := new(fakeAdmin)
	tenant := f.add(&configv1.Tenant{Name: "dev"})
	f.add(&configv1.Consumer{Name: "developer", TenantId: tenant})
	f.aidy(t, "", "seed", "--profile", "dev", "--base-url", "http://127.0.0.1:7").want(t, ExitOK, []string{"dev/developer sk-aidy-secret"}, nil)
	if got := f.applied[0].GetBundle().GetResources()[1].GetProvider().GetCapabilities()[0].GetBaseUrl(); got != "http://127.0.0.1:7/v1" {
		t.Errorf("the provider is at %s", got)
	}
	f.aidy(t, "", "seed", "--profile", "dev", "--base-url", "http://127.0.0.1:7").want(t, ExitOK, nil, []string{"has a key dev already"})
	f.aidy(t, "", "--dir", t.TempDir(), "seed", "--profile", "dev").want(t, ExitUsage, nil, []string{"--base-url"})
	f.aidy(t, "", "seed", "--profile", "mock", "--base-url", "http://x/v1").want(t, ExitError, nil, []string{"without a path"})
	f.aidy(t, "owner: a\nresources: [{tenant: {name: x}}]", "seed", "--seed-file", "-").want(t, ExitOK, []string{"1 created"}, nil)
	o := f.aidy(t, "", "seed", "--profile", "demo", "--print")
	if _, err := document.Bundle("demo", []byte(o.out)); err != nil || o.code != ExitOK {
		t.Errorf("printed seed: %v", err)
	}
}
