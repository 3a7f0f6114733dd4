package anthropic

import (
	"bytes"
	"errors"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// Bounds on what is kept of a stream.
const (
	maxOpenBlocks = 4096
	maxHeld       = 16 << 20 // bytes of one block: a signature, or the input of a provider's tool
)

var (
	errBlocks  = errors.New("too many content blocks are open")
	errHeld    = errors.New("a content block is larger than the gateway keeps")
	errNoBlock = errors.New("a piece of a tool call came without its start")
	errCut     = errors.New("the stream ended without message_stop")
)

// NewEventDecoder returns a reader of a stream of Messages events.
func (*Codec) NewEventDecoder(c *protocol.Conversion) protocol.EventDecoder {
	return &eventReader{c: c}
}

// eventReader reads one stream. It is lenient: events need no event line, blocks may
// lack their start or their end, and usage may come anywhere.
type eventReader struct {
	c        *protocol.Conversion
	s        stream // its reader, and the usage and stop that it found
	blocks   []openBlock
	parts    int // that began
	calls    bool
	started  bool
	finished bool
	ended    bool
	text     []byte // of the delta at hand
}

// openBlock is a block that began and has not ended.
type openBlock struct {
	wire   int64 // its index in the upstream's stream
	kind   llm.PartKind
	part   int    // index of the part; -1 before it began
	told   bool   // a piece of a call's arguments was told
	held   []byte // signature, arguments that the start gave, or a provider's input
	native *llm.Native
}

// piece is a delta as it stands.
type piece struct {
	kind     string
	citation []byte
}

// Decode implements protocol.EventDecoder.
func (d *eventReader) Decode(f sse.Frame, emit func(llm.Event)) *fault.Error {
	if d.ended || len(bytes.TrimSpace(f.Data)) == 0 {
		return nil
	}
	kind := f.Event
	if len(kind) == 0 || string(kind) == "message" {
		kind = d.s.typeOf(f.Data)
	}
	switch string(kind) {
	case "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta":
	case "message_stop":
		if f.Tail && !bytes.HasSuffix(bytes.TrimSpace(f.Data), []byte("}")) {
			return nil
		}
		d.finish(emit)
		d.ended = true
		emit(llm.Event{Kind: llm.EventEnd})
		return nil
	case "error":
		info, _ := protocol.ParseError(f.Data)
		return protocol.ClassifyError(info, 0, nil, time.Time{})
	default:
		return nil
	}
	bad := d.event(kind, f.Data, emit)
	if bad != nil && f.Tail && bad.Class == fault.Malformed {
		return nil // cut in the middle, which whoever reads the body will find
	}
	return bad
}

// End implements protocol.EventDecoder.
func (d *eventReader) End(func(llm.Event)) *fault.Error {
	if d.ended {
		return nil
	}
	return fault.Wrap(fault.CutAfterFirst, errCut)
}

// event reads an event of a kind that tells something.
func (d *eventReader) event(kind, data []byte, emit func(llm.Event)) *fault.Error {
	r := &d.s.r
	r.ResetLenient(data)
	index := int64(0)
	var b wireBlock
	var p piece
	d.text = d.text[:0]
	if r.Enter('{') {
		for r.Next() {
			switch string(r.Name()) {
			case "index":
				index, _ = r.Int()
			case "content_block":
				b = readBlock(r, data)
			case "delta":
				d.delta(r, &p)
			case "usage":
				d.s.readUsage()
			case "message":
				d.s.message()
			case "error":
				d.s.Failed = d.s.Failure.ReadMember(r) || d.s.Failed
			}
		}
	}
	if err := r.Done(); err != nil {
		return fault.Wrap(fault.Malformed, err)
	}
	if d.s.Failed {
		return protocol.ClassifyError(d.s.Failure, 0, nil, time.Time{})
	}
	switch string(kind) {
	case "message_start":
		d.start(emit)
	case "content_block_start":
		d.start(emit)
		return d.open(index, &b, emit)
	case "content_block_delta":
		d.start(emit)
		return d.add(index, &p, emit)
	case "content_block_stop":
		for i := range d.blocks {
			if d.blocks[i].wire == index {
				d.shut(i, emit)
				break
			}
		}
	case "message_delta":
		d.start(emit)
		if d.s.How.Native != "" {
			d.finish(emit)
		}
		if d.s.Reported {
			u := d.s.Tokens
			emit(llm.Event{Kind: llm.EventUsage, Usage: &u})
		}
	}
	return nil
}

// delta reads the delta of a block or of the message.
func (d *eventReader) delta(r *wirejson.Reader, p *piece) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "type":
			word, _ := r.Bytes()
			p.kind = deltaKind(word)
		case "text", "thinking", "partial_json", "signature":
			d.text, _ = r.AppendText(d.text)
		case "citation":
			p.citation = r.Value()
		default:
			d.s.ending()
		}
	}
}

