package dataplane

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/rs/zerolog"
	"github.com/tiktoken-go/tokenizer"
	"google.golang.org/genai"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// counters ask for a count of tokens through the vendors' SDKs.
func counters(t *testing.T) map[string]func(g *rig, text string) (int64, error) {
	return map[string]func(g *rig, text string) (int64, error){
		"anthropic": func(g *rig, text string) (int64, error) {
			c := g.anthropic()
			r, err := c.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
				Model: "m", Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
			})
			if err != nil {
				return 0, err
			}
			return r.InputTokens, nil
		},
		"responses": func(g *rig, text string) (int64, error) {
			c := g.openai()
			r, err := c.Responses.InputTokens.Count(t.Context(), responses.InputTokenCountParams{
				Model: openai.String("m"), Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String(text)},
			})
			if err != nil {
				return 0, err
			}
			return r.InputTokens, nil
		},
		"gemini": func(g *rig, text string) (int64, error) {
			r, err := g.gemini(t).Models.CountTokens(t.Context(), "m", genai.Text(text), nil)
			if err != nil {
				return 0, err
			}
			return int64(r.TotalTokens), nil
		},
	}
}

// A count is asked of the provider, is free, and is never a completion.
func TestCountsOfTokensComeFromTheProviderAndCostNothing(t *testing.T) {
	t.Parallel()
	for name, count := range counters(t) {
		g := newRig(t)
		n, err := count(g, strings.Repeat("word ", 100))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n != 125 {
			t.Errorf("%s: %d tokens, want the provider's 125", name, n)
		}
		if got := g.last(t); got.Operation != "count_tokens" || got.Model != "fake-large" {
			t.Errorf("%s: the provider was asked to %s of %s", name, got.Operation, got.Model)
		}
		g.settled(t, 0)
	}
}

