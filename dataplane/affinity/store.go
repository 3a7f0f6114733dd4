package affinity

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	defaultEntries = 200_000
	defaultHeads   = 10_000
	defaultWindow  = 5 * time.Minute

	// maxScopes is how many scopes are known for one hash.
	maxScopes = 16

	// Of a request, the first boundaries and the last ones are recorded, and those with a
	// cache marker.
	recordFirst = 2
	recordLast  = 4

	// shards is how many parts a large store has, each with a lock of its own.
	shards = 16
)

// The confidence in a boundary, by what the usage said.
const (
	sure      = 1.0
	perhaps   = 0.6 // the upstream reports reads only, and this was not read
	doubtful  = 0.3 // the upstream reports nothing
	tolerance = 1.05
)

// Config tunes a Store. A zero field takes the default it documents.
type Config struct {
	// Entries is how many prefixes and sessions are remembered; those used least recently
	// go first. Default 200 000.
	Entries int

	// Heads is how many shared heads are counted. Default 10 000.
	Heads int

	// HeadWindow is the time in which requests with one head are counted. Default 5 min.
	HeadWindow time.Duration
}

// Store remembers which cache scopes served which prefixes, and which session is bound to
// which scope. It holds what one node has seen, is bounded, and is lost with the process.
// Safe for concurrent use.
type Store struct {
	parts  []shard
	heads  heads
	ratios ratios

	origins origins
}

type shard struct {
	mu      sync.RWMutex
	entries *simplelru.LRU[Hash, *entry] // guarded by mu
}

// entry is what is known of one hash.
type entry struct {
	uses []use
}

// use is what is known of a hash in one scope.
type use struct {
	scope          ScopeID
	tokens         int64 // 0 for a session
	start          time.Time
	ttlMin, ttlMax time.Duration
	confidence     float32
	from           *origin
}

func (u *use) match(now time.Time) Match {
	return Match{
		Scope: u.scope, Tokens: u.tokens, Confidence: float64(u.confidence),
		Age: max(now.Sub(u.start), 0), TTLMin: u.ttlMin, TTLMax: u.ttlMax,
	}
}

// NewStore returns an empty Store.
func NewStore(cfg Config) *Store {
	if cfg.Entries <= 0 {
		cfg.Entries = defaultEntries
	}
	n := shards
	if cfg.Entries < shards*64 {
		n = 1 // a small store keeps its bound exactly
	}
	s := &Store{parts: make([]shard, n), heads: newHeads(cfg), ratios: newRatios()}
	for i := range s.parts {
		s.parts[i].entries = newLRU[Hash, *entry](max(cfg.Entries/n, 1))
	}
	return s
}

// newLRU returns a list of at least one element; the constructor fails for less alone.
func newLRU[K comparable, V any](size int) *simplelru.LRU[K, V] {
	l, err := simplelru.NewLRU[K, V](max(size, 1), nil)
	if err != nil {
		panic(err)
	}
	return l
}

func (s *Store) shard(h Hash) *shard {
	return &s.parts[h.Hi%uint64(len(s.parts))]
}

// Lookup appends what is known of a request to dst, at most one Match for each scope: of
// the longest prefix that may still be cached there, and of the session's binding. The
// order is from the longest prefix to the shortest. It allocates nothing if dst has room.
func (s *Store) Lookup(dst []Match, k *Key, now time.Time) []Match {
	from := len(dst)
	for i := len(k.Chain) - 1; i >= 0; i-- {
		h := k.Chain[i].Hash
		p := s.shard(h)
		p.mu.RLock()
		if e, ok := p.entries.Peek(h); ok {
			dst = e.appendLive(dst, from, now)
		}
		p.mu.RUnlock()
	}
	if k.Session.IsZero() {
		return dst
	}
	bound, ok := s.binding(k.Session, now)
	if !ok {
		return dst
	}
	for i := range dst[from:] {
		if m := &dst[from+i]; m.Scope == bound.Scope {
			m.Session = true
			return dst
		}
	}
	bound.Session = true
	return append(dst, bound)
}

// appendLive appends a Match for each scope that dst has none of from the index on.
func (e *entry) appendLive(dst []Match, from int, now time.Time) []Match {
next:
	for i := range e.uses {
		u := &e.uses[i]
		for have := range dst[from:] {
			if dst[from+have].Scope == u.scope {
				continue next
			}
		}
		if m := u.match(now); m.Live() > 0 {
			dst = append(dst, m)
		}
	}
	return dst
}

