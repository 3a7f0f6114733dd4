package snapshot

import (
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

func denyAfter(d time.Duration) func(*syncv1.SubjectRecord) {
	return func(m *syncv1.SubjectRecord) {
		m.MaxAuthStalenessS, m.OnStale = int64(d.Seconds()), configv1.OnStale_ON_STALE_DENY
	}
}

func TestG09AuthorizationIsDeniedOnceItIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("deny"), subjectEdit("deny", denyAfter(time.Hour)), subjectEdit("serve", func(m *syncv1.SubjectRecord) { m.MaxAuthStalenessS = 30 }),
			subjectEdit("default", func(m *syncv1.SubjectRecord) { m.OnStale = configv1.OnStale_ON_STALE_DENY }))
		n := start(t, p, options{})
		n.at(t, p)
		stale := func(tenant string) bool { return n.Stale(n.holder.Load(), tenant) }
		time.Sleep(10 * time.Second) // a heartbeat, at which the age is 0
		synctest.Wait()
		if a := n.Staleness("deny"); a != 0 {
			t.Fatalf("age %s at a heartbeat, want 0", a)
		}
		p.cut(true)
		time.Sleep(time.Hour)
		if stale("deny") {
			t.Error("denied at the very limit")
		}
		time.Sleep(time.Second)
		if !stale("deny") || stale("serve") || stale("default") || stale("unknown") {
			t.Errorf("stale: deny %t, serve %t, default %t, unknown %t; want only the first", stale("deny"), stale("serve"), stale("default"), stale("unknown"))
		}
		time.Sleep(23 * time.Hour)
		if !stale("default") {
			t.Error("not denied after the default of 24 h")
		}
		p.heal()
		time.Sleep(backoffCap + time.Second)
		synctest.Wait()
		if stale("deny") {
			t.Error("still denied after the control plane confirmed the position")
		}
	})
}

func TestAgeStartsWhenPostgreSQLWasLastSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{})
		n.at(t, p)
		p.set(func() { p.pgDead = time.Now() })
		time.Sleep(time.Hour)
		synctest.Wait()
		if a := n.Staleness("t1"); a < time.Hour-time.Second {
			t.Errorf("age %s while heartbeats come without a look into PostgreSQL, want an hour", a)
		}
	})
}

func TestAgeIsNotTakenBackWhileTheNodeIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{})
		n.at(t, p)
		p.set(func() {
			p.alter = func(m *syncv1.WatchResponse) *syncv1.WatchResponse {
				if m.GetDelta() != nil || m.GetNeedFetch() != nil {
					return nil
				}
				return m
			}
		})
		p.commit(subjectEdit("t1", suspend))
		time.Sleep(10 * time.Minute)
		if a := n.Staleness("t1"); a < 9*time.Minute {
			t.Errorf("age %s of a node that never got the newest identity, want about 10 min", a)
		}
	})
}

func TestAgeOfATenantWithAPinGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"), subjectEdit("t2"))
		n := start(t, p, options{dir: t.TempDir()})
		n.at(t, p)
		p.commit(subjectEdit("t1", func(m *syncv1.SubjectRecord) { m.RequiredFeatures = 1 << 60 }))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if a := n.Staleness("t1"); a < 9*time.Minute {
			t.Errorf("age of the tenant with a pin is %s, want about 10 min", a)
		}
		if a := n.Staleness("t2"); a > 11*time.Second {
			t.Errorf("age of another tenant is %s, want that of the last heartbeat", a)
		}
		p.commit(subjectEdit("t1"))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if a := n.Staleness("t1"); a > 11*time.Second {
			t.Errorf("age is %s after the pin is gone", a)
		}
	})
}

func TestC45AgeOverARestartDoesNotFollowTheWallClock(t *testing.T) {
	t.Parallel()
	at := func(boot string, up, wall time.Duration) clockReading {
		return clockReading{Boot: boot, UpMS: up.Milliseconds(), Wall: (1000*time.Hour + wall).Milliseconds()}
	}
	for _, tc := range []struct {
		name string
		then clockReading
		want time.Duration
	}{
		{"same run of the machine", at("a", 2*time.Hour, time.Hour), time.Hour},
		{"wall clock 10 min ahead", at("a", 2*time.Hour, 70*time.Minute), time.Hour},
		{"wall clock 10 min behind", at("a", 2*time.Hour, 50*time.Minute), time.Hour},
		{"machine restarted", at("b", time.Minute, time.Hour), time.Hour},
		{"machine restarted, wall clock went back", at("b", time.Minute, -time.Minute), 0},
		{"machine restarted, no boot id", at("", 0, time.Hour), time.Hour},
	} {
		dir, now := t.TempDir(), time.Now()
		clock := at("a", time.Hour, 0)
		a := newAge(dir, func() clockReading { return clock })
		a.confirm(now, 0, map[string]bool{"pinned": true})
		if err := a.save(now.Add(5 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		b := newAge(dir, func() clockReading { return tc.then })
		later := now.Add(24 * time.Hour)
		if err := b.load(later); err != nil {
			t.Fatal(err)
		}
		if got, want := b.of("", later), tc.want+5*time.Minute; got != want {
			t.Errorf("%s: age %s, want %s", tc.name, got, want)
		}
		if got := b.of("pinned", later); got != unknownAge {
			t.Errorf("%s: a tenant that was never confirmed has age %s", tc.name, got)
		}
	}
}

func TestC45AgeSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dir := newPlane(), t.TempDir()
		p.commit(tenantEdit("t1"), subjectEdit("t1", denyAfter(time.Hour)))
		n := start(t, p, options{dir: dir})
		n.at(t, p)
		time.Sleep(10 * time.Second)
		p.cut(true)
		time.Sleep(59 * time.Minute)
		dir = killed(t, dir) // written within the last minute
		n.stop()
		n = start(t, p, options{dir: dir})
		n.settled()
		if a := n.Staleness("t1"); a < 57*time.Minute || a > 60*time.Minute {
			t.Errorf("age %s after a restart, want about 59 min", a)
		}
		if n.Stale(n.holder.Load(), "t1") {
			t.Error("a valid tenant is denied early")
		}
		time.Sleep(3 * time.Minute)
		if !n.Stale(n.holder.Load(), "t1") {
			t.Error("authorization older than an hour is accepted")
		}
	})
}

func TestConfirmationByAReplicaThatLagsMakesNothingOlder(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a := newAge("", readClock)
	if a.of("", now) != unknownAge {
		t.Error("age is known before anything was confirmed")
	}
	a.confirm(now, time.Second, nil)
	a.confirm(now.Add(time.Second), time.Hour, nil)
	if got := a.of("", now.Add(time.Second)); got != 2*time.Second {
		t.Errorf("age %s, want 2s", got)
	}
	a.confirm(now.Add(time.Minute), -time.Hour, nil)
	if got := a.of("", now.Add(time.Minute)); got != 0 {
		t.Errorf("age %s, want 0", got)
	}
}
