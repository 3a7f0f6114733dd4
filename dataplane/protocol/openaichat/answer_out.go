package openaichat

import (
	"unicode/utf8"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// EncodeAnswer writes a chat completion.
func (*Codec) EncodeAnswer(a *llm.Answer, c *protocol.Conversion) ([]byte, *fault.Error) {
	m := answerMessage{c: c}
	size := 1024
	for i := range a.Parts {
		size += len(a.Parts[i].Text) + len(a.Parts[i].Text)/8
		if f := m.add(&a.Parts[i]); f != nil {
			return nil, f
		}
	}
	if why := explained(&a.Stop, &m.ending); why != "" {
		m.refusal, m.ending.refusal = []byte(why), true
	}
	finish := finishReason(&a.Stop, &m.ending, c)
	b := appendHead(make([]byte, 0, size), "chat.completion", a.Model, c)
	b = append(wirejson.AppendMember(b, "choices"), `[{"index":0,"message":{"role":"assistant"`...)
	b = m.append(b, &a.Stop)
	b = append(b, `},"logprobs":null`...)
	b = append(wirejson.AppendStringMember(b, "finish_reason", finish), "}]"...)
	if a.Reported {
		b = appendUsage(b, &a.Usage)
	}
	return append(b, '}'), nil
}

// answerMessage gathers the parts of an answer as the members of one message.
type answerMessage struct {
	c *protocol.Conversion
	ending
	content, reasoning, refusal []byte
	sources                     []llm.Citation
	chars                       int // of content, in code points
	audio                       *llm.Media
	calls                       []*llm.Call
}

// ending is what of an answer decides on how its end is told.
type ending struct {
	content, refusal, calls bool
}

func (m *answerMessage) add(p *llm.Part) *fault.Error {
	if p.State != nil {
		m.c.LoseAnswer(llm.AnswerState)
	}
	switch p.Kind {
	case llm.PartText:
		before := m.chars
		m.content = append(m.content, p.Text...)
		m.chars += utf8.RuneCountInString(p.Text)
		m.ending.content = m.ending.content || p.Text != ""
		for _, source := range p.Citations {
			m.sources = cited(m.c, m.sources, source, before, m.chars)
		}
	case llm.PartReasoning:
		if len(m.reasoning) > 0 && p.Text != "" {
			m.reasoning = append(m.reasoning, "\n\n"...)
		}
		m.reasoning = append(m.reasoning, p.Text...)
	case llm.PartRefusal:
		m.refusal = append(m.refusal, p.Text...)
		m.ending.refusal = m.ending.refusal || p.Text != ""
	case llm.PartCall:
		if m.c.LegacyCalls && len(m.calls) > 0 {
			return secondCall()
		}
		m.calls, m.ending.calls = append(m.calls, p.Call), true
	case llm.PartMedia:
		if p.Media.Kind != llm.Audio || p.Media.Data == "" || m.audio != nil {
			return noPlace(p.Media.Kind)
		}
		m.audio = p.Media
	case llm.PartNative:
		m.c.LoseAnswer(llm.AnswerServerTool)
	}
	return nil
}

// append appends the members that follow the role.
func (m *answerMessage) append(b []byte, stop *llm.Stop) []byte {
	b = wirejson.AppendMember(b, "content")
	if m.ending.content || !m.ending.refusal && !m.ending.calls && m.audio == nil {
		b = wirejson.AppendText(b, m.content)
	} else {
		b = append(b, "null"...)
	}
	if len(m.reasoning) > 0 {
		b = wirejson.AppendText(wirejson.AppendMember(b, "reasoning_content"), m.reasoning)
	}
	b = wirejson.AppendMember(b, "refusal")
	if m.ending.refusal {
		b = wirejson.AppendText(b, m.refusal)
	} else {
		b = append(b, "null"...)
	}
	if len(m.sources) > 0 {
		b = appendAnnotations(b, m.sources)
	}
	if m.audio != nil {
		b = appendAudio(b, m.audio, m.c)
	}
	switch {
	case len(m.calls) == 0:
	case m.c.LegacyCalls:
		b = append(wirejson.AppendMember(b, "function_call"), '{')
		b = append(m.called(b, m.calls[0], stop), '}')
	default:
		b = append(wirejson.AppendMember(b, "tool_calls"), '[')
		for _, call := range m.calls {
			kind := callKind(call)
			b = wirejson.AppendStringMember(append(wirejson.AppendElement(b), '{'), "id", call.ID)
			b = wirejson.AppendStringMember(b, "type", kind)
			b = append(wirejson.AppendMember(b, kind), '{')
			b = append(m.called(b, call, stop), "}}"...)
		}
		b = append(b, ']')
	}
	return b
}

// called appends the name and the arguments of a call. A call without any that was not
// cut takes none, for which callers expect an empty object.
func (m *answerMessage) called(b []byte, call *llm.Call, stop *llm.Stop) []byte {
	b = wirejson.AppendStringMember(b, "name", call.Name)
	if call.Custom {
		return wirejson.AppendStringMember(b, "input", call.Arguments)
	}
	arguments := call.Arguments
	if arguments == "" && !cut(stop) {
		arguments = "{}"
	}
	return wirejson.AppendStringMember(b, "arguments", arguments)
}

func callKind(call *llm.Call) string {
	if call.Custom {
		return "custom"
	}
	return "function"
}

// cut reports whether the answer ended before the model was done.
func cut(stop *llm.Stop) bool {
	switch stop.Reason {
	case llm.StopEnd, llm.StopToolUse, llm.StopSequence:
		return false
	}
	return true
}

// finishReason is the protocol's word for how an answer ended. What the protocol has
// no member for is noted. An explanation of a refusal becomes the refusal where the
// model gave none.
func finishReason(stop *llm.Stop, told *ending, c *protocol.Conversion) string {
	if stop.Sequence != "" {
		c.LoseAnswer(llm.AnswerStopWord)
	}
	if stop.Category != "" || stop.Explanation != "" {
		c.LoseAnswer(llm.AnswerRefusalInfo)
	}
	switch stop.Reason {
	case llm.StopToolUse:
		switch {
		case !told.calls: // the calls were the provider's to run
			return "stop"
		case c.LegacyCalls:
			return "function_call"
		}
		return "tool_calls"
	case llm.StopMaxTokens, llm.StopContextFull, llm.StopPause:
		return "length"
	case llm.StopRefusal:
		if told.refusal {
			return "stop"
		}
		return "content_filter"
	case llm.StopContentFilter, llm.StopMalformedCall, llm.StopFailed:
		return "content_filter"
	case llm.StopUnknown:
		if !told.content {
			return "content_filter"
		}
	}
	return "stop"
}

// explained is the refusal of an answer whose model gave a reason beside it.
func explained(stop *llm.Stop, told *ending) string {
	if stop.Reason != llm.StopRefusal || told.refusal {
		return ""
	}
	return stop.Explanation
}

// cited appends a source of the text from start up to end, in code points, unless it
// tells its place itself. A source without a URL has no form in the protocol.
func cited(c *protocol.Conversion, sources []llm.Citation, source llm.Citation, start, end int) []llm.Citation {
	if source.URL == "" || len(sources) == maxCitations {
		c.LoseAnswer(llm.AnswerCitations)
		return sources
	}
	if source.Start == 0 && source.End == 0 {
		source.Start, source.End = start, end
	}
	source.Text, source.Raw = "", nil
	return append(sources, source)
}

// appendHead appends what chunks and completions begin with.
func appendHead(b []byte, object, model string, c *protocol.Conversion) []byte {
	if model == "" {
		model = c.Public
	}
	b = wirejson.AppendStringMember(append(b, '{'), "id", "chatcmpl-"+c.RequestID)
	b = wirejson.AppendStringMember(b, "object", object)
	var created int64
	if !c.Started.IsZero() {
		created = c.Started.Unix()
	}
	b = wirejson.AppendIntMember(b, "created", created)
	return wirejson.AppendStringMember(b, "model", model)
}

// appendUsage appends the usage report, in which the whole includes its parts.
func appendUsage(b []byte, u *llm.Usage) []byte {
	b = append(wirejson.AppendMember(b, "usage"), '{')
	b = wirejson.AppendIntMember(b, "prompt_tokens", u.PromptTokens())
	b = wirejson.AppendIntMember(b, "completion_tokens", u.CompletionTokens())
	b = wirejson.AppendIntMember(b, "total_tokens", u.TotalTokens())
	b = append(wirejson.AppendMember(b, "prompt_tokens_details"), '{')
	b = wirejson.AppendIntMember(b, "cached_tokens", u.CacheRead)
	b = wirejson.AppendIntMember(b, "cache_write_tokens", u.CacheWrite())
	b = wirejson.AppendIntMember(b, "audio_tokens", u.InputAudio)
	if u.InputImage > 0 {
		b = wirejson.AppendIntMember(b, "image_tokens", u.InputImage)
	}
	b = append(wirejson.AppendMember(append(b, '}'), "completion_tokens_details"), '{')
	b = wirejson.AppendIntMember(b, "reasoning_tokens", u.Reasoning)
	b = wirejson.AppendIntMember(b, "audio_tokens", u.OutputAudio)
	if u.OutputImage > 0 {
		b = wirejson.AppendIntMember(b, "image_tokens", u.OutputImage)
	}
	b = wirejson.AppendIntMember(b, "accepted_prediction_tokens", 0)
	b = wirejson.AppendIntMember(b, "rejected_prediction_tokens", 0)
	return append(b, "}}"...)
}

// appendAudio appends the audio of an answer. Nothing keeps it, so that it has expired
// as soon as it was told.
func appendAudio(b []byte, m *llm.Media, c *protocol.Conversion) []byte {
	b = append(wirejson.AppendMember(b, "audio"), '{')
	b = wirejson.AppendStringMember(b, "id", "audio_"+c.RequestID)
	b = wirejson.AppendStringMember(b, "data", m.Data)
	var expires int64
	if !c.Started.IsZero() {
		expires = c.Started.Unix()
	}
	b = wirejson.AppendIntMember(b, "expires_at", expires)
	return append(wirejson.AppendStringMember(b, "transcript", m.Context), '}')
}

// noPlace refuses an answer that would lose its content.
func noPlace(kind llm.MediaKind) *fault.Error {
	return fault.Newf(fault.RequestNotSupported, "The model answered with %s content, for which Chat Completions has no place. "+
		"Ask in a protocol that has one, or for text alone.", kind)
}

func secondCall() *fault.Error {
	return fault.New(fault.RequestNotSupported, "The model called two functions at once, which function_call cannot tell. "+
		"Send tools in place of functions, or bar parallel calls.")
}
