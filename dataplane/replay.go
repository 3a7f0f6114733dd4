package dataplane

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"math"
	"slices"
	"time"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// Replay decides recorded requests again, under two configurations side by side. Both
// begin with the state of a node that has just started and have their own from there:
// slots, limits, rotation, and what of which prompt is cached where follow from each
// side's own choices. Accounts do not fail, so there are no cooldowns. What differs
// between the sides is then the configuration's doing alone. It is deterministic, sends
// nothing, and is not safe for concurrent use.
type Replay struct {
	sides   [2]*side
	summary ReplaySummary
	changes map[changeKey]*Change
	reasons map[string]*RefusalChange
}

// side is one configuration of a replay with its state.
type side struct {
	*Planner
	running running
	totals  SideTotals
}

// ReplaySummary is what a replay comes to. Before is the current configuration and After
// the draft.
type ReplaySummary struct {
	From    time.Time `json:"from"` // of the first recorded request
	To      time.Time `json:"to"`
	Rows    int64     `json:"rows"`    // that were looked at
	Decided int64     `json:"decided"` // that were decided again
	Skipped []Skipped `json:"skipped"` // rows that could not be, by why

	// Reproduced is how many the current configuration sends to the account that served
	// them then.
	Reproduced int64 `json:"reproduced"`

	// Rerouted is how many the current configuration leads to another model than then, of
	// those of which it is recorded.
	Rerouted int64 `json:"rerouted"`

	Changed struct {
		Target   int64 `json:"target"`   // another provider or model
		Account  int64 `json:"account"`  // another credential or upstream, of those with the same target too
		Protocol int64 `json:"protocol"` // called in another protocol
	} `json:"changed"`

	Refusals struct {
		New     int64           `json:"new"`  // refused under the draft alone
		Gone    int64           `json:"gone"` // refused under the current configuration alone
		Reasons []RefusalChange `json:"reasons"`
	} `json:"refusals"`

	Before SideTotals `json:"before"`
	After  SideTotals `json:"after"`

	// CostDeltaNanos is what the draft costs more, of the requests that both sides serve.
	CostDeltaNanos int64 `json:"cost_delta_nanos"`

	// Changes are the most frequent moves.
	Changes     []Change `json:"changes"`
	OtherMoves  int64    `json:"other_moves"` // requests of moves that are not listed
	Assumptions string   `json:"assumptions"`
}

// SideTotals are the sums of one side.
type SideTotals struct {
	Served       int64 `json:"served"`
	Refused      int64 `json:"refused"`
	PromptTokens int64 `json:"prompt_tokens"`
	HitTokens    int64 `json:"hit_tokens"` // of the prompts, expected to be read from caches
	CostNanos    int64 `json:"cost_nanos"`
	Unpriced     int64 `json:"unpriced"` // served by accounts without a price

	// Uncertain is how many requests were led by a condition, or a share by weight, whose
	// input is not recorded: it was taken for absent, and the target may be another one.
	Uncertain int64 `json:"uncertain"`
	By        struct {
		Header    int64 `json:"header"`
		BodyField int64 `json:"body_field"`
		ToolName  int64 `json:"tool_name"`
		Effort    int64 `json:"reasoning_effort"`
		Root      int64 `json:"conversation"`
	} `json:"uncertain_by"` // a request with several inputs counts for each
}

// Skipped is why rows were not decided again.
type Skipped struct {
	Why  string `json:"why"`
	Rows int64  `json:"rows"`
}

// RefusalChange counts requests that are refused on one side alone.
type RefusalChange struct {
	Reason string `json:"reason"` // code of the error, and the filter that left nobody
	New    int64  `json:"new"`
	Gone   int64  `json:"gone"`
}

// Change is a move of requests from one account to another.
type Change struct {
	Model          string   `json:"model"`
	From           string   `json:"from"`
	To             string   `json:"to"`
	Requests       int64    `json:"requests"`
	CostDeltaNanos int64    `json:"cost_delta_nanos"`
	HitDelta       int64    `json:"hit_delta_tokens"`
	Examples       []string `json:"examples"` // ids of requests
}

