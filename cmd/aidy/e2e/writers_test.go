package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// TestC05WritersOfTwoControlPlanesLoseNothing: 64 writers change what they share and
// make what is theirs, through two control planes on one database. No change is lost,
// and at rest every node runs exactly what the database holds.
func TestC05WritersOfTwoControlPlanesLoseNothing(t *testing.T) {
	t.Parallel()
	const writers, counters, rounds = 64, 8, 2
	f := newFleet(t, 2, 2)
	var shared []*adminv1.BundleResource
	for i := range counters {
		shared = append(shared, &adminv1.BundleResource{Resource: &adminv1.BundleResource_Tenant{Tenant: &configv1.Tenant{
			Name: fmt.Sprintf("shared-%d", i), Labels: map[string]string{"count": "0"},
		}}})
	}
	f.apply(t, shared...)

	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var wg sync.WaitGroup
	failures := make(chan error, writers)
	for i := range writers {
		api := f.planes[i%len(f.planes)].client(t)
		wg.Go(func() {
			for round := range rounds {
				tenant := fmt.Sprintf("shared-%d", i%counters)
				if err := increment(ctx, api, tenant); err != nil {
					failures <- fmt.Errorf("writer %d: count %s up: %w", i, tenant, err)
					return
				}
				if err := makeProject(ctx, api, tenant, fmt.Sprintf("writer-%d-%d", i, round)); err != nil {
					failures <- fmt.Errorf("writer %d: make a project: %w", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}

	for i := range counters {
		for _, p := range f.planes {
			api := p.client(t)
			got, err := api.tenants.GetTenant(ctx, &adminv1.GetTenantRequest{Id: fmt.Sprintf("shared-%d", i)})
			if err != nil {
				t.Fatal(err)
			}
			if want := strconv.Itoa(writers / counters * rounds); got.GetTenant().GetLabels()["count"] != want {
				t.Errorf("%s counted %s of shared-%d, want %s: an update was lost", p.name, got.GetTenant().GetLabels()["count"], i, want)
			}
			projects, err := api.projects.ListProjects(ctx, &adminv1.ListProjectsRequest{
				PageSize: 1000, Filter: &adminv1.ListFilter{TenantId: got.GetTenant().GetId()},
			})
			if err != nil {
				t.Fatal(err)
			}
			if n, want := len(projects.GetProjects()), writers/counters*rounds; n != want {
				t.Errorf("%s has %d projects in shared-%d, want %d", p.name, n, i, want)
			}
		}
	}
	f.atRest(t)
	// What they run is not only called the same: every writer's key would be known.
	w := f.newWorld(t, "after-writers", oneUpstream())
	for _, n := range f.nodes {
		for _, stream := range modes {
			if _, err := w.talk(t, n, anySDK()).ask(t.Context(), stream, anyQuestion()); err != nil {
				t.Errorf("through %s: %v", n.spec.Name, err)
			}
		}
	}
	f.atRest(t)
}

// increment counts a tenant's label up by one, as a careful client does: it reads, and
// writes only over what it read.
func increment(ctx context.Context, api *admin, tenant string) error {
	return persist(ctx, func() error {
		got, err := api.tenants.GetTenant(ctx, &adminv1.GetTenantRequest{Id: tenant})
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(got.GetTenant().GetLabels()["count"])
		if err != nil {
			return err
		}
		labels := maps.Clone(got.GetTenant().GetLabels())
		labels["count"] = strconv.Itoa(n + 1)
		_, err = api.tenants.UpdateTenant(ctx, &adminv1.UpdateTenantRequest{
			Tenant:     &configv1.Tenant{Id: got.GetTenant().GetId(), Etag: got.GetTenant().GetEtag(), Labels: labels},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}},
			Change:     &adminv1.ChangeContext{Message: "count up", Confirm: []string{"LARGE_CHANGE"}},
		})
		return err
	})
}

func makeProject(ctx context.Context, api *admin, tenant, name string) error {
	got, err := api.tenants.GetTenant(ctx, &adminv1.GetTenantRequest{Id: tenant})
	if err != nil {
		return err
	}
	return persist(ctx, func() error {
		_, err := api.projects.CreateProject(ctx, &adminv1.CreateProjectRequest{
			Project: &configv1.Project{TenantId: got.GetTenant().GetId(), Name: name},
			Change:  &adminv1.ChangeContext{IdempotencyKey: name, Confirm: []string{"LARGE_CHANGE"}},
		})
		return err
	})
}

// persist repeats what another writer was faster at, and what waited too long for the
// gate: neither changed anything.
func persist(ctx context.Context, write func() error) error {
	for {
		err := write()
		if code := connect.CodeOf(err); err == nil || code != connect.CodeAborted && code != connect.CodeUnavailable {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}
