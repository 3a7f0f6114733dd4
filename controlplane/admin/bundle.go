package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

const (
	// ownerLabel says which bundle a resource came with.
	ownerLabel = "owner"
	// maxOperations bounds what one bundle creates, changes and deletes.
	maxOperations = 2000
)

// ApplyBundle makes the configuration equal to a set of resources: those that are
// not there are made, the others replaced whole, and with prune those that its
// owner applied before and does not name any more are deleted. All of it is one
// change, or none.
func (s configService) ApplyBundle(ctx context.Context, req *adminv1.ApplyBundleRequest) (*adminv1.ApplyBundleResponse, error) {
	if req.GetPrune() && req.GetBundle().GetOwner() == "" {
		return nil, wrong(nil, "bundle.owner", "required", "prune deletes what one owner applied before; name the owner")
	}
	res := &adminv1.ApplyBundleResponse{}
	_, result, err := s.api.transact(ctx, req, req.GetChange(), res, func(w *write) error {
		w.bundle = true
		b := &bundle{w: w, owner: req.GetBundle().GetOwner(), res: res, index: newIndex(w)}
		return b.apply(req.GetBundle(), req.GetPrune())
	})
	if err != nil {
		return nil, err
	}
	res.Result = result
	return res, nil
}

// bundle is one application while it runs.
type bundle struct {
	w     *write
	owner string
	res   *adminv1.ApplyBundleResponse
	index *index
	items []*item
	bad   invalidError
}

// item is a resource of a bundle on its way.
type item struct {
	r   *resource
	m   proto.Message // what the author sent, then what will be stored
	old proto.Message // nil for a new one
	at  int           // its place in the bundle, -1 for one that was added
}

func (b *bundle) apply(in *adminv1.Bundle, prune bool) error {
	b.collect(in)
	// Parents stand before children, so that what a resource is found by is known
	// when it is looked for.
	for _, it := range b.items {
		if err := b.identify(it); err != nil {
			return err
		}
	}
	for _, it := range b.items {
		if err := b.resolve(it); err != nil {
			return err
		}
	}
	if len(b.bad.violations) > 0 {
		return &b.bad
	}
	for _, it := range b.items {
		if err := b.write(it); err != nil {
			return err
		}
	}
	if len(b.bad.violations) > 0 {
		return &b.bad
	}
	if prune {
		return b.prune()
	}
	return nil
}

// collect takes the resources out of their wrapping, in the order of kinds. A new
// tenant gets its default group here, so that others can name it.
func (b *bundle) collect(in *adminv1.Bundle) {
	byKind := map[string][]*item{}
	for i, wrapped := range in.GetResources() {
		m := unwrapped(wrapped)
		if m == nil {
			b.reject(nil, i, "", "required", "hold one resource")
			continue
		}
		r, err := b.w.api.kinds.of(m)
		if err != nil {
			b.reject(nil, i, "", "required", "hold one resource")
			continue
		}
		byKind[r.name] = append(byKind[r.name], &item{r: r, m: proto.Clone(m), at: i})
	}
	for _, r := range b.w.api.kinds.ordered {
		b.items = append(b.items, byKind[r.name]...)
		if r.name != "Group" {
			continue
		}
		for _, t := range byKind["Tenant"] {
			named := slices.ContainsFunc(byKind["Group"], func(g *item) bool {
				of := text(g.m, "tenant_id")
				return text(g.m, "name") == configcheck.DefaultGroup && (of == text(t.m, "name") || of == store.ID(t.m) && of != "")
			})
			if !named {
				b.items = append(b.items, &item{r: r, at: -1, m: &configv1.Group{TenantId: text(t.m, "name"), Name: configcheck.DefaultGroup}})
			}
		}
	}
}

func unwrapped(w *adminv1.BundleResource) proto.Message {
	var found proto.Message
	m := w.ProtoReflect()
	if fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("resource")); fd != nil {
		found = m.Get(fd).Message().Interface()
	}
	return found
}

// reject notes what is wrong with a resource and goes on, so that an author sees
// everything at once.
func (b *bundle) reject(m proto.Message, at int, path, rule, format string, args ...any) {
	v := &syncv1.Violation{FieldPath: path, Rule: rule, Hint: fmt.Sprintf(format, args...)}
	if m != nil {
		v.Kind, v.Name = string(m.ProtoReflect().Descriptor().Name()), text(m, "name")
	}
	if at >= 0 {
		place := fmt.Sprintf("resources[%d]", at)
		if v.GetFieldPath() != "" {
			place += "." + v.GetFieldPath()
		}
		v.FieldPath = place
	}
	b.bad.violations = append(b.bad.violations, v)
}

