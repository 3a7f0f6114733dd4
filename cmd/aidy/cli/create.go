package cli

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/document"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
)

type createCommand struct {
	changeFlags

	Kind   string   `arg:"" help:"What to make: ${kinds}." predictor:"kind"`
	Fields []string `arg:"" optional:"" name:"field=value" help:"Fields: name=main, labels.team=search, models=a,b, limits='{rpm: 600}'. @FILE reads the value from a file, @- from standard input."`
	File   string   `short:"f" help:"File with the fields in YAML or JSON; - is standard input." placeholder:"FILE"`
	Tenant string   `short:"t" help:"Name or id of the tenant, instead of tenant_id=…." env:"AIDY_TENANT" placeholder:"TENANT"`
}

func (createCommand) Help() string {
	return `Fields have the names of the API; enums may be written short (openai_chat). Where a field takes an id, it takes a name too. The secret of a key is printed this once.

Examples:

    aidy create tenant name=search
    aidy create provider name=openai capabilities='[{protocol: openai_chat, base_url: "https://api.openai.com/v1"}]'
    aidy create upstream -t search name=openai provider_id=openai group_id=default
    aidy create credential -t search upstream_id=openai name=main secret=@openai.key
    aidy create model -t search upstream_id=openai model=gpt-5
    aidy create route -t search -f route.yaml --dry-run`
}

func (c *createCommand) Run(ctx context.Context, a *app) error {
	k, err := resource.Find(a.kinds, c.Kind)
	if err != nil {
		return &usageError{err}
	}
	m, err := c.resource(a, k)
	if err != nil {
		return err
	}
	change, err := c.context()
	if err != nil {
		return err
	}
	conn, err := a.connect()
	if err != nil {
		return err
	}
	if err := conn.resources.Resolve(ctx, a.kinds, m); err != nil {
		return err
	}
	made, err := conn.resources.Create(ctx, k, m, change)
	if err != nil {
		return err
	}
	return a.created(ctx, conn, k, made)
}

// resource reads what is to be made from file and arguments.
func (c *createCommand) resource(a *app, k *resource.Kind) (proto.Message, error) {
	m := k.New()
	if c.File == "" && len(c.Fields) == 0 {
		return nil, usage("give the fields of the %s: -f FILE, or field=value such as name=main", k.Name)
	}
	if c.File != "" {
		name, r, err := a.open(c.File)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		data, err := document.ReadAll(name, r)
		if err != nil {
			return nil, err
		}
		docs, err := document.Decode(name, data, k.New)
		if err != nil {
			return nil, err
		}
		if len(docs) != 1 {
			return nil, fmt.Errorf("%s: it holds %d documents, expected the fields of one %s; apply takes several", name, len(docs), k.Name)
		}
		m = docs[0]
	}
	args := make([]document.Argument, 0, len(c.Fields)+1)
	for _, f := range c.Fields {
		arg, err := document.ParseArgument(f)
		if err != nil {
			return nil, &usageError{err}
		}
		if arg.Value, err = a.fromFile(arg.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", arg.Path, err)
		}
		args = append(args, arg)
	}
	if err := document.Set(m, args); err != nil {
		return nil, &usageError{err}
	}
	if fd := m.ProtoReflect().Descriptor().Fields().ByName("tenant_id"); fd != nil && c.Tenant != "" && !m.ProtoReflect().Has(fd) {
		m.ProtoReflect().Set(fd, protoreflect.ValueOfString(c.Tenant))
	}
	return m, nil
}

// maxValue bounds a value that is read from a file: that of the longest secret.
const maxValue = 256 << 10

// fromFile returns the value of an argument, from a file if it begins with @. One
// line feed at the end is not part of a value.
func (a *app) fromFile(value string) (string, error) {
	path, ok := strings.CutPrefix(value, "@")
	if !ok {
		return value, nil
	}
	if rest, ok := strings.CutPrefix(path, "@"); ok {
		return "@" + rest, nil // @@ is a value that begins with @
	}
	_, r, err := a.open(path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := document.ReadAll(path, r)
	if err != nil {
		return "", err
	}
	if len(data) > maxValue {
		return "", fmt.Errorf("%s has more than %d bytes", path, maxValue)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

// created prints what was made. Of a key the secret goes to stdout, alone, so that a
// script can keep it.
func (a *app) created(ctx context.Context, c *admin, k *resource.Kind, made *resource.Created) error {
	if a.globals.Output != "table" {
		return a.one(made.Answer)
	}
	a.change(ctx, c, made.Result)
	said := a.Stdout
	if made.Secret != "" {
		said = a.Stderr
	}
	word := "created"
	if made.Result.GetValidatedOnly() {
		word = "would create"
	}
	fmt.Fprintf(said, "%s %s %s (%s)%s\n", word, k.Name, k.Label(made.Resource), resource.ID(made.Resource), settled(made.Result))
	if made.Secret != "" {
		a.progress("its secret is shown this once:")
		fmt.Fprintln(a.Stdout, made.Secret)
	}
	return nil
}

type deleteCommand struct {
	changeFlags
	scopeFlags

	Kind string `arg:"" help:"What to remove: ${kinds}." predictor:"kind"`
	Name string `arg:"" help:"Name or id."`
	ETag string `name:"etag" help:"Only this version, as get shows it." placeholder:"ETAG"`
}

func (deleteCommand) Help() string {
	return `What others refer to is not removed: the answer lists them.

Examples:

    aidy delete model gpt-4 -t search
    aidy delete credential old -t search --parent openai -m "rotated"
    aidy delete tenant ten_01j9zq4m6k7f5x8v2w3y4z5a6b --dry-run`
}

func (c *deleteCommand) Run(ctx context.Context, a *app) error {
	k, err := resource.Find(a.kinds, c.Kind)
	if err != nil {
		return &usageError{err}
	}
	change, err := c.context()
	if err != nil {
		return err
	}
	conn, err := a.connect()
	if err != nil {
		return err
	}
	scope, err := a.scope(ctx, conn, k, c.Tenant, c.Parent)
	if err != nil {
		return err
	}
	m, err := conn.resources.Find(ctx, k, scope, c.Name)
	if err != nil {
		return err
	}
	res, err := conn.resources.Delete(ctx, k, resource.ID(m), c.ETag, change)
	if err != nil {
		return err
	}
	if a.globals.Output != "table" {
		return a.one(res)
	}
	a.change(ctx, conn, res)
	word := "deleted"
	if res.GetValidatedOnly() {
		word = "would delete"
	}
	_, err = fmt.Fprintf(a.Stdout, "%s %s %s (%s)%s\n", word, k.Name, k.Label(m), resource.ID(m), settled(res))
	return err
}
