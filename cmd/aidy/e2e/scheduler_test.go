package e2e

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
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

// impatient has the times of minutes in seconds, for accounts that fail or are slow.
func impatient() *configv1.SchedulingPolicy {
	p := paced()
	p.StaleMs, p.EscapeTtftMs = proto.Int64(3000), proto.Int64(500)
	p.CooldownServerMs, p.CooldownNetworkMs = proto.Int64(1500), proto.Int64(750)
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
	for i := range 2 {
		if p.at(i).Requests == 0 {
			t.Errorf("account %d was never used, and it is one of the heaviest", i)
		}
	}
}
