package snapshot

import (
	"context"
	"crypto/tls"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	connect "connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectinprocess"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// plane is a control plane in memory, with faults on request.
type plane struct {
	syncv1connect.UnimplementedConfigSyncServiceHandler

	mu      sync.Mutex
	epoch   uint64
	gen     uint64
	views   [domains]planeView
	keys    *syncv1.ContentKeys
	changed chan struct{} // closed at every change
	stop    chan struct{} // closed to end all streams
	down    bool          // refuses every call
	reach   int           // changes that the log keeps for each view
	chunk   int           // shards in a chunk of a fetch
	pgDead  time.Time     // since when PostgreSQL is not seen; zero while it is
	// alter may change a message, or return nil to lose it.
	alter      func(*syncv1.WatchResponse) *syncv1.WatchResponse
	alterChunk func(*syncv1.FetchShardsResponse) *syncv1.FetchShardsResponse

	watches []*syncv1.WatchRequest
	fetches []*syncv1.FetchShardsRequest
	reports []*syncv1.ReportRequest
	offered []*syncv1.WatchResponse // deltas and needs for a fetch, as sent
}

type planeView struct {
	set *shard.Set
	pos Position
	log []planeChange
}

type planeChange struct {
	base, target Position
	updates      []*syncv1.ShardUpdate
}

func newPlane() *plane {
	p := &plane{epoch: 7, changed: make(chan struct{}), stop: make(chan struct{}), reach: 1000, chunk: 3}
	for d := range domains {
		p.views[d].set = shard.New()
		p.views[d].pos = Position{Epoch: p.epoch, Root: p.views[d].set.Root()}
	}
	return p
}

// edit is one shard of a commit; a nil message deletes it.
type edit struct {
	key     string
	message proto.Message
	raw     []byte // instead of message
	group   uint32
}

// commit changes shards in one generation and tells every stream.
func (p *plane) commit(edits ...edit) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gen++
	var updates [domains][]*syncv1.ShardUpdate
	for _, e := range edits {
		sd, err := shard.DomainOf(e.key)
		if err != nil {
			panic(err)
		}
		d := policy
		if sd == shard.Identity {
			d = identity
		}
		u := &syncv1.ShardUpdate{Key: e.key, TxGroup: e.group}
		if e.message == nil && e.raw == nil {
			p.views[d].set.Delete(e.key)
			u.Change = &syncv1.ShardUpdate_Tombstone{Tombstone: true}
		} else {
			b := e.raw
			if e.message != nil {
				b, _ = proto.MarshalOptions{Deterministic: true}.Marshal(e.message)
			}
			h := shard.Sum(b)
			p.views[d].set.Put(e.key, h, b)
			u.Hash, u.Change = h[:], &syncv1.ShardUpdate_Payload{Payload: b}
		}
		updates[d] = append(updates[d], u)
	}
	for d := range domains {
		if len(updates[d]) == 0 {
			continue
		}
		v := &p.views[d]
		next := Position{Epoch: p.epoch, Generation: p.gen, Root: v.set.Root()}
		v.log = append(v.log, planeChange{v.pos, next, updates[d]})
		v.log = v.log[max(0, len(v.log)-p.reach):]
		v.pos = next
	}
	p.tell()
	return p.gen
}

func (p *plane) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// set changes the plane and wakes its streams.
func (p *plane) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.tell()
}

// cut ends every stream; with down, further calls are refused.
func (p *plane) cut(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	close(p.stop)
	p.stop = make(chan struct{})
}

func (p *plane) heal() { p.set(func() { p.down = false }) }

func (p *plane) head(d domain) Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.views[d].pos
}

// offer returns the message that takes a view from base to the head.
func (p *plane) offer(d domain, base Position) *syncv1.WatchResponse {
	v := &p.views[d]
	at := slices.IndexFunc(v.log, func(c planeChange) bool { return c.base == base })
	if at < 0 || base.IsZero() {
		return &syncv1.WatchResponse{Msg: &syncv1.WatchResponse_NeedFetch{NeedFetch: &syncv1.NeedFetch{View: d.view(), Target: v.pos.message()}}}
	}
	last := map[string]*syncv1.ShardUpdate{}
	for _, c := range v.log[at:] {
		for _, u := range c.updates {
			last[u.GetKey()] = u
		}
	}
	delta := &syncv1.Delta{View: d.view(), Base: base.message(), Target: v.pos.message()}
	for _, u := range last {
		delta.Updates = append(delta.Updates, u)
	}
	return &syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Delta{Delta: delta}}
}

var errDown = connect.NewError(connect.CodeUnavailable, "down")

