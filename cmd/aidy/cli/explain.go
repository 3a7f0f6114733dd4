package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane"
	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

type explainCommand struct {
	ID string `arg:"" optional:"" help:"Decision or request that was made, instead of a call that nobody makes." placeholder:"ID"`

	Node string `help:"Operations port of a node, such as http://127.0.0.1:9090: the answer is what that node would do in the state it is in. Without it the control plane answers for a node that has just started." placeholder:"URL" env:"AIDY_NODE_URL"`

	Tenant   string `short:"t" help:"Tenant that calls, by name or id." env:"AIDY_TENANT" placeholder:"TENANT"`
	Route    string `help:"Route that is called, by name or id. Default: the tenant's first one that takes the protocol." placeholder:"ROUTE"`
	Key      string `help:"Id of the key that calls. Default: the tenant alone, which may use every model." placeholder:"ID"`
	Protocol string `help:"Protocol of the call: openai_chat, openai_responses, anthropic_messages or gemini_generate_content." default:"openai_chat" placeholder:"NAME"`
	Model    string `help:"Model that is asked for." placeholder:"NAME"`
	Stream   bool   `help:"The answer is streamed."`

	Tokens     int64    `help:"Size of the prompt." placeholder:"N"`
	MaxOutput  int64    `help:"Most tokens that the caller lets the model make." placeholder:"N"`
	Images     int      `help:"Images in the prompt." placeholder:"N"`
	Tools      int      `help:"Tools that the caller runs." placeholder:"N"`
	ServerTool []string `help:"Tool that the provider runs, such as web_search. Can be repeated." placeholder:"NAME"`
	Structured bool     `help:"The answer must follow a schema."`
	Thinking   bool     `help:"The caller asks for reasoning."`
	Session    string   `help:"Name of the session that the call belongs to." placeholder:"NAME"`
	Task       string   `help:"Task, as in the header x-gateway-task." placeholder:"NAME"`
	Class      string   `help:"Traffic class, as in the header x-gateway-class." placeholder:"NAME"`
	Body       string   `help:"File with the whole body of a call, which is looked at and not kept; - is standard input." placeholder:"FILE"`

	Draft string `help:"File with a bundle: the answer is as if it had been applied. Not with --node." placeholder:"FILE"`
}

func (explainCommand) Help() string {
	return `Says where a call would go and why: for every account the filter that takes it out, or what it would cost, in nano-USD. Nothing is sent, and no state changes.

The accounts of a selection stand in the order in which they would be tried. HIT are tokens of the prompt that are expected in the account's cache, and USE is the share of its limits and slots that is taken. The cheapest is not always the first: accounts that cost nearly the same go by cache, session and use.

Examples:

    aidy explain --tenant dev --model gpt-5 --tokens 20000
    aidy explain --tenant dev --model gpt-5 --body request.json --node http://127.0.0.1:9090
    aidy explain --tenant dev --model gpt-5 --draft new.yaml -o json | jq .chosen
    aidy explain req_01j9z8k7 --node http://127.0.0.1:9090
    aidy explain dec_01j9z8k7`
}

// maxBody bounds a body that a question is asked about: the largest that a route takes.
const maxBody = 64 << 20

// nodeTime bounds a question to a node.
const nodeTime = 30 * time.Second

func (c *explainCommand) Run(ctx context.Context, a *app) error {
	if c.Draft != "" && c.Node != "" {
		return usage("--draft: a node knows its own configuration alone; leave out --node")
	}
	raw, err := c.ask(ctx, a)
	if err != nil {
		return err
	}
	if a.globals.Output != "table" {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		return a.plain(v)
	}
	rec := new(decision.Record)
	if err := json.Unmarshal(raw, rec); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return a.explain(rec)
}

