//go:build clients

package clients

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// lock is what has to be installed.
//
//go:embed package-lock.json
var lock []byte

// scripts use the SDKs.
//
//go:embed sdk/*.mjs
var scripts embed.FS

// programs are the clients as `make test-clients` installed them.
type programs struct {
	node    string // path of Node.js
	modules string // path of node_modules
}

// installed finds the programs. Without them the test is skipped, or fails where
// AIDY_CLIENTS_REQUIRED is set, as make sets it.
func installed(t *testing.T) *programs {
	t.Helper()
	p, err := findPrograms()
	if err == nil {
		return p
	}
	if os.Getenv("AIDY_CLIENTS_REQUIRED") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
	return nil
}

func findPrograms() (*programs, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, errors.New("Node.js is not installed: no program node in PATH")
	}
	dir := os.Getenv("AIDY_CLIENTS_DIR")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find the folder of the clients: %w; set AIDY_CLIENTS_DIR", err)
		}
		dir = filepath.Join(cache, "aidy-clients")
	}
	have, err := os.ReadFile(filepath.Join(dir, "installed.json"))
	if err != nil || !bytes.Equal(have, lock) {
		return nil, fmt.Errorf("the clients that package-lock.json names are not in %s: run make test-clients, which installs them", dir)
	}
	return &programs{node: node, modules: filepath.Join(dir, "node_modules")}, nil
}

// scriptFolder writes the scripts to a place from which they find their packages.
func (p *programs) scriptFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, scripts); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(p.modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "sdk")
}

// process is a program that is run to its end.
type process struct {
	argv  []string
	dir   string
	env   []string  // added to the environment that every client gets
	input io.Reader // nil is empty
	limit time.Duration
}

// run gives the standard output. It fails if the program does not end well within its
// time; what it wrote to standard error is in the error.
func (p process) run(t *testing.T) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), p.limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Dir = p.dir
	cmd.Env = append(bareEnvironment(t), p.env...)
	cmd.Stdin = p.input
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	// Whatever a client started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("not at its end within %s: %w", p.limit, err)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w\nstandard output:\n%s\nstandard error:\n%s", filepath.Base(p.argv[0]), err, out.String(), said.String())
	}
	return out.String(), err
}

// bareEnvironment has a home of its own and nothing of the user's: no keys, no
// addresses, no settings. Proxies are told not to be asked, and those that are asked
// all the same are not there: a client that wants to reach another host fails.
func bareEnvironment(t *testing.T) []string {
	t.Helper()
	home := t.TempDir()
	const nowhere = "http://127.0.0.1:9"
	return []string{
		"HOME=" + home, "TMPDIR=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "CI=1",
		"HTTP_PROXY=" + nowhere, "HTTPS_PROXY=" + nowhere, "http_proxy=" + nowhere, "https_proxy=" + nowhere,
		"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost",
		"DO_NOT_TRACK=1", "NODE_NO_WARNINGS=1",
	}
}
