package money

import (
	"fmt"
	"math/big"
	"math/bits"
)

// Rate is a price: nano units of a currency for one million units of use.
// 3.00 USD for a million tokens is Rate(3_000_000_000).
type Rate int64

const unitsPerRate = 1_000_000

// TierMode says how the context range of an Item is applied.
type TierMode uint8

const (
	// Whole prices every unit of a call at the tier that its total prompt
	// tokens reach.
	Whole TierMode = iota
	// Marginal prices each prompt token at the tier its own position reaches.
	// Positions follow the order cached read, cache writes, uncached text,
	// audio, image. Components outside the prompt have no position: they are
	// priced as Whole.
	Marginal
)

// String returns "whole" or "marginal".
func (m TierMode) String() string {
	if m == Marginal {
		return "marginal"
	}
	return "whole"
}

// ParseTierMode reads "whole" or "marginal"; anything else is ErrInvalid.
func ParseTierMode(s string) (TierMode, error) {
	switch s {
	case "whole":
		return Whole, nil
	case "marginal":
		return Marginal, nil
	}
	return 0, fmt.Errorf("tier mode %s: %w: want whole or marginal", clip(s), ErrInvalid)
}

// Item is one line of a price version.
//
// The tier it stands for is the prompts of more than ContextMin and at most
// ContextMax tokens, as providers word it ("above 200k", "up to 200k"), so the
// edge is written once: ContextMax of one tier is ContextMin of the next. A
// ContextMin of 0 includes the empty prompt; a ContextMax of 0 has no end.
type Item struct {
	Component              Component
	ContextMin, ContextMax int64
	TierMode               TierMode
	NanoPerMillion         Rate
	Mult                   Rational // factor on NanoPerMillion; zero value 1
}

// covers reports whether a whole tier holds a prompt of n tokens.
func (it *Item) covers(n int64) bool {
	return (n > it.ContextMin || it.ContextMin == 0) && (n <= it.ContextMax || it.ContextMax == 0)
}

// within returns how many of the prompt positions after and up to (from, to]
// lie in the item's tier.
func (it *Item) within(from, to int64) int64 {
	low, high := max(from, it.ContextMin), to
	if it.ContextMax != 0 {
		high = min(high, it.ContextMax)
	}
	return max(0, high-low)
}

// Price returns what the units cost under the items of one price version:
//
//	round_half_even( multiplier * sum(units * price) / 1,000,000 )
//
// The sum is exact and rounded once. The tier of each component is chosen by
// the total prompt tokens.
//
// A component that was used but has no item takes the price of its stand-in:
// cache_write_1h that of cache_write_5m and then of input; cache_write_5m,
// cache_read, audio_in and image_in that of input; reasoning, audio_out and
// image_out that of output. With no stand-in either the result is ErrUnpriced,
// as it is when a component has items of which none covers the prompt. Only
// request costs nothing when it is not listed: every call is one request, and
// most price lists charge none for it.
//
// Price fails with ErrInvalid on a negative count, price or factor, and with
// ErrOverflow if the result exceeds an Amount. It allocates only where 128 bits
// do not hold the sum. Safe for concurrent use.
func Price(version []Item, units Units, multiplier Rational) (Amount, error) {
	if !multiplier.Valid() {
		return 0, fmt.Errorf("price: multiplier %d/%d: %w", multiplier.Num, multiplier.Den, ErrInvalid)
	}
	prompt, err := units.Prompt()
	if err != nil {
		return 0, fmt.Errorf("price: %w", err)
	}
	s := sum{version: version, multiplier: multiplier.reduced(), den: 1}
	if err := s.scale(); err != nil {
		return 0, err
	}
	var position int64
	for _, c := range promptOrder {
		if err := s.add(c, units[c], prompt, position); err != nil {
			return 0, err
		}
		position += units[c]
	}
	for c := range Component(NumComponents) {
		if inPrompt(c) {
			continue
		}
		if err := s.add(c, units[c], prompt, -1); err != nil {
			return 0, err
		}
	}
	return s.total()
}

func inPrompt(c Component) bool {
	switch c {
	case Input, CacheRead, CacheWrite5m, CacheWrite1h, AudioIn, ImageIn:
		return true
	}
	return false
}

// sum adds units * rate over a common denominator den, in 128 bits for as long
// as that holds and in wide from then on.
type sum struct {
	version    []Item
	multiplier Rational
	den        int64 // common denominator of the items' factors
	hi, lo     uint64
	wide       *big.Int // nil while hi, lo hold the sum
	wideDen    *big.Int // nil while den holds the common denominator
}

// scale finds the common denominator of all items and checks them.
func (s *sum) scale() error {
	for i := range s.version {
		it := &s.version[i]
		if it.NanoPerMillion < 0 || !it.Mult.Valid() || it.ContextMin < 0 || it.ContextMax < 0 || int(it.Component) >= NumComponents {
			return fmt.Errorf("price: item %d (%s): %w: price, factor and context range must be 0 or more", i, it.Component, ErrInvalid)
		}
		den := it.Mult.reduced().Den
		if s.wideDen != nil {
			widenDen(s.wideDen, den)
			continue
		}
		next, ok := mul63(s.den/gcd(s.den, den), den)
		if !ok {
			s.wideDen = big.NewInt(s.den)
			widenDen(s.wideDen, den)
			s.wide = new(big.Int)
			continue
		}
		s.den = next
	}
	return nil
}

