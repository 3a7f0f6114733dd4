package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"

	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// explained asks the control plane where a call would go.
func (w *world) explained(t *testing.T, draft *adminv1.Bundle) *decision.Record {
	t.Helper()
	res, err := w.f.admin.config.Explain(t.Context(), &adminv1.ExplainRequest{
		TenantId: w.tenant, Model: model, Draft: draft, QuestionJson: fmt.Sprintf(`{"api_key":%q,"prompt_tokens":2000}`, w.keyID),
	})
	if err != nil {
		t.Fatal(err)
	}
	rec := new(decision.Record)
	if err := json.Unmarshal([]byte(res.GetDecisionJson()), rec); err != nil {
		t.Fatal(err)
	}
	return rec
}

// The control plane decides with the code of nodes: as the configuration is, and as a
// draft would make it, which it does not keep.
func TestEndToEndExplainDecidesUnderTheConfigurationAndUnderADraft(t *testing.T) {
	f := newFleet(t, 1, 0)
	w := f.newWorld(t, "explained", twoUpstreams())
	head, err := f.admin.config.GetGeneration(t.Context(), &adminv1.GetGenerationRequest{})
	if err != nil {
		t.Fatal(err)
	}
	chosen := func(rec *decision.Record) string {
		for _, c := range rec.Candidates {
			if c.ID == rec.Chosen {
				return c.Upstream + "/" + c.Credential
			}
		}
		return ""
	}
	now := w.explained(t, nil)
	if got := chosen(now); got != "first/a" || now.Refusal != nil || len(now.Candidates) != 2 {
		t.Errorf("chosen %q of %d, refusal %+v; want first/a of 2", got, len(now.Candidates), now.Refusal)
	}
	if now.PolicyGeneration != head.GetGeneration().GetGeneration() {
		t.Errorf("decided under generation %d, want %d", now.PolicyGeneration, head.GetGeneration().GetGeneration())
	}
	upstream := func(name string, priority int32) *adminv1.BundleResource {
		return &adminv1.BundleResource{Resource: &adminv1.BundleResource_Upstream{Upstream: &configv1.Upstream{
			TenantId: w.name, Name: name, ProviderId: "fake", GroupId: "default", Priority: priority,
		}}}
	}
	drafted := w.explained(t, &adminv1.Bundle{Resources: []*adminv1.BundleResource{upstream("first", 9)}})
	if got := chosen(drafted); got != "second/b" {
		t.Errorf("under the draft %q is chosen, want second/b: %+v", got, drafted.Selections)
	}
	if again := chosen(w.explained(t, nil)); again != "first/a" {
		t.Errorf("after the draft %q is chosen, want first/a", again)
	}
	_, err = f.admin.config.Explain(t.Context(), &adminv1.ExplainRequest{TenantId: w.tenant, QuestionJson: `{"mdl":"m"}`})
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "mdl") {
		t.Errorf("a misspelt question: %v, want invalid_argument that names it", err)
	}
	_, err = f.admin.config.Explain(t.Context(), &adminv1.ExplainRequest{TenantId: w.tenant, Model: model, Generation: 1})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("an old generation: %v, want failed_precondition", err)
	}
}
