package rewrite

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// node is a value of the body as it will be sent. Of the body only what is asked for is
// read, and only what changes is written.
type node struct {
	at     protocol.Span // in the body; zero for a new value
	kind   byte          // '{' or '['; 0 for any other value
	items  []*item       // of a container, once it was read
	read   bool
	scalar []byte // a new value that is no container
}

// item is a member of an object or an element of an array.
type item struct {
	name  string // of a member
	at    protocol.Span
	value protocol.Span // what the body has; zero for a new item
	node  *node         // what is sent
	gone  bool
}

// tree is a body under change.
type tree struct {
	body  []byte
	shape *protocol.Shape
	p     protocol.Name
	root  *node
}

func newTree(body []byte, s *protocol.Shape, p protocol.Name) *tree {
	t := &tree{body: body, shape: s, p: p, root: &node{kind: '{', read: true}}
	end := s.Open
	for _, m := range s.Members {
		t.root.items = append(t.root.items, t.item(m.Name, end, m.Value))
		end = m.Value.To
	}
	t.root.at = protocol.Span{From: s.Open - 1, To: end + 1}
	return t
}

// item is one that the body has: value is its range, after the end of the item before.
func (t *tree) item(name string, after int, value protocol.Span) *item {
	from := after
	for from < value.From && bytes.IndexByte([]byte(", \t\r\n"), t.body[from]) >= 0 {
		from++
	}
	n := &node{at: value}
	if c := t.body[value.From]; c == '{' || c == '[' {
		n.kind = c
	}
	return &item{name: name, at: protocol.Span{From: from, To: value.To}, value: value, node: n}
}

// of are the items of a container that are not gone.
func (t *tree) of(n *node) []*item {
	if n.kind == 0 {
		return nil
	}
	if !n.read {
		n.read = true
		r := new(wirejson.Reader)
		r.ResetLenient(n.at.Of(t.body))
		end := n.at.From + 1
		for ok := r.Enter(kindOf(n.kind)); ok && r.Next(); {
			name := string(r.Name())
			value := protocol.Span{From: n.at.From + r.Start()}
			r.Skip()
			value.To = n.at.From + r.End()
			n.items = append(n.items, t.item(name, end, value))
			end = value.To
		}
	}
	var out []*item
	for _, i := range n.items {
		if !i.gone {
			out = append(out, i)
		}
	}
	return out
}

// members are the members of an object with that name, which are several where a
// protocol has several spellings.
func (t *tree) members(n *node, name string) []*item {
	if n.kind != '{' {
		return nil
	}
	var out []*item
	for _, i := range t.of(n) {
		if protocol.SameMember(t.p, i.name, name) {
			out = append(out, i)
		}
	}
	return out
}

// find are the members at a path that hold something.
func (t *tree) find(path ...string) []*item {
	at := []*node{t.root}
	for n, name := range path {
		var next []*node
		for _, a := range at {
			for _, i := range t.members(a, name) {
				if n == len(path)-1 {
					continue
				}
				next = append(next, i.node)
			}
		}
		if n == len(path)-1 {
			var found []*item
			for _, a := range at {
				for _, i := range t.members(a, name) {
					if string(t.bytes(i.node)) != "null" {
						found = append(found, i)
					}
				}
			}
			return found
		}
		at = next
	}
	return nil
}

// bytes is a value as it will be sent, if it is no container that has changed.
func (t *tree) bytes(n *node) []byte {
	if !n.at.IsZero() {
		return n.at.Of(t.body)
	}
	return n.scalar
}

// text is a value that is a string; empty for another one.
func (t *tree) text(n *node) string {
	r := new(wirejson.Reader)
	r.ResetLenient(t.bytes(n))
	s, _ := r.String(protocol.MaxHint)
	return s
}

// set puts a value at a path, in the place of what is there.
func (t *tree) set(value *node, path ...string) {
	n := t.root
	for i, name := range path {
		list := t.members(n, name)
		if len(list) == 0 {
			list = []*item{{name: name}}
			n.items = append(n.items, list[0])
		}
		for _, again := range list[1:] {
			again.gone = true
		}
		at := list[0]
		switch {
		case i == len(path)-1:
			at.node = value
		case at.node == nil || at.node.kind != '{':
			at.node = &node{kind: '{', read: true}
		}
		n = at.node
	}
}

// cut takes a member away, and what is empty without it. It reports whether there was one.
func (t *tree) cut(path ...string) bool { return t.cutIn(t.root, path) }

func (t *tree) cutIn(n *node, path []string) (was bool) {
	for _, i := range t.members(n, path[0]) {
		if len(path) == 1 {
			i.gone, was = true, true
			continue
		}
		if t.cutIn(i.node, path[1:]) {
			was = true
			i.gone = len(t.of(i.node)) == 0
		}
	}
	return was
}

func word(s string) *node { return &node{scalar: wirejson.AppendString(nil, s)} }

func object(members ...*item) *node { return &node{kind: '{', read: true, items: members} }

func member(name string, value *node) *item { return &item{name: name, node: value} }

// edits are the changes of the body.
func (t *tree) edits() []protocol.Edit { return t.changes(nil, t.root) }

// changes adds those within a container that the body has.
func (t *tree) changes(out []protocol.Edit, n *node) []protocol.Edit {
	if !n.read {
		return out
	}
	var has []*item
	var fresh []byte
	last := -1 // of has, that stays
	for _, i := range n.items {
		switch {
		case !i.value.IsZero():
			if !i.gone {
				last = len(has)
			}
			has = append(has, i)
		case !i.gone:
			if len(fresh) > 0 {
				fresh = append(fresh, ',')
			}
			fresh = t.appendItem(fresh, i)
		}
	}
	if len(fresh) > 0 {
		at := n.at.From + 1
		if last >= 0 {
			at, fresh = has[last].at.To, append([]byte{','}, fresh...)
		}
		out = append(out, protocol.Edit{At: protocol.Span{From: at, To: at}, Text: fresh})
	}
	for i := 0; i < len(has); i++ {
		if !has[i].gone {
			if v := has[i]; v.node.at != v.value {
				out = append(out, protocol.Edit{At: v.value, Text: t.appendNode(nil, v.node)})
			} else {
				out = t.changes(out, v.node)
			}
			continue
		}
		first := i
		for i+1 < len(has) && has[i+1].gone {
			i++
		}
		cut := protocol.Span{From: has[first].at.From, To: has[i].at.To}
		switch {
		case first > 0:
			cut.From = has[first-1].at.To // with the comma before it
		case i+1 < len(has):
			cut.To = has[i+1].at.From // or the one behind it
		}
		out = append(out, protocol.Edit{At: cut})
	}
	return out
}

func (t *tree) appendItem(dst []byte, i *item) []byte {
	if i.name != "" {
		dst = append(wirejson.AppendString(dst, i.name), ':')
	}
	return t.appendNode(dst, i.node)
}

func (t *tree) appendNode(dst []byte, n *node) []byte {
	switch {
	case !n.at.IsZero():
		return append(dst, n.at.Of(t.body)...)
	case n.kind == 0:
		return append(dst, n.scalar...)
	}
	dst = append(dst, n.kind)
	first := true
	for _, i := range t.of(n) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = t.appendItem(dst, i)
	}
	return append(dst, n.kind+2) // '}' or ']'
}

func kindOf(c byte) jsontext.Kind { return jsontext.Kind(c) }
