package openairesponses

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// itemHead is what one item of an answer holds, apart from what is in it.
type itemHead struct {
	kind, id, callID, name, namespace string
	state, result, format             string
	content, summary                  []byte
	text                              []byte // arguments or input
}

// head reads an item.
func (d *eventDecoder) head(raw []byte) (h itemHead) {
	r := &d.in
	r.ResetLenient(raw)
	if !r.Enter('{') {
		return h
	}
	for r.Next() {
		switch string(r.Name()) {
		case "type":
			h.kind, _ = r.String(maxName)
		case "id":
			h.id, _ = r.String(protocol.MaxHint)
		case "call_id":
			h.callID, _ = r.Text()
		case "name":
			h.name, _ = r.Text()
		case "namespace":
			h.namespace, _ = r.Text()
		case "encrypted_content":
			h.state, _ = r.Text()
		case "arguments", "input":
			if r.Kind() == '{' {
				h.text = r.Value()
				continue
			}
			h.text, _ = r.AppendText(nil)
		case "content":
			h.content = r.Value()
		case "summary":
			h.summary = r.Value()
		case "result":
			h.result, _ = r.Text()
		case "output_format":
			h.format, _ = r.String(maxName)
		}
	}
	return h
}

// added takes an item that begins.
func (d *eventDecoder) added(e *streamEvent) *fault.Error {
	h := d.head(e.item)
	it, f := d.addItem(outItem{index: e.index, id: h.id, kind: h.kind})
	if f != nil {
		return f
	}
	if (h.kind == itemCall || h.kind == itemCustom) && h.name != "" {
		d.call(it, &h)
	}
	return nil
}

// done takes a finished item.
func (d *eventDecoder) done(e *streamEvent) *fault.Error {
	h := d.head(e.item)
	if e.id == "" {
		e.id = h.id
	}
	var it *outItem
	for i := len(d.items) - 1; i >= 0 && it == nil; i-- {
		if o := &d.items[i]; e.index >= 0 && o.index == e.index || e.index < 0 && o.id == e.id {
			it = o
		}
	}
	if it == nil || it.done && it.id != h.id {
		var f *fault.Error
		if it, f = d.addItem(outItem{index: e.index, id: h.id, kind: h.kind}); f != nil {
			return f
		}
	}
	return d.complete(it, &h, e.item)
}

// complete tells what was not told yet of a finished item, and closes it.
func (d *eventDecoder) complete(it *outItem, h *itemHead, raw []byte) *fault.Error {
	if it.done {
		return nil
	}
	it.done = true
	switch h.kind {
	case itemMessage:
		d.completeMessage(it, h)
	case itemReasoning:
		d.completeReasoning(it, h)
	case itemCall, itemCustom:
		p := it.part(0)
		if p == nil {
			if h.name == "" {
				return fault.Wrap(fault.Malformed, errNameless)
			}
			p = d.call(it, h)
		}
		if !p.texted {
			d.tell(p, h.text)
		}
	case itemImage:
		if h.result != "" {
			d.begin(it, 0, llm.Part{Kind: llm.PartMedia, Media: madeImage(h.result, h.format)})
		}
	case "":
	default:
		d.begin(it, 0, llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: h.kind, Raw: raw}})
	}
	for i := range it.parts {
		d.end(&it.parts[i])
	}
	return nil
}

func (d *eventDecoder) completeMessage(it *outItem, h *itemHead) {
	if h.content == nil {
		return
	}
	r := &d.in
	r.ResetLenient(h.content)
	if !r.Enter('[') {
		return
	}
	for n := int64(0); r.Next(); n++ {
		if !r.Enter('{') {
			continue
		}
		kind, sources := llm.PartText, []byte(nil)
		d.text = d.text[:0]
		for r.Next() {
			switch string(r.Name()) {
			case "refusal":
				kind = llm.PartRefusal
				d.text, _ = r.AppendText(d.text[:0])
			case "text":
				d.text, _ = r.AppendText(d.text[:0])
			case "annotations":
				sources = r.Value()
			}
		}
		p := it.part(n)
		if p == nil && len(d.text) > 0 && d.next <= maxAnswerParts {
			p = d.begin(it, n, llm.Part{Kind: kind})
		}
		if p == nil {
			continue
		}
		if !p.texted {
			d.tell(p, d.text)
		}
		d.sources(p, sources)
	}
}

// sources tells the annotations that came in no event of their own.
func (d *eventDecoder) sources(p *outPart, raw []byte) {
	if raw == nil || p.ended {
		return
	}
	r := &d.s.r // which reads nothing while items are completed
	r.ResetLenient(raw)
	if !r.Enter('[') {
		return
	}
	for n := 0; r.Next(); n++ {
		if n < p.cited || r.Kind() != '{' {
			continue
		}
		from := r.Start()
		c, kind := readAnnotation(r)
		if kind != urlCitation {
			c = llm.Citation{Raw: raw[from:r.End()]}
		}
		p.cited++
		d.emit(llm.Event{Kind: llm.EventCite, Index: p.at, Citation: &c})
	}
}

func (d *eventDecoder) completeReasoning(it *outItem, h *itemHead) {
	p := it.part(0)
	if p == nil || !p.texted {
		if text := d.thought(h); len(text) > 0 {
			if p == nil {
				p = d.begin(it, 0, llm.Part{Kind: llm.PartReasoning})
			}
			d.tell(p, text)
		}
	}
	if h.state == "" {
		return
	}
	if p == nil {
		p = d.begin(it, 0, llm.Part{Kind: llm.PartReasoning})
	}
	if !p.ended {
		d.emit(llm.Event{Kind: llm.EventState, Index: p.at, State: &llm.State{Kind: llm.OpenAIEncrypted, Data: h.state, ID: h.id}})
	}
}

// thought is the text of finished reasoning.
func (d *eventDecoder) thought(h *itemHead) []byte {
	var all []string
	for _, raw := range [...][]byte{h.summary, h.content} {
		if raw == nil || len(all) > 0 {
			continue
		}
		r := &d.in
		r.ResetLenient(raw)
		if !r.Enter('[') {
			continue
		}
		for r.Next() {
			if !r.Enter('{') {
				continue
			}
			for r.Next() {
				if string(r.Name()) == "text" {
					if text, _ := r.Text(); text != "" {
						all = append(all, text)
					}
				}
			}
		}
	}
	return []byte(strings.Join(all, "\n\n"))
}
