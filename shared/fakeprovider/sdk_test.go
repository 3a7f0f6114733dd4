package fakeprovider_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	antopt "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	oaiopt "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"go.uber.org/goleak"
	"google.golang.org/genai"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

func TestMain(m *testing.M) {
	// The Gemini SDK links opencensus, whose init starts a worker for good.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// question is one request that every SDK can put.
type question struct {
	key, model, text string
	tools            bool
	force            bool
	result           string // the answer of a tool call in the history
	limit            int64
}

// reply is what an SDK understood.
type reply struct {
	text, reasoning, stop, model string
	calls                        []call
	prompt, cached, written      int64 // in the protocol's own convention
	output, thought              int64
}

type call struct{ name, args string }

// sdk is one vendor's client.
type sdk struct {
	protocol fakeprovider.Protocol
	ask      func(ctx context.Context, url string, q question) (reply, error)
	stream   func(ctx context.Context, url string, q question, seen func()) (reply, error)
	status   func(err error) int
}

func sdks() []sdk {
	return []sdk{
		{fakeprovider.Chat, askChat, streamChat, openaiStatus},
		{fakeprovider.Responses, askResponses, streamResponses, openaiStatus},
		{fakeprovider.Anthropic, askAnthropic, streamAnthropic, anthropicStatus},
		{fakeprovider.Gemini, askGemini, streamGemini, geminiStatus},
	}
}

// each runs f once a protocol, streamed and not.
func each(t *testing.T, f func(t *testing.T, s sdk, ask func(ctx context.Context, url string, q question) (reply, error))) {
	t.Helper()
	for _, s := range sdks() {
		t.Run(string(s.protocol)+"/whole", func(t *testing.T) {
			t.Parallel()
			f(t, s, s.ask)
		})
		t.Run(string(s.protocol)+"/stream", func(t *testing.T) {
			t.Parallel()
			f(t, s, func(ctx context.Context, url string, q question) (reply, error) {
				return s.stream(ctx, url, q, func() {})
			})
		})
	}
}

// serve starts a provider on a port of its own.
func serve(t *testing.T, cfg fakeprovider.Config) (*fakeprovider.Provider, string) {
	t.Helper()
	p := fakeprovider.New(cfg)
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	return p, srv.URL
}

const toolSchema = `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}`

func schemaMap() map[string]any {
	var m map[string]any
	if err := json.Unmarshal([]byte(toolSchema), &m); err != nil {
		panic(err)
	}
	return m
}

func openaiClient(url, key string) openai.Client {
	return openai.NewClient(oaiopt.WithBaseURL(url+"/v1"), oaiopt.WithAPIKey(key), oaiopt.WithMaxRetries(0))
}

func openaiStatus(err error) int {
	if e, ok := as[*openai.Error](err); ok {
		return e.StatusCode
	}
	return 0
}

func chatParams(q question) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{
		Model:         q.model,
		Messages:      []openai.ChatCompletionMessageParamUnion{openai.UserMessage(q.text)},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	if q.result != "" {
		p.Messages = append(p.Messages,
			openai.ChatCompletionMessageParamUnion{OfAssistant: &openai.ChatCompletionAssistantMessageParam{
				ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{{
					OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
						ID:       "call_1",
						Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: "weather", Arguments: "{}"},
					},
				}},
			}},
			openai.ToolMessage(q.result, "call_1"))
	}
	if q.tools {
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(
			openai.FunctionDefinitionParam{Name: "weather", Parameters: schemaMap()})}
	}
	if q.force {
		p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	}
	if q.limit > 0 {
		p.MaxCompletionTokens = openai.Int(q.limit)
	}
	return p
}

func chatReply(c openai.ChatCompletion) reply {
	r := reply{model: c.Model}
	u := c.Usage
	r.prompt, r.output = u.PromptTokens, u.CompletionTokens
	r.cached, r.written, r.thought = u.PromptTokensDetails.CachedTokens, u.PromptTokensDetails.CacheWriteTokens, u.CompletionTokensDetails.ReasoningTokens
	if len(c.Choices) > 0 {
		ch := c.Choices[0]
		r.text, r.stop = ch.Message.Content+ch.Message.Refusal, ch.FinishReason
		for _, tc := range ch.Message.ToolCalls {
			r.calls = append(r.calls, call{tc.Function.Name, tc.Function.Arguments})
		}
	}
	return r
}

func askChat(ctx context.Context, url string, q question) (reply, error) {
	client := openaiClient(url, q.key)
	params := chatParams(q)
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{}
	c, err := client.Chat.Completions.New(ctx, params)
	if err != nil {
		return reply{}, err
	}
	return chatReply(*c), nil
}

