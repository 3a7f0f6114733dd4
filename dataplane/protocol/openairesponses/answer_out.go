package openairesponses

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// EncodeAnswer writes a response: what the stream of the same answer ends with.
func (*Codec) EncodeAnswer(a *llm.Answer, c *protocol.Conversion) ([]byte, *fault.Error) {
	w := newEventEncoder(c)
	w.whole = true
	err := a.Emit(func(e llm.Event) error {
		if _, f := w.Encode(nil, e); f != nil {
			return f
		}
		return nil
	})
	if err != nil {
		return nil, fault.As(err)
	}
	return w.response(nil, w.status), nil
}

// repeated are the members of a request that the answer repeats, in their order, and
// what the provider assumes without them. A response without the required ones is
// refused by some SDKs.
// Source: Response of openai-go v3.99.
var repeated = [...]struct{ name, assumed string }{
	{"instructions", "null"},
	{"max_output_tokens", "null"},
	{"max_tool_calls", "null"},
	{"parallel_tool_calls", "true"},
	{"previous_response_id", "null"},
	{"prompt_cache_key", "null"},
	{"reasoning", `{"effort":null,"summary":null}`},
	{"safety_identifier", "null"},
	{"temperature", "1"},
	{"text", `{"format":{"type":"text"}}`},
	{"tool_choice", `"auto"`},
	{"tools", "[]"},
	{"top_logprobs", "0"},
	{"top_p", "1"},
	{"truncation", `"disabled"`},
	{"user", "null"},
	{"metadata", "{}"},
}

// repeat writes what is repeated of a request, ready to follow another member.
func repeat(body []byte) []byte {
	var values [len(repeated)][]byte
	size := 512
	if body != nil {
		var r wirejson.Reader
		r.ResetStrict(body)
		if r.Enter('{') {
			for r.Next() {
				for i := range repeated {
					if string(r.Name()) == repeated[i].name && r.Kind() != 'n' {
						values[i] = r.Value()
						size += len(values[i])
						break
					}
				}
			}
		}
	}
	b := make([]byte, 0, size)
	for i := range repeated {
		b = append(b, ',')
		b = append(wirejson.AppendString(b, repeated[i].name), ':')
		if values[i] == nil {
			b = append(b, repeated[i].assumed...)
			continue
		}
		b = appendCompact(b, values[i])
	}
	return b
}

// appendCompact appends JSON without the line breaks that would break an event.
func appendCompact(b, value []byte) []byte {
	for _, c := range value {
		if c == '\n' || c == '\r' { // outside of strings alone, where they are space
			continue
		}
		b = append(b, c)
	}
	return b
}

// response appends the response object with the items that are done.
func (w *eventEncoder) response(b []byte, status string) []byte {
	b = wirejson.AppendStringMember(append(b, '{'), "id", w.id)
	b = wirejson.AppendStringMember(b, "object", "response")
	b = wirejson.AppendIntMember(b, "created_at", w.created)
	b = wirejson.AppendStringMember(b, "status", status)
	b = append(b, `,"background":false,"access_programs":null,"error":`...)
	if status == statusFailed {
		b = wirejson.AppendStringMember(append(b, '{'), "code", "server_error")
		b = append(wirejson.AppendStringMember(b, "message", "The model ended its answer without saying anything ("+w.native+")."), '}')
	} else {
		b = append(b, "null"...)
	}
	b = wirejson.AppendMember(b, "incomplete_details")
	if status == statusIncomplete {
		b = append(wirejson.AppendStringMember(append(b, '{'), "reason", w.reason), '}')
	} else {
		b = append(b, "null"...)
	}
	b = wirejson.AppendStringMember(b, "model", w.model)
	b = append(wirejson.AppendMember(b, "output"), '[')
	for i := range w.items {
		if w.items[i].finished != nil && status != statusInProgress {
			b = append(wirejson.AppendElement(b), w.items[i].finished...)
		}
	}
	b = append(b, ']')
	b = append(b, w.echo...)
	b = append(b, `,"store":false,"usage":`...)
	if status == statusInProgress {
		return append(b, "null}"...)
	}
	return append(appendUsage(b, &w.usage), '}')
}

// The states of a response.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// appendUsage appends the usage report, in which the whole includes its parts. Without
// one of the upstream's it is all zero: SDKs refuse a response without.
func appendUsage(b []byte, u *llm.Usage) []byte {
	b = wirejson.AppendIntMember(append(b, '{'), "input_tokens", u.PromptTokens())
	b = append(wirejson.AppendMember(b, "input_tokens_details"), '{')
	b = wirejson.AppendIntMember(b, "cached_tokens", u.CacheRead)
	b = wirejson.AppendIntMember(b, "cache_write_tokens", u.CacheWrite())
	if u.InputAudio > 0 {
		b = wirejson.AppendIntMember(b, "audio_tokens", u.InputAudio)
	}
	if u.InputImage > 0 {
		b = wirejson.AppendIntMember(b, "image_tokens", u.InputImage)
	}
	b = wirejson.AppendIntMember(append(b, '}'), "output_tokens", u.CompletionTokens())
	b = append(wirejson.AppendMember(b, "output_tokens_details"), '{')
	b = wirejson.AppendIntMember(b, "reasoning_tokens", u.Reasoning)
	if u.OutputAudio > 0 {
		b = wirejson.AppendIntMember(b, "audio_tokens", u.OutputAudio)
	}
	if u.OutputImage > 0 {
		b = wirejson.AppendIntMember(b, "image_tokens", u.OutputImage)
	}
	b = wirejson.AppendIntMember(append(b, '}'), "total_tokens", u.TotalTokens())
	return append(b, '}')
}

// end settles how the answer ended, in the protocol's words.
func (w *eventEncoder) end(stop *llm.Stop) {
	if stop.Sequence != "" {
		w.c.LoseAnswer(llm.AnswerStopWord)
	}
	if stop.Category != "" || stop.Explanation != "" {
		w.c.LoseAnswer(llm.AnswerRefusalInfo)
	}
	w.native = stop.Native
	w.status = statusCompleted
	switch stop.Reason {
	case llm.StopMaxTokens, llm.StopContextFull, llm.StopPause:
		w.status, w.reason = statusIncomplete, "max_output_tokens"
	case llm.StopContentFilter:
		w.status, w.reason = statusIncomplete, "content_filter"
	case llm.StopRefusal:
		if !w.refused {
			w.status, w.reason = statusIncomplete, "content_filter"
		}
	case llm.StopFailed, llm.StopMalformedCall:
		w.status = statusFailed
	case llm.StopUnknown:
		if len(w.items) == 0 {
			w.status = statusFailed
		}
	}
}

// noPlace refuses an answer that would lose its content.
func noPlace(kind llm.MediaKind) *fault.Error {
	return fault.Newf(fault.RequestNotSupported, "The model answered with %s content, for which Responses has no place. "+
		"Ask in a protocol that has one, or for text alone.", kind)
}
