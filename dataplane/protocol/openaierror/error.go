// Package openaierror renders the error object that OpenAI's two protocols share.
package openaierror

import (
	"net/http"
	"strconv"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// Encode renders a failure before the answer began.
func Encode(f *fault.Error, requestID string) protocol.Rendered {
	h := protocol.ErrorHeader(f)
	addLimitHeaders(h, f)
	return protocol.Rendered{Status: protocol.ErrorStatus(f), Header: h, Body: Append(nil, f, requestID, f.Outcome())}
}

// Append appends {"error":{…}} to dst.
func Append(dst []byte, f *fault.Error, requestID, outcome string) []byte {
	dst = append(dst, `{"error":{`...)
	dst = wirejson.AppendStringMember(dst, "message", f.Text())
	dst = wirejson.AppendStringMember(dst, "type", Type(f))
	dst = AppendParam(dst, f.Param)
	dst = wirejson.AppendStringMember(dst, "code", Code(f))
	return append(protocol.AppendGateway(dst, f, requestID, outcome), "}}"...)
}

// AppendParam appends the member param, null if there is none.
func AppendParam(dst []byte, param string) []byte {
	if param == "" {
		return append(wirejson.AppendMember(dst, "param"), "null"...)
	}
	return wirejson.AppendStringMember(dst, "param", param)
}

// Code is the fault's stable code, in the words OpenAI's clients look for.
func Code(f *fault.Error) string {
	switch code := f.StableCode(); code {
	case fault.RateLimited.Code():
		return "rate_limit_exceeded"
	case fault.Unauthenticated.Code():
		return "invalid_api_key"
	default:
		return code
	}
}

// Type is the broad kind of the failure.
func Type(f *fault.Error) string {
	switch f.Class {
	case fault.BudgetExceeded, fault.CreditExhausted:
		return "insufficient_quota"
	}
	switch status := protocol.ErrorStatus(f); {
	case status == http.StatusTooManyRequests:
		return "rate_limit_exceeded"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

// addLimitHeaders tells the limit that refused in OpenAI's own limit headers.
func addLimitHeaders(h http.Header, f *fault.Error) {
	if f.Gateway == nil || f.Gateway.Limit == nil || f.Gateway.Limit.Hidden {
		return
	}
	l := f.Gateway.Limit
	var kind string
	switch l.Dimension {
	case "requests":
		kind = "requests"
	case "total_tokens", "input_tokens", "output_tokens":
		kind = "tokens"
	default:
		return
	}
	h.Set("X-Ratelimit-Limit-"+kind, strconv.FormatInt(l.Amount, 10))
	h.Set("X-Ratelimit-Remaining-"+kind, strconv.FormatInt(protocol.LimitRemaining(l), 10))
	if f.RetryAfter > 0 {
		h.Set("X-Ratelimit-Reset-"+kind, f.RetryAfter.String())
	}
}
