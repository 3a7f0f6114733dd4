package decision

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
)

// Record is everything that was decided about one request.
type Record struct {
	ID                 string    `json:"id"`
	RequestID          string    `json:"request_id,omitempty"` // empty for a question that was never a request
	At                 time.Time `json:"at"`
	PolicyGeneration   uint64    `json:"policy_generation"`
	IdentityGeneration uint64    `json:"identity_generation"`
	Dry                bool      `json:"dry,omitempty"` // nothing was sent and no state changed

	Features Features `json:"features"`
	Affinity Affinity `json:"affinity"`

	// LogicalRoutes are the names of those that the request passed, in their order.
	LogicalRoutes []string `json:"logical_routes,omitempty"`

	// Candidates are all accounts that could serve. Selections refer to them by their ids.
	Candidates []Candidate `json:"candidates"`
	Selections []Selection `json:"selections"`
	Attempts   []Attempt   `json:"attempts,omitempty"`

	Chosen   string   `json:"chosen,omitempty"` // id of the candidate that served, or would
	Stage    string   `json:"stage,omitempty"`  // of the chosen one
	Stop     string   `json:"stop,omitempty"`
	QueuedMS float64  `json:"queued_ms,omitempty"`
	Refusal  *Refusal `json:"refusal,omitempty"`

	// Uncertain are the inputs of conditions on which this turned and that nobody has: they
	// are not recorded, or the question does not state them. Absent was taken for them.
	Uncertain []string `json:"uncertain,omitempty"`

	// Cut says what was left out for the size of the record.
	Cut string `json:"cut,omitempty"`
}

// Affinity is what was known of earlier requests with the same prefix or session.
type Affinity struct {
	Kind        string  `json:"kind"`
	Fingerprint string  `json:"fingerprint,omitempty"` // 8 hexadecimal digits
	Outcome     string  `json:"outcome,omitempty"`
	HeadRecent  int64   `json:"head_recent,omitempty"`
	PriorConf   float64 `json:"prior_confidence,omitempty"`
	Matches     []Match `json:"matches,omitempty"`
}

// Match is a cache scope that is likely to hold a prefix of the prompt.
type Match struct {
	Scope      string  `json:"scope"` // its name if it is that of a candidate, else "other"
	Tokens     int64   `json:"tokens"`
	Confidence float64 `json:"confidence"`
	Live       float64 `json:"live"`
	AgeMS      int64   `json:"age_ms"`
	Session    bool    `json:"session,omitempty"`
}

// Candidate is an account that could serve the request.
type Candidate struct {
	ID           string `json:"id"`
	Provider     string `json:"provider"` // name
	ProviderID   string `json:"provider_id"`
	Upstream     string `json:"upstream"` // name
	UpstreamID   string `json:"upstream_id"`
	Credential   string `json:"credential,omitempty"` // name
	CredentialID string `json:"credential_id,omitempty"`
	Model        string `json:"model"` // as the upstream knows it
	Protocol     string `json:"protocol"`
	Role         string `json:"role"`
	Priority     int32  `json:"priority"`
	Weight       int32  `json:"weight"`
	CacheScope   string `json:"cache_scope"`
}

// Selection is one pass through filters, scores and order.
type Selection struct {
	Stage   string      `json:"stage"`
	How     string      `json:"how,omitempty"`
	Open    int         `json:"open_priorities"`
	Filters []Remaining `json:"filters"`
	Order   []string    `json:"order"` // ids, the winner first
	Rows    []Row       `json:"rows"`
}

// Remaining is how many candidates a filter left.
type Remaining struct {
	Filter string `json:"filter"`
	Left   int    `json:"left"`
}

// Row is what a selection says of one candidate of its stage.
type Row struct {
	Candidate string `json:"candidate"`
	Reason    string `json:"reason,omitempty"`
	Resting   *Rest  `json:"cooldown,omitempty"`
	Score     *Score `json:"score,omitempty"` // of one that passed the filters
}

// Score is what a candidate would cost. Money is in nano-USD.
type Score struct {
	Total     int64   `json:"total"`
	Money     int64   `json:"money"`
	Hit       int64   `json:"hit_tokens"`
	Use       float64 `json:"use"`
	Priority  int     `json:"priority_index"`
	WaitMS    float64 `json:"wait_ms,omitempty"`
	TTFTMS    float64 `json:"ttft_ms"`
	ErrorRate float64 `json:"error_rate,omitempty"`
	Bound     bool    `json:"session_bound,omitempty"`
	Escaped   bool    `json:"escaped,omitempty"`
	Probe     bool    `json:"probe,omitempty"`
	Terms     Terms   `json:"terms"`
}

// Terms are the parts of a total, in nano-USD.
type Terms struct {
	Input    int64 `json:"input"`
	Output   int64 `json:"output"`
	Latency  int64 `json:"latency"`
	Warmup   int64 `json:"warmup,omitempty"`
	Queue    int64 `json:"queue,omitempty"`
	Error    int64 `json:"error,omitempty"`
	Load     int64 `json:"load,omitempty"`
	Priority int64 `json:"priority,omitempty"`
	Quota    int64 `json:"quota,omitempty"`
	Session  int64 `json:"session,omitempty"`
	Quality  int64 `json:"quality,omitempty"`
	Budget   int64 `json:"budget,omitempty"`
}

