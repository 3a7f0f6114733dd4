package protocol

import (
	"net/http"
	"strconv"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// ErrorStatus is the HTTP status of an error answer: the fault's own, and 502 for
// one that was meant to end a stream after its 200.
func ErrorStatus(f *fault.Error) int {
	if status := f.Status(); status >= http.StatusBadRequest {
		return status
	}
	return http.StatusBadGateway
}

// ErrorHeader is the header of every error the gateway answers with: content type,
// how long to wait, and whether the client's SDK should repeat the request by
// itself (x-should-retry, which the OpenAI and Anthropic SDKs obey before
// anything else). Retry-After is in whole seconds, rounded up; SDKs prefer
// retry-after-ms where they know it.
func ErrorHeader(f *fault.Error) http.Header {
	h := http.Header{
		"Content-Type":   {"application/json"},
		"X-Should-Retry": {strconv.FormatBool(f.ShouldRetry())},
	}
	if f.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(ceilSeconds(f.RetryAfter), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(ceilMillis(f.RetryAfter), 10))
	}
	if f.Allow != "" {
		h.Set("Allow", f.Allow)
	}
	addRateLimit(h, f)
	return h
}

// addRateLimit adds the RateLimit and RateLimit-Policy fields of the IETF draft
// "RateLimit header fields for HTTP" for the limit that refused.
func addRateLimit(h http.Header, f *fault.Error) {
	if f.Gateway == nil || f.Gateway.Limit == nil || f.Gateway.Limit.Hidden || f.Gateway.Limit.ID == "" {
		return
	}
	l := f.Gateway.Limit
	name := string(wirejson.AppendString(nil, l.ID))
	policy := name + ";q=" + strconv.FormatInt(l.Amount, 10)
	if w := windowSeconds(l.Window); w > 0 {
		policy += ";w=" + strconv.FormatInt(w, 10)
	}
	h.Set("RateLimit-Policy", policy)
	h.Set("RateLimit", name+";r="+strconv.FormatInt(LimitRemaining(l), 10)+";t="+strconv.FormatInt(ceilSeconds(f.RetryAfter), 10))
}

// LimitRemaining is what is left of a limit; never negative.
func LimitRemaining(l *fault.Limit) int64 { return max(l.Amount-l.Used-l.Reserved, 0) }

func windowSeconds(window string) int64 {
	switch window {
	case "second":
		return 1
	case "minute":
		return 60
	case "hour":
		return 3600
	case "day":
		return 86400
	}
	return 0
}

// AppendGateway appends the member "gateway" to an error object that has other
// members already: the stable code, the request id, and whatever the fault says
// about the decision.
func AppendGateway(dst []byte, f *fault.Error, requestID, outcome string) []byte {
	dst = append(wirejson.AppendMember(dst, "gateway"), '{')
	text := func(name, value string) {
		if value != "" {
			dst = wirejson.AppendStringMember(dst, name, value)
		}
	}
	text("code", f.StableCode())
	text("request_id", requestID)
	text("outcome", outcome)
	if f.RetryAfter > 0 {
		dst = wirejson.AppendIntMember(dst, "retry_after_ms", ceilMillis(f.RetryAfter))
	}
	if f.UpstreamStatus != 0 {
		dst = wirejson.AppendIntMember(dst, "upstream_status", int64(f.UpstreamStatus))
	}
	text("upstream_code", clip(f.UpstreamCode, 64))
	if g := f.Gateway; g != nil {
		text("pool", g.Pool)
		text("decision_id", g.DecisionID)
		if l := g.Limit; l != nil {
			text("limit_id", l.ID)
			text("scope", l.Scope)
			text("dimension", l.Dimension)
			text("window", l.Window)
			text("class", l.Class)
			if !l.Hidden {
				dst = wirejson.AppendIntMember(dst, "limit", l.Amount)
				dst = wirejson.AppendIntMember(dst, "used", l.Used)
				dst = wirejson.AppendIntMember(dst, "reserved", l.Reserved)
				dst = wirejson.AppendIntMember(dst, "requested", l.Requested)
			}
			if !l.ResetsAt.IsZero() {
				text("resets_at", l.ResetsAt.UTC().Format(time.RFC3339))
			}
			text("raise", l.Raise)
		}
		text("policy_id", g.PolicyID)
		text("rule_id", g.RuleID)
		text("stage", g.Stage)
		text("category", g.Category)
		text("contact", g.Contact)
	}
	return append(dst, '}')
}

// StreamOutcome is the outcome told in an error after the answer began: something
// was delivered, so it is incomplete unless the fault says otherwise.
func StreamOutcome(f *fault.Error) string {
	if f.Gateway != nil && f.Gateway.Outcome != "" {
		return f.Gateway.Outcome
	}
	return fault.OutcomeStreamIncomplete
}

func ceilSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func ceilMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// KeepAlive is what a client of the protocol takes for a sign of life in a stream, and
// nothing else; empty if there is no such thing. Comments are safe for OpenAI's SDKs,
// Anthropic's has an event for it, Gemini's breaks on both.
func KeepAlive(n Name) []byte {
	switch n {
	case OpenAIChat, OpenAIResponses:
		return []byte(": keep-alive\n\n")
	case Anthropic:
		return []byte("event: ping\ndata: {\"type\": \"ping\"}\n\n")
	}
	return nil
}
