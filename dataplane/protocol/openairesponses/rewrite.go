package openairesponses

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

var _ protocol.Owned = (*Codec)(nil)

// NewRewriter implements protocol.Owned. Changed are the ids of the response, of its
// items and of a container, and of what it continues: the response before, the
// conversation, the approval that was asked for.
func (*Codec) NewRewriter(stored bool, wrap func(id string) string) protocol.Rewriter {
	return &rewriter{stored: stored, wrap: wrap}
}

type rewriter struct {
	stored bool
	wrap   func(string) string

	r     wirejson.Reader
	edits []protocol.Edit

	// Most events of a stream name the item of the event before.
	item, itemNow []byte
	buf           []byte
}

var itemIDName = []byte(`"item_id"`)

// Frame implements protocol.Rewriter.
func (w *rewriter) Frame(dst []byte, f sse.Frame) []byte {
	if f.Tail || len(f.Data) == 0 {
		return append(dst, f.Raw...)
	}
	kind := f.Event
	if len(kind) == 0 {
		kind = typeOf(f.Data)
	}
	if !carriesObject(kind) {
		if data, ok := w.flat(f.Data); ok {
			if data == nil {
				return append(dst, f.Raw...)
			}
			return sse.AppendReplaced(dst, f, data)
		}
	}
	if !w.read(f.Data, w.event) || len(w.edits) == 0 {
		return append(dst, f.Raw...)
	}
	return sse.AppendReplaced(dst, f, protocol.Apply(f.Data, w.edits))
}

// Answer implements protocol.Rewriter.
func (w *rewriter) Answer(body []byte) []byte {
	if !w.read(body, w.response) {
		return body
	}
	return protocol.Apply(body, w.edits)
}

// carriesObject reports an event that holds a whole response or item, in which the
// name of a member may stand for anything.
func carriesObject(kind []byte) bool {
	switch string(kind) {
	case "response.created", "response.in_progress", "response.queued", "response.completed", "response.incomplete",
		"response.failed", "response.cancelled", "response.output_item.added", "response.output_item.done":
		return true
	}
	return false
}

// flat changes the one id of an event that is not an object's, without reading the
// event. It returns nil if there is nothing to change, and false if the event has to
// be read after all.
func (w *rewriter) flat(data []byte) ([]byte, bool) {
	value := wirejson.Find(data, itemIDName)
	if value == nil || !w.stored {
		return nil, true
	}
	raw, rest, ok := wirejson.StringAt(value)
	before := data[:len(data)-len(value)]
	if !ok || bytes.IndexByte(raw, '\\') >= 0 || bytes.LastIndexByte(before, '{') > 0 {
		return nil, false
	}
	if !bytes.Equal(raw, w.item) || w.itemNow == nil {
		w.item = append(w.item[:0], raw...)
		w.itemNow = wirejson.AppendString(w.itemNow[:0], w.wrap(string(raw)))
	}
	w.buf = append(append(append(w.buf[:0], before...), w.itemNow...), rest...)
	return w.buf, true
}

// read collects the edits of a value and reports whether it is whole.
func (w *rewriter) read(data []byte, value func()) bool {
	w.edits = w.edits[:0]
	w.r.ResetLenient(data)
	defer w.r.Release()
	value()
	return w.r.Done() == nil
}

func (w *rewriter) event() {
	r := &w.r
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "item_id":
			w.id(w.stored)
		case "item":
			w.outputItem()
		case "response":
			w.response()
		}
	}
}

func (w *rewriter) response() {
	r := &w.r
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "id":
			w.id(w.stored)
		case "previous_response_id":
			w.id(true)
		case "conversation":
			if r.Enter('{') {
				for r.Next() {
					if string(r.Name()) == "id" {
						w.id(true)
					}
				}
			}
		case "output":
			if r.Enter('[') {
				for r.Next() {
					w.outputItem()
				}
			}
		}
	}
}

func (w *rewriter) outputItem() {
	r := &w.r
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "id", "approval_request_id", "container_id":
			w.id(w.stored)
		}
	}
}

// id reads an id and, if it is to be changed, notes the edit.
func (w *rewriter) id(change bool) {
	r := &w.r
	at := protocol.Span{From: r.Start()}
	raw, ok := r.Bytes()
	at.To = r.End()
	if !ok || !change || len(raw) == 0 {
		return
	}
	id := string(raw)
	if bytes.IndexByte(raw, '\\') >= 0 {
		text, err := jsontext.AppendUnquote(nil, append(append([]byte{'"'}, raw...), '"'))
		if err != nil {
			return
		}
		id = string(text)
	}
	if now := w.wrap(id); now != id {
		w.edits = append(w.edits, protocol.Edit{At: at, Text: wirejson.AppendString(nil, now)})
	}
}
