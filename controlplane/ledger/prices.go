package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/money"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Prices reads the price versions of the configuration.
type Prices interface {
	// LoadPrices returns every published version of both sides, disabled ones
	// included (attempts that pinned one before it was switched off are still
	// rated by it), as of one generation.
	LoadPrices(ctx context.Context) (*PriceSet, error)
}

// PriceSet is the published prices of one generation. It is not changed once it
// has been handed over.
type PriceSet struct {
	Generation uint64
	// Costs is what providers charge.
	Costs []*configv1.ProviderPricing
	// Prices is what customers pay.
	Prices []*configv1.PriceBookEntry
	// Aliases are other names of models, tried after the exact name.
	Aliases []ModelAlias
}

// ModelAlias says that one model name is priced as another.
type ModelAlias struct {
	Side Side
	// TenantID of the tenant it is configured for; empty for all.
	TenantID string
	// Alias is the name that is asked for, Model the one that has the price.
	Alias, Model string
}

// Side is the side of a row: what the provider is owed, or what the customer
// pays.
type Side uint8

// The sides of a row.
const (
	CostSide Side = iota
	PriceSide
)

// String returns "cost" or "price".
func (s Side) String() string {
	if s == PriceSide {
		return "price"
	}
	return "cost"
}

// version is a price version, ready to rate with.
type version struct {
	id, model, currency string
	from, until         time.Time // zero: no bound
	items               []money.Item
	scope               scope
	// problem says why the version cannot be rated with. It stays in the index:
	// left out, a wider version would be found and its price be taken for this one.
	problem error
}

// scope narrows a version; an empty field is every value.
type scope struct{ provider, region, tier string }

// weight orders scopes: the provider narrows most, then the region, then the
// service tier.
func (s scope) weight() int {
	w := 0
	if s.provider != "" {
		w += 4
	}
	if s.region != "" {
		w += 2
	}
	if s.tier != "" {
		w++
	}
	return w
}

func (s scope) holds(asked scope) bool {
	return (s.provider == "" || s.provider == asked.provider) &&
		(s.region == "" || s.region == asked.region) &&
		(s.tier == "" || s.tier == asked.tier)
}

// list names one price list: of a tenant or of all (empty tenant), of a side.
type list struct {
	side   Side
	tenant string
	book   string // of the price side; empty is the default book
}

// priceIndex answers look-ups in one PriceSet. It is immutable.
type priceIndex struct {
	generation uint64
	byID       map[Side]map[string]*version
	lists      map[list]*nameIndex
	aliases    map[aliasKey]string
}

type aliasKey struct {
	side          Side
	tenant, alias string
}

// nameIndex holds the versions of one list by name.
type nameIndex struct {
	exact    map[string][]*version
	families []family // longest prefix first
}

type family struct {
	prefix   string
	versions []*version
}

// newPriceIndex compiles a set. Versions that cannot be rated with are named in
// the error; the index is valid all the same, because one bad version must not
// leave every other model without a price.
func newPriceIndex(set *PriceSet) (*priceIndex, error) {
	x := &priceIndex{
		generation: set.Generation,
		byID:       map[Side]map[string]*version{CostSide: {}, PriceSide: {}},
		lists:      map[list]*nameIndex{},
		aliases:    map[aliasKey]string{},
	}
	var problems []error
	for _, p := range set.Costs {
		if !p.GetPublished() {
			continue
		}
		v := newVersion(p.GetId(), p.GetModel(), p.GetCurrency(), p.GetEffectiveFrom(), p.GetEffectiveUntil(), p.GetItems())
		problems = append(problems, v.problem)
		v.scope = scope{p.GetProviderId(), p.GetRegion(), p.GetServiceTier()}
		x.add(v, list{side: CostSide, tenant: p.GetTenantId()}, p.GetDisabled())
	}
	for _, p := range set.Prices {
		if !p.GetPublished() {
			continue
		}
		v := newVersion(p.GetId(), p.GetModel(), p.GetCurrency(), p.GetEffectiveFrom(), p.GetEffectiveUntil(), p.GetItems())
		problems = append(problems, v.problem)
		v.scope = scope{p.GetProviderId(), p.GetRegion(), p.GetServiceTier()}
		x.add(v, list{side: PriceSide, tenant: p.GetTenantId(), book: p.GetBook()}, p.GetDisabled())
	}
	for _, a := range set.Aliases {
		x.aliases[aliasKey{a.Side, a.TenantID, a.Alias}] = a.Model
	}
	for _, names := range x.lists {
		names.sort()
	}
	return x, errors.Join(problems...)
}

func newVersion(id, model, currency string, from, until *timestamppb.Timestamp, items []*configv1.PriceItem) *version {
	v := &version{id: id, model: model, currency: currency}
	if from != nil {
		v.from = from.AsTime()
	}
	if until != nil {
		v.until = until.AsTime()
	}
	var err error
	if len(currency) != 3 {
		err = fmt.Errorf("currency %q: %w: want three letters of ISO 4217", currency, money.ErrInvalid)
	}
	for i, it := range items {
		item, itemErr := priceItem(it)
		if itemErr != nil {
			err = errors.Join(err, fmt.Errorf("item %d: %w", i, itemErr))
			continue
		}
		v.items = append(v.items, item)
	}
	if err = errors.Join(err, money.CheckVersion(v.items)); err != nil {
		v.problem = fmt.Errorf("price version %s of %s: %w", id, model, err)
	}
	return v
}

