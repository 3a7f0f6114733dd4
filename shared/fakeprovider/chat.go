package fakeprovider

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// chatAnswer renders Chat Completions.
type chatAnswer struct {
	*answer
	includeUsage bool
}

func (a *chatAnswer) finish() string {
	switch a.stop {
	case StopTools:
		return "tool_calls"
	case StopLength:
		return "length"
	case StopFiltered:
		return "content_filter"
	}
	return "stop"
}

func (a *chatAnswer) usageObject() object {
	u := a.usage
	return obj(
		"prompt_tokens", u.prompt(),
		"completion_tokens", u.completion(),
		"total_tokens", u.prompt()+u.completion(),
		"prompt_tokens_details", obj("cached_tokens", u.Cached, "audio_tokens", 0, "cache_write_tokens", u.written()),
		"completion_tokens_details", obj("reasoning_tokens", u.Reasoning, "audio_tokens", 0,
			"accepted_prediction_tokens", 0, "rejected_prediction_tokens", 0),
	)
}

func (a *chatAnswer) whole() []byte {
	var content, refusal any
	said, refused := a.saidAndRefused()
	if len(refused) > 0 {
		refusal = strings.Join(refused, "")
	}
	if len(said) > 0 || len(a.calls) == 0 && refusal == nil {
		content = strings.Join(said, "")
	}
	message := obj("role", "assistant", "content", content, "refusal", refusal, "annotations", a.annotations())
	if a.reasoning != "" {
		message = message.with("reasoning_content", a.reasoning)
	}
	if len(a.calls) > 0 {
		calls := list{}
		for _, tc := range a.calls {
			calls = append(calls, obj("id", tc.ID, "type", "function",
				"function", obj("name", tc.Name, "arguments", tc.Arguments)))
		}
		message = message.with("tool_calls", calls)
	}
	body := obj(
		"id", a.id, "object", "chat.completion", "created", a.created, "model", a.model,
		"choices", list{obj("index", 0, "message", message, "logprobs", nil, "finish_reason", a.finish())},
	)
	if !a.noUsage {
		body = body.with("usage", a.usageObject())
	}
	return appendJSON(nil, body.with("service_tier", "default").with("system_fingerprint", nil))
}

// chunk is one event with the given choices.
func (a *chatAnswer) chunk(choices list, usage any) []byte {
	o := obj("id", a.id, "object", "chat.completion.chunk", "created", a.created, "model", a.model,
		"service_tier", "default", "system_fingerprint", nil, "choices", choices)
	if a.includeUsage && !a.noUsage {
		o = o.with("usage", usage)
	}
	return dataLine(appendJSON(nil, o))
}

func (a *chatAnswer) delta(delta object, finish any) []byte {
	return a.chunk(list{obj("index", 0, "delta", delta, "logprobs", nil, "finish_reason", finish)}, nil)
}

func (a *chatAnswer) frames() iter.Seq[frame] {
	return func(yield func(frame) bool) {
		content := func(delta object) bool { return yield(frame{data: a.delta(delta, nil), content: true}) }
		if !yield(frame{data: a.delta(obj("role", "assistant", "content", "", "refusal", nil), nil)}) {
			return
		}
		for _, piece := range words(a.reasoning) {
			if !content(obj("reasoning_content", piece)) {
				return
			}
		}
		said, refused := a.saidAndRefused()
		for _, piece := range said {
			if !content(obj("content", piece)) {
				return
			}
		}
		if a.citation != nil && !yield(frame{data: a.delta(obj("annotations", a.annotations()), nil)}) {
			return
		}
		for _, piece := range refused {
			if !content(obj("refusal", piece)) {
				return
			}
		}
		for _, piece := range a.callPieces() {
			if !content(obj("tool_calls", list{piece})) {
				return
			}
		}
		if !yield(frame{data: a.delta(obj(), a.finish())}) {
			return
		}
		if a.includeUsage && !a.noUsage && !yield(frame{data: a.chunk(list{}, a.usageObject())}) {
			return
		}
		yield(frame{data: []byte("data: [DONE]\n\n"), terminal: true})
	}
}

// annotations are the sources of the text.
func (a *chatAnswer) annotations() list {
	if a.citation == nil {
		return list{}
	}
	cited := obj("url", a.citation.URL, "title", a.citation.Title, "start_index", 0, "end_index", utf8.RuneCountInString(a.text()))
	return list{obj("type", "url_citation", "url_citation", cited)}
}

// callPieces are the deltas of all calls: one call after the other, or a piece of each in
// turn.
func (a *chatAnswer) callPieces() []object {
	var out []object
	pieces, longest := make([][]string, len(a.calls)), 0
	argument := func(i int, piece string) {
		out = append(out, obj("index", i, "function", obj("arguments", piece)))
	}
	for i, tc := range a.calls {
		out = append(out, obj("index", i, "id", tc.ID, "type", "function", "function", obj("name", tc.Name, "arguments", "")))
		pieces[i] = argumentPieces(tc.Arguments)
		longest = max(longest, len(pieces[i]))
		if !a.mixed {
			for _, piece := range pieces[i] {
				argument(i, piece)
			}
		}
	}
	for n := 0; a.mixed && n < longest; n++ {
		for i := range pieces {
			if n < len(pieces[i]) {
				argument(i, pieces[i][n])
			}
		}
	}
	return out
}

func (a *chatAnswer) broken() []byte {
	return []byte("data: {\"id\":\"" + a.id + "\",\"choices\":[{\n\n")
}
func (a *chatAnswer) keepAlive() []byte { return []byte(": keep-alive\n\n") }

func (a *chatAnswer) failed(r rendered, _ bool) []byte {
	return dataLine(appendJSON(nil, obj("error", r.openai())))
}

// dataLine is an event that has only data.
func dataLine(data []byte) []byte {
	out := make([]byte, 0, len(data)+8)
	out = append(out, "data: "...)
	out = append(out, data...)
	return append(out, "\n\n"...)
}

// eventLines is an event with a name.
func eventLines(name string, data []byte) []byte {
	out := make([]byte, 0, len(name)+len(data)+16)
	out = append(out, "event: "...)
	out = append(out, name...)
	out = append(out, "\ndata: "...)
	out = append(out, data...)
	return append(out, "\n\n"...)
}
