package protocol_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func TestIdentifyTellsProtocolAndOperation(t *testing.T) {
	t.Parallel()
	anthropicHeader := header("anthropic-version", "2023-06-01")
	for _, tc := range []struct {
		method, path, query string
		h                   http.Header
		want                protocol.Target
	}{
		{"POST", "/v1/chat/completions", "", nil, protocol.Target{Protocol: protocol.OpenAIChat, Op: protocol.OpGenerate}},
		{"POST", "/chat/completions", "", nil, protocol.Target{Protocol: protocol.OpenAIChat, Op: protocol.OpGenerate}},
		{"POST", "//v1/chat/completions/", "", nil, protocol.Target{Protocol: protocol.OpenAIChat, Op: protocol.OpGenerate}},
		{"POST", "/v1/responses", "beta=true", nil, protocol.Target{Protocol: protocol.OpenAIResponses, Op: protocol.OpGenerate, RawQuery: "beta=true"}},
		{"POST", "/responses", "", nil, protocol.Target{Protocol: protocol.OpenAIResponses, Op: protocol.OpGenerate}},
		{"POST", "/v1/messages", "beta=true", nil, protocol.Target{Protocol: protocol.Anthropic, Op: protocol.OpGenerate, RawQuery: "beta=true"}},
		{"POST", "messages", "", nil, protocol.Target{Protocol: protocol.Anthropic, Op: protocol.OpGenerate}},
		{"GET", "/v1/models", "", nil, protocol.Target{Protocol: protocol.OpenAIChat, Op: protocol.OpListModels}},
		{"HEAD", "/models", "", nil, protocol.Target{Protocol: protocol.OpenAIChat, Op: protocol.OpListModels}},
		{"GET", "/v1/models", "", anthropicHeader, protocol.Target{Protocol: protocol.Anthropic, Op: protocol.OpListModels}},
		{"GET", "/v1beta/models", "", nil, protocol.Target{Protocol: protocol.Gemini, Op: protocol.OpListModels, Version: "v1beta"}},
		{"GET", "/v1/models", "key=k", nil, protocol.Target{Protocol: protocol.Gemini, Op: protocol.OpListModels, Version: "v1", RawQuery: "key=k"}},
		{"GET", "/models", "", header("x-goog-api-key", "k"), protocol.Target{Protocol: protocol.Gemini, Op: protocol.OpListModels, Version: "v1beta"}},
		{"GET", "/v1/models/gpt-5", "", nil, protocol.Target{Protocol: protocol.OpenAIChat, Op: protocol.OpGetModel, Model: "gpt-5"}},
		{"GET", "/v1/models/ft:gpt-4o:org::id", "", nil, protocol.Target{Protocol: protocol.OpenAIChat, Op: protocol.OpGetModel, Model: "ft:gpt-4o:org::id"}},
		{"GET", "/v1/models/meta%2Fllama", "", nil, protocol.Target{Protocol: protocol.OpenAIChat, Op: protocol.OpGetModel, Model: "meta/llama"}},
		{"GET", "/v1/models/meta/llama", "", anthropicHeader, protocol.Target{Protocol: protocol.Anthropic, Op: protocol.OpGetModel, Model: "meta/llama"}},
		{"POST", "/v1beta/models/gemini-3:generateContent", "", nil, protocol.Target{Protocol: protocol.Gemini, Op: protocol.OpGenerate, Model: "gemini-3", Version: "v1beta"}},
		{"POST", "/v1/models/ft:x:generateContent", "", nil, protocol.Target{Protocol: protocol.Gemini, Op: protocol.OpGenerate, Model: "ft:x", Version: "v1"}},
		{"POST", "/v1alpha/models/g:streamGenerateContent", "alt=sse&key=k", nil, protocol.Target{
			Protocol: protocol.Gemini, Op: protocol.OpGenerate, Model: "g", Stream: true, Framing: protocol.FramingSSE, Version: "v1alpha", RawQuery: "alt=sse&key=k",
		}},
		{"POST", "/models/g:streamGenerateContent", "", nil, protocol.Target{
			Protocol: protocol.Gemini, Op: protocol.OpGenerate, Model: "g", Stream: true, Framing: protocol.FramingArray, Version: "v1beta",
		}},
		{"POST", "/v1beta/tunedModels/t:generateContent", "", nil, protocol.Target{Protocol: protocol.Gemini, Op: protocol.OpGenerate, Model: "tunedModels/t", Version: "v1beta"}},
	} {
		got, f := protocol.Identify(tc.method, tc.path, tc.query, tc.h)
		if f != nil {
			t.Errorf("%s %s: %v", tc.method, tc.path, f)
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s %s?%s differs (-want +got):\n%s", tc.method, tc.path, tc.query, diff)
		}
	}
}

