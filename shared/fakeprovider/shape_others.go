package fakeprovider

// anthropicShapes are the objects of a Messages request, as in anthropic-sdk-go v2.15.
// The insides of server tools and of their blocks are not looked at.
const anthropicShapes = `
Request: cache_control:CacheControl container:* diagnostics:Diagnostics inference_geo max_tokens messages:Message metadata:Metadata model output_config:OutputConfig service_tier speed stop_sequences stream system:SystemPart temperature thinking:Thinking tool_choice:ToolChoice tools:Tool top_k top_p
BetaRequest: billing_policy:* compaction:* context_management:* fallback_credit_token:* fallbacks:* mcp_servers:* output_format:JSONFormat thread:*
Diagnostics: previous_message_id
Metadata: user_id
OutputConfig: effort format:JSONFormat task_budget:*
JSONFormat: ?type json_schema=JSONSchema
JSONSchema: schema:* type
CacheControl: ttl type
Message: ?role user=Turn assistant=Turn system=SystemTurn
Turn: content:Block role
SystemTurn: clear_at:* content:Block output_config:* role
SystemPart: ?type text=Text
Block: ?type text=Text image=Image document=Document search_result=SearchResult thinking=ThinkingBlock redacted_thinking=Redacted tool_use=ToolUse tool_result=ToolResult server_tool_use=* web_search_tool_result=* web_fetch_tool_result=* advisor_tool_result=* code_execution_tool_result=* bash_code_execution_tool_result=* text_editor_code_execution_tool_result=* tool_search_tool_result=* mcp_tool_use=* mcp_tool_result=* container_upload=* compaction=* tool_addition=* tool_removal=* mcp_tool_listing=* fallback=*
Text: cache_control:CacheControl citations:* text type
Image: cache_control:CacheControl source:ImageSource transformations:Transformations type
Transformations: oversized_image
ImageSource: ?type base64=Base64 url=URL file=FileID
Base64: data media_type type
URL: type url
FileID: file_id type
Document: cache_control:CacheControl citations:CitationsConfig context source:DocumentSource title type
CitationsConfig: enabled
DocumentSource: ?type base64=Base64 text=Base64 content=ContentSource url=URL file=FileID
ContentSource: content:ContentPart type
ContentPart: ?type text=Text image=Image
SearchResult: cache_control:CacheControl citations:CitationsConfig content:SystemPart source title type
ThinkingBlock: signature thinking type
Redacted: data type
ToolUse: cache_control:CacheControl caller:* id input:* name toolset_name type
ToolResult: cache_control:CacheControl content:ResultPart is_error tool_use_id toolset_name type
ResultPart: ?type text=Text image=Image document=Document search_result=SearchResult tool_reference=Referenced browser_state=*
Referenced: cache_control:CacheControl tool_name type
Thinking: ?type enabled=ThinkingEnabled adaptive=ThinkingAdaptive disabled=Typed between_tools=Typed
ThinkingEnabled: block_binding:* budget_tokens display type
ThinkingAdaptive: block_binding:* display type
Typed: type
ToolChoice: ?type auto=ChooseAny any=ChooseAny tool=ChooseTool none=Typed
ChooseAny: disable_parallel_tool_use type
ChooseTool: disable_parallel_tool_use name type
Tool: ?type -=Custom custom=Custom bash_20241022=* bash_20250124=* code_execution_20250522=* code_execution_20250825=* code_execution_20260120=* code_execution_20260521=* browser_toolset_20260801=* computer_20241022=* computer_20250124=* computer_20251124=* computer_toolset_20260801=* memory_20250818=* text_editor_20241022=* text_editor_20250124=* text_editor_20250429=* text_editor_20250728=* web_search_20250305=* web_search_20260209=* web_search_20260318=* web_fetch_20250910=* web_fetch_20260209=* web_fetch_20260309=* web_fetch_20260318=* advisor_20260301=* tool_search_tool_bm25_20251119=* tool_search_tool_bm25=* tool_search_tool_regex_20251119=* tool_search_tool_regex=* mcp_toolset=*
Custom: allowed_callers cache_control:CacheControl defer_loading description eager_input_streaming input_examples:* input_schema:* name strict type
`

// geminiShapes are the objects of a generateContent request, as genai v1.77 sends them
// to the Gemini API; what it keeps for Vertex AI is unknown there. The insides
// of the vendor's built-in tools are not looked at.
const geminiShapes = `
Request: cachedContent contents:Content generationConfig:GenerationConfig labels:* model safetySettings:SafetySetting serviceTier store systemInstruction:Content toolConfig:ToolConfig tools:Tool
CountRequest: contents:Content generateContentRequest:Request generationConfig:GenerationConfig model systemInstruction:Content tools:Tool
Content: parts:Part role
Part: audioTranscription:* codeExecutionResult:CodeResult executableCode:Code fileData:FileData functionCall:FunctionCall functionResponse:FunctionResponse inlineData:Blob mediaProcessing mediaResolution:MediaResolution partMetadata:* speechMetadata:SpeechMetadata text thought thoughtSignature toolCall:* toolResponse:* videoMetadata:VideoMetadata
CodeResult: id outcome output
Code: code id language
FileData: fileUri mimeType
Blob: data mimeType
FunctionCall: args:* id name
FunctionResponse: id name parts:ResponsePart response:* scheduling willContinue
ResponsePart: fileData:FileData inlineData:Blob mediaProcessing
MediaResolution: level numTokens
SpeechMetadata: speaker style
VideoMetadata: endOffset fps startOffset
GenerationConfig: audioTranscriptionConfig:* candidateCount continuationToken enableAffectiveDialog enableEnhancedCivicAnswers frequencyPenalty imageConfig:ImageConfig logprobs maxOutputTokens mediaResolution presencePenalty responseFormat:* responseJsonSchema:* responseLogprobs responseMimeType responseModalities responseSchema:* seed speechConfig:* stopSequences temperature thinkingConfig:ThinkingConfig topK topP translationConfig:*
ImageConfig: aspectRatio imageSize
ThinkingConfig: includeThoughts thinkingBudget thinkingLevel
SafetySetting: category threshold
ToolConfig: functionCallingConfig:CallingConfig includeServerSideToolInvocations retrievalConfig:*
CallingConfig: allowedFunctionNames mode
Tool: codeExecution:* computerUse:* fileSearch:* functionDeclarations:Function googleMaps:* googleSearch:* googleSearchRetrieval:* mcpServers:* urlContext:*
Function: behavior description name parameters:* parametersJsonSchema:* response:* responseJsonSchema:*
Schema: anyOf:Schema default:* description enum example:* format items:Schema maxItems maxLength maxProperties maximum minItems minLength minProperties minimum nullable pattern properties:{Schema} propertyOrdering required title type
`
