package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// situation is one thing that a fleet has to cope with.
type situation struct {
	name     string
	nodes    int
	weights  []int32
	priority []int32   // by account; nil for all the first
	limits   []float64 // by account, uncached input tokens a minute; nil for none
	troubles []trouble

	length time.Duration // in which conversations begin
	rate   float64       // conversations that begin in a minute
	seed   uint64

	told int
}

// result is what came of it.
type result struct {
	calls     int
	errors    int
	prompt    int64
	cached    int64
	bound     int64 // that one cache shared by all accounts would have had
	ttft      []time.Duration
	boundTTFT []time.Duration
	misplaced float64       // share of the tokens that went elsewhere than the weights say
	limited   int           // upstream 429
	failed    int           // attempts that met an outage
	back      time.Duration // from the end of the trouble until the account has half of its share again; negative for never
}

// share is the cached share of the prompt tokens, of the bound.
func (r *result) share() float64 { return float64(r.cached) / float64(r.bound) }

func p99(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)*99/100]
}

// picker chooses an account for a turn, in the place of the scheduler. It is told which
// accounts failed before.
type picker interface {
	pick(t *turn, tried []string) string
	done(name string)
}

// run plays a situation, with the product's scheduler or, if pick is not nil, with
// another way to choose.
func (s situation) run(t *testing.T, pick func(accounts []*account) picker) *result {
	t.Helper()
	res := &result{}
	synctest.Test(t, func(t *testing.T) {
		p := &provider{start: time.Now(), accounts: map[string]*account{}, troubles: s.troubles}
		var list []*account
		for i, w := range s.weights {
			a := &account{name: fmt.Sprintf("crd_%d", i), weight: w, cache: map[string]entry{}, minutes: map[int]int64{}}
			if s.limits != nil {
				a.limit = s.limits[i]
			}
			p.accounts[a.name] = a
			list = append(list, a)
		}
		var call func(n int, turn *turn, key *affinity.Key) (time.Duration, bool)
		if pick == nil {
			call = s.fleet(t, p)
		} else {
			chooser := pick(list)
			call = func(_ int, turn *turn, _ *affinity.Key) (time.Duration, bool) { return naive(p, chooser, turn) }
		}
		s.load(res, call)
		total, weights := int64(0), int32(0)
		for _, a := range list {
			res.limited += a.limited
			res.failed += a.failed
			res.prompt += a.tokens
			res.cached += a.cached
			total += a.tokens
			weights += a.weight
		}
		res.back = s.backAfter(list, weights)
		for _, a := range list {
			res.misplaced += math.Abs(float64(a.tokens)/float64(total)-float64(a.weight)/float64(weights)) / 2
		}
	})
	return res
}

// backAfter is how long after its trouble an account has half of its share again.
func (s situation) backAfter(list []*account, weights int32) time.Duration {
	if len(s.troubles) == 0 {
		return 0
	}
	tr := s.troubles[0]
	for m := int(tr.end/time.Minute) + 1; m < int(s.length/time.Minute); m++ {
		total, own, weight := int64(0), int64(0), int32(0)
		for _, a := range list {
			total += a.minutes[m]
			if a.name == tr.account {
				own, weight = a.minutes[m], a.weight
			}
		}
		if float64(own) >= 0.5*float64(total)*float64(weight)/float64(weights) {
			return time.Duration(m+1)*time.Minute - tr.end
		}
	}
	return -1
}

