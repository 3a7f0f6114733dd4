package fault_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

type final struct {
	Name     string
	Status   int
	Code     string
	Consumed string
}

// The decided table, typed out: name, final status, final code, consumption.
var decided = []final{
	{"internal", 500, "internal", "possible"},

	{"connect", 502, "upstream_unreachable", "none"},
	{"reset", 502, "upstream_reset", "possible"},
	{"timeout", 504, "upstream_timeout", "possible"},
	{"request_timeout", 504, "upstream_timeout", "possible"},
	{"server_error", 502, "upstream_error", "unlikely"},
	{"unavailable", 503, "upstream_unavailable", "none"},
	{"overloaded", 503, "upstream_overloaded", "none"},
	{"rate_limited", 429, "rate_limited", "none"},
	{"quota", 429, "upstream_quota", "none"},
	{"auth", 502, "upstream_auth", "none"},
	{"permission", 502, "upstream_permission", "none"},
	{"model_not_found", 404, "model_not_found", "none"},
	{"state_not_found", 404, "state_not_found", "none"},
	{"conflict", 409, "conflict", "none"},
	{"context_overflow", 400, "context_length_exceeded", "none"},
	{"too_large", 413, "request_too_large", "none"},
	{"bad_request", 400, "invalid_request", "none"},
	{"unprocessable", 422, "invalid_request", "none"},
	{"refusal", 400, "content_policy", "certain"},
	{"malformed", 502, "upstream_malformed", "possible"},
	{"cut_before_first", 502, "stream_incomplete", "possible"},
	{"cut_after_first", 200, "stream_incomplete", "certain"},
	{"client_canceled", 499, "client_canceled", "possible"},
	{"other_4xx", 400, "upstream_rejected", "none"},

	{"invalid_request", 400, "invalid_request", "none"},
	{"unauthenticated", 401, "unauthenticated", "none"},
	{"not_permitted", 403, "not_permitted", "none"},
	{"unknown_path", 404, "unknown_path", "none"},
	{"method_not_allowed", 405, "method_not_allowed", "none"},
	{"body_too_large", 413, "request_too_large", "none"},
	{"headers_too_large", 431, "headers_too_large", "none"},
	{"body_timeout", 408, "request_timeout", "none"},
	{"unsupported_encoding", 415, "unsupported_media_type", "none"},
	{"request_not_supported", 400, "request_not_supported", "none"},
	{"model_unknown", 404, "model_not_found", "none"},
	{"capacity_exhausted", 429, "capacity_exhausted", "none"},
	{"no_candidate", 503, "no_candidate_available", "none"},
	{"deadline_exceeded", 504, "deadline_exceeded", "none"},
	{"config_unavailable", 503, "config_unavailable", "none"},
	{"config_stale", 503, "config_stale", "none"},
	{"draining", 503, "draining", "none"},
	{"metering_unavailable", 503, "metering_unavailable", "none"},
	{"credit_unavailable", 503, "credit_unavailable", "none"},
	{"limit_exceeded", 429, "rate_limit_exceeded", "none"},
	{"budget_exceeded", 429, "budget_exceeded", "none"},
	{"credit_exhausted", 429, "credit_balance_exhausted", "none"},
	{"request_exceeds_limit", 400, "request_exceeds_limit", "none"},
	{"content_blocked", 400, "content_blocked", "none"},
	{"guard_unavailable", 503, "guard_unavailable", "none"},
	{"detection_budget", 429, "detection_budget_exhausted", "none"},
	{"client_closed", 499, "client_closed", "none"},
}

func TestEveryClassHasItsDecidedStatusCodeAndConsumption(t *testing.T) {
	t.Parallel()
	var got []final
	for _, c := range fault.Classes() {
		got = append(got, final{c.String(), c.Status(), c.Code(), c.Consumption().String()})
		if c.Text() == "" {
			t.Errorf("class %s has no text for the caller", c)
		}
	}
	if diff := cmp.Diff(decided, got); diff != "" {
		t.Errorf("table differs (-decided +built):\n%s", diff)
	}
	names := map[string]bool{}
	for _, f := range got {
		if names[f.Name] {
			t.Errorf("the name %q is used twice", f.Name)
		}
		names[f.Name] = true
	}
}

// An upstream's 401 and 403 speak of the gateway's credential and must never look
// like the caller's own.
func TestUpstreamAuthIsNeverShownAsTheCallersOwn(t *testing.T) {
	t.Parallel()
	for _, c := range fault.Classes() {
		if c.Upstream() && (c.Status() == 401 || c.Status() == 403) {
			t.Errorf("upstream class %s ends as %d", c, c.Status())
		}
	}
}

func TestUpstreamClassesAreToldFromTheGatewaysOwn(t *testing.T) {
	t.Parallel()
	var upstream []string
	for _, c := range fault.Classes() {
		if c.Upstream() {
			upstream = append(upstream, c.String())
		}
	}
	var want []string
	for _, f := range decided[1:25] {
		want = append(want, f.Name)
	}
	if !slices.Equal(upstream, want) {
		t.Errorf("upstream classes %v, want %v", upstream, want)
	}
}

