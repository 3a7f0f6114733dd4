package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane"
	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
)

func TestExplainAsksANodeAndShowsReasonsAndScores(t *testing.T) {
	t.Parallel()
	rec := decision.Record{
		ID: "dec_1", At: time.Unix(0, 0), PolicyGeneration: 7, LogicalRoutes: []string{"agents", "smart"},
		Features: decision.Features{Protocol: "openai_chat", Operation: "generate", Model: "m", PromptTokens: 5000},
		Candidates: []decision.Candidate{
			{ID: "x/a", Provider: "acme", Upstream: "eu", Credential: "a", Model: "large"},
			{ID: "x/b", Provider: "acme", Upstream: "eu", Credential: "b", Model: "large"},
		},
		Selections: []decision.Selection{{
			Stage: "primary", How: "single", Order: []string{"x/b"},
			Filters: []decision.Remaining{{Filter: "stage", Left: 2}, {Filter: "cooldown", Left: 1}},
			Rows: []decision.Row{
				{Candidate: "x/a", Reason: "cooldown_rate_limit", Resting: &decision.Rest{Kind: "rate_limit", Until: time.Unix(3600, 0)}},
				{Candidate: "x/b", Score: &decision.Score{Total: 123, Hit: 4096, Use: 0.25, Terms: decision.Terms{Input: 100, Latency: 23}}},
			},
		}},
		Chosen: "x/b", Stage: "primary",
	}
	var asked dataplane.Question
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/decisions/dec_1", r.URL.Path == "/explain" && json.Unmarshal(body, &asked) == nil:
			_ = json.NewEncoder(w).Encode(&rec)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":"not kept here"}`)
		}
	}))
	defer node.Close()
	run := func(args ...string) (int, string, string) {
		var out, errs strings.Builder
		code := Main(t.Context(), Env{Stdin: strings.NewReader(`{"model":"m"}`), Stdout: &out, Stderr: &errs}, args)
		return code, out.String(), errs.String()
	}
	code, out, errs := run("explain", "--node", node.URL, "--tenant", "dev", "--model", "m", "--tokens", "5000", "--session", "s", "--thinking", "--body", "-")
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if asked.Tenant != "dev" || asked.PromptTokens != 5000 || !asked.Thinking || asked.SessionKey != "s" || string(asked.Body) != `{"model":"m"}` {
		t.Errorf("the node was asked %+v", asked)
	}
	for _, want := range []string{"acme/eu/a large", "cooldown_rate_limit until 01:00:00", "stage 2, cooldown 1", "123", "4096", "25%", "routes   agents, then smart\naffinity none\n", "\n\nchosen   acme/eu/b large (primary)"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if code, out, _ := run("explain", "dec_1", "--node", node.URL, "-o", "json"); code != ExitOK || !strings.Contains(out, `"policy_generation": 7`) {
		t.Errorf("exit code %d, %s", code, out)
	}
	if code, _, errs := run("explain", "dec_2", "--node", node.URL); code != ExitError || !strings.Contains(errs, "not kept here") {
		t.Errorf("a decision that is not kept: exit code %d, %s", code, errs)
	}
	if code, _, errs := run("explain", "--node", "127.0.0.1:9090", "--model", "m"); code != ExitUsage || !strings.Contains(errs, "such as http://127.0.0.1:9090") {
		t.Errorf("an address without a scheme: exit code %d, %s", code, errs)
	}
	for _, args := range [][]string{{"explain", "--node", node.URL}, {"explain", "--node", node.URL, "--model", "m", "--draft", "x.yaml"}} {
		if code, _, _ := run(args...); code != ExitUsage {
			t.Errorf("%v: exit code %d, want %d", args, code, ExitUsage)
		}
	}
}