// fleet starts the nodes and returns how a call is made through one of them.
func (s *situation) fleet(t *testing.T, p *provider) func(int, *turn, *affinity.Key) (time.Duration, bool) {
	type node struct {
		scheduler *schedule.Scheduler
		store     *affinity.Store
		executor  *attempt.Executor
		view      *snapshot.View
	}
	codec := anthropic.New()
	body := []byte(`{"model":"m","max_tokens":500,"stream":true,"messages":[{"role":"user","content":"hello"}]}`)
	target := protocol.Target{Protocol: protocol.Anthropic, Op: protocol.OpGenerate, Stream: true, Framing: protocol.FramingSSE}
	shape, f := codec.Inspect(body, target)
	if f != nil {
		t.Fatal(f)
	}
	nodes := make([]*node, s.nodes)
	for i := range nodes {
		n := &node{view: s.view(t, p), store: affinity.NewStore(affinity.Config{})}
		n.scheduler = schedule.New(schedule.Config{Nodes: func() int { return s.nodes }})
		n.executor = attempt.New(n.scheduler, n.store, p, unmetered{}, snapshot.NewStaticHolder(n.view), func(http.Header, *attempt.Request, *attempt.Result) {})
		nodes[i] = n
	}
	policy := schedule.DefaultPolicy()
	return func(i int, turn *turn, key *affinity.Key) (time.Duration, bool) {
		n := nodes[i]
		began := time.Now()
		principal := &auth.Principal{Tenant: n.view.Tenant("ten_1")}
		d := resolve.Decision{Requested: "m", Model: "m"}
		w := &clock{header: http.Header{}}
		r := &attempt.Request{
			ID: fmt.Sprint("req_", i, turn.conversation, turn.prompt), Start: began, View: n.view,
			Route: &snapshot.Route{Route: &configv1.Route{Id: "rte_1"}}, Principal: principal, Target: target, Codec: codec, Shape: shape, Body: body,
			Protocol: configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES,
			HoldBody: func() func() { return func() {} }, Routed: "m",
			Candidates: plan.Expand(n.view, principal, d, configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES),
			Groups:     []string{"grp_1"}, Writer: w,
			Policy: attempt.PolicyOf(nil, &configv1.Route{}, true, 0, began),
			Scheduling: attempt.Scheduling{
				Policy: policy, Affinity: key, Matches: n.store.Lookup(nil, key, began),
				HeadRecent: int64(n.store.HeadRecent(key, began) * s.nodes),
			},
		}
		if s.nodes > 1 {
			r.Scheduling.PriorConf = policy.PriorConfidence
		}
		out := n.executor.Run(context.WithValue(t.Context(), turnKey{}, turn), r)
		if out.Fault != nil {
			if s.told++; s.told < 5 {
				t.Logf("%v after %v: %v %+v", out.Fault, time.Since(began), out.Stop, out.Fault.Gateway)
			}
			return 0, false
		}
		return w.first.Sub(began), true
	}
}

