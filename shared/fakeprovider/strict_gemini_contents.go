package fakeprovider

import (
	"encoding/base64"
	"slices"
	"strings"
)

// geminiBypass are the values documented in place of a thoughtSignature that is lost.
// SDKs send them as base64, as they do with all bytes.
var geminiBypass = []string{"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}

// thinkingModel tells models that sign their calls and ask for the signatures back.
func thinkingModel(model string) bool { return strings.Contains(model, "gemini-3") }

// geminiTurn is a turn of a conversation. Contents of a model that follow each other
// are one: SDKs keep a stream chunk by chunk.
type geminiTurn struct {
	role  string
	at    where
	parts []tree
}

// having are the parts that have the field.
func (t geminiTurn) having(field string) []tree {
	var out []tree
	for _, p := range t.parts {
		if p.has(field) {
			out = append(out, p)
		}
	}
	return out
}

// geminiContents checks a conversation.
func geminiContents(contents []tree, model string) *Failure {
	if len(contents) == 0 {
		return refuse("* GenerateContentRequest.contents: contents is not specified")
	}
	var turns []geminiTurn
	for i, content := range contents {
		at := where{"contents"}.element(i)
		role := content.text("role")
		if role == "" && len(contents) == 1 {
			role = "user"
		}
		if role != "user" && role != "model" {
			return refuse("Please use a valid role: user, model. (%s.role)", at.brackets())
		}
		n := len(turns) - 1
		goesOn := n >= 0 && role == "model" && turns[n].role == role
		if f := geminiParts(content, at, goesOn); f != nil {
			return f
		}
		parts := content.objects("parts")
		if goesOn {
			turns[n].parts = slices.Concat(turns[n].parts, parts)
			continue
		}
		turns = append(turns, geminiTurn{role, at, parts})
	}
	if turns[0].role != "user" {
		return refuse("Please ensure that multiturn requests begin with a user turn.")
	}
	for i, t := range turns {
		if f := geminiCalls(turns, i, t); f != nil {
			return f
		}
	}
	return geminiSignatures(turns, model)
}

// geminiParts checks the parts of one content on their own. One that goes on with a turn
// of the model may say nothing: SDKs keep the last chunk of a stream, which often holds
// an empty text.
func geminiParts(content tree, at where, goesOn bool) *Failure {
	at = at.name("parts")
	parts := content.objects("parts")
	if len(parts) == 0 {
		return refuse("* %s: contents.parts must not be empty.", at.brackets())
	}
	data := []string{
		"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
		"toolCall", "toolResponse",
	}
	says := goesOn
	for i, p := range parts {
		at := at.element(i)
		has := slices.DeleteFunc(slices.Clone(data), func(name string) bool { return !p.has(name) })
		switch {
		case len(has) == 0 && !p.has("thoughtSignature"):
			return refuse("* %s.data: required oneof field 'data' must have one initialized field", at.brackets())
		case len(has) > 1:
			return refuse("Invalid value at '%s' (oneof), oneof field 'data' is already set. Cannot set '%s'", at.brackets(), has[1])
		}
		says = says || len(has) == 1 && (has[0] != "text" || p.text("text") != "") || p.has("thoughtSignature")
		if f := geminiPart(p, at); f != nil {
			return f
		}
	}
	if !says {
		return refuse("* %s: must include at least one part that is not an empty text", at.brackets())
	}
	return nil
}

func geminiPart(p tree, at where) *Failure {
	if p.has("text") {
		if _, ok := p["text"].(string); !ok {
			return geminiWords{}.wrongType(at.name("text"), "a string")
		}
	}
	for _, field := range []string{"functionCall", "functionResponse"} {
		if !p.has(field) {
			continue
		}
		inner := "args"
		if field == "functionResponse" {
			inner = "response"
		}
		call := p.object(field)
		if !geminiName.MatchString(call.text("name")) {
			return refuse("* %s.name: Name cannot be empty and has to match %s.", at.name(field).brackets(), geminiName)
		}
		if _, ok := call[inner].(map[string]any); !ok && call.has(inner) || field == "functionResponse" && !call.has(inner) {
			return geminiWords{}.wrongType(at.name(field).name(inner), "an object")
		}
	}
	if s := p.text("thoughtSignature"); s != "" && !geminiSigned(s) {
		return refuse("%s: Thought signature is not valid.", at.name("thoughtSignature").brackets())
	}
	return nil
}

// geminiSigned tells whether a signature is one of ours or the documented bypass.
func geminiSigned(s string) bool {
	if plain, err := base64.StdEncoding.DecodeString(s); err == nil && slices.Contains(geminiBypass, string(plain)) {
		return true
	}
	return slices.Contains(geminiBypass, s) || sealed(s, thoughtScope, "")
}

// geminiCalls checks that calls are answered in the very next turn, one for one, and
// that nothing else is answered.
func geminiCalls(turns []geminiTurn, i int, t geminiTurn) *Failure {
	calls, results := t.having("functionCall"), t.having("functionResponse")
	switch {
	case t.role == "user" && len(calls) > 0:
		return refuse("Please ensure that function call turns have the role model. (%s)", t.at.brackets())
	case t.role == "model" && len(results) > 0:
		return refuse("Please ensure that function response turns have the role user. (%s)", t.at.brackets())
	}
	if len(results) > 0 && (i == 0 || len(turns[i-1].having("functionCall")) == 0) {
		return refuse("Please ensure that function response turn comes immediately after a function call turn. (%s)", t.at.brackets())
	}
	if len(calls) == 0 {
		return nil
	}
	var answers []tree
	if i+1 < len(turns) {
		answers = turns[i+1].having("functionResponse")
	}
	if len(answers) != len(calls) {
		return refuse("Please ensure that the number of function response parts is equal to the number of function call parts "+
			"of the function call turn: %d and %d. (%s)", len(answers), len(calls), t.at.brackets())
	}
	for n, answer := range answers {
		a := answer.object("functionResponse")
		own := slices.ContainsFunc(calls, func(p tree) bool {
			return p.object("functionCall").text("id") == a.text("id") && p.object("functionCall").text("name") == a.text("name")
		})
		if !own || a.text("id") == "" && a.text("name") != calls[n].object("functionCall").text("name") {
			return refuse("Function response %q does not match a function call of the turn before it. (%s)", a.text("name"), turns[i+1].at.brackets())
		}
	}
	return nil
}

// geminiSignatures checks the current turn of the user: in each step of the model, the
// first call carries its signature.
func geminiSignatures(turns []geminiTurn, model string) *Failure {
	if !thinkingModel(model) {
		return nil
	}
	from := 0
	for i, t := range turns {
		if t.role == "user" && len(t.having("functionResponse")) == 0 {
			from = i
		}
	}
	for _, t := range turns[from:] {
		calls := t.having("functionCall")
		if len(calls) > 0 && calls[0].text("thoughtSignature") == "" {
			return refuse("Function call is missing a thought_signature in functionCall parts. "+
				"Additional data, function call `default_api:%s`, position %s.", calls[0].object("functionCall").text("name"), t.at.brackets())
		}
	}
	return nil
}
