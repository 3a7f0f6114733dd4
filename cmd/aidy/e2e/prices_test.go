package e2e

import (
	"math/big"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

// tariff is what a million units cost, in nano units: base for input, and a different
// number for every other component, so that no two can be mistaken for each other.
type tariff int64

func (p tariff) of(c configv1.PriceComponent) int64 { return int64(p) + 1_000_003*int64(c) }

// components are those that text uses.
func components(u *ledgerv1.Units) map[configv1.PriceComponent]int64 {
	return map[configv1.PriceComponent]int64{
		configv1.PriceComponent_PRICE_COMPONENT_INPUT:          u.GetInput(),
		configv1.PriceComponent_PRICE_COMPONENT_CACHE_READ:     u.GetCacheRead(),
		configv1.PriceComponent_PRICE_COMPONENT_CACHE_WRITE_5M: u.GetCacheWrite_5M(),
		configv1.PriceComponent_PRICE_COMPONENT_CACHE_WRITE_1H: u.GetCacheWrite_1H(),
		configv1.PriceComponent_PRICE_COMPONENT_OUTPUT:         u.GetOutput(),
		configv1.PriceComponent_PRICE_COMPONENT_REASONING:      u.GetReasoning(),
		configv1.PriceComponent_PRICE_COMPONENT_REQUEST:        u.GetRequest(),
	}
}

// amount is what units come to, times num/den: one rounding, half to even.
func (p tariff) amount(u *ledgerv1.Units, num, den int64) int64 {
	sum := new(big.Int)
	for c, n := range components(u) {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(n), big.NewInt(p.of(c))))
	}
	sum.Mul(sum, big.NewInt(num))
	by := new(big.Int).Mul(big.NewInt(1_000_000), big.NewInt(den))
	q, r := new(big.Int).QuoRem(sum, by, new(big.Int))
	switch r.Lsh(r, 1).Cmp(by) {
	case 1:
		q.Add(q, big.NewInt(1))
	case 0:
		q.Add(q, new(big.Int).And(q, big.NewInt(1)))
	}
	return q.Int64()
}

func (p tariff) items() []*configv1.PriceItem {
	var out []*configv1.PriceItem
	for c := range components(nil) {
		out = append(out, &configv1.PriceItem{Component: c, PerMtokNanos: p.of(c)})
	}
	return out
}

// costs makes a tariff of the provider's for a model that it serves.
func costs(tenant, model string, p tariff) *adminv1.BundleResource {
	return &adminv1.BundleResource{Resource: &adminv1.BundleResource_ProviderPricing{ProviderPricing: &configv1.ProviderPricing{
		TenantId: tenant, ProviderId: "fake", Model: model, Currency: "USD", Published: true,
		EffectiveFrom: timestamppb.New(longAgo()), Items: p.items(),
	}}}
}

// sells makes a tariff of the customer's for a public model.
func sells(tenant, model string, p tariff) *adminv1.BundleResource {
	return &adminv1.BundleResource{Resource: &adminv1.BundleResource_PriceBookEntry{PriceBookEntry: &configv1.PriceBookEntry{
		TenantId: tenant, Model: model, Currency: "EUR", Published: true,
		EffectiveFrom: timestamppb.New(longAgo()), Items: p.items(),
	}}}
}

func longAgo() time.Time { return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) }

// checkMoney checks both sides of a row against the tariffs that must have priced it.
func checkMoney(t *testing.T, e *adminv1.LedgerEntry, cost, price tariff, num, den int64) {
	t.Helper()
	u := e.GetEvent().GetUnits()
	if e.GetUnpriced() {
		t.Errorf("the row has no price:\n%s", rowText([]*adminv1.LedgerEntry{e}))
	}
	if got, want := e.GetCostNanos(), cost.amount(u, 1, 1); got != want || e.GetCostCurrency() != "USD" || e.GetCostVersion() == "" {
		t.Errorf("cost %d %s of version %q, want %d USD:\n%s", got, e.GetCostCurrency(), e.GetCostVersion(), want, rowText([]*adminv1.LedgerEntry{e}))
	}
	if got, want := e.GetPriceNanos(), price.amount(u, num, den); got != want || e.GetPriceCurrency() != "EUR" || e.GetPriceVersion() == "" {
		t.Errorf("price %d %s of version %q, want %d EUR:\n%s", got, e.GetPriceCurrency(), e.GetPriceVersion(), want, rowText([]*adminv1.LedgerEntry{e}))
	}
}
