package anthropic

import (
	"errors"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

var errNoMessage = errors.New("the answer is no message")

// DecodeAnswer reads a message.
func (c *Codec) DecodeAnswer(body []byte, conv *protocol.Conversion) (*llm.Answer, *fault.Error) {
	d, _ := c.answers.Get().(*stream)
	if d == nil {
		d = new(stream)
	}
	defer func() {
		d.state = state{}
		d.r.Release()
		c.answers.Put(d)
	}()
	d.r.ResetLenient(body)
	a, found := &llm.Answer{}, false
	if d.r.Enter('{') {
		found = d.answer(a, body, conv)
	}
	switch err := d.r.Done(); {
	case err != nil:
		return nil, fault.Wrap(fault.Malformed, err)
	case d.Failed:
		return nil, protocol.ClassifyError(d.Failure, 0, nil, time.Time{})
	case !found:
		return nil, fault.Wrap(fault.Malformed, errNoMessage)
	}
	a.ID, a.Model, a.Usage, a.Reported = d.ID, d.Model, d.Tokens, d.Reported
	calls := false
	for i := range a.Parts {
		calls = calls || a.Parts[i].Kind == llm.PartCall
	}
	a.Stop = settled(d.How, len(a.Parts) > 0, calls)
	return a, nil
}

// answer reads the members of a message and reports whether it has content.
func (d *stream) answer(a *llm.Answer, body []byte, conv *protocol.Conversion) bool {
	r, found := &d.r, false
	for r.Next() {
		switch string(r.Name()) {
		case "id":
			d.Keep(r, &d.ID)
		case "model":
			d.Keep(r, &d.Model)
		case "usage":
			d.readUsage()
		case "error":
			d.Failed = d.Failure.ReadMember(r) || d.Failed
		case "content":
			found = r.Kind() == '['
			if r.Enter('[') {
				for r.Next() {
					b := readBlock(r, body)
					if p, ok := b.part(conv); ok {
						a.Parts = append(a.Parts, p)
					}
				}
			}
		default:
			d.ending()
		}
	}
	return found
}

// ending reads a member that tells how an answer ended, or passes over it.
func (d *stream) ending() {
	r := &d.r
	switch string(r.Name()) {
	case "stop_reason":
		if word, ok := r.String(64); ok {
			d.How.Reason, d.How.Native = reasonOf(word), word
		}
	case "stop_sequence":
		if s, ok := r.Text(); ok {
			d.How.Sequence = s
		}
	case "stop_details":
		if !r.Enter('{') {
			return
		}
		for r.Next() {
			switch string(r.Name()) {
			case "category":
				d.Keep(r, &d.How.Category)
			case "explanation":
				if s, ok := r.String(maxExplanation); ok {
					d.How.Explanation = s
				}
			}
		}
	}
}

// maxExplanation is the longest explanation of a refusal that is kept, in bytes.
const maxExplanation = 16 << 10

// settled is how an answer ended, given what it holds: calls that wait to be run, or
// nothing at all. A word that is not known counts as an end, unless nothing was said.
func settled(s llm.Stop, content, calls bool) llm.Stop {
	switch {
	case calls && (s.Reason == llm.StopEnd || s.Reason == llm.StopUnknown):
		s.Reason = llm.StopToolUse
	case !calls && s.Reason == llm.StopToolUse, content && s.Reason == llm.StopUnknown:
		s.Reason = llm.StopEnd
	}
	return s
}

// wireBlock is a block of an answer as it stands. What is raw aliases what was read.
type wireBlock struct {
	kind, text, thinking, signature, data, id, name string
	input, citations, raw                           []byte
}

// readBlock reads a block, or the start of one. data is what r reads.
func readBlock(r *wirejson.Reader, data []byte) (b wireBlock) {
	from := r.Start()
	if !r.Enter('{') {
		return b
	}
	for r.Next() {
		switch string(r.Name()) {
		case "type":
			b.kind, _ = r.String(maxWord)
		case "text":
			b.text, _ = r.Text()
		case "thinking":
			b.thinking, _ = r.Text()
		case "signature":
			b.signature, _ = r.Text()
		case "data":
			b.data, _ = r.Text()
		case "id":
			b.id, _ = r.Text()
		case "name":
			b.name, _ = r.Text()
		case "input":
			b.input = r.Value()
		case "citations":
			b.citations = r.Value()
		}
	}
	if to := r.End(); from <= to && to <= len(data) {
		b.raw = data[from:to]
	}
	return b
}

// part makes a part of a block. It reports false for one that says nothing.
func (b *wireBlock) part(conv *protocol.Conversion) (llm.Part, bool) {
	switch b.kind {
	case "":
		return llm.Part{}, false
	case "text":
		return llm.Part{Text: b.text, Citations: readCitations(b.citations)}, b.text != ""
	case "thinking":
		p := llm.Part{Kind: llm.PartReasoning, Text: b.thinking}
		if b.signature != "" {
			p.State = &llm.State{Kind: llm.AnthropicSignature, Data: b.signature}
		}
		return p, b.thinking != "" || b.signature != ""
	case "redacted_thinking":
		return llm.Part{Kind: llm.PartRedacted, State: &llm.State{Kind: llm.AnthropicRedacted, Data: b.data}}, b.data != ""
	case "tool_use":
		call := b.call(conv)
		call.Arguments = b.arguments()
		return llm.Part{Kind: llm.PartCall, Call: call}, true
	}
	return llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: b.kind, Raw: b.raw}}, true
}

// call is the call that a tool_use begins, under the name that the caller knows.
func (b *wireBlock) call(conv *protocol.Conversion) *llm.Call {
	c := &llm.Call{ID: b.id}
	c.Namespace, c.Name = conv.CallerTool(b.name)
	return c
}

// arguments are the input as text. Some servers give a text and not an object.
func (b *wireBlock) arguments() string {
	switch {
	case len(b.input) == 0 || b.input[0] == 'n':
		return ""
	case b.input[0] == '"':
		var r wirejson.Reader
		r.ResetLenient(b.input)
		s, _ := r.Text()
		return s
	}
	return string(b.input)
}

// readCitations reads the sources of a text, and passes over what is none.
func readCitations(raw []byte) []llm.Citation {
	if len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	var list []llm.Citation
	var r wirejson.Reader
	r.ResetLenient(raw)
	r.Enter('[')
	for r.Next() {
		from := r.Start()
		c, ok := readCitation(&r)
		if ok && len(list) < maxSources {
			c.Raw = raw[from:r.End()]
			list = append(list, c)
		}
	}
	return list
}
