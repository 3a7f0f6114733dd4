// Package devstate keeps what `aidy dev` tells other programs about itself: a file
// that its owner alone can read.
package devstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// File is the name of the file in the folder of aidy dev.
const File = "dev.json"

// maxBytes bounds the file.
const maxBytes = 64 << 10

// State is where a running `aidy dev` can be reached. It stays after the end of the
// process: addresses that were free before are taken again.
type State struct {
	InferenceURL string   `json:"inference_url"`
	AdminURL     string   `json:"admin_url"`
	SyncURL      string   `json:"sync_url"`
	OpsURLs      []string `json:"ops_urls"` // of the node, of the control plane
	AdminToken   string   `json:"admin_token"`
	APIKey       string   `json:"api_key"`

	BuiltinURL string `json:"builtin_url"` // the scripted provider
}

// Read reads the file at path. The error matches fs.ErrNotExist if there is none.
func Read(path string) (State, error) {
	var s State
	info, err := os.Stat(path)
	if err != nil {
		return s, err
	}
	if info.Size() > maxBytes {
		return s, fmt.Errorf("read %s: it has %d bytes, expected the file that `aidy dev` writes", path, info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("read %s: %w; `aidy dev` writes it anew", path, err)
	}
	return s, nil
}

// Write replaces the file at path as one step. Only its owner can read it.
func Write(path string, s State) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".dev-*.json") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, werr := f.Write(append(b, '\n'))
	err = errors.Join(werr, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}
