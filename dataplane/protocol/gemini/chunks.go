package gemini

import (
	"bytes"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// chunks makes events of the chunks of one answer, of which a whole answer is the only
// one. It keeps no text.
type chunks struct {
	stream // reads what concerns the whole answer: usage, errors, ids
	c      *protocol.Conversion

	started    bool
	candidates bool // a candidate was seen
	blocked    bool // the prompt was refused
	content    bool // a part was told
	why        string

	index  int          // of the part that began last; -1 before the first
	open   llm.PartKind // its kind, while isOpen
	isOpen bool
	wide   bool         // its text is not all ASCII, or not the answer's only text
	texts  int          // texts begun
	name   string       // of the call that began last, as the provider has it
	told   bool         // its arguments came whole
	args   *partialArgs // its arguments that come in pieces

	// Of the part that is read.
	text      []byte
	signature string
	scratch   []byte
}

func newChunks(c *protocol.Conversion) *chunks { return &chunks{c: c, index: -1} }

// chunk tells what one chunk holds.
func (d *chunks) chunk(data []byte, emit func(llm.Event)) *fault.Error {
	if !d.started {
		// The model and the usage stand after the parts and are told before them.
		if f := d.read(data, nil); f != nil || d.Failed {
			return f
		}
		d.started = true
		e := llm.Event{Kind: llm.EventStart, ID: d.ID, Model: d.Model}
		if u, ok := d.Usage(); ok {
			e.Usage = &u
		}
		emit(e)
	}
	return d.read(data, emit)
}

// read reads a chunk. Without emit its candidates are passed over.
func (d *chunks) read(data []byte, emit func(llm.Event)) *fault.Error {
	r := &d.r
	r.ResetLenient(data)
	defer r.Release()
	if r.Kind() != '{' {
		return fault.Wrap(fault.Malformed, errNoAnswer)
	}
	r.Enter('{')
	for r.Next() {
		switch string(r.Name()) {
		case "responseId":
			d.Keep(r, &d.ID)
		case "modelVersion":
			d.Keep(r, &d.Model)
		case "candidates":
			if emit != nil && r.Enter('[') {
				for n := 0; r.Next(); n++ {
					if n == 0 { // requests for several are not converted
						d.candidate(emit)
					}
				}
			}
		case "promptFeedback":
			d.feedback()
		case "usageMetadata":
			d.usage()
		case "error":
			d.Failed = d.Failure.ReadMember(r) || d.Failed
		}
	}
	switch err := r.Done(); {
	case d.Failed:
		return protocol.ClassifyError(d.Failure, 0, nil, time.Time{})
	case err != nil:
		return fault.Wrap(fault.Malformed, err)
	case d.How.Reason == llm.StopMalformedCall:
		return &fault.Error{Class: fault.Malformed, UpstreamCode: d.How.Native}
	case d.args != nil && d.args.full:
		return fault.Wrap(fault.Malformed, errTooLarge)
	}
	return nil
}

func (d *chunks) feedback() {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "blockReason":
			if word, ok := r.String(64); ok && word != "" && !unspecified(word) {
				d.blocked, d.Ended = true, true
				d.How = llm.Stop{Reason: llm.StopContentFilter, Native: word}
			}
		case "blockReasonMessage":
			d.why, _ = r.String(maxExplanation)
		}
	}
}

// maxExplanation bounds what is kept of a reason in words, in bytes.
const maxExplanation = 2000

func (d *chunks) candidate(emit func(llm.Event)) {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	d.candidates = true
	for r.Next() {
		switch string(r.Name()) {
		case "content":
			if !r.Enter('{') {
				continue
			}
			for r.Next() {
				if string(r.Name()) == "parts" && r.Enter('[') {
					for r.Next() {
						d.part(emit)
					}
				}
			}
		case "finishReason":
			if word, ok := r.String(64); ok && word != "" && !unspecified(word) {
				d.Ended = true
				d.How = llm.Stop{Reason: reasonOf(word), Native: word}
			}
		case "finishMessage":
			d.why, _ = r.String(maxExplanation)
		case "groundingMetadata":
			d.grounding(emit)
		case "citationMetadata":
			d.citations(emit)
		case "logprobsResult":
			if r.Kind() == '{' {
				d.c.LoseAnswer(llm.AnswerLogprobs)
			}
		case "continuationToken":
			d.c.LoseAnswer(llm.AnswerState)
		}
	}
}

