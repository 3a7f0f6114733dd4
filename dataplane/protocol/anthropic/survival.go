package anthropic

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// within is a cell of something that is carried within the bounds that the note names;
// by is what happens beyond them.
func within(by protocol.Action, note string) protocol.Support {
	return protocol.Support{Fate: protocol.Carried, Default: by, Note: note}
}

// withinElse is within with something that can stand in beyond the bounds.
func withinElse(by protocol.Action, instead, note string) protocol.Support {
	s := within(by, note)
	s.Substitute = instead
	return s
}

// Support is what Messages has for a feature of another protocol.
func (*Codec) Support(f llm.Feature) protocol.Support {
	if s := content(f); s != (protocol.Support{}) {
		return s
	}
	if s := offered(f); s != (protocol.Support{}) {
		return s
	}
	if s := generation(f); s != (protocol.Support{}) {
		return s
	}
	return surroundings(f)
}

// content is what is said and shown.
func content(f llm.Feature) protocol.Support {
	switch f {
	case llm.FeatureImage:
		return within(protocol.Reject, "png, jpeg, gif and webp, from the user alone")
	case llm.FeatureImageURL:
		return within(protocol.Reject, "http and https")
	case llm.FeatureDocument:
		return within(protocol.Reject, "PDF and text")
	case llm.FeatureDocumentURL:
		return within(protocol.Reject, "http and https")
	case llm.FeatureDocumentMeta, llm.FeatureResultMedia, llm.FeatureResultError:
		return protocol.Carry()
	case llm.FeatureRefusalHistory:
		return protocol.Map("a text")
	case llm.FeatureCitations:
		return within(protocol.Drop, "of documents")
	case llm.FeatureImageDetail, llm.FeatureParticipantName, llm.FeatureCitationHistory, llm.FeatureMediaResolution, llm.FeaturePhase:
		return protocol.Lack(protocol.Drop)
	case llm.FeatureAudioInput, llm.FeatureVideoInput, llm.FeatureFileID, llm.FeatureSearchResult, llm.FeatureOutputModality:
		return protocol.Lack(protocol.Reject)
	case llm.FeatureSystemPosition:
		return protocol.Swap(protocol.Substitute, "a text of the user between <system> and </system>")
	case llm.FeatureReasoningState:
		return within(protocol.Drop, "the vendor's own alone")
	case llm.FeatureReasoningText:
		return within(protocol.Drop, "with the vendor's signature alone")
	}
	return protocol.Support{}
}

// offered is what the model may call.
func offered(f llm.Feature) protocol.Support {
	switch f {
	case llm.FeatureServerTool, llm.FeatureMCP, llm.FeatureContainer, llm.FeatureCustomTool:
		return protocol.Lack(protocol.Reject)
	case llm.FeatureWebSearch:
		return protocol.Swap(protocol.Reject, "the vendor's own web search")
	case llm.FeatureToolNamespace:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Drop, Note: "a name that begins with the namespace, whose description is left out"}
	case llm.FeatureToolStrict:
		return within(protocol.Drop, "unless the server lacks strict")
	case llm.FeatureToolOption, llm.FeatureMaxToolCalls, llm.FeatureTaskBudget:
		return protocol.Lack(protocol.Drop)
	case llm.FeatureToolSchema:
		return withinElse(protocol.Substitute, "an object with the schema's properties",
			"schemas of the type object without oneOf, anyOf and allOf at the top")
	case llm.FeatureAllowedTools:
		return protocol.Swap(protocol.Substitute, "these tools alone are offered")
	case llm.FeatureForcedTool:
		return protocol.Carry()
	case llm.FeatureParallelTools:
		return within(protocol.Reject, "unless the server lacks it")
	case llm.FeatureLegacyFunctions:
		return protocol.Swap(protocol.Substitute, "tools")
	}
	return protocol.Support{}
}

// generation is how the answer is to be made.
func generation(f llm.Feature) protocol.Support {
	switch f {
	case llm.FeatureJSONObject:
		return protocol.Swap(protocol.Reject, "an instruction to answer with JSON alone")
	case llm.FeatureJSONSchema:
		return within(protocol.Reject, "unless the server lacks it")
	case llm.FeatureSchemaStrict:
		return within(protocol.Drop, "a schema always binds")
	case llm.FeatureTemperature:
		return withinElse(protocol.Drop, "1, the most that is taken",
			"up to 1, without thinking, unless the server refuses sampling; above 1 the request is refused unless an action is declared")
	case llm.FeatureTopP:
		return within(protocol.Drop, "from 0.95 on with thinking, unless the server refuses sampling")
	case llm.FeatureTopK:
		return within(protocol.Drop, "without thinking, unless the server refuses sampling")
	case llm.FeatureStop:
		return within(protocol.Reject, "words that are not all space")
	case llm.FeatureChoices, llm.FeatureLogprobs:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Reject, Note: "one answer, without logprobs"}
	case llm.FeatureSeed, llm.FeaturePenalty, llm.FeatureLogitBias, llm.FeaturePrediction, llm.FeatureVerbosity:
		return protocol.Lack(protocol.Drop)
	case llm.FeatureMaxTokens:
		return withinElse(protocol.Substitute, "the nearest limit that the model and its thinking budget allow", "which the protocol demands")
	case llm.FeatureReasoning:
		return withinElse(protocol.Substitute, "the nearest effort, or none for a request that the vendor would refuse with thinking",
			"thinking and output_config.effort")
	case llm.FeatureReasoningBudget:
		return withinElse(protocol.Substitute, "1024 tokens", "from 1024 tokens on")
	case llm.FeatureReasoningDisplay:
		return within(protocol.Drop, "shown or not, where thinking is asked for")
	}
	return protocol.Support{}
}

// surroundings are what is neither said nor answered, and the features of answers.
func surroundings(f llm.Feature) protocol.Support {
	switch f {
	case llm.Core:
		return protocol.Carry()
	case llm.FeatureUser:
		return protocol.Map("metadata.user_id")
	case llm.FeatureMetadata, llm.FeatureLabels, llm.FeatureCacheKey, llm.FeatureInclude, llm.FeatureContextEdit,
		llm.FeatureStreamOption, llm.FeatureClientMetadata, llm.FeatureDiagnostics, llm.FeatureUnknown:
		return protocol.Lack(protocol.Drop)
	case llm.FeatureCacheMark:
		return within(protocol.Drop, "four at most, the last ones")
	case llm.FeatureServiceTier:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Reject, Note: "auto, and default as standard_only"}
	case llm.FeatureStore:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Reject, Note: "false, which is always so"}
	case llm.FeatureTruncation:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Reject, Note: "disabled, which is always so"}
	case llm.FeatureBackground:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Reject, Note: "false, which is always so"}
	case llm.FeatureCacheLifetime, llm.FeatureCachedContent, llm.FeatureSpeed, llm.FeatureResidency, llm.FeatureSafety,
		llm.FeatureModeration, llm.FeatureStoredState, llm.FeaturePromptTemplate, llm.FeatureCompaction:
		return protocol.Lack(protocol.Reject)

	case llm.AnswerReasoning:
		return protocol.Map("thinking")
	case llm.AnswerState:
		return protocol.Map("the signature of thinking")
	case llm.AnswerStopWord, llm.AnswerRefusalInfo:
		return protocol.Carry()
	case llm.AnswerCitations, llm.AnswerLogprobs, llm.AnswerServerTool:
		return protocol.Lack(protocol.Drop)
	case llm.AnswerMedia:
		return protocol.Lack(protocol.Reject)
	}
	return protocol.Support{}
}
