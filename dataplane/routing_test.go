package dataplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// logical is a rig with the models m, small and large, and with logical routes as
// bundles have them, in JSON, in the order in which they are given.
func logical(t testing.TB, routes ...string) rigOption {
	t.Helper()
	return func(ts *syncv1.TenantShard) {
		for i, name := range []string{"small", "large"} {
			ts.Models = append(ts.Models, &configv1.UpstreamModel{
				Id: fmt.Sprintf("upm_l%d", i), TenantId: "ten_1", UpstreamId: "upr_1", Model: name, UpstreamModel: "fake-" + name + "-up",
			})
		}
		for i, text := range routes {
			r := new(configv1.LogicalRoute)
			if err := protojson.Unmarshal([]byte(text), r); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			r.Id, r.TenantId, r.Name, r.Order = fmt.Sprintf("lrt_%d", i), "ten_1", fmt.Sprintf("rule-%d", i), int32(i)
			ts.LogicalRoutes = append(ts.LogicalRoutes, r)
		}
	}
}

// askLogical sends a body, made for the model by the wire or given, and returns the model that
// the provider was asked for last.
func (g *rig) askLogical(t *testing.T, w wire, model, body string, header ...string) (upstream string, resp *http.Response, answer string) {
	t.Helper()
	if body == "" {
		body = w.body(model, false)
	}
	resp, answer = g.send(t, http.MethodPost, strings.ReplaceAll(w.path, "MODEL", model), "application/json", body, append(header, "Anthropic-Version", "2023-06-01")...)
	all := g.provider.Requests()
	if len(all) == 0 {
		return "", resp, answer
	}
	return all[len(all)-1].Model, resp, answer
}

func eachWire(t *testing.T, f func(t *testing.T, w wire)) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			f(t, w)
		})
	}
}

func TestLogicalRouteMatchesNamesPrefixesSuffixesAndAliases(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, w wire) {
		g := newRig(t, logical(
			t,
			`{"match":{"model":"smart","aliases":["clever"]},"targets":[{"model":"large"}]}`,
			`{"match":{"prefixes":["quick-"]},"targets":[{"model":"small"}]}`,
			`{"match":{"suffixes":["-thinking"]},"targets":[{"model":"smart"}]}`,
			`{"match":{"model":"one"},"targets":[{"model":"fake/small"}]}`,
			`{"match":{"model":"off"},"disabled":true,"targets":[{"model":"large"}]}`,
			`{"match":{"model":"elsewhere"},"routeIds":["rte_9"],"targets":[{"model":"large"}]}`,
			`{"match":{"model":"rewritten"},"targets":[{"model":"small"}],"rewrites":[{"operation":"REWRITE_OPERATION_SET","field":"REWRITE_FIELD_MODEL","value":{"stringValue":"large"}}]}`,
		))
		for model, want := range map[string]string{
			"smart": "fake-large-up", "clever": "fake-large-up", "quick-one": "fake-small-up", "any-thinking": "fake-large-up",
			"quick-thinking": "fake-small-up", // the first match wins
			"one":            "fake-small-up", "rewritten": "fake-large-up",
			"m": "fake-large", "alias": "fake-large", "small": "fake-small-up", // without a match as they are
		} {
			if got, resp, body := g.askLogical(t, w, model, ""); resp.StatusCode != http.StatusOK || got != want {
				t.Errorf("%s: status %d, upstream model %q, want %q: %s", model, resp.StatusCode, got, want, body)
			}
		}
		for _, model := range []string{"off", "elsewhere", "unknown"} {
			if _, resp, body := g.askLogical(t, w, model, ""); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s: status %d: %s", model, resp.StatusCode, body)
			}
		}
	})
}

