package vendorsdk

import (
	"context"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

func responsesParams(q Question) responses.ResponseNewParams {
	p := responses.ResponseNewParams{Model: q.Model}
	items := []responses.ResponseInputItemUnionParam{
		responses.ResponseInputItemParamOfMessage(q.Text, responses.EasyInputMessageRoleUser),
	}
	if len(q.Image) > 0 {
		items[0] = responses.ResponseInputItemParamOfMessage(responses.ResponseInputMessageContentListParam{
			responses.ResponseInputContentParamOfInputText(q.Text),
			{OfInputImage: &responses.ResponseInputImageParam{
				Detail: responses.ResponseInputImageDetailAuto, ImageURL: openai.String(dataURL(q.Image)),
			}},
		}, responses.EasyInputMessageRoleUser)
	}
	if q.Result != "" {
		c := q.called("call_1")
		items = append(items,
			responses.ResponseInputItemParamOfFunctionCall(c.Args, c.ID, c.Name),
			responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
				CallID: openai.String(c.ID),
				Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String(q.Result)},
			}})
	}
	p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: items}
	if q.Tools {
		p.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: toolName, Parameters: schemaMap()}}}
	}
	if q.Force {
		p.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsRequired)}
	}
	if q.Limit > 0 {
		p.MaxOutputTokens = openai.Int(q.Limit)
	}
	return p
}

func responsesReply(r *responses.Response) Reply {
	out := Reply{Text: r.OutputText(), Stop: string(r.Status), Model: r.Model}
	u := r.Usage
	out.Prompt, out.Output = u.InputTokens, u.OutputTokens
	out.Cached, out.Written, out.Thought = u.InputTokensDetails.CachedTokens, u.InputTokensDetails.CacheWriteTokens, u.OutputTokensDetails.ReasoningTokens
	for _, item := range r.Output {
		switch item.Type {
		case "function_call":
			out.Calls = append(out.Calls, Call{item.CallID, item.Name, item.Arguments.OfString})
		case "reasoning":
			for _, s := range item.Summary {
				out.Reasoning += s.Text
			}
		}
	}
	return out
}

func askResponses(ctx context.Context, url string, q Question) (Reply, error) {
	client := OpenAI(url, q)
	r, err := client.Responses.New(ctx, responsesParams(q))
	if err != nil {
		return Reply{}, err
	}
	return responsesReply(r), nil
}

// streamResponses checks on the way what a careful client checks: the numbering, that
// only open items are closed, and that deltas add up to what is said to be done.
func streamResponses(ctx context.Context, url string, q Question, seen func()) (Reply, error) {
	client := OpenAI(url, q)
	s := client.Responses.NewStreaming(ctx, responsesParams(q))
	defer s.Close()
	var next int64
	var partial Reply
	var told error
	open, deltas := map[int64]bool{}, map[string]string{}
	for s.Next() {
		seen()
		ev := s.Current()
		if ev.SequenceNumber != next {
			return partial, mismatch("sequence number", ev.SequenceNumber, next)
		}
		next++
		switch ev.Type {
		case "response.output_item.added":
			open[ev.OutputIndex] = true
		case "response.output_item.done":
			if !open[ev.OutputIndex] {
				return partial, mismatch("closed item", ev.OutputIndex, "an open one")
			}
			delete(open, ev.OutputIndex)
		case "response.output_text.delta":
			partial.Text += ev.Delta
			deltas[ev.ItemID] += ev.Delta
		case "response.function_call_arguments.delta":
			deltas[ev.ItemID] += ev.Delta
		case "response.output_text.done":
			if deltas[ev.ItemID] != ev.Text {
				return partial, mismatch("text", ev.Text, deltas[ev.ItemID])
			}
		case "response.function_call_arguments.done":
			if deltas[ev.ItemID] != ev.Arguments {
				return partial, mismatch("arguments", ev.Arguments, deltas[ev.ItemID])
			}
		case "response.failed":
			partial.Stop = string(ev.Response.Status)
			return partial, &StreamError{ev.Type, string(ev.Response.Error.Code), ev.Response.Error.Message}
		case "response.completed", "response.incomplete":
			if len(open) > 0 {
				return partial, mismatch("open items at the end", len(open), 0)
			}
			return responsesReply(&ev.Response), s.Err()
		case "error":
			told = &StreamError{ev.Type, ev.Code, ev.Message}
		}
	}
	switch {
	case s.Err() != nil:
		return partial, s.Err()
	case told != nil:
		return partial, told
	}
	return partial, ErrNoEnd
}
