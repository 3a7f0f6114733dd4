package fakeprovider

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// readAnthropic reads a Messages request.
func (a *ask) readAnthropic(body []byte) error {
	var in struct {
		Model    string         `json:"model"`
		Stream   bool           `json:"stream"`
		System   jsontext.Value `json:"system"`
		Messages []struct {
			Role    string         `json:"role"`
			Content jsontext.Value `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Type        string         `json:"type"`
			Name        string         `json:"name"`
			InputSchema jsontext.Value `json:"input_schema"`
		} `json:"tools"`
		ToolChoice struct {
			Type            string `json:"type"`
			Name            string `json:"name"`
			DisableParallel bool   `json:"disable_parallel_tool_use"`
		} `json:"tool_choice"`
		MaxTokens    *int64 `json:"max_tokens"`
		OutputConfig struct {
			Format struct {
				Type   string         `json:"type"`
				Schema jsontext.Value `json:"schema"`
			} `json:"format"`
		} `json:"output_config"`
	}
	if err := decode(body, &in); err != nil {
		return err
	}
	a.model, a.stream = in.Model, in.Stream
	if _, _, err := a.content(in.System, "system", 0); err != nil {
		return err
	}
	for i, m := range in.Messages {
		text, results, err := a.content(m.Content, fmt.Sprintf("messages.%d.content", i), 0)
		if err != nil {
			return err
		}
		switch {
		case m.Role == "user" && results:
			a.last = resultTurn
		case m.Role == "user":
			a.last, a.lastUser = userTurn, text
		case m.Role == "assistant":
			a.last = modelTurn
		}
	}
	var tools []tool
	for _, t := range in.Tools {
		if t.Type == "" || t.Type == "custom" {
			tools = append(tools, tool{t.Name, t.InputSchema})
		}
	}
	a.offer(a.top["tools"], tools...)
	switch in.ToolChoice.Type {
	case "none":
		a.choice = chooseNone
	case "any":
		a.choice = chooseAny
	case "tool":
		a.choice, a.named = chooseAny, []string{in.ToolChoice.Name}
	}
	a.single = in.ToolChoice.DisableParallel
	a.limitTo(in.MaxTokens)
	a.json = in.OutputConfig.Format.Type == "json_schema"
	a.schema = in.OutputConfig.Format.Schema
	return nil
}

// geminiContent is a Content object of Gemini.
type geminiContent struct {
	Role  string `json:"role"`
	Parts []struct {
		Text         string `json:"text"`
		FunctionCall *struct {
			Args jsontext.Value `json:"args"`
		} `json:"functionCall"`
		FunctionResponse *struct {
			Response jsontext.Value `json:"response"`
		} `json:"functionResponse"`
		InlineData jsontext.Value `json:"inlineData"`
		FileData   jsontext.Value `json:"fileData"`
	} `json:"parts"`
}

// readGemini reads a generateContent request. Field names are read in the camel
// case that every SDK sends.
func (a *ask) readGemini(body []byte) error {
	var in struct {
		Contents          []geminiContent `json:"contents"`
		SystemInstruction geminiContent   `json:"systemInstruction"`
		Tools             []struct {
			FunctionDeclarations []struct {
				Name                 string         `json:"name"`
				Parameters           jsontext.Value `json:"parameters"`
				ParametersJSONSchema jsontext.Value `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
		ToolConfig struct {
			FunctionCallingConfig struct {
				Mode    string   `json:"mode"`
				Allowed []string `json:"allowedFunctionNames"`
			} `json:"functionCallingConfig"`
		} `json:"toolConfig"`
		GenerationConfig struct {
			MaxOutputTokens    *int64         `json:"maxOutputTokens"`
			ResponseMIMEType   string         `json:"responseMimeType"`
			ResponseSchema     jsontext.Value `json:"responseSchema"`
			ResponseJSONSchema jsontext.Value `json:"responseJsonSchema"`
		} `json:"generationConfig"`
		// countTokens may wrap the whole request.
		GenerateContentRequest jsontext.Value `json:"generateContentRequest"`
	}
	if err := decode(body, &in); err != nil {
		return err
	}
	if in.GenerateContentRequest.Kind() == jsontext.KindBeginObject {
		inner := in.GenerateContentRequest
		in.GenerateContentRequest = nil
		if err := decode(inner, &in); err != nil {
			return fmt.Errorf("in generateContentRequest: %w", err)
		}
	}
	a.geminiContent(in.SystemInstruction)
	for _, c := range in.Contents {
		text, results := a.geminiContent(c)
		switch {
		case results:
			a.last = resultTurn
		case c.Role == "model":
			a.last = modelTurn
		default:
			a.last, a.lastUser = userTurn, text
		}
	}
	var tools []tool
	for _, t := range in.Tools {
		for _, f := range t.FunctionDeclarations {
			schema := f.ParametersJSONSchema
			if len(schema) == 0 {
				schema = f.Parameters
			}
			tools = append(tools, tool{f.Name, schema})
		}
	}
	a.offer(a.top["tools"], tools...)
	switch in.ToolConfig.FunctionCallingConfig.Mode {
	case "NONE":
		a.choice = chooseNone
	case "ANY":
		a.choice = chooseAny
	}
	a.named = in.ToolConfig.FunctionCallingConfig.Allowed
	g := in.GenerationConfig
	a.limitTo(g.MaxOutputTokens)
	a.json = strings.EqualFold(g.ResponseMIMEType, "application/json")
	a.schema = g.ResponseJSONSchema
	if len(a.schema) == 0 {
		a.schema = g.ResponseSchema
	}
	return nil
}

// geminiContent counts one content and returns its text.
func (a *ask) geminiContent(c geminiContent) (text string, results bool) {
	var texts []string
	for _, p := range c.Parts {
		if p.Text != "" {
			a.prompt += len(p.Text)
			texts = append(texts, p.Text)
		}
		if p.FunctionCall != nil {
			a.prompt += len(p.FunctionCall.Args)
		}
		if p.FunctionResponse != nil {
			results = true
			a.lastResult = string(p.FunctionResponse.Response)
			a.prompt += len(a.lastResult)
		}
		if len(p.InlineData) > 0 || len(p.FileData) > 0 {
			a.prompt += MediaBytes
		}
	}
	return strings.Join(texts, "\n"), results
}
