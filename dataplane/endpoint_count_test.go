package dataplane

import (
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
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
