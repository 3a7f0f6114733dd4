package fakeprovider

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// shapes are the objects of a protocol by name, read from a table with one object a
// line:
//
//	Name: field field:Shape field:{Shape} field:*
//	Name: ?type text=Shape image=* -=Shape
//
// A field without a shape is a scalar, or a list of scalars; with one it is such an object
// or a list of them, and a scalar is no error, as many fields take both. Braces are
// objects whose names are free. A star is anything. The second form is a union
// told apart by the string at type; - is for objects without one.
type shapes map[string]shape

type shape struct {
	fields map[string]string
	by     string // of a union
}

func readShapes(table string) shapes {
	out := make(shapes)
	for line := range strings.Lines(table) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		s, sep := shape{fields: make(map[string]string)}, ":"
		for _, word := range strings.Fields(rest) {
			if by, union := strings.CutPrefix(word, "?"); union {
				s.by, sep = by, "="
				continue
			}
			field, kind, _ := strings.Cut(word, sep)
			s.fields[field] = kind
		}
		out[name] = s
	}
	return out
}

// wording is how one vendor complains. Paths are those of where.
type wording interface {
	unknown(at where) *Failure
	wrongType(at where, want string) *Failure
	wrongValue(at where, got string, want []string) *Failure
}

// where is the way to a value: names and numbers of elements.
type where []any

// name and element are the way one step further.
func (w where) name(s string) where { return append(w[:len(w):len(w)], s) }
func (w where) element(i int) where { return append(w[:len(w):len(w)], i) }

// brackets is a[0].b.
func (w where) brackets() string {
	var b strings.Builder
	for i, step := range w {
		switch step := step.(type) {
		case int:
			b.WriteString("[" + strconv.Itoa(step) + "]")
		case string:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
		}
	}
	return b.String()
}

// dots is a.0.b.
func (w where) dots() string {
	words := make([]string, len(w))
	for i, step := range w {
		switch step := step.(type) {
		case int:
			words[i] = strconv.Itoa(step)
		case string:
			words[i] = step
		}
	}
	return strings.Join(words, ".")
}

// check finds the first field of v that the shape does not have, in the order of
// names.
func (s shapes) check(v any, kind string, at where, d wording) *Failure {
	if kind == "*" {
		return nil
	}
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			if f := s.check(e, kind, at.element(i), d); f != nil {
				return f
			}
		}
	case map[string]any:
		if kind == "" {
			return d.wrongType(at, "a string or a number")
		}
		if inner, ok := strings.CutPrefix(kind, "{"); ok {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if f := s.check(v[name], strings.TrimSuffix(inner, "}"), at.name(name), d); f != nil {
					return f
				}
			}
			return nil
		}
		return s.object(v, s[kind], at, d)
	}
	return nil
}

func (s shapes) object(v map[string]any, sh shape, at where, d wording) *Failure {
	if sh.by != "" {
		word, _ := v[sh.by].(string)
		given := word
		if v[sh.by] == nil {
			word = "-"
		}
		kind, ok := sh.fields[word]
		if !ok {
			known := slices.Sorted(maps.Keys(sh.fields))
			return d.wrongValue(at.name(sh.by), given, slices.DeleteFunc(known, func(k string) bool { return k == "-" }))
		}
		return s.check(v, kind, at, d)
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		kind, ok := sh.fields[name]
		if !ok {
			return d.unknown(at.name(name))
		}
		if f := s.check(v[name], kind, at.name(name), d); f != nil {
			return f
		}
	}
	return nil
}

// tree is an object of a request whose protocol is not known to hold it rightly: what is
// not there, or of another type, reads as empty.
type tree map[string]any

func (t tree) text(name string) string { s, _ := t[name].(string); return s }

func (t tree) has(name string) bool { return t[name] != nil }

func (t tree) truth(name string) bool { b, _ := t[name].(bool); return b }

func (t tree) number(name string) float64 { n, _ := t[name].(float64); return n }

func (t tree) object(name string) tree { o, _ := t[name].(map[string]any); return o }

// list are the elements at name.
func (t tree) list(name string) []any { l, _ := t[name].([]any); return l }

// objects are the elements at name; those that are no objects are nil.
func (t tree) objects(name string) []tree {
	var out []tree
	for _, e := range t.list(name) {
		o, _ := e.(map[string]any)
		out = append(out, o)
	}
	return out
}
