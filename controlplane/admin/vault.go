package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/aidy-gateway/aidy-gateway/shared/seal"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// ContentKeyContext is what a stored content key is bound to under the root key.
func ContentKeyContext(id string) seal.Context { return seal.Context{ID: "content/" + id} }

// vault seals the secrets of tenants within the transaction of a change: at rest
// under the data key of their tenant, and once under the current content key,
// which are the bytes that nodes receive.
type vault struct{ ring seal.Keyring }

// atRest is what the stored form of a secret is bound to. The slot is part of it,
// so that a password cannot be put in the place of a key.
func atRest(tenantID, ownerID, slot string, version int64) seal.Context {
	return seal.Context{Tenant: tenantID, ID: ownerID + "/" + slot, Version: uint64(version)}
}

// delivered is what the delivered form is bound to; nodes open it with the same.
func delivered(tenantID, ownerID string, version int64) seal.Context {
	return seal.Context{Tenant: tenantID, ID: ownerID, Version: uint64(version)}
}

// put stores a secret in a slot of its owner, as a version.
func (v *vault) put(ctx context.Context, tx *store.Tx, tenantID, ownerID, slot string, version int64, plain secret.Text) error {
	data, err := v.dataKey(ctx, tx, tenantID)
	if err != nil {
		return err
	}
	content, err := v.contentKey(ctx, tx)
	if err != nil {
		return err
	}
	sealed := store.SealedSecret{
		OwnerID: ownerID, Slot: slot, TenantID: tenantID, Version: version,
		DataKeyID: data.ID, ContentKeyID: content.ID, Fingerprint: plain.Fingerprint(),
	}
	if sealed.AtRest, err = data.Seal(plain, atRest(tenantID, ownerID, slot, version)); err != nil {
		return fmt.Errorf("seal the secret of %s at rest: %w", ownerID, err)
	}
	if sealed.Delivered, err = seal.SealWith(content, plain, delivered(tenantID, ownerID, version)); err != nil {
		return fmt.Errorf("seal the secret of %s for delivery: %w", ownerID, err)
	}
	return tx.PutSecret(ctx, sealed)
}

// open returns the secret in a slot, false if there is none.
func (v *vault) open(ctx context.Context, tx *store.Tx, tenantID, ownerID, slot string) (secret.Text, bool, error) {
	stored, err := tx.Secrets(ctx, tenantID)
	if err != nil {
		return secret.Text{}, false, err
	}
	for _, s := range stored {
		if s.OwnerID != ownerID || s.Slot != slot {
			continue
		}
		wrapped, err := tx.DataKey(ctx, s.DataKeyID)
		if err != nil {
			return secret.Text{}, false, err
		}
		data, err := seal.UnwrapDataKey(ctx, v.ring, tenantID, wrapped.ID, wrapped.Wrapped)
		if err != nil {
			return secret.Text{}, false, fmt.Errorf("open data key %s: %w", wrapped.ID, err)
		}
		plain, err := data.Open(s.AtRest, atRest(tenantID, ownerID, slot, s.Version))
		if err != nil {
			return secret.Text{}, false, fmt.Errorf("open the secret of %s: %w", ownerID, err)
		}
		return plain, true, nil
	}
	return secret.Text{}, false, nil
}

// dataKey returns the current data key of a tenant, and makes the first one.
func (v *vault) dataKey(ctx context.Context, tx *store.Tx, tenantID string) (*seal.DataKey, error) {
	wrapped, ok, err := tx.CurrentDataKey(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	if ok {
		key, err := seal.UnwrapDataKey(ctx, v.ring, tenantID, wrapped.ID, wrapped.Wrapped)
		if err != nil {
			return nil, fmt.Errorf("open data key %s: %w", wrapped.ID, err)
		}
		return key, nil
	}
	key, err := seal.NewDataKey(tenantID)
	if err != nil {
		return nil, fmt.Errorf("make a data key: %w", err)
	}
	raw, err := key.Wrap(ctx, v.ring)
	if err != nil {
		return nil, fmt.Errorf("wrap a data key: %w", err)
	}
	return key, tx.PutDataKey(ctx, store.WrappedKey{ID: key.ID, Owner: tenantID, Wrapped: raw})
}

// contentKey returns the key that seals for delivery now. It is read in the
// transaction: another replica may have rotated it a moment ago.
func (v *vault) contentKey(ctx context.Context, tx *store.Tx) (seal.ContentKey, error) {
	wrapped, ok, err := tx.CurrentFleetKey(ctx, store.PurposeContent)
	if err != nil {
		return seal.ContentKey{}, err
	}
	if !ok {
		return seal.ContentKey{}, errors.New("there is no content key yet; start a control plane on this database, which makes one")
	}
	return OpenContentKey(ctx, v.ring, wrapped)
}

// OpenContentKey opens a stored content key.
func OpenContentKey(ctx context.Context, ring seal.Keyring, k store.WrappedKey) (seal.ContentKey, error) {
	plain, err := seal.Unwrap(ctx, ring, k.Wrapped, ContentKeyContext(k.ID))
	if err != nil {
		return seal.ContentKey{}, fmt.Errorf("open content key %s: %w", k.ID, err)
	}
	defer plain.Wipe()
	var key seal.ContentKey
	plain.Use(func(b []byte) { key, err = seal.ParseContentKey(k.ID, b) })
	return key, err
}
