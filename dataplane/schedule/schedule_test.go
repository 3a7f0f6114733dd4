package schedule

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

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
