package peer

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// JoinToken lets one node enrol once. Its text is
//
//	jt_<id>_<secret>_<hash of the authority>
//
// where id is the token's id without its prefix, and secret and hash are 32
// bytes each in 52 characters of lower-case Crockford base 32.
type JoinToken struct {
	ID     string      // of kind ident.JoinToken
	Secret secret.Text // 32 random bytes; the control plane keeps its SecretHash alone
	CA     Hash        // whom the node may talk to
}

const tokenPrefix = "jt"

// base32Text is strict about nothing but its alphabet; parse32 adds the rest.
var base32Text = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewJoinToken returns a fresh token for nodes of the authority with this hash.
func NewJoinToken(ca Hash) JoinToken {
	b := make([]byte, sha256.Size)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return JoinToken{ID: ident.New(ident.JoinToken), Secret: secret.FromBytes(b), CA: ca}
}

// Text returns the token's text, to be shown once.
func (t JoinToken) Text() secret.Text {
	var text string
	t.Secret.Use(func(b []byte) {
		_, body, _ := strings.Cut(t.ID, "_")
		text = strings.Join([]string{tokenPrefix, body, base32Text.EncodeToString(b), base32Text.EncodeToString(t.CA[:])}, "_")
	})
	return secret.New(text)
}

// SecretHash returns the SHA-256 of the secret, which is what is stored.
func (t JoinToken) SecretHash() Hash {
	var h Hash
	t.Secret.Use(func(b []byte) { h = sha256.Sum256(b) })
	return h
}

// ParseJoinToken reads a token's text. It accepts exactly what Text writes and
// fails with ErrToken, never showing the text. Space around it is left out,
// since tokens are pasted.
func ParseJoinToken(text secret.Text) (JoinToken, error) {
	parts := strings.Split(strings.TrimSpace(text.Reveal()), "_")
	if len(parts) != 4 || parts[0] != tokenPrefix {
		return JoinToken{}, fmt.Errorf("%w: want jt_, an id, a secret and a hash, joined by underscores", ErrToken)
	}
	id := string(ident.JoinToken) + "_" + parts[1]
	if !ident.Valid(ident.JoinToken, id) {
		return JoinToken{}, fmt.Errorf("%w: its id is not one", ErrToken)
	}
	key, ok1 := parse32(parts[2])
	hash, ok2 := parse32(parts[3])
	if !ok1 || !ok2 {
		return JoinToken{}, fmt.Errorf("%w: secret and hash are 52 characters of base 32 each; was it copied whole?", ErrToken)
	}
	return JoinToken{ID: id, Secret: secret.FromBytes(key), CA: Hash(hash)}, nil
}

// parse32 reads 32 bytes. 52 characters hold four bits more; these must be 0, or
// one value would have several texts.
func parse32(s string) ([]byte, bool) {
	b, err := base32Text.DecodeString(s)
	return b, err == nil && len(b) == sha256.Size && base32Text.EncodeToString(b) == s
}
