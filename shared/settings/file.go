package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a settings file in bytes.
const maxFile = 1 << 20

func (s *schema) loadFile(path string, problems *problems) {
	f, err := os.Open(path)
	if err != nil {
		problems.add("file: %w", err)
		return
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		problems.add("file: %w", err)
	case len(text) > maxFile:
		problems.add("%s: more than %d bytes", path, maxFile)
	default:
		s.loadYAML(path, text, problems)
	}
}

// loadYAML reads one YAML document. It walks nodes and does not decode into the
// struct, which is what makes line numbers, duplicates and unknown keys visible.
func (s *schema) loadYAML(path string, text []byte, problems *problems) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF): // nothing but comments
		return
	case err != nil:
		problems.add("%s: %s", path, parseError(err))
		return
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		problems.add("%s: more than one document: keep the first and remove the rest", path)
		return
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return
	}
	r := reader{s, path, problems}
	r.mapping(root, "")
}

// parseError is the library's message, unless it could quote a value: an
// unquoted password that begins with * is reported as an unknown anchor.
func parseError(err error) string {
	if msg := err.Error(); !strings.Contains(msg, "anchor") {
		return msg
	}
	return "a value begins with * or &: put it in quotes"
}

type reader struct {
	s        *schema
	path     string
	problems *problems
}

func (r *reader) bad(n *yaml.Node, format string, args ...any) {
	r.problems.add("%s:%d: %s", r.path, n.Line, fmt.Sprintf(format, args...))
}

// mapping reads the keys of a group whose own key ends in a point, or is "".
func (r *reader) mapping(n *yaml.Node, path string) {
	if !r.plain(n, yaml.MappingNode, strings.TrimSuffix(path, "."), "keys and values") {
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if name.Kind != yaml.ScalarNode {
			r.bad(name, "a key must be a name")
			continue
		}
		key := path + name.Value
		if line, twice := seen[key]; twice {
			r.bad(name, "%s stands here again, first in line %d", clip(key), line)
			continue
		}
		seen[key] = name.Line
		l := r.s.byKey[key]
		switch {
		case strings.Contains(name.Value, "."):
			r.bad(name, "%s: write the parts of a key nested, not with points", clip(key))
		case l != nil:
			r.leaf(l, value)
		case r.s.inner[key]:
			r.mapping(value, key+".")
		default:
			r.bad(name, "%s is no setting of this program%s", clip(key), suggest(key, r.s.keys()))
		}
	}
}

func (r *reader) leaf(l *leaf, n *yaml.Node) {
	source := fmt.Sprintf("%s:%d", r.path, n.Line)
	switch {
	case n.Kind == yaml.SequenceNode && l.isList():
		parts, ok := r.texts(n, l.key)
		if !ok {
			return
		}
		if err := l.setList(parts); err != nil {
			r.bad(n, "%s: %s", l.key, err)
			return
		}
		l.source = source
	case n.Kind == yaml.MappingNode && l.isMap():
		r.pairs(l, n, source)
	case l.isList():
		r.bad(n, "%s: want a list, one entry a line after a dash", l.key)
	case l.isMap():
		r.bad(n, "%s: want names and values, nested", l.key)
	case r.plain(n, yaml.ScalarNode, l.key, l.want()):
		if err := l.set(n.Value, source); err != nil {
			r.bad(n, "%s: %s", l.key, err)
		}
	}
}

// texts returns the entries of a sequence of scalars.
func (r *reader) texts(n *yaml.Node, key string) ([]string, bool) {
	var out []string
	for _, c := range n.Content {
		if !r.plain(c, yaml.ScalarNode, key, "text") {
			return nil, false
		}
		out = append(out, c.Value)
	}
	return out, true
}

func (r *reader) pairs(l *leaf, n *yaml.Node, source string) {
	texts, ok := r.texts(n, l.key)
	if !ok {
		return
	}
	out := map[string]string{}
	for i := 0; i+1 < len(texts); i += 2 {
		if _, twice := out[texts[i]]; twice {
			r.bad(n.Content[i], "%s: %s stands there twice", l.key, clip(texts[i]))
			return
		}
		out[texts[i]] = texts[i+1]
	}
	l.value.Set(reflect.ValueOf(out))
	l.source = source
}

// plain reports whether n is of the wanted kind, without tag, alias or null.
func (r *reader) plain(n *yaml.Node, kind yaml.Kind, key, want string) bool {
	if key == "" {
		key = "the file"
	}
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.bad(n, "%s: anchors and aliases are not read: write the value out", key)
	case n.Style&yaml.TaggedStyle != 0:
		r.bad(n, "%s: tags are not read: write the value without one", key)
	case n.Kind != kind:
		r.bad(n, "%s: want %s", key, want)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		r.bad(n, "%s has no value: give one or remove the key", key)
	default:
		return true
	}
	return false
}
