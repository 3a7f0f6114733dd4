package fakeprovider

import (
	"iter"
)

// geminiAnswer renders Gemini generateContent, streamed as events or as one JSON
// array.
type geminiAnswer struct {
	*answer
	asList bool
	sent   int // frames made
}

func (a *geminiAnswer) finish() string {
	switch a.stop {
	case StopLength:
		return "MAX_TOKENS"
	case StopRefusal:
		return "SAFETY"
	case StopFiltered:
		return "PROHIBITED_CONTENT"
	}
	return "STOP"
}

// usageObject counts output visible and thinking tokens; a stream tells what it came
// to so far.
func (a *geminiAnswer) usageObject(output, thinking int64) object {
	u := a.usage
	o := obj("promptTokenCount", u.prompt())
	if u.Cached > 0 {
		o = o.with("cachedContentTokenCount", u.Cached)
	}
	if output > 0 {
		o = o.with("candidatesTokenCount", output)
	}
	o = o.with("totalTokenCount", u.prompt()+output+thinking)
	o = o.with("promptTokensDetails", list{obj("modality", "TEXT", "tokenCount", u.prompt())})
	if thinking > 0 {
		o = o.with("thoughtsTokenCount", thinking)
	}
	return o
}

// response is one GenerateContentResponse. finish may be nil.
func (a *geminiAnswer) response(parts list, finish any, usage object) object {
	candidate := obj("content", obj("parts", parts, "role", "model"))
	if finish != nil {
		candidate = candidate.with("finishReason", finish)
	}
	o := obj("candidates", list{candidate.with("index", 0)})
	if !a.noUsage {
		o = o.with("usageMetadata", usage)
	}
	return o.with("modelVersion", a.model).with("responseId", a.id)
}

// callPart is the part of the i-th call. As the vendor's models do, only the first of
// parallel calls carries the signature.
func (a *geminiAnswer) callPart(i int, tc ToolCall) object {
	o := obj("functionCall", obj("id", tc.ID, "name", tc.Name, "args", tc.arguments()))
	if i == 0 {
		o = o.with("thoughtSignature", a.signature)
	}
	return o
}

func (a *geminiAnswer) whole() []byte {
	parts := list{}
	if a.reasoning != "" {
		parts = append(parts, obj("text", a.reasoning, "thought", true))
	}
	if len(a.pieces) > 0 {
		parts = append(parts, obj("text", a.text()))
	}
	for i, tc := range a.calls {
		parts = append(parts, a.callPart(i, tc))
	}
	return appendJSON(nil, a.response(parts, a.finish(), a.usageObject(a.usage.Output, a.usage.Reasoning)))
}

// wrap puts one object into the framing of the stream.
func (a *geminiAnswer) wrap(data []byte) []byte {
	first := a.sent == 0
	a.sent++
	if !a.asList {
		return append(append([]byte("data: "), data...), "\r\n\r\n"...)
	}
	if first {
		return append([]byte("["), data...)
	}
	return append([]byte(",\r\n"), data...)
}

func (a *geminiAnswer) frames() iter.Seq[frame] {
	return func(yield func(frame) bool) {
		said := 0
		send := func(part object) bool {
			usage := a.usageObject(min(tokens(said), a.usage.Output), a.usage.Reasoning)
			return yield(frame{data: a.wrap(appendJSON(nil, a.response(list{part}, nil, usage))), content: true})
		}
		for _, piece := range words(a.reasoning) {
			if !send(obj("text", piece, "thought", true)) {
				return
			}
		}
		for _, piece := range a.pieces {
			said += len(piece)
			if !send(obj("text", piece)) {
				return
			}
		}
		for i, tc := range a.calls {
			said += len(tc.Arguments)
			if !send(a.callPart(i, tc)) {
				return
			}
		}
		last := a.wrap(appendJSON(nil, a.response(list{obj("text", "")}, a.finish(), a.usageObject(a.usage.Output, a.usage.Reasoning))))
		if a.asList {
			last = append(last, "]"...)
		}
		yield(frame{data: last, terminal: true})
	}
}

// instead frames an event that takes the place of the frame made last.
func (a *geminiAnswer) instead(data []byte) []byte {
	a.sent = max(a.sent-1, 0)
	return a.wrap(data)
}

func (a *geminiAnswer) broken() []byte {
	return a.instead([]byte(`{"candidates":[{"content":`))
}

// keepAlive is nil: the vendor's Go SDK takes comments for errors.
func (a *geminiAnswer) keepAlive() []byte { return nil }

func (a *geminiAnswer) failed(r rendered, _ bool) []byte {
	data := a.instead(appendJSON(nil, r.gemini()))
	if a.asList {
		data = append(data, "]"...)
	}
	return data
}
