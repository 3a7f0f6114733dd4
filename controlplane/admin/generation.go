package admin

import (
	"context"
	"errors"
	"strconv"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/compile"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// configService changes and reads the configuration as a whole.
type configService struct {
	adminv1connect.UnimplementedConfigServiceHandler
	api *API
}

var _ adminv1connect.ConfigServiceHandler = configService{}

// RenewEpoch begins a new lineage after a restore or promotion of the database.
func (s configService) RenewEpoch(ctx context.Context, req *adminv1.RenewEpochRequest) (*adminv1.RenewEpochResponse, error) {
	head, err := s.api.store.RenewEpoch(ctx, access.ActorOf(ctx).Store(), req.GetMessage())
	if err != nil {
		return nil, err
	}
	s.api.fleet.Poke(head.Generation + 1) // its generation did not move, its epoch did
	return &adminv1.RenewEpochResponse{Epoch: head.Epoch}, nil
}

// ListGenerations pages through generations, newest first.
func (s configService) ListGenerations(ctx context.Context, req *adminv1.ListGenerationsRequest) (*adminv1.ListGenerationsResponse, error) {
	var before uint64
	if token := req.GetPageToken(); token != "" {
		var err error
		if before, err = strconv.ParseUint(token, 10, 63); err != nil || before == 0 {
			return nil, wrong(nil, "page_token", "page_token", "not a token of an earlier page; begin again without one")
		}
	}
	size := pageSize(req.GetPageSize())
	found, err := s.api.store.Generations(ctx, size+1, before)
	if err != nil {
		return nil, err
	}
	page, next := cutPage(found, size, func(g store.GenerationEntry) string { return strconv.FormatUint(g.Generation, 10) })
	res := &adminv1.ListGenerationsResponse{NextPageToken: next}
	for _, g := range page {
		res.Generations = append(res.Generations, generation(g))
	}
	return res, nil
}

// GetGeneration reads one generation with its changes; 0 is the newest. An actor
// that is limited to tenants sees their part of it.
func (s configService) GetGeneration(ctx context.Context, req *adminv1.GetGenerationRequest) (*adminv1.GetGenerationResponse, error) {
	n := req.GetGeneration()
	if n == 0 {
		head, err := s.api.store.Head(ctx)
		if err != nil {
			return nil, err
		}
		n = head.Generation
	}
	missing := &store.NotFoundError{Kind: "Generation", ID: strconv.FormatUint(n, 10)}
	if n == 0 || n > 1<<62 {
		return nil, missing
	}
	found, err := s.api.store.Generations(ctx, 1, n+1)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].Generation != n {
		return nil, missing
	}
	res := &adminv1.GetGenerationResponse{Generation: generation(found[0])}
	if res.Diff, res.Shards, err = s.api.changesOf(ctx, n); err != nil {
		return nil, err
	}
	if !access.ActorOf(ctx).AllTenants() && len(res.GetDiff()) == 0 {
		return nil, missing
	}
	return res, nil
}

// changesOf returns what a generation changed, as far as the caller may see it.
func (a *API) changesOf(ctx context.Context, n uint64) ([]*adminv1.FieldChange, []*adminv1.ShardChange, error) {
	actor := access.ActorOf(ctx)
	revisions, err := a.store.RevisionsOf(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	var diff []*adminv1.FieldChange
	for _, r := range revisions {
		if !actor.AllTenants() && !actor.CanTenant(r.TenantID) {
			continue
		}
		before, err := a.store.RevisionAt(ctx, r.Kind, r.ID, n-1)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, nil, err
		}
		diff = append(diff, compile.Diff(before.Message, r.Message)...)
	}
	sizes, err := a.store.ShardsOf(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	var shards []*adminv1.ShardChange
	for _, s := range sizes {
		if !actor.AllTenants() && !actor.CanTenant(tenantOfShard(s.Key)) {
			continue
		}
		shards = append(shards, &adminv1.ShardChange{Key: s.Key, OldBytes: s.Old, NewBytes: s.New, Removed: s.Removed})
	}
	return diff, shards, nil
}

func generation(g store.GenerationEntry) *adminv1.Generation {
	return &adminv1.Generation{
		Generation: g.Generation, CreateTime: stamp(g.Time), Actor: g.Actor, Message: g.Message, Rollout: g.Rollout, Shards: int32(g.Shards),
	}
}
