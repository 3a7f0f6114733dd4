package decision

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
)

func boundaries() *rapid.Generator[[]affinity.Boundary] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) affinity.Boundary {
		return affinity.Boundary{
			Hash:   affinity.Hash{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")},
			Block:  affinity.Block(rapid.IntRange(0, int(affinity.Message)).Draw(t, "block")),
			Tokens: rapid.Int64Range(0, 1<<50).Draw(t, "tokens"),
			Marked: rapid.Bool().Draw(t, "marked"),
		}
	}), 0, 40)
}

// What is written of a chain is read back, fits its bound, keeps the order, and has what
// the affinity store looks at: the first two boundaries and the last four.
func TestChainKeepsTheEndsAndIsReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := boundaries().Draw(t, "chain")
		for i := range all {
			all[i].Hash.Lo = uint64(i) // to tell them apart
		}
		kept := chainOf(all)
		if len(kept) > maxChain {
			t.Fatalf("%d boundaries are kept, at most %d may be", len(kept), maxChain)
		}
		if !slices.IsSortedFunc(kept, func(a, b affinity.Boundary) int { return int(a.Hash.Lo) - int(b.Hash.Lo) }) {
			t.Fatalf("the order changed: %v", kept)
		}
		for i := range all {
			if (i < 2 || i >= len(all)-4) && !slices.Contains(kept, all[i]) {
				t.Fatalf("boundary %d of %d is missing", i, len(all))
			}
		}
		text, err := kept.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Chain
		if err := back.UnmarshalText(text); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(back, kept) {
			t.Fatalf("read %v, wrote %v", back, kept)
		}
	})
}

func FuzzChain(f *testing.F) {
	text, _ := Chain{{Hash: affinity.Hash{Hi: 1, Lo: 2}, Block: affinity.Message, Tokens: 7, Marked: true}}.MarshalText()
	f.Add(string(text))
	f.Add("")
	f.Add(strings.Repeat("A", 10_000))
	f.Fuzz(func(t *testing.T, text string) {
		var c Chain
		if c.UnmarshalText([]byte(text)) != nil {
			return
		}
		if len(c) > maxChain {
			t.Fatalf("%d boundaries", len(c))
		}
		again, _ := c.MarshalText()
		var back Chain
		if err := back.UnmarshalText(again); err != nil || !slices.Equal(back, c) {
			t.Fatalf("%v is not read back: %v", c, err)
		}
	})
}

func numbered(i int) *Record {
	return &Record{ID: fmt.Sprintf("dec_%d", i), RequestID: fmt.Sprintf("req_%d", i)}
}

func TestRingKeepsTheNewestWithinBothBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := &Ring{Records: rapid.IntRange(1, 8).Draw(t, "records"), Bytes: rapid.Int64Range(500, 20_000).Draw(t, "bytes")}
		n := rapid.IntRange(0, 40).Draw(t, "n")
		var all []*Record
		for i := range n {
			rec := numbered(i)
			rec.Candidates = make([]Candidate, rapid.IntRange(0, 10).Draw(t, "candidates"))
			all = append(all, rec)
			r.Add(rec)
		}
		count, bytes := r.Len()
		sum := int64(0)
		for _, rec := range all[n-count:] {
			sum += rec.size()
			if r.Find(rec.ID) != rec || r.Find(rec.RequestID) != rec {
				t.Fatalf("%s is not found", rec.ID)
			}
		}
		if count > r.Records || n > 0 && bytes > r.Bytes || sum != bytes {
			t.Fatalf("%d records of %d bytes (counted as %d) are kept; the bounds are %d and %d", count, sum, bytes, r.Records, r.Bytes)
		}
		for _, rec := range all[:n-count] {
			if r.Find(rec.ID) != nil {
				t.Fatalf("%s is found and not kept", rec.ID)
			}
		}
		if n > 0 && all[n-1].size() <= r.Bytes && count == 0 {
			t.Fatal("the newest record is not kept")
		}
	})
}

func TestRingPagesThroughAllOnce(t *testing.T) {
	t.Parallel()
	r := &Ring{Records: 10}
	for i := range 25 {
		r.Add(numbered(i))
	}
	var seen []string
	for before := ""; ; {
		page := r.Latest(before, 3, nil)
		for _, rec := range page {
			seen = append(seen, rec.ID)
		}
		if len(page) < 3 {
			break
		}
		before = page[len(page)-1].ID
	}
	want := []string{"dec_24", "dec_23", "dec_22", "dec_21", "dec_20", "dec_19", "dec_18", "dec_17", "dec_16", "dec_15"}
	if !slices.Equal(seen, want) {
		t.Errorf("pages have %v, want %v", seen, want)
	}
}

// A record of any size fits the bound of a row, stays JSON, and says what it left out.
func TestEncodeFitsItsBound(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 4, 32, 33, 128, 2000} {
		rec := numbered(1)
		rec.Chosen = "upm_00000000000000000000000000/crd_00000000000000000000000000"
		sel := Selection{Stage: "primary"}
		for i := range n {
			id := fmt.Sprintf("upm_%026d/crd_%026d", i, i)
			rec.Candidates = append(rec.Candidates, Candidate{ID: id, Provider: "provider", Upstream: "upstream", Credential: "name"})
			sel.Order = append(sel.Order, id)
			sel.Rows = append(sel.Rows, Row{Candidate: id, Score: &Score{Total: 123456789}})
		}
		rec.Selections = []Selection{sel, sel, sel}
		const limit = 8 << 10
		out, err := rec.Encode(limit)
		if err != nil {
			t.Fatal(err)
		}
		var back Record
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%d candidates: %v", n, err)
		}
		if len(out) > limit || back.Chosen != rec.Chosen {
			t.Errorf("%d candidates: %d bytes, chosen %q", n, len(out), back.Chosen)
		}
		if whole, _ := rec.Encode(0); (len(whole) > limit || n > scoredCandidates) != (back.Cut != "") {
			t.Errorf("%d candidates: cut %q of %d bytes", n, back.Cut, len(whole))
		}
		if rec.Selections[0].Rows[0].Score == nil || rec.Cut != "" {
			t.Errorf("%d candidates: the record itself was changed", n)
		}
	}
}
