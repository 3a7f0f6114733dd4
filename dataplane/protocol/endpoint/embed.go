package endpoint

import (
	"fmt"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// MaxInputs is how many texts one embeddings request may have. OpenAI takes 2048.
const MaxInputs = 10000

// inspectEmbed reads an embeddings request of either protocol. The prompt of the Shape
// is the longest text: it is each by itself that has to fit the model's context.
func (c *Call) inspectEmbed(body []byte) (*protocol.Shape, *fault.Error) {
	if c.target.Protocol == protocol.Gemini {
		return c.inspectGeminiEmbed(body)
	}
	s, f := c.inspector.Inspect(body, []string{"model", "input"}, func(r *wirejson.Reader, name string, s *protocol.Shape) *fault.Error {
		switch name {
		case "model":
			return protocol.ReadModel(r, s)
		case "input":
			return c.inputs(r, s)
		case "user":
			s.User = protocol.Hint(r)
		}
		return nil
	})
	if f != nil {
		return nil, f
	}
	if _, ok := s.Member("input"); !ok {
		return nil, invalid("input", "The member input is missing. Send a text, or a list of texts.")
	}
	return s, s.RequireModel()
}

func invalid(param, text string) *fault.Error {
	return &fault.Error{Class: fault.InvalidRequest, Param: param, Public: text}
}

func badInput() *fault.Error {
	return invalid("input", "The member input must be a text, a list of texts, a list of token ids, or a list of such lists.")
}

// inputs counts what is to be embedded.
func (c *Call) inputs(r *wirejson.Reader, s *protocol.Shape) *fault.Error {
	switch r.Kind() {
	case '"':
		c.text(r, s)
		return nil
	case '[':
	case 0:
		return nil // not JSON: the walk reports where
	default:
		return badInput()
	}
	ids := int64(0)
	for ok := r.Enter('['); ok && r.Next(); {
		switch r.Kind() {
		case '"':
			c.text(r, s)
		case '0':
			ids++
			r.Skip()
		case '[':
			n := int64(0)
			for in := r.Enter('['); in && r.Next(); {
				if r.Kind() != '0' && r.Err() == nil {
					return badInput()
				}
				n++
			}
			c.ids(n, s)
		default:
			if r.Err() == nil {
				return badInput()
			}
		}
		if s.Messages > MaxInputs {
			return tooMany("input")
		}
	}
	if ids > 0 {
		c.ids(ids, s)
	}
	return nil
}

func tooMany(param string) *fault.Error {
	return invalid(param, fmt.Sprintf("The member %s has more than %d elements. Send several requests.", param, MaxInputs))
}

// text takes a text that is to be embedded.
func (c *Call) text(r *wirejson.Reader, s *protocol.Shape) {
	n, _ := r.Len()
	s.Messages++
	s.PromptBytes = max(s.PromptBytes, n)
	c.ask.tokens += tokensOf(n)
}

// ids takes a text that the caller made tokens of.
func (c *Call) ids(n int64, s *protocol.Shape) {
	s.Messages++
	s.PromptBytes = max(s.PromptBytes, 4*n)
	c.ask.tokens += n
}

// inspectGeminiEmbed reads an embedContent or a batchEmbedContents request. The path
// names the model; what the body says of it must be the same.
func (c *Call) inspectGeminiEmbed(body []byte) (*protocol.Shape, *fault.Error) {
	acted := []string{"model", "content", "requests"}
	s, f := c.inspector.Inspect(body, acted, func(r *wirejson.Reader, name string, s *protocol.Shape) *fault.Error {
		switch name {
		case "model":
			return c.modelName(r, "model")
		case "content":
			c.content(r, s)
		case "requests":
			if c.target.Op != protocol.OpEmbedBatch {
				return invalid("requests", "The method embedContent takes one content. Call batchEmbedContents with requests.")
			}
			return c.requests(r, s)
		}
		return nil
	})
	if f != nil {
		return nil, f
	}
	want := "content"
	if c.target.Op == protocol.OpEmbedBatch {
		want = "requests"
	}
	if _, ok := s.Member(want); !ok {
		return nil, invalid(want, "The member "+want+" is missing.")
	}
	s.Model = c.target.Model
	return s, s.RequireModel()
}

func (c *Call) requests(r *wirejson.Reader, s *protocol.Shape) *fault.Error {
	if r.Kind() != '[' && r.Err() == nil {
		return invalid("requests", "The member requests must be a list of embedContent requests.")
	}
	n := 0
	for ok := r.Enter('['); ok && r.Next(); n++ { //nolint:staticcheck // SA4008: ok only guards the entry
		if n == MaxInputs {
			return tooMany("requests")
		}
		for in := r.Enter('{'); in && r.Next(); {
			switch string(r.Name()) {
			case "model":
				if f := c.modelName(r, fmt.Sprintf("requests[%d].model", n)); f != nil {
					return f
				}
			case "content":
				c.content(r, s)
			}
		}
	}
	return nil
}

// modelName reads a member that repeats the model of the path.
func (c *Call) modelName(r *wirejson.Reader, param string) *fault.Error {
	var named protocol.Shape
	if f := protocol.ReadModel(r, &named); f != nil {
		f.Param = param
		return f
	}
	if named.Model == "" {
		return nil // not JSON: the walk reports where
	}
	if c.resource(named.Model) != c.resource(c.target.Model) {
		return invalid(param, "The body names another model than the path. Name it in the path alone.")
	}
	c.models = append(c.models, named.ModelSpan)
	return nil
}

// content counts the text of a content's parts.
func (c *Call) content(r *wirejson.Reader, s *protocol.Shape) {
	n := int64(0)
	for ok := r.Enter('{'); ok && r.Next(); {
		if string(r.Name()) != "parts" {
			continue
		}
		if r.Kind() == '{' {
			n += partText(r)
			continue
		}
		for in := r.Enter('['); in && r.Next(); {
			n += partText(r)
		}
	}
	s.Messages++
	s.PromptBytes = max(s.PromptBytes, n)
	c.ask.tokens += tokensOf(n)
}

func partText(r *wirejson.Reader) (n int64) {
	for ok := r.Enter('{'); ok && r.Next(); {
		if string(r.Name()) == "text" {
			n, _ = r.Len()
		}
	}
	return n
}
