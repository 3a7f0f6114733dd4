package fakeprovider_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"go.uber.org/goleak"
	"google.golang.org/genai"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

func TestMain(m *testing.M) {
	// The Gemini SDK links opencensus, whose init starts a worker for good.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// each runs f once a protocol, streamed and not.
func each(t *testing.T, f func(t *testing.T, s vendorsdk.SDK, ask func(ctx context.Context, url string, q vendorsdk.Question) (vendorsdk.Reply, error))) {
	t.Helper()
	for _, s := range vendorsdk.All() {
		t.Run(string(s.Protocol)+"/whole", func(t *testing.T) {
			t.Parallel()
			f(t, s, s.Ask)
		})
		t.Run(string(s.Protocol)+"/stream", func(t *testing.T) {
			t.Parallel()
			f(t, s, func(ctx context.Context, url string, q vendorsdk.Question) (vendorsdk.Reply, error) {
				return s.Stream(ctx, url, q, func() {})
			})
		})
	}
}

// serve starts a provider on a port of its own.
func serve(t *testing.T, cfg fakeprovider.Config) (*fakeprovider.Provider, string) {
	t.Helper()
	p := fakeprovider.New(cfg)
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	return p, srv.URL
}

func TestDefaultAnswerNamesModelAndRepeatsTheUser(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{Strict: true})
	each(t, func(t *testing.T, s vendorsdk.SDK, ask func(context.Context, string, vendorsdk.Question) (vendorsdk.Reply, error)) {
		q := vendorsdk.Question{Key: "k", Model: "fake-large", Text: "good morning"}
		r, err := ask(t.Context(), url, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"fake-large", "good morning", protocolTitle(s.Protocol)} {
			if !strings.Contains(r.Text, want) {
				t.Errorf("answer %q does not mention %q", r.Text, want)
			}
		}
		if r.Model != "fake-large" {
			t.Errorf("served model %q, want fake-large", r.Model)
		}
		if want := stopWords(s.Protocol)["end"]; r.Stop != want {
			t.Errorf("stop %q, want %q", r.Stop, want)
		}
		if want := int64(len(q.Text)+3) / 4; r.Prompt != want {
			t.Errorf("prompt tokens %d, want %d", r.Prompt, want)
		}
		if want := int64(len(r.Text)+3) / 4; r.Output != want {
			t.Errorf("output tokens %d, want %d", r.Output, want)
		}
	})
}

func TestToolLoopCallsOnceThenAnswers(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{Strict: true})
	each(t, func(t *testing.T, s vendorsdk.SDK, ask func(context.Context, string, vendorsdk.Question) (vendorsdk.Reply, error)) {
		for _, q := range []vendorsdk.Question{
			{Key: "k", Model: "m", Text: "use a Tool, please", Tools: true},
			{Key: "k", Model: "m", Text: "weather?", Tools: true, Force: true},
		} {
			r, err := ask(t.Context(), url, q)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Calls) != 1 || r.Calls[0].Name != "weather" {
				t.Fatalf("calls %v, want one of weather", r.Calls)
			}
			var args struct {
				City string
				Days int
			}
			if err := json.Unmarshal([]byte(r.Calls[0].Args), &args); err != nil || args.City == "" || args.Days == 0 {
				t.Errorf("arguments %s do not fit %s", r.Calls[0].Args, vendorsdk.ToolSchema)
			}
			if want := stopWords(s.Protocol)["tools"]; r.Stop != want {
				t.Errorf("stop %q, want %q", r.Stop, want)
			}
		}

		r, err := ask(t.Context(), url, vendorsdk.Question{Key: "k", Model: "m", Text: "use a tool", Tools: true, Result: "sunny"})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Calls) != 0 || !strings.Contains(r.Text, "sunny") {
			t.Errorf("after a tool result: %+v, want a text with the result", r)
		}

		r, err = ask(t.Context(), url, vendorsdk.Question{Key: "k", Model: "m", Text: "weather?", Tools: true})
		if err != nil || len(r.Calls) != 0 {
			t.Errorf("without a reason: calls %v (%v), want none", r.Calls, err)
		}
	})
}

