package affinity_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

var start = time.Unix(1_000_000, 0)

// served is a success of a scope whose upstream tells reads and writes and had the whole
// prompt in its cache afterwards.
func served(k *affinity.Key, scope affinity.ScopeID) affinity.Served {
	return affinity.Served{
		Scope: scope, Written: k.PromptTokens, Prompt: k.PromptTokens, Reported: true, ReportsWrites: true,
		TTLMin: 5 * time.Minute, TTLMax: 10 * time.Minute, Tenant: "t1",
	}
}

func lookup(s *affinity.Store, k *affinity.Key, now time.Time) []affinity.Match {
	return s.Lookup(nil, k, now)
}

// strong is a key with a session.
func strong(t fatal, session string, texts ...string) affinity.Key {
	t.Helper()
	in := input(t, protocol.OpenAIChat, compact().body(request(protocol.OpenAIChat, "s", texts...)))
	in.Header.Set(affinity.KeyHeader, session)
	return affinity.Read(in)
}

func TestLive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		least, most, age time.Duration
		want             float64
	}{
		{5 * time.Minute, 10 * time.Minute, 0, 0.8},
		{5 * time.Minute, 10 * time.Minute, 5 * time.Minute, 0.8},
		{5 * time.Minute, 10 * time.Minute, 7*time.Minute + 30*time.Second, 0.4},
		{5 * time.Minute, 10 * time.Minute, 10 * time.Minute, 0},
		{5 * time.Minute, 10 * time.Minute, time.Hour, 0},
		{5 * time.Minute, 5 * time.Minute, 5 * time.Minute, 0.8},
		{5 * time.Minute, 5 * time.Minute, 5*time.Minute + 1, 0},
	} {
		m := affinity.Match{Confidence: 0.8, Age: c.age, TTLMin: c.least, TTLMax: c.most}
		if got := m.Live(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v to %v at %v: %v, want %v", c.least, c.most, c.age, got, c.want)
		}
	}
}

func TestDefaultTTL(t *testing.T) {
	t.Parallel()
	for p, want := range map[configv1.Protocol][2]time.Duration{
		configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES:      {5 * time.Minute, 5 * time.Minute},
		configv1.Protocol_PROTOCOL_OPENAI_CHAT:             {5 * time.Minute, 10 * time.Minute},
		configv1.Protocol_PROTOCOL_OPENAI_RESPONSES:        {5 * time.Minute, 10 * time.Minute},
		configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT: {5 * time.Minute, time.Hour},
		configv1.Protocol_PROTOCOL_UNSPECIFIED:             {10 * time.Minute, 10 * time.Minute},
	} {
		if least, most := affinity.DefaultTTL(p); least != want[0] || most != want[1] {
			t.Errorf("%v: %v to %v, want %v", p, least, most, want)
		}
	}
}

// The longest prefix of each scope is found, and no other.
func TestLookupFindsTheLongestPrefixOfEachScope(t *testing.T) {
	t.Parallel()
	s := affinity.NewStore(affinity.Config{})
	first, second := ask(t, protocol.OpenAIChat, "a"), ask(t, protocol.OpenAIChat, "a", "b", "c")
	s.Succeeded(&first, served(&first, 1), start)
	s.Succeeded(&first, served(&first, 2), start)
	s.Succeeded(&second, served(&second, 1), start)
	now := ask(t, protocol.OpenAIChat, "a", "b", "c", "d", "e")
	want := []affinity.Match{
		{Scope: 1, Tokens: second.PromptTokens, Confidence: 1, Age: time.Minute, TTLMin: 5 * time.Minute, TTLMax: 10 * time.Minute},
		{Scope: 2, Tokens: first.PromptTokens, Confidence: 1, Age: time.Minute, TTLMin: 5 * time.Minute, TTLMax: 10 * time.Minute},
	}
	if diff := cmp.Diff(want, lookup(s, &now, start.Add(time.Minute))); diff != "" {
		t.Errorf("matches (-want +got):\n%s", diff)
	}
	other := ask(t, protocol.OpenAIChat, "x")
	got := lookup(s, &other, start)
	if len(got) != 2 || got[0].Tokens != other.Chain[2].Tokens {
		t.Errorf("another conversation shares %+v, want all before the messages, %d tokens", got, other.Chain[2].Tokens)
	}
	if got := lookup(s, &now, start.Add(10*time.Minute)); len(got) != 0 {
		t.Errorf("found %+v after its lifetime", got)
	}
}

