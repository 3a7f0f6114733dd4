// Package money holds exact amounts, rates and prices. There is no floating
// point in it: an amount is a whole number of nano units of its currency, and a
// price is computed with one rounding, half to even, at its end.
package money

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Errors of this package; each is in the tree of what is returned.
var (
	// ErrOverflow says that a result does not fit into 64 bits of nano units.
	ErrOverflow = errors.New("amount out of range")
	// ErrUnpriced says that units were used for which the price version holds
	// no price and no documented stand-in.
	ErrUnpriced = errors.New("no price for a used component")
	// ErrInvalid says that a price, a unit count or a text is not acceptable.
	ErrInvalid = errors.New("invalid money value")
)

// Nano units in one unit of a currency, and the decimals that makes.
const (
	NanoPerUnit  = 1_000_000_000
	nanoDecimals = 9
)

// Amount is money in nano units (10^-9) of a currency that is kept beside it.
// The range is about +-9.2 billion units.
type Amount int64

// Add returns a + b, or ErrOverflow.
func (a Amount) Add(b Amount) (Amount, error) {
	sum := a + b
	if (a^sum)&(b^sum) < 0 {
		return 0, fmt.Errorf("add %s and %s: %w", a, b, ErrOverflow)
	}
	return sum, nil
}

// Sub returns a - b, or ErrOverflow.
func (a Amount) Sub(b Amount) (Amount, error) {
	diff := a - b
	if (a^b)&(a^diff) < 0 {
		return 0, fmt.Errorf("subtract %s from %s: %w", b, a, ErrOverflow)
	}
	return diff, nil
}

// String writes the amount as a decimal of units without grouping, with at
// least two and at most nine decimals: "12.50", "0.000000001", "-3.00".
// ParseAmount reads it back exactly.
func (a Amount) String() string {
	mag, sign := uint64(a), ""
	if a < 0 {
		mag, sign = -mag, "-"
	}
	text := fmt.Sprintf("%s%d.%09d", sign, mag/NanoPerUnit, mag%NanoPerUnit)
	shortest := len(text) - nanoDecimals + 2
	for len(text) > shortest && text[len(text)-1] == '0' {
		text = text[:len(text)-1]
	}
	return text
}

// ParseAmount reads a decimal of currency units: an optional minus sign, digits,
// and optionally a point with one to nine decimals. Exponents, grouping, a plus
// sign, spaces and finer decimals are refused with ErrInvalid; a value beyond
// the range of Amount with ErrOverflow.
func ParseAmount(s string) (Amount, error) {
	rest, negative := strings.CutPrefix(s, "-")
	whole, frac, pointed := strings.Cut(rest, ".")
	if whole == "" || pointed && frac == "" || len(frac) > nanoDecimals || !digitsOnly(whole) || !digitsOnly(frac) {
		return 0, fmt.Errorf("amount %s: %w: want digits and up to nine decimals, for example 12.50", clip(s), ErrInvalid)
	}
	var mag uint64
	for _, digits := range []string{whole, frac, strings.Repeat("0", nanoDecimals-len(frac))} {
		for i := range len(digits) {
			d := uint64(digits[i] - '0')
			if mag > (1<<63-d)/10 {
				return 0, fmt.Errorf("amount %s: %w", clip(s), ErrOverflow)
			}
			mag = mag*10 + d
		}
	}
	switch {
	case negative:
		return Amount(-mag), nil // 1<<63 is the most negative amount
	case mag > math.MaxInt64:
		return 0, fmt.Errorf("amount %s: %w", clip(s), ErrOverflow)
	}
	return Amount(mag), nil
}

// RoundMinor splits the amount for an invoice: rounded is the multiple of
// 10^-digits units that is nearest, ties to the even multiple, and rest is what
// goes to the rounding account; rounded + rest is the amount. digits is the
// currency's number of minor digits, 0 to 9 (2 for USD, 0 for JPY).
func (a Amount) RoundMinor(digits int) (rounded, rest Amount, err error) {
	if digits < 0 || digits > nanoDecimals {
		return 0, 0, fmt.Errorf("round to %d digits: %w: want 0 to %d", digits, ErrInvalid, nanoDecimals)
	}
	step := Amount(1)
	for range nanoDecimals - digits {
		step *= 10
	}
	rest = a % step
	rounded = a - rest
	if rest < 0 { // rounded is above a: continue from the multiple below
		if rounded, err = rounded.Sub(step); err != nil {
			return 0, 0, err
		}
		rest += step
	}
	if 2*rest > step || 2*rest == step && rounded/step%2 != 0 {
		if rounded, err = rounded.Add(step); err != nil {
			return 0, 0, err
		}
		rest -= step
	}
	return rounded, rest, nil
}

func digitsOnly(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// clip quotes s for an error, cut to a length that fits a log line.
func clip(s string) string {
	const most = 48
	if len(s) > most {
		return fmt.Sprintf("%q (cut)", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