func TestLogicalRouteOfEveryModelSeesTheRequest(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 2000)
	image := map[string]string{
		"openai_chat":             `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`,
		"openai_responses":        `{"model":"m","store":false,"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://example.com/a.png"}]}]}`,
		"anthropic_messages":      `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]}]}`,
		"gemini_generate_content": `{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}]}`,
	}
	thinking := map[string]string{
		"openai_chat": `"reasoning_effort":"high"`, "openai_responses": `"reasoning":{"effort":"high"}`,
		"anthropic_messages":      `"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}`,
		"gemini_generate_content": `"generationConfig":{"thinkingConfig":{"thinkingLevel":"HIGH"}}`,
	}
	tool := map[string]string{
		"openai_chat":             `"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]`,
		"openai_responses":        `"tools":[{"type":"function","name":"look","parameters":{"type":"object"}}]`,
		"anthropic_messages":      `"tools":[{"name":"look","input_schema":{"type":"object"}}]`,
		"gemini_generate_content": `"tools":[{"functionDeclarations":[{"name":"look"}]}]`,
	}
	team := map[string]string{
		"openai_chat": `"metadata":{"team":"red"}`, "openai_responses": `"metadata":{"team":"red"}`, "anthropic_messages": `"metadata":{"user_id":"red"}`,
		"gemini_generate_content": `"labels":{"team":"red"}`,
	}
	compare := func(field, key, op, literal string) string {
		if key != "" {
			key = fmt.Sprintf(`"key":%q,`, key)
		}
		return fmt.Sprintf(`{"condition":{"compare":{"field":"CONDITION_FIELD_%s",%s"operator":"CONDITION_OPERATOR_%s","literal":{%s}}},"targets":[{"model":"large"}]}`, field, key, op, literal)
	}
	eachWire(t, func(t *testing.T, w wire) {
		plain := w.body("m", false)
		with := func(member string) string { return "{" + member + "," + plain[1:] }
		teamKey := map[string]string{"anthropic_messages": "metadata.user_id", "gemini_generate_content": "labels.team"}[w.name]
		if teamKey == "" {
			teamKey = "metadata.team"
		}
		for name, tc := range map[string]struct {
			route, body string
			header      []string
		}{
			"tokens":      {compare("PROMPT_TOKENS", "", "GREATER", `"intValue":"1000"`), strings.Replace(plain, "hello there", long, 1), nil},
			"images":      {compare("HAS_IMAGES", "", "EQUAL", `"boolValue":true`), image[w.name], nil},
			"thinking":    {compare("THINKING", "", "EQUAL", `"boolValue":true`), with(thinking[w.name]), nil},
			"effort":      {compare("REASONING_EFFORT", "", "EQUAL", `"stringValue":"high"`), with(thinking[w.name]), nil},
			"tools":       {compare("HAS_TOOLS", "", "EQUAL", `"boolValue":true`), with(tool[w.name]), nil},
			"name":        {compare("TOOL_NAME", "", "IN", `"listValue":{"values":["look"]}`), with(tool[w.name]), nil},
			"header":      {compare("HEADER", "x-team", "EQUAL", `"stringValue":"red"`), "", []string{"X-Team", "red"}},
			"body":        {compare("BODY_FIELD", teamKey, "EQUAL", `"stringValue":"red"`), with(team[w.name]), nil},
			"consumer":    {compare("CONSUMER", "", "EQUAL", `"stringValue":"con_1"`), "", nil},
			"group":       {compare("GROUP", "", "EQUAL", `"stringValue":"default"`), "", nil},
			"task":        {compare("TASK", "", "PREFIX", `"stringValue":"code"`), "", []string{"X-Gateway-Task", "code-review"}},
			"risk":        {compare("TASK_RISK", "", "EQUAL", `"stringValue":"high"`), "", []string{"X-Gateway-Task-Risk", "high"}},
			"class":       {compare("CLASS", "", "EQUAL", `"stringValue":"batch"`), "", []string{"X-Gateway-Class", "batch"}},
			"protocol":    {compare("PROTOCOL", "", "EQUAL", fmt.Sprintf(`"stringValue":%q`, w.name)), "", nil},
			"tenant":      {compare("TENANT", "", "EQUAL", `"stringValue":"test"`), "", nil},
			"operation":   {compare("OPERATION", "", "EQUAL", `"stringValue":"generate"`), "", nil},
			"not stream":  {compare("STREAM", "", "NOT_EQUAL", `"boolValue":true`), "", nil},
			"not another": {compare("MODEL", "", "NOT_IN", `"listValue":{"values":["large"]}`), "", nil},
		} {
			g := newRig(t, logical(t, tc.route))
			if got, resp, body := g.askLogical(t, w, "m", tc.body, tc.header...); resp.StatusCode != http.StatusOK || got != "fake-large-up" {
				t.Errorf("%s: status %d, upstream model %q: %s", name, resp.StatusCode, got, body)
			}
			if slices.Contains([]string{"consumer", "group", "protocol", "tenant", "operation", "not stream", "not another"}, name) {
				continue
			}
			if got, resp, body := g.askLogical(t, w, "m", ""); resp.StatusCode != http.StatusOK || got != "fake-large" {
				t.Errorf("%s: a request without it: status %d, upstream model %q: %s", name, resp.StatusCode, got, body)
			}
		}
	})
}

