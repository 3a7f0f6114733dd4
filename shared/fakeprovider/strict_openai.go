package fakeprovider

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// openaiWords is how both OpenAI protocols complain.
type openaiWords struct{}

func (openaiWords) unknown(at where) *Failure {
	return refuseAt(at.brackets(), "Unknown parameter: '%s'.", at.brackets())
}

func (openaiWords) wrongType(at where, want string) *Failure {
	return refuseAt(at.brackets(), "Invalid type for '%s': expected %s, but got something else instead.", at.brackets(), want)
}

func (openaiWords) wrongValue(at where, got string, want []string) *Failure {
	return refuseAt(at.brackets(), "Invalid value: '%s'. Supported values are: '%s'.", got, strings.Join(want, "', '"))
}

func missing(param string) *Failure {
	return refuseAt(param, "Missing required parameter: '%s'.", param)
}

func emptyArray(param string) *Failure {
	return refuseAt(param, "Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead.", param)
}

// openaiName is what functions and schemas may be called.
var openaiName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// checkName checks the name of a function or schema.
func checkName(t tree, at where) *Failure {
	at = at.name("name")
	switch name := t.text("name"); {
	case name == "":
		return missing(at.brackets())
	case !openaiName.MatchString(name):
		return refuseAt(at.brackets(), "Invalid '%s': string does not match pattern. Expected a string that matches the pattern '%s'.", at.brackets(), openaiName)
	}
	return nil
}

// checkFunction checks a function that is offered, in Chat's inner or Responses' flat
// form.
func checkFunction(t tree, at where) *Failure {
	if f := checkName(t, at); f != nil {
		return f
	}
	parameters := t.object("parameters")
	if len(parameters) == 0 && !t.truth("strict") {
		return nil
	}
	if word := parameters.text("type"); word != "object" {
		return refuseAt(at.name("parameters").brackets(),
			"Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"%s\"'.", t.text("name"), word)
	}
	if !t.truth("strict") {
		return nil
	}
	return strictSchema(parameters, "function '"+t.text("name")+"'", at.name("parameters").brackets(), nil)
}

// checkSchema checks a wanted form of answer, in Chat's inner or Responses' flat form.
func checkSchema(t tree, at where) *Failure {
	if f := checkName(t, at); f != nil {
		return f
	}
	if !t.truth("strict") {
		return nil
	}
	what := "response_format '" + t.text("name") + "'"
	if t.object("schema").text("type") != "object" {
		return refuseAt(at.name("schema").brackets(), "Invalid schema for %s: schema must be a JSON Schema of 'type: \"object\"'.", what)
	}
	return strictSchema(t.object("schema"), what, at.name("schema").brackets(), nil)
}

// strictSchema checks what strict mode asks of a schema: every object is closed, and all
// of its properties are required.
func strictSchema(s tree, what, param string, context []string) *Failure {
	where := "In context=(" + strings.Join(context, ", ") + ")"
	properties := s.object("properties")
	if s.text("type") == "object" || properties != nil {
		if open, given := s["additionalProperties"].(bool); !given || open {
			return refuseAt(param, "Invalid schema for %s: %s, 'additionalProperties' is required to be supplied and to be false.", what, where)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if !slices.Contains(s.list("required"), any(name)) {
			return refuseAt(param, "Invalid schema for %s: %s, 'required' is required to be supplied and to be an array including every key in properties. Missing '%s'.", what, where, name)
		}
	}
	for _, holder := range []string{"properties", "$defs", "definitions"} {
		inner := s.object(holder)
		for _, name := range slices.Sorted(maps.Keys(inner)) {
			if f := strictSchema(inner.object(name), what, param, slices.Concat(context, []string{"'" + holder + "'", "'" + name + "'"})); f != nil {
				return f
			}
		}
	}
	if items := s.object("items"); items != nil {
		if f := strictSchema(items, what, param, slices.Concat(context, []string{"'items'"})); f != nil {
			return f
		}
	}
	for _, one := range s.objects("anyOf") {
		if f := strictSchema(one, what, param, slices.Concat(context, []string{"'anyOf'"})); f != nil {
			return f
		}
	}
	return nil
}

// checkShared checks what both protocols take in the same form.
func checkShared(in tree) *Failure {
	if in.has("stream_options") && !in.truth("stream") {
		return refuseAt("stream_options", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	}
	if n := in.number("temperature"); n < 0 || n > 2 {
		return refuseAt("temperature", "Invalid 'temperature': expected a value between 0 and 2, but got %v instead.", n)
	}
	return nil
}