// take sorts an error: what is wrong with a resource is noted, anything else ends
// the application.
func (b *bundle) take(it *item, err error) error {
	invalid, ok := errors.AsType[*invalidError](err)
	if !ok {
		return err
	}
	for _, v := range invalid.violations {
		if it.at >= 0 {
			v.FieldPath = fmt.Sprintf("resources[%d].%s", it.at, v.GetFieldPath())
		}
		b.bad.violations = append(b.bad.violations, v)
	}
	return nil
}

// write stores one resource.
func (b *bundle) write(it *item) error {
	if it.old == nil && it.at == -1 || b.owner == "" {
		return b.store(it)
	}
	if it.at >= 0 {
		if had := labelsOf(it.old)[ownerLabel]; it.old != nil && had != "" && had != b.owner {
			b.reject(it.m, it.at, "labels", "owner", "belongs to the bundle of %q; take it out of one of the two", had)
			return nil
		}
		setLabel(it.m, ownerLabel, b.owner)
	}
	return b.store(it)
}

func (b *bundle) store(it *item) error {
	if it.old == nil {
		if _, err := b.w.create(it.r, it.m); err != nil {
			return b.take(it, err)
		}
		b.res.Created++
		return nil
	}
	if it.at == -1 { // the default group of a tenant that is there
		return nil
	}
	etag := text(it.m, "etag")
	keepDerived(it.r, it.old, it.m)
	if etag == "" {
		etag = text(it.old, "etag")
	}
	setText(it.m, "etag", etag)
	stored, err := b.w.replace(it.r, it.old, it.m)
	if err != nil {
		return b.take(it, err)
	}
	if text(stored, "etag") == text(it.old, "etag") {
		b.res.Unchanged++
	} else {
		b.res.Updated++
	}
	return nil
}

// keepDerived brings what the control plane set into a resource that is written
// whole. A key that was revoked stays so.
func keepDerived(r *resource, old, m proto.Message) {
	for _, name := range r.rules.derived {
		fd := m.ProtoReflect().Descriptor().Fields().ByTextName(name)
		given := m.ProtoReflect().Has(fd)
		switch {
		case old.ProtoReflect().Has(fd) && (!given || name == "revoke_time" || name == "hint"):
			m.ProtoReflect().Set(fd, old.ProtoReflect().Get(fd))
		case given && !old.ProtoReflect().Has(fd) && name == "secret_version":
			m.ProtoReflect().Clear(fd)
		}
	}
}

// prune deletes what the owner applied before and the bundle does not name,
// children before parents. A default group goes with its tenant alone.
func (b *bundle) prune() error {
	named := map[string]bool{}
	for _, it := range b.items {
		named[store.ID(it.m)] = true
	}
	f := store.Filter{Labels: map[string]string{ownerLabel: b.owner}}
	if !b.w.actor.AllTenants() {
		f.Tenants = b.w.actor.Tenants
	}
	for _, r := range slices.Backward(b.w.api.kinds.ordered) {
		found, err := r.all(b.w.ctx, b.w.tx, f)
		if err != nil {
			return err
		}
		for _, m := range found {
			if named[store.ID(m)] || r.name == "Group" && text(m, "name") == configcheck.DefaultGroup {
				continue
			}
			if err := b.w.destroy(r, m, ""); err != nil {
				return err
			}
			b.res.Deleted++
			if len(b.items)+int(b.res.GetDeleted()) > maxOperations {
				return refusal(connect.CodeResourceExhausted, fmt.Errorf("the bundle would do more than %d operations; apply it in parts", maxOperations),
					&adminv1.ErrorInfo{Reason: reasonLimit, Limit: "bundle_operations", Value: int64(len(b.items)) + int64(b.res.GetDeleted()), Max: maxOperations})
			}
		}
	}
	return nil
}

func labelsOf(m proto.Message) map[string]string {
	if m == nil {
		return nil
	}
	if with, ok := m.(interface{ GetLabels() map[string]string }); ok {
		return with.GetLabels()
	}
	return nil
}
