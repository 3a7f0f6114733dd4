package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/money"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"
)

const (
	input    = configv1.PriceComponent_PRICE_COMPONENT_INPUT
	cached   = configv1.PriceComponent_PRICE_COMPONENT_CACHE_READ
	write5m  = configv1.PriceComponent_PRICE_COMPONENT_CACHE_WRITE_5M
	write1h  = configv1.PriceComponent_PRICE_COMPONENT_CACHE_WRITE_1H
	output   = configv1.PriceComponent_PRICE_COMPONENT_OUTPUT
	searches = configv1.PriceComponent_PRICE_COMPONENT_WEB_SEARCH
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func day(n int) time.Time { return epoch.AddDate(0, 0, n) }

func flat(c configv1.PriceComponent, nanos int64) *configv1.PriceItem {
	return &configv1.PriceItem{Component: c, PerMtokNanos: nanos}
}

func cost(id, model string, change ...func(*configv1.ProviderPricing)) *configv1.ProviderPricing {
	p := &configv1.ProviderPricing{
		Id: id, Model: model, ProviderId: "prv_a", Currency: "USD", Published: true,
		EffectiveFrom: timestamppb.New(epoch), Items: []*configv1.PriceItem{flat(input, 1_000_000), flat(output, 2_000_000)},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func find(t *testing.T, set *PriceSet, q query) string {
	t.Helper()
	x, err := newPriceIndex(set)
	if err != nil {
		t.Fatal(err)
	}
	if v := x.find(q); v != nil {
		return v.id
	}
	return ""
}

func TestExactNameGoesBeforeAliasBeforeLongestFamily(t *testing.T) {
	t.Parallel()
	all := []*configv1.ProviderPricing{
		cost("any", "*"), cost("short", "claude-*"), cost("long", "claude-sonnet-*"),
		cost("target", "sonnet-list"), cost("exact", "claude-sonnet-4"),
	}
	aliases := []ModelAlias{{Side: CostSide, Alias: "claude-sonnet-4", Model: "sonnet-list"}}
	q := query{side: CostSide, names: []string{"claude-sonnet-4"}, scope: scope{provider: "prv_a"}, at: day(1)}
	for _, tc := range []struct {
		drop, want string
	}{
		{"", "exact"},
		{"exact", "target"},
		{"exact target", "long"},
		{"exact target long", "short"},
		{"exact target long short", "any"},
		{"exact target long short any", ""},
	} {
		var left []*configv1.ProviderPricing
		for _, p := range all {
			if !strings.Contains(tc.drop, p.GetId()) {
				left = append(left, p)
			}
		}
		if got := find(t, &PriceSet{Costs: left, Aliases: aliases}, q); got != tc.want {
			t.Errorf("without %q: found %q, want %q", tc.drop, got, tc.want)
		}
	}
}

func TestTenantsListGoesBeforeTheListForAll(t *testing.T) {
	t.Parallel()
	set := &PriceSet{Costs: []*configv1.ProviderPricing{
		cost("global", "gpt-5"),
		cost("own", "gpt-*", func(p *configv1.ProviderPricing) { p.TenantId = "ten_a" }),
	}}
	q := query{side: CostSide, names: []string{"gpt-5"}, scope: scope{provider: "prv_a"}, at: day(1)}
	for tenant, want := range map[string]string{"ten_a": "own", "ten_b": "global", "": "global"} {
		q.tenant = tenant
		if got := find(t, set, q); got != want {
			t.Errorf("tenant %q: found %q, want %q", tenant, got, want)
		}
	}
}

func TestNarrowestScopeWins(t *testing.T) {
	t.Parallel()
	narrow := func(region, tier string) func(*configv1.ProviderPricing) {
		return func(p *configv1.ProviderPricing) { p.Region, p.ServiceTier = region, tier }
	}
	set := &PriceSet{Costs: []*configv1.ProviderPricing{
		cost("wide", "m"), cost("tier", "m", narrow("", "batch")), cost("region", "m", narrow("eu", "")), cost("both", "m", narrow("eu", "batch")),
		cost("other", "m", func(p *configv1.ProviderPricing) { p.ProviderId = "prv_b" }),
	}}
	for _, tc := range []struct {
		asked scope
		want  string
	}{
		{scope{"prv_a", "us", "standard"}, "wide"},
		{scope{"prv_a", "us", "batch"}, "tier"},
		{scope{"prv_a", "eu", "standard"}, "region"},
		{scope{"prv_a", "eu", "batch"}, "both"},
		{scope{"prv_b", "eu", "batch"}, "other"},
		{scope{"prv_c", "eu", "batch"}, ""},
	} {
		if got := find(t, set, query{side: CostSide, names: []string{"m"}, scope: tc.asked, at: day(1)}); got != tc.want {
			t.Errorf("%+v: found %q, want %q", tc.asked, got, tc.want)
		}
	}
}

func TestVersionHoldsFromItsStartUntilTheNext(t *testing.T) {
	t.Parallel()
	from := func(a, b int) func(*configv1.ProviderPricing) {
		return func(p *configv1.ProviderPricing) {
			p.EffectiveFrom = timestamppb.New(day(a))
			if b != 0 {
				p.EffectiveUntil = timestamppb.New(day(b))
			}
		}
	}
	set := &PriceSet{Costs: []*configv1.ProviderPricing{
		cost("one", "m", from(0, 0)), cost("two", "m", from(10, 0)), cost("three", "m", from(20, 30)),
		cost("draft", "m", from(5, 0), func(p *configv1.ProviderPricing) { p.Published = false }),
		cost("off", "m", from(6, 0), func(p *configv1.ProviderPricing) { p.Disabled = true }),
	}}
	for _, tc := range []struct {
		at   time.Time
		want string
	}{
		{day(0).Add(-1), ""},
		{day(0), "one"},
		{day(7), "one"},
		{day(10).Add(-1), "one"},
		{day(10), "two"},
		{day(20), "three"},
		{day(30).Add(-1), "three"},
		{day(30), ""}, // the third ended, and it had ended the ones before it
	} {
		if got := find(t, set, query{side: CostSide, names: []string{"m"}, scope: scope{provider: "prv_a"}, at: tc.at}); got != tc.want {
			t.Errorf("at %s: found %q, want %q", tc.at, got, tc.want)
		}
	}
}

// The index finds what a plain reading of the rules finds.
func TestLookUpAgreesWithTheRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "ab", "abc", "a*", "ab*", "*"}
		set := &PriceSet{}
		taken := map[string]bool{}
		for i := range rapid.IntRange(0, 12).Draw(t, "versions") {
			p := cost(fmt.Sprintf("v%02d", i), rapid.SampledFrom(names).Draw(t, "model"))
			p.TenantId = rapid.SampledFrom([]string{"", "ten"}).Draw(t, "tenant")
			p.Region = rapid.SampledFrom([]string{"", "eu"}).Draw(t, "region")
			start := rapid.IntRange(0, 3).Draw(t, "from")
			p.EffectiveFrom = timestamppb.New(day(start))
			if key := fmt.Sprint(p.GetTenantId(), "|", p.GetModel(), "|", p.GetRegion(), "|", start); taken[key] {
				continue
			} else {
				taken[key] = true
			}
			set.Costs = append(set.Costs, p)
		}
		asked := rapid.SampledFrom([]string{"a", "ab", "abc", "abcd", "x"}).Draw(t, "asked")
		at := day(rapid.IntRange(-1, 4).Draw(t, "day"))

		var want string
		best := []int{-1}
		for _, p := range set.Costs {
			prefix, pattern := strings.CutSuffix(p.GetModel(), "*")
			if !pattern && p.GetModel() != asked || pattern && !strings.HasPrefix(asked, prefix) || at.Before(p.GetEffectiveFrom().AsTime()) {
				continue
			}
			score := []int{0, 0, 0, 0, int(p.GetEffectiveFrom().GetSeconds())}
			if p.GetTenantId() == "ten" {
				score[0] = 1
			}
			if !pattern {
				score[1] = 1
			}
			score[2] = len(prefix)
			if p.GetRegion() != "" {
				score[3] = 1
			}
			if want == "" || fmt.Sprintf("%03d", score) > fmt.Sprintf("%03d", best) {
				want, best = p.GetId(), score
			}
		}
		x, err := newPriceIndex(set)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if v := x.find(query{side: CostSide, tenant: "ten", names: []string{asked}, scope: scope{provider: "prv_a", region: "eu"}, at: at}); v != nil {
			got = v.id
		}
		if got != want {
			t.Fatalf("%q at %s: found %q, want %q of %v", asked, at, got, want, set.Costs)
		}
	})
}

