package endpoint

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

// NewStream returns a decoder of the events of pictures, speech and transcripts.
func (c *Call) NewStream(bool) protocol.StreamDecoder {
	left := int64(1)
	switch c.target.Op {
	case protocol.OpImage, protocol.OpImageEdit:
		left = c.ask.images
	}
	return &stream{call: c, left: left}
}

// stream watches a stream of one of OpenAI's endpoints: pieces, and an event for each
// thing that is done, which has a usage of its own.
type stream struct {
	account
	call *Call
	left int64 // how many things are not done
	r    wirejson.Reader
}

var (
	typeName  = []byte(`"type"`)
	errorName = []byte(`"error"`)
	deltaName = []byte(`"delta"`)

	errNoEvent = errors.New("the stream's first event is not a JSON object")
)

// Observe takes the next frame.
func (d *stream) Observe(f sse.Frame) protocol.Observation {
	data := bytes.TrimSpace(f.Data)
	switch {
	case len(data) == 0:
		return protocol.Observation{Kind: protocol.Ping}
	case sse.IsDone(data):
		d.Begun, d.Ended = true, true
		return protocol.Observation{Kind: protocol.Terminal}
	case string(f.Event) == "error", wirejson.Find(data, errorName) != nil && d.failed(data):
		info, _ := protocol.ParseError(data)
		return protocol.Observation{Kind: protocol.Error, Fault: protocol.ClassifyError(info, 0, nil, time.Time{})}
	case data[0] != '{':
		if d.Begun {
			return protocol.Observation{Kind: protocol.Other}
		}
		return protocol.Observation{Kind: protocol.Error, Fault: fault.Wrap(fault.Malformed, errNoEvent)}
	}
	kind := f.Event
	if len(kind) == 0 {
		kind, _, _ = wirejson.StringAt(wirejson.Find(data, typeName))
	}
	switch {
	case bytes.HasSuffix(kind, []byte(".completed")), bytes.HasSuffix(kind, []byte(".done")):
		if !d.done(data) {
			return protocol.Observation{Kind: protocol.Other} // half an event is no end
		}
		d.Begun = true
		if d.left--; d.left > 0 {
			return protocol.Observation{Kind: protocol.Semantic}
		}
		d.Ended = true
		return protocol.Observation{Kind: protocol.Terminal}
	case string(kind) == "transcript.text.delta":
		if raw, _, ok := wirejson.StringAt(wirejson.Find(data, deltaName)); ok {
			d.Text += int64(wirejson.TextLen(raw))
		}
	case string(kind) == "ping", string(kind) == "keepalive":
		return protocol.Observation{Kind: protocol.Ping}
	}
	d.Begun = true
	return protocol.Observation{Kind: protocol.Semantic}
}

// failed reports whether an event holds an error at its top.
func (d *stream) failed(data []byte) bool {
	d.r.ResetLenient(data)
	var e protocol.ErrorInfo
	found := false
	for ok := d.r.Enter('{'); ok && d.r.Next(); {
		if string(d.r.Name()) == "error" {
			found = e.ReadMember(&d.r) || found
		}
	}
	d.r.Release()
	return found
}

// done reads the event of a thing that is done. What each of them cost adds up.
func (d *stream) done(data []byte) bool {
	var one account
	d.r.ResetLenient(data)
	one.read(&d.r)
	err := d.r.Done()
	d.r.Release()
	if err != nil {
		return false
	}
	d.prompt.Total += one.prompt.Total
	d.prompt.CacheRead += one.prompt.CacheRead
	d.prompt.Audio += one.prompt.Audio
	d.prompt.Image += one.prompt.Image
	d.completion.Total += one.completion.Total
	d.completion.Image += one.completion.Image
	d.completion.Audio += one.completion.Audio
	d.total += one.total
	d.seconds += one.seconds
	d.counted = d.counted || one.counted
	if one.Model != "" {
		d.Model = one.Model
	}
	d.settle(d.call)
	if !d.Reported {
		d.Tokens = llm.Usage{} // the estimate is made from the whole
	}
	return true
}