// deltaKind is a type of delta without a copy; empty for one that is not known.
func deltaKind(word []byte) string {
	for _, kind := range [...]string{"text_delta", "input_json_delta", "thinking_delta", "signature_delta", "citations_delta"} {
		if string(word) == kind {
			return kind
		}
	}
	return ""
}

func (d *eventReader) start(emit func(llm.Event)) {
	if d.started {
		return
	}
	d.started = true
	e := llm.Event{Kind: llm.EventStart, ID: d.s.ID, Model: d.s.Model}
	if d.s.Reported {
		u := d.s.Tokens
		e.Usage = &u
	}
	emit(e)
}

// open begins a block. A part of text or reasoning begins with its first piece: there
// may be none.
func (d *eventReader) open(index int64, w *wireBlock, emit func(llm.Event)) *fault.Error {
	for i := range d.blocks {
		if d.blocks[i].wire == index {
			d.shut(i, emit) // its end was left out
			break
		}
	}
	if len(d.blocks) >= maxOpenBlocks {
		return fault.Wrap(fault.Malformed, errBlocks)
	}
	b := openBlock{wire: index, part: -1}
	d.text = d.text[:0]
	switch w.kind {
	case "text":
		b.kind, d.text = llm.PartText, append(d.text, w.text...)
	case "thinking":
		b.kind, d.text = llm.PartReasoning, append(d.text, w.thinking...)
		b.held = []byte(w.signature)
	case "redacted_thinking":
		b.kind = llm.PartRedacted
		d.begin(&b, &llm.Part{Kind: b.kind, State: &llm.State{Kind: llm.AnthropicRedacted, Data: w.data}}, emit)
	case "tool_use":
		b.kind, d.calls = llm.PartCall, true
		d.begin(&b, &llm.Part{Kind: b.kind, Call: w.call(d.c)}, emit)
		if args := w.arguments(); args != "{}" {
			b.held = []byte(args)
		}
	case "":
		return nil
	default:
		b.kind = llm.PartNative
		b.native = &llm.Native{Type: w.kind, Raw: bytes.Clone(w.raw)}
	}
	d.blocks = append(d.blocks, b)
	if len(d.text) > 0 {
		d.tell(&d.blocks[len(d.blocks)-1], emit)
	}
	return nil
}

func (d *eventReader) begin(b *openBlock, p *llm.Part, emit func(llm.Event)) {
	b.part = d.parts
	d.parts++
	emit(llm.Event{Kind: llm.EventPartStart, Index: b.part, Part: p})
}

// tell hands on the text at hand as a piece of a block, which begins with it.
func (d *eventReader) tell(b *openBlock, emit func(llm.Event)) {
	if len(d.text) == 0 {
		return
	}
	if b.part < 0 {
		d.begin(b, &llm.Part{Kind: b.kind}, emit)
	}
	emit(llm.Event{Kind: llm.EventDelta, Index: b.part, Text: d.text})
}

