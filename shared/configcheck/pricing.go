package configcheck

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// version is what the two kinds of price version have in common.
type version struct {
	who         subject
	place       string // what it prices; versions of one place follow each other
	model       string
	from, until *timestamppb.Timestamp
	currency    string
	items       []*configv1.PriceItem
	published   bool
}

func versionOfProvider(p *configv1.ProviderPricing) version {
	return version{
		subjectOf(p), fmt.Sprintf("%q %q %q %q", p.GetProviderId(), p.GetModel(), p.GetRegion(), p.GetServiceTier()), p.GetModel(),
		p.GetEffectiveFrom(), p.GetEffectiveUntil(), p.GetCurrency(), p.GetItems(), p.GetPublished(),
	}
}

func versionOfBook(p *configv1.PriceBookEntry) version {
	return version{
		subjectOf(p), fmt.Sprintf("%q %q %q %q %q", p.GetBook(), p.GetProviderId(), p.GetModel(), p.GetRegion(), p.GetServiceTier()), p.GetModel(),
		p.GetEffectiveFrom(), p.GetEffectiveUntil(), p.GetCurrency(), p.GetItems(), p.GetPublished(),
	}
}

func pricingAlone(l *list, v version) {
	if star := indexStar(v.model); star >= 0 && star != len(v.model)-1 {
		l.add(v.who, "model", "pattern.star", "%s: a star may only stand at the end", quote(v.model))
	}
	if v.from == nil {
		l.add(v.who, "effective_from", "price.from", "say from when the price holds")
	} else if !v.from.IsValid() {
		l.add(v.who, "effective_from", "price.from", "give a time between the years 1 and 9999")
	}
	if v.until != nil && !v.until.IsValid() {
		l.add(v.who, "effective_until", "price.until", "give a time between the years 1 and 9999")
	}
	if v.from.IsValid() && v.until.IsValid() && !v.until.AsTime().After(v.from.AsTime()) {
		l.add(v.who, "effective_until", "price.until", "the version ends before it begins; set effective_until after effective_from, or clear it")
	}
	tiers := map[configv1.PriceComponent][]tier{}
	for i, it := range v.items {
		lo, hi := it.GetContextMinTokens(), it.GetContextMaxTokens()
		if hi != 0 && hi <= lo {
			l.add(v.who, fmt.Sprintf("items[%d].context_max_tokens", i), "price.tier", "the tier is empty; set it above context_min_tokens, or to 0 for no end")
			continue
		}
		tiers[it.GetComponent()] = append(tiers[it.GetComponent()], tier{i, lo, hi})
	}
	for _, comp := range sortedKeys(tiers) {
		ts := tiers[comp]
		slices.SortFunc(ts, func(a, b tier) int { return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(a.item, b.item)) })
		for i := 1; i < len(ts); i++ {
			if ts[i-1].hi == 0 || ts[i-1].hi > ts[i].lo {
				l.add(v.who, fmt.Sprintf("items[%d]", ts[i].item), "price.tier_overlap",
					"items %d and %d price the same %s tokens twice; let one tier end where the next begins", ts[i-1].item, ts[i].item, comp)
			}
		}
	}
}

type tier struct {
	item   int
	lo, hi int64
}

// overlaps checks published versions that price the same thing: a time has one
// price. A version without an end holds until the next one.
func overlaps(l *list, versions []version) {
	by := map[string][]version{}
	for _, v := range versions {
		if v.published && v.from.IsValid() {
			by[v.place] = append(by[v.place], v)
		}
	}
	for _, place := range sortedKeys(by) {
		vs := by[place]
		slices.SortStableFunc(vs, func(a, b version) int { return a.from.AsTime().Compare(b.from.AsTime()) })
		for i := 1; i < len(vs); i++ {
			prev, next := vs[i-1], vs[i]
			at := next.from.AsTime()
			switch {
			case at.Equal(prev.from.AsTime()):
				l.add(next.who, "effective_from", "price.duplicate", "another version begins at %s too; change or delete one", at.Format(time.RFC3339))
			case prev.until.IsValid() && prev.until.AsTime().After(at):
				l.add(next.who, "effective_from", "price.overlap", "the version before it holds until %s; begin then, or end that one at %s",
					prev.until.AsTime().Format(time.RFC3339), at.Format(time.RFC3339))
			}
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
