package fakeprovider

import (
	"bytes"
	"iter"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// object is a JSON object whose members keep their order: vendors send theirs in
// a fixed one, and equal requests must give equal bytes.
type object []member

type member struct {
	name  string
	value any
}

// obj makes an object of alternating names and values. Values are those
// appendJSON knows.
func obj(pairs ...any) object {
	o := make(object, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		o = append(o, member{pairs[i].(string), pairs[i+1]})
	}
	return o
}

// with returns o with one more member. o may not be used again.
func (o object) with(name string, value any) object {
	return append(o, member{name, value})
}

// list is a JSON array.
type list []any

// appendJSON appends v without spaces. It knows nil, object, list, string, bool,
// int, int64, float64, and jsontext.Value, which is copied as it is; an empty
// jsontext.Value is null.
func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case object:
		dst = append(dst, '{')
		for i, m := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, m.name)
			dst = append(dst, ':')
			dst = appendJSON(dst, m.value)
		}
		return append(dst, '}')
	case list:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, e)
		}
		return append(dst, ']')
	case string:
		return appendString(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		return jsontext.AppendFloat(dst, v, 64)
	case jsontext.Value:
		if len(v) == 0 {
			return append(dst, "null"...)
		}
		return append(dst, v...)
	}
	panic("fakeprovider: value without a JSON form")
}

// appendString quotes s. Invalid UTF-8 becomes U+FFFD, as AppendQuote does while
// it reports it.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

// nullable is s, or null if s is empty.
func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// members are the members of a JSON object in their order. Other values and what
// follows an error have none.
func members(v jsontext.Value) iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		dec := jsontext.NewDecoder(bytes.NewBuffer(v))
		if tok, err := dec.ReadToken(); err != nil || tok.Kind() != jsontext.KindBeginObject {
			return
		}
		for dec.PeekKind() == jsontext.KindString {
			name, err := dec.ReadToken()
			if err != nil {
				return
			}
			key := name.String()
			value, err := dec.ReadValue()
			if err != nil || !yield(key, value.Clone()) {
				return
			}
		}
	}
}

// arguments are the arguments of a call as a JSON value: with the bytes given, except
// that line breaks, which would end an event's line, are taken out of them.
func (t ToolCall) arguments() jsontext.Value {
	v := jsontext.Value(t.Arguments)
	if strings.ContainsAny(t.Arguments, "\r\n") && v.Compact() != nil {
		return jsontext.Value(t.Arguments)
	}
	return v
}
