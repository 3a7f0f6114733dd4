package streamcheck

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// object is a JSON object by name.
type object map[string]jsontext.Value

// decode reads one whole JSON value. Duplicate names and invalid UTF-8 are errors.
func decode(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("the data is not what the protocol has here: %w", err)
	}
	return nil
}

// decodeObject refuses null, which decode takes for an empty object.
func decodeObject(data []byte) (object, error) {
	if jsontext.Value(data).Kind() != jsontext.KindBeginObject {
		return nil, errors.New("the data is not a JSON object")
	}
	var o object
	return o, decode(data, &o)
}

// text is the string at name. It fails if there is none.
func (o object) text(name string) (string, error) {
	v := o[name]
	if v.Kind() != jsontext.KindString {
		return "", fmt.Errorf("%s is %s, expected a string", name, shown(v))
	}
	var s string
	return s, decode(v, &s)
}

// filled is text, which may not be empty.
func (o object) filled(name string) (string, error) {
	s, err := o.text(name)
	if err == nil && s == "" {
		err = fmt.Errorf("%s is empty", name)
	}
	return s, err
}

// number is the whole number at name, which may not be negative.
func (o object) number(name string) (int64, error) {
	v := o[name]
	if v.Kind() != jsontext.KindNumber {
		return 0, fmt.Errorf("%s is %s, expected a number", name, shown(v))
	}
	var n int64
	if decode(v, &n) != nil || n < 0 {
		return 0, fmt.Errorf("%s is %s, expected a whole number that is not negative", name, v)
	}
	return n, nil
}

// object is the object at name.
func (o object) object(name string) (object, error) {
	v := o[name]
	if v.Kind() != jsontext.KindBeginObject {
		return nil, fmt.Errorf("%s is %s, expected an object", name, shown(v))
	}
	return decodeObject(v)
}

// list is the array at name.
func (o object) list(name string) ([]jsontext.Value, error) {
	v := o[name]
	if v.Kind() != jsontext.KindBeginArray {
		return nil, fmt.Errorf("%s is %s, expected a list", name, shown(v))
	}
	var out []jsontext.Value
	return out, decode(v, &out)
}

// is fails unless the string at name is want.
func (o object) is(name, want string) error {
	got, err := o.text(name)
	if err == nil && got != want {
		err = fmt.Errorf("%s is %q, expected %q", name, got, want)
	}
	return err
}

// at fails unless the number at name is want.
func (o object) at(name string, want int) error {
	got, err := o.number(name)
	if err == nil && got != int64(want) {
		err = fmt.Errorf("%s is %d, expected %d", name, got, want)
	}
	return err
}

// null tells whether name is absent or null.
func (o object) null(name string) bool {
	k := o[name].Kind()
	return k == 0 || k == jsontext.KindNull
}

// counts fails unless all names are numbers of tokens.
func (o object) counts(names ...string) error {
	for _, name := range names {
		if _, err := o.number(name); err != nil {
			return fmt.Errorf("in the usage: %w", err)
		}
	}
	return nil
}

// empty tells whether v says nothing: null, "", [] and {}.
func empty(v jsontext.Value) bool {
	switch v.Kind() {
	case 0, jsontext.KindNull:
		return true
	}
	v = v.Clone()
	return v.Compact() == nil && slices.Contains([]string{`""`, `[]`, `{}`}, string(v))
}

// shown is a short form of v for messages.
func shown(v jsontext.Value) string {
	const most = 40
	switch {
	case len(v) == 0:
		return "missing"
	case len(v) > most:
		return string(v[:most]) + "…"
	}
	return string(v)
}

// same tells whether a and b are the same value, whatever their spelling.
func same(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	return a.Canonicalize() == nil && b.Canonicalize() == nil && bytes.Equal(a, b)
}

// isObject tells whether s is exactly one JSON object.
func isObject(s string) bool {
	v := jsontext.Value(s)
	return v.Kind() == jsontext.KindBeginObject && v.IsValid()
}

// once keeps the first value of something that may not change.
type once struct{ value jsontext.Value }

func (o *once) take(name string, v jsontext.Value) error {
	if o.value == nil {
		o.value = v.Clone()
	}
	if !same(o.value, v) {
		return fmt.Errorf("%s is %s and was %s before", name, shown(v), shown(o.value))
	}
	return nil
}
