package gemini

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// Support says how generateContent expresses a feature of another protocol. Options
// that bear on privacy or cost are refused by default where nothing expresses them;
// hints are left out.
func (*Codec) Support(f llm.Feature) protocol.Support {
	if s, ok := ofRequests(f); ok {
		return s
	}
	if s, ok := ofOptions(f); ok {
		return s
	}
	return ofAnswers(f)
}

// ofRequests is for what the conversation and the tools are made of.
func ofRequests(f llm.Feature) (protocol.Support, bool) {
	switch f {
	case llm.Core, llm.FeatureImage, llm.FeatureDocument, llm.FeatureAudioInput, llm.FeatureVideoInput,
		llm.FeatureToolSchema, llm.FeatureForcedTool, llm.FeatureJSONObject:
		return protocol.Carry(), true
	case llm.FeatureJSONSchema:
		s := protocol.Swap(protocol.Reject, "JSON of any form, where the server knows no schema")
		s.Fate, s.Note = protocol.Carried, "generationConfig.responseJsonSchema"
		return s, true
	case llm.FeatureImageURL, llm.FeatureDocumentURL:
		s := protocol.Swap(protocol.Reject, "fileData.fileUri, which newer models fetch themselves")
		s.Note = "addresses of gs:// and of the provider's files are carried"
		return s, true
	case llm.FeatureResultMedia:
		s := protocol.Swap(protocol.Substitute, "parts after the results, for models that take none in a result")
		s.Fate, s.Note = protocol.Mapped, "functionResponse.parts"
		return s, true
	case llm.FeatureResultError:
		return protocol.Map("functionResponse.response.error"), true
	case llm.FeatureSystemPosition:
		return protocol.Swap(protocol.Substitute, "a text of the user in <system> tags"), true
	case llm.FeatureToolNamespace:
		return protocol.Swap(protocol.Substitute, "a name with the namespace before it"), true
	case llm.FeatureAllowedTools:
		return protocol.Map("allowedFunctionNames, with the mode VALIDATED or ANY"), true
	case llm.FeatureLegacyFunctions:
		return protocol.Map("functionDeclarations"), true
	case llm.FeatureRefusalHistory:
		return protocol.Swap(protocol.Substitute, "a text"), true
	case llm.FeatureReasoningState:
		s := protocol.Swap(protocol.Substitute, "the documented value "+bypass+" on calls, nothing elsewhere")
		s.Note = "its own thoughtSignature is carried"
		return s, true
	case llm.FeatureWebSearch:
		return protocol.Swap(protocol.Reject, "the tool googleSearch"), true
	case llm.FeatureCitations, llm.FeatureSearchResult, llm.FeatureServerTool, llm.FeatureMCP, llm.FeatureContainer,
		llm.FeatureCustomTool, llm.FeatureParallelTools, llm.FeatureFileID, llm.FeatureStoredState, llm.FeatureCompaction:
		return protocol.Lack(protocol.Reject), true
	case llm.FeatureImageDetail, llm.FeatureDocumentMeta, llm.FeatureParticipantName, llm.FeatureToolStrict,
		llm.FeatureToolOption, llm.FeatureReasoningText, llm.FeatureCitationHistory, llm.FeatureCacheMark, llm.FeaturePhase:
		return protocol.Lack(protocol.Drop), true
	}
	return protocol.Support{}, false
}

// ofOptions is for what is asked of the answer and of the provider.
func ofOptions(f llm.Feature) (protocol.Support, bool) {
	switch f {
	case llm.FeatureSeed, llm.FeaturePenalty, llm.FeatureSafety, llm.FeatureCachedContent, llm.FeatureLabels, llm.FeatureMediaResolution:
		return protocol.Carry(), true
	case llm.FeatureTemperature, llm.FeatureTopP, llm.FeatureTopK:
		return protocol.Support{Fate: protocol.Carried, Default: protocol.Drop, Note: "unless the server takes no sampling"}, true
	case llm.FeatureStop:
		return protocol.Support{Fate: protocol.Carried, Default: protocol.Reject, Note: "at most 5"}, true
	case llm.FeatureMaxTokens:
		s := protocol.Swap(protocol.Substitute, "the model's own limit")
		s.Fate, s.Note = protocol.Carried, "a limit above the model's is lowered to it"
		return s, true
	case llm.FeatureReasoning:
		s := protocol.Swap(protocol.Substitute, "the nearest thinkingLevel; MINIMAL for none")
		s.Fate, s.Note = protocol.Mapped, "thinkingLevel, or thinkingBudget where levels are unknown"
		return s, true
	case llm.FeatureReasoningBudget:
		s := protocol.Swap(protocol.Substitute, "the thinkingLevel that stands for so many tokens")
		s.Fate, s.Note = protocol.Mapped, "thinkingBudget where levels are unknown"
		return s, true
	case llm.FeatureReasoningDisplay:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Drop, Note: "includeThoughts"}, true
	case llm.FeatureSchemaStrict:
		return protocol.Map("answers always keep to responseJsonSchema"), true
	case llm.FeatureServiceTier:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Reject, Note: "flex, priority and the default have equals"}, true
	case llm.FeatureStore:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Reject, Note: "false alone; nothing is stored that could be asked for again"}, true
	case llm.FeatureOutputModality:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Reject, Note: "text alone; what a caller of this protocol asks for is carried"}, true
	case llm.FeatureBackground:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Reject, Note: "false alone"}, true
	case llm.FeatureTruncation:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Drop, Note: "disabled alone"}, true
	case llm.FeatureChoices, llm.FeatureLogprobs, llm.FeatureSpeed, llm.FeatureResidency, llm.FeatureModeration,
		llm.FeaturePromptTemplate:
		return protocol.Lack(protocol.Reject), true
	case llm.FeatureLogitBias, llm.FeaturePrediction, llm.FeatureVerbosity, llm.FeatureUser, llm.FeatureMetadata, llm.FeatureMaxToolCalls, llm.FeatureTaskBudget,
		llm.FeatureCacheKey, llm.FeatureCacheLifetime, llm.FeatureInclude, llm.FeatureStreamOption, llm.FeatureContextEdit, llm.FeatureClientMetadata, llm.FeatureDiagnostics,
		llm.FeatureUnknown:
		return protocol.Lack(protocol.Drop), true
	}
	return protocol.Support{}, false
}

// ofAnswers is for what a caller of this protocol gets of an answer.
func ofAnswers(f llm.Feature) protocol.Support {
	switch f {
	case llm.AnswerReasoning:
		return protocol.Map("parts with thought")
	case llm.AnswerState:
		return protocol.Map("thoughtSignature")
	case llm.AnswerCitations:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Drop, Note: "groundingMetadata, for sources with an address"}
	case llm.AnswerMedia:
		return protocol.Map("inlineData or fileData")
	case llm.AnswerLogprobs, llm.AnswerServerTool, llm.AnswerStopWord:
		return protocol.Lack(protocol.Drop)
	case llm.AnswerRefusalInfo:
		return protocol.Support{Fate: protocol.Mapped, Default: protocol.Drop, Note: "finishMessage has the explanation, the category has no place"}
	}
	return protocol.Support{}
}
