package snapshot

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

// decodeShard reads what lies under a key. It fails if the bytes are no such
// shard, belong under another key, or need a feature this release does not know.
// Fields this release does not know are kept out of the way; unknown names the
// first of them, empty for none.
func decodeShard(name shard.Name, payload []byte) (m proto.Message, unknown string, err error) {
	m, err = configcheck.Decode(name.String(), payload)
	if err != nil {
		return nil, "", err
	}
	if needs := m.(interface{ GetRequiredFeatures() uint64 }).GetRequiredFeatures() &^ configcheck.KnownFeatures; needs != 0 {
		return nil, "", fmt.Errorf("needs features %#x that this release does not know; update the node", needs)
	}
	if err := belongs(name, m); err != nil {
		return nil, "", err
	}
	return m, unknownField(m.ProtoReflect()), nil
}

var errWrongKey = errors.New("content belongs under another key")

func belongs(name shard.Name, m proto.Message) error {
	ok := true
	switch m := m.(type) {
	case *syncv1.TenantShard:
		ok = m.GetTenant().GetId() == name.ID
	case *syncv1.CredentialShard:
		ok = m.GetTenantId() == name.ID
	case *syncv1.SubjectRecord:
		ok = m.GetId() == name.ID && m.GetKind() == subjectKindOf(name.Subject)
	case *syncv1.KeyRecord:
		ok = m.GetSha256() == name.ID
	case *syncv1.IssuerRecord:
		ok = m.GetIssuer().GetId() == name.ID
	}
	if !ok {
		return errWrongKey
	}
	return nil
}

func subjectKindOf(k shard.SubjectKind) syncv1.SubjectKind {
	switch k {
	case shard.SubjectTenant:
		return syncv1.SubjectKind_SUBJECT_KIND_TENANT
	case shard.SubjectProject:
		return syncv1.SubjectKind_SUBJECT_KIND_PROJECT
	case shard.SubjectConsumer:
		return syncv1.SubjectKind_SUBJECT_KIND_CONSUMER
	}
	return syncv1.SubjectKind_SUBJECT_KIND_UNSPECIFIED
}

func shardSubject(k syncv1.SubjectKind) shard.SubjectKind {
	switch k {
	case syncv1.SubjectKind_SUBJECT_KIND_TENANT:
		return shard.SubjectTenant
	case syncv1.SubjectKind_SUBJECT_KIND_PROJECT:
		return shard.SubjectProject
	}
	return shard.SubjectConsumer
}

// unknownField returns the path of a field in m that this release does not know;
// empty if there is none. The number of the field ends the path.
func unknownField(m protoreflect.Message) (path string) {
	if raw := m.GetUnknown(); len(raw) > 0 {
		num, _, _ := protowire.ConsumeTag(raw)
		return fmt.Sprintf("%d", num)
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		below := ""
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() == nil {
				return true
			}
			v.Map().Range(func(_ protoreflect.MapKey, e protoreflect.Value) bool {
				below = unknownField(e.Message())
				return below == ""
			})
		case fd.Message() == nil:
			return true
		case fd.IsList():
			for i := 0; i < v.List().Len() && below == ""; i++ {
				below = unknownField(v.List().Get(i).Message())
			}
		default:
			below = unknownField(v.Message())
		}
		if below != "" {
			path = string(fd.Name()) + "." + below
		}
		return path == ""
	})
	return path
}