// view is the configuration: one model, an account for each weight.
func (s situation) view(t *testing.T, p *provider) *snapshot.View {
	t.Helper()
	shard := &syncv1.TenantShard{
		Tenant: &configv1.Tenant{Id: "ten_1"},
		Groups: []*configv1.Group{{Id: "grp_1", Name: "default"}},
		Providers: []*configv1.Provider{{Id: "prv_1", Name: "one", Capabilities: []*configv1.Capability{
			{Protocol: configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES, BaseUrl: "https://one.example"},
		}}},
		Upstreams: []*configv1.Upstream{{Id: "upr_1", ProviderId: "prv_1", GroupId: "grp_1"}},
		Models:    []*configv1.UpstreamModel{{Id: "upm_1", UpstreamId: "upr_1", Model: "m"}},
		Pricing: []*configv1.ProviderPricing{{ProviderId: "prv_1", Model: "m", Published: true, Items: []*configv1.PriceItem{
			{Component: configv1.PriceComponent_PRICE_COMPONENT_INPUT, PerMtokNanos: 3_000_000_000},
			{Component: configv1.PriceComponent_PRICE_COMPONENT_CACHE_READ, PerMtokNanos: 300_000_000},
			{Component: configv1.PriceComponent_PRICE_COMPONENT_CACHE_WRITE_5M, PerMtokNanos: 3_750_000_000},
			{Component: configv1.PriceComponent_PRICE_COMPONENT_OUTPUT, PerMtokNanos: 15_000_000_000},
		}}},
	}
	secrets := &syncv1.CredentialShard{TenantId: "ten_1"}
	for i, w := range s.weights {
		c := &configv1.UpstreamCredential{Id: fmt.Sprintf("crd_%d", i), UpstreamId: "upr_1", Weight: &w}
		if s.priority != nil {
			c.Priority = &s.priority[i]
		}
		if s.limits != nil {
			itpm := int64(s.limits[i])
			c.Limits = &configv1.Limits{Itpm: &itpm}
		}
		shard.Credentials = append(shard.Credentials, c)
		secrets.Secrets = append(secrets.Secrets, &syncv1.SealedSecret{CredentialId: c.Id, Sealed: []byte(c.Id)})
	}
	v, err := snapshot.Static([]snapshot.TenantBuilder{resolve.Builder(), plan.Builder()}, nil, shard, secrets,
		&syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_TENANT, Id: "ten_1"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// load makes the conversations: agents that ask again and again with everything said so
// far, some with pauses longer than the cache lives, through a balancer that gives each
// request to the next node.
func (s situation) load(res *result, call func(int, *turn, *affinity.Key) (time.Duration, bool)) {
	rng := rand.New(rand.NewPCG(s.seed, 1))
	shared := &account{cache: map[string]entry{}}
	var mu sync.Mutex
	next := 0
	var wg sync.WaitGroup
	began := time.Now()
	for n := 0; time.Since(began) < s.length; n++ {
		own := rand.New(rand.NewPCG(s.seed, uint64(n)+2))
		wg.Go(func() {
			estimate := 0.85 + 0.3*own.Float64() // four bytes a token is not exact
			head := own.IntN(6)
			headTokens := int64(2000 + 800*head)
			prior, prompt := int64(0), headTokens+int64(300+own.IntN(2000))
			for i := range 5 + own.IntN(36) {
				t := &turn{
					conversation: n, head: head, headTokens: headTokens, prior: prior, prompt: prompt,
					output: int64(100 + own.IntN(500)), noise: 0.85 + 0.3*own.Float64(),
				}
				key := keyOf(t, i, estimate)
				mu.Lock()
				node := next % s.nodes
				next++
				hit := shared.lookup(t, time.Now(), true)
				res.calls++
				res.bound += hit
				res.boundTTFT = append(res.boundTTFT, ttft(t, hit))
				mu.Unlock()
				took, ok := call(node, t, key)
				mu.Lock()
				if ok {
					res.ttft = append(res.ttft, took)
				} else {
					res.errors++
				}
				mu.Unlock()
				prior, prompt = prompt, prompt+t.output+int64(200+own.IntN(2500))
				think := time.Duration(own.ExpFloat64() * float64(12*time.Second))
				if own.IntN(40) == 0 {
					think += 6 * time.Minute
				}
				time.Sleep(think)
			}
		})
		time.Sleep(time.Duration(rng.ExpFloat64() / s.rate * float64(time.Minute)))
	}
	wg.Wait()
}

// keyOf is the affinity key of a turn, as it would be read from a request.
func keyOf(t *turn, i int, estimate float64) *affinity.Key {
	// The shared head has the same bytes for everybody, and so the same estimate.
	head := int64(0.95 * float64(t.headTokens))
	scaled := func(n int64) int64 {
		if n <= t.headTokens {
			return min(n, head)
		}
		return head + int64(float64(n-t.headTokens)*estimate)
	}
	root := fmt.Sprintf("%08x", t.conversation)
	k := &affinity.Key{
		Kind: affinity.Weak, Source: "prefix", Root: root, PromptTokens: scaled(t.prompt), PriorTokens: scaled(t.prior),
		Head: affinity.Hash{Hi: 1, Lo: uint64(t.head)}, HeadTokens: head, Writes: true,
	}
	k.Chain = append(k.Chain, affinity.Boundary{Hash: k.Head, Block: affinity.System, Tokens: k.HeadTokens, Marked: true})
	for j := range i + 1 {
		tokens := scaled(t.prompt)
		if j < i {
			tokens = scaled(t.prior) // earlier ones are nearer to the beginning, which does not matter here
		}
		k.Chain = append(k.Chain, affinity.Boundary{Hash: affinity.Hash{Hi: uint64(t.conversation) + 10, Lo: uint64(j)}, Block: affinity.Message, Tokens: tokens})
	}
	return k
}

// clock is a client that notes when its answer began.
type clock struct {
	header http.Header
	first  time.Time
}

func (c *clock) Header() http.Header { return c.header }
func (c *clock) WriteHeader(int)     {}
func (c *clock) Write(p []byte) (int, error) {
	if c.first.IsZero() {
		c.first = time.Now()
	}
	return len(p), nil
}
func (c *clock) Flush() {}

// unmetered keeps no record.
type unmetered struct{}

func (unmetered) Begin(*attempt.Request, *plan.Candidate, int) (attempt.Record, error) {
	return unmetered{}, nil
}
func (unmetered) Progress(relay.Outcome) {}
func (unmetered) Settle(attempt.End)     {}
