package ledger

import (
	"context"
	"sync"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg/pgtest"
	"github.com/aidy-gateway/aidy-gateway/migrations"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"
)

var pg = pgtest.New(func(ctx context.Context, databaseURL string) error { return migrations.Up(ctx, databaseURL, nil) })

func TestMain(m *testing.M) { goleak.VerifyTestMain(pg.Around(m)) }

// fixedPrices is a source of prices that tests set.
type fixedPrices struct {
	mu    sync.Mutex
	set   *PriceSet
	err   error
	reads int
}

func (f *fixedPrices) LoadPrices(context.Context) (*PriceSet, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	return f.set, f.err
}

func (f *fixedPrices) put(set *PriceSet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set = set
}

func (f *fixedPrices) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

// ledgerOn returns a ledger with everyday prices on a fresh database.
func ledgerOn(t testing.TB, pool *pgxpool.Pool, cfg Config) *Ledger {
	t.Helper()
	l, err := New(pool, raterOf(t, everydaySet()), cfg, zerolog.Nop(), noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func count(t testing.TB, pool *pgxpool.Pool, query string, args ...any) int64 {
	t.Helper()
	var n int64
	if err := pool.QueryRow(context.Background(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// imbalance is what the journal's groups are off by, added up without signs,
// plus what they differ from the rows they stand for.
func imbalance(t testing.TB, pool *pgxpool.Pool) int64 {
	t.Helper()
	return count(t, pool, `SELECT
		(SELECT coalesce(sum(abs(s)), 0) FROM (SELECT sum(amount_nano) s FROM journal GROUP BY batch_id, currency) g) +
		(SELECT coalesce(sum(abs(coalesce(r.cost, 0) - coalesce(j.cost, 0)) + abs(coalesce(r.price, 0) - coalesce(j.price, 0))), 0) FROM
			(SELECT batch_id, sum(cost_nano) cost, sum(price_nano) price FROM usage_ledger GROUP BY 1) r FULL JOIN
			(SELECT batch_id, sum(amount_nano) FILTER (WHERE account = 'upstream_cost') cost,
				sum(amount_nano) FILTER (WHERE account = 'receivable') price FROM journal GROUP BY 1) j USING (batch_id)) +
		(SELECT count(*) FROM ingest_batch b LEFT JOIN (SELECT batch_id, count(*) n, sum(cost_nano) cost, sum(price_nano) price FROM usage_ledger GROUP BY 1) r
			ON r.batch_id = b.id WHERE b.rows <> coalesce(r.n, 0) OR b.sum_cost <> coalesce(r.cost, 0) OR b.sum_price <> coalesce(r.price, 0))`)
}
