package gemini

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// Fields lists the fields of a generateContent request as genai v1.77 sends them, to the
// Gemini API or to Vertex AI. Where a field is kept as one value, what is inside has no
// rows of its own.
func (*Codec) Fields() []protocol.Field {
	var all []protocol.Field
	for _, list := range [...][]protocol.Field{contentFields(), toolFields(), configFields(), requestFields()} {
		all = append(all, list...)
	}
	return all
}

// with is a body with further members.
func with(members string) string {
	return `{"contents":[{"role":"user","parts":[{"text":"Hello"}]}],` + members + `}`
}

// saying is a body whose turn has another part beside its text.
func saying(part string) string {
	return `{"contents":[{"role":"user","parts":[{"text":"Hello"},` + part + `]}]}`
}

// calling is a body in which the model called a tool and got a result.
func calling(call, result string) string {
	return `{"contents":[{"role":"user","parts":[{"text":"Hello"}]},{"role":"model","parts":[` + call + `]},` +
		`{"role":"user","parts":[` + result + `]}],"tools":[{"functionDeclarations":[{"name":"look"}]}]}`
}

// modelSaying is a body in which the model's turn has the part.
func modelSaying(part string) string {
	return `{"contents":[{"role":"user","parts":[{"text":"Hello"}]},{"role":"model","parts":[` + part + `]},` +
		`{"role":"user","parts":[{"text":"Go on"}]}]}`
}

const (
	aCall    = `{"functionCall":{"name":"look","args":{}}}`
	aResult  = `{"functionResponse":{"name":"look","response":{"output":"done"}}}`
	anImage  = `"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}`
	aVideo   = `"fileData":{"mimeType":"video/mp4","fileUri":"gs://bucket/a.mp4"}`
	inPart   = "contents[].parts[]."
	inResult = inPart + "functionResponse."
)

func contentFields() []protocol.Field {
	core := func(paths ...string) (list []protocol.Field) {
		for _, p := range paths {
			list = append(list, protocol.Field{Path: p})
		}
		return list
	}
	return append(core(
		"contents[].role", inPart+"text",
		inPart+"functionCall.id", inPart+"functionCall.name", inPart+"functionCall.args",
		inResult+"id", inResult+"name", inResult+"response",
		"systemInstruction.role", "systemInstruction.parts[].text",
	),
		protocol.Field{Path: inPart + "thought", Feature: llm.FeatureReasoningText, Example: modelSaying(`{"text":"Hm","thought":true},{"text":"Yes"}`)},
		protocol.Field{Path: inPart + "thoughtSignature", Feature: llm.FeatureReasoningState, Example: calling(
			`{"functionCall":{"name":"look","args":{}},"thoughtSignature":"`+bypass+`"}`, aResult)},
		protocol.Field{Path: inPart + "inlineData.mimeType", Feature: llm.FeatureImage, Example: saying(`{` + anImage + `}`)},
		protocol.Field{
			Path: inPart + "inlineData.data", Feature: llm.FeatureDocument,
			Example: saying(`{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0xLjQK"}}`),
			Note:    "by its type an image, a document, audio or video",
		},
		protocol.Field{
			Path: inPart + "inlineData.displayName", Feature: llm.FeatureDocumentMeta,
			Example: saying(`{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0xLjQK","displayName":"a.pdf"}}`), Note: "Vertex AI alone",
		},
		protocol.Field{Path: inPart + "fileData.fileUri", Feature: llm.FeatureDocumentURL, Example: saying(
			`{"fileData":{"mimeType":"application/pdf","fileUri":"https://files.example/a.pdf"}}`)},
		protocol.Field{Path: inPart + "fileData.mimeType", Feature: llm.FeatureVideoInput, Example: saying(`{` + aVideo + `}`)},
		protocol.Field{
			Path: inPart + "fileData.displayName", Feature: llm.FeatureDocumentMeta,
			Example: saying(`{"fileData":{"mimeType":"application/pdf","fileUri":"gs://bucket/a.pdf","displayName":"a.pdf"}}`), Note: "Vertex AI alone",
		},
		protocol.Field{Path: inPart + "videoMetadata", Feature: llm.FeatureVideoInput, Example: saying(`{` + aVideo + `,"videoMetadata":{"fps":2}}`)},
		protocol.Field{Path: inPart + "mediaResolution", Feature: llm.FeatureMediaResolution, Example: saying(
			`{` + anImage + `,"mediaResolution":{"level":"MEDIA_RESOLUTION_LOW"}}`)},
		protocol.Field{Path: inPart + "mediaProcessing", Feature: llm.FeatureMediaResolution, Example: saying(
			`{` + anImage + `,"mediaProcessing":"MEDIA_PROCESSING_AUTO"}`)},
		protocol.Field{Path: inPart + "partMetadata", Feature: llm.FeatureUnknown, Example: saying(`{"text":"Hello","partMetadata":{"a":"b"}}`)},
		protocol.Field{Path: inPart + "speechMetadata", Feature: llm.FeatureUnknown, Example: saying(`{"text":"Hello","speechMetadata":{"speaker":"A"}}`)},
		protocol.Field{Path: inPart + "audioTranscription", Feature: llm.FeatureUnknown, Example: saying(`{"text":"Hello","audioTranscription":{"text":"Hello"}}`)},
		protocol.Field{Path: inPart + "executableCode", Feature: llm.FeatureServerTool, Example: modelSaying(
			`{"executableCode":{"language":"PYTHON","code":"print(1)"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}`)},
		protocol.Field{Path: inPart + "codeExecutionResult", Feature: llm.FeatureServerTool, Example: modelSaying(
			`{"executableCode":{"language":"PYTHON","code":"print(1)"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}`)},
		protocol.Field{Path: inPart + "toolCall", Feature: llm.FeatureServerTool, Example: modelSaying(`{"toolCall":{"id":"1","toolType":"GOOGLE_SEARCH_WEB","args":{}}}`)},
		protocol.Field{Path: inPart + "toolResponse", Feature: llm.FeatureServerTool, Example: modelSaying(`{"toolResponse":{"id":"1","toolType":"GOOGLE_SEARCH_WEB","response":{}}}`)},
		protocol.Field{Path: inResult + "parts", Feature: llm.FeatureResultMedia, Example: calling(aCall,
			`{"functionResponse":{"name":"look","response":{"output":"done"},"parts":[{`+anImage+`}]}}`)},
		protocol.Field{Path: inResult + "scheduling", Feature: llm.FeatureToolOption, Example: calling(aCall,
			`{"functionResponse":{"name":"look","response":{"output":"done"},"scheduling":"SILENT"}}`)},
		protocol.Field{Path: inResult + "willContinue", Feature: llm.FeatureToolOption, Example: calling(aCall,
			`{"functionResponse":{"name":"look","response":{"output":"done"},"willContinue":true}}`)},
	)
}

