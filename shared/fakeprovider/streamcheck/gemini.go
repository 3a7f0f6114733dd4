package streamcheck

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// gemini judges generateContent.
type gemini struct {
	allowError bool

	version, id once
	candidates  map[int64]*geminiCandidate
	blocked     bool // the prompt was
	usage       bool // the last response had usageMetadata
	failed      bool
}

type geminiCandidate struct{ finish string }

// geminiFields are those of a response (genai GenerateContentResponse).
var geminiFields = []string{
	"candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId", "createTime", "modelStatus",
}

// geminiData are the members of a part of which it has exactly one.
var geminiData = []string{
	"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
	"toolCall", "toolResponse",
}

func (g *gemini) event(_ string, data []byte) error {
	o, err := decodeObject(data)
	if err != nil {
		return err
	}
	if g.failed {
		return errors.New("an event after the error")
	}
	if _, failed := o["error"]; failed {
		g.failed = true
		return g.error(o)
	}
	for name := range o {
		if !slices.Contains(geminiFields, name) {
			return fmt.Errorf("a GenerateContentResponse has no field %q", name)
		}
	}
	if _, given := o["modelVersion"]; given {
		err = g.version.take("modelVersion", o["modelVersion"])
	}
	if _, given := o["responseId"]; given {
		err = errors.Join(err, g.id.take("responseId", o["responseId"]))
	}
	if err == nil {
		err = g.counts(o)
	}
	if err != nil {
		return err
	}
	if !o.null("promptFeedback") {
		if err := g.feedback(o); err != nil {
			return err
		}
	}
	if o.null("candidates") {
		return nil
	}
	return g.all(o)
}

func (g *gemini) error(o object) error {
	if !g.allowError {
		return fmt.Errorf("an error: %s", shown(o["error"]))
	}
	if len(o) > 1 {
		return errors.New("an error beside other fields")
	}
	e, err := o.object("error")
	if err == nil {
		_, err = e.number("code")
	}
	if err == nil {
		_, err = e.filled("message")
	}
	if err == nil {
		_, err = e.filled("status")
	}
	return err
}

func (g *gemini) counts(o object) error {
	if g.usage = !o.null("usageMetadata"); !g.usage {
		return nil
	}
	u, err := o.object("usageMetadata")
	if err != nil {
		return err
	}
	for _, name := range []string{
		"promptTokenCount", "candidatesTokenCount", "totalTokenCount", "cachedContentTokenCount",
		"thoughtsTokenCount", "toolUsePromptTokenCount",
	} {
		if _, given := u[name]; given { // protobuf leaves a zero out
			if err := u.counts(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *gemini) feedback(o object) error {
	f, err := o.object("promptFeedback")
	if err != nil || f.null("blockReason") {
		return err
	}
	if _, err := f.filled("blockReason"); err != nil {
		return err
	}
	if len(g.candidates) > 0 {
		return errors.New("the prompt is blocked after candidates came")
	}
	g.blocked = true
	return nil
}

func (g *gemini) all(o object) error {
	raw, err := o.list("candidates")
	if err != nil {
		return err
	}
	if len(raw) > 0 && g.blocked {
		return errors.New("candidates although the prompt is blocked")
	}
	for _, v := range raw {
		if err := g.candidate(v); err != nil {
			return err
		}
	}
	return nil
}

func (g *gemini) candidate(v jsontext.Value) error {
	o, err := decodeObject(v)
	if err != nil {
		return fmt.Errorf("in candidates: %w", err)
	}
	var index int64 // protobuf leaves a zero out
	if _, given := o["index"]; given {
		if index, err = o.number("index"); err != nil {
			return fmt.Errorf("in candidates: %w", err)
		}
	}
	known := g.candidates[index]
	if known == nil {
		if g.candidates == nil {
			g.candidates = make(map[int64]*geminiCandidate)
		}
		known = new(geminiCandidate)
		g.candidates[index] = known
	}
	if err := known.take(o); err != nil {
		return fmt.Errorf("candidate %d: %w", index, err)
	}
	return nil
}

func (c *geminiCandidate) take(o object) error {
	if c.finish != "" {
		return errors.New("it comes again after its finishReason")
	}
	if !o.null("finishReason") {
		reason, err := o.filled("finishReason")
		if err != nil {
			return err
		}
		c.finish = reason
	}
	if o.null("content") {
		if c.finish == "" {
			return errors.New("neither content nor a finishReason")
		}
		return nil
	}
	content, err := o.object("content")
	if err != nil {
		return err
	}
	if !content.null("role") {
		if err := content.is("role", "model"); err != nil {
			return err
		}
	}
	if content.null("parts") {
		if c.finish == "" {
			return errors.New("content without parts")
		}
		return nil
	}
	parts, err := content.list("parts")
	if err != nil {
		return err
	}
	for i, raw := range parts {
		if err := geminiPart(raw); err != nil {
			return fmt.Errorf("parts[%d]: %w", i, err)
		}
	}
	return nil
}

func geminiPart(raw jsontext.Value) error {
	o, err := decodeObject(raw)
	if err != nil {
		return err
	}
	has := 0
	for _, name := range geminiData {
		if _, given := o[name]; given {
			has++
		}
	}
	// A signature may come in a part of its own.
	if has > 1 || has == 0 && o.null("thoughtSignature") {
		return fmt.Errorf("it has %d of %q, expected one", has, geminiData)
	}
	if _, given := o["text"]; given {
		_, err = o.text("text")
		return err
	}
	if _, given := o["functionCall"]; !given {
		return nil
	}
	call, err := o.object("functionCall")
	if err != nil {
		return err
	}
	for _, name := range []string{"partialArgs", "willContinue"} {
		if !call.null(name) {
			return fmt.Errorf("functionCall.%s: calls come whole unless the caller asked for pieces", name)
		}
	}
	if _, err := call.filled("name"); err != nil {
		return fmt.Errorf("functionCall: %w", err)
	}
	if _, given := call["args"]; given {
		_, err = call.object("args")
	}
	return err
}

func (g *gemini) end() error {
	switch {
	case g.failed:
		return nil
	case len(g.candidates) == 0 && !g.blocked:
		return errors.New("neither a candidate nor a promptFeedback.blockReason")
	}
	for i := range int64(len(g.candidates)) {
		switch known := g.candidates[i]; {
		case known == nil:
			return fmt.Errorf("%d candidates, but none with index %d", len(g.candidates), i)
		case known.finish == "":
			return fmt.Errorf("candidate %d has no finishReason", i)
		}
	}
	if !g.usage {
		return errors.New("the last response has no usageMetadata")
	}
	return nil
}
