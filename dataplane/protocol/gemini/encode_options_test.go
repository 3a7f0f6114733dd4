package gemini_test

import (
	"encoding/json"
	"strings"
	"testing"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
)

func extra(f llm.Feature, field, raw string) llm.Extra {
	return llm.Extra{Feature: f, Field: field, Raw: []byte(raw)}
}

func TestOptionsOfOthersAreCarriedOrLost(t *testing.T) {
	t.Parallel()
	const plain = `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`
	for _, tc := range []struct {
		extra llm.Extra
		want  string // what is in the body of it
		lossy string
		class fault.Class
	}{
		{extra: extra(llm.FeatureSeed, "seed", "7"), want: `"seed":7`},
		{extra: extra(llm.FeaturePenalty, "presence_penalty", "0.5"), want: `"presencePenalty":0.5`},
		{extra: extra(llm.FeaturePenalty, "frequency_penalty", "-1"), want: `"frequencyPenalty":-1`},
		{extra: extra(llm.FeatureServiceTier, "service_tier", `"flex"`), want: `"serviceTier":"flex"`},
		{extra: extra(llm.FeatureServiceTier, "service_tier", `"standard_only"`), want: `"serviceTier":"standard"`},
		{extra: extra(llm.FeatureServiceTier, "service_tier", `"auto"`)},
		{extra: extra(llm.FeatureServiceTier, "service_tier", `"ultrafast"`), class: fault.RequestNotSupported},
		{extra: extra(llm.FeatureStore, "store", "false"), want: `"store":false`},
		{extra: extra(llm.FeatureStore, "store", "true"), class: fault.RequestNotSupported},
		{extra: extra(llm.FeatureOutputModality, "modalities", `["text"]`)},
		{extra: extra(llm.FeatureOutputModality, "modalities", `["text","audio"]`), class: fault.RequestNotSupported},
		{extra: extra(llm.FeatureLegacyFunctions, "functions", "true")},
		{extra: extra(llm.FeatureBackground, "background", "false")},
		{extra: extra(llm.FeatureBackground, "background", "true"), class: fault.RequestNotSupported},
		{extra: extra(llm.FeatureTruncation, "truncation", `"disabled"`)},
		{extra: extra(llm.FeatureTruncation, "truncation", `"auto"`), lossy: "truncation=drop"},
		{extra: extra(llm.FeatureChoices, "n", "2"), class: fault.RequestNotSupported},
		{extra: extra(llm.FeatureLogprobs, "logprobs", "true"), class: fault.RequestNotSupported},
		{extra: extra(llm.FeatureLogitBias, "logit_bias", `{"1":1}`), lossy: "logit_bias=drop"},
		{extra: extra(llm.FeatureVerbosity, "verbosity", `"low"`), lossy: "verbosity=drop"},
		{extra: extra(llm.FeatureMetadata, "metadata", `{"a":"b"}`), lossy: "metadata=drop"},
		{extra: extra(llm.FeatureStoredState, "previous_response_id", `"resp_1"`), class: fault.RequestNotSupported},
		{extra: extra(llm.FeatureWebSearch, "web_search_options", `{}`), class: fault.RequestNotSupported},
	} {
		r := ask(user("Hi"))
		r.Extras = []llm.Extra{tc.extra}
		c := conversion(protocol.OpenAIChat, protocol.Gemini)
		body, f := gemini.New().EncodeRequest(r, c)
		if f != nil {
			if tc.class != f.Class || f.Param != tc.extra.Field {
				t.Errorf("%s %s: %v", tc.extra.Field, tc.extra.Raw, f)
			}
			continue
		}
		if tc.class != 0 {
			t.Errorf("%s %s is taken, want %s", tc.extra.Field, tc.extra.Raw, tc.class)
			continue
		}
		accepted(t, body, "gemini-3-pro")
		if !strings.Contains(string(body), tc.want) || tc.want == "" && string(body) != plain {
			t.Errorf("%s %s becomes %s", tc.extra.Field, tc.extra.Raw, body)
		}
		if c.LossyHeader() != tc.lossy {
			t.Errorf("%s: lossy %q, want %q", tc.extra.Field, c.LossyHeader(), tc.lossy)
		}
	}
}

