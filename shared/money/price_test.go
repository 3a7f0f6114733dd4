package money

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"math/big"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestL4NoFloatTypeAppears walks every file of the package, tests included.
func TestL4NoFloatTypeAppears(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		files++
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, e.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range floats(file) {
			t.Errorf("%s: floating point", fset.Position(at))
		}
	}
	if files < 4 {
		t.Fatalf("looked at %d files, want the whole package", files)
	}
}

func TestL4WalkFindsFloats(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		"var x float64", "var x float32", "var x complex128", "var x = 1.5", "var x = 1e3",
		`import "math/big"; var x big.Float`, `import "math"; var x = math.Floor`,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if len(floats(file)) == 0 {
			t.Errorf("no floating point found in %q", src)
		}
	}
}

// floats returns where a file names a floating type, literal or function.
func floats(file *ast.File) []token.Pos {
	var at []token.Pos
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			switch n.Name {
			case "float32", "float64", "complex64", "complex128":
				at = append(at, n.Pos())
			}
		case *ast.BasicLit:
			if n.Kind == token.FLOAT || n.Kind == token.IMAG {
				at = append(at, n.Pos())
			}
		case *ast.SelectorExpr:
			pkg, _ := n.X.(*ast.Ident)
			if pkg == nil {
				break
			}
			constant := strings.HasPrefix(n.Sel.Name, "Max") || strings.HasPrefix(n.Sel.Name, "Min")
			if pkg.Name == "big" && strings.Contains(n.Sel.Name, "Float") || pkg.Name == "math" && !constant {
				at = append(at, n.Pos())
			}
		}
		return true
	})
	return at
}

// reference computes the price definition with unlimited integers.
func reference(version []Item, u Units, m Rational) (*big.Int, bool) {
	prompt, _ := u.Prompt()
	total := new(big.Rat)
	position := map[Component]int64{}
	at := int64(0)
	for _, c := range promptOrder {
		position[c] = at
		at += u[c]
	}
	for c := range Component(NumComponents) {
		priced := c
		has := func(c Component) bool {
			for _, it := range version {
				if it.Component == c {
					return true
				}
			}
			return false
		}
		for !has(priced) {
			next, ok := standIn(priced)
			if !ok {
				break
			}
			priced = next
		}
		left := u[c]
		for _, it := range version {
			if it.Component != priced {
				continue
			}
			start, isPrompt := position[c]
			n := int64(0)
			if it.TierMode == Marginal && isPrompt {
				end := start + u[c]
				low, high := max(start, it.ContextMin), end
				if it.ContextMax != 0 {
					high = min(high, it.ContextMax)
				}
				n = max(0, high-low)
			} else if (prompt > it.ContextMin || it.ContextMin == 0) && (it.ContextMax == 0 || prompt <= it.ContextMax) {
				n = u[c]
			}
			left -= n
			term := new(big.Rat).SetInt64(n)
			term.Mul(term, new(big.Rat).SetInt64(int64(it.NanoPerMillion)))
			if it.Mult != (Rational{}) {
				term.Mul(term, big.NewRat(it.Mult.Num, it.Mult.Den))
			}
			total.Add(total, term)
		}
		if left != 0 && c != Request {
			return nil, false
		}
	}
	if m != (Rational{}) {
		total.Mul(total, big.NewRat(m.Num, m.Den))
	}
	total.Quo(total, new(big.Rat).SetInt64(unitsPerRate))
	// Half to even: floor(x + 1/2), stepped back on an exact tie to an odd number.
	twice := new(big.Rat).Add(total, big.NewRat(1, 2))
	floor := new(big.Int).Div(twice.Num(), twice.Denom())
	if twice.IsInt() && floor.Bit(0) == 1 {
		floor.Sub(floor, big.NewInt(1))
	}
	return floor, true
}

func drawMult(t *rapid.T, name string, most int64) Rational {
	if rapid.Bool().Draw(t, name+" unset") {
		return Rational{}
	}
	return Rational{rapid.Int64Range(0, most).Draw(t, name+" num"), rapid.Int64Range(1, most).Draw(t, name+" den")}
}

