package dataplane

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"

	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
)

// ops asks the operations port of the rig's node.
func (g *rig) ops(t testing.TB, method, path, body string) (int, []byte) {
	t.Helper()
	w := httptest.NewRecorder()
	g.node.opsServer().Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	return w.Code, w.Body.Bytes()
}

// decided waits until so many requests are over: clients have their answers earlier.
func (g *rig) decided(t testing.TB, n int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		switch have, _ := g.node.decisions.Len(); {
		case have == n:
			return
		case have > n || time.Now().After(deadline):
			t.Fatalf("%d decisions are kept, want %d", have, n)
		}
	}
}

func (g *rig) decision(t testing.TB, method, path, body string) *decision.Record {
	t.Helper()
	status, answer := g.ops(t, method, path, body)
	if status != http.StatusOK {
		t.Fatalf("%s %s: status %d: %s", method, path, status, answer)
	}
	rec := new(decision.Record)
	if err := json.Unmarshal(answer, rec); err != nil {
		t.Fatal(err)
	}
	return rec
}

// roundRobin has new conversations take turns, so that every choice that counts shows in
// the next one.
func roundRobin(t *syncv1.TenantShard) {
	t.Tenant.Scheduling = &configv1.SchedulingPolicy{Placement: configv1.Placement_PLACEMENT_ROUND_ROBIN}
	t.Credentials[0].Weight = proto.Int32(3)
}

func TestDecisionOfARequestIsFoundByBothIDsAndTellsItsAttempts(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.provider.Script(fakeprovider.Match{Protocol: fakeprovider.Chat}, fakeprovider.Fail(fakeprovider.ServerError), fakeprovider.Step{})
	w := wires()[0]
	resp, _ := g.call(t, w, "m", false)
	g.decided(t, 1)
	rec := g.decision(t, http.MethodGet, "/decisions/"+resp.Header.Get("X-Gateway-Decision-Id"), "")
	if rec.RequestID != resp.Header.Get("X-Gateway-Request-Id") {
		t.Errorf("the record is of request %q, want %q", rec.RequestID, resp.Header.Get("X-Gateway-Request-Id"))
	}
	if again := g.decision(t, http.MethodGet, "/decisions/"+rec.RequestID, ""); again.ID != rec.ID {
		t.Errorf("the request leads to decision %s, want %s", again.ID, rec.ID)
	}
	if len(rec.Candidates) != 2 || len(rec.Attempts) != 2 || rec.Attempts[0].Class != "server_error" || !rec.Attempts[1].OK {
		t.Errorf("candidates %v, attempts %+v", rec.Candidates, rec.Attempts)
	}
	if rec.Stop != "ok" || !strings.HasSuffix(rec.Chosen, resp.Header.Get("X-Gateway-Scheduled-Credential-Id")) {
		t.Errorf("stop %q, chosen %q; the client was told %q", rec.Stop, rec.Chosen, resp.Header.Get("X-Gateway-Scheduled-Credential-Id"))
	}
	first := rec.Selections[0]
	if first.How == "" || len(first.Order) != 2 || first.Rows[0].Score == nil || first.Rows[0].Score.Terms.Latency == 0 {
		t.Errorf("the first selection says too little: %+v", first)
	}
	sum := func(s *decision.Score) int64 {
		x := s.Terms
		return x.Input + x.Output + x.Latency + x.Warmup + x.Queue + x.Error + x.Load + x.Priority + x.Quota + x.Session + x.Quality + x.Budget
	}
	for _, row := range first.Rows {
		if sum(row.Score) != row.Score.Total {
			t.Errorf("the terms of %s sum up to %d, the total is %d", row.Candidate, sum(row.Score), row.Score.Total)
		}
	}
}

