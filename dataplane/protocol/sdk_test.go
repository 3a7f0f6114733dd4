package protocol_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	antopt "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	oaiopt "github.com/openai/openai-go/v3/option"
	"google.golang.org/genai"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// edge answers as the gateway's edge would: with f for everything but models.
// After before bytes of a stream it breaks off with f inside the stream.
func edge(t *testing.T, f *fault.Error, stream string, calls *int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*calls++
		target, bad := protocol.Identify(r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header)
		c := codec(target.Protocol)
		write := func(a protocol.Rendered) {
			for name, values := range a.Header {
				w.Header()[name] = values
			}
			w.WriteHeader(a.Status)
			_, _ = w.Write(a.Body)
		}
		switch {
		case bad != nil:
			write(c.EncodeError(bad, "req_1"))
		case target.Op == protocol.OpListModels:
			b, _ := c.ModelList([]protocol.ModelInfo{{ID: "m1"}, {ID: "m2"}}, r.URL.Query())
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(b)
		case target.Op == protocol.OpGetModel:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(c.ModelGet(protocol.ModelInfo{ID: target.Model}))
		case stream != "":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, stream)
			_, _ = w.Write(c.StreamError(f, "req_1", nil))
		default:
			write(c.EncodeError(f, "req_1"))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func askOpenAI(ctx context.Context, base string, stream bool) error {
	c := openai.NewClient(oaiopt.WithBaseURL(base+"/v1"), oaiopt.WithAPIKey("k"))
	p := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
	if !stream {
		_, err := c.Chat.Completions.New(ctx, p)
		return err
	}
	s := c.Chat.Completions.NewStreaming(ctx, p)
	for s.Next() {
	}
	return s.Err()
}

func askAnthropic(ctx context.Context, base string, stream bool) error {
	c := anthropicClient(base)
	p := anthropic.MessageNewParams{Model: "m", MaxTokens: 10, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))}}
	if !stream {
		_, err := c.Messages.New(ctx, p)
		return err
	}
	s := c.Messages.NewStreaming(ctx, p)
	for s.Next() {
	}
	return s.Err()
}

func anthropicClient(base string) anthropic.Client {
	return anthropic.NewClient(antopt.WithBaseURL(base), antopt.WithAPIKey("k"))
}

func geminiClient(t *testing.T, base string) *genai.Client {
	t.Helper()
	c, err := genai.NewClient(t.Context(), &genai.ClientConfig{Backend: genai.BackendGeminiAPI, APIKey: "k", HTTPOptions: genai.HTTPOptions{BaseURL: base}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func askGemini(t *testing.T, base string, stream bool) error {
	c := geminiClient(t, base)
	if !stream {
		_, err := c.Models.GenerateContent(t.Context(), "m", genai.Text("hi"), nil)
		return err
	}
	for _, err := range c.Models.GenerateContentStream(t.Context(), "m", genai.Text("hi"), nil) {
		if err != nil {
			return err
		}
	}
	return nil
}

// The vendors' own SDKs read our errors as errors of their vendor, and repeat a
// request only if we say that it may help.
func TestSDKsReadOurErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		f       *fault.Error
		repeats bool
		oaiCode string
		antType string
		gemWord string
	}{
		{&fault.Error{Class: fault.LimitExceeded, RetryAfter: time.Millisecond}, true, "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"},
		{fault.New(fault.CreditExhausted, ""), false, "credit_balance_exhausted", "billing_error", "RESOURCE_EXHAUSTED"},
		{fault.New(fault.Timeout, ""), false, "upstream_timeout", "timeout_error", "DEADLINE_EXCEEDED"},
		{&fault.Error{Class: fault.NoCandidate, RetryAfter: time.Hour}, false, "no_candidate_available", "overloaded_error", "UNAVAILABLE"},
	} {
		calls := 0
		url := edge(t, tc.f, "", &calls)
		var oai *openai.Error
		if err := askOpenAI(t.Context(), url, false); !errors.As(err, &oai) || oai.Code != tc.oaiCode || oai.Message != tc.f.Text() {
			t.Errorf("%s: OpenAI's SDK got %v", tc.f.Class, err)
		}
		if repeated := calls > 1; repeated != tc.repeats {
			t.Errorf("%s: OpenAI's SDK sent %d requests, want repeats: %v", tc.f.Class, calls, tc.repeats)
		}
		calls = 0
		var ant *anthropic.Error
		if err := askAnthropic(t.Context(), url, false); !errors.As(err, &ant) || string(ant.Type()) != tc.antType || ant.RequestID != "req_1" {
			t.Errorf("%s: Anthropic's SDK got %v", tc.f.Class, err)
		}
		if repeated := calls > 1; repeated != tc.repeats {
			t.Errorf("%s: Anthropic's SDK sent %d requests, want repeats: %v", tc.f.Class, calls, tc.repeats)
		}
		var gem genai.APIError
		if err := askGemini(t, url, false); !errors.As(err, &gem) || gem.Status != tc.gemWord || gem.Message != tc.f.Text() {
			t.Errorf("%s: Gemini's SDK got %v", tc.f.Class, err)
		}
	}
}

// A stream that breaks is an error for the SDKs, never an ordinary end.
func TestSDKsRaiseOurStreamErrors(t *testing.T) {
	t.Parallel()
	f := fault.New(fault.CutAfterFirst, "the stream broke")
	calls := 0
	frames := func(file string, n int) string {
		parts := strings.SplitAfter(strings.ReplaceAll(string(fixture(t, file)), "\r\n", "\n"), "\n\n")
		return strings.Join(parts[:n], "")
	}
	if err := askOpenAI(t.Context(), edge(t, f, frames("chat_tools.sse", 3), &calls), true); err == nil || !strings.Contains(err.Error(), "the stream broke") {
		t.Errorf("OpenAI's SDK got %v", err)
	}
	if err := askAnthropic(t.Context(), edge(t, f, frames("anthropic_tools.sse", 4), &calls), true); err == nil || !strings.Contains(err.Error(), "the stream broke") {
		t.Errorf("Anthropic's SDK got %v", err)
	}
	if err := askGemini(t, edge(t, f, frames("gemini_text.sse", 2), &calls), true); err == nil || !strings.Contains(err.Error(), "the stream broke") {
		t.Errorf("Gemini's SDK got %v", err)
	}
}

func TestSDKsReadOurModelLists(t *testing.T) {
	t.Parallel()
	calls := 0
	base := edge(t, fault.New(fault.Internal, ""), "", &calls)

	oai := openai.NewClient(oaiopt.WithBaseURL(base+"/v1"), oaiopt.WithAPIKey("k"))
	var ids []string
	for p := oai.Models.ListAutoPaging(t.Context()); p.Next(); {
		ids = append(ids, p.Current().ID)
	}
	if m, err := oai.Models.Get(t.Context(), "vendor/m"); err != nil || m.ID != "vendor/m" {
		t.Errorf("OpenAI's SDK got the model %v, %v", m, err)
	}
	ant := anthropicClient(base)
	for p := ant.Models.ListAutoPaging(t.Context(), anthropic.ModelListParams{Limit: anthropic.Int(1)}); p.Next(); {
		ids = append(ids, p.Current().ID)
	}
	for m, err := range geminiClient(t, base).Models.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.Name)
	}
	if got, want := strings.Join(ids, " "), "m1 m2 m1 m2 models/m1 models/m2"; got != want {
		t.Errorf("the SDKs list %q, want %q", got, want)
	}
}