func drawVersion(t *rapid.T, maxRate, maxMult int64) []Item {
	var version []Item
	for c := range Component(NumComponents) {
		if c != Input && c != Output && rapid.Bool().Draw(t, "absent") {
			continue
		}
		mode := TierMode(rapid.IntRange(0, 1).Draw(t, "mode"))
		edge := int64(0)
		for range rapid.IntRange(0, 2).Draw(t, "tiers") {
			next := edge + rapid.Int64Range(1, 1000).Draw(t, "width")
			version = append(version, Item{c, edge, next, mode, Rate(rapid.Int64Range(0, maxRate).Draw(t, "rate")), drawMult(t, "item", maxMult)})
			edge = next
		}
		version = append(version, Item{c, edge, 0, mode, Rate(rapid.Int64Range(0, maxRate).Draw(t, "rate")), drawMult(t, "item", maxMult)})
	}
	return version
}

func checkPrice(t *rapid.T, maxUnits, maxRate, maxMult int64) {
	version := drawVersion(t, maxRate, maxMult)
	if err := CheckVersion(version); err != nil {
		t.Fatalf("drawn version is refused: %v", err)
	}
	var u Units
	for c := range u {
		u[c] = rapid.Int64Range(0, maxUnits).Draw(t, "units")
	}
	m := drawMult(t, "multiplier", maxMult)
	want, priced := reference(version, u, m)
	got, err := Price(version, u, m)
	switch {
	case !priced:
		if !errors.Is(err, ErrUnpriced) {
			t.Fatalf("got %d, %v; want ErrUnpriced", got, err)
		}
	case !want.IsInt64():
		if !errors.Is(err, ErrOverflow) {
			t.Fatalf("got %d, %v; want ErrOverflow for %s", got, err, want)
		}
	case err != nil || int64(got) != want.Int64():
		t.Fatalf("got %d, %v; want %s", got, err, want)
	}
}

func TestPriceIsTheExactSumRoundedOnce(t *testing.T) {
	t.Parallel()
	t.Run("everyday sizes", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) { checkPrice(t, 3000, 100_000_000_000, 100) })
	})
	t.Run("every size", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			checkPrice(t, rapid.SampledFrom([]int64{10, 1 << 40, 1 << 59}).Draw(t, "most units"),
				rapid.SampledFrom([]int64{10, 1 << 40, math.MaxInt64}).Draw(t, "most rate"),
				rapid.SampledFrom([]int64{10, 1 << 40, math.MaxInt64}).Draw(t, "most factor"))
		})
	})
}

func TestTierEdges(t *testing.T) {
	t.Parallel()
	const edge = 200_000
	for _, tc := range []struct {
		name   string
		mode   TierMode
		prompt int64
		want   Amount // 1 nano a token up to the edge, 2 above; output 10 and 20
	}{
		{"whole, one below", Whole, edge - 1, edge - 1 + 10},
		{"whole, at the edge", Whole, edge, edge + 10},
		{"whole, one above", Whole, edge + 1, 2*(edge+1) + 20},
		{"marginal, one below", Marginal, edge - 1, edge - 1 + 10},
		{"marginal, at the edge", Marginal, edge, edge + 10},
		{"marginal, one above", Marginal, edge + 1, edge + 2 + 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			version := []Item{
				{Component: Input, ContextMax: edge, TierMode: tc.mode, NanoPerMillion: 1_000_000},
				{Component: Input, ContextMin: edge, TierMode: tc.mode, NanoPerMillion: 2_000_000},
				{Component: Output, ContextMax: edge, TierMode: tc.mode, NanoPerMillion: 10_000_000},
				{Component: Output, ContextMin: edge, TierMode: tc.mode, NanoPerMillion: 20_000_000},
			}
			for _, u := range []Units{{Input: tc.prompt, Output: 1}, {Input: tc.prompt - 1000, CacheRead: 1000, Output: 1}} {
				got, err := Price(version, u, One)
				if err != nil || got != tc.want {
					t.Errorf("units %v cost %d, %v; want %d", u, got, err, tc.want)
				}
			}
		})
	}
}

