package openaichat

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// ask is a request that says nothing beside members.
func ask(members string) string {
	return `{"messages":[{"role":"user","content":"Say hi."}],` + members + `}`
}

// show is a request whose user shows a part.
func show(part string) string { return `{"messages":[{"role":"user","content":[` + part + `]}]}` }

// after is a request whose assistant has said something.
func after(assistant string) string {
	return `{"messages":[{"role":"user","content":"Say hi."},{"role":"assistant",` + assistant + `},{"role":"user","content":"Go on."}]}`
}

// offer is a request with a tool, which says members beside.
func offer(tool, members string) string {
	return ask(`"tools":[` + tool + `]` + members)
}

const (
	plainTool  = `{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{}}}}`
	customTool = `{"type":"custom","custom":{"name":"run","description":"Runs it.","format":{"type":"grammar","grammar":{"syntax":"regex","definition":"[a-z]+"}}}}`
	customCall = `{"messages":[{"role":"user","content":"Say hi."},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"custom","custom":{"name":"run","input":"ls"}}]},` +
		`{"role":"tool","tool_call_id":"call_1","content":"a"}],"tools":[` + customTool + `]}`
	legacyCall = `{"messages":[{"role":"user","content":"Say hi."},{"role":"assistant","content":null,"function_call":{"name":"look","arguments":"{}"}},` +
		`{"role":"function","name":"look","content":"a"}],"functions":[{"name":"look","description":"Looks.","parameters":{"type":"object","properties":{}}}],"function_call":{"name":"look"}}`
	prediction   = `"prediction":{"type":"content","content":[{"type":"text","text":"Hi."}]}`
	webSearch    = `"web_search_options":{"search_context_size":"low","user_location":{"type":"approximate","approximate":{"country":"DE","city":"Ulm","region":"BW","timezone":"Europe/Berlin"}}}`
	moderation   = `"moderation":{"model":"omni-moderation-latest","policy":{"input":{"mode":"block"},"output":{"mode":"score"}}}`
	audioOut     = `"modalities":["text","audio"],"audio":{"format":"wav","voice":{"id":"voice_1"}}`
	jsonSchema   = `"response_format":{"type":"json_schema","json_schema":{"name":"hi","description":"A greeting.","strict":true,"schema":{"type":"object","properties":{"hi":{"type":"string"}},"required":["hi"],"additionalProperties":false}}}`
	cacheMark    = `{"type":"text","text":"Long.","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}}`
	pngPart      = `{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"low"}}`
	pdfPart      = `{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0xLjQ=","filename":"a.pdf"}}`
	wavPart      = `{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}`
	allowedTools = `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"look"}}]}}`
)

