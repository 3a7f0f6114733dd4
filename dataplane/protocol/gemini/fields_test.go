package gemini_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
)

// unlisted are fields of the SDK's types that no request has a row for, with the reason.
var unlisted = map[string]string{
	"httpOptions":                                  "is for the SDK",
	"automaticContinuation":                        "is for the SDK",
	"generationOutputConfig":                       "is sent as outputConfig",
	"contents[].parts[].functionCall.partialArgs":  "stands in answers alone",
	"contents[].parts[].functionCall.willContinue": "stands in answers alone",
}

// sent is where the SDK puts a field of GenerateContentConfig
// (generateContentConfigToMldev and its Vertex AI counterpart).
func sent(name string) string {
	switch name {
	case "systemInstruction", "safetySettings", "tools", "toolConfig", "labels", "cachedContent", "modelArmorConfig",
		"serviceTier", "continuationToken", "store", "httpOptions", "automaticContinuation", "generationOutputConfig":
		return name
	}
	return "generationConfig." + name
}

// walk visits the paths of a type's fields; it goes into a field if visit reports true.
func walk(typ reflect.Type, path string, visit func(string) bool) {
	switch typ.Kind() {
	case reflect.Pointer:
		walk(typ.Elem(), path, visit)
		return
	case reflect.Slice:
		if typ.Elem().Kind() != reflect.Uint8 {
			walk(typ.Elem(), path+"[]", visit)
		}
		return
	case reflect.Struct:
	default:
		return
	}
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		if visit(at) {
			walk(typ.Field(i).Type, at, visit)
		}
	}
}

func TestField_F92_EveryFieldOfTheSDKHasARow(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{}
	for _, f := range gemini.New().Fields() {
		if rows[f.Path] {
			t.Errorf("%s has two rows", f.Path)
		}
		rows[f.Path] = true
	}
	met := map[string]bool{}
	visit := func(path string) bool {
		// Parts of the system instruction are parts like any others.
		path = strings.Replace(path, "systemInstruction.parts[].", "contents[].parts[].", 1)
		met[path] = true
		if rows[path] || unlisted[path] != "" {
			return false
		}
		for row := range rows {
			if strings.HasPrefix(row, path+".") || strings.HasPrefix(row, path+"[]") {
				return true
			}
		}
		t.Errorf("%s has no row", path)
		return false
	}
	config := reflect.TypeFor[genai.GenerateContentConfig]()
	for i := range config.NumField() {
		name, _, _ := strings.Cut(config.Field(i).Tag.Get("json"), ",")
		if path := sent(name); visit(path) {
			walk(config.Field(i).Type, path, visit)
		}
	}
	walk(reflect.TypeFor[genai.GenerationConfig](), "generationConfig", visit)
	walk(reflect.TypeFor[[]*genai.Content](), "contents", visit)
	for path := range unlisted {
		if !met[path] {
			t.Errorf("%s is excused, and no field of the SDK", path)
		}
	}
	for path := range rows {
		switch {
		case met[path], strings.HasPrefix(path, "systemInstruction"):
		case path == "model", path == "outputConfig", path == "generationConfig.modelConfig", path == "generationConfig.continuationToken":
			// Not of the SDK's types: the first stands in the path too, the others are
			// names on the wire.
		default:
			t.Errorf("%s is no field of the SDK", path)
		}
	}
}

// has reports whether a value has something at a path of rows.
func has(v any, path string) bool {
	if path == "" {
		return true
	}
	step, rest, _ := strings.Cut(path, ".")
	name, list := strings.CutSuffix(step, "[]")
	o, _ := v.(map[string]any)
	inner, ok := o[name]
	if !ok || !list {
		return ok && has(inner, rest)
	}
	elements, _ := inner.([]any)
	for _, e := range elements {
		if has(e, rest) {
			return true
		}
	}
	return false
}

