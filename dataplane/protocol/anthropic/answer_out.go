package anthropic

import (
	"strconv"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// EncodeAnswer writes a message.
func (*Codec) EncodeAnswer(a *llm.Answer, c *protocol.Conversion) ([]byte, *fault.Error) {
	out := answerWriter{c: c}
	b := out.head(make([]byte, 0, 1024), a.Model)
	for i := range a.Parts {
		var f *fault.Error
		if b, f = out.part(b, &a.Parts[i]); f != nil {
			return nil, f
		}
	}
	word, f := out.word(a.Stop)
	if f != nil {
		return nil, f
	}
	b = appendStop(append(b, ']'), a.Stop, word)
	b = append(wirejson.AppendMember(b, "usage"), '{')
	return append(appendUsage(b, a.Usage, true), "}}"...), nil
}

// answerWriter is what whole and streamed answers have in common.
type answerWriter struct {
	c       *protocol.Conversion
	ids     []string // of the calls so far
	refused bool     // a refusal was told
	content bool     // something was told
}

// head writes a message up to its content.
func (w *answerWriter) head(b []byte, model string) []byte {
	if model == "" {
		model = w.c.Public
	}
	b = wirejson.AppendStringMember(append(b, '{'), "id", "msg_"+w.suffix())
	b = wirejson.AppendStringMember(append(b, `,"type":"message","role":"assistant"`...), "model", model)
	return append(b, `,"content":[`...)
}

// suffix is the request's id without its kind, for ids made of it.
func (w *answerWriter) suffix() string {
	_, tail, ok := strings.Cut(w.c.RequestID, "_")
	if !ok {
		tail = w.c.RequestID
	}
	return strings.Map(func(r rune) rune {
		if r < 0x80 && idBytes(string(r)) {
			return r
		}
		return '-'
	}, tail)
}

// callID is the id by which the caller gets to know a call. It is one of its own even
// if the upstream gives none, or one twice.
func (w *answerWriter) callID(id string) string {
	sent := SafeID(id)
	made := func(n int) string { return "toolu_" + w.suffix() + "_" + strconv.Itoa(n) }
	if id == "" {
		sent = made(len(w.ids))
	}
	for n := len(w.ids); w.has(sent); n++ {
		sent = made(n)
	}
	w.ids = append(w.ids, sent)
	return sent
}

func (w *answerWriter) has(id string) bool {
	for _, old := range w.ids {
		if old == id {
			return true
		}
	}
	return false
}

// theirs reports whether what the upstream has of its own is of this protocol.
func (w *answerWriter) theirs() bool { return w.c.To == protocol.Anthropic }

// part writes a part of a whole answer as a block.
func (w *answerWriter) part(b []byte, p *llm.Part) ([]byte, *fault.Error) {
	if p.State != nil && p.Kind != llm.PartReasoning && p.Kind != llm.PartRedacted {
		w.c.LoseAnswer(llm.AnswerState)
	}
	open := func(kind string) []byte {
		w.content = true
		return wirejson.AppendStringMember(append(wirejson.AppendElement(b), '{'), "type", kind)
	}
	switch p.Kind {
	case llm.PartText, llm.PartRefusal:
		w.refused = w.refused || p.Kind == llm.PartRefusal
		if p.Text == "" {
			return b, nil
		}
		b = wirejson.AppendStringMember(open("text"), "text", p.Text)
		if len(p.Citations) > 0 {
			if w.theirs() {
				b = appendCitations(b, p.Citations)
			} else {
				w.c.LoseAnswer(llm.AnswerCitations)
			}
		}
	case llm.PartReasoning:
		signature := stateOf(p)
		if p.Text == "" && signature == "" {
			return b, nil
		}
		b = wirejson.AppendStringMember(open("thinking"), "thinking", p.Text)
		b = wirejson.AppendStringMember(b, "signature", signature)
	case llm.PartRedacted:
		if stateOf(p) == "" {
			return b, nil
		}
		b = wirejson.AppendStringMember(open("redacted_thinking"), "data", stateOf(p))
	case llm.PartCall:
		b = wirejson.AppendStringMember(open("tool_use"), "id", w.callID(p.Call.ID))
		b = appendInput(wirejson.AppendStringMember(b, "name", p.Call.Name), p.Call.Arguments)
	case llm.PartNative:
		if !w.theirs() {
			w.c.LoseAnswer(llm.AnswerServerTool)
			return b, nil
		}
		w.content = true
		return append(wirejson.AppendElement(b), p.Native.Raw...), nil
	case llm.PartMedia:
		return b, w.noPlace(p.Media)
	default:
		return b, nil
	}
	return append(b, '}'), nil
}

func stateOf(p *llm.Part) string {
	if p.State == nil {
		return ""
	}
	return p.State.Data
}

// appendInput writes a call's arguments as they are. What is no object, such as
// arguments that were cut, stays the text it is: an empty object would look as if
// the call could be run.
func appendInput(b []byte, args string) []byte {
	b = wirejson.AppendMember(b, "input")
	args = strings.TrimSpace(args)
	if args == "" {
		return append(b, "{}"...)
	}
	from := len(b)
	if b = append(b, args...); isObject(new(wirejson.Reader), b[from:]) {
		return b
	}
	return wirejson.AppendString(b[:from], args)
}

// noPlace refuses an answer that the caller's protocol cannot tell.
func (w *answerWriter) noPlace(m *llm.Media) *fault.Error {
	kind := "media"
	if m != nil {
		kind = m.Kind.String()
	}
	return fault.Newf(fault.RequestNotSupported,
		"The model answered with %s content, which the protocol %s has no place for. Ask in the provider's own protocol, or for text alone.", kind, w.c.From)
}

// word is the stop_reason of an answer.
func (w *answerWriter) word(s llm.Stop) (string, *fault.Error) {
	switch s.Reason {
	case llm.StopMaxTokens:
		return "max_tokens", nil
	case llm.StopContextFull:
		return "model_context_window_exceeded", nil
	case llm.StopRefusal, llm.StopContentFilter:
		return "refusal", nil
	case llm.StopSequence:
		return "stop_sequence", nil
	case llm.StopPause:
		return "pause_turn", nil
	case llm.StopMalformedCall:
		return "", fault.New(fault.Malformed, "The model made a tool call that cannot be read.")
	case llm.StopFailed:
		if !w.content {
			return "", fault.New(fault.ServerError, "The provider failed to answer.")
		}
	case llm.StopUnknown:
		if !w.content {
			return "refusal", nil // an end would be a success without content
		}
	}
	switch {
	case len(w.ids) > 0:
		return "tool_use", nil
	case w.refused:
		return "refusal", nil
	}
	return "end_turn", nil
}

// appendStop writes how an answer ended: stop_reason, stop_sequence and stop_details.
func appendStop(b []byte, s llm.Stop, word string) []byte {
	b = wirejson.AppendStringMember(b, "stop_reason", word)
	if word == "stop_sequence" && s.Sequence != "" {
		b = wirejson.AppendStringMember(b, "stop_sequence", s.Sequence)
	} else {
		b = append(b, `,"stop_sequence":null`...)
	}
	if word != "refusal" || s.Category == "" && s.Explanation == "" {
		return append(b, `,"stop_details":null`...)
	}
	b = append(b, `,"stop_details":{"type":"refusal","category":`...)
	b = appendNullable(b, s.Category)
	b = appendNullable(append(b, `,"explanation":`...), s.Explanation)
	return append(b, '}')
}

func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return wirejson.AppendString(b, s)
}