func streamChat(ctx context.Context, url string, q question, seen func()) (reply, error) {
	client := openaiClient(url, q.key)
	s := client.Chat.Completions.NewStreaming(ctx, chatParams(q))
	defer s.Close()
	var acc openai.ChatCompletionAccumulator
	for s.Next() {
		seen()
		if !acc.AddChunk(s.Current()) {
			return reply{}, errRefused
		}
		// The accumulator keeps only the totals of the usage.
		if u := s.Current().Usage; u.TotalTokens > 0 {
			acc.Usage = u
		}
	}
	return chatReply(acc.ChatCompletion), s.Err()
}

func responsesParams(q question) responses.ResponseNewParams {
	p := responses.ResponseNewParams{Model: q.model}
	items := []responses.ResponseInputItemUnionParam{
		responses.ResponseInputItemParamOfMessage(q.text, responses.EasyInputMessageRoleUser),
	}
	if q.result != "" {
		items = append(items,
			responses.ResponseInputItemParamOfFunctionCall("{}", "call_1", "weather"),
			responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
				CallID: openai.String("call_1"),
				Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String(q.result)},
			}})
	}
	p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: items}
	if q.tools {
		p.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "weather", Parameters: schemaMap()}}}
	}
	if q.force {
		p.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsRequired)}
	}
	if q.limit > 0 {
		p.MaxOutputTokens = openai.Int(q.limit)
	}
	return p
}

func responsesReply(r *responses.Response) reply {
	out := reply{text: r.OutputText(), stop: string(r.Status), model: r.Model}
	u := r.Usage
	out.prompt, out.output = u.InputTokens, u.OutputTokens
	out.cached, out.written, out.thought = u.InputTokensDetails.CachedTokens, u.InputTokensDetails.CacheWriteTokens, u.OutputTokensDetails.ReasoningTokens
	for _, item := range r.Output {
		switch item.Type {
		case "function_call":
			out.calls = append(out.calls, call{item.Name, item.Arguments.OfString})
		case "reasoning":
			for _, s := range item.Summary {
				out.reasoning += s.Text
			}
		}
	}
	return out
}

func askResponses(ctx context.Context, url string, q question) (reply, error) {
	client := openaiClient(url, q.key)
	r, err := client.Responses.New(ctx, responsesParams(q))
	if err != nil {
		return reply{}, err
	}
	return responsesReply(r), nil
}

// streamResponses checks on the way what a careful client checks: the numbering, that
// only open items are closed, and that deltas add up to what is said to be done.
func streamResponses(ctx context.Context, url string, q question, seen func()) (reply, error) {
	client := openaiClient(url, q.key)
	s := client.Responses.NewStreaming(ctx, responsesParams(q))
	defer s.Close()
	var next int64
	open, deltas := map[int64]bool{}, map[string]string{}
	for s.Next() {
		seen()
		ev := s.Current()
		if ev.SequenceNumber != next {
			return reply{}, mismatch("sequence number", ev.SequenceNumber, next)
		}
		next++
		switch ev.Type {
		case "response.output_item.added":
			open[ev.OutputIndex] = true
		case "response.output_item.done":
			if !open[ev.OutputIndex] {
				return reply{}, mismatch("closed item", ev.OutputIndex, "an open one")
			}
			delete(open, ev.OutputIndex)
		case "response.output_text.delta", "response.function_call_arguments.delta":
			deltas[ev.ItemID] += ev.Delta
		case "response.output_text.done":
			if deltas[ev.ItemID] != ev.Text {
				return reply{}, mismatch("text", ev.Text, deltas[ev.ItemID])
			}
		case "response.function_call_arguments.done":
			if deltas[ev.ItemID] != ev.Arguments {
				return reply{}, mismatch("arguments", ev.Arguments, deltas[ev.ItemID])
			}
		case "response.completed", "response.incomplete", "response.failed":
			if len(open) > 0 {
				return reply{}, mismatch("open items at the end", len(open), 0)
			}
			return responsesReply(&ev.Response), s.Err()
		case "error":
			return reply{}, mismatch("event", ev.Code, "no error")
		}
	}
	if s.Err() != nil {
		return reply{}, s.Err()
	}
	return reply{}, errNoEnd
}

func anthropicClient(url, key string) anthropic.Client {
	return anthropic.NewClient(antopt.WithBaseURL(url), antopt.WithAPIKey(key), antopt.WithMaxRetries(0))
}

