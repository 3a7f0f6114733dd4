package compile

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

const (
	// MaxDiff is how many changed fields of one resource Diff lists.
	MaxDiff = 500
	// maxValue bounds a shown value in bytes.
	maxValue = 1024
)

// Diff returns the fields that differ between two states of one resource, sorted
// by path. old is nil for a new resource, new for a deleted one. Secrets appear
// as fingerprints, long values cut; etag and times of writing are left out.
func Diff(old, new proto.Message) []*adminv1.FieldChange {
	before, after := map[string]string{}, map[string]string{}
	about, action := new, "update"
	if present(old) {
		flatten(before, "", old.ProtoReflect(), 0)
	} else {
		action = "create"
	}
	if present(new) {
		flatten(after, "", new.ProtoReflect(), 0)
	} else {
		about, action = old, "delete"
	}
	if !present(about) {
		return nil
	}
	var paths []string
	for p, v := range before {
		if w, ok := after[p]; !ok || v != w {
			paths = append(paths, p)
		}
	}
	for p := range after {
		if _, ok := before[p]; !ok {
			paths = append(paths, p)
		}
	}
	slices.SortFunc(paths, comparePaths)
	var out []*adminv1.FieldChange
	for _, p := range paths[:min(len(paths), MaxDiff)] {
		out = append(out, &adminv1.FieldChange{
			Kind: configcheck.Kind(about), Id: textOf(about, "id"), Name: nameOf(about), Action: action,
			FieldPath: p, Before: cut(before[p]), After: cut(after[p]),
		})
	}
	return out
}

func present(m proto.Message) bool { return m != nil && m.ProtoReflect().IsValid() }

// comparePaths sorts paths as people read them: list positions as numbers.
func comparePaths(a, b string) int {
	for a != "" && b != "" {
		if n, m := digits(a), digits(b); n > 0 && m > 0 {
			x, _ := strconv.Atoi(a[:n])
			y, _ := strconv.Atoi(b[:m])
			if x != y {
				return cmp.Compare(x, y)
			}
			a, b = a[n:], b[m:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// flatten writes every set field below m as path and text.
func flatten(out map[string]string, prefix string, m protoreflect.Message, depth int) {
	if depth > maxDepth {
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		path := prefix + string(fd.Name())
		switch {
		case depth == 0 && bookkeeping(fd.Name()):
		case fd.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				at := fmt.Sprintf("%s[%q]", path, k.String())
				if fd.MapValue().Message() != nil {
					message(out, at, v.Message(), depth)
				} else {
					out[at] = text(fd.MapValue(), v)
				}
				return true
			})
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				message(out, fmt.Sprintf("%s[%d]", path, i), v.List().Get(i).Message(), depth)
			}
		case fd.IsList():
			parts := make([]string, v.List().Len())
			for i := range parts {
				parts[i] = text(fd, v.List().Get(i))
			}
			out[path] = "[" + strings.Join(parts, ", ") + "]"
		case fd.Message() != nil:
			message(out, path, v.Message(), depth)
		default:
			out[path] = text(fd, v)
		}
		return true
	})
}

func message(out map[string]string, path string, m protoreflect.Message, depth int) {
	switch v := m.Interface().(type) {
	case *timestamppb.Timestamp:
		out[path] = v.AsTime().Format(time.RFC3339Nano)
		return
	case *structpb.Struct:
		// protojson spaces its output at random; the structure's own order is not
		// kept either, so the text is made here.
		out[path] = structText(v)
		return
	}
	before := len(out)
	flatten(out, path+".", m, depth+1)
	if len(out) == before {
		out[path] = "{}" // present and empty is not absent
	}
}

func text(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch fd.Kind() {
	case protoreflect.EnumKind:
		if ev := fd.Enum().Values().ByNumber(v.Enum()); ev != nil {
			return string(ev.Name())
		}
		return strconv.Itoa(int(v.Enum()))
	case protoreflect.BytesKind:
		return hex.EncodeToString(v.Bytes())
	case protoreflect.StringKind:
		switch {
		case secretField(fd):
			return "fingerprint:" + secret.New(v.String()).Fingerprint()
		case fd.Name() == "sha256":
			// Of a token that people chose, the whole hash would be too much.
			return "sha256:" + v.String()[:min(8, len(v.String()))]
		}
		return v.String()
	}
	return fmt.Sprint(v.Interface())
}

func structText(s *structpb.Struct) string {
	var b strings.Builder
	writeStruct(&b, s, 0)
	return b.String()
}

func writeStruct(b *strings.Builder, s *structpb.Struct, depth int) {
	if depth > maxDepth || b.Len() > 4*maxValue {
		b.WriteString("…")
		return
	}
	keys := make([]string, 0, len(s.GetFields()))
	for k := range s.GetFields() {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	b.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "%q: ", k)
		writeValue(b, s.GetFields()[k], depth+1)
	}
	b.WriteByte('}')
}

func writeValue(b *strings.Builder, v *structpb.Value, depth int) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		writeStruct(b, k.StructValue, depth)
	case *structpb.Value_ListValue:
		b.WriteByte('[')
		for i, e := range k.ListValue.GetValues() {
			if i > 0 {
				b.WriteString(", ")
			}
			if depth > maxDepth {
				b.WriteString("…")
				break
			}
			writeValue(b, e, depth+1)
		}
		b.WriteByte(']')
	case *structpb.Value_StringValue:
		fmt.Fprintf(b, "%q", k.StringValue)
	case *structpb.Value_NumberValue:
		b.WriteString(strconv.FormatFloat(k.NumberValue, 'g', -1, 64))
	case *structpb.Value_BoolValue:
		b.WriteString(strconv.FormatBool(k.BoolValue))
	default:
		b.WriteString("null")
	}
}

// cut makes a value fit to show. Values that differ beyond the cut still count
// as different.
func cut(s string) string {
	if len(s) > maxValue {
		s = s[:maxValue] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func nameOf(m proto.Message) string {
	return cmp.Or(textOf(m, "name"), textOf(m, "model"), textOf(m, "plugin_key"))
}

func textOf(m proto.Message, field protoreflect.Name) string {
	fd := m.ProtoReflect().Descriptor().Fields().ByName(field)
	if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() {
		return ""
	}
	return m.ProtoReflect().Get(fd).String()
}
