// Package stateid makes state that belongs to one account of a provider findable
// from the text that a client holds of it.
//
// A provider's stored objects (responses, conversations, files, cached contents)
// exist for one account only. Their ids leave the gateway wrapped: the id carries
// its owner, so any node finds the owner for as long as the object lives, without a
// table. Opaque reasoning state is carried in tokens through fields of protocols
// that know nothing of it. Both are authenticated with a key of the tenant and
// neither hides anything; the client could read it, but not change it.
package stateid

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// KeySize is the size of a tenant's state key in bytes.
const KeySize = 32

// ErrKey is in the tree of the error that NewKey returns.
var ErrKey = errors.New("not a state key")

// The labels keep the uses of one key apart. They never change: what clients hold
// was made with them.
const (
	labelIDs    = "aidy state ids v1"
	labelTokens = "aidy state tokens v1"
	labelScopes = "aidy state scopes v1"
)

// macSize is what is kept of an HMAC-SHA256: 128 bits, as RFC 2104, section 5 allows.
const macSize = 16

// Key wraps and unwraps for one tenant. A nil Key wraps nothing and opens nothing,
// as for a tenant whose key is not on this node. It prints no secret and is safe
// for concurrent use.
type Key struct {
	ids, tokens, scopes secret.Text
}

// NewKey derives what is needed from a tenant's state key of KeySize bytes. raw is
// not kept. It fails with ErrKey.
func NewKey(raw secret.Text) (*Key, error) {
	k := new(Key)
	var err error
	raw.Use(func(b []byte) {
		if len(b) != KeySize {
			err = fmt.Errorf("%w: %d bytes, want %d", ErrKey, len(b), KeySize)
			return
		}
		for _, d := range [...]struct {
			to    *secret.Text
			label string
		}{{&k.ids, labelIDs}, {&k.tokens, labelTokens}, {&k.scopes, labelScopes}} {
			sub, derr := hkdf.Key(sha256.New, b, nil, d.label, sha256.Size)
			if derr != nil {
				err = fmt.Errorf("derive a key from the state key: %w", derr)
				return
			}
			*d.to = secret.FromBytes(sub)
		}
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Wipe overwrites the key. From then on it wraps and opens nothing.
func (k *Key) Wipe() {
	if k == nil {
		return
	}
	for _, t := range [...]secret.Text{k.ids, k.tokens, k.scopes} {
		t.Wipe()
	}
}

// mac returns the MAC of context and payload under a derived key; false if the key
// is wiped. The length of context goes first, so that no other pair of the two makes
// the same bytes.
func mac(key secret.Text, context string, payload []byte) (sum [macSize]byte, ok bool) {
	key.Use(func(b []byte) {
		if len(b) == 0 {
			return
		}
		h := hmac.New(sha256.New, b)
		n := len(context)
		h.Write([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		h.Write([]byte(context))
		h.Write(payload)
		copy(sum[:], h.Sum(nil))
		ok = true
	})
	return sum, ok
}

// verify splits sealed into payload and MAC and reports whether the MAC is right.
func verify(key secret.Text, context string, sealed []byte) (payload []byte, ok bool) {
	if len(sealed) < macSize {
		return nil, false
	}
	payload, got := sealed[:len(sealed)-macSize], sealed[len(sealed)-macSize:]
	want, ok := mac(key, context, payload)
	if !ok || subtle.ConstantTimeCompare(want[:], got) != 1 {
		return nil, false
	}
	return payload, true
}
