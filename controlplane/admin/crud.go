package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// Every resource has the same five methods, whose requests and responses differ
// only in the type of the resource. The functions of this file find its field by
// that type, so that a method of a service is one line.

// defaultPage is the size of a page that was not asked for.
const defaultPage = 100

// create serves Create of the resource M.
func create[M, R proto.Message](ctx context.Context, a *API, req proto.Message, res R) (R, error) {
	var none R
	r, m, err := subject[M](a, req)
	if err != nil {
		return none, err
	}
	w, result, err := a.transact(ctx, req, changeOf(req), res, func(w *write) error {
		stored, err := w.create(r, m)
		if err != nil {
			return err
		}
		return put[M](w.actor, res, stored)
	})
	if err != nil {
		return none, err
	}
	setResult(res, result)
	if !w.shown.IsZero() {
		setText(res, "secret", w.shown.Reveal())
	}
	return res, nil
}

// get serves Get of the resource M, by id or by name.
func get[M, R proto.Message](ctx context.Context, a *API, req proto.Message, res R) (R, error) {
	var none R
	r, err := a.kinds.of(nilOf[M]())
	if err != nil {
		return none, err
	}
	actor := access.ActorOf(ctx)
	err = a.store.Read(ctx, func(tx *store.Tx) error {
		m, err := a.find(ctx, tx, actor, r, text(req, "id"), text(req, "tenant_id"))
		if err != nil {
			return err
		}
		return put[M](actor, res, m)
	})
	if err != nil {
		return none, err
	}
	return res, nil
}

