package openaichat

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

// Support is what Chat Completions has for a feature of another protocol.
func (*Codec) Support(f llm.Feature) protocol.Support {
	switch f {
	case llm.Core:
		return protocol.Carry()

	// Content.
	case llm.FeatureImage, llm.FeatureDocument, llm.FeatureRefusalHistory, llm.FeatureParticipantName,
		llm.FeatureSystemPosition:
		return protocol.Carry()
	case llm.FeatureImageDetail:
		return but(protocol.Drop, "detail alone")
	case llm.FeatureImageURL:
		return but(protocol.Reject, "http and https alone")
	case llm.FeatureAudioInput:
		return but(protocol.Reject, "wav and mp3 inside the request alone")
	case llm.FeatureDocumentURL, llm.FeatureVideoInput, llm.FeatureSearchResult, llm.FeatureCitations:
		return protocol.Lack(protocol.Reject)
	case llm.FeatureFileID:
		return but(protocol.Reject, "documents of OpenAI's own protocols alone")
	case llm.FeatureDocumentMeta:
		return but(protocol.Drop, "the title as the file's name; a context with a text document alone")
	case llm.FeatureResultMedia:
		return protocol.Swap(protocol.Substitute, "a message of the user right after the result")
	case llm.FeatureResultError:
		return protocol.Swap(protocol.Substitute, `the line "The tool failed:" before the result`)
	case llm.FeatureReasoningText:
		return but(protocol.Drop, "in the server's reasoning_field, if it has one")
	case llm.FeatureReasoningState, llm.FeatureCitationHistory, llm.FeatureMediaResolution, llm.FeaturePhase:
		return protocol.Lack(protocol.Drop)

	// Tools.
	case llm.FeatureServerTool, llm.FeatureMCP, llm.FeatureContainer, llm.FeatureWebSearch:
		return protocol.Lack(protocol.Reject)
	case llm.FeatureCustomTool, llm.FeatureAllowedTools, llm.FeatureForcedTool, llm.FeatureToolSchema:
		return protocol.Carry()
	case llm.FeatureToolNamespace:
		return protocol.Swap(protocol.Substitute, "a name that begins with the namespace")
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
		return butSwap(protocol.Substitute, "an instruction that speaks of JSON, which the vendor demands", "where the messages speak of JSON")
	case llm.FeatureJSONSchema:
		return butSwap(protocol.Reject, "json_object and an instruction with the schema", "unless the server lacks json_schema")
	case llm.FeatureTemperature, llm.FeatureTopP:
		return but(protocol.Drop, "unless the server refuses sampling")
	case llm.FeatureTopK:
		return protocol.Lack(protocol.Drop)
	case llm.FeatureStop:
		return but(protocol.Reject, "four at most")
	case llm.FeatureChoices, llm.FeatureLogprobs, llm.FeatureOutputModality:
		return protocol.Lack(protocol.Reject)
	case llm.FeatureSeed, llm.FeaturePenalty, llm.FeatureVerbosity:
		return protocol.Carry()
	case llm.FeatureLogitBias:
		return protocol.Lack(protocol.Reject)
	case llm.FeaturePrediction:
		return protocol.Lack(protocol.Drop)
	case llm.FeatureMaxTokens:
		return protocol.Swap(protocol.Substitute, "the model's own limit, for a higher one")
	}
	return supportOfRest(f)
}

// supportOfRest is Support for reasoning, identity, state and answers.
func supportOfRest(f llm.Feature) protocol.Support {
	switch f {
	case llm.FeatureReasoning:
		return protocol.Map("reasoning_effort")
	case llm.FeatureReasoningBudget:
		return protocol.Swap(protocol.Substitute, "the least reasoning_effort with as many tokens")
	case llm.FeatureReasoningDisplay:
		return but(protocol.Drop, "servers with a reasoning_field show reasoning always, others never")

	case llm.FeatureUser:
		return butSwap(protocol.Substitute, "its SHA-256", "64 bytes at most")
	case llm.FeatureCacheKey:
		return protocol.Carry()
	case llm.FeatureCacheMark:
		return but(protocol.Drop, "as prompt_cache_breakpoint on text and media; not on tools and calls")
	case llm.FeatureCacheLifetime:
		return butSwap(protocol.Reject, "a breakpoint that lives 30 minutes", "not an hour")
	case llm.FeatureMetadata, llm.FeatureLabels, llm.FeatureInclude, llm.FeatureContextEdit, llm.FeatureClientMetadata,
		llm.FeatureDiagnostics, llm.FeatureUnknown:
		return protocol.Lack(protocol.Drop)
	case llm.FeatureStreamOption:
		return but(protocol.Drop, "include_obfuscation alone")
	case llm.FeatureStore:
		return but(protocol.Reject, "false alone")
	case llm.FeatureServiceTier:
		return but(protocol.Reject, "where the tier has the same name")
	case llm.FeatureSpeed, llm.FeatureResidency, llm.FeatureSafety, llm.FeatureModeration, llm.FeatureStoredState, llm.FeatureBackground,
		llm.FeaturePromptTemplate, llm.FeatureTruncation, llm.FeatureCompaction, llm.FeatureCachedContent:
		return protocol.Lack(protocol.Reject)

	case llm.AnswerReasoning:
		return protocol.Map("reasoning_content, which is in no specification")
	case llm.AnswerCitations:
		return but(protocol.Drop, "sources with a URL alone")
	case llm.AnswerMedia:
		return but(protocol.Reject, "audio of a whole answer alone; an answer with anything else fails")
	case llm.AnswerState, llm.AnswerServerTool, llm.AnswerLogprobs, llm.AnswerStopWord:
		return protocol.Lack(protocol.Drop)
	case llm.AnswerRefusalInfo:
		return protocol.Swap(protocol.Drop, "the explanation as the refusal, where there is none")
	}
	return protocol.Support{} // one that this table was not told of
}