// An error reaches a client in the shape it can read, whatever was wrong.
func TestIdentifyRefusesInTheClientsProtocol(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, path string
		h            http.Header
		want         fault.Class
		protocol     protocol.Name
		allow        string
	}{
		{"PUT", "/v1/chat/completions", nil, fault.MethodNotAllowed, protocol.OpenAIChat, "POST"},
		{"GET", "/v1/messages", nil, fault.MethodNotAllowed, protocol.Anthropic, "POST"},
		{"DELETE", "/v1/responses", nil, fault.MethodNotAllowed, protocol.OpenAIResponses, "POST"},
		{"POST", "/v1/models", nil, fault.MethodNotAllowed, protocol.OpenAIChat, "GET"},
		{"GET", "/v1beta/models/g:generateContent", nil, fault.MethodNotAllowed, protocol.Gemini, "POST"},
		{"POST", "/v1beta/models/g:batchGenerateContent", nil, fault.UnknownPath, protocol.Gemini, ""},
		{"GET", "/v1beta/models/g:countTokens", nil, fault.MethodNotAllowed, protocol.Gemini, "POST"},
		{"POST", "/v1beta/embeddings", nil, fault.UnknownPath, protocol.Gemini, ""},
		{"POST", "/v1beta/operations/x", nil, fault.MethodNotAllowed, protocol.Gemini, "GET"},
		{"POST", "/v1beta/models/:generateContent", nil, fault.InvalidRequest, protocol.Gemini, ""},
		{"POST", "/v1beta/models/..%2Fx:generateContent", nil, fault.InvalidRequest, protocol.Gemini, ""},
		{"POST", "/v1beta/models/%zz:generateContent", nil, fault.InvalidRequest, protocol.Gemini, ""},
		{"POST", "/v1beta/models/" + strings.Repeat("m", 600) + ":generateContent", nil, fault.InvalidRequest, protocol.Gemini, ""},
		{"POST", "/v1beta/chat/completions", nil, fault.UnknownPath, protocol.Gemini, ""},
		{"HEAD", "/", nil, fault.UnknownPath, protocol.OpenAIChat, ""},
		{"GET", "", header("x-api-key", "k"), fault.UnknownPath, protocol.Anthropic, ""},
		{"POST", "/v1/complete", header("anthropic-version", "x"), fault.UnknownPath, protocol.Anthropic, ""},
		{"GET", "/v1/messages/count_tokens", nil, fault.MethodNotAllowed, protocol.Anthropic, "POST"},
		{"POST", "/v1/messages/other", nil, fault.UnknownPath, protocol.Anthropic, ""},
		{"GET", "/v1/responses/input_tokens", nil, fault.MethodNotAllowed, protocol.OpenAIResponses, "POST"},
		{"GET", "/v1/embeddings", nil, fault.MethodNotAllowed, protocol.OpenAIChat, "POST"},
		{"PUT", "/v1/videos", nil, fault.MethodNotAllowed, protocol.OpenAIChat, "GET, POST"},
		{"POST", "/v1/videos/video_1", nil, fault.MethodNotAllowed, protocol.OpenAIChat, "GET, DELETE"},
		{"POST", "/v1/videos/video_1/content", nil, fault.MethodNotAllowed, protocol.OpenAIChat, "GET"},
		{"GET", "/v1/videos/..%2Fx", nil, fault.InvalidRequest, protocol.OpenAIChat, ""},
		{"GET", "/v1/videos/a%0Ab", nil, fault.InvalidRequest, protocol.OpenAIChat, ""},
		{"GET", "/v1/videos/" + strings.Repeat("v", 3000), nil, fault.InvalidRequest, protocol.OpenAIChat, ""},
		{"POST", "/v1/videos/edits", nil, fault.UnknownPath, protocol.OpenAIChat, ""},
		{"POST", "/v1/videos/video_1/other", nil, fault.UnknownPath, protocol.OpenAIChat, ""},
		{"POST", "/v1chat/completions", nil, fault.UnknownPath, protocol.OpenAIChat, ""},
		{"POST", "/v1beta/files", nil, fault.MethodNotAllowed, protocol.Gemini, "GET"},
		{"GET", "/v1beta/files/x/content", nil, fault.UnknownPath, protocol.Gemini, ""},
		{"POST", "/v1/responses/resp_1", nil, fault.MethodNotAllowed, protocol.OpenAIResponses, "GET, DELETE"},
		{"GET", "/v1/responses/resp_1/cancel", nil, fault.MethodNotAllowed, protocol.OpenAIResponses, "POST"},
		{"GET", "/v1/responses/..%2Fx", nil, fault.InvalidRequest, protocol.OpenAIResponses, ""},
		{"POST", "/v1/messages/batches/b/results", nil, fault.MethodNotAllowed, protocol.Anthropic, "GET"},
		{"POST", "/fine_tuning/jobs", header("x-goog-api-key", "k"), fault.UnknownPath, protocol.Gemini, ""},
	} {
		got, f := protocol.Identify(tc.method, tc.path, "", tc.h)
		if f == nil || f.Class != tc.want || got.Protocol != tc.protocol || f.Allow != tc.allow {
			t.Errorf("%s %s: got %s, %v, want %s for %s", tc.method, tc.path, got.Protocol, f, tc.want, tc.protocol)
			continue
		}
		if c := codec(got.Protocol).EncodeError(f, "req_1"); tc.allow != "" && c.Header.Get("Allow") != tc.allow {
			t.Errorf("%s %s: Allow is %q, want %q", tc.method, tc.path, c.Header.Get("Allow"), tc.allow)
		}
	}
}

