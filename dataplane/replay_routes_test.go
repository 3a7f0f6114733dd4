package dataplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"

	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
)

// recordedCalls makes the calls with a node and returns what the request log would have of them,
// and the model that each was led to.
func recordedCalls(t *testing.T, g *rig, n int, call func(i int) (w wire, body string, header []string)) (rows []*ledgerv1.RequestRecord, led map[string]string) {
	t.Helper()
	led = make(map[string]string)
	for i := range n {
		w, body, header := call(i)
		upstream, resp, answer := g.askLogical(t, w, "smart", body, header...)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", resp.StatusCode, answer)
		}
		g.decided(t, i+1)
		id := resp.Header.Get("X-Gateway-Request-Id")
		_, raw := g.ops(t, http.MethodGet, "/decisions/"+id, "")
		rec := new(decision.Record)
		if err := json.Unmarshal(raw, rec); err != nil {
			t.Fatal(err)
		}
		features, err := json.Marshal(&rec.Features)
		if err != nil {
			t.Fatal(err)
		}
		led[id] = upstream
		rows = append(rows, &ledgerv1.RequestRecord{
			RequestId: id, TenantId: "ten_1", FeaturesJson: string(features), DurationUs: 1000,
			StartTime: timestamppb.New(time.Unix(1_700_000_000, 0).Add(time.Duration(i) * time.Second)),
		})
	}
	return rows, led
}

// ledAgain is where a configuration leads recorded requests.
func ledAgain(t *testing.T, rows []*ledgerv1.RequestRecord, options ...rigOption) map[string]string {
	t.Helper()
	p := NewPlanner(testView(t, "http://127.0.0.1:1", options...))
	led := make(map[string]string)
	for _, row := range rows {
		f := new(decision.Features)
		if err := json.Unmarshal([]byte(row.GetFeaturesJson()), f); err != nil {
			t.Fatal(err)
		}
		rec := p.ExplainAgain(f, row.GetStartTime().AsTime())
		for _, c := range rec.Candidates {
			if c.ID == rec.Chosen {
				led[row.GetRequestId()] = c.Model
			}
		}
	}
	return led
}

func splitOf(small, large int) string {
	return fmt.Sprintf(`{"match":{"model":"smart"},"targets":[{"model":"small","weight":%d},{"model":"large","weight":%d}]}`, small, large)
}

// Conversations of every protocol, and those that a header names, are led again to where
// they were led, and other weights move only what the
// heavier target gains.
func TestReplayLeadsASplitToItsRecordedTargets(t *testing.T) {
	t.Parallel()
	g := newRig(t, logical(t, splitOf(1, 1)))
	const n = 60
	rows, led := recordedCalls(t, g, n, func(i int) (wire, string, []string) {
		w := wires()[i%len(wires())]
		if i%5 == 0 {
			return w, "", []string{"X-Gateway-Session-Id", fmt.Sprint("talk ", i)}
		}
		text, body := fmt.Sprint("conversation ", i), w.body("smart", false)
		for _, old := range []string{`"hi"`, `"hello"`} {
			body = strings.Replace(body, old, fmt.Sprintf("%q", text), 1)
		}
		return w, body, nil
	})
	count := 0
	for _, to := range led {
		if to == "fake-small-up" {
			count++
		}
	}
	if count == 0 || count == n {
		t.Fatalf("%d of %d are led to one target: nothing is shared", count, n)
	}
	again := ledAgain(t, rows, logical(t, splitOf(1, 1)))
	for id, to := range led {
		if again[id] != to {
			t.Errorf("%s is led to %q, and was led to %q", id, again[id], to)
		}
	}
	same := replayed(t, rows, []rigOption{logical(t, splitOf(1, 1))}, []rigOption{logical(t, splitOf(1, 1))})
	if same.Rerouted != 0 || same.Changed.Target != 0 || same.Before.Uncertain != 0 || same.Before.Served != n {
		t.Errorf("the same configuration: %+v", same)
	}

	moved := 0
	heavier := ledAgain(t, rows, logical(t, splitOf(1, 3)))
	for id, to := range led {
		if heavier[id] != to {
			moved++
			if heavier[id] != "fake-large-up" {
				t.Errorf("%s moves to %q, which gained nothing", id, heavier[id])
			}
		}
	}
	s := replayed(t, rows, []rigOption{logical(t, splitOf(1, 1))}, []rigOption{logical(t, splitOf(1, 3))})
	if moved == 0 || s.Changed.Target != int64(moved) || s.Rerouted != 0 || s.After.Uncertain != 0 {
		t.Errorf("%d move; the replay says %+v", moved, s)
	}
}

