package snapshot

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/seal"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
)

var stateOwner = stateid.Owner{Scope: "crd_1", Upstream: "upr_1"}

func stateEdit(t testing.TB, k seal.ContentKey, tenant, raw string, secrets ...*syncv1.SealedSecret) edit {
	return edit{key: shard.Credentials(tenant), message: &syncv1.CredentialShard{
		TenantId: tenant, Secrets: secrets, SealedStateKey: sealed(t, k, tenant, tenant, 1, raw),
	}}
}

func stateKeyOf(t testing.TB, v *View, tenant string) *stateid.Key {
	t.Helper()
	k, ok := v.StateKey(tenant)
	if !ok {
		t.Fatalf("tenant %s has no state key", tenant)
	}
	return k
}

// Clients hold ids for as long as the objects live: whatever happens to credentials,
// to the content key and to the node, they open, and for their tenant alone.
func TestStateKeyOutlivesCredentialsContentKeysAndRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dir := newPlane(), t.TempDir()
		k, wire := contentKey(t)
		p.keys = &syncv1.ContentKeys{Keys: []*syncv1.ContentKey{wire}}
		raw, other := strings.Repeat("a", stateid.KeySize), strings.Repeat("b", stateid.KeySize)
		p.commit(tenantEdit("t1"), subjectEdit("t1"), stateEdit(t, k, "t1", raw), tenantEdit("t2"), subjectEdit("t2"), stateEdit(t, k, "t2", other))
		n := start(t, p, options{dir: dir})
		n.at(t, p)
		id := stateKeyOf(t, n.settled(), "t1").Wrap("resp_1", stateOwner)
		check := func(when string) {
			t.Helper()
			v := n.settled()
			if got, o, ok := stateKeyOf(t, v, "t1").Unwrap(id); !ok || got != "resp_1" || o != stateOwner {
				t.Errorf("%s: unwrapped to %q of %+v, %v", when, got, o, ok)
			}
			if _, _, ok := stateKeyOf(t, v, "t2").Unwrap(id); ok {
				t.Errorf("%s: another tenant unwraps the id", when)
			}
		}
		check("at first")

		p.commit(stateEdit(t, k, "t1", raw, &syncv1.SealedSecret{CredentialId: "c1", Version: 2, Sealed: sealed(t, k, "t1", "c1", 2, "sk")}))
		n.at(t, p)
		check("with another credential")

		fresh, freshWire := contentKey(t)
		p.keys = &syncv1.ContentKeys{Keys: []*syncv1.ContentKey{freshWire, wire}}
		p.cut(true)
		p.cut(false)
		p.commit(stateEdit(t, fresh, "t1", raw))
		time.Sleep(2 * time.Minute) // the node connects again and gets the new keys
		n.at(t, p)
		check("sealed anew")

		p.cut(true)
		n.stop()
		n = start(t, p, options{dir: dir})
		check("after a restart without the control plane")
	})
}

func TestStateKeyIsGoneWithItsShard(t *testing.T) {
	for name, deletion := range map[string]edit{
		"the key":   credEdit("t1", &syncv1.SealedSecret{CredentialId: "c2", Version: 1, Sealed: []byte("x")}),
		"the shard": gone(credEdit("t1")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane()
				k, wire := contentKey(t)
				p.keys = &syncv1.ContentKeys{Keys: []*syncv1.ContentKey{wire}}
				p.commit(tenantEdit("t1"), subjectEdit("t1"), stateEdit(t, k, "t1", strings.Repeat("a", stateid.KeySize)))
				n := start(t, p, options{})
				n.at(t, p)
				pinned := n.holder.Load() // a request holds this View
				key := stateKeyOf(t, pinned, "t1")
				id := key.Wrap("resp_1", stateOwner)
				p.commit(deletion)
				n.at(t, p)
				if _, _, ok := key.Unwrap(id); ok {
					t.Error("the key still opens ids")
				}
				for _, v := range []*View{pinned, n.holder.Load()} {
					if _, ok := v.StateKey("t1"); ok {
						t.Error("a view still gives the key")
					}
				}
			})
		})
	}
}

// An older control plane makes no key, and a damaged one is none.
func TestWithoutStateKeyThereIsNone(t *testing.T) {
	t.Parallel()
	v, err := Static(nil, nil,
		&syncv1.CredentialShard{TenantId: "none"},
		&syncv1.CredentialShard{TenantId: "short", SealedStateKey: []byte("short")},
		&syncv1.CredentialShard{TenantId: "whole", SealedStateKey: []byte(strings.Repeat("k", stateid.KeySize))},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"none", "short", "unknown"} {
		if k, ok := v.StateKey(tenant); ok || k != nil {
			t.Errorf("tenant %s has a state key", tenant)
		}
	}
	first, again := stateKeyOf(t, v, "whole"), stateKeyOf(t, v, "whole")
	if first != again {
		t.Error("the key is derived anew for each request")
	}
}
