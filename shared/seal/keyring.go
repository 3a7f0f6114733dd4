package seal

import (
	"context"
	"fmt"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// Keyring holds root keys. LocalKeyring is one; a key management service can
// stand behind the same three methods, which is why they take a context and
// may fail. Implementations must be safe for concurrent use, must authenticate
// additional, and must not put key material into errors.
type Keyring interface {
	// Current returns the id of the key that Wrap uses now.
	Current() string
	// Wrap encrypts plain under the current key and returns the id of that key.
	Wrap(ctx context.Context, plain, additional []byte) (keyID string, wrapped []byte, err error)
	// Unwrap reverses Wrap with the key of that id. It fails with ErrUnknownKey
	// or ErrOpen.
	Unwrap(ctx context.Context, keyID string, wrapped, additional []byte) ([]byte, error)
}

// Wrap seals plain directly under the root key: data keys, the key of the
// certificate authority, a content key on a node's disk.
func Wrap(ctx context.Context, ring Keyring, plain secret.Text, c Context) ([]byte, error) {
	var blob []byte
	var err error
	plain.Use(func(b []byte) {
		if len(b) > MaxPlain {
			err = fmt.Errorf("wrap value of %d bytes, at most %d can be sealed: %w", len(b), MaxPlain, ErrInput)
			return
		}
		id, wrapped, werr := ring.Wrap(ctx, b, c.additional(KindRoot))
		if werr == nil {
			werr = checkKeyID(id)
		}
		if werr != nil {
			err = fmt.Errorf("wrap under the root key: %w", werr)
			return
		}
		blob = join(KindRoot, id, wrapped)
	})
	return blob, err
}

// Unwrap opens what Wrap sealed for the same context. It fails with ErrFormat,
// ErrUnknownKey or ErrOpen, or as the keyring does.
func Unwrap(ctx context.Context, ring Keyring, blob []byte, c Context) (secret.Text, error) {
	id, body, err := expect(KindRoot, blob)
	if err != nil {
		return secret.Text{}, fmt.Errorf("unwrap: %w", err)
	}
	plain, err := ring.Unwrap(ctx, id, body, c.additional(KindRoot))
	if err != nil {
		return secret.Text{}, fmt.Errorf("unwrap with root key %q: %w", id, err)
	}
	return secret.FromBytes(plain), nil
}

// Rewrap moves a blob of Wrap to the current root key. It returns the blob
// itself and false if that key already holds it. What is inside does not
// change, so everything sealed under a rewrapped data key stays as it is.
func Rewrap(ctx context.Context, ring Keyring, blob []byte, c Context) ([]byte, bool, error) {
	id, _, err := expect(KindRoot, blob)
	if err != nil {
		return nil, false, fmt.Errorf("rewrap: %w", err)
	}
	if id == ring.Current() {
		return blob, false, nil
	}
	plain, err := Unwrap(ctx, ring, blob, c)
	if err != nil {
		return nil, false, fmt.Errorf("rewrap: %w", err)
	}
	defer plain.Wipe()
	out, err := Wrap(ctx, ring, plain, c)
	if err != nil {
		return nil, false, fmt.Errorf("rewrap: %w", err)
	}
	return out, true, nil
}
