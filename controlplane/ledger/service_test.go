package ledger

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectinprocess"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1/ledgerv1connect"
	"github.com/rs/zerolog"
)

func TestServiceTakesUsageOnlyInTheCallersName(t *testing.T) {
	t.Parallel()
	pool := pg.Pool(t)
	l := ledgerOn(t, pool, Config{MaxEvents: 2})
	caller, callerErr := "nod_a", error(nil)
	svc, err := NewService(l, nil, func(context.Context) (string, error) { return caller, callerErr }, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	server := connect.NewServer()
	ledgerv1connect.RegisterUsageServiceHandler(server, svc)
	ledgerv1connect.RegisterLeaseServiceHandler(server, svc)
	client := connect.NewClient(connectinprocess.New(server))
	usageClient, leases := ledgerv1connect.NewUsageServiceClient(client), ledgerv1connect.NewLeaseServiceClient(client)

	send := func(node string, first, last uint64, events ...*ledgerv1.UsageEvent) (*ledgerv1.IngestUsageResponse, error) {
		return usageClient.IngestUsage(t.Context(), &ledgerv1.IngestUsageRequest{NodeId: node, BootId: "boot", FirstSeq: first, LastSeq: last, Events: events})
	}
	if got, err := send("nod_a", 1, 7, event(time.Now())); err != nil || got.GetLastSeq() != 7 || got.GetInserted() != 1 {
		t.Errorf("answered %v, %v; want 7 and 1", got, err)
	}
	if _, err := send("nod_b", 1, 1, event(time.Now())); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("in the name of another: %v, want permission_denied", err)
	}
	if _, err := send("nod_a", 2, 1); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("backwards: %v, want invalid_argument", err)
	}
	if _, err := send("nod_a", 5, 20, folded(time.Now())); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("overlap: %v, want failed_precondition", err)
	}
	callerErr = errors.New("no certificate")
	if _, err := send("nod_a", 8, 8, event(time.Now())); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("without a certificate: %v, want unauthenticated", err)
	}
	callerErr = nil
	if got := count(t, pool, "SELECT count(*) FROM usage_ledger"); got != 1 {
		t.Errorf("%d rows, want 1", got)
	}

	for capability, call := range map[string]func() error{
		"request_log": func() error {
			_, err := usageClient.IngestLogs(t.Context(), &ledgerv1.IngestLogsRequest{NodeId: "nod_a"})
			return err
		},
		"credit_leases": func() error {
			_, err := leases.AcquireCredit(t.Context(), &ledgerv1.AcquireCreditRequest{})
			return err
		},
		"limit_leases": func() error {
			_, err := leases.LeaseLimits(t.Context(), &ledgerv1.LeaseLimitsRequest{})
			return err
		},
	} {
		if err := call(); connect.CodeOf(err) != connect.CodeUnimplemented || !strings.Contains(err.Error(), capability) {
			t.Errorf("%s: %v, want unimplemented with its name", capability, err)
		}
	}

	pool.Close()
	_, err = send("nod_a", 8, 8, event(time.Now()))
	if connect.CodeOf(err) != connect.CodeUnavailable || strings.Contains(err.Error(), "pool") {
		t.Errorf("without a database: %v, want unavailable and no detail", err)
	}
}
