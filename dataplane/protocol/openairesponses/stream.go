package openairesponses

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaiusage"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// NewStream returns a decoder of Responses events. Usage is always reported, so
// it does not matter who asked.
func (*Codec) NewStream(bool) protocol.StreamDecoder { return new(stream) }

// ReadAnswer reads a response object.
func (c *Codec) ReadAnswer(src io.Reader) (protocol.Answer, *fault.Error) {
	d, _ := c.answers.Get().(*stream)
	if d == nil {
		d = new(stream)
	}
	defer func() {
		d.state = state{}
		d.r.Release()
		c.answers.Put(d)
	}()
	d.whole = true
	d.r.ResetStream(src)
	object := d.response()
	return d.Answer(&d.r, object)
}

type stream struct {
	state
	r wirejson.Reader
}

// state is all that belongs to one answer.
type state struct {
	protocol.Seen
	whole   bool // a whole response is read: its output was not counted before
	next    int64
	created int64
}

var (
	deltaName = []byte(`"delta"`)
	prefix    = []byte("response.")
	delta     = []byte(".delta")

	errNoEvent = errors.New("the stream's first event is not a JSON object")
)

// Observe takes the next frame.
func (d *stream) Observe(f sse.Frame) protocol.Observation {
	if len(bytes.TrimSpace(f.Data)) == 0 {
		return protocol.Observation{Kind: protocol.Ping}
	}
	kind := f.Event
	if len(kind) == 0 {
		kind = typeOf(f.Data)
	}
	d.next++
	if bytes.HasPrefix(kind, prefix) && bytes.HasSuffix(kind, delta) {
		if raw, _, ok := wirejson.StringAt(wirejson.Find(f.Data, deltaName)); ok {
			d.Text += int64(wirejson.TextLen(raw))
		}
		d.Begun = true
		return protocol.Observation{Kind: protocol.Semantic}
	}
	switch string(kind) {
	case "error":
		info, _ := protocol.ParseError(f.Data)
		return failed(info)
	case "response.created", "response.in_progress", "response.queued":
		if err := d.event(f.Data); err != nil && !d.Begun {
			return protocol.Observation{Kind: protocol.Error, Fault: fault.Wrap(fault.Malformed, err)}
		}
		return protocol.Observation{Kind: protocol.Lifecycle}
	case "response.output_item.added", "response.content_part.added", "response.reasoning_summary_part.added":
		return protocol.Observation{Kind: protocol.Lifecycle}
	case "response.completed", "response.incomplete", "response.cancelled":
		if err := d.event(f.Data); err != nil { // half an event is no end
			if !d.Begun {
				return protocol.Observation{Kind: protocol.Error, Fault: fault.Wrap(fault.Malformed, err)}
			}
			return protocol.Observation{Kind: protocol.Other}
		}
		d.Begun, d.Ended = true, true
		return protocol.Observation{Kind: protocol.Terminal}
	case "response.failed":
		// A failure whose details cannot be read is one all the same.
		d.Ended = d.event(f.Data) == nil
		d.How = llm.Stop{Reason: llm.StopFailed, Native: "failed"}
		return failed(d.Failure)
	case "ping", "keepalive":
		return protocol.Observation{Kind: protocol.Ping}
	}
	if bytes.HasPrefix(kind, prefix) {
		d.Begun = true
		return protocol.Observation{Kind: protocol.Semantic}
	}
	if !d.Begun && bytes.TrimSpace(f.Data)[0] != '{' {
		return protocol.Observation{Kind: protocol.Error, Fault: fault.Wrap(fault.Malformed, errNoEvent)}
	}
	return protocol.Observation{Kind: protocol.Other}
}

func failed(info protocol.ErrorInfo) protocol.Observation {
	return protocol.Observation{Kind: protocol.Error, Fault: protocol.ClassifyError(info, 0, nil, time.Time{})}
}

// typeOf is the type of an event that came without an event line. The type stands
// first in what the vendor sends; elsewhere the whole event is looked at.
func typeOf(data []byte) []byte {
	if bytes.HasPrefix(data, []byte(`{"type":"`)) {
		raw, _, _ := wirejson.StringAt(data[len(`{"type":`):])
		return raw
	}
	var r wirejson.Reader
	var kind []byte
	r.ResetLenient(data)
	if r.Enter('{') {
		for r.Next() {
			if string(r.Name()) == "type" {
				kind, _ = r.Bytes()
			}
		}
	}
	return kind
}

