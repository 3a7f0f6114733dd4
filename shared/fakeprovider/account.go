package fakeprovider

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Account models what the vendor keeps for one API key, for requests of [Generate]. A key
// without a model has no cache, no limits and no delays, which is the default. Scripts
// go first: a request whose [Step] fails does not reach the model, and [Step.Usage] is
// told in place of the model's counts.
type Account struct {
	// Cache keeps prompts for prefixes of later ones, each model on its own. The blocks of
	// a prompt are its tools, its system text and its messages, without their cache marks.
	//
	// Anthropic reads and writes where a block carries cache_control, which may ask for an
	// hour, and looks for earlier marks at most 20 blocks back. The others keep
	// every block for five minutes and tell what they read in steps of 128 tokens. A
	// prefix of less than 1024 tokens is never kept. What is written can be read as soon
	// as the answer begins.
	Cache bool `json:"cache,omitempty"`

	// RequestsPerMinute and InputTokensPerMinute are the sizes of buckets that are empty at
	// first and leak that much in a minute; 0 is no limit. Anthropic counts the input that it did not read
	// from the cache, the others all. A request larger than its bucket needs an empty one.
	// What is left is told in the vendor's headers with every answer that the model gets
	// to see; a request without room is answered with RateLimited and the time to wait.
	RequestsPerMinute    int64 `json:"requests_per_minute,omitempty"`
	InputTokensPerMinute int64 `json:"input_tokens_per_minute,omitempty"`

	// TTFT is waited before the response headers, and PerKilotoken for each 1000
	// tokens of the prompt that were not cached. Slow is a factor of both, default 1.
	TTFT         time.Duration `json:"-"`
	PerKilotoken time.Duration `json:"-"`
	Slow         float64       `json:"slow,omitempty"`

	// Down answers every request with this error, and counts it against no limit.
	Down *Failure `json:"-"`
}

// AccountStats counts what became of the requests of an account.
type AccountStats struct {
	Requests int `json:"requests"`
	Limited  int `json:"limited"` // answered with RateLimited for want of room
	Failed   int `json:"failed"`  // answered with Down

	// Tokens of the prompts that were answered: Prompt is all of them, Cached those read
	// from the cache and Written those written to it where the vendor tells.
	Prompt  int64 `json:"prompt"`
	Cached  int64 `json:"cached"`
	Written int64 `json:"written"`
}

// SetAccount gives a key a model, or changes the one it has, which keeps its cache and
// the fill of its buckets.
func (p *Provider) SetAccount(key string, a Account) {
	p.ChangeAccount(key, func(have *Account) { *have = a })
}

// ChangeAccount changes the model of a key, which is that of a new account if it has
// none: to break, slow down and repair it. change must not call the Provider.
func (p *Provider) ChangeAccount(key string, change func(*Account)) {
	p.accounts.mu.Lock()
	defer p.accounts.mu.Unlock()
	m := p.accounts.byKey[key]
	if m == nil {
		m = &accountModel{prefixes: map[prefixID]keptPrefix{}}
		if p.accounts.byKey == nil {
			p.accounts.byKey = map[string]*accountModel{}
		}
		p.accounts.byKey[key] = m
	}
	change(&m.Account)
}

// AccountStats returns the counts of a key since it has a model; zeros without one.
func (p *Provider) AccountStats(key string) AccountStats {
	p.accounts.mu.Lock()
	defer p.accounts.mu.Unlock()
	if m := p.accounts.byKey[key]; m != nil {
		return m.stats
	}
	return AccountStats{}
}

// allStats are the counts of every key that has a model.
func (p *Provider) allStats() map[string]AccountStats {
	p.accounts.mu.Lock()
	defer p.accounts.mu.Unlock()
	out := make(map[string]AccountStats, len(p.accounts.byKey))
	for key, m := range p.accounts.byKey {
		out[key] = m.stats
	}
	return out
}

// accounts are the models of keys. Safe for concurrent use.
type accounts struct {
	mu    sync.Mutex
	byKey map[string]*accountModel // guarded by mu, like what the models hold
}

func (a *accounts) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.byKey)
}

type accountModel struct {
	Account
	stats    AccountStats
	requests bucket
	input    bucket
	prefixes map[prefixID]keptPrefix
}

// bucket leaks its limit within a minute.
type bucket struct {
	used float64
	at   time.Time
}

