package admin

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// maxNesting bounds recursion into messages; contracts nest less.
const maxNesting = 64

// redact puts fingerprints in the place of secrets by value.
func redact(m protoreflect.Message, depth int) {
	if depth > maxNesting {
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case isSecret(fd):
			m.Set(fd, protoreflect.ValueOfString(secret.New(v.String()).Fingerprint()))
		case fd.IsMap():
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				redact(v.List().Get(i).Message(), depth+1)
			}
		case !fd.IsList() && fd.Message() != nil:
			redact(v.Message(), depth+1)
		}
		return true
	})
}

// isSecret reports whether a field holds a secret by value.
func isSecret(fd protoreflect.FieldDescriptor) bool {
	if fd.Kind() != protoreflect.StringKind || fd.IsList() || fd.IsMap() {
		return false
	}
	switch fd.FullName() {
	case "aidy.config.v1.UpstreamCredential.secret", "aidy.config.v1.EgressProxy.secret", "aidy.config.v1.LegacyToken.token":
		return true
	}
	options, ok := fd.Options().(*descriptorpb.FieldOptions)
	return ok && options.GetDebugRedact()
}
