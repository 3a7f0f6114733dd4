package stateid_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
)

var (
	kinds  = rapid.SampledFrom([]stateid.Kind{stateid.AnthropicSignature, stateid.AnthropicRedacted, stateid.ResponsesEncrypted, stateid.GeminiSignature})
	blobs  = rapid.SliceOfN(rapid.Byte(), 1, 80)
	states = rapid.OneOf(
		rapid.Map(blobs, base64.StdEncoding.EncodeToString), rapid.Map(blobs, base64.RawURLEncoding.EncodeToString),
		rapid.Map(blobs, base64.URLEncoding.EncodeToString), rapid.StringN(1, 40, 80), rapid.StringMatching(`[A-Za-z0-9+/=\r\n]{1,40}`),
	)
)

func TestSealRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := rawKeys.Draw(t, "key")
		k := keyOf(t, raw)
		kind, scope, data := kinds.Draw(t, "kind"), scopes.Draw(t, "scope"), states.Draw(t, "data")
		token := k.Seal(kind, scope, data)
		if !stateid.IsToken(token) || token != k.Seal(kind, scope, data) {
			t.Fatalf("made %q, then %q", token, k.Seal(kind, scope, data))
		}
		got, ok := k.Open(token)
		if !ok || got.Kind != kind || got.Data != data {
			t.Fatalf("opened %v %q, %v, want %v %q", got.Kind, got.Data, ok, kind, data)
		}
		if !got.In(scope) || got.In(scope+"x") {
			t.Fatalf("in its scope: %v, in another: %v", got.In(scope), got.In(scope+"x"))
		}
		if _, ok := keyOf(t, flip(raw, 0, raw[0]^1)).Open(token); ok {
			t.Fatal("another tenant opens the token")
		}
	})
}

func TestChangedTokenIsRefused(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	rapid.Check(t, func(t *rapid.T) {
		token := k.Seal(kinds.Draw(t, "kind"), scopes.Draw(t, "scope"), states.Draw(t, "data"))
		at := rapid.IntRange(0, len(token)-1).Draw(t, "at")
		with := rapid.Byte().Filter(func(b byte) bool { return b != token[at] }).Draw(t, "with")
		for _, other := range []string{flip(token, at, with), token[:at], token[:at] + "\n" + token[at:], token + "A"} {
			if got, ok := k.Open(other); ok {
				t.Fatalf("%q, made from %q, opens to %q", other, token, got.Data)
			}
		}
	})
}

// An id is no token and a token no id, although one key makes both.
func TestUsesAreApart(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	token, id := k.Seal(stateid.GeminiSignature, "s", "data"), k.Wrap("x_data", owner("s", "u"))
	if _, ok := k.Open("gws1_" + strings.TrimPrefix(id, "x_gw1_")); ok {
		t.Error("an id opens as a token")
	}
	if _, _, ok := k.Unwrap("gw1_" + strings.TrimPrefix(token, "gws1_")); ok {
		t.Error("a token unwraps as an id")
	}
	if stateid.IsToken(id) || stateid.IsWrapped(token) {
		t.Error("the one looks like the other")
	}
}

// Signatures are base 64 of kilobytes, and call ids carry them: they must not grow.
func TestTokenIsLittleLongerThanItsState(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	blob := make([]byte, 3000)
	for name, data := range map[string]string{
		"std": base64.StdEncoding.EncodeToString(blob), "url": base64.URLEncoding.EncodeToString(blob), "raw": base64.RawURLEncoding.EncodeToString(blob[:2999]),
	} {
		if token := k.Seal(stateid.AnthropicSignature, "s", data); len(token) > len(data)+50 {
			t.Errorf("%s: a token of %d bytes for %d", name, len(token), len(data))
		}
	}
}

func TestStateIsBounded(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	most := strings.Repeat("!", stateid.MaxState)
	if got, ok := k.Open(k.Seal(stateid.AnthropicRedacted, "s", most)); !ok || got.Data != most {
		t.Error("the longest state does not come back")
	}
	for _, data := range []string{"", most + "!"} {
		if token := k.Seal(stateid.AnthropicRedacted, "s", data); token != "" {
			t.Errorf("a state of %d bytes was sealed", len(data))
		}
	}
	if stateid.IsToken("gws1_" + strings.Repeat("A", 2*stateid.MaxState)) {
		t.Error("a text beyond every token looks like one")
	}
}

