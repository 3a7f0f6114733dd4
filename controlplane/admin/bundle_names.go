package admin

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// index finds resources by name: those of the bundle and those that are stored.
// What is stored is read once for each kind and tenant.
type index struct {
	w      *write
	loaded map[string]bool
	// byName holds ids by kind, tenant and name: several where the name is unique
	// below a parent only.
	byName map[nameKey][]string
	// byKey holds stored and new resources by what makes them unique.
	byKey map[string]proto.Message
	byID  map[string]proto.Message
	// taken are the ids that items of the bundle are.
	taken map[string]bool
}

type nameKey struct{ kind, tenant, name string }

func newIndex(w *write) *index {
	return &index{w: w, loaded: map[string]bool{}, byName: map[nameKey][]string{}, byKey: map[string]proto.Message{}, byID: map[string]proto.Message{}, taken: map[string]bool{}}
}

// load reads what is stored of a kind in a tenant; "" is what belongs to none.
// Tenants themselves are read all at once.
func (x *index) load(r *resource, tenantID string) error {
	f := store.Filter{Tenants: []string{tenantID}}
	at := r.name + "/" + tenantID
	if r.name == "Tenant" {
		f, at = store.Filter{}, r.name
	}
	if x.loaded[at] {
		return nil
	}
	x.loaded[at] = true
	found, err := r.all(x.w.ctx, x.w.tx, f)
	if err != nil {
		return err
	}
	for _, m := range found {
		if visible(x.w.actor, m) {
			x.add(r, m)
		}
	}
	return nil
}

func (x *index) add(r *resource, m proto.Message) {
	id := store.ID(m)
	if x.byID[id] != nil {
		return
	}
	x.byID[id] = m
	x.byKey[uniqueKey(r, m)] = m
	if name := text(m, "name"); name != "" {
		key := nameKey{r.name, ownerOf(r, m), name}
		x.byName[key] = append(x.byName[key], id)
	}
}

// ownerOf is the tenant under which a name is looked up; tenants stand beside each
// other.
func ownerOf(r *resource, m proto.Message) string {
	if r.name == "Tenant" {
		return ""
	}
	return store.TenantID(m)
}

// uniqueKey is what a resource is found by without its id: tenant, parent and
// name, or the fields that stand for a name.
func uniqueKey(r *resource, m proto.Message) string {
	parts := []string{r.name}
	fields := r.rules.key
	if len(fields) == 0 {
		fields = []string{"name"}
		if r.Parent != "" {
			fields = append([]string{r.Parent}, fields...)
		}
	}
	if r.name != "Tenant" {
		parts = append(parts, store.TenantID(m))
	}
	for _, name := range fields {
		fd := m.ProtoReflect().Descriptor().Fields().ByTextName(name)
		switch {
		case fd == nil:
		case fd.Kind() == protoreflect.StringKind:
			parts = append(parts, m.ProtoReflect().Get(fd).String())
		default:
			ts, _ := m.ProtoReflect().Get(fd).Message().Interface().(*timestamppb.Timestamp)
			// PostgreSQL keeps microseconds.
			parts = append(parts, fmt.Sprint(m.ProtoReflect().Has(fd), ts.AsTime().UnixMicro()))
		}
	}
	return strings.Join(parts, "\x00")
}

// lookup returns the id that a reference means, "" and a hint if there is none. An
// id stands for itself; a name is looked for in the tenant, then in what belongs
// to all.
func (x *index) lookup(target *resource, tenantID, ref string) (id, hint string, err error) {
	if ident.Valid(target.Prefix, ref) {
		return ref, "", nil
	}
	scopes := []string{tenantID, ""}
	if target.name == "Tenant" || tenantID == "" {
		scopes = []string{""}
	}
	for _, scope := range scopes {
		if err := x.load(target, scope); err != nil {
			return "", "", err
		}
		switch found := x.byName[nameKey{target.name, scope, ref}]; len(found) {
		case 0:
		case 1:
			return found[0], "", nil
		default:
			return "", fmt.Sprintf("%d resources of kind %s have the name %q; give an id", len(found), target.name, ref), nil
		}
	}
	return "", fmt.Sprintf("there is no %s %q here; put it into the bundle, or correct the name", target.name, ref), nil
}