func TestDecisionHoldsNoTextOfTheRequestAndNoSecret(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	const canary = "canary-7391"
	body := fmt.Sprintf(`{"model":"m","prompt_cache_key":%q,"user":%q,"messages":[{"role":"system","content":%q},{"role":"user","content":%q}],
		"tools":[{"type":"function","function":{"name":"f","description":%q,"parameters":{}}}]}`, canary+"a", canary+"b", canary+"c", canary+"d", canary+"e")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	req.Header.Set("X-Gateway-Session-Id", canary+"f")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	g.decided(t, 1)
	_, live := g.ops(t, http.MethodGet, "/decisions/"+resp.Header.Get("X-Gateway-Request-Id"), "")
	question := fmt.Sprintf(`{"tenant":"test","api_key":"key_1","session_key":%q,"body":%s}`, canary+"g", body)
	status, dry := g.ops(t, http.MethodPost, "/explain", question)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, dry)
	}
	for _, out := range [][]byte{live, dry} {
		for _, secret := range []string{canary, testKey, keyA, keyB} {
			if strings.Contains(string(out), secret) {
				t.Errorf("the record holds %q: %s", secret, out)
			}
		}
		rec := new(decision.Record)
		if err := json.Unmarshal(out, rec); err != nil {
			t.Fatal(err)
		}
		if rec.Affinity.Kind != "strong" || len(rec.Affinity.Fingerprint) != 8 {
			t.Errorf("affinity %+v, want a strong one with a fingerprint of 8 digits", rec.Affinity)
		}
	}
}

// Two nodes get the same calls, and one of them is asked questions all the while: it
// serves the calls as the other one does, and has the same bindings and cooldowns.
func TestExplainChangesNoState(t *testing.T) {
	t.Parallel()
	limit := func(t *syncv1.TenantShard) {
		roundRobin(t)
		t.Credentials[1].Limits = &configv1.Limits{Rpm: proto.Int64(8)}
	}
	asked, left := newRig(t, limit), newRig(t, limit)
	w := wires()[0]
	questions := []string{
		`{"tenant":"ten_1","model":"m","prompt_tokens":3000,"session_key":"s"}`,
		`{"tenant":"test","route":"main","api_key":"key_1","body":` + w.body("m", false) + `}`,
		`{"tenant":"test","protocol":"gemini_generate_content","model":"m","prompt_tokens":10}`,
		`{"tenant":"test","model":"nothing"}`,
	}
	var served [2][]string
	for i := range 12 {
		for range 5 {
			for _, q := range questions {
				asked.decision(t, http.MethodPost, "/explain", q)
			}
		}
		for n, g := range []*rig{asked, left} {
			if i == 4 {
				g.provider.Script(fakeprovider.Match{Protocol: fakeprovider.Chat}, fakeprovider.Fail(fakeprovider.RateLimited), fakeprovider.Step{})
			}
			resp, _ := g.call(t, w, "m", false)
			served[n] = append(served[n], resp.Header.Get("X-Gateway-Scheduled-Credential-Id"))
			g.decided(t, i+1)
		}
	}
	if !slices.Equal(served[0], served[1]) {
		t.Errorf("the node that was asked served with %v, the other one with %v", served[0], served[1])
	}
	if a, b := asked.node.affinity.Len(), left.node.affinity.Len(); a != b {
		t.Errorf("the node that was asked remembers %d prefixes, the other one %d", a, b)
	}
	if a, b := len(asked.node.scheduler.Rests(time.Now())), len(left.node.scheduler.Rests(time.Now())); a != b {
		t.Errorf("the node that was asked has %d cooldowns, the other one %d", a, b)
	}
	if n := asked.node.scheduler.InFlight("crd_a") + asked.node.scheduler.InFlight("crd_b"); n != 0 {
		t.Errorf("%d attempts hold a slot", n)
	}
	if n, _ := asked.node.decisions.Len(); n != 12 {
		t.Errorf("%d decisions are kept, want the 12 of calls", n)
	}
}