// binding is the scope that a session is bound to, if it still is.
func (s *Store) binding(session Hash, now time.Time) (Match, bool) {
	p := s.shard(session)
	p.mu.RLock()
	defer p.mu.RUnlock()
	e, ok := p.entries.Peek(session)
	if !ok || len(e.uses) == 0 {
		return Match{}, false
	}
	m := e.uses[0].match(now)
	return m, m.Live() > 0
}

// Served is how a request was served.
type Served struct {
	Scope ScopeID

	// Predicted is how many tokens were expected to be read from the cache: those of the
	// match or, if Prior, of Key.PriorTokens, before Live and Ratio. 0 if none.
	Predicted int64
	Prior     bool

	// What the upstream said, in tokens; 0 where it said nothing.
	Read, Written, Prompt int64

	Reported      bool // it said how much was read or written; zero counts
	ReportsWrites bool // it tells writes, too

	MinPrefix      int64         // prompts below are not cached
	TTLMin, TTLMax time.Duration // of the upstream's cache; Key.MinTTL may raise both
	Start          time.Time     // of the request; zero is now

	// KeepBinding says that the request left the scope of its session by a sticky escape
	// or a spillover: the session is to return to it.
	KeepBinding bool

	Tenant, Route, Credential string // for Flush and Forget
	Provider, Model           string // for Ratio and PriorConfidence
	Logical                   string // the model that was asked for, for Scale
}

// Succeeded records that a request was served, and corrects what was believed by what the
// upstream said it read and wrote. Failures are not recorded at all.
func (s *Store) Succeeded(k *Key, r Served, now time.Time) {
	if r.Start.IsZero() || r.Start.After(now) {
		r.Start = now
	}
	r.Read, r.Written, r.Prompt = max(r.Read, 0), max(r.Written, 0), max(r.Prompt, 0)
	r.TTLMin = max(r.TTLMin, k.MinTTL)
	r.TTLMax = max(r.TTLMax, r.TTLMin)
	// Boundaries are estimates, what was read is counted: the prompt tells how they relate.
	scale := 1.0
	if r.Prompt > 0 && k.PromptTokens > 0 {
		scale = float64(r.Prompt) / float64(k.PromptTokens)
	}
	s.ratios.observe(k, &r, scale)
	from := s.origins.of(r.Tenant, r.Route, r.Credential)
	s.correct(k, &r, scale, from)
	if k.Kind == Strong && !k.Session.IsZero() {
		s.bind(k.Session, &r, from, now)
	}
}

// correct brings the boundaries of a request up to date for the scope that served it.
func (s *Store) correct(k *Key, r *Served, scale float64, from *origin) {
	if !r.Reported && max(r.Prompt, k.PromptTokens) < r.MinPrefix {
		return // nothing was cached, and nothing is said of what was
	}
	cached := tolerance * (float64(r.Read) + float64(r.Written))
	lost := r.Reported && r.ReportsWrites && r.Predicted > 0 && r.Read == 0 && r.Written == 0
	for i, b := range k.Chain {
		var confidence float32
		switch {
		case lost:
			// All that was believed of this scope was wrong.
		case !r.Reported:
			confidence = doubtful
		case float64(b.Tokens)*scale <= cached:
			confidence = sure
		case !r.ReportsWrites:
			confidence = perhaps
		}
		record := b.Marked || i < recordFirst || i >= len(k.Chain)-recordLast
		s.set(b, r, confidence, record, from)
	}
}

// set changes what is known of a boundary in the scope that served. Without confidence
// nothing stays; without record only what is known already is changed.
func (s *Store) set(b Boundary, r *Served, confidence float32, record bool, from *origin) {
	p := s.shard(b.Hash)
	p.mu.Lock()
	defer p.mu.Unlock()
	e, known := p.entries.Get(b.Hash)
	at := -1
	if known {
		at = e.find(r.Scope)
	}
	if confidence == 0 {
		if at >= 0 {
			p.drop(b.Hash, e, at)
		}
		return
	}
	made := use{
		scope: r.Scope, tokens: b.Tokens, start: r.Start, ttlMin: r.TTLMin, ttlMax: r.TTLMax,
		confidence: confidence, from: from,
	}
	switch {
	case at >= 0:
		e.uses[at] = e.uses[at].again(made)
	case !record:
	case !known:
		p.entries.Add(b.Hash, &entry{uses: []use{made}})
	default:
		e.add(made)
	}
}

