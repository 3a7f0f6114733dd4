package fakeprovider

import (
	"encoding/base64"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// responsesAnswer renders Responses.
type responsesAnswer struct {
	*answer
	ask *ask
	ids idSource
	seq int // sequence number of the next event

	done list // items that are finished
}

func (a *responsesAnswer) usageObject() any {
	if a.noUsage {
		return nil
	}
	u := a.usage
	return obj(
		"input_tokens", u.prompt(),
		"input_tokens_details", obj("cached_tokens", u.Cached, "cache_write_tokens", u.written()),
		"output_tokens", u.completion(),
		"output_tokens_details", obj("reasoning_tokens", u.Reasoning),
		"total_tokens", u.prompt()+u.completion(),
	)
}

// echo is a field of the request, or what the service assumes without it.
func (a *responsesAnswer) echo(name string, assumed any) any {
	if v, ok := a.ask.top[name]; ok && v.Kind() != jsontext.KindNull {
		compact := v.Clone() // a line break of the request would break an event
		if compact.Compact() == nil {
			return compact
		}
	}
	return assumed
}

// response is the whole response object with the items finished so far.
func (a *responsesAnswer) response(status string, failure, usage any) object {
	var completed, incomplete any
	switch status {
	case "completed":
		completed = a.created
	case "incomplete":
		reason := "max_output_tokens"
		if a.stop == StopFiltered {
			reason = "content_filter"
		}
		incomplete = obj("reason", reason)
	}
	return obj(
		"id", a.id, "object", "response", "created_at", a.created, "status", status,
		"background", false, "completed_at", completed, "error", failure, "incomplete_details", incomplete,
		"instructions", a.echo("instructions", nil),
		"max_output_tokens", a.echo("max_output_tokens", nil),
		"max_tool_calls", a.echo("max_tool_calls", nil),
		"model", a.model,
		"output", append(list{}, a.done...),
		"parallel_tool_calls", a.echo("parallel_tool_calls", true),
		"previous_response_id", a.echo("previous_response_id", nil),
		"prompt_cache_key", a.echo("prompt_cache_key", nil),
		"reasoning", a.echo("reasoning", obj("effort", nil, "summary", nil)),
		"safety_identifier", a.echo("safety_identifier", nil),
		"service_tier", "default",
		"store", a.echo("store", true),
		"temperature", a.echo("temperature", 1.0),
		"text", a.echo("text", obj("format", obj("type", "text"))),
		"tool_choice", a.echo("tool_choice", "auto"),
		"tools", a.echo("tools", list{}),
		"top_logprobs", a.echo("top_logprobs", 0),
		"top_p", a.echo("top_p", 1.0),
		"truncation", a.echo("truncation", "disabled"),
		"usage", usage,
		"user", a.echo("user", nil),
		"metadata", a.echo("metadata", obj()),
	)
}

// end is the status the answer ends with.
func (a *responsesAnswer) end() string {
	if a.stop == StopLength || a.stop == StopFiltered {
		return "incomplete"
	}
	return "completed"
}

func (a *responsesAnswer) whole() []byte {
	for range a.frames() { // builds the items
	}
	return appendJSON(nil, a.response(a.end(), nil, a.usageObject()))
}

// event is a named event with the next sequence number.
func (a *responsesAnswer) event(name string, pairs ...any) []byte {
	o := append(obj("type", name, "sequence_number", a.seq), obj(pairs...)...)
	a.seq++
	return eventLines(name, appendJSON(nil, o))
}

func (a *responsesAnswer) frames() iter.Seq[frame] {
	return func(yield func(frame) bool) {
		a.seq, a.done = 0, nil
		ok := true
		plain := func(name string, pairs ...any) {
			ok = ok && yield(frame{data: a.event(name, pairs...)})
		}
		content := func(name string, pairs ...any) {
			ok = ok && yield(frame{data: a.event(name, pairs...), content: true})
		}
		plain("response.created", "response", a.response("in_progress", nil, nil))
		plain("response.in_progress", "response", a.response("in_progress", nil, nil))
		if a.reasoning != "" {
			a.streamReasoning(plain, content)
		}
		if len(a.pieces)+len(a.refusal) > 0 {
			a.streamMessage(plain, content)
		}
		if len(a.image) > 0 {
			a.streamImage(plain, content)
		}
		for i, tc := range a.calls {
			a.streamCall(i, tc, plain, content)
		}
		if ok {
			name := "response." + a.end()
			yield(frame{data: a.event(name, "response", a.response(a.end(), nil, a.usageObject())), terminal: true})
		}
	}
}

type emit func(name string, pairs ...any)

func (a *responsesAnswer) streamReasoning(plain, content emit) {
	id, at := a.ids.hex("rs_", 0), len(a.done)
	plain("response.output_item.added", "output_index", at,
		"item", obj("id", id, "type", "reasoning", "summary", list{}))
	plain("response.reasoning_summary_part.added", "item_id", id, "output_index", at, "summary_index", 0,
		"part", obj("type", "summary_text", "text", ""))
	for _, piece := range words(a.reasoning) {
		content("response.reasoning_summary_text.delta", "item_id", id, "output_index", at, "summary_index", 0, "delta", piece)
	}
	part := obj("type", "summary_text", "text", a.reasoning)
	plain("response.reasoning_summary_text.done", "item_id", id, "output_index", at, "summary_index", 0, "text", a.reasoning)
	plain("response.reasoning_summary_part.done", "item_id", id, "output_index", at, "summary_index", 0, "part", part)
	item := obj("id", id, "type", "reasoning", "summary", list{part})
	if a.ask.encrypted {
		item = item.with("encrypted_content", a.signature)
	}
	a.done = append(a.done, item)
	plain("response.output_item.done", "output_index", at, "item", item)
}

func (a *responsesAnswer) streamMessage(plain, content emit) {
	id, at := a.ids.hex("msg_", 0), len(a.done)
	message := func(status string, parts list) object {
		return obj("id", id, "type", "message", "status", status, "content", parts, "role", "assistant")
	}
	plain("response.output_item.added", "output_index", at, "item", message("in_progress", list{}))

	said, refused := a.saidAndRefused()
	parts := list{}
	if len(said) > 0 {
		parts = append(parts, a.streamText(id, said, plain, content))
	}
	if len(refused) > 0 {
		parts = append(parts, a.streamRefusal(id, len(parts), refused, plain, content))
	}
	item := message(a.end(), parts)
	a.done = append(a.done, item)
	plain("response.output_item.done", "output_index", at, "item", item)
}

// streamText streams a part of text and returns it whole.
func (a *responsesAnswer) streamText(id string, pieces []string, plain, content emit) object {
	at, text, notes := len(a.done), strings.Join(pieces, ""), list{}
	part := func(text string, notes list) object {
		return obj("type", "output_text", "annotations", notes, "logprobs", list{}, "text", text)
	}
	plain("response.content_part.added", "item_id", id, "output_index", at, "content_index", 0, "part", part("", notes))
	for _, piece := range pieces {
		content("response.output_text.delta", "item_id", id, "output_index", at, "content_index", 0, "delta", piece, "logprobs", list{})
	}
	if a.citation != nil {
		note := obj("type", "url_citation", "start_index", 0, "end_index", utf8.RuneCountInString(text),
			"url", a.citation.URL, "title", a.citation.Title)
		notes = append(notes, note)
		plain("response.output_text.annotation.added", "item_id", id, "output_index", at, "content_index", 0,
			"annotation_index", 0, "annotation", note)
	}
	plain("response.output_text.done", "item_id", id, "output_index", at, "content_index", 0, "text", text, "logprobs", list{})
	plain("response.content_part.done", "item_id", id, "output_index", at, "content_index", 0, "part", part(text, notes))
	return part(text, notes)
}

// streamRefusal streams a refusal as the n-th part and returns it whole.
func (a *responsesAnswer) streamRefusal(id string, n int, pieces []string, plain, content emit) object {
	at, text := len(a.done), strings.Join(pieces, "")
	part := func(text string) object { return obj("type", "refusal", "refusal", text) }
	plain("response.content_part.added", "item_id", id, "output_index", at, "content_index", n, "part", part(""))
	for _, piece := range pieces {
		content("response.refusal.delta", "item_id", id, "output_index", at, "content_index", n, "delta", piece)
	}
	plain("response.refusal.done", "item_id", id, "output_index", at, "content_index", n, "refusal", text)
	plain("response.content_part.done", "item_id", id, "output_index", at, "content_index", n, "part", part(text))
	return part(text)
}

func (a *responsesAnswer) streamImage(plain, content emit) {
	id, at := a.ids.hex("ig_", 0), len(a.done)
	image := func(status string, result any) object {
		return obj("id", id, "type", "image_generation_call", "status", status, "output_format", "png", "result", result)
	}
	plain("response.output_item.added", "output_index", at, "item", image("in_progress", nil))
	plain("response.image_generation_call.in_progress", "item_id", id, "output_index", at)
	plain("response.image_generation_call.generating", "item_id", id, "output_index", at)
	plain("response.image_generation_call.completed", "item_id", id, "output_index", at)
	item := image("completed", base64.StdEncoding.EncodeToString(a.image))
	a.done = append(a.done, item)
	content("response.output_item.done", "output_index", at, "item", item)
}

func (a *responsesAnswer) streamCall(i int, tc ToolCall, plain, content emit) {
	id, at := a.ids.hex("fc_", i), len(a.done)
	call := func(status, args string) object {
		return obj("id", id, "type", "function_call", "status", status, "arguments", args, "call_id", tc.ID, "name", tc.Name)
	}
	content("response.output_item.added", "output_index", at, "item", call("in_progress", ""))
	for _, piece := range argumentPieces(tc.Arguments) {
		content("response.function_call_arguments.delta", "item_id", id, "output_index", at, "delta", piece)
	}
	plain("response.function_call_arguments.done", "item_id", id, "output_index", at, "name", tc.Name, "arguments", tc.Arguments)
	item := call("completed", tc.Arguments)
	a.done = append(a.done, item)
	plain("response.output_item.done", "output_index", at, "item", item)
}

// held is the sequence number of the frame that was made last and not sent yet.
func (a *responsesAnswer) held() int { return max(a.seq-1, 0) }

func (a *responsesAnswer) broken() []byte {
	return eventLines("response.output_text.delta", []byte(`{"type":"response.output_text.delta","delta":`))
}
func (a *responsesAnswer) keepAlive() []byte { return []byte(": keep-alive\n\n") }

func (a *responsesAnswer) failed(r rendered, asFailed bool) []byte {
	code := r.openaiCode
	if code == "" {
		code = r.openaiType
	}
	if asFailed {
		return eventLines("response.failed", appendJSON(nil, obj("type", "response.failed", "sequence_number", a.held(),
			"response", a.response("failed", obj("code", code, "message", r.message), nil))))
	}
	return eventLines("error", appendJSON(nil, obj("type", "error", "sequence_number", a.held(),
		"code", code, "message", r.message, "param", nullable(r.param))))
}
