package shard

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseReversesTheConstructors(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0a", 32)
	for _, tc := range []struct {
		key    string
		want   Name
		domain Domain
	}{
		{Global(), Name{Kind: KindGlobal}, Policy},
		{Tenant("ten_1"), Name{Kind: KindTenant, ID: "ten_1"}, Policy},
		{Credentials("ten_1"), Name{Kind: KindCredentials, ID: "ten_1"}, Identity},
		{Subject(SubjectTenant, "ten_1"), Name{Kind: KindSubject, Subject: SubjectTenant, ID: "ten_1"}, Identity},
		{Subject(SubjectProject, "prj_1"), Name{Kind: KindSubject, Subject: SubjectProject, ID: "prj_1"}, Identity},
		{Subject(SubjectConsumer, "con_1"), Name{Kind: KindSubject, Subject: SubjectConsumer, ID: "con_1"}, Identity},
		{Key(digest), Name{Kind: KindKey, ID: digest}, Identity},
		{Issuer("iss_1"), Name{Kind: KindIssuer, ID: "iss_1"}, Identity},
	} {
		got, err := Parse(tc.key)
		if err != nil || got != tc.want || got.String() != tc.key {
			t.Errorf("Parse(%q) = %+v (%s), %v; want %+v", tc.key, got, got, err, tc.want)
		}
		if d, err := DomainOf(tc.key); err != nil || d != tc.domain {
			t.Errorf("domain of %q is %v, %v; want %v", tc.key, d, err, tc.domain)
		}
	}
}

func TestParseRefusesOtherKeys(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"", "/", "global/", "global/x", "tenant", "tenant/", "tenant/a/b", "tenant/A", "tenant/a b", "cred/", "issuer/", "node/x",
		"subject", "subject/", "subject/tenant", "subject/tenant/", "subject/group/x", "subject/tenant/a/b",
		"key/", "key/abc", "key/" + strings.Repeat("0A", 32), "key/" + strings.Repeat("0a", 33), "Tenant/a",
		"tenant/" + strings.Repeat("a", 65), "tenant/" + strings.Repeat("a", 200), "tenant/\x00",
	} {
		if n, err := Parse(key); !errors.Is(err, ErrKey) {
			t.Errorf("Parse(%q) = %+v, %v; want ErrKey", key, n, err)
		}
		if _, err := DomainOf(key); !errors.Is(err, ErrKey) {
			t.Errorf("DomainOf(%q): %v, want ErrKey", key, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, key := range []string{Global(), Tenant("ten_1"), Credentials("a"), Subject(SubjectProject, "p"), Key(strings.Repeat("0a", 32)), Issuer("i")} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		n, err := Parse(key)
		if err != nil {
			return
		}
		if n.String() != key || len(key) > MaxKeyLen {
			t.Fatalf("%q was taken apart to %+v, which is %q", key, n, n.String())
		}
		if d := n.Domain(); d != Identity && d != Policy {
			t.Fatalf("%q is in %v", key, d)
		}
	})
}

// TestHashesAreThoseOfTheEncoding fixes the encoding, which control planes and
// nodes of different releases must share.
func TestHashesAreThoseOfTheEncoding(t *testing.T) {
	t.Parallel()
	model := map[string]Hash{"global": Sum([]byte("g")), "tenant/a": Sum([]byte("a")), "tenant/b": Sum(nil)}
	s := New()
	for k, h := range model {
		s.Put(k, h, nil)
	}
	if got, want := s.Root(), recompute(model); got != want {
		t.Errorf("root %x, want %x", got, want)
	}
	for name, want := range map[string]string{"empty": "6f94351ec69d3f13c5ccdefb315c638ed9c76d89d14b43e09bea480b4f3f429e", "three shards": "c1eda760a05ba9731d201f91ded4a472e5bfbf7f34c5a7eeada4898a0988832f"} {
		set := s
		if name == "empty" {
			set = New()
		}
		if got := fmt.Sprintf("%x", set.Root()); got != want {
			t.Errorf("root of the %s set is %s, was %s when the encoding was fixed", name, got, want)
		}
	}
}

