package protocol_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

func TestIdentifyKnowsEveryOtherEndpoint(t *testing.T) {
	t.Parallel()
	form := header("content-type", `multipart/form-data; boundary="b 1"`)
	openai := func(op protocol.Operation) protocol.Target {
		return protocol.Target{Protocol: protocol.OpenAIChat, Op: op}
	}
	object := func(op protocol.Operation, method, id string) protocol.Target {
		return protocol.Target{Protocol: protocol.OpenAIChat, Op: op, Method: method, Object: id}
	}
	multipart := func(op protocol.Operation) protocol.Target {
		return protocol.Target{Protocol: protocol.OpenAIChat, Op: op, Boundary: "b 1"}
	}
	gemini := func(op protocol.Operation, model string) protocol.Target {
		return protocol.Target{Protocol: protocol.Gemini, Op: op, Model: model, Version: "v1beta"}
	}
	for _, tc := range []struct {
		method, path string
		form         bool
		want         protocol.Target
	}{
		{"POST", "/v1/messages/count_tokens", false, protocol.Target{Protocol: protocol.Anthropic, Op: protocol.OpCountTokens}},
		{"POST", "/messages/count_tokens/", false, protocol.Target{Protocol: protocol.Anthropic, Op: protocol.OpCountTokens}},
		{"POST", "/v1/responses/input_tokens", false, protocol.Target{Protocol: protocol.OpenAIResponses, Op: protocol.OpCountTokens}},
		{"POST", "/responses/compact", false, protocol.Target{Protocol: protocol.OpenAIResponses, Op: protocol.OpCompact}},
		{"POST", "/v1beta/models/g:countTokens", false, gemini(protocol.OpCountTokens, "g")},
		{"POST", "/v1/embeddings", false, openai(protocol.OpEmbed)},
		{"POST", "/embeddings", false, openai(protocol.OpEmbed)},
		{"POST", "/v1beta/models/g:embedContent", false, gemini(protocol.OpEmbed, "g")},
		{"POST", "/models/g:batchEmbedContents", false, gemini(protocol.OpEmbedBatch, "g")},
		{"POST", "/v1/images/generations", false, openai(protocol.OpImage)},
		{"POST", "/v1/images/edits", true, multipart(protocol.OpImageEdit)},
		{"POST", "/images/variations", true, multipart(protocol.OpImageVariation)},
		{"POST", "/v1/images/edits", false, openai(protocol.OpImageEdit)},
		{"POST", "/v1beta/models/imagen:predict", false, gemini(protocol.OpPredict, "imagen")},
		{"POST", "/v1/audio/speech", false, openai(protocol.OpSpeech)},
		{"POST", "/audio/transcriptions", true, multipart(protocol.OpTranscribe)},
		{"POST", "/v1/audio/translations", true, multipart(protocol.OpTranslate)},
		{"POST", "/v1/videos", true, multipart(protocol.OpVideo)},
		{"POST", "/videos", false, openai(protocol.OpVideo)},
		{"GET", "/v1/videos", false, object(protocol.OpVideoList, "GET", "")},
		{"GET", "/v1/videos/video_1", false, object(protocol.OpVideoGet, "GET", "video_1")},
		{"HEAD", "/v1/videos/video_1", false, object(protocol.OpVideoGet, "GET", "video_1")},
		{"DELETE", "/videos/video_1", false, object(protocol.OpVideoDelete, "DELETE", "video_1")},
		{"GET", "/v1/videos/video_1/content", false, object(protocol.OpVideoContent, "GET", "video_1")},
		{"POST", "/v1/videos/video_1/remix", false, object(protocol.OpVideoRemix, "", "video_1")},
		{"POST", "/v1beta/models/veo:predictLongRunning", false, gemini(protocol.OpPredictLong, "veo")},
		{"GET", "/v1beta/models/veo/operations/x1", false, protocol.Target{
			Protocol: protocol.Gemini, Op: protocol.OpGetOperation, Version: "v1beta", Method: "GET", Object: "models/veo/operations/x1",
		}},
		{"GET", "/v1beta/operations/x1", false, protocol.Target{
			Protocol: protocol.Gemini, Op: protocol.OpGetOperation, Version: "v1beta", Method: "GET", Object: "operations/x1",
		}},
		{"POST", "/v1/moderations", false, openai(protocol.OpModerate)},
		{"POST", "/v1/rerank", false, openai(protocol.OpRerank)},
		{"POST", "/v2/rerank", false, openai(protocol.OpRerank)},
		{"POST", "/rerank", false, openai(protocol.OpRerank)},
	} {
		h := header()
		if tc.form {
			h = form
		}
		got, f := protocol.Identify(tc.method, tc.path, "", h)
		if f != nil {
			t.Errorf("%s %s: %v", tc.method, tc.path, f)
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s %s differs (-want +got):\n%s", tc.method, tc.path, diff)
		}
	}
}
