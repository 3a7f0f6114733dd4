package admin

import (
	"context"
	"fmt"

	"github.com/aidy-gateway/aidy-gateway/shared/seal"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// NewContentKey makes a content key and returns it wrapped, to be stored.
func NewContentKey(ctx context.Context, ring seal.Keyring) (store.WrappedKey, error) {
	key, err := seal.NewContentKey()
	if err != nil {
		return store.WrappedKey{}, fmt.Errorf("make a content key: %w", err)
	}
	plain := key.Key()
	defer plain.Wipe()
	wrapped, err := seal.Wrap(ctx, ring, plain, ContentKeyContext(key.ID))
	if err != nil {
		return store.WrappedKey{}, fmt.Errorf("wrap a content key: %w", err)
	}
	return store.WrappedKey{ID: key.ID, Owner: store.PurposeContent, Wrapped: wrapped}, nil
}

// rotateContentKey puts a new content key in force and seals every secret anew
// under it, a tenant at a time, so that nobody waits long at the gate. Nodes get
// the new key before the first secret that needs it, and keep the previous one
// until the last is sealed anew.
func (a *API) rotateContentKey(ctx context.Context, by store.Actor, reason string) error {
	key, err := NewContentKey(ctx, a.vault.ring)
	if err != nil {
		return err
	}
	if _, err := a.store.AddFleetKey(ctx, key, false); err != nil {
		return err
	}
	var secrets []store.SealedSecret
	if err := a.store.Read(ctx, func(tx *store.Tx) error {
		secrets, err = tx.Secrets(ctx, "")
		return err
	}); err != nil {
		return err
	}
	tenants := map[string]bool{}
	for _, s := range secrets {
		tenants[s.TenantID] = true
	}
	for tenant := range tenants {
		done, err := a.store.Commit(ctx, store.Change{Actor: by, Message: "secrets sealed anew: " + reason, Rollout: "immediate"}, func(tx *store.Tx) error {
			return a.vault.resealTenant(ctx, tx, tenant)
		})
		if err != nil {
			return fmt.Errorf("seal the secrets of tenant %s anew: %w", tenant, err)
		}
		a.fleet.Poke(done.Generation)
	}
	return nil
}

// resealTenant brings the secrets of a tenant to the current content key.
func (v *vault) resealTenant(ctx context.Context, tx *store.Tx, tenantID string) error {
	stored, err := tx.Secrets(ctx, tenantID)
	if err != nil {
		return err
	}
	for _, s := range stored {
		plain, ok, err := v.open(ctx, tx, tenantID, s.OwnerID, s.Slot)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		err = v.put(ctx, tx, tenantID, s.OwnerID, s.Slot, s.Version, plain)
		plain.Wipe()
		if err != nil {
			return err
		}
	}
	return nil
}
