package anthropic

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// keptWhole is the note of rows for values that are kept as they stand, whatever they hold.
const keptWhole = "kept whole"

// ask is a request that says nothing beside members.
func ask(members string) string {
	return `{"max_tokens":2048,"messages":[{"role":"user","content":[{"type":"text","text":"Say hi."}]}],` + members + `}`
}

// show is a request whose user shows a block.
func show(block string) string {
	return `{"max_tokens":2048,"messages":[{"role":"user","content":[` + block + `]}]}`
}

// after is a request whose assistant has said a block.
func after(block string) string {
	return `{"max_tokens":2048,"messages":[{"role":"user","content":[{"type":"text","text":"Say hi."}]},{"role":"assistant","content":[` + block +
		`]},{"role":"user","content":[{"type":"text","text":"Go on."}]}]}`
}

// used is a request whose tool was called and answered, with members of the call and
// of the result beside.
func used(call, result string) string {
	return `{"max_tokens":2048,"tools":[` + lookTool + `],"messages":[{"role":"user","content":[{"type":"text","text":"Look."}]},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"look","input":{}` + call + `}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1"` + result + `}]}]}`
}

// offer is a request with a tool.
func offer(tool string) string { return ask(`"tools":[` + tool + `]`) }

const (
	lookTool = `{"name":"look","input_schema":{"type":"object","properties":{}}}`
	optional = `{"name":"look","input_schema":{"type":"object","properties":{}},"strict":true,"allowed_callers":["direct"],` +
		`"defer_loading":false,"eager_input_streaming":true,"input_examples":[{}],"cache_control":{"type":"ephemeral","ttl":"1h"}}`
	png    = `{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}`
	pdf    = `{"type":"base64","media_type":"application/pdf","data":"JVBERi0xLjQ="}`
	marked = `{"type":"text","text":"Long.","cache_control":{"type":"ephemeral","ttl":"1h"}}`
	cited  = `{"type":"text","text":"Hi.","citations":[{"type":"char_location","cited_text":"hi","document_index":0,"document_title":"T",` +
		`"start_char_index":0,"end_char_index":2}]}`
	described = `{"type":"document","source":` + pdf + `,"title":"T","context":"Old.","citations":{"enabled":true}}`
	thought   = `{"type":"thinking","thinking":"Hm.","signature":"c2ln"}`
	budgeted  = `"thinking":{"type":"enabled","budget_tokens":1024,"display":"summarized"}`
	found     = `{"type":"search_result","source":"https://docs.example/a","title":"A","content":[{"type":"text","text":"Hi."}],"citations":{"enabled":true}}`
	byProgram = `,"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_1"},"toolset_name":"browser"`
	sized     = `{"type":"image","source":` + png + `,"transformations":{"oversized_image":"error"}}`
	skills    = `"container":{"id":"container_1","skills":[{"type":"anthropic","skill_id":"pptx","version":"latest"}]}`
	schemaOut = `"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{}}}}`
	oneCall   = `"tools":[` + lookTool + `],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`
	forced    = `"tools":[` + lookTool + `],"tool_choice":{"type":"tool","name":"look"}`
)

// serverTools are the types of tools that the vendor defines, those of betas included
// (anthropic-sdk-go v2.15).
var serverTools = []string{
	"advisor_20260301", "bash_20241022", "bash_20250124", "browser_toolset_20260801",
	"code_execution_20250522", "code_execution_20250825", "code_execution_20260120", "code_execution_20260521",
	"computer_20241022", "computer_20250124", "computer_20251124", "computer_toolset_20260801", "memory_20250818",
	"text_editor_20241022", "text_editor_20250124", "text_editor_20250429", "text_editor_20250728",
	"tool_search_tool_bm25_20251119", "tool_search_tool_regex_20251119",
	"web_fetch_20250910", "web_fetch_20260209", "web_fetch_20260309", "web_fetch_20260318",
	"web_search_20250305", "web_search_20260209", "web_search_20260318",
}