// list serves List of the resource M.
func list[M, R proto.Message](ctx context.Context, a *API, req interface {
	proto.Message
	GetPageSize() int32
	GetPageToken() string
	GetFilter() *adminv1.ListFilter
}, res R,
) (R, error) {
	var none R
	r, err := a.kinds.of(nilOf[M]())
	if err != nil {
		return none, err
	}
	actor := access.ActorOf(ctx)
	size := int(req.GetPageSize())
	if size == 0 {
		size = defaultPage
	}
	err = a.store.Read(ctx, func(tx *store.Tx) error {
		f, err := a.filter(ctx, tx, actor, req.GetFilter())
		if err != nil {
			return err
		}
		items, next, err := r.list(ctx, tx, f, size, req.GetPageToken())
		if err != nil {
			return err
		}
		setText(res, "next_page_token", next)
		for _, m := range items {
			if err := put[M](actor, res, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return none, err
	}
	return res, nil
}

// update serves Update of the resource M.
func update[M, R proto.Message](ctx context.Context, a *API, req interface {
	proto.Message
	GetUpdateMask() *fieldmaskpb.FieldMask
}, res R,
) (R, error) {
	var none R
	r, m, err := subject[M](a, req)
	if err != nil {
		return none, err
	}
	if store.ID(m) == "" {
		return none, wrong(m, "id", "required", "give the id of the %s to change", r.name)
	}
	etag := text(m, "etag")
	if etag == "" {
		return none, wrong(m, "etag", "required", "send the etag that you read, so that a change in between is not lost")
	}
	_, result, err := a.transact(ctx, req, changeOf(req), res, func(w *write) error {
		old, err := a.find(ctx, w.tx, w.actor, r, store.ID(m), "")
		if err != nil {
			return err
		}
		next := proto.Clone(old)
		if err := applyMask(r, next, m, req.GetUpdateMask().GetPaths()); err != nil {
			return err
		}
		setText(next, "etag", etag)
		w.mask = req.GetUpdateMask().GetPaths()
		stored, err := w.replace(r, old, next)
		if err != nil {
			return err
		}
		return put[M](w.actor, res, stored)
	})
	if err != nil {
		return none, err
	}
	setResult(res, result)
	return res, nil
}

// remove serves Delete of the resource M.
func remove[M, R proto.Message](ctx context.Context, a *API, req proto.Message, res R) (R, error) {
	var none R
	r, err := a.kinds.of(nilOf[M]())
	if err != nil {
		return none, err
	}
	_, result, err := a.transact(ctx, req, changeOf(req), res, func(w *write) error {
		old, err := a.find(ctx, w.tx, w.actor, r, text(req, "id"), "")
		if err != nil {
			return err
		}
		return w.destroy(r, old, text(req, "etag"))
	})
	if err != nil {
		return none, err
	}
	setResult(res, result)
	return res, nil
}

// modify serves methods that change a resource by a rule of their own.
func modify[M, R proto.Message](ctx context.Context, a *API, req proto.Message, res R, fn func(w *write, m M) error) (R, error) {
	var none R
	r, err := a.kinds.of(nilOf[M]())
	if err != nil {
		return none, err
	}
	_, result, err := a.transact(ctx, req, changeOf(req), res, func(w *write) error {
		old, err := a.find(ctx, w.tx, w.actor, r, text(req, "id"), "")
		if err != nil {
			return err
		}
		next, ok := proto.Clone(old).(M)
		if !ok {
			return fmt.Errorf("%s is no %s", store.ID(old), r.name)
		}
		w.mask = []string{}
		if err := fn(w, next); err != nil {
			return err
		}
		stored, err := w.replace(r, old, next)
		if err != nil {
			return err
		}
		return put[M](w.actor, res, stored)
	})
	if err != nil {
		return none, err
	}
	setResult(res, result)
	return res, nil
}

// find returns the resource that ref names: an id, or a name with its tenant. What
// the actor may not see is not found.
func (a *API) find(ctx context.Context, tx *store.Tx, actor access.Actor, r *resource, ref, tenantRef string) (proto.Message, error) {
	missing := &store.NotFoundError{Kind: r.name, ID: ref}
	var m proto.Message
	var err error
	if ident.Valid(r.Prefix, ref) {
		if m, err = r.get(ctx, tx, ref); err != nil {
			return nil, err
		}
	} else {
		if r.Message.ProtoReflect().Descriptor().Fields().ByName("name") == nil {
			return nil, missing
		}
		f := store.Filter{Name: ref}
		if r.name != "Tenant" {
			tenantID, err := a.tenantID(ctx, tx, tenantRef)
			if err != nil {
				return nil, err
			}
			f.Tenants = []string{tenantID}
		}
		found, err := r.all(ctx, tx, f)
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(m proto.Message) bool { return !visible(actor, m) })
		if len(found) > 1 {
			return nil, wrong(nil, "id", "ambiguous", "%d resources of kind %s have the name %q; give an id", len(found), r.name, ref)
		}
		if len(found) == 0 {
			return nil, missing
		}
		m = found[0]
	}
	if !visible(actor, m) {
		return nil, missing
	}
	return m, nil
}

// tenantID turns the id or name of a tenant into its id; "" stays.
func (a *API) tenantID(ctx context.Context, tx *store.Tx, ref string) (string, error) {
	if ref == "" || ident.Valid(ident.Tenant, ref) {
		return ref, nil
	}
	found, err := store.All[*configv1.Tenant](ctx, tx, store.Filter{Name: ref})
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", &store.NotFoundError{Kind: "Tenant", ID: ref}
	}
	return found[0].GetId(), nil
}

// visible reports whether an actor sees a resource: those of its tenants, and
// those of all.
func visible(actor access.Actor, m proto.Message) bool {
	owner := store.TenantID(m)
	return owner == "" || actor.CanTenant(owner)
}

// filter is what an actor asked for, within what it may see.
func (a *API) filter(ctx context.Context, tx *store.Tx, actor access.Actor, f *adminv1.ListFilter) (store.Filter, error) {
	out := store.Filter{ParentID: f.GetParentId(), Name: f.GetName(), Labels: f.GetLabels()}
	if f.GetOnlyDisabled() != f.GetOnlyEnabled() {
		disabled := f.GetOnlyDisabled()
		out.Disabled = &disabled
	}
	if !actor.AllTenants() {
		out.Tenants = append([]string{""}, actor.Tenants...)
	}
	if f.GetTenantId() != "" {
		id, err := a.tenantID(ctx, tx, f.GetTenantId())
		if errors.Is(err, store.ErrNotFound) {
			out.Tenants = []string{}
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out.Tenants = []string{id}
		if !actor.CanTenant(id) {
			out.Tenants = []string{}
		}
	}
	return out, nil
}

func nilOf[M proto.Message]() proto.Message {
	var m M
	return m
}

// subject returns a copy of the resource in a request.
func subject[M proto.Message](a *API, req proto.Message) (*resource, proto.Message, error) {
	r, err := a.kinds.of(nilOf[M]())
	if err != nil {
		return nil, nil, err
	}
	fd := fieldOf(req, r.Message.ProtoReflect().Descriptor().FullName())
	if fd == nil {
		return nil, nil, fmt.Errorf("%s has no %s", req.ProtoReflect().Descriptor().Name(), r.name)
	}
	if !req.ProtoReflect().Has(fd) {
		return nil, nil, wrong(nil, string(fd.Name()), "required", "send the %s; there is none in the call", r.name)
	}
	return r, proto.Clone(req.ProtoReflect().Get(fd).Message().Interface()), nil
}

// put shows a resource to an actor: it sets the field of its type in a response,
// or appends to it.
func put[M proto.Message](actor access.Actor, res, m proto.Message) error {
	var none M
	fd := fieldOf(res, none.ProtoReflect().Descriptor().FullName())
	if fd == nil {
		return nil // a response that does not show the resource
	}
	value := protoreflect.ValueOfMessage(shown(actor, m).ProtoReflect())
	if fd.IsList() {
		res.ProtoReflect().Mutable(fd).List().Append(value)
		return nil
	}
	res.ProtoReflect().Set(fd, value)
	return nil
}

// shown is a resource as an actor may see it. Hashes of tokens that people chose
// are kept from those who only read: a guess could be tried against them.
func shown(actor access.Actor, m proto.Message) proto.Message {
	route, ok := m.(*configv1.Route)
	if !ok || actor.Can(access.WriteConfig) || len(route.GetLegacyBearerAuthTokens()) == 0 {
		return m
	}
	route = proto.CloneOf(route)
	for _, t := range route.GetLegacyBearerAuthTokens() {
		t.Sha256 = ""
	}
	return route
}

func fieldOf(m proto.Message, name protoreflect.FullName) protoreflect.FieldDescriptor {
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); fd.Message() != nil && !fd.IsMap() && fd.Message().FullName() == name {
			return fd
		}
	}
	return nil
}

func changeOf(req proto.Message) *adminv1.ChangeContext {
	if with, ok := req.(interface{ GetChange() *adminv1.ChangeContext }); ok {
		return with.GetChange()
	}
	return nil
}

func setResult(res proto.Message, result *adminv1.ChangeResult) {
	if fd := fieldOf(res, result.ProtoReflect().Descriptor().FullName()); fd != nil {
		res.ProtoReflect().Set(fd, protoreflect.ValueOfMessage(result.ProtoReflect()))
	}
}
