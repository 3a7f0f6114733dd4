package openairesponses

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// chooseFormat decides how the form of the answer is asked for, before the input is
// written: a part of it may have to be said there.
func (e *requestEncoder) chooseFormat() *fault.Error {
	form := e.r.Format
	e.form = form.Kind
	switch form.Kind {
	case llm.FormatJSON:
		// The vendor refuses JSON mode unless the input speaks of JSON.
		if !e.vendors() && !openaichat.MentionsJSON(e.r) {
			a, f := e.lose(llm.FeatureJSONObject)
			if f != nil {
				return f
			}
			if e.form = llm.FormatText; a == protocol.Substitute {
				e.form, e.instruction = llm.FormatJSON, "Answer with a JSON object."
			}
		}
	case llm.FormatSchema:
		if e.compat().GetNoJsonSchema() || form.Schema == nil {
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

// chooseStrict decides whether the schema is to be enforced. OpenAI's protocols enforce
// it only if told so, other ones always do.
func (e *requestEncoder) chooseStrict() *fault.Error {
	stated := e.r.Format.Strict
	if e.vendors() {
		e.strict = stated != nil && *stated
	} else {
		e.strict = stated == nil || *stated
	}
	if e.strict && (e.compat().GetNoStrict() || !e.vendors() && !openaichat.StrictSchema(e.r.Format.Schema)) {
		e.strict = false
		_, f := e.lose(llm.FeatureSchemaStrict)
		return f
	}
	return nil
}

// text writes the form of the answer, and how wordy it is to be.
func (e *requestEncoder) text() *fault.Error {
	verbosity := e.given[optVerbosity]
	if e.form == llm.FormatText && verbosity == nil {
		return nil
	}
	e.b = append(wirejson.AppendMember(e.b, "text"), '{')
	switch e.form {
	case llm.FormatJSON:
		e.b = append(e.b, `"format":{"type":"json_object"}`...)
	case llm.FormatSchema:
		e.schema()
	}
	if verbosity != nil {
		e.b = wirejson.AppendRawMember(e.b, "verbosity", verbosity)
	}
	e.b = append(e.b, '}')
	return nil
}

func (e *requestEncoder) schema() {
	form := e.r.Format
	name := form.Name
	if name == "" {
		name = "answer" // the protocol demands one
	}
	e.b = append(e.b, `"format":{"type":"json_schema"`...)
	e.b = wirejson.AppendStringMember(e.b, "name", name)
	if form.Description != "" {
		e.b = wirejson.AppendStringMember(e.b, "description", form.Description)
	}
	e.b = wirejson.AppendRawMember(e.b, "schema", form.Schema)
	if e.strict || form.Strict != nil && !*form.Strict && !e.compat().GetNoStrict() {
		e.b = wirejson.AppendBoolMember(e.b, "strict", e.strict)
	}
	e.b = append(e.b, '}')
}
