package fault

// row is what the gateway does for a class. The columns of upstream failures are
// those of the failover table; the gateway's own failures consume nothing.
type row struct {
	name      string
	status    int
	code      string
	consumed  Consumption
	waitHelps bool
	text      string
}

const (
	none     = ConsumedNone
	unlikely = ConsumedUnlikely
	possible = ConsumedPossible
	certain  = ConsumedCertain
)

// rows is constant data: nothing writes it.
var rows = [endOfClasses]row{
	Internal: {"internal", 500, "internal", possible, false, "The gateway failed on this request. Report the request id to its operator."},

	Connect:         {"connect", 502, "upstream_unreachable", none, true, "The provider could not be reached. Retry later."},
	Reset:           {"reset", 502, "upstream_reset", possible, false, "The provider closed the connection before it answered."},
	Timeout:         {"timeout", 504, "upstream_timeout", possible, false, "The provider did not answer in time."},
	RequestTimeout:  {"request_timeout", 504, "upstream_timeout", possible, false, "The provider did not receive the request in time."},
	ServerError:     {"server_error", 502, "upstream_error", unlikely, true, "The provider failed on this request. Retry later."},
	Unavailable:     {"unavailable", 503, "upstream_unavailable", none, true, "The provider is unavailable. Retry later."},
	Overloaded:      {"overloaded", 503, "upstream_overloaded", none, true, "The provider is overloaded. Retry later."},
	RateLimited:     {"rate_limited", 429, "rate_limited", none, true, "The provider limits the rate of requests. Retry after the stated time."},
	Quota:           {"quota", 429, "upstream_quota", none, false, "The provider accounts behind this route have no quota left. Ask the gateway's operator."},
	Auth:            {"auth", 502, "upstream_auth", none, false, "The provider refused the gateway's credential. Ask the gateway's operator."},
	Permission:      {"permission", 502, "upstream_permission", none, false, "The provider does not permit the gateway's credential to do this. Ask the gateway's operator."},
	ModelNotFound:   {"model_not_found", 404, "model_not_found", none, false, "The provider does not know the model. Choose a model from the model list."},
	StateNotFound:   {"state_not_found", 404, "state_not_found", none, false, "A stored object that the request refers to does not exist."},
	Conflict:        {"conflict", 409, "conflict", none, true, "The request conflicts with another one. Retry."},
	ContextOverflow: {"context_overflow", 400, "context_length_exceeded", none, false, "The prompt is longer than the model's context. Shorten it or choose a model with a larger context."},
	TooLarge:        {"too_large", 413, "request_too_large", none, false, "The request is larger than the provider accepts. Make it smaller."},
	BadRequest:      {"bad_request", 400, "invalid_request", none, false, "The provider refused the request as invalid."},
	Unprocessable:   {"unprocessable", 422, "invalid_request", none, false, "The provider could not process the request."},
	Refusal:         {"refusal", 400, "content_policy", certain, false, "The provider refused the content of the request."},
	Malformed:       {"malformed", 502, "upstream_malformed", possible, false, "The provider's answer could not be read."},
	CutBeforeFirst:  {"cut_before_first", 502, "stream_incomplete", possible, false, "The provider's stream ended before its first event."},
	CutAfterFirst:   {"cut_after_first", 200, "stream_incomplete", certain, false, "The provider's stream broke before its end. The answer is incomplete."},
	ClientCanceled:  {"client_canceled", 499, "client_canceled", possible, false, "The client closed the request."},
	OtherRejection:  {"other_4xx", 400, "upstream_rejected", none, false, "The provider rejected the request."},

	InvalidRequest:      {"invalid_request", 400, "invalid_request", none, false, "The request is invalid."},
	Unauthenticated:     {"unauthenticated", 401, "unauthenticated", none, false, "No valid API key was sent. Send a key of this gateway."},
	NotPermitted:        {"not_permitted", 403, "not_permitted", none, false, "This key may not do that. Ask its owner or the gateway's operator."},
	UnknownPath:         {"unknown_path", 404, "unknown_path", none, false, "There is nothing at this path. Check the base URL and the path."},
	MethodNotAllowed:    {"method_not_allowed", 405, "method_not_allowed", none, false, "The path does not take this method."},
	BodyTooLarge:        {"body_too_large", 413, "request_too_large", none, false, "The request body is larger than this route accepts. Make it smaller."},
	HeadersTooLarge:     {"headers_too_large", 431, "headers_too_large", none, false, "The request headers are larger than the gateway accepts."},
	BodyTimeout:         {"body_timeout", 408, "request_timeout", none, true, "The request was not received in time. Send it again."},
	UnsupportedEncoding: {"unsupported_encoding", 415, "unsupported_media_type", none, false, "The body's media type or encoding cannot be read. Send plain application/json."},
	RequestNotSupported: {"request_not_supported", 400, "request_not_supported", none, false, "No model behind this route supports what the request asks for."},
	ModelUnknown:        {"model_unknown", 404, "model_not_found", none, false, "The model does not exist or is not offered here. Choose one from the model list."},
	CapacityExhausted:   {"capacity_exhausted", 429, "capacity_exhausted", none, true, "All provider accounts behind this route are at their limits. Retry after the stated time."},
	NoCandidate:         {"no_candidate", 503, "no_candidate_available", none, true, "No provider behind this route is usable now. Retry later."},
	DeadlineExceeded:    {"deadline_exceeded", 504, "deadline_exceeded", none, false, "The time allowed for the request is over."},
	ConfigUnavailable:   {"config_unavailable", 503, "config_unavailable", none, true, "The gateway has no configuration yet. Retry later."},
	ConfigStale:         {"config_stale", 503, "config_stale", none, true, "The gateway's configuration is too old to decide on this request. Retry later."},
	Draining:            {"draining", 503, "draining", none, true, "This gateway node is shutting down. Retry."},
	MeteringUnavailable: {"metering_unavailable", 503, "metering_unavailable", none, true, "The gateway cannot record usage now. Retry later."},
	CreditUnavailable:   {"credit_unavailable", 503, "credit_unavailable", none, true, "The gateway cannot check credit now. Retry later."},
	LimitExceeded:       {"limit_exceeded", 429, "rate_limit_exceeded", none, true, "A limit is reached. Retry after the stated time."},
	BudgetExceeded:      {"budget_exceeded", 429, "budget_exceeded", none, false, "A budget is used up until its period ends."},
	CreditExhausted:     {"credit_exhausted", 429, "credit_balance_exhausted", none, false, "The credit of this account is used up. Add credit."},
	RequestExceedsLimit: {"request_exceeds_limit", 400, "request_exceeds_limit", none, false, "The request is larger than a limit ever allows. Make it smaller."},
	ContentBlocked:      {"content_blocked", 400, "content_blocked", none, false, "A content policy blocked the request."},
	GuardUnavailable:    {"guard_unavailable", 503, "guard_unavailable", none, true, "A content guard did not answer. Retry later."},
	DetectionBudget:     {"detection_budget", 429, "detection_budget_exhausted", none, true, "The content guards are at their limit. Retry after the stated time."},
	ClientClosed:        {"client_closed", 499, "client_closed", none, false, "The client closed the request."},
}
