package gemini

import (
	"bytes"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// openAPI reads a schema in the form of OpenAPI 3.0 that the fields parameters and
// responseSchema have, and returns it as JSON Schema: types in lower case, nullable as
// a type, properties in the order that propertyOrdering gives. A schema that is JSON
// Schema already comes back byte for byte. nil for null.
func (d *requestDecoder) openAPI(path string) []byte {
	if d.r.Kind() != '{' {
		return d.schema(path)
	}
	from := d.r.Start()
	w := schemaWriter{r: &d.r}
	out := w.schema(nil)
	if !w.changed {
		return d.since(from)
	}
	return out
}

// schemaWriter writes one schema anew.
type schemaWriter struct {
	r       *wirejson.Reader
	changed bool
}

// object is what of one schema object depends on another member of it.
type object struct {
	typ        string
	enum       []byte // the elements, without brackets
	anyOf      []byte // likewise
	nullable   bool
	properties []property
	ordering   []string
	has        struct{ enum, anyOf, properties bool }
}

// maxOrdering bounds the work of putting the properties of one object in order.
const maxOrdering = 1 << 18

type property struct {
	name   string
	schema []byte
}

func (w *schemaWriter) schema(dst []byte) []byte {
	r := w.r
	if r.Kind() != '{' {
		return append(dst, r.Value()...)
	}
	var o object
	r.Enter('{')
	dst = append(dst, '{')
	for r.Next() {
		name := string(r.Name())
		switch camel := string(appendCamel(nil, []byte(name))); camel {
		case "type":
			dst = w.typ(dst, &o)
		case "nullable":
			o.nullable, _ = r.Bool()
			w.changed = true
		case "enum":
			o.has.enum = true
			o.enum = bytes.TrimSpace(inside(r.Value()))
		case "anyOf":
			o.has.anyOf = true
			o.anyOf = inside(w.list(nil))
			w.changed = w.changed || camel != name
		case "properties":
			if r.Kind() != '{' {
				dst = wirejson.AppendRawMember(dst, name, r.Value())
				continue
			}
			o.has.properties = true
			w.properties(&o)
		case "propertyOrdering":
			w.changed = true
			if r.Enter('[') {
				for r.Next() {
					s, _ := r.Text()
					o.ordering = append(o.ordering, s)
				}
			}
		case "example":
			w.changed = true
			dst = append(wirejson.AppendRawMember(dst, "examples", append([]byte{'['}, r.Value()...)), ']')
		case "format":
			if s := r.Value(); string(s) != `"enum"` { // a word of OpenAPI in Gemini alone
				dst = wirejson.AppendRawMember(dst, name, s)
			} else {
				w.changed = true
			}
		case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
			v := r.Value()
			if number := bytes.Trim(v, `"`); len(number) < len(v) { // protobuf writes 64 bits as a string
				v, w.changed = number, true
			}
			dst = wirejson.AppendRawMember(dst, camel, v)
			w.changed = w.changed || camel != name
		case "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else":
			dst = w.schema(wirejson.AppendMember(dst, camel))
			w.changed = w.changed || camel != name
		case "oneOf", "allOf", "prefixItems":
			dst = w.list(wirejson.AppendMember(dst, camel))
			w.changed = w.changed || camel != name
		case "$defs", "definitions", "patternProperties", "dependentSchemas":
			dst = w.schemas(wirejson.AppendMember(dst, name))
		default:
			dst = wirejson.AppendRawMember(dst, name, r.Value())
		}
	}
	return append(o.append(dst), '}')
}

// typ reads the type: a word, which is kept for later, or JSON Schema's list of words.
func (w *schemaWriter) typ(dst []byte, o *object) []byte {
	if w.r.Kind() != '"' {
		return wirejson.AppendRawMember(dst, "type", w.r.Value())
	}
	word, _ := w.r.Text()
	o.typ = strings.ToLower(word)
	if unspecified(word) {
		o.typ = ""
	}
	w.changed = w.changed || o.typ != word
	return dst
}

func (w *schemaWriter) list(dst []byte) []byte {
	if w.r.Kind() != '[' {
		return append(dst, w.r.Value()...)
	}
	w.r.Enter('[')
	dst = append(dst, '[')
	for w.r.Next() {
		dst = w.schema(wirejson.AppendElement(dst))
	}
	return append(dst, ']')
}

func (w *schemaWriter) schemas(dst []byte) []byte {
	if w.r.Kind() != '{' {
		return append(dst, w.r.Value()...)
	}
	w.r.Enter('{')
	dst = append(dst, '{')
	for w.r.Next() {
		dst = w.schema(wirejson.AppendMember(dst, string(w.r.Name())))
	}
	return append(dst, '}')
}

func (w *schemaWriter) properties(o *object) {
	w.r.Enter('{')
	for w.r.Next() {
		p := property{name: string(w.r.Name())}
		p.schema = w.schema(nil)
		o.properties = append(o.properties, p)
	}
}

// append writes what was kept back.
func (o *object) append(dst []byte) []byte {
	switch {
	case o.typ != "" && o.nullable && o.typ != "null":
		dst = append(wirejson.AppendMember(dst, "type"), '[')
		dst = append(wirejson.AppendString(dst, o.typ), `,"null"]`...)
	case o.typ != "":
		dst = wirejson.AppendStringMember(dst, "type", o.typ)
	case o.nullable && o.has.anyOf:
		if len(o.anyOf) > 0 {
			o.anyOf = append(o.anyOf, ',')
		}
		o.anyOf = append(o.anyOf, `{"type":"null"}`...)
	}
	if o.has.enum {
		dst = append(append(wirejson.AppendMember(dst, "enum"), '['), o.enum...)
		if o.nullable {
			dst = append(wirejson.AppendElement(dst), "null"...)
		}
		dst = append(dst, ']')
	}
	if o.has.anyOf {
		dst = append(append(append(wirejson.AppendMember(dst, "anyOf"), '['), o.anyOf...), ']')
	}
	if !o.has.properties {
		return dst
	}
	dst = append(wirejson.AppendMember(dst, "properties"), '{')
	done := make([]bool, len(o.properties))
	if len(o.ordering)*len(o.properties) > maxOrdering {
		o.ordering = nil
	}
	for _, name := range o.ordering {
		for i, p := range o.properties {
			if p.name == name && !done[i] {
				dst, done[i] = wirejson.AppendRawMember(dst, p.name, p.schema), true
			}
		}
	}
	for i, p := range o.properties {
		if !done[i] {
			dst = wirejson.AppendRawMember(dst, p.name, p.schema)
		}
	}
	return append(dst, '}')
}

// inside is a list without its brackets; a value that is none stays as it is.
func inside(list []byte) []byte {
	if n := len(list); n >= 2 && list[0] == '[' {
		return list[1 : n-1]
	}
	return list
}
