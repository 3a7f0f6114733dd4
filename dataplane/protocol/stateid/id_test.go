package stateid_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

var (
	uuids   = rapid.Custom(func(t *rapid.T) [16]byte { return uuidOf(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid")) })
	scopes  = rapid.OneOf(rapid.Map(uuids, credentialID), rapid.Map(uuids, upstreamID), rapid.StringN(0, 20, 60), rapid.Just(""))
	owners  = rapid.Custom(func(t *rapid.T) stateid.Owner { return owner(scopes.Draw(t, "scope"), scopes.Draw(t, "upstream")) })
	tails   = rapid.OneOf(rapid.StringMatching(`[0-9a-f]{1,50}`), rapid.StringMatching(`[A-Za-z0-9_-]{1,40}`), rapid.StringMatching(`[ -.0-~]{1,40}`))
	ids     = rapid.Custom(drawID)
	rawKeys = rapid.StringMatching(`[a-z]{32}`)
)

func owner(scope, upstream string) stateid.Owner {
	return stateid.Owner{Scope: scope, Upstream: upstream}
}

func credentialID(u [16]byte) string { return ident.Format(ident.UpstreamCredential, u) }
func upstreamID(u [16]byte) string   { return ident.Format(ident.Upstream, u) }

func uuidOf(b []byte) (u [16]byte) {
	copy(u[:], b)
	u[6], u[8] = u[6]&0x0f|0x70, u[8]&0x3f|0x80
	return u
}

func drawID(t *rapid.T) string {
	place := rapid.SampledFrom([]string{"", "", "cachedContents/", "https://gemini.example/v1beta/files/", "projects/p/locations/l/cachedContents/"}).Draw(t, "place")
	kind := rapid.SampledFrom([]string{"resp_", "msg_", "file-", "conv_", "rs_", "", "x1_", "_", "gw1_", "resp_gw1_"}).Draw(t, "kind")
	return place + kind + tails.Draw(t, "tail")
}

func TestWrapRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := keyOf(t, rawKeys.Draw(t, "key"))
		id, o := ids.Draw(t, "id"), owners.Draw(t, "owner")
		if rapid.Bool().Draw(t, "same") {
			o.Scope = o.Upstream
		}
		w := k.Wrap(id, o)
		if w == id || !stateid.IsWrapped(w) {
			t.Fatalf("%q was not wrapped: %q", id, w)
		}
		if again := k.Wrap(id, o); again != w {
			t.Fatalf("wrapped to %q, then to %q", w, again)
		}
		got, from, ok := k.Unwrap(w)
		if !ok || got != id || from != o {
			t.Fatalf("unwrapped %q: %q %+v %v, want %q %+v", w, got, from, ok, id, o)
		}
		for _, c := range w[strings.LastIndexByte(w, '/')+1:] {
			if !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-", c) {
				t.Fatalf("%q has the character %q", w, c)
			}
		}
	})
}

func TestWrapKeepsThePrefix(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	for id, prefix := range map[string]string{
		"resp_abc":                               "resp_gw1_",
		"file-abc":                               "file_gw1_",
		"cachedContents/abc":                     "cachedContents/gw1_",
		"https://gemini.example/v1beta/files/ab": "https://gemini.example/v1beta/files/gw1_",
		"abc":                                    "gw1_",
	} {
		if got := k.Wrap(id, owner("s", "u")); !strings.HasPrefix(got, prefix) {
			t.Errorf("%q wraps to %q, want the prefix %q", id, got, prefix)
		}
	}
}

// Clients make the one name of a file from the other.
func TestURLAndNameOfOneObjectAreWrappedAlike(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	url := k.Wrap("https://gemini.example/v1beta/files/abc", owner("s", "u"))
	name := k.Wrap("files/abc", owner("s", "u"))
	if !strings.HasSuffix(url, "/"+name) {
		t.Errorf("the URL is %q, the name %q", url, name)
	}
	if id, _, ok := k.Unwrap(strings.TrimPrefix(url, "https://gemini.example/v1beta/")); !ok || id != "files/abc" {
		t.Errorf("the name cut from the URL unwraps to %q, %v", id, ok)
	}
}

