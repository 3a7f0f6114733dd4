package endpoint

import (
	"slices"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// To is the candidate that a call is converted for.
type To struct {
	Codec   protocol.Codec // of the candidate's protocol
	Public  string         // model name for the caller
	Model   string         // the upstream's model name
	Options protocol.Options
	Compat  *configv1.Compat
}

// Convertible lists the protocols to which an operation is converted, beside the
// caller's own, the one that carries most first.
func Convertible(t protocol.Target) []protocol.Name {
	switch t.Op {
	case protocol.OpEmbed, protocol.OpEmbedBatch:
		if t.Protocol == protocol.Gemini {
			return []protocol.Name{protocol.OpenAIChat}
		}
		return []protocol.Name{protocol.Gemini}
	case protocol.OpCountTokens:
		return slices.DeleteFunc([]protocol.Name{protocol.Anthropic, protocol.OpenAIResponses, protocol.Gemini},
			func(p protocol.Name) bool { return p == t.Protocol })
	}
	return nil
}

// Convert makes the call that a candidate of another protocol gets of the body that
// was inspected. It fails with RequestNotSupported for what that protocol cannot
// express, before anything is sent.
func (c *Call) Convert(body []byte, to To) (*protocol.Converted, *fault.Error) {
	if !slices.Contains(Convertible(c.target), to.Codec.Name()) {
		return nil, fault.Newf(fault.RequestNotSupported, "This call is not converted: the upstreams of this model speak %s.", to.Codec.Name())
	}
	if c.target.Op == protocol.OpCountTokens {
		return c.countIn(body, to)
	}
	conv := &protocol.Conversion{
		From: c.target.Protocol, To: to.Codec.Name(), Public: to.Public, Model: to.Model,
		Options: to.Options, RequestSupport: support, AnswerSupport: support,
	}
	if to.Codec.Name() == protocol.Gemini {
		return c.embedToGemini(body, to, conv)
	}
	return c.embedToOpenAI(body, to, conv)
}

// upstream is the codec of a converted call's answer.
func (c *Call) upstream(to To, t protocol.Target) *Call {
	return &Call{Codec: to.Codec, target: t, ask: c.ask}
}

// Features of embeddings that not both protocols have.
const (
	featureTaskType llm.Feature = "task_type"
	featureTitle    llm.Feature = "title"
	featureUsage    llm.Feature = "usage" // told in an answer whose provider told none
)

// support says what becomes of the features of embeddings. What an embedding is for
// changes it, so that it is not left out unless the caller says so.
func support(f llm.Feature) protocol.Support {
	switch f {
	case featureTaskType:
		return protocol.Lack(protocol.Reject)
	case featureUsage:
		return protocol.Swap(protocol.Substitute, "the gateway's estimate")
	}
	return protocol.Lack(protocol.Drop)
}
