package document

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/aidy-gateway/aidy-gateway/cmd/internal/nearest"
)

// Decode reads every document of a file, each into a message that newMessage makes.
// file names the data in errors. Empty documents are passed over. The error holds a
// *Problem for each thing that is wrong.
func Decode(file string, data []byte, newMessage func() proto.Message) ([]proto.Message, error) {
	if len(data) > MaxBytes {
		return nil, &Problem{File: file, Text: fmt.Sprintf("the file has %d bytes, at most %d are read; split it", len(data), MaxBytes)}
	}
	// A JSON text may be indented with tabs, which YAML refuses. In JSON a tab stands
	// only between values, so a space is as good, and lines stay where they are.
	if json.Valid(data) {
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	var (
		out []proto.Message
		d   = &decoder{file: file}
		dec = yaml.NewDecoder(bytes.NewReader(data))
	)
	for {
		var n yaml.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			return out, join(d.problems)
		}
		if err != nil {
			return nil, join(append(d.problems, syntaxProblem(file, err)))
		}
		root := &n
		if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
			root = n.Content[0]
		}
		if isNull(root) {
			continue
		}
		m := newMessage()
		d.message(root, m.ProtoReflect(), "", 0)
		out = append(out, m)
	}
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func syntaxProblem(file string, err error) *Problem {
	p := &Problem{File: file, Text: "not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	if at := yamlLine.FindStringSubmatch(err.Error()); at != nil {
		p.Line, _ = strconv.Atoi(at[1])
		p.Text = "not valid YAML: " + strings.TrimPrefix(err.Error(), at[0])
	}
	return p
}

type decoder struct {
	file     string
	nodes    int
	problems []*Problem
}

func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	d.problems = append(d.problems, &Problem{File: d.file, Line: n.Line, Path: path, Text: fmt.Sprintf(format, args...)})
}

// enter counts a value and follows an alias. It returns nil where a bound is passed,
// which is told once, and after so many problems that more would not be read.
func (d *decoder) enter(n *yaml.Node, path string, depth int) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.nodes++
	switch {
	case len(d.problems) >= maxProblems:
		return nil
	case d.nodes > MaxNodes:
		if d.nodes == MaxNodes+1 {
			d.fail(n, path, "the file has more than %d values; split it", MaxNodes)
		}
		return nil
	case depth > MaxDepth:
		d.fail(n, path, "nested deeper than %d levels", MaxDepth)
		return nil
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// message fills m from a mapping.
func (d *decoder) message(n *yaml.Node, m protoreflect.Message, path string, depth int) {
	if n = d.enter(n, path, depth); n == nil || d.known(n, m, path, depth) {
		return
	}
	desc := m.Descriptor()
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, "expected the fields of %s, got %s", article(string(desc.Name())), kindOf(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		fd := fieldOf(desc, key.Value)
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
			d.fail(key, path, "expected the name of a field, got %s; merge keys are not read", kindOf(key))
			continue
		case fd == nil:
			names := fieldNames(desc)
			hint := nearest.Hint(key.Value, names)
			if hint == "" && len(names) <= 24 {
				hint = "; it has " + strings.Join(names, ", ")
			}
			d.fail(key, under(path, key.Value), "%s has no such field%s", article(string(desc.Name())), hint)
			continue
		}
		name := string(fd.Name())
		if line, again := seen[name]; again {
			d.fail(key, under(path, name), "given twice, first on line %d", line)
			continue
		}
		seen[name] = key.Line
		if one := fd.ContainingOneof(); one != nil && !one.IsSynthetic() {
			if other := m.WhichOneof(one); other != nil {
				d.fail(key, under(path, name), "cannot stand beside %s: give one of them", other.Name())
				continue
			}
		}
		if !isNull(value) {
			d.field(value, m, fd, under(path, name), depth+1)
		}
	}
}

// fieldOf finds a field by its name or its name in JSON.
func fieldOf(desc protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if fd := desc.Fields().ByName(protoreflect.Name(name)); fd != nil {
		return fd
	}
	return desc.Fields().ByJSONName(name)
}

