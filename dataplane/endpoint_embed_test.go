package dataplane

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"google.golang.org/genai"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

func embedTexts(t *testing.T, g *rig, format openai.EmbeddingNewParamsEncodingFormat, texts ...string) *openai.CreateEmbeddingResponse {
	t.Helper()
	c := g.openai()
	resp, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "m", EncodingFormat: format,
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: texts},
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestEmbeddingsOfOpenAIPassThrough(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	resp := embedTexts(t, g, "float", "one text", "another text")
	if len(resp.Data) != 2 || len(resp.Data[0].Embedding) == 0 || slices.Equal(resp.Data[0].Embedding, resp.Data[1].Embedding) {
		t.Fatalf("got %d embeddings: %v", len(resp.Data), resp.Data)
	}
	if got := g.last(t); got.Model != "fake-large" || got.Path != "/v1/embeddings" {
		t.Errorf("the upstream was asked for %q at %q", got.Model, got.Path)
	}
	e := g.only(t)
	wantUnits(t, e, byProvider, &ledgerv1.Units{Input: resp.Usage.PromptTokens, Request: 1})
	if e.GetModelRequested() != "m" {
		t.Errorf("model requested is %q", e.GetModelRequested())
	}
}

// What the caller sent and what the provider answered are not touched beside the model.
func TestEmbeddingsAreByteForByteBesideTheModel(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/embeddings", "/embeddings", "/embeddings/"} {
		g := newRig(t)
		body := `{ "input" : ["a", "b\u0000"],  "encoding_format":"base64", "model": "m" , "user":"u"}`
		resp, got := g.send(t, "POST", path, "application/json", body)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d: %s", path, resp.StatusCode, got)
		}
		if want := strings.Replace(body, `"m"`, `"fake-large"`, 1); string(g.last(t).Body) != want {
			t.Errorf("%s: the upstream got %s, want %s", path, g.last(t).Body, want)
		}
	}
}

func TestEmbeddingsOfGeminiPassThrough(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	size := int32(8)
	resp, err := g.gemini(t).Models.EmbedContent(t.Context(), "m",
		[]*genai.Content{genai.NewContentFromText("one text of some length", genai.RoleUser), genai.NewContentFromText("two", genai.RoleUser)},
		&genai.EmbedContentConfig{TaskType: "RETRIEVAL_QUERY", OutputDimensionality: &size})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Embeddings) != 2 || len(resp.Embeddings[0].Values) != 8 {
		t.Fatalf("got %d embeddings", len(resp.Embeddings))
	}
	if got := g.last(t); got.Path != "/v1beta/models/fake-large:batchEmbedContents" || !strings.Contains(string(got.Body), `"models/fake-large"`) || strings.Contains(string(got.Body), `"models/m"`) {
		t.Errorf("the upstream got %s at %s: every request has to name the upstream's model", got.Body, got.Path)
	}
	wantUnits(t, g.only(t), estimated, &ledgerv1.Units{Input: 7, Request: 1}) // 23 and 3 bytes
}

func TestEmbedContentOfOneTextPassesThrough(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1beta/models/m:embedContent", "/v1/models/m:embedContent", "/models/m:embedContent"} {
		g := newRig(t)
		resp, body := g.send(t, "POST", path, "application/json", `{"model":"models/m","content":{"parts":[{"text":"hello"}]}}`)
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"embedding"`) {
			t.Errorf("%s: status %d: %s", path, resp.StatusCode, body)
		}
	}
}

func TestEmbeddingsFailOverToTheOtherAccount(t *testing.T) {
	t.Parallel()
	for _, kind := range []fakeprovider.ErrorKind{fakeprovider.RateLimited, fakeprovider.Unavailable, fakeprovider.Overloaded} {
		g := newRig(t, elsewhere)
		g.provider.Script(fakeprovider.Match{Key: keyA}, fakeprovider.Fail(kind))
		for range 2 { // whoever is first in turn
			if resp, body := g.send(t, "POST", "/v1/embeddings", "application/json", `{"model":"m","input":"x"}`); resp.StatusCode != http.StatusOK {
				t.Errorf("%s: status %d: %s", kind, resp.StatusCode, body)
			} else if got := resp.Header.Get("X-Gateway-Scheduled-Credential-Id"); got != "crd_b" {
				t.Errorf("%s: served by %q, want crd_b", kind, got)
			}
		}
	}
}

func TestEmbeddingsThatCannotBeReadAreRefused(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for body, want := range map[string]string{
		`{"input":"x"}`:                       "The member model is missing",
		`{"model":"m"}`:                       "The member input is missing",
		`{"model":"m","input":7}`:             "must be a text, a list of texts",
		`{"model":"m","input":[{"a":1}]}`:     "must be a text, a list of texts",
		`{"model":"m","input":[["a"]]}`:       "must be a text, a list of texts",
		`{"model":"m","Model":"x","input":1}`: "differs from",
		`{"model":"m","model":"x"}`:           "twice",
		`[]`:                                  "must be a JSON object",
		`{"model":"m","input":[` + strings.Repeat(`"a",`, 10001) + `"a"]}`: "more than 10000 elements",
	} {
		resp, got := g.send(t, "POST", "/v1/embeddings", "application/json", body)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, want) {
			t.Errorf("%.80s: status %d: %s; want a 400 that says %q", body, resp.StatusCode, got, want)
		}
	}
	for body, want := range map[string]string{
		`{"contents":[]}`:                       "The member content is missing",
		`{"requests":[]}`:                       "Call batchEmbedContents",
		`{"model":"models/other","content":{}}`: "another model than the path",
	} {
		resp, got := g.send(t, "POST", "/v1beta/models/m:embedContent", "application/json", body)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, want) || !strings.Contains(got, "INVALID_ARGUMENT") {
			t.Errorf("%s: status %d: %s; want a 400 that says %q", body, resp.StatusCode, got, want)
		}
	}
	if n := g.provider.Attempts(); n != 0 {
		t.Errorf("the provider got %d requests, want none", n)
	}
}

// floatsOf decodes the base64 of little-endian float32 values.
func floatsOf(t *testing.T, s string) []float64 {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(raw)%4 != 0 {
		t.Fatalf("%q is no base64 of float32 values: %v", s, err)
	}
	out := make([]float64, len(raw)/4)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
	}
	return out
}
