package protocol_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// shape is what a client finds in an error of its protocol.
type shape struct {
	Status int
	Type   string // type, or Gemini's status word
	Code   string // OpenAI only
}

func readShape(t *testing.T, name protocol.Name, status int, body []byte) shape {
	t.Helper()
	var e struct {
		Error struct {
			Type, Status, Message string
			Code                  any
			Gateway               struct{ Code, RequestID string }
		}
		RequestID string `json:"request_id"`
		Type      string
	}
	if err := json.Unmarshal(body, &e); err != nil {
		t.Fatalf("%s: %v in %s", name, err, body)
	}
	s := shape{Status: status, Type: e.Error.Type}
	switch name {
	case protocol.Gemini:
		s.Type = e.Error.Status
		if e.Error.Code != float64(status) {
			t.Errorf("gemini: code %v in the body, status %d", e.Error.Code, status)
		}
	case protocol.Anthropic:
		if e.Type != "error" || e.RequestID != "req_1" {
			t.Errorf("anthropic: type %q, request id %q", e.Type, e.RequestID)
		}
	default:
		s.Code, _ = e.Error.Code.(string)
	}
	if e.Error.Message == "" || e.Error.Gateway.Code == "" {
		t.Errorf("%s: no message or no gateway code in %s", name, body)
	}
	return s
}

// The rejection contract, class by class and protocol by protocol.
func TestErrorsHaveTheClientsShape(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		class                     fault.Class
		openai, anthropic, gemini shape
	}{
		{fault.LimitExceeded, shape{429, "rate_limit_exceeded", "rate_limit_exceeded"}, shape{429, "rate_limit_error", ""}, shape{429, "RESOURCE_EXHAUSTED", ""}},
		{fault.RateLimited, shape{429, "rate_limit_exceeded", "rate_limit_exceeded"}, shape{429, "rate_limit_error", ""}, shape{429, "RESOURCE_EXHAUSTED", ""}},
		{fault.CapacityExhausted, shape{429, "rate_limit_exceeded", "capacity_exhausted"}, shape{429, "rate_limit_error", ""}, shape{429, "RESOURCE_EXHAUSTED", ""}},
		{fault.BudgetExceeded, shape{429, "insufficient_quota", "budget_exceeded"}, shape{429, "rate_limit_error", ""}, shape{429, "RESOURCE_EXHAUSTED", ""}},
		{fault.CreditExhausted, shape{429, "insufficient_quota", "credit_balance_exhausted"}, shape{402, "billing_error", ""}, shape{429, "RESOURCE_EXHAUSTED", ""}},
		{fault.RequestExceedsLimit, shape{400, "invalid_request_error", "request_exceeds_limit"}, shape{400, "invalid_request_error", ""}, shape{400, "INVALID_ARGUMENT", ""}},
		{fault.MeteringUnavailable, shape{503, "server_error", "metering_unavailable"}, shape{529, "overloaded_error", ""}, shape{503, "UNAVAILABLE", ""}},
		{fault.NoCandidate, shape{503, "server_error", "no_candidate_available"}, shape{529, "overloaded_error", ""}, shape{503, "UNAVAILABLE", ""}},
		{fault.Overloaded, shape{503, "server_error", "upstream_overloaded"}, shape{529, "overloaded_error", ""}, shape{503, "UNAVAILABLE", ""}},
		{fault.Unavailable, shape{503, "server_error", "upstream_unavailable"}, shape{529, "overloaded_error", ""}, shape{503, "UNAVAILABLE", ""}},
		{fault.NotPermitted, shape{403, "invalid_request_error", "not_permitted"}, shape{403, "permission_error", ""}, shape{403, "PERMISSION_DENIED", ""}},
		{fault.Unauthenticated, shape{401, "invalid_request_error", "invalid_api_key"}, shape{401, "authentication_error", ""}, shape{401, "UNAUTHENTICATED", ""}},
		{fault.RequestNotSupported, shape{400, "invalid_request_error", "request_not_supported"}, shape{400, "invalid_request_error", ""}, shape{400, "INVALID_ARGUMENT", ""}},
		{fault.ContentBlocked, shape{400, "invalid_request_error", "content_blocked"}, shape{400, "invalid_request_error", ""}, shape{400, "INVALID_ARGUMENT", ""}},
		{fault.GuardUnavailable, shape{503, "server_error", "guard_unavailable"}, shape{529, "overloaded_error", ""}, shape{503, "UNAVAILABLE", ""}},
		{fault.ModelUnknown, shape{404, "invalid_request_error", "model_not_found"}, shape{404, "not_found_error", ""}, shape{404, "NOT_FOUND", ""}},
		{fault.BodyTooLarge, shape{413, "invalid_request_error", "request_too_large"}, shape{413, "request_too_large", ""}, shape{413, "INVALID_ARGUMENT", ""}},
		{fault.Auth, shape{502, "server_error", "upstream_auth"}, shape{502, "api_error", ""}, shape{502, "INTERNAL", ""}},
		{fault.Timeout, shape{504, "server_error", "upstream_timeout"}, shape{504, "timeout_error", ""}, shape{504, "DEADLINE_EXCEEDED", ""}},
		{fault.DeadlineExceeded, shape{504, "server_error", "deadline_exceeded"}, shape{504, "timeout_error", ""}, shape{504, "DEADLINE_EXCEEDED", ""}},
		{fault.Internal, shape{500, "server_error", "internal"}, shape{500, "api_error", ""}, shape{500, "INTERNAL", ""}},
	} {
		for _, c := range codecs() {
			want := tc.openai
			switch c.Name() {
			case protocol.Anthropic:
				want = tc.anthropic
			case protocol.Gemini:
				want = tc.gemini
			}
			r := c.EncodeError(fault.New(tc.class, ""), "req_1")
			if got := readShape(t, c.Name(), r.Status, r.Body); got != want {
				t.Errorf("%s as %s: got %+v, want %+v", tc.class, c.Name(), got, want)
			}
		}
	}
}

