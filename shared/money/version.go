package money

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// CheckVersion reports everything that makes the items of a price version
// unusable: negative prices, bad factors, an empty or overlapping tier, a
// component whose tiers leave a prompt length uncovered or mix tier modes.
// A version that passes never makes Price answer ErrInvalid for its items, and
// ErrUnpriced only for components that have neither an item nor a stand-in.
func CheckVersion(version []Item) error {
	var problems []error
	tiers := map[Component][]Item{}
	for i, it := range version {
		bad := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("item %d (%s): %w: %s", i, it.Component, ErrInvalid, fmt.Sprintf(format, args...)))
		}
		switch {
		case int(it.Component) >= NumComponents:
			bad("unknown component")
			continue
		case it.NanoPerMillion < 0:
			bad("price %d is negative", it.NanoPerMillion)
		case !it.Mult.Valid():
			bad("factor %d/%d; want a numerator of 0 or more over 1 or more", it.Mult.Num, it.Mult.Den)
		case it.TierMode > Marginal:
			bad("unknown tier mode %d", it.TierMode)
		case it.ContextMin < 0 || it.ContextMax < 0:
			bad("context range %d to %d is negative", it.ContextMin, it.ContextMax)
		case it.ContextMax != 0 && it.ContextMax <= it.ContextMin:
			bad("context range above %d up to %d is empty", it.ContextMin, it.ContextMax)
		}
		tiers[it.Component] = append(tiers[it.Component], it)
	}
	for c := range Component(NumComponents) {
		if err := checkTiers(c, tiers[c]); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// checkTiers wants the tiers of one component to follow on each other from 0
// to no end.
func checkTiers(c Component, items []Item) error {
	if len(items) == 0 {
		return nil
	}
	slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(a.ContextMin, b.ContextMin) })
	end, open := int64(0), false
	for _, it := range items {
		switch {
		case it.TierMode != items[0].TierMode:
			return fmt.Errorf("%s: %w: its tiers mix whole and marginal", c, ErrInvalid)
		case open || it.ContextMin < end:
			return fmt.Errorf("%s: %w: two tiers cover prompts above %d tokens", c, ErrInvalid, it.ContextMin)
		case it.ContextMin > end:
			return fmt.Errorf("%s: %w: no tier covers prompts above %d up to %d tokens", c, ErrInvalid, end, it.ContextMin)
		}
		end, open = it.ContextMax, it.ContextMax == 0
	}
	if !open {
		return fmt.Errorf("%s: %w: no tier covers prompts above %d tokens", c, ErrInvalid, end)
	}
	return nil
}