// What a condition asks for and no record holds is counted, and told of a single request.
func TestReplayCountsWhatItCannotKnow(t *testing.T) {
	t.Parallel()
	rule := func(compare string) rigOption {
		return logical(t,
			`{"match":{"model":"smart"},"condition":`+compare+`,"targets":[{"model":"large"}]}`,
			`{"match":{"model":"smart"},"targets":[{"model":"small"}]}`)
	}
	compare := func(field, key, op, literal string) string {
		return fmt.Sprintf(`{"compare":{"field":"CONDITION_FIELD_%s","key":%q,"operator":"CONDITION_OPERATOR_%s","literal":{%s}}}`, field, key, op, literal)
	}
	header := compare("HEADER", "x-team", "EQUAL", `"stringValue":"red"`)
	long := compare("PROMPT_TOKENS", "", "GREATER", `"intValue":"100000"`)
	effort := compare("REASONING_EFFORT", "", "EQUAL", `"stringValue":"high"`)

	g := newRig(t, rule(header))
	const n = 4
	rows, _ := recordedCalls(t, g, n, func(int) (wire, string, []string) {
		return wires()[0], `{"model":"smart","reasoning_effort":"high","messages":[{"role":"user","content":"hi"}]}`, []string{"X-Team", "red"}
	})
	if strings.Contains(rows[0].GetFeaturesJson(), "red") {
		t.Errorf("the record holds the header: %s", rows[0].GetFeaturesJson())
	}
	for name, tc := range map[string]struct {
		draft     string
		uncertain []string
		large     int64
	}{
		"a header":                         {header, []string{"header"}, 0},
		"not a header":                     {`{"not":` + header + `}`, []string{"header"}, n},
		"a member of the body":             {compare("BODY_FIELD", "metadata.team", "EXISTS", ""), []string{"body_field"}, 0},
		"a tool":                           {compare("TOOL_NAME", "", "EQUAL", `"stringValue":"look"`), []string{"tool_name"}, 0},
		"a header that changes nothing":    {`{"all":{"conditions":[` + header + `,` + long + `]}}`, nil, 0},
		"another header that changes none": {`{"any":{"conditions":[` + header + `,{"not":` + long + `}]}}`, nil, n},
		"a header or a tool":               {`{"any":{"conditions":[` + header + `,` + compare("TOOL_NAME", "", "EXISTS", "") + `]}}`, []string{"header", "tool_name"}, 0},
		"no header or a tool":              {`{"any":{"conditions":[{"not":` + header + `},` + compare("TOOL_NAME", "", "EXISTS", "") + `]}}`, []string{"header", "tool_name"}, n},
		"an effort, which is recorded":     {effort, nil, n},
		"not an effort, which is recorded": {`{"not":` + effort + `}`, nil, 0},
		"a number, which is recorded":      {long, nil, 0},
	} {
		s := replayed(t, rows, []rigOption{rule(header)}, []rigOption{rule(tc.draft)})
		if s.Before.Uncertain != n || s.Before.By.Header != n || s.Rerouted != n {
			t.Errorf("%s: %d of %d are uncertain now, %d elsewhere than then: a header led them", name, s.Before.Uncertain, n, s.Rerouted)
		}
		if want := int64(min(len(tc.uncertain), 1) * n); s.After.Uncertain != want || s.After.Served != n {
			t.Errorf("%s: %+v, want %d uncertain", name, s.After, want)
		}
		if s.Changed.Target != tc.large {
			t.Errorf("%s: %d go to the large model, want %d", name, s.Changed.Target, tc.large)
		}
		f := new(decision.Features)
		if err := json.Unmarshal([]byte(rows[0].GetFeaturesJson()), f); err != nil {
			t.Fatal(err)
		}
		rec := NewPlanner(testView(t, "http://127.0.0.1:1", rule(tc.draft))).ExplainAgain(f, time.Unix(1_700_000_000, 0))
		if !slices.Equal(rec.Uncertain, tc.uncertain) {
			t.Errorf("%s: explained as uncertain for %q, want %q", name, rec.Uncertain, tc.uncertain)
		}
	}
}

// A request is led again by what it was before logical routes changed it, and a split
// that nobody had then is uncertain.
func TestReplayGoesByTheRequestBeforeItWasChanged(t *testing.T) {
	t.Parallel()
	rules := logical(t,
		`{"match":{"model":"smart"},"condition":{"compare":{"field":"CONDITION_FIELD_MAX_OUTPUT_TOKENS","operator":"CONDITION_OPERATOR_LESS","literal":{"intValue":"500"}}},
		  "targets":[{"model":"small"}],"rewrites":[{"operation":"REWRITE_OPERATION_SET","field":"REWRITE_FIELD_MAX_OUTPUT_TOKENS","value":{"intValue":"1000"}}]}`,
		`{"match":{"model":"smart"},"targets":[{"model":"large"}]}`)
	g := newRig(t, rules)
	rows, led := recordedCalls(t, g, 1, func(int) (wire, string, []string) {
		return wires()[0], `{"model":"smart","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`, nil
	})
	if sent := g.provider.Requests()[0]; sent.Protocol != fakeprovider.Chat {
		t.Fatalf("sent %+v", sent)
	}
	if again := ledAgain(t, rows, rules); again[rows[0].GetRequestId()] != "fake-small-up" || led[rows[0].GetRequestId()] != "fake-small-up" {
		t.Errorf("led to %v, and again to %v", led, again)
	}
	f := new(decision.Features)
	if err := json.Unmarshal([]byte(rows[0].GetFeaturesJson()), f); err != nil {
		t.Fatal(err)
	}
	if f.MaxOutput != 1000 || f.Routing.Seen.MaxOutput != 100 || f.Routing.Model != "small" {
		t.Errorf("recorded %s", rows[0].GetFeaturesJson())
	}
	s := replayed(t, rows, []rigOption{rules}, []rigOption{logical(t, splitOf(1, 1))})
	if s.Rerouted != 0 || s.Before.Uncertain != 0 || s.After.Uncertain != 1 || s.After.By.Root != 1 {
		t.Errorf("a new split: %+v", s)
	}
}