// No class at all is told without a content type, a retry hint and the request id,
// and no 503 reaches an Anthropic client.
func TestEveryErrorSaysWhetherToRetryAndItsRequestID(t *testing.T) {
	t.Parallel()
	for _, c := range codecs() {
		for _, class := range fault.Classes() {
			f := &fault.Error{Class: class, RetryAfter: 1500 * time.Millisecond}
			r := c.EncodeError(f, "req_1")
			want := map[string]string{"Content-Type": "application/json", "Retry-After": "2", "Retry-After-Ms": "1500", "X-Should-Retry": "false"}
			if f.ShouldRetry() {
				want["X-Should-Retry"] = "true"
			}
			for name, value := range want {
				if got := r.Header.Get(name); got != value {
					t.Errorf("%s as %s: %s is %q, want %q", class, c.Name(), name, got, value)
				}
			}
			if !strings.Contains(string(r.Body), `"request_id":"req_1"`) || !json.Valid(r.Body) {
				t.Errorf("%s as %s: body %s", class, c.Name(), r.Body)
			}
			if r.Status < 400 {
				t.Errorf("%s as %s: status %d is no error", class, c.Name(), r.Status)
			}
			if c.Name() == protocol.Anthropic && r.Status == 503 {
				t.Errorf("%s is a 503 for an Anthropic client", class)
			}
		}
	}
	long := codec(protocol.OpenAIChat).EncodeError(&fault.Error{Class: fault.LimitExceeded, RetryAfter: 61 * time.Second}, "r")
	if got := long.Header.Get("X-Should-Retry"); got != "false" {
		t.Errorf("a wait above a minute says x-should-retry: %s", got)
	}
}