func TestLookupAllocatesNothing(t *testing.T) { // not parallel: allocations are counted
	s := affinity.NewStore(affinity.Config{})
	k := strong(t, "one", "a", "b", "c")
	s.Succeeded(&k, served(&k, 1), start)
	dst := make([]affinity.Match, 0, 8)
	if n := testing.AllocsPerRun(100, func() { dst = s.Lookup(dst[:0], &k, start) }); n != 0 || len(dst) != 1 {
		t.Errorf("%v allocations a lookup that finds %+v", n, dst)
	}
}

// The rows of what usage corrects, for the boundaries at 40 %, and at the end, of a prompt
// whose first part was read.
func TestUsageCorrectsConfidence(t *testing.T) {
	t.Parallel()
	k := ask(t, protocol.OpenAIChat, "a", "b", "c")
	end := k.PromptTokens
	part := k.Chain[len(k.Chain)-3].Tokens
	for _, c := range []struct {
		name   string
		served affinity.Served
		want   map[int64]float64 // by tokens
		gone   bool
	}{
		{"all read", affinity.Served{Read: end, Reported: true}, map[int64]float64{end: 1}, false},
		{"read and written", affinity.Served{Read: part, Written: end - part, Reported: true, ReportsWrites: true}, map[int64]float64{end: 1}, false},
		{"in part, tells reads", affinity.Served{Read: part, Reported: true}, map[int64]float64{end: 0.6}, false},
		{"in part, tells writes", affinity.Served{Read: part, Reported: true, ReportsWrites: true}, map[int64]float64{part: 1}, false},
		{"within the tolerance", affinity.Served{Read: int64(float64(end)/1.05) + 1, Reported: true, ReportsWrites: true}, map[int64]float64{end: 1}, false},
		{"nothing said", affinity.Served{}, map[int64]float64{end: 0.3}, false},
		{"nothing said, too short to be cached", affinity.Served{MinPrefix: end + 1}, nil, true},
		{"nothing cached, tells writes", affinity.Served{Reported: true, ReportsWrites: true}, nil, true},
		{"nothing cached, tells reads", affinity.Served{Reported: true}, map[int64]float64{end: 0.6}, false},
		{"a negative count", affinity.Served{Read: -5, Reported: true, ReportsWrites: true}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := affinity.NewStore(affinity.Config{})
			c.served.Scope, c.served.TTLMin, c.served.TTLMax = 1, time.Minute, time.Minute
			s.Succeeded(&k, c.served, start)
			got := lookup(s, &k, start)
			if c.gone {
				if len(got) != 0 || s.Len() != 0 {
					t.Errorf("found %+v, want nothing", got)
				}
				return
			}
			if len(got) != 1 || math.Abs(c.want[got[0].Tokens]-got[0].Confidence) > 1e-6 {
				t.Errorf("found %+v, want %v", got, c.want)
			}
		})
	}
}

// An estimate that is off for a prompt does not make its end seem uncached.
func TestEstimatesAreMeasuredByThePrompt(t *testing.T) {
	t.Parallel()
	s := affinity.NewStore(affinity.Config{})
	k := ask(t, protocol.Anthropic, "a")
	r := served(&k, 1)
	r.Prompt = k.PromptTokens / 2
	r.Written = r.Prompt
	s.Succeeded(&k, r, start)
	if got := lookup(s, &k, start); len(got) != 1 || got[0].Tokens != k.PromptTokens || got[0].Confidence != 1 {
		t.Errorf("found %+v, want all %d tokens: the whole prompt was written", got, k.PromptTokens)
	}
}