// identify finds out which resource an item is: it resolves what it is found by,
// looks it up, and gives a new one its id.
func (b *bundle) identify(it *item) error {
	for _, ref := range it.r.References {
		if it.r.identifies(ref.Path) {
			if err := b.resolveField(it, ref); err != nil {
				return err
			}
		}
	}
	tenantID := ownerOf(it.r, it.m)
	if err := b.index.load(it.r, tenantID); err != nil {
		return err
	}
	if id := store.ID(it.m); id != "" {
		it.old = b.index.byID[id]
		if it.old == nil {
			b.reject(it.m, it.at, "id", "not_found", "there is no %s %s here; leave the id out to make one, or to have it found by its name", it.r.name, id)
			return nil
		}
	} else if found := b.index.byKey[uniqueKey(it.r, it.m)]; found != nil {
		it.old = found
		setText(it.m, "id", store.ID(found))
	}
	if it.old != nil {
		if b.index.taken[store.ID(it.old)] && it.at >= 0 {
			b.reject(it.m, it.at, "", "unique", "stands in the bundle twice")
		}
		b.index.taken[store.ID(it.old)] = true
		return nil
	}
	setText(it.m, "id", ident.New(it.r.Prefix))
	b.index.add(it.r, it.m)
	b.index.taken[store.ID(it.m)] = true
	return nil
}

// identifies reports whether a field is part of what a resource is found by.
func (r *resource) identifies(path string) bool {
	return path == "tenant_id" || path == r.Parent || slices.Contains(r.rules.key, path)
}

// resolve turns every other name that an item refers by into an id.
func (b *bundle) resolve(it *item) error {
	for _, ref := range it.r.References {
		if it.r.identifies(ref.Path) {
			continue
		}
		if err := b.resolveField(it, ref); err != nil {
			return err
		}
	}
	return nil
}

func (b *bundle) resolveField(it *item, ref store.Reference) error {
	if ref.Target == "" {
		return nil // subjects of several kinds, end users among them: ids alone
	}
	target := b.w.api.kinds.byName[ref.Target]
	tenantID := ownerOf(it.r, it.m)
	if it.r.name == "Tenant" {
		tenantID = store.ID(it.m)
	}
	return eachText(it.m.ProtoReflect(), strings.Split(ref.Path, "."), func(value string) (string, error) {
		id, hint, err := b.index.lookup(target, tenantID, value)
		if err != nil {
			return "", err
		}
		if hint != "" {
			b.reject(it.m, it.at, ref.Path, "not_found", "%s", hint)
			return value, nil
		}
		return id, nil
	})
}

// eachText replaces every text at the end of a path by what fn makes of it.
func eachText(m protoreflect.Message, path []string, fn func(string) (string, error)) error {
	fd := m.Descriptor().Fields().ByTextName(path[0])
	if fd == nil || !m.Has(fd) {
		return nil
	}
	switch {
	case len(path) > 1 && fd.IsList():
		list := m.Get(fd).List()
		for i := range list.Len() {
			if err := eachText(list.Get(i).Message(), path[1:], fn); err != nil {
				return err
			}
		}
		return nil
	case len(path) > 1:
		return eachText(m.Mutable(fd).Message(), path[1:], fn)
	case fd.IsList():
		list := m.Mutable(fd).List()
		for i := range list.Len() {
			next, err := fn(list.Get(i).String())
			if err != nil {
				return err
			}
			list.Set(i, protoreflect.ValueOfString(next))
		}
		return nil
	}
	next, err := fn(m.Get(fd).String())
	if err != nil {
		return err
	}
	m.Set(fd, protoreflect.ValueOfString(next))
	return nil
}

func setLabel(m proto.Message, key, value string) {
	fd := m.ProtoReflect().Descriptor().Fields().ByName("labels")
	if fd == nil {
		return
	}
	m.ProtoReflect().Mutable(fd).Map().Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString(value))
}
