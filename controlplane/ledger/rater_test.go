package ledger

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/money"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"
)

func price(id, model string, change ...func(*configv1.PriceBookEntry)) *configv1.PriceBookEntry {
	p := &configv1.PriceBookEntry{
		Id: id, Model: model, Currency: "EUR", Published: true,
		EffectiveFrom: timestamppb.New(epoch), Items: []*configv1.PriceItem{flat(input, 3_000_000), flat(output, 6_000_000)},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func raterOf(t testing.TB, set *PriceSet) *Rater {
	t.Helper()
	c, err := NewCatalog(&fixedPrices{set: set}, CatalogConfig{}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return NewRater(c)
}

// event is a completed attempt of one request: 100 input and 10 output tokens.
func event(at time.Time, change ...func(*ledgerv1.UsageEvent)) *ledgerv1.UsageEvent {
	ev := &ledgerv1.UsageEvent{
		RequestId: ident.NewAt(ident.Request, at), Attempt: 1, Kind: ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT,
		TenantId: "ten_a", ConsumerId: "con_a", ProviderId: "prv_a",
		ModelRequested: "public", ModelRouted: "m", ModelServed: "m",
		Purpose: ledgerv1.Purpose_PURPOSE_SERVE, Outcome: ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED,
		UsageSource: ledgerv1.UsageSource_USAGE_SOURCE_PROVIDER,
		Units:       &ledgerv1.Units{Input: 100, Output: 10, Request: 1},
		AcceptedAt:  timestamppb.New(at), OccurredAt: timestamppb.New(at.Add(time.Second)),
	}
	for _, f := range change {
		f(ev)
	}
	return ev
}

func everydaySet() *PriceSet {
	return &PriceSet{
		Costs:  []*configv1.ProviderPricing{cost("prc_m", "m")},
		Prices: []*configv1.PriceBookEntry{price("pbk_public", "public"), price("pbk_gold", "public", func(p *configv1.PriceBookEntry) { p.Book = "gold" })},
	}
}

func TestBothSidesAreRatedByTheirOwnName(t *testing.T) {
	t.Parallel()
	got, err := raterOf(t, everydaySet()).Rate(t.Context(), event(day(1)))
	want := Rating{
		Cost:  Charge{Nano: 120, Currency: "USD", Version: "prc_m", Model: "m"},
		Price: Charge{Nano: 360, Currency: "EUR", Version: "pbk_public", Model: "public"},
	}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v: %s", err, cmp.Diff(want, got))
	}
	if got.ModelBilled() != "public" {
		t.Errorf("billed as %q, want public", got.ModelBilled())
	}
}

func TestCostIsFoundByServedModelThenByRoutedOne(t *testing.T) {
	t.Parallel()
	r := raterOf(t, &PriceSet{Costs: []*configv1.ProviderPricing{
		cost("routed", "gpt-4o"), cost("family", "gpt-*"), cost("dated", "gpt-4o-2024-11-20"), cost("sonnet", "claude-sonnet-latest"),
	}})
	for _, tc := range []struct{ served, routed, want string }{
		{"gpt-4o-2024-11-20", "gpt-4o", "dated"},
		{"gpt-4o-2024-08-06", "gpt-4o", "routed"},
		{"gpt-4o-20240806", "gpt-4o", "routed"},
		{"gpt-4o-0806", "gpt-4o", "routed"},
		{"gpt-4o@20240806", "gpt-4o", "routed"},
		{"claude-sonnet-20250101", "claude-sonnet-latest", "sonnet"},
		{"", "gpt-4o", "routed"},
		{"gpt-4o-mini", "gpt-4o", "family"}, // another model, not a release of the routed one
		{"gpt-4o-mini-2024-07-18", "gpt-4o", "family"},
		{"llama", "gpt-4o", ""},
	} {
		got, err := r.Rate(t.Context(), event(day(1), func(ev *ledgerv1.UsageEvent) { ev.ModelServed, ev.ModelRouted = tc.served, tc.routed }))
		if err != nil || got.Cost.Version != tc.want {
			t.Errorf("served %q routed %q: version %q, %v; want %q", tc.served, tc.routed, got.Cost.Version, err, tc.want)
		}
		if (tc.want == "") != (got.Cost.Unpriced == NoVersion) {
			t.Errorf("served %q: unpriced %q", tc.served, got.Cost.Unpriced)
		}
	}
}

func TestMissingPriceIsNeverASilentZero(t *testing.T) {
	t.Parallel()
	set := everydaySet()
	set.Costs = append(set.Costs, cost("bad", "broken", func(p *configv1.ProviderPricing) { p.Currency = "" }))
	r := raterOf(t, set)
	for _, tc := range []struct {
		name        string
		change      func(*ledgerv1.UsageEvent)
		cost, price Reason
	}{
		{"no book", func(ev *ledgerv1.UsageEvent) { ev.PriceBook = "silver" }, Priced, NoVersion},
		{"no model", func(ev *ledgerv1.UsageEvent) { ev.ModelServed, ev.ModelRequested = "x", "y" }, NoVersion, NoVersion},
		{"before the first version", func(ev *ledgerv1.UsageEvent) { ev.AcceptedAt = timestamppb.New(day(-1)) }, NoVersion, NoVersion},
		{"pinned and not published", func(ev *ledgerv1.UsageEvent) { ev.CostVersion, ev.PriceVersion = "prc_gone", "pbk_gone" }, PinnedUnknown, PinnedUnknown},
		{"no price for a component", func(ev *ledgerv1.UsageEvent) { ev.Units.WebSearch = 1 }, NoComponent, NoComponent},
		{"broken version", func(ev *ledgerv1.UsageEvent) { ev.ModelServed = "broken" }, BadVersion, Priced},
	} {
		got, err := r.Rate(t.Context(), event(day(1), tc.change))
		if err != nil || got.Cost.Unpriced != tc.cost || got.Price.Unpriced != tc.price {
			t.Errorf("%s: unpriced %q and %q, %v; want %q and %q", tc.name, got.Cost.Unpriced, got.Price.Unpriced, err, tc.cost, tc.price)
		}
		if got.Cost.Unpriced != Priced && got.Cost.Nano != 0 || got.Price.Unpriced != Priced && got.Price.Nano != 0 {
			t.Errorf("%s: an unpriced side has an amount: %+v", tc.name, got)
		}
	}
}

func TestPinnedVersionIsUsedEvenWhenSwitchedOff(t *testing.T) {
	t.Parallel()
	set := everydaySet()
	set.Costs = append(set.Costs, cost("prc_old", "other", func(p *configv1.ProviderPricing) {
		p.Disabled = true
		p.Items = []*configv1.PriceItem{flat(input, 9_000_000), flat(output, 9_000_000)}
	}))
	got, err := raterOf(t, set).Rate(t.Context(), event(day(1), func(ev *ledgerv1.UsageEvent) { ev.CostVersion, ev.PriceVersion = "prc_old", "pbk_gold" }))
	if err != nil || got.Cost.Version != "prc_old" || got.Cost.Nano != 990 || got.Price.Version != "pbk_gold" {
		t.Errorf("rated as %+v, %v; want the pinned versions and 990", got, err)
	}
}

func TestWhoIsChargedByOutcomeAndPurpose(t *testing.T) {
	t.Parallel()
	r := raterOf(t, everydaySet())
	type E = ledgerv1.UsageEvent
	outcome := func(o ledgerv1.AttemptOutcome) func(*E) { return func(ev *E) { ev.Outcome = o } }
	purpose := func(p ledgerv1.Purpose) func(*E) { return func(ev *E) { ev.Purpose = p } }
	for _, tc := range []struct {
		name        string
		change      func(*E)
		cost, price money.Amount
	}{
		{"completed", outcome(ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED), 120, 360},
		{"cancelled", outcome(ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED), 120, 360},
		{"broken", outcome(ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_BROKEN), 120, 360},
		{"not sent", outcome(ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_NOT_SENT), 0, 0},
		{"refused", outcome(ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_REFUSED_UPSTREAM), 0, 0},
		{"cache hit", outcome(ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CACHE_HIT), 0, 0},
		{"cache hit with a price by policy", func(ev *E) {
			ev.Outcome, ev.ChargedUnits = ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CACHE_HIT, &ledgerv1.Units{Output: 10}
		}, 0, 60},
		{"unknown", outcome(ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_UNKNOWN), 0, 0},
		{"hold", func(ev *E) { ev.Kind = ledgerv1.EntryKind_ENTRY_KIND_HOLD }, 0, 0},
		{"as expected", func(ev *E) { ev.ChargedUnits = &ledgerv1.Units{Input: 10, Output: 10} }, 120, 90},
		{"charged nothing", func(ev *E) { ev.ChargedUnits = &ledgerv1.Units{} }, 120, 0},
		{"explicit zero", func(ev *E) { ev.Units = &ledgerv1.Units{} }, 0, 0},
		{"shadow", purpose(ledgerv1.Purpose_PURPOSE_SHADOW), 120, 0},
		{"probe", purpose(ledgerv1.Purpose_PURPOSE_PROBE), 120, 0},
		{"guard", purpose(ledgerv1.Purpose_PURPOSE_GUARD), 120, 0},
		{"embed", purpose(ledgerv1.Purpose_PURPOSE_EMBED), 120, 360},
		{"free group", func(ev *E) { ev.PriceMultiplierDen = 1 }, 120, 0},
		{"dear group", func(ev *E) { ev.PriceMultiplierNum, ev.PriceMultiplierDen = 3, 2 }, 120, 540},
	} {
		got, err := r.Rate(t.Context(), event(day(1), tc.change))
		if err != nil || got.Cost.Nano != tc.cost || got.Price.Nano != tc.price || got.Cost.Unpriced != Priced || got.Price.Unpriced != Priced {
			t.Errorf("%s: %+v, %v; want %d and %d", tc.name, got, err, tc.cost, tc.price)
		}
	}
}

func TestEventThatCanNeverBeRatedIsAnError(t *testing.T) {
	t.Parallel()
	r := raterOf(t, everydaySet())
	for name, tc := range map[string]struct {
		change func(*ledgerv1.UsageEvent)
		want   error
	}{
		"negative units":   {func(ev *ledgerv1.UsageEvent) { ev.Units.Input = -1 }, money.ErrInvalid},
		"overflow":         {func(ev *ledgerv1.UsageEvent) { ev.Units.Input = math.MaxInt64 }, money.ErrOverflow},
		"factor of 1/0":    {func(ev *ledgerv1.UsageEvent) { ev.PriceMultiplierNum = 1 }, money.ErrInvalid},
		"time out of band": {func(ev *ledgerv1.UsageEvent) { ev.AcceptedAt = &timestamppb.Timestamp{Seconds: math.MaxInt64} }, money.ErrInvalid},
		"no time at all":   {func(ev *ledgerv1.UsageEvent) { ev.AcceptedAt, ev.RequestId = nil, "req_x" }, money.ErrInvalid},
	} {
		if _, err := r.Rate(t.Context(), event(day(1), tc.change)); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

// Check 9 of the design: edges of tiers, cache writes, batch tier, one token.
func TestPriceVectors(t *testing.T) {
	t.Parallel()
	const n = 200_000
	tiered := func(mode configv1.TierMode) []*configv1.PriceItem {
		return []*configv1.PriceItem{
			{Component: input, ContextMaxTokens: n + 1, PerMtokNanos: 3_000_000_000, TierMode: mode},
			{Component: input, ContextMinTokens: n + 1, PerMtokNanos: 6_000_000_000, TierMode: mode},
			{Component: cached, PerMtokNanos: 300_000_000},
			{Component: write5m, PerMtokNanos: 3_000_000_000, MultNum: 5, MultDen: 4},
			{Component: write1h, PerMtokNanos: 3_000_000_000, MultNum: 2},
			{Component: output, ContextMaxTokens: n + 1, PerMtokNanos: 15_000_000_000},
			{Component: output, ContextMinTokens: n + 1, PerMtokNanos: 22_500_000_000},
			{Component: searches, PerMtokNanos: 10_000_000_000_000},
		}
	}
	halved := tiered(configv1.TierMode_TIER_MODE_WHOLE)
	for _, it := range halved {
		it.MultNum, it.MultDen = max(it.GetMultNum(), 1), 2*max(it.GetMultDen(), 1)
	}
	with := func(tier string, items []*configv1.PriceItem) func(*configv1.ProviderPricing) {
		return func(p *configv1.ProviderPricing) { p.ServiceTier, p.Items = tier, items }
	}
	r := raterOf(t, &PriceSet{Costs: []*configv1.ProviderPricing{
		cost("whole", "m", with("", tiered(configv1.TierMode_TIER_MODE_WHOLE))),
		cost("marginal", "m", with("marginal", tiered(configv1.TierMode_TIER_MODE_MARGINAL))),
		cost("batch", "m", with("batch", halved)),
	}})
	for _, tc := range []struct {
		name  string
		tier  string
		units *ledgerv1.Units
		want  money.Amount
	}{
		{"one token", "", &ledgerv1.Units{Input: 1}, 3_000},
		{"edge n-1", "", &ledgerv1.Units{Input: n - 1, Output: 1}, (n-1)*3_000 + 15_000},
		{"edge n", "", &ledgerv1.Units{Input: n, Output: 1}, n*3_000 + 15_000},
		{"edge n+1", "", &ledgerv1.Units{Input: n + 1, Output: 1}, (n+1)*6_000 + 22_500},
		{"cached tokens count for the edge", "", &ledgerv1.Units{Input: 1, CacheRead: n, Output: 1}, 6_000 + n*300 + 22_500},
		{"marginal n", "marginal", &ledgerv1.Units{Input: n, Output: 1}, n*3_000 + 15_000},
		{"marginal n+1", "marginal", &ledgerv1.Units{Input: n + 1, Output: 1}, n*3_000 + 6_000 + 22_500},
		{"5m cache write", "", &ledgerv1.Units{CacheWrite_5M: 1000}, 1000 * 3_750},
		{"1h cache write", "", &ledgerv1.Units{CacheWrite_1H: 1000}, 1000 * 6_000},
		{"web search", "", &ledgerv1.Units{WebSearch: 1}, 10_000_000},
		{"batch halves", "batch", &ledgerv1.Units{Input: n, Output: 1}, (n*3_000 + 15_000) / 2},
		{"batch and 5m cache write", "batch", &ledgerv1.Units{CacheWrite_5M: 1000}, 1000 * 1_875},
		{"batch of 1h cache write", "batch", &ledgerv1.Units{CacheWrite_1H: 1}, 3_000},
	} {
		got, err := r.Rate(t.Context(), event(day(1), func(ev *ledgerv1.UsageEvent) { ev.ServiceTier, ev.Units = tc.tier, tc.units }))
		if err != nil || got.Cost.Nano != tc.want || got.Cost.Unpriced != Priced {
			t.Errorf("%s: %+v, %v; want %d", tc.name, got.Cost, err, tc.want)
		}
	}
}

// The customer pays round_half_even(factor * sum / 1e6), with one rounding.
func TestPriceIsRoundedOnceWithTheGroupsFactor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in, out := rapid.Int64Range(0, 1<<40).Draw(t, "input price"), rapid.Int64Range(0, 1<<40).Draw(t, "output price")
		units := &ledgerv1.Units{Input: rapid.Int64Range(0, 1<<20).Draw(t, "input"), Output: rapid.Int64Range(0, 1<<20).Draw(t, "output")}
		num, den := rapid.Int64Range(0, 100).Draw(t, "num"), rapid.Int64Range(1, 100).Draw(t, "den")
		c, err := NewCatalog(&fixedPrices{set: &PriceSet{Prices: []*configv1.PriceBookEntry{price("p", "public", func(p *configv1.PriceBookEntry) {
			p.Items = []*configv1.PriceItem{flat(input, in), flat(output, out)}
		})}}}, CatalogConfig{}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		got, err := NewRater(c).Rate(context.Background(), event(day(1), func(ev *ledgerv1.UsageEvent) {
			ev.Units, ev.PriceMultiplierNum, ev.PriceMultiplierDen = units, num, den
		}))
		if err != nil {
			t.Fatal(err)
		}
		sum := new(big.Int).Add(new(big.Int).Mul(big.NewInt(units.GetInput()), big.NewInt(in)), new(big.Int).Mul(big.NewInt(units.GetOutput()), big.NewInt(out)))
		exact := new(big.Rat).SetFrac(sum.Mul(sum, big.NewInt(num)), new(big.Int).Mul(big.NewInt(den), big.NewInt(1_000_000)))
		off := new(big.Rat).Sub(exact, new(big.Rat).SetInt64(int64(got.Price.Nano)))
		switch half := off.Abs(off).Cmp(big.NewRat(1, 2)); {
		case half > 0:
			t.Fatalf("charged %d for %s", got.Price.Nano, exact.FloatString(3))
		case half == 0 && got.Price.Nano%2 != 0:
			t.Fatalf("a tie at %s went to the odd %d", exact.FloatString(3), got.Price.Nano)
		}
	})
}

func TestCatalogReadsAgainWhenToldAndKeepsOldPricesWhenItCannot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &fixedPrices{set: &PriceSet{Generation: 1}}
		c, err := NewCatalog(source, CatalogConfig{}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		if c.Generation() != 1 {
			t.Errorf("generation %d after the start, want 1", c.Generation())
		}

		source.put(&PriceSet{Generation: 2})
		c.Notify(2)
		synctest.Wait()
		if c.Generation() != 2 {
			t.Errorf("generation %d after the notice, want 2", c.Generation())
		}
		reads := source.count()
		c.Notify(2) // told twice
		synctest.Wait()
		if source.count() != reads {
			t.Error("a notice of a known generation made a read")
		}

		source.put(&PriceSet{Generation: 3}) // the notice is lost
		time.Sleep(time.Minute)
		synctest.Wait()
		if c.Generation() != 3 {
			t.Errorf("generation %d a minute later, want 3", c.Generation())
		}

		source.mu.Lock()
		source.err = errors.New("gone")
		source.mu.Unlock()
		c.Notify(4)
		synctest.Wait()
		if c.Generation() != 3 {
			t.Errorf("generation %d while the source is gone, want 3", c.Generation())
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
	})
}

func TestPricePublishedBeforeTheRequestPricesItWhoeverPublishedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &fixedPrices{set: &PriceSet{Generation: 1}}
		c, err := NewCatalog(source, CatalogConfig{}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		set := everydaySet() // published at another replica, and no notice came
		set.Generation = 2
		source.put(set)
		under := func(generation uint64) *ledgerv1.UsageEvent {
			return event(day(1), func(ev *ledgerv1.UsageEvent) { ev.PolicyGeneration = generation })
		}
		if got, err := NewRater(c).Rate(t.Context(), under(1)); err != nil || got.Cost.Unpriced != NoVersion {
			t.Errorf("under generation 1 rated as %+v, %v; want no version", got.Cost, err)
		}
		if got, err := NewRater(c).Rate(t.Context(), under(2)); err != nil || got.Cost.Unpriced != Priced || got.Price.Unpriced != Priced {
			t.Errorf("under generation 2 rated as %+v, %v; want priced", got, err)
		}
		// Generations that are nowhere do not become a flood of reads.
		reads := source.count()
		for i := range uint64(100) {
			if _, err := NewRater(c).Rate(t.Context(), under(1000+i)); err != nil {
				t.Fatal(err)
			}
		}
		if n := source.count() - reads; n != 1 {
			t.Errorf("%d reads for 100 events of a generation that is nowhere, want 1", n)
		}
	})
}

func TestPinnedVersionThatIsNewIsReadAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := everydaySet()
		set.Generation = 1
		source := &fixedPrices{set: set}
		c, err := NewCatalog(source, CatalogConfig{}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		pin := event(day(1), func(ev *ledgerv1.UsageEvent) { ev.CostVersion = "prc_new" })
		newer := everydaySet()
		newer.Generation = 2
		newer.Costs = append(newer.Costs, cost("prc_new", "m"))
		source.put(newer)

		// The last read was just now: a flood of unknown pins must not become one of reads.
		if got, err := NewRater(c).Rate(t.Context(), pin); err != nil || got.Cost.Unpriced != PinnedUnknown {
			t.Errorf("rated as %+v, %v; want pinned_unknown", got.Cost, err)
		}
		time.Sleep(time.Second)
		got, err := NewRater(c).Rate(t.Context(), pin)
		if err != nil || got.Cost.Version != "prc_new" || source.count() != 2 {
			t.Errorf("rated as %+v, %v after %d reads; want prc_new after 2", got.Cost, err, source.count())
		}
	})
}

// L4: no float touches an amount. The package has none at all.
func TestL4NoFloatInThePackage(t *testing.T) {
	t.Parallel()
	set := token.NewFileSet()
	packages, err := parser.ParseDir(set, ".", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, pkg := range packages {
		for name, file := range pkg.Files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			files++
			ast.Inspect(file, func(n ast.Node) bool {
				bad := ""
				switch n := n.(type) {
				case *ast.Ident:
					if strings.HasPrefix(strings.ToLower(n.Name), "float") {
						bad = n.Name
					}
				case *ast.SelectorExpr:
					// A histogram of seconds is a measure of time, not of money.
					if strings.HasPrefix(n.Sel.Name, "Float64Histogram") {
						return false
					}
				case *ast.BasicLit:
					if n.Kind == token.FLOAT {
						bad = n.Value
					}
				}
				if bad != "" {
					t.Errorf("%s: %s", set.Position(n.Pos()), bad)
				}
				return true
			})
		}
	}
	if files == 0 {
		t.Error(fmt.Errorf("no files were read"))
	}
}
