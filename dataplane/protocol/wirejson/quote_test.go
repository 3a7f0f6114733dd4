package wirejson_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// checkQuoting compares both directions with the tokenizer's own.
func checkQuoting(t interface{ Fatalf(string, ...any) }, text string) {
	valid := strings.ToValidUTF8(text, "\uFFFD")
	want, err := jsontext.AppendQuote([]byte("x"), valid)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for name, got := range map[string][]byte{
		"string": wirejson.AppendString([]byte("x"), text), "text": wirejson.AppendText([]byte("x"), []byte(text)),
	} {
		if string(got) != string(want) {
			t.Fatalf("%s: %q is quoted as %s, want %s", name, text, got, want)
		}
	}
	if got := wirejson.Unquote(nil, want[1:]); string(got) != valid {
		t.Fatalf("%s is read as %q, want %q", want[1:], got, valid)
	}
	if !wirejson.Unquotable(want[2 : len(want)-1]) {
		t.Fatalf("%s takes the slow way", want)
	}
}

// checkUnquoting reads the inside of a string, right or wrong, as the tokenizer does.
func checkUnquoting(t interface{ Fatalf(string, ...any) }, inside string) {
	raw := []byte(`"` + inside + `"`)
	want, err := jsontext.AppendUnquote([]byte("x"), raw)
	if got := wirejson.Unquote([]byte("x"), raw); string(got) != string(want) {
		t.Fatalf("%s is read as %q, want %q (%v)", raw, got, want, err)
	}
	if err != nil && wirejson.Unquotable([]byte(inside)) {
		t.Fatalf("%s is taken without a word, want %v", raw, err)
	}
}

func TestQuotingIsThatOfTheTokenizer(t *testing.T) {
	t.Parallel()
	for c := range rune(0x200) {
		checkQuoting(t, "before "+string(c)+" after, which is longer than eight")
	}
	for _, text := range []string{"", "\xff", "a\u2028b\u2029c", "<&>\x7f", "😀\ufffd", strings.Repeat("é\n", 50)} {
		checkQuoting(t, text)
	}
	for _, inside := range []string{
		``, `\`, `\u`, `\u00e`, `\u00eg`, `\u00E9`, `\ud83d\ude00`, `\ud83d`, `\ud83d\n`, `\ud83dx`, `\ud83d\u0041`, `\ude00`, `\x`, `a"b`, "a\nb", "a\xffb", `\/\b\f\r\t`,
	} {
		checkUnquoting(t, inside)
	}
	rapid.Check(t, func(t *rapid.T) {
		checkQuoting(t, rapid.String().Draw(t, "text"))
		pieces := rapid.SliceOf(rapid.SampledFrom([]string{
			`\n`, `\"`, `\\`, `\u00e9`, `\ud83d`, `\ude00`, `\uD83D\uDE00`, "é", "😀", "plain", "a text that is longer", "\xc3", `\`, `"`, "\x00",
		})).Draw(t, "inside")
		checkUnquoting(t, strings.Join(pieces, ""))
	})
}

func FuzzQuoting(f *testing.F) {
	for _, s := range []string{"plain", `a\u00e9\ud83d\ude00\n`, "\xff\"", `\ud83d\ud83d\ude00`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkQuoting(t, s)
		checkUnquoting(t, s)
		if !utf8.ValidString(string(wirejson.AppendString(nil, s))) {
			t.Errorf("%q is quoted as something that is no UTF-8", s)
		}
	})
}
