package schedule

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

const group = "grp_default"

// account describes one candidate of a test.
type account struct {
	id       string
	priority int32
	weight   int32
	slots    *int32
}

func candidates(accounts ...account) []plan.Candidate {
	provider := &configv1.Provider{Id: "prv_1", Name: "provider"}
	capability := &configv1.Capability{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "https://api.example.com/v1"}
	out := make([]plan.Candidate, 0, len(accounts))
	for _, a := range accounts {
		u := &configv1.Upstream{Id: "upr_" + a.id, GroupId: group, ProviderId: provider.GetId(), MaxConcurrency: a.slots}
		m := &configv1.UpstreamModel{Id: "upm_" + a.id, UpstreamId: u.GetId(), Model: "m"}
		out = append(out, plan.Candidate{
			Account: &plan.Account{
				ID: a.id, TenantID: "ten_1", Upstream: u, Model: m, Priority: max(a.priority, 1), Weight: max(a.weight, 1),
				CredentialKey: u.GetId(), QuotaKey: u.GetId(), RotationKey: "ten_1|m",
				SlotKeys: [3]string{"c:" + u.GetId(), "u:" + u.GetId(), "p:" + provider.GetId()},
			},
			Provider:   provider,
			Capability: capability,
			BaseURL:    capability.GetBaseUrl(),
		})
	}
	return out
}

func queryFor(t testing.TB) *Query {
	t.Helper()
	v, err := snapshot.Static(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Query{View: v, Groups: []string{group}, Protocol: "openai_chat", Policy: DefaultPolicy()}
}

func winner(t testing.TB, sel *Selection, cs []plan.Candidate) string {
	t.Helper()
	if len(sel.Order) == 0 {
		t.Fatalf("nothing was selected: %s", sel.Pool())
	}
	return cs[sel.Order[0]].ID
}

func TestSharesOverAWholeRoundAreExactlyTheWeights(t *testing.T) {
	t.Parallel()
	q := queryFor(t)
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Int32Range(1, 20), 1, 6).Draw(t, "weights")
		accounts := make([]account, len(weights))
		total := int32(0)
		for i, w := range weights {
			accounts[i] = account{id: fmt.Sprintf("a%d", i), weight: w}
			total += w
		}
		cs := candidates(accounts...)
		s := New(Config{})
		served := make(map[string]int32)
		for range 3 * total {
			sel := s.Select(q, cs, time.Unix(0, 0))
			served[cs[sel.Order[0]].ID]++
		}
		for i, w := range weights {
			if got := served[accounts[i].id]; got != 3*w {
				t.Fatalf("account %d of weight %d served %d of %d, want %d", i, w, got, 3*total, 3*w)
			}
		}
	})
}

func TestSelectionDoesNotDependOnTheOrderOfCandidates(t *testing.T) {
	t.Parallel()
	q := queryFor(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		accounts := make([]account, n)
		for i := range accounts {
			accounts[i] = account{
				id:       fmt.Sprintf("a%d", i),
				priority: rapid.Int32Range(1, 3).Draw(t, "priority"),
				weight:   rapid.Int32Range(1, 9).Draw(t, "weight"),
			}
		}
		shuffled := rapid.Permutation(accounts).Draw(t, "shuffled")
		one, other := candidates(accounts...), candidates(shuffled...)
		s1, s2 := New(Config{}), New(Config{})
		for range 20 {
			a := s1.Select(q, one, time.Unix(0, 0))
			b := s2.Select(q, other, time.Unix(0, 0))
			if x, y := one[a.Order[0]].ID, other[b.Order[0]].ID; x != y {
				t.Fatalf("the same candidates in another order: %s and %s won", x, y)
			}
		}
	})
}

