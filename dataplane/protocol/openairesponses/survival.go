package openairesponses

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// but is a cell of something that is carried, apart from what the note says, for which
// by is done.
func but(by protocol.Action, note string) protocol.Support {
	return protocol.Support{Fate: protocol.Carried, Default: by, Note: note}
}

// butSwap is but with something that can stand in.
func butSwap(by protocol.Action, what, note string) protocol.Support {
	s := but(by, note)
	s.Substitute = what
	return s
}

// Support is what Responses has for a feature of another protocol.
func (*Codec) Support(f llm.Feature) protocol.Support {
	switch f {
	case llm.Core:
		return protocol.Carry()

	// Content.
	case llm.FeatureImage, llm.FeatureDocument:
		return but(protocol.Reject, "of what the model made before, images with their data alone")
	case llm.FeatureImageDetail, llm.FeatureRefusalHistory, llm.FeatureSystemPosition, llm.FeatureResultMedia:
		return protocol.Carry()
	case llm.FeatureImageURL, llm.FeatureDocumentURL:
		return but(protocol.Reject, "http and https alone")
	case llm.FeatureAudioInput, llm.FeatureVideoInput, llm.FeatureSearchResult, llm.FeatureCitations:
		return protocol.Lack(protocol.Reject)
	case llm.FeatureFileID:
		return but(protocol.Reject, "files of OpenAI's own protocols alone")
	case llm.FeatureDocumentMeta:
		return but(protocol.Drop, "the title as the file's name; a context with a text document alone")
	case llm.FeatureResultError:
		return protocol.Swap(protocol.Substitute, `the line "`+failedNote+`" before the result`)
	case llm.FeatureReasoningState:
		return but(protocol.Drop, "of the same account alone, as encrypted_content")
	case llm.FeatureReasoningText:
		return but(protocol.Drop, "as the summary beside its encrypted_content")
	case llm.FeatureCitationHistory:
		return but(protocol.Drop, "sources with a URL alone")
	case llm.FeatureParticipantName, llm.FeatureMediaResolution, llm.FeaturePhase:
		return protocol.Lack(protocol.Drop)

	// Tools.
	case llm.FeatureServerTool, llm.FeatureMCP, llm.FeatureContainer:
		return protocol.Lack(protocol.Reject)
	case llm.FeatureWebSearch:
		return protocol.Swap(protocol.Reject, "OpenAI's web_search")
	case llm.FeatureCustomTool, llm.FeatureAllowedTools, llm.FeatureForcedTool, llm.FeatureToolSchema, llm.FeatureToolNamespace:
		return protocol.Carry()
	case llm.FeatureToolStrict, llm.FeatureSchemaStrict:
		return but(protocol.Drop, "where the schema is one that OpenAI enforces and the server knows strict")
	case llm.FeatureToolOption, llm.FeatureMaxToolCalls, llm.FeatureTaskBudget:
		return protocol.Lack(protocol.Drop)
	case llm.FeatureParallelTools:
		return but(protocol.Reject, "unless the server lacks parallel_tool_calls")
	case llm.FeatureLegacyFunctions:
		return protocol.Swap(protocol.Substitute, "tools")

	// The answer's form, and sampling.
	case llm.FeatureJSONObject:
		return butSwap(protocol.Substitute, "an instruction that speaks of JSON, which the vendor demands", "where the input speaks of JSON")
	case llm.FeatureJSONSchema:
		return butSwap(protocol.Reject, "json_object and an instruction with the schema", "unless the server lacks json_schema")
	case llm.FeatureTemperature, llm.FeatureTopP:
		return but(protocol.Drop, "unless the server refuses sampling")
	case llm.FeatureStop, llm.FeatureChoices, llm.FeatureLogprobs, llm.FeatureLogitBias, llm.FeatureOutputModality:
		return protocol.Lack(protocol.Reject)
	case llm.FeatureTopK, llm.FeatureSeed, llm.FeaturePenalty, llm.FeaturePrediction:
		return protocol.Lack(protocol.Drop)
	case llm.FeatureVerbosity:
		return protocol.Map("text.verbosity")
	case llm.FeatureMaxTokens:
		return protocol.Swap(protocol.Substitute, "the model's own limit, for a higher one, and 16, for a lower one")
	}
	return supportOfRest(f)
}

// supportOfRest is Support for reasoning, identity, state and answers.
func supportOfRest(f llm.Feature) protocol.Support {
	switch f {
	case llm.FeatureReasoning:
		return protocol.Map("reasoning.effort")
	case llm.FeatureReasoningBudget:
		return protocol.Swap(protocol.Substitute, "the least reasoning.effort with as many tokens")
	case llm.FeatureReasoningDisplay:
		return but(protocol.Drop, "as reasoning.summary")

	case llm.FeatureUser:
		return butSwap(protocol.Substitute, "its SHA-256", "as safety_identifier; 64 bytes at most")
	case llm.FeatureCacheKey:
		return protocol.Carry()
	case llm.FeatureCacheMark:
		return but(protocol.Drop, "as prompt_cache_breakpoint on text and media; not on tools, calls and what the model said")
	case llm.FeatureCacheLifetime:
		return butSwap(protocol.Reject, "a breakpoint that lives 30 minutes", "not an hour")
	case llm.FeatureMetadata:
		return but(protocol.Drop, "that of Chat Completions")
	case llm.FeatureLabels, llm.FeatureInclude, llm.FeatureContextEdit, llm.FeatureClientMetadata, llm.FeatureDiagnostics, llm.FeatureUnknown:
		return protocol.Lack(protocol.Drop)
	case llm.FeatureStreamOption:
		return but(protocol.Drop, "include_obfuscation alone")
	case llm.FeatureStore:
		return but(protocol.Reject, "false, and true from Chat Completions; false unless asked for")
	case llm.FeatureServiceTier:
		return but(protocol.Reject, "where the tier has the same name")
	case llm.FeatureSpeed, llm.FeatureResidency, llm.FeatureSafety, llm.FeatureModeration, llm.FeatureStoredState, llm.FeatureBackground,
		llm.FeaturePromptTemplate, llm.FeatureTruncation, llm.FeatureCompaction, llm.FeatureCachedContent:
		return protocol.Lack(protocol.Reject)

	case llm.AnswerReasoning:
		return protocol.Map("the summary of a reasoning item")
	case llm.AnswerState:
		return but(protocol.Drop, "of reasoning, as encrypted_content")
	case llm.AnswerCitations:
		return but(protocol.Drop, "sources with a URL alone")
	case llm.AnswerMedia:
		return but(protocol.Reject, "images alone, as image_generation_call; an answer with anything else fails")
	case llm.AnswerServerTool, llm.AnswerLogprobs, llm.AnswerStopWord:
		return protocol.Lack(protocol.Drop)
	case llm.AnswerRefusalInfo:
		return protocol.Swap(protocol.Drop, "the explanation as the refusal, where there is none")
	}
	return protocol.Support{} // one that this table was not told of
}
