package fakeprovider

// chatShapes are the objects of a Chat Completions request, as in openai-go v3.99, and
// the annotations of an answer, which clients send back with it.
const chatShapes = `
Request: audio:Audio frequency_penalty function_call:Named functions:Function logit_bias:* logprobs max_completion_tokens max_tokens messages:Message metadata:* modalities model moderation:* n parallel_tool_calls prediction:Prediction presence_penalty prompt_cache_key prompt_cache_options:CacheOptions prompt_cache_retention reasoning_effort response_format:Format safety_identifier seed service_tier stop store stream stream_options:StreamOptions temperature tool_choice:ToolChoice tools:Tool top_logprobs top_p user verbosity web_search_options:WebSearch
Audio: format voice:Voice
Voice: id
Message: ?role developer=System system=System user=User assistant=Assistant tool=ToolMessage function=FunctionMessage
System: content:TextPart name role
User: content:Part name role
Assistant: annotations:ChatAnnotation audio:AudioID content:AssistantPart function_call:FunctionCall name refusal role tool_calls:Call
ToolMessage: content:TextPart role tool_call_id
FunctionMessage: content name role
ChatAnnotation: type url_citation:ChatCitation
ChatCitation: end_index start_index title url
AudioID: id
TextPart: ?type text=Text
AssistantPart: ?type text=Text refusal=Refusal
Part: ?type text=Text image_url=Image input_audio=InputAudio file=File
Text: prompt_cache_breakpoint:Breakpoint text type
Refusal: refusal type
Image: image_url:ImageURL prompt_cache_breakpoint:Breakpoint type
ImageURL: detail url
InputAudio: input_audio:AudioData prompt_cache_breakpoint:Breakpoint type
AudioData: data format
File: file:FileData prompt_cache_breakpoint:Breakpoint type
FileData: file_data file_id filename
Breakpoint: mode ttl
Call: ?type function=CallFunction custom=CallCustom
CallFunction: function:FunctionCall id type
FunctionCall: arguments name
CallCustom: custom:CustomCall id type
CustomCall: input name
Tool: ?type function=FunctionTool custom=CustomTool
FunctionTool: function:Function type
Function: description name parameters:* strict
CustomTool: custom:Custom type
Custom: description format:CustomFormat name
CustomFormat: ?type text=Typed grammar=Grammar
Grammar: grammar:GrammarText type
GrammarText: definition syntax
Typed: type
ToolChoice: ?type allowed_tools=Allowed function=ChosenFunction custom=ChosenCustom
Allowed: allowed_tools:AllowedTools type
AllowedTools: mode tools:*
ChosenFunction: function:Named type
ChosenCustom: custom:Named type
Named: name
Format: ?type text=Typed json_object=Typed json_schema=FormatSchema
FormatSchema: json_schema:JSONSchema type
JSONSchema: description name schema:* strict
Prediction: content:TextPart type
CacheOptions: mode ttl
StreamOptions: include_obfuscation include_usage
WebSearch: search_context_size user_location:Location
Location: approximate:Approximate type
Approximate: city country region timezone
`

// responsesShapes are the objects of a Responses request, as in openai-go v3.99, and
// client_metadata, which the vendor's own agent sends. The insides of the vendor's
// built-in tools and of their items are not looked at.
const responsesShapes = `
Request: access_programs:* background client_metadata:* context_management:ContextManagement conversation:ID image:* include input:Item instructions max_output_tokens max_tool_calls metadata:* model moderation:* parallel_tool_calls previous_response_id prompt:Prompt prompt_cache_key prompt_cache_options:CacheOptions prompt_cache_retention reasoning:Reasoning safety_identifier service_tier store stream stream_options:StreamOptions temperature text:TextConfig tool_choice:ToolChoice tools:Tool top_logprobs top_p truncation user
ContextManagement: compact_threshold type
ID: id
Prompt: id variables:* version
CacheOptions: comparison_response_id mode prewarm ttl
StreamOptions: include_obfuscation
Reasoning: context effort generate_summary mode summary
TextConfig: format:Format verbosity
Format: ?type text=Typed json_object=Typed json_schema=JSONSchema
JSONSchema: description name schema:* strict type
Typed: type
Item: ?type -=Message message=Message reasoning=ReasoningItem function_call=FunctionCall function_call_output=FunctionOutput custom_tool_call=CustomCall custom_tool_call_output=CustomOutput item_reference=Reference compaction=Compaction compaction_trigger=Reference configuration_update=* file_search_call=* computer_call=* computer_call_output=* web_search_call=* tool_search_call=* tool_search_output=* additional_tools=* image_generation_call=ImageCall code_interpreter_call=* local_shell_call=* local_shell_call_output=* shell_call=* shell_call_output=* apply_patch_call=* apply_patch_call_output=* mcp_list_tools=* mcp_approval_request=* mcp_approval_response=* mcp_call=* program=* program_output=*
Message: ?role user=InputMessage system=InputMessage developer=InputMessage assistant=OutputMessage
InputMessage: content:InputPart id phase role status type
OutputMessage: content:OutputPart id phase role status type
InputPart: ?type input_text=InputText input_image=InputImage input_file=InputFile
InputText: prompt_cache_breakpoint:Breakpoint text type
InputImage: detail file_id image_url prompt_cache_breakpoint:Breakpoint type
InputFile: detail file_data file_id file_url filename prompt_cache_breakpoint:Breakpoint type
Breakpoint: mode ttl
OutputPart: ?type output_text=OutputText refusal=OutputRefusal
OutputText: annotations:Annotation logprobs:* text type
OutputRefusal: refusal type
Annotation: ?type file_citation=FileCitation url_citation=URLCitation container_file_citation=ContainerFileCitation file_path=FilePath
FileCitation: file_id filename index type
URLCitation: end_index start_index title type url
ContainerFileCitation: container_id end_index file_id filename start_index type
FilePath: file_id index type
ReasoningItem: content:ReasoningText encrypted_content id status summary:ReasoningText type
ReasoningText: text type
FunctionCall: arguments async call_id caller:* id name namespace status type
FunctionOutput: call_id caller:* id name namespace output:InputPart status type
CustomCall: async call_id caller:* id input name namespace status type
CustomOutput: call_id caller:* id output:InputPart type
Reference: id type
Compaction: encrypted_content id type
ImageCall: action background error:* id output_format quality result revised_prompt size status svg_usage:* type
Tool: ?type function=Function custom=Custom namespace=Namespace file_search=* computer=* computer_use_preview=* web_search=* web_search_2025_08_26=* web_search_preview=* web_search_preview_2025_03_11=* mcp=* code_interpreter=* programmatic_tool_calling=* image_generation=* local_shell=* shell=* tool_search=* apply_patch=*
Function: allowed_callers async defer_loading description name output_schema:* parameters:* strict type
Custom: allowed_callers async defer_loading description format:CustomFormat name type
CustomFormat: ?type text=Typed grammar=Grammar
Grammar: definition syntax type
Namespace: description name tools:NamespaceTool type
NamespaceTool: ?type function=Function custom=Custom
ToolChoice: ?type allowed_tools=Allowed function=Named custom=Named mcp=NamedServer file_search=Typed web_search_preview=Typed web_search_preview_2025_03_11=Typed web_search=Typed computer=Typed computer_use=Typed computer_use_preview=Typed image_generation=Typed code_interpreter=Typed programmatic_tool_calling=Typed apply_patch=Typed shell=Typed
Allowed: mode tools:* type
Named: name type
NamedServer: name server_label type
`
