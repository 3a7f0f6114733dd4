package e2e

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// The tests of the scheduler run agents against a fleet of three nodes that share no
// affinity state, behind a balancer that gives each request to the next node, so that a
// conversation meets all of them. Six accounts of unequal weight serve.
//
// The provider answers pace times as fast as real ones: first tokens take 20 ms and not
// 800. Prompts are about a fifth as long: of 1,600 to 25,000 tokens.
const pace = 40

var shares = []int32{4, 3, 2, 1, 1, 1}

// vendor is what an account is at the provider.
func vendor() fakeprovider.Account {
	return fakeprovider.Account{Cache: true, TTFT: 700 * time.Millisecond / pace, PerKilotoken: 60 * time.Millisecond / pace}
}

// paced is the default policy for accounts that answer as fast as these do. The times that
// decide between accounts stay: the machine of a test is too busy for differences of a
// few milliseconds to mean anything.
func paced() *configv1.SchedulingPolicy {
	return &configv1.SchedulingPolicy{BaseTtftMs: proto.Int64(800 / pace)}
}

// impatient has the times of minutes in seconds, for accounts that fail or are slow. Nothing
// shortens the minute in which errors are forgotten, so they count less instead.
func impatient() *configv1.SchedulingPolicy {
	p := paced()
	p.StaleMs, p.EscapeTtftMs = proto.Int64(3000), proto.Int64(300)
	p.CooldownServerMs, p.CooldownNetworkMs = proto.Int64(1500), proto.Int64(750)
	p.ErrorMs = proto.Int64(3000 / 20)
	return p
}

// balancer gives each request to the next node.
type balancer struct {
	nodes  []*url.URL
	next   atomic.Uint64
	client *http.Client
}

func (b *balancer) Do(r *http.Request) (*http.Response, error) {
	n := b.nodes[b.next.Add(1)%uint64(len(b.nodes))]
	r.URL.Scheme, r.URL.Host, r.Host = n.Scheme, n.Host, n.Host
	return b.client.Do(r)
}

// pool is a world of six accounts behind a balancer.
type pool struct {
	*world
	*balancer
}

// newPool makes the accounts "c0" to "c5". change may change each before it is made.
func newPool(t *testing.T, f *fleet, name string, policy *configv1.SchedulingPolicy, change func(i int, have *account, at *fakeprovider.Account)) *pool {
	t.Helper()
	accounts := make([]account, len(shares))
	for i, weight := range shares {
		accounts[i] = account{upstream: "main", credential: fmt.Sprint("c", i), weight: weight}
		at := vendor()
		if change != nil {
			change(i, &accounts[i], &at)
		}
		f.provider.SetAccount((&world{name: name}).secretOf(accounts[i].credential), at)
	}
	p := &pool{f.newWorld(t, name, accounts), &balancer{client: plainClient(t)}}
	if policy != nil {
		f.apply(t, &adminv1.BundleResource{Resource: &adminv1.BundleResource_Tenant{Tenant: &configv1.Tenant{Name: name, Scheduling: policy}}})
	}
	for _, n := range f.nodes {
		u, err := url.Parse(n.url)
		if err != nil {
			t.Fatal(err)
		}
		p.nodes = append(p.nodes, u)
	}
	return p
}

// agents are clients of the pool: few and short enough for a test.
func (p *pool) agents() *agents {
	a := &agents{
		send: p.Do, base: "http://balancer/" + p.name, key: p.key, name: model,
		atOnce: 12, total: 24, longest: 100, think: 5 * time.Millisecond,
		protocols: []fakeprovider.Protocol{fakeprovider.Anthropic, fakeprovider.Anthropic, fakeprovider.Chat},
	}
	if raced {
		a.atOnce, a.total, a.longest = 6, 9, 40
	}
	return a
}

// at are the counts of account i at the provider.
func (p *pool) at(i int) fakeprovider.AccountStats {
	return p.f.provider.AccountStats(p.secretOf(fmt.Sprint("c", i)))
}

// change changes account i at the provider.
func (p *pool) change(i int, change func(*fakeprovider.Account)) {
	p.f.provider.ChangeAccount(p.secretOf(fmt.Sprint("c", i)), change)
}

