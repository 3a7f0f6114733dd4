package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// references are the fields that hold ids of other resources, and of what kind. A
// field means the same wherever it stands.
var references = map[protoreflect.Name]string{
	"tenant_id":       "tenant",
	"project_id":      "project",
	"policy_id":       "policy",
	"provider_id":     "provider",
	"upstream_id":     "upstream",
	"group_id":        "group",
	"group_ids":       "group",
	"fallback_groups": "group",
	"route_id":        "route",
	"route_ids":       "route",
	"issuer_route_id": "route",
	"consumer_id":     "consumer",
	"api_key_id":      "consumer-api-key",
	"credential_id":   "upstream-credential",
	"jwt_issuers":     "jwt-issuer",
	"issuer_id":       "jwt-issuer",
}

// Resolve replaces names in m by the ids they stand for: people write names, and only
// bundles are resolved by the API itself. The tenant comes first, for it says where
// the other names are.
func (c *Client) Resolve(ctx context.Context, kinds []*Kind, m proto.Message) error {
	r := resolver{c, kinds, Scope{}}
	if fd := m.ProtoReflect().Descriptor().Fields().ByName("tenant_id"); fd != nil {
		if err := r.field(ctx, m.ProtoReflect(), fd); err != nil {
			return err
		}
		r.scope.TenantID = m.ProtoReflect().Get(fd).String()
	}
	return r.message(ctx, m.ProtoReflect())
}

type resolver struct {
	c     *Client
	kinds []*Kind
	scope Scope
}

func (r *resolver) message(ctx context.Context, m protoreflect.Message) error {
	var fields []protoreflect.FieldDescriptor
	m.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		fields = append(fields, fd)
		return true
	})
	slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int { return a.Index() - b.Index() })
	for _, fd := range fields {
		if err := r.field(ctx, m, fd); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) field(ctx context.Context, m protoreflect.Message, fd protoreflect.FieldDescriptor) error {
	switch {
	case fd.IsMap():
		return nil
	case fd.Message() != nil && fd.IsList():
		for i := range m.Get(fd).List().Len() {
			if err := r.message(ctx, m.Get(fd).List().Get(i).Message()); err != nil {
				return err
			}
		}
		return nil
	case fd.Message() != nil:
		return r.message(ctx, m.Get(fd).Message())
	}
	name, ok := references[fd.Name()]
	if !ok || fd.Kind() != protoreflect.StringKind || !m.Has(fd) {
		return nil
	}
	k, err := Find(r.kinds, name)
	if err != nil {
		return err
	}
	if fd.IsList() {
		list := m.Mutable(fd).List()
		for i := range list.Len() {
			id, err := r.id(ctx, k, fd, list.Get(i).String())
			if err != nil {
				return err
			}
			list.Set(i, protoreflect.ValueOfString(id))
		}
		return nil
	}
	id, err := r.id(ctx, k, fd, m.Get(fd).String())
	if err != nil {
		return err
	}
	m.Set(fd, protoreflect.ValueOfString(id))
	return nil
}

func (r *resolver) id(ctx context.Context, k *Kind, fd protoreflect.FieldDescriptor, word string) (string, error) {
	if word == "" || k.IsID(word) {
		return word, nil
	}
	scope := r.scope
	found, err := r.c.Find(ctx, k, scope, word)
	if _, none := errors.AsType[*NotFoundError](err); none && k.Name == "provider" && scope.TenantID != "" {
		// A tenant uses its own providers and those of all tenants.
		found, err = r.c.Find(ctx, k, Scope{}, word)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", fd.Name(), err)
	}
	return ID(found), nil
}

// Names looks up how people call what ids stand for, for tables. It asks for each id
// once and for no more than a bound; an id it does not know stays an id.
type Names struct {
	c     *Client
	kinds []*Kind
	known map[string]string
	left  int
}

// maxLookups bounds what one table may ask.
const maxLookups = 200

// NewNames returns an empty table of names.
func NewNames(c *Client, kinds []*Kind) *Names {
	return &Names{c, kinds, map[string]string{}, maxLookups}
}

// Of returns the name behind a value of a field that refers, else the value.
func (n *Names) Of(ctx context.Context, field, id string) string {
	kind, ok := references[protoreflect.Name(field)]
	if !ok || id == "" {
		return id
	}
	if name, ok := n.known[id]; ok {
		return name
	}
	name := id
	if n.left > 0 && n.c != nil {
		n.left--
		if k, err := Find(n.kinds, kind); err == nil && k.IsID(id) {
			if m, err := n.c.Get(ctx, k, id); err == nil {
				name = k.Label(m)
			}
		}
	}
	n.known[id] = name
	return name
}
