package admin

import (
	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// tenantRules give every tenant its default group and its state key, in the change
// that makes it, and take them away in the change that removes it.
func tenantRules() rules {
	return rules{
		after: func(w *write, old, m proto.Message) error {
			if err := w.api.vault.ensureStateKey(w.ctx, w.tx, store.ID(m)); err != nil {
				return err
			}
			if old != nil || w.bundle { // a bundle brings the group itself
				return nil
			}
			_, err := w.create(w.api.kinds.byName["Group"], &configv1.Group{TenantId: store.ID(m), Name: configcheck.DefaultGroup})
			return err
		},
		gone: func(w *write, old proto.Message) error {
			if err := w.tx.DeleteSecrets(w.ctx, store.ID(old), store.ID(old)); err != nil {
				return err
			}
			groups, err := store.All[*configv1.Group](w.ctx, w.tx, store.Filter{Tenants: []string{store.ID(old)}, Name: configcheck.DefaultGroup})
			if err != nil {
				return err
			}
			for _, g := range groups {
				if err := store.Delete[*configv1.Group](w.ctx, w.tx, g.GetId(), ""); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// groupRules keep the default group, which every tenant has.
func groupRules() rules {
	return rules{
		before: func(_ *write, old, m proto.Message) error {
			if old != nil && text(old, "name") == configcheck.DefaultGroup && text(m, "name") != configcheck.DefaultGroup {
				return wrong(old, "name", "group.default", "every tenant has the group default; make another group instead of renaming it")
			}
			return nil
		},
		gone: func(w *write, old proto.Message) error {
			if text(old, "name") != configcheck.DefaultGroup {
				return nil
			}
			_, err := store.Get[*configv1.Tenant](w.ctx, w.tx, store.TenantID(old))
			if err == nil {
				return wrong(old, "", "group.default", "every tenant has the group default; it goes with the tenant")
			}
			return nil // the tenant went before it, in the same change
		},
	}
}

// providerRules let only an owner of all tenants open private addresses: the network
// behind them is not one tenant's.
func providerRules() rules {
	return rules{before: func(w *write, old, m proto.Message) error {
		was, _ := old.(*configv1.Provider)
		is, _ := m.(*configv1.Provider)
		if is.GetAllowPrivateAddress() && !was.GetAllowPrivateAddress() && (!w.actor.Can(access.AllowPrivate) || !w.actor.AllTenants()) {
			return access.Denied(access.AllowPrivate, "provider %q: allow_private_address lets nodes call addresses inside your network; only an owner who is not limited to some tenants may set it", is.GetName())
		}
		return nil
	}}
}

// pricingRules let only who may approve prices publish a version.
func pricingRules(key ...string) rules {
	return rules{key: key, before: func(w *write, old, m proto.Message) error {
		was, _ := old.(interface{ GetPublished() bool })
		is, _ := m.(interface{ GetPublished() bool })
		if is != nil && is.GetPublished() && (was == nil || !was.GetPublished()) && !w.actor.Can(access.ApprovePrices) {
			return access.Denied(access.ApprovePrices, "publishing a price version needs the permission %s; leave published unset to make a draft", access.ApprovePrices)
		}
		return nil
	}}
}