// Only the public text leaves the process.
func TestNoErrorShowsItsCause(t *testing.T) {
	t.Parallel()
	for _, c := range codecs() {
		for _, class := range fault.Classes() {
			f := &fault.Error{Class: class, Err: json.Unmarshal([]byte("SECRETCAUSE"), new(int))}
			f.Err = &json.UnsupportedValueError{Str: "SECRETCAUSE"}
			out := string(c.EncodeError(f, "r").Body) + string(c.StreamError(f, "r", nil))
			if strings.Contains(out, "SECRETCAUSE") {
				t.Errorf("%s as %s shows its cause: %s", class, c.Name(), out)
			}
		}
	}
}

func TestLimitRefusalsTellTheLimit(t *testing.T) {
	t.Parallel()
	resets := time.Date(2026, 11, 29, 12, 1, 0, 0, time.UTC)
	f := &fault.Error{
		Class: fault.LimitExceeded, RetryAfter: 2310 * time.Millisecond,
		Gateway: &fault.Gateway{Limit: &fault.Limit{
			ID: "lim_1", Scope: "api_key", Dimension: "total_tokens", Window: "minute", Class: "batch",
			Amount: 400000, Used: 391200, Reserved: 8800, Requested: 12000, ResetsAt: resets, Raise: "https://ask.example",
		}},
	}
	for _, c := range codecs() {
		r := c.EncodeError(f, "req_1")
		var body struct {
			Error struct{ Gateway map[string]any }
		}
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"code": "rate_limit_exceeded", "request_id": "req_1", "retry_after_ms": 2310.0, "limit_id": "lim_1", "scope": "api_key",
			"dimension": "total_tokens", "window": "minute", "class": "batch", "limit": 400000.0, "used": 391200.0, "reserved": 8800.0,
			"requested": 12000.0, "resets_at": "2026-11-29T12:01:00Z", "raise": "https://ask.example",
		}
		if diff := cmp.Diff(want, body.Error.Gateway); diff != "" {
			t.Errorf("%s: gateway object differs (-want +got):\n%s", c.Name(), diff)
		}
		headers := map[string]string{"Ratelimit-Policy": `"lim_1";q=400000;w=60`, "Ratelimit": `"lim_1";r=0;t=3`, "Retry-After": "3"}
		switch c.Name() {
		case protocol.Anthropic:
			headers["Anthropic-Ratelimit-Tokens-Limit"] = "400000"
			headers["Anthropic-Ratelimit-Tokens-Reset"] = "2026-11-29T12:01:00Z"
		case protocol.OpenAIChat, protocol.OpenAIResponses:
			headers["X-Ratelimit-Remaining-Tokens"] = "0"
			headers["X-Ratelimit-Reset-Tokens"] = "2.31s"
		case protocol.Gemini:
			if !strings.Contains(string(r.Body), `"retryDelay":"2.31s"`) {
				t.Errorf("gemini: no RetryInfo in %s", r.Body)
			}
		}
		for name, value := range headers {
			if got := r.Header.Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", c.Name(), name, got, value)
			}
		}
		f := *f
		l := *f.Gateway.Limit
		l.Hidden = true
		f.Gateway = &fault.Gateway{Limit: &l}
		hidden := c.EncodeError(&f, "req_1")
		if strings.Contains(string(hidden.Body), "391200") || hidden.Header.Get("RateLimit") != "" {
			t.Errorf("%s shows the numbers of a hidden scope: %s", c.Name(), hidden.Body)
		}
	}
}

