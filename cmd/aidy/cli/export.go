package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/document"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

type exportCommand struct {
	Tenant string `help:"Only this tenant." placeholder:"TENANT"`
	Owner  string `help:"Only what this owner applied." placeholder:"NAME"`
}

func (exportCommand) Help() string {
	return `The output is YAML, or JSON with -o json, and apply takes it: applying an export changes nothing. Secrets appear as fingerprints and stay as they are when it is applied.

Examples:

    aidy export > gateway.yaml
    aidy export --tenant search --owner platform -o json`
}

func (c *exportCommand) Run(ctx context.Context, a *app) error {
	conn, err := a.connect()
	if err != nil {
		return err
	}
	scope, err := a.scope(ctx, conn, nil, c.Tenant, "")
	if err != nil {
		return err
	}
	stream, err := conn.config.Export(ctx, &adminv1.ExportRequest{TenantId: scope.TenantID, Owner: c.Owner})
	if err != nil {
		return err
	}
	defer stream.Close()
	var (
		whole      = new(adminv1.Bundle) // JSON has one value a file
		bundles    int
		resources  int
		generation uint64
	)
	for {
		res, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("export after %d resources: %w", resources, err)
		}
		bundles++
		resources += len(res.GetBundle().GetResources())
		generation = res.GetGeneration()
		if resources >= resource.PageSize {
			a.progress("%d resources so far", resources)
		}
		if a.globals.Output == "json" {
			whole.Owner = res.GetBundle().GetOwner()
			whole.Resources = append(whole.Resources, res.GetBundle().GetResources()...)
			continue
		}
		if bundles > 1 {
			fmt.Fprintln(a.Stdout, "---")
		}
		if err := document.YAML(a.Stdout, res.GetBundle()); err != nil {
			return err
		}
	}
	if a.globals.Output == "json" {
		if err := document.JSON(a.Stdout, whole); err != nil {
			return err
		}
	}
	a.progress("%d resources of generation %d", resources, generation)
	return nil
}
