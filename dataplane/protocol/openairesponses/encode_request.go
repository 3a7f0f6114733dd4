package openairesponses

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
	return protocol.Target{Protocol: protocol.OpenAIResponses, Op: protocol.OpGenerate}, nil
}

// EncodeRequest writes a Responses request. Members stand in a fixed order. The provider
// is told not to store anything unless the caller asked for it.
func (*Codec) EncodeRequest(r *llm.Request, c *protocol.Conversion) ([]byte, *fault.Error) {
	e := &requestEncoder{r: r, c: c, own: c.From == protocol.OpenAIResponses}
	for _, step := range [...]func() *fault.Error{
		e.extras, e.chooseFormat, e.conversation, e.tools, e.text, e.thinking, e.sampling, e.identity,
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
	own bool // the caller speaks Responses, too

	b        []byte
	given    [endOfOptions][]byte // extras that are written as they are
	included [][]byte             // words of include
	ttl      []byte               // lifetime of the marks that are to live longer than usual
	stored   bool                 // the conversation begins with what the provider keeps

	form        llm.FormatKind
	strict      bool
	instruction string // what is said about the form beside

	calls map[string]*calls // by the caller's id
	held  []*llm.Part       // results that stand before their call
}

// compat are the upstream's deviations; its getters take nil.
func (e *requestEncoder) compat() *configv1.Compat { return e.c.Compat }

// vendors reports whether the caller's protocol is one of OpenAI's.
func (e *requestEncoder) vendors() bool { return e.own || e.c.From == protocol.OpenAIChat }

// lose is Conversion.Lose for a feature that every caller has one place for.
func (e *requestEncoder) lose(f llm.Feature) (protocol.Action, *fault.Error) {
	return e.c.Lose(f, callerField(e.c.From, f))
}

// callerField is the name that a protocol has for a feature, as far as it is known here.
func callerField(from protocol.Name, f llm.Feature) string {
	names := [4]string{}
	switch f {
	case llm.FeatureTemperature:
		names = [4]string{"temperature", "temperature", "temperature", "generationConfig.temperature"}
	case llm.FeatureTopP:
		names = [4]string{"top_p", "top_p", "top_p", "generationConfig.topP"}
	case llm.FeatureTopK:
		names = [4]string{"top_k", "top_k", "top_k", "generationConfig.topK"}
	case llm.FeatureStop:
		names = [4]string{"stop", "stop", "stop_sequences", "generationConfig.stopSequences"}
	case llm.FeatureParallelTools:
		names = [4]string{"parallel_tool_calls", "parallel_tool_calls", "tool_choice.disable_parallel_tool_use", "toolConfig"}
	case llm.FeatureReasoningBudget:
		names = [4]string{"reasoning_effort", "reasoning", "thinking.budget_tokens", "generationConfig.thinkingConfig.thinkingBudget"}
	case llm.FeatureMaxTokens:
		names = [4]string{"max_completion_tokens", "max_output_tokens", "max_tokens", "generationConfig.maxOutputTokens"}
	case llm.FeatureJSONSchema, llm.FeatureSchemaStrict:
		names = [4]string{"response_format", "text.format", "output_config.format", "generationConfig.responseJsonSchema"}
	case llm.FeatureJSONObject:
		names = [4]string{"response_format", "text.format", "output_config.format", "generationConfig.responseMimeType"}
	case llm.FeatureUser:
		names = [4]string{"user", "user", "metadata.user_id", "labels"}
	case llm.FeatureWebSearch:
		names = [4]string{"web_search_options", "tools", "tools", "tools"}
	case llm.FeatureParticipantName:
		names = [4]string{"messages[].name", "input", "messages", "contents"}
	}
	switch from {
	case protocol.OpenAIChat:
		return names[0]
	case protocol.OpenAIResponses:
		return names[1]
	case protocol.Anthropic:
		return names[2]
	case protocol.Gemini:
		return names[3]
	}
	return ""
}

// thinking writes how hard the model is to think, and how much of it may be shown.
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
	summary := want.Summary
	if summary == "" && want.Show && !want.Off {
		summary = "auto"
	}
	mode, context := e.given[optReasoningMode], e.given[optReasoningContext]
	if effort == "" && summary == "" && mode == nil && context == nil {
		return nil
	}
	e.b = append(wirejson.AppendMember(e.b, "reasoning"), '{')
	if effort != "" {
		e.b = wirejson.AppendStringMember(e.b, "effort", string(effort))
	}
	if summary != "" {
		e.b = wirejson.AppendStringMember(e.b, "summary", summary)
	}
	if mode != nil {
		e.b = wirejson.AppendRawMember(e.b, "mode", mode)
	}
	if context != nil {
		e.b = wirejson.AppendRawMember(e.b, "context", context)
	}
	e.b = append(e.b, '}')
	return nil
}