// An error after the answer began is one or two well-formed events of the protocol
// with the outcome, and never a proper end.
func TestStreamErrorsAreTheProtocolsOwn(t *testing.T) {
	t.Parallel()
	f := &fault.Error{Class: fault.CutAfterFirst, Public: "line one\nline two"}
	for _, tc := range []struct {
		codec  protocol.Name
		file   string
		events []string
	}{
		{protocol.OpenAIChat, "chat_tools.sse", []string{""}},
		{protocol.OpenAIResponses, "responses_text.sse", []string{"error", "response.failed"}},
		{protocol.Anthropic, "anthropic_tools.sse", []string{"error"}},
		{protocol.Gemini, "gemini_text.sse", []string{""}},
	} {
		c := codec(tc.codec)
		d := c.NewStream(false)
		frames := sse.NewReader(strings.NewReader(string(fixture(t, tc.file))), 0)
		for range 2 {
			fr, err := frames.Next()
			if err != nil {
				t.Fatal(err)
			}
			d.Observe(fr)
		}
		out := c.StreamError(f, "req_1", d)
		var events []string
		r := sse.NewReader(strings.NewReader(string(out)), 0)
		for {
			fr, err := r.Next()
			if err != nil {
				break
			}
			events = append(events, string(fr.Event))
			if fr.Tail || !json.Valid(fr.Data) || !strings.Contains(string(fr.Data), `"outcome":"stream_incomplete"`) {
				t.Errorf("%s: event %q", tc.codec, fr.Raw)
			}
		}
		if diff := cmp.Diff(tc.events, events); diff != "" {
			t.Errorf("%s: events differ (-want +got):\n%s", tc.codec, diff)
		}
		if tc.codec == protocol.OpenAIResponses {
			for _, want := range []string{`"sequence_number":2`, `"sequence_number":3`, `"id":"resp_68"`, `"status":"failed"`} {
				if !strings.Contains(string(out), want) {
					t.Errorf("responses: %s lacks %s", out, want)
				}
			}
		}
		again := watch(c, false, strings.NewReader(string(out)))
		if again.Fault == "" {
			t.Errorf("%s: a gateway behind this one does not see an error in %s", tc.codec, out)
		}
		if alone := c.StreamError(f, "req_1", nil); len(alone) == 0 {
			t.Errorf("%s: no event without a decoder", tc.codec)
		}
	}
}

