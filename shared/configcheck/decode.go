package configcheck

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

const (
	// MaxShardBytes is the size of the largest shard that is stored or loaded.
	MaxShardBytes = 4 << 20
	// maxNesting bounds the depth of messages within a shard. The deepest that
	// is allowed is a condition: two messages for each of its levels.
	maxNesting = 64
)

// Decode reads the bytes of the shard of that key. Fields that this release does
// not know are kept aside by the message and ignored. It fails if the key is
// malformed or the bytes are too many, too deeply nested or no such message.
func Decode(key string, payload []byte) (proto.Message, error) {
	n, err := shard.Parse(key)
	if err != nil {
		return nil, err
	}
	if len(payload) > MaxShardBytes {
		return nil, fmt.Errorf("shard %s has %d bytes; %d is the most", key, len(payload), MaxShardBytes)
	}
	var m proto.Message
	switch n.Kind {
	case shard.KindGlobal:
		m = &syncv1.GlobalShard{}
	case shard.KindTenant:
		m = &syncv1.TenantShard{}
	case shard.KindCredentials:
		m = &syncv1.CredentialShard{}
	case shard.KindSubject:
		m = &syncv1.SubjectRecord{}
	case shard.KindKey:
		m = &syncv1.KeyRecord{}
	case shard.KindIssuer:
		m = &syncv1.IssuerRecord{}
	}
	if err := (proto.UnmarshalOptions{RecursionLimit: maxNesting}).Unmarshal(payload, m); err != nil {
		return nil, fmt.Errorf("decode shard %s: %w", key, err)
	}
	return m, nil
}

// Put decodes a shard into the view. After the last Put, call Index.
func (v *View) Put(key string, payload []byte) error {
	m, err := Decode(key, payload)
	if err != nil {
		return err
	}
	n, _ := shard.Parse(key)
	switch m := m.(type) {
	case *syncv1.GlobalShard:
		v.GlobalShard = m
	case *syncv1.TenantShard:
		v.Tenants[n.ID] = m
	case *syncv1.CredentialShard:
		v.Credentials[n.ID] = m
	case *syncv1.SubjectRecord:
		v.Subjects[SubjectKey{subjectKindOf(n.Subject), n.ID}] = m
	case *syncv1.KeyRecord:
		v.Keys[n.ID] = m
	case *syncv1.IssuerRecord:
		v.Issuers[n.ID] = m
	}
	return nil
}