// Rest is a cooldown.
type Rest struct {
	Scope     string    `json:"scope"`
	Kind      string    `json:"kind"`
	Until     time.Time `json:"until"`
	Announced bool      `json:"announced,omitempty"` // the upstream said how long
	Source    string    `json:"source,omitempty"`
	Status    int       `json:"status,omitempty"`
	RequestID string    `json:"request_id,omitempty"` // whose failure started it
	Node      string    `json:"node,omitempty"`
}

// Attempt is one call of an upstream.
type Attempt struct {
	Candidate         string    `json:"candidate"`
	Stage             string    `json:"stage"`
	OK                bool      `json:"ok"`
	Class             string    `json:"class,omitempty"` // of a failure
	Status            int       `json:"status,omitempty"`
	WaitedMS          float64   `json:"waited_ms,omitempty"`
	Started           time.Time `json:"started"`
	TookMS            float64   `json:"took_ms"`
	Consumed          string    `json:"consumed,omitempty"`
	Cooldown          *Rest     `json:"cooldown,omitempty"` // that it started
	UpstreamRequestID string    `json:"upstream_request_id,omitempty"`
}

// Refusal is the error that the client was, or would be, told.
type Refusal struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Class  string `json:"class"`
	Text   string `json:"text,omitempty"`
	Pool   string `json:"pool,omitempty"`
}

// Of writes down what was decided about a request and what became of it. It copies what
// it needs: a record keeps no configuration alive.
func Of(r *attempt.Request, res *attempt.Result, requestID string) *Record {
	rec := &Record{
		ID: res.DecisionID, RequestID: requestID, At: r.Start,
		PolicyGeneration: r.View.Policy.Generation, IdentityGeneration: r.View.Identity.Generation,
		Features:   FeaturesOf(r, outputTokens(res)),
		Candidates: make([]Candidate, len(r.Candidates)),
		Stop:       string(res.Stop),
		QueuedMS:   ms(res.Queued),
	}
	rec.Features.NativeOnly = res.NativeOnly
	for i := range r.Candidates {
		c := &r.Candidates[i]
		rec.Candidates[i] = Candidate{
			ID: c.ID, Provider: c.Provider.GetName(), ProviderID: c.Upstream.GetProviderId(),
			Upstream: c.Upstream.GetName(), UpstreamID: c.Upstream.GetId(),
			Credential: c.Credential.GetName(), CredentialID: c.CredentialID(),
			Model: c.UpstreamModel(), Protocol: protocolText(c.Protocol), Role: c.Role.String(),
			Priority: c.Priority, Weight: c.Weight, CacheScope: c.Cache(r.Scheduling.Policy.Cache).Scope,
		}
	}
	rec.affinity(r, res)
	for _, sel := range res.Selections {
		rec.Selections = append(rec.Selections, rec.selection(sel))
	}
	for i := range res.Tries {
		rec.Attempts = append(rec.Attempts, attemptOf(&res.Tries[i]))
	}
	if c := res.Winner; c != nil {
		rec.Chosen, rec.Stage = c.ID, res.Stage()
	}
	rec.Refusal = RefusalOf(res.Fault)
	return rec
}

// OfChoice writes down where a request would go.
func OfChoice(r *attempt.Request, c *attempt.Choice, requestID string) *Record {
	rec := Of(r, &c.Result, requestID)
	if c.Candidate != nil {
		rec.Chosen, rec.Stage = c.Candidate.ID, c.Stage.String()
	}
	return rec
}

// RefusalOf is what a client is told of a fault; nil for none.
func RefusalOf(f *fault.Error) *Refusal {
	if f == nil {
		return nil
	}
	out := &Refusal{Status: f.Status(), Code: f.StableCode(), Class: f.Class.String(), Text: Cut(f.Text())}
	if f.Gateway != nil {
		out.Pool = f.Gateway.Pool
	}
	return out
}

func outputTokens(res *attempt.Result) int64 {
	for _, s := range res.Selections {
		return s.OutputTokens()
	}
	return 0
}

func (rec *Record) affinity(r *attempt.Request, res *attempt.Result) {
	rec.Affinity.Kind = affinity.None.String()
	rec.Affinity.Outcome = string(res.Affinity)
	k := r.Scheduling.Affinity
	if k == nil {
		return
	}
	rec.Affinity.Kind, rec.Affinity.Fingerprint = k.Kind.String(), rec.Features.Prefix.Fingerprint
	rec.Affinity.HeadRecent, rec.Affinity.PriorConf = r.Scheduling.HeadRecent, r.Scheduling.PriorConf
	for i := range r.Scheduling.Matches {
		m := &r.Scheduling.Matches[i]
		scope := "other"
		for j := range rec.Candidates {
			if affinity.ScopeOf(rec.Candidates[j].CacheScope) == m.Scope {
				scope = rec.Candidates[j].CacheScope
				break
			}
		}
		rec.Affinity.Matches = append(rec.Affinity.Matches, Match{
			Scope: scope, Tokens: m.Tokens, Confidence: m.Confidence, Live: m.Live(), AgeMS: m.Age.Milliseconds(), Session: m.Session,
		})
	}
}