func TestLowerPrioritiesWait(t *testing.T) {
	t.Parallel()
	cs := candidates(account{id: "late", priority: 3}, account{id: "first", priority: 1}, account{id: "second", priority: 2})
	s := New(Config{})
	sel := s.Select(queryFor(t), cs, time.Now())
	var order []string
	for _, i := range sel.Order {
		order = append(order, cs[i].ID)
	}
	if want := []string{"first"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	for _, i := range []int{0, 2} {
		if r := sel.Rows[i].Reason; r != SpilloverClosed {
			t.Errorf("%s is out for %q, want %s", cs[i].ID, r, SpilloverClosed)
		}
	}
}

// The account of the first priority is used again as soon as its cooldown is over,
// with no event in between.
func TestField_F02_CooldownEndsByTimeAlone(t *testing.T) {
	t.Parallel()
	cs := candidates(account{id: "a", priority: 1}, account{id: "b", priority: 2})
	s, q := New(Config{}), queryFor(t)
	start := time.Unix(1000, 0)
	s.Failed(&cs[0], Failure{Scope: QuotaModel, Kind: "rate_limit", For: time.Minute, After: 1}, start)

	at := func(d time.Duration) string { return winner(t, s.Select(q, cs, start.Add(d)), cs) }
	if got := at(time.Minute - 1); got != "b" {
		t.Errorf("%s was chosen 1 ns before the cooldown ends, want b", got)
	}
	if got := at(time.Minute); got != "a" {
		t.Errorf("%s was chosen when the cooldown is over, want a", got)
	}
}

func TestCooldownIsNeverShortened(t *testing.T) {
	t.Parallel()
	cs := candidates(account{id: "a"})
	s, q := New(Config{}), queryFor(t)
	start := time.Unix(1000, 0)
	s.Failed(&cs[0], Failure{Scope: Quota, Kind: "quota", Announced: time.Hour, After: 1}, start)
	s.Failed(&cs[0], Failure{Scope: Quota, Kind: "quota", Announced: time.Second, After: 1}, start)
	if sel := s.Select(q, cs, start.Add(59*time.Minute)); len(sel.Order) > 0 {
		t.Error("a shorter cooldown replaced a longer one")
	}
}

func TestCooldownWaitsForConsecutiveFailures(t *testing.T) {
	t.Parallel()
	cs := candidates(account{id: "a"})
	s, q := New(Config{}), queryFor(t)
	now := time.Unix(1000, 0)
	f := Failure{Scope: CredentialModel, Kind: "server", For: time.Minute, After: 2}
	s.Failed(&cs[0], f, now)
	if sel := s.Select(q, cs, now); len(sel.Order) == 0 {
		t.Fatal("one failure was enough, want two in a row")
	}
	s.Succeeded(&cs[0])
	s.Failed(&cs[0], f, now)
	if sel := s.Select(q, cs, now); len(sel.Order) == 0 {
		t.Fatal("a success between two failures did not end the count")
	}
	s.Failed(&cs[0], f, now)
	sel := s.Select(q, cs, now)
	if len(sel.Order) > 0 || sel.Rows[0].Reason != "cooldown_server" {
		t.Errorf("after two failures in a row the reason is %q, want cooldown_server", sel.Rows[0].Reason)
	}
}

// Failures of the gateway itself say nothing about an account.
func TestField_F07_SelectionAloneChangesNoCredentialState(t *testing.T) {
	t.Parallel()
	one := int32(0)
	cs := candidates(account{id: "a", slots: &one})
	s, q := New(Config{}), queryFor(t)
	for range 10 {
		f := s.Select(q, cs, time.Unix(0, 0)).Refusal(time.Unix(0, 0))
		if f.Class != fault.CapacityExhausted || f.RetryAfter < time.Second {
			t.Fatalf("refusal %v with a wait of %v, want capacity_exhausted and at least 1 s", f.Class, f.RetryAfter)
		}
	}
	if rests := s.Rests(time.Unix(0, 0)); len(rests) > 0 {
		t.Errorf("refusals started cooldowns: %v", rests)
	}
}

func TestSlotsAreGivenBackExactlyOnce(t *testing.T) {
	t.Parallel()
	limit := int32(3)
	cs := candidates(account{id: "a", slots: &limit})
	s, q := New(Config{}), queryFor(t)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 200 {
				l, r := s.Acquire(s.Select(q, cs, time.Unix(0, 0)), 0, time.Unix(0, 0))
				if r != "" {
					continue
				}
				if n := s.InFlight(cs[0].CredentialKey); n < 1 {
					t.Errorf("%d attempts run while one holds a lease", n)
				}
				l.Release()
				l.Release()
			}
		})
	}
	wg.Wait()
	if n := s.InFlight(cs[0].CredentialKey); n != 0 {
		t.Errorf("%d slots are still held", n)
	}
}

