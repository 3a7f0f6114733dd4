package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// scene is a drawn configuration, state and request.
type scene struct {
	accounts []account
	limits   []int64 // rpm by account; 0 for none
	history  []func(s *Scheduler, cs []plan.Candidate)
	q        *Query
}

func drawScene(t *rapid.T, tb testing.TB) *scene {
	sc := &scene{q: queryFor(tb)}
	n := rapid.IntRange(1, 7).Draw(t, "accounts")
	for i := range n {
		sc.accounts = append(sc.accounts, account{
			id:       fmt.Sprintf("a%d", i),
			priority: rapid.Int32Range(1, 3).Draw(t, "priority"),
			weight:   rapid.Int32Range(1, 9).Draw(t, "weight"),
		})
		if rapid.Bool().Draw(t, "bounded") {
			slots := rapid.Int32Range(0, 3).Draw(t, "slots")
			sc.accounts[i].slots = &slots
		}
		sc.limits = append(sc.limits, rapid.SampledFrom([]int64{0, 0, 1, 2, 10}).Draw(t, "rpm"))
	}
	now := time.Unix(1000, 0)
	for range rapid.IntRange(0, 12).Draw(t, "events") {
		i := rapid.IntRange(0, n-1).Draw(t, "of")
		var event func(*Scheduler, []plan.Candidate)
		switch rapid.IntRange(0, 4).Draw(t, "event") {
		case 0:
			kind := rapid.SampledFrom([]string{"rate_limit", "server", "auth"}).Draw(t, "kind")
			scope := rapid.SampledFrom([]Scope{CredentialModel, Credential, QuotaModel, Upstream}).Draw(t, "scope")
			wait := time.Duration(rapid.IntRange(1, 60).Draw(t, "for")) * time.Second
			event = func(s *Scheduler, cs []plan.Candidate) {
				s.Failed(&cs[i], Failure{Scope: scope, Kind: kind, For: wait, After: 1}, now)
			}
		case 1:
			took := time.Duration(rapid.IntRange(1, 20_000).Draw(t, "took")) * time.Millisecond
			event = func(s *Scheduler, cs []plan.Candidate) { s.FirstToken(&cs[i], &sc.q.Policy, took, 1000, 0, now) }
		case 2:
			failed := rapid.Bool().Draw(t, "failed")
			event = func(s *Scheduler, cs []plan.Candidate) { s.Attempted(&cs[i], &sc.q.Policy, Server, failed, now) }
		case 3:
			left := float64(rapid.IntRange(0, 100).Draw(t, "left"))
			event = func(s *Scheduler, cs []plan.Candidate) {
				s.Observe(&cs[i], []Observation{{Dim: TPM, Limit: 100_000, Remaining: left * 1000}}, now)
			}
		case 4:
			event = func(s *Scheduler, cs []plan.Candidate) {
				q := *sc.q
				if sel := s.Select(&q, cs, now); len(sel.Order) > 0 {
					s.Acquire(sel, sel.Order[0], now)
				}
			}
		}
		sc.history = append(sc.history, event)
	}
	q := sc.q
	q.PromptTokens = int64(rapid.IntRange(1, 50_000).Draw(t, "prompt"))
	q.OutputTokens = int64(rapid.IntRange(1, 2000).Draw(t, "output"))
	q.Writes = rapid.Bool().Draw(t, "writes")
	q.Affinity = rapid.SampledFrom([]affinity.Kind{affinity.None, affinity.Weak, affinity.Strong}).Draw(t, "affinity")
	if q.Affinity != affinity.None {
		q.Root = rapid.StringMatching(`[a-f0-9]{4}`).Draw(t, "root")
		q.HeadTokens = min(q.PromptTokens, int64(rapid.IntRange(0, 9000).Draw(t, "head")))
		q.HeadRecent = int64(rapid.IntRange(0, 50).Draw(t, "recent"))
		q.Prior = min(q.PromptTokens, int64(rapid.IntRange(0, 40_000).Draw(t, "prior")))
		q.PriorConf = 0.7
		for range rapid.IntRange(0, 3).Draw(t, "matches") {
			i := rapid.IntRange(0, n-1).Draw(t, "at")
			q.Matches = append(q.Matches, affinity.Match{
				Scope: affinity.ScopeOf("c:upr_" + sc.accounts[i].id + "|m:m"), Tokens: int64(rapid.IntRange(0, 50_000).Draw(t, "tokens")),
				Confidence: 1, Age: time.Duration(rapid.IntRange(0, 700).Draw(t, "age")) * time.Second, TTLMin: 5 * time.Minute, TTLMax: 10 * time.Minute,
				Session: rapid.Bool().Draw(t, "session"),
			})
		}
	}
	q.Guarded = rapid.Bool().Draw(t, "guarded")
	if rapid.IntRange(0, 4).Draw(t, "mode") == 0 {
		q.Policy.TopK = 3
	}
	if rapid.IntRange(0, 4).Draw(t, "strict") == 0 {
		q.Policy.PreserveCache = configv1.PreserveCache_PRESERVE_CACHE_STRICT
	}
	return sc
}

