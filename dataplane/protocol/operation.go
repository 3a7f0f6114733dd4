package protocol

// Operation is what a request wants.
type Operation uint8

// The operations. The zero value is none of them.
const (
	OpUnknown    Operation = iota
	OpGenerate             // have a model answer
	OpListModels           // list the models
	OpGetModel             // describe one model

	OpCountTokens // size of a prompt, without an answer to it
	OpCompact     // shorten a conversation (Responses)

	OpEmbed      // vectors for one or more texts; Gemini's for one
	OpEmbedBatch // vectors for several texts (Gemini)

	OpImage          // make pictures of a text
	OpImageEdit      // change pictures
	OpImageVariation // make pictures like one
	OpPredict        // Gemini's predict, which is how its picture models are called

	OpSpeech     // make speech of a text
	OpTranscribe // make a text of speech
	OpTranslate  // make an English text of speech

	OpVideo        // begin a video
	OpVideoRemix   // begin one from another
	OpVideoList    // list videos
	OpVideoGet     // how far one is
	OpVideoDelete  // forget one
	OpVideoContent // fetch one
	OpPredictLong  // Gemini's predictLongRunning, which begins a video
	OpGetOperation // how far that is

	OpModerate // judge a text or a picture
	OpRerank   // order documents by a query

	OpStored // read, change or forget a stored answer or conversation
	OpFile   // keep a file at the provider, or what was kept
	OpBatch  // have many requests answered later
	OpCache  // keep a prompt at the provider (Gemini)

	OpRaw // a path that the gateway passes on without knowing what it does

	OpRealtime  // a session of OpenAI's Realtime API over a WebSocket
	OpResponses // a session of Responses over a WebSocket
	endOfOperations
)

var operationNames = [endOfOperations]string{
	OpUnknown: "unknown", OpGenerate: "generate", OpListModels: "list_models", OpGetModel: "get_model",
	OpCountTokens: "count_tokens", OpCompact: "compact",
	OpEmbed: "embed", OpEmbedBatch: "embed_batch",
	OpImage: "image", OpImageEdit: "image_edit", OpImageVariation: "image_variation", OpPredict: "predict",
	OpSpeech: "speech", OpTranscribe: "transcribe", OpTranslate: "translate",
	OpVideo: "video", OpVideoRemix: "video_remix", OpVideoList: "video_list", OpVideoGet: "video_get",
	OpVideoDelete: "video_delete", OpVideoContent: "video_content",
	OpPredictLong: "predict_long_running", OpGetOperation: "get_operation",
	OpModerate: "moderate", OpRerank: "rerank",
	OpStored: "stored_object", OpFile: "file", OpBatch: "batch", OpCache: "cached_content",
	OpRaw: "raw", OpRealtime: "realtime", OpResponses: "responses_session",
}

// String is the name used in logs and records.
func (o Operation) String() string {
	if o < endOfOperations {
		return operationNames[o]
	}
	return operationNames[OpUnknown]
}

// OperationNamed returns the operation of that name; OpUnknown if there is none.
func OperationNamed(name string) Operation {
	for o, n := range operationNames {
		if n == name {
			return Operation(o)
		}
	}
	return OpUnknown
}

// Lists reports an operation that the gateway answers itself, from its list of models.
func (o Operation) Lists() bool { return o == OpListModels || o == OpGetModel }

// ByObject reports an operation on what a provider keeps: no body names a model, the
// object's owner answers.
func (o Operation) ByObject() bool {
	switch o {
	case OpVideoRemix, OpVideoList, OpVideoGet, OpVideoDelete, OpVideoContent, OpGetOperation:
		return true
	}
	return false
}

// Kept reports an operation on objects that a provider keeps for an account, and that
// only this account can use. Target.Path says what is done with which.
func (o Operation) Kept() bool { return o >= OpStored && o <= OpCache }

// Session reports an operation that runs over a WebSocket.
func (o Operation) Session() bool { return o == OpRealtime || o == OpResponses }

// Free reports an operation that no provider takes money for. It is not metered.
func (o Operation) Free() bool {
	switch o {
	case OpCountTokens, OpVideoList, OpVideoGet, OpVideoDelete, OpVideoContent, OpGetOperation:
		return true
	}
	return o.Lists() || o.Kept()
}
