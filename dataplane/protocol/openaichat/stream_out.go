package openaichat

import (
	"unicode/utf8"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaierror"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// NewEventEncoder returns a writer of Chat chunks.
func (*Codec) NewEventEncoder(c *protocol.Conversion) protocol.EventEncoder {
	return &eventEncoder{c: c}
}

// eventEncoder writes events as chunks. Of the answer it keeps what kind each part is,
// the sources, and the last usage.
type eventEncoder struct {
	c    *protocol.Conversion
	head []byte // what every chunk begins with
	ending
	parts     []outPart // by index
	calls     int
	chars     int // of content, in code points
	writing   int // texts that are open
	reasoning bool
	audio     bool
	sources   []llm.Citation
	usage     llm.Usage
	reported  bool
}

// outPart is what is kept of a part.
type outPart struct {
	kind   llm.PartKind
	call   int  // index among the calls
	custom bool // a call that takes free text
	begun  bool // something of it was told
	start  int  // where its text begins, in code points
	cited  int  // index of the first source that does not know its place
}

// Encode appends the chunks that tell e.
func (w *eventEncoder) Encode(dst []byte, e llm.Event) ([]byte, *fault.Error) {
	switch e.Kind {
	case llm.EventStart:
		w.head = appendHead(nil, "chat.completion.chunk", e.Model, w.c)
		w.use(e.Usage)
		return w.end(append(w.begin(dst), `"role":"assistant","content":""`...), ""), nil
	case llm.EventPartStart:
		return w.partStart(dst, e.Part)
	case llm.EventDelta:
		return w.delta(dst, e), nil
	case llm.EventCite:
		w.cite(e)
	case llm.EventState:
		w.c.LoseAnswer(llm.AnswerState)
	case llm.EventPartEnd:
		w.partEnd(e.Index)
	case llm.EventUsage:
		w.use(e.Usage)
	case llm.EventFinish:
		return w.finish(dst, e.Stop), nil
	case llm.EventEnd:
		return w.done(dst), nil
	}
	return dst, nil
}

// Fail appends a chunk with an error object. No [DONE] follows.
func (*eventEncoder) Fail(dst []byte, f *fault.Error, requestID string) []byte {
	return sse.AppendEvent(dst, "", openaierror.Append(nil, f, requestID, protocol.StreamOutcome(f)))
}

func (w *eventEncoder) use(u *llm.Usage) {
	if u != nil {
		w.usage, w.reported = *u, true
	}
}

// begin opens a chunk up to the members of its delta.
func (w *eventEncoder) begin(dst []byte) []byte {
	dst = append(append(dst, "data: "...), w.head...)
	return append(dst, `,"choices":[{"index":0,"delta":{`...)
}

// end closes a chunk. finish is its finish_reason; empty for null.
func (w *eventEncoder) end(dst []byte, finish string) []byte {
	dst = append(dst, `},"logprobs":null`...)
	if finish == "" {
		dst = append(wirejson.AppendMember(dst, "finish_reason"), "null"...)
	} else {
		dst = wirejson.AppendStringMember(dst, "finish_reason", finish)
	}
	dst = append(dst, "}]"...)
	if w.c.WantsUsage {
		dst = append(wirejson.AppendMember(dst, "usage"), "null"...)
	}
	return append(dst, "}\n\n"...)
}

// text writes a chunk that adds text to a member of the message.
func (w *eventEncoder) text(dst []byte, member string, text []byte) []byte {
	return w.end(wirejson.AppendText(wirejson.AppendMember(w.begin(dst), member), text), "")
}

func (w *eventEncoder) partStart(dst []byte, p *llm.Part) ([]byte, *fault.Error) {
	out := outPart{kind: p.Kind, start: w.chars, cited: len(w.sources)}
	var f *fault.Error
	switch p.Kind {
	case llm.PartText:
		w.writing++
	case llm.PartCall:
		if w.writing == 0 {
			dst = w.annotate(dst)
		}
		out.call, out.custom = w.calls, p.Call.Custom
		w.calls++
		w.ending.calls = true
		dst, f = w.openCall(dst, p.Call, out.call)
	case llm.PartMedia:
		if p.Media.Kind != llm.Audio || p.Media.Data == "" || w.audio {
			return dst, noPlace(p.Media.Kind)
		}
		w.audio = true
		dst = w.end(appendAudio(w.begin(dst), p.Media, w.c), "")
	case llm.PartRedacted:
		w.c.LoseAnswer(llm.AnswerState)
	case llm.PartNative:
		w.c.LoseAnswer(llm.AnswerServerTool)
	}
	w.parts = append(w.parts, out)
	return dst, f
}

func (w *eventEncoder) openCall(dst []byte, call *llm.Call, index int) ([]byte, *fault.Error) {
	if w.c.LegacyCalls {
		if index > 0 {
			return dst, secondCall()
		}
		dst = append(wirejson.AppendMember(w.begin(dst), "function_call"), '{')
		dst = wirejson.AppendStringMember(dst, "name", call.Name)
		return w.end(append(dst, `,"arguments":""}`...), ""), nil
	}
	kind := callKind(call)
	dst = append(w.begin(dst), `"tool_calls":[{`...)
	dst = wirejson.AppendIntMember(dst, "index", int64(index))
	dst = wirejson.AppendStringMember(dst, "id", call.ID)
	dst = wirejson.AppendStringMember(dst, "type", kind)
	dst = append(wirejson.AppendMember(dst, kind), '{')
	dst = wirejson.AppendStringMember(dst, "name", call.Name)
	dst = wirejson.AppendStringMember(dst, inputName(call.Custom), "")
	return w.end(append(dst, "}}]"...), ""), nil
}

func inputName(custom bool) string {
	if custom {
		return "input"
	}
	return "arguments"
}

// part is what is kept of a part; nil for an index that was never opened.
func (w *eventEncoder) part(index int) *outPart {
	if index < 0 || index >= len(w.parts) {
		return nil
	}
	return &w.parts[index]
}

func (w *eventEncoder) delta(dst []byte, e llm.Event) []byte {
	p := w.part(e.Index)
	if p == nil || len(e.Text) == 0 {
		return dst
	}
	first := !p.begun
	p.begun = true
	switch p.kind {
	case llm.PartText:
		w.ending.content = true
		w.chars += utf8.RuneCount(e.Text)
		return w.text(dst, "content", e.Text)
	case llm.PartRefusal:
		w.ending.refusal = true
		return w.text(dst, "refusal", e.Text)
	case llm.PartReasoning:
		if first && w.reasoning {
			dst = w.text(dst, "reasoning_content", []byte("\n\n")) // parts of reasoning are paragraphs
		}
		w.reasoning = true
		return w.text(dst, "reasoning_content", e.Text)
	case llm.PartCall:
		return w.arguments(dst, p, e.Text)
	}
	return dst
}

// arguments writes a piece of a call's arguments.
func (w *eventEncoder) arguments(dst []byte, p *outPart, text []byte) []byte {
	dst = w.begin(dst)
	if w.c.LegacyCalls {
		dst = append(wirejson.AppendMember(dst, "function_call"), '{')
		return w.end(append(wirejson.AppendText(wirejson.AppendMember(dst, "arguments"), text), '}'), "")
	}
	dst = append(dst, `"tool_calls":[{`...)
	dst = wirejson.AppendIntMember(dst, "index", int64(p.call))
	kind := "function"
	if p.custom {
		kind = "custom"
	}
	dst = wirejson.AppendMember(append(wirejson.AppendMember(dst, kind), '{'), inputName(p.custom))
	return w.end(append(wirejson.AppendText(dst, text), "}}]"...), "")
}

// cite keeps a source until the text is over.
func (w *eventEncoder) cite(e llm.Event) {
	if p := w.part(e.Index); p != nil {
		w.sources = cited(w.c, w.sources, *e.Citation, 0, 0)
	}
}

// partEnd gives the sources of a part that did not tell their place the whole of it.
func (w *eventEncoder) partEnd(index int) {
	p := w.part(index)
	if p == nil || p.kind != llm.PartText {
		return
	}
	w.writing--
	for i := p.cited; i < len(w.sources); i++ {
		if s := &w.sources[i]; s.Start == 0 && s.End == 0 {
			s.Start, s.End = p.start, w.chars
		}
	}
}

func (w *eventEncoder) finish(dst []byte, stop llm.Stop) []byte {
	if why := explained(&stop, &w.ending); why != "" {
		w.ending.refusal = true
		dst = w.text(dst, "refusal", []byte(why))
	}
	if !cut(&stop) {
		for i := range w.parts {
			// A call without arguments takes none, for which callers expect an empty object.
			if p := &w.parts[i]; p.kind == llm.PartCall && !p.begun && !p.custom {
				dst = w.arguments(dst, p, []byte("{}"))
			}
		}
	}
	return w.end(w.begin(w.annotate(dst)), finishReason(&stop, &w.ending, w.c))
}

// annotate writes the sources of the text so far.
func (w *eventEncoder) annotate(dst []byte) []byte {
	if len(w.sources) == 0 {
		return dst
	}
	dst = w.end(appendAnnotations(w.begin(dst), w.sources), "")
	w.sources = w.sources[:0]
	return dst
}

// done writes the usage, if the caller asked for it, and the end.
func (w *eventEncoder) done(dst []byte) []byte {
	if w.c.WantsUsage && w.reported {
		dst = append(append(dst, "data: "...), w.head...)
		dst = append(wirejson.AppendMember(dst, "choices"), "[]"...)
		dst = append(appendUsage(dst, &w.usage), "}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}