// A question answers what the next call does.
func TestExplainForetellsTheNextCall(t *testing.T) {
	t.Parallel()
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, roundRobin)
			for i := range 8 {
				q := fmt.Sprintf(`{"tenant":"test","protocol":%q,"model":"m","api_key":"key_1","body":%s}`, w.name, w.body("m", false))
				told := g.decision(t, http.MethodPost, "/explain", q)
				resp, _ := g.call(t, w, "m", false)
				g.decided(t, i+1)
				if got := resp.Header.Get("X-Gateway-Scheduled-Credential-Id"); !strings.HasSuffix(told.Chosen, got) || got == "" {
					t.Fatalf("call %d went to %q, foretold was %q", i, got, told.Chosen)
				}
			}
		})
	}
}

func TestExplainSaysWhyACallIsRefused(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(t *syncv1.TenantShard) {
		t.Models[0].MaxContextTokens = 1000
		t.Models[0].Modalities = []configv1.Modality{configv1.Modality_MODALITY_TEXT}
	})
	for _, tc := range []struct {
		question, code, reason string
	}{
		{`{"tenant":"test","model":"m","prompt_tokens":5000}`, "request_not_supported", "context_too_long"},
		{`{"tenant":"test","model":"m","images":1}`, "request_not_supported", "capability_missing"},
		{`{"tenant":"test","model":"other"}`, "model_not_found", ""},
		{`{"tenant":"test","model":"m","api_key":"key_none"}`, "", ""},
	} {
		rec := g.decision(t, http.MethodPost, "/explain", tc.question)
		if rec.Refusal == nil || tc.code != "" && rec.Refusal.Code != tc.code {
			t.Errorf("%s: refusal %+v, want %s", tc.question, rec.Refusal, tc.code)
			continue
		}
		if tc.reason == "" {
			continue
		}
		last := rec.Selections[0].Filters[len(rec.Selections[0].Filters)-1]
		if rec.Selections[0].Rows[0].Reason != tc.reason || last.Filter != tc.reason || last.Left != 0 {
			t.Errorf("%s: rows %+v, filters %+v; want %s", tc.question, rec.Selections[0].Rows, rec.Selections[0].Filters, tc.reason)
		}
	}
}

func TestQuestionsThatCannotBeUnderstoodAreRefused(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for _, q := range []string{
		``, `[]`, `{"mdl":"m"}`, `{"tenant":"nobody","model":"m"}`, `{"tenant":"test","route":"none","model":"m"}`,
		`{"tenant":"test","protocol":"soap","model":"m"}`, `{"tenant":"test","protocol":"gemini_generate_content"}`,
		`{"tenant":"test","model":"m","prompt_tokens":-1}`, `{"tenant":"test","body":{"model":5}}`, `{"tenant":"test","model":"m"}{}`,
		`{"tenant":"test","model":"` + strings.Repeat("m", 600) + `"}`,
	} {
		if status, answer := g.ops(t, http.MethodPost, "/explain", q); status < 400 || status >= 500 {
			t.Errorf("%s: status %d: %s", q, status, answer)
		}
	}
	if status, _ := g.ops(t, http.MethodGet, "/decisions/dec_none", ""); status != http.StatusNotFound {
		t.Errorf("a decision that is not kept has status %d, want 404", status)
	}
	if status, _ := g.ops(t, http.MethodGet, "/decisions?limit=0", ""); status != http.StatusBadRequest {
		t.Errorf("a page of 0 has status %d, want 400", status)
	}
}

func TestDecisionsAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for range 5 {
		g.call(t, wires()[0], "m", false)
	}
	g.decided(t, 5)
	var seen []string
	for next, pages := "", 0; pages < 4; pages++ {
		_, answer := g.ops(t, http.MethodGet, "/decisions?limit=2&tenant=ten_1&before="+next, "")
		var page struct {
			Decisions []decided
			Next      string
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			t.Fatal(err)
		}
		for _, d := range page.Decisions {
			seen = append(seen, d.ID)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	if len(seen) != 5 || !slices.IsSortedFunc(seen, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("listed %v, want 5, the newest first", seen)
	}
}