// appendUsage writes the members of a usage. The vendor's input excludes what was read
// from and written to the cache; its output includes thinking.
func appendUsage(b []byte, u llm.Usage, prompt bool) []byte {
	if prompt {
		b = wirejson.AppendIntMember(b, "input_tokens", u.Input+u.InputAudio+u.InputImage)
		b = wirejson.AppendIntMember(b, "cache_creation_input_tokens", u.CacheWrite())
		b = wirejson.AppendIntMember(b, "cache_read_input_tokens", u.CacheRead)
		if u.CacheWrite5m > 0 || u.CacheWrite1h > 0 {
			b = append(wirejson.AppendMember(b, "cache_creation"), '{')
			b = wirejson.AppendIntMember(b, "ephemeral_5m_input_tokens", u.CacheWrite5m)
			b = append(wirejson.AppendIntMember(b, "ephemeral_1h_input_tokens", u.CacheWrite1h), '}')
		}
	}
	b = wirejson.AppendIntMember(b, "output_tokens", u.CompletionTokens())
	if u.Reasoning > 0 {
		b = append(wirejson.AppendMember(b, "output_tokens_details"), '{')
		b = append(wirejson.AppendIntMember(b, "thinking_tokens", u.Reasoning), '}')
	}
	if u.WebSearches > 0 {
		b = append(wirejson.AppendMember(b, "server_tool_use"), '{')
		b = append(wirejson.AppendIntMember(b, "web_search_requests", u.WebSearches), '}')
	}
	return b
}
