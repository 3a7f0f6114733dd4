package openaichat_test

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

	"github.com/openai/openai-go/v3"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
)

// sdkPaths lists the members of a request type of the vendor's SDK, lists with [] and
// unions as one. What holds other members is not listed itself.
func sdkPaths(t reflect.Type, path string, into map[string]bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice:
		sdkPaths(t.Elem(), path+"[]", into)
		return
	case t.Kind() != reflect.Struct, strings.HasPrefix(t.Name(), "Opt["):
		into[path] = true
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, tagged := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() || f.Anonymous:
		case name == "" && tagged && strings.Contains(options, "inline"):
			sdkPaths(f.Type, path, into)
		case name != "":
			sdkPaths(f.Type, strings.TrimPrefix(path+"."+name, "."), into)
		}
	}
}

// beside are the rows for members that the SDK's request type does not have.
var beside = map[string]string{
	"stream":                           "set by the SDK's method and not by its type",
	"messages[].role=system":           "the place of a message, not a member",
	"response_format.type=json_object": "a value of a member that has others",
	"messages[].reasoning_content":     "what compatible servers answer, sent back",
	"messages[].annotations":           "what the vendor answers, sent back",
}

func TestField_F92_SurvivalTableHasEveryMemberOfTheSDK(t *testing.T) {
	t.Parallel()
	inSDK := map[string]bool{}
	sdkPaths(reflect.TypeFor[openai.ChatCompletionNewParams](), "", inSDK)
	inTable := map[string]bool{}
	for _, f := range openaichat.New().Fields() {
		inTable[f.Path] = true
	}
	for path := range inSDK {
		if !inTable[path] {
			t.Errorf("the SDK has %s, the table has no row for it", path)
		}
	}
	for path := range inTable {
		if !inSDK[path] && beside[path] == "" {
			t.Errorf("the table has a row for %s, which is not in the SDK", path)
		}
	}
	if len(inSDK) < 80 {
		t.Errorf("found only %d members in the SDK", len(inSDK))
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
		return found && inner == rest
	}
	return found && has(inner, strings.TrimPrefix(path[len(name):], "."))
}

// Every example uses its field, is understood whole, and its own protocol loses of it
// only what one answer cannot hold.
func TestSurvivalTableExamplesUseTheirFields(t *testing.T) {
	t.Parallel()
	inherent := map[llm.Feature]bool{
		llm.FeatureChoices: true, llm.FeatureLogprobs: true, llm.FeatureModeration: true, llm.FeatureLegacyFunctions: true,
		llm.FeatureCitationHistory: true, llm.FeatureReasoningText: true,
	}
	for _, f := range openaichat.New().Fields() {
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
			c := conversion(protocol.OpenAIChat)
			c.Options = protocol.Options{"*": protocol.Drop}
			got := encode(t, r, c)
			if inherent[f.Feature] {
				if len(c.Losses) != 1 || c.Losses[0].Feature != f.Feature {
					t.Errorf("lost %v, want %s", c.Losses, f.Feature)
				}
				return
			}
			wantLost(t, c)
			f.Example = strings.Replace(f.Example, "safety_identifier", "user", 1) // which all servers know
			if !strings.Contains(f.Path, "include_obfuscation") {                  // of a stream alone
				same(t, got, `{"model":"upstream",`+f.Example[1:])
			}
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
	c := openaichat.New()
	for _, f := range features(t) {
		s := c.Support(f)
		switch {
		case s == protocol.Support{} && f != llm.Core:
			t.Errorf("%q has no cell", f)
		case s.Fate == protocol.Inexpressible && s.Default == 0:
			t.Errorf("%q is lost, and nothing says what happens then", f)
		case s.Default == protocol.Substitute && s.Substitute == "":
			t.Errorf("%q is substituted by nothing", f)
		}
	}
}
