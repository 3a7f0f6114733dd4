package dev

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/devstate"
)

// home is the folder of one `aidy dev`.
type home struct {
	dir  string // --dir
	data string // what belongs to one database: keys, the node, the marker
	lock *os.File
}

// open makes the folder if it is not there and takes it for this process alone.
func open(o Options) (*home, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	// Others may pass through, because root runs the database as another account; what
	// is in it is closed by itself.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	h := &home{dir: dir, data: dir}
	if o.DatabaseURL != "" {
		// Keys and the node belong to a database: another one has others.
		sum := sha256.Sum256([]byte(o.DatabaseURL))
		h.data = filepath.Join(dir, "database-"+hex.EncodeToString(sum[:6]))
		if err := os.MkdirAll(h.data, 0o700); err != nil {
			return nil, fmt.Errorf("--dir: %w", err)
		}
	}
	if h.lock, err = lockFile(filepath.Join(dir, "lock")); err != nil {
		if busy, ok := errors.AsType[*busyError](err); ok {
			by := ""
			if busy.pid != "" {
				by = " (process " + busy.pid + ")"
			}
			return nil, fmt.Errorf("another aidy dev%s runs on %s: stop it, or give this one a --dir of its own", by, dir)
		}
		return nil, fmt.Errorf("--dir: %w", err)
	}
	return h, nil
}

// close gives the folder free.
func (h *home) close() error { return h.lock.Close() }

func (h *home) statePath() string         { return filepath.Join(h.dir, devstate.File) }
func (h *home) postgres() string          { return filepath.Join(h.dir, "postgres") }
func (h *home) node() string              { return filepath.Join(h.data, "node") }
func (h *home) rootKey() string           { return filepath.Join(h.data, "root.key") }
func (h *home) ownerToken() string        { return filepath.Join(h.data, "owner.token") }
func (h *home) seededMark() string        { return filepath.Join(h.data, "seeded") }
func (h *home) nodeConfig() string        { return filepath.Join(h.node(), "config") }
func (h *home) locationOf() string        { return filepath.Join(h.postgres(), "location") }
func (h *home) originIn(at string) string { return filepath.Join(at, "origin") }

// reset deletes what an earlier run made, and nothing else: --dir may be a folder
// that holds other things too.
func (h *home) reset() error {
	// Where the server's account could not enter the folder, the database lives
	// elsewhere, and both places name each other.
	if elsewhere, err := os.ReadFile(h.locationOf()); err == nil {
		at := strings.TrimSpace(string(elsewhere))
		origin, err := os.ReadFile(h.originIn(at))
		if err == nil && strings.TrimSpace(string(origin)) == h.postgres() {
			if err := os.RemoveAll(at); err != nil {
				return fmt.Errorf("--reset: %w", err)
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--reset: %w", err)
	}
	for _, made := range []string{h.postgres(), h.node(), h.rootKey(), h.ownerToken(), h.seededMark(), h.statePath()} {
		if err := os.RemoveAll(made); err != nil {
			return fmt.Errorf("--reset: %w", err)
		}
	}
	return nil
}

// seeded reports whether the first configuration was made already. It is made once:
// what was deleted since stays deleted.
func (h *home) seeded() bool {
	_, err := os.Stat(h.seededMark())
	return err == nil
}

func (h *home) markSeeded() error {
	if err := os.WriteFile(h.seededMark(), nil, 0o600); err != nil {
		return fmt.Errorf("note that the configuration was made: %w", err)
	}
	return nil
}

// busyError says that another process holds a lock.
type busyError struct{ pid string }

func (e *busyError) Error() string { return "held by process " + e.pid }
