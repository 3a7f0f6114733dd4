// Package pgtest gives tests real PostgreSQL databases: one private server per
// test binary, one migrated template, a clone of it per test.
//
//	var pg = pgtest.New(migrations.Up)
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(pg.Around(m)) }
//
//	func TestSomething(t *testing.T) { pool := pg.Pool(t) … }
package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
)

// URLVariable names an existing server to use in place of a private one: a URL
// of a database in which the user may create databases.
const URLVariable = "AIDY_TEST_DATABASE_URL"

const (
	folderPrefix = "aidy-pgtest-"
	// staleAfter is the age from which the folder of a test binary that was
	// killed is removed by a later one.
	staleAfter = time.Hour
	callTime   = 2 * time.Minute
)

// Harness owns the server of one test binary. All methods are safe for
// concurrent use by parallel tests.
type Harness struct {
	migrate func(ctx context.Context, databaseURL string) error

	mu       sync.Mutex // guards what follows
	begun    bool
	err      error
	folder   string
	server   *localpg.Server
	admin    *pgxpool.Pool
	adminURL string
	template string
	clones   int
}

// New returns a harness that has started nothing. migrate brings an empty
// database to the state every test starts from; nil leaves it empty.
func New(migrate func(ctx context.Context, databaseURL string) error) *Harness {
	return &Harness{migrate: migrate}
}

// Runner is what TestMain runs; *testing.M is one.
type Runner interface{ Run() int }

type around struct {
	h *Harness
	m Runner
}

func (a around) Run() int {
	code := a.m.Run()
	if err := a.h.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return max(code, 1)
	}
	return code
}

// Around returns a runner that runs m and then closes the harness. Its place in
// TestMain is os.Exit(h.Around(m).Run()), or goleak.VerifyTestMain(h.Around(m)).
func (h *Harness) Around(m Runner) Runner { return around{h, m} }

// URL returns the URL of a fresh clone of the template. The first call starts
// the server and migrates. The clone is dropped when t ends; connections still
// open then are cut.
func (h *Harness) URL(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	name, err := h.clone(ctx)
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		if _, err := h.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop test database: %v", err)
		}
	})
	return h.named(name)
}

// Pool returns a pool on a fresh clone of the template, closed when t ends.
func (h *Harness) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), h.URL(t))
	if err != nil {
		t.Fatalf("test database: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Close drops the template and stops the server. It does nothing if no test
// asked for a database.
func (h *Harness) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	var err error
	if h.admin != nil {
		if h.server == nil && h.template != "" {
			_, err = h.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+h.template+" WITH (FORCE)")
		}
		h.admin.Close()
		h.admin = nil
	}
	if h.server != nil {
		home := h.server.Home()
		stopped, stop := context.WithCancel(ctx)
		stop() // nothing in it is kept: no orderly shutdown needed
		_ = h.server.Stop(stopped)
		h.server = nil
		if home != "" {
			_ = os.RemoveAll(home)
		}
	}
	if h.folder != "" {
		_ = os.RemoveAll(h.folder)
	}
	return err
}

func (h *Harness) clone(ctx context.Context) (string, error) {
	h.mu.Lock()
	if !h.begun {
		h.begun = true
		h.err = h.begin(ctx)
	}
	h.clones++
	name, err := fmt.Sprintf("%s_%d", h.template, h.clones), h.err
	h.mu.Unlock()
	if err != nil {
		return "", err
	}
	if _, err := h.admin.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+h.template); err != nil {
		return "", fmt.Errorf("clone template: %w", err)
	}
	return name, nil
}

func (h *Harness) begin(ctx context.Context) error {
	h.adminURL = os.Getenv(URLVariable)
	if h.adminURL == "" {
		if err := h.startServer(ctx); err != nil {
			return err
		}
	}
	pool, err := pgxpool.New(ctx, h.adminURL)
	if err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	h.admin = pool
	var nonce [6]byte
	_, _ = rand.Read(nonce[:]) // never fails
	h.template = "aidy_test_" + hex.EncodeToString(nonce[:])
	if _, err := pool.Exec(ctx, "CREATE DATABASE "+h.template); err != nil {
		return fmt.Errorf("create template database: %w", err)
	}
	if h.migrate != nil {
		if err := h.migrate(ctx, h.named(h.template)); err != nil {
			return fmt.Errorf("migrate template database: %w", err)
		}
	}
	// A template cannot be cloned while somebody is connected to it.
	if _, err := pool.Exec(ctx, "ALTER DATABASE "+h.template+" ALLOW_CONNECTIONS false"); err != nil {
		return fmt.Errorf("close template database: %w", err)
	}
	return nil
}

func (h *Harness) startServer(ctx context.Context) error {
	sweep(os.TempDir())
	folder, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return err
	}
	h.folder = folder
	server, err := localpg.New(localpg.Config{
		Dir:      folder,
		Database: "postgres",
		Settings: map[string]string{"autovacuum": "off", "synchronous_commit": "off", "wal_level": "minimal", "max_wal_senders": "0", "max_wal_size": "4GB"},
	}, zerolog.Nop())
	if err != nil {
		return err
	}
	h.server = server
	h.adminURL, err = server.Start(ctx)
	return err
}

// named returns the server's URL with another database name.
func (h *Harness) named(database string) string {
	u, err := url.Parse(h.adminURL)
	if err != nil || u.Scheme == "" { // a keyword string: the last value of a key counts
		return h.adminURL + " dbname=" + database
	}
	u.Path = "/" + database
	return u.String()
}

// sweep removes folders of test binaries that were killed. A folder in use is
// locked.
func sweep(dir string) {
	found, _ := filepath.Glob(filepath.Join(dir, folderPrefix+"*"))
	for _, folder := range found {
		info, err := os.Lstat(folder)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < staleAfter {
			continue
		}
		lock, err := os.Open(filepath.Join(folder, "lock"))
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(folder)
		}
		_ = lock.Close()
	}
}

// Exec runs statements on a database, for tests that arrange rows by hand.
func Exec(t testing.TB, databaseURL string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}