// again is a use that was used once more. One that lives longer than the new request asks
// for goes on doing so while it lives.
func (u *use) again(made use) use {
	if made.start.Before(u.start) {
		made.start = u.start // an answer that came late
	}
	if made.start.Sub(u.start) < u.ttlMax {
		made.ttlMin, made.ttlMax = max(made.ttlMin, u.ttlMin), max(made.ttlMax, u.ttlMax)
	}
	return made
}

func (e *entry) find(scope ScopeID) int {
	return slices.IndexFunc(e.uses, func(u use) bool { return u.scope == scope })
}

// add adds a use; of too many the one that is the longest ago goes.
func (e *entry) add(made use) {
	if len(e.uses) < maxScopes {
		e.uses = append(e.uses, made)
		return
	}
	oldest := 0
	for i := range e.uses {
		if e.uses[i].start.Before(e.uses[oldest].start) {
			oldest = i
		}
	}
	e.uses[oldest] = made
}

// drop removes a use, and the entry with its last one. The caller holds mu.
func (p *shard) drop(h Hash, e *entry, at int) {
	if e.uses = slices.Delete(e.uses, at, at+1); len(e.uses) == 0 {
		p.entries.Remove(h)
	}
}

// bind binds a session to the scope that served it.
func (s *Store) bind(session Hash, r *Served, from *origin, now time.Time) {
	p := s.shard(session)
	p.mu.Lock()
	defer p.mu.Unlock()
	made := use{scope: r.Scope, start: r.Start, ttlMin: r.TTLMin, ttlMax: r.TTLMax, confidence: sure, from: from}
	e, ok := p.entries.Get(session)
	if !ok || len(e.uses) == 0 {
		p.entries.Add(session, &entry{uses: []use{made}})
		return
	}
	old := &e.uses[0]
	switch m := old.match(now); {
	case old.scope == r.Scope:
		*old = old.again(made)
	case r.KeepBinding && m.Live() > 0:
	case made.start.Before(old.start):
		// A newer request has moved it already.
	default:
		*old = made
	}
}

// Flush forgets what was served by a tenant, a route and a credential, and returns how
// much that was: uses of prefixes, and bindings. Empty stands for any.
func (s *Store) Flush(tenant, route, credential string) (n int) {
	return s.remove(func(o *origin) bool {
		return (tenant == "" || o.tenant == tenant) && (route == "" || o.route == route) &&
			(credential == "" || o.credential == credential)
	})
}

// Forget forgets what was served by credentials that are gone.
func (s *Store) Forget(gone func(credential string) bool) {
	known := make(map[string]bool)
	s.remove(func(o *origin) bool {
		if o.credential == "" {
			return false
		}
		is, ok := known[o.credential]
		if !ok {
			is = gone(o.credential)
			known[o.credential] = is
		}
		return is
	})
}

func (s *Store) remove(match func(*origin) bool) (n int) {
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		for _, h := range p.entries.Keys() {
			e, _ := p.entries.Peek(h)
			had := len(e.uses)
			e.uses = slices.DeleteFunc(e.uses, func(u use) bool { return match(u.from) })
			n += had - len(e.uses)
			if len(e.uses) == 0 {
				p.entries.Remove(h)
			}
		}
		p.mu.Unlock()
	}
	return n
}

// Len is how many prefixes and sessions are remembered.
func (s *Store) Len() (n int) {
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.RLock()
		n += p.entries.Len()
		p.mu.RUnlock()
	}
	return n
}

// origin is where a use came from.
type origin struct{ tenant, route, credential string }

// origins keeps one copy of each origin. It may forget: two copies do no harm.
type origins struct {
	mu   sync.Mutex
	seen *simplelru.LRU[origin, *origin] // guarded by mu; made at first use
}

const maxOrigins = 8192

func (o *origins) of(tenant, route, credential string) *origin {
	key := origin{tenant, route, credential}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		o.seen = newLRU[origin, *origin](maxOrigins)
	}
	if have, ok := o.seen.Get(key); ok {
		return have
	}
	made := &key
	o.seen.Add(key, made)
	return made
}
