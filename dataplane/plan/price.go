package plan

import (
	"slices"
	"strings"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// Price is what a provider charges for tokens, in nano-units of its currency per
// token. The zero value is of a model without a price.
type Price struct {
	In, Read, Write, Out float64
}

// priced are the versions of an account's price, made for one state of the fleet's
// price list.
type priced struct {
	global   *snapshot.Global
	versions []version // the one that counts where several hold comes first
}

type version struct {
	from, until time.Time
	tiers       []tier
}

type tier struct {
	min, max int64 // prompt tokens, [min, max); max 0 has no end
	price    Price
}

// Price is what the candidate's provider charges at a time for a prompt of so many
// tokens. Which list and version counts is the ledger's rule: the tenant's own list
// before the fleet's, the exact model before a pattern, the region before every
// region, the newest version that holds.
func (c *Candidate) Price(v *snapshot.View, promptTokens int64, now time.Time) Price {
	p := c.Account.priced.Load()
	if p == nil || p.global != v.Global {
		p = c.Account.price(v)
		c.Account.priced.Store(p)
	}
	for i := range p.versions {
		ver := &p.versions[i]
		if now.Before(ver.from) || !ver.until.IsZero() && !now.Before(ver.until) {
			continue
		}
		for _, t := range ver.tiers {
			if promptTokens >= t.min && (t.max == 0 || promptTokens < t.max) {
				return t.price
			}
		}
		return Price{}
	}
	return Price{}
}

func (a *Account) price(v *snapshot.View) *priced {
	out := &priced{global: v.Global}
	type ranked struct {
		rank int
		row  *configv1.ProviderPricing
	}
	var rows []ranked
	add := func(list []*configv1.ProviderPricing, own int) {
		for _, row := range list {
			if row.GetProviderId() != a.Upstream.GetProviderId() || !row.GetPublished() || row.GetDisabled() || row.GetServiceTier() != "" {
				continue
			}
			if r := row.GetRegion(); r != "" && r != a.Upstream.GetRegion() {
				continue
			}
			match := a.matches(row.GetModel())
			if match < 0 {
				continue
			}
			rank := own<<24 | match<<1
			if row.GetRegion() != "" {
				rank |= 1
			}
			rows = append(rows, ranked{rank, row})
		}
	}
	add(a.Pricing, 1)
	add(v.Global.Message.GetPricing(), 0)
	slices.SortStableFunc(rows, func(x, y ranked) int {
		if x.rank != y.rank {
			return y.rank - x.rank
		}
		return y.row.GetEffectiveFrom().AsTime().Compare(x.row.GetEffectiveFrom().AsTime())
	})
	for _, r := range rows {
		ver := version{tiers: tiersOf(r.row.GetItems())}
		if t := r.row.GetEffectiveFrom(); t != nil {
			ver.from = t.AsTime()
		}
		if t := r.row.GetEffectiveUntil(); t != nil {
			ver.until = t.AsTime()
		}
		out.versions = append(out.versions, ver)
	}
	return out
}

// matches ranks how well a name of a price list fits the account's model: the exact
// name first, then the longest pattern; -1 if it does not.
func (a *Account) matches(pattern string) int {
	const exact = 1 << 16
	for _, name := range [2]string{a.UpstreamModel(), a.Model.GetModel()} {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			if strings.HasPrefix(name, prefix) {
				return len(prefix)
			}
		} else if name == pattern {
			return exact
		}
	}
	return -1
}

// tiersOf folds the items of a price to one price for each tier of prompt length.
func tiersOf(items []*configv1.PriceItem) []tier {
	var edges []int64
	for _, it := range items {
		edges = append(edges, it.GetContextMinTokens())
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	out := make([]tier, 0, len(edges))
	for i, e := range edges {
		t := tier{min: e}
		if i+1 < len(edges) {
			t.max = edges[i+1]
		}
		for _, it := range items {
			if e < it.GetContextMinTokens() || it.GetContextMaxTokens() != 0 && e >= it.GetContextMaxTokens() {
				continue
			}
			per := float64(it.GetPerMtokNanos()) / 1e6
			if n, d := it.GetMultNum(), it.GetMultDen(); n > 0 && d > 0 {
				per = per * float64(n) / float64(d)
			}
			switch it.GetComponent() {
			case configv1.PriceComponent_PRICE_COMPONENT_INPUT:
				t.price.In = per
			case configv1.PriceComponent_PRICE_COMPONENT_CACHE_READ:
				t.price.Read = per
			case configv1.PriceComponent_PRICE_COMPONENT_CACHE_WRITE_5M:
				t.price.Write = per
			case configv1.PriceComponent_PRICE_COMPONENT_OUTPUT:
				t.price.Out = per
			default:
			}
		}
		out = append(out, t)
	}
	if len(out) > 0 {
		out[0].min = 0 // a list that starts above 0 prices short prompts as its first tier
	}
	return out
}