// priceItem translates one item of the configuration. There a tier begins at
// context_min_tokens and ends below context_max_tokens; in money a tier is
// above its lower and up to its upper edge, so each edge moves by one.
func priceItem(it *configv1.PriceItem) (money.Item, error) {
	c := it.GetComponent()
	if c <= configv1.PriceComponent_PRICE_COMPONENT_UNSPECIFIED || int(c) > money.NumComponents {
		return money.Item{}, fmt.Errorf("%w: component %d is not known to this release", money.ErrInvalid, c)
	}
	out := money.Item{
		// The enum counts the ledger's columns from 1, money from 0.
		Component:      money.Component(c - 1),
		ContextMin:     max(0, it.GetContextMinTokens()-1),
		NanoPerMillion: money.Rate(it.GetPerMtokNanos()),
		Mult:           money.Rational{Num: it.GetMultNum(), Den: it.GetMultDen()},
	}
	switch below := it.GetContextMaxTokens(); {
	case below == 1:
		return money.Item{}, fmt.Errorf("%w: a tier that ends below 1 token holds no prompt", money.ErrInvalid)
	case below > 1:
		out.ContextMax = below - 1
	}
	// Unset halves of the factor are 1 each.
	if out.Mult.Num == 0 {
		out.Mult.Num = 1
	}
	if out.Mult.Den == 0 {
		out.Mult.Den = 1
	}
	if it.GetTierMode() == configv1.TierMode_TIER_MODE_MARGINAL {
		out.TierMode = money.Marginal
	}
	return out, nil
}

func (x *priceIndex) add(v *version, l list, disabled bool) {
	x.byID[l.side][v.id] = v
	if disabled {
		return
	}
	names := x.lists[l]
	if names == nil {
		names = &nameIndex{exact: map[string][]*version{}}
		x.lists[l] = names
	}
	prefix, pattern := strings.CutSuffix(v.model, "*")
	if !pattern {
		names.exact[v.model] = append(names.exact[v.model], v)
		return
	}
	for i := range names.families {
		if names.families[i].prefix == prefix {
			names.families[i].versions = append(names.families[i].versions, v)
			return
		}
	}
	names.families = append(names.families, family{prefix, []*version{v}})
}

func (n *nameIndex) sort() {
	for _, versions := range n.exact {
		sortVersions(versions)
	}
	for _, f := range n.families {
		sortVersions(f.versions)
	}
	slices.SortFunc(n.families, func(a, b family) int {
		return cmp.Or(cmp.Compare(len(b.prefix), len(a.prefix)), cmp.Compare(a.prefix, b.prefix))
	})
}

// sortVersions puts the narrowest scope first, and in a scope the newest.
func sortVersions(versions []*version) {
	slices.SortFunc(versions, func(a, b *version) int {
		return cmp.Or(
			cmp.Compare(b.scope.weight(), a.scope.weight()),
			cmp.Compare(a.scope.provider, b.scope.provider), cmp.Compare(a.scope.region, b.scope.region), cmp.Compare(a.scope.tier, b.scope.tier),
			b.from.Compare(a.from), cmp.Compare(b.id, a.id))
	})
}

// pick returns the version of the narrowest scope that holds at the time. A
// version ends where the next of its scope begins, or earlier if it says so.
func pick(versions []*version, asked scope, at time.Time) *version {
	for i := 0; i < len(versions); i++ {
		v := versions[i]
		if !v.scope.holds(asked) || at.Before(v.from) {
			continue
		}
		if v.until.IsZero() || at.Before(v.until) {
			return v
		}
		for i+1 < len(versions) && versions[i+1].scope == v.scope { // older ones ended where v began
			i++
		}
	}
	return nil
}

// query asks for the price of one of several names of a model, best first.
type query struct {
	side   Side
	tenant string
	book   string
	names  []string
	scope  scope
	at     time.Time

	generation uint64 // of the configuration that the request ran under
}

// find returns the version that prices q, or nil. The tenant's own list goes
// before the one for all; in a list, exact names go before aliases and aliases
// before families, of which the longest wins.
func (x *priceIndex) find(q query) *version {
	tenants := []string{q.tenant, ""}
	if q.tenant == "" {
		tenants = tenants[1:]
	}
	for _, tenant := range tenants {
		names := x.lists[list{q.side, tenant, q.book}]
		if names == nil {
			continue
		}
		for _, name := range q.names {
			if v := pick(names.exact[name], q.scope, q.at); v != nil {
				return v
			}
		}
		for _, name := range q.names {
			model, ok := x.alias(q.side, q.tenant, name)
			if !ok {
				continue
			}
			if v := pick(names.exact[model], q.scope, q.at); v != nil {
				return v
			}
		}
		for _, f := range names.families {
			for _, name := range q.names {
				if !strings.HasPrefix(name, f.prefix) {
					continue
				}
				if v := pick(f.versions, q.scope, q.at); v != nil {
					return v
				}
			}
		}
	}
	return nil
}

func (x *priceIndex) alias(side Side, tenant, name string) (string, bool) {
	model, ok := x.aliases[aliasKey{side, tenant, name}]
	if !ok {
		model, ok = x.aliases[aliasKey{side, "", name}]
	}
	return model, ok
}