// serverBlocks are the types of blocks that tell of tools which the vendor runs.
var serverBlocks = []string{
	"advisor_tool_result", "bash_code_execution_tool_result", "code_execution_tool_result", "fallback", "server_tool_use",
	"text_editor_code_execution_tool_result", "tool_addition", "tool_removal", "tool_search_tool_result", "web_fetch_tool_result",
	"web_search_tool_result",
}

// Fields lists the members of a Messages request: those of MessageNewParams of
// anthropic-sdk-go v2.15, what its beta has at the top, and what clients send beside.
// Members of blocks are listed without the block's type where all types with a member
// of that name mean the same by it.
func (*Codec) Fields() []protocol.Field {
	rows := make([]protocol.Field, 0, 200)
	of := func(f llm.Feature, example string, paths ...string) {
		for _, p := range paths {
			rows = append(rows, protocol.Field{Path: p, Feature: f, Example: example})
		}
	}
	kept := func(f llm.Feature, example string, paths ...string) {
		from := len(rows)
		of(f, example, paths...)
		for i := range rows[from:] {
			rows[from+i].Note = keptWhole
		}
	}
	of(llm.Core, "", "model", "stream", "max_tokens", "messages[].role", "messages[].content[].type", "messages[].content[].text",
		"messages[].content[].id", "messages[].content[].name", "messages[].content[].tool_use_id",
		"messages[].content[].content[].type", "messages[].content[].content[].text", "system[].type", "system[].text",
		"tools[].type", "tools[].name", "tools[].description", "tool_choice.type")
	rows = append(rows, protocol.Field{Path: "messages[].content[].input", Note: keptWhole}, protocol.Field{Path: "tools[].input_schema", Note: keptWhole})
	contentFields(of, kept)
	toolFields(of, kept)

	of(llm.FeatureTemperature, ask(`"temperature":0.5`), "temperature")
	of(llm.FeatureTopP, ask(`"top_p":0.5`), "top_p")
	of(llm.FeatureTopK, ask(`"top_k":5`), "top_k")
	of(llm.FeatureStop, ask(`"stop_sequences":["END"]`), "stop_sequences[]")
	of(llm.FeatureReasoning, ask(`"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}`), "thinking.type", "output_config.effort")
	of(llm.FeatureReasoningBudget, ask(budgeted), "thinking.budget_tokens")
	of(llm.FeatureReasoningDisplay, ask(budgeted), "thinking.display")
	of(llm.FeatureReasoningDisplay, ask(`"thinking":{"type":"between_tools"}`), "thinking.type=between_tools")
	kept(llm.FeatureReasoningState, ask(`"thinking":{"type":"adaptive","block_binding":{"type":"none"}}`), "thinking.block_binding")
	of(llm.FeatureJSONSchema, ask(schemaOut), "output_config.format.type")
	kept(llm.FeatureJSONSchema, ask(schemaOut), "output_config.format.schema")
	kept(llm.FeatureJSONSchema, ask(`"output_format":{"type":"json_schema","schema":{"type":"object","properties":{}}}`), "output_format")
	kept(llm.FeatureTaskBudget, ask(`"output_config":{"task_budget":{"type":"tokens","total":20000}}`), "output_config.task_budget")
	of(llm.FeatureUser, ask(`"metadata":{"user_id":"u-1"}`), "metadata.user_id")
	kept(llm.FeatureCacheMark, ask(`"cache_control":{"type":"ephemeral"}`), "cache_control")
	of(llm.FeatureServiceTier, ask(`"service_tier":"standard_only"`), "service_tier")
	kept(llm.FeatureServiceTier, ask(`"billing_policy":{"type":"billing_policy"}`), "billing_policy")
	of(llm.FeatureSpeed, ask(`"speed":"fast"`), "speed")
	of(llm.FeatureResidency, ask(`"inference_geo":"eu"`), "inference_geo")
	kept(llm.FeatureContainer, ask(skills), "container")
	kept(llm.FeatureDiagnostics, ask(`"diagnostics":{"previous_message_id":"msg_1"}`), "diagnostics")
	kept(llm.FeatureContextEdit, ask(`"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}`), "context_management")
	kept(llm.FeatureMCP, ask(`"mcp_servers":[{"type":"url","name":"files","url":"https://mcp.example/files"}]`), "mcp_servers")
	kept(llm.FeatureCompaction, ask(`"compaction":{"type":"summarize"}`), "compaction")
	kept(llm.FeatureStoredState, ask(`"thread":{"type":"create"}`), "thread")
	kept(llm.FeatureUnknown, ask(`"fallbacks":"default"`), "fallbacks")
	kept(llm.FeatureUnknown, ask(`"fallback_credit_token":"t"`), "fallback_credit_token")
	of(llm.FeatureCachedContent, `{"max_tokens":0,"messages":[{"role":"user","content":[{"type":"text","text":"Long."}]}]}`, "max_tokens=0")
	return rows
}