func TestPredictionThatFailsRemovesTheChain(t *testing.T) {
	t.Parallel()
	s := affinity.NewStore(affinity.Config{})
	k := ask(t, protocol.Anthropic, "a", "b", "c")
	s.Succeeded(&k, served(&k, 1), start)
	s.Succeeded(&k, served(&k, 2), start)
	s.Succeeded(&k, affinity.Served{Scope: 1, Predicted: k.PromptTokens, Reported: true, ReportsWrites: true, TTLMax: time.Hour}, start)
	if got := lookup(s, &k, start); len(got) != 1 || got[0].Scope != 2 {
		t.Errorf("found %+v, want scope 2 alone", got)
	}
	s.Succeeded(&k, affinity.Served{Scope: 2, Predicted: k.PromptTokens, Reported: true, ReportsWrites: true, TTLMax: time.Hour}, start)
	if s.Len() != 0 {
		t.Errorf("%d entries of which nothing is believed", s.Len())
	}
}

// Lifetimes count from the start of the last request, and the longest asked for wins.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	s := affinity.NewStore(affinity.Config{})
	k := read(t, protocol.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}`)
	plain := read(t, protocol.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`)
	r := served(&k, 1)
	r.Start = start.Add(-time.Minute)
	s.Succeeded(&k, r, start)
	m := lookup(s, &k, start)[0]
	if m.Age != time.Minute || m.TTLMin != time.Hour || m.TTLMax != time.Hour {
		t.Errorf("%+v, want an hour from the start a minute ago", m)
	}
	// A later request without a wish uses the entry, which lives on as it was written.
	r = served(&plain, 1)
	r.Start = start.Add(30 * time.Minute)
	s.Succeeded(&plain, r, start.Add(31*time.Minute))
	if m := lookup(s, &k, start.Add(31*time.Minute))[0]; m.Age != time.Minute || m.TTLMin != time.Hour {
		t.Errorf("%+v, want an hour from the second start", m)
	}
	// An answer that comes late does not make the entry older.
	r.Start = start
	s.Succeeded(&plain, r, start.Add(32*time.Minute))
	if m := lookup(s, &k, start.Add(32*time.Minute))[0]; m.Age != 2*time.Minute {
		t.Errorf("age %v, want 2m", m.Age)
	}
	// Once it is gone, the next one makes it anew.
	s.Succeeded(&plain, served(&plain, 1), start.Add(3*time.Hour))
	if m := lookup(s, &k, start.Add(3*time.Hour))[0]; m.TTLMin != 5*time.Minute {
		t.Errorf("%+v, want what the last request asks for", m)
	}
}

func TestSessionBinding(t *testing.T) {
	t.Parallel()
	bound := func(s *affinity.Store, k *affinity.Key, now time.Time) affinity.ScopeID {
		for _, m := range lookup(s, k, now) {
			if m.Session {
				return m.Scope
			}
		}
		return 0
	}
	s := affinity.NewStore(affinity.Config{})
	k := strong(t, "one", "a")
	s.Succeeded(&k, served(&k, 1), start)
	if got := bound(s, &k, start); got != 1 {
		t.Errorf("bound to %d, want 1", got)
	}
	// The binding does not depend on the prompt, and a scope has one match.
	fresh := strong(t, "one", "z")
	got := lookup(s, &fresh, start)
	if len(got) != 1 || !got[0].Session || got[0].Tokens == 0 {
		t.Errorf("found %+v, want one match of the shared head with the binding", got)
	}
	bare := fresh
	bare.Chain = nil
	if got := lookup(s, &bare, start); len(got) != 1 || !got[0].Session || got[0].Tokens != 0 {
		t.Errorf("found %+v, want the binding alone", got)
	}
	// An escape leaves it, another success moves it.
	escape := served(&k, 2)
	escape.KeepBinding = true
	s.Succeeded(&k, escape, start)
	if got := bound(s, &k, start); got != 1 {
		t.Errorf("bound to %d after an escape, want 1", got)
	}
	s.Succeeded(&k, served(&k, 3), start)
	if got := bound(s, &k, start); got != 3 {
		t.Errorf("bound to %d, want 3", got)
	}
	late := served(&k, 4)
	late.Start = start.Add(-time.Second)
	s.Succeeded(&k, late, start)
	if got := bound(s, &k, start); got != 3 {
		t.Errorf("bound to %d by an older request that ended later, want 3", got)
	}
	if got := bound(s, &k, start.Add(10*time.Minute)); got != 0 {
		t.Errorf("still bound to %d after its lifetime", got)
	}
	if other := strong(t, "two", "a"); bound(s, &other, start) != 0 {
		t.Error("another session is bound, too")
	}
	// A binding that is over does not hold an escape back.
	s.Succeeded(&k, escape, start.Add(time.Hour))
	if got := bound(s, &k, start.Add(time.Hour)); got != 2 {
		t.Errorf("bound to %d, want 2", got)
	}
}

