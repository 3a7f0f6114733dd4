package vendorsdk

import (
	"context"
	"encoding/base64"
	"errors"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
)

// Anthropic is a client of Anthropic's protocol at a server; q gives the key and the
// HTTP client.
func Anthropic(url string, q Question) anthropic.Client {
	opts := []option.RequestOption{option.WithBaseURL(url), option.WithAPIKey(q.Key), option.WithMaxRetries(0)}
	if q.Client != nil {
		opts = append(opts, option.WithHTTPClient(q.Client))
	}
	return anthropic.NewClient(opts...)
}

func anthropicStatus(err error) int {
	if e, ok := errors.AsType[*anthropic.Error](err); ok {
		return e.StatusCode
	}
	return 0
}

// anthropicTokens is the output bound of a question that has none: the protocol does
// not do without.
const anthropicTokens = 4096

func anthropicParams(q Question) anthropic.MessageNewParams {
	content := []anthropic.ContentBlockParamUnion{anthropic.NewTextBlock(q.Text)}
	if len(q.Image) > 0 {
		content = append(content, anthropic.NewImageBlockBase64("image/png", base64.StdEncoding.EncodeToString(q.Image)))
	}
	p := anthropic.MessageNewParams{
		Model: q.Model, MaxTokens: anthropicTokens,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(content...)},
	}
	if q.Result != "" {
		c := q.called("toolu_1")
		p.Messages = append(p.Messages,
			anthropic.NewAssistantMessage(anthropic.NewToolUseBlock(c.ID, c.arguments(), c.Name)),
			anthropic.NewUserMessage(anthropic.NewToolResultBlock(c.ID, q.Result, false)))
	}
	if q.Tools {
		schema := schemaMap()
		p.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
			Name:        toolName,
			InputSchema: anthropic.ToolInputSchemaParam{Properties: schema["properties"], Required: []string{"city"}},
		}}}
	}
	if q.Force {
		p.ToolChoice = anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{}}
	}
	if q.Limit > 0 {
		p.MaxTokens = q.Limit
	}
	return p
}

func anthropicReply(m *anthropic.Message) Reply {
	r := Reply{Stop: string(m.StopReason), Model: m.Model}
	u := m.Usage
	r.Prompt, r.Output = u.InputTokens, u.OutputTokens
	r.Cached, r.Written, r.Thought = u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokensDetails.ThinkingTokens
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			r.Text += b.Text
		case "thinking":
			r.Reasoning += b.Thinking
		case "tool_use":
			r.Calls = append(r.Calls, Call{b.ID, b.Name, string(b.Input)})
		}
	}
	return r
}

func askAnthropic(ctx context.Context, url string, q Question) (Reply, error) {
	client := Anthropic(url, q)
	m, err := client.Messages.New(ctx, anthropicParams(q))
	if err != nil {
		return Reply{}, err
	}
	return anthropicReply(m), nil
}

func streamAnthropic(ctx context.Context, url string, q Question, seen func()) (Reply, error) {
	client := Anthropic(url, q)
	s := client.Messages.NewStreaming(ctx, anthropicParams(q))
	defer s.Close()
	var m anthropic.Message
	ended := false
	for s.Next() {
		seen()
		if err := m.Accumulate(s.Current()); err != nil {
			return anthropicReply(&m), err
		}
		ended = ended || s.Current().Type == "message_stop"
	}
	if s.Err() == nil && !ended {
		return anthropicReply(&m), ErrNoEnd
	}
	return anthropicReply(&m), s.Err()
}
