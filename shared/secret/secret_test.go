package secret

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

const plain = "hunter2-sk-live"

// leaks reports whether any readable form of the secret is in s.
func leaks(s string) bool {
	for _, form := range []string{
		plain, fmt.Sprintf("%x", plain), fmt.Sprintf("%X", plain), fmt.Sprintf("% x", plain),
		strings.Trim(fmt.Sprint([]byte(plain)), "[]"), fmt.Sprintf("%q", plain),
		strings.Trim(fmt.Sprintf("%#v", []byte(plain)), "[]byte{}"),
	} {
		if strings.Contains(s, form) {
			return true
		}
	}
	return false
}

type holder struct {
	Name   string
	Public Text
	hidden Text
	Ptr    *Text
	Any    any
	List   []Text
	Map    map[string]Text
}

func held() holder {
	t := New(plain)
	return holder{"x", t, t, &t, t, []Text{t}, map[string]Text{"k": t}}
}

func TestNoVerbPrintsTheSecret(t *testing.T) {
	t.Parallel()
	x := New(plain)
	h := held()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%t", "%c", "%U", "%o", "%b", "%e", "%10.3s", "%T", "%p", "%!"} {
		for name, value := range map[string]any{"value": x, "pointer": &x, "struct": h, "struct pointer": &h, "slice": h.List, "map": h.Map, "hidden": h.hidden} {
			if got := fmt.Sprintf(verb, value); leaks(got) {
				t.Errorf("%s of a %s prints %q", verb, name, got)
			}
		}
	}
	if got := fmt.Sprint(x); got != Redacted {
		t.Errorf("printed as %q, want %q", got, Redacted)
	}
	if got := fmt.Errorf("call with %v: %w", x, fmt.Errorf("inner %+v", h)).Error(); leaks(got) {
		t.Errorf("error shows %q", got)
	}
}

func TestNoEncodingWritesTheSecret(t *testing.T) {
	t.Parallel()
	x := New(plain)
	for _, tc := range []struct {
		name   string
		encode func() (string, error)
	}{
		{"json", func() (string, error) { b, err := json.Marshal(held()); return string(b), err }},
		{"json map key", func() (string, error) {
			b, err := json.Marshal(map[string]any{"a": x, "b": []*Text{&x}})
			return string(b), err
		}},
		{"xml", func() (string, error) { b, err := xml.Marshal(x); return string(b), err }},
		{"yaml", func() (string, error) { b, err := yaml.Marshal(held()); return string(b), err }},
		{"gob", func() (string, error) {
			var b bytes.Buffer
			err := gob.NewEncoder(&b).Encode(struct{ S Text }{x})
			return b.String(), err
		}},
		{"slog text", func() (string, error) {
			var b bytes.Buffer
			slog.New(slog.NewTextHandler(&b, nil)).Info("m", "secret", x, "holder", held())
			return b.String(), nil
		}},
		{"slog json", func() (string, error) {
			var b bytes.Buffer
			slog.New(slog.NewJSONHandler(&b, nil)).Info("m", "secret", x, "holder", held())
			return b.String(), nil
		}},
		{"zerolog", func() (string, error) {
			var b bytes.Buffer
			log := zerolog.New(&b)
			log.Info().Interface("i", x).Interface("h", held()).Object("o", x).Stringer("s", x).
				Any("a", x).EmbedObject(x).Fields(map[string]any{"f": x}).Msgf("%v %+v", x, held())
			return b.String(), nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.encode()
			if err != nil {
				t.Fatal(err)
			}
			if leaks(got) {
				t.Errorf("wrote %q", got)
			}
			if !strings.Contains(got, Redacted) {
				t.Errorf("wrote %q, want %q in it", got, Redacted)
			}
		})
	}
}

func TestRevealIsTheOnlyWayOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		x, y := New(a), FromBytes([]byte(b))
		switch {
		case x.Reveal() != a || y.Reveal() != b:
			t.Fatalf("revealed %q and %q, want %q and %q", x.Reveal(), y.Reveal(), a, b)
		case x.Equal(y) != (a == b):
			t.Fatalf("Equal of %q and %q is %v", a, b, x.Equal(y))
		case x.IsZero() != (a == ""):
			t.Fatalf("IsZero of %q is %v", a, x.IsZero())
		}
	})
}

func TestFingerprintIsTheStartOfTheDigest(t *testing.T) {
	t.Parallel()
	if got := New("abc").Fingerprint(); got != "ba7816bf" { // SHA-256 of "abc", FIPS 180-2 appendix B.1
		t.Errorf("got %q, want ba7816bf", got)
	}
	if got := (Text{}).Fingerprint(); got != "" {
		t.Errorf("fingerprint of nothing is %q, want none", got)
	}
}

func TestWipeOverwritesAndEmptiesCopies(t *testing.T) {
	t.Parallel()
	raw := []byte(plain)
	x := FromBytes(raw)
	y := x
	x.Wipe()
	if !bytes.Equal(raw, make([]byte, len(raw))) {
		t.Errorf("bytes after the wipe: %q", raw)
	}
	if y.Reveal() != "" || !y.IsZero() {
		t.Errorf("a copy still reveals %q", y.Reveal())
	}
	(Text{}).Wipe()
}

func TestSecretsAreReadFromText(t *testing.T) {
	t.Parallel()
	var got struct{ S Text }
	if err := json.Unmarshal([]byte(`{"S":"`+plain+`"}`), &got); err != nil || got.S.Reveal() != plain {
		t.Errorf("json gave %q, %v", got.S.Reveal(), err)
	}
	if err := json.Unmarshal([]byte(`{"S":"[redacted]"}`), &got); err == nil {
		t.Error("a printed secret was read back as a secret")
	}
	if err := yaml.Unmarshal([]byte("s: "+plain), &got); err != nil || got.S.Reveal() != plain {
		t.Errorf("yaml gave %q, %v", got.S.Reveal(), err)
	}
}