// play makes the scene with the accounts in the given order, and returns the choices of
// several requests in a row.
func (sc *scene) play(order []int, requests int) (out []string) {
	var accounts []account
	at := make([]int, len(order)) // place of each account
	for place, i := range order {
		accounts = append(accounts, sc.accounts[i])
		at[i] = place
	}
	cs := candidates(accounts...)
	sorted := make([]plan.Candidate, len(cs))
	for i := range sc.accounts {
		if rpm := sc.limits[i]; rpm > 0 {
			cs[at[i]].Upstream.Limits = &configv1.Limits{Rpm: &rpm}
		}
		sorted[i] = cs[at[i]]
	}
	s := New(Config{Nodes: func() int { return 2 }})
	for _, event := range sc.history {
		event(s, sorted)
	}
	for n := range requests {
		q := *sc.q
		q.RequestID = fmt.Sprint("r", n)
		sel := s.Select(&q, cs, time.Unix(1001, 0))
		text := string(sel.How) + " " + string(sel.Affinity)
		for _, i := range sel.Order {
			text += " " + cs[i].ID
		}
		reasons := make([]string, len(cs))
		for i := range sel.Rows {
			reasons[i] = cs[i].ID + "=" + string(sel.Rows[i].Reason) + fmt.Sprint(sel.Rows[i].Total, sel.Rows[i].Hit)
		}
		slices.Sort(reasons)
		out = append(out, text+fmt.Sprint(reasons))
	}
	return out
}

// Equal inputs give equal decisions on two nodes, whatever the order of the candidates.
func TestDecisionsFollowFromTheirInputsAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		sc := drawScene(rt, t)
		order := make([]int, len(sc.accounts))
		for i := range order {
			order[i] = i
		}
		want := sc.play(order, 4)
		if got := sc.play(order, 4); !slices.Equal(got, want) {
			rt.Fatalf("two nodes decide\n%q\n%q", want, got)
		}
		if got := sc.play(rapid.Permutation(order).Draw(rt, "order"), 4); !slices.Equal(got, want) {
			rt.Fatalf("with the candidates in another order the decisions are\n%q\nnot\n%q", got, want)
		}
	})
}

// Nobody who is out is in the order, everybody who is not out is in it once, and the
// score is the sum of its terms.
func TestOrderHoldsWhoIsNotOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		sc := drawScene(rt, t)
		cs := candidates(sc.accounts...)
		s := New(Config{})
		for _, event := range sc.history {
			event(s, cs)
		}
		sel := s.Select(sc.q, cs, time.Unix(1001, 0))
		in := make(map[int]bool)
		for _, i := range sel.Order {
			if sel.Rows[i].Reason != "" || in[i] {
				rt.Fatalf("%s is in the order though it is out for %q, or twice", cs[i].ID, sel.Rows[i].Reason)
			}
			in[i] = true
		}
		for i, row := range sel.Rows {
			if row.Reason == "" && !in[i] {
				rt.Fatalf("%s is not out and not in the order", cs[i].ID)
			}
			if tm := row.Terms; row.Total != tm.Input+tm.Output+tm.Latency+tm.Warmup+tm.Queue+tm.Error+tm.Load+tm.Priority+tm.Quota+tm.Session+tm.Quality+tm.Budget {
				rt.Fatalf("%s: the total %d is not the sum of %+v", cs[i].ID, row.Total, tm)
			}
			if row.Hit > sc.q.PromptTokens || row.Hit < 0 {
				rt.Fatalf("%s: %d of %d tokens are cached", cs[i].ID, row.Hit, sc.q.PromptTokens)
			}
		}
		if len(sel.Order) == 0 {
			if f := sel.Refusal(time.Unix(1001, 0)); f == nil || f.Status() < 400 {
				rt.Fatalf("nobody is left and the refusal is %v", f)
			}
		}
	})
}