// Who was offered a slot and does not take it, its key being revoked meanwhile, leaves it to
// the next at once.
func TestSlotThatIsNotTakenIsOfferedToTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := int32(1)
		cs := candidates(account{id: "a", slots: &one})
		s, q := New(Config{}), queryFor(t)
		q.Policy.MaxQueueWait = time.Minute
		held, why := s.Acquire(s.Select(q, cs, time.Now()), 0, time.Now())
		if why != "" {
			t.Fatal(why)
		}
		full := s.Select(q, cs, time.Now())
		first, ok1 := s.Enqueue(full)
		second, ok2 := s.Enqueue(full)
		if !ok1 || !ok2 {
			t.Fatal("the queue has no room for two")
		}
		held.Release()
		if got := first.Next(t.Context()); got != QueueWoken {
			t.Fatalf("the first is told %v, want a slot", got)
		}
		first.Close()
		if got := second.Next(t.Context()); got != QueueWoken || second.Waited() != 0 {
			t.Errorf("the second is told %v after %v, want the slot at once", got, second.Waited())
		}
		second.Close()
	})
}

// A slot that becomes free is offered to one request: the most urgent, then the oldest.
// Who cannot use it passes it on to those behind, and to nobody before.
func TestFreeSlotIsOfferedToOneInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		two := int32(2)
		cs := candidates(account{id: "a", slots: &two})
		s, q := New(Config{}), queryFor(t)
		q.Policy.MaxQueueWait = time.Minute
		var held []*Lease
		for range two {
			l, why := s.Acquire(s.Select(q, cs, time.Now()), 0, time.Now())
			if why != "" {
				t.Fatal(why)
			}
			held = append(held, l)
		}
		var queues []*Queue
		for _, class := range []uint8{ClassBatch, ClassInteractive, ClassCritical} {
			q := *q
			q.Class = class
			queue, ok := s.Enqueue(s.Select(&q, cs, time.Now()))
			if !ok {
				t.Fatal("the queue has no room for three")
			}
			queues = append(queues, queue)
		}
		called := func() (names string) {
			for i, name := range []string{"batch", "interactive", "critical"} {
				if queues[i].t.called.Load() {
					names += name + " "
				}
			}
			return names
		}
		again := make(chan int, len(queues))
		held[0].Release()
		if got := called(); got != "critical " {
			t.Fatalf("one slot was offered to %q, want to the critical one alone", got)
		}
		for i := len(queues) - 1; i > 0; i-- {
			if got := queues[i].Next(t.Context()); got != QueueWoken {
				t.Fatalf("told %v, want a slot", got)
			}
			go func() { // it could not use the slot
				queues[i].Next(t.Context())
				again <- i
			}()
			synctest.Wait()
		}
		if got := called(); got != "batch " {
			t.Errorf("a slot that two could not use is offered to %q, want to the last one", got)
		}
		held[1].Release()
		if got := <-again; got != 2 {
			t.Errorf("the next slot is offered to %d, want to the critical one", got)
		}
		for _, queue := range queues {
			queue.Close()
		}
		synctest.Wait()
	})
}

// However many attempts begin at once, a limit is never passed.
func TestLimitHoldsForAttemptsThatBeginAtOnce(t *testing.T) {
	t.Parallel()
	const limit = 2
	rpm := int64(limit)
	now := time.Unix(0, 0)
	m := newMeters().of("quota:a")
	limits, n := limitsOf(&configv1.Limits{Rpm: &rpm}), needOf(1, 1, 0)
	var running, most atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var none told
			for range 20_000 {
				epoch, ok := m.reserve(&limits, &n, 1, &none, now)
				if !ok {
					continue
				}
				if got := running.Add(1); got > limit {
					most.Store(got)
				}
				runtime.Gosched()
				running.Add(-1)
				m.correct(&limits, &n, &need{}, 1, epoch, now) // it never went out
			}
		})
	}
	all.Wait()
	if got := most.Load(); got > limit {
		t.Fatalf("%d attempts run in a minute that has room for %d", got, limit)
	}
}