func (p *plane) Watch(ctx context.Context, req *syncv1.WatchRequest, out syncv1connect.ConfigSyncServiceWatchServerStream) error {
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return errDown
	}
	p.watches = append(p.watches, req)
	stop, keys := p.stop, p.keys
	refused := map[[2]uint64]bool{}
	for _, r := range req.GetRefused() {
		refused[[2]uint64{uint64(r.GetView()), r.GetGeneration()}] = true
	}
	hello := &syncv1.Hello{
		Identity: p.views[identity].pos.message(), Policy: p.views[policy].pos.message(),
		ServerTime: timestamppb.Now(), PgCheckedAt: p.checked(), HeartbeatIntervalMs: 10_000,
	}
	p.mu.Unlock()
	var at [domains]Position
	at[identity], _ = positionOf(req.GetIdentity())
	at[policy], _ = positionOf(req.GetPolicy())
	if err := p.send(out, &syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Hello{Hello: hello}}); err != nil {
		return err
	}
	if keys != nil {
		if err := p.send(out, &syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Keys{Keys: keys}}); err != nil {
			return err
		}
	}
	beat := time.NewTicker(10 * time.Second)
	defer beat.Stop()
	for {
		p.mu.Lock()
		changed := p.changed
		var due []*syncv1.WatchResponse
		for d := range domains {
			head := p.views[d].pos
			if at[d] == head || refused[[2]uint64{uint64(d.view()), head.Generation}] {
				continue
			}
			due = append(due, p.offer(d, at[d]))
			at[d] = head
		}
		p.offered = append(p.offered, due...)
		p.mu.Unlock()
		for _, m := range due {
			if err := p.send(out, m); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-stop:
			return errDown
		case <-changed:
		case <-beat.C:
			p.mu.Lock()
			hb := &syncv1.Heartbeat{
				Identity: p.views[identity].pos.message(), Policy: p.views[policy].pos.message(),
				ServerTime: timestamppb.Now(), PgCheckedAt: p.checked(),
			}
			p.mu.Unlock()
			if err := p.send(out, &syncv1.WatchResponse{Msg: &syncv1.WatchResponse_Heartbeat{Heartbeat: hb}}); err != nil {
				return err
			}
		}
	}
}

func (p *plane) checked() *timestamppb.Timestamp {
	if p.pgDead.IsZero() {
		return timestamppb.Now()
	}
	return timestamppb.New(p.pgDead)
}

func (p *plane) send(out syncv1connect.ConfigSyncServiceWatchServerStream, m *syncv1.WatchResponse) error {
	p.mu.Lock()
	alter := p.alter
	p.mu.Unlock()
	if alter != nil {
		if m = alter(proto.CloneOf(m)); m == nil {
			return nil
		}
	}
	return out.Send(m)
}

func (p *plane) FetchShards(_ context.Context, req *syncv1.FetchShardsRequest, out syncv1connect.ConfigSyncServiceFetchShardsServerStream) error {
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return errDown
	}
	p.fetches = append(p.fetches, req)
	d, _ := domainOf(req.GetView())
	set, target := p.views[d].set.Clone(), p.views[d].pos
	size, alter := p.chunk, p.alterChunk
	p.mu.Unlock()
	buckets := make([]int, shard.Buckets)
	for i := range buckets {
		buckets[i] = i
	}
	if b := req.GetBucketHashes(); len(b) > 0 {
		var have [shard.Buckets]shard.Hash
		for i := range have {
			copy(have[i][:], b[i*32:])
		}
		buckets = set.Differing(&have)
	}
	chunk := &syncv1.FetchShardsResponse{Target: target.message()}
	flush := func(last bool) error {
		chunk.Last = last
		m := chunk
		chunk = &syncv1.FetchShardsResponse{Target: target.message()}
		if alter != nil {
			if m = alter(proto.CloneOf(m)); m == nil {
				return nil
			}
		}
		return out.Send(m)
	}
	for _, b := range buckets {
		chunk.Buckets = append(chunk.Buckets, uint32(b))
		for _, e := range set.Bucket(b) {
			chunk.Shards = append(chunk.Shards, &syncv1.ShardUpdate{
				Key: e.Key, Hash: e.Hash[:], Change: &syncv1.ShardUpdate_Payload{Payload: e.Payload},
			})
			if len(chunk.Shards) >= size {
				if err := flush(false); err != nil {
					return err
				}
			}
		}
	}
	return flush(true)
}

func (p *plane) Report(_ context.Context, req *syncv1.ReportRequest) (*syncv1.ReportResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return nil, errDown
	}
	p.reports = append(p.reports, req)
	return &syncv1.ReportResponse{}, nil
}

// tape is what the plane saw and sent.
type tape struct {
	watches []*syncv1.WatchRequest
	fetches []*syncv1.FetchShardsRequest
	reports []*syncv1.ReportRequest
	offered []*syncv1.WatchResponse
}

func (p *plane) tape() tape {
	p.mu.Lock()
	defer p.mu.Unlock()
	return tape{slices.Clone(p.watches), slices.Clone(p.fetches), slices.Clone(p.reports), slices.Clone(p.offered)}
}

