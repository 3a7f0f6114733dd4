package seal

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// RootKeyEnv is the environment variable that may hold the root keys.
const RootKeyEnv = "AIDY_ROOT_KEY"

const (
	maxRootKeys = 16
	maxKeyFile  = 16 << 10
	keyFileNote = "# Root keys of aidy-gateway, one a line, the current one first.\n" +
		"# Without them no stored credential can be read: keep a copy in a safe place.\n"
)

// LocalKeyring holds root keys in memory. The first wraps, all unwrap. It is
// immutable and safe for concurrent use.
type LocalKeyring struct {
	keys []rootKey
}

type rootKey struct {
	id   string
	raw  secret.Text
	aead cipher.AEAD
}

// NewLocalKeyring returns a keyring over 1 to 16 keys of KeySize bytes, the
// current one first. It fails with ErrInput.
func NewLocalKeyring(keys ...secret.Text) (*LocalKeyring, error) {
	if len(keys) == 0 || len(keys) > maxRootKeys {
		return nil, fmt.Errorf("%d root keys, want 1 to %d: %w", len(keys), maxRootKeys, ErrInput)
	}
	ring := &LocalKeyring{}
	for i, key := range keys {
		aead, err := aeadOf(key)
		if err != nil {
			return nil, fmt.Errorf("root key %d of %d: %w", i+1, len(keys), err)
		}
		id := rootKeyID(key)
		if _, err := ring.find(id); err == nil {
			return nil, fmt.Errorf("root key %d of %d stands there twice: %w", i+1, len(keys), ErrInput)
		}
		ring.keys = append(ring.keys, rootKey{id, key, aead})
	}
	return ring, nil
}

// ParseRootKeys returns a keyring from the value of AIDY_ROOT_KEY: 32 bytes in
// standard base64, or several of them with commas, the current one first.
func ParseRootKeys(value secret.Text) (*LocalKeyring, error) {
	keys, err := decodeKeys(strings.Split(value.Reveal(), ","))
	if err != nil {
		return nil, fmt.Errorf("root key in %s: %w", RootKeyEnv, err)
	}
	return NewLocalKeyring(keys...)
}

// rootKeyID names a key by its digest, so two files with one key agree on its
// id. The label keeps the id apart from any other digest of the key.
func rootKeyID(key secret.Text) string {
	h := sha256.New()
	_, _ = io.WriteString(h, "aidy-gateway root key id\x00")
	key.Use(func(b []byte) { _, _ = h.Write(b) })
	return "rk-" + hex.EncodeToString(h.Sum(nil)[:8])
}

// Current returns the id of the first key.
func (r *LocalKeyring) Current() string { return r.keys[0].id }

// Wrap encrypts plain under the first key.
func (r *LocalKeyring) Wrap(_ context.Context, plain, additional []byte) (string, []byte, error) {
	k := r.keys[0]
	return k.id, k.aead.Seal(nil, nil, plain, additional), nil
}

// Unwrap decrypts with the key of that id; ErrUnknownKey or ErrOpen otherwise.
func (r *LocalKeyring) Unwrap(_ context.Context, keyID string, wrapped, additional []byte) ([]byte, error) {
	k, err := r.find(keyID)
	if err != nil {
		return nil, err
	}
	plain, err := k.aead.Open(nil, nil, wrapped, additional)
	if err != nil {
		return nil, ErrOpen
	}
	return plain, nil
}

func (r *LocalKeyring) find(id string) (rootKey, error) {
	for _, k := range r.keys {
		if k.id == id {
			return k, nil
		}
	}
	return rootKey{}, fmt.Errorf("root key %q: %w: add it to the key file or to %s", id, ErrUnknownKey, RootKeyEnv)
}

// CreateKeyFile writes a new root key to path, readable by its owner alone, and
// returns its keyring. The file appears whole or not at all; if there is one
// already, it stays and the error is fs.ErrExist.
func CreateKeyFile(path string) (*LocalKeyring, error) {
	key := randomKey()
	ring, err := NewLocalKeyring(key)
	if err != nil {
		return nil, err
	}
	// A link fails if the name is taken, which a rename would overwrite.
	if err := writeKeyFile(path, ring, os.Link); err != nil {
		return nil, fmt.Errorf("create key file %s: %w", path, err)
	}
	return ring, nil
}

// LoadKeyFile reads the keyring of a key file. It refuses a file that others
// than its owner can read.
func LoadKeyFile(path string) (*LocalKeyring, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("load key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("load key file: %w", err)
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		return nil, fmt.Errorf("load key file %s: mode %#o lets others read it: run chmod 600 on it: %w", path, info.Mode().Perm(), ErrInput)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	defer clear(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("load key file: %w", err)
	case len(text) > maxKeyFile:
		return nil, fmt.Errorf("load key file %s: more than %d bytes: %w", path, maxKeyFile, ErrInput)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	keys, err := decodeKeys(lines)
	if err != nil {
		return nil, fmt.Errorf("load key file %s: %w", path, err)
	}
	ring, err := NewLocalKeyring(keys...)
	if err != nil {
		return nil, fmt.Errorf("load key file %s: %w", path, err)
	}
	return ring, nil
}

// LoadOrCreateKeyFile loads the key file, or creates it if there is none.
// Of several processes that do this at once, all get the same key.
func LoadOrCreateKeyFile(path string) (*LocalKeyring, error) {
	ring, err := LoadKeyFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return ring, err
	}
	ring, err = CreateKeyFile(path)
	if errors.Is(err, fs.ErrExist) {
		return LoadKeyFile(path)
	}
	return ring, err
}

// RotateKeyFile puts a new key in front of those in the file and returns the
// new keyring. Old keys stay until an operator removes them, which is safe once
// everything is rewrapped. Two rotations of one file must not run at once.
func RotateKeyFile(path string) (*LocalKeyring, error) {
	old, err := LoadKeyFile(path)
	if err != nil {
		return nil, fmt.Errorf("rotate: %w", err)
	}
	keys := []secret.Text{randomKey()}
	for _, k := range old.keys {
		keys = append(keys, k.raw)
	}
	ring, err := NewLocalKeyring(keys...)
	if err != nil {
		return nil, fmt.Errorf("rotate key file %s: %w", path, err)
	}
	if err := writeKeyFile(path, ring, os.Rename); err != nil {
		return nil, fmt.Errorf("rotate key file %s: %w", path, err)
	}
	return ring, nil
}

// writeKeyFile writes the keys to a temporary file beside path, syncs it, and
// lets place give it its name.
func writeKeyFile(path string, ring *LocalKeyring, place func(from, to string) error) error {
	var text bytes.Buffer
	text.WriteString(keyFileNote)
	for _, k := range ring.keys {
		k.raw.Use(func(b []byte) { text.WriteString(base64.StdEncoding.EncodeToString(b) + "\n") })
	}
	defer func() { clear(text.Bytes()) }()

	folder := filepath.Dir(path)
	tmp, err := os.CreateTemp(folder, ".rootkey-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(text.Bytes())
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := place(tmp.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// decodeKeys reads keys in base64. Its errors count, they never quote.
func decodeKeys(texts []string) ([]secret.Text, error) {
	var keys []secret.Text
	for i, text := range texts {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		if err != nil || len(raw) != KeySize {
			return nil, fmt.Errorf("key %d of %d is not %d bytes in standard base64: make one with: openssl rand -base64 %d: %w",
				i+1, len(texts), KeySize, KeySize, ErrInput)
		}
		keys = append(keys, secret.FromBytes(raw))
	}
	return keys, nil
}