// Nonsense that an upstream tells of itself is bounded, whatever the numbers are.
func TestNonsenseOfAnUpstreamIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	for name, o := range map[string]Observation{
		"reset in centuries": {Dim: RPM, Limit: 1e12, Remaining: 1e12 - 1, Reset: math.MaxInt64},
		"tiny limit":         {Dim: RPM, Limit: math.SmallestNonzeroFloat64, Reset: time.Second},
	} {
		m := newMeters().of("learned")
		m.observe([]Observation{o}, 1, now)
		if w := m.learned[RPM].window; w < time.Second || w > 24*time.Hour || o.Reset > time.Hour && w != 24*time.Hour {
			t.Errorf("%s: the window is %v", name, w)
		}
	}
	s := New(Config{})
	for range 20 {
		s.Answered("ten_1", "m", math.MaxInt64)
	}
	if n := s.OutputEstimate("ten_1", "m", 0); n <= 0 || n > maxUsed {
		t.Errorf("an answer is expected to have %d tokens", n)
	}
	if n := s.OutputEstimate("ten_2", "m", 0); n != 500 {
		t.Errorf("another tenant expects %d tokens of what one tenant's upstream told", n)
	}
	cs := candidates(account{id: "a"})
	tpm := int64(1000)
	cs[0].Provider.Limits = &configv1.Limits{Tpm: &tpm}
	q := queryFor(t)
	l, why := s.Acquire(s.Select(q, cs, now), 0, now)
	if why != "" {
		t.Fatal(why)
	}
	l.Settle(Used{Input: math.MaxInt64, Cached: math.MaxInt64, Output: math.MaxInt64}, true, now)
	l.Release()
	for _, got := range s.Limits(now) {
		if got.Used < 0 || got.Used > 2*maxUsed {
			t.Errorf("%s: %v tokens are used of %v", got.Key, got.Used, got.Limit)
		}
	}
}

func TestRefusalTellsTheMostHelpfulReason(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		name    string
		prepare func(*Scheduler, *Query, []plan.Candidate)
		want    fault.Class
	}{
		{"wrong group", func(_ *Scheduler, q *Query, _ []plan.Candidate) { q.Groups = []string{"other"} }, fault.NotPermitted},
		{"protocol", func(_ *Scheduler, _ *Query, cs []plan.Candidate) {
			for i := range cs {
				cs[i].Capability = nil
			}
		}, fault.RequestNotSupported},
		{"rate limited", func(s *Scheduler, _ *Query, cs []plan.Candidate) {
			s.Failed(&cs[0], Failure{Scope: Quota, Kind: "rate_limit", For: time.Minute, After: 1}, now)
			s.Failed(&cs[1], Failure{Scope: Quota, Kind: "server", For: time.Minute, After: 1}, now)
		}, fault.CapacityExhausted},
		{"server", func(s *Scheduler, _ *Query, cs []plan.Candidate) {
			s.Failed(&cs[0], Failure{Scope: Quota, Kind: "server", For: time.Minute, After: 1}, now)
			cs[1].Capability = nil
		}, fault.NoCandidate},
		{"context", func(_ *Scheduler, q *Query, cs []plan.Candidate) {
			q.PromptTokens = 101
			for i := range cs {
				cs[i].Model.MaxContextTokens = 101
			}
		}, fault.RequestNotSupported},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, q, cs := New(Config{}), queryFor(t), candidates(account{id: "a"}, account{id: "b"})
			tc.prepare(s, q, cs)
			sel := s.Select(q, cs, now)
			if len(sel.Order) > 0 {
				t.Fatalf("%s was selected", cs[sel.Order[0]].ID)
			}
			if f := sel.Refusal(now); f.Class != tc.want {
				t.Errorf("class %v, want %v (%s)", f.Class, tc.want, sel.Pool())
			}
		})
	}
}

func TestLastResortIsGivenOnceASecondAndNeverAgainstAnAnnouncedWait(t *testing.T) {
	t.Parallel()
	s, q, cs := New(Config{}), queryFor(t), candidates(account{id: "a"}, account{id: "b"})
	now := time.Unix(1000, 0)
	s.Failed(&cs[0], Failure{Scope: CredentialModel, Kind: "server", Announced: time.Second, After: 1}, now)
	s.Failed(&cs[1], Failure{Scope: CredentialModel, Kind: "server", For: time.Minute, After: 1}, now)
	sel := s.Select(q, cs, now)
	i, ok := s.LastResort(sel, now)
	if !ok || cs[i].ID != "b" {
		t.Fatalf("last resort is %d, %v; want b: a announced its wait", i, ok)
	}
	if _, ok := s.LastResort(sel, now.Add(time.Second-1)); ok {
		t.Error("the last resort was given twice in a second")
	}
	if _, ok := s.LastResort(sel, now.Add(time.Second)); !ok {
		t.Error("the last resort was not given after a second")
	}
}

func BenchmarkSelect(b *testing.B) {
	for _, n := range []int{16, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			accounts := make([]account, n)
			for i := range accounts {
				accounts[i] = account{id: fmt.Sprintf("a%03d", i), weight: int32(i%5 + 1)}
			}
			s, q, cs := New(Config{}), queryFor(b), candidates(accounts...)
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				s.Select(q, cs, now)
			}
		})
	}
}