func toolFields() []protocol.Field {
	const in = "tools[].functionDeclarations[]."
	function := func(members string) string {
		return with(`"tools":[{"functionDeclarations":[{"name":"look",` + members + `}]}]`)
	}
	list := []protocol.Field{
		{Path: in + "name"},
		{Path: in + "description"},
		{Path: in + "parameters", Note: "becomes JSON Schema"},
		{Path: in + "parametersJsonSchema"},
		{Path: in + "response", Feature: llm.FeatureToolOption, Example: function(`"response":{"type":"STRING"}`)},
		{Path: in + "responseJsonSchema", Feature: llm.FeatureToolOption, Example: function(`"responseJsonSchema":{"type":"string"}`)},
		{Path: in + "behavior", Feature: llm.FeatureToolOption, Example: function(`"behavior":"NON_BLOCKING"`)},
		{Path: "toolConfig.functionCallingConfig.mode", Feature: llm.FeatureForcedTool, Example: with(
			`"tools":[{"functionDeclarations":[{"name":"look"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`)},
		{Path: "toolConfig.functionCallingConfig.allowedFunctionNames", Feature: llm.FeatureAllowedTools, Example: with(
			`"tools":[{"functionDeclarations":[{"name":"look"},{"name":"listen"},{"name":"say"}]}],` +
				`"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["look","listen"]}}`)},
		{
			Path: "toolConfig.functionCallingConfig.streamFunctionCallArguments", Feature: llm.FeatureStreamOption, Example: with(
				`"tools":[{"functionDeclarations":[{"name":"look"}]}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO","streamFunctionCallArguments":true}}`),
			Note: "Vertex AI alone",
		},
		{Path: "toolConfig.retrievalConfig", Feature: llm.FeatureServerTool, Example: with(
			`"tools":[{"googleMaps":{}}],"toolConfig":{"retrievalConfig":{"languageCode":"en"}}`)},
		{Path: "toolConfig.includeServerSideToolInvocations", Feature: llm.FeatureServerTool, Example: with(
			`"tools":[{"googleSearch":{}}],"toolConfig":{"includeServerSideToolInvocations":true}`)},
	}
	for _, t := range [...]struct{ name, note string }{
		{"codeExecution", ""},
		{"computerUse", ""},
		{"fileSearch", ""},
		{"googleMaps", ""},
		{"googleSearch", ""},
		{"googleSearchRetrieval", ""},
		{"urlContext", ""},
		{"enterpriseWebSearch", "Vertex AI alone"},
		{"exaAiSearch", "Vertex AI alone"},
		{"parallelAiSearch", "Vertex AI alone"},
		{"retrieval", "Vertex AI alone"},
	} {
		feature := llm.FeatureServerTool
		if strings.HasPrefix(t.name, "googleSearch") {
			feature = llm.FeatureWebSearch
		}
		list = append(list, protocol.Field{
			Path: "tools[]." + t.name, Feature: feature, Example: with(`"tools":[{"` + t.name + `":{}}]`), Note: t.note,
		})
	}
	return append(list, protocol.Field{
		Path: "tools[].mcpServers", Feature: llm.FeatureMCP,
		Example: with(`"tools":[{"mcpServers":[{"name":"a","streamableHttpTransport":{"url":"https://mcp.example"}}]}]`),
	})
}

