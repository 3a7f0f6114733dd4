package settings

import (
	"encoding"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// Print writes the effective settings as YAML, in the order of the struct, with
// the origin of each value as a comment. Secrets are written as "[redacted]".
func (l *Loaded) Print(w io.Writer) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	groups := map[string]*yaml.Node{"": root}
	for _, leaf := range l.leaves {
		at, name := "", leaf.key
		if i := strings.LastIndexByte(leaf.key, '.'); i >= 0 {
			at, name = leaf.key[:i], leaf.key[i+1:]
		}
		parent := groupNode(groups, at)
		parent.Content = append(parent.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, leaf.node())
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return fmt.Errorf("print settings: %w", err)
	}
	return enc.Close()
}

// Source returns where the value of a key came from, "default" for instance,
// and "" for a key that is no setting.
func (l *Loaded) Source(key string) string {
	for _, leaf := range l.leaves {
		if leaf.key == key {
			return leaf.source
		}
	}
	return ""
}

func groupNode(groups map[string]*yaml.Node, key string) *yaml.Node {
	if n := groups[key]; n != nil {
		return n
	}
	at, name := "", key
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		at, name = key[:i], key[i+1:]
	}
	parent := groupNode(groups, at)
	n := &yaml.Node{Kind: yaml.MappingNode}
	groups[key] = n
	parent.Content = append(parent.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, n)
	return n
}

// node returns the value for Print.
func (l *leaf) node() *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, LineComment: "# " + l.source}
	switch {
	case l.secret && l.empty():
		n.Value, n.Style = "", yaml.DoubleQuotedStyle
	case l.secret:
		n.Value, n.Style = secret.Redacted, yaml.DoubleQuotedStyle
	case l.isList():
		n.Kind, n.Style = yaml.SequenceNode, yaml.FlowStyle
		for _, s := range l.value.Interface().([]string) {
			n.Content = append(n.Content, textNode(s))
		}
	case l.isMap():
		n.Kind, n.Style = yaml.MappingNode, yaml.FlowStyle
		m := l.value.Interface().(map[string]string)
		for _, k := range sortedKeys(m) {
			n.Content = append(n.Content, textNode(k), textNode(m[k]))
		}
	case l.value.Kind() == reflect.Bool || l.value.Kind() == reflect.Int || l.value.Type() == reflect.TypeFor[int64]():
		n.Value = fmt.Sprint(l.value.Interface())
	default:
		text := textNode(l.text())
		n.Value, n.Style, n.Tag = text.Value, text.Style, text.Tag
	}
	return n
}

// textNode quotes where YAML would read something else than the text.
func textNode(s string) *yaml.Node {
	n := new(yaml.Node)
	n.SetString(s)
	if s == "" || strings.ContainsAny(s, "\n#") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// text writes the value as set would read it.
func (l *leaf) text() string {
	if m, ok := l.value.Addr().Interface().(encoding.TextMarshaler); ok {
		if b, err := m.MarshalText(); err == nil {
			return string(b)
		}
	}
	return fmt.Sprint(l.value.Interface())
}

// Docs returns a Markdown table of all settings of the struct cfg points to:
// key, variable, default, meaning. prefix is as in Sources; "" is "AIDY_".
func Docs(cfg any, prefix string) (string, error) {
	s, err := schemaOf(cfg, Sources{EnvPrefix: prefix}.prefix())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| Key | Environment | Default | Meaning |\n| --- | --- | --- | --- |\n")
	for _, l := range s.leaves {
		def := "none"
		switch {
		case l.required:
			def = "required"
		case l.def != "":
			def = "`" + l.def + "`"
		}
		help := l.help
		if len(l.enum) > 0 {
			help = strings.TrimSpace(help + " One of: " + strings.Join(l.enum, ", ") + ".")
		}
		if l.secret {
			help = strings.TrimSpace(help + " Secret.")
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", l.key, l.env, cell(def), cell(help))
	}
	return b.String(), nil
}

func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}
