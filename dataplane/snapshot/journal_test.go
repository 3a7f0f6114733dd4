package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// content is what a state says, in a form that can be compared.
func content(s *state) map[string]string {
	m := map[string]string{"position": s.pos.String()}
	for e := range s.received.All() {
		m["received "+e.Key] = string(e.Payload)
	}
	for key, p := range s.pins {
		m["pin "+key] = fmt.Sprint(p.serves, string(p.held), p.since, p.unit, p.tenant)
	}
	return m
}

func stateOf(gen uint64, shards map[string]string, pins map[string]pin) *state {
	set := shard.New()
	for key, v := range shards {
		set.Put(key, shard.Sum([]byte(v)), []byte(v))
	}
	return &state{pos: Position{Epoch: 3, Generation: gen, Root: set.Root()}, received: set, pins: pins}
}

func testJournal(t testing.TB, dir string) *journal {
	j := newJournal(dir, policy, "1.0.0", 1<<20, zerolog.Nop())
	t.Cleanup(j.close)
	return j
}

// written makes a journal with three commits and returns its states and its file.
func written(t testing.TB) (states []*state, file []byte) {
	dir := t.TempDir()
	j := testJournal(t, dir)
	now := time.Unix(1000, 0)
	if _, err := j.open(now); err != nil {
		t.Fatal(err)
	}
	states = []*state{
		emptyState(),
		stateOf(1, map[string]string{"tenant/a": "one", "tenant/b": "one"}, nil),
		stateOf(2, map[string]string{"tenant/a": "two", "tenant/c": "two"}, map[string]pin{
			"tenant/a": {held: []byte("one"), serves: true, since: 2, unit: "tenant/a", tenant: "a"},
			"tenant/c": {since: 2, unit: "tenant/a", tenant: "c"},
		}),
		stateOf(3, map[string]string{"tenant/a": "three", "tenant/c": "two"}, map[string]pin{
			"tenant/a": {held: []byte("one"), serves: true, since: 2, unit: "tenant/a", tenant: "a"},
		}),
	}
	for i := 1; i < len(states); i++ {
		now = now.Add(time.Minute)
		if err := j.record(states[i], differences(states[i-1].received, states[i].received), now); err != nil {
			t.Fatal(err)
		}
		if err := j.trust(); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(j.path(j.seq))
	if err != nil {
		t.Fatal(err)
	}
	return states, file
}

func TestJournalCutAtAnyByteIsACommittedState(t *testing.T) {
	t.Parallel()
	states, file := written(t)
	best := 0
	for n := range len(file) + 1 {
		img, err := replay(bytes.NewReader(file[:n]), policy, Position{})
		if err != nil {
			if errors.Is(err, errNoBase) && best == 0 {
				continue
			}
			t.Fatalf("cut at %d: %v", n, err)
		}
		g := int(img.state.pos.Generation)
		if g < best {
			t.Fatalf("cut at %d: generation %d after %d", n, g, best)
		}
		best = g
		if diff := cmp.Diff(content(states[g]), content(img.state)); diff != "" {
			t.Fatalf("cut at %d: -want +got\n%s", n, diff)
		}
		if want := int64(n) != img.end; img.torn != want {
			t.Fatalf("cut at %d: torn = %t with %d good bytes", n, img.torn, img.end)
		}
	}
	if best != len(states)-1 {
		t.Errorf("the whole file gives generation %d, want %d", best, len(states)-1)
	}
}

func TestJournalWithAnyByteChangedIsACommittedState(t *testing.T) {
	t.Parallel()
	states, file := written(t)
	for i := range file {
		damaged := bytes.Clone(file)
		damaged[i] ^= 0x41
		img, err := replay(bytes.NewReader(damaged), policy, Position{})
		if err != nil {
			if !errors.Is(err, errNoBase) {
				t.Fatalf("byte %d: %v", i, err)
			}
			continue
		}
		if diff := cmp.Diff(content(states[img.state.pos.Generation]), content(img.state)); diff != "" {
			t.Fatalf("byte %d: -want +got\n%s", i, diff)
		}
	}
}

func FuzzReplay(f *testing.F) {
	_, file := written(f)
	f.Add(file)
	f.Add(file[:len(file)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		img, err := replay(bytes.NewReader(b), policy, Position{})
		if err == nil && !img.state.pos.IsZero() && img.state.received.Root() != img.state.pos.Root {
			t.Fatal("state without its root")
		}
	})
}

func TestJournalGoesOnAfterATornTail(t *testing.T) {
	t.Parallel()
	_, file := written(t)
	for n := range len(file) + 1 {
		if n%7 != 0 && n != len(file) {
			continue
		}
		dir := t.TempDir()
		j := testJournal(t, dir)
		if err := os.WriteFile(j.path(1), file[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		img, err := j.open(time.Unix(2000, 0))
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		next := stateOf(9, map[string]string{"tenant/z": "nine"}, nil)
		if err := j.record(next, differences(img.state.received, next.received), time.Unix(2001, 0)); err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if err := j.trust(); err != nil {
			t.Fatal(err)
		}
		j.close()
		again := testJournal(t, dir)
		img, err = again.open(time.Unix(2100, 0))
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if diff := cmp.Diff(content(next), content(img.state)); diff != "" {
			t.Fatalf("cut at %d: -want +got\n%s", n, diff)
		}
	}
}

func TestCompactionKeepsTwoBases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := newJournal(dir, policy, "1.0.0", 200, zerolog.Nop())
	t.Cleanup(j.close)
	if _, err := j.open(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	before := emptyState()
	var states []*state
	for g := range uint64(50) {
		s := stateOf(g+1, map[string]string{"tenant/a": fmt.Sprint(g), "tenant/b": "same"}, map[string]pin{
			"tenant/a": {held: []byte("held"), serves: true, since: 1, unit: "tenant/a"},
		})
		if g == 0 {
			s.pins = nil
		}
		states = append(states, s)
		if err := j.record(s, differences(before.received, s.received), time.Unix(int64(g)*60, 0)); err != nil {
			t.Fatal(err)
		}
		if err := j.trust(); err != nil {
			t.Fatal(err)
		}
		before = s
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != keptFiles {
		t.Fatalf("%d files, %v; want %d", len(files), err, keptFiles)
	}
	seqs, err := j.files()
	if err != nil {
		t.Fatal(err)
	}
	j.close()

	// A damaged newest base gives way to the one before.
	b, err := os.ReadFile(j.path(seqs[0]))
	if err != nil {
		t.Fatal(err)
	}
	b[40] ^= 1
	if err := os.WriteFile(j.path(seqs[0]), b, 0o600); err != nil {
		t.Fatal(err)
	}
	again := testJournal(t, dir)
	img, err := again.open(time.Unix(1e6, 0))
	if err != nil {
		t.Fatal(err)
	}
	g := img.state.pos.Generation
	if g == 0 || g > 50 || img.state.received.Root() != states[g-1].pos.Root {
		t.Errorf("loaded generation %d of the older base, want a committed one", g)
	}

	// With none left the node starts with nothing.
	again.close()
	seqs, _ = again.files()
	for _, seq := range seqs {
		if err := os.WriteFile(again.path(seq), []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	last := testJournal(t, dir)
	img, err = last.open(time.Unix(1e6, 0))
	if err != nil || !img.state.pos.IsZero() {
		t.Errorf("state %v, %v; want an empty one", img.state.pos, err)
	}
}

func TestJournalThatCannotBeWrittenIsMadeGoodByTheNext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := testJournal(t, dir)
	if _, err := j.open(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	one := stateOf(1, map[string]string{"tenant/a": "one"}, nil)
	two := stateOf(2, map[string]string{"tenant/a": "one", "tenant/b": "two"}, nil)
	_ = j.f.Close() // the disk fails
	if err := j.record(one, differences(shard.New(), one.received), time.Unix(2, 0)); err == nil {
		t.Fatal("a failed write was taken for a success")
	}
	if err := j.record(two, differences(one.received, two.received), time.Unix(3, 0)); err != nil {
		t.Fatal(err)
	}
	j.close()
	again := testJournal(t, dir)
	img, err := again.open(time.Unix(100, 0))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(content(two), content(img.state)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// killed returns a copy of a node's directory, as it is if the node dies now.
func killed(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestG11C44GenerationThatEndsTheNodeTwiceIsNotLoadedAThirdTime(t *testing.T) {
	for _, compact := range []int64{1 << 20, 1} { // with and without the base on trial
		t.Run(fmt.Sprintf("compaction at %d", compact), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane()
				good := p.commit(tenantEdit("t1", "good"), subjectEdit("t1"))
				dir := t.TempDir()
				n := start(t, p, options{dir: dir, compact: compact})
				n.at(t, p)
				time.Sleep(trialTime + 2*time.Second)
				deadly := p.commit(tenantEdit("t1", "deadly"))
				n.at(t, p)
				dir1 := killed(t, dir)
				n.stop()
				p.cut(true)

				n = start(t, p, options{dir: dir1, compact: compact})
				if v := n.settled(); v.Policy.Generation != deadly {
					t.Fatalf("after one death the node runs %d, want %d", v.Policy.Generation, deadly)
				}
				dir2 := killed(t, dir1)
				n.stop()

				n = start(t, p, options{dir: dir2, compact: compact})
				v := n.settled()
				if v == nil || v.Policy.Generation != good || upstreams(v, "t1") != "good" {
					t.Fatalf("after two deaths the node runs %v, want generation %d", v, good)
				}
				p.heal()
				time.Sleep(time.Minute)
				if v := n.settled(); v.Policy.Generation != good {
					t.Fatalf("the generation was loaded a third time: %v", v.Policy)
				}
				found := false
				for _, r := range p.tape().reports {
					found = found || r.GetOutcome() == syncv1.Outcome_OUTCOME_QUARANTINED && r.GetTried().GetGeneration() == deadly && r.GetRunning().GetGeneration() == good
				}
				if !found {
					t.Error("no report says QUARANTINED")
				}
				if s := n.Status(); s.Policy.Quarantined != deadly || s.State != Holding {
					t.Errorf("status names %d as quarantined in state %s", s.Policy.Quarantined, s.State)
				}
				// It stays so over a further restart, and a newer generation ends it.
				n.stop()
				n = start(t, p, options{dir: dir2, compact: compact})
				time.Sleep(time.Minute)
				if v := n.settled(); v.Policy.Generation != good {
					t.Fatalf("the generation was loaded after a further restart: %v", v.Policy)
				}
				p.commit(tenantEdit("t1", "mended"))
				time.Sleep(time.Second)
				n.at(t, p)
				// Another version of the node may try what this one died of.
				n.stop()
				n = start(t, p, options{dir: killed(t, dir2), compact: compact, version: "2.0.0"})
				time.Sleep(time.Second)
				n.at(t, p)
			})
		})
	}
}

func TestQuarantinedGenerationIsRefusedEvenIfOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.commit(tenantEdit("t1", "good"), subjectEdit("t1"))
		n := start(t, p, options{})
		n.at(t, p)
		n.quarantined[policy] = Position{Epoch: p.epoch, Generation: p.gen + 1}
		p.commit(tenantEdit("t1", "deadly"))
		if v := n.settled(); upstreams(v, "t1") != "good" {
			t.Error("the generation was loaded")
		}
	})
}

func TestOrderlyEndAndLongLifeAreNoDeath(t *testing.T) {
	for name, wait := range map[string]time.Duration{"stopped at once": 0, "killed after the trial": trialTime + 2*time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, dir := newPlane(), t.TempDir()
				p.commit(tenantEdit("t1", "a"), subjectEdit("t1"))
				g := p.commit(tenantEdit("t1", "b"))
				for range 4 {
					n := start(t, p, options{dir: dir})
					n.at(t, p)
					time.Sleep(wait)
					next := killed(t, dir)
					n.stop()
					if wait > 0 {
						dir = next
					}
				}
				p.down = true
				n := start(t, p, options{dir: dir})
				if v := n.settled(); v.Policy.Generation != g {
					t.Errorf("node runs %d, want %d", v.Policy.Generation, g)
				}
			})
		})
	}
}

func TestTwoNodesCannotShareADirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dir := newPlane(), t.TempDir()
		p.commit(tenantEdit("t1"), subjectEdit("t1"))
		n := start(t, p, options{dir: dir})
		n.at(t, p)
		second := start(t, p, options{dir: dir})
		<-second.done
		if second.err == nil {
			t.Error("a second node runs in the same directory")
		}
	})
}