func (rec *Record) selection(sel *schedule.Selection) Selection {
	out := Selection{
		Stage: sel.Stage.String(), How: string(sel.How), Open: sel.Open,
		Order: make([]string, 0, len(sel.Order)), Rows: make([]Row, 0, len(sel.Rows)),
	}
	for _, f := range sel.Filters() {
		out.Filters = append(out.Filters, Remaining(f))
	}
	for _, i := range sel.Order {
		out.Order = append(out.Order, rec.Candidates[i].ID)
	}
	for i := range sel.Rows {
		row := &sel.Rows[i]
		if row.Outside {
			continue
		}
		to := Row{Candidate: rec.Candidates[i].ID, Reason: string(row.Reason), Resting: restOf(sel.Resting(i))}
		if sel.Scored(i) {
			ttft, errs, _ := sel.Vitals(i)
			to.Score = &Score{
				Total: row.Total, Money: row.Money, Hit: row.Hit, Use: row.Use, Priority: row.Priority,
				WaitMS: ms(max(row.Wait, row.SlotWait)), TTFTMS: ttft, ErrorRate: errs,
				Bound: row.Bound, Escaped: row.Escaped, Probe: row.Probe, Terms: Terms(row.Terms),
			}
		}
		out.Rows = append(out.Rows, to)
	}
	return out
}

func attemptOf(t *attempt.Tried) Attempt {
	a := Attempt{
		Candidate: t.Candidate.ID, Stage: t.Stage, OK: t.OK, Status: t.Status, WaitedMS: ms(t.Waited),
		Started: t.Started, TookMS: ms(t.Took), Cooldown: restOf(t.Cooldown), UpstreamRequestID: Cut(t.UpstreamRequestID),
	}
	if !t.OK || t.Class != 0 {
		a.Class, a.Consumed = t.Class.String(), t.Consumed.String()
	}
	return a
}

func restOf(r *schedule.Rest) *Rest {
	if r == nil {
		return nil
	}
	return &Rest{
		Scope: r.Scope.String(), Kind: r.Kind, Until: r.Until, Announced: r.Announced, Source: r.Source,
		Status: r.Status, RequestID: r.RequestID, Node: r.Node,
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// protocolText is a protocol's name in records: that of the configuration.
func protocolText(p configv1.Protocol) string {
	return strings.ToLower(strings.TrimPrefix(p.String(), "PROTOCOL_"))
}

// scoredCandidates is how many candidates a record of bounded size shows scores of.
const scoredCandidates = 32

// Encode returns the record as JSON of at most limit bytes; 0 is no bound. What does not
// fit is left out in this order, and Cut says so: the scores where there are more than 32
// candidates, all scores, the rows of candidates of which nothing but a reason is known,
// everything but what was chosen and what was tried.
func (rec *Record) Encode(limit int) ([]byte, error) {
	small := *rec
	if limit > 0 && len(rec.Candidates) > scoredCandidates {
		small.dropScores()
	}
	for step := 0; ; step++ {
		out, err := json.Marshal(&small)
		if err != nil {
			return nil, fmt.Errorf("encode decision %s: %w", rec.ID, err)
		}
		if limit <= 0 || len(out) <= limit || step > 2 {
			return out, nil
		}
		switch step {
		case 0:
			small.dropScores()
		case 1:
			small.dropRows()
		case 2:
			small.Candidates, small.Selections, small.Affinity.Matches = nil, nil, nil
			small.Attempts = small.Attempts[:min(len(small.Attempts), 8)]
			small.Cut = "candidates and selections"
		}
	}
}

func (rec *Record) dropScores() {
	rec.Selections = slices.Clone(rec.Selections)
	for i := range rec.Selections {
		s := &rec.Selections[i]
		s.Rows = slices.Clone(s.Rows)
		for j := range s.Rows {
			s.Rows[j].Score, s.Rows[j].Resting = nil, nil
		}
	}
	rec.Cut = "scores"
}

// dropRows leaves the counts of the filters and the order.
func (rec *Record) dropRows() {
	rec.Selections = slices.Clone(rec.Selections)
	used := make(map[string]bool)
	for i := range rec.Selections {
		s := &rec.Selections[i]
		s.Rows = nil
		s.Order = s.Order[:min(len(s.Order), 8)]
		for _, id := range s.Order {
			used[id] = true
		}
	}
	for i := range rec.Attempts {
		used[rec.Attempts[i].Candidate] = true
	}
	rec.Candidates = slices.DeleteFunc(slices.Clone(rec.Candidates), func(c Candidate) bool { return !used[c.ID] })
	rec.Cut = "rows"
}
