package fakeprovider

import (
	"encoding/base64"
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

// response is one GenerateContentResponse. Without parts the candidate has no content;
// finish may be nil.
func (a *geminiAnswer) response(parts list, finish any, usage object) object {
	o := obj()
	if a.blocked != "" {
		o = o.with("promptFeedback", obj("blockReason", a.blocked))
	} else {
		o = o.with("candidates", list{a.candidate(parts, finish)})
	}
	if !a.noUsage {
		o = o.with("usageMetadata", usage)
	}
	return o.with("modelVersion", a.model).with("responseId", a.id)
}

func (a *geminiAnswer) candidate(parts list, finish any) object {
	o := obj()
	if len(parts) > 0 {
		o = o.with("content", obj("parts", parts, "role", "model"))
	}
	if finish != nil {
		o = o.with("finishReason", finish)
		if a.citation != nil {
			o = o.with("groundingMetadata", a.grounding())
		}
	}
	return o.with("index", 0)
}

// grounding tells the source of the text; its offsets are bytes.
func (a *geminiAnswer) grounding() object {
	text := a.text()
	return obj(
		"groundingChunks", list{obj("web", obj("uri", a.citation.URL, "title", a.citation.Title))},
		"groundingSupports", list{obj(
			"segment", obj("startIndex", 0, "endIndex", len(text), "text", text),
			"groundingChunkIndices", list{0},
		)},
	)
}

// callPart is the part of the i-th call. As the vendor's models do, only the first of
// parallel calls carries the signature.
func (a *geminiAnswer) callPart(i int, tc ToolCall) object {
	fn := obj()
	if tc.ID != "" {
		fn = fn.with("id", tc.ID)
	}
	o := obj("functionCall", fn.with("name", tc.Name).with("args", tc.arguments()))
	if i == 0 {
		o = a.sign(o)
	}
	return o
}

// sign adds the signature of a model that has one.
func (a *geminiAnswer) sign(part object) object {
	if a.signature == "" {
		return part
	}
	return part.with("thoughtSignature", a.signature)
}

func (a *geminiAnswer) imagePart() object {
	return obj("inlineData", obj("mimeType", "image/png", "data", base64.StdEncoding.EncodeToString(a.image)))
}

// lastText is the text that ends an answer. What was thought for it is signed there,
// unless a call carries that.
func (a *geminiAnswer) lastText(s string) object {
	o := obj("text", s)
	if a.reasoning != "" && len(a.calls) == 0 {
		o = a.sign(o)
	}
	return o
}

// silent tells that the answer was withheld.
func (a *geminiAnswer) silent() bool {
	return (a.stop == StopRefusal || a.stop == StopFiltered) && len(a.pieces)+len(a.calls)+len(a.image) == 0
}

func (a *geminiAnswer) whole() []byte {
	parts := list{}
	if a.reasoning != "" {
		parts = append(parts, obj("text", a.reasoning, "thought", true))
	}
	if len(a.pieces) > 0 {
		parts = append(parts, a.lastText(a.text()))
	}
	if len(a.image) > 0 {
		parts = append(parts, a.imagePart())
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
		if len(a.image) > 0 && !send(a.imagePart()) {
			return
		}
		for i, tc := range a.calls {
			said += len(tc.Arguments)
			if !send(a.callPart(i, tc)) {
				return
			}
		}
		parts := list{a.lastText("")} // current models finish in a chunk of its own
		if a.silent() {
			parts = nil
		}
		last := a.wrap(appendJSON(nil, a.response(parts, a.finish(), a.usageObject(a.usage.Output, a.usage.Reasoning))))
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
