package openaichat

import (
	"errors"
	"strings"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// NewEventDecoder returns a reader of Chat chunks.
//
// The end of the answer is told when [DONE] or the end of the body comes, and not with
// the finish_reason: some servers send the word in several chunks, or content
// after it.
func (*Codec) NewEventDecoder(c *protocol.Conversion) protocol.EventDecoder {
	return newEventDecoder(c)
}

func newEventDecoder(c *protocol.Conversion) *eventDecoder { return &eventDecoder{c: c, open: -1} }

// eventDecoder makes events of chunks. It keeps what is open and nothing that was told.
type eventDecoder struct {
	c    *protocol.Conversion
	s    stream          // reads chunks, and what the relay reads of them too
	in   wirejson.Reader // reads parts of a chunk
	emit func(llm.Event)
	text []byte // scratch

	started, ended bool
	next           int          // index of the next part
	open           int          // index of the open text, refusal or reasoning; -1 if none is
	kind           llm.PartKind // of it
	calls          []streamCall
	told           bool   // there was content
	refused        bool   // and it was a refusal
	reasoning      string // the member that reasoning comes in
	deltas         bool   // content came in deltas
	finished       bool   // a finish_reason came
	whole          bool   // the answer is one body
}

var (
	errNothing   = errors.New("the answer holds no choice")
	errNameless  = errors.New("a tool call has no name")
	errManyCalls = errors.New("more tool calls than an answer may have")
	errBadCall   = errors.New("the model made a tool call that cannot be read")
	errAudio     = errors.New("audio in pieces")
)

// Decode takes the next frame.
func (d *eventDecoder) Decode(f sse.Frame, emit func(llm.Event)) *fault.Error {
	switch {
	case f.Empty(), d.ended:
		return nil
	case string(f.Event) == "error":
		info, _ := protocol.ParseError(f.Data)
		return failed(info).Fault
	}
	d.emit = emit
	if sse.IsDone(f.Data) {
		return d.finish()
	}
	found, bad := d.chunk(f.Data)
	if bad != nil {
		return bad
	}
	if !found.choices && !found.usage {
		if info, ok := protocol.ParseError(f.Data); ok {
			return failed(info).Fault
		}
	}
	return nil
}

// End ends the answer of a server that sends no [DONE].
func (d *eventDecoder) End(emit func(llm.Event)) *fault.Error {
	d.emit = emit
	if !d.ended && !d.finished {
		return fault.Wrap(fault.CutAfterFirst, errNothing)
	}
	return d.finish()
}

// found is what a chunk or a whole answer held.
type found struct{ choices, usage bool }

// chunk reads a chunk or a whole answer: they differ in delta and message alone.
func (d *eventDecoder) chunk(data []byte) (has found, f *fault.Error) {
	r := &d.s.r
	r.ResetLenient(data)
	defer r.Release()
	var delta []byte
	if r.Enter('{') {
		for r.Next() {
			switch string(r.Name()) {
			case "id":
				d.s.Keep(r, &d.s.ID)
			case "model":
				d.s.Keep(r, &d.s.Model)
			case "choices":
				if r.Enter('[') {
					for r.Next() {
						if !has.choices { // the gateway asks for one
							has.choices = true
							delta = d.choice()
						}
					}
				}
			case "usage":
				if r.Kind() == '{' {
					has.usage = d.s.usage()
				}
			case "error":
				d.s.Failed = d.s.Failure.ReadMember(r) || d.s.Failed
			}
		}
	} else if r.Err() == nil {
		return has, fault.Wrap(fault.Malformed, errNothing)
	}
	if err := r.Done(); err != nil {
		return has, fault.Wrap(fault.Malformed, err)
	}
	if d.s.Failed {
		return has, failed(d.s.Failure).Fault
	}
	if delta != nil {
		return has, d.delta(delta)
	}
	return has, nil
}

// choice reads all of a choice but what it says, which is returned.
func (d *eventDecoder) choice() (said []byte) {
	r := &d.s.r
	if !r.Enter('{') {
		return nil
	}
	for r.Next() {
		switch string(r.Name()) {
		case "delta":
			if r.Kind() == '{' {
				said = r.Value()
			}
		case "message":
			// Some servers repeat all that their deltas said in a last message.
			if r.Kind() == '{' && !d.deltas && said == nil {
				said = r.Value()
			}
		case "finish_reason":
			if word, ok := r.String(128); ok && word != "" {
				d.finished = true
				d.s.How.Native = word
			}
		case "logprobs":
			if r.Kind() == '{' {
				d.c.LoseAnswer(llm.AnswerLogprobs)
			}
		case "usage": // which some servers put here
			if r.Kind() == '{' {
				d.s.usage()
			}
		}
	}
	return said
}

// start tells that the answer begins.
func (d *eventDecoder) start() {
	if !d.started {
		d.started = true
		d.emit(llm.Event{Kind: llm.EventStart, ID: d.s.ID, Model: d.s.Model})
	}
}

// begin opens a part.
func (d *eventDecoder) begin(p llm.Part) int {
	d.told = true
	at := d.next
	d.next++
	d.emit(llm.Event{Kind: llm.EventPartStart, Index: at, Part: &p})
	return at
}

// closeText closes the open text, refusal or reasoning.
func (d *eventDecoder) closeText() {
	if d.open >= 0 {
		d.emit(llm.Event{Kind: llm.EventPartEnd, Index: d.open})
		d.open = -1
	}
}

// say tells a piece of text. A piece of another kind begins a part.
func (d *eventDecoder) say(kind llm.PartKind, text []byte) {
	if len(text) == 0 {
		return
	}
	if d.open < 0 || d.kind != kind {
		d.closeText()
		d.open, d.kind = d.begin(llm.Part{Kind: kind}), kind
		d.refused = d.refused || kind == llm.PartRefusal
	}
	d.emit(llm.Event{Kind: llm.EventDelta, Index: d.open, Text: text})
}

// finish tells the end.
func (d *eventDecoder) finish() *fault.Error {
	if d.ended {
		return nil
	}
	if !d.told && !d.finished {
		return fault.Wrap(fault.Malformed, errNothing)
	}
	stop, f := d.stop()
	if f != nil {
		return f
	}
	for i := range d.calls {
		if d.calls[i].part < 0 {
			return fault.Wrap(fault.Malformed, errNameless)
		}
	}
	d.start()
	for i := range d.calls {
		if d.open >= 0 && d.open < d.calls[i].part {
			d.closeText()
		}
		d.emit(llm.Event{Kind: llm.EventPartEnd, Index: d.calls[i].part})
	}
	d.closeText()
	d.ended = true
	d.emit(llm.Event{Kind: llm.EventFinish, Stop: stop})
	if usage, ok := d.s.Usage(); ok {
		d.emit(llm.Event{Kind: llm.EventUsage, Usage: &usage})
	}
	d.emit(llm.Event{Kind: llm.EventEnd})
	return nil
}

// stop is how the answer ended.
func (d *eventDecoder) stop() (llm.Stop, *fault.Error) {
	s := llm.Stop{Native: d.s.How.Native}
	word := strings.ToLower(s.Native)
	switch {
	case word == "error":
		return s, fault.Wrap(fault.ServerError, errors.New("finish_reason error"))
	case strings.Contains(word, "malformed_function_call"): // Gemini's word, which its own Chat endpoint passes on
		return s, fault.Wrap(fault.Malformed, errBadCall)
	}
	s.Reason = looseReason(word)
	calls := len(d.calls) > 0
	switch {
	case s.Reason == llm.StopUnknown && !d.told:
		s.Reason = llm.StopFailed // the least wrong that is no success
	case s.Reason == llm.StopUnknown, s.Reason == llm.StopToolUse && !calls:
		s.Reason = llm.StopEnd
	}
	switch {
	case s.Reason == llm.StopEnd && calls:
		s.Reason = llm.StopToolUse
	case s.Reason == llm.StopEnd && d.refused:
		s.Reason = llm.StopRefusal
	}
	return s, nil
}

// looseReason knows the words of compatible servers beside those of the protocol.
func looseReason(word string) llm.StopReason {
	switch word {
	case "max_tokens", "model_length":
		return llm.StopMaxTokens
	case "tool_use":
		return llm.StopToolUse
	case "end_turn", "eos", "stop_sequence":
		return llm.StopEnd
	case "sensitive", "safety":
		return llm.StopContentFilter
	}
	return reasonOf(word)
}

// DecodeAnswer reads a chat completion.
func (*Codec) DecodeAnswer(body []byte, c *protocol.Conversion) (*llm.Answer, *fault.Error) {
	var all llm.Collector
	fits := true
	d := newEventDecoder(c)
	d.whole = true
	d.emit = func(e llm.Event) { fits = fits && all.Add(e) }
	has, f := d.chunk(body)
	if f != nil {
		return nil, f
	}
	if !has.choices {
		if info, ok := protocol.ParseError(body); ok {
			return nil, protocol.ClassifyError(info, 0, nil, time.Time{})
		}
		return nil, fault.Wrap(fault.Malformed, errNothing)
	}
	d.finished = true
	if f := d.finish(); f != nil {
		return nil, f
	}
	if !fits {
		return nil, fault.New(fault.Malformed, "The provider's answer is larger than the gateway takes.")
	}
	return all.Answer(), nil
}
