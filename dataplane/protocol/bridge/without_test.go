package bridge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// without is a field's example as it is and without the field, with the members in the
// same order. ok is false where the path names a value of a field and not a field.
func without(t testing.TB, field protocol.Field) (more, less string, ok bool) {
	t.Helper()
	if strings.Contains(field.Path, "=") || strings.HasSuffix(field.Path, "[]") {
		return "", "", false
	}
	v := value(t, field.Example)
	whole, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if !remove(v, strings.Split(field.Path, ".")) {
		return "", "", false
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(whole), string(b), true
}

// remove takes a member out, wherever the path leads to. It reports whether it was there.
func remove(v any, path []string) (found bool) {
	name, list := strings.CutSuffix(path[0], "[]")
	o, isObject := v.(map[string]any)
	if !isObject {
		return false
	}
	inner, has := o[name]
	switch {
	case !has:
		return false
	case len(path) == 1:
		delete(o, name)
		return true
	case !list:
		return remove(inner, path[1:])
	}
	elements, _ := inner.([]any)
	for _, e := range elements {
		found = remove(e, path[1:]) || found
	}
	return found
}