// contentFields are the members of the system prompt and of messages.
func contentFields(of, kept func(llm.Feature, string, ...string)) {
	const block = "messages[].content[]"
	of(llm.FeatureImage, show(`{"type":"image","source":`+png+`}`), block+".source.type", block+".source.media_type", block+".source.data")
	of(llm.FeatureImageURL, show(`{"type":"image","source":{"type":"url","url":"https://images.example/a.png"}}`), block+".source.url")
	of(llm.FeatureFileID, show(`{"type":"document","source":{"type":"file","file_id":"file_1"}}`), block+".source.file_id")
	of(llm.FeatureImageDetail, show(sized), block+".transformations.oversized_image")
	of(llm.FeatureDocument, show(`{"type":"document","source":`+pdf+`}`), block+".type=document")
	of(llm.FeatureDocument, show(`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"Hi."}}`), block+".source.type=text")
	kept(llm.FeatureServerTool, show(`{"type":"document","source":{"type":"content","content":[{"type":"text","text":"Hi."}]}}`), block+".source.content")
	of(llm.FeatureDocumentURL, show(`{"type":"document","source":{"type":"url","url":"https://docs.example/a.pdf"}}`), block+".source.type=url")
	of(llm.FeatureDocumentMeta, show(described), block+".title", block+".context")
	of(llm.FeatureCitations, show(described), block+".citations.enabled")
	kept(llm.FeatureCitationHistory, after(cited), block+".citations[]")
	kept(llm.FeatureCitationHistory, ask(`"system":[`+cited+`]`), "system[].citations[]")
	of(llm.FeatureReasoningText, after(thought), block+".thinking")
	of(llm.FeatureReasoningState, after(thought), block+".signature")
	of(llm.FeatureReasoningState, after(`{"type":"redacted_thinking","data":"ZGF0YQ=="}`), block+".data")
	of(llm.FeatureCacheMark, show(marked), block+".cache_control.type")
	of(llm.FeatureCacheLifetime, show(marked), block+".cache_control.ttl")
	of(llm.FeatureCacheMark, ask(`"system":[`+marked+`]`), "system[].cache_control.type")
	of(llm.FeatureCacheLifetime, ask(`"system":[`+marked+`]`), "system[].cache_control.ttl")
	of(llm.FeatureSystemPosition, `{"max_tokens":2048,"messages":[{"role":"user","content":[{"type":"text","text":"Say hi."}]},`+
		`{"role":"system","content":[{"type":"text","text":"Be brief."}]},{"role":"user","content":[{"type":"text","text":"Now."}]}]}`, "messages[].role=system")

	kept(llm.FeatureContextEdit, `{"max_tokens":2048,"messages":[{"role":"user","content":[{"type":"text","text":"Say hi."}]},`+
		`{"role":"system","content":[{"type":"text","text":"Be brief."}],"clear_at":"next_user_turn","output_config":{"effort":"low"}}]}`,
		"messages[].clear_at", "messages[].output_config")

	of(llm.FeatureResultError, used("", `,"is_error":true,"content":[{"type":"text","text":"No."}]`), block+".is_error")
	kept(llm.FeatureServerTool, used(byProgram, ""), block+".caller", block+".toolset_name")
	inside := block + ".content[]"
	result := func(b string) string { return used("", `,"content":[`+b+`]`) }
	of(llm.FeatureResultMedia, result(`{"type":"image","source":`+png+`}`), inside+".source.type", inside+".source.media_type", inside+".source.data")
	of(llm.FeatureImageURL, result(`{"type":"image","source":{"type":"url","url":"https://images.example/a.png"}}`), inside+".source.url")
	of(llm.FeatureFileID, result(`{"type":"image","source":{"type":"file","file_id":"file_1"}}`), inside+".source.file_id")
	kept(llm.FeatureServerTool, result(`{"type":"document","source":{"type":"content","content":[{"type":"text","text":"Hi."}]}}`), inside+".source.content")
	of(llm.FeatureImageDetail, result(sized), inside+".transformations.oversized_image")
	of(llm.FeatureDocumentMeta, result(described), inside+".title", inside+".context")
	of(llm.FeatureCitations, result(described), inside+".citations.enabled")
	kept(llm.FeatureCitationHistory, result(cited), inside+".citations[]")
	of(llm.FeatureCacheMark, result(marked), inside+".cache_control.type")
	of(llm.FeatureCacheLifetime, result(marked), inside+".cache_control.ttl")
	kept(llm.FeatureSearchResult, result(found), inside+".type=search_result")
	kept(llm.FeatureServerTool, result(`{"type":"tool_reference","tool_name":"look"}`), inside+".type=tool_reference")
	kept(llm.FeatureServerTool, result(`{"type":"browser_state","tabs":[]}`), inside+".type=browser_state")

	kept(llm.FeatureSearchResult, show(found), block+".type=search_result")
	kept(llm.FeatureContainer, show(`{"type":"container_upload","file_id":"file_1"}`), block+".type=container_upload")
	kept(llm.FeatureCompaction, after(`{"type":"compaction","content":"So far."}`), block+".type=compaction")
	for _, kind := range serverBlocks {
		kept(llm.FeatureServerTool, after(`{"type":"`+kind+`","id":"srvtoolu_1","name":"web_search","input":{}}`), block+".type="+kind)
	}
	for _, kind := range []string{"mcp_tool_use", "mcp_tool_result", "mcp_tool_listing"} {
		kept(llm.FeatureMCP, after(`{"type":"`+kind+`","id":"mcptoolu_1","name":"read","server_name":"files","input":{}}`), block+".type="+kind)
	}
}

// toolFields are the members of tools and of the choice among them.
func toolFields(of, kept func(llm.Feature, string, ...string)) {
	of(llm.FeatureToolStrict, offer(optional), "tools[].strict")
	kept(llm.FeatureToolOption, offer(optional), "tools[].allowed_callers", "tools[].defer_loading", "tools[].eager_input_streaming", "tools[].input_examples")
	of(llm.FeatureCacheMark, offer(optional), "tools[].cache_control.type")
	of(llm.FeatureCacheLifetime, offer(optional), "tools[].cache_control.ttl")
	of(llm.FeatureForcedTool, ask(forced), "tool_choice.name")
	of(llm.FeatureParallelTools, ask(oneCall), "tool_choice.disable_parallel_tool_use")
	for _, kind := range serverTools {
		f := llm.FeatureServerTool
		if len(kind) > 10 && kind[:10] == "web_search" {
			f = llm.FeatureWebSearch
		}
		kept(f, offer(`{"type":"`+kind+`","name":"`+kind+`"}`), "tools[].type="+kind)
	}
	kept(llm.FeatureMCP, offer(`{"type":"mcp_toolset","mcp_server_name":"files"}`), "tools[].type=mcp_toolset")
}