// What an upstream says of a limit that is half used or more reaches the other nodes, at
// most once a second, and counts there unless they have heard the upstream later.
func TestLimitsAreToldWhereTheyMatter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var told []Signal
	two := func() int { return 2 }
	here, there := New(Config{Nodes: two, Tell: func(s Signal) { told = append(told, s) }}), New(Config{Nodes: two})
	q := queryFor(t)
	q.PromptTokens = 4000
	mine, theirs := candidates(account{id: "a"}, account{id: "b"}), candidates(account{id: "a"}, account{id: "b"})
	seen := func(left float64) []Observation { return []Observation{{Dim: TPM, Limit: 10_000, Remaining: left}} }
	here.Observe(&mine[0], seen(9000), now)
	if len(told) > 0 {
		t.Fatalf("a limit that nobody is near was told: %+v", told)
	}
	here.Observe(&mine[0], seen(100), now)
	here.Observe(&mine[0], seen(90), now.Add(limitTold-1))
	if len(told) != 1 || told[0].Limit == nil || told[0].Limit.Subject != "upr_a|m" || told[0].Limit.Remaining != 100 {
		t.Fatalf("told %+v, want the limit once", told)
	}
	if sel := there.Select(q, theirs, now); sel.Rows[0].Reason != "" {
		t.Fatalf("before it was told, a is out for %q", sel.Rows[0].Reason)
	}
	there.Hear(told[0], now)
	if sel := there.Select(q, theirs, now); sel.Rows[0].Reason != limitReasons[TPM] || winner(t, sel, theirs) != "b" {
		t.Errorf("after it was told, a is out for %q, want limit_tpm", sel.Rows[0].Reason)
	}
	there.Observe(&theirs[0], seen(9900), now.Add(time.Millisecond))
	there.Hear(told[0], now.Add(2*time.Millisecond))
	if sel := there.Select(q, theirs, now.Add(2*time.Millisecond)); sel.Rows[0].Reason != "" {
		t.Errorf("an older word replaced what the upstream said itself: a is out for %q", sel.Rows[0].Reason)
	}
}

// An account that was never asked is not taken for slower than the ones that are known to
// be fast: or it would never be asked.
func TestUnknownAccountsAreGivenAChance(t *testing.T) {
	t.Parallel()
	s, q := New(Config{}), queryFor(t)
	cs := candidates(account{id: "a"}, account{id: "b"}, account{id: "c"})
	now := time.Unix(1000, 0)
	served := make(map[string]int)
	for range 30 {
		now = now.Add(20 * time.Second)
		sel := s.Select(q, cs, now)
		i := sel.Order[0]
		served[cs[i].ID]++
		s.FirstToken(&cs[i], &q.Policy, 20*time.Millisecond, 0, 0, now)
	}
	for _, id := range []string{"a", "b", "c"} {
		if served[id] != 10 {
			t.Errorf("served %v, want each account 10 times", served)
		}
	}
}

// What one route's policy says of caches holds for that route alone, whoever called
// before, and one account that is looked at in many ways keeps one state.
func TestCacheSettingsOfOnePolicyAreNoOthers(t *testing.T) {
	t.Parallel()
	s, cs, now := New(Config{}), candidates(account{id: "a"}), time.Unix(1000, 0)
	off, most := false, int64(50_000)
	hit := func(settings *configv1.CacheSettings) int64 {
		q := queryFor(t)
		q.PromptTokens, q.Policy.Cache = 20_000, settings
		q.Matches = []affinity.Match{{Scope: affinity.ScopeOf("c:upr_a|m:m"), Tokens: 10_000, Confidence: 1, TTLMin: time.Hour, TTLMax: time.Hour}}
		return s.Select(q, cs, now).Rows[0].Hit
	}
	settings := []*configv1.CacheSettings{nil, {Enabled: &off}, nil, {MinPrefixTokens: &most}, nil}
	for range 3 {
		for i, want := range []int64{10_000, 0, 10_000, 0, 10_000} {
			if got := hit(settings[i]); got != want {
				t.Errorf("policy %d: a hit of %d tokens, want %d", i, got, want)
			}
		}
	}
	s.Failed(&cs[0], Failure{Scope: Credential, Kind: "auth", For: time.Minute, After: 1}, now)
	for range 2 * maxHandles {
		q := queryFor(t)
		q.Policy.Cache = &configv1.CacheSettings{}
		if sel := s.Select(q, cs, now); sel.Rows[0].Reason != "cooldown_auth" {
			t.Fatalf("under another policy the account is out for %q", sel.Rows[0].Reason)
		}
	}
}
