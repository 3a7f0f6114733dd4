// Package gemini is the codec of Google's generateContent protocol.
//
// A stream asked for without alt=sse is one JSON array of partial answers. It is
// passed through as a whole answer is; only its usage is read.
package gemini

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// Bounds of a page of the model list, as the vendor documents them.
const (
	defaultPage = 50
	maxPage     = 1000
)

// Codec is the codec. It is safe for concurrent use.
type Codec struct {
	inspector protocol.Inspector
	answers   sync.Pool // of *stream, kept for the buffers of their readers
	requests  requests
}

var (
	_ protocol.Codec     = (*Codec)(nil)
	_ protocol.Converter = (*Codec)(nil)
)

// New returns the codec.
func New() *Codec { return &Codec{} }

// Name is protocol.Gemini.
func (*Codec) Name() protocol.Name { return protocol.Gemini }

// UpstreamURL follows the vendor's convention that a base URL has no version. The
// version the client chose is kept.
func (*Codec) UpstreamURL(t protocol.Target, model string) (path, rawQuery string) {
	version := t.Version
	if version == "" {
		version = "v1beta"
	}
	action := "generateContent"
	if t.Stream {
		action = "streamGenerateContent"
	}
	segments := strings.Split(resource(model), "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return "/" + version + "/" + strings.Join(segments, "/") + ":" + action, protocol.ForwardQuery(t.RawQuery)
}

// resource is the resource name of a model, which may name its collection itself.
func resource(model string) string {
	for _, collection := range [...]string{"models/", "tunedModels/", "publishers/", "projects/"} {
		if strings.HasPrefix(model, collection) {
			return model
		}
	}
	return "models/" + model
}

// Outgoing leaves the body as it is, but for a model that it names beside the path.
func (*Codec) Outgoing(body []byte, s *protocol.Shape, model string, o protocol.Outgoing) [][]byte {
	edits := o.Edits
	if !s.ModelSpan.IsZero() && s.Model != model {
		edits = append([]protocol.Edit{{At: s.ModelSpan, Text: wirejson.AppendString(nil, resource(model))}}, edits...)
	}
	return protocol.Splice(body, edits)
}

// EncodeError renders Google's error object.
func (*Codec) EncodeError(f *fault.Error, requestID string) protocol.Rendered {
	return protocol.Rendered{Status: protocol.ErrorStatus(f), Header: protocol.ErrorHeader(f), Body: appendError(nil, f, requestID, f.Outcome())}
}

// StreamError is a data line with an error object. It has no event line, and its
// blank line is the vendor's: the Go SDK takes anything else for garbage.
func (*Codec) StreamError(f *fault.Error, requestID string, _ protocol.StreamDecoder) []byte {
	return append(appendError([]byte("data: "), f, requestID, protocol.StreamOutcome(f)), "\r\n\r\n"...)
}

func appendError(dst []byte, f *fault.Error, requestID, outcome string) []byte {
	status := protocol.ErrorStatus(f)
	dst = append(dst, `{"error":{`...)
	dst = wirejson.AppendIntMember(dst, "code", int64(status))
	dst = wirejson.AppendStringMember(dst, "message", f.Text())
	dst = wirejson.AppendStringMember(dst, "status", statusWord(status))
	dst = append(appendDetails(dst, f), ']')
	return append(protocol.AppendGateway(dst, f, requestID, outcome), "}}"...)
}

// appendDetails appends the typed details of google.rpc: ErrorInfo always,
// RetryInfo for a wait, QuotaFailure for limits, BadRequest for a named field.
func appendDetails(dst []byte, f *fault.Error) []byte {
	dst = append(wirejson.AppendMember(dst, "details"), `[{"@type":"type.googleapis.com/google.rpc.ErrorInfo"`...)
	dst = wirejson.AppendStringMember(dst, "reason", strings.ToUpper(f.StableCode()))
	dst = append(wirejson.AppendStringMember(dst, "domain", "gateway"), '}')
	if f.RetryAfter > 0 {
		ms := f.RetryAfter.Milliseconds()
		delay := strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64) + "s"
		dst = append(dst, `,{"@type":"type.googleapis.com/google.rpc.RetryInfo"`...)
		dst = append(wirejson.AppendStringMember(dst, "retryDelay", delay), '}')
	}
	switch f.Class {
	case fault.BudgetExceeded, fault.CreditExhausted:
		subject := "credit"
		if f.Gateway != nil && f.Gateway.Limit != nil {
			subject = f.Gateway.Limit.ID
		}
		dst = append(dst, `,{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{`...)
		dst = wirejson.AppendStringMember(dst, "subject", subject)
		dst = append(wirejson.AppendStringMember(dst, "description", f.Text()), "}]}"...)
	}
	if f.Param != "" && f.Status() == http.StatusBadRequest {
		dst = append(dst, `,{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{`...)
		dst = wirejson.AppendStringMember(dst, "field", f.Param)
		dst = append(wirejson.AppendStringMember(dst, "description", f.Text()), "}]}"...)
	}
	return dst
}