// leak brings the fill up to date.
func (b *bucket) leak(limit int64, now time.Time) {
	b.used = max(0, b.used-float64(limit)*now.Sub(b.at).Minutes())
	b.at = now
}

// short is how long need has to wait for room; 0 if there is some.
func (b *bucket) short(limit, need int64) time.Duration {
	if limit <= 0 {
		return 0
	}
	over := b.used + float64(min(need, limit)) - float64(limit)
	if over <= 1e-9 { // of rounding
		return 0
	}
	return minutes(over / float64(limit))
}

func minutes(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }

// admission is what the model of a key has decided about a request.
type admission struct {
	model   *accountModel
	cached  cacheUse
	failure *Failure
	wait    time.Duration
}

// admit asks the model of the request's key. It is nil for a key without one.
func (c *call) admit() *admission {
	a := &c.p.accounts
	a.mu.Lock()
	m := a.byKey[c.key]
	caches := m != nil && m.Cache && m.Down == nil
	a.mu.Unlock()
	if m == nil {
		return nil
	}
	var blocks []promptBlock
	if caches {
		blocks = c.promptBlocks() // without the lock: it reads the whole prompt
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	now := c.p.cfg.Now()
	adm := &admission{model: m}
	m.stats.Requests++
	if m.Down != nil {
		m.stats.Failed++
		f := *m.Down
		adm.failure = &f
		return adm
	}
	prompt := tokens(c.ask.prompt)
	if caches {
		adm.cached = m.look(c.protocol, blocks, prompt, now)
	}
	counted := prompt
	if c.protocol == Anthropic {
		counted -= adm.cached.read
	}
	m.requests.leak(m.RequestsPerMinute, now)
	m.input.leak(m.InputTokensPerMinute, now)
	wait := max(m.requests.short(m.RequestsPerMinute, 1), m.input.short(m.InputTokensPerMinute, counted))
	if wait > 0 {
		m.stats.Limited++
		adm.failure = &Failure{Kind: RateLimited, RetryAfter: wait}
	} else {
		m.requests.used++
		m.input.used += float64(min(counted, max(m.InputTokensPerMinute, 0)))
		m.stats.Prompt += prompt
		m.stats.Cached += adm.cached.read
		m.stats.Written += adm.cached.written5m + adm.cached.written1h
		slow := m.Slow
		if slow == 0 {
			slow = 1
		}
		kilo := float64(prompt-adm.cached.read) / 1000
		adm.wait = time.Duration(slow * (float64(m.TTFT) + kilo*float64(m.PerKilotoken)))
	}
	m.tell(c.w.Header(), c.protocol, now)
	return adm
}

// begun keeps the prompt: the answer begins.
func (c *call) begun(adm *admission) {
	c.p.accounts.mu.Lock()
	defer c.p.accounts.mu.Unlock()
	adm.model.keep(adm.cached.writes, c.p.cfg.Now())
}

// tell writes what is left of the limits. Gemini does not tell.
func (m *accountModel) tell(h http.Header, p Protocol, now time.Time) {
	for _, l := range []struct {
		name, anthropic string
		limit           int64
		fill            *bucket
	}{
		{"Requests", "Requests", m.RequestsPerMinute, &m.requests},
		{"Tokens", "Input-Tokens", m.InputTokensPerMinute, &m.input},
	} {
		if l.limit <= 0 {
			continue
		}
		left := strconv.FormatInt(int64(math.Max(0, float64(l.limit)-l.fill.used)), 10)
		limit, reset := strconv.FormatInt(l.limit, 10), minutes(l.fill.used/float64(l.limit))
		switch p {
		case Chat, Responses:
			h.Set("X-Ratelimit-Limit-"+l.name, limit)
			h.Set("X-Ratelimit-Remaining-"+l.name, left)
			h.Set("X-Ratelimit-Reset-"+l.name, reset.Round(time.Millisecond).String())
		case Anthropic:
			h.Set("Anthropic-Ratelimit-"+l.anthropic+"-Limit", limit)
			h.Set("Anthropic-Ratelimit-"+l.anthropic+"-Remaining", left)
			h.Set("Anthropic-Ratelimit-"+l.anthropic+"-Reset", now.Add(reset).UTC().Format(time.RFC3339))
		}
	}
}
