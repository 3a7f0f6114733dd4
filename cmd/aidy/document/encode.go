package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// YAML writes a message as Decode reads it: fields in the order of their
// declaration, unset ones left out, enums short, times in UTC.
func YAML(w io.Writer, m proto.Message) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(node(m.ProtoReflect())); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return enc.Close()
}

// JSON writes a message in the JSON form of protobuf with the names of the contract,
// indented by two spaces and ended by a line feed.
func JSON(w io.Writer, m proto.Message) error {
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	// protojson varies its spaces on purpose; people compare outputs.
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	out.WriteByte('\n')
	_, err = w.Write(out.Bytes())
	return err
}

func scalarNode(tag, text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
}

func node(m protoreflect.Message) *yaml.Node {
	switch msg := m.Interface().(type) {
	case *timestamppb.Timestamp:
		return scalarNode("!!str", msg.AsTime().Format(time.RFC3339Nano))
	case *structpb.Struct:
		return anyNode(msg.AsMap())
	}
	out := &yaml.Node{Kind: yaml.MappingNode}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) {
			continue
		}
		out.Content = append(out.Content, scalarNode("!!str", string(fd.Name())), fieldNode(m.Get(fd), fd))
	}
	return out
}

func fieldNode(v protoreflect.Value, fd protoreflect.FieldDescriptor) *yaml.Node {
	switch {
	case fd.IsMap():
		out := &yaml.Node{Kind: yaml.MappingNode}
		keys := make([]protoreflect.MapKey, 0, v.Map().Len())
		v.Map().Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
			keys = append(keys, k)
			return true
		})
		slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return bytes.Compare([]byte(a.String()), []byte(b.String())) })
		for _, k := range keys {
			out.Content = append(out.Content, scalarNode("!!str", k.String()), valueNode(v.Map().Get(k), fd.MapValue()))
		}
		return out
	case fd.IsList():
		out := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.List().Len() {
			out.Content = append(out.Content, valueNode(v.List().Get(i), fd))
		}
		if fd.Message() == nil && len(out.Content) <= 8 {
			out.Style = yaml.FlowStyle
		}
		return out
	}
	return valueNode(v, fd)
}

func valueNode(v protoreflect.Value, fd protoreflect.FieldDescriptor) *yaml.Node {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return node(v.Message())
	case protoreflect.BoolKind:
		return scalarNode("!!bool", strconv.FormatBool(v.Bool()))
	case protoreflect.EnumKind:
		if d := fd.Enum().Values().ByNumber(v.Enum()); d != nil {
			return scalarNode("!!str", EnumName(d))
		}
		return scalarNode("!!int", strconv.FormatInt(int64(v.Enum()), 10))
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return scalarNode("!!float", strconv.FormatFloat(v.Float(), 'g', -1, 64))
	case protoreflect.BytesKind:
		var n yaml.Node
		n.SetString(string(protoBase64(v.Bytes())))
		return &n
	case protoreflect.StringKind:
		var n yaml.Node
		n.SetString(v.String())
		return &n
	}
	return scalarNode("!!int", v.String())
}

func protoBase64(b []byte) []byte {
	text, _ := json.Marshal(b) // base 64 in quotes; it never fails
	return text[1 : len(text)-1]
}

func anyNode(v any) *yaml.Node {
	var n yaml.Node
	if err := n.Encode(v); err != nil {
		return scalarNode("!!null", "null")
	}
	return &n
}
