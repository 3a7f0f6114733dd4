package protocol

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// MaxErrorBody is how much of an upstream's error body is looked at, in bytes.
const MaxErrorBody = 64 << 10

// maxRetryAfter caps an announced wait: a longer one is a mistake or an attack.
const maxRetryAfter = 24 * time.Hour

// maxPublic is how much of an upstream's message a caller gets to see, in bytes.
const maxPublic = 2000

// ErrorInfo is what an upstream said about its failure, in whatever shape.
type ErrorInfo struct {
	Type       string // OpenAI and Anthropic: type; Gemini: status
	Code       string // OpenAI: code
	Detail     string // Anthropic: details.error_code; Gemini: reason of an ErrorInfo
	Message    string
	Param      string
	Number     int // a numeric code, which is an HTTP status
	RetryDelay time.Duration
	RequestID  string
}

// ParseError reads an error in the shape of any of the protocols: an "error"
// object or text, the same in an array, or its members at top level. It reports
// false if data holds no such thing. A cut body gives what stood before the cut.
func ParseError(data []byte) (ErrorInfo, bool) {
	var e ErrorInfo
	var r wirejson.Reader
	r.ResetLenient(data[:min(len(data), MaxErrorBody)])
	found := false
	if r.Kind() == '[' {
		if r.Enter('[') {
			for r.Next() {
				if !found {
					found = e.readTop(&r)
				}
			}
		}
		return e, found
	}
	return e, e.readTop(&r)
}

func (e *ErrorInfo) readTop(r *wirejson.Reader) bool {
	found := false
	if !r.Enter('{') {
		return false
	}
	for r.Next() {
		switch string(r.Name()) {
		case "error":
			found = e.ReadMember(r) || found
		case "request_id":
			e.RequestID, _ = r.String(MaxHint)
		case "message", "detail":
			if m, ok := r.String(MaxErrorBody); ok {
				e.Message, found = m, true
			}
		case "code":
			e.readCode(r)
		case "param":
			e.Param, _ = r.String(MaxHint)
		case "type":
			if t, _ := r.String(MaxHint); t != "error" && !strings.HasPrefix(t, "response.") && e.Type == "" {
				e.Type = t
			}
		}
	}
	return found
}

// ReadMember reads the value of an "error" member, an object or a text. It reports
// false, and skips the value, if it is neither, as for null.
func (e *ErrorInfo) ReadMember(r *wirejson.Reader) bool {
	switch r.Kind() {
	case '{':
		e.readObject(r)
		return true
	case '"':
		e.Message, _ = r.String(MaxErrorBody)
		return true
	}
	r.Skip()
	return false
}

func (e *ErrorInfo) readObject(r *wirejson.Reader) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "type", "status":
			if t, ok := r.String(MaxHint); ok {
				e.Type = t
			}
		case "code":
			e.readCode(r)
		case "message":
			e.Message, _ = r.String(MaxErrorBody)
		case "param":
			e.Param, _ = r.String(MaxHint)
		case "details":
			e.readDetails(r)
		case "innererror": // Azure
			if r.Enter('{') {
				for r.Next() {
					if string(r.Name()) == "code" {
						e.Detail, _ = r.String(MaxHint)
					}
				}
			}
		}
	}
}

func (e *ErrorInfo) readCode(r *wirejson.Reader) {
	if r.Kind() == '0' {
		n, _ := r.Int()
		if n >= 100 && n < 1000 {
			e.Number = int(n)
		}
		return
	}
	if c, ok := r.String(MaxHint); ok {
		e.Code = c
		if n, err := strconv.Atoi(c); err == nil && n >= 100 && n < 1000 {
			e.Number = n
		}
	}
}

// readDetails reads Anthropic's details object or Gemini's list of typed details.
func (e *ErrorInfo) readDetails(r *wirejson.Reader) {
	if r.Kind() == '[' {
		r.Enter('[')
		for r.Next() {
			e.readDetail(r)
		}
		return
	}
	e.readDetail(r)
}

func (e *ErrorInfo) readDetail(r *wirejson.Reader) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "error_code", "reason":
			if v, ok := r.String(MaxHint); ok {
				e.Detail = v
			}
		case "retryDelay":
			if v, ok := r.String(64); ok {
				if d, err := time.ParseDuration(v); err == nil && d > 0 {
					e.RetryDelay = d
				}
			}
		}
	}
}