// A selection that is only asked for changes no later one.
func TestDrySelectionChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		sc := drawScene(rt, t)
		choices := func(dry int) (out []string) {
			cs := candidates(sc.accounts...)
			s := New(Config{})
			for _, event := range sc.history {
				event(s, cs)
			}
			for range dry {
				q := *sc.q
				q.Dry = true
				s.Select(&q, cs, time.Unix(1001, 0))
			}
			for range 4 {
				sel := s.Select(sc.q, cs, time.Unix(1001, 0))
				out = append(out, fmt.Sprint(sel.Order, sel.How))
			}
			return out
		}
		if a, b := choices(0), choices(5); !slices.Equal(a, b) {
			rt.Fatalf("after dry selections %v, without %v", b, a)
		}
	})
}

// A slow account that a session is bound to is left, with a word on it, and is used again
// after it recovered: by one request first, then by all.
func TestField_F17_SlowAccountIsLeftAndTriedAgain(t *testing.T) {
	t.Parallel()
	s, q := New(Config{}), queryFor(t)
	cs := candidates(account{id: "a"}, account{id: "b"})
	q.Affinity, q.Root, q.PromptTokens = affinity.Strong, "s", 30_000
	q.Matches = []affinity.Match{{Scope: affinity.ScopeOf("c:upr_a|m:m"), Tokens: 29_000, Confidence: 1, TTLMin: time.Hour, TTLMax: time.Hour, Session: true}}
	cs[0].Pricing = []*configv1.ProviderPricing{{ProviderId: "prv_1", Model: "m", Published: true, Items: []*configv1.PriceItem{
		{Component: configv1.PriceComponent_PRICE_COMPONENT_INPUT, PerMtokNanos: 3_000_000_000},
	}}}
	cs[1].Pricing = cs[0].Pricing
	now := time.Unix(1000, 0)
	at := func(want string, outcome Outcome) *Selection {
		t.Helper()
		sel := s.Select(q, cs, now)
		if got := winner(t, sel, cs); got != want || sel.Affinity != outcome {
			t.Fatalf("%s serves with affinity %s, want %s with %s", got, sel.Affinity, want, outcome)
		}
		return sel
	}
	at("a", Hit)
	for range 6 {
		s.FirstToken(&cs[0], &q.Policy, 20*time.Second, 0, 0, now)
	}
	s.FirstToken(&cs[1], &q.Policy, time.Second, 0, 0, now)
	if sel := at("b", Escape); !sel.Rows[0].Escaped {
		t.Error("the decision does not say that a was left")
	}
	now = now.Add(3 * time.Minute) // the reading has faded
	sel := at("a", Hit)
	if _, why := s.Acquire(sel, 0, now); why != "" {
		t.Fatal(why)
	}
	at("b", Escape) // one is finding out
	s.FirstToken(&cs[0], &q.Policy, 500*time.Millisecond, 0, 0, now)
	at("a", Hit)
}