// The client's query goes on, its credential does not.
func TestForwardQueryDropsCredentialsAlone(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                     "",
		"alt=sse&key=secret":                   "alt=sse",
		"key=secret":                           "",
		"KEY=secret&%6Bey=secret&b=%20+&a=1&b": "b=%20+&a=1&b",
		"access_token=s&beta=true&api_key=s&&": "beta=true",
		"monkey=1&keys=2":                      "monkey=1&keys=2",
		"%zz=secret":                           "",
	} {
		if got := protocol.ForwardQuery(in); got != want {
			t.Errorf("query %q goes on as %q, want %q", in, got, want)
		}
	}
}

func TestUpstreamURLFollowsTheVendorsConvention(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		target      protocol.Target
		model       string
		path, query string
	}{
		{protocol.Target{Protocol: protocol.OpenAIChat, RawQuery: "api-version=1"}, "m", "/chat/completions", "api-version=1"},
		{protocol.Target{Protocol: protocol.OpenAIResponses}, "m", "/responses", ""},
		{protocol.Target{Protocol: protocol.Anthropic, RawQuery: "beta=true"}, "m", "/v1/messages", "beta=true"},
		{protocol.Target{Protocol: protocol.Gemini, Version: "v1alpha", Stream: true, RawQuery: "key=k&alt=sse"}, "gemini-3", "/v1alpha/models/gemini-3:streamGenerateContent", "alt=sse"},
		{protocol.Target{Protocol: protocol.Gemini}, "tunedModels/a b", "/v1beta/tunedModels/a%20b:generateContent", ""},
		{protocol.Target{Protocol: protocol.Gemini, Version: "v1"}, "x?y#z", "/v1/models/x%3Fy%23z:generateContent", ""},
	} {
		path, query := codec(tc.target.Protocol).UpstreamURL(tc.target, tc.model)
		if path != tc.path || query != tc.query {
			t.Errorf("%s %s: got %s?%s, want %s?%s", tc.target.Protocol, tc.model, path, query, tc.path, tc.query)
		}
	}
}

func FuzzIdentify(f *testing.F) {
	f.Add("POST", "/v1beta/models/m:streamGenerateContent", "alt=sse")
	f.Fuzz(func(t *testing.T, method, path, query string) {
		got, fl := protocol.Identify(method, path, query, nil)
		if got.Protocol == "" {
			t.Errorf("%q %q has no protocol", method, path)
		}
		if fl == nil && (got.Op == protocol.OpUnknown || strings.Contains(got.Model, "..")) {
			t.Errorf("%q %q gave %+v without a fault", method, path, got)
		}
		if fl == nil && got.Op == protocol.OpGenerate {
			if p, _ := codec(got.Protocol).UpstreamURL(got, got.Model); strings.ContainsAny(p, "?# ") {
				t.Errorf("%q gives the upstream path %q", path, p)
			}
		}
	})
}