// recompute hashes a whole set by the documented encoding, from nothing.
func recompute(model map[string]Hash) Hash {
	per := make([][]string, 1024)
	for key := range model {
		h := sha256.Sum256([]byte(key))
		i := int(h[0])<<2 | int(h[1])>>6
		per[i] = append(per[i], key)
	}
	var all []byte
	for _, keys := range per {
		slices.Sort(keys)
		var in []byte
		for _, key := range keys {
			in = append(in, byte(len(key)>>8), byte(len(key)))
			in = append(in, key...)
			h := model[key]
			in = append(in, h[:]...)
		}
		h := sha256.Sum256(in)
		all = append(all, h[:]...)
	}
	return sha256.Sum256(all)
}

func drawKey(t *rapid.T) string {
	return Tenant(fmt.Sprintf("t%d", rapid.IntRange(0, 3000).Draw(t, "tenant")))
}

func drawHash(t *rapid.T) Hash {
	return Sum([]byte{rapid.Byte().Draw(t, "content")})
}

// The set against a plain map, with clones taken on the way: each clone keeps
// what it held, and every root is the one computed from nothing.
func TestIncrementalRootIsTheFullRoot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type pair struct {
			set   *Set
			model map[string]Hash
		}
		pairs := []pair{{New(), map[string]Hash{}}}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p := &pairs[rapid.IntRange(0, len(pairs)-1).Draw(t, "set")]
			key := drawKey(t)
			if rapid.Bool().Draw(t, "known key") && len(p.model) > 0 {
				key = rapid.SampledFrom(slices.Sorted(maps.Keys(p.model))).Draw(t, "key")
			}
			old, had := p.model[key]
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				h := drawHash(t)
				if changed := p.set.Put(key, h, h[:1]); changed != (!had || old != h) {
					t.Fatalf("Put says changed %v; had %v", changed, had)
				}
				p.model[key] = h
			case 2:
				if got := p.set.Delete(key); got != had {
					t.Fatalf("Delete says %v, had %v", got, had)
				}
				delete(p.model, key)
			case 3:
				if len(pairs) < 5 {
					pairs = append(pairs, pair{p.set.Clone(), maps.Clone(p.model)})
				}
			case 4:
				p.set.Root()
			}
		}
		for i, p := range pairs {
			if got, want := p.set.Root(), recompute(p.model); got != want {
				t.Fatalf("set %d: root %x, want %x", i, got, want)
			}
			got := map[string]Hash{}
			for e := range p.set.All() {
				got[e.Key] = e.Hash
			}
			if diff := cmp.Diff(p.model, got); diff != "" || p.set.Len() != len(p.model) {
				t.Fatalf("set %d holds %d shards (-want +got):\n%s", i, p.set.Len(), diff)
			}
		}
	})
}

func TestRootDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		model := rapid.MapOfN(rapid.Custom(drawKey), rapid.Custom(drawHash), 0, 40).Draw(t, "set")
		keys := slices.Sorted(maps.Keys(model))
		roots := map[Hash]bool{}
		for range 3 {
			s := New()
			for _, key := range rapid.Permutation(keys).Draw(t, "order") {
				s.Put(key, model[key], nil)
			}
			roots[s.Root()] = true
		}
		if len(roots) != 1 {
			t.Fatalf("%d roots of one set", len(roots))
		}
	})
}

func TestAnyChangeChangesTheRoot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		model := rapid.MapOfN(rapid.Custom(drawKey), rapid.Custom(drawHash), 1, 30).Draw(t, "set")
		s := New()
		for key, h := range model {
			s.Put(key, h, nil)
		}
		before := s.Root()
		key := rapid.SampledFrom(slices.Sorted(maps.Keys(model))).Draw(t, "key")
		c := s.Clone()
		switch rapid.IntRange(0, 2).Draw(t, "change") {
		case 0:
			c.Delete(key)
		case 1:
			h := model[key]
			h[rapid.IntRange(0, 31).Draw(t, "byte")] ^= 1
			c.Put(key, h, nil)
		case 2:
			c.Put(Tenant("new"), drawHash(t), nil)
		}
		if c.Root() == before {
			t.Fatal("the root is as before")
		}
		if d := c.Differing(ptr(s.Hashes())); len(d) != 1 {
			t.Fatalf("%d buckets differ after one change, want 1", len(d))
		}
		if s.Root() != before {
			t.Fatal("changing the clone changed the original")
		}
	})
}

