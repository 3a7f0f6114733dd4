package openairesponses

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// ask is a request that says nothing beside members.
func ask(members string) string {
	return `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Say hi."}]}],` + members + `}`
}

// show is a request whose user shows a part.
func show(part string) string {
	return `{"input":[{"type":"message","role":"user","content":[` + part + `]}]}`
}

// after is a request in which items stand between two messages of the user.
func after(items string) string {
	return `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Say hi."}]},` + items +
		`,{"type":"message","role":"user","content":[{"type":"input_text","text":"Go on."}]}]}`
}

// answered is a request in which a call was answered by output.
func answered(output string) string {
	return after(`{"type":"function_call","call_id":"call_1","name":"look","arguments":"{}"},` +
		`{"type":"function_call_output","call_id":"call_1","output":` + output + `}`)
}

// offer is a request with a tool, which says members beside.
func offer(tool, members string) string { return ask(`"tools":[` + tool + `]` + members) }

const (
	plainTool  = `{"type":"function","name":"look","parameters":{"type":"object","properties":{}},"strict":false}`
	customTool = `{"type":"custom","name":"run","description":"Runs it.","format":{"type":"grammar","syntax":"regex","definition":"[a-z]+"}}`
	strictTool = `{"type":"function","name":"look","parameters":{"type":"object","properties":{},"required":[],"additionalProperties":false},"strict":true}`
	optionTool = `{"type":"function","name":"look","description":"Looks.","parameters":{"type":"object","properties":{}},"strict":false,` +
		`"allowed_callers":["direct"],"async":true,"defer_loading":true,"output_schema":{"type":"object"}}`
	spacedTool = `{"type":"namespace","name":"files","description":"Files.","tools":[` +
		`{"type":"function","name":"look","description":"Looks.","parameters":{"type":"object","properties":{}},"strict":false,` +
		`"allowed_callers":["direct"],"async":true,"defer_loading":true,"output_schema":{"type":"object"}},` +
		`{"type":"custom","name":"run","description":"Runs it.","format":{"type":"grammar","syntax":"regex","definition":"[a-z]+"}}]}`
	customCall = `{"type":"custom_tool_call","call_id":"call_1","name":"run","input":"ls"},` +
		`{"type":"custom_tool_call_output","call_id":"call_1","output":"a"}`
	spacedCall = `{"type":"function_call","call_id":"call_1","namespace":"files","name":"look","arguments":"{}"},` +
		`{"type":"function_call_output","call_id":"call_1","output":"a"}`
	programCall = `{"type":"function_call","call_id":"call_1","name":"look","arguments":"{}","caller":{"type":"program","caller_id":"prog_1"}},` +
		`{"type":"function_call_output","call_id":"call_1","output":"a"}`
	asyncCall = `{"type":"function_call","call_id":"call_1","name":"look","arguments":"{}","async":true},` +
		`{"type":"function_call_output","call_id":"call_1","output":"a"}`
	jsonSchema = `"text":{"format":{"type":"json_schema","name":"hi","description":"A greeting.","strict":true,` +
		`"schema":{"type":"object","properties":{"hi":{"type":"string"}},"required":["hi"],"additionalProperties":false}}}`
	cacheMark     = `{"type":"input_text","text":"Long.","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}}`
	pngPart       = `{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo=","detail":"low"}`
	pdfPart       = `{"type":"input_file","file_data":"data:application/pdf;base64,JVBERi0xLjQ=","filename":"a.pdf","detail":"low"}`
	urlSource     = `{"type":"url_citation","start_index":0,"end_index":3,"url":"https://a.example/","title":"A"}`
	fileSource    = `{"type":"container_file_citation","container_id":"cntr_1","start_index":0,"end_index":3,"file_id":"file_1","filename":"a.txt"}`
	indexSource   = `{"type":"file_citation","file_id":"file_1","filename":"a.txt","index":0}`
	reasoningItem = `{"type":"reasoning","summary":[{"type":"summary_text","text":"Greet."}],"encrypted_content":"gAAA"},` +
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi."}]}`
	thoughtItem = `{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Greet."}]},` +
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi."}]}`
	moderation = `"moderation":{"model":"omni-moderation-latest","policy":{"input":{"mode":"block"},"output":{"mode":"score"}}}`
)

