package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

func ringOf(t testing.TB, seeds ...byte) *LocalKeyring {
	t.Helper()
	var keys []secret.Text
	for _, s := range seeds {
		keys = append(keys, secret.FromBytes(bytes.Repeat([]byte{s}, KeySize)))
	}
	ring, err := NewLocalKeyring(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// layer is one of the three ways to seal, behind one pair of functions.
type layer struct {
	name string
	seal func(secret.Text, Context) ([]byte, error)
	open func([]byte, Context) (secret.Text, error)
	// other opens with a different key of the same layer.
	other func([]byte, Context) (secret.Text, error)
}

func layers(t testing.TB, tenant string) []layer {
	t.Helper()
	ctx := context.Background()
	root, otherRoot := ringOf(t, 1), ringOf(t, 2)
	dk, err1 := NewDataKey(tenant)
	otherDK, err2 := NewDataKey(tenant)
	ck, err3 := NewContentKey()
	otherCK, err4 := NewContentKey()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return []layer{
		{
			"root",
			func(p secret.Text, c Context) ([]byte, error) { return Wrap(ctx, root, p, c) },
			func(b []byte, c Context) (secret.Text, error) { return Unwrap(ctx, root, b, c) },
			func(b []byte, c Context) (secret.Text, error) { return Unwrap(ctx, otherRoot, b, c) },
		},
		{"data", dk.Seal, dk.Open, otherDK.Open},
		{
			"content",
			func(p secret.Text, c Context) ([]byte, error) { return SealWith(ck, p, c) },
			func(b []byte, c Context) (secret.Text, error) { return OpenWith([]ContentKey{otherCK, ck}, b, c) },
			func(b []byte, c Context) (secret.Text, error) { return OpenWith([]ContentKey{otherCK}, b, c) },
		},
	}
}

func TestOpenReversesSeal(t *testing.T) {
	t.Parallel()
	for _, l := range layers(t, "ten_a") {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
				c := Context{"ten_a", rapid.String().Draw(t, "id"), rapid.Uint64().Draw(t, "version")}
				blob, err := l.seal(secret.New(string(plain)), c)
				if err != nil {
					t.Fatal(err)
				}
				got, err := l.open(blob, c)
				if err != nil || got.Reveal() != string(plain) {
					t.Fatalf("opened as %q, %v; want %q", got.Reveal(), err, plain)
				}
			})
		})
	}
}

func TestAnyChangedByteKeepsABlobShut(t *testing.T) {
	t.Parallel()
	const plain = "sk-very-secret-value"
	c := Context{"ten_a", "crd_b", 7}
	for _, l := range layers(t, "ten_a") {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			blob, err := l.seal(secret.New(plain), c)
			if err != nil {
				t.Fatal(err)
			}
			for i := range blob {
				for bit := range 8 {
					bad := bytes.Clone(blob)
					bad[i] ^= 1 << bit
					checkShut(t, plain, fmt.Sprintf("bit %d of byte %d flipped", bit, i), func() (secret.Text, error) { return l.open(bad, c) })
				}
			}
			for n := range blob {
				checkShut(t, plain, fmt.Sprintf("cut to %d bytes", n), func() (secret.Text, error) { return l.open(blob[:n], c) })
			}
			checkShut(t, plain, "one byte more", func() (secret.Text, error) { return l.open(append(bytes.Clone(blob), 0), c) })
			checkShut(t, plain, "another key", func() (secret.Text, error) { return l.other(blob, c) })
		})
	}
}

func checkShut(t *testing.T, plain, what string, open func() (secret.Text, error)) {
	t.Helper()
	got, err := open()
	switch {
	case err == nil:
		t.Errorf("%s: opened as %q", what, got.Reveal())
	case !got.IsZero():
		t.Errorf("%s: a value came with the error", what)
	case !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnknownKey) && !errors.Is(err, ErrOpen):
		t.Errorf("%s: error of no kind: %v", what, err)
	case strings.Contains(err.Error(), plain):
		t.Errorf("%s: the error shows the secret: %v", what, err)
	}
}

func TestAnotherContextKeepsABlobShut(t *testing.T) {
	t.Parallel()
	for _, l := range layers(t, "ab") {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			blob, err := l.seal(secret.New("x"), Context{"ab", "c", 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []Context{{"a", "bc", 1}, {"abc", "", 1}, {"", "abc", 1}, {"ab", "c", 2}, {"ab", "d", 1}, {"ac", "c", 1}, {}} {
				if _, err := l.open(blob, c); !errors.Is(err, ErrOpen) {
					t.Errorf("opened for %+v: %v, want ErrOpen", c, err)
				}
			}
		})
	}
}

func TestAdditionalDataIsUnambiguous(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (Context, Kind) {
			small := rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 'a'}), 0, 6, -1)
			return Context{small.Draw(t, name+" tenant"), small.Draw(t, name+" id"), rapid.Uint64Range(0, 2).Draw(t, name+" version")},
				Kind(rapid.IntRange(1, 3).Draw(t, name+" kind"))
		}
		a, ka := draw("a")
		b, kb := draw("b")
		same := a == b && ka == kb
		if bytes.Equal(a.additional(ka), b.additional(kb)) != same {
			t.Fatalf("%+v (%d) and %+v (%d): same is %v", a, ka, b, kb, same)
		}
	})
}

