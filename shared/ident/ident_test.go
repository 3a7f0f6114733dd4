package ident

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestFormatAndParseAreInverse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var u [16]byte
		copy(u[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
		u[6] = u[6]&0x0f | 0x70
		u[8] = u[8]&0x3f | 0x80
		p := Prefix(rapid.StringMatching(`[a-z]{2,8}`).Draw(t, "prefix"))

		s := Format(p, u)
		gotP, gotU, err := Parse(s)
		if err != nil || gotP != p || gotU != u {
			t.Fatalf("Parse(%q) = %q %x %v, want %q %x", s, gotP, gotU, err, p, u)
		}
	})
}

func TestTextSortsAsTheUUID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "a")
		b := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "b")
		got := strings.Compare(Format("req", [16]byte(a)), Format("req", [16]byte(b)))
		if want := slices.Compare(a, b); got != want {
			t.Fatalf("text order %d, byte order %d", got, want)
		}
	})
}

func TestNewIsStrictlyRising(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 2000
	var wg sync.WaitGroup
	out := make([][]string, workers)
	for w := range workers {
		wg.Go(func() {
			for range each {
				out[w] = append(out[w], New(Request))
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for w := range out {
		for i, id := range out[w] {
			if seen[id] {
				t.Fatalf("%s was made twice", id)
			}
			seen[id] = true
			if i > 0 && timePart(t, id) <= timePart(t, out[w][i-1]) {
				t.Fatalf("%s after %s does not rise in its time part", id, out[w][i-1])
			}
		}
	}
}

// timePart is the first half of the UUID, which holds no random bit.
func timePart(t *testing.T, id string) uint64 {
	t.Helper()
	_, u, err := Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	return binary.BigEndian.Uint64(u[:8])
}

func TestNewCarriesTheTimeItWasMade(t *testing.T) {
	t.Parallel()
	before := time.Now().Add(-time.Millisecond)
	at, err := Time(New(Request))
	if err != nil {
		t.Fatal(err)
	}
	// Other tests of this process may have pushed the order some ticks ahead.
	if at.Before(before) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("time of a new id is %v, asked at %v", at, before)
	}
}

func TestTimeOfNewAtIsItsMillisecond(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, at, want string }{
		{"day edge, before", "2026-03-31T23:59:59.999999999Z", "2026-03-31T23:59:59.999Z"},
		{"day edge, after", "2026-04-01T00:00:00Z", "2026-04-01T00:00:00Z"},
		{"other zone", "2026-04-01T01:00:00+02:00", "2026-03-31T23:00:00Z"},
		{"before 1970", "1969-01-01T00:00:00Z", "1970-01-01T00:00:00Z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			at, err := time.Parse(time.RFC3339Nano, tc.at)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Time(NewAt(Request, at))
			if err != nil {
				t.Fatal(err)
			}
			if s := got.Format(time.RFC3339Nano); s != tc.want {
				t.Errorf("got %s, want %s", s, tc.want)
			}
		})
	}
}

func TestRandomPartIsNotRepeated(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	seen := map[string]bool{}
	for range 1000 {
		s := NewAt(Request, at)
		tail := s[len(s)-12:] // the last 60 random bits
		if seen[tail] {
			t.Fatalf("random part %s came twice", tail)
		}
		seen[tail] = true
	}
}

func TestParseRefusesEveryOtherSpelling(t *testing.T) {
	t.Parallel()
	good := NewAt(Request, time.Unix(1_800_000_000, 0))
	for _, tc := range []struct{ name, in string }{
		{"empty", ""},
		{"no prefix", good[4:]},
		{"empty prefix", "_" + good[4:]},
		{"one letter", "r_" + good[4:]},
		{"long prefix", "abcdefghi_" + good[4:]},
		{"upper-case prefix", "REQ" + good[3:]},
		{"upper-case body", "req_" + strings.ToUpper(good[4:])},
		{"short", good[:len(good)-1]},
		{"long", good + "0"},
		{"letter u", good[:len(good)-1] + "u"},
		{"letter l", good[:len(good)-1] + "l"},
		{"letter i", good[:len(good)-1] + "i"},
		{"letter o", good[:len(good)-1] + "o"},
		{"more than 128 bits", "req_8" + good[5:]},
		{"space", good + " "},
		{"version 4", Format(Request, [16]byte{6: 0x40, 8: 0x80})},
		{"wrong variant", Format(Request, [16]byte{6: 0x70, 8: 0x40})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if p, u, err := Parse(tc.in); err == nil {
				t.Errorf("Parse(%q) = %q %x, want an error", tc.in, p, u)
			}
		})
	}
}

func TestValidWantsThePrefix(t *testing.T) {
	t.Parallel()
	id := New(Tenant)
	if !Valid(Tenant, id) {
		t.Errorf("%s is not a tenant id", id)
	}
	if Valid(Project, id) {
		t.Errorf("%s is a project id", id)
	}
}

func TestNewAllocatesOnce(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are not those of a normal build")
	}
	if got := testing.AllocsPerRun(1000, func() { _ = New(Request) }); got > 1 {
		t.Errorf("New allocates %v times, want 1", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("req_01j9zk3v8qf0h7m2x5r4t6w8y0")
	f.Add(New(Boot))
	f.Fuzz(func(t *testing.T, s string) {
		p, u, err := Parse(s)
		if err != nil {
			return
		}
		if back := Format(p, u); back != s {
			t.Fatalf("Parse accepted %q, which is spelled %q", s, back)
		}
	})
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = New(Request)
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	id := New(Request)
	for b.Loop() {
		_, _, _ = Parse(id)
	}
}
