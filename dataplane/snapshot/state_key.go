package snapshot

import (
	"bytes"
	"sync/atomic"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
)

// stateKeyVersion is the version that every state key is sealed under.
const stateKeyVersion = 1

// stateKey is the state key of a tenant, opened and derived at first use.
type stateKey struct {
	secret  *Secret
	derived atomic.Pointer[stateid.Key]
}

// newStateKey returns nil for a shard without a key, as control planes of older
// releases make it, and old if the key did not change.
func newStateKey(tenantID string, m *syncv1.CredentialShard, o Opener, old *stateKey) *stateKey {
	sealed := m.GetSealedStateKey()
	if len(sealed) == 0 {
		return nil
	}
	if old != nil && bytes.Equal(old.secret.sealed.GetSealed(), sealed) {
		return old
	}
	return &stateKey{secret: newSecret(tenantID, &syncv1.SealedSecret{CredentialId: tenantID, Sealed: sealed, Version: stateKeyVersion}, o, nil)}
}

func (k *stateKey) load() (*stateid.Key, bool) {
	if k.secret.dropped.Load() {
		return nil, false
	}
	if d := k.derived.Load(); d != nil {
		return d, true
	}
	raw, err := k.secret.Open()
	if err != nil {
		return nil, false
	}
	d, err := stateid.NewKey(raw)
	if err != nil {
		return nil, false
	}
	// Of several that derive at once one is kept, so that dropping finds it.
	if !k.derived.CompareAndSwap(nil, d) {
		if first := k.derived.Load(); first != nil {
			return first, true
		}
	}
	if k.secret.dropped.Load() {
		k.drop()
		return nil, false
	}
	return d, true
}

// drop overwrites the key. Ids made with it are not told from others any more.
func (k *stateKey) drop() {
	k.secret.drop()
	if d := k.derived.Swap(nil); d != nil {
		d.Wipe()
	}
}

// StateKey returns what wraps and unwraps the ids of a tenant's stored objects.
// ok is false, and the key nil, if the key is not on this node, comes from a control
// plane that made none, or does not open: no ids are to be wrapped then. Safe for
// concurrent use.
func (v *View) StateKey(tenantID string) (key *stateid.Key, ok bool) {
	s, found := v.secrets.get(tenantID)
	if !found || s.state == nil {
		return nil, false
	}
	return s.state.load()
}
