// Package localpg runs a private PostgreSQL server from the binaries that are
// installed on this machine: for `aidy dev`, so that a fresh checkout needs no
// database to be set up, and for tests.
//
// The server listens on a unix socket alone, in a folder only its account may
// enter. It never outlives the process that started it on Linux: the kernel
// stops it when that process dies, however it dies.
package localpg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
)

// MinVersion is the oldest PostgreSQL major version the gateway runs on.
const MinVersion = 14

const (
	superuser = "aidy"
	port      = "5432" // names the socket file; nothing listens on TCP

	// killGrace is how long an immediate shutdown may take before the
	// processes are killed. PostgreSQL itself kills its children after 5 s.
	killGrace = 10 * time.Second
)

// Config says where a private server keeps its data and how it runs. A zero
// field takes the default it documents.
type Config struct {
	// Dir is the folder of this server: data, socket, log and lock live below
	// it. It is created if absent. Required.
	//
	// A process with user id 0 runs the server as the account `postgres`, or
	// `nobody` where there is none, because PostgreSQL refuses root. If that
	// account cannot enter Dir (a 0700 home above it), the data live in
	// /var/lib/aidy-dev/<hash of Dir>, or below the temporary folder where that
	// cannot be made, and Dir keeps a file named `location` that says so.
	Dir string

	// Fsync makes commits survive a loss of power. The default, false, is for
	// tests: a crash of any process still loses nothing.
	Fsync bool

	// Database is the database the returned URL names; it is created if
	// absent. Default "aidy".
	Database string

	// BinDir is the only folder in which the binaries are looked for. Default:
	// every folder of PATH, the usual folders of packages (newest version
	// first), then what pg_config reports.
	BinDir string

	// StartTimeout bounds Start, initdb included. Default 60 s.
	StartTimeout time.Duration

	// StopTimeout is how long Stop waits for an orderly shutdown before it
	// turns to an immediate one. Default 30 s.
	StopTimeout time.Duration

	// Settings are further server parameters by name.
	Settings map[string]string
}

// InUseError says that another process runs a server on the same folder.
type InUseError struct {
	Dir string
	PID int // of the process that holds the folder; 0 if unknown
}

func (e *InUseError) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("private PostgreSQL in %s is in use by %s; stop it, or choose another folder or AIDY_DATABASE_URL", e.Dir, who)
}

// Server is one private PostgreSQL server. Start and Stop may be called from
// any goroutine; a Server is started at most once.
type Server struct {
	cfg Config
	log zerolog.Logger

	mu      sync.Mutex // guards what follows
	started bool
	home    string
	lock    *os.File
	proc    *process
	sockets string
}

// New returns a server that is not running. It fails if cfg.Dir is empty.
func New(cfg Config, log zerolog.Logger) (*Server, error) {
	if cfg.Dir == "" {
		return nil, errors.New("private PostgreSQL needs a folder: Config.Dir is empty")
	}
	if cfg.Database == "" {
		cfg.Database = "aidy"
	}
	if cfg.StartTimeout <= 0 {
		cfg.StartTimeout = 60 * time.Second
	}
	if cfg.StopTimeout <= 0 {
		cfg.StopTimeout = 30 * time.Second
	}
	return &Server{cfg: cfg, log: log.With().Str("component", "localpg").Logger()}, nil
}

