package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectinprocess"
	"github.com/google/go-cmp/cmp"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1/syncv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

func TestC05SixtyFourWritersOnTwoServersLoseNothing(t *testing.T) {
	t.Parallel()
	url := pg.URL(t)
	key := filepath.Join(t.TempDir(), "root.key")
	shared := func(c *Config) { c.RootKeyFile = key }
	a, b := start(t, url, shared), start(t, url, shared)
	if _, err := adminv1connect.NewConfigServiceClient(a.rpc(ownerToken)).ApplyBundle(t.Context(), &adminv1.ApplyBundleRequest{Bundle: testBundle()}); err != nil {
		t.Fatal(err)
	}
	tenants, err := adminv1connect.NewTenantServiceClient(a.rpc(ownerToken)).ListTenants(t.Context(), &adminv1.ListTenantsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	tenant := tenants.GetTenants()[0].GetId()
	const writers, rounds = 64, 2
	var wg sync.WaitGroup
	var mu sync.Mutex
	committed := map[string]bool{}
	generations := map[uint64]string{}
	for w := range writers {
		wg.Go(func() {
			groups := adminv1connect.NewGroupServiceClient([]*running{a, b}[w%2].rpc(ownerToken))
			for r := range rounds {
				name := fmt.Sprintf("g-%d-%d", w, r)
				for {
					res, err := groups.CreateGroup(t.Context(), &adminv1.CreateGroupRequest{Group: &configv1.Group{TenantId: tenant, Name: name}})
					if connect.CodeOf(err) == connect.CodeUnavailable && err != nil {
						continue // the gate was busy for too long; nothing was written
					}
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					mu.Lock()
					if other := generations[res.GetResult().GetGeneration()]; other != "" {
						t.Errorf("%s and %s are both generation %d", name, other, res.GetResult().GetGeneration())
					}
					generations[res.GetResult().GetGeneration()] = name
					committed[name] = true
					mu.Unlock()
					break
				}
			}
		})
	}
	wg.Wait()
	head, err := a.Store().Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := uint64(1 + writers*rounds); head.Generation != want || len(committed) != writers*rounds {
		t.Errorf("generation %d with %d groups, want %d", head.Generation, len(committed), want)
	}
	for _, s := range []*running{a, b} {
		hub := s.parts.Load().hub
		eventually(t, func() bool {
			identity, policy := hub.Positions()
			return bytes.Equal(identity.GetRoot(), head.IdentityRoot) && bytes.Equal(policy.GetRoot(), head.StableRoot) && policy.GetGeneration() == head.Stable
		}, "a hub does not come to the root of the database")
	}
	// What nodes fetch holds every group.
	sync := syncv1connect.NewConfigSyncServiceClient(connect.NewClient(connectinprocess.New(b.SyncServer())))
	stream, err := sync.FetchShards(t.Context(), &syncv1.FetchShardsRequest{Node: &syncv1.NodeInfo{NodeId: ident.New(ident.Node)}, View: syncv1.View_VIEW_STABLE})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for {
		chunk, err := stream.Receive()
		if err != nil {
			break
		}
		for _, sh := range chunk.GetShards() {
			if sh.GetKey() != "tenant/"+tenant {
				continue
			}
			var content syncv1.TenantShard
			if err := unmarshal(sh.GetPayload(), &content); err != nil {
				t.Fatal(err)
			}
			for _, g := range content.GetGroups() {
				if g.GetName() != "default" {
					found[g.GetName()] = true
				}
			}
		}
	}
	if d := cmp.Diff(committed, found); d != "" {
		t.Errorf("what was committed and what nodes fetch differ:\n%s", d)
	}
}

// node plays a node: it watches, and answers what it is told with a report.
func node(t *testing.T, s *running, report func(target *syncv1.Position, view syncv1.View) *syncv1.ReportRequest) string {
	t.Helper()
	info := &syncv1.NodeInfo{NodeId: ident.New(ident.Node), InstanceId: "boot-1", Version: "test", Name: "n"}
	c := syncv1connect.NewConfigSyncServiceClient(connect.NewClient(connectinprocess.New(s.SyncServer())))
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		seq := uint64(0)
		at := map[syncv1.View]*syncv1.Position{}
		answer := func(target *syncv1.Position, view syncv1.View) {
			at[view] = target
			seq++
			r := report(target, view)
			r.Node, r.Seq, r.View = info, seq, view
			_, _ = c.Report(ctx, r)
		}
		for ctx.Err() == nil {
			stream, err := c.Watch(ctx, &syncv1.WatchRequest{Node: info, Identity: at[syncv1.View_VIEW_IDENTITY], Policy: at[syncv1.View_VIEW_STABLE]})
			for err == nil {
				var m *syncv1.WatchResponse
				if m, err = stream.Receive(); err != nil {
					break
				}
				if h := m.GetHello(); h != nil && at[syncv1.View_VIEW_STABLE] == nil {
					// As if both views had been fetched: what they hold is no matter here.
					answer(h.GetIdentity(), syncv1.View_VIEW_IDENTITY)
					answer(h.GetPolicy(), syncv1.View_VIEW_STABLE)
					close(ready)
					_ = stream.Close()
				}
				if d := m.GetDelta(); d != nil {
					answer(d.GetTarget(), d.GetView())
				}
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	<-ready
	return info.GetNodeId()
}

func TestG07TheAuthorHearsOfARefusalWithItsPlace(t *testing.T) {
	t.Parallel()
	s := start(t, pg.URL(t), nil)
	groups := adminv1connect.NewGroupServiceClient(s.rpc(ownerToken))
	made, err := adminv1connect.NewTenantServiceClient(s.rpc(ownerToken)).CreateTenant(t.Context(), &adminv1.CreateTenantRequest{Tenant: &configv1.Tenant{Name: "acme"}})
	if err != nil {
		t.Fatal(err)
	}
	tenant := made.GetTenant().GetId()
	id := node(t, s, func(target *syncv1.Position, view syncv1.View) *syncv1.ReportRequest {
		if view == syncv1.View_VIEW_STABLE && target.GetGeneration() > 1 {
			return &syncv1.ReportRequest{Tried: target, Running: made1(target), Outcome: syncv1.Outcome_OUTCOME_REJECTED, Violations: []*syncv1.Violation{
				{Kind: "Group", Name: "bad", FieldPath: "groups[1].name", Rule: "node", Hint: "this node cannot run it", ShardKey: "tenant/" + tenant},
			}}
		}
		return &syncv1.ReportRequest{Tried: target, Running: target, Outcome: syncv1.Outcome_OUTCOME_APPLIED}
	})
	began := time.Now()
	res, err := groups.CreateGroup(t.Context(), &adminv1.CreateGroupRequest{
		Group: &configv1.Group{TenantId: tenant, Name: "bad"}, Change: &adminv1.ChangeContext{Wait: &adminv1.Wait{QuorumPercent: 100, TimeoutMs: 50_000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the author heard after %s, want 5 s at most", took)
	}
	refused := res.GetResult().GetRefusedNodes()
	if len(refused) != 1 || refused[0].GetNodeId() != id || len(refused[0].GetViolations()) != 1 || refused[0].GetViolations()[0].GetFieldPath() != "groups[1].name" {
		t.Fatalf("refused by %v, want %s with the path", refused, id)
	}
	listed, err := adminv1connect.NewNodeServiceClient(s.rpc(ownerToken)).ListNodes(t.Context(), &adminv1.ListNodesRequest{})
	if err != nil || len(listed.GetNodes()) != 1 || listed.GetNodes()[0].GetState() != adminv1.NodeState_NODE_STATE_HOLDING {
		t.Errorf("nodes %v, %v; want one that holds", listed, err)
	}
	if got, err := groups.GetGroup(t.Context(), &adminv1.GetGroupRequest{Id: res.GetGroup().GetId()}); err != nil || got.GetGroup().GetName() != "bad" {
		t.Errorf("the refusal took back what was committed: %v, %v", got, err)
	}
}

// made1 is the position before a target: the first generation.
func made1(target *syncv1.Position) *syncv1.Position {
	return &syncv1.Position{Epoch: target.GetEpoch(), Generation: 1, Root: bytes.Repeat([]byte{1}, 32)}
}

func TestAWaitEndsWhenNodesRunTheChange(t *testing.T) {
	t.Parallel()
	s := start(t, pg.URL(t), nil)
	id := node(t, s, func(target *syncv1.Position, _ syncv1.View) *syncv1.ReportRequest {
		return &syncv1.ReportRequest{Tried: target, Running: target, Outcome: syncv1.Outcome_OUTCOME_APPLIED}
	})
	res, err := adminv1connect.NewTenantServiceClient(s.rpc(ownerToken)).CreateTenant(t.Context(), &adminv1.CreateTenantRequest{
		Tenant: &configv1.Tenant{Name: "acme"}, Change: &adminv1.ChangeContext{Wait: &adminv1.Wait{TimeoutMs: 20_000}},
	})
	if err != nil || !cmp.Equal(res.GetResult().GetAckedNodes(), []string{id}) {
		t.Errorf("acknowledged by %v, %v; want %s", res.GetResult().GetAckedNodes(), err, id)
	}
}

func TestWatchNodesStreamsWhatChanges(t *testing.T) {
	t.Parallel()
	s := start(t, pg.URL(t), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stream, err := adminv1connect.NewNodeServiceClient(s.rpc(ownerToken)).WatchNodes(ctx, &adminv1.WatchNodesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	id := node(t, s, func(target *syncv1.Position, _ syncv1.View) *syncv1.ReportRequest {
		return &syncv1.ReportRequest{Tried: target, Running: target, Outcome: syncv1.Outcome_OUTCOME_APPLIED}
	})
	for {
		m, err := stream.Receive()
		if err != nil {
			t.Fatalf("the stream ended before the node was current: %v", err)
		}
		if m.GetNode().GetId() == id && m.GetNode().GetState() == adminv1.NodeState_NODE_STATE_CURRENT {
			return
		}
	}
}
