package migrations_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg/pgtest"
	"github.com/aidy-gateway/aidy-gateway/migrations"
)

// The tests here must not import anything below controlplane/localpg: other
// packages' tests migrate with this one.

var (
	empty    = pgtest.New(nil)
	migrated = pgtest.New(func(ctx context.Context, url string) error { return migrations.Up(ctx, url, nil) })
)

func TestMain(m *testing.M) { os.Exit(empty.Around(migrated.Around(m)).Run()) }

func TestUpIsCompleteAndRepeatable(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := empty.URL(t)

	var steps []migrations.Step
	if err := migrations.Up(ctx, url, func(s migrations.Step) { steps = append(steps, s) }); err != nil {
		t.Fatal(err)
	}
	status, err := migrations.Status(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) == 0 || len(steps) != len(status) {
		t.Errorf("%d steps reported, %d known", len(steps), len(status))
	}
	for _, s := range status {
		if s.Applied.IsZero() {
			t.Errorf("migration %d %s is not applied", s.Version, s.Name)
		}
	}
	again := 0
	if err := migrations.Up(ctx, url, func(migrations.Step) { again++ }); err != nil || again != 0 {
		t.Errorf("second Up applied %d steps, err %v; want none", again, err)
	}
}

func TestManyProcessesMayMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := empty.URL(t)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { errs[i] = migrations.Up(context.Background(), url, nil) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestCheckRefusesBothDirectionsAndSaysHowToMend(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := migrated.Pool(t)
	if err := migrations.Check(ctx, pool); err != nil {
		t.Fatalf("a migrated database is refused: %v", err)
	}

	if _, err := pool.Exec(ctx, "DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)"); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Check(ctx, pool); !errors.Is(err, migrations.ErrMismatch) || !strings.Contains(err.Error(), "run `aidy migrate up`") {
		t.Errorf("older database: %v", err)
	}

	if _, err := pool.Exec(ctx, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)"); err != nil {
		t.Fatal(err)
	}
	err := migrations.Check(ctx, pool)
	if !errors.Is(err, migrations.ErrMismatch) || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("newer database: %v", err)
	}
	if err := migrations.Up(ctx, pool.Config().ConnString(), nil); !errors.Is(err, migrations.ErrMismatch) {
		t.Errorf("Up on a newer database: %v, want a refusal", err)
	}
	if err := migrations.Check(ctx, empty.Pool(t)); !errors.Is(err, migrations.ErrMismatch) {
		t.Errorf("empty database: %v, want a mismatch", err)
	}
}

func TestAMalformedURLIsNotRepeated(t *testing.T) {
	t.Parallel()
	err := migrations.Up(context.Background(), "postgres://user:hunter2@[::1/db", nil)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v, want one without the password", err)
	}
}

const ledgerRow = `INSERT INTO usage_ledger (ledger_day, request_id, attempt, kind, seq, entry_id, occurred_at)
	VALUES (current_date, 'req_1', 1, 1, 0, 'ent_1', now())`

// L2: evidence is never changed, not by the owner of the tables either.
func TestL2EvidenceIsNeverChanged(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := migrated.Pool(t)
	for _, sql := range []string{
		ledgerRow,
		`INSERT INTO journal (batch_id, account, currency, amount_nano) VALUES ('b', 'revenue', 'USD', 5), ('b', 'receivable', 'USD', -5)`,
		`INSERT INTO audit_event (id, occurred_at, actor, action) VALUES ('aud_1', now(), 'me', 'test')`,
	} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	month := time.Now().UTC().Format("200601")
	for _, sql := range []string{
		"UPDATE usage_ledger SET price_nano = 0", "DELETE FROM usage_ledger", "TRUNCATE usage_ledger",
		"UPDATE journal SET memo = 'x'", "DELETE FROM journal", "TRUNCATE journal",
		"UPDATE audit_event SET actor = 'nobody'", "DELETE FROM audit_event", "TRUNCATE audit_event",
		"UPDATE usage_ledger_m" + month + " SET price_nano = 0", "DELETE FROM audit_event_m" + month, "TRUNCATE usage_ledger_m" + month,
	} {
		_, err := pool.Exec(ctx, sql)
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "23001" {
			t.Errorf("%s: %v, want a refusal", sql, err)
		}
	}
}