func TestChangedIDIsRefused(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SampledFrom([]string{"resp_", "cachedContents/", "file-", ""}).Draw(t, "prefix") + tails.Draw(t, "tail")
		w := k.Wrap(id, owners.Draw(t, "owner"))
		at := rapid.IntRange(0, len(w)-1).Draw(t, "at")
		with := rapid.Byte().Filter(func(b byte) bool { return b != w[at] }).Draw(t, "with")
		if got, _, ok := k.Unwrap(flip(w, at, with)); ok {
			t.Fatalf("%q changed at %d unwraps to %q", w, at, got)
		}
		cut := rapid.IntRange(0, len(w)-1).Draw(t, "cut")
		for _, other := range []string{w[:cut], w[cut+1:], w[:cut] + "\n" + w[cut:], w + "A", w + "="} {
			if got, _, ok := k.Unwrap(other); ok {
				t.Fatalf("%q, made from %q, unwraps to %q", other, w, got)
			}
		}
	})
}

func TestForeignIDIsRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := rawKeys.Draw(t, "key")
		b := rawKeys.Filter(func(s string) bool { return s != a }).Draw(t, "other key")
		w := keyOf(t, a).Wrap(ids.Draw(t, "id"), owners.Draw(t, "owner"))
		if got, _, ok := keyOf(t, b).Unwrap(w); ok {
			t.Fatalf("another tenant unwraps %q to %q", w, got)
		}
	})
}

// The vendor's own texts are not taken for wrapped ones, and what cannot be
// wrapped stays as it is.
func TestUnwrappableStays(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	long := strings.Repeat("a", stateid.MaxID)
	for _, id := range []string{"", "files/", "resp_" + long} {
		if got := k.Wrap(id, owner("s", "u")); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
	for _, o := range []stateid.Owner{owner(strings.Repeat("s", 256), "u"), owner("s", strings.Repeat("u", 256))} {
		if got := k.Wrap("resp_1", o); got != "resp_1" {
			t.Errorf("with an owner that is too long it became %q", got)
		}
	}
	for _, s := range []string{"", "resp_1", "gw1_", "resp_gw1_", "resp_gw1_AAAA", "call_gws1_AAAA", strings.Repeat("x", 1<<16)} {
		if stateid.IsWrapped(s) {
			t.Errorf("%.40q looks wrapped", s)
		}
		if _, _, ok := k.Unwrap(s); ok {
			t.Errorf("%.40q unwraps", s)
		}
	}
	if id, _, ok := k.Unwrap(k.Wrap(long, owner(strings.Repeat("s", 255), strings.Repeat("é", 127)))); !ok || id != long {
		t.Error("the longest id does not come back")
	}
}

// The usual id of a response stays in the size of a line.
func TestWrappedIDIsShort(t *testing.T) {
	t.Parallel()
	k := keyOf(t, text)
	o := owner(ident.New(ident.UpstreamCredential), ident.New(ident.Upstream))
	if w := k.Wrap("resp_67ccd3a9da748190baa7f1570fe91ac604becb25c45c1d41", o); len(w) > 110 {
		t.Errorf("%d bytes: %s", len(w), w)
	}
}

func FuzzUnwrap(f *testing.F) {
	k := keyOf(f, text)
	f.Add(k.Wrap("resp_abc", owner("crd_01jxt21q00e00b2kctqgx91d4h", "upr_01jxt21q00e009btrm2c9v4r42")))
	f.Add(k.Wrap("https://gemini.example/v1beta/files/abc", owner("s", "")))
	f.Add("resp_gw1_AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		if w := k.Wrap(s, owner("s", "u")); w != s {
			if id, o, ok := k.Unwrap(w); !ok || id != s || o != owner("s", "u") {
				t.Errorf("%q came back as %q of %+v, %v", s, id, o, ok)
			}
		}
		if id, o, ok := k.Unwrap(s); ok && k.Wrap(id, o) != s {
			t.Errorf("%q unwraps to %q, which wraps to another text", s, id)
		}
	})
}
