package vendorsdk

import (
	"context"
	"encoding/base64"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// OpenAI is a client of both of OpenAI's protocols at a server; q gives the key and
// the HTTP client.
func OpenAI(url string, q Question) openai.Client {
	opts := []option.RequestOption{option.WithBaseURL(url + "/v1"), option.WithAPIKey(q.Key), option.WithMaxRetries(0)}
	if q.Client != nil {
		opts = append(opts, option.WithHTTPClient(q.Client))
	}
	return openai.NewClient(opts...)
}

func openaiStatus(err error) int {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e.StatusCode
	}
	return 0
}

func dataURL(png []byte) string {
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(png)
}

func chatParams(q Question) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{
		Model:         q.Model,
		Messages:      []openai.ChatCompletionMessageParamUnion{openai.UserMessage(q.Text)},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	if len(q.Image) > 0 {
		p.Messages[0] = openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
			openai.TextContentPart(q.Text),
			openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: dataURL(q.Image)}),
		})
	}
	if q.Result != "" {
		c := q.called("call_1")
		p.Messages = append(p.Messages,
			openai.ChatCompletionMessageParamUnion{OfAssistant: &openai.ChatCompletionAssistantMessageParam{
				ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{{
					OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
						ID:       c.ID,
						Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: c.Args},
					},
				}},
			}},
			openai.ToolMessage(q.Result, c.ID))
	}
	if q.Tools {
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(
			openai.FunctionDefinitionParam{Name: toolName, Parameters: schemaMap()})}
	}
	if q.Force {
		p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	}
	if q.Limit > 0 {
		p.MaxCompletionTokens = openai.Int(q.Limit)
	}
	return p
}

func chatReply(c openai.ChatCompletion) Reply {
	r := Reply{Model: c.Model}
	u := c.Usage
	r.Prompt, r.Output = u.PromptTokens, u.CompletionTokens
	r.Cached, r.Written, r.Thought = u.PromptTokensDetails.CachedTokens, u.PromptTokensDetails.CacheWriteTokens, u.CompletionTokensDetails.ReasoningTokens
	if len(c.Choices) > 0 {
		ch := c.Choices[0]
		r.Text, r.Stop = ch.Message.Content+ch.Message.Refusal, ch.FinishReason
		for _, tc := range ch.Message.ToolCalls {
			r.Calls = append(r.Calls, Call{tc.ID, tc.Function.Name, tc.Function.Arguments})
		}
	}
	return r
}

func askChat(ctx context.Context, url string, q Question) (Reply, error) {
	client := OpenAI(url, q)
	params := chatParams(q)
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{}
	c, err := client.Chat.Completions.New(ctx, params)
	if err != nil {
		return Reply{}, err
	}
	return chatReply(*c), nil
}

func streamChat(ctx context.Context, url string, q Question, seen func()) (Reply, error) {
	client := OpenAI(url, q)
	s := client.Chat.Completions.NewStreaming(ctx, chatParams(q))
	defer s.Close()
	var acc openai.ChatCompletionAccumulator
	for s.Next() {
		seen()
		if !acc.AddChunk(s.Current()) {
			return Reply{}, errRefused
		}
		// The accumulator keeps only the totals of the usage.
		if u := s.Current().Usage; u.TotalTokens > 0 {
			acc.Usage = u
		}
	}
	r := chatReply(acc.ChatCompletion)
	if s.Err() == nil && r.Stop == "" {
		return r, ErrNoEnd
	}
	return r, s.Err()
}