func TestWeakRequestsBindNothing(t *testing.T) {
	t.Parallel()
	s := affinity.NewStore(affinity.Config{})
	k := ask(t, protocol.OpenAIChat, "a")
	s.Succeeded(&k, served(&k, 1), start)
	for _, m := range lookup(s, &k, start) {
		if m.Session {
			t.Errorf("a weak request is bound: %+v", m)
		}
	}
	if s.Len() != len(k.Chain) {
		t.Errorf("%d entries for %d boundaries", s.Len(), len(k.Chain))
	}
}

// Of a long prompt the ends are recorded, and where there are cache markers.
func TestRecordedBoundaries(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"0"}`)
	for i := 1; i < 20; i++ {
		mark := ""
		if i == 9 {
			mark = `,"cache_control":{"type":"ephemeral"}`
		}
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"text","text":"%d"%s}]}`, i, mark)
	}
	b.WriteString("]}")
	k := read(t, protocol.Anthropic, b.String())
	s := affinity.NewStore(affinity.Config{})
	s.Succeeded(&k, served(&k, 1), start)
	var found []int
	for i := range k.Chain {
		one := affinity.Key{Kind: affinity.Weak, Chain: k.Chain[i : i+1]}
		if len(lookup(s, &one, start)) > 0 {
			found = append(found, i)
		}
	}
	if want := []int{0, 1, 9, 16, 17, 18, 19}; !slices.Equal(found, want) {
		t.Errorf("recorded %v, want %v", found, want)
	}
}

func TestStoreIsBounded(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{10, 4096} {
		s := affinity.NewStore(affinity.Config{Entries: entries})
		used := ask(t, protocol.OpenAIChat, "used")
		for i := range 2 * entries {
			s.Succeeded(&used, served(&used, 1), start)
			k := talk(t, fmt.Sprint("talk ", i), 1)
			s.Succeeded(&k, served(&k, 1), start)
			if m := lookup(s, &used, start); len(m) != 1 || m[0].Tokens != used.PromptTokens {
				t.Fatalf("what was used last but one is gone: %+v", m)
			}
		}
		if s.Len() > entries {
			t.Errorf("%d entries, want at most %d", s.Len(), entries)
		}
	}
	s := affinity.NewStore(affinity.Config{})
	k := ask(t, protocol.OpenAIChat, "a")
	for i := range 40 {
		s.Succeeded(&k, served(&k, affinity.ScopeID(i+1)), start.Add(time.Duration(i)*time.Second))
	}
	got := lookup(s, &k, start.Add(time.Minute))
	if len(got) != 16 || slices.ContainsFunc(got, func(m affinity.Match) bool { return m.Scope <= 24 }) {
		t.Errorf("found %+v, want the 16 scopes used last", got)
	}
}