// sampling writes the output limit and what bounds the choice of tokens. Stop strings
// are what the protocol lacks.
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
	if len(e.r.Stop) > 0 {
		_, f := e.lose(llm.FeatureStop)
		return f
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
	if limit < minOutput && !e.own {
		if _, f := e.lose(llm.FeatureMaxTokens); f != nil {
			return f
		}
		limit = minOutput
	}
	e.b = wirejson.AppendIntMember(e.b, "max_output_tokens", limit)
	return nil
}

// minOutput is the least output limit that the vendor's service takes.
const minOutput = 16

// maxUser is the longest name of an end user that the protocol takes, in bytes.
const maxUser = 64

// identity writes who asks and which calls belong together.
func (e *requestEncoder) identity() *fault.Error {
	user := e.r.User
	if len(user) > maxUser && !e.own {
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
	if user != "" {
		e.b = wirejson.AppendStringMember(e.b, "safety_identifier", user)
	}
	if e.r.CacheKey != "" {
		e.b = wirejson.AppendStringMember(e.b, "prompt_cache_key", e.r.CacheKey)
	}
	return nil
}

// rest writes the extras, what is wanted in the answer beside, and the stream.
func (e *requestEncoder) rest() {
	for o, name := range optionNames {
		if raw := e.given[o]; raw != nil {
			e.b = wirejson.AppendRawMember(e.b, name, raw)
		}
	}
	e.cacheOptions()
	if e.given[optStore] == nil && !e.own && !e.compat().GetNoStore() {
		e.b = wirejson.AppendBoolMember(e.b, "store", false)
	}
	e.include()
	if !e.c.Stream {
		return
	}
	e.b = wirejson.AppendBoolMember(e.b, "stream", true)
	if raw := e.given[optObfuscation]; raw != nil && !e.compat().GetNoStreamOptions() {
		e.b = wirejson.AppendRawMember(append(wirejson.AppendMember(e.b, "stream_options"), '{'), "include_obfuscation", raw)
		e.b = append(e.b, '}')
	}
}

func (e *requestEncoder) cacheOptions() {
	open := false
	for _, o := range cacheOptionNames {
		raw := e.given[o.option]
		if raw == nil {
			continue
		}
		if !open {
			e.b = append(wirejson.AppendMember(e.b, "prompt_cache_options"), '{')
			open = true
		}
		e.b = wirejson.AppendRawMember(e.b, o.name, raw)
	}
	if open {
		e.b = append(e.b, '}')
	}
}

// include asks for encrypted reasoning where reasoning is wanted. A Chat caller has no
// place for it.
func (e *requestEncoder) include() {
	state := e.r.WantState || !e.own && e.c.From != protocol.OpenAIChat && e.r.Reasoning.Wanted()
	if !state && len(e.included) == 0 {
		return
	}
	e.b = append(wirejson.AppendMember(e.b, "include"), '[')
	if state {
		e.b = wirejson.AppendString(e.b, encryptedContent)
	}
	for _, word := range e.included {
		e.b = append(wirejson.AppendElement(e.b), word...)
	}
	e.b = append(e.b, ']')
}
