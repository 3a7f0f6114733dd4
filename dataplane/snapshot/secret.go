package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// Opener gives the clear text of a secret: it opens sealed bytes with the content
// keys of the fleet, or resolves a reference within what the node's own
// configuration allows. Its errors name no secret.
type Opener interface {
	Open(tenantID string, s *syncv1.SealedSecret) (secret.Text, error)
	OpenProxy(tenantID string, s *syncv1.SealedSecret) (secret.Text, error)
}

// ErrSecretGone says that a credential was deleted: its clear text is no longer on
// this node, not even for a request that pinned an older View.
var ErrSecretGone = errors.New("the credential was deleted")

// Secret is one secret, opened at first use and held in memory only.
type Secret struct {
	Disabled bool
	Expire   time.Time // zero for none
	Version  int64

	tenantID string
	sealed   *syncv1.SealedSecret
	opener   Opener
	opened   atomic.Pointer[secret.Text]
	proxy    atomic.Pointer[secret.Text]
	dropped  atomic.Bool
}

func newSecret(tenantID string, m *syncv1.SealedSecret, o Opener, old *Secret) *Secret {
	s := &Secret{
		Disabled: m.GetDisabled(),
		Expire:   timeOf(m.GetExpireTime().GetSeconds(), m.GetExpireTime().GetNanos()),
		Version:  m.GetVersion(),
		tenantID: tenantID,
		sealed:   m,
		opener:   o,
	}
	if old != nil && old.Version == s.Version && old.sealed.GetSecretRef() == m.GetSecretRef() &&
		bytes.Equal(old.sealed.GetSealed(), m.GetSealed()) {
		s.opened.Store(old.opened.Load())
	}
	if old != nil && bytes.Equal(old.sealed.GetSealedProxy(), m.GetSealedProxy()) {
		s.proxy.Store(old.proxy.Load())
	}
	return s
}

// Open returns the secret in clear text. The first call opens it, later ones find
// it in memory. It fails with ErrSecretGone once the credential is deleted. Safe
// for concurrent use.
func (s *Secret) Open() (secret.Text, error) {
	return s.openOnce(&s.opened, func() (secret.Text, error) { return s.opener.Open(s.tenantID, s.sealed) })
}

// HasProxy reports whether the credential's own egress proxy has a password.
func (s *Secret) HasProxy() bool { return len(s.sealed.GetSealedProxy()) > 0 }

// OpenProxy returns the password of the egress proxy.
func (s *Secret) OpenProxy() (secret.Text, error) {
	return s.openOnce(&s.proxy, func() (secret.Text, error) { return s.opener.OpenProxy(s.tenantID, s.sealed) })
}

func (s *Secret) openOnce(p *atomic.Pointer[secret.Text], open func() (secret.Text, error)) (secret.Text, error) {
	if s.dropped.Load() {
		return secret.Text{}, ErrSecretGone
	}
	if t := p.Load(); t != nil {
		return *t, nil
	}
	t, err := open()
	if err != nil {
		return secret.Text{}, fmt.Errorf("open secret: %w", err)
	}
	p.Store(&t)
	// A drop that ran since the check above found nothing to wipe.
	if s.dropped.Load() {
		wipe(p)
		return secret.Text{}, ErrSecretGone
	}
	return t, nil
}

// drop overwrites the clear text. Calls of Open fail from now on.
func (s *Secret) drop() {
	s.dropped.Store(true)
	wipe(&s.opened)
	wipe(&s.proxy)
}

func wipe(p *atomic.Pointer[secret.Text]) {
	if t := p.Swap(nil); t != nil {
		t.Wipe()
	}
}
