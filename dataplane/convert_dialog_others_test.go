package dataplane

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"google.golang.org/genai"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

type anthropicDialog struct {
	client anthropic.Client
	params anthropic.MessageNewParams
}

func newAnthropicDialog(url string, q vendorsdk.Question, m manner) *anthropicDialog {
	p := anthropic.MessageNewParams{Model: q.Model, MaxTokens: 4096}
	if m.system != "" {
		p.System = []anthropic.TextBlockParam{{Text: m.system}}
	}
	for _, o := range m.tools {
		s := o.object()
		var required []string
		if list, ok := s["required"].([]any); ok {
			for _, e := range list {
				required = append(required, e.(string))
			}
		}
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name: o.name, InputSchema: anthropic.ToolInputSchemaParam{Properties: s["properties"], Required: required},
		}})
	}
	switch {
	case m.forced:
		p.ToolChoice = anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{}}
	case m.oneCall:
		p.ToolChoice = anthropic.ToolChoiceUnionParam{OfAuto: &anthropic.ToolChoiceAutoParam{DisableParallelToolUse: anthropic.Bool(true)}}
	}
	if m.schema != "" {
		p.OutputConfig = anthropic.OutputConfigParam{Format: anthropic.JSONOutputFormatParam{Schema: object(m.schema)}}
	}
	if m.limit > 0 {
		p.MaxTokens = m.limit
	}
	switch {
	case m.think:
		p.Thinking = anthropic.ThinkingConfigParamOfEnabled(budget)
	case m.noThought:
		p.Thinking = anthropic.ThinkingConfigParamUnion{OfDisabled: &anthropic.ThinkingConfigDisabledParam{}}
	}
	return &anthropicDialog{vendorsdk.Anthropic(url, q), p}
}

func (d *anthropicDialog) say(ctx context.Context, said turn, stream bool) (vendorsdk.Reply, error) {
	var blocks []anthropic.ContentBlockParamUnion
	for _, r := range said.results {
		blocks = append(blocks, anthropic.NewToolResultBlock(r.id, r.text, false))
	}
	if said.text != "" {
		blocks = append(blocks, anthropic.NewTextBlock(said.text))
	}
	switch {
	case said.imageURL != "":
		blocks = append(blocks, anthropic.NewImageBlock(anthropic.URLImageSourceParam{URL: said.imageURL}))
	case len(said.image) > 0:
		blocks = append(blocks, anthropic.NewImageBlockBase64("image/png", base64.StdEncoding.EncodeToString(said.image)))
	}
	d.params.Messages = append(d.params.Messages, anthropic.NewUserMessage(blocks...))
	done, err := d.complete(ctx, stream)
	if err != nil {
		return vendorsdk.Reply{}, err
	}
	r := vendorsdk.Reply{Stop: string(done.StopReason), Model: done.Model, Prompt: done.Usage.InputTokens, Output: done.Usage.OutputTokens}
	for _, b := range done.Content {
		switch b.Type {
		case "text":
			r.Text += b.Text
		case "thinking":
			r.Reasoning += b.Thinking
		case "tool_use":
			r.Calls = append(r.Calls, vendorsdk.Call{ID: b.ID, Name: b.Name, Args: string(b.Input)})
		}
	}
	d.params.Messages = append(d.params.Messages, done.ToParam())
	return r, nil
}

func (d *anthropicDialog) complete(ctx context.Context, stream bool) (*anthropic.Message, error) {
	if !stream {
		return d.client.Messages.New(ctx, d.params)
	}
	s := d.client.Messages.NewStreaming(ctx, d.params)
	defer s.Close()
	var all anthropic.Message
	for s.Next() {
		if err := all.Accumulate(s.Current()); err != nil {
			return nil, err
		}
	}
	return &all, s.Err()
}

type geminiDialog struct{ chat *genai.Chat }

func newGeminiDialog(ctx context.Context, url string, q vendorsdk.Question, m manner) (*geminiDialog, error) {
	client, err := vendorsdk.Gemini(ctx, url, q)
	if err != nil {
		return nil, err
	}
	c := &genai.GenerateContentConfig{}
	if m.system != "" {
		c.SystemInstruction = genai.NewContentFromText(m.system, genai.RoleUser)
	}
	for _, o := range m.tools {
		c.Tools = append(c.Tools, &genai.Tool{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: o.name, ParametersJsonSchema: o.object()}}})
	}
	if m.forced {
		c.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny}}
	}
	if m.schema != "" {
		c.ResponseMIMEType, c.ResponseJsonSchema = "application/json", object(m.schema)
	}
	c.MaxOutputTokens = int32(m.limit)
	switch {
	case m.think:
		c.ThinkingConfig = &genai.ThinkingConfig{IncludeThoughts: true, ThinkingBudget: genai.Ptr[int32](budget)}
	case m.noThought:
		c.ThinkingConfig = &genai.ThinkingConfig{ThinkingBudget: genai.Ptr[int32](0)}
	}
	chat, err := client.Chats.Create(ctx, q.Model, c, nil)
	return &geminiDialog{chat}, err
}

func (d *geminiDialog) say(ctx context.Context, said turn, stream bool) (vendorsdk.Reply, error) {
	var parts []*genai.Part
	for _, r := range said.results {
		p := genai.NewPartFromFunctionResponse(r.name, map[string]any{"output": r.text})
		p.FunctionResponse.ID = r.id
		parts = append(parts, p)
	}
	if said.text != "" {
		parts = append(parts, genai.NewPartFromText(said.text))
	}
	switch {
	case said.imageURL != "":
		parts = append(parts, genai.NewPartFromURI(said.imageURL, "image/png"))
	case len(said.image) > 0:
		parts = append(parts, genai.NewPartFromBytes(said.image, "image/png"))
	}
	var r vendorsdk.Reply
	if !stream {
		g, err := d.chat.Send(ctx, parts...)
		if err != nil {
			return r, err
		}
		add(&r, g)
		return r, nil
	}
	for g, err := range d.chat.SendStream(ctx, parts...) {
		if err != nil {
			return r, err
		}
		add(&r, g)
	}
	return r, nil
}

// add adds a response, or a piece of one, to r.
func add(r *vendorsdk.Reply, g *genai.GenerateContentResponse) {
	r.Model = g.ModelVersion
	if u := g.UsageMetadata; u != nil {
		r.Prompt, r.Output = int64(u.PromptTokenCount), int64(u.CandidatesTokenCount)
	}
	for _, c := range g.Candidates {
		if c.FinishReason != "" {
			r.Stop = string(c.FinishReason)
		}
		if c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			switch {
			case p.FunctionCall != nil:
				args, err := json.Marshal(p.FunctionCall.Args)
				if err != nil {
					panic(err) // it was JSON
				}
				r.Calls = append(r.Calls, vendorsdk.Call{ID: p.FunctionCall.ID, Name: p.FunctionCall.Name, Args: string(args)})
			case p.Thought:
				r.Reasoning += p.Text
			default:
				r.Text += p.Text
			}
		}
	}
}
