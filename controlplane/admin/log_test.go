package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"

	"github.com/aidy-gateway/aidy-gateway/controlplane/requestlog"
)

// requests is a request log with one row of the tenant ten_a.
type requests struct{ asked []requestlog.Filter }

func (r *requests) List(_ context.Context, f requestlog.Filter, _ int, _ string) ([]*adminv1.RequestLog, string, error) {
	r.asked = append(r.asked, f)
	return nil, "", nil
}

func (r *requests) Get(_ context.Context, id string) (*adminv1.RequestLog, error) {
	if id != "req_a" {
		return nil, requestlog.ErrNotFound
	}
	return &adminv1.RequestLog{RequestId: id, TenantId: "ten_a", Record: &ledgerv1.RequestRecord{DecisionJson: `{"id":"dec_a"}`, FeaturesJson: `{"tenant":"ten_a"}`}}, nil
}

func (r *requests) Decided(ctx context.Context, id string) (*adminv1.RequestLog, error) {
	if id != "dec_a" {
		return nil, requestlog.ErrNotFound
	}
	return r.Get(ctx, "req_a")
}

func (r *requests) Scan(_ context.Context, f requestlog.Filter, fn func(*ledgerv1.RequestRecord) error) error {
	r.asked = append(r.asked, f)
	return fn(&ledgerv1.RequestRecord{RequestId: "req_a"})
}

// decider notes what it is asked.
type decider struct{ asked []Asked }

func (d *decider) Explain(shards []proto.Message, q Asked) ([]byte, error) {
	d.asked = append(d.asked, q)
	return fmt.Appendf(nil, `{"shards":%d}`, len(shards)), nil
}

func (d *decider) Replay(_, _ []proto.Message, rows func(func(*ledgerv1.RequestRecord) error) error, seen func(int64) error) ([]byte, error) {
	return []byte(`{}`), rows(func(*ledgerv1.RequestRecord) error { return seen(1) })
}

// W-11: who is limited to a tenant finds, explains and replays nothing of another.
func TestW11WhoIsLimitedToATenantSeesNoRequestOfAnother(t *testing.T) {
	t.Parallel()
	f := setup(t)
	log, deciding := &requests{}, &decider{}
	f.cfg.Requests, f.cfg.Decider = log, deciding
	apply(t, f.owner(), &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	ctx := t.Context()
	for _, tc := range []struct {
		tenants []string
		sees    bool
	}{{nil, true}, {[]string{"ten_a"}, true}, {[]string{"ten_b"}, false}, {[]string{"ten_b", "ten_c"}, false}} {
		c := f.as(role(adminv1.Role_ROLE_VIEWER, tc.tenants...))
		logs, config, observe := adminv1connect.NewLogServiceClient(c), adminv1connect.NewConfigServiceClient(c), adminv1connect.NewObserveServiceClient(c)
		want := func(what string, err error) {
			t.Helper()
			if tc.sees && err != nil || !tc.sees && connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("limited to %v: %s: %v", tc.tenants, what, err)
			}
		}
		_, err := logs.GetRequest(ctx, &adminv1.GetRequestRequest{RequestId: "req_a"})
		want("GetRequest", err)
		_, err = observe.GetDecision(ctx, &adminv1.GetDecisionRequest{DecisionId: "dec_a"})
		want("GetDecision", err)
		_, err = observe.GetDecision(ctx, &adminv1.GetDecisionRequest{DecisionId: "req_a"})
		want("GetDecision by request", err)
		one := "ten_a"
		if !tc.sees {
			one = "ten_b"
		}
		_, err = config.Explain(ctx, &adminv1.ExplainRequest{TenantId: one, RequestId: "req_a"})
		want("Explain", err)
		list, err := logs.ListRequestLogs(ctx, &adminv1.ListRequestLogsRequest{RequestId: "req_a"})
		if err != nil || len(list.GetRequestLogs()) == 1 != tc.sees {
			t.Errorf("limited to %v: the list has %v, %v", tc.tenants, list, err)
		}
		if _, err = logs.ListRequestLogs(ctx, &adminv1.ListRequestLogsRequest{}); err != nil {
			t.Error(err)
		}
		if got := log.asked[len(log.asked)-1].Tenants; !slices.Equal(got, tc.tenants) {
			t.Errorf("limited to %v: rows of %v are asked for", tc.tenants, got)
		}
		if tc.tenants == nil {
			continue
		}
		_, err = logs.ListRequestLogs(ctx, &adminv1.ListRequestLogsRequest{TenantId: "ten_x"})
		if connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("limited to %v: a list of another tenant: %v", tc.tenants, err)
		}
		_, err = config.Explain(ctx, &adminv1.ExplainRequest{TenantId: "ten_x", QuestionJson: `{"tenant":"ten_x"}`})
		if connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("limited to %v: a question about another tenant: %v", tc.tenants, err)
		}
		stream, err := config.Replay(ctx, &adminv1.ReplayRequest{TenantId: "ten_x"})
		if err == nil {
			_, err = stream.Receive()
		}
		if connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("limited to %v: a replay of another tenant: %v", tc.tenants, err)
		}
	}
	for _, q := range deciding.asked {
		if q.Tenant != "ten_a" && q.Tenant != "" {
			t.Errorf("asked about tenant %q", q.Tenant)
		}
		if !strings.Contains(q.FeaturesJSON, "ten_a") {
			t.Errorf("asked about %q", q.FeaturesJSON)
		}
	}
}

func TestSearchesAreBoundToADay(t *testing.T) {
	t.Parallel()
	f := setup(t)
	log := &requests{}
	f.cfg.Requests = log
	logs := adminv1connect.NewLogServiceClient(f.owner())
	now := time.Now()
	for _, tc := range []struct {
		from, to time.Time
		ok       bool
	}{
		{now.Add(-24 * time.Hour), now, true},
		{now.Add(-25 * time.Hour), now, false},
		{now, now.Add(-time.Minute), false},
		{now.AddDate(0, 0, -20), now.AddDate(0, 0, -20).Add(time.Hour), true},
	} {
		_, err := logs.ListRequestLogs(t.Context(), &adminv1.ListRequestLogsRequest{From: timestamppb.New(tc.from), To: timestamppb.New(tc.to)})
		if (err == nil) != tc.ok {
			t.Errorf("from %s to %s: %v", tc.from, tc.to, err)
		}
	}
	if _, err := logs.ListRequestLogs(t.Context(), &adminv1.ListRequestLogsRequest{}); err != nil {
		t.Fatal(err)
	}
	if f := log.asked[len(log.asked)-1]; f.To.Sub(f.From) != time.Hour {
		t.Errorf("without a window %s are searched, want an hour", f.To.Sub(f.From))
	}
}
