// Package endpoint makes codecs for the operations beside generation: embeddings,
// pictures, speech, video, moderation, ranking and the counting of tokens.
//
// Such a codec is that of the caller's protocol in all that concerns errors, and its
// own in what it looks for in a request, where the request goes, and what an answer
// tells of its cost. Bodies are passed through: a look finds the model, and its name is
// all that changes.
package endpoint

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// Call is the codec of one call. What Inspect found stays in it, because an answer
// alone does not say what it cost. Unlike other codecs it serves one request, and is
// not safe for concurrent use.
type Call struct {
	protocol.Codec // of the protocol: names, errors, lists of models

	target    protocol.Target
	inspector protocol.Inspector
	ask       ask
	models    []protocol.Span // where a body of Gemini repeats the model of the path
	nested    protocol.Span   // the generation request inside a request for a count
}

// ask is what a request asks for, as far as it bears on cost and conversion.
type ask struct {
	tokens  int64  // of all texts, estimated at four bytes each
	images  int64  // to be made
	seconds int64  // of video to be made
	audio   int64  // seconds of audio sent, estimated
	format  string // of audio to be made, or of a transcript
}

// For returns the codec of an operation: base itself for generation and for lists of
// models, else a Call, a Job, a Kept, a Raw or a Session.
func For(base protocol.Codec, t protocol.Target) protocol.Codec {
	if t.Op == protocol.OpGenerate || t.Op == protocol.OpUnknown || t.Op.Lists() {
		return base
	}
	if t.Op.Kept() {
		return &Kept{Codec: base, target: t}
	}
	if t.Op == protocol.OpRaw {
		return &Raw{Codec: base, target: t}
	}
	if t.Op.Session() {
		return &Session{Codec: base, target: t}
	}
	c := &Call{Codec: base, target: t}
	if keepsJob(t.Op) {
		return Job{c}
	}
	return c
}

// Inspect reads a request body once, strictly.
func (c *Call) Inspect(body []byte, t protocol.Target) (*protocol.Shape, *fault.Error) {
	c.target = t
	c.ask, c.models, c.nested = ask{}, nil, protocol.Span{}
	if t.Op.ByObject() && t.Op != protocol.OpVideoRemix {
		// No body counts. The ids in all answers but a video itself are changed.
		return &protocol.Shape{Choices: 1, Store: t.Op != protocol.OpVideoContent}, nil
	}
	switch t.Op {
	case protocol.OpCountTokens, protocol.OpCompact:
		return c.inspectPrompt(body)
	case protocol.OpEmbed, protocol.OpEmbedBatch:
		return c.inspectEmbed(body)
	case protocol.OpPredict, protocol.OpPredictLong:
		return c.inspectInstances(body)
	}
	return c.inspectFields(body)
}

// Outgoing is the caller's body with the upstream's model in it, and nothing for a call
// that has no body.
func (c *Call) Outgoing(body []byte, s *protocol.Shape, model string, o protocol.Outgoing) [][]byte {
	switch {
	case c.target.Method != "":
		return nil
	case c.target.Boundary != "":
		edits := o.Edits
		if !s.ModelSpan.IsZero() && s.Model != model {
			edits = append(edits, protocol.Edit{At: s.ModelSpan, Text: []byte(model)})
		}
		return protocol.Splice(body, edits)
	case len(c.models) > 0:
		edits := o.Edits
		name := wirejson.AppendString(nil, c.resource(model))
		for _, at := range c.models {
			if !bytes.Equal(at.Of(body), name) {
				edits = append(edits, protocol.Edit{At: at, Text: name})
			}
		}
		return protocol.Splice(body, edits)
	}
	return c.Codec.Outgoing(body, s, model, protocol.Outgoing{Edits: o.Edits})
}

// UpstreamURL is what follows an upstream's base URL.
func (c *Call) UpstreamURL(t protocol.Target, model string) (path, rawQuery string) {
	return URL(c.Codec, t, model)
}

// URL is what follows the base URL of an upstream that speaks the protocol of base.
func URL(base protocol.Codec, t protocol.Target, model string) (path, rawQuery string) {
	rawQuery = protocol.ForwardQuery(t.RawQuery)
	switch t.Protocol {
	case protocol.Anthropic:
		return "/v1/messages/count_tokens", rawQuery
	case protocol.Gemini:
		if t.Op == protocol.OpGetOperation {
			return "/" + t.Version + "/" + escapePath(t.Object), rawQuery
		}
		t.Stream = false
		path, _ = base.UpstreamURL(t, model)
		return strings.TrimSuffix(path, generateAction) + ":" + protocol.ActionName(t.Op), rawQuery
	}
	return openaiPath(t), rawQuery
}

const generateAction = ":generateContent"

func openaiPath(t protocol.Target) string {
	switch t.Op {
	case protocol.OpCountTokens:
		return "/responses/input_tokens"
	case protocol.OpCompact:
		return "/responses/compact"
	case protocol.OpEmbed:
		return "/embeddings"
	case protocol.OpImage:
		return "/images/generations"
	case protocol.OpImageEdit:
		return "/images/edits"
	case protocol.OpImageVariation:
		return "/images/variations"
	case protocol.OpSpeech:
		return "/audio/speech"
	case protocol.OpTranscribe:
		return "/audio/transcriptions"
	case protocol.OpTranslate:
		return "/audio/translations"
	case protocol.OpVideo, protocol.OpVideoList:
		return "/videos"
	case protocol.OpVideoGet, protocol.OpVideoDelete:
		return "/videos/" + escapePath(t.Object)
	case protocol.OpVideoContent:
		return "/videos/" + escapePath(t.Object) + "/content"
	case protocol.OpVideoRemix:
		return "/videos/" + escapePath(t.Object) + "/remix"
	case protocol.OpModerate:
		return "/moderations"
	}
	return "/rerank"
}

func escapePath(name string) string {
	segments := strings.Split(name, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}

// resource is how a body of Gemini names a model.
func (c *Call) resource(model string) string {
	path, _ := c.Codec.UpstreamURL(protocol.Target{Protocol: protocol.Gemini, Version: "v1beta"}, model)
	name, err := url.PathUnescape(strings.TrimSuffix(strings.TrimPrefix(path, "/v1beta/"), generateAction))
	if err != nil {
		return model
	}
	return name
}

// Estimate is what the call uses as far as the request alone says, for a ledger that
// gets no better account.
func (c *Call) Estimate() llm.Usage {
	switch c.target.Op {
	case protocol.OpImage, protocol.OpImageEdit, protocol.OpImageVariation, protocol.OpPredict:
		return llm.Usage{Images: c.ask.images}
	case protocol.OpTranscribe, protocol.OpTranslate:
		return llm.Usage{AudioSeconds: c.ask.audio}
	case protocol.OpVideo, protocol.OpVideoRemix, protocol.OpPredictLong:
		return llm.Usage{VideoSeconds: c.ask.seconds}
	case protocol.OpModerate:
		return llm.Usage{}
	}
	return llm.Usage{Input: c.ask.tokens}
}

// tokensOf estimates the tokens of a text by its length in bytes.
func tokensOf(bytes int64) int64 { return (bytes + 3) / 4 }