// A flush makes the next request of whatever it names cold, and of nothing else.
func TestField_F21_FlushForgetsWhatItNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                      string
		tenant, route, credential string
		left                      []affinity.ScopeID
	}{
		{"a credential", "", "", "c1", []affinity.ScopeID{2, 3}},
		{"a route", "", "r1", "", []affinity.ScopeID{3}},
		{"a tenant", "t1", "", "", nil},
		{"another tenant", "t2", "", "", []affinity.ScopeID{1, 2, 3}},
		{"a credential on a route", "t1", "r2", "c1", []affinity.ScopeID{1, 2, 3}},
		{"everything", "", "", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := affinity.NewStore(affinity.Config{})
			k := strong(t, "one", "a")
			for i, from := range [][2]string{{"r1", "c1"}, {"r1", "c2"}, {"r2", "c2"}} {
				r := served(&k, affinity.ScopeID(i+1))
				r.Route, r.Credential = from[0], from[1]
				s.Succeeded(&k, r, start)
			}
			n := s.Flush(c.tenant, c.route, c.credential)
			var left []affinity.ScopeID
			for _, m := range lookup(s, &k, start) {
				left = append(left, m.Scope)
				if m.Session && m.Scope != 3 {
					t.Errorf("bound to %d, want 3 or none", m.Scope)
				}
			}
			slices.Sort(left)
			if !slices.Equal(left, c.left) || (n == 0) != (len(c.left) == 3) {
				t.Errorf("%d forgotten, left %v, want %v", n, left, c.left)
			}
			if len(c.left) == 0 && s.Len() != 0 {
				t.Errorf("%d entries left", s.Len())
			}
		})
	}
}

func TestCredentialsThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	s := affinity.NewStore(affinity.Config{})
	k := ask(t, protocol.OpenAIChat, "a")
	for i, c := range []string{"c1", "c2", ""} {
		r := served(&k, affinity.ScopeID(i+1))
		r.Credential = c
		s.Succeeded(&k, r, start)
	}
	s.Forget(func(c string) bool { return c != "c2" })
	var left []affinity.ScopeID
	for _, m := range lookup(s, &k, start) {
		left = append(left, m.Scope)
	}
	if !slices.Equal(left, []affinity.ScopeID{2, 3}) {
		t.Errorf("left %v, want c2 and the upstream without credentials", left)
	}
}

// A turn of an agent, of 150 calls over six accounts that are shuffled for every call,
// reads from the cache at least 90 % of what one account would.
func TestField_F18_AgentTurnStaysWithItsCache(t *testing.T) {
	t.Parallel()
	// reads is the share of the prompts that was read from caches, which are exact and
	// live five minutes.
	reads := func(accounts int) float64 {
		s := affinity.NewStore(affinity.Config{})
		rng := rand.New(rand.NewPCG(1, 2))
		type cached struct {
			account int
			hash    affinity.Hash
		}
		caches := map[cached]time.Time{}
		texts, now := []string{"start"}, start
		var read, prompts int64
		for range 150 {
			k := ask(t, protocol.Anthropic, texts...)
			account, best := rng.IntN(accounts), 0.0
			for _, m := range lookup(s, &k, now) {
				if h := float64(m.Tokens) * m.Live(); h > best {
					account, best = int(m.Scope), h
				}
			}
			hit := int64(0)
			for _, b := range k.Chain {
				at := cached{account, b.Hash}
				if last, ok := caches[at]; ok && now.Sub(last) <= 5*time.Minute {
					hit = b.Tokens
				}
				caches[at] = now
			}
			read, prompts = read+hit, prompts+k.PromptTokens
			s.Succeeded(&k, affinity.Served{
				Scope: affinity.ScopeID(account), Predicted: int64(best), Read: hit, Written: k.PromptTokens - hit, Prompt: k.PromptTokens,
				Reported: true, ReportsWrites: true, TTLMin: 5 * time.Minute, TTLMax: 5 * time.Minute,
			}, now)
			texts = append(texts, fmt.Sprint("call ", len(texts)), fmt.Sprint("result ", len(texts)))
			now = now.Add(20 * time.Second)
		}
		return float64(read) / float64(prompts)
	}
	one, six := reads(1), reads(6)
	if one < 0.9 || six < 0.9*one {
		t.Errorf("%.1f %% read with six accounts, %.1f %% with one", 100*six, 100*one)
	}
}

