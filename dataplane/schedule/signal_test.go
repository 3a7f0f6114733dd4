package schedule

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// heardOf is a cooldown as another node tells it.
func heardOf(credential string, started time.Time, length time.Duration) Signal {
	return Signal{Rest: &Rest{
		Scope: Credential, Subject: credential, Kind: "rate_limit", Started: started, Until: started.Add(length), Announced: true,
		Source: "retry-after", Status: 429, RequestID: "req_1", Node: "nod_other",
	}}
}

func TestTheWordOfOthersKeepsAnAccountOutForTenMinutesAtMost(t *testing.T) {
	t.Parallel()
	cs := candidates(account{id: "a", priority: 1}, account{id: "b", priority: 2})
	s, q, now := New(Config{}), queryFor(t), time.Now()
	s.Hear(heardOf("upr_a", now, time.Hour), now)
	for at, want := range map[time.Duration]string{0: "b", 10*time.Minute - 1: "b", 10 * time.Minute: "a"} {
		if got := winner(t, s.Select(q, cs, now.Add(at)), cs); got != want {
			t.Errorf("%s later %s is chosen, want %s", at, got, want)
		}
	}
}

func TestWhatLastsLongerThanAWordIsToldAgain(t *testing.T) {
	t.Parallel()
	cs := candidates(account{id: "a"}, account{id: "b"}, account{id: "c"}, account{id: "d"})
	var said []string
	s := New(Config{Tell: func(sig Signal) { said = append(said, sig.Rest.Subject) }})
	now := time.Now()
	s.Failed(&cs[0], Failure{Scope: Credential, Kind: "quota", For: time.Hour}, now)
	s.Failed(&cs[1], Failure{Scope: Credential, Kind: "rate_limit", For: time.Minute}, now)
	s.Failed(&cs[2], Failure{Disable: true}, now)
	s.Hear(heardOf("upr_d", now, time.Hour), now)
	if want := []string{"upr_a", "upr_b", "upr_c"}; !slices.Equal(said, want) {
		t.Fatalf("told %v, want each of its own at once: %v", said, want)
	}
	said = nil
	s.Repeat(now.Add(9 * time.Minute))
	slices.Sort(said)
	if want := []string{"upr_a", "upr_c"}; !slices.Equal(said, want) {
		t.Errorf("told again %v, want what lasts and is its own: %v", said, want)
	}
	said = nil
	if s.Repeat(now.Add(61 * time.Minute)); !slices.Equal(said, []string{"upr_c"}) {
		t.Errorf("told %v after an hour, want the refused credential alone", said)
	}
}

// One node that is wrong must not take a model from all the others.
func TestC47_OneLyingNodeEmptiesNoModel(t *testing.T) {
	t.Parallel()
	q, now := queryFor(t), time.Now()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "accounts")
		accounts := make([]account, n)
		for i := range accounts {
			accounts[i] = account{id: string(rune('a' + i)), priority: rapid.Int32Range(1, 3).Draw(t, "priority")}
		}
		cs := candidates(accounts...)
		s := New(Config{})
		ends := map[string]time.Time{}
		for i := range cs {
			key := cs[i].CredentialKey
			switch rapid.IntRange(0, 2).Draw(t, "lie") {
			case 0:
				length := time.Duration(rapid.Int64Range(1, 900).Draw(t, "seconds")) * time.Second
				s.Hear(heardOf(key, now, length), now)
				ends[cs[i].ID] = minTime(now.Add(length), now.Add(maxToldRest))
			case 1:
				sig := heardOf(key, now, 0)
				sig.Invalid = true
				s.Hear(sig, now)
				ends[cs[i].ID] = now.Add(maxToldRest)
			case 2:
				until := now.Add(time.Duration(rapid.Int64Range(1, 300).Draw(t, "seconds")) * time.Second)
				s.Hear(Signal{Breaker: breakerKey(&cs[i], Server, false), Node: "nod_other", Started: now, Until: until}, now)
				ends[cs[i].ID] = until
			}
		}
		if sel := s.Select(q, cs, now); len(sel.Order) != 0 {
			t.Fatalf("%s is chosen against the word of others, which it may be for want of another alone", cs[sel.Order[0]].ID)
		}
		sel, ok := s.Doubt(q, cs, true, now)
		if !ok {
			t.Fatal("the word of others emptied the model")
		}
		got := cs[sel.Order[0]].ID
		for id, end := range ends {
			if end.Before(ends[got]) || end.Equal(ends[got]) && id < got {
				t.Fatalf("%s is tried, whose end is %s; %s ends %s", got, ends[got].Sub(now), id, end.Sub(now))
			}
		}
		lease, why := s.Acquire(sel, sel.Order[0], now)
		if lease == nil {
			t.Fatalf("no slot: %s", why)
		}
		// One at a time.
		if again, _ := s.Doubt(q, cs, true, now); again != nil {
			if second, _ := s.Acquire(again, again.Order[0], now); second != nil {
				t.Fatal("two attempts at once against the word of others")
			}
		}
		if rapid.Bool().Draw(t, "true") {
			// It was so: the account rests by this node's own word, and the next is tried.
			s.Failed(&cs[sel.Order[0]], Failure{Scope: Credential, Kind: "rate_limit", For: time.Minute}, now)
			lease.Release()
			next, ok := s.Doubt(q, cs, false, now)
			if ok != (n > 1) || ok && cs[next.Order[0]].ID == got {
				t.Fatalf("after %s failed: %v", got, ok)
			}
			return
		}
		lease.Disproved()
		lease.Release()
		if first := s.Select(q, cs, now); len(first.Order) == 0 || cs[first.Order[0]].ID != got {
			t.Fatalf("%s answered and is still out by the word of others", got)
		}
	})
}

