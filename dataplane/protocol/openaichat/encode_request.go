package openaichat

import (
	"crypto/sha256"
	"encoding/hex"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// UpstreamTarget is the same for all calls: the body says what is wanted.
func (*Codec) UpstreamTarget(*llm.Request, *protocol.Conversion) (protocol.Target, map[string]string) {
	return protocol.Target{Protocol: protocol.OpenAIChat, Op: protocol.OpGenerate}, nil
}

// EncodeRequest writes a Chat Completions request. Members stand in a fixed order.
func (*Codec) EncodeRequest(r *llm.Request, c *protocol.Conversion) ([]byte, *fault.Error) {
	e := &requestEncoder{r: r, c: c, own: c.From == protocol.OpenAIChat}
	for _, step := range [...]func() *fault.Error{
		e.extras, e.chooseFormat, e.messages, e.tools, e.format, e.thinking, e.sampling, e.identity,
	} {
		if f := step(); f != nil {
			return nil, f
		}
	}
	e.rest()
	return append(e.b, '}'), nil
}

// requestEncoder writes one request.
type requestEncoder struct {
	r   *llm.Request
	c   *protocol.Conversion
	own bool // the caller speaks Chat, too

	b     []byte
	given [len(optionNames)][]byte // extras that are written as they are
	ttl   []byte                   // lifetime of the marks that are to live longer than usual

	form        llm.FormatKind // what the answer is bound to by response_format
	strict      bool
	instruction string // what is said about the form beside it

	results map[string][]*llm.Part // those that no call took yet, by its id
	open    assistant
	said    []*llm.Part // scratch
}

// compat are the upstream's deviations; its getters take nil.
func (e *requestEncoder) compat() *configv1.Compat { return e.c.Compat }

// callerFields are the names that other protocols have for what is lost most.
var callerFields = map[llm.Feature][4]string{
	llm.FeatureTemperature:      {"temperature", "temperature", "temperature", "generationConfig.temperature"},
	llm.FeatureTopP:             {"top_p", "top_p", "top_p", "generationConfig.topP"},
	llm.FeatureTopK:             {"top_k", "top_k", "top_k", "generationConfig.topK"},
	llm.FeatureStop:             {"stop", "stop", "stop_sequences", "generationConfig.stopSequences"},
	llm.FeatureParallelTools:    {"parallel_tool_calls", "parallel_tool_calls", "tool_choice.disable_parallel_tool_use", "toolConfig"},
	llm.FeatureReasoningBudget:  {"reasoning_effort", "reasoning", "thinking.budget_tokens", "generationConfig.thinkingConfig.thinkingBudget"},
	llm.FeatureReasoningDisplay: {"reasoning_effort", "reasoning.summary", "thinking.display", "generationConfig.thinkingConfig.includeThoughts"},
	llm.FeatureMaxTokens:        {"max_completion_tokens", "max_output_tokens", "max_tokens", "generationConfig.maxOutputTokens"},
	llm.FeatureJSONSchema:       {"response_format", "text.format", "output_config.format", "generationConfig.responseSchema"},
	llm.FeatureSchemaStrict:     {"response_format", "text.format", "output_config.format", "generationConfig.responseSchema"},
	llm.FeatureJSONObject:       {"response_format", "text.format", "output_config.format", "generationConfig.responseMimeType"},
	llm.FeatureUser:             {"user", "user", "metadata.user_id", "labels"},
}

// lose is Conversion.Lose for a feature that every caller has one place for.
func (e *requestEncoder) lose(f llm.Feature) (protocol.Action, *fault.Error) {
	names := callerFields[f]
	field := ""
	switch e.c.From {
	case protocol.OpenAIChat:
		field = names[0]
	case protocol.OpenAIResponses:
		field = names[1]
	case protocol.Anthropic:
		field = names[2]
	case protocol.Gemini:
		field = names[3]
	}
	return e.c.Lose(f, field)
}

// thinking writes how hard the model is to think.
func (e *requestEncoder) thinking() *fault.Error {
	want := e.r.Reasoning
	effort := want.Effort
	if want.Off {
		effort = llm.EffortNone
	}
	if !want.Off && want.Budget > 0 {
		a, f := e.lose(llm.FeatureReasoningBudget)
		if f != nil {
			return f
		}
		if effort == "" && a == protocol.Substitute {
			effort = llm.EffortOf(want.Budget)
		}
	}
	if want.Hide || (want.Show || want.Summary != "") && e.compat().GetReasoningField() == "" {
		if _, f := e.lose(llm.FeatureReasoningDisplay); f != nil {
			return f
		}
	}
	if effort != "" {
		e.b = wirejson.AppendStringMember(e.b, "reasoning_effort", string(effort))
	}
	return nil
}

// maxStopStrings is how many stop strings the protocol takes.
// Source: ChatCompletionNewParams.Stop of openai-go v3.99.
const maxStopStrings = 4

// sampling writes the output limit, what bounds the choice of tokens, and where to stop.
func (e *requestEncoder) sampling() *fault.Error {
	if f := e.outputLimit(); f != nil {
		return f
	}
	for _, n := range [...]struct {
		feature llm.Feature
		name    string
		value   llm.Number
	}{
		{llm.FeatureTemperature, "temperature", e.r.Temperature},
		{llm.FeatureTopP, "top_p", e.r.TopP},
		{llm.FeatureTopK, "", e.r.TopK},
	} {
		if n.value == "" {
			continue
		}
		if n.name == "" || e.compat().GetNoSampling() {
			if _, f := e.lose(n.feature); f != nil {
				return f
			}
			continue
		}
		e.b = wirejson.AppendRawMember(e.b, n.name, []byte(n.value))
	}
	stops := e.r.Stop
	if len(stops) > maxStopStrings {
		if _, f := e.lose(llm.FeatureStop); f != nil {
			return f
		}
		stops = stops[:maxStopStrings]
	}
	if len(stops) > 0 {
		e.b = append(wirejson.AppendMember(e.b, "stop"), '[')
		for _, s := range stops {
			e.b = wirejson.AppendString(wirejson.AppendElement(e.b), s)
		}
		e.b = append(e.b, ']')
	}
	return nil
}

func (e *requestEncoder) outputLimit() *fault.Error {
	limit := e.r.MaxOutputTokens
	if limit <= 0 {
		return nil
	}
	if most := e.c.MaxOutput; most > 0 && limit > most {
		if _, f := e.lose(llm.FeatureMaxTokens); f != nil {
			return f
		}
		limit = most // which the model would have stopped at anyway
	}
	name := "max_completion_tokens"
	if e.compat().GetMaxTokensField() == configv1.MaxTokensField_MAX_TOKENS_FIELD_MAX_TOKENS {
		name = "max_tokens"
	}
	e.b = wirejson.AppendIntMember(e.b, name, limit)
	return nil
}

// maxUser is the longest name of an end user that the protocol takes, in bytes.
const maxUser = 64

// identity writes who asks and which calls belong together. user is the name that all
// servers know; safety_identifier follows only where the caller told two names.
func (e *requestEncoder) identity() *fault.Error {
	user := e.r.User
	if len(user) > maxUser {
		a, f := e.lose(llm.FeatureUser)
		if f != nil {
			return f
		}
		user = ""
		if a == protocol.Substitute {
			sum := sha256.Sum256([]byte(e.r.User))
			user = hex.EncodeToString(sum[:])
		}
	}
	if raw := e.given[optUser]; raw != nil {
		e.b = wirejson.AppendRawMember(e.b, "user", raw)
		if user != "" {
			e.b = wirejson.AppendStringMember(e.b, "safety_identifier", user)
		}
	} else if user != "" {
		e.b = wirejson.AppendStringMember(e.b, "user", user)
	}
	if e.r.CacheKey != "" {
		e.b = wirejson.AppendStringMember(e.b, "prompt_cache_key", e.r.CacheKey)
	}
	return nil
}

// rest writes the extras and the stream.
func (e *requestEncoder) rest() {
	for i, raw := range e.given {
		if raw != nil && optionNames[i] != "" {
			e.b = wirejson.AppendRawMember(e.b, optionNames[i], raw)
		}
	}
	if mode, ttl := e.given[optCacheMode], e.given[optCacheTTL]; e.given[optCacheOptions] == nil && (mode != nil || ttl != nil) {
		e.b = append(wirejson.AppendMember(e.b, "prompt_cache_options"), '{')
		if mode != nil {
			e.b = wirejson.AppendRawMember(e.b, "mode", mode)
		}
		if ttl != nil {
			e.b = wirejson.AppendRawMember(e.b, "ttl", ttl)
		}
		e.b = append(e.b, '}')
	}
	if !e.c.Stream {
		return
	}
	e.b = wirejson.AppendBoolMember(e.b, "stream", true)
	if e.compat().GetNoStreamOptions() {
		return
	}
	e.b = append(wirejson.AppendMember(e.b, "stream_options"), '{')
	e.b = wirejson.AppendBoolMember(e.b, "include_usage", true) // the gateway's own accounts need it
	if raw := e.given[optObfuscation]; raw != nil {
		e.b = wirejson.AppendRawMember(e.b, "include_obfuscation", raw)
	}
	e.b = append(e.b, '}')
}
