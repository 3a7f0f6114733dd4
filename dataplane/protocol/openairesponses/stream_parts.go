package openairesponses

import (
	"strconv"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// start tells that the answer begins.
func (d *eventDecoder) start() {
	if !d.started {
		d.started = true
		d.emit(llm.Event{Kind: llm.EventStart, ID: d.s.ID, Model: d.s.Model})
	}
}

// begin opens a part of an item.
func (d *eventDecoder) begin(it *outItem, content int64, p llm.Part) *outPart {
	d.start()
	it.parts = append(it.parts, outPart{content: content, at: d.next, kind: p.Kind})
	d.emit(llm.Event{Kind: llm.EventPartStart, Index: d.next, Part: &p})
	d.next++
	d.refused = d.refused || p.Kind == llm.PartRefusal
	return &it.parts[len(it.parts)-1]
}

// end closes a part.
func (d *eventDecoder) end(p *outPart) {
	if !p.ended {
		p.ended = true
		d.emit(llm.Event{Kind: llm.EventPartEnd, Index: p.at})
	}
}

// tell tells a piece of a part.
func (d *eventDecoder) tell(p *outPart, text []byte) {
	if len(text) > 0 && !p.ended {
		p.texted = true
		d.emit(llm.Event{Kind: llm.EventDelta, Index: p.at, Text: text})
	}
}

// part is the part of a content_index; nil if it was not begun.
func (it *outItem) part(content int64) *outPart {
	for i := len(it.parts) - 1; i >= 0; i-- {
		if it.parts[i].content == content {
			return &it.parts[i]
		}
	}
	return nil
}

// item is the item that an event is of. One that was not announced is made.
func (d *eventDecoder) item(e *streamEvent, kind string) (*outItem, *fault.Error) {
	for i := len(d.items) - 1; i >= 0; i-- {
		it := &d.items[i]
		if e.index >= 0 && it.index == e.index || e.index < 0 && (e.id == "" || it.id == e.id) {
			return it, nil
		}
	}
	made := itemMessage
	switch {
	case len(kind) > 9 && kind[:9] == "reasoning":
		made = itemReasoning
	case len(kind) > 8 && kind[:8] == "function":
		made = itemCall
	case len(kind) > 6 && kind[:6] == "custom":
		made = itemCustom
	}
	return d.addItem(outItem{index: e.index, id: e.id, kind: made})
}

func (d *eventDecoder) addItem(it outItem) (*outItem, *fault.Error) {
	if len(d.items) == maxAnswerItems || d.next > maxAnswerParts {
		return nil, fault.Wrap(fault.Malformed, errMany)
	}
	d.items = append(d.items, it)
	return &d.items[len(d.items)-1], nil
}

// say tells a piece of text or of a refusal.
func (d *eventDecoder) say(it *outItem, kind llm.PartKind, e *streamEvent) {
	if len(d.text) == 0 {
		return
	}
	p := it.part(e.content)
	if p == nil || p.kind != kind {
		p = d.begin(it, e.content, llm.Part{Kind: kind})
	}
	d.tell(p, d.text)
}

// Reasoning that may be shown has two forms, of which a server sends one: a summary, and
// the text itself.
const thoughtText = -1

// think tells a piece of reasoning. Pieces of a summary are paragraphs.
func (d *eventDecoder) think(it *outItem, summary bool, e *streamEvent) {
	if len(d.text) == 0 {
		return
	}
	at := e.content
	if !summary {
		at = thoughtText
	}
	p := it.part(0)
	switch {
	case p == nil:
		p = d.begin(it, 0, llm.Part{Kind: llm.PartReasoning})
		p.summary = at
	case p.summary == at:
	case p.summary == thoughtText, at == thoughtText:
		return // the other form of what was told
	default:
		p.summary = at
		d.tell(p, paragraph)
	}
	d.tell(p, d.text)
}

var paragraph = []byte("\n\n")

// argue tells a piece of a call's arguments. They wait for the name of the tool, which
// the finished item has at last.
func (d *eventDecoder) argue(it *outItem, e *streamEvent) *fault.Error {
	p := it.part(0)
	if p == nil {
		if e.name == "" {
			return nil // the finished item has them too
		}
		p = d.call(it, &itemHead{kind: it.kind, name: e.name})
	}
	d.tell(p, d.text)
	return nil
}

// catchUp tells a text that came in no delta.
func (d *eventDecoder) catchUp(it *outItem, kind llm.PartKind, e *streamEvent) {
	p := it.part(e.content)
	if kind == llm.PartReasoning {
		if p = it.part(0); p == nil || p.summary != e.content {
			d.think(it, true, e)
		}
		return
	}
	if p == nil || !p.texted {
		d.say(it, kind, e)
	}
}

// cite tells a source of a text.
func (d *eventDecoder) cite(it *outItem, e *streamEvent) {
	p := it.part(e.content)
	if p == nil || p.ended || e.source == nil {
		return
	}
	d.in.ResetLenient(e.source)
	p.cited++
	d.source(p, e.source)
}

// source tells the annotation that d.in is at.
func (d *eventDecoder) source(p *outPart, raw []byte) {
	c, kind := readAnnotation(&d.in)
	if kind != urlCitation {
		c = llm.Citation{Raw: raw}
	}
	d.emit(llm.Event{Kind: llm.EventCite, Index: p.at, Citation: &c})
}

// call opens the part of a call.
func (d *eventDecoder) call(it *outItem, h *itemHead) *outPart {
	id := h.callID
	if id == "" {
		id = h.id
	}
	taken := id == ""
	for _, told := range d.ids {
		taken = taken || told == id
	}
	if taken {
		id = "call_" + d.c.RequestID + "_" + strconv.Itoa(len(d.ids))
	}
	d.ids = append(d.ids, id)
	c := &llm.Call{ID: id, Name: h.name, Namespace: h.namespace, Custom: h.kind == itemCustom}
	if c.Namespace == "" {
		c.Namespace, c.Name = d.c.CallerTool(h.name)
	}
	return d.begin(it, 0, llm.Part{Kind: llm.PartCall, Call: c})
}
