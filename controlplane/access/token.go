package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

const (
	// tokenPrefix begins every token made here, so that scanners for leaked
	// secrets recognise one.
	tokenPrefix = "aidy_adm_"
	// maxToken bounds what is looked at as a token, in bytes.
	maxToken = 512
	// MinToken is the length of the shortest token that is accepted as the
	// bootstrap token, in bytes.
	MinToken = 24
)

// NewToken returns a fresh bearer token of 256 random bits.
func NewToken() secret.Text {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return secret.New(tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:]))
}

// HashToken is what is stored of a token.
func HashToken(t secret.Text) [sha256.Size]byte {
	var sum [sha256.Size]byte
	t.Use(func(b []byte) { sum = sha256.Sum256(b) })
	return sum
}

// bearer returns the token of an Authorization header.
func bearer(header string) (secret.Text, bool) {
	scheme, token, ok := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !ok || !strings.EqualFold(scheme, "bearer") || token == "" || len(token) > maxToken {
		return secret.Text{}, false
	}
	return secret.New(token), true
}
