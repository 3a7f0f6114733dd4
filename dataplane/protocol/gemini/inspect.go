package gemini

import (
	"fmt"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// acted are the members the gateway acts on, in both spellings that protobuf's
// JSON form allows.
var acted = []string{
	"model", "contents", "tools", "generationConfig", "generation_config", "systemInstruction", "system_instruction",
	"cachedContent", "cached_content", "store",
}

// canonical is the camel-case name of a member.
func canonical(name string) string {
	switch name {
	case "generation_config":
		return "generationConfig"
	case "system_instruction":
		return "systemInstruction"
	case "cached_content":
		return "cachedContent"
	case "tool_config":
		return "toolConfig"
	}
	return name
}

// Inspect reads a generateContent request. The path names the model; a body that
// names another one is refused.
func (c *Codec) Inspect(body []byte, t protocol.Target) (*protocol.Shape, *fault.Error) {
	var bodyModel string
	var span protocol.Span
	s, f := c.inspector.Inspect(body, acted, func(r *wirejson.Reader, name string, s *protocol.Shape) *fault.Error {
		from := r.Start()
		canon := canonical(name)
		for _, m := range s.Members {
			if canonical(m.Name) == canon {
				return &fault.Error{
					Class: fault.InvalidRequest, Param: canon,
					Public: fmt.Sprintf("The body has %q and %q, which are the same member. Send it once.", m.Name, name),
				}
			}
		}
		switch canon {
		case "model":
			f := protocol.ReadModel(r, s)
			bodyModel, span = s.Model, s.ModelSpan
			return f
		case "contents":
			readContents(r, s)
			s.AddPrompt(r, from)
		case "systemInstruction":
			readContent(r, s)
			s.AddPrompt(r, from)
		case "tools":
			readTools(r, s)
			s.AddPrompt(r, from)
		case "generationConfig":
			readConfig(r, s)
		case "cachedContent":
			s.CachedContent = s.HintRef(r, canon)
		case "store":
			s.Store, s.StoreStated = r.Bool()
		}
		return nil
	})
	if f != nil {
		return nil, f
	}
	if bodyModel != "" && resource(bodyModel) != resource(t.Model) {
		return nil, &fault.Error{
			Class: fault.InvalidRequest, Param: "model",
			Public: "The body names another model than the path. Name it in the path alone.",
		}
	}
	s.Model, s.ModelSpan = t.Model, span
	s.Stream = t.Stream
	if f := s.CheckRefs(); f != nil {
		return nil, f
	}
	return s, s.RequireModel()
}

func readContents(r *wirejson.Reader, s *protocol.Shape) {
	if r.Kind() == '{' { // one content is taken for a list of one
		s.Messages++
		readContent(r, s)
		return
	}
	if !r.Enter('[') {
		return
	}
	for r.Next() {
		s.Messages++
		readContent(r, s)
	}
}

func readContent(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		if string(r.Name()) != "parts" {
			continue
		}
		if r.Kind() == '{' {
			readPart(r, s)
			continue
		}
		if r.Enter('[') {
			for r.Next() {
				readPart(r, s)
			}
		}
	}
}

func readPart(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "inlineData", "inline_data", "fileData", "file_data":
			readMedia(r, s)
		}
	}
}

func readMedia(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('{') {
		return
	}
	mime := ""
	for r.Next() {
		switch string(r.Name()) {
		case "mimeType", "mime_type":
			mime, _ = r.String(200)
		case "data":
			s.AddMediaString(r, true)
		case "fileUri", "file_uri":
			s.AddRef(r, "contents", s.Messages-1, "fileData.fileUri", true)
		}
	}
	s.AddMedia(mime)
}

// readTools reads a list of objects whose members are the tools.
func readTools(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('[') {
		return
	}
	for r.Next() {
		if !r.Enter('{') {
			continue
		}
		for r.Next() {
			name := string(r.Name())
			if name != "functionDeclarations" && name != "function_declarations" {
				s.AddTool(name)
				continue
			}
			if r.Enter('[') {
				for r.Next() {
					s.AddTool("function")
				}
			}
		}
	}
}

func readConfig(r *wirejson.Reader, s *protocol.Shape) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "maxOutputTokens", "max_output_tokens":
			n, _ := r.Int()
			s.MaxOutputTokens = max(n, 0)
		case "candidateCount", "candidate_count":
			if n, ok := r.Int(); ok && n > 0 {
				s.Choices = n
			}
		case "responseMimeType", "response_mime_type":
			mime, _ := r.String(100)
			s.StructuredOutput = s.StructuredOutput || strings.EqualFold(mime, "application/json")
		case "responseSchema", "response_schema", "responseJsonSchema", "response_json_schema":
			s.StructuredOutput = s.StructuredOutput || r.Kind() == '{'
		case "thinkingConfig", "thinking_config":
			s.Reasoning = r.Kind() == '{'
		case "responseModalities", "response_modalities":
			if r.Enter('[') {
				for r.Next() {
					switch m, _ := r.String(32); strings.ToUpper(m) {
					case "AUDIO":
						s.AudioOutput = true
					case "IMAGE":
						s.ImageOutput = true
					}
				}
			}
		}
	}
}
