package pgtest_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg/pgtest"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

func newHarness() *pgtest.Harness {
	return pgtest.New(func(ctx context.Context, url string) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, "CREATE TABLE thing (n int); INSERT INTO thing VALUES (1)")
		return err
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryTestGetsItsOwnMigratedDatabase(t *testing.T) {
	pg := newHarness()
	defer func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx := context.Background()

	t.Run("clones", func(t *testing.T) {
		a, b := pg.Pool(t), pg.Pool(t)
		if _, err := a.Exec(ctx, "INSERT INTO thing VALUES (2), (3)"); err != nil {
			t.Fatal(err)
		}
		var inA, inB int
		if err := a.QueryRow(ctx, "SELECT count(*) FROM thing").Scan(&inA); err != nil {
			t.Fatal(err)
		}
		if err := b.QueryRow(ctx, "SELECT count(*) FROM thing").Scan(&inB); err != nil {
			t.Fatal(err)
		}
		if inA != 3 || inB != 1 {
			t.Errorf("rows %d and %d, want 3 in the written clone and the template's 1 in the other", inA, inB)
		}
	})

	start := time.Now()
	const n = 10
	for range n {
		t.Run("cost", func(t *testing.T) { pg.URL(t) })
	}
	t.Logf("clone and drop: %s each", time.Since(start)/n)
}

func TestAnExistingServerIsUsedAndLeftClean(t *testing.T) {
	if os.Getenv(pgtest.URLVariable) != "" {
		t.Skip("runs against an existing server already")
	}
	outer := pgtest.New(nil)
	defer outer.Close()
	t.Run("inner", func(t *testing.T) {
		url := outer.URL(t)
		t.Setenv(pgtest.URLVariable, url)
		inner := newHarness()
		t.Run("clone", func(t *testing.T) { inner.URL(t) })
		if err := inner.Close(); err != nil {
			t.Fatal(err)
		}

		ctx := context.Background()
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		var left int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_database WHERE datname LIKE 'aidy_test_%' AND datname <> ALL($1)",
			[]string{conn.Config().Database}).Scan(&left); err != nil {
			t.Fatal(err)
		}
		// The outer template stays; whatever the inner harness made is gone.
		if left != 1 {
			t.Errorf("%d test databases besides our own, want the outer template alone", left)
		}
	})
}
