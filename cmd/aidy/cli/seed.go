package cli

import (
	"context"
	"fmt"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/document"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/seeds"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

type seedCommand struct {
	changeFlags

	Profile  string `help:"Ready configuration: dev, demo or mock." enum:"dev,demo,mock," default:"" placeholder:"PROFILE"`
	SeedFile string `help:"File in the form of apply; - is standard input." placeholder:"FILE"`
	BaseURL  string `help:"Address of the scripted provider or mock behind the profile. Default: the one of the running aidy dev." placeholder:"URL"`
	Print    bool   `help:"Write the configuration of the profile, in the form of apply, and change nothing."`
}

func (seedCommand) Help() string {
	return `Profiles:

    dev   one tenant with the built-in provider behind the usual model names, a route, prices and a key
    demo  several tenants, groups with fallback, consumers and two providers
    mock  one tenant for load tests against a mock that speaks the protocols at --base-url

Seeding twice changes nothing. A key is made for each consumer of a profile that has none yet, and printed this once.

Examples:

    aidy seed --profile demo
    aidy seed --profile mock --base-url http://127.0.0.1:9000
    aidy seed --profile dev --print > gateway.yaml
    aidy seed --seed-file gateway.yaml`
}

func (c *seedCommand) Run(ctx context.Context, a *app) error {
	switch {
	case c.SeedFile != "" && c.Profile != "":
		return usage("--profile and --seed-file can't be used together")
	case c.SeedFile != "" && (c.BaseURL != "" || c.Print):
		return usage("--base-url and --print belong to --profile: a file says its own addresses")
	case c.SeedFile != "":
		bundle, err := a.readBundle(c.SeedFile)
		if err != nil {
			return err
		}
		return a.apply(ctx, bundle, false, &c.changeFlags)
	case c.Profile == "":
		return usage("say what to seed: --profile dev, demo or mock, or --seed-file FILE")
	}
	base := c.BaseURL
	if base == "" {
		base = a.builtinURL()
	}
	if base == "" && !c.Print {
		return usage("--base-url: the profile %s needs the address of a provider, such as http://127.0.0.1:9000", c.Profile)
	}
	seed, err := seeds.Load(c.Profile, base)
	if err != nil {
		return err
	}
	if c.Print {
		if a.globals.Output == "json" {
			return document.JSON(a.Stdout, seed.Bundle)
		}
		return document.YAML(a.Stdout, seed.Bundle)
	}
	if err := a.apply(ctx, seed.Bundle, false, &c.changeFlags); err != nil || c.DryRun {
		return err
	}
	conn, err := a.connect()
	if err != nil {
		return err
	}
	return a.seedKeys(ctx, conn, seed)
}

// seedKeys makes the keys of a seed that are not there yet and prints them.
func (a *app) seedKeys(ctx context.Context, c *admin, seed *seeds.Seed) error {
	for _, want := range seed.Keys {
		made, err := EnsureKey(ctx, c.resources, a.kinds, want)
		switch {
		case err != nil:
			return fmt.Errorf("make the key %s of %s/%s: %w", want.Name, want.Tenant, want.Consumer, err)
		case made == nil:
			a.progress("%s/%s has a key %s already; `aidy keys rotate %s -t %s -c %s` makes a new one", want.Tenant, want.Consumer, want.Name, want.Name, want.Tenant, want.Consumer)
			continue
		case a.globals.Output != "table":
			if err := a.one(made.Answer); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.Stdout, "%s/%s %s\n", want.Tenant, want.Consumer, made.Secret)
	}
	return nil
}

// EnsureKey makes a key of a seed. It returns nil if a key of that name is there.
func EnsureKey(ctx context.Context, c *resource.Client, kinds []*resource.Kind, want seeds.Key) (*resource.Created, error) {
	consumers, err := resource.Find(kinds, "consumer")
	if err != nil {
		return nil, err
	}
	tenants, err := resource.Find(kinds, "tenant")
	if err != nil {
		return nil, err
	}
	keys, err := resource.Find(kinds, "key")
	if err != nil {
		return nil, err
	}
	tenant, err := c.Find(ctx, tenants, resource.Scope{}, want.Tenant)
	if err != nil {
		return nil, err
	}
	consumer, err := c.Find(ctx, consumers, resource.Scope{TenantID: resource.ID(tenant)}, want.Consumer)
	if err != nil {
		return nil, err
	}
	filter := &adminv1.ListFilter{TenantId: resource.ID(tenant), ParentId: resource.ID(consumer), Name: want.Name}
	for m, err := range c.All(ctx, keys, filter) {
		if err != nil {
			return nil, err
		}
		if keys.Label(m) == want.Name {
			return nil, nil
		}
	}
	key := &configv1.ConsumerAPIKey{TenantId: resource.ID(tenant), ConsumerId: resource.ID(consumer), Name: want.Name}
	return c.Create(ctx, keys, key, &adminv1.ChangeContext{Message: "key of the seed"})
}