func (c *explainCommand) ask(ctx context.Context, a *app) ([]byte, error) {
	if c.ID != "" {
		if c.Node != "" {
			return fromNode(ctx, http.MethodGet, c.Node, "/decisions/"+url.PathEscape(c.ID), nil)
		}
		conn, err := a.connect()
		if err != nil {
			return nil, err
		}
		res, err := conn.observe.GetDecision(ctx, &adminv1.GetDecisionRequest{DecisionId: c.ID})
		return []byte(res.GetDecisionJson()), err
	}
	question, err := c.question(a)
	if err != nil {
		return nil, err
	}
	if c.Node != "" {
		return fromNode(ctx, http.MethodPost, c.Node, "/explain", question)
	}
	req := &adminv1.ExplainRequest{QuestionJson: string(question)}
	if c.Draft != "" {
		if req.Draft, err = a.readBundle(c.Draft); err != nil {
			return nil, err
		}
	}
	conn, err := a.connect()
	if err != nil {
		return nil, err
	}
	res, err := conn.config.Explain(ctx, req)
	return []byte(res.GetDecisionJson()), err
}

func (c *explainCommand) question(a *app) ([]byte, error) {
	q := dataplane.Question{
		Tenant: c.Tenant, Route: c.Route, APIKey: c.Key, Protocol: c.Protocol, Model: c.Model, Stream: c.Stream,
		PromptTokens: c.Tokens, MaxOutputTokens: c.MaxOutput, Images: c.Images, Tools: c.Tools, ServerTools: c.ServerTool,
		StructuredOutput: c.Structured, Thinking: c.Thinking, SessionKey: c.Session, Task: c.Task, Class: c.Class,
	}
	if c.Body == "" && c.Model == "" {
		return nil, usage("name a call with --model or --body, or a decision by its id")
	}
	if c.Body != "" {
		name, r, err := a.open(c.Body)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		if q.Body, err = io.ReadAll(io.LimitReader(r, maxBody+1)); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		switch {
		case len(q.Body) > maxBody:
			return nil, fmt.Errorf("%s: larger than %d bytes", name, maxBody)
		case !json.Valid(q.Body):
			return nil, fmt.Errorf("%s: not JSON", name)
		}
	}
	out, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("write the question: %w", err)
	}
	return out, nil
}