func configFields() []protocol.Field {
	const in = "generationConfig."
	config := func(name, value string, f llm.Feature, note string) protocol.Field {
		return protocol.Field{Path: in + name, Feature: f, Example: with(`"generationConfig":{"` + name + `":` + value + `}`), Note: note}
	}
	thinking := func(name, value string, f llm.Feature) protocol.Field {
		return protocol.Field{
			Path: in + "thinkingConfig." + name, Feature: f,
			Example: with(`"generationConfig":{"thinkingConfig":{"` + name + `":` + value + `}}`),
		}
	}
	const vertex = "Vertex AI alone"
	return []protocol.Field{
		{Path: in + "maxOutputTokens"},
		config("temperature", "0.5", llm.FeatureTemperature, ""),
		config("topP", "0.5", llm.FeatureTopP, ""),
		config("topK", "40", llm.FeatureTopK, ""),
		config("stopSequences", `["END"]`, llm.FeatureStop, ""),
		config("responseMimeType", `"application/json"`, llm.FeatureJSONObject, ""),
		{
			Path: in + "responseSchema", Feature: llm.FeatureJSONSchema, Note: "becomes JSON Schema",
			Example: with(`"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","properties":{"a":{"type":"STRING"}}}}`),
		},
		{
			Path: in + "responseJsonSchema", Feature: llm.FeatureJSONSchema,
			Example: with(`"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`),
		},
		thinking("includeThoughts", "true", llm.FeatureReasoningDisplay),
		thinking("thinkingBudget", "2048", llm.FeatureReasoningBudget),
		thinking("thinkingLevel", `"LOW"`, llm.FeatureReasoning),
		config("candidateCount", "2", llm.FeatureChoices, ""),
		config("seed", "7", llm.FeatureSeed, ""),
		config("presencePenalty", "0.5", llm.FeaturePenalty, ""),
		config("frequencyPenalty", "0.5", llm.FeaturePenalty, ""),
		config("responseLogprobs", "true", llm.FeatureLogprobs, ""),
		{Path: in + "logprobs", Feature: llm.FeatureLogprobs, Example: with(`"generationConfig":{"responseLogprobs":true,"logprobs":3}`)},
		config("responseModalities", `["TEXT","IMAGE"]`, llm.FeatureOutputModality, ""),
		config("speechConfig", `{"languageCode":"en"}`, llm.FeatureOutputModality, ""),
		config("imageConfig", `{"aspectRatio":"1:1"}`, llm.FeatureOutputModality, ""),
		config("responseFormat", `[{"text":{"mimeType":"text/plain"}}]`, llm.FeatureOutputModality, ""),
		config("translationConfig", `{"targetLanguageCode":"de"}`, llm.FeatureOutputModality, ""),
		config("audioTranscriptionConfig", `{"languageCodes":["en"]}`, llm.FeatureOutputModality, ""),
		config("enableAffectiveDialog", "true", llm.FeatureOutputModality, ""),
		config("mediaResolution", `"MEDIA_RESOLUTION_LOW"`, llm.FeatureMediaResolution, ""),
		config("audioTimestamp", "true", llm.FeatureMediaResolution, vertex),
		config("enableEnhancedCivicAnswers", "true", llm.FeatureSafety, ""),
		config("routingConfig", `{"autoMode":{}}`, llm.FeatureUnknown, vertex),
		config("modelConfig", `{"featureSelectionPreference":"BALANCED"}`, llm.FeatureUnknown, vertex),
		config("modelSelectionConfig", `{"featureSelectionPreference":"BALANCED"}`, llm.FeatureUnknown, vertex),
		config("continuationToken", `"dG9rZW4="`, llm.FeatureStoredState, ""),
	}
}

func requestFields() []protocol.Field {
	option := func(name, value string, f llm.Feature, note string) protocol.Field {
		return protocol.Field{Path: name, Feature: f, Example: with(`"` + name + `":` + value), Note: note}
	}
	return []protocol.Field{
		{Path: "model", Note: "as the path says"},
		option("safetySettings", `[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_LOW_AND_ABOVE"}]`, llm.FeatureSafety, ""),
		option("cachedContent", `"cachedContents/a"`, llm.FeatureCachedContent, ""),
		option("labels", `{"team":"a"}`, llm.FeatureLabels, ""),
		option("serviceTier", `"flex"`, llm.FeatureServiceTier, ""),
		option("store", "false", llm.FeatureStore, ""),
		option("continuationToken", `"dG9rZW4="`, llm.FeatureStoredState, ""),
		option("modelArmorConfig", `{"promptTemplateName":"a"}`, llm.FeatureSafety, "Vertex AI alone"),
		option("outputConfig", `{"outputUriPrefix":"gs://bucket"}`, llm.FeatureStore, "Vertex AI alone"),
	}
}