func anthropicStatus(err error) int {
	if e, ok := as[*anthropic.Error](err); ok {
		return e.StatusCode
	}
	return 0
}

func anthropicParams(q question) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{
		Model: anthropic.Model(q.model), MaxTokens: 4096,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(q.text))},
	}
	if q.result != "" {
		p.Messages = append(p.Messages,
			anthropic.NewAssistantMessage(anthropic.NewToolUseBlock("toolu_1", map[string]any{}, "weather")),
			anthropic.NewUserMessage(anthropic.NewToolResultBlock("toolu_1", q.result, false)))
	}
	if q.tools {
		schema := schemaMap()
		p.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
			Name:        "weather",
			InputSchema: anthropic.ToolInputSchemaParam{Properties: schema["properties"], Required: []string{"city"}},
		}}}
	}
	if q.force {
		p.ToolChoice = anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{}}
	}
	if q.limit > 0 {
		p.MaxTokens = q.limit
	}
	return p
}

func anthropicReply(m *anthropic.Message) reply {
	r := reply{stop: string(m.StopReason), model: string(m.Model)}
	u := m.Usage
	r.prompt, r.output = u.InputTokens, u.OutputTokens
	r.cached, r.written, r.thought = u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokensDetails.ThinkingTokens
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			r.text += b.Text
		case "thinking":
			r.reasoning += b.Thinking
		case "tool_use":
			r.calls = append(r.calls, call{b.Name, string(b.Input)})
		}
	}
	return r
}

func askAnthropic(ctx context.Context, url string, q question) (reply, error) {
	client := anthropicClient(url, q.key)
	m, err := client.Messages.New(ctx, anthropicParams(q))
	if err != nil {
		return reply{}, err
	}
	return anthropicReply(m), nil
}

func streamAnthropic(ctx context.Context, url string, q question, seen func()) (reply, error) {
	client := anthropicClient(url, q.key)
	s := client.Messages.NewStreaming(ctx, anthropicParams(q))
	defer s.Close()
	var m anthropic.Message
	ended := false
	for s.Next() {
		seen()
		if err := m.Accumulate(s.Current()); err != nil {
			return reply{}, err
		}
		ended = ended || s.Current().Type == "message_stop"
	}
	if s.Err() == nil && !ended {
		return reply{}, errNoEnd
	}
	return anthropicReply(&m), s.Err()
}

func geminiClient(ctx context.Context, url, key string) (*genai.Client, error) {
	return genai.NewClient(ctx, &genai.ClientConfig{
		APIKey: key, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: url},
	})
}

func geminiStatus(err error) int {
	if e, ok := as[genai.APIError](err); ok {
		return e.Code
	}
	return 0
}

func geminiParams(q question) ([]*genai.Content, *genai.GenerateContentConfig) {
	contents := []*genai.Content{genai.NewContentFromText(q.text, genai.RoleUser)}
	if q.result != "" {
		contents = append(contents,
			genai.NewContentFromFunctionCall("weather", map[string]any{}, genai.RoleModel),
			genai.NewContentFromFunctionResponse("weather", map[string]any{"output": q.result}, genai.RoleUser))
	}
	cfg := &genai.GenerateContentConfig{}
	if q.tools {
		cfg.Tools = []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
			{Name: "weather", ParametersJsonSchema: schemaMap()},
		}}}
	}
	if q.force {
		cfg.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny}}
	}
	if q.limit > 0 {
		cfg.MaxOutputTokens = int32(q.limit)
	}
	return contents, cfg
}

// addGemini adds a response, or a piece of one, to r.
func addGemini(r *reply, g *genai.GenerateContentResponse) {
	r.model = g.ModelVersion
	if u := g.UsageMetadata; u != nil {
		r.prompt, r.cached = int64(u.PromptTokenCount), int64(u.CachedContentTokenCount)
		r.output, r.thought = int64(u.CandidatesTokenCount), int64(u.ThoughtsTokenCount)
	}
	for _, c := range g.Candidates {
		if c.FinishReason != "" {
			r.stop = string(c.FinishReason)
		}
		if c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			switch {
			case p.FunctionCall != nil:
				args, err := json.Marshal(p.FunctionCall.Args)
				if err != nil {
					panic(err)
				}
				r.calls = append(r.calls, call{p.FunctionCall.Name, string(args)})
			case p.Thought:
				r.reasoning += p.Text
			default:
				r.text += p.Text
			}
		}
	}
}

