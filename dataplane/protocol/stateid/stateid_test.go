package stateid_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// failer is what testing and rapid have in common.
type failer interface {
	Helper()
	Fatal(args ...any)
}

const text = "0123456789abcdef0123456789ABCDEF" // a key of 32 bytes

func keyOf(t failer, raw string) *stateid.Key {
	t.Helper()
	k, err := stateid.NewKey(secret.New(raw))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeyHas32Bytes(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", text[1:], text + "x"} {
		if _, err := stateid.NewKey(secret.New(raw)); !errors.Is(err, stateid.ErrKey) {
			t.Errorf("a key of %d bytes: %v, want ErrKey", len(raw), err)
		}
	}
}

func TestKeyPrintsNothing(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	inside := struct{ K *stateid.Key }{k}
	marshalled, err := json.Marshal(inside)
	if err != nil {
		t.Fatal(err)
	}

	for _, shown := range []string{fmt.Sprintf("%v %+v %#v", *k, *k, *k), fmt.Sprintf("%+v", inside), string(marshalled)} {
		if strings.Contains(shown, text) || strings.Contains(shown, fmt.Sprintf("%x", text)) {
			t.Errorf("the key prints as %s", shown)
		}
	}
}

// The texts of TestLayoutStays.
const (
	wantResponse = "resp_gw1_FgGXdCDcAHAAsU2avDqQtJEBl3Qg3ABwAJXrFBMTsmCCZ8zTqdp0gZC6p_FXD-kaxgS-yyXEXB1BOFumM_mrSjLeamA53rOFQw"
	wantCached   = "cachedContents/gw1_PAVvcmctYeIKsdpNQOrHwqo9NSyb6h7-lZaF4zI"
	wantToken    = "gws1_AQItWBWtAWo54BKqAQpICAEQAXgzcbXSQfJKSzIjTnO5aIQ"
	wantLength   = "AAA0"
)

// What clients hold must open after an update of the gateway. These texts were made
// by the first release; a change of them breaks every stored id.
func TestLayoutStays(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	o := stateid.Owner{Scope: "crd_01jxt21q00e00b2kctqgx91d4h", Upstream: "upr_01jxt21q00e009btrm2c9v4r42"}
	for _, tc := range []struct{ got, want string }{
		{k.Wrap("resp_67ccd3a9da748190baa7f1570fe91ac604becb25c45c1d41", o), wantResponse},
		{k.Wrap("cachedContents/4gqx2k1", stateid.Owner{Scope: "org-a"}), wantCached},
		{k.Seal(stateid.AnthropicSignature, "crd_a", "EqoBCkgIARAB"), wantToken},
		{stateid.JoinCallID("call_1", wantToken), "call_1_" + wantToken + wantLength},
	} {
		if tc.got != tc.want {
			t.Errorf("made %q,\nwant %q", tc.got, tc.want)
		}
	}
}

func TestNoKeyWrapsNothing(t *testing.T) {
	t.Parallel()
	wiped := keyOf(t, text)
	id := wiped.Wrap("resp_1", stateid.Owner{Scope: "a"})
	token := wiped.Seal(stateid.GeminiSignature, "a", "data")
	wiped.Wipe()
	for name, k := range map[string]*stateid.Key{"nil": nil, "wiped": wiped} {
		if got := k.Wrap("resp_1", stateid.Owner{Scope: "a"}); got != "resp_1" {
			t.Errorf("%s: wrapped to %q", name, got)
		}
		if got := k.Seal(stateid.GeminiSignature, "a", "data"); got != "" {
			t.Errorf("%s: sealed to %q", name, got)
		}
		if _, _, ok := k.Unwrap(id); ok {
			t.Errorf("%s: unwrapped", name)
		}
		if _, ok := k.Open(token); ok {
			t.Errorf("%s: opened", name)
		}
		k.Wipe()
	}
}

// A token opened before the key was wiped is in no scope any more.
func TestWipedKeyKnowsNoScope(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	opened, ok := k.Open(k.Seal(stateid.GeminiSignature, "a", "data"))
	if !ok || !opened.In("a") || opened.In("b") {
		t.Fatalf("opened: %v, in a: %v, in b: %v", ok, opened.In("a"), opened.In("b"))
	}
	k.Wipe()
	if opened.In("a") || (stateid.Token{}).In("") {
		t.Error("a scope was recognised without a key")
	}
}

func flip(s string, at int, with byte) string {
	b := bytes.Clone([]byte(s))
	b[at] = with
	return string(b)
}
