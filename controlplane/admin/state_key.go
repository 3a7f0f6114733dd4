package admin

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/aidy-gateway/aidy-gateway/shared/seal"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

const (
	// stateKeyVersion is the version that every state key is sealed under: clients
	// hold what was made with the key, so there is never another.
	stateKeyVersion = 1

	// stateKeysAtOnce is for how many tenants one change makes keys.
	stateKeysAtOnce = 100
)

// EnsureStateKeys makes the state key of every tenant that has none: those made by
// a release that knew no such keys. Replicas that do so at once agree.
func (a *API) EnsureStateKeys(ctx context.Context) error {
	for {
		var tenants []string
		if err := a.store.Read(ctx, func(tx *store.Tx) (err error) {
			tenants, err = tx.WithoutStateKey(ctx, stateKeysAtOnce)
			return err
		}); err != nil || len(tenants) == 0 {
			return err
		}
		done, err := a.store.Commit(ctx, store.Change{
			Actor: access.System().Store(), Message: "state keys of tenants that had none", Rollout: "immediate",
		}, func(tx *store.Tx) error {
			// Asked again behind the gate: another replica may have been first.
			missing, err := tx.WithoutStateKey(ctx, stateKeysAtOnce)
			if err != nil {
				return err
			}
			for _, id := range missing {
				if err := a.vault.makeStateKey(ctx, tx, id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("make state keys: %w", err)
		}
		a.fleet.Poke(done.Generation)
	}
}

// ensureStateKey makes the state key of a tenant that has none.
func (v *vault) ensureStateKey(ctx context.Context, tx *store.Tx, tenantID string) error {
	has, err := tx.HasStateKey(ctx, tenantID)
	if err != nil || has {
		return err
	}
	return v.makeStateKey(ctx, tx, tenantID)
}

func (v *vault) makeStateKey(ctx context.Context, tx *store.Tx, tenantID string) error {
	raw := make([]byte, seal.KeySize)
	_, _ = rand.Read(raw) // never fails, see crypto/rand
	key := secret.FromBytes(raw)
	defer key.Wipe()
	return v.put(ctx, tx, tenantID, tenantID, store.SlotState, stateKeyVersion, key)
}