func TestRatios(t *testing.T) {
	t.Parallel()
	s := affinity.NewStore(affinity.Config{})
	k := ask(t, protocol.OpenAIChat, "a")
	if got := s.Ratio("p", "m"); got != 1 {
		t.Errorf("ratio %v before anything was seen, want 1", got)
	}
	if got := s.PriorConfidence("p", "m", 0.7); got != 0.7 {
		t.Errorf("prior confidence %v before anything was seen, want 0.7", got)
	}
	see := func(read int64, prior, reported bool) {
		s.Succeeded(&k, affinity.Served{
			Scope: 1, Predicted: 1000, Prior: prior, Read: read, Prompt: k.PromptTokens, Reported: reported, Provider: "p", Model: "m",
		}, start)
	}
	see(500, false, true)
	if got := s.Ratio("p", "m"); math.Abs(got-0.95) > 1e-9 {
		t.Errorf("ratio %v after a half, want 0.95", got)
	}
	see(0, false, false)
	if got := s.Ratio("p", "m"); math.Abs(got-0.95) > 1e-9 {
		t.Errorf("ratio %v after an answer that says nothing, want 0.95", got)
	}
	if got := s.PriorConfidence("p", "m", 0.7); got != 0.7 {
		t.Errorf("prior confidence %v after matches alone, want 0.7", got)
	}
	see(900, true, true)
	if got := s.PriorConfidence("p", "m", 0.7); math.Abs(got-0.72) > 1e-9 {
		t.Errorf("prior confidence %v, want 0.72", got)
	}
	for range 200 {
		see(0, false, true)
		see(5000, true, true)
	}
	if got := s.Ratio("p", "m"); math.Abs(got-0.1) > 1e-6 {
		t.Errorf("ratio %v, want its floor 0.1", got)
	}
	if got := s.PriorConfidence("p", "m", 0.7); math.Abs(got-1) > 1e-6 {
		t.Errorf("prior confidence %v, want its ceiling 1", got)
	}
	if got := s.Ratio("p", "other"); got != 1 {
		t.Errorf("ratio %v of another model, want 1", got)
	}
}

// Estimates approach what providers count.
func TestScaleIsLearned(t *testing.T) {
	t.Parallel()
	s := affinity.NewStore(affinity.Config{})
	in := input(t, protocol.OpenAIChat, textBody(8000))
	for range 200 {
		in.Scale = s.Scale("t1", "m")
		k := affinity.Read(in)
		s.Succeeded(&k, affinity.Served{Scope: 1, Prompt: 1000, Tenant: "t1", Logical: "m"}, start)
	}
	in.Scale = s.Scale("t1", "m")
	if k := affinity.Read(in); k.PromptTokens < 990 || k.PromptTokens > 1010 {
		t.Errorf("%d tokens, want about 1000", k.PromptTokens)
	}
	if got := s.Scale("t2", "m"); got != 1 {
		t.Errorf("scale %v of another tenant, want 1", got)
	}
}

