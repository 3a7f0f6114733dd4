package admin

import (
	"context"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// projectService keeps projects.
type projectService struct{ api *API }

var _ adminv1connect.ProjectServiceHandler = projectService{}

func (s projectService) CreateProject(ctx context.Context, req *adminv1.CreateProjectRequest) (*adminv1.CreateProjectResponse, error) {
	return create[*configv1.Project](ctx, s.api, req, &adminv1.CreateProjectResponse{})
}

func (s projectService) GetProject(ctx context.Context, req *adminv1.GetProjectRequest) (*adminv1.GetProjectResponse, error) {
	return get[*configv1.Project](ctx, s.api, req, &adminv1.GetProjectResponse{})
}

func (s projectService) ListProjects(ctx context.Context, req *adminv1.ListProjectsRequest) (*adminv1.ListProjectsResponse, error) {
	return list[*configv1.Project](ctx, s.api, req, &adminv1.ListProjectsResponse{})
}

func (s projectService) UpdateProject(ctx context.Context, req *adminv1.UpdateProjectRequest) (*adminv1.UpdateProjectResponse, error) {
	return update[*configv1.Project](ctx, s.api, req, &adminv1.UpdateProjectResponse{})
}

func (s projectService) DeleteProject(ctx context.Context, req *adminv1.DeleteProjectRequest) (*adminv1.DeleteProjectResponse, error) {
	return remove[*configv1.Project](ctx, s.api, req, &adminv1.DeleteProjectResponse{})
}
