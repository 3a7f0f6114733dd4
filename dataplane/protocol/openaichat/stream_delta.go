package openaichat

import (
	"strconv"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// streamCall is a tool call of the answer.
type streamCall struct {
	key     int64  // its index on the wire
	id      string // as the provider wrote it
	told    string // as it was told
	part    int    // -1 until its name is known
	custom  bool
	waiting []byte // arguments that came before the name
}

// Bounds on what one answer may hold.
const (
	maxAnswerCalls = 1024
	maxWaiting     = 64 << 10 // bytes of arguments before a name
)

// Keys of calls that have no index on the wire.
const (
	legacyKey = -1 // function_call
	firstFree = -2 // and downwards
)

// delta reads what a delta or a message says, and tells it in the order in which
// models make it: reasoning, text, sources, calls.
func (d *eventDecoder) delta(raw []byte) *fault.Error {
	d.start()
	var thought, thoughtToo, content, refusal, annotations, images, audio, calls, legacy []byte
	r := &d.in
	r.ResetLenient(raw)
	defer r.Release()
	if r.Enter('{') {
		for r.Next() {
			var to *[]byte
			switch string(r.Name()) {
			case "reasoning_content":
				to = &thought
			case "reasoning":
				to = &thoughtToo
			case "content":
				to = &content
			case "refusal":
				to = &refusal
			case "annotations":
				to = &annotations
			case "images":
				to = &images
			case "audio":
				to = &audio
			case "tool_calls":
				to = &calls
			case "function_call":
				to = &legacy
			}
			if to != nil && r.Kind() != 'n' {
				*to = r.Value()
			}
		}
	}
	d.think(thought, thoughtToo)
	d.content(content)
	d.sayString(llm.PartRefusal, refusal)
	d.cite(annotations)
	d.images(images)
	if f := d.audio(audio); f != nil {
		return f
	}
	if f := d.toolCalls(calls); f != nil {
		return f
	}
	if f := d.functionCall(legacy); f != nil {
		return f
	}
	d.deltas = d.deltas || d.told
	return nil
}

// think tells reasoning. Some servers send it under both names.
func (d *eventDecoder) think(content, reasoning []byte) {
	if d.reasoning == "" {
		a, b := len(content) > 2 && content[0] == '"', len(reasoning) > 2 && reasoning[0] == '"'
		switch {
		case b && (!a || d.c.Compat.GetReasoningField() == "reasoning"):
			d.reasoning = "reasoning"
		case a:
			d.reasoning = "reasoning_content"
		}
	}
	switch d.reasoning {
	case "reasoning_content":
		d.sayString(llm.PartReasoning, content)
	case "reasoning":
		d.sayString(llm.PartReasoning, reasoning)
	}
}

// sayString tells the text of a JSON string; anything else says nothing.
func (d *eventDecoder) sayString(kind llm.PartKind, raw []byte) {
	if len(raw) <= 2 || raw[0] != '"' {
		return
	}
	d.in.ResetLenient(raw)
	d.text, _ = d.in.AppendText(d.text[:0])
	d.say(kind, d.text)
}

// content tells a content: a string, or a list of parts as some servers answer.
func (d *eventDecoder) content(raw []byte) {
	if len(raw) == 0 || raw[0] != '[' {
		d.sayString(llm.PartText, raw)
		return
	}
	d.in.ResetLenient(raw)
	d.parts(llm.PartText)
}

// parts tells the texts in a list of parts.
func (d *eventDecoder) parts(kind llm.PartKind) {
	r := &d.in
	if !r.Enter('[') {
		return
	}
	for r.Next() {
		if !r.Enter('{') {
			continue
		}
		for r.Next() {
			switch string(r.Name()) {
			case "text":
				d.text, _ = r.AppendText(d.text[:0])
				d.say(kind, d.text)
			case "thinking":
				if r.Kind() == '[' {
					d.parts(llm.PartReasoning)
					continue
				}
				d.text, _ = r.AppendText(d.text[:0])
				d.say(llm.PartReasoning, d.text)
			}
		}
	}
}

// cite tells the sources of the open text.
func (d *eventDecoder) cite(raw []byte) {
	if raw == nil {
		return
	}
	d.in.ResetLenient(raw)
	sources := readAnnotations(&d.in, nil)
	if len(sources) > 0 && (d.open < 0 || d.kind != llm.PartText) {
		d.c.LoseAnswer(llm.AnswerCitations)
		return
	}
	for i := range sources {
		d.emit(llm.Event{Kind: llm.EventCite, Index: d.open, Citation: &sources[i]})
	}
}

// images tells images, which some servers answer as a list of image_url parts.
func (d *eventDecoder) images(raw []byte) {
	if raw == nil {
		return
	}
	r := &d.in
	r.ResetLenient(raw)
	if !r.Enter('[') {
		return
	}
	for r.Next() {
		url := ""
		if r.Enter('{') {
			for r.Next() {
				if string(r.Name()) == "image_url" && r.Enter('{') {
					for r.Next() {
						if string(r.Name()) == "url" {
							url, _ = r.Text()
						}
					}
				}
			}
		}
		if url == "" {
			continue
		}
		m := &llm.Media{Kind: llm.Image, URL: url}
		if mime, data, ok := cutDataURL(url); ok {
			m.MIME, m.Data, m.URL = mime, data, ""
		}
		d.media(m)
	}
}

func (d *eventDecoder) media(m *llm.Media) {
	d.closeText()
	d.emit(llm.Event{Kind: llm.EventPartEnd, Index: d.begin(llm.Part{Kind: llm.PartMedia, Media: m})})
}

// audio tells the audio of a whole answer. Its transcript is kept as the context.
func (d *eventDecoder) audio(raw []byte) *fault.Error {
	if raw == nil || raw[0] != '{' {
		return nil
	}
	if !d.whole {
		return fault.Wrap(fault.Malformed, errAudio)
	}
	m := &llm.Media{Kind: llm.Audio}
	d.in.ResetLenient(raw)
	if d.in.Enter('{') {
		for d.in.Next() {
			switch string(d.in.Name()) {
			case "data":
				m.Data, _ = d.in.Text()
			case "transcript":
				m.Context, _ = d.in.Text()
			}
		}
	}
	if m.Data != "" {
		m.MIME = sniffAudio(m.Data)
		d.media(m)
	}
	return nil
}

// callPiece is what one chunk says of a call.
type callPiece struct {
	key      int64
	keyed    bool
	id, name string
	custom   bool
	text     []byte // of its arguments
}

func (d *eventDecoder) toolCalls(raw []byte) *fault.Error {
	if raw == nil {
		return nil
	}
	r := &d.in
	r.ResetLenient(raw)
	if !r.Enter('[') {
		return nil
	}
	var f *fault.Error
	for r.Next() {
		if f != nil || !r.Enter('{') {
			continue
		}
		var p callPiece
		for r.Next() {
			switch string(r.Name()) {
			case "index":
				p.key, p.keyed = r.Int()
			case "id":
				p.id, _ = r.Text()
			case "function":
				d.called(&p, "arguments")
			case "custom":
				p.custom = p.custom || r.Kind() == '{'
				d.called(&p, "input")
			}
		}
		f = d.piece(p)
	}
	return f
}

func (d *eventDecoder) functionCall(raw []byte) *fault.Error {
	if raw == nil || raw[0] != '{' {
		return nil
	}
	p := callPiece{key: legacyKey, keyed: true}
	d.in.ResetLenient(raw)
	d.called(&p, "arguments")
	return d.piece(p)
}

// called reads the name and the arguments, which some servers write as an object.
func (d *eventDecoder) called(p *callPiece, input string) {
	r := &d.in
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "name":
			p.name, _ = r.Text()
		case input:
			if r.Kind() == '{' {
				d.text = append(d.text[:0], r.Value()...)
			} else {
				d.text, _ = r.AppendText(d.text[:0])
			}
			p.text = d.text
		}
	}
}

