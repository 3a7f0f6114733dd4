package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/document"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

type keysCommand struct {
	Create  keysCreate  `cmd:"" help:"Make a key; its secret is shown this once."`
	List    keysList    `cmd:"" help:"List keys, without their secrets."`
	Rotate  keysRotate  `cmd:"" help:"Make a successor; the old key ends after an overlap."`
	Revoke  keysRevoke  `cmd:"" help:"End a key for ever."`
	Disable keysDisable `cmd:"" help:"Keep a key from calling."`
	Enable  keysEnable  `cmd:"" help:"Let a disabled key call again."`
}

func (keysCommand) Help() string {
	return `Examples:

    aidy keys create laptop --consumer search-team
    aidy keys list
    aidy keys rotate laptop --consumer search-team --overlap 24h
    aidy keys revoke laptop --consumer search-team`
}

// keyFlags name a key.
type keyFlags struct {
	changeFlags

	Key      string `arg:"" help:"Name or id of the key."`
	Tenant   string `short:"t" help:"Name or id of the tenant." env:"AIDY_TENANT" placeholder:"TENANT"`
	Consumer string `short:"c" help:"Name or id of the consumer." placeholder:"CONSUMER"`
}

// find looks for the key.
func (f *keyFlags) find(ctx context.Context, a *app) (*admin, *configv1.ConsumerAPIKey, *adminv1.ChangeContext, error) {
	change, err := f.context()
	if err != nil {
		return nil, nil, nil, err
	}
	conn, err := a.connect()
	if err != nil {
		return nil, nil, nil, err
	}
	k, err := resource.Find(a.kinds, "key")
	if err != nil {
		return nil, nil, nil, err
	}
	scope, err := a.scope(ctx, conn, k, f.Tenant, f.Consumer)
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := conn.resources.Find(ctx, k, scope, f.Key)
	if err != nil {
		return nil, nil, nil, err
	}
	return conn, m.(*configv1.ConsumerAPIKey), change, nil
}

// keyDone prints what became of a key.
func (a *app) keyDone(ctx context.Context, c *admin, word string, answer proto.Message, key *configv1.ConsumerAPIKey, result *adminv1.ChangeResult) error {
	if a.globals.Output != "table" {
		return a.one(answer)
	}
	a.change(ctx, c, result)
	_, err := fmt.Fprintf(a.Stdout, "%s key %s (%s)%s\n", word, key.GetName(), key.GetId(), settled(result))
	return err
}

type keysCreate struct {
	changeFlags

	Name      string        `arg:"" help:"Name of the key, unique in its consumer."`
	Consumer  string        `short:"c" required:"" help:"Name or id of the consumer." placeholder:"CONSUMER"`
	Tenant    string        `short:"t" help:"Name or id of the tenant." env:"AIDY_TENANT" placeholder:"TENANT"`
	Scope     []string      `help:"What it may do: inference, chat, embeddings, models …. Default: inference and models." placeholder:"SCOPE"`
	Group     []string      `help:"Groups it may use, within those of its consumer." placeholder:"GROUP"`
	Model     []string      `help:"Models it may ask for; a name may end in *. Default: every model." placeholder:"MODEL"`
	ExpiresIn time.Duration `help:"It is refused after this time, such as 720h. Default: no end." placeholder:"TIME"`
}

func (keysCreate) Help() string {
	return `The secret goes to standard output and everything else to standard error.

Examples:

    aidy keys create laptop --consumer search-team
    KEY=$(aidy keys create ci -c search-team -t search --expires-in 720h --scope chat,models)`
}

func (c *keysCreate) Run(ctx context.Context, a *app) error {
	change, err := c.context()
	if err != nil {
		return err
	}
	if c.ExpiresIn < 0 {
		return usage("--expires-in: %s is in the past", c.ExpiresIn)
	}
	key := &configv1.ConsumerAPIKey{Name: c.Name, GroupIds: c.Group}
	if len(c.Scope) > 0 {
		args := []document.Argument{{Path: "scopes", Value: strings.Join(c.Scope, ",")}}
		if err := document.Set(key, args); err != nil {
			return usage("--scope: %w", err)
		}
	}
	if len(c.Model) > 0 {
		key.AllowedModels = &configv1.NameList{Names: c.Model}
	}
	if c.ExpiresIn > 0 {
		key.ExpireTime = timestamppb.New(a.Now().Add(c.ExpiresIn))
	}
	conn, err := a.connect()
	if err != nil {
		return err
	}
	consumers, err := resource.Find(a.kinds, "consumer")
	if err != nil {
		return err
	}
	scope, err := a.scope(ctx, conn, consumers, c.Tenant, "")
	if err != nil {
		return err
	}
	consumer, err := conn.resources.Find(ctx, consumers, scope, c.Consumer)
	if err != nil {
		return err
	}
	key.TenantId, key.ConsumerId = resource.TenantID(consumer), resource.ID(consumer)
	if err := conn.resources.Resolve(ctx, a.kinds, key); err != nil {
		return err
	}
	k, err := resource.Find(a.kinds, "key")
	if err != nil {
		return err
	}
	made, err := conn.resources.Create(ctx, k, key, change)
	if err != nil {
		return err
	}
	return a.created(ctx, conn, k, made)
}

