package fakeprovider

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// strict refuses what the real services refuse.
type strict struct{ chat, responses, anthropic, gemini shapes }

func newStrict() *strict {
	return &strict{
		chat: readShapes(chatShapes), responses: readShapes(responsesShapes),
		anthropic: readShapes(anthropicShapes), gemini: readShapes(geminiShapes),
	}
}

// checkStrict checks a whole request. Its body is read once more here: the reader for
// answers is lenient on purpose.
func (c *call) checkStrict() *Failure {
	if c.operation != Generate && c.operation != CountTokens {
		return nil
	}
	if c.protocol == Anthropic && c.r.Header.Get("Anthropic-Version") == "" {
		return &Failure{Kind: BadRequest, Message: "anthropic-version: header is required"}
	}
	in, err := readWhole(c.body)
	if err != nil {
		return &Failure{Kind: BadRequest, Message: err.Error()}
	}
	switch c.protocol {
	case Chat:
		return c.checkChat(in)
	case Responses:
		return c.checkResponses(in)
	case Anthropic:
		return c.checkAnthropic(in)
	case Gemini:
		return c.checkGemini(in)
	}
	return nil
}

// readWhole reads body to its last byte. Duplicate names at any depth, invalid UTF-8 and
// trailing data are errors.
func readWhole(body []byte) (tree, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	if dec.PeekKind() != jsontext.KindBeginObject {
		return nil, errors.New("the request body has to be a JSON object")
	}
	var in map[string]any
	if err := json.UnmarshalDecode(dec, &in); err != nil {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return nil, errors.New("the request body names a field twice")
		}
		return nil, errors.New("the request body is not valid JSON")
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the request body goes on after its JSON object")
	}
	return in, nil
}

// refuse is a refusal without the name of a field.
func refuse(format string, args ...any) *Failure {
	return &Failure{Kind: BadRequest, Message: fmt.Sprintf(format, args...)}
}

// refuseAt is OpenAI's refusal of a field.
func refuseAt(param, format string, args ...any) *Failure {
	f := refuse(format, args...)
	f.Param = param
	return f
}

// first is the first refusal of the checks, which are made in order.
func first(checks ...func() *Failure) *Failure {
	for _, check := range checks {
		if f := check(); f != nil {
			return f
		}
	}
	return nil
}