// Start runs initdb if the folder is new, starts the server and returns the URL
// of Config.Database once it answers. ctx and Config.StartTimeout bound the
// start alone: the server runs until Stop, or until this process ends.
//
// Start fails with *NotInstalledError if no usable binaries are found, with
// *InUseError if another process runs a server on the folder, and otherwise
// with the end of the server's log in the error. After a failure nothing runs.
func (s *Server) Start(ctx context.Context) (databaseURL string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return "", errors.New("private PostgreSQL was started before; make a new one")
	}
	s.started = true

	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.StartTimeout,
		fmt.Errorf("private PostgreSQL was not ready within %s", s.cfg.StartTimeout))
	defer cancel()

	run, err := accountToRunAs()
	if err != nil {
		return "", err
	}
	s.home, err = chooseHome(s.cfg.Dir, run)
	if err != nil {
		return "", fmt.Errorf("folder for private PostgreSQL: %w", err)
	}
	if s.lock, err = lockHome(ctx, s.home); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			s.shutdown(syscall.SIGQUIT, killGrace)
		}
	}()

	data := filepath.Join(s.home, "data")
	bin, err := findBinaries(ctx, s.cfg.BinDir, majorOf(data))
	if err != nil {
		return "", err
	}
	if err := s.initdb(ctx, bin, run, data); err != nil {
		return "", err
	}
	if err := refuseForeign(data); err != nil {
		return "", err
	}
	if s.sockets, err = socketFolder(s.home, run); err != nil {
		return "", fmt.Errorf("socket folder for private PostgreSQL: %w", err)
	}
	if err := s.launch(bin, run, data); err != nil {
		return "", err
	}
	if err := s.waitReady(ctx, data); err != nil {
		return "", fmt.Errorf("start private PostgreSQL %d in %s: %w%s", bin.major, s.home, err, tail(s.logPath()))
	}
	if err := s.ensureDatabase(ctx); err != nil {
		return "", err
	}
	s.log.Info().Str("dir", s.home).Int("version", bin.major).Int("pid", s.proc.pid).Msg("private postgresql ready")
	return s.url(s.cfg.Database), nil
}

// Home is the folder in which the server really lives (see Config.Dir); empty
// before Start.
func (s *Server) Home() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.home
}

// PID is the process id of the server, 0 if it was never started.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.pid
}

// Done is closed when the server process has ended, wanted or not. It is nil
// before a successful Start.
func (s *Server) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return nil
	}
	return s.proc.done
}

// Stop shuts the server down: open connections are cut, transactions in flight
// are rolled back, and a checkpoint is written so that the next start is quick.
// When ctx ends or Config.StopTimeout passes first, it stops at once, which the
// next start recovers from. When Stop returns no process is left. It may be
// called twice, and without Start.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		s.shutdown(syscall.SIGINT, 0)
		return nil
	}
	wait := s.cfg.StopTimeout
	if d, ok := ctx.Deadline(); ok {
		wait = min(wait, max(0, time.Until(d)))
	}
	select {
	case <-ctx.Done():
		wait = 0
	default:
	}
	if !s.shutdown(syscall.SIGINT, wait) {
		return fmt.Errorf("stop private PostgreSQL in %s: no orderly shutdown within %s, stopped at once; the next start recovers", s.home, wait.Round(time.Millisecond))
	}
	return nil
}

// shutdown ends the process if there is one, frees the lock, and reports
// whether the first signal was enough.
func (s *Server) shutdown(sig syscall.Signal, wait time.Duration) (orderly bool) {
	orderly = true
	if s.proc != nil {
		orderly = s.proc.stop(sig, wait)
		s.proc = nil
	}
	if s.sockets != "" && s.sockets != filepath.Join(s.home, "run") {
		_ = os.RemoveAll(s.sockets)
	}
	if s.lock != nil {
		_ = s.lock.Close()
		s.lock = nil
	}
	return orderly
}

func (s *Server) logPath() string { return filepath.Join(s.home, "server.log") }

func (s *Server) url(database string) string {
	q := url.Values{"host": {s.sockets}, "port": {port}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + database, RawQuery: q.Encode()}
	return u.String()
}

