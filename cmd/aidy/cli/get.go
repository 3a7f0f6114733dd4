package cli

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

type getCommand struct {
	Kind string `arg:"" help:"What to show: ${kinds}." predictor:"kind"`
	Name string `arg:"" optional:"" help:"Name or id of one; without it all are listed."`

	scopeFlags
	Label    map[string]string `short:"l" help:"Only those with this label." placeholder:"KEY=VALUE"`
	Disabled bool              `help:"Only those that are disabled." xor:"state"`
	Enabled  bool              `help:"Only those that are not disabled." xor:"state"`
	Limit    int               `help:"At most so many; 0 is all." default:"0" placeholder:"N"`
}

// scopeFlags say where a name is looked for.
type scopeFlags struct {
	Tenant string `short:"t" help:"Name or id of the tenant." env:"AIDY_TENANT" placeholder:"TENANT"`
	Parent string `short:"p" help:"Name or id of the parent: upstream of a credential or model, consumer of a key, provider of a pricing, route of a plugin." placeholder:"PARENT"`
}

func (getCommand) Help() string {
	return `Kinds: tenant, project, provider, provider-pricing (pricing), provider-plugin-config, upstream, upstream-credential (credential), upstream-model (model), group, route, route-plugin-config, logical-route, policy, consumer, consumer-api-key (key), jwt-issuer (issuer), budget, credit-account (credit), price-book-entry (price). Plurals mean the same.

Secrets are never shown.

Examples:

    aidy get tenants
    aidy get upstreams --tenant search
    aidy get credential main --tenant search --parent openai
    aidy get models -o json | jq -r '.[].model'
    aidy get route main -o yaml`
}

func (c *getCommand) Run(ctx context.Context, a *app) error {
	k, err := resource.Find(a.kinds, c.Kind)
	if err != nil {
		return &usageError{err}
	}
	if c.Limit < 0 {
		return usage("--limit: %d is negative", c.Limit)
	}
	conn, err := a.connect()
	if err != nil {
		return err
	}
	scope, err := a.scope(ctx, conn, k, c.Tenant, c.Parent)
	if err != nil {
		return err
	}
	if c.Name != "" {
		m, err := conn.resources.Find(ctx, k, scope, c.Name)
		if err != nil {
			return err
		}
		return a.one(m)
	}
	filter := &adminv1.ListFilter{
		TenantId: scope.TenantID, ParentId: scope.ParentID, Labels: c.Label, OnlyDisabled: c.Disabled, OnlyEnabled: c.Enabled,
	}
	if !k.InTenant() {
		filter.TenantId = "" // tenants themselves stand in none
	}
	return a.listAll(ctx, conn, k, filter, c.Limit)
}

// listAll prints what passes a filter. Tables are printed a page at a time.
func (a *app) listAll(ctx context.Context, c *admin, k *resource.Kind, filter *adminv1.ListFilter, limit int) error {
	var (
		out  = list{a: a}
		rows [][]string
		page []proto.Message
		n    int

		names   = resource.NewNames(c.resources, a.kinds)
		headers = make([]string, len(k.Columns))
	)
	for i, col := range k.Columns {
		headers[i] = col.Header
	}
	flush := func() error {
		rows = rows[:0]
		for _, m := range page {
			row := make([]string, len(k.Columns))
			for i, col := range k.Columns {
				row[i] = names.Cell(ctx, m, col, a.Now())
			}
			rows = append(rows, row)
		}
		page = page[:0]
		return a.table(headers, rows)
	}
	for m, err := range c.resources.All(ctx, k, filter) {
		if err != nil {
			return err
		}
		if limit > 0 && n == limit {
			a.progress("there are more than %d; raise --limit", limit)
			break
		}
		n++
		if a.globals.Output != "table" {
			if err := out.add(m); err != nil {
				return err
			}
			continue
		}
		if page = append(page, m); len(page) == resource.PageSize {
			if err := flush(); err != nil {
				return err
			}
			a.progress("%d %s so far", n, k.Plural)
		}
	}
	if a.globals.Output != "table" {
		return out.end()
	}
	if n == 0 {
		a.progress("no %s", k.Plural)
		return nil
	}
	if len(page) > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	if n > resource.PageSize {
		fmt.Fprintf(a.Stderr, "%d %s\n", n, k.Plural)
	}
	return nil
}
