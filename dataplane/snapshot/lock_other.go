//go:build !unix

package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
)

// lockDir opens the lock file; this system has no advisory locks.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "snapshot.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of configuration directory: %w", err)
	}
	return f, nil
}