// part reads a part and tells it. Its members come in any order.
func (d *chunks) part(emit func(llm.Event)) {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	p := llm.Part{}
	says, thought := false, false
	d.text, d.signature = d.text[:0], ""
	var call functionCall
	for r.Next() {
		switch name := string(r.Name()); name {
		case "text":
			d.text, says = r.AppendText(d.text)
		case "thought":
			thought, _ = r.Bool()
		case "thoughtSignature":
			d.signature, _ = r.Text()
		case "functionCall":
			if call.read(d) {
				p.Kind = llm.PartCall
			}
		case "inlineData", "fileData":
			if m := d.media(); m != nil {
				p.Kind, p.Media = llm.PartMedia, m
			}
		case "executableCode", "codeExecutionResult", "toolCall", "toolResponse":
			if r.Kind() == '{' {
				// The frame is gone when a collector hands the piece on.
				p.Kind, p.Native = llm.PartNative, &llm.Native{Type: name, Raw: bytes.Clone(r.Value())}
			}
		}
	}
	if r.Err() != nil {
		return
	}
	switch p.Kind {
	case llm.PartCall:
		d.tellCall(&call, emit)
	case llm.PartMedia:
		if thought { // a draft of an image, as thinking models of images make them
			d.c.LoseAnswer(llm.AnswerReasoning)
			return
		}
		d.whole(&p, emit)
	case llm.PartNative:
		d.whole(&p, emit)
	default:
		if says || d.signature != "" {
			d.tellText(thought, emit)
		}
	}
}

// tellText tells a piece of text or of reasoning. Pieces of one kind are one part; a
// signature ends it.
func (d *chunks) tellText(thought bool, emit func(llm.Event)) {
	kind := llm.PartText
	if thought {
		kind = llm.PartReasoning
	}
	if len(d.text) == 0 {
		switch {
		case d.signature == "":
			return // as in the chunk with the finish reason
		case d.isOpen && d.open == kind, thought, d.c.From == protocol.Gemini:
		default:
			// The signature of a text that is not there. Others than this protocol have no
			// place for an empty text.
			d.c.LoseAnswer(llm.AnswerState)
			return
		}
	}
	if !d.isOpen || d.open != kind {
		d.begin(&llm.Part{Kind: kind}, emit)
		if kind == llm.PartText {
			d.texts++
			d.wide = d.texts > 1
		}
	}
	if len(d.text) > 0 {
		d.wide = d.wide || !ascii(d.text)
		emit(llm.Event{Kind: llm.EventDelta, Index: d.index, Text: d.text})
	}
	if d.signature != "" {
		d.sign(emit)
		d.end(emit)
	}
}

// whole tells a part that comes at once.
func (d *chunks) whole(p *llm.Part, emit func(llm.Event)) {
	d.begin(p, emit)
	d.sign(emit)
	d.end(emit)
}

func (d *chunks) begin(p *llm.Part, emit func(llm.Event)) {
	d.end(emit)
	d.index++
	d.open, d.isOpen, d.content = p.Kind, true, true
	emit(llm.Event{Kind: llm.EventPartStart, Index: d.index, Part: p})
}

func (d *chunks) sign(emit func(llm.Event)) {
	if d.signature != "" {
		emit(llm.Event{Kind: llm.EventState, Index: d.index, State: &llm.State{Kind: llm.GeminiSignature, Data: d.signature}})
	}
}

func (d *chunks) end(emit func(llm.Event)) {
	if !d.isOpen {
		return
	}
	if d.args != nil { // the rest of the call never came
		d.tellArgs(emit)
	}
	d.isOpen = false
	emit(llm.Event{Kind: llm.EventPartEnd, Index: d.index})
}

// finish tells the end of the answer. The reason may have come in an earlier chunk than
// the last, and in several.
func (d *chunks) finish(emit func(llm.Event)) {
	d.end(emit)
	stop := d.How
	switch {
	case stop.Reason == llm.StopEnd && d.called:
		stop.Reason = llm.StopToolUse
	case stop.Reason != llm.StopUnknown:
	case d.content:
		stop.Reason = llm.StopEnd
	default:
		stop.Reason = llm.StopFailed
	}
	if stop.Reason != llm.StopEnd && stop.Reason != llm.StopToolUse {
		stop.Explanation = d.why
	}
	if u, ok := d.Usage(); ok {
		emit(llm.Event{Kind: llm.EventUsage, Usage: &u})
	}
	emit(llm.Event{Kind: llm.EventFinish, Stop: stop})
	emit(llm.Event{Kind: llm.EventEnd})
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