// piece tells a piece of a call.
func (d *eventDecoder) piece(p callPiece) *fault.Error {
	call := d.find(p)
	if call == nil {
		if len(d.calls) == maxAnswerCalls {
			return fault.Wrap(fault.Malformed, errManyCalls)
		}
		if !p.keyed {
			p.key = firstFree - int64(len(d.calls))
		}
		d.calls = append(d.calls, streamCall{key: p.key, part: -1})
		call = &d.calls[len(d.calls)-1]
	}
	if call.id == "" {
		call.id = p.id
	}
	if call.part >= 0 {
		if len(p.text) > 0 {
			d.emit(llm.Event{Kind: llm.EventDelta, Index: call.part, Text: p.text})
		}
		return nil
	}
	call.custom = call.custom || p.custom
	call.waiting = append(call.waiting, p.text...)
	if p.name == "" {
		if len(call.waiting) > maxWaiting {
			return fault.Wrap(fault.Malformed, errNameless)
		}
		return nil
	}
	d.closeText()
	call.told = d.callID(call.id)
	namespace, name := d.c.CallerTool(p.name)
	call.part = d.begin(llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: call.told, Name: name, Namespace: namespace, Custom: call.custom}})
	if len(call.waiting) > 0 {
		d.emit(llm.Event{Kind: llm.EventDelta, Index: call.part, Text: call.waiting})
		call.waiting = nil
	}
	return nil
}

// find is the call that a piece belongs to: by its index, else by its id, else the
// last one. Some servers give all calls the same index: another id and a name are then
// another call.
func (d *eventDecoder) find(p callPiece) *streamCall {
	for i := len(d.calls) - 1; i >= 0; i-- {
		call := &d.calls[i]
		switch {
		case p.keyed && call.key == p.key:
			if p.id != "" && call.id != "" && p.id != call.id && p.name != "" {
				continue
			}
			return call
		case !p.keyed && p.id != "" && call.id == p.id:
			return call
		}
	}
	if n := len(d.calls); !p.keyed && p.id == "" && p.name == "" && n > 0 {
		return &d.calls[n-1]
	}
	return nil
}

// callID is the id under which a call is told: the provider's own, unless it gave none
// or the same twice.
func (d *eventDecoder) callID(id string) string {
	taken := id == ""
	for i := range d.calls {
		taken = taken || d.calls[i].told == id
	}
	if !taken {
		return id
	}
	return "call_" + d.c.RequestID + "_" + strconv.Itoa(len(d.calls)-1)
}