func ptr[T any](v T) *T { return &v }

func TestKeyEdgeIsPartOfTheBucketHash(t *testing.T) {
	t.Parallel()
	// Without the length the second key could continue the first one's hash.
	a := []Entry{{Key: "a", Hash: Hash{1}}, {Key: "b", Hash: Hash{2}}}
	var run bytes.Buffer
	run.WriteString("a")
	run.Write(a[0].Hash[:])
	run.WriteString("b")
	b := []Entry{{Key: run.String(), Hash: Hash{2}}}
	if BucketHash(a) == BucketHash(b) {
		t.Error("two buckets of different shards have one hash")
	}
}

func TestBucketIsTheFirstTenBits(t *testing.T) {
	t.Parallel()
	for i := range 2000 {
		key := Tenant(fmt.Sprint("t", i))
		h := sha256.Sum256([]byte(key))
		if got, want := BucketOf(key), int(binary.BigEndian.Uint32(h[:4])>>22); got != want {
			t.Fatalf("bucket of %q is %d, want %d", key, got, want)
		}
	}
}

func TestPayloadComesBack(t *testing.T) {
	t.Parallel()
	s := New()
	s.Put("global", Sum([]byte("x")), []byte("x"))
	if e, ok := s.Get("global"); !ok || string(e.Payload) != "x" || e.Hash != Sum([]byte("x")) {
		t.Errorf("got %+v, %v", e, ok)
	}
	if _, ok := s.Get("tenant/a"); ok {
		t.Error("a shard nobody put")
	}
	if got := s.Keys(BucketOf("global")); !slices.Equal(got, []string{"global"}) {
		t.Errorf("keys of the bucket %v", got)
	}
	if s.Delete("tenant/a") {
		t.Error("deleted a shard nobody put")
	}
}

func TestSettledSetIsReadAndClonedConcurrently(t *testing.T) {
	t.Parallel()
	s := New()
	for i := range 5000 {
		s.Put(Tenant(fmt.Sprint("t", i)), Hash{byte(i)}, nil)
	}
	root := s.Root()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 50 {
				c := s.Clone()
				c.Put(Tenant(fmt.Sprint("t", i*w)), Hash{0xff}, nil)
				if c.Root() == root || s.Root() != root {
					t.Error("clone and original share a change")
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestG03EqualContentHasEqualRoot(t *testing.T) {
	t.Parallel()
	a, b := New(), New()
	a.Put("global", Hash{1}, nil)
	a.Put("tenant/a", Hash{2}, nil)
	a.Delete("tenant/a")
	b.Put("global", Hash{1}, nil)
	if a.Root() != b.Root() || New().Root() == a.Root() {
		t.Errorf("roots %s and %s", hex.EncodeToString(ptr(a.Root())[:4]), hex.EncodeToString(ptr(b.Root())[:4]))
	}
}

func large(n int) *Set {
	s := New()
	for i := range n {
		h := sha256.Sum256([]byte(fmt.Sprint(i)))
		s.Put(Key(hex.EncodeToString(h[:])), h, nil)
	}
	s.Root()
	return s
}

func BenchmarkOneChange(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := large(n)
			i := 0
			for b.Loop() {
				i++
				s = s.Clone()
				s.Put(Key(fmt.Sprintf("%064x", i)), Hash{byte(i)}, nil)
				s.Root()
			}
		})
	}
}

func BenchmarkFill(b *testing.B) {
	for b.Loop() {
		large(1_000_000)
	}
}