type changeKey struct{ model, from, to string }

// Bounds of a replay.
const (
	maxMoves    = 10_000 // told apart
	listedMoves = 20
	examples    = 3
	maxRunning  = 20_000
	maxTook     = time.Hour
)

const assumptions = "Accounts answer every request they get, in the time and with the output that was recorded; a prompt that an account has seen is read from its cache while the cache may live."

// NewReplay returns a Replay that has decided nothing.
func NewReplay(current, draft *snapshot.View) *Replay {
	return &Replay{
		sides:   [2]*side{{Planner: NewPlanner(current)}, {Planner: NewPlanner(draft)}},
		changes: make(map[changeKey]*Change), reasons: make(map[string]*RefusalChange),
	}
}

// verdict is where one side sends a request.
type verdict struct {
	refusal  string // why nobody gets it; empty if somebody does
	routed   string // the model that it is led to; empty if refused before that
	target   string
	account  string
	protocol string
	id       string // of the credential, or the upstream without one
	hit      int64
	cost     int64
	priced   bool
}

// Add decides one recorded request. Requests come in the order of their times.
func (r *Replay) Add(rec *ledgerv1.RequestRecord) {
	s := &r.summary
	s.Rows++
	at := rec.GetStartTime().AsTime()
	if s.From.IsZero() {
		s.From = at
	}
	s.To = at
	f := new(decision.Features)
	switch {
	case rec.GetFeaturesJson() == "":
		r.skip("the row has no features: the request was refused before anything was decided")
		return
	case json.Unmarshal([]byte(rec.GetFeaturesJson()), f) != nil:
		r.skip("the features of the row cannot be read")
		return
	case f.Model == "" || protocol.OperationNamed(f.Operation) == protocol.OpUnknown:
		r.skip("the call names no model")
		return
	}
	var v [2]verdict
	for i, side := range r.sides {
		v[i] = side.decide(rec, f, at)
	}
	s.Decided++
	if served := cmp.Or(rec.GetCredentialId(), rec.GetUpstreamId()); served != "" && served == v[0].id {
		s.Reproduced++
	}
	if f.Routing != nil && v[0].routed != f.Routing.Model {
		s.Rerouted++
	}
	r.compare(rec, f, &v[0], &v[1])
}

func (r *Replay) skip(why string) {
	i := slices.IndexFunc(r.summary.Skipped, func(x Skipped) bool { return x.Why == why })
	if i < 0 {
		i = len(r.summary.Skipped)
		r.summary.Skipped = append(r.summary.Skipped, Skipped{Why: why})
	}
	r.summary.Skipped[i].Rows++
}

// decide chooses for one request, and lets it run for as long as it ran.
func (s *side) decide(rec *ledgerv1.RequestRecord, f *decision.Features, at time.Time) verdict {
	s.finish(at)
	ask := &asked{recorded: f, id: rec.GetRequestId()}
	req, fail := s.node.again(ask, s.callers, at)
	s.guessed(ask.guessed)
	if fail != nil {
		return s.refused(fail, nil)
	}
	req.ID = rec.GetRequestId() // what is drawn by chance follows from it
	choice := s.node.executor.Choose(req, false, at)
	c := choice.Candidate
	if c == nil {
		v := s.refused(choice.Fault, &choice.Result)
		v.routed = decision.Cut(req.Routed)
		return v
	}
	used := usage(rec, f, choice)
	v := verdict{
		routed: decision.Cut(req.Routed),
		target: c.Provider.GetName() + " " + c.UpstreamModel(), account: c.Provider.GetName() + "/" + c.Upstream.GetName(),
		protocol: string(protocolName(c.Protocol)), id: c.CredentialKey, hit: used.CacheRead,
	}
	if c.Credential != nil {
		v.account += "/" + c.Credential.GetName()
	}
	v.account += " " + c.UpstreamModel()
	p, fresh := choice.Price, choice.Price.In
	if f.Prefix != nil && f.Prefix.Writes && p.Write > 0 {
		fresh = p.Write
	}
	v.priced = p.In > 0 || p.Out > 0
	v.cost = int64(math.Round(float64(used.PromptTokens()-used.CacheRead)*fresh + float64(used.CacheRead)*p.Read + float64(used.CompletionTokens())*p.Out))
	t := &s.totals
	t.Served++
	t.PromptTokens += used.PromptTokens()
	t.HitTokens += v.hit
	t.CostNanos += v.cost
	if !v.priced {
		t.Unpriced++
	}
	took := min(time.Duration(max(rec.GetDurationUs(), 0))*time.Microsecond, maxTook)
	heap.Push(&s.running, run{end: at.Add(choice.Queued + took), seq: t.Served, choice: choice, used: used})
	if len(s.running) > maxRunning {
		s.pop()
	}
	return v
}

