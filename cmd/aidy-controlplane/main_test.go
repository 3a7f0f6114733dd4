package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aidy-gateway/aidy-gateway/cmd/internal/service"
	"github.com/aidy-gateway/aidy-gateway/controlplane"
	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg/pgtest"
	"github.com/aidy-gateway/aidy-gateway/migrations"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// The database is empty: who prepares it is part of what is tested.
var pg = pgtest.New(nil)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pg.Around(m)) }

// buffer may be written while it is read.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func start(signals chan os.Signal, environ []string, args ...string) (code int, out, errout string) {
	var o, e buffer
	code = service.Main(program(), service.Env{Stdout: &o, Stderr: &e, Environ: environ, Signals: signals}, args)
	return code, o.String(), e.String()
}

func TestSecretsAreRedactedAndSettingsOfNodesMayStandBeside(t *testing.T) {
	t.Parallel()
	code, out, errout := start(nil, []string{
		"AIDY_DATABASE_URL=postgres://u:very-secret@db/aidy", "AIDY_ROOT_KEY=very-secret", "AIDY_BOOTSTRAP_TOKEN=very-secret",
		"AIDY_CONTROL_PLANE_JOIN_TOKEN=jt", "AIDY_SECRET_OPENAI=sk", "AIDY_DATA_DIR=/x", "AIDY_INFERENCE_ADDR=:1",
	}, "--print-config")
	if code != service.ExitOK {
		t.Fatalf("exit code %d: %s", code, errout)
	}
	if strings.Contains(out, "very-secret") || !strings.Contains(out, `url: "[redacted]" # environment`) {
		t.Errorf("printed\n%s", out)
	}
}

func TestWithoutADatabaseItSaysWhichSettingIsMissing(t *testing.T) {
	t.Parallel()
	code, _, errout := start(nil, nil)
	if code != service.ExitUsage || !strings.Contains(errout, "database.url") {
		t.Errorf("exit code %d: %s", code, errout)
	}
}

func TestADatabaseOfAnotherReleaseIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, _, errout := start(make(chan os.Signal, 2), []string{"AIDY_DATABASE_URL=" + pg.URL(t)}, flags(dir)...)
	if code != service.ExitError || !strings.Contains(errout, "aidy migrate up") {
		t.Errorf("exit code %d: %s", code, errout)
	}
}

func flags(dir string) []string {
	return []string{
		"--root-key-file", filepath.Join(dir, "root.key"), "--bootstrap-token-file", filepath.Join(dir, "owner.token"),
		"--admin-addr=127.0.0.1:0", "--sync-addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0", "--log.level=disabled", "--drain=5s",
	}
}

func TestASignalEndsItInGoodOrder(t *testing.T) {
	t.Parallel()
	url, dir := pg.URL(t), t.TempDir()
	if err := migrations.Up(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	// The port is free when it is chosen; who takes it until it is used fails the test.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ops := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	signals, done := make(chan os.Signal, 2), make(chan int, 1)
	args := append(flags(dir), "--config", filepath.Join(dir, "c.yaml"))
	if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte("sync_hosts: [control.example]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, a := range args {
		if strings.HasPrefix(a, "--ops-addr") {
			args[i] = "--ops-addr=" + ops
		}
	}
	go func() {
		code, _, errout := start(signals, []string{"AIDY_DATABASE_URL=" + url}, args...)
		if errout != "" {
			t.Errorf("it said %s", errout)
		}
		done <- code
	}()
	waitReady(t, "http://"+ops+"/readyz", done)
	signals <- syscall.SIGTERM
	select {
	case code := <-done:
		if code != service.ExitOK {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(time.Minute):
		t.Fatal("it did not stop")
	}
	if _, err := os.Stat(filepath.Join(dir, "owner.token")); err != nil {
		t.Errorf("the first owner's token: %v", err)
	}
}

// waitReady asks until the answer is 200, for a minute at most.
func waitReady(t *testing.T, url string, done chan int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); ; {
		if res, err := client.Get(url); err == nil {
			var body map[string]any
			derr := json.NewDecoder(res.Body).Decode(&body)
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK && derr == nil {
				return
			}
		}
		select {
		case code := <-done:
			t.Fatalf("it ended with %d", code)
		case <-limit:
			t.Fatal("it is not ready")
		case <-tick.C:
		}
	}
}

func TestTheFirstStartMakesTheFoldersOfItsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := controlplane.Config{RootKeyFile: filepath.Join(dir, "a", "b", "root.key"), BootstrapTokenFile: filepath.Join(dir, "c", "token")}
	if err := makeFolders(cfg); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "a", "b"), filepath.Join(dir, "c")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", path, info, err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.RootKeyFile = filepath.Join(file, "root.key")
	if err := makeFolders(cfg); err == nil || !strings.Contains(err.Error(), "root_key_file") {
		t.Errorf("a folder that cannot be made: %v", err)
	}
	cfg.RootKey = secret.New("AAAA")
	if err := makeFolders(cfg); err != nil {
		t.Errorf("a file that is not used: %v", err)
	}
}