func statusWord(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusPaymentRequired, http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case 499:
		return "CANCELLED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if status >= 500 {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}

// ModelList renders a page of models: pageSize (default 50, more than 1000 counts
// as 1000) of them after those that pageToken stands for.
func (*Codec) ModelList(models []protocol.ModelInfo, query url.Values) ([]byte, *fault.Error) {
	size := defaultPage
	if v := query.Get("pageSize"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return nil, &fault.Error{Class: fault.InvalidRequest, Param: "pageSize", Public: "The parameter pageSize must be a number, at most 1000."}
		}
		if n > 0 {
			size = min(n, maxPage)
		}
	}
	from := 0
	if token := query.Get("pageToken"); token != "" {
		last, err := base64.RawURLEncoding.DecodeString(token)
		at := indexOf(models, string(last))
		if err != nil || at < 0 {
			return nil, &fault.Error{Class: fault.InvalidRequest, Param: "pageToken", Public: "The parameter pageToken is not one of this list. Start again without it."}
		}
		from = at + 1
	}
	to := min(from+size, len(models))
	b := []byte(`{"models":[`)
	for i, m := range models[from:to] {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendModel(b, m)
	}
	b = append(b, ']')
	if to < len(models) {
		b = wirejson.AppendStringMember(b, "nextPageToken", base64.RawURLEncoding.EncodeToString([]byte(models[to-1].ID)))
	}
	return append(b, '}'), nil
}

func indexOf(models []protocol.ModelInfo, id string) int {
	for i, m := range models {
		if m.ID == id {
			return i
		}
	}
	return -1
}

// ModelGet renders one model.
func (*Codec) ModelGet(m protocol.ModelInfo) []byte { return appendModel(nil, m) }

func appendModel(b []byte, m protocol.ModelInfo) []byte {
	name := m.DisplayName
	if name == "" {
		name = m.ID
	}
	b = wirejson.AppendStringMember(append(b, '{'), "name", resource(m.ID))
	b = wirejson.AppendStringMember(b, "displayName", name)
	if m.MaxInputTokens > 0 {
		b = wirejson.AppendIntMember(b, "inputTokenLimit", m.MaxInputTokens)
	}
	if m.MaxOutputTokens > 0 {
		b = wirejson.AppendIntMember(b, "outputTokenLimit", m.MaxOutputTokens)
	}
	b = append(wirejson.AppendMember(b, "supportedGenerationMethods"), '[')
	if !m.EmbedsOnly {
		b = append(b, `"generateContent",`...)
	}
	if m.Embeds {
		b = append(b, `"embedContent","batchEmbedContents",`...)
	}
	return append(b, `"countTokens"]}`...)
}

// Classify makes a fault of an error answer.
func (*Codec) Classify(status int, header http.Header, body []byte, now time.Time) *fault.Error {
	return protocol.ClassifyBody(status, header, body, now)
}