// widenDen sets d to the least common multiple of d and den.
func widenDen(d *big.Int, den int64) {
	b := big.NewInt(den)
	g := new(big.Int).GCD(nil, nil, d, b)
	d.Mul(d, b.Div(b, g))
}

// add prices n units of c. position is the number of prompt tokens before
// them, or negative for what is not part of the prompt.
func (s *sum) add(c Component, n, prompt, position int64) error {
	if n < 0 {
		return fmt.Errorf("price: %s of %d units: %w: want 0 or more", c, n, ErrInvalid)
	}
	if n == 0 {
		return nil
	}
	priced, ok := s.priced(c)
	if !ok {
		if c == Request {
			return nil
		}
		return fmt.Errorf("price %d units of %s: %w", n, c, ErrUnpriced)
	}
	left := n
	for i := range s.version {
		it := &s.version[i]
		if it.Component != priced || left == 0 {
			continue
		}
		switch {
		case it.TierMode == Marginal && position >= 0:
			part := min(left, it.within(position, position+n))
			s.addProduct(part, it)
			left -= part
		case it.covers(prompt):
			s.addProduct(left, it)
			left = 0
		}
	}
	if left != 0 {
		return fmt.Errorf("price %d units of %s at %d prompt tokens: no tier covers them: %w", left, c, prompt, ErrUnpriced)
	}
	return nil
}

// priced returns the component whose items price c: c itself or a stand-in.
func (s *sum) priced(c Component) (Component, bool) {
	for {
		for i := range s.version {
			if s.version[i].Component == c {
				return c, true
			}
		}
		next, ok := standIn(c)
		if !ok {
			return 0, false
		}
		c = next
	}
}

func (s *sum) addProduct(n int64, it *Item) {
	mult := it.Mult.reduced()
	if s.wide == nil && s.addNarrow(uint64(n), uint64(it.NanoPerMillion), uint64(mult.Num), uint64(s.den/mult.Den)) {
		return
	}
	if s.wide == nil {
		s.wide = wideOf(s.hi, s.lo)
	}
	den := s.wideDen
	if den == nil {
		den = big.NewInt(s.den)
	}
	product := big.NewInt(n)
	product.Mul(product, big.NewInt(int64(it.NanoPerMillion)))
	product.Mul(product, big.NewInt(mult.Num))
	product.Mul(product, new(big.Int).Div(den, big.NewInt(mult.Den)))
	s.wide.Add(s.wide, product)
}

// addNarrow adds n * rate * num * up to the 128-bit sum and reports whether it
// fits; if not, the sum is as before.
func (s *sum) addNarrow(n, rate, num, up uint64) bool {
	hi, lo := bits.Mul64(n, rate)
	for _, f := range [...]uint64{num, up} {
		if f == 1 {
			continue
		}
		var ok bool
		if hi, lo, ok = mul128(hi, lo, f); !ok {
			return false
		}
	}
	lo, carry := bits.Add64(s.lo, lo, 0)
	hi, carry = bits.Add64(s.hi, hi, carry)
	if carry != 0 {
		return false
	}
	s.hi, s.lo = hi, lo
	return true
}

// total applies the multiplier and rounds once.
func (s *sum) total() (Amount, error) {
	if s.wide == nil {
		hi, lo, ok1 := mul128(s.hi, s.lo, uint64(s.multiplier.Num))
		div, ok2 := mul63(s.den, s.multiplier.Den)
		if ok2 {
			div, ok2 = mul63(div, unitsPerRate)
		}
		if ok1 && ok2 {
			return roundNarrow(hi, lo, uint64(div))
		}
		s.wide = wideOf(s.hi, s.lo)
	}
	den := s.wideDen
	if den == nil {
		den = big.NewInt(s.den)
	}
	div := new(big.Int).Mul(den, big.NewInt(s.multiplier.Den))
	div.Mul(div, big.NewInt(unitsPerRate))
	q, r := new(big.Int).QuoRem(s.wide.Mul(s.wide, big.NewInt(s.multiplier.Num)), div, new(big.Int))
	if half := r.Lsh(r, 1).Cmp(div); half > 0 || half == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsInt64() {
		return 0, fmt.Errorf("price: %w", ErrOverflow)
	}
	return Amount(q.Int64()), nil
}

// roundNarrow divides 128 bits by div (below 2^63), half to even.
func roundNarrow(hi, lo, div uint64) (Amount, error) {
	if hi >= div {
		return 0, fmt.Errorf("price: %w", ErrOverflow)
	}
	q, r := bits.Div64(hi, lo, div)
	if 2*r > div || 2*r == div && q&1 == 1 {
		if q >= 1<<63-1 { // before the step, so that it cannot wrap
			return 0, fmt.Errorf("price: %w", ErrOverflow)
		}
		q++
	}
	if q>>63 != 0 {
		return 0, fmt.Errorf("price: %w", ErrOverflow)
	}
	return Amount(q), nil
}

// mul128 multiplies 128 bits by f and reports whether the product fits.
func mul128(hi, lo, f uint64) (uint64, uint64, bool) {
	over, top := bits.Mul64(hi, f)
	carry, low := bits.Mul64(lo, f)
	high, c := bits.Add64(top, carry, 0)
	return high, low, over == 0 && c == 0
}

func wideOf(hi, lo uint64) *big.Int {
	w := new(big.Int).SetUint64(hi)
	return w.Lsh(w, 64).Add(w, new(big.Int).SetUint64(lo))
}
