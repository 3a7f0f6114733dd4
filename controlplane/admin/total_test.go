package admin

import (
	"context"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

// eachMethod walks the methods of the admin API.
func eachMethod(fn func(m protoreflect.MethodDescriptor)) {
	protoregistry.GlobalFiles.RangeFilesByPackage("aidy.admin.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			ms := f.Services().Get(i).Methods()
			for j := range ms.Len() {
				fn(ms.Get(j))
			}
		}
		return true
	})
}

func TestWhatIsMissingIsSaidAndDocumented(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	var listed []string
	lacks := map[string]string{}
	for _, m := range MissingMethods() {
		lacks[m.Method] = m.Capability
		listed = append(listed, "| "+m.Method+" | "+m.Capability+" |")
	}
	eachMethod(func(m protoreflect.MethodDescriptor) {
		name := string(m.Parent().Name()) + "." + string(m.Name())
		if m.IsStreamingServer() && lacks[name] == "" {
			return
		}
		in, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
		if err != nil {
			t.Fatal(err)
		}
		_, err = call(t.Context(), c, string(m.Parent().Name()), string(m.Name()), in.New().Interface())
		if got := connect.CodeOf(err) == connect.CodeUnimplemented && err != nil; got != (lacks[name] != "") {
			t.Errorf("%s is answered %v, its place in the list is %q", name, err, lacks[name])
		}
		if lacks[name] != "" && !strings.Contains(err.Error(), lacks[name]+" are not available in this version ("+name+")") {
			t.Errorf("%s says %v, without what is missing", name, err)
		}
	})
	raw, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile(`(?m)^\| [A-Za-z]+Service\.[A-Za-z]+ \| .* \|$`).FindAllString(string(raw), -1)
	slices.Sort(listed)
	slices.Sort(documented)
	if d := cmp.Diff(listed, documented); d != "" {
		t.Errorf("docs/status.md differs from the list of missing methods:\n%s", d)
	}
}

// filler puts values into every field of a message.
type filler struct {
	name  string
	text  string
	whole int64
	real  float64
	raw   []byte
	many  int
}

func (f filler) fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.ContainingOneof() != nil && !fd.HasOptionalKeyword() && m.WhichOneof(fd.ContainingOneof()) != nil {
			continue
		}
		switch {
		case fd.IsMap():
			if v := f.scalar(fd.MapValue()); v.IsValid() && fd.MapKey().Kind() == protoreflect.StringKind {
				for j := range f.many {
					m.Mutable(fd).Map().Set(protoreflect.ValueOfString(f.text+strings.Repeat("k", j)).MapKey(), v)
				}
			}
		case fd.IsList():
			for range f.many {
				if fd.Message() != nil {
					if depth > 0 {
						f.fill(m.Mutable(fd).List().AppendMutable().Message(), depth-1)
					}
					continue
				}
				m.Mutable(fd).List().Append(f.scalar(fd))
			}
		case fd.Message() != nil:
			if depth > 0 {
				f.fill(m.Mutable(fd).Message(), depth-1)
			}
		default:
			m.Set(fd, f.scalar(fd))
		}
	}
}

func (f filler) scalar(fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(f.text)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(f.raw)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(f.whole != 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(int32(f.whole)))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(f.whole))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(f.whole)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(f.whole))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(f.whole))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(f.real)
	}
	return protoreflect.Value{}
}

func TestC32AnyValueInAnyFieldIsAnsweredClearly(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.owner()
	apply(t, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	tenant := f.byName(t)("Tenant", "acme")
	for _, fill := range []filler{
		{name: "zero", many: 0},
		{name: "blank", many: 1},
		{name: "one", text: "a", whole: 1, real: 1, raw: []byte{1}, many: 1},
		{name: "negative", text: "-1", whole: -1, real: -1, many: 2},
		{name: "huge", text: strings.Repeat("x", 70_000), whole: math.MaxInt64, real: math.Inf(1), raw: make([]byte, 70_000), many: 3},
		{name: "least", text: strings.Repeat("\u00e9", 300), whole: math.MinInt64, real: math.NaN(), many: 2},
		{name: "nul", text: "a\x00b", whole: 1 << 31, real: math.MaxFloat64, raw: []byte{0}, many: 1},
		{name: "an id", text: tenant, whole: 2, real: 0.5, many: 1},
		{name: "bad text", text: "\xff\xfe", whole: 3, real: 0, many: 1},
	} {
		t.Run(fill.name, func(t *testing.T) {
			eachMethod(func(m protoreflect.MethodDescriptor) {
				if m.IsStreamingServer() {
					return
				}
				// A whole that is deleted here would be missing to those that follow.
				if fill.name == "an id" && (strings.HasPrefix(string(m.Name()), "Delete") || m.Name() == "RevokeAll") {
					return
				}
				in, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
				if err != nil {
					t.Fatal(err)
				}
				req := in.New()
				fill.fill(req, 5)
				_, err = call(context.WithoutCancel(t.Context()), c, string(m.Parent().Name()), string(m.Name()), req.Interface())
				switch code := connect.CodeOf(err); {
				case err == nil:
				case code == connect.CodeInternal || code == connect.CodeUnknown || code == connect.CodeUnavailable:
					t.Errorf("%s: %v\n%s", m.FullName(), err, lastLine(f.log.String()))
				case len(err.Error()) > 16<<10:
					t.Errorf("%s: an error of %d bytes", m.FullName(), len(err.Error()))
				}
			})
		})
	}
}

func lastLine(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return lines[len(lines)-1]
}
