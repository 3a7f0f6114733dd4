// Package schedule chooses the account for an attempt: hard filters with a reason for
// each refusal, then what each account would cost in money and time, then an order. It
// owns the runtime state of accounts, which is keyed by ids and outlives
// configurations.
//
// A selection is a function of the configuration, the request, the runtime state and
// the time; nothing in it depends on the order of maps or of candidates.
package schedule

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/rendezvous"
)

// Terms are the parts of a score, in nano-USD.
type Terms struct {
	Input, Output, Latency, Warmup, Queue, Error, Load, Priority, Quota, Session, Quality, Budget int64
}

// Row is what a selection says of one candidate.
type Row struct {
	Reason  Reason // why it is out; empty if it is not
	Outside bool   // it does not belong to the stage
	Probe   bool   // its breaker is half open: the attempt would be a probe
	Bound   bool   // the session is bound to it
	Escaped bool   // it lost its hit and its session, being slow or failing
	Fled    string // why: error_rate or ttft

	Hit      int64 // tokens of the prompt expected to be cached
	Priority int   // index of its priority in the stage
	Use      float64
	Wait     time.Duration // for room in its limits
	SlotWait time.Duration // for a slot
	Terms    Terms
	Total    int64
	Money    int64 // input, output and warm-up

	considered bool
	late       bool // of a priority that is not open
	busy       float64
	scored     bool
	health     reading
	price      plan.Price
	rest       *Rest
}

// How says what decided a choice.
type How string

// The ways.
const (
	Single     How = "single"
	Warm       How = "warm"
	Probe      How = "probe"
	Rendezvous How = "rendezvous"
	RoundRobin How = "swrr"
	Drawn      How = "topk"
)

// Outcome is what became of the affinity of a request.
type Outcome string

// The outcomes. Updated is for a session whose binding moves to the account that serves.
const (
	Hit     Outcome = "hit"
	Miss    Outcome = "miss"
	Bypass  Outcome = "bypass"
	Escape  Outcome = "escape"
	Updated Outcome = "updated"
)

// Selection is the outcome of one selection: the decision record.
type Selection struct {
	Order      []int // considered candidates, the winner first, as indexes into the candidates
	Rows       []Row // by candidate
	How        How
	Affinity   Outcome
	DecisionID string
	Stage      Stage
	At         time.Time
	Open       int // how many priorities are open
	Level      int // index of the priority where the conversation belongs

	candidates []plan.Candidate
	query      *Query
	earliest   time.Time // when the first resting candidate returns; zero if none rests

	// Room for the lists of a model with few accounts, which most have.
	rowRoom   [few]Row
	orderRoom [few]int
}

const few = 4

