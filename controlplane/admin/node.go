package admin

import (
	"context"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// nodeService shows nodes and lets them join.
type nodeService struct{ api *API }

var _ adminv1connect.NodeServiceHandler = nodeService{}

// watchPause is the least time between two looks of WatchNodes: reports of many
// nodes come in bursts.
const watchPause = 100 * time.Millisecond

// ListNodes pages through nodes in the order of their ids.
func (s nodeService) ListNodes(ctx context.Context, req *adminv1.ListNodesRequest) (*adminv1.ListNodesResponse, error) {
	nodes, err := s.api.fleet.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	after, err := idCursor(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	nodes = slices.DeleteFunc(nodes, func(n *adminv1.Node) bool { return n.GetId() <= after })
	page, next := cutPage(nodes, int(req.GetPageSize()), (*adminv1.Node).GetId)
	return &adminv1.ListNodesResponse{Nodes: page, NextPageToken: next}, nil
}

// GetNode reads one.
func (s nodeService) GetNode(ctx context.Context, req *adminv1.GetNodeRequest) (*adminv1.GetNodeResponse, error) {
	nodes, err := s.api.fleet.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.GetId() == req.GetId() {
			return &adminv1.GetNodeResponse{Node: n}, nil
		}
	}
	return nil, &store.NotFoundError{Kind: "Node", ID: req.GetId()}
}

// WatchNodes streams every node, and then each that changes.
func (s nodeService) WatchNodes(ctx context.Context, _ *adminv1.WatchNodesRequest, stream adminv1connect.NodeServiceWatchNodesServerStream) error {
	// A fleet without nodes sends nothing, and a client waits for headers.
	if err := stream.SendHeaders(); err != nil {
		return err
	}
	sent := map[string]*adminv1.Node{}
	for {
		changed := s.api.fleet.Changed()
		nodes, err := s.api.fleet.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if proto.Equal(sent[n.GetId()], n) {
				continue
			}
			if err := stream.Send(&adminv1.WatchNodesResponse{Node: n}); err != nil {
				return err
			}
			sent[n.GetId()] = n
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-time.After(10 * time.Second): // a node that falls silent changes nothing
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchPause):
		}
	}
}

// RetryNode offers a refused generation again.
func (s nodeService) RetryNode(ctx context.Context, req *adminv1.RetryNodeRequest) (*adminv1.RetryNodeResponse, error) {
	if _, err := s.api.store.GetNode(ctx, req.GetId()); err != nil {
		return nil, err
	}
	s.api.fleet.Retry(req.GetId())
	return &adminv1.RetryNodeResponse{}, nil
}

// RevokeNode ends a node: its streams close, it may not come back with its
// certificate, and what it could open is sealed anew under a key it does not have.
func (s nodeService) RevokeNode(ctx context.Context, req *adminv1.RevokeNodeRequest) (*adminv1.RevokeNodeResponse, error) {
	actor := access.ActorOf(ctx)
	if err := s.api.store.RevokeNode(ctx, actor.Store(), req.GetId(), req.GetReason()); err != nil {
		return nil, err
	}
	s.api.fleet.Revoke(req.GetId())
	if err := s.api.rotateContentKey(ctx, actor.Store(), "node "+req.GetId()+" revoked"); err != nil {
		return nil, err
	}
	return &adminv1.RevokeNodeResponse{}, nil
}

const (
	joinLife    = time.Hour
	maxJoinLife = 24 * time.Hour
)

// CreateJoinToken makes a token with which one node can join; it is shown once.
func (s nodeService) CreateJoinToken(ctx context.Context, req *adminv1.CreateJoinTokenRequest) (*adminv1.CreateJoinTokenResponse, error) {
	if s.api.cfg.CA == (peer.Hash{}) {
		return nil, connect.NewError(connect.CodeFailedPrecondition, "nodes join without tokens here: the sync listener runs without TLS")
	}
	life := time.Duration(req.GetTtlS()) * time.Second
	if life == 0 {
		life = joinLife
	}
	life = min(life, maxJoinLife)
	token := peer.NewJoinToken(s.api.cfg.CA)
	kept := store.JoinToken{ID: token.ID, Name: req.GetName(), SHA256: token.SecretHash(), Labels: req.GetLabels(), ExpiresAt: time.Now().Add(life)}
	if err := s.api.store.CreateJoinToken(ctx, access.ActorOf(ctx).Store(), kept); err != nil {
		return nil, err
	}
	kept.CreatedAt = time.Now()
	return &adminv1.CreateJoinTokenResponse{JoinToken: joinToken(kept), Token: token.Text().Reveal()}, nil
}

// ListJoinTokens pages through join tokens, without their secrets.
func (s nodeService) ListJoinTokens(ctx context.Context, req *adminv1.ListJoinTokensRequest) (*adminv1.ListJoinTokensResponse, error) {
	after, err := idCursor(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	found, err := s.api.store.JoinTokens(ctx, min(size+1, store.MaxPage), after)
	if err != nil {
		return nil, err
	}
	page, next := cutPage(found, size, func(t store.JoinToken) string { return t.ID })
	res := &adminv1.ListJoinTokensResponse{NextPageToken: next}
	for _, t := range page {
		res.JoinTokens = append(res.JoinTokens, joinToken(t))
	}
	return res, nil
}

func joinToken(t store.JoinToken) *adminv1.JoinToken {
	return &adminv1.JoinToken{
		Id: t.ID, Name: t.Name, Labels: t.Labels, CreateTime: stamp(t.CreatedAt), ExpireTime: stamp(t.ExpiresAt),
		UseTime: stamp(t.UsedAt), NodeId: t.NodeID,
	}
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func pageSize(asked int32) int {
	if asked <= 0 {
		return defaultPage
	}
	return min(int(asked), store.MaxPage-1)
}

// idCursor reads the token of a list in the order of ids: the last id there was.
func idCursor(token string) (string, error) {
	if strings.IndexFunc(token, func(r rune) bool { return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') }) >= 0 {
		return "", wrong(nil, "page_token", "page_token", "not a token of an earlier page; begin again without one")
	}
	return token, nil
}

// cutPage returns the first size items and the token of the page after them.
func cutPage[T any](items []T, size int, id func(T) string) ([]T, string) {
	if size <= 0 {
		size = defaultPage
	}
	if len(items) <= size {
		return items, ""
	}
	return items[:size], id(items[size-1])
}
