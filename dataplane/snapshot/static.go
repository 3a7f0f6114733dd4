package snapshot

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// Static builds a View straight from decoded shards: no control plane, no disk, no
// validation beyond what the builders do. It is for tests and benchmarks of the
// request path, and for tools that look at a configuration.
//
// Each shard is one of the six messages that shards hold; where it belongs follows
// from its own ids. The same shard twice is an error, and so is a builder's. opener
// opens the secrets; nil stands for PlainOpener. The messages become part of the
// View and must not be changed afterwards.
func Static(builders []TenantBuilder, opener Opener, shards ...proto.Message) (*View, error) {
	if opener == nil {
		opener = PlainOpener{}
	}
	c := newChange(nil, builders)
	seen := make(map[string]bool, len(shards))
	for _, m := range shards {
		id, err := c.static(m, opener)
		if err != nil {
			return nil, err
		}
		if seen[id] {
			return nil, fmt.Errorf("shard %s is given twice", id)
		}
		seen[id] = true
	}
	c.next.Identity, c.next.Policy = Position{Epoch: 1, Generation: 1}, Position{Epoch: 1, Generation: 1}
	return c.done(), nil
}

// static puts one shard in and returns a name that no other shard has.
func (c *change) static(m proto.Message, opener Opener) (string, error) {
	switch s := m.(type) {
	case *syncv1.GlobalShard:
		c.global(s)
		return "global", nil
	case *syncv1.TenantShard:
		id := s.GetTenant().GetId()
		return "tenant/" + id, c.tenant(id, s)
	case *syncv1.CredentialShard:
		c.credentials(s.GetTenantId(), s, opener)
		return "cred/" + s.GetTenantId(), nil
	case *syncv1.SubjectRecord:
		c.subject(s.GetKind(), s.GetId(), s)
		return "subject/" + subjectKey(s.GetKind(), s.GetId()), nil
	case *syncv1.KeyRecord:
		return "key/" + s.GetSha256(), c.key(s.GetSha256(), s)
	case *syncv1.IssuerRecord:
		id := s.GetIssuer().GetId()
		c.issuer(id, s)
		return "issuer/" + id, nil
	}
	return "", fmt.Errorf("%T is not the content of a shard", m)
}

// NewStaticHolder returns a Holder that gives v to every request, for tests of the
// packages that take a Holder.
func NewStaticHolder(v *View) *Holder {
	h := new(Holder)
	h.store(v)
	return h
}

// Replace swaps the View of a Holder made by NewStaticHolder, as an update would.
func (h *Holder) Replace(v *View) { h.store(v) }

// PlainOpener takes what stands in the sealed fields for the clear text. It belongs
// to Static; a node that talks to a control plane has its own opener.
type PlainOpener struct{}

// Open returns the sealed bytes as they are. A reference is an error.
func (PlainOpener) Open(_ string, s *syncv1.SealedSecret) (secret.Text, error) {
	if s.GetSecretRef() != "" {
		return secret.Text{}, fmt.Errorf("secret of %s is a reference, which a static view does not resolve", s.GetCredentialId())
	}
	return secret.New(string(s.GetSealed())), nil
}

// OpenProxy returns the sealed password as it is.
func (PlainOpener) OpenProxy(_ string, s *syncv1.SealedSecret) (secret.Text, error) {
	return secret.New(string(s.GetSealedProxy())), nil
}
