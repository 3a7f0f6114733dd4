package controlplane

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/peer"
	"github.com/aidy-gateway/aidy-gateway/shared/seal"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/controlplane/admin"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// keyring returns the root keys of the process. A key file that is not there is
// made: without root keys nothing could be sealed.
func keyring(cfg *Config) (seal.Keyring, error) {
	if !cfg.RootKey.IsZero() {
		ring, err := seal.ParseRootKeys(cfg.RootKey)
		if err != nil {
			return nil, fmt.Errorf("root_key: %w", err)
		}
		return ring, nil
	}
	ring, err := seal.LoadOrCreateKeyFile(cfg.RootKeyFile)
	if err != nil {
		return nil, fmt.Errorf("root_key_file %s: %w", cfg.RootKeyFile, err)
	}
	return ring, nil
}

// fleetContext is what a stored fleet key other than a content key is bound to.
func fleetContext(purpose, id string) seal.Context { return seal.Context{ID: purpose + "/" + id} }

// fleetKeys makes what an empty installation lacks and opens what is there: the
// authority of node certificates, the content key, and the seeds and keys that
// nodes share. Replicas that start at once agree on the first of each. An error
// here usually means that the root key is not the one the database was made with.
func fleetKeys(ctx context.Context, st *store.Store, ring seal.Keyring) (*peer.CA, error) {
	ca, err := authority(ctx, st, ring)
	if err != nil {
		return nil, err
	}
	content, err := admin.NewContentKey(ctx, ring)
	if err != nil {
		return nil, err
	}
	if _, err := st.AddFleetKey(ctx, content, true); err != nil {
		return nil, err
	}
	for _, purpose := range []string{store.PurposePrefixSeed, store.PurposeMAC} {
		if err := firstKey(ctx, st, ring, purpose); err != nil {
			return nil, err
		}
	}
	if _, err := (keys{st, ring}).ContentKeys(ctx); err != nil {
		return nil, rootKeyError(err)
	}
	return ca, nil
}

func authority(ctx context.Context, st *store.Store, ring seal.Keyring) (*peer.CA, error) {
	found, err := st.FleetKeys(ctx, store.PurposeCA)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		fresh, err := peer.NewCA(time.Now())
		if err != nil {
			return nil, fmt.Errorf("make the authority of node certificates: %w", err)
		}
		wrapped, err := fresh.Seal(ctx, ring)
		if err != nil {
			return nil, fmt.Errorf("seal the authority of node certificates: %w", err)
		}
		hash := fresh.Hash()
		stored, err := st.AddFleetKey(ctx, store.WrappedKey{ID: fmt.Sprintf("ca-%x", hash[:8]), Owner: store.PurposeCA, Wrapped: wrapped, Public: fresh.DER()}, true)
		if err != nil {
			return nil, err
		}
		found = []store.WrappedKey{stored} // another replica's, if it was first
	}
	ca, err := peer.OpenCA(ctx, ring, found[0].Wrapped)
	if err != nil {
		return nil, rootKeyError(fmt.Errorf("open the authority of node certificates: %w", err))
	}
	return ca, nil
}

func firstKey(ctx context.Context, st *store.Store, ring seal.Keyring, purpose string) error {
	raw := make([]byte, seal.KeySize)
	_, _ = rand.Read(raw) // never fails, see crypto/rand
	var name [8]byte
	_, _ = rand.Read(name[:])
	id := fmt.Sprintf("%s-%x", purpose, name)
	wrapped, err := seal.Wrap(ctx, ring, secret.FromBytes(raw), fleetContext(purpose, id))
	if err != nil {
		return fmt.Errorf("wrap the %s key: %w", purpose, err)
	}
	_, err = st.AddFleetKey(ctx, store.WrappedKey{ID: id, Owner: purpose, Wrapped: wrapped}, true)
	return err
}

// rootKeyError says what to do about a key that does not open.
func rootKeyError(err error) error {
	if errors.Is(err, seal.ErrUnknownKey) || errors.Is(err, seal.ErrOpen) {
		return fmt.Errorf("%w; this database was made with another root key: start with that one in root_key or root_key_file", err)
	}
	return err
}

// keys gives nodes the content keys and fleet secrets that are alive.
type keys struct {
	store *store.Store
	ring  seal.Keyring
}

// keysAlive is how many keys of a purpose nodes are given: the current one and the
// one before.
const keysAlive = 2

// ContentKeys implements distribute.Keys.
func (k keys) ContentKeys(ctx context.Context) (*syncv1.ContentKeys, error) {
	all, err := k.store.FleetKeys(ctx, "")
	if err != nil {
		return nil, err
	}
	out := &syncv1.ContentKeys{}
	for _, stored := range all {
		switch stored.Owner {
		case store.PurposeContent:
			if len(out.GetKeys()) == keysAlive {
				continue
			}
			key, err := admin.OpenContentKey(ctx, k.ring, stored)
			if err != nil {
				return nil, err
			}
			plain := key.Key()
			out.Keys = append(out.Keys, &syncv1.ContentKey{Id: key.ID, Key: []byte(plain.Reveal())})
			plain.Wipe()
		case store.PurposeMAC:
			if len(out.GetMacKeys()) == keysAlive {
				continue
			}
			raw, err := k.open(ctx, stored)
			if err != nil {
				return nil, err
			}
			out.MacKeys = append(out.MacKeys, &syncv1.ContentKey{Id: stored.ID, Key: raw})
		case store.PurposePrefixSeed:
			if out.GetPrefixSeed() != nil {
				continue
			}
			if out.PrefixSeed, err = k.open(ctx, stored); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (k keys) open(ctx context.Context, stored store.WrappedKey) ([]byte, error) {
	plain, err := seal.Unwrap(ctx, k.ring, stored.Wrapped, fleetContext(stored.Owner, stored.ID))
	if err != nil {
		return nil, fmt.Errorf("open the %s key %s: %w", stored.Owner, stored.ID, err)
	}
	defer plain.Wipe()
	return []byte(plain.Reveal()), nil
}
