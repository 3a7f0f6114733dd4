package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/devstate"
)

// asProgram makes the test binary the program itself.
const asProgram = "AIDY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	for _, e := range os.Environ() {
		// Neither the vendors' keys nor the settings of whoever runs the tests.
		if !strings.HasPrefix(e, "AIDY_") && !strings.Contains(e, "_API_KEY=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, asProgram+"=1")
	return cmd
}

func TestExitCodesReachTheShell(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{"version": 0, "frobnicate": 2, "apply -f /does/not/exist": 1} {
		cmd := program(t, strings.Fields(args)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != want {
			t.Errorf("aidy %s: exit code %d (%v), want %d\n%s", args, cmd.ProcessState.ExitCode(), err, want, out)
		}
	}
}

// However it ends, no process of the product is left, and the next start has what the
// last one kept.
func TestNoProcessIsLeftHoweverItEnds(t *testing.T) {
	t.Parallel()
	root, err := os.MkdirTemp("", "aidy-main-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	dir := filepath.Join(root, ".aidy")
	var keys []string
	for _, end := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGTERM, 0}, {syscall.SIGKILL, -1}, {syscall.SIGINT, 0}} {
		const free = "127.0.0.1:0"
		cmd := program(t, "dev", "--dir", dir, "--inference-addr", free, "--admin-addr", free, "--sync-addr", free, "--ops-addr", free)
		var errout bytes.Buffer
		cmd.Stderr = &errout
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		hang := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
		ready := false
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if ready = strings.Contains(lines.Text(), "Ctrl-C stops it"); ready {
				break
			}
		}
		if !ready {
			_ = cmd.Wait()
			t.Fatalf("it did not become ready:\n%s", errout.String())
		}
		state, err := devstate.Read(filepath.Join(dir, devstate.File))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, state.APIKey)
		if len(left(t, dir)) < 2 {
			t.Errorf("processes are %q, expected the program and its database", left(t, dir))
		}
		if err := cmd.Process.Signal(end.signal); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		hang.Stop()
		if code := cmd.ProcessState.ExitCode(); code != end.code {
			t.Errorf("%s: exit code %d, want %d\n%s", end.signal, code, end.code, errout.String())
		}
		// After SIGKILL the kernel stops the database, which takes a moment.
		gone(t, dir)
		if res, err := http.Get(state.AdminURL); err == nil {
			_ = res.Body.Close()
			t.Errorf("%s: the admin API still answers", end.signal)
		}
	}
	if keys[0] == "" || keys[1] != keys[0] || keys[2] != keys[0] {
		t.Errorf("keys of three starts are %q, want one", keys)
	}
}

// left lists processes whose command line names a folder.
func left(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(line, []byte(dir)) {
			continue
		}
		if pid, _ := strconv.Atoi(strings.Split(f, "/")[2]); pid != os.Getpid() {
			out = append(out, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return out
}

// gone waits until no process of a folder is left, for half a minute at most.
func gone(t *testing.T, dir string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(30 * time.Second); len(left(t, dir)) > 0; {
		select {
		case <-limit:
			t.Fatalf("processes are left: %q", left(t, dir))
		case <-tick.C:
		}
	}
}
