package snapshot

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// sized returns the shards of a configuration of so many tenants, with so many keys each.
func sized(tenants, keys int) (identity, policy []shardUpdate) {
	add := func(list *[]shardUpdate, e edit) {
		b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(e.message)
		*list = append(*list, shardUpdate{key: e.key, name: mustName(e.key), hash: shard.Sum(b), payload: b})
	}
	for i := range tenants {
		id := fmt.Sprintf("t%d", i)
		add(&policy, tenantEdit(id, "a", "b", "c"))
		add(&identity, subjectEdit(id))
		for k := range keys {
			add(&identity, keyEdit(id, fmt.Sprintf("%s-%d", id, k)))
		}
	}
	return identity, policy
}

func targetOf(st *state, gen uint64, shards []shardUpdate) Position {
	set := st.received.Clone()
	for _, s := range shards {
		if s.gone {
			set.Delete(s.key)
		} else {
			set.Put(s.key, s.hash, s.payload)
		}
	}
	return Position{Epoch: 1, Generation: gen, Root: set.Root()}
}

func loaded(t testing.TB, tenants, keys int) *applier {
	t.Helper()
	a := newApplier(nil, nil, nil, PlainOpener{}, new(Holder), nil)
	ids, pol := sized(tenants, keys)
	for d, shards := range [domains][]shardUpdate{ids, pol} {
		applyNow(t, a, update{domain: domain(d), target: targetOf(a.states[d], 1, shards), shards: shards})
	}
	return a
}

func applyNow(t testing.TB, a *applier, u update) {
	t.Helper()
	r, err := a.prepare(u)
	if err != nil {
		t.Fatal(err)
	}
	a.commit(r)
}

// oneChange is one tenant shard with new content.
func oneChange(a *applier, i, tenants int) update {
	b, _ := proto.Marshal(tenantEdit(fmt.Sprintf("t%d", i%tenants), "a", fmt.Sprint(i)).message)
	key := shard.Tenant(fmt.Sprintf("t%d", i%tenants))
	shards := []shardUpdate{{key: key, name: mustName(key), hash: shard.Sum(b), payload: b}}
	return update{domain: policy, target: targetOf(a.states[policy], uint64(i)+2, shards), shards: shards}
}

// Applying a change costs by the change: 400 of them on a node with a hundred times
// the tenants take about as long. The bound is wide; it catches a cost that grows
// with the number of tenants.
func TestC38TimeGrowsWithDeltasNotWithTenants(t *testing.T) {
	measure := func(tenants int) time.Duration {
		a := loaded(t, tenants, 0)
		updates := 400
		began := time.Now()
		for i := range updates {
			applyNow(t, a, oneChange(a, i, tenants))
		}
		return time.Since(began)
	}
	small, large := measure(50), measure(5000)
	t.Logf("400 deltas: %s with 50 tenants, %s with 5,000", small, large)
	if large > 20*small+time.Second {
		t.Errorf("400 deltas took %s with 5,000 tenants, %s with 50", large, small)
	}
}

func BenchmarkApplyOneTenant(b *testing.B) {
	for _, tenants := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			a := loaded(b, tenants, 10)
			i := 0
			for b.Loop() {
				applyNow(b, a, oneChange(a, i, tenants))
				i++
			}
		})
	}
}

// BenchmarkBootFromDisk reads, verifies and indexes 10,000 tenants and 100,000 keys.
func BenchmarkBootFromDisk(b *testing.B) {
	a, dir := loaded(b, 10_000, 10), b.TempDir()
	for d := range domains {
		j := newJournal(dir, d, "1", 1<<30, zerolog.Nop())
		if _, err := j.open(time.Now()); err != nil {
			b.Fatal(err)
		}
		if err := j.rebase(a.states[d]); err != nil {
			b.Fatal(err)
		}
		j.close()
	}
	b.ReportAllocs()
	for b.Loop() {
		again := newApplier(nil, nil, nil, PlainOpener{}, new(Holder), nil)
		for d := range domains {
			j := newJournal(dir, d, "1", 1<<30, zerolog.Nop())
			img, err := j.open(time.Now())
			if err != nil {
				b.Fatal(err)
			}
			if err := again.restore(d, img.state, true); err != nil {
				b.Fatal(err)
			}
			j.close()
		}
		if again.holder.Load().keys.size() != 100_000 {
			b.Fatal("keys are missing")
		}
	}
}

// BenchmarkHeap tells the memory of 10,000 tenants and 100,000 keys.
func BenchmarkHeap(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		a := loaded(b, 10_000, 10)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		runtime.KeepAlive(a)
	}
}
