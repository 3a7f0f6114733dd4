// Package openairesponses is the codec of OpenAI's Responses protocol.
package openairesponses

import (
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaierror"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// Codec is the codec. It is safe for concurrent use.
type Codec struct {
	inspector protocol.Inspector
	answers   sync.Pool        // of *stream, kept for the buffers of their readers
	models    openaichat.Codec // the vendor has one model list for both protocols
	decoders  decoders
}

var _ protocol.Codec = (*Codec)(nil)

// New returns the codec.
func New() *Codec { return &Codec{} }

// Name is protocol.OpenAIResponses.
func (*Codec) Name() protocol.Name { return protocol.OpenAIResponses }

// UpstreamURL follows the vendor's convention that a base URL ends in /v1.
func (*Codec) UpstreamURL(t protocol.Target, _ string) (path, rawQuery string) {
	return "/responses", protocol.ForwardQuery(t.RawQuery)
}

// Outgoing splices the model. Usage is always reported.
func (*Codec) Outgoing(body []byte, s *protocol.Shape, model string, o protocol.Outgoing) [][]byte {
	return protocol.Splice(body, append(s.ModelEdit(model), o.Edits...))
}

// EncodeError renders OpenAI's error object.
func (*Codec) EncodeError(f *fault.Error, requestID string) protocol.Rendered {
	return openaierror.Encode(f, requestID)
}

// StreamError is an error event and, once a response was announced, the
// response.failed that ends it: SDKs hand both to the caller as ordinary events,
// and many programs wait for the latter alone. Sequence numbers go on from the
// last event that d saw.
func (*Codec) StreamError(f *fault.Error, requestID string, d protocol.StreamDecoder) []byte {
	s, _ := d.(*stream)
	if s == nil {
		s = new(stream)
	}
	outcome := protocol.StreamOutcome(f)
	b := wirejson.AppendStringMember([]byte{'{'}, "type", "error")
	b = wirejson.AppendStringMember(b, "code", openaierror.Code(f))
	b = wirejson.AppendStringMember(b, "message", f.Text())
	b = openaierror.AppendParam(b, f.Param)
	b = wirejson.AppendIntMember(b, "sequence_number", s.next)
	b = append(protocol.AppendGateway(b, f, requestID, outcome), '}')
	out := sse.AppendEvent(nil, "error", b)
	if s.ID == "" {
		return out
	}

	b = wirejson.AppendStringMember([]byte{'{'}, "type", "response.failed")
	b = wirejson.AppendIntMember(b, "sequence_number", s.next+1)
	b = append(wirejson.AppendMember(b, "response"), '{')
	b = wirejson.AppendStringMember(b, "id", s.ID)
	b = wirejson.AppendStringMember(b, "object", "response")
	b = wirejson.AppendIntMember(b, "created_at", s.created)
	b = wirejson.AppendStringMember(b, "status", "failed")
	b = append(wirejson.AppendMember(b, "error"), '{')
	b = wirejson.AppendStringMember(b, "code", failedCode(f))
	b = append(wirejson.AppendStringMember(b, "message", f.Text()), '}')
	b = append(wirejson.AppendMember(b, "incomplete_details"), "null"...)
	b = wirejson.AppendStringMember(b, "model", s.Model)
	b = append(wirejson.AppendMember(b, "output"), "[]"...)
	b = append(wirejson.AppendMember(b, "usage"), "null"...)
	b = append(protocol.AppendGateway(b, f, requestID, outcome), "}}"...)
	return sse.AppendEvent(out, "response.failed", b)
}

// failedCode is one of the codes that the vendor's schema lists for a failed
// response; strict clients know no others.
func failedCode(f *fault.Error) string {
	if f.Status() == http.StatusTooManyRequests {
		return "rate_limit_exceeded"
	}
	return "server_error"
}

// ModelList renders all models; OpenAI's list has no pages.
func (c *Codec) ModelList(models []protocol.ModelInfo, query url.Values) ([]byte, *fault.Error) {
	return c.models.ModelList(models, query)
}

// ModelGet renders one model.
func (c *Codec) ModelGet(m protocol.ModelInfo) []byte { return c.models.ModelGet(m) }

// Classify makes a fault of an error answer.
func (*Codec) Classify(status int, header http.Header, body []byte, now time.Time) *fault.Error {
	return protocol.ClassifyBody(status, header, body, now)
}