func TestCountsOfTokensOfAWholeGeminiRequest(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	resp, body := g.send(t, "POST", "/v1beta/models/m:countTokens", "application/json",
		`{"generateContentRequest":{"model":"models/m","contents":[{"role":"user","parts":[{"text":"12345678"}]}],"systemInstruction":{"parts":[{"text":"1234"}]}}}`)
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"totalTokens":3`) {
		t.Errorf("status %d: %s, want 3 tokens", resp.StatusCode, body)
	}
	if got := string(g.last(t).Body); !strings.Contains(got, `"models/fake-large"`) {
		t.Errorf("the upstream got %s, want its own model in it", got)
	}
	for body, want := range map[string]string{
		`{"generateContentRequest":7}`:                                  "must be one object",
		`{"generateContentRequest":{},"generate_content_request":{}}`:   "must be one object",
		`{"generateContentRequest":{"model":"models/x","contents":[]}}`: "another model than the path",
	} {
		if resp, got := g.send(t, "POST", "/v1beta/models/m:countTokens", "application/json", body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, want) {
			t.Errorf("%s: status %d: %s; want a 400 that says %q", body, resp.StatusCode, got, want)
		}
	}
}

// Another vendor that can count is asked, in its own words, before the gateway guesses.
func TestCountsOfTokensAreConvertedWhereTheUpstreamCounts(t *testing.T) {
	t.Parallel()
	for name, count := range counters(t) {
		for p, path := range map[configv1.Protocol]string{
			configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES:      "/v1/messages/count_tokens",
			configv1.Protocol_PROTOCOL_OPENAI_RESPONSES:        "/v1/responses/input_tokens",
			configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT: "/v1beta/models/fake-large:countTokens",
		} {
			g := newStrictRig(t, offering(p))
			n, err := count(g, strings.Repeat("word ", 100))
			if err != nil || n != 125 {
				t.Errorf("%s from %v: %d tokens, %v; want the upstream's 125", name, p, n, err)
				continue
			}
			if got := g.last(t); got.Path != path {
				t.Errorf("%s from %v: the upstream was called at %q", name, p, got.Path)
			}
			g.settled(t, 0)
		}
	}
}

// The caller's own protocol counts what the caller sent; another one counts a copy.
func TestCountsOfTokensComeFromTheCallersProtocolWhereThereIsOne(t *testing.T) {
	t.Parallel()
	g := newRig(t, elsewhere, func(ts *syncv1.TenantShard) {
		first := ts.GetProviders()[0]
		second := &configv1.Provider{
			Id: "prv_2", TenantId: "ten_1", Name: "other", AllowPlaintext: true, AllowPrivateAddress: true,
			Capabilities: first.GetCapabilities()[1:2], // Responses
		}
		first.Capabilities = first.GetCapabilities()[2:3] // Messages
		ts.Providers = append(ts.Providers, second)
		ts.Upstreams[1].ProviderId = "prv_2"
	})
	for range 4 {
		if resp, got := g.send(t, "POST", "/v1/messages/count_tokens", "application/json", agentRequest(), "Anthropic-Version", "2023-06-01"); resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", resp.StatusCode, got)
		}
		if got := g.last(t); got.Path != "/v1/messages/count_tokens" {
			t.Errorf("the count was asked for at %q", got.Path)
		}
	}
}

// agentRequest is what an agent sends: little in the messages, much around them.
func agentRequest() string {
	var tools strings.Builder
	for i := range 8 {
		fmt.Fprintf(&tools, `%s{"name":"tool_%d","description":"Reads the file at the given path and returns its lines with their numbers. Fails if the file does not exist.",`+
			`"input_schema":{"type":"object","properties":{"path":{"type":"string","description":"The absolute path of the file"},"limit":{"type":"integer","description":"How many lines to read at most"}},"required":["path"]}}`,
			map[bool]string{true: ",", false: ""}[i > 0], i)
	}
	return `{"model":"m","system":"You are a careful engineer. Read before you write, keep changes small and say what you did.","tools":[` + tools.String() + `],` +
		`"messages":[{"role":"user","content":"What does main.go do?"}]}`
}

func TestField_F93_CountWithoutACountingUpstreamIsAMarkedEstimateOfTheWholePrompt(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	g := newRig(t, offering(configv1.Protocol_PROTOCOL_OPENAI_CHAT))
	g.node.log = zerolog.New(&logged)
	body := agentRequest()
	resp, got := g.send(t, "POST", "/v1/messages/count_tokens", "application/json", body, "Anthropic-Version", "2023-06-01")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Gateway-Token-Count") != "estimated" {
		t.Fatalf("status %d, marked %q: %s", resp.StatusCode, resp.Header.Get("X-Gateway-Token-Count"), got)
	}
	var answer struct {
		Tokens int64 `json:"input_tokens"`
	}
	if err := json.Unmarshal([]byte(got), &answer); err != nil {
		t.Fatal(err)
	}
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	real, err := codec.Count(body)
	if err != nil {
		t.Fatal(err)
	}
	if ratio := float64(answer.Tokens) / float64(real); ratio < 0.95 || ratio > 1.25 {
		t.Errorf("%d tokens for a body of %d: system and tools have to count", answer.Tokens, real)
	}
	if n := len(g.provider.Requests()); n != 0 {
		t.Errorf("the provider got %d requests: a count is never a completion", n)
	}
	g.settled(t, 0)
	if !strings.Contains(logged.String(), `"token_count":"estimated"`) {
		t.Errorf("the log does not say that the count is estimated: %s", &logged)
	}
}

func TestCountsOfTokensOfPicturesAreNotZero(t *testing.T) {
	t.Parallel()
	g := newRig(t, offering(configv1.Protocol_PROTOCOL_OPENAI_CHAT))
	_, got := g.send(t, "POST", "/v1beta/models/m:countTokens", "application/json",
		`{"contents":[{"role":"user","parts":[{"text":"what is this"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}]}`)
	var answer struct {
		Tokens int64 `json:"totalTokens"`
	}
	if err := json.Unmarshal([]byte(got), &answer); err != nil || answer.Tokens < 1500 || answer.Tokens > 1600 {
		t.Errorf("got %s, want the flat count of a picture", got)
	}
}

// An upstream that cannot count at the moment does not keep the caller from an answer,
// and one whose count fails is not taken out of service for that.
func TestCountsOfTokensThatFailUpstreamAreEstimatedAndHarmNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []fakeprovider.ErrorKind{fakeprovider.RateLimited, fakeprovider.Unavailable, fakeprovider.NotFound, fakeprovider.Forbidden, fakeprovider.MethodNotAllowed} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.provider.Script(fakeprovider.Match{Operation: fakeprovider.CountTokens}, fakeprovider.Fail(kind))
			for range 3 {
				resp, got := g.send(t, "POST", "/v1/messages/count_tokens", "application/json", agentRequest(), "Anthropic-Version", "2023-06-01")
				if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Gateway-Token-Count") != "estimated" {
					t.Fatalf("status %d: %s", resp.StatusCode, got)
				}
			}
			for range 2 { // both accounts
				if resp, got := g.call(t, wires()[2], "m", false); resp.StatusCode != http.StatusOK || resp.Header.Get("X-Gateway-Fallback-Used") != "false" {
					t.Errorf("a message after that: status %d: %s", resp.StatusCode, got)
				}
			}
		})
	}
}

func TestCountsOfTokensFailOverToTheOtherAccount(t *testing.T) {
	t.Parallel()
	for _, kind := range []fakeprovider.ErrorKind{fakeprovider.RateLimited, fakeprovider.Unavailable} {
		g := newRig(t, elsewhere)
		g.provider.Script(fakeprovider.Match{Key: keyA, Operation: fakeprovider.CountTokens}, fakeprovider.Fail(kind))
		for range 2 {
			resp, got := g.send(t, "POST", "/v1/messages/count_tokens", "application/json", agentRequest(), "Anthropic-Version", "2023-06-01")
			if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Gateway-Token-Count") != "" || resp.Header.Get("X-Gateway-Scheduled-Credential-Id") != "crd_b" {
				t.Errorf("%s: status %d by %q: %s", kind, resp.StatusCode, resp.Header.Get("X-Gateway-Scheduled-Credential-Id"), got)
			}
		}
	}
}

// What is wrong with the request is told and not estimated.
func TestCountsOfTokensOfBadRequestsAreRefused(t *testing.T) {
	t.Parallel()
	g := newRig(t, offering(configv1.Protocol_PROTOCOL_OPENAI_CHAT))
	for body, want := range map[string]int{
		`{"model":"m","messages":7}`:        http.StatusBadRequest,
		`{"messages":[]}`:                   http.StatusBadRequest,
		`{"model":"nowhere","messages":[]}`: http.StatusNotFound,
		`{"model":"m","model":"m"}`:         http.StatusBadRequest,
	} {
		if resp, got := g.send(t, "POST", "/v1/messages/count_tokens", "application/json", body, "Anthropic-Version", "2023-06-01"); resp.StatusCode != want {
			t.Errorf("%s: status %d: %s, want %d", body, resp.StatusCode, got, want)
		}
	}
	g = newRig(t)
	g.provider.Script(fakeprovider.Match{Operation: fakeprovider.CountTokens}, fakeprovider.Fail(fakeprovider.BadRequest))
	if resp, got := g.send(t, "POST", "/v1/messages/count_tokens", "application/json", agentRequest(), "Anthropic-Version", "2023-06-01"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d: %s, want the provider's 400", resp.StatusCode, got)
	}
}