func TestUpstreamErrorsHaveTheirClass(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		status int
		header http.Header
		body   string
		want   fault.Class
		wait   time.Duration
	}{
		{"openai rate", 429, header("retry-after-ms", "1500", "retry-after", "99"), `{"error":{"message":"m","type":"tokens","code":"rate_limit_exceeded"}}`, fault.RateLimited, 1500 * time.Millisecond},
		{"openai quota", 429, nil, `{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`, fault.Quota, 0},
		{"openai quota by type", 429, nil, `{"error":{"type":"insufficient_quota","code":null}}`, fault.Quota, 0},
		{"openai key", 401, nil, `{"error":{"type":"invalid_request_error","code":"invalid_api_key"}}`, fault.Auth, 0},
		{"openai model", 404, nil, `{"error":{"type":"invalid_request_error","code":"model_not_found"}}`, fault.ModelNotFound, 0},
		{"openai model as 400", 400, nil, `{"error":{"code":"model_not_found"}}`, fault.ModelNotFound, 0},
		{"openai context", 400, nil, `{"error":{"code":"context_length_exceeded"}}`, fault.ContextOverflow, 0},
		{"openai previous response", 400, nil, `{"error":{"code":"previous_response_not_found","param":"previous_response_id"}}`, fault.StateNotFound, 0},
		{"openai item", 404, nil, `{"error":{"message":"Item with id 'rs_1' not found."}}`, fault.StateNotFound, 0},
		{"openai 503", 503, header("Retry-After", "Sun, 29 Nov 2026 12:00:30 GMT"), `{"error":{"type":"server_error"}}`, fault.Unavailable, 30 * time.Second},
		{"azure filter", 400, nil, `{"error":{"code":"content_filter","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, fault.Refusal, 0},
		{"bad request", 400, nil, `{"error":{"message":"bad field","type":"invalid_request_error","param":"x"}}`, fault.BadRequest, 0},
		{"anthropic rate", 429, header("retry-after", "12"), `{"type":"error","error":{"type":"rate_limit_error","message":"m"}}`, fault.RateLimited, 12 * time.Second},
		{"anthropic overloaded", 529, nil, `{"type":"error","error":{"type":"overloaded_error"}}`, fault.Overloaded, 0},
		{"anthropic own spend limit", 400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"x","details":{"error_code":"workspace_spend_limit_reached"}}}`, fault.Quota, 0},
		{"anthropic usage limit by text", 400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}}`, fault.Quota, 0},
		{"anthropic credit by text", 400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`, fault.Quota, 0},
		{"anthropic context", 400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, fault.ContextOverflow, 0},
		{"anthropic billing", 402, nil, `{"type":"error","error":{"type":"billing_error"}}`, fault.Quota, 0},
		{"anthropic too large", 413, nil, `{"type":"error","error":{"type":"request_too_large"}}`, fault.TooLarge, 0},
		{"anthropic 504", 504, nil, `{"type":"error","error":{"type":"timeout_error"}}`, fault.Timeout, 0},
		{"gemini key", 400, nil, `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"API key not valid.","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`, fault.Auth, 0},
		{"gemini rate", 429, nil, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"x","violations":[]},{"@type":"y","retryDelay":"34.5s"}]}}`, fault.RateLimited, 34500 * time.Millisecond},
		{"gemini array", 503, nil, `[{"error":{"code":503,"status":"UNAVAILABLE"}}]`, fault.Unavailable, 0},
		{"gemini cached content", 404, nil, `{"error":{"code":404,"status":"NOT_FOUND","message":"CachedContent not found"}}`, fault.StateNotFound, 0},
		{"gemini precondition", 400, nil, `{"error":{"code":400,"status":"FAILED_PRECONDITION"}}`, fault.BadRequest, 0},
		{"html", 502, nil, `<html>Bad gateway</html>`, fault.ServerError, 0},
		{"empty", 403, nil, ``, fault.Permission, 0},
		{"text", 429, header("retry-after", "1e9"), `slow down`, fault.RateLimited, 24 * time.Hour},
		{"past date", 429, header("retry-after", "Sun, 29 Nov 2020 12:00:30 GMT"), ``, fault.RateLimited, 0},
		{"negative", 429, header("retry-after", "-4"), ``, fault.RateLimited, 0},
		{"window resets are no wait", 429, header("x-ratelimit-reset-tokens", "6m0s", "anthropic-ratelimit-unified-reset", "1790000000"), ``, fault.RateLimited, 0},
		{"conflict", 409, nil, `{"error":{"type":"conflict_error"}}`, fault.Conflict, 0},
		{"teapot", 418, nil, `{"detail":"I am a teapot"}`, fault.OtherRejection, 0},
		{"cut body", 429, nil, `{"error":{"code":"insufficient_quota","message":"abc`, fault.Quota, 0},
	} {
		for _, c := range codecs() {
			f := c.Classify(tc.status, tc.header, []byte(tc.body), testTime)
			if f.Class != tc.want || f.RetryAfter != tc.wait || f.UpstreamStatus != tc.status {
				t.Errorf("%s by %s: class %s, wait %s, status %d, want %s, %s, %d", tc.name, c.Name(), f.Class, f.RetryAfter, f.UpstreamStatus, tc.want, tc.wait, tc.status)
			}
		}
	}
}

// The upstream's words reach the caller only where its request is at fault, and
// never with a credential in them.
func TestUpstreamMessagesAreShownForTheCallersFaultsAlone(t *testing.T) {
	t.Parallel()
	body := `{"error":{"message":"field x is wrong, key \"sk-abc123\" and Bearer tok3n\u0007","param":"x"}}`
	for status, shown := range map[int]bool{400: true, 422: true, 413: true, 418: true, 401: false, 403: false, 429: false, 500: false, 503: false} {
		f := codec(protocol.OpenAIChat).Classify(status, header("x-request-id", "up_1"), []byte(body), testTime)
		text := f.Text()
		if got := strings.Contains(text, "field x is wrong"); got != shown {
			t.Errorf("status %d: text %q, shown %v, want %v", status, text, got, shown)
		}
		if strings.Contains(text, "sk-abc123") || strings.Contains(text, "tok3n") || strings.Contains(text, "\a") {
			t.Errorf("status %d: text %q holds a credential", status, text)
		}
		if shown && f.Param != "x" || f.UpstreamRequestID != "up_1" {
			t.Errorf("status %d: param %q, upstream request id %q", status, f.Param, f.UpstreamRequestID)
		}
	}
}

