package llm

// StopReason is why a model stopped, in words of no single protocol.
type StopReason uint8

// The reasons. StopUnknown is the zero value: the answer has not ended, or it
// ended with a word that is not known here.
const (
	StopUnknown       StopReason = iota
	StopEnd                      // natural end
	StopToolUse                  // tool calls wait to be run
	StopMaxTokens                // output limit reached
	StopContextFull              // context window full
	StopSequence                 // a stop string was met
	StopRefusal                  // the model declined
	StopContentFilter            // a provider's filter cut the answer or blocked the prompt
	StopPause                    // a provider-run tool loop paused and can be continued
	StopMalformedCall            // the model made a call that cannot be read
	StopFailed                   // the provider failed
)

var stopNames = [...]string{
	StopUnknown:       "unknown",
	StopEnd:           "end",
	StopToolUse:       "tool_use",
	StopMaxTokens:     "max_tokens",
	StopContextFull:   "context_full",
	StopSequence:      "stop_sequence",
	StopRefusal:       "refusal",
	StopContentFilter: "content_filter",
	StopPause:         "pause",
	StopMalformedCall: "malformed_call",
	StopFailed:        "failed",
}

// String is the name used in logs and records.
func (r StopReason) String() string {
	if int(r) < len(stopNames) {
		return stopNames[r]
	}
	return stopNames[StopUnknown]
}

// Stop is how an answer ended.
type Stop struct {
	Reason StopReason
	Native string // the provider's own word; empty while the answer has not ended

	Sequence    string // the stop string that was met, where the provider tells it
	Category    string // what a refusal is about, where the provider tells it
	Explanation string // and why
}