// add takes a piece of a block.
func (d *eventReader) add(index int64, p *piece, emit func(llm.Event)) *fault.Error {
	b := d.at(index)
	if b == nil {
		switch p.kind {
		case "text_delta":
			d.blocks = append(d.blocks, openBlock{wire: index, part: -1, kind: llm.PartText})
		case "thinking_delta", "signature_delta":
			d.blocks = append(d.blocks, openBlock{wire: index, part: -1, kind: llm.PartReasoning})
		case "input_json_delta":
			return fault.Wrap(fault.Malformed, errNoBlock)
		default:
			return nil
		}
		if len(d.blocks) > maxOpenBlocks {
			return fault.Wrap(fault.Malformed, errBlocks)
		}
		b = d.at(index)
	}
	switch {
	case p.kind == "text_delta" && b.kind == llm.PartText, p.kind == "thinking_delta" && b.kind == llm.PartReasoning:
		d.tell(b, emit)
	case p.kind == "input_json_delta" && b.kind == llm.PartCall:
		b.told = b.told || len(d.text) > 0
		d.tell(b, emit)
	case p.kind == "signature_delta" && b.kind == llm.PartReasoning, p.kind == "input_json_delta" && b.kind == llm.PartNative:
		if len(b.held)+len(d.text) > maxHeld {
			return fault.Wrap(fault.Malformed, errHeld)
		}
		b.held = append(b.held, d.text...)
	case p.kind == "citations_delta" && b.kind == llm.PartText:
		d.cite(b, p.citation, emit)
	case b.kind == llm.PartNative:
		// A piece of a block that cannot be put together here.
		d.c.LoseAnswer(llm.AnswerServerTool)
	}
	return nil
}

func (d *eventReader) at(index int64) *openBlock {
	for i := range d.blocks {
		if d.blocks[i].wire == index {
			return &d.blocks[i]
		}
	}
	return nil
}

func (d *eventReader) cite(b *openBlock, raw []byte, emit func(llm.Event)) {
	var r wirejson.Reader
	r.ResetLenient(raw)
	c, ok := readCitation(&r)
	if !ok {
		return
	}
	if b.part < 0 {
		d.begin(b, &llm.Part{Kind: b.kind}, emit)
	}
	c.Raw = bytes.Clone(raw)
	emit(llm.Event{Kind: llm.EventCite, Index: b.part, Citation: &c})
}

// shut ends the i-th open block, and tells what was held of it.
func (d *eventReader) shut(i int, emit func(llm.Event)) {
	b := &d.blocks[i]
	switch b.kind {
	case llm.PartCall:
		if !b.told {
			d.text = append(d.text[:0], b.held...)
			d.tell(b, emit)
		}
	case llm.PartReasoning:
		if len(b.held) > 0 {
			if b.part < 0 { // shown to nobody, and still needed later
				d.begin(b, &llm.Part{Kind: b.kind}, emit)
			}
			emit(llm.Event{Kind: llm.EventState, Index: b.part, State: &llm.State{Kind: llm.AnthropicSignature, Data: string(b.held)}})
		}
	case llm.PartNative:
		if len(b.held) > 0 && isObject(new(wirejson.Reader), b.held) {
			b.native.Raw = withInput(b.native.Raw, b.held)
		}
		d.begin(b, &llm.Part{Kind: b.kind, Native: b.native}, emit)
	}
	if b.part >= 0 {
		emit(llm.Event{Kind: llm.EventPartEnd, Index: b.part})
	}
	d.blocks = append(d.blocks[:i], d.blocks[i+1:]...)
}

// finish ends all blocks and tells how the answer ended, once.
func (d *eventReader) finish(emit func(llm.Event)) {
	d.start(emit)
	for len(d.blocks) > 0 {
		d.shut(0, emit)
	}
	if d.finished {
		return
	}
	d.finished = true
	emit(llm.Event{Kind: llm.EventFinish, Stop: settled(d.s.How, d.parts > 0, d.calls)})
}

// withInput is a block with another input; input takes the place of the old one.
func withInput(raw, input []byte) []byte {
	var r wirejson.Reader
	r.ResetLenient(raw)
	out := append(make([]byte, 0, len(raw)+len(input)), '{')
	if r.Enter('{') {
		for r.Next() {
			name := string(r.Name())
			if v := r.Value(); name != "input" {
				out = wirejson.AppendRawMember(out, name, v)
			}
		}
	}
	return append(wirejson.AppendRawMember(out, "input", input), '}')
}