// What this node met itself is no matter of doubt, and neither is an account for which
// another can stand in.
func TestOnesOwnCooldownIsNotDoubted(t *testing.T) {
	t.Parallel()
	cs := candidates(account{id: "a"}, account{id: "b"})
	s, q, now := New(Config{}), queryFor(t), time.Now()
	s.Failed(&cs[0], Failure{Scope: Credential, Kind: "rate_limit", For: time.Minute}, now)
	s.Hear(heardOf("upr_a", now, time.Hour), now)
	s.Hear(heardOf("upr_b", now, 2*time.Hour), now)
	if _, ok := s.Doubt(q, cs, true, now); ok {
		t.Error("doubted although it is not the word of others alone that keeps candidates out")
	}
	sel, ok := s.Doubt(q, cs, false, now)
	if !ok || cs[sel.Order[0]].ID != "b" {
		t.Fatalf("doubted %v, want b: a is out by this node's own word", ok)
	}
	// When its own word is over, only that of the others is left.
	later := now.Add(61 * time.Second)
	if sel, ok = s.Doubt(q, cs, true, later); !ok || cs[sel.Order[0]].ID != "a" {
		t.Errorf("doubted %v, want a", ok)
	}
}

func TestAClearedAccountIsUsableAndStaysSo(t *testing.T) {
	t.Parallel()
	cs := candidates(account{id: "a"}, account{id: "b"})
	s, q, now := New(Config{}), queryFor(t), time.Now()
	for i := range cs {
		c := &cs[i]
		for scope := range endOfScopes {
			s.Failed(c, Failure{Scope: scope, Kind: "rate_limit", For: time.Hour}, now)
		}
		s.Failed(c, Failure{Disable: true}, now)
		s.Hear(heardOf(c.CredentialKey, now, time.Hour), now)
		for range breakerInARow {
			s.Attempted(c, &q.Policy, Server, true, now)
		}
	}
	if s.Clear(cs[0].Account, now, now) == 0 {
		t.Error("nothing was ended")
	}
	if got := winner(t, s.Select(q, cs, now), cs); got != "a" {
		t.Errorf("%s is chosen, want the cleared a", got)
	}
	if sel := s.Select(q, cs, now); sel.Rows[1].Reason == "" {
		t.Error("b was cleared with a")
	}
	// A word that was on its way says what is over; a later one is news.
	s.Hear(heardOf("upr_a", now.Add(-time.Second), time.Hour), now)
	if got := winner(t, s.Select(q, cs, now), cs); got != "a" {
		t.Error("what began before the command keeps a out again")
	}
	s.Hear(heardOf("upr_a", now.Add(time.Second), time.Hour), now.Add(time.Second))
	if sel := s.Select(q, cs, now.Add(time.Second)); sel.Rows[0].Reason != cooldown("rate_limit") {
		t.Errorf("a is out for %q, want what began after the command", sel.Rows[0].Reason)
	}
}

func TestANewSecretEndsWhatTheOldOneMet(t *testing.T) {
	t.Parallel()
	cs := candidates(account{id: "a"})
	for name, f := range map[string]Failure{
		"disabled": {Disable: true, Secret: 3},
		"cooldown": {Scope: Credential, Kind: "auth", For: time.Hour, Secret: 3},
	} {
		s, q, now := New(Config{}), queryFor(t), time.Now()
		s.Failed(&cs[0], f, now)
		s.Renewed("upr_a", 3)
		if len(s.Select(q, cs, now).Order) != 0 {
			t.Errorf("%s: the very secret that was refused is used again", name)
		}
		s.Renewed("upr_a", 4)
		if len(s.Select(q, cs, now).Order) == 0 {
			t.Errorf("%s: the new secret is not tried", name)
		}
	}
}

func TestWhatIsKnownOfACredentialGoesWithIt(t *testing.T) {
	t.Parallel()
	cs := candidates(account{id: "a"}, account{id: "b"})
	s, q, now := New(Config{}), queryFor(t), time.Now()
	for i := range cs {
		s.Select(q, cs, now)
		s.Failed(&cs[i], Failure{Scope: CredentialModel, Kind: "rate_limit", For: time.Hour}, now)
		s.Failed(&cs[i], Failure{Scope: Quota, Kind: "rate_limit", For: time.Hour}, now)
		s.FirstToken(&cs[i], &q.Policy, time.Second, 1, 0, now)
		s.Observe(&cs[i], []Observation{{Dim: RPM, Limit: 10, Remaining: 1}}, now)
	}
	s.Forget(func(credential string) bool { return credential == "upr_a" })
	for _, r := range s.Rests(now) {
		if r.Subject != "upr_b" && r.Subject != "upr_b|m" {
			t.Errorf("the cooldown %s is left", r.Key())
		}
	}
	if got := s.Accounts(now); len(got) != 1 || got[0].Credential != "upr_b" || len(got[0].Health) != 1 {
		t.Errorf("left: %+v, want b alone", got)
	}
	if got := s.Limits(now); len(got) != 1 || got[0].Key != "learned:upr_b|m" {
		t.Errorf("limits left: %+v, want b's alone", got)
	}
}