// An example uses its field, is understood to the last member, comes out as it was, and a
// strict provider takes it.
func TestExamplesOfFieldsAreValid(t *testing.T) {
	t.Parallel()
	for _, f := range gemini.New().Fields() {
		if f.Feature == llm.Core {
			continue
		}
		v := value(t, []byte(f.Example))
		if !has(v, f.Path) {
			t.Errorf("%s is not used by %s", f.Path, f.Example)
		}
		r := decode(t, f.Example)
		if len(r.Unknown) > 0 {
			t.Errorf("%s: unknown fields %v", f.Path, r.Unknown)
		}
		c := own()
		c.Options = protocol.Options{"*": protocol.Drop}
		body := encode(t, r, c)
		for _, l := range c.Losses {
			switch l.Feature {
			case llm.FeatureChoices, llm.FeatureLogprobs, llm.FeatureStreamOption, llm.FeatureToolOption, llm.FeatureReasoningState:
			default:
				t.Errorf("%s loses %s", f.Path, l)
			}
		}
		if strings.Contains(f.Note, "becomes JSON Schema") || len(c.Losses) > 0 {
			continue
		}
		if diff := cmp.Diff(v, value(t, body)); diff != "" {
			t.Errorf("%s (-example +encoded):\n%s", f.Path, diff)
		}
		switch f.Path {
		case "contents[].parts[].audioTranscription", "generationConfig.continuationToken", "continuationToken":
			continue
		}
		if !strings.HasPrefix(f.Note, "Vertex AI") {
			accepted(t, []byte(f.Example), "gemini-3-pro")
		}
	}
}

// Another protocol's table decides on every field that only this one has: its feature is
// among the request's, with the field as its path.
func TestFieldsOfTheirOwnAreExtras(t *testing.T) {
	t.Parallel()
	for _, f := range gemini.New().Fields() {
		if f.Feature == llm.Core {
			continue
		}
		r := decode(t, f.Example)
		found := false
		for _, x := range r.Extras {
			found = found || x.Feature == f.Feature && x.Field == f.Path && len(x.Raw) > 0
		}
		for _, tool := range r.Tools {
			for _, x := range tool.Extras {
				found = found || x.Feature == f.Feature && x.Field == f.Path
			}
			found = found || "tools[]."+tool.Server == f.Path
		}
		if !found && !named(f) {
			t.Errorf("%s is no extra of %s in %+v", f.Path, f.Feature, r.Extras)
		}
	}
}

// named reports whether a field has a name in llm.Request or its parts.
func named(f protocol.Field) bool {
	for _, prefix := range []string{
		"generationConfig.temperature", "generationConfig.top", "generationConfig.stop", "generationConfig.responseMimeType",
		"generationConfig.responseSchema", "generationConfig.responseJsonSchema", "generationConfig.thinkingConfig",
		"toolConfig.functionCallingConfig.mode", "toolConfig.functionCallingConfig.allowed",
		"contents[].parts[].thought", "contents[].parts[].inlineData", "contents[].parts[].fileData", "contents[].parts[].executableCode",
		"contents[].parts[].codeExecutionResult", "contents[].parts[].tool", "contents[].parts[].functionResponse.parts",
	} {
		if strings.HasPrefix(f.Path, prefix) {
			return true
		}
	}
	return false
}

// features are all constants of the type llm.Feature.
func features(t *testing.T) map[string]llm.Feature {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "llm", "feature.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]llm.Feature{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if lit, ok := spec.Values[i].(*ast.BasicLit); ok {
				s, _ := strconv.Unquote(lit.Value)
				all[name.Name] = llm.Feature(s)
			}
		}
		return true
	})
	if len(all) < 80 {
		t.Fatalf("%d features, where are the others?", len(all))
	}
	return all
}

func TestEveryFeatureHasAnAnswer(t *testing.T) {
	t.Parallel()
	for name, f := range features(t) {
		s := gemini.New().Support(f)
		if s == (protocol.Support{}) {
			t.Errorf("%s: no answer", name)
		}
		if s.Fate == protocol.Inexpressible && s.Default == 0 {
			t.Errorf("%s: nothing expresses it, and nothing says what to do", name)
		}
		if s.Default == protocol.Substitute && s.Substitute == "" {
			t.Errorf("%s: is substituted by nothing", name)
		}
	}
}