func TestLaterTargetsAnswerWhenTheFirstFails(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, w wire) {
		g := newRig(t, logical(t, `{"match":{"model":"smart"},"targets":[{"model":"small","order":1},{"model":"large"}],
			"scheduling":{"maxAttempts":3}}`), oneAccount)
		g.provider.Script(fakeprovider.Match{Model: "fake-large-up"}, fakeprovider.Step{Times: 9, Fail: &fakeprovider.Failure{Kind: fakeprovider.ServerError}})
		got, resp, body := g.askLogical(t, w, "smart", "")
		if resp.StatusCode != http.StatusOK || got != "fake-small-up" || resp.Header.Get("X-Gateway-Fallback-Used") != "true" {
			t.Errorf("status %d, upstream model %q, fallback used %q: %s", resp.StatusCode, got, resp.Header.Get("X-Gateway-Fallback-Used"), body)
		}
		// The innermost policy holds: one attempt, and the failure is the caller's.
		once := newRig(t, logical(t, `{"match":{"model":"smart"},"targets":[{"model":"large"},{"model":"small","order":1}],
			"scheduling":{"maxAttempts":1}}`), oneAccount)
		once.provider.Script(fakeprovider.Match{Model: "fake-large-up"}, fakeprovider.Step{Times: 9, Fail: &fakeprovider.Failure{Kind: fakeprovider.ServerError}})
		if _, resp, body := once.askLogical(t, w, "smart", ""); resp.StatusCode != http.StatusBadGateway {
			t.Errorf("status %d: %s; want the failure of the only attempt", resp.StatusCode, body)
		}
	})
}

// A conversation stays with its target while it grows, and many conversations are
// divided by weight.
func TestConversationsAreSplitByWeightAndStay(t *testing.T) {
	t.Parallel()
	g := newRig(t, logical(t, `{"match":{"model":"smart"},"targets":[{"model":"small","weight":3},{"model":"large","weight":1}]}`))
	w := wires()[0]
	small := 0
	const conversations = 120
	for i := range conversations {
		turn := fmt.Sprintf(`{"model":"smart","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"question %d"}`, i)
		first, resp, body := g.askLogical(t, w, "smart", turn+`]}`)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", resp.StatusCode, body)
		}
		if first == "fake-small-up" {
			small++
		}
		for range 2 {
			turn += `,{"role":"assistant","content":"answer"},{"role":"user","content":"more"}`
			if again, _, _ := g.askLogical(t, w, "smart", turn+`]}`); again != first {
				t.Fatalf("conversation %d moved from %s to %s", i, first, again)
			}
		}
	}
	if small < 70 || small > 108 { // 90 expected, standard deviation 4.7
		t.Errorf("%d of %d conversations went to the target with three quarters of the weight", small, conversations)
	}
}