// sum adds up the accounts.
func (p *pool) sum() fakeprovider.AccountStats {
	var sum fakeprovider.AccountStats
	for i := range shares {
		s := p.at(i)
		sum.Requests += s.Requests
		sum.Limited += s.Limited
		sum.Failed += s.Failed
		sum.Prompt += s.Prompt
		sum.Cached += s.Cached
		sum.Written += s.Written
	}
	return sum
}

// misplaced is the share of the tokens that went elsewhere than the weights say.
func (p *pool) misplaced() float64 {
	total, weights, out := float64(p.sum().Prompt), int32(0), 0.0
	for _, w := range shares {
		weights += w
	}
	for i, w := range shares {
		out += math.Abs(float64(p.at(i).Prompt)/total-float64(w)/float64(weights)) / 2
	}
	return out
}

// single is what one account without a gateway makes of the same conversations.
func single(t *testing.T, like *agents) (fakeprovider.AccountStats, *outcome) {
	t.Helper()
	p := newProvider(t)
	const key = "sk-single"
	p.SetAccount(key, vendor())
	a := &agents{
		send: plainClient(t).Do, base: p.url, key: key, name: "fake-large",
		atOnce: like.atOnce, total: like.total, longest: like.longest, think: like.think, protocols: like.protocols,
	}
	out := a.run(t.Context(), t)
	return p.AccountStats(key), out
}

func share(s fakeprovider.AccountStats) float64 { return float64(s.Cached) / float64(s.Prompt) }

// noErrors fails the test if a client saw an error.
func (o *outcome) noErrors(t *testing.T) {
	t.Helper()
	if n := len(o.errors); n > 0 {
		t.Errorf("%d of %d clients got an error, the first: %s", n, o.calls, o.errors[0])
	}
}

func (o *outcome) String() string {
	var told strings.Builder
	for _, kind := range []string{"hit", "miss", "updated", "escape", "bypass"} {
		fmt.Fprintf(&told, ", %d %s", o.affinity[kind], kind)
	}
	return fmt.Sprintf("%d calls, %d errors, %d with failed attempts, p99 of the first token %v%s",
		o.calls, len(o.errors), o.fallbacks, o.p99().Round(time.Millisecond), told.String())
}

// TestField_F18_AgentsKeepTheirCacheOnAFleetOfAccounts: what agents read from caches
// over three nodes and six accounts is nearly what one account alone gives them.
func TestField_F18_AgentsKeepTheirCacheOnAFleetOfAccounts(t *testing.T) {
	f := newFleet(t, 1, 3)
	p := newPool(t, f, "agents", paced(), nil)
	a := p.agents()
	alone, aloneSaw := single(t, a)
	saw := a.run(t.Context(), t)
	saw.noErrors(t)
	aloneSaw.noErrors(t)
	sum := p.sum()
	t.Logf("one account:  cached %.1f%% of %d tokens; %v", 100*share(alone), alone.Prompt, aloneSaw)
	t.Logf("six accounts: cached %.1f%% of %d tokens; %v; misplaced %.1f%%", 100*share(sum), sum.Prompt, saw, 100*p.misplaced())
	if sum.Prompt != alone.Prompt {
		t.Errorf("the fleet sent %d tokens, one account got %d: these are not the same conversations", sum.Prompt, alone.Prompt)
	}
	if got, want := share(sum), 0.95*share(alone); got < want {
		t.Errorf("cached %.1f%%, want at least %.1f%%: 95%% of what one account gives", 100*got, 100*want)
	}
	if sum.Requests != saw.calls {
		t.Errorf("the provider saw %d requests, the clients made %d", sum.Requests, saw.calls)
	}
	used := 0
	for i := range shares {
		switch {
		case p.at(i).Requests > 0:
			used++
		case i < 2 && !raced: // with the race detector there are too few conversations to say so
			t.Errorf("account %d was never used, and it is one of the heaviest", i)
		}
	}
	if used < 2 {
		t.Errorf("%d accounts were used, want the conversations spread", used)
	}
}

