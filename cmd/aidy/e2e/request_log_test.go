package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
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
