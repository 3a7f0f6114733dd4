package openairesponses_test

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

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3/responses"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openairesponses"
)

// taken are the elements of the SDK's unions of items and tools that are understood.
// All others are kept whole.
var taken = map[string]bool{
	"OfMessage": true, "OfInputMessage": true, "OfOutputMessage": true, "OfReasoning": true, "OfItemReference": true,
	"OfFunctionCall": true, "OfFunctionCallOutput": true, "OfCustomToolCall": true, "OfCustomToolCallOutput": true,
	"OfFunction": true, "OfCustom": true, "OfNamespace": true,
}

// typeWords are the words of types that the SDK has as enumerations.
var typeWords = map[string][]string{
	"OfWebSearch":        {"web_search", "web_search_2025_08_26"},
	"OfWebSearchPreview": {"web_search_preview", "web_search_preview_2025_03_11"},
	"OfComputerCall":     {"computer_call"},
	"OfHostedTool":       {"web_search"},
}

// sdk gathers the members of the SDK's request type.
type sdk struct {
	paths map[string]bool
	words map[string]bool // paths with the type of an element that is kept whole
}

// walk lists the members of a type, lists with [] and unions as one. What holds other
// members is not listed itself.
func (s *sdk) walk(t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice:
		s.walk(t.Elem(), path+"[]")
		return
	case t.Kind() != reflect.Struct, strings.HasPrefix(t.Name(), "Opt["):
		s.paths[path] = true
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, tagged := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() || f.Anonymous:
		case name == "" && tagged && strings.Contains(options, "inline"):
			if (path == "input[]" || path == "tools[]" || path == "tools[].tools[]") && !taken[f.Name] {
				s.whole(f, path)
				continue
			}
			s.walk(f.Type, path)
		case name != "":
			s.walk(f.Type, strings.TrimPrefix(path+"."+name, "."))
		}
	}
}

// whole notes the type of an element that is kept whole.
func (s *sdk) whole(f reflect.StructField, path string) {
	words := typeWords[f.Name]
	if len(words) == 0 {
		t := f.Type
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		kind, _ := t.FieldByName("Type")
		words = []string{kind.Tag.Get("default")}
	}
	for _, w := range words {
		s.words[path+".type="+w] = true
	}
}

// beside are the rows for members that the SDK's request type does not have.
var beside = map[string]string{
	"stream":                                "set by the SDK's method and not by its type",
	"client_metadata":                       "what the vendor's own agent sends",
	"input[].role=system":                   "the place of a message, not a member",
	"input[].type=item_reference":           "an item, not a member",
	"input[].content[].type=reasoning_text": "a value of a member that has others",
	"tool_choice.type=web_search":           "a value of a member that has others",
	"text.format.type=json_object":          "a value of a member that has others",
}

// unlisted are members of the SDK's request type without a row.
var unlisted = map[string]string{
	"input[].content[].logprobs": "of an answer that is sent back: nothing asks for them",
}

func TestField_F92_SurvivalTableHasEveryMemberOfTheSDK(t *testing.T) {
	t.Parallel()
	s := sdk{paths: map[string]bool{}, words: map[string]bool{}}
	s.walk(reflect.TypeFor[responses.ResponseNewParams](), "")
	inTable := map[string]bool{}
	for _, f := range openairesponses.New().Fields() {
		inTable[f.Path] = true
	}
	listed := func(path string) bool {
		for prefix := range unlisted {
			if strings.HasPrefix(path, prefix) {
				return true
			}
		}
		return inTable[path]
	}
	for path := range s.paths {
		if !listed(path) {
			t.Errorf("the SDK has %s, the table has no row for it", path)
		}
	}
	for path := range s.words {
		if !listed(path) {
			t.Errorf("the SDK has elements with %s, the table has no row for it", path)
		}
	}
	for path := range inTable {
		if !s.paths[path] && !s.words[path] && beside[path] == "" && !s.paths[path+"[]"] && !s.paths[path+".type"] && !s.paths[path+"[].type"] {
			t.Errorf("the table has a row for %s, which is not in the SDK", path)
		}
	}
	if len(s.paths) < 90 || len(s.words) < 35 {
		t.Errorf("found only %d members and %d types in the SDK", len(s.paths), len(s.words))
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
	inherent := map[string]llm.Feature{
		"top_logprobs": llm.FeatureLogprobs, "background": llm.FeatureBackground, "input[].async": llm.FeatureToolOption,
		"input[].caller.caller_id": llm.FeatureServerTool,
		"moderation.model":         llm.FeatureModeration, "moderation.policy.input.mode": llm.FeatureModeration, "moderation.policy.output.mode": llm.FeatureModeration,
	}
	for _, f := range openairesponses.New().Fields() {
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
			c := conversion(protocol.OpenAIResponses)
			c.Options = protocol.Options{"*": protocol.Drop}
			got := encode(t, r, c)
			if want := inherent[f.Path]; want != "" || f.Feature == llm.FeatureLogprobs {
				if len(c.Losses) != 1 || c.Losses[0].Feature != f.Feature {
					t.Errorf("lost %v, want %s", c.Losses, f.Feature)
				}
				return
			}
			wantLost(t, c)
			if strings.Contains(f.Path, "include_obfuscation") { // of a stream alone
				return
			}
			if diff := cmp.Diff(normal(t, `{"model":"upstream",`+f.Example[1:]), normal(t, got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
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
	c := openairesponses.New()
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
