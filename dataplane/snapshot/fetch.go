package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// fetchIdle is how long a fetch may bring nothing.
const fetchIdle = 30 * time.Second

var errFetchIdle = fmt.Errorf("fetch: nothing arrived for %s", fetchIdle)

// fetch assembles what FetchShards sends, beside what serves. The stream goes on
// meanwhile, so that a long fetch of policy does not keep a revocation waiting.
type fetch struct {
	domain   domain
	cancel   context.CancelFunc
	messages <-chan received[syncv1.FetchShardsResponse]
	silence  *time.Timer
	most     int64

	compared bool // hashes were sent, so only listed buckets are complete
	target   Position
	listed   map[int]bool
	shards   []*syncv1.ShardUpdate
	bytes    int64
	last     bool
}

// chunks returns the channel of a fetch; nil, which never delivers, without one.
func (f *fetch) chunks() <-chan received[syncv1.FetchShardsResponse] {
	if f == nil {
		return nil
	}
	return f.messages
}

func (f *fetch) idle() <-chan time.Time {
	if f == nil {
		return nil
	}
	return f.silence.C
}

// needFetch starts a fetch, or queues it behind the one that runs.
func (se *session) needFetch(ctx context.Context, m *syncv1.NeedFetch) error {
	d, ok := domainOf(m.GetView())
	if !ok {
		return nil
	}
	target, err := positionOf(m.GetTarget())
	if err != nil {
		return fmt.Errorf("need fetch: %w", err)
	}
	if target.older(se.s.applier.states[d].pos) {
		se.s.alarm(ctx, d, target)
		return nil
	}
	if se.fetch != nil {
		if se.fetch.domain != d && !slices.Contains(se.want, d) {
			se.want = append(se.want, d)
		}
		return nil
	}
	se.startFetch(ctx, d)
	return nil
}

func (se *session) startFetch(ctx context.Context, d domain) {
	ctx, cancel := context.WithCancel(ctx)
	f := &fetch{
		domain: d, cancel: cancel, silence: time.NewTimer(fetchIdle), most: se.s.cfg.FetchBytes,
		listed: make(map[int]bool),
	}
	req := &syncv1.FetchShardsRequest{Node: se.s.node(), View: d.view()}
	if have := se.s.applier.states[d].received; have.Len() > 0 && !se.s.whole[d] {
		f.compared = true
		hashes := have.Hashes()
		req.BucketHashes = make([]byte, 0, shard.Buckets*len(hashes[0]))
		for i := range hashes {
			req.BucketHashes = append(req.BucketHashes, hashes[i][:]...)
		}
	}
	f.messages = pump(ctx, func() (func() (*syncv1.FetchShardsResponse, error), func() error, error) {
		w, err := se.client.FetchShards(ctx, req)
		return w.Receive, w.Close, err
	})
	se.fetch = f
	se.settle()
}

func (se *session) stopFetch() {
	if se.fetch == nil {
		return
	}
	se.fetch.cancel()
	for range se.fetch.messages {
	}
	se.fetch.silence.Stop()
	se.fetch = nil
}

// chunk takes in a part of the running fetch, and what it makes when it is the last.
func (se *session) chunk(ctx context.Context, c received[syncv1.FetchShardsResponse], ok bool) error {
	f := se.fetch
	switch {
	case !ok:
		return ctx.Err()
	case c.err != nil:
		return fmt.Errorf("fetch %s: %w", f.domain, c.err)
	}
	f.silence.Reset(fetchIdle)
	if err := f.add(c.message); err != nil {
		return fmt.Errorf("fetch %s: %w", f.domain, err)
	}
	now := time.Now()
	se.s.mu.Lock()
	se.s.heard, se.s.contact = now, now
	se.s.mu.Unlock()
	if !f.last {
		return nil
	}
	se.stopFetch()
	before := se.s.applier.states[f.domain].pos
	if err := se.complete(ctx, f); err != nil {
		return fmt.Errorf("fetch %s: %w", f.domain, err)
	}
	se.progress = se.s.applier.states[f.domain].pos != before
	if len(se.want) > 0 {
		d := se.want[0]
		se.want = se.want[1:]
		se.startFetch(ctx, d)
		return nil
	}
	// The stream began from another position.
	return errReopen
}

// add takes one chunk in.
func (f *fetch) add(m *syncv1.FetchShardsResponse) error {
	target, err := positionOf(m.GetTarget())
	switch {
	case err != nil:
		return err
	case target.IsZero():
		return &transportError{what: "a chunk names no position"}
	case f.target.IsZero():
		f.target = target
	case target != f.target:
		return &transportError{what: "the position changed between two chunks"}
	}
	for _, b := range m.GetBuckets() {
		if b >= shard.Buckets {
			return &transportError{what: fmt.Sprintf("there is no bucket %d", b)}
		}
		f.listed[int(b)] = true
	}
	for _, u := range m.GetShards() {
		f.bytes += int64(len(u.GetPayload()) + len(u.GetKey()))
		if b := shard.BucketOf(u.GetKey()); !f.listed[b] {
			return &transportError{what: fmt.Sprintf("shard %s arrived outside the listed buckets", u.GetKey())}
		}
	}
	if f.bytes > f.most {
		return fmt.Errorf("more than %d bytes: raise the limit of this node, or make the configuration smaller", f.most)
	}
	f.shards = append(f.shards, m.GetShards()...)
	f.last = m.GetLast()
	return nil
}

// complete applies what a whole fetch brought.
func (se *session) complete(ctx context.Context, f *fetch) error {
	st := se.s.applier.states[f.domain]
	if f.target.older(st.pos) {
		se.s.alarm(ctx, f.domain, f.target)
		return errors.New("the control plane holds an older generation")
	}
	shards, err := verify(f.domain, f.shards)
	if err != nil {
		return err
	}
	sent := make(map[string]bool, len(shards))
	for _, u := range shards {
		sent[u.key] = true
	}
	// What is absent from a complete bucket is gone.
	for b := range shard.Buckets {
		if f.compared && !f.listed[b] {
			continue
		}
		for _, e := range st.received.Bucket(b) {
			if !sent[e.Key] {
				shards = append(shards, shardUpdate{key: e.Key, name: mustName(e.Key), gone: true})
			}
		}
	}
	return se.s.apply(ctx, update{domain: f.domain, target: f.target, shards: shards})
}

// mustName takes the key of a shard that the node holds apart.
func mustName(key string) shard.Name {
	name, err := shard.Parse(key)
	if err != nil {
		panic(fmt.Sprintf("snapshot: the node holds a shard under %q", key))
	}
	return name
}
