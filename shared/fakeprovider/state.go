package fakeprovider

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"sync"
)

// Bytes of a seal: a nonce, so that seals differ, and a proof.
const (
	sealNonce = 8
	sealProof = 16
)

// seal makes opaque state that this provider knows again: base64, as the vendors'
// is. scope is whom it is valid for and content what it belongs to. Equal arguments
// give equal seals; they are no secret, only recognisable.
func seal(nonce [sha256.Size]byte, scope, content string) string {
	out := append(nonce[:sealNonce:sealNonce], prove(nonce[:sealNonce], scope, content)...)
	return base64.StdEncoding.EncodeToString(out)
}

// sealed tells whether s was made by seal for the same scope and content.
func sealed(s, scope, content string) bool {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		if raw, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "=")); err != nil { // as protobuf takes it
			return false
		}
	}
	return len(raw) == sealNonce+sealProof &&
		subtle.ConstantTimeCompare(raw[sealNonce:], prove(raw[:sealNonce], scope, content)) == 1
}

func prove(nonce []byte, scope, content string) []byte {
	h := sha256.New()
	for _, part := range []string{"seal", string(nonce), scope, content} {
		_, _ = h.Write([]byte(part)) // a hash does not fail
		_, _ = h.Write([]byte{0})
	}
	return h.Sum(nil)[:sealProof]
}

// Scopes of seals. Reasoning in Responses is encrypted for the organisation, which is
// the key here.
const (
	thinkingScope = "anthropic thinking"
	redactedScope = "anthropic redacted_thinking"
	thoughtScope  = "gemini thoughtSignature"
)

func reasoningScope(key string) string { return "openai reasoning " + key }

// maxStored bounds the ids of stored responses and items.
const maxStored = 10000

// storage knows the ids of what the provider stored. Safe for concurrent use.
type storage struct {
	mu    sync.Mutex
	ids   map[string]bool // guarded by mu
	order []string        // guarded by mu; oldest first
}

func (s *storage) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids[id] {
		return
	}
	if s.ids == nil {
		s.ids = make(map[string]bool)
	}
	s.ids[id] = true
	if s.order = append(s.order, id); len(s.order) > maxStored {
		delete(s.ids, s.order[0])
		s.order = s.order[1:]
	}
}

func (s *storage) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

func (s *storage) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids, s.order = nil, nil
}