func askGemini(ctx context.Context, url string, q question) (reply, error) {
	client, err := geminiClient(ctx, url, q.key)
	if err != nil {
		return reply{}, err
	}
	contents, cfg := geminiParams(q)
	g, err := client.Models.GenerateContent(ctx, q.model, contents, cfg)
	if err != nil {
		return reply{}, err
	}
	var r reply
	addGemini(&r, g)
	return r, nil
}

func streamGemini(ctx context.Context, url string, q question, seen func()) (reply, error) {
	client, err := geminiClient(ctx, url, q.key)
	if err != nil {
		return reply{}, err
	}
	var r reply
	contents, cfg := geminiParams(q)
	for g, err := range client.Models.GenerateContentStream(ctx, q.model, contents, cfg) {
		if err != nil {
			return r, err
		}
		seen()
		addGemini(&r, g)
	}
	if r.stop == "" {
		return r, errNoEnd
	}
	return r, nil
}

func TestDefaultAnswerNamesModelAndRepeatsTheUser(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{Strict: true})
	each(t, func(t *testing.T, s sdk, ask func(context.Context, string, question) (reply, error)) {
		q := question{key: "k", model: "fake-large", text: "good morning"}
		r, err := ask(t.Context(), url, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"fake-large", "good morning", protocolTitle(s.protocol)} {
			if !strings.Contains(r.text, want) {
				t.Errorf("answer %q does not mention %q", r.text, want)
			}
		}
		if r.model != "fake-large" {
			t.Errorf("served model %q, want fake-large", r.model)
		}
		if want := stopWords(s.protocol)["end"]; r.stop != want {
			t.Errorf("stop %q, want %q", r.stop, want)
		}
		if want := int64(len(q.text)+3) / 4; r.prompt != want {
			t.Errorf("prompt tokens %d, want %d", r.prompt, want)
		}
		if want := int64(len(r.text)+3) / 4; r.output != want {
			t.Errorf("output tokens %d, want %d", r.output, want)
		}
	})
}

func TestToolLoopCallsOnceThenAnswers(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{Strict: true})
	each(t, func(t *testing.T, s sdk, ask func(context.Context, string, question) (reply, error)) {
		for _, q := range []question{
			{key: "k", model: "m", text: "use a Tool, please", tools: true},
			{key: "k", model: "m", text: "weather?", tools: true, force: true},
		} {
			r, err := ask(t.Context(), url, q)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.calls) != 1 || r.calls[0].name != "weather" {
				t.Fatalf("calls %v, want one of weather", r.calls)
			}
			var args struct {
				City string
				Days int
			}
			if err := json.Unmarshal([]byte(r.calls[0].args), &args); err != nil || args.City == "" || args.Days == 0 {
				t.Errorf("arguments %s do not fit %s", r.calls[0].args, toolSchema)
			}
			if want := stopWords(s.protocol)["tools"]; r.stop != want {
				t.Errorf("stop %q, want %q", r.stop, want)
			}
		}

		r, err := ask(t.Context(), url, question{key: "k", model: "m", text: "use a tool", tools: true, result: "sunny"})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.calls) != 0 || !strings.Contains(r.text, "sunny") {
			t.Errorf("after a tool result: %+v, want a text with the result", r)
		}

		r, err = ask(t.Context(), url, question{key: "k", model: "m", text: "weather?", tools: true})
		if err != nil || len(r.calls) != 0 {
			t.Errorf("without a reason: calls %v (%v), want none", r.calls, err)
		}
	})
}

