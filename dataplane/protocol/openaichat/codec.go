// Package openaichat is the codec of OpenAI's Chat Completions protocol, which
// many other providers serve too, each with deviations that are read leniently
// here: usage in any chunk, reasoning in reasoning_content or reasoning, no [DONE].
package openaichat

import (
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaierror"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// Codec is the codec. It is safe for concurrent use.
type Codec struct {
	inspector protocol.Inspector
	answers   sync.Pool // of *stream, kept for the buffers of their readers
	decoders  decoders
}

var _ protocol.Codec = (*Codec)(nil)

// New returns the codec.
func New() *Codec { return &Codec{} }

// Name is protocol.OpenAIChat.
func (*Codec) Name() protocol.Name { return protocol.OpenAIChat }

// UpstreamURL follows the vendor's convention that a base URL ends in /v1.
func (*Codec) UpstreamURL(t protocol.Target, _ string) (path, rawQuery string) {
	return "/chat/completions", protocol.ForwardQuery(t.RawQuery)
}

// Outgoing splices the model and, where asked, stream_options.include_usage.
func (*Codec) Outgoing(body []byte, s *protocol.Shape, model string, o protocol.Outgoing) [][]byte {
	edits := append(s.ModelEdit(model), o.Edits...)
	if o.IncludeUsage && s.Stream && !s.IncludeUsage {
		edits = append(edits, includeUsage(body, s))
	}
	return protocol.Splice(body, edits)
}

// includeUsage turns the usage report on wherever the caller left room for it.
func includeUsage(body []byte, s *protocol.Shape) protocol.Edit {
	switch options := s.StreamOptions; {
	case !s.UsageSpan.IsZero(): // the caller said false or null
		return protocol.Edit{At: s.UsageSpan, Text: []byte("true")}
	case options.IsZero():
		at := protocol.Span{From: s.Open, To: s.Open}
		return protocol.Edit{At: at, Text: []byte(`"stream_options":{"include_usage":true},`)} // the body has members: the model is one
	case body[options.From] != '{': // null
		return protocol.Edit{At: options, Text: []byte(`{"include_usage":true}`)}
	default:
		at := protocol.Span{From: options.From + 1, To: options.From + 1}
		text := `"include_usage":true`
		if !emptyObject(options.Of(body)) {
			text += ","
		}
		return protocol.Edit{At: at, Text: []byte(text)}
	}
}

func emptyObject(b []byte) bool {
	for _, c := range b[1:] {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '}'
		}
	}
	return false
}

// EncodeError renders OpenAI's error object.
func (*Codec) EncodeError(f *fault.Error, requestID string) protocol.Rendered {
	return openaierror.Encode(f, requestID)
}

// StreamError is a chunk with an error object, which SDKs raise. No [DONE]
// follows: the stream did not end properly.
func (*Codec) StreamError(f *fault.Error, requestID string, _ protocol.StreamDecoder) []byte {
	return sse.AppendEvent(nil, "", openaierror.Append(nil, f, requestID, protocol.StreamOutcome(f)))
}

// ModelList renders all models; OpenAI's list has no pages.
func (*Codec) ModelList(models []protocol.ModelInfo, _ url.Values) ([]byte, *fault.Error) {
	b := []byte(`{"object":"list","data":[`)
	for i, m := range models {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendModel(b, m)
	}
	return append(b, "]}"...), nil
}

// ModelGet renders one model.
func (*Codec) ModelGet(m protocol.ModelInfo) []byte { return appendModel(nil, m) }

func appendModel(b []byte, m protocol.ModelInfo) []byte {
	owner := m.OwnedBy
	if owner == "" {
		owner = "gateway"
	}
	var created int64
	if !m.Created.IsZero() {
		created = m.Created.Unix()
	}
	b = wirejson.AppendStringMember(append(b, '{'), "id", m.ID)
	b = wirejson.AppendStringMember(b, "object", "model")
	b = wirejson.AppendIntMember(b, "created", created)
	return append(wirejson.AppendStringMember(b, "owned_by", owner), '}')
}

// Classify makes a fault of an error answer.
func (*Codec) Classify(status int, header http.Header, body []byte, now time.Time) *fault.Error {
	return protocol.ClassifyBody(status, header, body, now)
}