func TestFieldsThatAreNotKnownAreNamed(t *testing.T) {
	t.Parallel()
	r := ask(user("Hi"))
	r.AddUnknown("foo")
	c := conversion(protocol.OpenAIChat, protocol.Gemini)
	encode(t, r, c)
	if len(c.Losses) != 1 || c.Losses[0] != (protocol.Loss{Feature: llm.FeatureUnknown, Field: "foo", Action: protocol.Drop}) {
		t.Errorf("losses %+v", c.Losses)
	}
}

func TestLimitsKeepToTheServer(t *testing.T) {
	t.Parallel()
	full := llm.Request{
		MaxOutputTokens: 32000, Temperature: "0.0", TopP: "0.9", TopK: "40", Stop: []string{"1", "2", "3", "4", "5", "6"},
		Format: llm.Format{Kind: llm.FormatSchema, Schema: []byte(`{}`)},
	}
	drop := protocol.Options{"*": protocol.Drop}
	for name, tc := range map[string]struct {
		compat      *configv1.Compat
		most        int64
		options     protocol.Options
		want, lossy string
	}{
		"as asked": {nil, 64000, drop, `{"maxOutputTokens":32000,"responseJsonSchema":{},"responseMimeType":"application/json","stopSequences":["1","2","3","4","5"],"temperature":0.0,"topK":40,"topP":0.9}`, "stop=drop"},
		"lowered":  {nil, 8192, drop, `{"maxOutputTokens":8192,"responseJsonSchema":{},"responseMimeType":"application/json","stopSequences":["1","2","3","4","5"],"temperature":0.0,"topK":40,"topP":0.9}`, "max_tokens=drop, stop=drop"},
		"deviant": {
			&configv1.Compat{NoSampling: true, NoJsonSchema: true}, 0, drop, `{"maxOutputTokens":32000,"responseMimeType":"application/json","stopSequences":["1","2","3","4","5"]}`,
			"json_schema=drop, stop=drop, temperature=drop, top_k=drop, top_p=drop",
		},
		"too many stops": {nil, 0, nil, "", ""},
	} {
		r := full
		r.Messages = []llm.Message{user("Hi")}
		c := conversion(protocol.OpenAIChat, protocol.Gemini)
		c.Compat, c.MaxOutput, c.Options = tc.compat, tc.most, tc.options
		body, f := gemini.New().EncodeRequest(&r, c)
		if f != nil {
			if tc.want != "" {
				t.Errorf("%s: %v", name, f)
			}
			continue
		}
		accepted(t, body, "gemini-3-pro")
		got, _ := json.Marshal(at(t, value(t, body), "generationConfig"))
		if string(got) != tc.want || c.LossyHeader() != tc.lossy {
			t.Errorf("%s: %s, lossy %q\nwant %s, %q", name, got, c.LossyHeader(), tc.want, tc.lossy)
		}
	}
}

