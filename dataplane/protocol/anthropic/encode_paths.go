package anthropic

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// places are where callers put what has a name in llm.Request, in Chat, in Responses
// and in Gemini, for texts that speak of it.
var places = map[llm.Feature][3]string{
	llm.FeatureTemperature:      {"temperature", "temperature", "generationConfig.temperature"},
	llm.FeatureTopP:             {"top_p", "top_p", "generationConfig.topP"},
	llm.FeatureTopK:             {"top_k", "top_k", "generationConfig.topK"},
	llm.FeatureStop:             {"stop", "stop", "generationConfig.stopSequences"},
	llm.FeatureMaxTokens:        {"max_completion_tokens", "max_output_tokens", "generationConfig.maxOutputTokens"},
	llm.FeatureCacheKey:         {"prompt_cache_key", "prompt_cache_key", ""},
	llm.FeatureReasoning:        {"reasoning_effort", "reasoning.effort", "generationConfig.thinkingConfig"},
	llm.FeatureReasoningBudget:  {"reasoning_effort", "reasoning.effort", "generationConfig.thinkingConfig.thinkingBudget"},
	llm.FeatureReasoningDisplay: {"reasoning_effort", "reasoning.summary", "generationConfig.thinkingConfig.includeThoughts"},
	llm.FeatureJSONObject:       {"response_format", "text.format", "generationConfig.responseMimeType"},
	llm.FeatureJSONSchema:       {"response_format", "text.format", "generationConfig.responseJsonSchema"},
	llm.FeatureSchemaStrict:     {"response_format.json_schema.strict", "text.format.strict", ""},
	llm.FeatureParallelTools:    {"parallel_tool_calls", "parallel_tool_calls", ""},
	llm.FeatureAllowedTools:     {"tool_choice", "tool_choice", "toolConfig.functionCallingConfig.allowedFunctionNames"},
	llm.FeatureToolStrict:       {"tools[].function.strict", "tools[].strict", ""},
	llm.FeatureToolSchema:       {"tools[].function.parameters", "tools[].parameters", "tools[].functionDeclarations[].parameters"},
}

// ownPlaces are those of this protocol, where they are not as in Chat.
var ownPlaces = map[llm.Feature]string{
	llm.FeatureStop:             "stop_sequences",
	llm.FeatureMaxTokens:        "max_tokens",
	llm.FeatureReasoning:        "thinking",
	llm.FeatureReasoningBudget:  "thinking.budget_tokens",
	llm.FeatureReasoningDisplay: "thinking.display",
	llm.FeatureJSONSchema:       "output_config.format",
	llm.FeatureParallelTools:    "tool_choice.disable_parallel_tool_use",
	llm.FeatureToolStrict:       "tools[].strict",
	llm.FeatureToolSchema:       "tools[].input_schema",
}

// at is where the caller put a feature; the list of messages for those of parts.
func (w *requestWriter) at(f llm.Feature) string {
	row, known := places[f]
	switch w.c.From {
	case protocol.Anthropic:
		if own, ok := ownPlaces[f]; ok {
			return own
		}
		if known {
			return row[0]
		}
	case protocol.Gemini:
		if known {
			return row[2]
		}
		return "contents"
	case protocol.OpenAIResponses:
		if known {
			return row[1]
		}
		return "input"
	}
	if known {
		return row[0]
	}
	return "messages"
}