func (p *plane) lastWatch() *syncv1.WatchRequest {
	w := p.tape().watches
	return w[len(w)-1]
}

// outcomes lists what was reported of a view, in order, without repetition.
func (p *plane) outcomes(d domain) []syncv1.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []syncv1.Outcome
	for _, r := range p.reports {
		if r.GetView() == d.view() && (len(list) == 0 || list[len(list)-1] != r.GetOutcome()) {
			list = append(list, r.GetOutcome())
		}
	}
	return list
}

func (p *plane) lastReport(d domain) *syncv1.ReportRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range slices.Backward(p.reports) {
		if r.GetView() == d.view() {
			return r
		}
	}
	return nil
}

func (p *plane) dial(string, *tls.Config) (connect.Transport, error) {
	server := connect.NewServer()
	syncv1connect.RegisterConfigSyncServiceHandler(server, p)
	return connectinprocess.New(server), nil
}

// node is a data plane's snapshot part in a test.
type node struct {
	*Subscriber
	holder *Holder
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

var testNode = ident.New(ident.Node)

type options struct {
	dir      string
	checker  Checker
	builders []TenantBuilder
	version  string
	probe    Probe
	compact  int64
	swapped  func(n *node, old, now *View, tenants []string)
}

// start runs a node against the plane until the test ends or stop is called.
func start(t testing.TB, p *plane, o options) *node {
	t.Helper()
	if o.version == "" {
		o.version = "1.0.0"
	}
	n := &node{holder: new(Holder), done: make(chan struct{})}
	var swapped func(old, now *View, tenants []string)
	if o.swapped != nil {
		swapped = func(old, now *View, tenants []string) { o.swapped(n, old, now, tenants) }
	}
	s, err := New(Config{
		Swapped:   swapped,
		Endpoints: []string{"http://127.0.0.1:1"}, Insecure: true, NodeID: testNode,
		DataDir: o.dir, Version: o.version, Probe: o.probe, CompactBytes: o.compact,
	}, o.checker, o.builders, n.holder, p.dial, noop.Meter{}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	n.Subscriber = s
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(n.done)
		n.err = s.Run(ctx)
	}()
	t.Cleanup(n.stop)
	return n
}

func (n *node) stop() {
	n.cancel()
	<-n.done
}

// settled waits until nothing moves and returns what the node runs.
func (n *node) settled() *View {
	synctest.Wait()
	return n.holder.Load()
}

// at fails the test unless the node runs the heads of the plane.
func (n *node) at(t testing.TB, p *plane) {
	t.Helper()
	v := n.settled()
	if v == nil {
		t.Fatalf("node serves nothing; status %+v", n.Status())
	}
	if v.Identity != p.head(identity) || v.Policy != p.head(policy) {
		t.Fatalf("node runs %v and %v, want the heads %v and %v; state %s", v.Identity, v.Policy, p.head(identity), p.head(policy), n.Status().State)
	}
}

// Shards for tests.

func tenantEdit(id string, labels ...string) edit {
	m := &syncv1.TenantShard{
		Tenant: &configv1.Tenant{Id: id, Name: id},
		Groups: []*configv1.Group{{Id: "grp-" + id, Name: "default", TenantId: id}},
		Routes: []*configv1.Route{{Id: "rte-" + id, Name: "main", TenantId: id, PathPrefix: "/" + id}},
	}
	for _, l := range labels {
		m.Upstreams = append(m.Upstreams, &configv1.Upstream{Id: "upr-" + id + "-" + l, Name: l, TenantId: id})
	}
	return edit{key: shard.Tenant(id), message: m}
}

func subjectEdit(id string, change ...func(*syncv1.SubjectRecord)) edit {
	m := &syncv1.SubjectRecord{Kind: syncv1.SubjectKind_SUBJECT_KIND_TENANT, Id: id, TenantId: id, Name: id}
	for _, f := range change {
		f(m)
	}
	return edit{key: shard.Subject(shard.SubjectTenant, id), message: m}
}

func hashOf(text string) KeyHash { return KeyHash(shard.Sum([]byte(text))) }

func keyEdit(tenant, text string) edit {
	h := shard.Sum([]byte(text))
	hex := hexOf(h)
	return edit{key: shard.Key(hex), message: &syncv1.KeyRecord{
		Sha256: hex, TenantId: tenant,
		Holder: &syncv1.KeyRecord_ConsumerKey{ConsumerKey: &configv1.ConsumerAPIKey{Id: "key-" + text, TenantId: tenant}},
	}}
}

func gone(e edit) edit { return edit{key: e.key, group: e.group} }

func hexOf(h shard.Hash) string {
	const digits = "0123456789abcdef"
	var b []byte
	for _, x := range h {
		b = append(b, digits[x>>4], digits[x&15])
	}
	return string(b)
}