// guessed counts a request whose target turned on something that is not recorded.
func (s *side) guessed(in resolve.Inputs) {
	if in == 0 {
		return
	}
	t := &s.totals
	t.Uncertain++
	for _, x := range [...]struct {
		in resolve.Inputs
		n  *int64
	}{
		{resolve.InputHeader, &t.By.Header},
		{resolve.InputBody, &t.By.BodyField},
		{resolve.InputTools, &t.By.ToolName},
		{resolve.InputEffort, &t.By.Effort},
		{resolve.InputRoot, &t.By.Root},
	} {
		if in&x.in != 0 {
			*x.n++
		}
	}
}

func (s *side) refused(f *fault.Error, res *attempt.Result) verdict {
	s.totals.Refused++
	reason := f.StableCode()
	if res != nil && len(res.Selections) > 0 {
		filters := res.Selections[0].Filters()
		if last := filters[len(filters)-1]; len(filters) > 1 && last.Left == 0 {
			reason += " (" + last.Filter + ")"
		}
	}
	return verdict{refusal: reason}
}

// usage is what the request would use of the account: the tokens that were counted then,
// or estimates, and of the prompt as much from the cache as the account has seen of it.
func usage(rec *ledgerv1.RequestRecord, f *decision.Features, c *attempt.Choice) llm.Usage {
	u := rec.GetUnits()
	prompt := u.GetInput() + u.GetCacheRead() + u.GetCacheWrite_5M() + u.GetCacheWrite_1H() + u.GetAudioIn() + u.GetImageIn()
	output := u.GetOutput() + u.GetReasoning() + u.GetAudioOut() + u.GetImageOut()
	if prompt <= 0 {
		prompt = f.PromptTokens
	}
	if output <= 0 {
		output = f.OutputTokens
	}
	read := int64(0)
	if c.Hit > 0 && f.PromptTokens > 0 {
		read = min(prompt, int64(float64(c.Predicted)*float64(prompt)/float64(f.PromptTokens)))
	}
	out := llm.Usage{CacheRead: read, Output: output}
	if f.Prefix != nil {
		out.CacheWriteOther = prompt - read // all of it is there for the next request
	} else {
		out.Input = prompt - read
	}
	return out
}

// finish ends the requests that are over at a time, in the order of their ends.
func (s *side) finish(at time.Time) {
	for len(s.running) > 0 && !s.running[0].end.After(at) {
		s.pop()
	}
}

func (s *side) pop() {
	x, _ := heap.Pop(&s.running).(run)
	x.choice.Answered(x.used, x.end)
	x.choice.End()
}

// run is a request that an account works on.
type run struct {
	end    time.Time
	seq    int64
	choice *attempt.Choice
	used   llm.Usage
}

// running is a heap by end, then by order.
type running []run

// Len implements heap.Interface.
func (r running) Len() int { return len(r) }

