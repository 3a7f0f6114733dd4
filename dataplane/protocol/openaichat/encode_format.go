package openaichat

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// chooseFormat decides how the form of the answer is asked for, before the messages
// are written: a part of it may have to be said there.
func (e *requestEncoder) chooseFormat() *fault.Error {
	form := e.r.Format
	e.form = form.Kind
	switch form.Kind {
	case llm.FormatJSON:
		// The vendor refuses JSON mode unless the messages speak of JSON.
		if !e.vendors() && !e.mentionsJSON() {
			a, f := e.lose(llm.FeatureJSONObject)
			if f != nil {
				return f
			}
			if e.form = llm.FormatText; a == protocol.Substitute {
				e.form, e.instruction = llm.FormatJSON, "Answer with a JSON object."
			}
		}
	case llm.FormatSchema:
		if e.compat().GetNoJsonSchema() {
			return e.describeSchema()
		}
		return e.chooseStrict()
	}
	return nil
}

// describeSchema stands in for a schema that the server does not take.
func (e *requestEncoder) describeSchema() *fault.Error {
	a, f := e.lose(llm.FeatureJSONSchema)
	if f != nil {
		return f
	}
	if e.form = llm.FormatText; a == protocol.Substitute {
		e.form = llm.FormatJSON
		e.instruction = "Answer with a JSON object that follows this JSON Schema:\n" + string(e.r.Format.Schema)
	}
	return nil
}

// chooseStrict decides whether the schema is to be enforced. Chat enforces it only if
// told so, other protocols always do.
func (e *requestEncoder) chooseStrict() *fault.Error {
	stated := e.r.Format.Strict
	if e.vendors() {
		e.strict = stated != nil && *stated
	} else {
		e.strict = stated == nil || *stated
	}
	if e.strict && (e.compat().GetNoStrict() || !e.vendors() && !strictSchema(e.r.Format.Schema)) {
		e.strict = false
		_, f := e.lose(llm.FeatureSchemaStrict)
		return f
	}
	return nil
}

func (e *requestEncoder) mentionsJSON() bool {
	for i := range e.r.Messages {
		for j := range e.r.Messages[i].Parts {
			if p := &e.r.Messages[i].Parts[j]; p.Kind == llm.PartText && containsFold(p.Text, "json") {
				return true
			}
		}
	}
	return false
}

// containsFold is strings.Contains without regard to the case of ASCII letters. word
// is in lower case.
func containsFold(s, word string) bool {
	for {
		i := strings.IndexAny(s, word[:1]+strings.ToUpper(word[:1]))
		if i < 0 || len(s)-i < len(word) {
			return false
		}
		if strings.EqualFold(s[i:i+len(word)], word) {
			return true
		}
		s = s[i+1:]
	}
}

// format writes response_format.
func (e *requestEncoder) format() *fault.Error {
	switch e.form {
	case llm.FormatJSON:
		e.b = append(wirejson.AppendMember(e.b, "response_format"), `{"type":"json_object"}`...)
	case llm.FormatSchema:
		e.schema()
	}
	return nil
}

func (e *requestEncoder) schema() {
	form := e.r.Format
	name := form.Name
	if name == "" {
		name = "answer" // the protocol demands one
	}
	e.b = append(wirejson.AppendMember(e.b, "response_format"), `{"type":"json_schema","json_schema":{`...)
	e.b = wirejson.AppendStringMember(e.b, "name", name)
	if form.Description != "" {
		e.b = wirejson.AppendStringMember(e.b, "description", form.Description)
	}
	if form.Schema != nil {
		e.b = wirejson.AppendRawMember(e.b, "schema", form.Schema)
	}
	if e.strict || form.Strict != nil && !*form.Strict && !e.compat().GetNoStrict() {
		e.b = wirejson.AppendBoolMember(e.b, "strict", e.strict)
	}
	e.b = append(e.b, "}}"...)
}
