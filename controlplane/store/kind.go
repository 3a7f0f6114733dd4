package store

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// Kind says how one resource of aidy.config.v1 is stored and what hangs on it.
// The columns follow from the message itself: see columnsOf.
type Kind struct {
	// Message is an empty message of the resource.
	Message proto.Message
	// Prefix begins every id of the kind.
	Prefix ident.Prefix
	// Table holds the rows.
	Table string
	// Parent is the field that names the resource it belongs to: the parent of
	// its unique name. Empty for a resource that stands alone.
	Parent string
	// References are the fields that name other resources, parent included.
	References []Reference
	// Secrets are the paths of fields that are never stored, logged or audited.
	Secrets []string
	// Unique maps a constraint or index to the fields it keeps unique.
	Unique map[string][]string
	// Shards lists the shards that a row touches.
	Shards func(proto.Message) []string
	// Revokes lists what a change takes away from callers. Either side may be
	// nil: created, deleted. Nil for a kind that gives nobody anything.
	Revokes func(before, after proto.Message) []Revocation

	// project keeps tables that are derived from the resource. Nil for most.
	project projection
}

// Reference is a field whose value is the id of another resource.
type Reference struct {
	// Path leads to the field through nested messages and lists: "group_id",
	// "claims.issuer_id", "scheduling.providers".
	Path string
	// Target is the kind of what is named; empty if any kind may be, told apart
	// by the prefix of the id.
	Target string
}

// Revocation is something that must be denied at once.
type Revocation struct {
	Kind    string // key, tenant, project, consumer, credential, issuer
	Subject string // the SHA-256 of a key in hex, else an id
}

// Name is the name of the message, e.g. "Upstream".
func (k *Kind) Name() string { return string(k.Message.ProtoReflect().Descriptor().Name()) }

// kind is a Kind with all that is derived from it once.
type kind struct {
	Kind
	name      string
	desc      protoreflect.MessageDescriptor
	columns   []column
	hasTenant bool
	refs      []reference
	secrets   [][]protoreflect.FieldDescriptor
	sql       statements
}

type reference struct {
	Reference
	fields []protoreflect.FieldDescriptor
	column bool // a column of the row with a foreign key, not a row of resource_reference
}

// catalog is every kind, by message name and in an order in which what is named
// comes before what names it.
type catalog struct {
	byName   map[string]*kind
	byPrefix map[ident.Prefix]*kind
	ordered  []*kind
}

func newCatalog() (*catalog, error) {
	c := &catalog{byName: map[string]*kind{}, byPrefix: map[ident.Prefix]*kind{}}
	for _, described := range Kinds() {
		k := &kind{Kind: described, name: described.Name(), desc: described.Message.ProtoReflect().Descriptor()}
		k.hasTenant = k.desc.Fields().ByName("tenant_id") != nil
		for _, r := range k.References {
			fields, err := fieldPath(k.desc, r.Path)
			if err != nil {
				return nil, err
			}
			k.refs = append(k.refs, reference{r, fields, len(fields) == 1 && !fields[0].IsList()})
		}
		for _, path := range k.Secrets {
			fields, err := fieldPath(k.desc, path)
			if err != nil {
				return nil, err
			}
			k.secrets = append(k.secrets, fields)
		}
		var err error
		if k.columns, err = columnsOf(k); err != nil {
			return nil, err
		}
		c.byName[k.name] = k
		c.byPrefix[k.Prefix] = k
		c.ordered = append(c.ordered, k)
	}
	for _, k := range c.ordered {
		k.sql = c.statementsOf(k)
	}
	return c, nil
}

func (c *catalog) of(m proto.Message) (*kind, error) {
	name := string(m.ProtoReflect().Descriptor().Name())
	if k, ok := c.byName[name]; ok {
		return k, nil
	}
	return nil, fmt.Errorf("%s is not a stored resource", name)
}

func fieldPath(desc protoreflect.MessageDescriptor, path string) ([]protoreflect.FieldDescriptor, error) {
	var fields []protoreflect.FieldDescriptor
	for name := range strings.SplitSeq(path, ".") {
		if desc == nil {
			return nil, fmt.Errorf("path %s goes through a field that is no message", path)
		}
		fd := desc.Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			return nil, fmt.Errorf("%s has no field %s", desc.Name(), path)
		}
		fields = append(fields, fd)
		desc = fd.Message()
	}
	return fields, nil
}

// each calls fn for every set value at the end of a path, with the message that
// holds it.
func each(m protoreflect.Message, path []protoreflect.FieldDescriptor, fn func(holder protoreflect.Message, fd protoreflect.FieldDescriptor)) {
	fd := path[0]
	if len(path) == 1 {
		if m.Has(fd) {
			fn(m, fd)
		}
		return
	}
	if !m.Has(fd) {
		return
	}
	if fd.IsList() {
		list := m.Get(fd).List()
		for i := range list.Len() {
			each(list.Get(i).Message(), path[1:], fn)
		}
		return
	}
	each(m.Get(fd).Message(), path[1:], fn)
}

// named returns the ids that a message names through r, in order.
func (r *reference) named(m proto.Message) []string {
	var ids []string
	each(m.ProtoReflect(), r.fields, func(holder protoreflect.Message, fd protoreflect.FieldDescriptor) {
		if fd.IsList() {
			list := holder.Get(fd).List()
			for i := range list.Len() {
				ids = append(ids, list.Get(i).String())
			}
			return
		}
		ids = append(ids, holder.Get(fd).String())
	})
	return ids
}

// withoutSecrets returns a copy of m that may be stored and shown.
func (k *kind) withoutSecrets(m proto.Message) proto.Message {
	m = proto.Clone(m)
	for _, path := range k.secrets {
		each(m.ProtoReflect(), path, func(holder protoreflect.Message, fd protoreflect.FieldDescriptor) { holder.Clear(fd) })
	}
	return m
}

func stringField(m proto.Message, name protoreflect.Name) string {
	fd := m.ProtoReflect().Descriptor().Fields().ByName(name)
	if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() {
		return ""
	}
	return m.ProtoReflect().Get(fd).String()
}

func setString(m proto.Message, name protoreflect.Name, value string) {
	if fd := m.ProtoReflect().Descriptor().Fields().ByName(name); fd != nil {
		m.ProtoReflect().Set(fd, protoreflect.ValueOfString(value))
	}
}

// ID returns the id of a resource.
func ID(m proto.Message) string { return stringField(m, "id") }

// TenantID returns the tenant a resource belongs to: its own id for a tenant,
// empty for a resource of all tenants.
func TenantID(m proto.Message) string {
	if m.ProtoReflect().Descriptor().Fields().ByName("tenant_id") == nil {
		return ID(m)
	}
	return stringField(m, "tenant_id")
}
