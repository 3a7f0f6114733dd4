package endpoint

import (
	"bytes"
	"slices"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// prompt is the request whose prompt is to be counted, in words of no protocol.
func (c *Call) prompt(body []byte) (*llm.Request, *fault.Error) {
	from, ok := c.Codec.(protocol.Converter)
	if !ok {
		return nil, fault.New(fault.RequestNotSupported, "")
	}
	if !c.nested.IsZero() {
		body = c.nested.Of(body)
	}
	t := c.target
	t.Op = protocol.OpGenerate
	r, f := from.DecodeRequest(body, t)
	if f != nil {
		return nil, f
	}
	// What does not belong to the prompt cannot change its size, and could be refused.
	*r = llm.Request{
		Model: r.Model, Messages: r.Messages, Tools: r.Tools, ToolChoice: r.ToolChoice, OneCall: r.OneCall, Format: r.Format,
	}
	for i := range r.Messages {
		for j := range r.Messages[i].Parts {
			p := &r.Messages[i].Parts[j]
			p.State = nil // of no use to a count, and of nobody known here
			if p.Call != nil {
				p.Call.ID, _, _ = stateid.SplitCallID(p.Call.ID)
			}
			if p.Result != nil {
				p.Result.CallID, _, _ = stateid.SplitCallID(p.Result.CallID)
			}
		}
	}
	return r, nil
}

// countIn asks a candidate of another protocol for the count.
func (c *Call) countIn(body []byte, to To) (*protocol.Converted, *fault.Error) {
	other, ok := to.Codec.(protocol.Converter)
	if !ok {
		return nil, fault.New(fault.RequestNotSupported, "")
	}
	r, f := c.prompt(body)
	if f != nil {
		return nil, f
	}
	conv := &protocol.Conversion{
		From: c.target.Protocol, To: to.Codec.Name(), Public: to.Public, Model: to.Model, Compat: to.Compat,
		MaxOutput: 1, RequestSupport: other.Support,
		Options: protocol.Options{"*": protocol.Drop}, // nothing of it is answered
	}
	whole, f := other.EncodeRequest(r, conv)
	if f != nil {
		return nil, f
	}
	_, header := other.UpstreamTarget(r, conv)
	t := protocol.Target{Protocol: to.Codec.Name(), Op: protocol.OpCountTokens}
	if t.Protocol == protocol.Gemini {
		t.Model, t.Version = to.Model, "v1beta"
	}
	up := c.upstream(to, t)
	return &protocol.Converted{
		Codec: up, Target: t, Header: header, Body: up.countBody(whole, to.Model),
		Answer: func(answer []byte) ([]byte, *fault.Error) {
			var a account
			var r wirejson.Reader
			r.ResetLenient(answer)
			if a.read(&r); r.Done() != nil || !a.measured {
				return nil, fault.New(fault.Malformed, "")
			}
			return CountAnswer(c.target.Protocol, a.tokens), nil
		},
		Lossy: func() string { return "" },
	}, nil
}

// countBody makes a request for a count of a generation request: with the members that
// the vendor's counting knows.
func (c *Call) countBody(whole []byte, model string) []byte {
	if c.target.Protocol == protocol.Gemini {
		b := wirejson.AppendStringMember([]byte(`{"generateContentRequest":{`), "model", c.resource(model))
		if rest := bytes.TrimPrefix(whole, []byte("{")); len(rest) > 1 {
			b = append(b, ',')
			return append(append(b, rest...), '}')
		}
		return append(b, "}}"...)
	}
	known := []string{"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"}
	if c.target.Protocol == protocol.OpenAIResponses {
		known = []string{"model", "input", "instructions", "tools", "tool_choice", "text", "reasoning", "parallel_tool_calls", "truncation"}
	}
	out := append(make([]byte, 0, len(whole)), '{')
	var r wirejson.Reader
	r.ResetLenient(whole)
	for ok := r.Enter('{'); ok && r.Next(); {
		if name := string(r.Name()); slices.Contains(known, name) {
			out = wirejson.AppendRawMember(out, name, r.Value())
		}
	}
	return append(out, '}')
}

// CountAnswer is the answer to a request for a count in a protocol.
func CountAnswer(p protocol.Name, tokens int64) []byte {
	switch p {
	case protocol.Gemini:
		return append(wirejson.AppendIntMember([]byte{'{'}, "totalTokens", tokens), '}')
	case protocol.OpenAIResponses:
		return append(wirejson.AppendIntMember([]byte(`{"object":"response.input_tokens"`), "input_tokens", tokens), '}')
	}
	return append(wirejson.AppendIntMember([]byte{'{'}, "input_tokens", tokens), '}')
}

// Tokens that are not of a text, for an estimate.
const (
	messageTokens  = 4    // what a message and its role take
	toolTokens     = 12   // what a tool takes beside its texts
	imageTokens    = 1500 // a picture of the largest size that is looked at
	documentTokens = 3000 // a page or two
)

// EstimateCount estimates the prompt of the request in body by its texts, tools and
// media. It fails with InvalidRequest if the request cannot be read.
func (c *Call) EstimateCount(body []byte) (int64, *fault.Error) {
	r, f := c.prompt(body)
	if f != nil {
		return 0, f
	}
	n := int64(3) // what begins the answer
	for i := range r.Messages {
		n += messageTokens
		for j := range r.Messages[i].Parts {
			n += partTokens(&r.Messages[i].Parts[j])
		}
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		n += toolTokens + Tokens(t.Name) + Tokens(t.Description) + Tokens(string(t.Schema)) + Tokens(string(t.Grammar)) + Tokens(string(t.Native))
	}
	if r.Format.Kind == llm.FormatSchema {
		n += Tokens(string(r.Format.Schema))
	}
	return n, nil
}

func partTokens(p *llm.Part) int64 {
	n := Tokens(p.Text)
	if m := p.Media; m != nil {
		switch {
		case m.Text != "":
			n += Tokens(m.Text)
		case m.Kind == llm.Image:
			n += imageTokens
		default:
			n += documentTokens
		}
	}
	if p.Call != nil {
		n += toolTokens + Tokens(p.Call.Name) + Tokens(p.Call.Arguments)
	}
	if p.Result != nil {
		n += messageTokens + Tokens(p.Result.Raw)
		for i := range p.Result.Parts {
			n += partTokens(&p.Result.Parts[i])
		}
	}
	if p.Native != nil {
		n += Tokens(string(p.Native.Raw))
	}
	return n
}
