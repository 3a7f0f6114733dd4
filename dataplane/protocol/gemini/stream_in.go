package gemini

import (
	"bytes"
	"io"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// eventDecoder reads a stream of chunks.
type eventDecoder struct{ chunks *chunks }

// NewEventDecoder returns a decoder of a stream. The protocol ends a stream with the
// body, so that the answer's end is told by End alone: chunks may follow that with the
// finish reason, and older models send one with every chunk.
func (*Codec) NewEventDecoder(c *protocol.Conversion) protocol.EventDecoder {
	return &eventDecoder{newChunks(c)}
}

// Decode implements protocol.EventDecoder.
func (d *eventDecoder) Decode(f sse.Frame, emit func(llm.Event)) *fault.Error {
	data := bytes.TrimSpace(f.Data)
	if len(data) == 0 || f.Tail && data[len(data)-1] != '}' { // half an event says nothing
		return nil
	}
	return d.chunks.chunk(data, emit)
}

// End implements protocol.EventDecoder.
func (d *eventDecoder) End(emit func(llm.Event)) *fault.Error {
	if !d.chunks.Ended {
		class := fault.CutBeforeFirst
		if d.chunks.content {
			class = fault.CutAfterFirst
		}
		return fault.Wrap(class, io.ErrUnexpectedEOF)
	}
	d.chunks.finish(emit)
	return nil
}