// TestLimitsHalfUsedAreHardlyEverMet: nodes that know the limits of the accounts, and each
// only its own calls and what the provider tells, keep within them.
func TestLimitsHalfUsedAreHardlyEverMet(t *testing.T) {
	f := newFleet(t, 1, 3)
	a := (&pool{world: &world{f: f}}).agents()
	a.protocols = []fakeprovider.Protocol{fakeprovider.Anthropic} // which counts what was not cached
	alone, aloneSaw := single(t, a)

	// The buckets hold one and a half times what one account needs for all of it, and as
	// much leaks within a minute: within some 20 s that is twice the need.
	room := func(need int64, weight int32) int64 { return need * 3 / 2 * int64(weight) / 12 }
	if raced { // then the smallest bucket would hold two prompts of the few
		room = func(need int64, weight int32) int64 { return need * 6 * int64(weight) / 12 }
	}
	p := newPool(t, f, "limits", paced(), func(i int, have *account, at *fakeprovider.Account) {
		at.RequestsPerMinute = room(int64(aloneSaw.calls), have.weight)
		at.InputTokensPerMinute = room(alone.Prompt-alone.Cached, have.weight)
		have.limits = &configv1.Limits{Rpm: proto.Int64(at.RequestsPerMinute), Itpm: proto.Int64(at.InputTokensPerMinute)}
	})
	protocols := a.protocols
	a = p.agents()
	a.protocols = protocols
	began := time.Now()
	saw := a.run(t.Context(), t)
	saw.noErrors(t)
	sum := p.sum()
	var held int64
	for i := range shares {
		held += room(alone.Prompt-alone.Cached, shares[i])
	}
	used := float64(alone.Prompt-alone.Cached) / (float64(held) * (1 + time.Since(began).Minutes()))
	t.Logf("one account without limits: cached %.1f%% of %d tokens; %v", 100*share(alone), alone.Prompt, aloneSaw)
	t.Logf("six accounts, limits to %.0f%% used: cached %.1f%% of %d tokens; %v; misplaced %.1f%%; %d times limited by the provider",
		100*used, 100*share(sum), sum.Prompt, saw, 100*p.misplaced(), sum.Limited)
	if most := max(1, saw.calls/1000); sum.Limited > most {
		t.Errorf("the provider limited %d of %d calls, want at most %d", sum.Limited, saw.calls, most)
	}
	if got, want := share(sum), 0.95*share(alone); got < want {
		t.Errorf("cached %.1f%%, want at least %.1f%%: 95%% of what one account gives", 100*got, 100*want)
	}
}

// busy starts agents that go on until the end of the test or of stop, which returns what
// they saw.
func (p *pool) busy(t *testing.T) (a *agents, stop func() *outcome) {
	a = p.agents()
	a.total = 0
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan *outcome, 1)
	go func() { done <- a.run(ctx, t) }()
	stop = sync.OnceValue(func() *outcome { cancel(); return <-done })
	t.Cleanup(func() { stop() })
	return a, stop
}

// until waits for so many more answers.
func (a *agents) until(t *testing.T, answers int) {
	t.Helper()
	calls := func() int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.outcome.calls
	}
	from := calls()
	eventually(t, fmt.Sprintf("%d more answers", answers), func() error {
		if n := calls() - from; n < answers {
			return fmt.Errorf("%d came", n)
		}
		return nil
	})
}

// told is how many answers told this of their affinity.
func (a *agents) told(affinity string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.outcome.affinity[affinity]
}

// loads are how many calls the parts of an outage take.
func loads() (before, during, after int) {
	if raced {
		return 40, 60, 10
	}
	return 200, 400, 20
}

// answered is how many requests account i has answered.
func (p *pool) answered(i int) int {
	s := p.at(i)
	return s.Requests - s.Failed - s.Limited
}