// A stored answer is continued by the account that has it, whatever the split says.
func TestContinuationOfAStoredAnswerReachesItsOwnerThroughASplit(t *testing.T) {
	t.Parallel()
	g := newRig(t, logical(t, `{"match":{"model":"smart"},"targets":[{"model":"small"},{"model":"large"}]}`))
	w := wires()[1]
	for i := range 8 {
		_, resp, body := g.askLogical(t, w, "smart", fmt.Sprintf(`{"model":"smart","input":"question %d"}`, i))
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", resp.StatusCode, body)
		}
		owner := resp.Header.Get("X-Gateway-Scheduled-Credential-Id")
		_, resp, body = g.askLogical(t, w, "smart", `{"model":"smart","input":"more","previous_response_id":"`+responseID(t, body)+`"}`)
		if got := resp.Header.Get("X-Gateway-Scheduled-Credential-Id"); resp.StatusCode != http.StatusOK || got != owner {
			t.Errorf("status %d by %s, want %s: %s", resp.StatusCode, got, owner, body)
		}
	}
}

func TestListsOfModelsShowTheNamesOfLogicalRoutes(t *testing.T) {
	t.Parallel()
	g := newRig(t, logical(
		t, `{"match":{"model":"smart","aliases":["clever"],"prefixes":["any-"]},"targets":[{"model":"fake/large"}]}`,
		`{"match":{"model":"nested"},"targets":[{"model":"smart"}]}`,
		`{"match":{"model":"elsewhere"},"routeIds":["rte_9"],"targets":[{"model":"large"}]}`,
		`{"match":{"model":"off"},"disabled":true,"targets":[{"model":"large"}]}`,
	), func(ts *syncv1.TenantShard) {
		for _, m := range ts.Models {
			if m.Model == "large" {
				m.MaxContextTokens = 200_000
			}
		}
	})
	for name, tc := range map[string]struct {
		path   string
		header []string
	}{
		"openai": {"/v1/models", nil}, "anthropic": {"/v1/models", []string{"Anthropic-Version", "2023-06-01"}}, "gemini": {"/v1beta/models", nil},
	} {
		resp, body := g.send(t, http.MethodGet, tc.path, "", "", tc.header...)
		for _, model := range []string{"smart", "clever", "nested"} {
			if resp.StatusCode != http.StatusOK || !strings.Contains(body, model+`"`) {
				t.Errorf("%s: status %d, %s is not in %s", name, resp.StatusCode, model, body)
			}
			if resp, body := g.send(t, http.MethodGet, tc.path+"/"+model, "", "", tc.header...); resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s: status %d: %s", name, model, resp.StatusCode, body)
			}
		}
		for _, hidden := range []string{"elsewhere", `off"`, "any-"} {
			if strings.Contains(body, hidden) {
				t.Errorf("%s: %s is in %s", name, hidden, body)
			}
		}
	}
	if _, body := g.send(t, http.MethodGet, "/v1beta/models/smart", "", ""); !strings.Contains(body, "200000") {
		t.Errorf("the bounds of what it leads to are not told: %s", body)
	}
}

func rewriting(t *testing.T, rewrites ...string) rigOption {
	t.Helper()
	return logical(t, `{"match":{"model":"smart"},"targets":[{"model":"small"}],"rewrites":[`+strings.Join(rewrites, ",")+`]}`)
}

func rewriteOf(op, field, rest string) string {
	return fmt.Sprintf(`{"operation":"REWRITE_OPERATION_%s","field":"REWRITE_FIELD_%s"%s}`, op, field, rest)
}

