package document

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// argumentTag marks text of a command line: the type of its field alone says what it
// is, so that no text of a secret or a name is taken for YAML.
const argumentTag = "!argument"

func isArgument(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == argumentTag }

// Argument is a field of a command line: name=value.
type Argument struct {
	Path  string // names of fields, and keys of labels, joined by dots
	Value string
}

// ParseArgument splits name=value at the first equals sign.
func ParseArgument(s string) (Argument, error) {
	path, value, ok := strings.Cut(s, "=")
	if !ok || path == "" {
		return Argument{}, fmt.Errorf("%q: expected field=value, such as name=main or labels.team=search", s)
	}
	return Argument{path, value}, nil
}

// Set fills m from arguments. The value of a list is its entries with commas between
// them, or a list in YAML; that of a message is YAML: limits='{rpm: 600}'.
func Set(m proto.Message, args []Argument) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, a := range args {
		if err := graft(root, m.ProtoReflect().Descriptor(), a); err != nil {
			return err
		}
	}
	var d decoder
	d.message(root, m.ProtoReflect(), "", 0)
	return join(d.problems)
}

// graft adds an argument to a tree of names.
func graft(at *yaml.Node, desc protoreflect.MessageDescriptor, a Argument) error {
	rest := a.Path
	for {
		name, more, nested := strings.Cut(rest, ".")
		var fd protoreflect.FieldDescriptor
		if desc != nil {
			fd = fieldOf(desc, name)
		} else {
			// Below a map everything that is left is the key: labels may hold dots.
			name, nested = rest, false
		}
		child := childOf(at, name)
		if !nested {
			if child != nil {
				return fmt.Errorf("%s: given twice", a.Path)
			}
			at.Content = append(at.Content,
				&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name},
				&yaml.Node{Kind: yaml.ScalarNode, Tag: argumentTag, Value: a.Value})
			return nil
		}
		if child == nil {
			child = &yaml.Node{Kind: yaml.MappingNode}
			at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, child)
		}
		if child.Kind != yaml.MappingNode {
			return fmt.Errorf("%s: cannot stand beside a value for %s", a.Path, name)
		}
		at, rest = child, more
		switch {
		case fd == nil || fd.IsMap():
			desc = nil
		default:
			desc = fd.Message()
		}
	}
}

func childOf(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// listArgument reads the entries of a list from one argument.
func listArgument(n *yaml.Node, fd protoreflect.FieldDescriptor) *yaml.Node {
	if fd.Message() != nil || strings.HasPrefix(strings.TrimSpace(n.Value), "[") {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(n.Value), &doc); err == nil && len(doc.Content) == 1 {
			return doc.Content[0]
		}
		return n
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	if n.Value == "" {
		return list
	}
	for item := range strings.SplitSeq(n.Value, ",") {
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: argumentTag, Value: strings.TrimSpace(item)})
	}
	return list
}

// parseArgument reads an argument as YAML.
func (d *decoder) parseArgument(n *yaml.Node, path string) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(n.Value), &doc); err != nil || len(doc.Content) != 1 {
		d.fail(n, path, "expected YAML such as '{name: value}'")
		return nil
	}
	return doc.Content[0]
}
