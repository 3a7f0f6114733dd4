package snapshot

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

func TestC35NodeIsNotReadyBeforeConfigurationArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.down = true
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{dir: t.TempDir()})
		time.Sleep(time.Minute)
		synctest.Wait()
		if ready, reasons := n.Ready(); ready || len(reasons) == 0 {
			t.Fatalf("ready = %t, reasons %q; want not ready, with reasons", ready, reasons)
		}
		if n.holder.Load() != nil || n.Status().State != Empty {
			t.Fatalf("view %v in state %s, want none and EMPTY", n.holder.Load(), n.Status().State)
		}
		p.heal()
		time.Sleep(backoffCap + time.Second)
		n.at(t, p)
		if ready, reasons := n.Ready(); !ready {
			t.Fatalf("not ready at the head: %q", reasons)
		}
		if s := n.Status(); s.State != Current {
			t.Fatalf("state %s, want CURRENT", s.State)
		}
		for d := range domains {
			if r := p.lastReport(d); r.GetOutcome() != syncv1.Outcome_OUTCOME_APPLIED || r.GetRunning().GetGeneration() != 1 {
				t.Errorf("%s: last report %v, want APPLIED at generation 1", d, r)
			}
		}
	})
}

func TestG10NodeWithAnEmptyPolicyIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		n := start(t, p, options{})
		time.Sleep(time.Minute)
		n.at(t, p)
		if ready, _ := n.Ready(); ready {
			t.Fatal("ready with an empty configuration")
		}
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n.at(t, p)
		if ready, reasons := n.Ready(); !ready {
			t.Fatalf("not ready: %q", reasons)
		}
	})
}

func TestG03NodeNoticesALostUpdateWithinOneHeartbeat(t *testing.T) {
	for _, kind := range []string{"delta", "need fetch", "hello"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane()
				p.commit(tenantEdit("t1"), subjectEdit("t1"))
				lost := 0
				lose := func(m *syncv1.WatchResponse) *syncv1.WatchResponse {
					if lost == 0 && (kind == "delta" && m.GetDelta() != nil || kind == "need fetch" && m.GetNeedFetch() != nil || kind == "hello" && m.GetHello() != nil) {
						lost++
						return nil
					}
					return m
				}
				if kind != "delta" {
					p.alter = lose
				}
				n := start(t, p, options{})
				if kind == "delta" {
					n.at(t, p)
					p.set(func() { p.alter = lose })
					p.commit(tenantEdit("t1", "a"))
				}
				time.Sleep(10*time.Second + behindGrace + backoffBase + time.Second)
				n.at(t, p)
				if lost != 1 {
					t.Fatalf("%d messages were lost, want 1", lost)
				}
			})
		})
	}
}

func TestC10OlderGenerationOfTheSameEpochIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		p.commit(tenantEdit("t1", "a"), subjectEdit("t1", suspend))
		n := start(t, p, options{})
		n.at(t, p)
		before := n.holder.Load()
		// The database comes back as it was, with its old epoch.
		q := newPlane()
		q.commit(tenantEdit("t1"), subjectEdit("t1"))
		p.set(func() { p.views, p.gen = q.views, q.gen })
		p.cut(false)
		time.Sleep(2 * time.Minute)
		if v := n.settled(); v != before {
			t.Fatalf("node went to %v and %v, want to stay at %v and %v", v.Identity, v.Policy, before.Identity, before.Policy)
		}
	})
}

func TestC10OtherEpochIsTakenWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		for i := range 5 {
			p.commit(tenantEdit("t1", fmt.Sprint(i)), subjectEdit("t1"), keyEdit("t1", fmt.Sprint(i)))
		}
		n := start(t, p, options{dir: t.TempDir()})
		n.at(t, p)
		q := newPlane()
		q.epoch = 8
		q.commit(tenantEdit("t2"), subjectEdit("t2"))
		p.set(func() { p.views, p.gen, p.epoch = q.views, q.gen, q.epoch })
		p.cut(false)
		time.Sleep(30 * time.Second)
		n.at(t, p)
		v := n.holder.Load()
		if v.Tenant("t1") != nil || v.Key(hashOf("0")) != nil || v.Tenant("t2") == nil {
			t.Error("node kept what the new epoch does not have, or lacks what it has")
		}
	})
}

func TestC04ControlPlaneRestartsBetweenCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{dir: t.TempDir()})
		n.at(t, p)
		fetches := len(p.tape().fetches)
		for i := range 10 {
			p.cut(true)
			time.Sleep(time.Second)
			p.commit(tenantEdit("t1", fmt.Sprint(i)))
			if v := n.settled(); v.Tenant("t1") == nil {
				t.Fatal("node serves an empty set")
			}
			p.heal()
			time.Sleep(backoffCap + time.Second)
			n.at(t, p)
		}
		// Everything came as deltas from where the node was.
		if len(p.tape().fetches) != fetches {
			t.Errorf("%d fetches after restarts, want none", len(p.tape().fetches)-fetches)
		}
	})
}

func TestC12ReconnectingNeverStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"), keyEdit("t1", "k"))
		n := start(t, p, options{})
		n.at(t, p)
		p.cut(true)
		time.Sleep(time.Hour)
		v := n.settled()
		if v.Tenant("t1") == nil || v.Key(hashOf("k")) == nil {
			t.Fatal("values were wiped while the control plane was away")
		}
		if ready, _ := n.Ready(); !ready || n.Status().State != Detached {
			t.Errorf("ready %t, state %s; want ready and DETACHED", ready, n.Status().State)
		}
		p.commit(tenantEdit("t1", "late"))
		p.heal()
		time.Sleep(backoffCap + time.Second)
		n.at(t, p)
	})
}

func TestSilentStreamIsLeftAfterThreeHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{})
		n.at(t, p)
		p.set(func() { p.alter = func(*syncv1.WatchResponse) *syncv1.WatchResponse { return nil } })
		time.Sleep(missedHeartbeats*defaultHeartbeat - time.Second)
		if s := n.Status(); s.State != Current {
			t.Fatalf("state %s before the third heartbeat is missed, want CURRENT", s.State)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := n.Status(); s.State != Detached {
			t.Fatalf("state %s, want DETACHED", s.State)
		}
	})
}

func TestGoawayIsFollowedAfterTheTimeItNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{})
		n.at(t, p)
		streams := len(p.tape().watches)
		p.set(func() {
			p.alter = func(m *syncv1.WatchResponse) *syncv1.WatchResponse {
				if m.GetHeartbeat() != nil {
					return &syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Goaway{Goaway: &syncv1.Goaway{ReconnectAfterMs: 5000}}}
				}
				return m
			}
		})
		time.Sleep(14 * time.Second)
		synctest.Wait()
		if len(p.tape().watches) != streams {
			t.Fatal("node came back before the time it was given")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(p.tape().watches) != streams+1 {
			t.Fatalf("%d streams since, want 1", len(p.tape().watches)-streams)
		}
	})
}

func TestC26NodeClaimsOnlyVerifiedPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		for i := range 9 {
			id := fmt.Sprintf("t%d", i)
			p.commit(tenantEdit(id), subjectEdit(id))
		}
		chunks := 0
		p.alterChunk = func(m *syncv1.FetchShardsResponse) *syncv1.FetchShardsResponse {
			chunks++
			if chunks == 2 {
				m.Shards[0].GetChange().(*syncv1.ShardUpdate_Payload).Payload[0] ^= 1
			}
			return m
		}
		n := start(t, p, options{})
		time.Sleep(backoffCap + time.Second)
		n.at(t, p)
		for _, w := range p.tape().watches[:2] {
			if w.GetIdentity() != nil || w.GetPolicy() != nil {
				t.Errorf("stream opened with %v and %v before anything was whole", w.GetIdentity(), w.GetPolicy())
			}
		}
	})
}

func TestC42DamagedUpdateIsRetriedFromTheSamePosition(t *testing.T) {
	for name, damage := range map[string]func(*syncv1.Delta){
		"payload": func(d *syncv1.Delta) { d.Updates[0].GetChange().(*syncv1.ShardUpdate_Payload).Payload[3] ^= 1 },
		"root":    func(d *syncv1.Delta) { d.Target.Root[0] ^= 1 },
		"shard lost": func(d *syncv1.Delta) {
			d.Updates = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane()
				p.commit(tenantEdit("t1"), subjectEdit("t1"))
				n := start(t, p, options{dir: t.TempDir()})
				n.at(t, p)
				before, damaged := n.holder.Load(), 0
				p.set(func() {
					p.alter = func(m *syncv1.WatchResponse) *syncv1.WatchResponse {
						if m.GetDelta() != nil && damaged == 0 {
							damaged++
							damage(m.GetDelta())
						}
						return m
					}
				})
				p.commit(tenantEdit("t1", "a"))
				if v := n.settled(); damaged != 1 || v != before {
					t.Fatalf("%d damaged; node moved to %v", damaged, v.Policy)
				}
				time.Sleep(backoffCap + time.Second)
				n.at(t, p)
				for _, o := range p.outcomes(policy) {
					if o == syncv1.Outcome_OUTCOME_REJECTED {
						t.Error("damage on the way was reported as a refusal")
					}
				}
			})
		})
	}
}

