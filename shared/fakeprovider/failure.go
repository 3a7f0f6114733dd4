package fakeprovider

import (
	"net/http"
	"strconv"
	"time"
)

// ErrorKind names an error that every vendor has in its own form.
type ErrorKind string

// Error kinds, with the status of OpenAI and Anthropic where both agree.
const (
	BadRequest        ErrorKind = "bad_request"             // 400
	ContextTooLong    ErrorKind = "context_length_exceeded" // 400
	Unauthorized      ErrorKind = "unauthorized"            // 401
	Forbidden         ErrorKind = "forbidden"               // 403
	ModelNotFound     ErrorKind = "model_not_found"         // 404
	NotFound          ErrorKind = "not_found"               // 404
	MethodNotAllowed  ErrorKind = "method_not_allowed"      // 405
	TooLarge          ErrorKind = "request_too_large"       // 413
	RateLimited       ErrorKind = "rate_limited"            // 429
	InsufficientQuota ErrorKind = "insufficient_quota"      // 429; Anthropic 402 billing_error
	SpendLimit        ErrorKind = "spend_limit"             // Anthropic 400; others as InsufficientQuota
	ServerError       ErrorKind = "server_error"            // 500
	Unavailable       ErrorKind = "unavailable"             // 503
	Timeout           ErrorKind = "timeout"                 // 504
	Overloaded        ErrorKind = "overloaded"              // 529; OpenAI and Gemini 503
)

// Failure is an error answer.
type Failure struct {
	// Kind chooses status and body. Default ServerError.
	Kind ErrorKind `json:"kind,omitempty"`

	// Status, if not 0, is sent in place of the kind's own.
	Status int `json:"status,omitempty"`

	// Message is the text for people. Default: one that fits the kind.
	Message string `json:"message,omitempty"`

	// Param is the request field at fault, where the vendor tells it.
	Param string `json:"param,omitempty"`

	// RetryAfter is told in a retry-after header, in whole seconds rounded up, and
	// by Gemini in the body. 0 tells nothing.
	RetryAfter time.Duration `json:"-"`

	// Body, if not nil, is sent verbatim in place of the vendor's body, as BodyType
	// (default application/json).
	Body     []byte `json:"-"`
	BodyType string `json:"body_type,omitempty"`
}

// Fail is a Step that answers with an error of the given kind.
func Fail(kind ErrorKind) Step { return Step{Fail: &Failure{Kind: kind}} }

// FailRetryAfter is Fail with a wait for the client.
func FailRetryAfter(kind ErrorKind, wait time.Duration) Step {
	return Step{Fail: &Failure{Kind: kind, RetryAfter: wait}}
}

// kindRow is one error in the words of each vendor.
type kindRow struct {
	status, anthropicStatus, geminiStatus int

	openaiType, openaiCode string
	anthropicType          string
	geminiWord             string
	message                string
}

