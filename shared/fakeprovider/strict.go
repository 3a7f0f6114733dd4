package fakeprovider

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// fields are the top-level names a protocol takes. They are those of the request
// types of openai-go v3.99, anthropic-sdk-go v2.15 and genai v1.77, and what the
// vendors' own agents are seen to send.
func fields(p Protocol, beta bool) string {
	switch p {
	case Chat:
		return " audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages" +
			" metadata modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key" +
			" prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier" +
			" stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options "
	case Responses:
		return " access_programs background client_metadata context_management conversation image include input instructions" +
			" max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt" +
			" prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream" +
			" stream_options temperature text tool_choice tools top_logprobs top_p truncation user "
	case Anthropic:
		names := " cache_control container diagnostics inference_geo max_tokens messages metadata model output_config" +
			" service_tier speed stop_sequences stream system thinking tool_choice tools temperature top_p top_k "
		if beta {
			names += "billing_policy compaction context_management fallback_credit_token fallbacks mcp_servers output_format thread "
		}
		return names
	}
	return " cachedContent contents generationConfig labels model safetySettings serviceTier store systemInstruction toolConfig" +
		" tools generateContentRequest "
}

// checkStrict refuses what the real service would. body is read once more here: the
// reader for answers is lenient on purpose.
func checkStrict(p Protocol, op Operation, r *http.Request, body []byte) *Failure {
	version := r.Header.Get("Anthropic-Version")
	if p == Anthropic && version == "" {
		return &Failure{Kind: BadRequest, Message: "anthropic-version: header is required"}
	}
	names, err := topLevel(body)
	if err != nil {
		return &Failure{Kind: BadRequest, Message: err.Error()}
	}
	known := fields(p, r.Header.Get("Anthropic-Beta") != "" || r.URL.Query().Get("beta") == "true")
	for _, name := range names {
		if !strings.Contains(known, " "+name+" ") {
			return refuse(p, name, "unknown field %q", name)
		}
	}
	if p == Anthropic && version >= "2026-10-21" {
		for _, name := range []string{"temperature", "top_p", "top_k"} {
			if slices.Contains(names, name) {
				return refuse(p, name, "%s: not supported with anthropic-version %s", name, version)
			}
		}
	}
	for _, name := range required(p, op) {
		if !slices.Contains(names, name) {
			return refuse(p, name, "missing required field %q", name)
		}
	}
	return nil
}

func refuse(p Protocol, param, format string, args ...any) *Failure {
	f := &Failure{Kind: BadRequest, Message: fmt.Sprintf(format, args...)}
	if p == Chat || p == Responses {
		f.Param = param
	}
	return f
}

func required(p Protocol, op Operation) []string {
	switch {
	case p == Chat:
		return []string{"model", "messages"}
	case p == Responses:
		return []string{"model"}
	case p == Anthropic && op == Generate:
		return []string{"model", "max_tokens", "messages"}
	case p == Anthropic:
		return []string{"model", "messages"}
	case op == CountTokens:
		return nil
	}
	return []string{"contents"}
}

// topLevel reads body to its last byte and returns its top-level names. Duplicate
// names at any depth, invalid UTF-8 and trailing data are errors.
func topLevel(body []byte) ([]string, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	if dec.PeekKind() != jsontext.KindBeginObject {
		return nil, errors.New("the request body has to be a JSON object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, errors.New("the request body is not valid JSON")
	}
	var names []string
	for dec.PeekKind() == jsontext.KindString {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, invalid(err)
		}
		names = append(names, name.String())
		if err := dec.SkipValue(); err != nil {
			return nil, invalid(err)
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, invalid(err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the request body goes on after its JSON object")
	}
	return names, nil
}

func invalid(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return errors.New("the request body names a field twice")
	}
	return errors.New("the request body is not valid JSON")
}
