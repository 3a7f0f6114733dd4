package distribute

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectinprocess"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	identity = syncv1.View_VIEW_IDENTITY
	stable   = syncv1.View_VIEW_STABLE
)

var errDown = errors.New("store is down")

// database is a store and the nodes table in memory.
type database struct {
	mu       sync.Mutex
	down     bool
	slow     time.Duration // before every answer
	mute     bool          // notifications are lost
	corrupt  bool          // bytes come back altered
	lose     string        // a shard that Load leaves out
	onChange func()        // runs once, before changes are read
	epoch    uint64
	gen      uint64
	sets     map[syncv1.View]*shard.Set
	at       map[syncv1.View]uint64
	log      []logged
	trimmed  uint64 // the log begins after it
	blobs    map[shard.Hash][]byte
	keys     *syncv1.ContentKeys
	nodes    map[string]Node
	statuses map[viewOf]Status
	tokens   map[[32]byte]bool
	loads    int
	changes  int
	ring     chan struct{}
}

type logged struct {
	gen  uint64
	view syncv1.View
	ch   Change
}

func newDatabase() *database {
	return &database{
		epoch: 7, sets: map[syncv1.View]*shard.Set{identity: shard.New(), stable: shard.New()}, at: map[syncv1.View]uint64{},
		blobs: map[shard.Hash][]byte{}, nodes: map[string]Node{}, statuses: map[viewOf]Status{}, tokens: map[[32]byte]bool{},
		keys: &syncv1.ContentKeys{Keys: []*syncv1.ContentKey{{Id: "k1", Key: bytes.Repeat([]byte{1}, 32)}}}, ring: make(chan struct{}),
	}
}

type put struct {
	key     string
	payload string // empty removes
	group   uint32
}

// commit makes one generation.
func (d *database) commit(puts ...put) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gen++
	for _, p := range puts {
		domain, err := shard.DomainOf(p.key)
		if err != nil {
			panic(err)
		}
		view := stable
		if domain == shard.Identity {
			view = identity
		}
		c := Change{Key: p.key, Group: max(p.group, 1), Removed: p.payload == ""}
		if c.Removed {
			d.sets[view].Delete(p.key)
		} else {
			c.Hash = shard.Sum([]byte(p.payload))
			d.blobs[c.Hash] = []byte(p.payload)
			d.sets[view].Put(p.key, c.Hash, []byte(p.payload))
		}
		d.at[view] = d.gen
		d.log = append(d.log, logged{d.gen, view, c})
	}
	if !d.mute {
		close(d.ring)
		d.ring = make(chan struct{})
	}
	return d.gen
}

func (d *database) set(fn func(d *database)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fn(d)
}

func (d *database) ask(ctx context.Context) error {
	d.mu.Lock()
	slow, down := d.slow, d.down
	d.mu.Unlock()
	if slow > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(slow):
		}
	}
	if down {
		return errDown
	}
	return nil
}

func (d *database) headLocked() Head {
	pos := func(v syncv1.View) *syncv1.Position {
		root := d.sets[v].Root()
		return &syncv1.Position{Epoch: d.epoch, Generation: d.at[v], Root: root[:]}
	}
	return Head{Epoch: d.epoch, Generation: d.gen, Identity: pos(identity), Policy: pos(stable)}
}