// A tier begins at context_min_tokens and ends below context_max_tokens.
func TestTierEdgesOfTheConfigurationAreKept(t *testing.T) {
	t.Parallel()
	const edge = 200_001 // "above 200k"
	v := newVersion("v", "m", "USD", nil, nil, []*configv1.PriceItem{
		{Component: input, ContextMaxTokens: edge, PerMtokNanos: 1_000_000},
		{Component: input, ContextMinTokens: edge, PerMtokNanos: 2_000_000},
	})
	if v.problem != nil {
		t.Fatal(v.problem)
	}
	for n, want := range map[int64]money.Amount{0: 0, 1: 1, edge - 2: edge - 2, edge - 1: edge - 1, edge: 2 * edge, edge + 1: 2 * (edge + 1)} {
		got, err := money.Price(v.items, money.Units{money.Input: n}, money.One)
		if err != nil || got != want {
			t.Errorf("%d tokens cost %d, %v; want %d", n, got, err, want)
		}
	}
	// Marginal: only the tokens from the edge on cost the second price.
	v = newVersion("v", "m", "USD", nil, nil, []*configv1.PriceItem{
		{Component: input, ContextMaxTokens: edge, PerMtokNanos: 1_000_000, TierMode: configv1.TierMode_TIER_MODE_MARGINAL},
		{Component: input, ContextMinTokens: edge, PerMtokNanos: 2_000_000, TierMode: configv1.TierMode_TIER_MODE_MARGINAL},
	})
	for n, want := range map[int64]money.Amount{edge - 2: edge - 2, edge - 1: edge - 1, edge: edge + 1, edge + 1: edge + 3} {
		got, err := money.Price(v.items, money.Units{money.Input: n}, money.One)
		if err != nil || got != want {
			t.Errorf("marginal: %d tokens cost %d, %v; want %d", n, got, err, want)
		}
	}
}

func TestVersionThatCannotBeRatedWithIsNamed(t *testing.T) {
	t.Parallel()
	for name, items := range map[string][]*configv1.PriceItem{
		"tier of no prompt":  {{Component: input, ContextMaxTokens: 1}, {Component: input, ContextMinTokens: 1}},
		"unknown component":  {{Component: 99}},
		"overlapping tiers":  {flat(input, 1), flat(input, 2)},
		"price out of range": {flat(input, -1)},
	} {
		_, err := newPriceIndex(&PriceSet{Costs: []*configv1.ProviderPricing{
			cost("bad", "m", func(p *configv1.ProviderPricing) { p.Items = items }), cost("good", "n"),
		}})
		if err == nil || !strings.Contains(err.Error(), "bad of m") || strings.Contains(err.Error(), "good") {
			t.Errorf("%s: %v, want an error that names version bad alone", name, err)
		}
	}
}