// event reads an event that carries the response.
func (d *stream) event(data []byte) error {
	r := &d.r
	r.ResetLenient(data)
	defer r.Release()
	if r.Enter('{') {
		for r.Next() {
			switch string(r.Name()) {
			case "sequence_number":
				if n, ok := r.Int(); ok {
					d.next = n + 1
				}
			case "response":
				d.response()
			}
		}
	}
	return r.Done()
}

// response reads a response object and reports whether there was one.
func (d *stream) response() bool {
	r := &d.r
	if !r.Enter('{') {
		return false
	}
	status, reason := "", ""
	var out output
	for r.Next() {
		switch string(r.Name()) {
		case "id":
			d.Keep(r, &d.ID)
		case "model":
			d.Keep(r, &d.Model)
		case "created_at":
			d.created, _ = r.Int()
		case "status":
			status, _ = r.String(64)
		case "error":
			d.Failed = d.Failure.ReadMember(r) || d.Failed
		case "incomplete_details":
			if r.Enter('{') {
				for r.Next() {
					if string(r.Name()) == "reason" {
						reason, _ = r.String(64)
					}
				}
			}
		case "output":
			if r.Enter('[') {
				for r.Next() {
					d.item(&out)
				}
			}
		case "usage":
			d.usage()
		}
	}
	d.stop(status, reason, out)
	if out.searches > 0 {
		d.Tokens.WebSearches = out.searches
	}
	return true
}

// output is what the items of a response were.
type output struct {
	calls, refusal bool
	searches       int64
}

func (d *stream) stop(status, reason string, out output) {
	switch status {
	case "completed":
		d.How = llm.Stop{Reason: llm.StopEnd, Native: status}
		switch {
		case out.calls:
			d.How.Reason = llm.StopToolUse
		case out.refusal:
			d.How.Reason = llm.StopRefusal
		}
	case "incomplete":
		d.How = llm.Stop{Native: status}
		if reason != "" {
			d.How.Native = reason
		}
		switch reason {
		case "max_output_tokens":
			d.How.Reason = llm.StopMaxTokens
		case "content_filter":
			d.How.Reason = llm.StopContentFilter
		}
	case "failed", "cancelled":
		d.How = llm.Stop{Reason: llm.StopFailed, Native: status}
	}
}

func (d *stream) item(out *output) {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	kind, action := "", ""
	for r.Next() {
		switch string(r.Name()) {
		case "type":
			kind, _ = r.String(64)
		case "arguments", "input":
			if d.whole {
				d.AddText(r)
			}
		case "action":
			if r.Enter('{') {
				for r.Next() {
					if string(r.Name()) == "type" {
						action, _ = r.String(64)
					}
				}
			}
		case "content", "summary":
			if r.Enter('[') {
				for r.Next() {
					d.part(out)
				}
			}
		}
	}
	switch kind {
	case "function_call", "custom_tool_call":
		out.calls = true
	case "web_search_call":
		if action == "" || action == "search" {
			out.searches++
		}
	}
}

func (d *stream) part(out *output) {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "refusal":
			out.refusal = true
			if d.whole {
				d.AddText(r)
			}
		case "text":
			if d.whole {
				d.AddText(r)
			}
		}
	}
}

// usage reads a usage object; null is none.
func (d *stream) usage() {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	var p llm.Prompt
	var c llm.Completion
	counted := false
	for r.Next() {
		switch string(r.Name()) {
		case "input_tokens":
			n, ok := r.Int()
			p.Total, counted = n, counted || ok
		case "output_tokens":
			n, ok := r.Int()
			c.Total, counted = n, counted || ok
		case "input_tokens_details":
			openaiusage.PromptDetails(r, &p)
		case "output_tokens_details":
			openaiusage.CompletionDetails(r, &c)
		}
	}
	if counted {
		d.Tokens.SetPrompt(p)
		d.Tokens.SetCompletion(c)
		d.Reported = true
	}
}