// L1: one row per (request, attempt, kind, seq), whatever is sent twice.
func TestL1OneLedgerRowPerAttemptKindAndSeq(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := migrated.Pool(t)
	for range 2 {
		if _, err := pool.Exec(ctx, ledgerRow+" ON CONFLICT DO NOTHING"); err != nil {
			t.Fatal(err)
		}
	}
	var rows int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM usage_ledger").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if rows != 1 {
		t.Errorf("%d rows, want 1", rows)
	}
}

// C1: posted - held >= floor, whoever writes.
func TestCredit1TheFloorHoldsInTheDatabase(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := migrated.Pool(t)
	if _, err := pool.Exec(ctx, `INSERT INTO credit_account (account_id, tenant_id, consumer_id, currency, posted_nano, floor_nano)
		VALUES ('a', 't', 'c', 'USD', 100, -10)`); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, "UPDATE credit_account SET held_nano = 110"); err != nil {
		t.Errorf("holding everything above the floor: %v", err)
	}
	for _, sql := range []string{
		"UPDATE credit_account SET held_nano = held_nano + 1",
		"UPDATE credit_account SET posted_nano = posted_nano - 1",
		"UPDATE credit_account SET floor_nano = floor_nano + 1",
	} {
		if _, err := pool.Exec(ctx, sql); err == nil || !strings.Contains(err.Error(), "credit_account_floor") {
			t.Errorf("%s: %v, want the floor to refuse", sql, err)
		}
	}
}

func TestJournalGroupsMustBalanceInEachCurrency(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := migrated.Pool(t)
	insert := "INSERT INTO journal (batch_id, account, currency, amount_nano) VALUES "
	if _, err := pool.Exec(ctx, insert+"('b1', 'revenue', 'USD', -7), ('b1', 'customer_credit', 'USD', 7)"); err != nil {
		t.Errorf("a balanced group is refused: %v", err)
	}
	for _, values := range []string{
		"('b2', 'revenue', 'USD', -7), ('b2', 'customer_credit', 'USD', 6)",
		"('b3', 'revenue', 'USD', -7), ('b3', 'customer_credit', 'EUR', 7)",
		"('b1', 'revenue', 'USD', 1)", // unbalances a group that was balanced
	} {
		if _, err := pool.Exec(ctx, insert+values); err == nil || !strings.Contains(err.Error(), "does not balance") {
			t.Errorf("%s: %v, want a refusal", values, err)
		}
	}
}

func TestPartitionsAreMadeAheadAndDroppedAfterTheirTime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := migrated.Pool(t)
	count := func(pattern string) int {
		var n int
		if err := pool.QueryRow(ctx, "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE $1", pattern).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for pattern, want := range map[string]int{
		"usage\\_ledger\\_m%": 4, "audit\\_event\\_m%": 3, "idempotency\\_d%": 3, "config\\_change\\_g%": 2,
	} {
		if got := count(pattern); got != want {
			t.Errorf("%s: %d partitions, want %d", pattern, got, want)
		}
	}
	if _, err := pool.Exec(ctx, `SELECT aidy_ensure_month(t, d) FROM unnest(ARRAY['audit_event', 'generation_log', 'usage_ledger']) t,
		unnest(ARRAY['2020-02-15'::date, '2020-02-29', '2020-03-01']) d`); err != nil {
		t.Fatal(err)
	}
	rows, err := pool.Query(ctx, "SELECT aidy_drop_expired(now())")
	if err != nil {
		t.Fatal(err)
	}
	var dropped []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		dropped = append(dropped, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(dropped, " ")
	if want := "audit_event_m202002 audit_event_m202003 generation_log_m202002 generation_log_m202003"; got != want {
		t.Errorf("dropped %q, want %q: expired ones, and never the ledger", got, want)
	}
	// The change log keeps 100,000 generations, and 7 days.
	if _, err := pool.Exec(ctx, "UPDATE config_head SET generation = 350000; SELECT aidy_ensure_partitions(now())"); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, `INSERT INTO generation_log (generation, created_at, change_id, actor, touched_identity, touched_policy, resources, shards)
		VALUES (199999, now() - interval '1 hour', 'c', 'a', true, true, 0, 0)`); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, "SELECT aidy_drop_expired(now())"); err != nil {
		t.Fatal(err)
	}
	if g0, g1 := count("config\\_change\\_g0"), count("config\\_change\\_g1"); g0 != 0 || g1 != 1 {
		t.Errorf("partitions g0 %d, g1 %d: want g0 dropped and g1, an hour old, kept", g0, g1)
	}
}
