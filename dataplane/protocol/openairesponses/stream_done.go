package openairesponses

import (
	"strconv"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// appendPart appends a part of a message as it is by now.
func (w *eventEncoder) appendPart(b []byte, p *wirePart) []byte {
	if p.kind == llm.PartRefusal {
		b = append(b, `{"type":"refusal","refusal":`...)
		return append(wirejson.AppendText(b, p.text), '}')
	}
	b = append(b, `{"type":"output_text","annotations":[`...)
	b = append(append(b, p.sources...), `],"logprobs":[],"text":`...)
	return append(wirejson.AppendText(b, p.text), '}')
}

// appendItem appends an item: empty while it is in progress, whole in any other state.
func (w *eventEncoder) appendItem(b []byte, at int, status string) []byte {
	it := &w.items[at]
	b = wirejson.AppendStringMember(append(b, '{'), "id", it.id)
	b = wirejson.AppendStringMember(b, "type", it.kind)
	switch it.kind {
	case itemMessage:
		b = wirejson.AppendStringMember(b, "status", status)
		b = append(wirejson.AppendMember(b, "content"), '[')
		if status != statusInProgress {
			for _, i := range it.parts {
				b = w.appendPart(wirejson.AppendElement(b), &w.parts[i])
			}
		}
		return append(b, `],"role":"assistant"}`...)
	case itemReasoning:
		b = append(wirejson.AppendMember(b, "summary"), '[')
		if status == statusInProgress {
			return append(b, "]}"...)
		}
		p := &w.parts[it.parts[0]]
		if p.begun {
			b = append(wirejson.AppendText(append(b, `{"type":"summary_text","text":`...), p.text), '}')
		}
		b = append(b, ']')
		if p.state != "" {
			b = wirejson.AppendStringMember(b, "encrypted_content", p.state)
		}
		return append(b, '}')
	case itemCall, itemCustom:
		input := "input"
		if it.kind == itemCall {
			b = wirejson.AppendStringMember(b, "status", status)
			input = "arguments"
		}
		b = wirejson.AppendStringMember(b, "call_id", it.callID)
		if it.namespace != "" {
			b = wirejson.AppendStringMember(b, "namespace", it.namespace)
		}
		b = wirejson.AppendMember(wirejson.AppendStringMember(b, "name", it.name), input)
		if status == statusInProgress {
			return append(b, `""}`...)
		}
		return append(wirejson.AppendText(b, w.parts[it.parts[0]].text), '}')
	}
	return append(wirejson.AppendStringMember(b, "status", status), '}')
}

// close finishes an item.
func (w *eventEncoder) close(dst []byte, at int, status string) []byte {
	return w.tellDone(dst, at, w.appendItem(nil, at, status))
}

func (w *eventEncoder) tellDone(dst []byte, at int, item []byte) []byte {
	w.items[at].finished = item
	b := wirejson.AppendIntMember(w.begin("response.output_item.done"), "output_index", int64(at))
	return w.send(dst, "response.output_item.done", wirejson.AppendRawMember(b, "item", item))
}

// partEnd closes a part. Its item stays open for what may join or be found out later.
func (w *eventEncoder) partEnd(dst []byte, index int) []byte {
	p := w.part(index)
	if p == nil || p.ended {
		return dst
	}
	p.ended = true
	switch p.kind {
	case llm.PartText, llm.PartRefusal:
		dst = w.textDone(dst, p)
		it := &w.items[p.item]
		if it.open--; it.sealed && it.open == 0 {
			dst = w.close(dst, p.item, statusCompleted)
		}
	case llm.PartReasoning, llm.PartRedacted:
		if p.begun {
			b := w.at(w.begin("response.reasoning_summary_text.done"), p, "summary_index")
			dst = w.send(dst, "response.reasoning_summary_text.done", wirejson.AppendText(wirejson.AppendMember(b, "text"), p.text))
			b = append(w.at(w.begin("response.reasoning_summary_part.done"), p, "summary_index"), `,"part":{"type":"summary_text","text":`...)
			dst = w.send(dst, "response.reasoning_summary_part.done", append(wirejson.AppendText(b, p.text), '}'))
		}
		dst = w.close(dst, p.item, statusCompleted)
	case llm.PartCall:
		// Whether it is whole is known when the answer goes on or ends.
		w.calls = append(w.calls, index)
	}
	return dst
}

func (w *eventEncoder) textDone(dst []byte, p *wirePart) []byte {
	kind, member := "response.output_text.done", "text"
	if p.kind == llm.PartRefusal {
		kind, member = "response.refusal.done", "refusal"
	}
	b := wirejson.AppendText(wirejson.AppendMember(w.at(w.begin(kind), p, "content_index"), member), p.text)
	if p.kind == llm.PartText {
		b = append(b, `,"logprobs":[]`...)
	}
	dst = w.send(dst, kind, b)
	b = w.at(w.begin("response.content_part.done"), p, "content_index")
	return w.send(dst, "response.content_part.done", w.appendPart(wirejson.AppendMember(b, "part"), p))
}

// hush seals the item of text, as another one follows or the answer ends.
func (w *eventEncoder) hush(dst []byte, cut bool) []byte {
	if w.talking < 0 {
		return dst
	}
	at := w.talking
	w.talking = -1
	it := &w.items[at]
	if it.sealed = true; it.open > 0 {
		return dst
	}
	status := statusCompleted
	if cut {
		status = statusIncomplete
	}
	return w.close(dst, at, status)
}

// flush finishes the calls that ended. A call without arguments that was not cut takes
// none, for which callers expect an empty object; what is no JSON object is not called
// complete.
func (w *eventEncoder) flush(dst []byte, cut bool) []byte {
	for _, index := range w.calls {
		p := &w.parts[index]
		it := &w.items[p.item]
		status := statusCompleted
		kind, member := "response.function_call_arguments.done", "arguments"
		if it.kind == itemCustom {
			kind, member = "response.custom_tool_call_input.done", "input"
		} else {
			if len(p.text) == 0 && !cut {
				p.text = append(p.text, "{}"...)
				b := w.at(w.begin("response.function_call_arguments.delta"), p, "")
				dst = w.send(dst, "response.function_call_arguments.delta", wirejson.AppendStringMember(b, "delta", "{}"))
			}
			if !isObject(p.text) {
				status = statusIncomplete
			}
		}
		b := w.at(w.begin(kind), p, "")
		if it.kind == itemCall {
			b = wirejson.AppendStringMember(b, "name", it.name)
		}
		dst = w.send(dst, kind, wirejson.AppendText(wirejson.AppendMember(b, member), p.text))
		dst = w.close(dst, p.item, status)
	}
	w.calls = w.calls[:0]
	return dst
}

// isObject reports whether text is one JSON object.
func isObject(text []byte) bool {
	var r wirejson.Reader
	r.ResetLenient(text)
	return r.Kind() == '{' && r.Done() == nil
}

// image writes an image that the model made.
func (w *eventEncoder) image(dst []byte, p *wirePart, m *llm.Media) []byte {
	const kind = "response.image_generation_call.completed"
	dst = w.send(dst, kind, w.at(w.begin(kind), p, ""))
	b := wirejson.AppendStringMember([]byte{'{'}, "id", w.items[p.item].id)
	b = wirejson.AppendStringMember(b, "type", itemImage)
	b = wirejson.AppendStringMember(b, "status", statusCompleted)
	if format, ok := strings.CutPrefix(m.MIME, "image/"); ok {
		b = wirejson.AppendStringMember(b, "output_format", format)
	}
	b = append(wirejson.AppendStringMember(b, "result", m.Data), '}')
	w.size += len(m.Data)
	return w.tellDone(dst, p.item, b)
}

// nativeItem writes an item that the upstream made in this protocol, as it stands. It
// keeps its id, unless it has none of its own.
func (w *eventEncoder) nativeItem(dst []byte, n *llm.Native) []byte {
	at := len(w.items)
	id, members := nativeMembers(n.Raw)
	taken := id == ""
	for i := range w.items {
		taken = taken || w.items[i].id == id
	}
	if taken {
		id = "item_" + w.c.RequestID + "_" + strconv.Itoa(at)
	}
	w.items = append(w.items, wireItem{kind: n.Type, id: id})
	w.size += len(n.Raw)
	b := wirejson.AppendIntMember(w.begin("response.output_item.added"), "output_index", int64(at))
	b = w.appendItem(wirejson.AppendMember(b, "item"), at, statusInProgress)
	dst = w.send(dst, "response.output_item.added", b)
	item := wirejson.AppendStringMember([]byte{'{'}, "id", id)
	return w.tellDone(dst, at, append(append(item, members...), '}'))
}

// nativeMembers splits an item into its id and its other members, each behind a comma.
func nativeMembers(raw []byte) (id string, members []byte) {
	var r wirejson.Reader
	r.ResetLenient(raw)
	members = make([]byte, 0, len(raw)+1)
	if !r.Enter('{') {
		return "", members
	}
	for r.Next() {
		name := string(r.Name())
		if name == "id" {
			id, _ = r.Text()
			continue
		}
		members = append(wirejson.AppendString(append(members, ','), name), ':')
		members = appendCompact(members, r.Value())
	}
	return id, members
}

// finish closes what is open. An explanation of a refusal becomes the refusal where the
// model gave none.
func (w *eventEncoder) finish(dst []byte, stop *llm.Stop) []byte {
	if why := stop.Explanation; stop.Reason == llm.StopRefusal && !w.refused && why != "" {
		dst, _ = w.partStart(dst, &llm.Part{Kind: llm.PartRefusal})
		index := len(w.parts) - 1
		dst = w.delta(dst, llm.Event{Index: index, Text: []byte(why)})
		dst = w.partEnd(dst, index)
	}
	w.end(stop)
	cut := w.status != statusCompleted
	return w.hush(w.flush(dst, cut), cut)
}