func TestJoinRoundTrip(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	rapid.Check(t, func(t *rapid.T) {
		callID := rapid.StringMatching(`[A-Za-z0-9_-]{0,40}`).Draw(t, "call id")
		for range rapid.IntRange(1, 3).Draw(t, "gateways") {
			token := k.Seal(kinds.Draw(t, "kind"), scopes.Draw(t, "scope"), states.Draw(t, "data"))
			joined := stateid.JoinCallID(callID, token)
			gotID, gotToken, ok := stateid.SplitCallID(joined)
			if !ok || gotID != callID || gotToken != token {
				t.Fatalf("%q splits to %q and %q, %v", joined, gotID, gotToken, ok)
			}
			if strings.Trim(joined, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
				t.Fatalf("%q has characters that call ids may not have", joined)
			}
			callID = joined
		}
	})
}

func TestCallIDWithoutTokenStays(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "call", "call_1", "toolu_01A09q90qw90lq917835lq9", "x_gws1_AAAAAA", "function-call-12:0"} {
		if got := stateid.JoinCallID(id, ""); got != id {
			t.Errorf("%q became %q", id, got)
		}
		if got, token, ok := stateid.SplitCallID(id); ok || got != id || token != "" {
			t.Errorf("%q splits to %q and %q", id, got, token)
		}
	}
}

func FuzzOpen(f *testing.F) {
	k := keyOf(f, text)
	f.Add(k.Seal(stateid.GeminiSignature, "scope", "c3RhdGU="))
	f.Add("gws1_AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		if got, ok := k.Open(s); ok && (!stateid.IsToken(s) || got.Data == "") {
			t.Errorf("%q opens to %q but is no token", s, got.Data)
		}
		if token := k.Seal(stateid.GeminiSignature, "scope", s); token != "" {
			if got, ok := k.Open(token); !ok || got.Data != s {
				t.Errorf("%q came back as %q", s, got.Data)
			}
		}
	})
}

func FuzzSplitCallID(f *testing.F) {
	k := keyOf(f, text)
	f.Add(stateid.JoinCallID("call_1", k.Seal(stateid.GeminiSignature, "scope", "c3RhdGU=")))
	f.Add("call_1")
	f.Fuzz(func(t *testing.T, s string) {
		id, token, ok := stateid.SplitCallID(s)
		if !ok && (id != s || token != "") || ok && stateid.JoinCallID(id, token) != s {
			t.Errorf("%q splits to %q and %q, %v", s, id, token, ok)
		}
	})
}

// Base 64 has several spellings of one value where its last character holds bits
// that do not count. One thing has one spelling.
func TestLastCharacterCounts(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	for _, data := range []string{"a!", "ab!", "abc!"} {
		token, id := k.Seal(stateid.GeminiSignature, "s", data), k.Wrap("x_"+data, owner("s", "u"))
		for c := range byte(128) {
			if at := len(token) - 1; c != token[at] {
				if _, ok := k.Open(flip(token, at, c)); ok {
					t.Errorf("%q opens with the last character %q", token, c)
				}
			}
			if at := len(id) - 1; c != id[at] {
				if _, _, ok := k.Unwrap(flip(id, at, c)); ok {
					t.Errorf("%q unwraps with the last character %q", id, c)
				}
			}
		}
	}
}

// A call id that was cut or joined by something else is one without a token.
func TestOnlyWhatJoinMadeIsSplit(t *testing.T) {
	t.Parallel()
	joined := stateid.JoinCallID("call_1", keyOf(t, text).Seal(stateid.GeminiSignature, "s", "data"))
	for _, s := range []string{flip(joined, len("call_1"), '-'), joined[1+len("call_1"):], joined[:len(joined)-1], joined + "A"} {
		if id, token, ok := stateid.SplitCallID(s); ok {
			t.Errorf("%q splits to %q and %q", s, id, token)
		}
	}
}