func TestOneLayersBlobIsNotAnothers(t *testing.T) {
	t.Parallel()
	c := Context{"ten_a", "crd_b", 1}
	all := layers(t, "ten_a")
	for _, from := range all {
		blob, err := from.seal(secret.New("x"), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range all {
			if from.name == to.name {
				continue
			}
			if _, err := to.open(blob, c); !errors.Is(err, ErrFormat) {
				t.Errorf("%s blob opened as %s: %v, want ErrFormat", from.name, to.name, err)
			}
		}
	}
}

func TestSealingTwiceGivesTwoBlobs(t *testing.T) {
	t.Parallel()
	for _, l := range layers(t, "ten_a") {
		a, err1 := l.seal(secret.New("x"), Context{Tenant: "ten_a"})
		b, err2 := l.seal(secret.New("x"), Context{Tenant: "ten_a"})
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(a, b) {
			t.Errorf("%s: the same blob twice", l.name)
		}
		if bytes.Contains(a, []byte("sk-")) {
			t.Errorf("%s: plain text in the blob", l.name)
		}
	}
}

func TestADataKeySealsForItsTenantAlone(t *testing.T) {
	t.Parallel()
	dk, err := NewDataKey("ten_a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dk.Seal(secret.New("x"), Context{Tenant: "ten_b"}); !errors.Is(err, ErrInput) {
		t.Errorf("sealed for another tenant: %v, want ErrInput", err)
	}
}

func TestRootRotationRewrapsDataKeysOnly(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	before, after := ringOf(t, 1), ringOf(t, 2, 1)
	dk, err := NewDataKey("ten_a")
	if err != nil {
		t.Fatal(err)
	}
	c := Context{"ten_a", "crd_b", 3}
	wrapped, err1 := dk.Wrap(ctx, before)
	stored, err2 := dk.Seal(secret.New("sk-1"), c)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}

	moved, changed, err := Rewrap(ctx, after, wrapped, DataKeyContext("ten_a", dk.ID))
	if err != nil || !changed {
		t.Fatalf("rewrap: changed %v, %v", changed, err)
	}
	if _, id, _ := Inspect(moved); id != after.Current() {
		t.Errorf("rewrapped under %q, want %q", id, after.Current())
	}
	if again, changed, err := Rewrap(ctx, after, moved, DataKeyContext("ten_a", dk.ID)); err != nil || changed || !bytes.Equal(again, moved) {
		t.Errorf("second rewrap: changed %v, %v; want no change", changed, err)
	}

	onlyNew := ringOf(t, 2)
	back, err := UnwrapDataKey(ctx, onlyNew, "ten_a", dk.ID, moved)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := back.Open(stored, c); err != nil || got.Reveal() != "sk-1" {
		t.Errorf("the stored secret opens as %q, %v", got.Reveal(), err)
	}
	if _, err := UnwrapDataKey(ctx, onlyNew, "ten_a", dk.ID, wrapped); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("old wrapping without the old root key: %v, want ErrUnknownKey", err)
	}
	if _, err := UnwrapDataKey(ctx, after, "ten_b", dk.ID, moved); !errors.Is(err, ErrOpen) {
		t.Errorf("as another tenant's key: %v, want ErrOpen", err)
	}
}

func TestADeliveredContentKeyOpens(t *testing.T) {
	t.Parallel()
	ck, err := NewContentKey()
	if err != nil {
		t.Fatal(err)
	}
	blob, err := SealWith(ck, secret.New("x"), Context{ID: "crd_b"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseContentKey(ck.ID, []byte(ck.Key().Reveal()))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := OpenWith([]ContentKey{got}, blob, Context{ID: "crd_b"}); err != nil || plain.Reveal() != "x" {
		t.Errorf("opened as %q, %v", plain.Reveal(), err)
	}
	if _, err := SealWith(ContentKey{}, secret.New("x"), Context{}); !errors.Is(err, ErrInput) {
		t.Errorf("sealed with no key: %v", err)
	}
	if _, err := ParseContentKey("ck-x", []byte("short")); !errors.Is(err, ErrInput) {
		t.Errorf("short key: %v, want ErrInput", err)
	}
}

func TestKeysPrintNoKeyMaterial(t *testing.T) {
	t.Parallel()
	ck, err := ParseContentKey("ck-1", bytes.Repeat([]byte("K"), KeySize))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		if got := fmt.Sprintf(verb, ck); strings.Contains(got, "KKKK") || strings.Contains(got, "4b4b4b") {
			t.Errorf("%s prints %q", verb, got)
		}
	}
}

func TestValuesBeyondTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	big := secret.FromBytes(make([]byte, MaxPlain+1))
	for _, l := range layers(t, "ten_a") {
		if _, err := l.seal(big, Context{Tenant: "ten_a"}); !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v, want ErrInput", l.name, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	all := layers(f, "ten_a")
	c := Context{"ten_a", "crd_b", 1}
	for _, l := range all {
		blob, err := l.seal(secret.New("x"), c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(blob)
	}
	f.Fuzz(func(t *testing.T, blob []byte) {
		for _, l := range all {
			// Only what was sealed above may open; each fuzzing process seals anew.
			if got, err := l.open(blob, c); err == nil && got.Reveal() != "x" {
				t.Fatalf("%s: opened a blob nobody sealed", l.name)
			}
		}
		_, _, _ = Inspect(blob)
	})
}
