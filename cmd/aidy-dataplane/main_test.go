package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/cmd/internal/service"
)

func start(t *testing.T, environ []string, args ...string) (code int, out, errout string) {
	t.Helper()
	var o, e bytes.Buffer
	code = service.Main(program(), service.Env{Stdout: &o, Stderr: &e, Environ: environ, Signals: make(chan os.Signal, 2)}, args)
	return code, o.String(), e.String()
}

func TestTheNodeLinksNoDatabaseDriver(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		for _, forbidden := range []string{"jackc/pgx", "lib/pq", "pressly/goose", "/controlplane", "/migrations"} {
			if strings.Contains(dep, forbidden) {
				t.Errorf("the node links %s", dep)
			}
		}
	}
}

func TestSettingsOfOtherProgramsMayStandBeside(t *testing.T) {
	t.Parallel()
	code, out, errout := start(t, []string{
		"AIDY_DATABASE_URL=x", "AIDY_SECRET_OPENAI=sk-very-secret", "AIDY_ADMIN_TOKEN=y", "AIDY_CONTROL_PLANE_JOIN_TOKEN=jt_very-secret",
	}, "--print-config")
	if code != service.ExitOK {
		t.Fatalf("exit code %d: %s", code, errout)
	}
	if strings.Contains(out, "very-secret") || !strings.Contains(out, "join_token: \"[redacted]\" # environment") {
		t.Errorf("printed\n%s", out)
	}
}

func TestWrongSettingsAreToldTogether(t *testing.T) {
	t.Parallel()
	code, _, errout := start(t, []string{"AIDY_DRIAN=1s"}, "--max-body=65MiB")
	if code != service.ExitUsage || !strings.Contains(errout, "AIDY_DRAIN") {
		t.Errorf("exit code %d: %s", code, errout)
	}
	if code, _, errout := start(t, nil, "--max-body=65MiB"); code != service.ExitUsage || !strings.Contains(errout, "max_body") {
		t.Errorf("exit code %d: %s", code, errout)
	}
}

func TestANodeThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errout := start(t, nil, "--data-dir", filepath.Join(file, "data"), "--inference-addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0", "--log.level=disabled")
	if code != service.ExitError || !strings.Contains(errout, file) {
		t.Errorf("a data directory that cannot be made: exit code %d: %s", code, errout)
	}
}

func TestANodeWithoutANameTakesItsHosts(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	if got := hostName(); got == "" || len(got) > longestName || !strings.HasPrefix(host, got) {
		t.Errorf("the host %q gives the name %q", host, got)
	}
}
