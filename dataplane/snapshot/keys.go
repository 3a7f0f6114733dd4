package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/seal"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

const (
	// maxKeys bounds the keys of one kind. The fleet has two at a time.
	maxKeys = 16
	// maxKeysBytes bounds the file of keys.
	maxKeysBytes = 64 << 10

	wrapKeyFile     = "node-wrap.key"
	contentKeysFile = "content-keys"
)

// contentKeysContext binds the file of keys to its purpose.
var contentKeysContext = seal.Context{ID: "content-keys"}

// FleetKey is a secret that all nodes of the fleet share.
type FleetKey struct {
	ID  string
	Key secret.Text
}

// fleetKeys are the keys and secrets that came with ContentKeys. It is replaced as
// a whole.
type fleetKeys struct {
	content []seal.ContentKey // current first
	macs    []FleetKey        // current first
	seed    secret.Text
}

// keyStore holds the keys of the fleet in memory, and wrapped under the node's own
// key on disk. Reading is safe for concurrent use.
type keyStore struct {
	dir     string // empty keeps nothing on disk
	current atomic.Pointer[fleetKeys]
}

func (k *keyStore) load() *fleetKeys {
	if f := k.current.Load(); f != nil {
		return f
	}
	return &fleetKeys{}
}

// accept takes keys over and puts them on disk. They are in use even if that fails.
func (k *keyStore) accept(ctx context.Context, m *syncv1.ContentKeys) error {
	f, err := parseKeys(m)
	if err != nil {
		return err
	}
	k.current.Store(f)
	if k.dir == "" {
		return nil
	}
	plain, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("marshal content keys: %w", err)
	}
	text := secret.FromBytes(plain)
	defer text.Wipe()
	ring, err := seal.LoadOrCreateKeyFile(filepath.Join(k.dir, wrapKeyFile))
	if err != nil {
		return fmt.Errorf("load the node's wrapping key: %w", err)
	}
	blob, err := seal.Wrap(ctx, ring, text, contentKeysContext)
	if err != nil {
		return fmt.Errorf("wrap content keys: %w", err)
	}
	return writeFile(filepath.Join(k.dir, contentKeysFile), blob)
}

// open reads the keys on disk. None there is no error.
func (k *keyStore) open(ctx context.Context) error {
	if k.dir == "" {
		return nil
	}
	blob, err := readFile(filepath.Join(k.dir, contentKeysFile), maxKeysBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read content keys: %w", err)
	}
	ring, err := seal.LoadKeyFile(filepath.Join(k.dir, wrapKeyFile))
	if err != nil {
		return fmt.Errorf("load the node's wrapping key: %w", err)
	}
	text, err := seal.Unwrap(ctx, ring, blob, contentKeysContext)
	if err != nil {
		return fmt.Errorf("unwrap content keys: %w", err)
	}
	defer text.Wipe()
	m := new(syncv1.ContentKeys)
	text.Use(func(b []byte) { err = proto.Unmarshal(b, m) })
	if err != nil {
		return fmt.Errorf("decode content keys: %w", err)
	}
	f, err := parseKeys(m)
	if err != nil {
		return err
	}
	k.current.Store(f)
	return nil
}

func parseKeys(m *syncv1.ContentKeys) (*fleetKeys, error) {
	if len(m.GetKeys()) == 0 || len(m.GetKeys()) > maxKeys || len(m.GetMacKeys()) > maxKeys || len(m.GetPrefixSeed()) > 1024 {
		return nil, fmt.Errorf("content keys: got %d content and %d mac keys, want 1 to %d of each", len(m.GetKeys()), len(m.GetMacKeys()), maxKeys)
	}
	f := &fleetKeys{seed: secret.New(string(m.GetPrefixSeed()))}
	for _, c := range m.GetKeys() {
		key, err := seal.ParseContentKey(c.GetId(), c.GetKey())
		if err != nil {
			return nil, fmt.Errorf("content key: %w", err)
		}
		f.content = append(f.content, key)
	}
	for _, c := range m.GetMacKeys() {
		f.macs = append(f.macs, FleetKey{ID: c.GetId(), Key: secret.New(string(c.GetKey()))})
	}
	return f, nil
}
