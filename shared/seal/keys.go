package seal

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// DataKey seals the secrets of one tenant at rest. Safe for concurrent use.
type DataKey struct {
	ID     string // "dk-" and 32 hex digits
	Tenant string

	raw  secret.Text
	aead cipher.AEAD
}

// NewDataKey returns a fresh random key for tenant.
func NewDataKey(tenant string) (*DataKey, error) {
	return dataKey("dk-"+randomHex(), tenant, randomKey())
}

// UnwrapDataKey opens a key that DataKey.Wrap wrapped for the same tenant and
// id. It fails as Unwrap does.
func UnwrapDataKey(ctx context.Context, ring Keyring, tenant, id string, blob []byte) (*DataKey, error) {
	raw, err := Unwrap(ctx, ring, blob, DataKeyContext(tenant, id))
	if err != nil {
		return nil, fmt.Errorf("data key %q of tenant %q: %w", id, tenant, err)
	}
	return dataKey(id, tenant, raw)
}

// DataKeyContext is the context a wrapped data key is bound to; Rewrap needs it.
func DataKeyContext(tenant, id string) Context {
	return Context{Tenant: tenant, ID: id}
}

func dataKey(id, tenant string, raw secret.Text) (*DataKey, error) {
	if err := checkKeyID(id); err != nil {
		return nil, err
	}
	aead, err := aeadOf(raw)
	if err != nil {
		return nil, fmt.Errorf("data key %q: %w", id, err)
	}
	return &DataKey{ID: id, Tenant: tenant, raw: raw, aead: aead}, nil
}

// Wrap returns the key wrapped under the current root key, to be stored.
func (k *DataKey) Wrap(ctx context.Context, ring Keyring) ([]byte, error) {
	blob, err := Wrap(ctx, ring, k.raw, DataKeyContext(k.Tenant, k.ID))
	if err != nil {
		return nil, fmt.Errorf("data key %q of tenant %q: %w", k.ID, k.Tenant, err)
	}
	return blob, nil
}

// Seal seals plain for c, whose tenant must be the key's. The blob names the
// key. It fails with ErrInput if c is another tenant's or plain is too large.
func (k *DataKey) Seal(plain secret.Text, c Context) ([]byte, error) {
	if c.Tenant != k.Tenant {
		return nil, fmt.Errorf("seal %q of tenant %q with a data key of tenant %q: %w", c.ID, c.Tenant, k.Tenant, ErrInput)
	}
	blob, err := sealLocal(k.aead, KindData, k.ID, plain, c)
	if err != nil {
		return nil, fmt.Errorf("seal %q: %w", c.ID, err)
	}
	return blob, nil
}

// Open opens what Seal sealed for the same context. It fails with ErrFormat,
// ErrUnknownKey or ErrOpen.
func (k *DataKey) Open(blob []byte, c Context) (secret.Text, error) {
	id, body, err := expect(KindData, blob)
	if err == nil && id != k.ID {
		err = fmt.Errorf("sealed by data key %q, at hand is %q: %w", id, k.ID, ErrUnknownKey)
	}
	if err != nil {
		return secret.Text{}, fmt.Errorf("open %q: %w", c.ID, err)
	}
	plain, err := openLocal(k.aead, KindData, body, c)
	if err != nil {
		return secret.Text{}, fmt.Errorf("open %q with data key %q: %w", c.ID, k.ID, err)
	}
	return plain, nil
}

// ContentKey seals secrets for delivery to the nodes. The fleet has a current
// and a previous one. The zero value is not a key. Safe for concurrent use.
type ContentKey struct {
	ID string // "ck-" and 32 hex digits

	key  secret.Text
	aead cipher.AEAD
}

// NewContentKey returns a fresh random key.
func NewContentKey() (ContentKey, error) {
	return contentKey("ck-"+randomHex(), randomKey())
}

// ParseContentKey returns the key that was delivered under an id. It takes a
// copy of key and fails with ErrInput unless key has KeySize bytes and the id
// 1 to 64 printable ASCII characters.
func ParseContentKey(id string, key []byte) (ContentKey, error) {
	return contentKey(id, secret.New(string(key)))
}

func contentKey(id string, key secret.Text) (ContentKey, error) {
	if err := checkKeyID(id); err != nil {
		return ContentKey{}, fmt.Errorf("content key: %w", err)
	}
	aead, err := aeadOf(key)
	if err != nil {
		return ContentKey{}, fmt.Errorf("content key %q: %w", id, err)
	}
	return ContentKey{ID: id, key: key, aead: aead}, nil
}

// Key returns the key itself, for delivery to a node or for Wrap.
func (k ContentKey) Key() secret.Text { return k.key }

// SealWith seals plain for c under a content key. The blob names the key.
func SealWith(k ContentKey, plain secret.Text, c Context) ([]byte, error) {
	if k.aead == nil {
		return nil, fmt.Errorf("seal %q: no content key: %w", c.ID, ErrInput)
	}
	blob, err := sealLocal(k.aead, KindContent, k.ID, plain, c)
	if err != nil {
		return nil, fmt.Errorf("seal %q: %w", c.ID, err)
	}
	return blob, nil
}

// OpenWith opens what SealWith sealed for the same context with the one of the
// keys that the blob names. It fails with ErrFormat, ErrUnknownKey or ErrOpen.
func OpenWith(keys []ContentKey, blob []byte, c Context) (secret.Text, error) {
	id, body, err := expect(KindContent, blob)
	if err != nil {
		return secret.Text{}, fmt.Errorf("open %q: %w", c.ID, err)
	}
	for _, k := range keys {
		if k.ID != id || k.aead == nil {
			continue
		}
		plain, err := openLocal(k.aead, KindContent, body, c)
		if err != nil {
			return secret.Text{}, fmt.Errorf("open %q with content key %q: %w", c.ID, id, err)
		}
		return plain, nil
	}
	return secret.Text{}, fmt.Errorf("open %q: sealed by content key %q: %w", c.ID, id, ErrUnknownKey)
}

func aeadOf(key secret.Text) (aead cipher.AEAD, err error) {
	key.Use(func(b []byte) { aead, err = cipherOf(b) })
	return aead, err
}

func randomKey() secret.Text {
	b := make([]byte, KeySize)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return secret.FromBytes(b)
}

func randomHex() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