// Fields lists the members of a Chat Completions request: those of
// ChatCompletionNewParams of openai-go v3.99, and what clients send beside.
func (*Codec) Fields() []protocol.Field {
	core := func(paths ...string) (rows []protocol.Field) {
		for _, p := range paths {
			rows = append(rows, protocol.Field{Path: p})
		}
		return rows
	}
	of := func(f llm.Feature, example string, paths ...string) (rows []protocol.Field) {
		for _, p := range paths {
			rows = append(rows, protocol.Field{Path: p, Feature: f, Example: example})
		}
		return rows
	}
	groups := [][]protocol.Field{
		core("model", "stream", "messages[].role", "messages[].content", "messages[].content[].type", "messages[].content[].text", "messages[].tool_call_id",
			"messages[].tool_calls[].id", "messages[].tool_calls[].type", "messages[].tool_calls[].function.name", "messages[].tool_calls[].function.arguments",
			"tools[].type", "tools[].function.name", "tools[].function.description", "tools[].function.parameters", "tool_choice", "tool_choice.type",
			"max_completion_tokens", "max_tokens", "stream_options.include_usage", "response_format.type"),

		of(llm.FeatureImage, show(pngPart), "messages[].content[].image_url.url"),
		of(llm.FeatureImageURL, show(`{"type":"image_url","image_url":{"url":"https://images.example/a.png"}}`), "messages[].content[].image_url.url"),
		of(llm.FeatureImageDetail, show(pngPart), "messages[].content[].image_url.detail"),
		of(llm.FeatureDocument, show(pdfPart), "messages[].content[].file.file_data"),
		of(llm.FeatureDocumentMeta, show(pdfPart), "messages[].content[].file.filename"),
		of(llm.FeatureFileID, show(`{"type":"file","file":{"file_id":"file-1"}}`), "messages[].content[].file.file_id"),
		of(llm.FeatureAudioInput, show(wavPart), "messages[].content[].input_audio.data", "messages[].content[].input_audio.format"),
		of(llm.FeatureCacheMark, show(cacheMark), "messages[].content[].prompt_cache_breakpoint.mode"),
		of(llm.FeatureCacheLifetime, show(cacheMark), "messages[].content[].prompt_cache_breakpoint.ttl"),
		of(llm.FeatureRefusalHistory, after(`"refusal":"No."`), "messages[].refusal"),
		of(llm.FeatureRefusalHistory, after(`"content":[{"type":"text","text":"Well."},{"type":"refusal","refusal":"No."}]`), "messages[].content[].refusal"),
		of(llm.FeatureParticipantName, `{"messages":[{"role":"user","name":"ann","content":"Say hi."}]}`, "messages[].name"),
		of(llm.FeatureSystemPosition, `{"messages":[{"role":"user","content":"Say hi."},{"role":"system","content":"Be brief."},{"role":"user","content":"Go on."}]}`, "messages[].role=system"),
		of(llm.FeatureServerTool, after(`"audio":{"id":"audio_1"}`), "messages[].audio.id"),
		of(llm.FeatureReasoningText, after(`"content":"Hi.","reasoning_content":"Greet."`), "messages[].reasoning_content"),
		of(llm.FeatureCitationHistory, after(`"content":"Hi.","annotations":[{"type":"url_citation","url_citation":{"url":"https://a.example/","title":"A","start_index":0,"end_index":3}}]`), "messages[].annotations"),

		of(llm.FeatureCustomTool, offer(customTool, ""), "tools[].custom.name", "tools[].custom.description", "tools[].custom.format.type",
			"tools[].custom.format.grammar.syntax", "tools[].custom.format.grammar.definition"),
		of(llm.FeatureCustomTool, customCall, "messages[].tool_calls[].custom.name", "messages[].tool_calls[].custom.input"),
		of(llm.FeatureToolStrict, offer(`{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{},"required":[],"additionalProperties":false},"strict":true}}`, ""),
			"tools[].function.strict"),
		of(llm.FeatureForcedTool, offer(plainTool, `,"tool_choice":{"type":"function","function":{"name":"look"}}`), "tool_choice.function.name"),
		of(llm.FeatureCustomTool, offer(customTool, `,"tool_choice":{"type":"custom","custom":{"name":"run"}}`), "tool_choice.custom.name"),
		of(llm.FeatureAllowedTools, offer(plainTool, allowedTools), "tool_choice.allowed_tools.mode", "tool_choice.allowed_tools.tools[]"),
		of(llm.FeatureParallelTools, offer(plainTool, `,"parallel_tool_calls":false`), "parallel_tool_calls"),
		of(llm.FeatureLegacyFunctions, legacyCall, "functions[].name", "functions[].description", "functions[].parameters", "function_call", "function_call.name",
			"messages[].function_call.name", "messages[].function_call.arguments"),

		of(llm.FeatureJSONObject, ask(`"response_format":{"type":"json_object"}`), "response_format.type=json_object"),
		of(llm.FeatureJSONSchema, ask(jsonSchema), "response_format.json_schema.name", "response_format.json_schema.description", "response_format.json_schema.schema"),
		of(llm.FeatureSchemaStrict, ask(jsonSchema), "response_format.json_schema.strict"),

		of(llm.FeatureTemperature, ask(`"temperature":0.5`), "temperature"),
		of(llm.FeatureTopP, ask(`"top_p":0.5`), "top_p"),
		of(llm.FeatureStop, ask(`"stop":["END"]`), "stop", "stop[]"),
		of(llm.FeatureChoices, ask(`"n":2`), "n"),
		of(llm.FeatureSeed, ask(`"seed":7`), "seed"),
		of(llm.FeaturePenalty, ask(`"frequency_penalty":0.5`), "frequency_penalty"),
		of(llm.FeaturePenalty, ask(`"presence_penalty":-0.5`), "presence_penalty"),
		of(llm.FeatureLogitBias, ask(`"logit_bias":{"50256":-100}`), "logit_bias"),
		of(llm.FeatureLogprobs, ask(`"logprobs":true,"top_logprobs":2`), "logprobs", "top_logprobs"),
		of(llm.FeaturePrediction, ask(prediction), "prediction.type", "prediction.content", "prediction.content[].type", "prediction.content[].text"),
		of(llm.FeaturePrediction, ask(`"prediction":{"type":"content","content":[{"type":"text","text":"Hi.","prompt_cache_breakpoint":{"mode":"explicit","ttl":"30m"}}]}`),
			"prediction.content[].prompt_cache_breakpoint.mode", "prediction.content[].prompt_cache_breakpoint.ttl"),
		of(llm.FeatureVerbosity, ask(`"verbosity":"low"`), "verbosity"),
		of(llm.FeatureReasoning, ask(`"reasoning_effort":"low"`), "reasoning_effort"),
		of(llm.FeatureOutputModality, ask(audioOut), "modalities[]", "audio.format", "audio.voice.id"),
		of(llm.FeatureOutputModality, ask(`"modalities":["text","audio"],"audio":{"format":"wav","voice":"ash"}`), "audio.voice"),
		of(llm.FeatureWebSearch, ask(webSearch), "web_search_options.search_context_size", "web_search_options.user_location.type",
			"web_search_options.user_location.approximate.city", "web_search_options.user_location.approximate.country",
			"web_search_options.user_location.approximate.region", "web_search_options.user_location.approximate.timezone"),

		of(llm.FeatureUser, ask(`"user":"u1"`), "user"),
		of(llm.FeatureUser, ask(`"safety_identifier":"u1"`), "safety_identifier"),
		of(llm.FeatureMetadata, ask(`"metadata":{"job":"7"},"store":true`), "metadata"),
		of(llm.FeatureCacheKey, ask(`"prompt_cache_key":"k1"`), "prompt_cache_key"),
		of(llm.FeatureCacheMark, ask(`"prompt_cache_options":{"mode":"explicit"}`), "prompt_cache_options.mode"),
		of(llm.FeatureCacheLifetime, ask(`"prompt_cache_options":{"ttl":"24h"}`), "prompt_cache_options.ttl"),
		of(llm.FeatureCacheLifetime, ask(`"prompt_cache_retention":"24h"`), "prompt_cache_retention"),
		of(llm.FeatureServiceTier, ask(`"service_tier":"flex"`), "service_tier"),
		of(llm.FeatureStore, ask(`"store":true`), "store"),
		of(llm.FeatureModeration, ask(moderation), "moderation.model", "moderation.policy.input.mode", "moderation.policy.output.mode"),
		of(llm.FeatureStreamOption, ask(`"stream_options":{"include_obfuscation":false}`), "stream_options.include_obfuscation"),
	}
	var rows []protocol.Field
	for _, g := range groups {
		rows = append(rows, g...)
	}
	return rows
}
