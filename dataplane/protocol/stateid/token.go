package stateid

import (
	"bytes"
	"crypto/subtle"
	"strings"
)

// MaxState is the longest opaque state that a token carries, in bytes.
const MaxState = 1 << 20

// tokenMarker begins every token. Its digit is the version of the layout.
const tokenMarker = "gws1_"

const scopeSize = 8

// Kind says which field of which protocol a token's state is for.
type Kind byte

// The kinds. The numbers are part of what clients hold.
const (
	AnthropicSignature Kind = 1 // signature of a thinking block
	AnthropicRedacted  Kind = 2 // data of a redacted_thinking block
	ResponsesEncrypted Kind = 3 // encrypted_content of a reasoning item
	GeminiSignature    Kind = 4 // thoughtSignature of a part
)

var kindNames = [...]string{"unknown", "anthropic_signature", "anthropic_redacted", "responses_encrypted", "gemini_signature"}

// String is the name used in logs.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[0]
}

// Token is what a token carries.
type Token struct {
	Kind Kind
	Data string // the provider's opaque state, byte for byte

	scope [scopeSize]byte
	key   *Key
}

// In reports whether the state was made in scope: that it may be sent there.
func (t Token) In(scope string) bool {
	want, ok := t.key.scopeHash(scope)
	return ok && subtle.ConstantTimeCompare(want[:], t.scope[:]) == 1
}

// Seal returns a token that carries a provider's opaque state, of characters A-Z,
// a-z, 0-9, _ and -, and little longer than data. scope names all who can read the
// state; a hash of it is kept. The same input gives the same token. The token is
// empty if data is empty or longer than MaxState, or if k is nil: the state is then
// not carried.
func (k *Key) Seal(kind Kind, scope, data string) string {
	if k == nil || data == "" || len(data) > MaxState {
		return ""
	}
	hash, ok := k.scopeHash(scope)
	if !ok {
		return ""
	}
	f, packed := pack(data)
	payload := make([]byte, 0, 2+scopeSize+len(packed)+macSize)
	payload = append(payload, byte(kind), byte(f))
	payload = append(payload, hash[:]...)
	payload = append(payload, packed...)
	sum, ok := mac(k.tokens, tokenMarker, payload)
	if !ok {
		return ""
	}
	return tokenMarker + encode(append(payload, sum[:]...))
}

// Open returns what a token carries. ok is false for anything but a token that
// Seal made under the same key.
func (k *Key) Open(token string) (t Token, ok bool) {
	text, ok := strings.CutPrefix(token, tokenMarker)
	if k == nil || !ok || len(text) > maxTokenText {
		return Token{}, false
	}
	sealed, ok := decode(text)
	if !ok {
		return Token{}, false
	}
	payload, ok := verify(k.tokens, tokenMarker, sealed)
	if !ok || len(payload) < 2+scopeSize {
		return Token{}, false
	}
	t = Token{Kind: Kind(payload[0]), scope: [scopeSize]byte(payload[2:]), key: k}
	t.Data, ok = unpack(form(payload[1]), payload[2+scopeSize:])
	if !ok {
		return Token{}, false
	}
	return t, true
}

const (
	minTokenText = (2+scopeSize+macSize)*4/3 + 1
	maxTokenText = (2+scopeSize+MaxState+macSize)*4/3 + 3
)

// MayHoldToken reports whether a body may hold a token somewhere, as it is or in base64
// as Gemini's signatures are. It looks at bytes alone.
func MayHoldToken(body []byte) bool {
	return bytes.Contains(body, []byte(tokenMarker)) || bytes.Contains(body, []byte(`"`+encodedMarker))
}

// encodedMarker is how tokenMarker begins in base64, whatever comes after it.
const encodedMarker = "Z3dzMV"

// IsToken reports whether s looks like a token, whoever made it. A token that does
// not open is of no use to any provider and is not to be sent to one.
func IsToken(s string) bool {
	text, ok := strings.CutPrefix(s, tokenMarker)
	return ok && len(text) >= minTokenText && len(text) <= maxTokenText && plain(text)
}

func (k *Key) scopeHash(scope string) (hash [scopeSize]byte, ok bool) {
	if k == nil {
		return hash, false
	}
	sum, ok := mac(k.scopes, scope, nil)
	copy(hash[:], sum[:])
	return hash, ok
}