func TestModelListsHaveTheVendorsShape(t *testing.T) {
	t.Parallel()
	models := make([]protocol.ModelInfo, 60)
	for i := range models {
		models[i].ID = "m" + itoa(int64(i))
	}
	models[0] = protocol.ModelInfo{ID: "m0", DisplayName: "Zero", OwnedBy: "us", Created: testTime, MaxInputTokens: 100, MaxOutputTokens: 10}

	for name, want := range map[protocol.Name]string{
		protocol.OpenAIChat: `{"id":"m0","object":"model","created":1795953600,"owned_by":"us"}`,
		protocol.Anthropic:  `{"type":"model","id":"m0","display_name":"Zero","created_at":"2026-11-29T12:00:00Z","max_input_tokens":100,"max_tokens":10,"lifecycle":"active"}`,
		protocol.Gemini:     `{"name":"models/m0","displayName":"Zero","inputTokenLimit":100,"outputTokenLimit":10,"supportedGenerationMethods":["generateContent","countTokens"]}`,
	} {
		if got := string(codec(name).ModelGet(models[0])); got != want {
			t.Errorf("%s: model is %s, want %s", name, got, want)
		}
	}

	type page struct {
		Data          []struct{ ID string }
		Models        []struct{ Name string }
		HasMore       bool   `json:"has_more"`
		FirstID       string `json:"first_id"`
		LastID        string `json:"last_id"`
		NextPageToken string
	}
	list := func(name protocol.Name, query string) page {
		t.Helper()
		b, f := codec(name).ModelList(models, parseQuery(t, query))
		if f != nil {
			t.Fatalf("%s?%s: %v", name, query, f)
		}
		var p page
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		return p
	}

	if p := list(protocol.OpenAIChat, "limit=3"); len(p.Data) != 60 {
		t.Errorf("openai lists %d models, want all 60", len(p.Data))
	}
	if p := list(protocol.Anthropic, ""); len(p.Data) != 20 || !p.HasMore || p.FirstID != "m0" || p.LastID != "m19" {
		t.Errorf("anthropic's first page is %+v", p)
	}
	if p := list(protocol.Anthropic, "after_id=m55&limit=1000"); len(p.Data) != 4 || p.HasMore || p.FirstID != "m56" {
		t.Errorf("anthropic after m55 is %+v", p)
	}
	if p := list(protocol.Anthropic, "before_id=m10&limit=3"); len(p.Data) != 3 || !p.HasMore || p.FirstID != "m7" || p.LastID != "m9" {
		t.Errorf("anthropic before m10 is %+v", p)
	}
	var seen []string
	for token := ""; ; {
		p := list(protocol.Gemini, "pageSize=25&pageToken="+token)
		for _, m := range p.Models {
			seen = append(seen, m.Name)
		}
		if token = p.NextPageToken; token == "" {
			break
		}
	}
	if len(seen) != 60 || seen[59] != "models/m59" {
		t.Errorf("gemini's pages hold %d models, want all 60 once", len(seen))
	}
	for name, query := range map[protocol.Name]string{protocol.Anthropic: "limit=0", protocol.Gemini: "pageToken=x"} {
		if _, f := codec(name).ModelList(models, parseQuery(t, query)); f == nil || f.Status() != 400 {
			t.Errorf("%s?%s: %v, want a 400", name, query, f)
		}
	}
	if _, f := codec(protocol.Anthropic).ModelList(models, parseQuery(t, "after_id=none")); f == nil || f.Param != "after_id" {
		t.Errorf("after an unknown model: %v, want a 400", f)
	}
	for _, c := range codecs() {
		if b, f := c.ModelList(nil, nil); f != nil || !json.Valid(b) {
			t.Errorf("%s: the empty list is %s, %v", c.Name(), b, f)
		}
	}
}