func fieldNames(desc protoreflect.MessageDescriptor) []string {
	names := make([]string, desc.Fields().Len())
	for i := range names {
		names[i] = string(desc.Fields().Get(i).Name())
	}
	return names
}

func (d *decoder) field(n *yaml.Node, m protoreflect.Message, fd protoreflect.FieldDescriptor, path string, depth int) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case fd.IsMap():
		d.mapField(n, m, fd, path, depth)
	case fd.IsList():
		d.list(n, m, fd, path, depth)
	case fd.Message() != nil:
		d.message(n, m.Mutable(fd).Message(), path, depth)
	default:
		if v, ok := d.scalar(n, fd, path, depth); ok {
			m.Set(fd, v)
		}
	}
}

func (d *decoder) list(n *yaml.Node, m protoreflect.Message, fd protoreflect.FieldDescriptor, path string, depth int) {
	if isArgument(n) {
		n = listArgument(n, fd)
	}
	if n.Kind != yaml.SequenceNode {
		d.fail(n, path, "expected a list, got %s", kindOf(n))
		return
	}
	list := m.Mutable(fd).List()
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if isNull(item) {
			d.fail(item, at, "empty entry in a list")
			continue
		}
		if fd.Message() != nil {
			d.message(item, list.AppendMutable().Message(), at, depth+1)
		} else if v, ok := d.scalar(item, fd, at, depth+1); ok {
			list.Append(v)
		}
	}
}

func (d *decoder) mapField(n *yaml.Node, m protoreflect.Message, fd protoreflect.FieldDescriptor, path string, depth int) {
	if isArgument(n) {
		n = d.parseArgument(n, path)
	}
	if n == nil {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, "expected names with values, got %s", kindOf(n))
		return
	}
	values := m.Mutable(fd).Map()
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, ok := d.scalar(n.Content[i], fd.MapKey(), path, depth+1)
		if !ok {
			continue
		}
		at := under(path, n.Content[i].Value)
		if values.Has(key.MapKey()) {
			d.fail(n.Content[i], at, "given twice")
			continue
		}
		if fd.MapValue().Message() != nil {
			v := values.NewValue()
			d.message(n.Content[i+1], v.Message(), at, depth+1)
			values.Set(key.MapKey(), v)
		} else if v, ok := d.scalar(n.Content[i+1], fd.MapValue(), at, depth+1); ok {
			values.Set(key.MapKey(), v)
		}
	}
}

// known reads the messages that have a form of their own in JSON, and reports
// whether m is one of them.
func (d *decoder) known(n *yaml.Node, m protoreflect.Message, path string, depth int) bool {
	switch msg := m.Interface().(type) {
	case *timestamppb.Timestamp:
		at, err := time.Parse(time.RFC3339Nano, n.Value)
		if n.Kind == yaml.ScalarNode && err != nil {
			at, err = time.Parse(time.DateOnly, n.Value)
		}
		if n.Kind != yaml.ScalarNode || err != nil {
			d.fail(n, path, "expected a time such as 2026-01-31T15:04:05Z, got %s", kindOf(n))
			return true
		}
		proto.Merge(msg, timestamppb.New(at))
		return true
	case *structpb.Struct:
		if isArgument(n) {
			if n = d.parseArgument(n, path); n == nil {
				return true
			}
		}
		v := d.any(n, path, depth)
		fields, ok := v.(map[string]any)
		if !ok {
			d.fail(n, path, "expected names with values, got %s", kindOf(n))
			return true
		}
		s, err := structpb.NewStruct(fields)
		if err != nil {
			d.fail(n, path, "%v", err)
			return true
		}
		proto.Merge(msg, s)
		return true
	}
	if isArgument(n) {
		if parsed := d.parseArgument(n, path); parsed != nil {
			d.message(parsed, m, path, depth+1)
		}
		return true
	}
	return false
}