func TestOutputLimitCutsTheAnswer(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{})
	each(t, func(t *testing.T, s vendorsdk.SDK, ask func(context.Context, string, vendorsdk.Question) (vendorsdk.Reply, error)) {
		r, err := ask(t.Context(), url, vendorsdk.Question{Key: "k", Model: "m", Text: "hello", Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		if r.Output != 3 || len(r.Text) != 12 {
			t.Errorf("%d tokens in %q, want 3 in 12 bytes", r.Output, r.Text)
		}
		if want := stopWords(s.Protocol)["length"]; r.Stop != want {
			t.Errorf("stop %q, want %q", r.Stop, want)
		}
	})
}

func TestScriptedContentReachesEverySDK(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	p.Script(fakeprovider.Match{}, fakeprovider.Step{
		Text: "grüße, 世界", Reasoning: "let me think", Model: "served-1",
		ToolCalls: []fakeprovider.ToolCall{
			{Name: "a", Arguments: `{"n":12345678901234567,"text":"äöü with quite some length"}`},
			{Name: "b"},
		},
		KeepAlives: 3,
		Usage: &fakeprovider.Usage{
			Input: 100, Cached: 20, CacheWrite5m: 7, CacheWrite1h: 3, Output: 50, Reasoning: 5,
		},
	})
	each(t, func(t *testing.T, s vendorsdk.SDK, ask func(context.Context, string, vendorsdk.Question) (vendorsdk.Reply, error)) {
		r, err := ask(t.Context(), url, vendorsdk.Question{Key: "k", Model: "m", Text: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if r.Text != "grüße, 世界" || r.Model != "served-1" {
			t.Errorf("text %q of %q", r.Text, r.Model)
		}
		if s.Protocol != fakeprovider.Chat && r.Reasoning != "let me think" { // Chat's SDK has no field for it
			t.Errorf("reasoning %q", r.Reasoning)
		}
		if len(r.Calls) != 2 || r.Calls[0].Name != "a" || r.Calls[1].Name != "b" || r.Calls[1].Args != "{}" {
			t.Fatalf("calls %v", r.Calls)
		}
		if !strings.Contains(r.Calls[0].Args, "äöü with quite some length") {
			t.Errorf("arguments %s", r.Calls[0].Args)
		}
		want := vendorsdk.Reply{Prompt: 130, Cached: 20, Written: 10, Output: 55, Thought: 5}
		switch s.Protocol {
		case fakeprovider.Anthropic: // input apart from what a cache was involved in
			want.Prompt = 100
		case fakeprovider.Gemini: // no word for writes; thoughts apart from output
			want.Written, want.Output = 0, 50
		}
		got := vendorsdk.Reply{Prompt: r.Prompt, Cached: r.Cached, Written: r.Written, Output: r.Output, Thought: r.Thought}
		if got.Prompt != want.Prompt || got.Cached != want.Cached || got.Written != want.Written ||
			got.Output != want.Output || got.Thought != want.Thought {
			t.Errorf("usage %+v, want %+v", got, want)
		}
	})
}

func TestModelListsOfEveryVendor(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{Models: []string{"one", "two", "three"}})
	ctx := t.Context()

	oai := vendorsdk.OpenAI(url, vendorsdk.Question{Key: "k"})
	page, err := oai.Models.List(ctx)
	if err != nil || len(page.Data) != 3 || page.Data[1].ID != "two" {
		t.Errorf("OpenAI: %v (%v)", page, err)
	}
	if m, err := oai.Models.Get(ctx, "two"); err != nil || m.ID != "two" {
		t.Errorf("OpenAI get: %v (%v)", m, err)
	}
	if _, err := oai.Models.Get(ctx, "four"); vendorsdk.Of(fakeprovider.Chat).Status(err) != 404 {
		t.Errorf("OpenAI get of an unknown model: %v, want 404", err)
	}

	ant := vendorsdk.Anthropic(url, vendorsdk.Question{Key: "k"})
	var ids []string
	pager := ant.Models.ListAutoPaging(ctx, anthropic.ModelListParams{Limit: anthropic.Int(2)})
	for pager.Next() {
		ids = append(ids, pager.Current().ID)
	}
	if pager.Err() != nil || strings.Join(ids, " ") != "one two three" {
		t.Errorf("Anthropic: %v (%v)", ids, pager.Err())
	}
	if m, err := ant.Models.Get(ctx, "two", anthropic.ModelGetParams{}); err != nil || m.ID != "two" {
		t.Errorf("Anthropic get: %v (%v)", m, err)
	}

	gem, err := vendorsdk.Gemini(ctx, url, vendorsdk.Question{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	ids = nil
	first, err := gem.Models.List(ctx, &genai.ListModelsConfig{PageSize: 2})
	for err == nil {
		for _, m := range first.Items {
			ids = append(ids, m.Name)
		}
		if first.NextPageToken == "" {
			break
		}
		first, err = first.Next(ctx)
	}
	if err != nil || strings.Join(ids, " ") != "models/one models/two models/three" {
		t.Errorf("Gemini: %v (%v)", ids, err)
	}
	if m, err := gem.Models.Get(ctx, "two", nil); err != nil || m.Name != "models/two" {
		t.Errorf("Gemini get: %v (%v)", m, err)
	}
}

func TestCountTokensAgreesWithGeneration(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{})
	ctx := t.Context()
	const text = "how many tokens is this?" // 24 bytes
	ant := vendorsdk.Anthropic(url, vendorsdk.Question{Key: "k"})
	n, err := ant.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{
		Model: "m", Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
	})
	if err != nil || n.InputTokens != 6 {
		t.Errorf("Anthropic: %v (%v), want 6", n, err)
	}
	gem, err := vendorsdk.Gemini(ctx, url, vendorsdk.Question{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gem.Models.CountTokens(ctx, "m", genai.Text(text), nil)
	if err != nil || g.TotalTokens != 6 {
		t.Errorf("Gemini: %v (%v), want 6", g, err)
	}
	oai := vendorsdk.OpenAI(url, vendorsdk.Question{Key: "k"})
	o, err := oai.Responses.InputTokens.Count(ctx, responses.InputTokenCountParams{
		Model: openai.String("m"), Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String(text)},
	})
	if err != nil || o.InputTokens != 6 {
		t.Errorf("Responses: %v (%v), want 6", o, err)
	}
}

func TestAnImageReachesTheProviderInEveryProtocol(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{Strict: true})
	png := []byte("\x89PNG\r\n\x1a\nnot much of a picture")
	each(t, func(t *testing.T, s vendorsdk.SDK, ask func(context.Context, string, vendorsdk.Question) (vendorsdk.Reply, error)) {
		r, err := ask(t.Context(), url, vendorsdk.Question{Key: t.Name(), Model: "m", Text: "see", Image: png})
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(1 + fakeprovider.MediaBytes/4); r.Prompt != want {
			t.Errorf("prompt tokens %d, want %d: those of the text and of the image", r.Prompt, want)
		}
		for _, got := range p.Requests() {
			if got.Key == t.Name() && !strings.Contains(string(got.Body), base64.StdEncoding.EncodeToString(png)) {
				t.Errorf("the image is not in the body %s", got.Body)
			}
		}
	})
}
