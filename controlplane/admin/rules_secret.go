package admin

import (
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// Secrets come in by value and are never stored, shown or logged so. Before a row
// is written its fingerprint and version are set; after it the secret is sealed.
// A secret that equals the stored one changes nothing.

// credentialRules keep the secret of a credential and the password of its proxy.
// Both are sealed under one version, which nodes open both with.
func credentialRules() rules {
	return rules{
		derived: []string{"secret_fingerprint", "secret_version"},
		before: func(w *write, old, m proto.Message) error {
			was, _ := old.(*configv1.UpstreamCredential)
			is, _ := m.(*configv1.UpstreamCredential)
			return w.credentialBefore(was, is)
		},
		after: func(w *write, old, m proto.Message) error {
			was, _ := old.(*configv1.UpstreamCredential)
			is, _ := m.(*configv1.UpstreamCredential)
			if is.GetSecretVersion() == was.GetSecretVersion() {
				return nil
			}
			return w.reseal(is.GetTenantId(), is.GetId(), is.GetSecretVersion(),
				slotChange{store.SlotSecret, is.GetSecret(), is.GetSecretFingerprint() != "" && is.GetSecret() == ""},
				slotChange{store.SlotProxy, is.GetProxy().GetSecret(), is.GetProxy().GetSecretFingerprint() != "" && is.GetProxy().GetSecret() == ""})
		},
		gone: func(w *write, old proto.Message) error {
			return w.tx.DeleteSecrets(w.ctx, store.TenantID(old), store.ID(old))
		},
	}
}

func (w *write) credentialBefore(was, is *configv1.UpstreamCredential) error {
	if is.GetSecret() != "" && is.GetSecretRef() != "" && (was == nil || w.mask == nil || w.named("secret_ref")) {
		return wrong(is, "secret_ref", "credential.secret", "give the secret by value or by reference, not both")
	}
	if isAPIKey(is) && strings.ContainsFunc(is.GetSecret(), unicode.IsControl) {
		return wrong(is, "secret", "credential.secret", "the secret holds control characters, perhaps a line end at its close; nodes send it in a header, which cannot carry them")
	}
	if ref := is.GetSecretRef(); ref != "" && ref != was.GetSecretRef() && !w.actor.AllTenants() {
		// What a node has in its environment and folder belongs to all tenants, and a
		// provider of one tenant could be sent the secret of another.
		return access.Denied(access.WriteConfig, "credential %q: secret_ref reads a secret of the node, which belongs to all tenants, and this account is limited to some; give the secret by value, or ask an administrator of all tenants", is.GetName())
	}
	is.SecretFingerprint, is.SecretVersion = was.GetSecretFingerprint(), was.GetSecretVersion()
	changed := false
	switch {
	case is.GetSecret() != "":
		is.SecretRef = "" // the value takes the place of a reference that was there
		same, err := w.sameSecret(was.GetTenantId(), was.GetId(), store.SlotSecret, was.GetSecretFingerprint(), is.GetSecret())
		if err != nil {
			return err
		}
		if same {
			is.Secret = ""
			break
		}
		is.SecretFingerprint, changed = secret.New(is.GetSecret()).Fingerprint(), true
	case is.GetSecretRef() != "":
		changed = is.GetSecretRef() != was.GetSecretRef() || was.GetSecretFingerprint() != ""
		is.SecretFingerprint = ""
	case slices.Contains(w.mask, "secret"), was.GetSecretRef() != "": // named and empty, or the reference went
		changed = was.GetSecretFingerprint() != "" || was.GetSecretRef() != ""
		is.SecretFingerprint = ""
	}
	proxyChanged, err := w.proxyBefore(was.GetTenantId(), was.GetId(), was.GetProxy(), is.GetProxy())
	if err != nil {
		return err
	}
	if changed || proxyChanged {
		is.SecretVersion++
	}
	return nil
}

// isAPIKey reports a secret that is sent as it stands.
func isAPIKey(c *configv1.UpstreamCredential) bool {
	switch c.GetKind() {
	case configv1.CredentialKind_CREDENTIAL_KIND_UNSPECIFIED, configv1.CredentialKind_CREDENTIAL_KIND_API_KEY:
		return true
	}
	return false
}

// proxyBefore sets the fingerprint of a proxy's password and reports whether the
// password changes.
func (w *write) proxyBefore(tenantID, ownerID string, was, is *configv1.EgressProxy) (bool, error) {
	had := was.GetSecretFingerprint()
	if is == nil {
		return had != "", nil
	}
	is.SecretFingerprint = had
	if is.GetSecret() != "" {
		same, err := w.sameSecret(tenantID, ownerID, store.SlotProxy, had, is.GetSecret())
		if err != nil {
			return false, err
		}
		if same {
			is.Secret = ""
			return false, nil
		}
		is.SecretFingerprint = secret.New(is.GetSecret()).Fingerprint()
		return true, nil
	}
	if slices.Contains(w.mask, "proxy.secret") { // named and empty
		is.SecretFingerprint = ""
		return had != "", nil
	}
	return false, nil
}

// sameSecret reports whether a slot holds this very secret already.
func (w *write) sameSecret(tenantID, ownerID, slot, fingerprint, value string) (bool, error) {
	given := secret.New(value)
	if fingerprint == "" || given.Fingerprint() != fingerprint {
		return false, nil
	}
	stored, ok, err := w.api.vault.open(w.ctx, w.tx, tenantID, ownerID, slot)
	if err != nil || !ok {
		return false, err
	}
	defer stored.Wipe()
	return stored.Equal(given), nil
}

// upstreamRules keep the password of an upstream's proxy.
func upstreamRules() rules {
	return rules{
		before: func(w *write, old, m proto.Message) error {
			was, _ := old.(*configv1.Upstream)
			is, _ := m.(*configv1.Upstream)
			_, err := w.proxyBefore(was.GetTenantId(), was.GetId(), was.GetProxy(), is.GetProxy())
			return err
		},
		after: func(w *write, old, m proto.Message) error {
			was, _ := old.(*configv1.Upstream)
			is, _ := m.(*configv1.Upstream)
			password, had, has := is.GetProxy().GetSecret(), was.GetProxy().GetSecretFingerprint(), is.GetProxy().GetSecretFingerprint()
			switch {
			case password != "":
				version, err := w.slotVersion(is.GetTenantId(), is.GetId())
				if err != nil {
					return err
				}
				return w.api.vault.put(w.ctx, w.tx, is.GetTenantId(), is.GetId(), store.SlotProxy, version+1, secret.New(password))
			case had != "" && has == "":
				return w.tx.DeleteSecrets(w.ctx, is.GetTenantId(), is.GetId())
			}
			return nil
		},
		gone: func(w *write, old proto.Message) error {
			return w.tx.DeleteSecrets(w.ctx, store.TenantID(old), store.ID(old))
		},
	}
}

func (w *write) slotVersion(tenantID, ownerID string) (int64, error) {
	stored, err := w.tx.Secrets(w.ctx, tenantID)
	if err != nil {
		return 0, err
	}
	for _, s := range stored {
		if s.OwnerID == ownerID {
			return s.Version, nil
		}
	}
	return 0, nil
}

// slotChange is what a slot shall hold: a new value, or what it holds, or nothing.
type slotChange struct {
	slot  string
	value string
	keep  bool
}

// reseal brings every slot of an owner to a version.
func (w *write) reseal(tenantID, ownerID string, version int64, changes ...slotChange) error {
	plain := map[string]secret.Text{}
	for _, c := range changes {
		switch {
		case c.value != "":
			plain[c.slot] = secret.New(c.value)
		case c.keep:
			kept, ok, err := w.api.vault.open(w.ctx, w.tx, tenantID, ownerID, c.slot)
			if err != nil {
				return err
			}
			if ok {
				plain[c.slot] = kept
			}
		}
	}
	if err := w.tx.DeleteSecrets(w.ctx, tenantID, ownerID); err != nil {
		return err
	}
	for _, c := range changes {
		if value, ok := plain[c.slot]; ok {
			if err := w.api.vault.put(w.ctx, w.tx, tenantID, ownerID, c.slot, version, value); err != nil {
				return err
			}
			value.Wipe()
		}
	}
	return nil
}