type keysList struct {
	Tenant   string `short:"t" help:"Name or id of the tenant." env:"AIDY_TENANT" placeholder:"TENANT"`
	Consumer string `short:"c" help:"Name or id of the consumer." placeholder:"CONSUMER"`
	Limit    int    `help:"At most so many; 0 is all." default:"0" placeholder:"N"`
}

func (keysList) Help() string {
	return `Examples:

    aidy keys list
    aidy keys list --consumer search-team -o json`
}

func (c *keysList) Run(ctx context.Context, a *app) error {
	if c.Limit < 0 {
		return usage("--limit: %d is negative", c.Limit)
	}
	k, err := resource.Find(a.kinds, "key")
	if err != nil {
		return err
	}
	conn, err := a.connect()
	if err != nil {
		return err
	}
	scope, err := a.scope(ctx, conn, k, c.Tenant, c.Consumer)
	if err != nil {
		return err
	}
	return a.listAll(ctx, conn, k, &adminv1.ListFilter{TenantId: scope.TenantID, ParentId: scope.ParentID}, c.Limit)
}

type keysRotate struct {
	keyFlags

	Overlap time.Duration `help:"How long the old key still works, at most 168h." default:"24h" placeholder:"TIME"`
}

func (keysRotate) Help() string {
	return `The secret of the successor goes to standard output and everything else to standard error.

Examples:

    aidy keys rotate laptop --consumer search-team
    aidy keys rotate key_01j9zq4m6k7f5x8v2w3y4z5a6b --overlap 0s`
}

func (c *keysRotate) Run(ctx context.Context, a *app) error {
	const most = 7 * 24 * time.Hour
	if c.Overlap < 0 || c.Overlap > most {
		return usage("--overlap: %s is not between 0s and %s", c.Overlap, most)
	}
	conn, key, change, err := c.find(ctx, a)
	if err != nil {
		return err
	}
	res, err := conn.consumers.RotateAPIKey(ctx, &adminv1.RotateAPIKeyRequest{
		Id: key.GetId(), OverlapS: int64(c.Overlap / time.Second), Change: change,
	})
	if err != nil {
		return err
	}
	k, err := resource.Find(a.kinds, "key")
	if err != nil {
		return err
	}
	if a.globals.Output == "table" && !res.GetResult().GetValidatedOnly() {
		a.progress("key %s (%s) ends in %s", key.GetName(), key.GetId(), c.Overlap)
	}
	return a.created(ctx, conn, k, &resource.Created{Resource: res.GetConsumerApiKey(), Result: res.GetResult(), Secret: res.GetSecret(), Answer: res})
}

type keysRevoke struct{ keyFlags }

func (keysRevoke) Help() string {
	return `Every node refuses the key at once, and no change brings it back.

Examples:

    aidy keys revoke laptop --consumer search-team --wait
    aidy keys revoke key_01j9zq4m6k7f5x8v2w3y4z5a6b -m "leaked"`
}

func (c *keysRevoke) Run(ctx context.Context, a *app) error {
	conn, key, change, err := c.find(ctx, a)
	if err != nil {
		return err
	}
	res, err := conn.consumers.RevokeAPIKey(ctx, &adminv1.RevokeAPIKeyRequest{Id: key.GetId(), Change: change})
	if err != nil {
		return err
	}
	return a.keyDone(ctx, conn, "revoked", res, key, res.GetResult())
}

type keysDisable struct{ keyFlags }

func (keysDisable) Help() string {
	return `Examples:

    aidy keys disable laptop --consumer search-team`
}

func (c *keysDisable) Run(ctx context.Context, a *app) error {
	conn, key, change, err := c.find(ctx, a)
	if err != nil {
		return err
	}
	res, err := conn.consumers.DisableConsumerAPIKey(ctx, &adminv1.DisableConsumerAPIKeyRequest{Id: key.GetId(), Change: change})
	if err != nil {
		return err
	}
	return a.keyDone(ctx, conn, "disabled", res, key, res.GetResult())
}

type keysEnable struct{ keyFlags }

func (keysEnable) Help() string {
	return `A revoked key stays revoked.

Examples:

    aidy keys enable laptop --consumer search-team`
}

func (c *keysEnable) Run(ctx context.Context, a *app) error {
	conn, key, change, err := c.find(ctx, a)
	if err != nil {
		return err
	}
	res, err := conn.consumers.EnableConsumerAPIKey(ctx, &adminv1.EnableConsumerAPIKeyRequest{Id: key.GetId(), Change: change})
	if err != nil {
		return err
	}
	return a.keyDone(ctx, conn, "enabled", res, key, res.GetResult())
}
