//go:build !unix

package dev

import "os"

// lockFile opens the file alone: the database and the node lock their own folders.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}