func TestOutputLimitCutsTheAnswer(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{})
	each(t, func(t *testing.T, s sdk, ask func(context.Context, string, question) (reply, error)) {
		r, err := ask(t.Context(), url, question{key: "k", model: "m", text: "hello", limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		if r.output != 3 || len(r.text) != 12 {
			t.Errorf("%d tokens in %q, want 3 in 12 bytes", r.output, r.text)
		}
		if want := stopWords(s.protocol)["length"]; r.stop != want {
			t.Errorf("stop %q, want %q", r.stop, want)
		}
	})
}

func TestScriptedContentReachesEverySDK(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	p.Script(fakeprovider.Match{}, fakeprovider.Step{
		Text: "grüße, 世界", Reasoning: "let me think", Model: "served-1",
		ToolCalls: []fakeprovider.ToolCall{
			{Name: "a", Arguments: `{"n":12345678901234567,"text":"äöü with quite some length"}`},
			{Name: "b"},
		},
		KeepAlives: 3,
		Usage: &fakeprovider.Usage{
			Input: 100, Cached: 20, CacheWrite5m: 7, CacheWrite1h: 3, Output: 50, Reasoning: 5,
		},
	})
	each(t, func(t *testing.T, s sdk, ask func(context.Context, string, question) (reply, error)) {
		r, err := ask(t.Context(), url, question{key: "k", model: "m", text: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if r.text != "grüße, 世界" || r.model != "served-1" {
			t.Errorf("text %q of %q", r.text, r.model)
		}
		if s.protocol != fakeprovider.Chat && r.reasoning != "let me think" { // Chat's SDK has no field for it
			t.Errorf("reasoning %q", r.reasoning)
		}
		if len(r.calls) != 2 || r.calls[0].name != "a" || r.calls[1].name != "b" || r.calls[1].args != "{}" {
			t.Fatalf("calls %v", r.calls)
		}
		if !strings.Contains(r.calls[0].args, "äöü with quite some length") {
			t.Errorf("arguments %s", r.calls[0].args)
		}
		want := reply{prompt: 130, cached: 20, written: 10, output: 55, thought: 5}
		switch s.protocol {
		case fakeprovider.Anthropic: // input apart from what a cache was involved in
			want.prompt = 100
		case fakeprovider.Gemini: // no word for writes; thoughts apart from output
			want.written, want.output = 0, 50
		}
		got := reply{prompt: r.prompt, cached: r.cached, written: r.written, output: r.output, thought: r.thought}
		if got.prompt != want.prompt || got.cached != want.cached || got.written != want.written ||
			got.output != want.output || got.thought != want.thought {
			t.Errorf("usage %+v, want %+v", got, want)
		}
	})
}

func TestModelListsOfEveryVendor(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{Models: []string{"one", "two", "three"}})
	ctx := t.Context()

	oai := openaiClient(url, "k")
	page, err := oai.Models.List(ctx)
	if err != nil || len(page.Data) != 3 || page.Data[1].ID != "two" {
		t.Errorf("OpenAI: %v (%v)", page, err)
	}
	if m, err := oai.Models.Get(ctx, "two"); err != nil || m.ID != "two" {
		t.Errorf("OpenAI get: %v (%v)", m, err)
	}
	if _, err := oai.Models.Get(ctx, "four"); openaiStatus(err) != 404 {
		t.Errorf("OpenAI get of an unknown model: %v, want 404", err)
	}

	ant := anthropicClient(url, "k")
	var ids []string
	pager := ant.Models.ListAutoPaging(ctx, anthropic.ModelListParams{Limit: anthropic.Int(2)})
	for pager.Next() {
		ids = append(ids, pager.Current().ID)
	}
	if pager.Err() != nil || strings.Join(ids, " ") != "one two three" {
		t.Errorf("Anthropic: %v (%v)", ids, pager.Err())
	}
	if m, err := ant.Models.Get(ctx, "two", anthropic.ModelGetParams{}); err != nil || m.ID != "two" {
		t.Errorf("Anthropic get: %v (%v)", m, err)
	}

	gem, err := geminiClient(ctx, url, "k")
	if err != nil {
		t.Fatal(err)
	}
	ids = nil
	first, err := gem.Models.List(ctx, &genai.ListModelsConfig{PageSize: 2})
	for err == nil {
		for _, m := range first.Items {
			ids = append(ids, m.Name)
		}
		if first.NextPageToken == "" {
			break
		}
		first, err = first.Next(ctx)
	}
	if err != nil || strings.Join(ids, " ") != "models/one models/two models/three" {
		t.Errorf("Gemini: %v (%v)", ids, err)
	}
	if m, err := gem.Models.Get(ctx, "two", nil); err != nil || m.Name != "models/two" {
		t.Errorf("Gemini get: %v (%v)", m, err)
	}
}

func TestCountTokensAgreesWithGeneration(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{})
	ctx := t.Context()
	const text = "how many tokens is this?" // 24 bytes
	ant := anthropicClient(url, "k")
	n, err := ant.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{
		Model: "m", Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
	})
	if err != nil || n.InputTokens != 6 {
		t.Errorf("Anthropic: %v (%v), want 6", n, err)
	}
	gem, err := geminiClient(ctx, url, "k")
	if err != nil {
		t.Fatal(err)
	}
	g, err := gem.Models.CountTokens(ctx, "m", genai.Text(text), nil)
	if err != nil || g.TotalTokens != 6 {
		t.Errorf("Gemini: %v (%v), want 6", g, err)
	}
	oai := openaiClient(url, "k")
	o, err := oai.Responses.InputTokens.Count(ctx, responses.InputTokenCountParams{
		Model: openai.String("m"), Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String(text)},
	})
	if err != nil || o.InputTokens != 6 {
		t.Errorf("Responses: %v (%v), want 6", o, err)
	}
}
