package money

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Rational is an exact, non-negative factor Num/Den. The zero value is the
// factor 1, so an unset multiplier changes nothing; 0 is written {0, 1}.
type Rational struct {
	Num, Den int64
}

// One is the factor that changes nothing.
var One = Rational{1, 1}

// Valid reports whether r is a factor: the zero value, or Num >= 0 and Den > 0.
func (r Rational) Valid() bool {
	return r == Rational{} || r.Num >= 0 && r.Den > 0
}

// Mul returns r * o in lowest terms, for instance a batch discount times a
// group's multiplier. It fails with ErrInvalid if a factor is not valid and with
// ErrOverflow if the product does not fit.
func (r Rational) Mul(o Rational) (Rational, error) {
	if !r.Valid() || !o.Valid() {
		return Rational{}, fmt.Errorf("multiply %s by %s: %w", r, o, ErrInvalid)
	}
	r, o = r.reduced(), o.reduced()
	// Cross-reducing first keeps the product as small as it can be.
	g, h := gcd(r.Num, o.Den), gcd(o.Num, r.Den)
	num, ok1 := mul63(r.Num/g, o.Num/h)
	den, ok2 := mul63(r.Den/h, o.Den/g)
	if !ok1 || !ok2 {
		return Rational{}, fmt.Errorf("multiply %s by %s: %w", r, o, ErrOverflow)
	}
	return Rational{num, den}, nil
}

// String writes the factor as it is kept, "1/2"; "1" if the denominator is 1.
func (r Rational) String() string {
	if r == (Rational{}) {
		r = One
	}
	if r.Den == 1 {
		return strconv.FormatInt(r.Num, 10)
	}
	return strconv.FormatInt(r.Num, 10) + "/" + strconv.FormatInt(r.Den, 10)
}

// ParseRational reads "1/2", "3" or a decimal such as "0.85", exactly, and
// returns it in lowest terms. Negative factors, a denominator of 0 and exponents
// are refused with ErrInvalid, what does not fit with ErrOverflow.
func ParseRational(s string) (Rational, error) {
	bad := func(kind error) (Rational, error) {
		return Rational{}, fmt.Errorf("factor %s: %w: want for example 1/2, 3 or 0.85", clip(s), kind)
	}
	if top, bottom, ok := strings.Cut(s, "/"); ok {
		if top == "" || bottom == "" || !digitsOnly(top) || !digitsOnly(bottom) {
			return bad(ErrInvalid)
		}
		num, err1 := strconv.ParseInt(top, 10, 64)
		den, err2 := strconv.ParseInt(bottom, 10, 64)
		switch {
		case err1 != nil || err2 != nil:
			return bad(ErrOverflow)
		case den == 0:
			return bad(ErrInvalid)
		}
		return Rational{num, den}.reduced(), nil
	}
	whole, frac, pointed := strings.Cut(s, ".")
	if whole == "" || pointed && frac == "" || !digitsOnly(whole) || !digitsOnly(frac) {
		return bad(ErrInvalid)
	}
	frac = strings.TrimRight(frac, "0")
	den := int64(1)
	for range len(frac) {
		next, ok := mul63(den, 10)
		if !ok {
			return bad(ErrOverflow)
		}
		den = next
	}
	num, err := strconv.ParseInt(whole+frac, 10, 64)
	if err != nil {
		return bad(ErrOverflow)
	}
	return Rational{num, den}.reduced(), nil
}

// reduced returns a valid r in lowest terms.
func (r Rational) reduced() Rational {
	if r == (Rational{}) {
		return One
	}
	g := gcd(r.Num, r.Den)
	return Rational{r.Num / g, r.Den / g}
}

// gcd of two non-negative numbers that are not both 0.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// mul63 multiplies two non-negative numbers and reports whether that fits.
func mul63(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(lo), hi == 0 && lo>>63 == 0
}