func TestHeadsAreCountedInTheirWindow(t *testing.T) {
	t.Parallel()
	s := affinity.NewStore(affinity.Config{})
	a, b := ask(t, protocol.OpenAIChat, "a"), ask(t, protocol.OpenAIChat, "b")
	for i, k := range []affinity.Key{a, b, a} {
		if got := s.HeadWould(&k, start); got != i+1 {
			t.Errorf("request %d would be %d", i+1, got)
		}
		if got := s.HeadRecent(&k, start); got != i+1 {
			t.Errorf("request %d is counted as %d", i+1, got)
		}
	}
	if got := s.HeadRecent(&a, start.Add(4*time.Minute)); got != 4 {
		t.Errorf("%d after 4 minutes, want 4", got)
	}
	if got := s.HeadRecent(&a, start.Add(6*time.Minute)); got != 2 {
		t.Errorf("%d after 6 minutes, want 2", got)
	}
	if got := s.HeadRecent(&a, start.Add(time.Hour)); got != 1 {
		t.Errorf("%d after an hour, want 1", got)
	}
	bare := read(t, protocol.OpenAIChat, `{"model":"m","messages":[{"role":"user","content":"a"}]}`)
	if got := s.HeadRecent(&bare, start); got != 0 {
		t.Errorf("%d for a prompt without a head, want 0", got)
	}
	few := affinity.NewStore(affinity.Config{Heads: 2})
	for i := range 100 {
		k := read(t, protocol.OpenAIChat, fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":"%d"},{"role":"user","content":"a"}]}`, i%3))
		if got := few.HeadRecent(&k, start); got != 1 {
			t.Fatalf("%d, want 1: of three heads two are kept", got)
		}
	}
}

// Two stores that are told the same answer the same, whatever it is.
func TestStoresFedAlikeAnswerAlike(t *testing.T) {
	t.Parallel()
	keys := []affinity.Key{
		ask(t, protocol.OpenAIChat, "a"), ask(t, protocol.OpenAIChat, "a", "b", "c"), ask(t, protocol.Gemini, "a"),
		strong(t, "one", "a"), strong(t, "two", "a", "b", "c"),
	}
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SampledFrom([]int{3, 20, 5000}).Draw(t, "entries")
		x, y := affinity.NewStore(affinity.Config{Entries: entries}), affinity.NewStore(affinity.Config{Entries: entries})
		now := start
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "pause")) * time.Second)
			k := &keys[rapid.IntRange(0, len(keys)-1).Draw(t, "key")]
			credential := rapid.SampledFrom([]string{"c1", "c2", ""}).Draw(t, "credential")
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				if a, b := x.Flush("", "", credential), y.Flush("", "", credential); a != b {
					t.Fatalf("flushed %d and %d", a, b)
				}
			case 1:
				gone := func(c string) bool { return c == credential }
				x.Forget(gone)
				y.Forget(gone)
			default:
				r := affinity.Served{
					Scope: affinity.ScopeID(rapid.IntRange(1, 20).Draw(t, "scope")), Predicted: rapid.Int64Range(0, 200).Draw(t, "predicted"),
					Read: rapid.Int64Range(-1, 200).Draw(t, "read"), Written: rapid.Int64Range(0, 200).Draw(t, "written"), Prompt: rapid.Int64Range(0, 200).Draw(t, "prompt"),
					Reported: rapid.Bool().Draw(t, "reported"), ReportsWrites: rapid.Bool().Draw(t, "writes"), KeepBinding: rapid.Bool().Draw(t, "keep"),
					TTLMin: 5 * time.Minute, TTLMax: 10 * time.Minute, Credential: credential, Provider: "p", Model: "m",
				}
				x.Succeeded(k, r, now)
				y.Succeeded(k, r, now)
			}
			for i := range keys {
				a, b := lookup(x, &keys[i], now), lookup(y, &keys[i], now)
				if diff := cmp.Diff(a, b); diff != "" {
					t.Fatalf("answers differ:\n%s", diff)
				}
				scopes := map[affinity.ScopeID]bool{}
				for _, m := range a {
					if scopes[m.Scope] || m.Live() <= 0 || m.Live() > 1 || m.Tokens > keys[i].PromptTokens {
						t.Fatalf("matches %+v", a)
					}
					scopes[m.Scope] = true
				}
			}
			if x.Len() != y.Len() || x.Len() > entries || x.Ratio("p", "m") != y.Ratio("p", "m") {
				t.Fatalf("%d and %d entries of %d, ratios %v and %v", x.Len(), y.Len(), entries, x.Ratio("p", "m"), y.Ratio("p", "m"))
			}
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	s := affinity.NewStore(affinity.Config{Entries: 2000})
	body := compact().body(request(protocol.OpenAIChat, "s", "a", "b", "c"))
	want := read(t, protocol.OpenAIChat, body)
	var wg sync.WaitGroup
	for i := range 8 {
		in := input(t, protocol.OpenAIChat, body)
		mine := strong(t, fmt.Sprint(i), "a", fmt.Sprint(i), "c")
		wg.Go(func() {
			for n := range 200 {
				if k := affinity.Read(in); !cmp.Equal(k, want, cmpopts.IgnoreUnexported(affinity.Key{})) {
					t.Errorf("the key became %+v", k)
				}
				s.Succeeded(&mine, served(&mine, affinity.ScopeID(i)), start)
				s.Lookup(nil, &mine, start)
				s.HeadRecent(&mine, start)
				s.Ratio("p", "m")
				if n%50 == 0 {
					s.Flush("", "", "c")
					s.Forget(func(string) bool { return false })
					s.Len()
				}
			}
			if got := lookup(s, &mine, start); len(got) == 0 {
				t.Error("a session lost what it wrote")
			}
		})
	}
	wg.Wait()
}