// initdb makes the data folder under another name and renames it, so that an
// interrupted one is never taken for a database.
func (s *Server) initdb(ctx context.Context, bin binaries, run *account, data string) error {
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		return nil
	}
	if names, err := os.ReadDir(data); err == nil && len(names) > 0 {
		return fmt.Errorf("folder %s holds files but no database (no PG_VERSION); move them away", data)
	}
	fresh := data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("remove an unfinished database: %w", err)
	}
	if err := makeOwned(fresh, run); err != nil {
		return fmt.Errorf("data folder for private PostgreSQL: %w", err)
	}
	args := []string{
		"-D", fresh, "-U", superuser, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions",
	}
	if !s.cfg.Fsync {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, bin.initdb, args...)
	cmd.Dir = "/"
	cmd.Env = cleanEnv()
	cmd.SysProcAttr = childAttr(run, syscall.SIGKILL)
	cmd.WaitDelay = time.Second
	out, err := onOwnThread(cmd.CombinedOutput)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("create private database in %s: %w\n%s", fresh, err, lastBytes(out, tailBytes))
	}
	if err := os.Remove(data); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replace empty data folder: %w", err)
	}
	if err := os.Rename(fresh, data); err != nil {
		return fmt.Errorf("move new database into place: %w", err)
	}
	return nil
}

func (s *Server) launch(bin binaries, run *account, data string) error {
	logFile, err := openLog(s.logPath())
	if err != nil {
		return fmt.Errorf("log of private PostgreSQL: %w", err)
	}
	defer logFile.Close() // the server holds its own

	onOff := map[bool]string{true: "on", false: "off"}[s.cfg.Fsync]
	settings := map[string]string{
		"listen_addresses":        "",
		"unix_socket_directories": `"` + strings.ReplaceAll(s.sockets, `"`, `""`) + `"`,
		"unix_socket_permissions": "0700",
		"port":                    port,
		"fsync":                   onOff,
		"full_page_writes":        onOff,
		"synchronous_commit":      "on", // without fsync it costs one write, and a killed server loses nothing
		"max_connections":         "200",
		"shared_buffers":          "64MB",
		"jit":                     "off",
		"logging_collector":       "off",
		"log_min_messages":        "warning",
		"log_timezone":            "UTC",
		"timezone":                "UTC",
	}
	for k, v := range s.cfg.Settings {
		settings[k] = v
	}
	args := []string{"-D", data}
	for k, v := range settings {
		args = append(args, "-c", k+"="+v)
	}
	cmd := exec.Command(bin.postgres, args...)
	cmd.Dir = "/"
	cmd.Env = cleanEnv()
	cmd.Stdout, cmd.Stderr = logFile, logFile
	// The lock goes with the server: while any of its processes lives, even
	// after ours is gone, nobody else can open the folder.
	cmd.ExtraFiles = []*os.File{s.lock}
	cmd.SysProcAttr = childAttr(run, syscall.SIGQUIT)
	if s.proc, err = startProcess(cmd); err != nil {
		return fmt.Errorf("run %s: %w", bin.postgres, err)
	}
	return nil
}

// waitReady returns when the server answers and its pid file names our child:
// an answer alone could come from somebody else's server.
func (s *Server) waitReady(ctx context.Context, data string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = s.probe(ctx, data); last == nil {
			return nil
		}
		select {
		case <-s.proc.done:
			return fmt.Errorf("the server ended: %w", s.proc.exit())
		case <-ctx.Done():
			return fmt.Errorf("%w (last answer: %w)", context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}

func (s *Server) probe(ctx context.Context, data string) error {
	pid, err := postmasterPID(data)
	if err != nil {
		return err
	}
	if pid != s.proc.pid {
		return fmt.Errorf("postmaster.pid names process %d, not our %d", pid, s.proc.pid)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx)
}

func (s *Server) ensureDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return fmt.Errorf("connect to private PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", s.cfg.Database).Scan(&there); err != nil {
		return fmt.Errorf("look for database %s: %w", s.cfg.Database, err)
	}
	if there {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{s.cfg.Database}.Sanitize()); err != nil {
		return fmt.Errorf("create database %s: %w", s.cfg.Database, err)
	}
	return nil
}
