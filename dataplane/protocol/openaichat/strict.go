package openaichat

import "github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"

// strictSchema reports whether the vendor takes a schema with strict:true: each object
// closed by additionalProperties:false and each of its properties required, an object
// at the root, and none of the words that strict mode lacks.
// Source: OpenAI's guide to structured outputs.
func strictSchema(raw []byte) bool {
	if raw == nil {
		return false
	}
	var r wirejson.Reader
	r.ResetLenient(raw)
	s := strictness{r: &r}
	root := s.schema()
	return r.Done() == nil && !s.broken && root.object && !root.choice
}

// strictness walks over a schema.
type strictness struct {
	r      *wirejson.Reader
	broken bool
}

// shape is what a schema says of itself.
type shape struct{ object, choice bool }

func (s *strictness) schema() (is shape) {
	if s.r.Kind() != '{' {
		s.broken = true // true and false are schemas elsewhere
		s.r.Skip()
		return is
	}
	s.r.Enter('{')
	closed := false
	var properties, required []string
	for s.r.Next() {
		switch string(s.r.Name()) {
		case "type":
			is.object = s.typed() || is.object
		case "properties":
			is.object = true
			properties = s.each(properties)
		case "required":
			if s.r.Enter('[') {
				for s.r.Next() {
					name, _ := s.r.Text()
					required = append(required, name)
				}
			}
		case "additionalProperties":
			open, ok := s.r.Bool()
			closed = ok && !open
		case "items":
			s.schema()
		case "$defs", "definitions":
			s.each(nil)
		case "anyOf":
			is.choice = true
			if s.r.Enter('[') {
				for s.r.Next() {
					s.schema()
				}
			}
		case "allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties",
			"propertyNames", "unevaluatedProperties", "unevaluatedItems", "prefixItems", "contains":
			s.broken = true
		}
	}
	if is.object && (!closed || !sameNames(properties, required)) {
		s.broken = true
	}
	return is
}

// typed reports whether type is object, alone or among others.
func (s *strictness) typed() (object bool) {
	if s.r.Kind() != '[' {
		word, _ := s.r.String(maxName)
		return word == "object"
	}
	s.r.Enter('[')
	for s.r.Next() {
		word, _ := s.r.String(maxName)
		object = object || word == "object"
	}
	return object
}

// each walks over the schemas of an object's members and appends their names.
func (s *strictness) each(names []string) []string {
	if s.r.Enter('{') {
		for s.r.Next() {
			names = append(names, string(s.r.Name()))
			s.schema()
		}
	}
	return names
}

// sameNames reports whether two lists, each without repetition, name the same.
func sameNames(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	known := make(map[string]bool, len(a))
	for _, name := range a {
		known[name] = true
	}
	for _, name := range b {
		if !known[name] {
			return false
		}
	}
	return true
}
