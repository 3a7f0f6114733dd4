package dataplane

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"google.golang.org/genai"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
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
	if n := len(g.provider.Requests()); n != 0 {
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

// The vectors that a caller gets are the provider's, whatever protocol lies between.
func TestEmbeddingsOfOpenAIAreServedByGemini(t *testing.T) {
	t.Parallel()
	texts := []string{"one", "two\n\"quoted\"", "三"}
	want := embedTexts(t, newRig(t), "float", texts...)
	for _, n := range []int{1, 3} {
		g := newRig(t, offering(configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT))
		got := embedTexts(t, g, "float", texts[:n]...)
		path := "/v1beta/models/fake-large:batchEmbedContents"
		if n == 1 {
			path = "/v1beta/models/fake-large:embedContent"
		}
		if r := g.last(t); r.Path != path || r.Key == "" {
			t.Errorf("%d texts: the upstream was called at %q with the key %q", n, r.Path, r.Key)
		}
		if got.Model != "m" || len(got.Data) != n || got.Usage.PromptTokens == 0 {
			t.Fatalf("%d texts: model %q, %d embeddings, usage %v", n, got.Model, len(got.Data), got.Usage)
		}
		for i, d := range got.Data {
			if !slices.Equal(d.Embedding, want.Data[i].Embedding) || d.Index != int64(i) {
				t.Errorf("%d texts: embedding %d is %v, want %v", n, i, d.Embedding, want.Data[i].Embedding)
			}
		}
		wantUnits(t, g.only(t), estimated, &ledgerv1.Units{Input: got.Usage.PromptTokens, Request: 1})
	}
}

func TestEmbeddingsInBase64AreMadeOfFloats(t *testing.T) {
	t.Parallel()
	want := embedTexts(t, newRig(t), "float", "some text").Data[0].Embedding
	for _, option := range []rigOption{func(*syncv1.TenantShard) {}, offering(configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT)} {
		g := newRig(t, option)
		_, body := g.send(t, "POST", "/v1/embeddings", "application/json", `{"model":"m","input":"some text","encoding_format":"base64","dimensions":16}`)
		var got struct {
			Data []struct {
				Embedding string `json:"embedding"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Data) != 1 {
			t.Fatalf("%v in %s", err, body)
		}
		if v := floatsOf(t, got.Data[0].Embedding); len(v) != len(want) || math.Abs(v[0]-want[0]) > 1e-7 || math.Abs(v[15]-want[15]) > 1e-7 {
			t.Errorf("base64 holds %v, want %v", v, want)
		}
	}
}

func TestEmbeddingsOfGeminiAreServedByOpenAI(t *testing.T) {
	t.Parallel()
	size := int32(8)
	contents := []*genai.Content{genai.NewContentFromText("one", genai.RoleUser), genai.NewContentFromText("two", genai.RoleUser)}
	want, err := newRig(t).gemini(t).Models.EmbedContent(t.Context(), "m", contents, &genai.EmbedContentConfig{OutputDimensionality: &size})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []configv1.Protocol{configv1.Protocol_PROTOCOL_OPENAI_CHAT, configv1.Protocol_PROTOCOL_OPENAI_RESPONSES} {
		g := newRig(t, offering(p))
		got, err := g.gemini(t).Models.EmbedContent(t.Context(), "m", contents, &genai.EmbedContentConfig{OutputDimensionality: &size})
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.Embeddings {
			if !slices.Equal(got.Embeddings[i].Values, want.Embeddings[i].Values) {
				t.Errorf("embedding %d is %v, want %v", i, got.Embeddings[i].Values, want.Embeddings[i].Values)
			}
		}
		if r := g.last(t); r.Path != "/v1/embeddings" || r.Model != "fake-large" {
			t.Errorf("the upstream was asked for %q at %q", r.Model, r.Path)
		}
		wantUnits(t, g.only(t), byProvider, &ledgerv1.Units{Input: 2, Request: 1})
	}
	g := newRig(t, offering(configv1.Protocol_PROTOCOL_OPENAI_CHAT))
	resp, body := g.send(t, "POST", "/v1beta/models/m:embedContent", "application/json", `{"content":{"parts":[{"text":"a"},{"text":"b"}]}}`)
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(body, `{"embedding":{"values":[`) {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
	if got := string(g.last(t).Body); !strings.Contains(got, `["a\nb"]`) {
		t.Errorf("the upstream got %s, want the parts as lines of one text", got)
	}
}

// What a protocol cannot express is refused, or left out and named.
func TestEmbeddingsThatCannotBeConvertedSayWhy(t *testing.T) {
	t.Parallel()
	toGemini := offering(configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT)
	toOpenAI := offering(configv1.Protocol_PROTOCOL_OPENAI_CHAT)
	for name, tc := range map[string]struct {
		option             rigOption
		path, body, header string
		status             int
		want               string // in the body, or in the header x-gateway-lossy
	}{
		"token ids":          {toGemini, "/v1/embeddings", `{"model":"m","input":[1,2,3]}`, "", 400, "Send the text"},
		"lists of token ids": {toGemini, "/v1/embeddings", `{"model":"m","input":[[1,2],[3]]}`, "", 400, "Send the text"},
		"too many texts":     {toGemini, "/v1/embeddings", `{"model":"m","input":["a"` + strings.Repeat(`,"a"`, 100) + `]}`, "", 400, "at most 100"},
		"another format":     {toGemini, "/v1/embeddings", `{"model":"m","input":"a","encoding_format":"hex"}`, "", 400, "float or base64"},
		"user":               {toGemini, "/v1/embeddings", `{"model":"m","input":"a","user":"u"}`, "", 200, "user=drop"},
		"user, strictly":     {toGemini, "/v1/embeddings", `{"model":"m","input":"a","user":"u"}`, "openai_chat.user=reject", 400, "cannot express the field user"},
		"the usage":          {toGemini, "/v1/embeddings", `{"model":"m","input":"a"}`, "", 200, "usage=substitute"},
		"task type":          {toOpenAI, "/v1beta/models/m:embedContent", `{"content":{"parts":[{"text":"a"}]},"taskType":"CLUSTERING"}`, "", 400, "gemini_generate_content.task_type=drop"},
		"task type, dropped": {toOpenAI, "/v1beta/models/m:embedContent", `{"content":{"parts":[{"text":"a"}]},"taskType":"CLUSTERING"}`, "gemini_generate_content.task_type=drop", 200, "task_type=drop"},
		"title":              {toOpenAI, "/v1beta/models/m:embedContent", `{"content":{"parts":[{"text":"a"}]},"title":"x"}`, "", 200, "title=drop"},
		"two sizes": {
			toOpenAI, "/v1beta/models/m:batchEmbedContents",
			`{"requests":[{"content":{"parts":[{"text":"a"}]},"outputDimensionality":8},{"content":{"parts":[{"text":"a"}]}}]}`, "", 400, "one size",
		},
		"a picture": {toOpenAI, "/v1beta/models/m:embedContent", `{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"AA=="}}]}}`, "", 400, "texts alone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, tc.option)
			resp, body := g.send(t, "POST", tc.path, "application/json", tc.body, "X-Gateway-Options", tc.header)
			if resp.StatusCode != tc.status || !strings.Contains(body+resp.Header.Get("X-Gateway-Lossy"), tc.want) {
				t.Errorf("status %d, lossy %q: %s; want %d and %q", resp.StatusCode, resp.Header.Get("X-Gateway-Lossy"), body, tc.status, tc.want)
			}
			if n := len(g.provider.Requests()); tc.status != 200 && n != 0 {
				t.Errorf("the provider got %d requests", n)
			}
		})
	}
}

func TestEmbeddingsOfAnUpstreamThatAnswersTooFewAreNoAnswer(t *testing.T) {
	t.Parallel()
	g := newRig(t, offering(configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT))
	g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Raw: []byte(`{"embeddings":[{"values":[1]}]}`)})
	if resp, body := g.send(t, "POST", "/v1/embeddings", "application/json", `{"model":"m","input":["a","b"]}`); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d: %s, want a 502", resp.StatusCode, body)
	}
}

// A model that states features needs the one for embeddings; one that states none is
// taken at its caller's word.
func TestEmbeddingsNeedAModelThatDoesNotStateOtherwise(t *testing.T) {
	t.Parallel()
	for feature, want := range map[configv1.Feature]int{
		configv1.Feature_FEATURE_TOOLS: http.StatusBadRequest, configv1.Feature_FEATURE_EMBEDDINGS: http.StatusOK,
	} {
		g := newRig(t, func(ts *syncv1.TenantShard) { ts.Models[0].Features = []configv1.Feature{feature} })
		if resp, body := g.send(t, "POST", "/v1/embeddings", "application/json", `{"model":"m","input":"a"}`); resp.StatusCode != want {
			t.Errorf("%v: status %d: %s", feature, resp.StatusCode, body)
		}
	}
}