func TestStatusOfAnUpstreamGivesItsClass(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]fault.Class{
		200: fault.Malformed, 400: fault.BadRequest, 401: fault.Auth, 402: fault.Quota, 403: fault.Permission,
		404: fault.ModelNotFound, 408: fault.RequestTimeout, 409: fault.Conflict, 413: fault.TooLarge, 418: fault.OtherRejection,
		422: fault.Unprocessable, 429: fault.RateLimited, 500: fault.ServerError, 501: fault.ServerError, 502: fault.ServerError,
		503: fault.Unavailable, 504: fault.Timeout, 520: fault.ServerError, 529: fault.Overloaded,
	} {
		if got := fault.OfStatus(status); got != want {
			t.Errorf("status %d is %s, want %s", status, got, want)
		}
	}
}

// Client SDKs repeat 429 and 5xx twice on their own: they are told not to when the
// wait is long or something may have been consumed, whatever the class says.
func TestNoRetryIsAskedForAfterPossibleConsumptionOrForALongWait(t *testing.T) {
	t.Parallel()
	for _, c := range fault.Classes() {
		for _, r := range []fault.Retry{fault.RetryByClass, fault.RetryYes, fault.RetryNo} {
			long := &fault.Error{Class: c, Retry: r, RetryAfter: fault.MaxWaitForRetry + time.Millisecond}
			if long.ShouldRetry() {
				t.Errorf("%s: retry asked for after a wait above a minute", c)
			}
			if consumed := (&fault.Error{Class: c, Retry: r, Consumed: fault.ConsumedPossible}); consumed.ShouldRetry() {
				t.Errorf("%s: retry asked for though an upstream may have worked", c)
			}
		}
	}
	for _, tc := range []struct {
		f    fault.Error
		want bool
	}{
		{fault.Error{Class: fault.RateLimited, RetryAfter: time.Minute}, true},
		{fault.Error{Class: fault.RateLimited, Retry: fault.RetryNo}, false},
		{fault.Error{Class: fault.NotPermitted}, false},
		{fault.Error{Class: fault.BudgetExceeded, RetryAfter: time.Second, Retry: fault.RetryYes}, true},
		{fault.Error{Class: fault.Quota}, false},
		{fault.Error{Class: fault.Timeout, Retry: fault.RetryYes}, false},
	} {
		if got := tc.f.ShouldRetry(); got != tc.want {
			t.Errorf("%s retry=%d: asked for a retry %v, want %v", tc.f.Class, tc.f.Retry, got, tc.want)
		}
	}
}

func TestClassOfAnErrorIsThatOfTheFirstFaultInItsTree(t *testing.T) {
	t.Parallel()
	inner := fault.Wrap(fault.Connect, errors.New("refused"))
	for _, tc := range []struct {
		err  error
		want fault.Class
	}{
		{fmt.Errorf("send attempt: %w", inner), fault.Connect},
		{errors.Join(errors.New("x"), fault.New(fault.Quota, "")), fault.Quota},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), fault.DeadlineExceeded},
		{context.Canceled, fault.ClientCanceled},
		{errors.New("who knows"), fault.Internal},
	} {
		if got := fault.Of(tc.err); got != tc.want {
			t.Errorf("class of %v is %s, want %s", tc.err, got, tc.want)
		}
		as := fault.As(tc.err)
		if as.Class != tc.want {
			t.Errorf("As(%v) has class %s, want %s", tc.err, as.Class, tc.want)
		}
		if as.Text() == tc.err.Error() {
			t.Errorf("the cause %v reached the caller's text", tc.err)
		}
	}
	if fault.As(nil) != nil {
		t.Error("As(nil) is not nil")
	}
	if got := fault.As(fmt.Errorf("again: %w", inner)); got != inner {
		t.Errorf("As returned %p, want the fault itself %p", got, inner)
	}
}

func TestCallerSeesOnlyThePublicText(t *testing.T) {
	t.Parallel()
	f := &fault.Error{Class: fault.Auth, Err: errors.New("key sk-secret refused"), UpstreamStatus: 401, UpstreamCode: "invalid_api_key"}
	if got := f.Text(); got != fault.Auth.Text() {
		t.Errorf("caller's text %q, want the class's %q", got, fault.Auth.Text())
	}
	if got, want := f.Error(), "auth: upstream status 401 invalid_api_key: key sk-secret refused"; got != want {
		t.Errorf("log text %q, want %q", got, want)
	}
	over := &fault.Error{Class: fault.CreditExhausted, HTTPStatus: 402, Code: "no_money", Public: "no money"}
	if over.Status() != 402 || over.StableCode() != "no_money" || over.Text() != "no money" {
		t.Errorf("got %d %s %q, want the overrides", over.Status(), over.StableCode(), over.Text())
	}
}

func TestOutcomeTellsWhatMayHaveBeenConsumed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		f    fault.Error
		want string
	}{
		{fault.Error{Class: fault.Timeout}, fault.OutcomePossiblyConsumed},
		{fault.Error{Class: fault.CutBeforeFirst}, fault.OutcomePossiblyConsumed},
		{fault.Error{Class: fault.CutAfterFirst}, fault.OutcomeStreamIncomplete},
		{fault.Error{Class: fault.Connect}, ""},
		{fault.Error{Class: fault.Connect, Consumed: fault.ConsumedPossible}, fault.OutcomePossiblyConsumed},
		{fault.Error{Class: fault.Refusal}, ""},
		{fault.Error{Class: fault.Internal}, ""},
		{fault.Error{Class: fault.RateLimited, Gateway: &fault.Gateway{Outcome: fault.OutcomeStreamIncomplete}}, fault.OutcomeStreamIncomplete},
	} {
		if got := tc.f.Outcome(); got != tc.want {
			t.Errorf("%s: outcome %q, want %q", tc.f.Class, got, tc.want)
		}
	}
}
