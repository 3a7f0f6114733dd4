package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg/pgtest"
	"github.com/aidy-gateway/aidy-gateway/migrations"
)

// pg gives every fleet a database of its own.
var pg = pgtest.New(func(ctx context.Context, url string) error { return migrations.Up(ctx, url, nil) })

// roleVariable makes the test binary play a node: tests that kill a process need one.
const roleVariable = "AIDY_E2E_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "node" {
		if err := playNode(); err != nil {
			fmt.Fprintln(os.Stderr, "node:", err)
			os.Exit(1)
		}
		return
	}
	// The Gemini SDK links opencensus, whose init starts a worker for good.
	goleak.VerifyTestMain(pg.Around(m), goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
