package fakeprovider

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// readChat reads a Chat Completions request.
func (a *ask) readChat(body []byte) error {
	var in struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Role      string         `json:"role"`
			Content   jsontext.Value `json:"content"`
			ToolCalls []struct {
				Function struct {
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Tools []struct {
			Type     string `json:"type"`
			Function struct {
				Name       string         `json:"name"`
				Parameters jsontext.Value `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		ToolChoice     jsontext.Value `json:"tool_choice"`
		Parallel       *bool          `json:"parallel_tool_calls"`
		MaxTokens      *int64         `json:"max_tokens"`
		MaxCompletion  *int64         `json:"max_completion_tokens"`
		ResponseFormat struct {
			Type       string `json:"type"`
			JSONSchema struct {
				Schema jsontext.Value `json:"schema"`
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	if err := decode(body, &in); err != nil {
		return err
	}
	a.model, a.stream, a.includeUsage = in.Model, in.Stream, in.StreamOptions.IncludeUsage
	for i, m := range in.Messages {
		text, _, err := a.content(m.Content, fmt.Sprintf("messages[%d].content", i), 0)
		if err != nil {
			return err
		}
		for _, tc := range m.ToolCalls {
			a.prompt += len(tc.Function.Arguments)
		}
		switch m.Role {
		case "user":
			a.last, a.lastUser = userTurn, text
		case "assistant":
			a.last = modelTurn
		case "tool", "function":
			a.last, a.lastResult = resultTurn, text
		}
	}
	tools := make([]tool, len(in.Tools))
	for i, t := range in.Tools {
		tools[i] = tool{t.Function.Name, t.Function.Parameters}
	}
	a.offer(a.top["tools"], tools...)
	a.single = in.Parallel != nil && !*in.Parallel
	a.limitTo(in.MaxTokens)
	a.limitTo(in.MaxCompletion)
	a.json = in.ResponseFormat.Type == "json_object" || in.ResponseFormat.Type == "json_schema"
	a.schema = in.ResponseFormat.JSONSchema.Schema
	return a.openaiChoice(in.ToolChoice)
}

// openaiChoice reads tool_choice in the forms of Chat and Responses, which differ
// only in where the name stands.
func (a *ask) openaiChoice(v jsontext.Value) error {
	if v.Kind() == jsontext.KindString {
		var word string
		if err := decode(v, &word); err != nil {
			return err
		}
		a.chooseWord(word)
		return nil
	}
	if v.Kind() != jsontext.KindBeginObject {
		return nil
	}
	type function struct {
		Name string `json:"name"`
	}
	type named struct {
		function
		Function function `json:"function"`
	}
	type allowed struct {
		Mode  string  `json:"mode"`
		Tools []named `json:"tools"`
	}
	var in struct {
		Type string `json:"type"`
		named
		allowed
		Allowed allowed `json:"allowed_tools"`
	}
	if err := decode(v, &in); err != nil {
		return fmt.Errorf("in tool_choice: %w", err)
	}
	switch in.Type {
	case "function":
		a.choice = chooseAny
		a.named = []string{in.Name + in.named.Function.Name} // one of them is empty
	case "allowed_tools":
		a.chooseWord(in.Mode + in.Allowed.Mode)
		for _, t := range append(in.Tools, in.Allowed.Tools...) {
			a.named = append(a.named, t.Name+t.Function.Name)
		}
	}
	return nil
}

func (a *ask) chooseWord(word string) {
	switch word {
	case "none":
		a.choice = chooseNone
	case "required":
		a.choice = chooseAny
	}
}

// readResponses reads a Responses request.
func (a *ask) readResponses(body []byte) error {
	var in struct {
		Model        string         `json:"model"`
		Stream       bool           `json:"stream"`
		Instructions jsontext.Value `json:"instructions"`
		Input        jsontext.Value `json:"input"`
		Tools        []struct {
			Type       string         `json:"type"`
			Name       string         `json:"name"`
			Parameters jsontext.Value `json:"parameters"`
		} `json:"tools"`
		ToolChoice jsontext.Value `json:"tool_choice"`
		Parallel   *bool          `json:"parallel_tool_calls"`
		MaxOutput  *int64         `json:"max_output_tokens"`
		Include    []string       `json:"include"`
		Text       struct {
			Format struct {
				Type   string         `json:"type"`
				Schema jsontext.Value `json:"schema"`
			} `json:"format"`
		} `json:"text"`
	}
	if err := decode(body, &in); err != nil {
		return err
	}
	a.model, a.stream = in.Model, in.Stream
	if _, _, err := a.content(in.Instructions, "instructions", 0); err != nil {
		return err
	}
	if err := a.responsesInput(in.Input); err != nil {
		return err
	}
	var tools []tool
	for _, t := range in.Tools {
		if t.Type == "function" {
			tools = append(tools, tool{t.Name, t.Parameters})
		}
	}
	a.offer(a.top["tools"], tools...)
	a.single = in.Parallel != nil && !*in.Parallel
	a.limitTo(in.MaxOutput)
	a.json = in.Text.Format.Type == "json_object" || in.Text.Format.Type == "json_schema"
	a.schema = in.Text.Format.Schema
	for _, name := range in.Include {
		a.encrypted = a.encrypted || name == "reasoning.encrypted_content"
	}
	return a.openaiChoice(in.ToolChoice)
}

func (a *ask) responsesInput(v jsontext.Value) error {
	if v.Kind() == jsontext.KindString {
		text, _, err := a.content(v, "input", 0)
		a.last, a.lastUser = userTurn, text
		return err
	}
	if v.Kind() != jsontext.KindBeginArray {
		if len(v) > 0 && v.Kind() != jsontext.KindNull {
			return fmt.Errorf("input has to be a string or a list of items")
		}
		return nil
	}
	var items []struct {
		Type      string         `json:"type"`
		Role      string         `json:"role"`
		Content   jsontext.Value `json:"content"`
		Arguments string         `json:"arguments"`
		Output    jsontext.Value `json:"output"`
		Summary   jsontext.Value `json:"summary"`
	}
	if err := decode(v, &items); err != nil {
		return fmt.Errorf("in input: %w", err)
	}
	for i, it := range items {
		where := fmt.Sprintf("input[%d]", i)
		switch it.Type {
		case "message", "":
			text, _, err := a.content(it.Content, where+".content", 0)
			if err != nil {
				return err
			}
			switch it.Role {
			case "user":
				a.last, a.lastUser = userTurn, text
			case "assistant":
				a.last = modelTurn
			}
		case "function_call", "custom_tool_call":
			a.last = modelTurn
			a.prompt += len(it.Arguments)
		case "function_call_output", "custom_tool_call_output":
			text, _, err := a.content(it.Output, where+".output", 0)
			if err != nil {
				return err
			}
			a.last, a.lastResult = resultTurn, text
		case "reasoning":
			if _, _, err := a.content(it.Summary, where+".summary", 0); err != nil {
				return err
			}
		}
	}
	return nil
}
