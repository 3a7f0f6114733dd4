// Package seal encrypts what must not lie readable in PostgreSQL, on disk or
// in a delivered shard.
//
// It is an envelope in three layers. A root key, held by a Keyring, wraps data
// keys; a data key per tenant seals that tenant's secrets at rest; a content key
// of the fleet seals the same secrets once more for delivery to the nodes.
// Rotating the root key rewraps data keys and touches no secret.
//
// Everything is AES-256-GCM with a random 96-bit nonce. Every sealed value is
// bound to its Context, so a row copied over another does not open.
//
// # Blob format, version 1
//
//	byte 0      1, the format version
//	byte 1      kind: 1 wrapped by a root key, 2 sealed by a data key, 3 sealed by a content key
//	byte 2      n, length of the key id, 1 to 64
//	n bytes     key id
//	the rest    what the key's holder made: for local keys nonce (12), ciphertext, tag (16)
//
// The additional data is, in this order: byte 0, byte 1, tenant and id each
// after its length in 4 bytes big endian, version in 8 bytes big endian.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// Errors of this package; each is in the tree of what is returned. None carries
// key material or plain text.
var (
	// ErrFormat says that a blob is not one of this package's blobs, or is one
	// of another kind.
	ErrFormat = errors.New("not a sealed value of this kind")
	// ErrUnknownKey says that the blob names a key that is not at hand.
	ErrUnknownKey = errors.New("key not at hand")
	// ErrOpen says that the blob was changed, was sealed for another context, or
	// under another key of the same name. Which of these cannot be told.
	ErrOpen = errors.New("sealed value does not open: it was changed, or belongs to another row or key")
	// ErrInput says that a key, id or value given to this package is unusable.
	ErrInput = errors.New("unusable input")
)

// Bounds of what is sealed.
const (
	// KeySize is the length of every key in bytes.
	KeySize = 32
	// MaxPlain is the largest value that can be sealed, in bytes.
	MaxPlain = 1 << 20

	formatVersion = 1
	maxKeyID      = 64
	headerLen     = 3
	overhead      = 12 + 16 // nonce and tag
	maxBlob       = headerLen + maxKeyID + MaxPlain + 4096
)

// Context is the place a sealed value belongs to. It is not part of the blob:
// whoever opens must know it.
type Context struct {
	Tenant  string // tenant id; "" for what belongs to no tenant
	ID      string // id of the credential, key or other row
	Version uint64 // version of the row's secret
}

// Kind says which layer of keys made a blob.
type Kind uint8

// The kinds of blob.
const (
	KindRoot    Kind = 1
	KindData    Kind = 2
	KindContent Kind = 3
)

// additional returns the bytes that bind a blob to c. Each field carries its
// length, so no two contexts have the same bytes.
func (c Context) additional(kind Kind) []byte {
	b := make([]byte, 0, 2+4+len(c.Tenant)+4+len(c.ID)+8)
	b = append(b, formatVersion, byte(kind))
	b = binary.BigEndian.AppendUint32(b, uint32(len(c.Tenant)))
	b = append(b, c.Tenant...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(c.ID)))
	b = append(b, c.ID...)
	return binary.BigEndian.AppendUint64(b, c.Version)
}

// Inspect returns the kind of a blob and the id of the key that made it,
// without opening it. It fails with ErrFormat.
func Inspect(blob []byte) (Kind, string, error) {
	kind, id, _, err := split(blob)
	return kind, id, err
}

func split(blob []byte) (Kind, string, []byte, error) {
	switch {
	case len(blob) < headerLen || len(blob) > maxBlob:
		return 0, "", nil, fmt.Errorf("blob of %d bytes: %w", len(blob), ErrFormat)
	case blob[0] != formatVersion:
		return 0, "", nil, fmt.Errorf("blob of format %d, want %d: %w", blob[0], formatVersion, ErrFormat)
	}
	n := int(blob[2])
	if n == 0 || n > maxKeyID || len(blob) < headerLen+n {
		return 0, "", nil, fmt.Errorf("blob with a key id of %d bytes: %w", n, ErrFormat)
	}
	return Kind(blob[1]), string(blob[headerLen : headerLen+n]), blob[headerLen+n:], nil
}

// expect is split for a blob that must be of one kind.
func expect(kind Kind, blob []byte) (string, []byte, error) {
	got, id, body, err := split(blob)
	if err != nil {
		return "", nil, err
	}
	if got != kind {
		return "", nil, fmt.Errorf("blob of kind %d, want %d: %w", got, kind, ErrFormat)
	}
	return id, body, nil
}

func join(kind Kind, id string, body []byte) []byte {
	out := make([]byte, 0, headerLen+len(id)+len(body))
	out = append(out, formatVersion, byte(kind), byte(len(id)))
	out = append(out, id...)
	return append(out, body...)
}

// checkKeyID refuses ids that a blob cannot carry or an error should not print.
func checkKeyID(id string) error {
	if id == "" || len(id) > maxKeyID {
		return fmt.Errorf("key id of %d bytes, want 1 to %d: %w", len(id), maxKeyID, ErrInput)
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return fmt.Errorf("key id with a byte outside printable ASCII: %w", ErrInput)
		}
	}
	return nil
}

// cipherOf returns AES-256-GCM under key; its nonces are random and stand in
// front of the ciphertext.
func cipherOf(key []byte) (cipher.AEAD, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("key of %d bytes, want %d: %w", len(key), KeySize, ErrInput)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	return aead, nil
}

func sealLocal(aead cipher.AEAD, kind Kind, id string, plain secret.Text, c Context) ([]byte, error) {
	var blob []byte
	var err error
	plain.Use(func(b []byte) {
		if len(b) > MaxPlain {
			err = fmt.Errorf("value of %d bytes, at most %d can be sealed: %w", len(b), MaxPlain, ErrInput)
			return
		}
		blob = join(kind, id, aead.Seal(nil, nil, b, c.additional(kind)))
	})
	return blob, err
}

func openLocal(aead cipher.AEAD, kind Kind, body []byte, c Context) (secret.Text, error) {
	plain, err := aead.Open(nil, nil, body, c.additional(kind))
	if err != nil {
		return secret.Text{}, ErrOpen
	}
	return secret.FromBytes(plain), nil
}
