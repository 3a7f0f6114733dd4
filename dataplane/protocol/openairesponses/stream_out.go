package openairesponses

import (
	"strconv"
	"unicode/utf8"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// NewEventEncoder returns a writer of Responses events.
func (*Codec) NewEventEncoder(c *protocol.Conversion) protocol.EventEncoder {
	return newEventEncoder(c)
}

func newEventEncoder(c *protocol.Conversion) *eventEncoder {
	return &eventEncoder{c: c, id: "resp_" + c.RequestID, talking: -1}
}

// eventEncoder writes events as the protocol's. It keeps the whole answer, as the events
// that end a part, an item and the response repeat what they hold.
type eventEncoder struct {
	c       *protocol.Conversion
	id      string
	model   string
	created int64
	echo    []byte // what the response repeats of the request
	whole   bool   // only the response at the end is wanted

	seq     int64
	started bool
	scratch []byte

	parts   []wirePart // by index
	items   []wireItem // by output_index
	talking int        // the item of text that further text joins; -1 if there is none
	calls   []int      // calls that ended, and whose item is not done yet
	size    int

	refused        bool
	status, reason string // of the response
	native         string
	usage          llm.Usage
}

// wirePart is a part of the answer.
type wirePart struct {
	kind    llm.PartKind
	item    int // -1 for one that is not told
	place   int // among the parts of its item
	text    []byte
	runes   int
	sources []byte // annotations, joined by commas
	cited   int
	state   string
	begun   bool // reasoning: its text was announced
	ended   bool
}

// wireItem is an item of the output.
type wireItem struct {
	kind, id, name, namespace, callID string
	parts                             []int
	open                              int  // parts that are open
	sealed                            bool // no further part joins
	finished                          []byte
}

// Encode appends the events that tell e.
func (w *eventEncoder) Encode(dst []byte, e llm.Event) ([]byte, *fault.Error) {
	if w.size > llm.MaxCollected {
		return dst, fault.New(fault.Malformed, "The provider's answer is larger than the gateway takes.")
	}
	switch e.Kind {
	case llm.EventStart:
		w.start(e)
		dst = w.lifecycle(dst, "response.created", statusInProgress)
		return w.lifecycle(dst, "response.in_progress", statusInProgress), nil
	case llm.EventPartStart:
		return w.partStart(dst, e.Part)
	case llm.EventDelta:
		return w.delta(dst, e), nil
	case llm.EventCite:
		return w.cite(dst, e), nil
	case llm.EventState:
		w.state(e)
	case llm.EventPartEnd:
		return w.partEnd(dst, e.Index), nil
	case llm.EventUsage:
		if e.Usage != nil {
			w.usage = *e.Usage
		}
	case llm.EventFinish:
		return w.finish(dst, &e.Stop), nil
	case llm.EventEnd:
		return w.lifecycle(dst, "response."+w.status, w.status), nil
	}
	return dst, nil
}

// Fail appends the events that end a broken stream, as StreamError does for a stream that
// is passed on.
func (w *eventEncoder) Fail(dst []byte, f *fault.Error, requestID string) []byte {
	s := new(stream)
	s.next, s.created = w.seq, w.created
	if w.started {
		s.ID, s.Model = w.id, w.model
	}
	return append(dst, (*Codec)(nil).StreamError(f, requestID, s)...)
}

func (w *eventEncoder) start(e llm.Event) {
	w.started = true
	if w.model = e.Model; w.model == "" {
		w.model = w.c.Public
	}
	if !w.c.Started.IsZero() {
		w.created = w.c.Started.Unix()
	}
	if e.Usage != nil {
		w.usage = *e.Usage
	}
	w.echo = repeat(w.c.Body)
}

// begin opens an event.
func (w *eventEncoder) begin(kind string) []byte {
	b := wirejson.AppendStringMember(append(w.scratch[:0], '{'), "type", kind)
	b = wirejson.AppendIntMember(b, "sequence_number", w.seq)
	w.seq++
	return b
}

// send closes an event and appends it.
func (w *eventEncoder) send(dst []byte, kind string, b []byte) []byte {
	b = append(b, '}')
	w.scratch = b
	if w.whole {
		return dst
	}
	return sse.AppendEvent(dst, kind, b)
}

// lifecycle writes an event that holds the response.
func (w *eventEncoder) lifecycle(dst []byte, kind, status string) []byte {
	if w.whole {
		return dst
	}
	return w.send(dst, kind, w.response(wirejson.AppendMember(w.begin(kind), "response"), status))
}

// at writes which part of which item an event is of. index is the member that tells the
// part's place; empty for an item with one part.
func (w *eventEncoder) at(b []byte, p *wirePart, index string) []byte {
	b = wirejson.AppendStringMember(b, "item_id", w.items[p.item].id)
	b = wirejson.AppendIntMember(b, "output_index", int64(p.item))
	if index != "" {
		b = wirejson.AppendIntMember(b, index, int64(p.place))
	}
	return b
}

func (w *eventEncoder) partStart(dst []byte, p *llm.Part) ([]byte, *fault.Error) {
	out := wirePart{kind: p.Kind, item: -1}
	switch p.Kind {
	case llm.PartText, llm.PartRefusal:
		dst = w.flush(dst, false)
		if w.talking < 0 {
			dst, w.talking = w.open(dst, wireItem{kind: itemMessage})
		}
		out.item = w.talking
		it := &w.items[out.item]
		out.place = len(it.parts)
		it.open++
		w.refused = w.refused || p.Kind == llm.PartRefusal
		b := w.at(w.begin("response.content_part.added"), &out, "content_index")
		dst = w.send(dst, "response.content_part.added", w.appendPart(wirejson.AppendMember(b, "part"), &out))
	case llm.PartReasoning, llm.PartRedacted:
		dst = w.hush(w.flush(dst, false), false)
		dst, out.item = w.open(dst, wireItem{kind: itemReasoning})
		if p.State != nil {
			out.state = p.State.Data
		}
	case llm.PartCall:
		dst = w.hush(w.flush(dst, false), false)
		kind := itemCall
		if p.Call.Custom {
			kind = itemCustom
		}
		dst, out.item = w.open(dst, wireItem{kind: kind, callID: p.Call.ID, name: p.Call.Name, namespace: p.Call.Namespace})
	case llm.PartMedia:
		if p.Media.Kind != llm.Image || p.Media.Data == "" {
			return dst, noPlace(p.Media.Kind)
		}
		dst = w.hush(w.flush(dst, false), false)
		dst, out.item = w.open(dst, wireItem{kind: itemImage})
		dst = w.image(dst, &out, p.Media)
	case llm.PartNative:
		if w.c.To != protocol.OpenAIResponses {
			w.c.LoseAnswer(llm.AnswerServerTool)
			break
		}
		dst = w.hush(w.flush(dst, false), false)
		dst = w.nativeItem(dst, p.Native)
	}
	if out.item >= 0 {
		w.items[out.item].parts = append(w.items[out.item].parts, len(w.parts))
	}
	w.parts = append(w.parts, out)
	w.size += llm.PartSize
	return dst, nil
}

// itemPrefixes begin the ids of items.
func itemPrefix(kind string) string {
	switch kind {
	case itemMessage:
		return "msg_"
	case itemReasoning:
		return "rs_"
	case itemCall:
		return "fc_"
	case itemCustom:
		return "ctc_"
	}
	return "ig_"
}

// open adds an item and returns its place.
func (w *eventEncoder) open(dst []byte, it wireItem) ([]byte, int) {
	at := len(w.items)
	it.id = itemPrefix(it.kind) + w.c.RequestID + "_" + strconv.Itoa(at)
	w.items = append(w.items, it)
	b := wirejson.AppendIntMember(w.begin("response.output_item.added"), "output_index", int64(at))
	b = w.appendItem(wirejson.AppendMember(b, "item"), at, statusInProgress)
	return w.send(dst, "response.output_item.added", b), at
}

// part is what is kept of a part; nil for one that is not told.
func (w *eventEncoder) part(index int) *wirePart {
	if index < 0 || index >= len(w.parts) || w.parts[index].item < 0 {
		return nil
	}
	return &w.parts[index]
}

func (w *eventEncoder) delta(dst []byte, e llm.Event) []byte {
	p := w.part(e.Index)
	if p == nil || len(e.Text) == 0 || p.ended {
		return dst
	}
	w.size += len(e.Text)
	p.text = append(p.text, e.Text...)
	var kind string
	index := "content_index"
	switch p.kind {
	case llm.PartText:
		kind = "response.output_text.delta"
		p.runes += utf8.RuneCount(e.Text)
	case llm.PartRefusal:
		kind = "response.refusal.delta"
	case llm.PartReasoning:
		kind, index = "response.reasoning_summary_text.delta", "summary_index"
		if !p.begun {
			p.begun = true
			b := w.at(w.begin("response.reasoning_summary_part.added"), p, index)
			dst = w.send(dst, "response.reasoning_summary_part.added", append(b, `,"part":{"type":"summary_text","text":""}`...))
		}
	case llm.PartCall:
		kind, index = "response.function_call_arguments.delta", ""
		if w.items[p.item].kind == itemCustom {
			kind = "response.custom_tool_call_input.delta"
		}
	default:
		return dst
	}
	b := wirejson.AppendText(wirejson.AppendMember(w.at(w.begin(kind), p, index), "delta"), e.Text)
	if p.kind == llm.PartText {
		b = append(b, `,"logprobs":[]`...)
	}
	return w.send(dst, kind, b)
}

// cite writes a source. One that does not tell its place is of all the text before it.
func (w *eventEncoder) cite(dst []byte, e llm.Event) []byte {
	p := w.part(e.Index)
	if p == nil || p.kind != llm.PartText || p.ended {
		return dst
	}
	own := e.Citation.URL == "" && e.Citation.Raw != nil && w.c.To == protocol.OpenAIResponses
	if e.Citation.URL == "" && !own {
		w.c.LoseAnswer(llm.AnswerCitations)
		return dst
	}
	if p.cited > 0 {
		p.sources = append(p.sources, ',')
	}
	from := len(p.sources)
	if own {
		p.sources = appendCompact(p.sources, e.Citation.Raw)
	} else {
		c := *e.Citation
		if c.Start == 0 && c.End == 0 {
			c.End = p.runes
		}
		p.sources = appendAnnotation(p.sources, &c)
	}
	w.size += len(p.sources) - from
	const kind = "response.output_text.annotation.added"
	b := wirejson.AppendIntMember(w.at(w.begin(kind), p, "content_index"), "annotation_index", int64(p.cited))
	p.cited++
	return w.send(dst, kind, wirejson.AppendRawMember(b, "annotation", p.sources[from:]))
}

// state keeps the state of a part. It stands in the finished item of reasoning; no other
// has a place for it.
func (w *eventEncoder) state(e llm.Event) {
	p := w.part(e.Index)
	if p == nil || p.kind != llm.PartReasoning && p.kind != llm.PartRedacted {
		w.c.LoseAnswer(llm.AnswerState)
		return
	}
	p.state = e.State.Data
	w.size += len(p.state)
}
