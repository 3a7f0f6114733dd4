package anthropic_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
)

// rows are those of the table: by path, and whether what is below is kept whole.
func rows() map[string]bool {
	m := map[string]bool{}
	for _, f := range anthropic.New().Fields() {
		m[f.Path] = m[f.Path] || f.Note == "kept whole"
	}
	return m
}

// sdkWalk walks a request type of the vendor's SDK: lists with [], unions as one. What
// holds other members is not a leaf itself. Below a row that is kept whole it stops.
type sdkWalk struct {
	rows map[string]bool
	seen map[string]bool // rows that the SDK has
	miss map[string]bool // leaves without a row
}

func (w *sdkWalk) walk(t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if wholly, ok := w.rows[path]; ok && wholly {
		w.seen[path] = true
		return
	}
	if kind := typeWord(t); kind != "" {
		row := path + ".type=" + kind
		if _, ok := w.rows[row]; ok {
			w.seen[row] = true
			if w.rows[row] {
				return
			}
		}
	}
	switch {
	case t.Kind() == reflect.Slice:
		w.walk(t.Elem(), path+"[]")
		return
	case t.Kind() != reflect.Struct, strings.HasPrefix(t.Name(), "Opt["):
		if _, ok := w.rows[path]; !ok {
			w.miss[path] = true
		}
		w.seen[path] = true
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, tagged := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() || f.Anonymous:
		case name == "" && tagged && strings.Contains(options, "inline"):
			w.walk(f.Type, path)
		case name != "":
			w.walk(f.Type, strings.TrimPrefix(path+"."+name, "."))
		}
	}
}

// typeWord is the value of type that makes a struct what it is; empty if there is none.
func typeWord(t reflect.Type) string {
	if t.Kind() != reflect.Struct {
		return ""
	}
	f, ok := t.FieldByName("Type")
	if !ok {
		return ""
	}
	return f.Tag.Get("default")
}

// beside are the rows for what the SDK's request types do not have.
var beside = map[string]string{
	"stream":                 "set by the SDK's method and not by its type",
	"temperature":            "taken with the version 2023-06-01, and gone from the SDK",
	"top_p":                  "as temperature",
	"top_k":                  "as temperature",
	"max_tokens=0":           "a value with a meaning of its own",
	"messages[].role=system": "the place of a message, not a member",

	"tools[].type=tool_search_tool_bm25_20251119":  "one of two words of the SDK's type",
	"tools[].type=tool_search_tool_regex_20251119": "one of two words of the SDK's type",
}

func TestField_F92_SurvivalTableHasEveryMemberOfTheSDK(t *testing.T) {
	t.Parallel()
	w := &sdkWalk{rows: rows(), seen: map[string]bool{}, miss: map[string]bool{}}
	w.walk(reflect.TypeFor[sdk.MessageNewParams](), "")
	stable := len(w.seen)
	w.walk(reflect.TypeFor[sdk.BetaMessageNewParams](), "")
	for path := range w.miss {
		t.Errorf("the SDK has %s, the table has no row for it", path)
	}
	for path := range w.rows {
		if beside[path] == "" && !w.seen[path] {
			t.Errorf("the table has a row for %s, which is not in the SDK", path)
		}
	}
	if stable < 90 {
		t.Errorf("found only %d members in the SDK", stable)
	}
}

// has reports whether the member at a path of the table is in v.
func has(v any, path string) bool {
	if path == "" {
		return true
	}
	if list, ok := v.([]any); ok {
		path = strings.TrimPrefix(strings.TrimPrefix(path, "[]"), ".")
		for _, x := range list {
			if has(x, path) {
				return true
			}
		}
		return false
	}
	o, ok := v.(map[string]any)
	if !ok {
		return false
	}
	name := path[:strings.IndexAny(path+".", ".[=")]
	inner, found := o[name]
	if rest, ok := strings.CutPrefix(path[len(name):], "="); ok {
		n, number := inner.(float64)
		return found && (inner == rest || number && strconv.FormatFloat(n, 'g', -1, 64) == rest)
	}
	return found && has(inner, strings.TrimPrefix(path[len(name):], "."))
}

// Every example uses its field and is understood whole, and its own protocol loses
// nothing of it but what one block or call has beside the common.
func TestSurvivalTableExamplesUseTheirFields(t *testing.T) {
	t.Parallel()
	inherent := []string{".caller", ".toolset_name", ".transformations.oversized_image", "messages[].clear_at", "messages[].output_config"}
	for _, f := range anthropic.New().Fields() {
		if f.Feature == llm.Core {
			if f.Example != "" {
				t.Errorf("%s is core and has an example", f.Path)
			}
			continue
		}
		t.Run(f.Path, func(t *testing.T) {
			t.Parallel()
			var v any
			if err := json.Unmarshal([]byte(f.Example), &v); err != nil {
				t.Fatalf("%v in %s", err, f.Example)
			}
			if !has(v, f.Path) {
				t.Errorf("not in its example %s", f.Example)
			}
			r := decode(t, f.Example)
			if len(r.Unknown) > 0 {
				t.Errorf("the decoder does not know %q of %s", r.Unknown, f.Example)
			}
			c := conversion(protocol.Anthropic)
			c.Options = protocol.Options{"*": protocol.Drop}
			got := encode(t, r, c)
			for _, end := range inherent {
				if strings.HasSuffix(f.Path, end) {
					if len(c.Losses) == 0 || c.Losses[0].Feature != f.Feature {
						t.Errorf("lost %v, want %s", c.Losses, f.Feature)
					}
					return
				}
			}
			wantLost(t, c)
			want := `{"model":"upstream",` + f.Example[1:]
			if f.Path == "output_format" { // where betas had output_config.format
				want = strings.Replace(want, `"output_format":{`, `"output_config":{"format":{`, 1) + "}"
			}
			wants(t, got, want)
		})
	}
}

// features are all constants of the type llm.Feature.
func features(t *testing.T) []llm.Feature {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "llm", "feature.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []llm.Feature
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for _, v := range spec.Values {
				if lit, ok := v.(*ast.BasicLit); ok {
					s, _ := strconv.Unquote(lit.Value)
					all = append(all, llm.Feature(s))
				}
			}
		}
		return true
	})
	if len(all) < 70 {
		t.Fatalf("found only %d features", len(all))
	}
	return all
}

func TestSurvivalTableKnowsEveryFeature(t *testing.T) {
	t.Parallel()
	c := anthropic.New()
	for _, f := range features(t) {
		s := c.Support(f)
		switch {
		case s == protocol.Support{}:
			t.Errorf("%q has no cell", f)
		case s.Fate == protocol.Inexpressible && s.Default == 0:
			t.Errorf("%q is lost, and nothing says what happens then", f)
		case s.Default == protocol.Substitute && s.Substitute == "":
			t.Errorf("%q is substituted by nothing", f)
		}
	}
}
