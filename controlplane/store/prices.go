package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// projection keeps tables that are derived from a resource, in its transaction.
type projection func(ctx context.Context, tx *Tx, c *RowChange) error

// priceSide tells what is owed from what is charged.
type priceSide string

const (
	sideCost  priceSide = "cost"
	sidePrice priceSide = "price"
)

// priced is what both kinds of price version have in common.
type priced struct {
	side                                                 priceSide
	id, tenant, book, provider, model, region, tier, cur string
	from, until                                          *timestamppb.Timestamp
	items                                                []*configv1.PriceItem
	published                                            bool
}

func pricedOf(m proto.Message) *priced {
	switch m := m.(type) {
	case *configv1.ProviderPricing:
		return &priced{
			sideCost, m.Id, m.TenantId, m.ProviderId, m.ProviderId, m.Model, m.Region, m.ServiceTier, m.Currency,
			m.EffectiveFrom, m.EffectiveUntil, m.Items, m.Published,
		}
	case *configv1.PriceBookEntry:
		return &priced{
			sidePrice, m.Id, m.TenantId, m.Book, m.ProviderId, m.Model, m.Region, m.ServiceTier, m.Currency,
			m.EffectiveFrom, m.EffectiveUntil, m.Items, m.Published,
		}
	}
	return nil
}

// projectPrices keeps price_book, price_version and price_item: the prices as
// rows, for SQL that rates and checks. A version holds from effective_from until
// effective_until, or until the next published version of the same chain begins;
// that two published versions of a chain never overlap is a constraint of
// price_version. A book of the cost side is a provider.
func projectPrices(ctx context.Context, tx *Tx, c *RowChange) error {
	if err := keepPublished(c); err != nil {
		return err
	}
	if before := pricedOf(c.Before); before != nil {
		if _, err := tx.pg.Exec(ctx, "DELETE FROM price_version WHERE id = $1", before.id); err != nil {
			return fmt.Errorf("remove price version: %w", tx.cat.classify(err, tx.cat.byName[c.Kind]))
		}
		if err := tx.closePrices(ctx, before); err != nil {
			return err
		}
	}
	p := pricedOf(c.After)
	if p == nil {
		return nil
	}
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO price_book (tenant_id, side, name, currency) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		p.tenant, string(p.side), p.book, p.cur)
	batch.Queue(`INSERT INTO price_version (id, book_id, side, tenant_id, book, provider_id, model, region, service_tier, currency,
			effective_from, effective_until, valid, published, approved_at)
		SELECT $1, b.id, b.side, b.tenant_id, b.name, $4, $5, $6, $7, $8, $9, $10, tstzrange($9, $10), $11, CASE WHEN $11 THEN $12::timestamptz END
		FROM price_book b WHERE b.tenant_id = $2 AND b.side = $3 AND b.name = $13 AND b.currency = $8`,
		p.id, p.tenant, string(p.side), p.provider, p.model, p.region, p.tier, p.cur, from(p.from), until(p.until), p.published, tx.Now(), p.book)
	for i, item := range p.items {
		batch.Queue(`INSERT INTO price_item (version_id, ordinal, component, context_min, context_max, tier_mode, nano_per_million, mult_num, mult_den)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, p.id, i, int16(item.Component), item.ContextMinTokens, item.ContextMaxTokens,
			int16(item.TierMode), item.PerMtokNanos, max(item.MultNum, 1), max(item.MultDen, 1))
	}
	if err := tx.pg.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("write price version: %w", tx.cat.classify(err, tx.cat.byName[c.Kind]))
	}
	return tx.closePrices(ctx, p)
}

// keepPublished refuses to rewrite a price that requests were rated with. A
// published version may be given an end, and may be deleted.
func keepPublished(c *RowChange) error {
	before, after := pricedOf(c.Before), pricedOf(c.After)
	if before == nil || after == nil || !before.published {
		return nil
	}
	same := after.published && before.tenant == after.tenant && before.book == after.book && before.provider == after.provider &&
		before.model == after.model && before.region == after.region && before.tier == after.tier && before.cur == after.cur &&
		proto.Equal(before.from, after.from) &&
		slices.EqualFunc(before.items, after.items, func(a, b *configv1.PriceItem) bool { return proto.Equal(a, b) })
	if !same {
		return &InvalidError{Kind: c.Kind, ID: c.ID, Field: "published", Reason: "a published version does not change; publish a new version"}
	}
	return nil
}

// closePrices ends every published version without an end of its own where the
// next one of its chain begins.
func (tx *Tx) closePrices(ctx context.Context, p *priced) error {
	_, err := tx.pg.Exec(ctx, `UPDATE price_version v SET valid = tstzrange(v.effective_from, n.next)
		FROM (SELECT id, lead(effective_from) OVER (ORDER BY effective_from) AS next FROM price_version
			WHERE published AND side = $1 AND tenant_id = $2 AND book = $3 AND provider_id = $4 AND model = $5 AND region = $6 AND service_tier = $7) n
		WHERE n.id = v.id AND v.effective_until IS NULL AND v.valid IS DISTINCT FROM tstzrange(v.effective_from, n.next)`,
		string(p.side), p.tenant, p.book, p.provider, p.model, p.region, p.tier)
	if err != nil {
		return fmt.Errorf("close price versions: %w", tx.cat.classify(err, nil))
	}
	return nil
}

// from is the beginning of a version; one without a date has always held.
func from(ts *timestamppb.Timestamp) time.Time {
	if ts == nil {
		return time.Unix(0, 0).UTC()
	}
	return ts.AsTime()
}

func until(ts *timestamppb.Timestamp) any {
	if ts == nil {
		return nil
	}
	return ts.AsTime()
}
