package admin

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

const (
	// exportResources and exportBytes bound one bundle of an export.
	exportResources = maxOperations
	exportBytes     = 8 << 20
)

// Export writes the configuration as bundles that ApplyBundle takes, in an order
// in which they can be applied: what belongs to all, then tenant by tenant. Names
// stand in the place of ids, fingerprints in the place of secrets. Applying an
// export where it came from changes nothing.
func (s configService) Export(ctx context.Context, req *adminv1.ExportRequest, stream adminv1connect.ConfigServiceExportServerStream) error {
	actor := access.ActorOf(ctx)
	return s.api.store.Read(ctx, func(tx *store.Tx) error {
		tenants, err := s.tenantsToExport(ctx, tx, actor, req.GetTenantId())
		if err != nil {
			return err
		}
		e := &export{
			api: s.api, ctx: ctx, actor: actor, owner: req.GetOwner(), stream: stream, generation: tx.Head().Generation,
			index: newIndex(&write{ctx: ctx, api: s.api, tx: tx, actor: actor}),
		}
		for _, tenant := range tenants {
			if err := e.tenant(tx, tenant); err != nil {
				return err
			}
		}
		return nil
	})
}

// tenantsToExport lists the tenants an export goes through; "" is what belongs to
// none.
func (s configService) tenantsToExport(ctx context.Context, tx *store.Tx, actor access.Actor, ref string) ([]string, error) {
	if ref != "" {
		m, err := s.api.find(ctx, tx, actor, s.api.kinds.byName["Tenant"], ref, "")
		if err != nil {
			return nil, err
		}
		return []string{store.ID(m)}, nil
	}
	all, err := store.All[*configv1.Tenant](ctx, tx, store.Filter{})
	if err != nil {
		return nil, err
	}
	out := []string{""}
	for _, t := range all {
		if visible(actor, t) {
			out = append(out, t.GetId())
		}
	}
	return out, nil
}

type export struct {
	api        *API
	ctx        context.Context //nolint:containedctx // lives within one call
	actor      access.Actor
	owner      string
	stream     adminv1connect.ConfigServiceExportServerStream
	generation uint64
	index      *index
}

func (e *export) tenant(tx *store.Tx, tenantID string) error {
	f := store.Filter{Tenants: []string{tenantID}}
	if e.owner != "" {
		f.Labels = map[string]string{ownerLabel: e.owner}
	}
	bundle, size := &adminv1.Bundle{Owner: e.owner}, 0
	flush := func() error {
		if len(bundle.GetResources()) == 0 {
			return nil
		}
		err := e.stream.Send(&adminv1.ExportResponse{Bundle: bundle, Generation: e.generation})
		bundle, size = &adminv1.Bundle{Owner: e.owner}, 0
		return err
	}
	for _, r := range e.api.kinds.ordered {
		found, err := r.all(e.ctx, tx, f)
		if err != nil {
			return err
		}
		for _, m := range found {
			written, err := e.written(r, m)
			if err != nil {
				return err
			}
			if size += proto.Size(written); len(bundle.GetResources()) == exportResources || size > exportBytes {
				if err := flush(); err != nil {
					return err
				}
				size = proto.Size(written)
			}
			bundle.Resources = append(bundle.Resources, wrapped(written))
		}
	}
	return flush()
}

// written is a resource as a bundle has it: names for ids where they are clear,
// and nothing that the control plane makes.
func (e *export) written(r *resource, m proto.Message) (proto.Message, error) {
	m = proto.Clone(shown(e.actor, m))
	tenantID := ownerOf(r, m)
	if r.name == "Tenant" {
		tenantID = store.ID(m)
	}
	for _, ref := range r.References {
		if ref.Target == "" || ref.Path == "tenant_id" {
			continue
		}
		target := e.api.kinds.byName[ref.Target]
		if err := eachText(m.ProtoReflect(), strings.Split(ref.Path, "."), func(id string) (string, error) {
			return e.name(target, tenantID, id)
		}); err != nil {
			return nil, err
		}
	}
	if of := text(m, "tenant_id"); of != "" {
		name, err := e.name(e.api.kinds.byName["Tenant"], "", of)
		if err != nil {
			return nil, err
		}
		setText(m, "tenant_id", name)
	}
	for _, name := range []protoreflect.Name{"id", "etag", "create_time", "update_time"} {
		clearField(m, name)
	}
	return m, nil
}

// name returns the name of a resource if it leads back to it, else its id.
func (e *export) name(target *resource, tenantID, id string) (string, error) {
	for _, scope := range []string{tenantID, ""} {
		if err := e.index.load(target, scope); err != nil {
			return "", err
		}
	}
	m := e.index.byID[id]
	if m == nil || text(m, "name") == "" {
		return id, nil
	}
	back, _, err := e.index.lookup(target, tenantID, text(m, "name"))
	if err != nil {
		return "", err
	}
	if back != id {
		return id, nil
	}
	return text(m, "name"), nil
}

// wrapped puts a resource into the member of a bundle that is for its kind.
func wrapped(m proto.Message) *adminv1.BundleResource {
	out := &adminv1.BundleResource{}
	if fd := fieldOf(out, m.ProtoReflect().Descriptor().FullName()); fd != nil {
		out.ProtoReflect().Set(fd, protoreflect.ValueOfMessage(m.ProtoReflect()))
	}
	return out
}
