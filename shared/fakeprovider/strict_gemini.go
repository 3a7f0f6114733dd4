package fakeprovider

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// geminiWords is how Gemini complains.
type geminiWords struct{}

func (geminiWords) unknown(at where) *Failure {
	name, _ := at[len(at)-1].(string)
	return refuse("Invalid JSON payload received. Unknown name %q at '%s': Cannot find field.", name, at[:len(at)-1].brackets())
}

func (geminiWords) wrongType(at where, want string) *Failure {
	return refuse("Invalid value at '%s': expected %s", at.brackets(), want)
}

func (geminiWords) wrongValue(at where, got string, want []string) *Failure {
	return refuse("Invalid value at '%s': %q is not one of %q", at.brackets(), got, want)
}

// checkGemini checks a generateContent or countTokens request.
func (c *call) checkGemini(in tree) *Failure {
	known, kind := c.p.strict.gemini, "Request"
	if c.operation == CountTokens {
		kind = "CountRequest"
	}
	if f := known.check(map[string]any(in), kind, nil, geminiWords{}); f != nil {
		return f
	}
	if inner := in.object("generateContentRequest"); inner != nil {
		in = inner
	}
	return first(
		func() *Failure { return geminiConfig(in, known) },
		func() *Failure { return geminiTools(in, known) },
		func() *Failure {
			if in.has("systemInstruction") {
				return geminiParts(in.object("systemInstruction"), where{"systemInstruction"}, false)
			}
			return nil
		},
		func() *Failure { return geminiContents(in.objects("contents"), c.model) },
	)
}

func geminiConfig(in tree, known shapes) *Failure {
	const at = "generationConfig"
	g := in.object(at)
	if n := len(g.list("stopSequences")); n > 5 {
		return refuse("* GenerateContentRequest.generation_config.stop_sequences: at most 5 stop sequences may be given, got %d", n)
	}
	if n := g.number("temperature"); n < 0 || n > 2 {
		return refuse("* GenerateContentRequest.generation_config.temperature: must be in the range [0.0, 2.0]")
	}
	if n, given := g["candidateCount"].(float64); given && (n < 1 || n > 8) {
		return refuse("* GenerateContentRequest.generation_config.candidate_count: must be in the range [1, 8]")
	}
	if t := g.object("thinkingConfig"); t.has("thinkingBudget") && t.has("thinkingLevel") {
		return refuse("You can only set only one of thinking budget and thinking level.")
	}
	plain, schema := g.has("responseJsonSchema"), g.has("responseSchema")
	switch mime := g.text("responseMimeType"); {
	case plain && schema:
		return refuse("* GenerateContentRequest.generation_config: only one of response_schema and response_json_schema may be set")
	case (plain || schema) && mime != "application/json" && mime != "text/x.enum":
		return refuse("* GenerateContentRequest.generation_config.response_schema: only allowed when mime type is set to 'application/json' or 'text/x.enum'")
	}
	return geminiSchema(g["responseSchema"], where{at, "responseSchema"}, known)
}

// geminiTypes are the words of Type, which is read in any case.
var geminiTypes = []string{"TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"}

// geminiSchema checks that a schema keeps to the OpenAPI subset.
func geminiSchema(v any, at where, known shapes) *Failure {
	if v == nil {
		return nil
	}
	if f := known.check(v, "Schema", at, geminiWords{}); f != nil {
		return f
	}
	return geminiSubset(v, at)
}

// geminiSubset checks what the names of the fields do not say.
func geminiSubset(v any, at where) *Failure {
	if v == nil {
		return nil
	}
	s, ok := v.(map[string]any)
	if !ok {
		return geminiWords{}.wrongType(at, "an object")
	}
	if _, list := s["type"].([]any); list {
		return refuse("Invalid value at '%s': Proto field is not repeating, cannot start list.", at.name("type").brackets())
	}
	t := tree(s)
	if word := t.text("type"); t.has("type") && !slices.Contains(geminiTypes, strings.ToUpper(word)) {
		return geminiWords{}.wrongValue(at.name("type"), word, geminiTypes)
	}
	for _, e := range t.list("enum") {
		if _, text := e.(string); !text {
			return refuse("Invalid value at '%s' (TYPE_STRING), %v", at.name("enum").brackets(), e)
		}
	}
	for _, e := range t.list("required") {
		if name, _ := e.(string); !t.object("properties").has(name) {
			return refuse("* %s: property %q is not defined", at.name("required").brackets(), name)
		}
	}
	if strings.EqualFold(t.text("type"), "array") && !t.has("items") {
		return refuse("* %s: missing field.", at.name("items").brackets())
	}
	properties := t.object("properties")
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if f := geminiSubset(properties[name], at.name("properties").name(name)); f != nil {
			return f
		}
	}
	for i, inner := range t.list("anyOf") {
		if f := geminiSubset(inner, at.name("anyOf").element(i)); f != nil {
			return f
		}
	}
	return geminiSubset(t["items"], at.name("items"))
}

// geminiName is what functions may be called.
var geminiName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$`)

func geminiTools(in tree, known shapes) *Failure {
	var names []string
	for i, t := range in.objects("tools") {
		for j, fn := range t.objects("functionDeclarations") {
			at := where{"tools"}.element(i).name("functionDeclarations").element(j)
			name := fn.text("name")
			switch {
			case !geminiName.MatchString(name):
				return refuse("* %s.name: Invalid function name. Must start with a letter or an underscore and match %s.", at.brackets(), geminiName)
			case slices.Contains(names, name):
				return refuse("Duplicate function declaration found: %s", name)
			case fn.has("parameters") && fn.has("parametersJsonSchema"):
				return refuse("* %s: only one of parameters and parameters_json_schema may be set", at.brackets())
			case fn.has("response") && fn.has("responseJsonSchema"):
				return refuse("* %s: only one of response and response_json_schema may be set", at.brackets())
			}
			names = append(names, name)
			for _, field := range []string{"parameters", "response"} {
				if f := geminiSchema(fn[field], at.name(field), known); f != nil {
					return f
				}
			}
		}
	}
	calling := in.object("toolConfig").object("functionCallingConfig")
	allowed := calling.list("allowedFunctionNames")
	if mode := calling.text("mode"); len(allowed) > 0 && mode != "ANY" && mode != "VALIDATED" {
		return refuse("Invalid function calling config: allowed_function_names should be set only when the function calling mode is ANY")
	}
	for _, e := range allowed {
		if name, _ := e.(string); !slices.Contains(names, name) {
			return refuse("Invalid function calling config: %q in allowed_function_names is not a declared function", name)
		}
	}
	return nil
}