// said is an assistant's message with some more members in its text.
func said(more string) string {
	return `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi."` + more + `}]}`
}

// builtinTools are the types of tools that the provider runs or has built into it, with
// an example of each. They are kept whole.
var builtinTools = [...]struct {
	kind    string
	feature llm.Feature
	example string
}{
	{"web_search", llm.FeatureWebSearch, `{"type":"web_search","filters":{"allowed_domains":["a.example"]},"user_location":{"type":"approximate","city":"Ulm"}}`},
	{"web_search_2025_08_26", llm.FeatureWebSearch, `{"type":"web_search_2025_08_26"}`},
	{"web_search_preview", llm.FeatureWebSearch, `{"type":"web_search_preview","search_context_size":"low"}`},
	{"web_search_preview_2025_03_11", llm.FeatureWebSearch, `{"type":"web_search_preview_2025_03_11"}`},
	{"file_search", llm.FeatureServerTool, `{"type":"file_search","vector_store_ids":["vs_1"]}`},
	{"code_interpreter", llm.FeatureServerTool, `{"type":"code_interpreter","container":{"type":"auto"}}`},
	{"image_generation", llm.FeatureServerTool, `{"type":"image_generation"}`},
	{"mcp", llm.FeatureMCP, `{"type":"mcp","server_label":"a","server_url":"https://mcp.example/"}`},
	{"computer", llm.FeatureServerTool, `{"type":"computer"}`},
	{"computer_use_preview", llm.FeatureServerTool, `{"type":"computer_use_preview","display_width":800,"display_height":600,"environment":"browser"}`},
	{"local_shell", llm.FeatureServerTool, `{"type":"local_shell"}`},
	{"shell", llm.FeatureServerTool, `{"type":"shell"}`},
	{"apply_patch", llm.FeatureServerTool, `{"type":"apply_patch"}`},
	{"tool_search", llm.FeatureServerTool, `{"type":"tool_search"}`},
	{"programmatic_tool_calling", llm.FeatureServerTool, `{"type":"programmatic_tool_calling"}`},
}

// builtinItems are the types of items that only Responses has, with an example of each.
// They are kept whole.
var builtinItems = [...]struct {
	kind    string
	feature llm.Feature
	example string
}{
	{"web_search_call", llm.FeatureServerTool, `{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"hi"}}`},
	{"file_search_call", llm.FeatureServerTool, `{"type":"file_search_call","id":"fs_1","status":"completed","queries":["hi"]}`},
	{"code_interpreter_call", llm.FeatureServerTool, `{"type":"code_interpreter_call","id":"ci_1","status":"completed","container_id":"cntr_1","code":"1","outputs":[]}`},
	{"computer_call", llm.FeatureServerTool, `{"type":"computer_call","id":"cu_1","call_id":"call_1","status":"completed","action":{"type":"screenshot"},"pending_safety_checks":[]}`},
	{"computer_call_output", llm.FeatureServerTool, `{"type":"computer_call_output","call_id":"call_1","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,iVBORw0KGgo="}}`},
	{"local_shell_call", llm.FeatureServerTool, `{"type":"local_shell_call","id":"ls_1","call_id":"call_1","status":"completed","action":{"type":"exec","command":["ls"],"env":{}}}`},
	{"local_shell_call_output", llm.FeatureServerTool, `{"type":"local_shell_call_output","id":"ls_1","output":"a"}`},
	{"shell_call", llm.FeatureServerTool, `{"type":"shell_call","call_id":"call_1","action":{"commands":["ls"]}}`},
	{"shell_call_output", llm.FeatureServerTool, `{"type":"shell_call_output","call_id":"call_1","output":[{"stdout":"a","stderr":"","outcome":{"type":"exit","exit_code":0}}]}`},
	{"apply_patch_call", llm.FeatureServerTool, `{"type":"apply_patch_call","call_id":"call_1","status":"completed","operation":{"type":"delete_file","path":"a"}}`},
	{"apply_patch_call_output", llm.FeatureServerTool, `{"type":"apply_patch_call_output","call_id":"call_1","status":"completed"}`},
	{"tool_search_call", llm.FeatureServerTool, `{"type":"tool_search_call","arguments":{"query":"files"}}`},
	{"tool_search_output", llm.FeatureServerTool, `{"type":"tool_search_output","tools":[]}`},
	{"additional_tools", llm.FeatureServerTool, `{"type":"additional_tools","role":"developer","tools":[]}`},
	{"program", llm.FeatureServerTool, `{"type":"program","id":"prog_1","call_id":"call_1","code":"1","fingerprint":"f"}`},
	{"program_output", llm.FeatureServerTool, `{"type":"program_output","id":"prog_2","call_id":"call_1","result":"1","status":"completed"}`},
	{"configuration_update", llm.FeatureServerTool, `{"type":"configuration_update","reasoning":{"effort":"low"}}`},
	{"mcp_list_tools", llm.FeatureMCP, `{"type":"mcp_list_tools","id":"mcpl_1","server_label":"a","tools":[]}`},
	{"mcp_call", llm.FeatureMCP, `{"type":"mcp_call","id":"mcp_1","server_label":"a","name":"look","arguments":"{}","output":"a"}`},
	{"mcp_approval_request", llm.FeatureMCP, `{"type":"mcp_approval_request","id":"mcpr_1","server_label":"a","name":"look","arguments":"{}"}`},
	{"mcp_approval_response", llm.FeatureMCP, `{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}`},
	{"compaction", llm.FeatureCompaction, `{"type":"compaction","encrypted_content":"gAAA"}`},
	{"compaction_trigger", llm.FeatureCompaction, `{"type":"compaction_trigger"}`},
}