// TestAnAccountThatIsDownHarmsNobody: others answer for it, it is hardly ever asked while
// it is down, and it is in use again when it is back.
func TestAnAccountThatIsDownHarmsNobody(t *testing.T) {
	f := newFleet(t, 1, 3)
	p := newPool(t, f, "down", impatient(), nil)
	before, during, after := loads()
	a, stop := p.busy(t)
	a.until(t, before)
	// Which conversations come first is chance, and the few may all be at home elsewhere.
	within(t, patience, "the heaviest account is used", func() bool { return p.answered(0) > 0 })

	down := time.Now()
	p.change(0, func(at *fakeprovider.Account) { at.Down = &fakeprovider.Failure{Kind: fakeprovider.Unavailable} })
	a.until(t, during)
	p.change(0, func(at *fakeprovider.Account) { at.Down = nil })
	lasted, failed, was := time.Since(down), p.at(0).Failed, p.answered(0)
	back := within(t, backInUse, "the account is in use again", func() bool { return p.answered(0)-was >= after })
	saw := stop()
	saw.noErrors(t)
	t.Logf("down for %v: %d failed attempts of %d calls meanwhile; %d calls of it %v after it was back; in all: %v; cached %.1f%%",
		lasted.Round(time.Millisecond), failed, during, after, back.Round(time.Millisecond), saw, 100*share(p.sum()))
	// Two attempts a node and cooldown, and those that were on their way when it went down.
	rounds := int(lasted/(1500*time.Millisecond)) + 1
	if most := 2*len(f.nodes)*rounds + a.atOnce; failed > most {
		t.Errorf("%d attempts failed within %v, want at most %d", failed, lasted, most)
	}
}

// backInUse bounds the time until an account that has recovered is used again: what a
// breaker stays open at first, ten seconds, and the machine's leisure.
const backInUse = 30 * time.Second

// TestASlowAccountIsLeftAndFoundAgain: conversations leave it though it has their cache,
// and come to it again when it is as fast as the others.
func TestASlowAccountIsLeftAndFoundAgain(t *testing.T) {
	f := newFleet(t, 1, 3)
	p := newPool(t, f, "slow", impatient(), nil)
	before, during, after := loads()
	a, stop := p.busy(t)
	a.until(t, before)
	within(t, patience, "the heaviest account is used", func() bool { return p.answered(0) > 0 })
	was := p.answered(0)

	slow, all := time.Now(), p.sum().Requests
	p.change(0, func(at *fakeprovider.Account) { at.Slow = 160 })
	a.until(t, during)
	within(t, backInUse, "a request tells that it left the slow account", func() bool { return a.told("escape") > 0 })
	lasted, meanwhile, calls := time.Since(slow), p.answered(0)-was, p.sum().Requests-all
	p.change(0, func(at *fakeprovider.Account) { at.Slow = 1 })
	was = p.answered(0)
	back := within(t, backInUse, "the account is in use again", func() bool { return p.answered(0)-was >= after })
	saw := stop()
	saw.noErrors(t)
	t.Logf("160 times slower for %v: %d of %d calls were its meanwhile; %d calls of it %v after it was back; in all: %v; cached %.1f%%",
		lasted.Round(time.Millisecond), meanwhile, calls, after, back.Round(time.Millisecond), saw, 100*share(p.sum()))
	if most := calls / 6; meanwhile > most { // a third by its weight
		t.Errorf("the slow account got %d of %d calls, want at most %d", meanwhile, calls, most)
	}
}

// TestALimitThatOneNodeMeetsKeepsTheFleetAway: an account whose limits nobody has
// configured says when to come back, and no node comes back earlier.
func TestALimitThatOneNodeMeetsKeepsTheFleetAway(t *testing.T) {
	f := newFleet(t, 1, 3)
	p := newPool(t, f, "met", paced(), nil)
	before, during, _ := loads()
	a, stop := p.busy(t)
	a.until(t, before)
	asked := f.provider.attempts(p.secretOf("c0"))
	p.limited("c0", 10*time.Minute)
	within(t, patience, "the limit is met", func() bool { return f.provider.attempts(p.secretOf("c0")) > asked })
	heavy := p.credential(t, "c0")
	within(t, protects, "every node lets the account rest", func() bool {
		return !slices.ContainsFunc(f.nodes, func(n *node) bool { return n.cooldown(t, heavy) == nil })
	})
	a.until(t, 2*a.atOnce) // those that were decided before
	met := f.provider.attempts(p.secretOf("c0")) - asked
	a.until(t, during)
	saw := stop()
	saw.noErrors(t)
	later := f.provider.attempts(p.secretOf("c0")) - asked - met
	t.Logf("%d calls met the limit before every node knew, %d later; in all: %v", met, later, saw)
	if later > 0 {
		t.Errorf("%d calls went to the account after every node knew that it rests", later)
	}
	if met > a.atOnce {
		t.Errorf("%d calls met the limit, want at most the %d that were under way", met, a.atOnce)
	}
}