func TestCachedTokensReachTheTier(t *testing.T) {
	t.Parallel()
	version := []Item{
		{Component: Input, ContextMax: 100, NanoPerMillion: 1_000_000},
		{Component: Input, ContextMin: 100, NanoPerMillion: 5_000_000},
		{Component: CacheRead, NanoPerMillion: 0},
	}
	got, err := Price(version, Units{Input: 1, CacheRead: 100}, One)
	if err != nil || got != 5 {
		t.Errorf("one token behind 100 cached ones costs %d, %v; want 5", got, err)
	}
}

func TestPriceVectors(t *testing.T) {
	t.Parallel()
	// 3.00 and 15.00 per million; cache reads a tenth, writes 1.25 and 2 times.
	version := []Item{
		{Component: Input, NanoPerMillion: 3_000_000_000},
		{Component: CacheRead, NanoPerMillion: 3_000_000_000, Mult: Rational{1, 10}},
		{Component: CacheWrite5m, NanoPerMillion: 3_000_000_000, Mult: Rational{5, 4}},
		{Component: CacheWrite1h, NanoPerMillion: 3_000_000_000, Mult: Rational{2, 1}},
		{Component: Output, NanoPerMillion: 15_000_000_000},
	}
	for _, tc := range []struct {
		name       string
		version    []Item
		units      Units
		multiplier Rational
		want       string
	}{
		{"nothing", version, Units{}, One, "0.00"},
		{"one token costs more than nothing", version, Units{Input: 1}, One, "0.000003"},
		{"one million in", version, Units{Input: 1_000_000}, One, "3.00"},
		{"reads", version, Units{CacheRead: 1_000_000}, One, "0.30"},
		{"5 minute writes", version, Units{CacheWrite5m: 1_000_000}, One, "3.75"},
		{"1 hour writes", version, Units{CacheWrite1h: 1_000_000}, One, "6.00"},
		{"reasoning takes the output price", version, Units{Reasoning: 1_000_000}, One, "15.00"},
		{"batch is half", version, Units{Input: 1_000_000, Output: 1_000_000}, Rational{1, 2}, "9.00"},
		{"unset multiplier is one", version, Units{Output: 2}, Rational{}, "0.00003"},
		{"zero multiplier is free", version, Units{Output: 2}, Rational{0, 1}, "0.00"},
		{"1 hour writes fall back to 5 minute writes", version[:3], Units{CacheWrite1h: 1_000_000}, One, "3.75"},
		{"writes fall back to input", version[:1], Units{CacheWrite5m: 1_000_000, CacheWrite1h: 1_000_000}, One, "6.00"},
		{"request is free unless listed", version, Units{Input: 1, Request: 1}, One, "0.000003"},
		{"request by its price", []Item{{Component: Request, NanoPerMillion: 10_000_000_000_000}}, Units{Request: 1}, One, "0.01"},
		{"tie to even, down", []Item{{Component: Input, NanoPerMillion: 500_000}}, Units{Input: 1}, One, "0.00"},
		{"tie to even, up", []Item{{Component: Input, NanoPerMillion: 500_000}}, Units{Input: 3}, One, "0.000000002"},
		{"tie to even beyond 128 bits, down", []Item{{Component: Input, NanoPerMillion: 1 << 43}}, Units{Input: 1_000_000}, Rational{1, 1 << 44}, "0.00"},
		{"tie to even beyond 128 bits, up", []Item{{Component: Input, NanoPerMillion: 1 << 43}}, Units{Input: 3_000_000}, Rational{1, 1 << 44}, "0.000000002"},
		{"one rounding for the row", []Item{{Component: Input, NanoPerMillion: 400_000}, {Component: Output, NanoPerMillion: 400_000}}, Units{Input: 1, Output: 1}, One, "0.000000001"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Price(tc.version, tc.units, tc.multiplier)
			if err != nil || got.String() != tc.want {
				t.Errorf("got %s, %v; want %s", got, err, tc.want)
			}
		})
	}
}