// any reads a value without a schema.
func (d *decoder) any(n *yaml.Node, path string, depth int) any {
	if n = d.enter(n, path, depth); n == nil {
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := n.Content[i].Value
			if _, again := out[name]; again {
				d.fail(n.Content[i], under(path, name), "given twice")
			}
			out[name] = d.any(n.Content[i+1], under(path, name), depth+1)
		}
		return out
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			out = append(out, d.any(item, fmt.Sprintf("%s[%d]", path, i), depth+1))
		}
		return out
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return n.Value == "true"
	case "!!int", "!!float":
		f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			d.fail(n, path, "%s is not a number that JSON knows", n.Value)
		}
		return f
	}
	return n.Value
}

// scalar reads a value of a field that is no message.
func (d *decoder) scalar(n *yaml.Node, fd protoreflect.FieldDescriptor, path string, depth int) (protoreflect.Value, bool) {
	if n = d.enter(n, path, depth); n == nil {
		return protoreflect.Value{}, false
	}
	if n.Kind != yaml.ScalarNode {
		d.fail(n, path, "expected %s, got %s", expected(fd), kindOf(n))
		return protoreflect.Value{}, false
	}
	v, err := parseScalar(n, fd)
	if err != nil {
		d.fail(n, path, "%v", err)
		return protoreflect.Value{}, false
	}
	return v, true
}

// parseScalar reads text as the type of fd. Numbers may stand in quotes, as JSON of
// protobuf writes large ones; text need not where it could be taken for a number.
func parseScalar(n *yaml.Node, fd protoreflect.FieldDescriptor) (protoreflect.Value, error) {
	text, tag := n.Value, n.ShortTag()
	wrong := fmt.Errorf("expected %s, got %s", expected(fd), kindOf(n))
	digits := strings.ReplaceAll(text, "_", "")
	switch fd.Kind() {
	case protoreflect.BoolKind:
		if b, ok := map[string]bool{"true": true, "false": false}[text]; ok && tag != "!!str" {
			return protoreflect.ValueOfBool(b), nil
		}
	case protoreflect.StringKind:
		if tag == "!!bool" || tag == "!!null" {
			return protoreflect.Value{}, fmt.Errorf("%w; put quotes around it", wrong)
		}
		return protoreflect.ValueOfString(text), nil
	case protoreflect.BytesKind:
		if b, err := base64.StdEncoding.DecodeString(text); err == nil {
			return protoreflect.ValueOfBytes(b), nil
		}
	case protoreflect.EnumKind:
		if v := enumValue(fd.Enum(), text); v != nil {
			return protoreflect.ValueOfEnum(v.Number()), nil
		}
		names := EnumNames(fd.Enum())
		return protoreflect.Value{}, fmt.Errorf("%q is none of %s%s", text, strings.Join(names, ", "), nearest.Hint(text, names))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		if i, err := strconv.ParseInt(digits, 10, 32); err == nil {
			return protoreflect.ValueOfInt32(int32(i)), nil
		}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		if i, err := strconv.ParseInt(digits, 10, 64); err == nil {
			return protoreflect.ValueOfInt64(i), nil
		}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		if i, err := strconv.ParseUint(digits, 10, 32); err == nil {
			return protoreflect.ValueOfUint32(uint32(i)), nil
		}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if i, err := strconv.ParseUint(digits, 10, 64); err == nil {
			return protoreflect.ValueOfUint64(i), nil
		}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		if f, err := strconv.ParseFloat(digits, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			if fd.Kind() == protoreflect.FloatKind {
				return protoreflect.ValueOfFloat32(float32(f)), nil
			}
			return protoreflect.ValueOfFloat64(f), nil
		}
	}
	return protoreflect.Value{}, wrong
}

func expected(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.StringKind:
		return "text"
	case protoreflect.BytesKind:
		return "bytes in base 64"
	case protoreflect.EnumKind:
		return "one of " + strings.Join(EnumNames(fd.Enum()), ", ")
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return "a number"
	}
	return "a whole number of " + fd.Kind().String()
}

// kindOf tells a person what stands in the document. Text is not repeated: it could
// be a secret in the wrong place.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "names with values"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool", "!!int", "!!float":
		return n.Value
	}
	return "text"
}

func article(name string) string {
	if strings.ContainsRune("AEIOU", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}
