package sim

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/upstream"
)

// naive makes a call the way of gateways that choose by one rule and go to another
// account after a failure.
func naive(p *provider, by picker, t *turn) (time.Duration, bool) {
	began := time.Now()
	var tried []string
	for range 4 {
		name := by.pick(t, tried)
		resp, err := p.Do(context.WithValue(context.Background(), turnKey{}, t), &upstream.Call{Header: http.Header{"X-Api-Key": {name}}})
		took := time.Since(began)
		if err == nil && resp.StatusCode == 200 {
			_, err = io.Copy(io.Discard, resp.Body)
			by.done(name)
			return took, err == nil
		}
		by.done(name)
		tried = append(tried, name)
	}
	return 0, false
}

// pool is what the simple rules know of the accounts.
type pool struct {
	mu      sync.Mutex
	list    []*account
	n       int
	running map[string]int
	rng     *rand.Rand
}

func newPool(list []*account) pool {
	return pool{list: list, running: map[string]int{}, rng: rand.New(rand.NewPCG(7, 7))}
}

func (p *pool) done(name string) {
	p.mu.Lock()
	p.running[name]--
	p.mu.Unlock()
}

func (p *pool) left(tried []string) []*account {
	out := slices.DeleteFunc(slices.Clone(p.list), func(a *account) bool { return slices.Contains(tried, a.name) })
	if len(out) == 0 {
		return p.list
	}
	return out
}

// roundRobin gives each request to the next account, as often as its weight says.
type roundRobin struct{ pool }

func (p *roundRobin) pick(_ *turn, tried []string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var turns []*account
	for _, a := range p.left(tried) {
		for range a.weight {
			turns = append(turns, a)
		}
	}
	p.n++
	name := turns[p.n%len(turns)].name
	p.running[name]++
	return name
}

// weightedRandom draws by weight.
type weightedRandom struct{ pool }

func (p *weightedRandom) pick(_ *turn, tried []string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.left(tried)
	total := int32(0)
	for _, a := range list {
		total += a.weight
	}
	n := p.rng.Int32N(total)
	for _, a := range list {
		if n -= a.weight; n < 0 {
			p.running[a.name]++
			return a.name
		}
	}
	return ""
}

// leastLoaded takes the account with the fewest running requests for its weight.
type leastLoaded struct{ pool }

func (p *leastLoaded) pick(_ *turn, tried []string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := slices.MinFunc(p.left(tried), func(a, b *account) int {
		return p.running[a.name]*int(b.weight) - p.running[b.name]*int(a.weight)
	})
	p.running[best.name]++
	return best.name
}

// consistentHash keeps a conversation on the account that its id hashes to.
type consistentHash struct{ pool }

func (p *consistentHash) pick(t *turn, tried []string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.left(tried)
	var turns []*account
	for _, a := range list {
		for range a.weight {
			turns = append(turns, a)
		}
	}
	h := uint64(14695981039346656037)
	for _, b := range []byte(strconv.Itoa(t.conversation)) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	name := turns[(h>>17)%uint64(len(turns))].name
	p.running[name]++
	return name
}

// peers are the ways that the scheduler is printed beside.
var peers = []struct {
	name string
	make func([]*account) picker
}{
	{"round-robin", func(l []*account) picker { return &roundRobin{newPool(l)} }},
	{"weighted random", func(l []*account) picker { return &weightedRandom{newPool(l)} }},
	{"least loaded", func(l []*account) picker { return &leastLoaded{newPool(l)} }},
	{"consistent hashing", func(l []*account) picker { return &consistentHash{newPool(l)} }},
}
