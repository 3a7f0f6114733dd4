package settings

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// leaf is one setting.
type leaf struct {
	key, env, help string
	def            string
	hasDefault     bool
	secret         bool
	required       bool
	enum           []string
	value          reflect.Value
	source         string
}

// group is one struct of settings; key is "" for the outermost.
type group struct {
	key   string
	value reflect.Value
}

type schema struct {
	leaves []*leaf
	groups []group
	byKey  map[string]*leaf
	byEnv  map[string]*leaf
	inner  map[string]bool // keys of groups
}

var (
	typeText     = reflect.TypeFor[encoding.TextUnmarshaler]()
	typeSecret   = reflect.TypeFor[secret.Text]()
	typeDuration = reflect.TypeFor[time.Duration]()
	typeBytes    = reflect.TypeFor[Bytes]()
	typeList     = reflect.TypeFor[[]string]()
	typeMap      = reflect.TypeFor[map[string]string]()
)

// schemaOf reads the tags of the struct that dst points to. Its errors are
// defects of the struct, not of anybody's settings.
func schemaOf(dst any, prefix string) (*schema, error) {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("settings: want a pointer to a struct, got %T", dst)
	}
	s := &schema{byKey: map[string]*leaf{}, byEnv: map[string]*leaf{}, inner: map[string]bool{}}
	return s, s.walk(v.Elem(), "", prefix)
}

func (s *schema) walk(v reflect.Value, path, prefix string) error {
	s.groups = append(s.groups, group{strings.TrimSuffix(path, "."), v})
	var errs []error
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, tagged := f.Tag.Lookup("key")
		if name == "-" || !f.IsExported() && !tagged && !f.Anonymous {
			continue
		}
		if !f.IsExported() { // would be left out in silence
			errs = append(errs, fmt.Errorf("settings: field %s%s: only exported fields can be filled", path, f.Name))
			continue
		}
		isGroup := f.Type.Kind() == reflect.Struct && !reflect.PointerTo(f.Type).Implements(typeText)
		switch {
		case isGroup && !tagged:
			errs = append(errs, s.walk(v.Field(i), path, prefix))
		case !wellNamed(name):
			errs = append(errs, fmt.Errorf("settings: field %s%s: key %q: want lower-case letters, digits and underscores", path, f.Name, name))
		case isGroup:
			if s.inner[path+name] || s.byKey[path+name] != nil {
				errs = append(errs, fmt.Errorf("settings: key %s stands twice", path+name))
			}
			s.inner[path+name] = true
			errs = append(errs, s.walk(v.Field(i), path+name+".", prefix))
		default:
			errs = append(errs, s.addLeaf(f, v.Field(i), path+name, prefix))
		}
	}
	return errors.Join(errs...)
}

func (s *schema) addLeaf(f reflect.StructField, v reflect.Value, key, prefix string) error {
	l := &leaf{
		key: key, env: f.Tag.Get("env"), help: f.Tag.Get("help"), value: v, source: "default",
		secret:   f.Tag.Get("secret") == "true" || f.Type == typeSecret,
		required: f.Tag.Get("required") == "true",
	}
	l.def, l.hasDefault = f.Tag.Lookup("default")
	if l.env == "" {
		l.env = prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
	}
	if enum := f.Tag.Get("enum"); enum != "" {
		l.enum = strings.Split(enum, ",")
	}
	switch {
	case !l.supported():
		return fmt.Errorf("settings: %s: type %s is not supported", key, f.Type)
	case s.byKey[key] != nil || s.inner[key]:
		return fmt.Errorf("settings: key %s stands twice", key)
	case s.byEnv[l.env] != nil:
		return fmt.Errorf("settings: %s and %s share the variable %s", s.byEnv[l.env].key, key, l.env)
	}
	s.leaves = append(s.leaves, l)
	s.byKey[key], s.byEnv[l.env] = l, l
	return nil
}

func wellNamed(name string) bool {
	if name == "" {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

func (s *schema) keys() []string     { return slices.Sorted(maps.Keys(s.byKey)) }
func (s *schema) envNames() []string { return slices.Sorted(maps.Keys(s.byEnv)) }

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// suggest names the candidate that is nearest to what was written, if one is
// near enough to be a slip.
func suggest(got string, candidates []string) string {
	best, at := "", max(2, len(got)/3)+1
	for _, c := range candidates {
		if d := distance(got, c); d < at {
			best, at = c, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is the number of single-character edits between a and b (Levenshtein).
func distance(a, b string) int {
	const most = 128
	a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