// fromNode calls the operations port of a node.
func fromNode(ctx context.Context, method, node, path string, body []byte) ([]byte, error) {
	if u, err := url.Parse(node); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usage("--node: %q is no address of an operations port, such as http://127.0.0.1:9090", node)
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(node, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, usage("--node: %s", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the node: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the node's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var told struct{ Error string }
		if json.Unmarshal(answer, &told) != nil || told.Error == "" {
			told.Error = "is this the operations port of a node?"
		}
		return nil, fmt.Errorf("the node answered %s: %s", resp.Status, told.Error)
	}
	return answer, nil
}

// explain prints a decision for people.
func (a *app) explain(rec *decision.Record) error {
	f := &rec.Features
	fmt.Fprintf(a.Stdout, "decision %s at %s, generation %d\n", rec.ID, rec.At.UTC().Format(time.RFC3339), rec.PolicyGeneration)
	fmt.Fprintf(a.Stdout, "call     %s %s, model %s, %d prompt tokens, %d output tokens expected\n", f.Protocol, f.Operation, orElse(f.Model, "-"), f.PromptTokens, f.OutputTokens)
	if len(rec.LogicalRoutes) > 0 {
		fmt.Fprintf(a.Stdout, "routes   %s\n", strings.Join(rec.LogicalRoutes, ", then "))
	}
	fmt.Fprintln(a.Stdout, strings.Join(strings.Fields("affinity "+orElse(rec.Affinity.Kind, "none")+" "+rec.Affinity.Fingerprint+" "+rec.Affinity.Outcome), " "))
	for _, m := range rec.Affinity.Matches {
		fmt.Fprintf(a.Stdout, "         %s: %d tokens, %.0f %% sure, %s old\n", m.Scope, m.Tokens, 100*m.Live, time.Duration(m.AgeMS)*time.Millisecond)
	}
	candidates := make(map[string]*decision.Candidate, len(rec.Candidates))
	for i := range rec.Candidates {
		candidates[rec.Candidates[i].ID] = &rec.Candidates[i]
	}
	for i := range rec.Selections {
		if err := a.selection(&rec.Selections[i], candidates); err != nil {
			return err
		}
	}
	if len(rec.Selections) > 0 {
		fmt.Fprintln(a.Stdout)
	}
	for i, t := range rec.Attempts {
		how := "ok"
		if t.Class != "" {
			how = t.Class + ", consumed " + t.Consumed
		}
		fmt.Fprintf(a.Stdout, "attempt %d %s at %s: status %d, %s, %.0f ms\n", i+1, t.Stage, called(t.Candidate, candidates), t.Status, how, t.TookMS)
		if r := t.Cooldown; r != nil {
			fmt.Fprintf(a.Stdout, "          cooldown %s of %s until %s (%s)\n", r.Kind, r.Scope, r.Until.UTC().Format(time.RFC3339), r.Source)
		}
	}
	switch {
	case rec.Refusal != nil:
		fmt.Fprintf(a.Stdout, "refused  %d %s: %s\n", rec.Refusal.Status, rec.Refusal.Code, rec.Refusal.Text)
		if rec.Refusal.Pool != "" {
			fmt.Fprintf(a.Stdout, "         %s\n", rec.Refusal.Pool)
		}
	case rec.Chosen != "":
		fmt.Fprintf(a.Stdout, "chosen   %s (%s)\n", called(rec.Chosen, candidates), rec.Stage)
	}
	if len(rec.Uncertain) > 0 {
		fmt.Fprintf(a.Stdout, "uncertain: a logical route turned on what is not known of the request and was taken for absent: %s\n", strings.Join(rec.Uncertain, ", "))
	}
	if rec.Cut != "" {
		fmt.Fprintf(a.Stdout, "The record was cut for its size: no %s.\n", rec.Cut)
	}
	return nil
}

func called(id string, candidates map[string]*decision.Candidate) string {
	c := candidates[id]
	if c == nil {
		return id
	}
	name := c.Provider + "/" + c.Upstream
	if c.Credential != "" {
		name += "/" + c.Credential
	}
	return name + " " + c.Model
}

func (a *app) selection(s *decision.Selection, candidates map[string]*decision.Candidate) error {
	left := make([]string, len(s.Filters))
	for i, f := range s.Filters {
		left[i] = f.Filter + " " + strconv.Itoa(f.Left)
	}
	fmt.Fprintf(a.Stdout, "\n%s: %s; left after each filter: %s\n", s.Stage, orElse(s.How, "nobody"), strings.Join(left, ", "))
	rows := slices.Clone(s.Rows)
	at := func(r decision.Row) int {
		if i := slices.Index(s.Order, r.Candidate); i >= 0 {
			return i
		}
		return len(s.Order)
	}
	slices.SortStableFunc(rows, func(x, y decision.Row) int { return at(x) - at(y) })
	table := make([][]string, 0, len(rows))
	for _, r := range rows {
		row := []string{"", called(r.Candidate, candidates), r.Reason, "", "", "", "", "", "", "", "", ""}
		if i := at(r); i < len(s.Order) {
			row[0] = strconv.Itoa(i + 1)
		}
		if x := r.Score; x != nil {
			t := x.Terms
			other := t.Warmup + t.Queue + t.Error + t.Quota + t.Session + t.Quality + t.Budget
			for i, n := range [...]int64{x.Total, t.Input, t.Output, t.Latency, t.Load, t.Priority, other, x.Hit} {
				row[3+i] = strconv.FormatInt(n, 10)
			}
			row[11] = strconv.FormatFloat(100*x.Use, 'f', 0, 64) + "%"
		}
		if r.Resting != nil {
			row[2] += " until " + r.Resting.Until.UTC().Format(time.TimeOnly)
		}
		table = append(table, row)
	}
	return a.table([]string{"#", "ACCOUNT", "OUT FOR", "TOTAL", "INPUT", "OUTPUT", "LATENCY", "LOAD", "PRIORITY", "OTHER", "HIT", "USE"}, table)
}
