package cli

import (
	"context"
	"fmt"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

type runtimeCommand struct {
	Clear runtimeClear `cmd:"" help:"Let every node use a credential again that rests, or that was refused."`
}

func (runtimeCommand) Help() string {
	return `Examples:

    aidy runtime clear --credential openai-main`
}

type runtimeClear struct {
	Credential string `required:"" help:"Name or id of the credential." placeholder:"CREDENTIAL"`
	Tenant     string `short:"t" help:"Name or id of the tenant." env:"AIDY_TENANT" placeholder:"TENANT"`
	Upstream   string `help:"Name or id of the upstream, where several have a credential of that name." placeholder:"UPSTREAM"`
}

func (runtimeClear) Help() string {
	return `Ends what nodes learned and what keeps the credential from being used: its cooldowns and those of its quota group, upstream, provider and proxy, its breakers, and a failed authentication. What is wrong with it still is found out again by the next request.

Examples:

    aidy runtime clear --credential openai-main
    aidy runtime clear --credential crd_01j9zq4m6k7f5x8v2w3y4z5a6b -o json`
}

func (c *runtimeClear) Run(ctx context.Context, a *app) error {
	conn, err := a.connect()
	if err != nil {
		return err
	}
	id, name, err := a.named(ctx, conn, "credential", c.Credential, c.Tenant, c.Upstream)
	if err != nil {
		return err
	}
	if _, err := conn.observe.ClearRuntime(ctx, &adminv1.ClearRuntimeRequest{CredentialId: id}); err != nil {
		return err
	}
	return a.told("cleared", "credential", name, id)
}

type affinityCommand struct {
	Flush affinityFlush `cmd:"" help:"Let every node forget where prompts are cached."`
}

func (affinityCommand) Help() string {
	return `Examples:

    aidy affinity flush --credential openai-main`
}

type affinityFlush struct {
	Credential string `help:"Name or id of a credential: what it served." placeholder:"CREDENTIAL" xor:"of"`
	Route      string `help:"Name or id of a route: what came over it." placeholder:"ROUTE" xor:"of"`
	Tenant     string `short:"t" help:"Name or id of a tenant: everything of it. Beside --credential or --route: the tenant of that." placeholder:"TENANT"`
	Upstream   string `help:"Name or id of the upstream, where several have a credential of that name." placeholder:"UPSTREAM"`
}

func (affinityFlush) Help() string {
	return `Conversations are then placed anew, by load and price, and their prompts are read again in full. It takes effect on every node within 2 s.

Examples:

    aidy affinity flush --credential openai-main
    aidy affinity flush --route chat --tenant acme
    aidy affinity flush --tenant acme -o json`
}

func (c *affinityFlush) Run(ctx context.Context, a *app) error {
	if c.Credential == "" && c.Route == "" && c.Tenant == "" {
		return usage("name what is to be forgotten: --credential, --route or --tenant")
	}
	conn, err := a.connect()
	if err != nil {
		return err
	}
	var kind, id, name string
	req := &adminv1.FlushAffinityRequest{}
	switch {
	case c.Credential != "":
		kind = "credential"
		id, name, err = a.named(ctx, conn, kind, c.Credential, c.Tenant, c.Upstream)
		req.CredentialId = id
	case c.Route != "":
		kind = "route"
		id, name, err = a.named(ctx, conn, kind, c.Route, c.Tenant, "")
		req.RouteId = id
	default:
		kind = "tenant"
		id, name, err = a.named(ctx, conn, kind, c.Tenant, "", "")
		req.TenantId = id
	}
	if err != nil {
		return err
	}
	if _, err := conn.observe.FlushAffinity(ctx, req); err != nil {
		return err
	}
	return a.told("flushed the affinity of", kind, name, id)
}

// named finds what a word names, an id or a name.
func (a *app) named(ctx context.Context, c *admin, kind, word, tenant, parent string) (id, name string, err error) {
	k, err := resource.Find(a.kinds, kind)
	if err != nil {
		return "", "", err
	}
	scope, err := a.scope(ctx, c, k, tenant, parent)
	if err != nil {
		return "", "", err
	}
	m, err := c.resources.Find(ctx, k, scope, word)
	if err != nil {
		return "", "", err
	}
	return resource.ID(m), resource.Name(m), nil
}

// idOf returns the id of what a word names; nothing for no word. An id is taken as it
// is: logs know of what is deleted.
func (a *app) idOf(ctx context.Context, c *admin, kind, word, tenant, parent string) (string, error) {
	k, err := resource.Find(a.kinds, kind)
	if err != nil || word == "" || k.IsID(word) {
		return word, err
	}
	id, _, err := a.named(ctx, c, kind, word, tenant, parent)
	return id, err
}

// told prints that nodes were told to do something.
func (a *app) told(done, kind, name, id string) error {
	if a.globals.Output != "table" {
		return a.plain(map[string]any{"kind": kind, "id": id, "name": name})
	}
	_, err := fmt.Fprintf(a.Stdout, "%s %s %s (%s) on every node\n", done, kind, name, id)
	return err
}