func TestToolsOfOthersAreRefusedUnlessDeclared(t *testing.T) {
	t.Parallel()
	strict := true
	for name, tc := range map[string]struct {
		r           llm.Request
		option      string
		action      protocol.Action
		want, lossy string
	}{
		"one call":          {llm.Request{OneCall: true, Tools: []llm.Tool{{Name: "f"}}}, "parallel_tool_calls", protocol.Drop, `[{"functionDeclarations":[{"name":"f"}]}]`, "parallel_tool_calls=drop"},
		"web search":        {llm.Request{Tools: []llm.Tool{{Server: "web_search_20250305", Native: []byte(`{}`)}}}, "web_search", protocol.Substitute, `[{"googleSearch":{}}]`, "web_search=substitute"},
		"web search option": {llm.Request{Extras: []llm.Extra{extra(llm.FeatureWebSearch, "web_search_options", `{}`)}}, "web_search", protocol.Substitute, `[{"googleSearch":{}}]`, "web_search=substitute"},
		"no web search":     {llm.Request{Tools: []llm.Tool{{Server: "web_search", Native: []byte(`{}`)}}}, "web_search", protocol.Drop, `null`, "web_search=drop"},
		"mcp":               {llm.Request{Tools: []llm.Tool{{Server: "mcp", Native: []byte(`{}`)}}}, "mcp", protocol.Drop, `null`, "mcp=drop"},
		"computer":          {llm.Request{Tools: []llm.Tool{{Server: "computer_use_preview", Native: []byte(`{}`)}}}, "server_tool", protocol.Drop, `null`, "server_tool=drop"},
		"free text":         {llm.Request{Tools: []llm.Tool{{Name: "p", Custom: true}, {Name: "f"}}}, "custom_tool", protocol.Drop, `[{"functionDeclarations":[{"name":"f"}]}]`, "custom_tool=drop"},
		"hints":             {llm.Request{Tools: []llm.Tool{{Name: "f", Strict: &strict, Cache: llm.Cache5m, Extras: []llm.Extra{extra(llm.FeatureToolOption, "tools[].defer_loading", "true")}}}}, "", 0, `[{"functionDeclarations":[{"name":"f"}]}]`, "cache_control=drop, tool_option=drop, tool_strict=drop"},
	} {
		r := tc.r
		r.Messages = []llm.Message{user("Hi")}
		c := conversion(protocol.OpenAIResponses, protocol.Gemini)
		if tc.option != "" {
			if _, f := gemini.New().EncodeRequest(&r, c); f == nil || f.Class != fault.RequestNotSupported || !strings.Contains(f.Public, "openai_responses."+tc.option+"=drop") {
				t.Errorf("%s: %v, want a refusal", name, f)
			}
			c.Options = protocol.Options{"openai_responses." + tc.option: tc.action}
		}
		body := encode(t, &r, c)
		accepted(t, body, "gemini-3-pro")
		got, _ := json.Marshal(at(t, value(t, body), "tools"))
		if string(got) != tc.want || c.LossyHeader() != tc.lossy {
			t.Errorf("%s: %s, lossy %q; want %s, %q", name, got, c.LossyHeader(), tc.want, tc.lossy)
		}
	}
}

func TestPiecesThatOnlyOthersHaveAreRefusedByWhatTheyAre(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]llm.Feature{
		"server_tool_use": llm.FeatureServerTool, "web_search_tool_result": llm.FeatureServerTool, "search_result": llm.FeatureSearchResult,
		"mcp_call": llm.FeatureMCP, "item_reference": llm.FeatureStoredState, "compaction": llm.FeatureCompaction,
		"container_upload": llm.FeatureContainer, "image_generation_call": llm.FeatureOutputModality,
	} {
		r := ask(user("Hi"), assistant(llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: kind, Raw: []byte(`{"a":1}`)}}), user("Go"))
		_, f := gemini.New().EncodeRequest(r, conversion(protocol.OpenAIResponses, protocol.Gemini))
		if f == nil || !strings.Contains(f.Public, string(want)+"=drop") {
			t.Errorf("%s: %v, want a refusal for %s", kind, f, want)
		}
	}
}

func TestTheUpstreamIsAskedAtItsPath(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		from    protocol.Name
		version string
		stream  bool
		want    string
	}{
		{protocol.OpenAIChat, "", false, "/v1beta/models/gemini-3-pro:generateContent?"},
		{protocol.Anthropic, "2026-10-21", true, "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"},
		{protocol.Gemini, "v1alpha", true, "/v1alpha/models/gemini-3-pro:streamGenerateContent?alt=sse"},
	} {
		c := conversion(tc.from, protocol.Gemini)
		c.Version, c.Stream = tc.version, tc.stream
		codec := gemini.New()
		target, header := codec.UpstreamTarget(ask(user("Hi")), c)
		path, query := codec.UpstreamURL(target, c.Model)
		if got := path + "?" + query; got != tc.want || len(header) > 0 {
			t.Errorf("%s %v, want %s", got, header, tc.want)
		}
	}
}
