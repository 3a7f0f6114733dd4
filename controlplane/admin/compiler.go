package admin

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"

	"github.com/aidy-gateway/aidy-gateway/controlplane/compile"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// Compiler compiles shards from the rows of a transaction. It is the
// store.Compiler of the product. Safe for concurrent use.
type Compiler struct{ kinds catalog }

var _ store.Compiler = (*Compiler)(nil)

// NewCompiler returns a compiler.
func NewCompiler() *Compiler { return &Compiler{kinds: newCatalog()} }

// Compile implements store.Compiler.
func (c *Compiler) Compile(ctx context.Context, tx *store.Tx, keys []string) (map[string][]byte, error) {
	return compile.Build(ctx, rows{tx, c.kinds}, keys)
}

// rows reads a transaction for the compiler.
type rows struct {
	tx    *store.Tx
	kinds catalog
}

func (r rows) All(ctx context.Context, kind proto.Message, tenantID string) ([]proto.Message, error) {
	k, err := r.kinds.of(kind)
	if err != nil {
		return nil, err
	}
	return k.all(ctx, r.tx, store.Filter{Tenants: []string{tenantID}})
}

func (r rows) Get(ctx context.Context, kind proto.Message, id string) (proto.Message, error) {
	k, err := r.kinds.of(kind)
	if err != nil {
		return nil, err
	}
	m, err := k.get(ctx, r.tx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return m, err
}

func (r rows) HolderOf(ctx context.Context, sha256 string) (proto.Message, error) {
	keys, err := store.All[*configv1.ConsumerAPIKey](ctx, r.tx, store.Filter{Equal: map[string]any{"sha256": sha256}})
	if err != nil {
		return nil, err
	}
	if len(keys) > 0 {
		return keys[0], nil
	}
	route, err := r.tx.RouteOfToken(ctx, sha256)
	if err != nil || route == nil {
		return nil, err
	}
	return route, nil
}

func (r rows) Secrets(ctx context.Context, tenantID string) ([]compile.Secret, error) {
	stored, err := r.tx.Secrets(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	out := make([]compile.Secret, 0, len(stored))
	for _, s := range stored {
		out = append(out, compile.Secret{
			OwnerID: s.OwnerID, Proxy: s.Slot == store.SlotProxy, State: s.Slot == store.SlotState, Version: s.Version, Sealed: s.Delivered,
		})
	}
	return out, nil
}

func (r rows) PurgeTime(ctx context.Context, kind shard.SubjectKind, id string) (time.Time, error) {
	return r.tx.PurgeTime(ctx, kind, id)
}

func (r rows) DefaultScheduling(ctx context.Context) (*configv1.SchedulingPolicy, error) {
	return r.tx.DefaultScheduling(ctx)
}