// scratch is what a selection needs while it is made.
type scratch struct {
	handles    []*handle
	priorities []int32
	set        []int
	ttfts      []float64
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Select filters, scores and orders the candidates. It takes no slot: see Acquire.
func (s *Scheduler) Select(q *Query, candidates []plan.Candidate, now time.Time) *Selection {
	sel := &Selection{DecisionID: q.DecisionID, Stage: q.Stage, At: now, candidates: candidates, query: q}
	if len(candidates) <= few {
		sel.Rows, sel.Order = sel.rowRoom[:len(candidates)], sel.orderRoom[:0]
	} else {
		sel.Rows, sel.Order = make([]Row, len(candidates)), make([]int, 0, len(candidates))
	}
	x := scratches.Get().(*scratch)
	defer scratches.Put(x)
	x.handles, x.priorities, x.set, x.ttfts = x.handles[:0], x.priorities[:0], x.set[:0], x.ttfts[:0]

	sel.admit(s, x, now)
	sel.predict(x)
	sel.state(s, x, now)
	sel.level(s, x, now)
	sel.home(s, x, now)
	sel.spareProbes()
	sel.escape(x)
	sel.hope()
	sel.score(x, now)
	sel.openPriorities(x)
	sel.choose(s, x)
	clear(x.handles)
	return sel
}

// admit runs the filters that configuration and request alone decide, and notes the
// priorities that the stage has.
func (sel *Selection) admit(s *Scheduler, x *scratch, now time.Time) {
	q := sel.query
	for i := range sel.candidates {
		c, row := &sel.candidates[i], &sel.Rows[i]
		h := s.handleFor(c, q.Policy.Cache)
		x.handles = append(x.handles, h)
		if q.In != nil && !q.In(i, c) {
			row.Outside = true
			continue
		}
		if !slices.Contains(x.priorities, c.Priority) {
			x.priorities = append(x.priorities, c.Priority)
		}
		row.Reason = static(q, c, h, now)
	}
	slices.Sort(x.priorities)
	for i := range sel.Rows {
		if !sel.Rows[i].Outside {
			sel.Rows[i].Priority = slices.Index(x.priorities, sel.candidates[i].Priority)
		}
	}
}

// predict finds what of the prompt each candidate is expected to have cached. Where
// cold scopes are not allowed and there is a warm one, they are out.
func (sel *Selection) predict(x *scratch) {
	q := sel.query
	if q.Policy.PreserveCache == configv1.PreserveCache_PRESERVE_CACHE_OFF {
		return
	}
	warm := false
	for i := range sel.Rows {
		row, h := &sel.Rows[i], x.handles[i]
		if row.Outside || row.Reason != "" || h.cache.Off {
			continue
		}
		for m := range q.Matches {
			match := &q.Matches[m]
			if match.Scope != h.scope {
				continue
			}
			row.Bound = row.Bound || match.Session && match.Age < match.TTLMax
			sel.hit(row, h, i, match.Tokens, match.Live())
		}
		warm = warm || row.Hit > 0
	}
	if !warm || q.Policy.PreserveCache != configv1.PreserveCache_PRESERVE_CACHE_STRICT {
		return
	}
	for i := range sel.Rows {
		if row := &sel.Rows[i]; !row.Outside && row.Reason == "" && row.Hit == 0 {
			row.Reason = CacheStrict
		}
	}
}

// hit raises the expected hit of a row to what a match of so many tokens makes of it.
func (sel *Selection) hit(row *Row, h *handle, i int, tokens int64, live float64) {
	q := sel.query
	if q.Ratio != nil && live > 0 {
		live *= q.Ratio(sel.candidates[i].Upstream.GetProviderId(), sel.candidates[i].UpstreamModel())
	}
	n := int64(math.Floor(float64(min(tokens, q.PromptTokens)) * live))
	if n >= h.minPrefix(&q.Policy) {
		row.Hit = max(row.Hit, n)
	}
}

// state runs the filters that the state of this node decides.
func (sel *Selection) state(s *Scheduler, x *scratch, now time.Time) {
	for i := range sel.Rows {
		if row := &sel.Rows[i]; !row.Outside && row.Reason == "" {
			row.Reason = sel.runtime(s, x.handles[i], i, now)
		}
	}
}

// runtime checks one candidate.
func (sel *Selection) runtime(s *Scheduler, h *handle, i int, now time.Time) Reason {
	q, c, row := sel.query, &sel.candidates[i], &sel.Rows[i]
	if r, ok := q.Skip[c.ID]; ok {
		return r
	}
	if r := h.resting(q.own, now); r != nil {
		row.rest = r
		end := r.Until
		if r.Node != "" {
			end = now // the word of others is doubted before long
		}
		if sel.earliest.IsZero() || end.Before(sel.earliest) {
			sel.earliest = end
		}
		return cooldown(r.Kind)
	}
	row.Probe = false
	for _, b := range h.breakersOf(&q.Policy) {
		switch state, until, busy := b.stateOf(q.own, now); {
		case state == open:
			if sel.earliest.IsZero() || until.Before(sel.earliest) {
				sel.earliest = until
			}
			return BreakerOpen
		case state == halfOpen && busy:
			return BreakerProbeBusy
		case state == halfOpen && (q.Guarded || q.PromptTokens > q.Policy.ProbeMaxTokens):
			return BreakerHalfOpen
		case state == halfOpen:
			row.Probe = true
		}
	}
	worth := time.Duration(0)
	if row.Hit > 0 {
		worth = h.maxCacheWait(&q.Policy)
	}
	n := q.need(h, row.Hit)
	v := verdict{}
	nodes := s.nodes()
	t := h.meters[1].told(now)
	for j, m := range h.meters {
		if !h.limited[j] && !m.taught.Load() {
			continue
		}
		m.check(&v, &h.limits[j], &n, nodes, &t, now)
	}
	row.Use, row.busy = v.load, v.busy
	if v.out {
		if v.wait > worth {
			return limitReasons[v.dim]
		}
		row.Wait = v.wait
	}
	if !h.bounded {
		return ""
	}
	full := false
	bounds := concurrency(c, nodes)
	for j, m := range bounds {
		if m < 0 {
			continue
		}
		running := h.slots[j].running.Load()
		if m == 0 {
			row.Use = max(row.Use, 1)
			return SlotFull
		}
		row.Use = max(row.Use, float64(running)/float64(m))
		row.busy = max(row.busy, float64(running)/float64(m))
		full = full || running >= m || !q.Queued && h.slots[j].queued.Load() > 0
	}
	if !full {
		return ""
	}
	if worth == 0 || bounds[0] <= 0 {
		return SlotFull
	}
	waiting := h.slots[0].waiting.Load()
	row.SlotWait = time.Duration(q.Policy.HoldMS*float64(waiting+1)/float64(bounds[0])) * time.Millisecond
	if row.SlotWait > worth || waiting >= q.Policy.MaxWaitingFactor*bounds[0] {
		return SlotFull
	}
	return ""
}

// home gives a continued conversation that this node does not know its expectation:
// other nodes placed it by the same rule, so its prefix should be where this rule leads.
func (sel *Selection) home(s *Scheduler, x *scratch, now time.Time) {
	q := sel.query
	if q.Prior <= 0 || q.PriorConf <= 0 || q.Root == "" || q.Policy.PreserveCache == configv1.PreserveCache_PRESERVE_CACHE_OFF {
		return
	}
	// In rendezvous order, the first one that may serve with what it is expected to have:
	// less to read needs less room, and a warm account is worth a wait.
	var home int
	above := math.Inf(1)
	for {
		next, best := -1, 0.0
		for i := range sel.Rows {
			row, c := &sel.Rows[i], &sel.candidates[i]
			if row.Outside || row.Reason != "" && !row.Reason.full() || row.Priority != sel.Level {
				continue
			}
			v := rendezvous.Value(q.Root, c.CredentialKey, c.Weight)
			if v < above && (next < 0 || v > best || v == best && c.ID < sel.candidates[next].ID) {
				next, best = i, v
			}
		}
		if next < 0 {
			return
		}
		if !x.handles[next].cache.Off && sel.expect(s, x, next, now) {
			home = next
			break
		}
		above = best
	}
	for i := range sel.Rows {
		if row, h := &sel.Rows[i], x.handles[i]; i != home && !row.Outside && h.scope == x.handles[home].scope && (row.Reason == "" || row.Reason.full()) {
			sel.expect(s, x, i, now)
		}
	}
}

// expect gives a candidate the hit of a continued conversation, and reports whether it
// may serve with it.
func (sel *Selection) expect(s *Scheduler, x *scratch, i int, now time.Time) bool {
	q, row, h := sel.query, &sel.Rows[i], x.handles[i]
	if h.cache.Off {
		return row.Reason == ""
	}
	confidence := q.PriorConf
	if q.Confidence != nil {
		confidence = q.Confidence(sel.candidates[i].Upstream.GetProviderId(), sel.candidates[i].UpstreamModel(), confidence)
	}
	before, why := row.Hit, row.Reason
	sel.hit(row, h, i, q.Prior, confidence)
	if row.Hit > before {
		row.Wait, row.SlotWait = 0, 0
		row.Reason = sel.runtime(s, h, i, now)
	}
	if row.Reason != "" {
		row.Hit, row.Reason = before, why
	}
	return row.Reason == ""
}

// spareProbes keeps a probe from being the only chance of a request.
func (sel *Selection) spareProbes() {
	for i := range sel.Rows {
		if row := &sel.Rows[i]; !row.Outside && row.Reason == "" && !row.Probe {
			return
		}
	}
	for i := range sel.Rows {
		if row := &sel.Rows[i]; !row.Outside && row.Reason == "" {
			row.Reason = BreakerHalfOpen
		}
	}
}

// escape takes the hit and the session from warm candidates that fail or became slow.
func (sel *Selection) escape(x *scratch) {
	q := sel.query
	warm := false
	for i := range sel.Rows {
		row := &sel.Rows[i]
		if row.Outside || row.Reason != "" {
			continue
		}
		row.health = x.handles[i].health.read(&q.Policy, sel.At)
		if row.health.known {
			x.ttfts = append(x.ttfts, row.health.ttft)
		}
		warm = warm || row.Hit > 0 || row.Bound
	}
	if !warm || q.Affinity == affinity.Pinned {
		return
	}
	median := math.Inf(1)
	if n := len(x.ttfts); n > 0 {
		slices.Sort(x.ttfts)
		median = x.ttfts[(n-1)/2]
	}
	for i := range sel.Rows {
		row := &sel.Rows[i]
		if row.Outside || row.Reason != "" || row.Hit == 0 && !row.Bound {
			continue
		}
		r := &row.health
		failing := r.samples >= q.Policy.EscapeMinSamples && r.errs >= q.Policy.EscapeErrorRate
		slow := r.known && r.ttft > q.Policy.EscapeTTFT && r.ttft > q.Policy.EscapeFactor*median
		switch {
		case failing:
			row.Fled = "error_rate"
		case slow:
			row.Fled = "ttft"
		default:
			continue
		}
		row.Hit, row.Bound, row.Escaped = 0, false, true
	}
}

// hope takes an account whose latency is not known, or not any more, for as fast as the
// best that is known, if that is faster than the policy's base. Were it taken for slower,
// it would never be asked, and never become known.
func (sel *Selection) hope() {
	best := sel.query.Policy.BaseTTFT
	for i := range sel.Rows {
		if row := &sel.Rows[i]; !row.Outside && row.Reason == "" && row.health.known {
			best = min(best, row.health.ttft)
		}
	}
	if best >= sel.query.Policy.BaseTTFT {
		return
	}
	for i := range sel.Rows {
		if row := &sel.Rows[i]; !row.Outside && row.Reason == "" {
			row.health.ttft = best + (row.health.sample-best)*row.health.weight
		}
	}
}

// score computes what each candidate would cost.
func (sel *Selection) score(x *scratch, now time.Time) {
	for i := range sel.Rows {
		row := &sel.Rows[i]
		if row.Outside || row.Reason != "" {
			continue
		}
		row.price = sel.candidates[i].Price(sel.query.View, sel.query.PromptTokens, now)
		sel.terms(row, &sel.candidates[i], x.handles[i], now)
	}
}

// terms are those of section "Score" of the scheduler's design.
func (sel *Selection) terms(row *Row, c *plan.Candidate, h *handle, now time.Time) {
	q := sel.query
	p, t := &q.Policy, &row.Terms
	fresh := row.price.In
	if q.Writes && row.price.Write > 0 {
		fresh = row.price.Write
	}
	prompt, hit := float64(q.PromptTokens), float64(row.Hit)
	t.Input = round((prompt-hit)*fresh + hit*row.price.Read)
	t.Output = round(float64(q.OutputTokens) * row.price.Out)
	latency := p.TimeValue * (row.health.ttft + p.PrefillMS*(prompt-hit)/1000)
	if head := float64(q.HeadTokens); q.HeadRecent > 1 && hit < head && !row.Escaped && sel.warms(h) {
		others := 1 - 1/float64(q.HeadRecent)
		t.Warmup = round(-(head - hit) * (fresh - row.price.Read) * others)
		latency -= p.TimeValue * p.PrefillMS * (head - hit) / 1000 * others
	}
	t.Latency = round(latency)
	t.Queue = round(p.TimeValue * ms(max(row.Wait, row.SlotWait)))
	e := min(0.9, row.health.errs*min(1, row.health.samples/10))
	t.Error = round(p.TimeValue * p.ErrorMS * e / (1 - e))
	if u := min(row.Use, 1); u > p.LoadKnee {
		over := (u - p.LoadKnee) / (1 - p.LoadKnee)
		t.Load = round(p.TimeValue * p.LoadMS * over * over)
	}
	t.Priority = round(p.PriorityStep * float64(row.Priority))
	if a := h.credential.quota.Load(); a != nil && (p.ResetBonus != 0 || p.HeadroomBonus != 0) {
		t.Quota = round(-p.HeadroomBonus * a.left)
		if a.left >= lowQuota && a.window > 0 {
			t.Quota += round(-p.ResetBonus * (1 - min(1, ms(a.reset.Sub(now))/ms(a.window))))
		}
	}
	if row.Bound {
		t.Session = round(-p.SessionValue)
	}
	if p.QualityValue != 0 {
		t.Quality = round(-p.QualityValue * quality(c, q.Task))
	}
	row.Money = t.Input + t.Output + t.Warmup
	if q.Tight && p.BudgetFactor != 0 {
		t.Budget = round(p.BudgetFactor * float64(row.Money))
	}
	row.Total = row.Money + t.Latency + t.Queue + t.Error + t.Load + t.Priority + t.Quota + t.Session + t.Quality + t.Budget
	row.scored = true
}

// lowQuota is the share of an expiring allowance below which it is not spent on purpose.
const lowQuota = 0.05

// warms reports whether a prompt that is sent to the candidate is cached there.
func (sel *Selection) warms(h *handle) bool {
	return !h.cache.Off && sel.query.Policy.PreserveCache != configv1.PreserveCache_PRESERVE_CACHE_OFF
}

// round is to the nearest integer, halves away from zero.
func round(v float64) int64 { return int64(math.Round(v)) }

// quality is the hint of the candidate's model for a task: the task's own, else the
// one for any; 0 if there is none.
func quality(c *plan.Candidate, task string) float64 {
	any := 0.0
	for _, h := range c.Model.GetQuality() {
		switch h.GetTask() {
		case task:
			return h.GetScore()
		case "":
			any = h.GetScore()
		}
	}
	return any
}

// openPriorities opens the next priority where all accounts of the ones before are
// nearly full or out. What is warm stays in play though its priority is closed.
func (sel *Selection) openPriorities(x *scratch) {
	spill := sel.query.Policy.Spillover
	sel.Open = min(sel.Level+1, max(1, len(x.priorities)))
	for sel.Open < len(x.priorities) {
		room := false
		for i := range sel.Rows {
			row := &sel.Rows[i]
			if !row.Outside && row.Reason == "" && row.Priority < sel.Open && row.Use < spill {
				room = true
				break
			}
		}
		if room {
			break
		}
		sel.Open++
	}
	for i := range sel.Rows {
		row := &sel.Rows[i]
		if row.Outside || row.Reason != "" {
			continue
		}
		row.late = row.Priority >= sel.Open
		if row.late && row.Hit == 0 && !row.Bound {
			row.Reason = SpilloverClosed
			continue
		}
		row.considered = true
		sel.Order = append(sel.Order, i)
	}
}

// byScore orders rows by what they cost, then by id.
func (sel *Selection) byScore(a, b int) int {
	return cmp.Or(cmp.Compare(sel.Rows[a].Total, sel.Rows[b].Total), cmp.Compare(sel.candidates[a].ID, sel.candidates[b].ID))
}