// at reads a value at a path of an upstream's body.
func at(t *testing.T, body []byte, path ...string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	if v == nil {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRewritesReachTheUpstreamInTheWordsOfItsProtocol(t *testing.T) {
	t.Parallel()
	eachWire(t, func(t *testing.T, w wire) {
		g := newRig(
			t, rewriting(
				t, rewriteOf("SET", "TEMPERATURE", `,"value":{"numberValue":0.25}`),
				rewriteOf("DEFAULT", "MAX_OUTPUT_TOKENS", `,"value":{"intValue":"5000"}`),
				rewriteOf("CLAMP", "MAX_OUTPUT_TOKENS", `,"max":"4000"`),
				rewriteOf("SET", "REASONING_EFFORT", `,"value":{"stringValue":"high"}`),
				rewriteOf("SET", "HEADER", `,"key":"X-Team","value":{"stringValue":"blue"}`),
				rewriteOf("REMOVE", "HEADER", `,"key":"X-Secret-Plan"`),
			),
		)
		if _, resp, body := g.askLogical(t, w, "smart", "", "X-Team", "red", "X-Secret-Plan", "yes"); resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", resp.StatusCode, body)
		}
		all := g.provider.Requests()
		sent := all[len(all)-1]
		paths := map[string][3][]string{
			"openai_chat":             {{"temperature"}, {"max_completion_tokens"}, {"reasoning_effort"}},
			"openai_responses":        {{"temperature"}, {"max_output_tokens"}, {"reasoning", "effort"}},
			"anthropic_messages":      {{"temperature"}, {"max_tokens"}, {"output_config", "effort"}},
			"gemini_generate_content": {{"generationConfig", "temperature"}, {"generationConfig", "maxOutputTokens"}, {"generationConfig", "thinkingConfig", "thinkingLevel"}},
		}[w.name]
		most, effort := "4000", `"high"`
		switch w.name {
		case "anthropic_messages":
			most = "64" // the caller said so, and it is within the bound
		case "gemini_generate_content":
			effort = `"HIGH"`
		}
		for i, want := range []string{"0.25", most, effort} {
			if got := at(t, sent.Body, paths[i]...); got != want {
				t.Errorf("%v is %s, want %s, in %s", paths[i], got, want, sent.Body)
			}
		}
		if sent.Header.Get("X-Team") != "blue" || sent.Header.Get("X-Secret-Plan") != "" {
			t.Errorf("headers: %v", sent.Header)
		}
	})
}

// What a rewrite says of a request holds as well where the call is converted.
func TestRewritesComeBeforeConversion(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, p pair) {
		g := newPairRig(t, p, rewriting(
			t, rewriteOf("SET", "MAX_OUTPUT_TOKENS", `,"value":{"intValue":"2222"}`),
			rewriteOf("SET", "HEADER", `,"key":"X-Team","value":{"stringValue":"blue"}`)))
		q := g.question("hello")
		q.Model = "smart"
		if _, err := g.ask(t, q, false); err != nil {
			t.Fatal(err)
		}
		if sent := g.sent(t); !strings.Contains(string(sent.Body), "2222") || sent.Header.Get("X-Team") != "blue" {
			t.Errorf("headers %v: %s", sent.Header, sent.Body)
		}
	})
}

func TestRewriteOfAnEndpointWithoutSettingsIsLeftOut(t *testing.T) {
	t.Parallel()
	g := newRig(t, rewriting(t, rewriteOf("SET", "TEMPERATURE", `,"value":{"numberValue":0.25}`)))
	const body = `{"model":"smart","input":"text"}`
	resp, answer := g.post(t, "/v1/embeddings", body)
	all := g.provider.Requests()
	if resp.StatusCode != http.StatusOK || strings.Contains(string(all[len(all)-1].Body), "temperature") {
		t.Errorf("status %d: %s; sent %s", resp.StatusCode, answer, all[len(all)-1].Body)
	}
}

func TestAQuestionIsToldTheLogicalRoutesThatItPasses(t *testing.T) {
	t.Parallel()
	g := newRig(t, logical(
		t,
		`{"match":{"model":"smart"},"targets":[{"model":"large"}]}`,
		`{"match":{"suffixes":["-thinking"]},"targets":[{"model":"smart"}]}`,
	))
	for model, want := range map[string][]string{"quick-thinking": {"rule-1", "rule-0"}, "small": nil} {
		rec, f := g.node.Explain(&Question{Model: model}, time.Now())
		if f != nil || rec.Refusal != nil {
			t.Fatalf("%s: %v, %+v", model, f, rec)
		}
		if !slices.Equal(rec.LogicalRoutes, want) {
			t.Errorf("%s passed %v, want %v", model, rec.LogicalRoutes, want)
		}
	}
}
