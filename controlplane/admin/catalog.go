package admin

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// resource is one kind of resource with its type erased: what create, update,
// bundles and the compiler have in common.
type resource struct {
	store.Kind
	name   string
	hasOwn bool // has a tenant_id, or is a tenant
	rules  rules

	get    func(ctx context.Context, tx *store.Tx, id string) (proto.Message, error)
	list   func(ctx context.Context, tx *store.Tx, f store.Filter, limit int, cursor string) ([]proto.Message, string, error)
	all    func(ctx context.Context, tx *store.Tx, f store.Filter) ([]proto.Message, error)
	insert func(ctx context.Context, tx *store.Tx, m proto.Message) (proto.Message, error)
	update func(ctx context.Context, tx *store.Tx, m proto.Message) (proto.Message, error)
	remove func(ctx context.Context, tx *store.Tx, id, etag string) error
}

// rules are what one kind asks besides being stored. Every function may be nil.
type rules struct {
	// immutable are fields, besides id, tenant and parent, that an update must not
	// name.
	immutable []string
	// derived are fields that the control plane sets: not accepted from authors.
	derived []string
	// key are the fields that make a resource without a name unique.
	key []string
	// before looks at a resource that is about to be written and fills in what
	// the control plane sets. old is nil for a new one.
	before func(w *write, old, m proto.Message) error
	// after writes what belongs to a resource that was stored.
	after func(w *write, old, stored proto.Message) error
	// gone cleans up after, or refuses, a deletion.
	gone func(w *write, old proto.Message) error
}

// catalog is every resource by its kind, and in an order in which what is named
// comes before what names it.
type catalog struct {
	byName  map[string]*resource
	ordered []*resource
}

func newCatalog() catalog {
	c := catalog{byName: map[string]*resource{}}
	kinds := map[string]store.Kind{}
	for _, k := range store.Kinds() {
		kinds[k.Name()] = k
	}
	for _, r := range []*resource{
		describe[*configv1.Tenant](kinds, tenantRules()),
		describe[*configv1.Project](kinds, rules{}),
		describe[*configv1.Policy](kinds, rules{}),
		describe[*configv1.Provider](kinds, providerRules()),
		describe[*configv1.ProviderPricing](kinds, pricingRules("provider_id", "model", "region", "service_tier", "effective_from")),
		describe[*configv1.PriceBookEntry](kinds, pricingRules("tenant_id", "book", "provider_id", "model", "region", "service_tier", "effective_from")),
		describe[*configv1.Group](kinds, groupRules()),
		describe[*configv1.Upstream](kinds, upstreamRules()),
		describe[*configv1.UpstreamCredential](kinds, credentialRules()),
		describe[*configv1.UpstreamModel](kinds, rules{key: []string{"upstream_id", "model"}}),
		describe[*configv1.JWTIssuer](kinds, rules{}),
		describe[*configv1.Route](kinds, routeRules()),
		describe[*configv1.RoutePluginConfig](kinds, rules{key: []string{"route_id", "plugin_key", "plugin_sub_key"}, immutable: []string{"plugin_key"}}),
		describe[*configv1.ProviderPluginConfig](kinds, rules{
			key:       []string{"provider_id", "upstream_id", "plugin_key", "plugin_sub_key"},
			immutable: []string{"provider_id", "upstream_id", "plugin_key"},
		}),
		describe[*configv1.LogicalRoute](kinds, rules{}),
		describe[*configv1.Consumer](kinds, rules{}),
		describe[*configv1.ConsumerAPIKey](kinds, keyRules()),
		describe[*configv1.Budget](kinds, rules{immutable: []string{"currency"}}),
		describe[*configv1.CreditAccount](kinds, rules{immutable: []string{"currency", "consumer_id", "api_key_id"}}),
	} {
		c.byName[r.name] = r
		c.ordered = append(c.ordered, r)
	}
	return c
}

// of returns the resource of a message, or of a nil message of its type.
func (c catalog) of(m proto.Message) (*resource, error) {
	name := string(m.ProtoReflect().Descriptor().Name())
	if r, ok := c.byName[name]; ok {
		return r, nil
	}
	return nil, fmt.Errorf("%s is no resource", name)
}

func describe[M proto.Message](kinds map[string]store.Kind, rules rules) *resource {
	var none M
	desc := none.ProtoReflect().Descriptor()
	k := kinds[string(desc.Name())]
	r := &resource{Kind: k, name: string(desc.Name()), rules: rules, hasOwn: desc.Fields().ByName("tenant_id") != nil || desc.Name() == "Tenant"}
	r.get = func(ctx context.Context, tx *store.Tx, id string) (proto.Message, error) {
		m, err := store.Get[M](ctx, tx, id)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	r.list = func(ctx context.Context, tx *store.Tx, f store.Filter, limit int, cursor string) ([]proto.Message, string, error) {
		page, err := store.List[M](ctx, tx, f, limit, cursor)
		return erased(page.Items), page.Next, err
	}
	r.all = func(ctx context.Context, tx *store.Tx, f store.Filter) ([]proto.Message, error) {
		items, err := store.All[M](ctx, tx, f)
		return erased(items), err
	}
	r.insert = func(ctx context.Context, tx *store.Tx, m proto.Message) (proto.Message, error) {
		return store.Insert(ctx, tx, m)
	}
	r.update = func(ctx context.Context, tx *store.Tx, m proto.Message) (proto.Message, error) {
		return store.Update(ctx, tx, m)
	}
	r.remove = func(ctx context.Context, tx *store.Tx, id, etag string) error {
		return store.Delete[M](ctx, tx, id, etag)
	}
	return r
}

func erased[M proto.Message](items []M) []proto.Message {
	out := make([]proto.Message, 0, len(items))
	for _, m := range items {
		out = append(out, m)
	}
	return out
}

// text returns a string field of a message, "" if it has none of that name.
func text(m proto.Message, name protoreflect.Name) string {
	fd := m.ProtoReflect().Descriptor().Fields().ByName(name)
	if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() || fd.IsMap() {
		return ""
	}
	return m.ProtoReflect().Get(fd).String()
}

func setText(m proto.Message, name protoreflect.Name, value string) {
	if fd := m.ProtoReflect().Descriptor().Fields().ByName(name); fd != nil {
		m.ProtoReflect().Set(fd, protoreflect.ValueOfString(value))
	}
}

func clearField(m proto.Message, name protoreflect.Name) {
	if fd := m.ProtoReflect().Descriptor().Fields().ByName(name); fd != nil {
		m.ProtoReflect().Clear(fd)
	}
}
