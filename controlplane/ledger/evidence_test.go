package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/protobuf/proto"
)

// L2: rows are never updated or deleted, by nobody.
func TestL2RowsAreNeverChanged(t *testing.T) {
	t.Parallel()
	pool := pg.Pool(t)
	l := ledgerOn(t, pool, Config{})
	bad := event(time.Now(), func(ev *ledgerv1.UsageEvent) { ev.Attempt = -1 })
	ingest(t, l, 1, 2, event(time.Now()), bad)
	partition := "usage_ledger_m" + time.Now().UTC().Format("200601")
	for _, role := range []string{"", "aidy_ledger", "aidy_control", "aidy_readonly"} {
		for _, table := range []string{"usage_ledger", partition, "journal", "usage_quarantine"} {
			for _, statement := range []string{"UPDATE %s SET recorded_at = now()", "DELETE FROM %s", "TRUNCATE %s"} {
				if table == "journal" {
					statement = strings.Replace(statement, "recorded_at", "created_at", 1)
				}
				tx, err := pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if role != "" {
					if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE "+role); err != nil {
						t.Fatal(err)
					}
				}
				_, err = tx.Exec(t.Context(), fmt.Sprintf(statement, table))
				_ = tx.Rollback(t.Context())
				want := "42501" // insufficient_privilege
				if role == "" {
					want = "23001" // restrict_violation: even the owner is stopped by the trigger
				}
				if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != want {
					t.Errorf("%s as %q: %v, want %s", fmt.Sprintf(statement, table), role, err, want)
				}
			}
		}
	}
}

// The role of the ledger is enough for all that the ledger does.
func TestL2RoleOfTheLedgerIsEnough(t *testing.T) {
	t.Parallel()
	owner := pg.Pool(t)
	config := owner.Config()
	config.ConnConfig.RuntimeParams["role"] = "aidy_ledger"
	pool := poolOf(t, config)
	l := ledgerOn(t, pool, Config{HoldFor: time.Nanosecond})
	ev := event(time.Now().AddDate(0, -5, 0), func(ev *ledgerv1.UsageEvent) { ev.Kind = ledgerv1.EntryKind_ENTRY_KIND_HOLD })
	ingest(t, l, 1, 2, ev, event(time.Now(), func(ev *ledgerv1.UsageEvent) { ev.Attempt = -1 }))
	if n, err := l.CloseHolds(t.Context()); err != nil || n != 1 {
		t.Errorf("closed %d holds, %v; want 1", n, err)
	}
	late := proto.CloneOf(ev)
	late.Kind = ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT
	ingest(t, l, 3, 3, late)
	if _, _, err := l.ListEntries(t.Context(), Filter{}, Page{}); err != nil {
		t.Error(err)
	}
	if n, err := l.VerifyChain(t.Context(), "nod_a", "boot_a"); err != nil || n != 2 {
		t.Errorf("%d sound batches, %v; want 2", n, err)
	}
}

func TestChainBreaksWhenARowIsChanged(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]string{
		"amount":        "UPDATE usage_ledger SET price_nano = price_nano + 1",
		"whose":         "UPDATE usage_ledger SET consumer = 'con_b' WHERE input = 1",
		"row removed":   "DELETE FROM usage_ledger WHERE input = 1",
		"batch removed": "DELETE FROM ingest_batch WHERE first_seq = 1",
		"batch changed": "UPDATE ingest_batch SET last_seq = last_seq + 1 WHERE first_seq = 2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pg.Pool(t)
			l := ledgerOn(t, pool, Config{})
			for i, ev := range usage(3) {
				ingest(t, l, uint64(i+1), uint64(i+1), ev)
			}
			if n, err := l.VerifyChain(t.Context(), "nod_a", "boot_a"); err != nil || n != 3 {
				t.Fatalf("%d sound batches, %v; want 3", n, err)
			}
			// As somebody with the rights of a superuser could.
			if _, err := pool.Exec(t.Context(), "SET session_replication_role = replica; "+tamper+"; RESET session_replication_role"); err != nil {
				t.Fatal(err)
			}
			if n, err := l.VerifyChain(t.Context(), "nod_a", "boot_a"); err == nil {
				t.Errorf("%d batches are found sound", n)
			}
		})
	}
}