// kindRows follows the vendors' published error tables.
func kindRows(k ErrorKind) kindRow {
	switch k {
	case BadRequest:
		return kindRow{400, 400, 400, "invalid_request_error", "", "invalid_request_error", "INVALID_ARGUMENT", "the request is not valid"}
	case ContextTooLong:
		return kindRow{400, 400, 400, "invalid_request_error", "context_length_exceeded", "invalid_request_error", "INVALID_ARGUMENT", "the prompt is too long for the context window of this model"}
	case Unauthorized:
		return kindRow{401, 401, 401, "invalid_request_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED", "the API key is not valid"}
	case Forbidden:
		return kindRow{403, 403, 403, "invalid_request_error", "permission_denied", "permission_error", "PERMISSION_DENIED", "the API key has no permission for this"}
	case ModelNotFound:
		return kindRow{404, 404, 404, "invalid_request_error", "model_not_found", "not_found_error", "NOT_FOUND", "the model does not exist or this key has no access to it"}
	case NotFound:
		return kindRow{404, 404, 404, "invalid_request_error", "unknown_url", "not_found_error", "NOT_FOUND", "there is nothing at this address"}
	case MethodNotAllowed:
		return kindRow{405, 405, 405, "invalid_request_error", "method_not_allowed", "invalid_request_error", "INVALID_ARGUMENT", "this address does not take this method"}
	case TooLarge:
		return kindRow{413, 413, 413, "invalid_request_error", "request_too_large", "request_too_large", "INVALID_ARGUMENT", "the request body is too large"}
	case RateLimited:
		return kindRow{429, 429, 429, "requests", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED", "the rate limit of this key is reached"}
	case InsufficientQuota:
		return kindRow{429, 402, 429, "insufficient_quota", "insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED", "the quota of this account is used up"}
	case SpendLimit:
		return kindRow{429, 400, 429, "insufficient_quota", "insufficient_quota", "invalid_request_error", "RESOURCE_EXHAUSTED", "the spend limit set for this account is reached"}
	case Unavailable:
		return kindRow{503, 503, 503, "server_error", "service_unavailable", "api_error", "UNAVAILABLE", "the service is unavailable"}
	case Timeout:
		return kindRow{504, 504, 504, "server_error", "timeout", "timeout_error", "DEADLINE_EXCEEDED", "the request took too long"}
	case Overloaded:
		return kindRow{503, 529, 503, "server_error", "overloaded", "overloaded_error", "UNAVAILABLE", "the model is overloaded"}
	default:
		return kindRow{500, 500, 500, "server_error", "server_error", "api_error", "INTERNAL", "the server had an error"}
	}
}

// rendered is a failure in one vendor's form.
type rendered struct {
	kindRow
	code    int
	message string
	param   string
	wait    time.Duration
	kind    ErrorKind
}

func (f Failure) render(p Protocol) rendered {
	row := kindRows(f.Kind)
	r := rendered{kindRow: row, code: row.status, message: row.message, param: f.Param, wait: f.RetryAfter, kind: f.Kind}
	switch p {
	case Anthropic:
		r.code = row.anthropicStatus
	case Gemini:
		r.code = row.geminiStatus
	}
	if f.Status != 0 {
		r.code = f.Status
	}
	if f.Message != "" {
		r.message = f.Message
	}
	return r
}

// openai is the error object both OpenAI protocols share.
func (r rendered) openai() object {
	return obj("message", r.message, "type", r.openaiType, "param", nullable(r.param), "code", nullable(r.openaiCode))
}

func (r rendered) anthropic(requestID string) object {
	e := obj("type", r.anthropicType, "message", r.message)
	if r.kind == SpendLimit {
		e = e.with("details", obj("error_code", "spend_limit_reached"))
	}
	return obj("type", "error", "error", e, "request_id", requestID)
}

func (r rendered) gemini() object {
	e := obj("code", r.code, "message", r.message, "status", r.geminiWord)
	details := list{}
	switch r.kind {
	case Unauthorized:
		details = append(details, obj("@type", "type.googleapis.com/google.rpc.ErrorInfo",
			"reason", "API_KEY_INVALID", "domain", "googleapis.com"))
	case InsufficientQuota, SpendLimit, RateLimited:
		id := "GenerateRequestsPerMinutePerProjectPerModel"
		if r.kind != RateLimited {
			id = "GenerateRequestsPerDayPerProjectPerModel"
		}
		details = append(details, obj("@type", "type.googleapis.com/google.rpc.QuotaFailure",
			"violations", list{obj("quotaId", id)}))
	}
	if r.wait > 0 {
		details = append(details, obj("@type", "type.googleapis.com/google.rpc.RetryInfo",
			"retryDelay", strconv.FormatFloat(r.wait.Seconds(), 'f', -1, 64)+"s"))
	}
	if len(details) > 0 {
		e = e.with("details", details)
	}
	return obj("error", e)
}

// body is the whole answer of a failed request.
func (r rendered) body(p Protocol, requestID string, asList bool) []byte {
	switch p {
	case Anthropic:
		return appendJSON(nil, r.anthropic(requestID))
	case Gemini:
		if asList {
			return appendJSON(nil, list{r.gemini()})
		}
		return appendJSON(nil, r.gemini())
	}
	return appendJSON(nil, obj("error", r.openai()))
}

// writeFailure answers c's request with f.
func (c *call) writeFailure(f Failure) {
	r := f.render(c.protocol)
	h := c.w.Header()
	if f.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((f.RetryAfter+time.Second-1)/time.Second), 10))
	}
	body := r.body(c.protocol, c.requestID, c.asList)
	kind := "application/json"
	if f.Body != nil {
		body = f.Body
		if f.BodyType != "" {
			kind = f.BodyType
		}
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(r.code)
	if c.r.Method != http.MethodHead {
		if _, err := c.w.Write(body); err != nil {
			c.outcome = Canceled
			return
		}
	}
	c.outcome = Completed
}
