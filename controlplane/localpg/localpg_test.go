package localpg_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

// childVariable makes the test binary play a parent process that can be killed:
// it starts a server in the named folder, says so, and waits.
const childVariable = "LOCALPG_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		playParent(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func playParent(dir string) {
	s, err := localpg.New(localpg.Config{Dir: dir}, zerolog.Nop())
	if err == nil {
		var url string
		if url, err = s.Start(context.Background()); err == nil {
			fmt.Println(s.PID(), url)
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
			err = s.Stop(context.Background())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// folder returns a folder the server's account can enter, which t.TempDir is
// not.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "aidy-localpg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func start(t *testing.T, cfg localpg.Config) (*localpg.Server, string) {
	t.Helper()
	s, err := localpg.New(cfg, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	url, err := s.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s, url
}

func query(t *testing.T, url, sql string) string {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var got string
	if err := conn.QueryRow(ctx, sql).Scan(&got); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

func TestDataSurviveStopAndStart(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s, url := start(t, localpg.Config{Dir: dir, Fsync: true})
	query(t, url, "CREATE TABLE kept AS SELECT 42 AS n")
	if got := query(t, url, "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %s, want on", got)
	}
	if got := query(t, url, "SHOW listen_addresses"); got != "" {
		t.Errorf("listens on %q, want no TCP at all", got)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Errorf("second Stop: %v", err)
	}

	_, url = start(t, localpg.Config{Dir: dir})
	if got := query(t, url, "SELECT n::text FROM kept"); got != "42" {
		t.Errorf("read %q after a restart, want 42", got)
	}
}

func TestASecondServerOnTheFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	first, url := start(t, localpg.Config{Dir: dir})
	second, err := localpg.New(localpg.Config{Dir: dir}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	_, err = second.Start(context.Background())
	inUse, ok := errors.AsType[*localpg.InUseError](err)
	if !ok || inUse.PID != os.Getpid() {
		t.Errorf("second start gave %v, want InUseError with our pid %d", err, os.Getpid())
	}
	if got := query(t, url, "SELECT 'alive'"); got != "alive" || first.PID() == 0 {
		t.Error("the refused start disturbed the running server")
	}
}

// A parent that is killed takes its server along, and what it had committed is
// there at the next start.
func TestAKilledParentLeavesNoServerAndNoLoss(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), childVariable+"="+dir)
	parent.Stderr = os.Stderr
	stdin, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pidText, url, _ := strings.Cut(strings.TrimSpace(line), " ")
	serverPID, _ := strconv.Atoi(pidText)
	query(t, url, "CREATE TABLE kept AS SELECT 'committed' AS v")
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()

	_, url = start(t, localpg.Config{Dir: dir}) // waits for the dying server's lock
	if err := syscall.Kill(serverPID, 0); err == nil {
		if cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", serverPID)); !strings.Contains(string(cmdline), "zombie") {
			t.Errorf("server %d of the killed parent still runs", serverPID)
		}
	}
	if got := query(t, url, "SELECT v FROM kept"); got != "committed" {
		t.Errorf("read %q after the crash, want the committed row", got)
	}
}

// Containers reuse pids: a pid file left by a crash may name a live process that
// has nothing to do with PostgreSQL.
func TestAStalePidFileWithAReusedPidIsNoObstacle(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s, _ := start(t, localpg.Config{Dir: dir})
	home := s.Home()
	if err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(home, "data", "postmaster.pid")
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, _ = start(t, localpg.Config{Dir: dir})
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := strings.Cut(string(text), "\n"); got != strconv.Itoa(s.PID()) {
		t.Errorf("pid file names %s, want our child %d", got, s.PID())
	}
}

func TestAServerThatDoesNotStartShowsItsLog(t *testing.T) {
	t.Parallel()
	s, err := localpg.New(localpg.Config{Dir: folder(t), Settings: map[string]string{"no_such_setting": "1"}}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Start(context.Background())
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("error %v, want one that carries the server's own words", err)
	}
	if s.PID() != 0 {
		t.Error("a server is left after a failed start")
	}
}

func TestMissingBinariesSayHowToGetThem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, version string
		want          []string
	}{
		{"none", "", []string{"no PostgreSQL server binaries", "apt-get install postgresql", "AIDY_DATABASE_URL"}},
		{"too old", "13.9", []string{"PostgreSQL 13 only", "14 or newer"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bin := t.TempDir()
			if tc.version != "" {
				script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + tc.version + "'\n"
				for _, name := range []string{"initdb", "postgres"} {
					if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
			s, err := localpg.New(localpg.Config{Dir: folder(t), BinDir: bin}, zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Start(context.Background())
			if _, ok := errors.AsType[*localpg.NotInstalledError](err); !ok {
				t.Fatalf("error %v, want NotInstalledError", err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestALongFolderNameStillGetsASocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), strings.Repeat("long-name-", 10))
	s, url := start(t, localpg.Config{Dir: dir})
	if got := query(t, url, "SELECT 'ok'"); got != "ok" {
		t.Errorf("read %q", got)
	}
	conn, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(conn.Host); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the short socket folder %s is left behind", conn.Host)
	}
}

func TestAFolderTheServersAccountCannotEnterIsReplacedAndRecorded(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs the server as another account")
	}
	closed := folder(t)
	private := filepath.Join(closed, "home")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(private, "project", ".aidy")
	s, url := start(t, localpg.Config{Dir: dir})
	home := s.Home()
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	query(t, url, "CREATE TABLE kept AS SELECT 'here' AS v")
	if err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	location, err := os.ReadFile(filepath.Join(dir, "location"))
	if err != nil {
		t.Fatal(err)
	}
	if home == dir || strings.TrimSpace(string(location)) != home {
		t.Errorf("lives in %s and records %q, want another folder, recorded", home, location)
	}
	info, err := os.Stat(filepath.Join(home, "data"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("data folder has mode %v, want 0700", info.Mode())
	}

	again, url := start(t, localpg.Config{Dir: dir})
	if again.Home() != home || query(t, url, "SELECT v FROM kept") != "here" {
		t.Error("a second start of the same project did not find its data")
	}
}

func TestStartIsBoundedByItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s, err := localpg.New(localpg.Config{Dir: folder(t)}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("start under an ended context gave %v, want context.Canceled", err)
	}
}
