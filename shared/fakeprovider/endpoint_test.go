package fakeprovider_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// call sends one request to a provider and returns status and body.
func call(t *testing.T, p *fakeprovider.Provider, method, path, kind, body, key string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// Requests that the vendors refuse are refused, whether or not the provider is strict
// with texts.
func TestEndpointsRefuseWhatTheVendorsRefuse(t *testing.T) {
	t.Parallel()
	p := fakeprovider.New(fakeprovider.Config{})
	for _, tc := range []struct{ path, body, want string }{
		{"/v1/embeddings", `{"model":"m"}`, "Missing required parameter: 'input'"},
		{"/v1/embeddings", `{"model":"m","input":"a","stream":true}`, "Unknown parameter: 'stream'"},
		{"/v1/embeddings", `{"model":"m","input":""}`, "empty text"},
		{"/v1/embeddings", `{"model":"m","input":"a","encoding_format":"hex"}`, "not one of"},
		{"/v1/embeddings", `{"model":"m","input":"a","dimensions":0}`, "between 1 and"},
		{"/v1/embeddings", `{"model":"m","input":"a","input":"b"}`, "twice"},
		{"/v1beta/models/m:embedContent", `{"content":{"parts":[{"text":"a"}]},"user":"u"}`, "Cannot find field"},
		{"/v1beta/models/m:embedContent", `{"content":{"parts":[{"text":"a"}]},"title":"t"}`, "RETRIEVAL_DOCUMENT"},
		{"/v1beta/models/m:embedContent", `{}`, "is required"},
		{"/v1beta/models/m:batchEmbedContents", `{"requests":[{"content":{"parts":[{"text":"a"}]}}]}`, "model: is required"},
		{"/v1beta/models/m:batchEmbedContents", `{"requests":[{"model":"models/x","content":{"parts":[{"text":"a"}]}}]}`, "as in the path"},
		{"/v1/images/generations", `{"model":"m","prompt":"x","n":11}`, "between 1 and 10"},
		{"/v1/images/edits", `{"model":"m","prompt":"x"}`, "'image'"},
		{"/v1/audio/speech", `{"model":"m","input":"x"}`, "'voice'"},
		{"/v1/audio/transcriptions", `{"model":"m"}`, "'file'"},
		{"/v1/rerank", `{"model":"m","query":"x","documents":[]}`, "not empty"},
		{"/v1/moderations", `{"model":"m"}`, "'input'"},
	} {
		if code, body := call(t, p, http.MethodPost, tc.path, "application/json", tc.body, ""); code != http.StatusBadRequest || !strings.Contains(body, tc.want) {
			t.Errorf("%s %s: %d %s, want a 400 that says %q", tc.path, tc.body, code, body, tc.want)
		}
	}
	if code, body := call(t, p, http.MethodGet, "/v1/embeddings", "", "", ""); code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d %s", code, body)
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	_ = w.WriteField("model", "m") // a buffer takes everything
	_ = w.WriteField("surprise", "x")
	f, _ := w.CreateFormFile("file", "a.wav")
	_, _ = f.Write(fakeprovider.Wav(1))
	_ = w.Close()
	if code, body := call(t, p, http.MethodPost, "/v1/audio/transcriptions", w.FormDataContentType(), form.String(), ""); code != http.StatusBadRequest || !strings.Contains(body, "surprise") {
		t.Errorf("a form with an unknown field: %d %s", code, body)
	}
}

// The same text has the same vector, in every protocol and at every call.
func TestEmbeddingsAreDeterministic(t *testing.T) {
	t.Parallel()
	p := fakeprovider.New(fakeprovider.Config{})
	_, one := call(t, p, http.MethodPost, "/v1/embeddings", "application/json", `{"model":"m","input":"a"}`, "")
	_, two := call(t, p, http.MethodPost, "/v1/embeddings", "application/json", `{"model":"m","input":["a"]}`, "other")
	_, gemini := call(t, p, http.MethodPost, "/v1beta/models/m:embedContent", "application/json", `{"content":{"parts":[{"text":"a"}]}}`, "")
	_, vector, _ := strings.Cut(one, `"embedding":[`)
	vector, _, _ = strings.Cut(vector, "]")
	if one != two || vector == "" || !strings.Contains(gemini, `"values":[`+vector+"]") {
		t.Errorf("%s, %s and %s differ", one, two, gemini)
	}
}

// A video is its account's own, and is done after it was looked at twice.
func TestVideosBelongToTheirKey(t *testing.T) {
	t.Parallel()
	p := fakeprovider.New(fakeprovider.Config{})
	_, made := call(t, p, http.MethodPost, "/v1/videos", "application/json", `{"prompt":"x"}`, "a")
	_, id, _ := strings.Cut(made, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	if code, body := call(t, p, http.MethodGet, "/v1/videos/"+id, "", "", "b"); code != http.StatusNotFound {
		t.Errorf("another key: %d %s", code, body)
	}
	if code, body := call(t, p, http.MethodGet, "/v1/videos/"+id+"/content", "", "", "a"); code != http.StatusNotFound {
		t.Errorf("content before the end: %d %s", code, body)
	}
	for _, status := range []string{"in_progress", "completed"} {
		if _, body := call(t, p, http.MethodGet, "/v1/videos/"+id, "", "", "a"); !strings.Contains(body, `"status":"`+status+`"`) {
			t.Errorf("%s is not %s", body, status)
		}
	}
	if code, _ := call(t, p, http.MethodGet, "/v1/videos/"+id+"/content", "", "", "a"); code != http.StatusOK {
		t.Errorf("content at the end: %d", code)
	}
	if _, body := call(t, p, http.MethodGet, "/v1/videos", "", "", "b"); strings.Contains(body, id) {
		t.Errorf("another key's list has it: %s", body)
	}
}

// Counting takes the steps that are meant for it and no others.
func TestCountsTakeTheirOwnSteps(t *testing.T) {
	t.Parallel()
	p := fakeprovider.New(fakeprovider.Config{})
	p.Script(fakeprovider.Match{}, fakeprovider.Fail(fakeprovider.Overloaded))
	body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`
	if code, got := call(t, p, http.MethodPost, "/v1/messages/count_tokens", "application/json", body, ""); code != http.StatusOK {
		t.Errorf("a count: %d %s", code, got)
	}
	if code, got := call(t, p, http.MethodPost, "/v1/messages", "application/json", body, ""); code != 529 {
		t.Errorf("a message: %d %s", code, got)
	}
	p.Script(fakeprovider.Match{Operation: fakeprovider.CountTokens}, fakeprovider.Fail(fakeprovider.RateLimited))
	if code, got := call(t, p, http.MethodPost, "/v1/messages/count_tokens", "application/json", body, ""); code != http.StatusTooManyRequests {
		t.Errorf("a count that is to fail: %d %s", code, got)
	}
}
