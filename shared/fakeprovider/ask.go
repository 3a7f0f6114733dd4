package fakeprovider

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MediaBytes is what a part of the prompt that is not text counts for, in bytes.
const MediaBytes = 1024

// ask is what a request asks for, whatever its protocol.
type ask struct {
	model        string
	stream       bool
	includeUsage bool // Chat only: the usage chunk of a stream was asked for

	last       turn
	lastUser   string // the last text of a user
	lastResult string // the last text of a tool
	prompt     int    // bytes that count as input

	tools  []tool
	choice choice
	named  []string // tools the choice is limited to
	single bool     // one call at most

	json   bool           // the answer has to be JSON
	schema jsontext.Value // that fits this, if not empty

	hasLimit bool
	limit    int64 // most output tokens

	encrypted bool                      // Responses only: reasoning state was asked for
	top       map[string]jsontext.Value // top-level fields, for those that are echoed
}

type turn int

const (
	noTurn turn = iota
	userTurn
	modelTurn
	resultTurn
)

type choice int

const (
	chooseAuto choice = iota
	chooseNone
	chooseAny
)

type tool struct {
	name   string
	schema jsontext.Value
}

// readAsk reads a request body. It takes anything it can make sense of; an error
// names what it cannot.
func readAsk(t target, body []byte) (ask, error) {
	a := ask{model: t.model, stream: t.streams}
	if err := decode(body, &a.top); err != nil {
		return a, err
	}
	if a.top == nil {
		return a, errors.New("the request body is not a JSON object")
	}
	var err error
	switch t.protocol {
	case Chat:
		err = a.readChat(body)
	case Responses:
		err = a.readResponses(body)
	case Anthropic:
		err = a.readAnthropic(body)
	case Gemini:
		err = a.readGemini(body)
	}
	return a, err
}

// decode reads one JSON value and ignores what follows it. checkStrict is for
// those who mind.
func decode(data []byte, v any) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	err := json.UnmarshalDecode(dec, v, jsontext.AllowDuplicateNames(true))
	if bad := new(json.SemanticError); errors.As(err, &bad) {
		return fmt.Errorf("%s has the wrong type", fieldName(bad.JSONPointer))
	}
	if err != nil {
		return errors.New("the request body is not valid JSON")
	}
	return nil
}

// fieldName writes a JSON pointer the way people write paths.
func fieldName(p jsontext.Pointer) string {
	name := strings.Join(slices.Collect(p.Tokens()), ".")
	if name == "" {
		return "the request body"
	}
	return name
}

// part is one part of a content list, of Chat, Responses or Anthropic.
type part struct {
	Type     string         `json:"type"`
	Text     string         `json:"text"`
	Refusal  string         `json:"refusal"`
	Thinking string         `json:"thinking"`
	Content  jsontext.Value `json:"content"`
	Input    jsontext.Value `json:"input"`
}

// content counts a string or a list of parts and returns its text. results is
// set if the list holds results of tools.
func (a *ask) content(v jsontext.Value, where string, depth int) (text string, results bool, err error) {
	switch v.Kind() {
	case 0, jsontext.KindNull:
		return "", false, nil
	case jsontext.KindString:
		if err := decode(v, &text); err != nil {
			return "", false, err
		}
		a.prompt += len(text)
		return text, false, nil
	case jsontext.KindBeginArray:
	default:
		return "", false, fmt.Errorf("%s has to be a string or a list of parts", where)
	}

	var parts []part
	if err := decode(v, &parts); err != nil {
		return "", false, fmt.Errorf("in %s: %w", where, err)
	}
	var texts []string
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text", "refusal", "summary_text", "":
			a.prompt += len(p.Text) + len(p.Refusal)
			texts = append(texts, p.Text)
		case "thinking":
			a.prompt += len(p.Thinking)
		case "redacted_thinking":
		case "tool_use":
			a.prompt += len(p.Input)
		case "tool_result":
			results = true
			if depth > 0 {
				return "", false, fmt.Errorf("%s holds a tool result inside another", where)
			}
			result, _, err := a.content(p.Content, where+".content", depth+1)
			if err != nil {
				return "", false, err
			}
			a.lastResult = result
		default:
			a.prompt += MediaBytes
		}
	}
	return strings.Join(texts, "\n"), results, nil
}

// limitTo sets the output limit, if there is one.
func (a *ask) limitTo(n *int64) {
	if n != nil && *n >= 0 {
		a.hasLimit, a.limit = true, *n
	}
}

// offer adds the tools of a request and counts them.
func (a *ask) offer(raw jsontext.Value, tools ...tool) {
	a.prompt += len(raw)
	for _, t := range tools {
		if t.name != "" {
			a.tools = append(a.tools, t)
		}
	}
}

// wantsCall tells whether the default answer is a tool call.
func (a *ask) wantsCall() bool {
	if len(a.tools) == 0 || a.choice == chooseNone || a.last == resultTurn {
		return false
	}
	return a.choice == chooseAny ||
		a.last == userTurn && strings.Contains(strings.ToLower(a.lastUser), "tool")
}

// callable are the tools a default call may name.
func (a *ask) callable() []tool {
	if len(a.named) == 0 {
		return a.tools
	}
	var out []tool
	for _, t := range a.tools {
		if slices.Contains(a.named, t.name) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return a.tools
	}
	return out
}
