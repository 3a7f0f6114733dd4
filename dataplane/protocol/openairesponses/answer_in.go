package openairesponses

import (
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// DecodeAnswer reads a response.
func (*Codec) DecodeAnswer(body []byte, c *protocol.Conversion) (*llm.Answer, *fault.Error) {
	var all llm.Collector
	fits := true
	d := newEventDecoder(c)
	d.emit = func(e llm.Event) { fits = fits && all.Add(e) }
	d.s.r.ResetLenient(body)
	object := d.s.response()
	if _, f := d.s.Answer(&d.s.r, object); f != nil {
		return nil, f
	}
	output := member(body, "output")
	if output == nil && d.s.How.Native == "" {
		if info, ok := protocol.ParseError(body); ok {
			return nil, protocol.ClassifyError(info, 0, nil, time.Time{})
		}
		return nil, fault.Wrap(fault.Malformed, errNothing)
	}
	if f := d.finish("", output); f != nil {
		return nil, f
	}
	if !fits {
		return nil, fault.New(fault.Malformed, "The provider's answer is larger than the gateway takes.")
	}
	return all.Answer(), nil
}

// terminal takes the event that ends the stream.
func (d *eventDecoder) terminal(kind string, data []byte) *fault.Error {
	if err := d.s.event(data); err != nil {
		return fault.Wrap(fault.Malformed, err) // half an event is no end
	}
	if kind == "response.failed" {
		return failed(d.s.Failure).Fault
	}
	var output []byte
	if response := member(data, "response"); response != nil {
		output = member(response, "output")
	}
	return d.finish(kind, output)
}

// finish tells what is left of the output, and the end.
func (d *eventDecoder) finish(kind string, output []byte) *fault.Error {
	switch {
	case d.s.How.Native == "cancelled", kind == "response.cancelled":
		return fault.Wrap(fault.ServerError, errCanceled)
	case d.s.How.Reason == llm.StopFailed:
		return failed(d.s.Failure).Fault
	}
	d.start()
	if f := d.rest(output); f != nil {
		return f
	}
	for i := range d.items {
		it := &d.items[i]
		if (it.kind == itemCall || it.kind == itemCustom) && len(it.parts) == 0 {
			return fault.Wrap(fault.Malformed, errNameless)
		}
		for j := range it.parts {
			d.end(&it.parts[j])
		}
	}
	d.ended = true
	d.emit(llm.Event{Kind: llm.EventFinish, Stop: d.stop(kind)})
	if usage, ok := d.s.Usage(); ok {
		d.emit(llm.Event{Kind: llm.EventUsage, Usage: &usage})
	}
	d.emit(llm.Event{Kind: llm.EventEnd})
	return nil
}

// rest completes the items of the finished response that were not told, or not to
// their end.
func (d *eventDecoder) rest(output []byte) *fault.Error {
	if output == nil {
		return nil
	}
	done := 0
	for i := range d.items {
		if d.items[i].done {
			done++
		}
	}
	var raw [][]byte
	d.list.ResetLenient(output)
	if d.list.Enter('[') {
		for d.list.Next() {
			if d.list.Kind() == '{' {
				raw = append(raw, d.list.Value())
			}
		}
	}
	if done == len(d.items) && len(raw) <= done {
		return nil // whatever their ids and places are, which some servers change
	}
	for n, item := range raw {
		h := d.head(item)
		it := d.told(int64(n), h.id)
		if it == nil {
			var f *fault.Error
			if it, f = d.addItem(outItem{index: int64(n), id: h.id, kind: h.kind}); f != nil {
				return f
			}
		}
		if f := d.complete(it, &h, item); f != nil {
			return f
		}
	}
	return nil
}

// told is the item with an id or else at a place; nil if there was none.
func (d *eventDecoder) told(index int64, id string) *outItem {
	for i := range d.items {
		if id != "" && d.items[i].id == id {
			return &d.items[i]
		}
	}
	for i := range d.items {
		if d.items[i].index == index {
			return &d.items[i]
		}
	}
	return nil
}

// stop is how the answer ended. kind is the event that said so; empty for a whole answer.
func (d *eventDecoder) stop(kind string) llm.Stop {
	s := d.s.How
	if s.Native == "" { // a server that leaves the status out
		s = llm.Stop{Reason: llm.StopEnd, Native: "completed"}
		if kind == "response.incomplete" {
			s = llm.Stop{Native: "incomplete"}
		}
	}
	switch {
	case s.Reason == llm.StopUnknown && d.next == 0:
		s.Reason = llm.StopFailed // the least wrong that is no success
	case s.Reason == llm.StopUnknown:
		s.Reason = llm.StopMaxTokens // it is cut, for whatever reason
	}
	switch {
	case s.Reason == llm.StopEnd && len(d.ids) > 0:
		s.Reason = llm.StopToolUse
	case s.Reason == llm.StopEnd && d.refused:
		s.Reason = llm.StopRefusal
	case s.Reason == llm.StopToolUse && len(d.ids) == 0:
		s.Reason = llm.StopEnd
	}
	return s
}

// member is the value of a member of an object; nil if there is none or it is null.
func member(object []byte, name string) (value []byte) {
	var r wirejson.Reader
	r.ResetLenient(object)
	if !r.Enter('{') {
		return nil
	}
	for r.Next() {
		if string(r.Name()) == name && r.Kind() != 'n' {
			value = r.Value()
		}
	}
	return value
}