// specific are words that say what happened better than a status does.
var specific = map[string]fault.Class{
	"insufficient_quota": fault.Quota, "credit_balance_exhausted": fault.Quota, "billing_error": fault.Quota,
	"billing_hard_limit_reached": fault.Quota, "billing_not_active": fault.Quota, "spend_limit": fault.Quota,
	"spend_limit_reached": fault.Quota, "spend_limit_exceeded": fault.Quota, "credit_balance_too_low": fault.Quota,

	"invalid_api_key": fault.Auth, "account_disabled": fault.Auth, "account_deactivated": fault.Auth,
	"authentication_error": fault.Auth, "UNAUTHENTICATED": fault.Auth, "API_KEY_INVALID": fault.Auth,
	"API_KEY_EXPIRED": fault.Auth,

	"permission_error": fault.Permission, "PERMISSION_DENIED": fault.Permission,
	"unsupported_country_region_territory": fault.Permission,

	"model_not_found": fault.ModelNotFound, "DeploymentNotFound": fault.ModelNotFound,

	"previous_response_not_found": fault.StateNotFound, "response_not_found": fault.StateNotFound,
	"conversation_not_found": fault.StateNotFound, "item_not_found": fault.StateNotFound,

	"context_length_exceeded": fault.ContextOverflow, "request_too_large": fault.TooLarge,

	"content_policy_violation": fault.Refusal, "content_policy": fault.Refusal, "content_filter": fault.Refusal,
	"ResponsibleAIPolicyViolation": fault.Refusal,

	"rate_limit_exceeded": fault.RateLimited, "rate_limit_error": fault.RateLimited, "RESOURCE_EXHAUSTED": fault.RateLimited,
	"overloaded_error": fault.Overloaded, "overloaded": fault.Overloaded, "engine_overloaded": fault.Overloaded,
	"timeout_error": fault.Timeout, "DEADLINE_EXCEEDED": fault.Timeout, "UNAVAILABLE": fault.Unavailable,
}

// general are words so broad that an error status says more. They count where
// there is no such status, as in a stream.
var general = map[string]fault.Class{
	"invalid_request_error": fault.BadRequest, "INVALID_ARGUMENT": fault.BadRequest, "FAILED_PRECONDITION": fault.BadRequest,
	"invalid_prompt": fault.BadRequest, "OUT_OF_RANGE": fault.BadRequest,
	"not_found_error": fault.ModelNotFound, "NOT_FOUND": fault.ModelNotFound,
	"conflict_error": fault.Conflict, "ABORTED": fault.Conflict,
	"server_error": fault.ServerError, "api_error": fault.ServerError, "INTERNAL": fault.ServerError, "UNKNOWN": fault.ServerError,
}

// hints are phrases by which vendors tell causes that they give no code for. They
// are looked for only where the class would otherwise be BadRequest.
var hints = []struct {
	phrase string
	class  fault.Class
}{
	{"credit balance is too low", fault.Quota},
	{"specified api usage limits", fault.Quota},
	{"spend limit", fault.Quota},
	{"spending limit", fault.Quota},
	{"prompt is too long", fault.ContextOverflow},
	{"maximum context length", fault.ContextOverflow},
	{"exceed context limit", fault.ContextOverflow},
	{"exceeds the maximum number of tokens", fault.ContextOverflow},
	{"api key not valid", fault.Auth},
	{"api key expired", fault.Auth},
}

// storedObjects are words by which a 404 speaks of a stored object, not the model.
var storedObjects = []string{"cachedcontent", "previous response", "previous_response", "conversation", "item with id", "container", "file with id", "file not found", "thread"}

// ofRequest are phrases by which vendors tell that an answer which is otherwise about the
// account is about the one request: it names an object of somebody else, or is larger than
// what the account is granted at all. Whoever sends such a request must not keep others
// from the account.
var ofRequest = map[fault.Class][]string{
	fault.Permission:  {"permission to access the file", "cachedcontent not found"},
	fault.RateLimited: {"request too large for"},
	fault.Quota:       {"fewer max_tokens"},
}

