package configcheck

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// MaxViolations is how many violations one shard gets; further ones are counted
// in a last violation of the rule "more".
const MaxViolations = 64

const maxText = 512 // bytes of any text in a violation

// Kind returns the name under which violations, diffs and references speak of a
// resource: the name of its message, such as "UpstreamCredential".
func Kind(m proto.Message) string {
	if m == nil {
		return ""
	}
	return string(m.ProtoReflect().Descriptor().Name())
}

// list collects the violations of one shard.
type list struct {
	shardKey string
	found    []*syncv1.Violation
	more     int
}

// add records a violation of the resource who. hint says what to do.
func (l *list) add(who subject, path, rule, format string, args ...any) {
	if len(l.found) >= MaxViolations {
		l.more++
		return
	}
	l.found = append(l.found, &syncv1.Violation{
		Kind:      who.kind,
		Name:      clip(who.name),
		FieldPath: clip(path),
		Rule:      rule,
		Hint:      clip(fmt.Sprintf(format, args...)),
		ShardKey:  clip(l.shardKey),
	})
}

func (l *list) done() []*syncv1.Violation {
	if l.more > 0 {
		l.found = append(l.found, &syncv1.Violation{
			Rule:     "more",
			Hint:     fmt.Sprintf("%d further violations are not listed; mend these first", l.more),
			ShardKey: clip(l.shardKey),
		})
	}
	return l.found
}

// subject is the resource that a violation speaks of.
type subject struct{ kind, name string }

// subjectOf names m by its name, else by its id.
func subjectOf(m proto.Message) subject {
	s := subject{kind: Kind(m)}
	fields := m.ProtoReflect().Descriptor().Fields()
	for _, name := range [...]string{"name", "model", "plugin_key", "id", "credential_id"} {
		fd := fields.ByTextName(name)
		if fd == nil || fd.Kind() != stringKind || fd.IsList() {
			continue
		}
		if s.name = m.ProtoReflect().Get(fd).String(); s.name != "" {
			return s
		}
	}
	return s
}

// clip makes text safe to send: valid UTF-8 and bounded.
func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// quote shows a value of the author's in a hint.
func quote(s string) string {
	if len(s) > 96 {
		s = s[:96] + "…"
	}
	return fmt.Sprintf("%q", strings.ToValidUTF8(s, "\uFFFD"))
}
