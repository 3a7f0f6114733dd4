package gemini

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// Bounds on arguments that come in pieces.
const (
	maxArgBytes = 16 << 20 // of all values and names
	maxArgNodes = 100_000
	maxArgDepth = wirejson.MaxDepth
)

// partialArgs puts the arguments of a call together that come in pieces: values with the
// JSONPath of where they belong, such as $.place.lines[0]. Pieces of one text follow
// each other with the same path. A path in another form than the vendor documents
// (genai PartialArg) is left out.
type partialArgs struct {
	root  argNode
	nodes int
	bytes int
	full  bool // more came than is kept
}

// argNode is a value: an object or a list with members, or a leaf.
type argNode struct {
	name    string // within an object
	list    bool
	members []*argNode
	index   map[string]int // of members of an object with many
	leaf    []byte         // JSON; of a text without its closing quote
	text    bool
}

// read reads an element of partialArgs.
func (a *partialArgs) read(r *wirejson.Reader) {
	if !r.Enter('{') {
		return
	}
	path := ""
	var text, leaf []byte
	for r.Next() {
		switch string(r.Name()) {
		case "jsonPath":
			path, _ = r.Text()
		case "stringValue":
			if raw, ok := r.Bytes(); ok {
				text = append([]byte{}, raw...)
			}
		case "numberValue", "boolValue":
			if raw := r.Raw(); len(raw) > 0 && raw[0] != '"' {
				leaf = bytes.Clone(raw)
			}
		case "nullValue":
			r.Skip()
			leaf = []byte("null")
		}
	}
	if text == nil && leaf == nil {
		return // says that a text goes on or is over
	}
	a.bytes += len(path) + len(text) + len(leaf)
	if a.full = a.full || a.bytes > maxArgBytes; a.full {
		return
	}
	n := a.at(path)
	switch {
	case n == nil || len(n.members) > 0:
	case text == nil:
		n.leaf, n.text = leaf, false
	case n.text:
		n.leaf = append(n.leaf, text...)
	default:
		n.leaf, n.text = append([]byte{'"'}, text...), true
	}
}

// at is the node of a path, made if it is new; nil for a path that names none.
func (a *partialArgs) at(path string) *argNode {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok || rest == "" {
		return nil
	}
	// Nothing is made for a path that ends nowhere.
	for depth, left := 0, rest; left != ""; depth++ {
		if _, _, left, ok = nextStep(left); !ok || depth == maxArgDepth {
			return nil
		}
	}
	n := &a.root
	for rest != "" {
		var step string
		var element bool
		step, element, rest, _ = nextStep(rest)
		if len(n.members) == 0 {
			n.list, n.leaf = element, nil
		}
		if n.list != element {
			return nil
		}
		if element {
			n = a.element(n, step)
		} else {
			n = a.member(n, step)
		}
		if n == nil {
			return nil
		}
	}
	return n
}

// element is a node of a list. Elements come in order.
func (a *partialArgs) element(n *argNode, step string) *argNode {
	i, err := strconv.Atoi(step)
	switch {
	case err != nil || i < 0 || i > len(n.members):
		return nil
	case i < len(n.members):
		return n.members[i]
	}
	return a.add(n, "")
}

func (a *partialArgs) member(n *argNode, name string) *argNode {
	if i, ok := n.index[name]; ok {
		return n.members[i]
	}
	if n.index == nil {
		n.index = make(map[string]int)
	}
	n.index[name] = len(n.members)
	return a.add(n, name)
}

func (a *partialArgs) add(n *argNode, name string) *argNode {
	if a.nodes++; a.nodes > maxArgNodes {
		a.full = true
		return nil
	}
	m := &argNode{name: name}
	n.members = append(n.members, m)
	return m
}

// nextStep splits the first step off a path: .name, ['name'], ["name"] or [0].
func nextStep(path string) (step string, element bool, rest string, ok bool) {
	if after, dot := strings.CutPrefix(path, "."); dot {
		end := strings.IndexAny(after, ".[")
		if end < 0 {
			end = len(after)
		}
		return after[:end], false, after[end:], end > 0
	}
	if len(path) < 3 || path[0] != '[' {
		return "", false, "", false
	}
	if quote := path[1]; quote == '\'' || quote == '"' {
		name, rest, ok := strings.Cut(path[2:], string(quote)+"]")
		return name, false, rest, ok
	}
	step, rest, ok = strings.Cut(path[1:], "]")
	return step, true, rest, ok
}

// append appends the arguments as far as they came.
func (a *partialArgs) append(dst []byte) []byte {
	if len(a.root.members) == 0 || a.root.list {
		return append(dst, "{}"...)
	}
	return a.root.append(dst)
}

func (n *argNode) append(dst []byte) []byte {
	switch {
	case len(n.members) == 0 && n.leaf == nil:
		return append(dst, "null"...)
	case len(n.members) == 0 && n.text:
		return append(append(dst, n.leaf...), '"')
	case len(n.members) == 0:
		return append(dst, n.leaf...)
	case n.list:
		dst = append(dst, '[')
		for _, m := range n.members {
			dst = m.append(wirejson.AppendElement(dst))
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for _, m := range n.members {
		dst = m.append(wirejson.AppendMember(dst, m.name))
	}
	return append(dst, '}')
}
