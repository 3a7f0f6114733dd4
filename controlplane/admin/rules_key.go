package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

const (
	// keyPrefix begins every key of a consumer, so that scanners for leaked
	// secrets recognise one.
	keyPrefix = "sk-aidy-"
	// hintLength is how much of a key people are shown.
	hintLength = len(keyPrefix) + 4
)

// newKey returns a fresh key of 256 random bits, its hash in hex and its hint.
func newKey() (key secret.Text, sum, hint string) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	text := keyPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	return secret.New(text), hashText(text), text[:hintLength]
}

func hashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// inferenceScopes are what SCOPE_INFERENCE stands for when a key is made: every
// operation that generates. Scopes added by later releases are not in old keys.
func inferenceScopes() []configv1.Scope {
	return []configv1.Scope{
		configv1.Scope_SCOPE_CHAT, configv1.Scope_SCOPE_EMBEDDINGS, configv1.Scope_SCOPE_IMAGES,
		configv1.Scope_SCOPE_AUDIO, configv1.Scope_SCOPE_VIDEO, configv1.Scope_SCOPE_REALTIME,
	}
}

// expandScopes replaces inference by what it stands for; none means inference and
// models.
func expandScopes(scopes []configv1.Scope) []configv1.Scope {
	if len(scopes) == 0 {
		scopes = []configv1.Scope{configv1.Scope_SCOPE_INFERENCE, configv1.Scope_SCOPE_MODELS}
	}
	var out []configv1.Scope
	for _, s := range scopes {
		if s == configv1.Scope_SCOPE_INFERENCE {
			out = append(out, inferenceScopes()...)
			continue
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// keyRules make the secret of a key where its author made none.
func keyRules() rules {
	return rules{
		derived: []string{"sha256", "hint", "revoke_time", "successor_id"},
		before: func(w *write, old, m proto.Message) error {
			was, _ := old.(*configv1.ConsumerAPIKey)
			is, _ := m.(*configv1.ConsumerAPIKey)
			is.Scopes = expandScopes(is.GetScopes())
			if was != nil {
				if is.GetSha256() != was.GetSha256() {
					return wrong(is, "sha256", "immutable", "a key keeps its secret; RotateAPIKey makes a successor with another")
				}
				return nil
			}
			if !w.bundle && is.GetExpireTime() != nil && !is.GetExpireTime().AsTime().After(w.tx.Now()) {
				return wrong(is, "expire_time", "key.expire", "give a time in the future; it is %s now", w.tx.Now().Format(time.RFC3339))
			}
			switch {
			case is.GetSha256() != "":
			case w.bundle:
				return wrong(is, "sha256", "required", "give the hex SHA-256 of a secret that you made; CreateConsumerAPIKey makes one for you")
			default:
				w.shown, is.Sha256, is.Hint = newKey()
			}
			return nil
		},
	}
}

// routeRules hash legacy tokens. One token opens one door: it is of one route.
func routeRules() rules {
	return rules{before: func(w *write, _, m proto.Message) error {
		r, _ := m.(*configv1.Route)
		for i, t := range r.GetLegacyBearerAuthTokens() {
			at := fmt.Sprintf("legacy_bearer_auth_tokens[%d]", i)
			if t.GetToken() != "" {
				t.Sha256 = hashText(t.GetToken())
			}
			if t.GetSha256() == "" {
				return wrong(r, at+".token", "required", "give the token, or the sha256 that you read, to keep it")
			}
			holder, err := w.tx.RouteOfToken(w.ctx, t.GetSha256())
			if err != nil {
				return err
			}
			if holder != nil && holder.GetId() != r.GetId() {
				return wrong(r, at, "unique", "the token is of another route already; make another token")
			}
			keys, err := store.All[*configv1.ConsumerAPIKey](w.ctx, w.tx, store.Filter{Equal: map[string]any{"sha256": t.GetSha256()}})
			if err != nil {
				return err
			}
			if len(keys) > 0 {
				return wrong(r, at, "unique", "the token is a key of a consumer already; make another token")
			}
		}
		return nil
	}}
}
