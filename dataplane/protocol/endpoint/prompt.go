package endpoint

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// inspectPrompt reads a body that is, in the main, a generation request.
func (c *Call) inspectPrompt(body []byte) (*protocol.Shape, *fault.Error) {
	if c.target.Protocol == protocol.Gemini {
		return c.inspectGeminiCount(body)
	}
	t := c.target
	t.Op = protocol.OpGenerate
	s, f := c.Codec.Inspect(body, t)
	if f != nil {
		return nil, f
	}
	s.Stream = false // nothing of this is streamed, whatever the body says
	c.ask.tokens = tokensOf(s.PromptBytes)
	return s, nil
}

// nestedRequest is the member in which a countTokens request may hold a whole
// generation request, in both spellings of protobuf's JSON form.
func nestedRequest(name string) bool {
	return name == "generateContentRequest" || name == "generate_content_request"
}

// inspectGeminiCount reads a countTokens request: contents, or a whole generation
// request in a member of its own, which names the model once more.
func (c *Call) inspectGeminiCount(body []byte) (*protocol.Shape, *fault.Error) {
	at := protocol.Span{}
	r := new(wirejson.Reader)
	r.ResetStrict(body)
	for ok := r.Enter('{'); ok && r.Next(); {
		if !nestedRequest(string(r.Name())) {
			continue
		}
		if !at.IsZero() || r.Kind() != '{' {
			return nil, &fault.Error{
				Class: fault.InvalidRequest, Param: "generateContentRequest",
				Public: "The member generateContentRequest must be one object: a generateContent request.",
			}
		}
		at.From = r.Start()
		r.Skip()
		at.To = r.End()
	}
	t := c.target
	t.Op = protocol.OpGenerate
	outer, f := c.Codec.Inspect(body, t)
	if f != nil {
		return nil, f
	}
	if !outer.ModelSpan.IsZero() {
		c.models = append(c.models, outer.ModelSpan)
		outer.ModelSpan = protocol.Span{}
	}
	if at.IsZero() {
		c.ask.tokens = tokensOf(outer.PromptBytes)
		return outer, nil
	}
	c.nested = at
	inner, f := c.Codec.Inspect(at.Of(body), t)
	if f != nil {
		return nil, f
	}
	if span := inner.ModelSpan; !span.IsZero() {
		c.models = append(c.models, protocol.Span{From: at.From + span.From, To: at.From + span.To})
	}
	outer.PromptBytes += inner.PromptBytes
	outer.Images += inner.Images
	for _, ref := range inner.Refs {
		ref.At.From += at.From
		ref.At.To += at.From
		outer.Refs = append(outer.Refs, ref)
	}
	c.ask.tokens = tokensOf(outer.PromptBytes)
	return outer, nil
}
