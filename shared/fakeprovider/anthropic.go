package fakeprovider

import (
	"iter"
)

// anthropicAnswer renders Anthropic Messages.
type anthropicAnswer struct {
	*answer
	requestID string
}

func (a *anthropicAnswer) stopReason() string {
	switch a.stop {
	case StopTools:
		return "tool_use"
	case StopLength:
		return "max_tokens"
	case StopWord:
		return "stop_sequence"
	case StopRefusal, StopFiltered:
		return "refusal"
	}
	return "end_turn"
}

func (a *anthropicAnswer) stopDetails() any {
	if a.stopReason() != "refusal" {
		return nil
	}
	explanation := a.refused()
	if explanation == "" {
		explanation = "the script asked for a refusal"
	}
	return obj("type", "refusal", "category", nullable(a.category), "explanation", explanation)
}

func (a *anthropicAnswer) stopSequence() any {
	if a.stop != StopWord {
		return nil
	}
	return a.stopWord
}

// usageObject counts output as told so far: a stream starts with a small number.
func (a *anthropicAnswer) usageObject(output, thinking int64, final bool) object {
	u := a.usage
	o := obj(
		"input_tokens", u.Input,
		"cache_creation_input_tokens", u.written(),
		"cache_read_input_tokens", u.Cached,
	)
	if !final {
		o = o.with("cache_creation", obj("ephemeral_5m_input_tokens", u.CacheWrite5m, "ephemeral_1h_input_tokens", u.CacheWrite1h))
	}
	o = o.with("output_tokens", output)
	if thinking > 0 {
		o = o.with("output_tokens_details", obj("thinking_tokens", thinking))
	}
	if !final {
		o = o.with("service_tier", "standard")
	}
	return o
}

// message is the message object. usage may be nil for none.
func (a *anthropicAnswer) message(content list, stopReason, stopSequence, stopDetails, usage any) object {
	o := obj("id", a.id, "type", "message", "role", "assistant", "model", a.model, "content", content,
		"stop_reason", stopReason, "stop_sequence", stopSequence, "stop_details", stopDetails)
	if usage != nil && !a.noUsage {
		o = o.with("usage", usage)
	}
	return o
}

func (a *anthropicAnswer) whole() []byte {
	content := list{}
	if a.reasoning != "" {
		content = append(content, obj("type", "thinking", "thinking", a.reasoning, "signature", a.signature))
	}
	if a.redacted != "" {
		content = append(content, obj("type", "redacted_thinking", "data", a.redacted))
	}
	if len(a.pieces) > 0 {
		block := obj("type", "text", "text", a.text())
		if a.citation != nil {
			block = block.with("citations", list{a.cited()})
		}
		content = append(content, block)
	}
	for _, tc := range a.calls {
		content = append(content, obj("type", "tool_use", "id", tc.ID, "name", tc.Name, "input", tc.arguments()))
	}
	return appendJSON(nil, a.message(content, a.stopReason(), a.stopSequence(), a.stopDetails(),
		a.usageObject(a.usage.completion(), a.usage.Reasoning, false)))
}

// cited is the source of the text as a web search tells it.
func (a *anthropicAnswer) cited() object {
	return obj("type", "web_search_result_location", "url", a.citation.URL, "title", nullable(a.citation.Title),
		"encrypted_index", a.signature, "cited_text", a.text())
}

func anthropicEvent(name string, pairs ...any) []byte {
	return eventLines(name, appendJSON(nil, append(obj("type", name), obj(pairs...)...)))
}

func (a *anthropicAnswer) frames() iter.Seq[frame] {
	return func(yield func(frame) bool) {
		ok, index, pinged := true, 0, false
		send := func(f frame) { ok = ok && yield(f) }
		start := func(block object, content bool) {
			send(frame{data: anthropicEvent("content_block_start", "index", index, "content_block", block), content: content})
			if !pinged {
				pinged = true
				send(frame{data: a.keepAlive()})
			}
		}
		delta := func(d object) {
			send(frame{data: anthropicEvent("content_block_delta", "index", index, "delta", d), content: true})
		}
		stop := func() {
			send(frame{data: anthropicEvent("content_block_stop", "index", index)})
			index++
		}

		first := min(a.usage.completion(), 1)
		send(frame{data: anthropicEvent("message_start",
			"message", a.message(list{}, nil, nil, nil, a.usageObject(first, 0, false)))})
		if a.reasoning != "" {
			start(obj("type", "thinking", "thinking", "", "signature", ""), false)
			for _, piece := range words(a.reasoning) {
				delta(obj("type", "thinking_delta", "thinking", piece))
			}
			delta(obj("type", "signature_delta", "signature", a.signature))
			stop()
		}
		if a.redacted != "" {
			start(obj("type", "redacted_thinking", "data", a.redacted), true)
			stop()
		}
		if len(a.pieces) > 0 {
			block := obj("type", "text", "text", "")
			if a.citation != nil {
				block = block.with("citations", list{})
			}
			start(block, false)
			for _, piece := range a.pieces {
				delta(obj("type", "text_delta", "text", piece))
			}
			if a.citation != nil {
				delta(obj("type", "citations_delta", "citation", a.cited()))
			}
			stop()
		}
		for _, tc := range a.calls {
			start(obj("type", "tool_use", "id", tc.ID, "name", tc.Name, "input", obj()), true)
			delta(obj("type", "input_json_delta", "partial_json", ""))
			for _, piece := range argumentPieces(tc.Arguments) {
				delta(obj("type", "input_json_delta", "partial_json", piece))
			}
			stop()
		}
		last := obj("type", "message_delta", "delta", obj("stop_reason", a.stopReason(),
			"stop_sequence", a.stopSequence(), "stop_details", a.stopDetails()))
		if !a.noUsage {
			last = last.with("usage", a.usageObject(a.usage.completion(), a.usage.Reasoning, true))
		}
		send(frame{data: eventLines("message_delta", appendJSON(nil, last))})
		send(frame{data: anthropicEvent("message_stop"), terminal: true})
	}
}

func (a *anthropicAnswer) broken() []byte {
	return eventLines("content_block_delta", []byte(`{"type":"content_block_delta","index":0,"delta":{`))
}
func (a *anthropicAnswer) keepAlive() []byte { return anthropicEvent("ping") }

func (a *anthropicAnswer) failed(r rendered, _ bool) []byte {
	return eventLines("error", appendJSON(nil, r.anthropic(a.requestID)))
}