// A breaker opens after failures in a row or by their share, lets single requests probe
// when its time is over, and its state is there to see.
func TestField_F11_BreakerActsAndIsSeen(t *testing.T) {
	t.Parallel()
	s, q := New(Config{}), queryFor(t)
	cs := candidates(account{id: "a", priority: 1}, account{id: "b", priority: 2})
	now := time.Unix(1000, 0)
	for i := range 5 {
		if got := winner(t, s.Select(q, cs, now), cs); got != "a" {
			t.Fatalf("%s serves after %d failures, want a", got, i)
		}
		s.Attempted(&cs[0], &q.Policy, Server, true, now)
	}
	sel := s.Select(q, cs, now)
	if sel.Rows[0].Reason != BreakerOpen || winner(t, sel, cs) != "b" {
		t.Fatalf("after 5 failures in a row a is out for %q", sel.Rows[0].Reason)
	}
	if b := s.Breakers(now); len(b) != 1 || b[0].Key != "prv_1|upr_a|m|server" || b[0].State != "open" || !b[0].Until.Equal(now.Add(10*time.Second)) {
		t.Errorf("operators see %+v", b)
	}
	now = now.Add(10 * time.Second)
	sel = s.Select(q, cs, now)
	if winner(t, sel, cs) != "a" || !sel.Rows[0].Probe {
		t.Fatalf("%v was chosen with %+v, want a as a probe", sel.Order, sel.Rows[0])
	}
	lease, _ := s.Acquire(sel, 0, now)
	if sel = s.Select(q, cs, now); sel.Rows[0].Reason != BreakerProbeBusy {
		t.Errorf("a second request beside a probe finds %q", sel.Rows[0].Reason)
	}
	s.Attempted(&cs[0], &q.Policy, Server, true, now)
	lease.Release()
	if b := s.Breakers(now); len(b) != 1 || b[0].State != "open" || !b[0].Until.Equal(now.Add(20*time.Second)) {
		t.Errorf("after a failed probe operators see %+v, want it open for 20 s", b)
	}
	now = now.Add(20 * time.Second)
	for range 2 {
		s.Attempted(&cs[0], &q.Policy, NoBreaker, false, now)
	}
	if b := s.Breakers(now); len(b) != 0 {
		t.Errorf("after two successes it is %+v", b)
	}
}

// BenchmarkSelectWarm is a selection with all that a busy fleet has: prices, limits,
// health, cooldowns, and a conversation that two accounts know.
func BenchmarkSelectWarm(b *testing.B) {
	for _, n := range []int{4, 16, 64, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			accounts := make([]account, n)
			slots := int32(50)
			for i := range accounts {
				accounts[i] = account{id: fmt.Sprintf("a%03d", i), weight: int32(i%5 + 1), slots: &slots, priority: int32(1 + i%2)}
			}
			s, q, cs := New(Config{Nodes: func() int { return 3 }}), queryFor(b), candidates(accounts...)
			now := time.Now()
			rpm, tpm := int64(100), int64(1_000_000)
			for i := range cs {
				cs[i].Upstream.Limits = &configv1.Limits{Rpm: &rpm, Tpm: &tpm}
				cs[i].Pricing = []*configv1.ProviderPricing{{ProviderId: "prv_1", Model: "m", Published: true, Items: []*configv1.PriceItem{
					{Component: configv1.PriceComponent_PRICE_COMPONENT_INPUT, PerMtokNanos: 3_000_000_000},
				}}}
				s.FirstToken(&cs[i], &q.Policy, time.Second, 1000, 0, now)
				s.Attempted(&cs[i], &q.Policy, Server, i%3 == 0, now)
				if i%7 == 3 {
					s.Failed(&cs[i], Failure{Scope: CredentialModel, Kind: "server", For: time.Hour, After: 1}, now)
				}
			}
			q.Affinity, q.Root, q.PromptTokens, q.OutputTokens, q.Writes, q.HeadTokens, q.HeadRecent = affinity.Strong, "c0ffee", 20_000, 500, true, 4000, 60
			for _, i := range []int{1, 2} {
				q.Matches = append(q.Matches, affinity.Match{Scope: affinity.ScopeOf("c:" + cs[i%n].CredentialKey + "|m:m"), Tokens: 18_000, Confidence: 1, TTLMin: time.Hour, TTLMax: time.Hour})
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Select(q, cs, now)
			}
		})
	}
}
