package fakeprovider

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

// comparison walks the request types of an SDK and a table of ours side by side.
type comparison struct {
	table shapes
	seen  map[string]bool
	found []string // differences

	// fields are those the SDK has, by shape; a shape stands for several types.
	fields map[string]map[string]bool
}

func (c *comparison) differ(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

func elem(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// isObject tells types that are written as objects of known fields.
func isObject(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !strings.HasPrefix(t.Name(), "Opt[") && t.PkgPath() != "time"
}

// variants are the types of a union. The SDKs of OpenAI and Anthropic write one as a
// struct of which one field is set; some hold themselves.
func variants(t reflect.Type, within ...reflect.Type) []reflect.Type {
	if slices.Contains(within, t) {
		return nil
	}
	var out []reflect.Type
	for f := range fieldsOf(t) {
		if strings.HasPrefix(f.Name, "Of") && strings.Contains(f.Tag.Get("json"), "inline") {
			if v := elem(f.Type); isObject(v) {
				if inner := variants(v, append(within, t)...); len(inner) > 0 {
					out = append(out, inner...)
				} else if !isUnion(v) {
					out = append(out, v)
				}
			}
		}
	}
	return out
}

func isUnion(t reflect.Type) bool {
	for f := range fieldsOf(t) {
		if strings.HasPrefix(f.Name, "Of") && strings.Contains(f.Tag.Get("json"), "inline") {
			return true
		}
	}
	return false
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// word is the constant that tells t from the other types of its union.
func word(t reflect.Type, by string) string {
	for f := range fieldsOf(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != by {
			continue
		}
		if m, ok := f.Type.MethodByName("Default"); ok {
			return m.Func.Call([]reflect.Value{reflect.Zero(f.Type)})[0].String()
		}
	}
	return ""
}

func (c *comparison) walk(t reflect.Type, kind string) {
	if kind == "*" || c.seen[t.String()+" "+kind] {
		return
	}
	c.seen[t.String()+" "+kind] = true
	s, known := c.table[kind]
	if !known {
		c.differ("there is no shape %q, for %s", kind, t)
		return
	}
	if isUnion(t) {
		for _, v := range variants(t) {
			if s.by == "" {
				c.walk(v, kind)
				continue
			}
			w := word(v, s.by)
			if w == "" { // of several words, which the tests of requests name
				continue
			}
			inner, ok := s.fields[w]
			if !ok {
				c.differ("%s has no %s %q, which is %s", kind, s.by, w, v)
				continue
			}
			c.object(v, inner)
		}
		return
	}
	c.object(t, kind)
}

func (c *comparison) object(t reflect.Type, kind string) {
	key := t.String() + " as " + kind
	if c.seen[key] {
		return
	}
	c.seen[key] = true
	s := c.table[kind]
	if w := word(t, s.by); s.by != "" && w != "" {
		if inner, ok := s.fields[w]; ok {
			c.object(t, inner)
		} else {
			c.differ("%s has no %s %q, which is %s", kind, s.by, w, t)
		}
		return
	}
	if s.by != "" { // one type for all words
		for _, inner := range s.fields {
			if inner != "*" {
				c.object(t, inner)
			}
		}
		return
	}
	if kind == "*" {
		return
	}
	if c.fields[kind] == nil {
		c.fields[kind] = make(map[string]bool)
	}
	for f := range fieldsOf(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		c.fields[kind][name] = true
		inner, ok := s.fields[name]
		if !ok {
			c.differ("%s has no field %q, which %s has", kind, name, t)
			continue
		}
		v := elem(f.Type)
		object := isObject(v) && (!isUnion(v) || len(variants(v)) > 0)
		free := v.Kind() == reflect.Map || v.Kind() == reflect.Interface
		switch {
		case inner == "*":
		case strings.HasPrefix(inner, "{"):
			if v.Kind() != reflect.Map {
				c.differ("%s.%s is not a map in %s", kind, name, t)
			}
		case free:
			c.differ("%s.%s is free in %s", kind, name, t)
		case inner == "" && object:
			c.differ("%s.%s is an object in %s", kind, name, t)
		case inner != "" && object:
			c.walk(v, inner)
		}
	}
}

// report fails for every difference that is not declared. added are the fields that
// the SDKs do not have where we do, left out those of the SDK that the API does not take.
func (c *comparison) report(t *testing.T, added, leftOut []string) {
	t.Helper()
	for kind, fields := range c.fields {
		for _, name := range slices.Sorted(maps.Keys(c.table[kind].fields)) {
			if !fields[name] {
				c.differ("%s.%s is in no type of the SDK", kind, name)
			}
		}
	}
	for _, d := range c.found {
		n := slices.IndexFunc(added, func(a string) bool { return d == a+" is in no type of the SDK" })
		if n >= 0 {
			added = slices.Delete(added, n, n+1)
			continue
		}
		if !slices.ContainsFunc(leftOut, func(l string) bool {
			kind, name, _ := strings.Cut(l, ".")
			return strings.HasPrefix(d, kind+" has no") && strings.Contains(d, `"`+name+`"`)
		}) {
			t.Error(d)
		}
	}
	if len(added) > 0 {
		t.Errorf("declared as not of the SDK, but they are: %q", added)
	}
}

// root is a type of an SDK and the shape it has to have.
type root struct {
	kind string
	of   any
}

func compare(table shapes, roots ...root) *comparison {
	c := &comparison{table: table, seen: make(map[string]bool), fields: make(map[string]map[string]bool)}
	for _, r := range roots {
		c.walk(reflect.TypeOf(r.of), r.kind)
	}
	return c
}

// The tables are those of the SDKs this module is built with: a field that a new version
// adds is missing here until somebody looks.
func TestShapesAreThoseOfTheSDKs(t *testing.T) {
	t.Parallel()
	t.Run("chat", func(t *testing.T) {
		t.Parallel()
		c := compare(readShapes(chatShapes), root{"Request", openai.ChatCompletionNewParams{}})
		c.report(t, []string{
			"Request.stream",
			"Assistant.annotations", // answers have it, so it comes back
		}, nil)
	})
	t.Run("responses", func(t *testing.T) {
		t.Parallel()
		c := compare(readShapes(responsesShapes),
			root{"Request", responses.ResponseNewParams{}},
			root{"InputMessage", responses.EasyInputMessageParam{}},
			root{"InputMessage", responses.ResponseInputItemMessageParam{}},
			root{"Reference", responses.ResponseInputItemItemReferenceParam{}},
		)
		c.report(t, []string{
			"Request.stream", "Request.client_metadata",
			"InputMessage.id", "CustomCall.status", // answers have them, so they come back
		}, nil)
	})
	t.Run("anthropic", func(t *testing.T) {
		t.Parallel()
		table := readShapes(anthropicShapes)
		maps.Copy(table["Request"].fields, table["BetaRequest"].fields)
		delete(table, "BetaRequest")
		c := compare(table,
			root{"Request", anthropic.MessageNewParams{}}, root{"Request", anthropic.BetaMessageNewParams{}},
			root{"Custom", anthropic.ToolParam{}}, root{"Custom", anthropic.BetaToolParam{}},
		)
		c.report(t, []string{
			"Request.stream", "Request.temperature", "Request.top_k", "Request.top_p", // before 2026-10-21
		}, nil)
	})
	t.Run("gemini", func(t *testing.T) {
		t.Parallel()
		c := compare(readShapes(geminiShapes),
			root{"Content", genai.Content{}}, root{"GenerationConfig", genai.GenerationConfig{}}, root{"Tool", genai.Tool{}},
			root{"ToolConfig", genai.ToolConfig{}}, root{"SafetySetting", genai.SafetySetting{}}, root{"Schema", genai.Schema{}},
			root{"ImageConfig", genai.ImageConfig{}},
		)
		// What genai refuses to send to the Gemini API, as only Vertex AI has it.
		c.report(t, []string{"GenerationConfig.imageConfig", "GenerationConfig.continuationToken"}, []string{
			"FileData.displayName", "Blob.displayName", "FunctionCall.partialArgs", "FunctionCall.willContinue",
			"CallingConfig.streamFunctionCallArguments", "SafetySetting.method",
			"GenerationConfig.audioTimestamp", "GenerationConfig.modelSelectionConfig", "GenerationConfig.routingConfig",
			"Tool.enterpriseWebSearch", "Tool.exaAiSearch", "Tool.parallelAiSearch", "Tool.retrieval",
			"ImageConfig.imageOutputOptions", "ImageConfig.outputCompressionQuality", "ImageConfig.outputMimeType",
			"ImageConfig.personGeneration", "ImageConfig.prominentPeople",
		})
	})
}