func TestUnpricedIsAnErrorNeverZero(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		version []Item
		units   Units
		want    error
	}{
		{"empty version", nil, Units{Input: 1}, ErrUnpriced},
		{"output has no stand-in", []Item{{Component: Input, NanoPerMillion: 1}}, Units{Output: 1}, ErrUnpriced},
		{"searches have none", []Item{{Component: Input, NanoPerMillion: 1}}, Units{WebSearch: 1}, ErrUnpriced},
		{"a gap between tiers", []Item{{Component: Input, ContextMax: 10, NanoPerMillion: 1}}, Units{Input: 11}, ErrUnpriced},
		{"a gap in a marginal tier", []Item{{Component: Input, ContextMax: 10, TierMode: Marginal, NanoPerMillion: 1}}, Units{Input: 11}, ErrUnpriced},
		{"negative units", []Item{{Component: Input, NanoPerMillion: 1}}, Units{Input: -1}, ErrInvalid},
		{"negative output", []Item{{Component: Output, NanoPerMillion: 1}}, Units{Output: -1}, ErrInvalid},
		{"negative price", []Item{{Component: Input, NanoPerMillion: -1}}, Units{Input: 1}, ErrInvalid},
		{"bad factor", []Item{{Component: Input, NanoPerMillion: 1, Mult: Rational{1, 0}}}, Units{Input: 1}, ErrInvalid},
		{"too many prompt tokens", []Item{{Component: Input}}, Units{Input: math.MaxInt64, CacheRead: 1}, ErrOverflow},
		{"too much money", []Item{{Component: Input, NanoPerMillion: math.MaxInt64}}, Units{Input: 1_000_001}, ErrOverflow},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Price(tc.version, tc.units, One)
			if !errors.Is(err, tc.want) {
				t.Errorf("got %d, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func TestLargestAmountIsStillAPrice(t *testing.T) {
	t.Parallel()
	got, err := Price([]Item{{Component: Input, NanoPerMillion: math.MaxInt64}}, Units{Input: 1_000_000}, One)
	if err != nil || got != math.MaxInt64 {
		t.Errorf("got %d, %v; want %d", got, err, int64(math.MaxInt64))
	}
}

func TestCheckVersionNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		in   []Item
		want string
	}{
		{"gap", []Item{{Component: Input, ContextMax: 10}, {Component: Input, ContextMin: 11}}, "no tier covers prompts above 10"},
		{"overlap", []Item{{Component: Input, ContextMax: 10}, {Component: Input, ContextMin: 9}}, "two tiers"},
		{"twice", []Item{{Component: Input}, {Component: Input}}, "two tiers"},
		{"no end", []Item{{Component: Input, ContextMax: 10}}, "above 10 tokens"},
		{"no start", []Item{{Component: Input, ContextMin: 10}}, "above 0"},
		{"mixed", []Item{{Component: Input, ContextMax: 10}, {Component: Input, ContextMin: 10, TierMode: Marginal}}, "mix"},
		{"negative", []Item{{Component: Input, NanoPerMillion: -1}}, "negative"},
		{"unknown component", []Item{{Component: 200}}, "unknown component"},
		{"empty range", []Item{{Component: Input, ContextMin: 5, ContextMax: 5}}, "is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if err := CheckVersion(tc.in); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestEverydayPriceDoesNotAllocate(t *testing.T) {
	version, u := everyday()
	if got := testing.AllocsPerRun(100, func() { _, _ = Price(version, u, Rational{1, 2}) }); got != 0 {
		t.Errorf("Price allocates %v times, want 0", got)
	}
}

func everyday() ([]Item, Units) {
	return []Item{
		{Component: Input, NanoPerMillion: 3_000_000_000},
		{Component: CacheRead, NanoPerMillion: 300_000_000},
		{Component: CacheWrite5m, NanoPerMillion: 3_000_000_000, Mult: Rational{5, 4}},
		{Component: Output, NanoPerMillion: 15_000_000_000},
	}, Units{Input: 1200, CacheRead: 30_000, CacheWrite5m: 400, Output: 900, Reasoning: 100, Request: 1}
}

func BenchmarkPrice(b *testing.B) {
	version, u := everyday()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Price(version, u, Rational{1, 2})
	}
}