func TestC22ObjectDeletedWhileTheNodeWasAwayIsGoneAtCatchUp(t *testing.T) {
	for name, reach := range map[string]int{"by delta": 1000, "by fetch": 0} {
		for _, stopped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stopped %t", name, stopped), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, dir := newPlane(), t.TempDir()
					p.reach = reach
					p.commit(tenantEdit("t1"), subjectEdit("t1"), keyEdit("t1", "k1"), keyEdit("t1", "k2"), tenantEdit("t2"), subjectEdit("t2"))
					n := start(t, p, options{dir: dir})
					n.at(t, p)
					p.cut(true)
					if stopped {
						n.stop()
					}
					p.commit(gone(keyEdit("t1", "k1")), gone(tenantEdit("t2")), gone(subjectEdit("t2")))
					if stopped {
						n = start(t, p, options{dir: dir})
					}
					p.heal()
					time.Sleep(backoffCap + time.Second)
					n.at(t, p)
					v := n.holder.Load()
					if v.Key(hashOf("k1")) != nil || v.Tenant("t2") != nil {
						t.Error("what was deleted is still served")
					}
					if v.Key(hashOf("k2")) == nil || v.Tenant("t1") == nil {
						t.Error("what was not deleted is gone")
					}
				})
			})
		}
	}
}

func TestG08C36NodeServesFromDiskWithoutControlPlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dir := newPlane(), t.TempDir()
		p.commit(tenantEdit("t1"), subjectEdit("t1"), keyEdit("t1", "k"))
		n := start(t, p, options{dir: dir})
		n.at(t, p)
		p.commit(tenantEdit("t1", "a"), keyEdit("t1", "k2"))
		n.at(t, p)
		p.cut(true)
		for range 2 {
			n.stop()
			n = start(t, p, options{dir: dir})
			v := n.settled()
			if v == nil || v.Policy != p.head(policy) || v.Identity != p.head(identity) {
				t.Fatal("node does not serve from disk")
			}
			if v.Key(hashOf("k")) == nil || v.Key(hashOf("k2")) == nil || len(v.Tenant("t1").Upstreams) != 1 {
				t.Fatal("a part of the configuration is missing after the restart")
			}
			if r, _ := v.FindRoute("", "/t1/v1"); r == nil {
				t.Fatal("route is missing after the restart")
			}
			if ready, _ := n.Ready(); ready {
				t.Fatal("ready at once; want a moment for the control plane to answer")
			}
			time.Sleep(contactGrace)
			if ready, reasons := n.Ready(); !ready {
				t.Fatalf("not ready without contact: %q", reasons)
			}
			if !n.Status().FromDisk {
				t.Error("status does not say that the configuration is from disk")
			}
		}
	})
}

func TestC40StatusTellsHowOldTheConfigurationIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		g := p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{})
		n.at(t, p)
		time.Sleep(10 * time.Second)
		p.cut(true)
		time.Sleep(3 * time.Hour)
		s := n.Status()
		if age := time.Duration(s.StalenessMS) * time.Millisecond; age < 3*time.Hour || age > 3*time.Hour+11*time.Second {
			t.Errorf("staleness %s, want about 3 h", age)
		}
		if s.Policy.Generation != g || s.Identity.Generation != g || s.LastError == "" || s.SinceContactMS < (3*time.Hour).Milliseconds() {
			t.Errorf("status %+v does not tell position, error and time since contact", s)
		}
	})
}

func TestLagIsSeenWhileTheNodeIsBehind(t *testing.T) {
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
		p.commit(tenantEdit("t1", "a"))
		time.Sleep(2 * time.Minute)
		if s := n.Status(); s.Policy.LagMS < (100*time.Second).Milliseconds() || s.Policy.Target != 2 {
			t.Errorf("lag %d ms to target %d, want about two minutes to 2", s.Policy.LagMS, s.Policy.Target)
		}
	})
}

func TestFetchBringsOnlyBucketsThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		for i := range 50 {
			p.commit(tenantEdit(fmt.Sprintf("t%d", i)), subjectEdit(fmt.Sprintf("t%d", i)))
		}
		n := start(t, p, options{})
		n.at(t, p)
		p.cut(true)
		p.commit(tenantEdit("t7", "a"))
		sent := 0
		p.set(func() {
			p.views[policy].log = nil
			p.alterChunk = func(m *syncv1.FetchShardsResponse) *syncv1.FetchShardsResponse { sent += len(m.GetShards()); return m }
		})
		p.heal()
		time.Sleep(backoffCap + time.Second)
		n.at(t, p)
		if want := len(p.views[policy].set.Bucket(shard.BucketOf("tenant/t7"))); sent != want {
			t.Errorf("%d shards fetched, want the %d of one bucket", sent, want)
		}
	})
}

// Whatever is lost, cut, deleted or restarted on the way: at rest the node is at the
// head, and its position never went down.
func TestG02C01NodeEndsAtTheHeadWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPlane()
		p.reach = rapid.SampledFrom([]int{0, 1, 3, 1000}).Draw(rt, "reach")
		steps := rapid.SliceOfN(rapid.IntRange(0, 11), 1, 30).Draw(rt, "steps")
		names := rapid.SliceOfN(rapid.IntRange(0, 5), len(steps), len(steps)).Draw(rt, "names")
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			p.changed, p.stop = make(chan struct{}), make(chan struct{})
			p.commit(tenantEdit("base"), subjectEdit("base"))
			n := start(t, p, options{dir: dir, compact: 4096})
			var last Position
			for i, step := range steps {
				id := fmt.Sprintf("t%d", names[i])
				switch step {
				case 0, 1, 2:
					p.commit(tenantEdit(id, fmt.Sprint(i)))
				case 3, 4:
					p.commit(subjectEdit(id), keyEdit(id, fmt.Sprint(names[i])))
				case 5:
					p.commit(gone(tenantEdit(id)), gone(keyEdit(id, fmt.Sprint(names[i]))))
				case 6:
					p.cut(false)
				case 7:
					p.cut(true)
				case 8:
					p.heal()
				case 9:
					losses := names[i]
					p.set(func() {
						p.alter = func(m *syncv1.WatchResponse) *syncv1.WatchResponse {
							if losses > 0 {
								losses--
								return nil
							}
							return m
						}
					})
				case 10:
					n.stop()
					n = start(t, p, options{dir: dir, compact: 4096})
				case 11:
					time.Sleep(time.Duration(names[i]) * time.Second)
				}
				if v := n.settled(); v != nil && !v.Policy.IsZero() {
					if v.Policy.older(last) {
						t.Fatalf("position went from %v down to %v", last, v.Policy)
					}
					last = v.Policy
				}
			}
			p.set(func() { p.alter, p.down = nil, false })
			time.Sleep(2 * time.Minute)
			n.at(t, p)
			if got, want := len(n.holder.Load().Tenants()), p.views[policy].set.Len(); got != want {
				t.Errorf("%d tenants served, want %d", got, want)
			}
			n.stop()
		})
	})
}

func suspend(m *syncv1.SubjectRecord) { m.Suspended = true }

// A node whose configuration does not change is heard of all the same: replicas that do
// not stream to it know it by its reports alone.
func TestC15NodeRepeatsItsLastReportAtEveryHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{dir: t.TempDir()})
		time.Sleep(time.Second)
		n.at(t, p)
		var before [domains]uint64
		for d := range domains {
			before[d] = p.lastReport(d).GetSeq()
		}
		time.Sleep(3 * defaultHeartbeat)
		synctest.Wait()
		for d := range domains {
			r := p.lastReport(d)
			if r.GetSeq() <= before[d] || r.GetOutcome() != syncv1.Outcome_OUTCOME_APPLIED || r.GetRunning().GetGeneration() != 1 {
				t.Errorf("%s: last report %v, want the first one again under a higher number", d, r)
			}
		}
	})
}

func TestStatusNamesTheTargetThatADeltaBrought(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{dir: t.TempDir()})
		time.Sleep(time.Second)
		n.at(t, p)
		p.commit(tenantEdit("t2"), subjectEdit("t2"))
		synctest.Wait() // no heartbeat comes in between
		st := n.Status()
		for name, d := range map[string]ViewStatus{"identity": st.Identity, "policy": st.Policy} {
			if d.Generation != 2 || d.Target != 2 {
				t.Errorf("%s: generation %d, target %d; want 2 and 2", name, d.Generation, d.Target)
			}
		}
	})
}