// Less implements heap.Interface.
func (r running) Less(i, j int) bool {
	if !r[i].end.Equal(r[j].end) {
		return r[i].end.Before(r[j].end)
	}
	return r[i].seq < r[j].seq
}

// Swap implements heap.Interface.
func (r running) Swap(i, j int) { r[i], r[j] = r[j], r[i] }

// Push implements heap.Interface.
func (r *running) Push(x any) {
	if v, ok := x.(run); ok {
		*r = append(*r, v)
	}
}

// Pop implements heap.Interface.
func (r *running) Pop() any {
	last := (*r)[len(*r)-1]
	(*r)[len(*r)-1] = run{}
	*r = (*r)[:len(*r)-1]
	return last
}

// compare counts what differs between the sides.
func (r *Replay) compare(rec *ledgerv1.RequestRecord, f *decision.Features, before, after *verdict) {
	s := &r.summary
	switch {
	case before.refusal == "" && after.refusal != "":
		s.Refusals.New++
		if x := r.reason(after.refusal); x != nil {
			x.New++
		}
	case before.refusal != "" && after.refusal == "":
		s.Refusals.Gone++
		if x := r.reason(before.refusal); x != nil {
			x.Gone++
		}
	case before.refusal != "":
		return
	default:
		s.CostDeltaNanos += after.cost - before.cost
		if before.protocol != after.protocol {
			s.Changed.Protocol++
		}
		if before.target != after.target {
			s.Changed.Target++
		}
		if before.id == after.id && before.target == after.target {
			return
		}
		s.Changed.Account++
	}
	name := func(v *verdict) string {
		if v.refusal != "" {
			return "refused: " + v.refusal
		}
		return v.account
	}
	key := changeKey{f.Model, name(before), name(after)}
	c := r.changes[key]
	if c == nil {
		if len(r.changes) >= maxMoves {
			s.OtherMoves++
			return
		}
		c = &Change{Model: key.model, From: key.from, To: key.to}
		r.changes[key] = c
	}
	c.Requests++
	c.CostDeltaNanos += after.cost - before.cost
	c.HitDelta += after.hit - before.hit
	if len(c.Examples) < examples {
		c.Examples = append(c.Examples, rec.GetRequestId())
	}
}

func (r *Replay) reason(text string) *RefusalChange {
	x := r.reasons[text]
	if x == nil {
		if len(r.reasons) >= maxMoves {
			return nil
		}
		x = &RefusalChange{Reason: text}
		r.reasons[text] = x
	}
	return x
}

// Summary is what the requests that were added come to.
func (r *Replay) Summary() *ReplaySummary {
	s := r.summary
	s.Assumptions = assumptions
	s.Before, s.After = r.sides[0].totals, r.sides[1].totals
	s.Skipped = slices.Clone(s.Skipped)
	if s.Skipped == nil {
		s.Skipped = []Skipped{}
	}
	s.Changes = make([]Change, 0, len(r.changes))
	for _, c := range r.changes {
		s.Changes = append(s.Changes, *c)
	}
	slices.SortFunc(s.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Model, b.Model), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	for _, c := range s.Changes[min(len(s.Changes), listedMoves):] {
		s.OtherMoves += c.Requests
	}
	s.Changes = s.Changes[:min(len(s.Changes), listedMoves)]
	s.Refusals.Reasons = make([]RefusalChange, 0, len(r.reasons))
	for _, x := range r.reasons {
		s.Refusals.Reasons = append(s.Refusals.Reasons, *x)
	}
	slices.SortFunc(s.Refusals.Reasons, func(a, b RefusalChange) int {
		return cmp.Or(cmp.Compare(b.New+b.Gone, a.New+a.Gone), cmp.Compare(a.Reason, b.Reason))
	})
	s.Refusals.Reasons = s.Refusals.Reasons[:min(len(s.Refusals.Reasons), listedMoves)]
	return &s
}
