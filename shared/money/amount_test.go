package money

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestAmountTextIsExactBothWays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := Amount(rapid.Int64().Draw(t, "amount"))
		back, err := ParseAmount(a.String())
		if err != nil || back != a {
			t.Fatalf("%d is written %q and read as %d, %v", int64(a), a, int64(back), err)
		}
		want, _ := new(big.Rat).SetString(a.String())
		if want.Cmp(big.NewRat(int64(a), NanoPerUnit)) != 0 {
			t.Fatalf("%d nano are written %q", int64(a), a)
		}
	})
}

func TestAmountText(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   string
		want Amount
		out  string
	}{
		{"12.50", 12_500_000_000, "12.50"},
		{"12.5", 12_500_000_000, "12.50"},
		{"0", 0, "0.00"},
		{"-0.000000001", -1, "-0.000000001"},
		{"0.1234", 123_400_000, "0.1234"},
		{"9223372036.854775807", math.MaxInt64, "9223372036.854775807"},
		{"-9223372036.854775808", math.MinInt64, "-9223372036.854775808"},
	} {
		got, err := ParseAmount(tc.in)
		if err != nil || got != tc.want || got.String() != tc.out {
			t.Errorf("%s is read as %d (%s), %v; want %d (%s)", tc.in, int64(got), got, err, int64(tc.want), tc.out)
		}
	}
}

func TestParseAmountRefuses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]error{
		"": ErrInvalid, "-": ErrInvalid, ".5": ErrInvalid, "5.": ErrInvalid, "+1": ErrInvalid, " 1": ErrInvalid,
		"1,5": ErrInvalid, "1e3": ErrInvalid, "0.0000000001": ErrInvalid, "--1": ErrInvalid, "1.2.3": ErrInvalid, "1.-2": ErrInvalid,
		"9223372036.854775808": ErrOverflow, "-9223372036.854775809": ErrOverflow, "99999999999999999999999999": ErrOverflow,
	} {
		if got, err := ParseAmount(in); !errors.Is(err, want) {
			t.Errorf("%q is read as %d, %v; want %v", in, int64(got), err, want)
		}
	}
}

func TestAddAndSubNeverWrap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := Amount(rapid.Int64().Draw(t, "a")), Amount(rapid.Int64().Draw(t, "b"))
		for name, f := range map[string]struct {
			got  func() (Amount, error)
			want *big.Int
		}{
			"add": {func() (Amount, error) { return a.Add(b) }, new(big.Int).Add(big.NewInt(int64(a)), big.NewInt(int64(b)))},
			"sub": {func() (Amount, error) { return a.Sub(b) }, new(big.Int).Sub(big.NewInt(int64(a)), big.NewInt(int64(b)))},
		} {
			got, err := f.got()
			if f.want.IsInt64() != (err == nil) || err == nil && int64(got) != f.want.Int64() {
				t.Fatalf("%s of %d and %d is %d, %v; want %s", name, a, b, got, err, f.want)
			}
			if err != nil && !errors.Is(err, ErrOverflow) {
				t.Fatalf("%s: %v, want ErrOverflow", name, err)
			}
		}
	})
}

func TestRoundMinorLosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := Amount(rapid.Int64Range(math.MinInt64+NanoPerUnit, math.MaxInt64-NanoPerUnit).Draw(t, "amount"))
		digits := rapid.IntRange(0, 9).Draw(t, "digits")
		rounded, rest, err := a.RoundMinor(digits)
		if err != nil {
			t.Fatal(err)
		}
		step := Amount(1)
		for range 9 - digits {
			step *= 10
		}
		switch {
		case rounded+rest != a:
			t.Fatalf("%d is split into %d and %d", a, rounded, rest)
		case rounded%step != 0:
			t.Fatalf("%d is not a multiple of %d", rounded, step)
		case 2*rest > step || 2*rest < -step:
			t.Fatalf("rest %d is more than half of %d", rest, step)
		case (2*rest == step || 2*rest == -step) && (rounded/step)%2 != 0:
			t.Fatalf("tie of %d went to the odd multiple %d", a, rounded)
		}
	})
}

func TestRationalText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Rational{
		"1/2": {1, 2}, "2/4": {1, 2}, "0.85": {17, 20}, "3": {3, 1}, "0": {0, 1}, "1.250": {5, 4}, "0/7": {0, 1},
	} {
		if got, err := ParseRational(in); err != nil || got != want {
			t.Errorf("%q is read as %v, %v; want %v", in, got, err, want)
		}
	}
	for in, want := range map[string]error{
		"": ErrInvalid, "1/0": ErrInvalid, "-1": ErrInvalid, "1/-2": ErrInvalid, "a": ErrInvalid, ".5": ErrInvalid, "1.": ErrInvalid,
		"1e2": ErrInvalid, "99999999999999999999": ErrOverflow, "1/99999999999999999999": ErrOverflow, "0.0000000000000000001": ErrOverflow,
	} {
		if got, err := ParseRational(in); !errors.Is(err, want) {
			t.Errorf("%q is read as %v, %v; want %v", in, got, err, want)
		}
	}
}

func TestRationalProductIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Rational {
			return Rational{rapid.Int64Range(0, math.MaxInt64).Draw(t, name+" num"), rapid.Int64Range(1, math.MaxInt64).Draw(t, name+" den")}
		}
		a, b := draw("a"), draw("b")
		want := new(big.Rat).Mul(big.NewRat(a.Num, a.Den), big.NewRat(b.Num, b.Den))
		got, err := a.Mul(b)
		fits := want.Num().IsInt64() && want.Denom().IsInt64()
		if fits != (err == nil) || err == nil && big.NewRat(got.Num, got.Den).Cmp(want) != 0 {
			t.Fatalf("%v * %v = %v, %v; want %v", a, b, got, err, want)
		}
	})
}

func TestNamesOfComponentsAndTiersAreReadBack(t *testing.T) {
	t.Parallel()
	for c := range Component(NumComponents) {
		if got, err := ParseComponent(c.String()); err != nil || got != c {
			t.Errorf("%s is read as %v, %v", c, got, err)
		}
	}
	for _, m := range []TierMode{Whole, Marginal} {
		if got, err := ParseTierMode(m.String()); err != nil || got != m {
			t.Errorf("%s is read as %v, %v", m, got, err)
		}
	}
	if _, err := ParseComponent("tokens"); !errors.Is(err, ErrInvalid) {
		t.Errorf("unknown component: %v, want ErrInvalid", err)
	}
}

func FuzzParseAmount(f *testing.F) {
	f.Add("12.50")
	f.Add("-9223372036.854775808")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAmount(s)
		if err != nil {
			return
		}
		want, ok := new(big.Rat).SetString(s)
		if !ok || want.Cmp(big.NewRat(int64(a), NanoPerUnit)) != 0 {
			t.Fatalf("%q is read as %d nano", s, int64(a))
		}
	})
}