// Fields lists the members of a Responses request: those of ResponseNewParams of
// openai-go v3.99, and what clients send beside. The insides of what is kept whole
// have no rows of their own.
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
		core("model", "stream", "instructions", "input", "input[].type", "input[].role", "input[].content", "input[].content[].type", "input[].content[].text",
			"input[].id", "input[].status", "input[].call_id", "input[].name", "input[].arguments", "input[].output", "input[].output[].type", "input[].output[].text",
			"input[].caller.type", "tools[].type", "tools[].name", "tools[].description", "tools[].parameters", "tool_choice", "tool_choice.type",
			"max_output_tokens", "text.format.type"),

		of(llm.FeatureImage, show(pngPart), "input[].content[].image_url"),
		of(llm.FeatureImageURL, show(`{"type":"input_image","image_url":"https://images.example/a.png"}`), "input[].content[].image_url"),
		of(llm.FeatureImageDetail, show(pngPart), "input[].content[].detail"),
		of(llm.FeatureDocument, show(pdfPart), "input[].content[].file_data"),
		of(llm.FeatureDocumentURL, show(`{"type":"input_file","file_url":"https://files.example/a.pdf"}`), "input[].content[].file_url"),
		of(llm.FeatureDocumentMeta, show(pdfPart), "input[].content[].filename"),
		of(llm.FeatureFileID, show(`{"type":"input_image","file_id":"file_1"}`), "input[].content[].file_id"),
		of(llm.FeatureCacheMark, show(cacheMark), "input[].content[].prompt_cache_breakpoint.mode"),
		of(llm.FeatureCacheLifetime, show(cacheMark), "input[].content[].prompt_cache_breakpoint.ttl"),
		of(llm.FeatureSystemPosition, after(`{"type":"message","role":"system","content":[{"type":"input_text","text":"Be brief."}]}`), "input[].role=system"),
		of(llm.FeatureRefusalHistory, after(`{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"No."}]}`), "input[].content[].refusal"),
		of(llm.FeatureCitationHistory, after(said(`,"annotations":[`+urlSource+`]`)), "input[].content[].annotations[].type", "input[].content[].annotations[].url",
			"input[].content[].annotations[].title", "input[].content[].annotations[].start_index", "input[].content[].annotations[].end_index"),
		of(llm.FeatureCitationHistory, after(said(`,"annotations":[`+fileSource+`]`)), "input[].content[].annotations[].container_id",
			"input[].content[].annotations[].file_id", "input[].content[].annotations[].filename"),
		of(llm.FeatureCitationHistory, after(said(`,"annotations":[`+indexSource+`]`)), "input[].content[].annotations[].index"),
		of(llm.FeaturePhase, after(`{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"Hi."}]}`), "input[].phase"),
		of(llm.FeatureReasoningState, after(reasoningItem), "input[].encrypted_content"),
		of(llm.FeatureReasoningText, after(reasoningItem), "input[].summary[].type", "input[].summary[].text"),
		of(llm.FeatureReasoningText, after(thoughtItem), "input[].content[].type=reasoning_text"),
		of(llm.FeatureStoredState, after(`{"type":"item_reference","id":"msg_1"}`), "input[].type=item_reference"),
		of(llm.FeatureImage, after(`{"type":"image_generation_call","id":"ig_1","status":"completed","result":"iVBORw0KGgo="}`), "input[].type=image_generation_call"),

		of(llm.FeatureResultMedia, answered(`[`+pngPart+`]`), "input[].output[].image_url", "input[].output[].detail"),
		of(llm.FeatureResultMedia, answered(`[`+pdfPart+`]`), "input[].output[].file_data", "input[].output[].filename"),
		of(llm.FeatureResultMedia, answered(`[{"type":"input_file","file_url":"https://files.example/a.pdf"}]`), "input[].output[].file_url"),
		of(llm.FeatureFileID, answered(`[{"type":"input_file","file_id":"file_1"}]`), "input[].output[].file_id"),
		of(llm.FeatureCacheMark, answered(`[`+cacheMark+`]`), "input[].output[].prompt_cache_breakpoint.mode"),
		of(llm.FeatureCacheLifetime, answered(`[`+cacheMark+`]`), "input[].output[].prompt_cache_breakpoint.ttl"),

		of(llm.FeatureCustomTool, offer(customTool, ""), "tools[].format.type", "tools[].format.syntax", "tools[].format.definition"),
		of(llm.FeatureCustomTool, after(customCall), "input[].input"),
		of(llm.FeatureToolNamespace, after(spacedCall), "input[].namespace"),
		of(llm.FeatureToolNamespace, offer(spacedTool, ""), "tools[].tools[].type", "tools[].tools[].name", "tools[].tools[].description",
			"tools[].tools[].parameters", "tools[].tools[].strict", "tools[].tools[].format.type", "tools[].tools[].format.syntax", "tools[].tools[].format.definition"),
		of(llm.FeatureToolOption, offer(spacedTool, ""), "tools[].tools[].allowed_callers[]", "tools[].tools[].async", "tools[].tools[].defer_loading",
			"tools[].tools[].output_schema"),
		of(llm.FeatureToolOption, offer(optionTool, ""), "tools[].allowed_callers[]", "tools[].async", "tools[].defer_loading", "tools[].output_schema"),
		of(llm.FeatureToolOption, after(asyncCall), "input[].async"),
		of(llm.FeatureServerTool, after(programCall), "input[].caller.caller_id"),
		of(llm.FeatureToolStrict, offer(strictTool, ""), "tools[].strict"),
		of(llm.FeatureForcedTool, offer(plainTool, `,"tool_choice":{"type":"function","name":"look"}`), "tool_choice.name"),
		of(llm.FeatureAllowedTools, offer(plainTool, `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"look"}]}`),
			"tool_choice.mode", "tool_choice.tools[]"),
		of(llm.FeatureServerTool, offer(`{"type":"mcp","server_label":"a","server_url":"https://mcp.example/"}`, `,"tool_choice":{"type":"mcp","server_label":"a"}`), "tool_choice.server_label"),
		of(llm.FeatureServerTool, offer(`{"type":"web_search"}`, `,"tool_choice":{"type":"web_search"}`), "tool_choice.type=web_search"),
		of(llm.FeatureParallelTools, offer(plainTool, `,"parallel_tool_calls":false`), "parallel_tool_calls"),
		of(llm.FeatureMaxToolCalls, ask(`"max_tool_calls":3`), "max_tool_calls"),

		of(llm.FeatureJSONObject, `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Say hi in JSON."}]}],"text":{"format":{"type":"json_object"}}}`,
			"text.format.type=json_object"),
		of(llm.FeatureJSONSchema, ask(jsonSchema), "text.format.name", "text.format.description", "text.format.schema"),
		of(llm.FeatureSchemaStrict, ask(jsonSchema), "text.format.strict"),
		of(llm.FeatureVerbosity, ask(`"text":{"verbosity":"low"}`), "text.verbosity"),
		of(llm.FeatureTemperature, ask(`"temperature":0.5`), "temperature"),
		of(llm.FeatureTopP, ask(`"top_p":0.5`), "top_p"),
		of(llm.FeatureLogprobs, ask(`"top_logprobs":2`), "top_logprobs"),
		of(llm.FeatureLogprobs, ask(`"include":["message.output_text.logprobs"]`), "include[]"),
		of(llm.FeatureInclude, ask(`"include":["web_search_call.action.sources"]`), "include[]"),
		of(llm.FeatureReasoning, ask(`"reasoning":{"effort":"low"}`), "reasoning.effort"),
		of(llm.FeatureReasoning, ask(`"reasoning":{"effort":"low","mode":"pro"}`), "reasoning.mode"),
		of(llm.FeatureReasoningDisplay, ask(`"reasoning":{"summary":"concise"}`), "reasoning.summary"),
		of(llm.FeatureReasoningDisplay, ask(`"reasoning":{"generate_summary":"concise"}`), "reasoning.generate_summary"),
		of(llm.FeatureContextEdit, ask(`"reasoning":{"context":"all_turns"}`), "reasoning.context"),
		of(llm.FeatureContextEdit, ask(`"context_management":[{"type":"compaction","compact_threshold":1000}]`), "context_management[].type", "context_management[].compact_threshold"),
		of(llm.FeatureTruncation, ask(`"truncation":"auto"`), "truncation"),
		of(llm.FeatureMediaResolution, ask(`"image":{"context_compression":"enabled"}`), "image.context_compression"),

		of(llm.FeatureUser, ask(`"user":"u1"`), "user"),
		of(llm.FeatureUser, ask(`"safety_identifier":"u1"`), "safety_identifier"),
		of(llm.FeatureMetadata, ask(`"metadata":{"job":"7"}`), "metadata"),
		of(llm.FeatureClientMetadata, ask(`"client_metadata":{"session":"7"}`), "client_metadata"),
		of(llm.FeatureCacheKey, ask(`"prompt_cache_key":"k1"`), "prompt_cache_key"),
		of(llm.FeatureCacheMark, ask(`"prompt_cache_options":{"mode":"explicit"}`), "prompt_cache_options.mode"),
		of(llm.FeatureCacheLifetime, ask(`"prompt_cache_options":{"ttl":"12h"}`), "prompt_cache_options.ttl"),
		of(llm.FeatureDiagnostics, ask(`"prompt_cache_options":{"comparison_response_id":"resp_1"}`), "prompt_cache_options.comparison_response_id"),
		of(llm.FeatureCachedContent, ask(`"prompt_cache_options":{"prewarm":true}`), "prompt_cache_options.prewarm"),
		of(llm.FeatureCacheLifetime, ask(`"prompt_cache_retention":"24h"`), "prompt_cache_retention"),
		of(llm.FeatureServiceTier, ask(`"service_tier":"flex"`), "service_tier"),
		of(llm.FeatureSafety, ask(`"access_programs":{"cyber":"standard"}`), "access_programs.cyber"),
		of(llm.FeatureModeration, ask(moderation), "moderation.model", "moderation.policy.input.mode", "moderation.policy.output.mode"),
		of(llm.FeatureStore, ask(`"store":true`), "store"),
		of(llm.FeatureStoredState, ask(`"previous_response_id":"resp_1"`), "previous_response_id"),
		of(llm.FeatureStoredState, ask(`"conversation":"conv_1"`), "conversation"),
		of(llm.FeatureStoredState, ask(`"conversation":{"id":"conv_1"}`), "conversation.id"),
		of(llm.FeatureBackground, ask(`"background":true`), "background"),
		of(llm.FeaturePromptTemplate, ask(`"prompt":{"id":"pmpt_1","version":"2","variables":{"a":"b"}}`), "prompt.id", "prompt.version", "prompt.variables"),
		of(llm.FeatureStreamOption, ask(`"stream_options":{"include_obfuscation":false}`), "stream_options.include_obfuscation"),
	}
	for _, t := range builtinTools {
		groups = append(groups, of(t.feature, offer(t.example, ""), "tools[].type="+t.kind))
	}
	for _, it := range builtinItems {
		groups = append(groups, of(it.feature, after(it.example), "input[].type="+it.kind))
	}
	var rows []protocol.Field
	for _, g := range groups {
		rows = append(rows, g...)
	}
	return rows
}
