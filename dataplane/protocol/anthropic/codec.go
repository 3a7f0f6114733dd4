// Package anthropic is the codec of Anthropic's Messages protocol.
package anthropic

import (
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// statusOverloaded is the status by which Anthropic says that it is overloaded.
const statusOverloaded = 529

// Bounds of a page of the model list, as the vendor documents them.
const (
	defaultPage = 20
	maxPage     = 1000
)

// Codec is the codec. It is safe for concurrent use.
type Codec struct {
	inspector protocol.Inspector
	answers   sync.Pool // of *stream, kept for the buffers of their readers
	requests  readers
}

var _ protocol.Codec = (*Codec)(nil)

// New returns the codec.
func New() *Codec { return &Codec{} }

// Name is protocol.Anthropic.
func (*Codec) Name() protocol.Name { return protocol.Anthropic }

// UpstreamURL follows the vendor's convention that a base URL has no version.
func (*Codec) UpstreamURL(t protocol.Target, _ string) (path, rawQuery string) {
	return "/v1/messages", protocol.ForwardQuery(t.RawQuery)
}

// Outgoing splices the model. Usage is always reported.
func (*Codec) Outgoing(body []byte, s *protocol.Shape, model string, o protocol.Outgoing) [][]byte {
	return protocol.Splice(body, append(s.ModelEdit(model), o.Edits...))
}

// EncodeError renders Anthropic's error object. Its clients know no 503: what is
// unavailable is overloaded (529). Used-up credit is a 402.
func (*Codec) EncodeError(f *fault.Error, requestID string) protocol.Rendered {
	status := statusOf(f)
	h := protocol.ErrorHeader(f)
	addLimitHeaders(h, f)
	h.Set("Request-Id", requestID)
	return protocol.Rendered{Status: status, Header: h, Body: appendError(nil, f, status, requestID, f.Outcome())}
}

// StreamError is an error event, the only event these SDKs raise.
func (*Codec) StreamError(f *fault.Error, requestID string, _ protocol.StreamDecoder) []byte {
	return sse.AppendEvent(nil, "error", appendError(nil, f, statusOf(f), requestID, protocol.StreamOutcome(f)))
}

func statusOf(f *fault.Error) int {
	status := protocol.ErrorStatus(f)
	switch {
	case status == http.StatusServiceUnavailable:
		return statusOverloaded
	case f.Class == fault.CreditExhausted && f.HTTPStatus == 0:
		return http.StatusPaymentRequired
	}
	return status
}

func appendError(dst []byte, f *fault.Error, status int, requestID, outcome string) []byte {
	dst = append(dst, `{"type":"error","error":{`...)
	dst = wirejson.AppendStringMember(dst, "type", typeOf(status))
	dst = wirejson.AppendStringMember(dst, "message", f.Text())
	dst = append(protocol.AppendGateway(dst, f, requestID, outcome), '}')
	return append(wirejson.AppendStringMember(dst, "request_id", requestID), '}')
}

func typeOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusConflict:
		return "conflict_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "timeout_error"
	case statusOverloaded:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// addLimitHeaders tells the limit that refused in Anthropic's own limit headers.
func addLimitHeaders(h http.Header, f *fault.Error) {
	if f.Gateway == nil || f.Gateway.Limit == nil || f.Gateway.Limit.Hidden {
		return
	}
	l := f.Gateway.Limit
	var kind string
	switch l.Dimension {
	case "requests":
		kind = "Requests"
	case "total_tokens":
		kind = "Tokens"
	case "input_tokens":
		kind = "Input-Tokens"
	case "output_tokens":
		kind = "Output-Tokens"
	default:
		return
	}
	prefix := "Anthropic-Ratelimit-" + kind
	h.Set(prefix+"-Limit", strconv.FormatInt(l.Amount, 10))
	h.Set(prefix+"-Remaining", strconv.FormatInt(protocol.LimitRemaining(l), 10))
	if !l.ResetsAt.IsZero() {
		h.Set(prefix+"-Reset", l.ResetsAt.UTC().Format(time.RFC3339))
	}
}

// ModelList renders a page of models: limit (1 to 1000, default 20) of them after
// after_id or before before_id.
func (*Codec) ModelList(models []protocol.ModelInfo, query url.Values) ([]byte, *fault.Error) {
	limit := defaultPage
	if v := query.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxPage {
			return nil, &fault.Error{Class: fault.InvalidRequest, Param: "limit", Public: "The parameter limit must be a number from 1 to 1000."}
		}
		limit = n
	}
	from, to := 0, len(models)
	before := query.Get("before_id")
	for param, id := range map[string]string{"after_id": query.Get("after_id"), "before_id": before} {
		if id == "" {
			continue
		}
		at := indexOf(models, id)
		if at < 0 {
			return nil, &fault.Error{Class: fault.InvalidRequest, Param: param, Public: "The parameter " + param + " names no model of the list."}
		}
		if param == "after_id" {
			from = at + 1
		} else {
			to = at
		}
	}
	from = min(from, to)
	more := to-from > limit
	if more && before != "" {
		from = to - limit
	} else if more {
		to = from + limit
	}

	page := models[from:to]
	b := []byte(`{"data":[`)
	for i, m := range page {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendModel(b, m)
	}
	b = strconv.AppendBool(append(b, `],"has_more":`...), more)
	if len(page) == 0 {
		return append(b, `,"first_id":null,"last_id":null}`...), nil
	}
	b = wirejson.AppendStringMember(b, "first_id", page[0].ID)
	return append(wirejson.AppendStringMember(b, "last_id", page[len(page)-1].ID), '}'), nil
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
	created := m.Created
	if created.IsZero() {
		created = time.Unix(0, 0) // what the vendor shows for an unknown date
	}
	b = wirejson.AppendStringMember(append(b, '{'), "type", "model")
	b = wirejson.AppendStringMember(b, "id", m.ID)
	b = wirejson.AppendStringMember(b, "display_name", name)
	b = wirejson.AppendStringMember(b, "created_at", created.UTC().Format(time.RFC3339))
	if m.MaxInputTokens > 0 {
		b = wirejson.AppendIntMember(b, "max_input_tokens", m.MaxInputTokens)
	}
	if m.MaxOutputTokens > 0 {
		b = wirejson.AppendIntMember(b, "max_tokens", m.MaxOutputTokens)
	}
	return append(wirejson.AppendStringMember(b, "lifecycle", "active"), '}')
}

// Classify makes a fault of an error answer.
func (*Codec) Classify(status int, header http.Header, body []byte, now time.Time) *fault.Error {
	return protocol.ClassifyBody(status, header, body, now)
}
