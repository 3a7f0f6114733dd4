package distribute

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// views are those that are delivered, in the order of delivery: who may call
// comes before everything else.
var views = [...]syncv1.View{syncv1.View_VIEW_IDENTITY, syncv1.View_VIEW_STABLE}

// position is a comparable syncv1.Position. The zero value is that of a node
// that runs nothing.
type position struct {
	epoch, generation uint64
	root              shard.Hash
	known             bool
}

// positionOf reads a position. One whose root is not 32 bytes names no state.
func positionOf(p *syncv1.Position) position {
	if len(p.GetRoot()) != len(shard.Hash{}) {
		return position{}
	}
	return position{p.GetEpoch(), p.GetGeneration(), shard.Hash(p.GetRoot()), true}
}

func (p position) proto() *syncv1.Position {
	if !p.known {
		return nil
	}
	return &syncv1.Position{Epoch: p.epoch, Generation: p.generation, Root: p.root[:]}
}

func (p position) String() string {
	return fmt.Sprintf("%d@%016x/%s", p.generation, p.epoch, hex.EncodeToString(p.root[:4]))
}

// state is everything that is served. It is immutable once published.
type state struct {
	head      uint64 // generation of the newest change of either view
	identity  *viewState
	policy    *viewState
	keys      *syncv1.ContentKeys
	checkedAt time.Time // when PostgreSQL was last seen to be at this state
}

func (s *state) view(v syncv1.View) *viewState {
	switch v {
	case syncv1.View_VIEW_IDENTITY:
		return s.identity
	case syncv1.View_VIEW_STABLE:
		return s.policy
	}
	return nil
}

// viewState is one verified state of one view.
type viewState struct {
	view syncv1.View
	at   position
	set  *shard.Set
	// steps lead to at, oldest first, each beginning where the one before ends.
	steps []step

	// deltas to at by their base, made once however many streams need them.
	mu     sync.Mutex // guards deltas
	deltas map[position]func() *syncv1.Delta
}

// step is one change of a view.
type step struct {
	from    position
	changes []Change
}

// maxSteps bounds how many steps are kept for nodes that are a little behind;
// those further behind are helped by the change log in the store.
const maxSteps = 256

func newViewState(view syncv1.View, at position, set *shard.Set, steps []step) *viewState {
	if len(steps) > maxSteps {
		steps = steps[len(steps)-maxSteps:]
	}
	return &viewState{view: view, at: at, set: set, steps: steps, deltas: map[position]func() *syncv1.Delta{}}
}

// rootError says that stored shards do not add up to the stored root.
type rootError struct {
	view      syncv1.View
	want, got shard.Hash
}

func (e *rootError) Error() string {
	return fmt.Sprintf("%s does not add up: the shards have the root %s, the head says %s", e.view, hex.EncodeToString(e.got[:8]), hex.EncodeToString(e.want[:8]))
}

// load reads a whole view and verifies every hash up to the root.
func load(ctx context.Context, store Store, view syncv1.View) (*viewState, Head, error) {
	set := shard.New()
	head, err := store.Load(ctx, view, func(key string, hash shard.Hash, payload []byte) error {
		if _, err := shard.Parse(key); err != nil {
			return err
		}
		if shard.Sum(payload) != hash {
			return fmt.Errorf("the bytes of shard %s have another hash than is stored beside them", key)
		}
		set.Put(key, hash, slices.Clone(payload))
		return nil
	})
	if err != nil {
		return nil, Head{}, fmt.Errorf("load %s: %w", view, err)
	}
	at := positionOf(head.position(view))
	if got := set.Root(); !at.known || got != at.root {
		return nil, Head{}, fmt.Errorf("load %s: %w", view, &rootError{view, at.root, got})
	}
	return newViewState(view, at, set, nil), head, nil
}

func (h Head) position(view syncv1.View) *syncv1.Position {
	if view == syncv1.View_VIEW_IDENTITY {
		return h.Identity
	}
	return h.Policy
}

// difference returns what leads from one set to another, all in one group: what
// belonged together on the way is not known.
func difference(from, to *shard.Set) []Change {
	hashes := from.Hashes()
	var out []Change
	for _, b := range to.Differing(&hashes) {
		for _, e := range to.Bucket(b) {
			if old, ok := from.Get(e.Key); !ok || old.Hash != e.Hash {
				out = append(out, Change{Key: e.Key, Group: 1, Hash: e.Hash})
			}
		}
		for _, e := range from.Bucket(b) {
			if _, ok := to.Get(e.Key); !ok {
				out = append(out, Change{Key: e.Key, Group: 1, Removed: true})
			}
		}
	}
	return out
}

// errUnreachable says that the change log does not reach a state.
var errUnreachable = errors.New("the change log does not reach back that far")

