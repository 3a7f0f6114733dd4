package llm

// Feature is something a request can ask for or an answer can hold that not every
// protocol can express. Its text is the name callers use in their options.
type Feature string

// Core is what every protocol has: model, turns, text, tools, the output limit.
const Core Feature = ""

// Features of requests.
const (
	FeatureImage            Feature = "image"
	FeatureImageURL         Feature = "image_url"
	FeatureImageDetail      Feature = "image_detail"
	FeatureDocument         Feature = "document"
	FeatureDocumentURL      Feature = "document_url"
	FeatureDocumentMeta     Feature = "document_metadata"
	FeatureAudioInput       Feature = "audio_input"
	FeatureVideoInput       Feature = "video_input"
	FeatureFileID           Feature = "file_id"
	FeatureResultMedia      Feature = "tool_result_media"
	FeatureResultError      Feature = "tool_result_error"
	FeatureSystemPosition   Feature = "system_position" // a system message that is not first
	FeatureParticipantName  Feature = "participant_name"
	FeatureCitations        Feature = "citations"
	FeatureSearchResult     Feature = "search_result"
	FeatureServerTool       Feature = "server_tool"
	FeatureMCP              Feature = "mcp"
	FeatureContainer        Feature = "container"
	FeatureCustomTool       Feature = "custom_tool"
	FeatureToolNamespace    Feature = "tool_namespace"
	FeatureToolStrict       Feature = "tool_strict"
	FeatureToolOption       Feature = "tool_option" // defer_loading, input_examples and the like
	FeatureToolSchema       Feature = "tool_schema" // words of JSON Schema that the target lacks
	FeatureAllowedTools     Feature = "allowed_tools"
	FeatureForcedTool       Feature = "forced_tool" // a choice that the target takes in another way
	FeatureParallelTools    Feature = "parallel_tool_calls"
	FeatureLegacyFunctions  Feature = "functions"
	FeatureJSONObject       Feature = "json_object"
	FeatureJSONSchema       Feature = "json_schema"
	FeatureSchemaStrict     Feature = "schema_strict"
	FeatureTemperature      Feature = "temperature"
	FeatureTopP             Feature = "top_p"
	FeatureTopK             Feature = "top_k"
	FeatureStop             Feature = "stop"
	FeatureChoices          Feature = "n"
	FeatureSeed             Feature = "seed"
	FeaturePenalty          Feature = "penalty"
	FeatureLogitBias        Feature = "logit_bias"
	FeatureLogprobs         Feature = "logprobs"
	FeaturePrediction       Feature = "prediction"
	FeatureVerbosity        Feature = "verbosity"
	FeatureMaxTokens        Feature = "max_tokens" // a limit that the target needs and the caller left out
	FeatureReasoning        Feature = "reasoning"
	FeatureReasoningBudget  Feature = "reasoning_budget"
	FeatureTaskBudget       Feature = "task_budget" // tokens for all turns of a task, which the model counts down
	FeatureReasoningDisplay Feature = "reasoning_display"
	FeatureReasoningState   Feature = "reasoning_state" // of another maker, or that cannot be carried
	FeatureReasoningText    Feature = "reasoning_text"  // reasoning in the history
	FeatureRefusalHistory   Feature = "refusal_history"
	FeatureCitationHistory  Feature = "citation_history" // sources of an earlier answer's text, sent back
	FeatureOutputModality   Feature = "output_modality"
	FeatureWebSearch        Feature = "web_search"
	FeatureUser             Feature = "user"
	FeatureMetadata         Feature = "metadata"
	FeatureLabels           Feature = "labels"
	FeatureCacheKey         Feature = "cache_key"
	FeatureCacheMark        Feature = "cache_control"
	FeatureCacheLifetime    Feature = "cache_ttl"
	FeatureCachedContent    Feature = "cached_content"
	FeatureServiceTier      Feature = "service_tier"
	FeatureSpeed            Feature = "speed"
	FeatureResidency        Feature = "residency" // where the provider works
	FeatureSafety           Feature = "safety_settings"
	FeatureModeration       Feature = "moderation"
	FeatureStore            Feature = "store"
	FeatureStoredState      Feature = "stored_state" // previous_response_id, conversation, item references
	FeatureBackground       Feature = "background"
	FeaturePromptTemplate   Feature = "prompt_template"
	FeatureInclude          Feature = "include"
	FeatureTruncation       Feature = "truncation"
	FeatureContextEdit      Feature = "context_management"
	FeatureCompaction       Feature = "compaction"
	FeatureMaxToolCalls     Feature = "max_tool_calls"
	FeaturePhase            Feature = "phase"
	FeatureMediaResolution  Feature = "media_resolution"
	FeatureStreamOption     Feature = "stream_option"
	FeatureClientMetadata   Feature = "client_metadata"
	FeatureDiagnostics      Feature = "diagnostics"
	FeatureUnknown          Feature = "unknown_field"
)

// Features of answers. What is lost of them is told, or the answer fails.
const (
	AnswerReasoning   Feature = "answer_reasoning"
	AnswerState       Feature = "answer_reasoning_state"
	AnswerCitations   Feature = "answer_citations"
	AnswerMedia       Feature = "answer_media"
	AnswerLogprobs    Feature = "answer_logprobs"
	AnswerServerTool  Feature = "answer_server_tool"
	AnswerStopWord    Feature = "answer_stop_sequence"
	AnswerRefusalInfo Feature = "answer_refusal_details"
)
