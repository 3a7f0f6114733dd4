package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/aidy-gateway/aidy-gateway/dataplane"
	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

// A request is found in the log by its id and in the list of its tenant, with its
// attempts and its decision, and without a word of what was said.
func TestEndToEndARequestIsFoundInTheLogWithItsDecision(t *testing.T) {
	f := newFleet(t, 1, 1)
	w := f.newWorld(t, "logged", twoUpstreams())
	w.limited("a", time.Minute)
	const canary = "canary-8812"
	c := w.talk(t, f.nodes[0], anySDK())
	for range 3 {
		if _, err := c.ask(t.Context(), false, vendorsdk.Question{Text: canary}); err != nil {
			t.Fatal(err)
		}
	}
	var rows []*adminv1.RequestLog
	eventually(t, "the rows are in the log", func() error {
		res, err := f.admin.logs.ListRequestLogs(t.Context(), &adminv1.ListRequestLogsRequest{TenantId: w.tenant})
		if rows = res.GetRequestLogs(); err == nil && len(rows) != 3 {
			err = fmt.Errorf("%d rows", len(rows))
		}
		return err
	})
	oldest := rows[2]
	if oldest.GetAttempts() != 2 || oldest.GetStatus() != 200 || oldest.GetOutcome() != "ok" || oldest.GetApiKeyId() != w.keyID ||
		oldest.GetCredentialId() != w.credential(t, "b") || oldest.GetModel() != model || oldest.GetOutputTokens() == 0 {
		t.Errorf("the row is %v", oldest)
	}
	got, err := f.admin.logs.GetRequest(t.Context(), &adminv1.GetRequestRequest{RequestId: oldest.GetRequestId()})
	if err != nil {
		t.Fatal(err)
	}
	tries := got.GetRequestLog().GetRecord().GetUpstreamRequests()
	if len(tries) != 2 || tries[0].GetClass() != "rate_limited" || tries[0].GetStatus() != 429 || !tries[1].GetOk() {
		t.Errorf("the attempts are %v", tries)
	}
	for _, id := range []string{oldest.GetRequestId(), got.GetRequestLog().GetRecord().GetDecisionId()} {
		res, err := f.admin.observe.GetDecision(t.Context(), &adminv1.GetDecisionRequest{DecisionId: id})
		if err != nil {
			t.Fatal(err)
		}
		rec := new(decision.Record)
		if err := json.Unmarshal([]byte(res.GetDecisionJson()), rec); err != nil {
			t.Fatal(err)
		}
		if rec.RequestID != oldest.GetRequestId() || len(rec.Attempts) != 2 || rec.Attempts[0].Cooldown == nil {
			t.Errorf("the decision is %+v", rec)
		}
	}
	raw, err := protojson.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{canary, w.key, w.secretPrefix()} {
		if strings.Contains(string(raw), secret) {
			t.Errorf("the row holds %q: %s", secret, raw)
		}
	}
}

// What a draft would have done with recorded requests is found out by the control plane
// from its log, and the configuration stays what it is.
func TestEndToEndADraftIsReplayedOverTheLog(t *testing.T) {
	f := newFleet(t, 1, 1)
	w := f.newWorld(t, "replayed", twoUpstreams(), costs("replayed", "fake-large", 2_000_000))
	c := w.talk(t, f.nodes[0], anySDK())
	for i := range 6 {
		if _, err := c.ask(t.Context(), false, vendorsdk.Question{Text: fmt.Sprintf("question %d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the rows are in the log", func() error {
		res, err := f.admin.logs.ListRequestLogs(t.Context(), &adminv1.ListRequestLogsRequest{TenantId: w.tenant})
		if n := len(res.GetRequestLogs()); err == nil && n != 6 {
			err = fmt.Errorf("%d rows", n)
		}
		return err
	})
	replay := func(draft ...*adminv1.BundleResource) *dataplane.ReplaySummary {
		t.Helper()
		stream, err := f.admin.config.Replay(t.Context(), &adminv1.ReplayRequest{TenantId: w.tenant, Draft: &adminv1.Bundle{Resources: draft}})
		if err != nil {
			t.Fatal(err)
		}
		for {
			res, err := stream.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if !res.GetDone() {
				continue
			}
			s := new(dataplane.ReplaySummary)
			if err := json.Unmarshal([]byte(res.GetSummaryJson()), s); err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
	same := replay()
	if same.Decided != 6 || same.Reproduced != 6 || same.Changed.Account != 0 || same.CostDeltaNanos != 0 || same.Before.CostNanos == 0 {
		t.Errorf("without a draft: %+v", same)
	}
	moved := replay(&adminv1.BundleResource{Resource: &adminv1.BundleResource_Upstream{Upstream: &configv1.Upstream{
		TenantId: w.name, Name: "first", ProviderId: "fake", GroupId: "default", Priority: 9,
	}}})
	if moved.Changed.Account != 6 || len(moved.Changes) != 1 || moved.Changes[0].To != "fake/second/b fake-large" || moved.After.CostNanos == 0 {
		t.Errorf("with the other upstream first: %+v", moved)
	}
	if again := replay(); again.Changed.Account != 0 {
		t.Errorf("a draft was kept: %+v", again)
	}
	found, err := f.admin.logs.ListRequestLogs(t.Context(), &adminv1.ListRequestLogsRequest{TenantId: w.tenant, PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	res, err := f.admin.config.Explain(t.Context(), &adminv1.ExplainRequest{TenantId: w.tenant, RequestId: found.GetRequestLogs()[0].GetRequestId()})
	if err != nil {
		t.Fatal(err)
	}
	if rec := new(decision.Record); json.Unmarshal([]byte(res.GetDecisionJson()), rec) != nil || rec.Features.APIKey != w.keyID || rec.Chosen == "" {
		t.Errorf("a recorded request is explained as %s", res.GetDecisionJson())
	}
}
