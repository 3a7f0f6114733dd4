package fakeprovider_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

func protocolTitle(p fakeprovider.Protocol) string {
	switch p {
	case fakeprovider.Chat:
		return "OpenAI Chat Completions"
	case fakeprovider.Responses:
		return "OpenAI Responses"
	case fakeprovider.Anthropic:
		return "Anthropic Messages"
	}
	return "Gemini generateContent"
}

func stopWords(p fakeprovider.Protocol) map[string]string {
	switch p {
	case fakeprovider.Chat:
		return map[string]string{"end": "stop", "tools": "tool_calls", "length": "length"}
	case fakeprovider.Responses:
		return map[string]string{"end": "completed", "tools": "completed", "length": "incomplete"}
	case fakeprovider.Anthropic:
		return map[string]string{"end": "end_turn", "tools": "tool_use", "length": "max_tokens"}
	}
	return map[string]string{"end": "STOP", "tools": "STOP", "length": "MAX_TOKENS"}
}

// simple is the smallest request of a protocol.
func simple(p fakeprovider.Protocol, stream bool) (path, body string) {
	flag := ""
	if stream {
		flag = `,"stream":true`
	}
	switch p {
	case fakeprovider.Chat:
		return "/v1/chat/completions", `{"model":"m"` + flag + `,"messages":[{"role":"user","content":"hi"}]}`
	case fakeprovider.Responses:
		return "/v1/responses", `{"model":"m"` + flag + `,"input":"hi"}`
	case fakeprovider.Anthropic:
		return "/v1/messages", `{"model":"m"` + flag + `,"max_tokens":99,"messages":[{"role":"user","content":"hi"}]}`
	}
	path = "/v1beta/models/m:generateContent"
	if stream {
		path = "/v1beta/models/m:streamGenerateContent?alt=sse"
	}
	return path, `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
}

// post sends a request without an SDK. The caller closes the body.
func post(ctx context.Context, url, body string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return http.DefaultClient.Do(req)
}

// fetch posts and reads everything. err is that of reading; a request that gets no
// response fails the test.
func fetch(t *testing.T, url, body string, header ...string) (resp *http.Response, data []byte, err error) {
	t.Helper()
	resp, err = post(t.Context(), url, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err = io.ReadAll(resp.Body)
	return resp, data, err
}