func (d *database) Head(ctx context.Context) (Head, error) {
	if err := d.ask(ctx); err != nil {
		return Head{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.headLocked(), nil
}

func (d *database) Load(ctx context.Context, view syncv1.View, fn func(string, shard.Hash, []byte) error) (Head, error) {
	if err := d.ask(ctx); err != nil {
		return Head{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loads++
	scratch := []byte{}
	for e := range d.sets[view].All() {
		if e.Key == d.lose {
			continue
		}
		scratch = append(scratch[:0], e.Payload...)
		if d.corrupt {
			scratch[0] ^= 1
		}
		if err := fn(e.Key, e.Hash, scratch); err != nil {
			return Head{}, err
		}
	}
	return d.headLocked(), nil
}

func (d *database) Changes(ctx context.Context, view syncv1.View, since uint64) (Changes, error) {
	if err := d.ask(ctx); err != nil {
		return Changes{}, err
	}
	d.mu.Lock()
	hook := d.onChange
	d.onChange = nil
	d.mu.Unlock()
	if hook != nil {
		hook()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes++
	out := Changes{Head: d.headLocked()}
	if since < d.trimmed || since > d.gen {
		return out, nil
	}
	out.Reachable = true
	var steps []step
	last := map[string]Change{}
	var gen uint64
	for _, l := range d.log {
		if l.view != view || l.gen <= since {
			continue
		}
		if l.gen != gen {
			steps, gen = append(steps, step{}), l.gen
		}
		steps[len(steps)-1].changes = append(steps[len(steps)-1].changes, l.ch)
		last[l.ch.Key] = l.ch
	}
	groups := joined(steps)
	for _, key := range sorted(last) {
		c := last[key]
		c.Group = groups[key]
		out.Shards = append(out.Shards, c)
	}
	return out, nil
}

func (d *database) Blobs(ctx context.Context, hashes []shard.Hash) (map[shard.Hash][]byte, error) {
	if err := d.ask(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[shard.Hash][]byte{}
	for _, h := range hashes {
		if b, ok := d.blobs[h]; ok {
			out[h] = bytes.Clone(b)
			if d.corrupt {
				out[h][0] ^= 1
			}
		}
	}
	return out, nil
}

func (d *database) Listen(ctx context.Context, fn func(Head)) error {
	for {
		d.mu.Lock()
		ring := d.ring
		d.mu.Unlock()
		head, err := d.Head(ctx)
		if err != nil {
			return err
		}
		fn(head)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ring:
		case <-time.After(time.Second):
		}
	}
}

func (d *database) ContentKeys(ctx context.Context) (*syncv1.ContentKeys, error) {
	if err := d.ask(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keys, nil
}

func (d *database) UseJoinToken(ctx context.Context, hash [32]byte, n Node) error {
	if err := d.ask(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.tokens[hash] {
		return ErrNoToken
	}
	delete(d.tokens, hash)
	d.nodes[n.ID] = n
	return nil
}

func (d *database) SaveNode(ctx context.Context, n Node) error {
	if err := d.ask(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n.RevokedAt = d.nodes[n.ID].RevokedAt
	d.nodes[n.ID] = n
	return nil
}

func (d *database) GetNode(ctx context.Context, id string) (Node, error) {
	if err := d.ask(ctx); err != nil {
		return Node{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.nodes[id]
	if !ok {
		return Node{}, ErrNoNode
	}
	return n, nil
}

func (d *database) AllNodes(ctx context.Context) ([]Node, error) {
	if err := d.ask(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []Node
	for _, id := range sorted(d.nodes) {
		out = append(out, d.nodes[id])
	}
	return out, nil
}

func (d *database) SaveStatus(ctx context.Context, r *syncv1.ReportRequest, fromDisk bool) error {
	if err := d.ask(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.statuses[viewOf{r.GetNode().GetNodeId(), r.GetView()}] = Status{r, fromDisk, time.Now()}
	return nil
}

func (d *database) AllStatuses(ctx context.Context) ([]Status, error) {
	if err := d.ask(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []Status
	for _, s := range d.statuses {
		out = append(out, s)
	}
	return out, nil
}

// authority issues nothing; enrolment has tests of its own with a real one.
type authority struct{}

func (authority) DER() []byte                                         { return []byte("ca") }
func (authority) IssueNode([]byte, string, time.Time) ([]byte, error) { return nil, errDown }

type callerKey struct{}

// startHub runs a hub until the test ends or the returned function is called. The
// caller's identity is what the test put into the context.
func startHub(t testing.TB, ctx context.Context, d *database, cfg Config) (*Hub, func()) {
	t.Helper()
	if cfg.Identify == nil && !cfg.TrustNodes {
		cfg.Identify = func(ctx context.Context) (string, error) {
			if id, ok := ctx.Value(callerKey{}).(string); ok {
				return id, nil
			}
			return "", errors.New("no identity")
		}
	}
	h, err := New(d, d, d, authority{}, cfg, zerolog.Nop(), noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Run(ctx)
	}()
	return h, func() { cancel(); <-done }
}

func clientOf(h *Hub) syncv1connect.ConfigSyncServiceClient {
	server := connect.NewServer()
	syncv1connect.RegisterConfigSyncServiceHandler(server, h)
	return syncv1connect.NewConfigSyncServiceClient(connect.NewClient(connectinprocess.New(server)))
}

// fakeNode follows the protocol as a node does.
type fakeNode struct {
	info    *syncv1.NodeInfo
	hub     func() syncv1connect.ConfigSyncServiceClient // a replica to connect to
	drop    func(*syncv1.WatchResponse) bool             // lost on the way
	refuse  func(*syncv1.Delta) bool
	silent  bool // never reports
	refused []*syncv1.Refusal

	mu       sync.Mutex
	at       map[syncv1.View]position
	sets     map[syncv1.View]*shard.Set
	seen     []string // what came, in order
	offers   map[string]int
	keys     *syncv1.ContentKeys
	checked  time.Time
	last     map[syncv1.View]*syncv1.ReportRequest
	seq      uint64
	watches  int
	deltas   int
	fetched  int // shards
	problems []string
}

func newNode(d *database, hub func() syncv1connect.ConfigSyncServiceClient) *fakeNode {
	n := &fakeNode{
		info: &syncv1.NodeInfo{NodeId: ident.New(ident.Node), InstanceId: ident.New("boot"), Version: "1.0.0"}, hub: hub,
		at: map[syncv1.View]position{}, sets: map[syncv1.View]*shard.Set{identity: shard.New(), stable: shard.New()}, offers: map[string]int{},
		last: map[syncv1.View]*syncv1.ReportRequest{},
	}
	d.set(func(d *database) { d.nodes[n.info.NodeId] = Node{ID: n.info.NodeId} })
	return n
}

func (n *fakeNode) ctx(ctx context.Context) context.Context {
	return context.WithValue(ctx, callerKey{}, n.info.GetNodeId())
}

// run stays connected until ctx ends.
func (n *fakeNode) run(ctx context.Context) {
	ctx = n.ctx(ctx)
	for ctx.Err() == nil {
		wait := n.watch(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

func (n *fakeNode) request() *syncv1.WatchRequest {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watches++
	return &syncv1.WatchRequest{Node: n.info, Identity: n.at[identity].proto(), Policy: n.at[stable].proto(), Refused: n.refused}
}

// watch holds one stream and returns how long to wait before the next.
func (n *fakeNode) watch(ctx context.Context) time.Duration {
	const again = 200 * time.Millisecond
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := n.hub()
	stream, err := client.Watch(ctx, n.request())
	if err != nil {
		return again
	}
	defer func() { _ = stream.Close() }()
	for {
		m, err := stream.Receive()
		if err != nil {
			return again
		}
		if n.drop != nil && n.drop(m) {
			continue
		}
		switch msg := m.GetMsg().(type) {
		case *syncv1.WatchResponse_Hello:
			n.note("hello")
			n.fresh(msg.Hello.GetPgCheckedAt().AsTime())
		case *syncv1.WatchResponse_Keys:
			n.note("keys")
			n.mu.Lock()
			n.keys = msg.Keys
			n.mu.Unlock()
		case *syncv1.WatchResponse_Delta:
			n.note("delta " + msg.Delta.GetView().String())
			outcome := n.apply(msg.Delta)
			n.report(ctx, client, msg.Delta.GetView(), outcome, msg.Delta.GetTarget())
			if outcome == syncv1.Outcome_OUTCOME_NEED_FULL {
				return 0
			}
		case *syncv1.WatchResponse_NeedFetch:
			n.note("fetch " + msg.NeedFetch.GetView().String())
			if !n.fetch(ctx, client, msg.NeedFetch.GetView()) {
				return again
			}
			n.report(ctx, client, msg.NeedFetch.GetView(), syncv1.Outcome_OUTCOME_APPLIED, nil)
			return 0
		case *syncv1.WatchResponse_Heartbeat:
			n.fresh(msg.Heartbeat.GetPgCheckedAt().AsTime())
			n.mu.Lock()
			n.seen = append(n.seen, "heartbeat")
			behind := n.behind(identity, msg.Heartbeat.GetIdentity()) || n.behind(stable, msg.Heartbeat.GetPolicy())
			n.mu.Unlock()
			if behind {
				return 0
			}
			for _, v := range views { // a sign of life
				n.mu.Lock()
				last := n.last[v]
				n.mu.Unlock()
				n.report(ctx, client, v, last.GetOutcome(), last.GetTried())
			}
		case *syncv1.WatchResponse_Goaway:
			n.note("goaway")
			return time.Duration(msg.Goaway.GetReconnectAfterMs()) * time.Millisecond
		}
	}
}

// behind reports whether a target is ahead and not refused. n.mu is held.
func (n *fakeNode) behind(view syncv1.View, target *syncv1.Position) bool {
	for _, r := range n.refused {
		if r.GetView() == view && r.GetGeneration() == target.GetGeneration() {
			return false
		}
	}
	t := positionOf(target)
	return n.at[view] != t && (t.epoch != n.at[view].epoch || t.generation >= n.at[view].generation)
}

func (n *fakeNode) note(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = append(n.seen, what)
}

func (n *fakeNode) fresh(t time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checked = t
}

func (n *fakeNode) apply(d *syncv1.Delta) syncv1.Outcome {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deltas++
	view := d.GetView()
	n.offers[fmt.Sprint(view, d.GetTarget().GetGeneration())]++
	if n.refuse != nil && n.refuse(d) {
		n.refused = append(n.refused, &syncv1.Refusal{View: view, Generation: d.GetTarget().GetGeneration(), NodeVersion: n.info.GetVersion()})
		return syncv1.Outcome_OUTCOME_REJECTED
	}
	if positionOf(d.GetBase()) != n.at[view] {
		return syncv1.Outcome_OUTCOME_NEED_FULL
	}
	next := n.sets[view].Clone()
	for _, u := range d.GetUpdates() {
		if u.GetTombstone() {
			next.Delete(u.GetKey())
			continue
		}
		if shard.Sum(u.GetPayload()) != shard.Hash(u.GetHash()) {
			n.problems = append(n.problems, "a payload does not have its hash")
		}
		next.Put(u.GetKey(), shard.Hash(u.GetHash()), u.GetPayload())
	}
	target := positionOf(d.GetTarget())
	if next.Root() != target.root {
		n.problems = append(n.problems, "a delta does not lead to its target")
		return syncv1.Outcome_OUTCOME_NEED_FULL
	}
	n.move(view, next, target)
	return syncv1.Outcome_OUTCOME_APPLIED
}

// move swaps. n.mu is held.
func (n *fakeNode) move(view syncv1.View, next *shard.Set, target position) {
	if old := n.at[view]; old.known && old.epoch == target.epoch && target.generation < old.generation {
		n.problems = append(n.problems, fmt.Sprintf("G-2: %s went from %s to %s", view, old, target))
	}
	n.sets[view], n.at[view] = next, target
}

func (n *fakeNode) fetch(ctx context.Context, client syncv1connect.ConfigSyncServiceClient, view syncv1.View) bool {
	n.mu.Lock()
	next := n.sets[view].Clone()
	n.mu.Unlock()
	hashes := next.Hashes()
	var joined []byte
	if next.Len() > 0 {
		for _, h := range hashes {
			joined = append(joined, h[:]...)
		}
	}
	stream, err := client.FetchShards(ctx, &syncv1.FetchShardsRequest{Node: n.info, View: view, BucketHashes: joined})
	if err != nil {
		return false
	}
	defer func() { _ = stream.Close() }()
	for {
		chunk, err := stream.Receive()
		if err != nil {
			return false
		}
		for _, b := range chunk.GetBuckets() {
			for _, key := range next.Keys(int(b)) {
				next.Delete(key)
			}
		}
		n.mu.Lock()
		n.fetched += len(chunk.GetShards())
		n.mu.Unlock()
		for _, u := range chunk.GetShards() {
			next.Put(u.GetKey(), shard.Hash(u.GetHash()), u.GetPayload())
		}
		if !chunk.GetLast() {
			continue
		}
		target := positionOf(chunk.GetTarget())
		n.mu.Lock()
		defer n.mu.Unlock()
		if next.Root() != target.root {
			n.problems = append(n.problems, "a fetch does not lead to its target")
			return false
		}
		n.move(view, next, target)
		return true
	}
}

func (n *fakeNode) report(ctx context.Context, client syncv1connect.ConfigSyncServiceClient, view syncv1.View, outcome syncv1.Outcome, tried *syncv1.Position) {
	if n.silent {
		return
	}
	n.mu.Lock()
	n.seq++
	r := &syncv1.ReportRequest{Node: n.info, Seq: n.seq, View: view, Running: n.at[view].proto(), Tried: tried, Outcome: outcome}
	n.last[view] = r
	if outcome == syncv1.Outcome_OUTCOME_REJECTED {
		r.Violations = []*syncv1.Violation{{Rule: "test.refused", FieldPath: "routes[0]"}}
	}
	n.mu.Unlock()
	_, _ = client.Report(ctx, r)
}

func (n *fakeNode) get(fn func(n *fakeNode)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fn(n)
}

// runs reports whether the node's shards are those of the database.
func (n *fakeNode) runs(d *database) bool {
	d.mu.Lock()
	head := d.headLocked()
	d.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at[identity] == positionOf(head.Identity) && n.at[stable] == positionOf(head.Policy)
}

func (n *fakeNode) history() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.seen...)
}

func (n *fakeNode) forget() {
	n.get(func(n *fakeNode) {
		n.seen, n.fetched, n.deltas, n.watches = nil, 0, 0, 0
		maps.DeleteFunc(n.offers, func(string, int) bool { return true })
	})
}

func (n *fakeNode) check(t testing.TB) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.problems {
		t.Error(p)
	}
}