// What the scripted provider sends is understood, streamed and whole.
func TestAnswersOfTheFakeProviderAreUnderstood(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(fakeprovider.New(fakeprovider.Config{Strict: true}))
	t.Cleanup(s.Close)
	for _, tc := range []struct {
		codec protocol.Name
		body  string
	}{
		{protocol.OpenAIChat, `{"model":"public","stream":STREAM,"messages":[{"role":"user","content":"hello"}]}`},
		{protocol.OpenAIResponses, `{"model":"public","stream":STREAM,"input":"hello"}`},
		{protocol.Anthropic, `{"model":"public","max_tokens":500,"stream":STREAM,"messages":[{"role":"user","content":"hello"}]}`},
		{protocol.Gemini, `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`},
	} {
		for _, stream := range []bool{false, true} {
			c := codec(tc.codec)
			target := protocol.Target{Protocol: tc.codec, Op: protocol.OpGenerate, Model: "public", Stream: stream, RawQuery: map[bool]string{true: "alt=sse&key=k"}[stream]}
			body := []byte(strings.ReplaceAll(tc.body, "STREAM", map[bool]string{true: "true", false: "false"}[stream]))
			shape, f := c.Inspect(body, target)
			if f != nil {
				t.Fatalf("%s: %v", tc.codec, f)
			}
			path, query := c.UpstreamURL(target, "fake-model")
			base := s.URL
			if strings.HasPrefix(string(tc.codec), "openai") {
				base += "/v1"
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path+"?"+query,
				strings.NewReader(join(c.Outgoing(body, shape, "fake-model", protocol.Outgoing{IncludeUsage: true}))))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Anthropic-Version", "2023-06-01")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			var w watched
			if stream {
				w = watch(c, false, resp.Body)
			} else {
				a, f := c.ReadAnswer(resp.Body)
				if f != nil {
					w.Fault = f.Error()
				}
				w = watched{Usage: a.Usage, Reported: a.UsageReported, Model: a.Model, ID: a.ID, Bytes: a.OutputBytes, Ended: true, Stop: a.Stop, Fault: w.Fault}
			}
			_ = resp.Body.Close()
			if resp.StatusCode != 200 || !w.Reported || w.Usage.Input == 0 || w.Usage.Output == 0 || w.Bytes == 0 || !w.Ended || w.Fault != "" || w.ID == "" || w.Stop.Native == "" {
				t.Errorf("%s, stream %v: status %d, %+v", tc.codec, stream, resp.StatusCode, w)
			}
			if w.Model != "fake-model" {
				t.Errorf("%s, stream %v: served by %q, want fake-model", tc.codec, stream, w.Model)
			}
			if tc.codec == protocol.OpenAIChat && stream && strings.Count(w.Kinds, "u") != 1 {
				t.Errorf("chat: kinds %q, want one report that only the gateway asked for", w.Kinds)
			}
		}
	}
}
