package vendorsdk

import (
	"context"
	"encoding/json"
	"errors"

	"google.golang.org/genai"
)

// Gemini is a client of Gemini's protocol at a server; q gives the key and the HTTP
// client.
func Gemini(ctx context.Context, url string, q Question) (*genai.Client, error) {
	return genai.NewClient(ctx, &genai.ClientConfig{
		APIKey: q.Key, Backend: genai.BackendGeminiAPI, HTTPClient: q.Client,
		HTTPOptions: genai.HTTPOptions{BaseURL: url},
	})
}

func geminiStatus(err error) int {
	if e, ok := errors.AsType[genai.APIError](err); ok {
		return e.Code
	}
	return 0
}

func geminiParams(q Question) ([]*genai.Content, *genai.GenerateContentConfig) {
	contents := []*genai.Content{genai.NewContentFromText(q.Text, genai.RoleUser)}
	if len(q.Image) > 0 {
		contents[0].Parts = append(contents[0].Parts, genai.NewPartFromBytes(q.Image, "image/png"))
	}
	if q.Result != "" {
		c := q.called("")
		contents = append(contents,
			genai.NewContentFromFunctionCall(c.Name, c.arguments(), genai.RoleModel),
			genai.NewContentFromFunctionResponse(c.Name, map[string]any{"output": q.Result}, genai.RoleUser))
	}
	cfg := &genai.GenerateContentConfig{}
	if q.Tools {
		cfg.Tools = []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
			{Name: toolName, ParametersJsonSchema: schemaMap()},
		}}}
	}
	if q.Force {
		cfg.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny}}
	}
	if q.Limit > 0 {
		cfg.MaxOutputTokens = int32(q.Limit)
	}
	return contents, cfg
}

// addGemini adds a response, or a piece of one, to r.
func addGemini(r *Reply, g *genai.GenerateContentResponse) {
	r.Model = g.ModelVersion
	if u := g.UsageMetadata; u != nil {
		r.Prompt, r.Cached = int64(u.PromptTokenCount), int64(u.CachedContentTokenCount)
		r.Output, r.Thought = int64(u.CandidatesTokenCount), int64(u.ThoughtsTokenCount)
	}
	for _, c := range g.Candidates {
		if c.FinishReason != "" {
			r.Stop = string(c.FinishReason)
		}
		if c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			switch {
			case p.FunctionCall != nil:
				args, err := json.Marshal(p.FunctionCall.Args)
				if err != nil {
					panic(err) // it was JSON
				}
				r.Calls = append(r.Calls, Call{p.FunctionCall.ID, p.FunctionCall.Name, string(args)})
			case p.Thought:
				r.Reasoning += p.Text
			default:
				r.Text += p.Text
			}
		}
	}
}

func askGemini(ctx context.Context, url string, q Question) (Reply, error) {
	client, err := Gemini(ctx, url, q)
	if err != nil {
		return Reply{}, err
	}
	contents, cfg := geminiParams(q)
	g, err := client.Models.GenerateContent(ctx, q.Model, contents, cfg)
	if err != nil {
		return Reply{}, err
	}
	var r Reply
	addGemini(&r, g)
	return r, nil
}

func streamGemini(ctx context.Context, url string, q Question, seen func()) (Reply, error) {
	client, err := Gemini(ctx, url, q)
	if err != nil {
		return Reply{}, err
	}
	var r Reply
	contents, cfg := geminiParams(q)
	for g, err := range client.Models.GenerateContentStream(ctx, q.Model, contents, cfg) {
		if err != nil {
			return r, err
		}
		seen()
		addGemini(&r, g)
	}
	if r.Stop == "" {
		return r, ErrNoEnd
	}
	return r, nil
}