// advance returns the view at the head, from the change log, verified.
func (v *viewState) advance(ctx context.Context, store Store) (*viewState, Head, error) {
	ch, err := store.Changes(ctx, v.view, v.at.generation)
	if err != nil {
		return nil, Head{}, fmt.Errorf("read changes of %s: %w", v.view, err)
	}
	at := positionOf(ch.Head.position(v.view))
	if !ch.Reachable || !at.known || at.epoch != v.at.epoch {
		return nil, Head{}, errUnreachable
	}
	var missing []shard.Hash
	for _, c := range ch.Shards {
		if e, ok := v.set.Get(c.Key); !c.Removed && (!ok || e.Hash != c.Hash) {
			missing = append(missing, c.Hash)
		}
	}
	blobs := map[shard.Hash][]byte{}
	if len(missing) > 0 {
		if blobs, err = store.Blobs(ctx, missing); err != nil {
			return nil, Head{}, fmt.Errorf("read shards of %s: %w", v.view, err)
		}
	}
	set := v.set.Clone()
	for _, c := range ch.Shards {
		if c.Removed {
			set.Delete(c.Key)
			continue
		}
		if e, ok := set.Get(c.Key); ok && e.Hash == c.Hash {
			continue
		}
		payload, ok := blobs[c.Hash]
		if _, err := shard.Parse(c.Key); err != nil || !ok || shard.Sum(payload) != c.Hash {
			return nil, Head{}, fmt.Errorf("the bytes of shard %s are missing or altered in the store", c.Key)
		}
		set.Put(c.Key, c.Hash, payload)
	}
	if got := set.Root(); got != at.root {
		return nil, Head{}, &rootError{v.view, at.root, got}
	}
	return newViewState(v.view, at, set, append(slices.Clone(v.steps), step{v.at, ch.Shards})), ch.Head, nil
}

// delta returns the delta from base, nil if it cannot be told or is too large.
// It may read the store, once for each base.
func (v *viewState) delta(store Store, base position, maxBytes int) *syncv1.Delta {
	v.mu.Lock()
	squashed, ok := v.deltas[base]
	if !ok {
		if len(v.deltas) >= maxBases {
			v.mu.Unlock()
			return nil
		}
		squashed = sync.OnceValue(func() *syncv1.Delta { return v.squash(store, base, maxBytes) })
		v.deltas[base] = squashed
	}
	v.mu.Unlock()
	return squashed()
}

// maxBases bounds from how many bases deltas to one state are made: the bases are
// what nodes say.
const maxBases = 1024

// changesTimeout bounds the read of the change log for a node that is behind.
const changesTimeout = 2 * time.Second

func (v *viewState) squash(store Store, base position, maxBytes int) *syncv1.Delta {
	var steps []step
	if i := slices.IndexFunc(v.steps, func(s step) bool { return s.from == base }); i >= 0 {
		steps = v.steps[i:]
	} else if slices.ContainsFunc(v.steps, func(s step) bool { return s.from.generation == base.generation }) {
		return nil // the node's root is not what this generation had
	} else {
		// Not of one stream alone, so not under its context.
		ctx, cancel := context.WithTimeout(context.Background(), changesTimeout)
		defer cancel()
		ch, err := store.Changes(ctx, v.view, base.generation)
		if err != nil || !ch.Reachable || positionOf(ch.Head.position(v.view)) != v.at {
			return nil
		}
		steps = []step{{base, ch.Shards}}
	}
	groups := joined(steps)
	d := &syncv1.Delta{View: v.view, Base: base.proto(), Target: v.at.proto()}
	size := 0
	for _, key := range sorted(groups) {
		u := &syncv1.ShardUpdate{Key: key, TxGroup: groups[key]}
		if e, ok := v.set.Get(key); ok {
			u.Hash, u.Change = e.Hash[:], &syncv1.ShardUpdate_Payload{Payload: e.Payload}
		} else {
			u.Change = &syncv1.ShardUpdate_Tombstone{Tombstone: true}
		}
		if size += proto.Size(u); size > maxBytes {
			return nil
		}
		d.Updates = append(d.Updates, u)
	}
	return d
}

// joined gives every key that some step changes a group, counting from 1 in the
// order of keys. Groups of different steps that share a shard become one, since
// its last bytes belong to both.
func joined(steps []step) map[string]uint32 {
	parent := map[string]string{}
	find := func(k string) string {
		for parent[k] != k {
			parent[k] = parent[parent[k]]
			k = parent[k]
		}
		return k
	}
	for _, s := range steps {
		first := map[uint32]string{}
		for _, c := range s.changes {
			if _, ok := parent[c.Key]; !ok {
				parent[c.Key] = c.Key
			}
			if f, ok := first[c.Group]; ok {
				parent[find(c.Key)] = find(f)
			} else {
				first[c.Group] = c.Key
			}
		}
	}
	groups, numbers := make(map[string]uint32, len(parent)), map[string]uint32{}
	for _, key := range sorted(parent) {
		root := find(key)
		if numbers[root] == 0 {
			numbers[root] = uint32(len(numbers) + 1)
		}
		groups[key] = numbers[root]
	}
	return groups
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
