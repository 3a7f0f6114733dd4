package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/document"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

type applyCommand struct {
	changeFlags

	File  string `short:"f" required:"" help:"File with bundles in YAML or JSON; - is standard input." placeholder:"FILE"`
	Owner string `help:"Owner of the bundle, instead of the one the file names." placeholder:"NAME"`
	Prune bool   `help:"Delete what the same owner applied before and the file no longer names."`
}

func (applyCommand) Help() string {
	return `The file holds one or several bundles: an owner and a list of resources, each under the name of its kind. References may be names. All of it is one change: it is in force as a whole or not at all.

Examples:

    aidy apply -f gateway.yaml --dry-run
    aidy apply -f gateway.yaml --prune -m "second region" --wait
    aidy export | sed 's/weight: 1$/weight: 2/' | aidy apply -f -

A file:

    owner: platform
    resources:
      - tenant: {name: search}
      - provider:
          name: openai
          capabilities:
            - {protocol: openai_chat, base_url: "https://api.openai.com/v1"}
      - upstream: {tenant_id: search, name: openai, provider_id: openai, group_id: default}
      - upstream_credential:
          {tenant_id: search, upstream_id: openai, name: main, secret_ref: "env:AIDY_SECRET_OPENAI"}
      - upstream_model: {tenant_id: search, upstream_id: openai, model: gpt-5}`
}

func (c *applyCommand) Run(ctx context.Context, a *app) error {
	bundle, err := a.readBundle(c.File)
	if err != nil {
		return err
	}
	if c.Owner != "" {
		bundle.Owner = c.Owner
	}
	if c.Prune && bundle.GetOwner() == "" {
		return usage("--prune deletes what an owner applied before: name the owner in the file or with --owner")
	}
	if len(bundle.GetResources()) == 0 && !c.Prune {
		return fmt.Errorf("%s: it names no resource; nothing was done", c.File)
	}
	return a.apply(ctx, bundle, c.Prune, &c.changeFlags)
}

func (a *app) readBundle(file string) (*adminv1.Bundle, error) {
	name, r, err := a.open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return document.BundleFrom(name, r)
}

// open opens a file, or standard input for "-".
func (a *app) open(file string) (name string, r io.ReadCloser, err error) {
	if file == "-" {
		return "standard input", io.NopCloser(a.Stdin), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", nil, err // it names the operation, the file and why
	}
	return file, f, nil
}

// apply sends a bundle and prints what came of it.
func (a *app) apply(ctx context.Context, bundle *adminv1.Bundle, prune bool, flags *changeFlags) error {
	change, err := flags.context()
	if err != nil {
		return err
	}
	c, err := a.connect()
	if err != nil {
		return err
	}
	a.progress("applying %d resources to %s", len(bundle.GetResources()), c.url)
	if flags.Wait && !flags.DryRun {
		a.progress("waiting up to %s for the nodes", flags.WaitTimeout)
	}
	res, err := c.config.ApplyBundle(ctx, &adminv1.ApplyBundleRequest{Bundle: bundle, Prune: prune, Change: change})
	if err != nil {
		return err
	}
	if a.globals.Output != "table" {
		return a.one(res)
	}
	for _, line := range diffLines(res.GetResult().GetDiff()) {
		fmt.Fprintln(a.Stdout, line)
	}
	a.change(ctx, c, res.GetResult())
	fmt.Fprintf(a.Stdout, "%d created, %d updated, %d deleted, %d unchanged%s\n",
		res.GetCreated(), res.GetUpdated(), res.GetDeleted(), res.GetUnchanged(), settled(res.GetResult()))
	return nil
}

// diffLines lists what changed: a resource that was made (+) or removed (-) on one
// line, each field of one that was changed (~) on its own. -o json has every field.
func diffLines(diff []*adminv1.FieldChange) []string {
	var out []string
	seen := map[string]bool{}
	for _, d := range diff {
		what := d.GetKind() + " " + orElse(d.GetName(), d.GetId())
		whole := map[string]string{"create": "+ ", "delete": "- "}[d.GetAction()]
		if whole == "" {
			out = append(out, "~ "+what+" "+d.GetFieldPath()+": "+orElse(d.GetBefore(), "(unset)")+" -> "+orElse(d.GetAfter(), "(unset)"))
			continue
		}
		// Names are unique in a parent, ids everywhere.
		if key := whole + d.GetKind() + "/" + orElse(d.GetId(), d.GetName()); !seen[key] {
			seen[key] = true
			out = append(out, whole+what)
		}
	}
	return out
}
