package dataplane

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

func imageOf(said turn) string {
	if said.imageURL != "" || len(said.image) == 0 {
		return said.imageURL
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(said.image)
}

type chatDialog struct {
	client openai.Client
	params openai.ChatCompletionNewParams
}

func newChatDialog(url string, q vendorsdk.Question, m manner) *chatDialog {
	p := openai.ChatCompletionNewParams{Model: q.Model}
	if m.system != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(m.system))
	}
	for _, o := range m.tools {
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: o.name, Parameters: o.object()}))
	}
	if m.forced {
		p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	}
	if m.oneCall {
		p.ParallelToolCalls = openai.Bool(false)
	}
	if m.schema != "" {
		p.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "form", Schema: object(m.schema), Strict: openai.Bool(true)},
		}}
	}
	if m.limit > 0 {
		p.MaxCompletionTokens = openai.Int(m.limit)
	}
	switch {
	case m.think:
		p.ReasoningEffort = shared.ReasoningEffortLow
	case m.noThought:
		p.ReasoningEffort = shared.ReasoningEffortNone
	}
	return &chatDialog{vendorsdk.OpenAI(url, q), p}
}

func (d *chatDialog) say(ctx context.Context, said turn, stream bool) (vendorsdk.Reply, error) {
	for _, r := range said.results {
		d.params.Messages = append(d.params.Messages, openai.ToolMessage(r.text, r.id))
	}
	switch url := imageOf(said); {
	case url != "":
		d.params.Messages = append(d.params.Messages, openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
			openai.TextContentPart(said.text),
			openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: url}),
		}))
	case said.text != "":
		d.params.Messages = append(d.params.Messages, openai.UserMessage(said.text))
	}
	done, thought, err := d.complete(ctx, stream)
	if err != nil {
		return vendorsdk.Reply{}, err
	}
	r := vendorsdk.Reply{Model: done.Model, Reasoning: thought, Prompt: done.Usage.PromptTokens, Output: done.Usage.CompletionTokens}
	if len(done.Choices) > 0 {
		c := done.Choices[0]
		r.Text, r.Stop = c.Message.Content+c.Message.Refusal, c.FinishReason
		for _, call := range c.Message.ToolCalls {
			r.Calls = append(r.Calls, vendorsdk.Call{ID: call.ID, Name: call.Function.Name, Args: call.Function.Arguments})
		}
		d.params.Messages = append(d.params.Messages, c.Message.ToParam())
	}
	return r, nil
}

// complete asks once. Reasoning has no place in the SDK and is taken from the raw JSON.
func (d *chatDialog) complete(ctx context.Context, stream bool) (*openai.ChatCompletion, string, error) {
	thoughtOf := func(raw string) string {
		var extra struct {
			Reasoning string `json:"reasoning_content"`
		}
		_ = json.Unmarshal([]byte(raw), &extra)
		return extra.Reasoning
	}
	if !stream {
		done, err := d.client.Chat.Completions.New(ctx, d.params)
		if err != nil || len(done.Choices) == 0 {
			return done, "", err
		}
		return done, thoughtOf(done.Choices[0].Message.RawJSON()), nil
	}
	p := d.params
	p.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	s := d.client.Chat.Completions.NewStreaming(ctx, p)
	defer s.Close()
	var all openai.ChatCompletionAccumulator
	thought := ""
	for s.Next() {
		all.AddChunk(s.Current())
		if c := s.Current().Choices; len(c) > 0 {
			thought += thoughtOf(c[0].Delta.RawJSON())
		}
	}
	return &all.ChatCompletion, thought, s.Err()
}

type responsesDialog struct {
	client openai.Client
	params responses.ResponseNewParams
	items  []responses.ResponseInputItemUnionParam
}

func newResponsesDialog(url string, q vendorsdk.Question, m manner) *responsesDialog {
	p := responses.ResponseNewParams{Model: q.Model, Store: openai.Bool(false)}
	if m.system != "" {
		p.Instructions = openai.String(m.system)
	}
	for _, o := range m.tools {
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{Name: o.name, Parameters: o.object(), Strict: openai.Bool(false)}})
	}
	if m.forced {
		p.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsRequired)}
	}
	if m.oneCall {
		p.ParallelToolCalls = openai.Bool(false)
	}
	if m.schema != "" {
		f := responses.ResponseFormatTextConfigParamOfJSONSchema("form", object(m.schema))
		f.OfJSONSchema.Strict = openai.Bool(true)
		p.Text = responses.ResponseTextConfigParam{Format: f}
	}
	if m.limit > 0 {
		p.MaxOutputTokens = openai.Int(m.limit)
	}
	switch {
	case m.think:
		p.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffortLow, Summary: shared.ReasoningSummaryAuto}
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	case m.noThought:
		p.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffortNone}
	}
	return &responsesDialog{client: vendorsdk.OpenAI(url, q), params: p}
}

func (d *responsesDialog) say(ctx context.Context, said turn, stream bool) (vendorsdk.Reply, error) {
	for _, r := range said.results {
		d.items = append(d.items, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
			CallID: openai.String(r.id),
			Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String(r.text)},
		}})
	}
	switch url := imageOf(said); {
	case url != "":
		d.items = append(d.items, responses.ResponseInputItemParamOfMessage(responses.ResponseInputMessageContentListParam{
			responses.ResponseInputContentParamOfInputText(said.text),
			{OfInputImage: &responses.ResponseInputImageParam{Detail: responses.ResponseInputImageDetailAuto, ImageURL: openai.String(url)}},
		}, responses.EasyInputMessageRoleUser))
	case said.text != "":
		d.items = append(d.items, responses.ResponseInputItemParamOfMessage(said.text, responses.EasyInputMessageRoleUser))
	}
	d.params.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: d.items}
	done, err := d.complete(ctx, stream)
	if err != nil {
		return vendorsdk.Reply{}, err
	}
	r := vendorsdk.Reply{Text: done.OutputText(), Stop: string(done.Status), Model: done.Model, Prompt: done.Usage.InputTokens, Output: done.Usage.OutputTokens}
	for _, item := range done.Output {
		switch item.Type {
		case "function_call":
			r.Calls = append(r.Calls, vendorsdk.Call{ID: item.CallID, Name: item.Name, Args: item.Arguments.OfString})
		case "reasoning":
			for _, s := range item.Summary {
				r.Reasoning += s.Text
			}
		case "message":
			for _, c := range item.Content {
				r.Text += c.Refusal
			}
		}
		d.items = append(d.items, param.Override[responses.ResponseInputItemUnionParam](json.RawMessage(item.RawJSON())))
	}
	return r, nil
}

func (d *responsesDialog) complete(ctx context.Context, stream bool) (*responses.Response, error) {
	if !stream {
		return d.client.Responses.New(ctx, d.params)
	}
	s := d.client.Responses.NewStreaming(ctx, d.params)
	defer s.Close()
	for s.Next() {
		switch ev := s.Current(); ev.Type {
		case "response.completed", "response.incomplete":
			return &ev.Response, s.Err()
		case "response.failed":
			return nil, &vendorsdk.StreamError{Event: ev.Type, Code: string(ev.Response.Error.Code), Message: ev.Response.Error.Message}
		case "error":
			return nil, &vendorsdk.StreamError{Event: ev.Type, Code: ev.Code, Message: ev.Message}
		}
	}
	if s.Err() != nil {
		return nil, s.Err()
	}
	return nil, vendorsdk.ErrNoEnd
}
