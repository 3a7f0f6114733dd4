package admin

import (
	"context"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// groupService keeps groups.
type groupService struct{ api *API }

var _ adminv1connect.GroupServiceHandler = groupService{}

func (s groupService) CreateGroup(ctx context.Context, req *adminv1.CreateGroupRequest) (*adminv1.CreateGroupResponse, error) {
	return create[*configv1.Group](ctx, s.api, req, &adminv1.CreateGroupResponse{})
}

func (s groupService) GetGroup(ctx context.Context, req *adminv1.GetGroupRequest) (*adminv1.GetGroupResponse, error) {
	return get[*configv1.Group](ctx, s.api, req, &adminv1.GetGroupResponse{})
}

func (s groupService) ListGroups(ctx context.Context, req *adminv1.ListGroupsRequest) (*adminv1.ListGroupsResponse, error) {
	return list[*configv1.Group](ctx, s.api, req, &adminv1.ListGroupsResponse{})
}

func (s groupService) UpdateGroup(ctx context.Context, req *adminv1.UpdateGroupRequest) (*adminv1.UpdateGroupResponse, error) {
	return update[*configv1.Group](ctx, s.api, req, &adminv1.UpdateGroupResponse{})
}

func (s groupService) DeleteGroup(ctx context.Context, req *adminv1.DeleteGroupRequest) (*adminv1.DeleteGroupResponse, error) {
	return remove[*configv1.Group](ctx, s.api, req, &adminv1.DeleteGroupResponse{})
}