// ClassifyError makes a fault of what an upstream said. status is the HTTP status;
// below 400, as for an error in a stream or inside a 200, the words decide alone.
// header may be nil.
//
// A word that names a cause beats the status. A wait is taken from retry-after-ms,
// retry-after, or the body's RetryInfo, never from the reset times of rate limit
// windows, and is at most a day. The upstream's message is passed to the caller
// only where the request itself is at fault.
func ClassifyError(e ErrorInfo, status int, header http.Header, now time.Time) *fault.Error {
	f := &fault.Error{
		Class:             classOf(e, status),
		UpstreamStatus:    status,
		UpstreamCode:      firstOf(e.Detail, e.Code, e.Type),
		UpstreamRequestID: clip(firstOf(header.Get("X-Request-Id"), header.Get("Request-Id"), e.RequestID), MaxHint),
		RetryAfter:        retryAfter(header, e.RetryDelay, now),
	}
	if phrases := ofRequest[f.Class]; phrases != nil {
		f.OfRequest = containsAny(strings.ToLower(clip(e.Message, maxPublic)), phrases)
	}
	switch f.Class {
	case fault.BadRequest, fault.Unprocessable, fault.ContextOverflow, fault.TooLarge, fault.Refusal, fault.StateNotFound, fault.OtherRejection:
		f.Public, f.Param = scrub(e.Message), clip(e.Param, MaxHint)
	}
	return f
}

func classOf(e ErrorInfo, status int) fault.Class {
	if strings.Contains(e.Detail, "spend_limit") || strings.Contains(e.Detail, "spend_cap") {
		return fault.Quota
	}
	for _, word := range [...]string{e.Detail, e.Code, e.Type} {
		if c, ok := specific[word]; ok {
			return c
		}
	}
	lower := strings.ToLower(clip(e.Message, maxPublic))
	byStatus := status
	if byStatus < 400 {
		byStatus = e.Number
	}
	class := fault.ServerError
	if byStatus >= 400 {
		class = fault.OfStatus(byStatus)
	} else {
		for _, word := range [...]string{e.Code, e.Type} {
			if c, ok := general[word]; ok {
				class = c
				break
			}
		}
	}
	switch class {
	case fault.BadRequest:
		for _, h := range hints {
			if strings.Contains(lower, h.phrase) {
				return h.class
			}
		}
	case fault.ModelNotFound:
		if e.Param == "previous_response_id" || e.Param == "conversation" || containsAny(lower, storedObjects) {
			return fault.StateNotFound
		}
	}
	return class
}

// retryAfter is the wait an upstream asks for; 0 if it asks for none.
func retryAfter(h http.Header, delay time.Duration, now time.Time) time.Duration {
	d := delay
	if v := h.Get("Retry-After-Ms"); v != "" {
		if ms, err := strconv.ParseFloat(v, 64); err == nil && ms > 0 {
			d = bounded(ms, time.Millisecond)
		}
	} else if v := h.Get("Retry-After"); v != "" {
		if s, err := strconv.ParseFloat(v, 64); err == nil {
			if s > 0 {
				d = bounded(s, time.Second)
			}
		} else if at, err := http.ParseTime(v); err == nil {
			d = at.Sub(now)
		}
	}
	return min(max(d, 0), maxRetryAfter)
}

func bounded(n float64, unit time.Duration) time.Duration {
	if n > float64(maxRetryAfter/unit) {
		return maxRetryAfter
	}
	return time.Duration(n * float64(unit))
}

// scrub makes an upstream's message fit for the caller: bounded, without control
// characters, and without anything that looks like a credential.
func scrub(s string) string {
	s = strings.Map(func(r rune) rune {
		if isControl(r) && r != '\n' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(clip(s, maxPublic), "\uFFFD"))
	words := strings.Split(s, " ")
	for i, w := range words {
		bare := strings.TrimLeft(w, "\"'`([{<:=")
		for _, prefix := range [...]string{"sk-", "AIza", "ya29.", "eyJ", "AKIA"} {
			if strings.HasPrefix(bare, prefix) {
				words[i] = "[redacted]"
			}
		}
		if i > 0 && strings.EqualFold(words[i-1], "bearer") {
			words[i] = "[redacted]"
		}
	}
	return strings.Join(words, " ")
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// ClassifyBody is ClassifyError for a body as it came.
func ClassifyBody(status int, header http.Header, body []byte, now time.Time) *fault.Error {
	e, _ := ParseError(bytes.TrimSpace(body))
	return ClassifyError(e, status, header, now)
}
