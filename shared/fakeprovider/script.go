package fakeprovider

import (
	"slices"
	"sync"
	"time"
)

// Protocol names a wire protocol.
type Protocol string

// The protocols a Provider speaks.
const (
	Chat      Protocol = "openai-chat"
	Responses Protocol = "openai-responses"
	Anthropic Protocol = "anthropic"
	Gemini    Protocol = "gemini"
)

// Match selects requests. An empty field fits every request.
type Match struct {
	// Key is the credential the request carries.
	Key string `json:"key,omitempty"`
	// Model is the model the request names.
	Model string `json:"model,omitempty"`
	// Protocol is the protocol the request speaks.
	Protocol Protocol `json:"protocol,omitempty"`
	// Operation is what the request asks for. Empty fits all but CountTokens, which
	// clients ask for beside what they are about, and the handshake of a Session.
	Operation Operation `json:"operation,omitempty"`
}

func (m Match) fits(key, model string, p Protocol, o Operation) bool {
	return (m.Key == "" || m.Key == key) &&
		(m.Model == "" || m.Model == model) &&
		(m.Protocol == "" || m.Protocol == p) &&
		(m.Operation == o || m.Operation == "" && o != CountTokens && o != Session)
}

// weight orders matches that fit the same request. An operation says more than a key,
// a key more than a model, and a model more than a protocol.
func (m Match) weight() int {
	w := 0
	if m.Operation != "" {
		w += 8
	}
	if m.Key != "" {
		w += 4
	}
	if m.Model != "" {
		w += 2
	}
	if m.Protocol != "" {
		w++
	}
	return w
}

// Script is what happens to the generation requests that fit Match, in order. When
// several scripts fit a request, the one whose Match says most wins: an
// operation before a key, a key before a model, a model before a protocol.
type Script struct {
	Match Match `json:"match"`

	// Steps are taken one a request, in order. The last one repeats, unless
	// ThenDefault is set.
	Steps []Step `json:"steps"`

	// ThenDefault ends the script after its last step: it fits no request any
	// more, so the next script that fits decides, or the default answer is given.
	ThenDefault bool `json:"then_default,omitempty"`
}

// Step says how one request is answered. The zero Step is the default answer, and
// every field changes only what it names.
type Step struct {
	// Times is how many requests take this step before the next one. Default 1.
	Times int `json:"times,omitempty"`

	// DelayHeaders is waited before the response headers, DelayFirst between the
	// headers and the first event, DelayBetween before every later event. An
	// answer that is not streamed has one event, its body.
	DelayHeaders time.Duration `json:"-"`
	DelayFirst   time.Duration `json:"-"`
	DelayBetween time.Duration `json:"-"`

	// HeaderGate, if not nil, is received from before the headers are sent, and
	// Gate before each event. Closing a gate opens it for good.
	HeaderGate <-chan struct{} `json:"-"`
	Gate       <-chan struct{} `json:"-"`

	// Reset closes the connection instead of sending headers, with a TCP reset
	// where the connection is TCP.
	Reset bool `json:"reset,omitempty"`

	// Fail answers with an error instead of content.
	Fail *Failure `json:"fail,omitempty"`

	// Fault happens in the middle of the answer, after FaultAfter content events.
	// With 0 that is after the events that open the message and before the first
	// content; with a negative number it is before the first event of any kind. If
	// the answer has fewer content events, the fault comes just before its terminal
	// event.
	Fault      Fault `json:"fault,omitempty"`
	FaultAfter int   `json:"fault_after,omitempty"`

	// FaultError is the error that FaultErrorEvent and FaultFailed send. Default
	// Overloaded.
	FaultError *Failure `json:"fault_error,omitempty"`

	// Text is the text of the answer. Pieces, if not empty, is the same cut into
	// the deltas to send; otherwise text is streamed a word at a time.
	Text   string   `json:"text,omitempty"`
	Pieces []string `json:"pieces,omitempty"`

	// Chunks and ChunkBytes make filler text of Chunks deltas with ChunkBytes bytes
	// each, if Text and Pieces are empty. One of them alone takes 1 for the
	// other. Together at most MaxFiller bytes are sent.
	Chunks     int `json:"chunks,omitempty"`
	ChunkBytes int `json:"chunk_bytes,omitempty"`

	// Reasoning is told before the text, in the form the protocol has for it: a
	// summary in Responses, a signed thinking block in Anthropic, a thought in Gemini,
	// and the reasoning_content field of compatible servers in Chat.
	Reasoning string `json:"reasoning,omitempty"`

	// RedactedThinking adds thinking that cannot be read: a redacted_thinking block in
	// Anthropic, after that of Reasoning. The others have none.
	RedactedThinking bool `json:"redacted_thinking,omitempty"`

	// Refusal is what the model says in place of an answer, after Text if that is set,
	// and makes StopRefusal the default of Stop. It is message.refusal in Chat, a refusal
	// part in Responses and the explanation in Anthropic's stop_details, beside
	// RefusalCategory; Gemini ends with SAFETY and says nothing.
	Refusal         string `json:"refusal,omitempty"`
	RefusalCategory string `json:"refusal_category,omitempty"`

	// Silent makes no text up where the step sets none. Gemini then ends a refused or
	// filtered answer with a candidate that has no content.
	Silent bool `json:"silent,omitempty"`

	// BlockReason blocks the prompt: Gemini tells it as promptFeedback.blockReason and
	// has no candidate; the others end as with StopFiltered, without text.
	BlockReason string `json:"block_reason,omitempty"`

	// Citation is one source of the text, in Text or Pieces: an annotation of the OpenAI
	// protocols, a web search citation of Anthropic, grounding metadata of Gemini.
	Citation *Citation `json:"citation,omitempty"`

	// Image is a PNG that the answer shows after the text: an image_generation_call in
	// Responses, inlineData in Gemini. The others cannot show one.
	Image []byte `json:"image,omitempty"`

	// ToolCalls are the calls the answer makes, after Text if that is set. The
	// request need not offer the tools.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`

	// ParallelCalls is how many calls a default answer makes when it makes one:
	// the offered tools in turn. Default 1.
	ParallelCalls int `json:"parallel_calls,omitempty"`

	// Interleave opens all calls of a Chat stream before it sends their arguments, a
	// piece of each in turn.
	Interleave bool `json:"interleave,omitempty"`

	// Stop is why the answer ends. Default: StopTools with tool calls, StopRefusal
	// with Refusal, StopLength if the text was cut at the request's output limit, else StopEnd.
	Stop Stop `json:"stop,omitempty"`

	// StopSequence is the stop string told with StopSequence.
	StopSequence string `json:"stop_sequence,omitempty"`

	// Model is the name the answer gives as having served. Default: the model
	// asked for.
	Model string `json:"model,omitempty"`

	// Usage sets token counts. Default: counted from the request and the answer.
	Usage *Usage `json:"usage,omitempty"`

	// OmitUsage leaves token counts out wherever the protocol's parsers allow it.
	OmitUsage bool `json:"omit_usage,omitempty"`

	// KeepAlives is the number of keep-alive frames sent before the first content
	// event: comments, or Anthropic's ping events. Gemini has none.
	KeepAlives int `json:"keep_alives,omitempty"`

	// Raw, if not nil, is sent verbatim in place of the whole body, with status
	// RawStatus (default 200) and content type RawType (default that of the answer
	// asked for). RawSplits are ascending offsets at which it is cut into writes;
	// every write is flushed and counts as a content event.
	Raw       []byte `json:"-"`
	RawStatus int    `json:"raw_status,omitempty"`
	RawType   string `json:"raw_type,omitempty"`
	RawSplits []int  `json:"raw_splits,omitempty"`

	// Header is added to the response, RateLimit in the vendor's own headers.
	Header    map[string]string `json:"header,omitempty"`
	RateLimit *RateLimit        `json:"rate_limit,omitempty"`
}

// MaxFiller bounds the filler text of one answer, in bytes.
const MaxFiller = 256 << 20

// ToolCall is one call of a tool.
type ToolCall struct {
	// ID is the call's id. Default: derived from the request, in the vendor's form.
	ID string `json:"id,omitempty"`
	// Name is the tool's name.
	Name string `json:"name"`
	// Arguments is a JSON object, sent with the bytes given. Default {}.
	Arguments string `json:"arguments,omitempty"`
}

// Citation is a page on the web that a text is taken from.
type Citation struct {
	URL   string `json:"url"`
	Title string `json:"title,omitempty"`
}

// Stop is why an answer ended; every protocol has its own word for it.
type Stop string

// Reasons to stop.
const (
	StopEnd      Stop = "end"
	StopTools    Stop = "tools"
	StopLength   Stop = "length"
	StopWord     Stop = "stop_sequence"
	StopRefusal  Stop = "refusal"
	StopFiltered Stop = "filtered"
)

// Usage is token counts as disjoint parts; each protocol adds them up in its own
// way. Chat, Responses and Gemini count everything read from and written to caches
// as input, Anthropic does not; all but Gemini count reasoning as output. Gemini has
// no word for cache writes, so there they count as plain input.
type Usage struct {
	// Input is the part of the prompt that no cache was involved in, and Output the
	// part of the answer that is not reasoning. 0 counts them from the request
	// and the answer, a negative number is told as 0.
	Input  int64 `json:"input,omitempty"`
	Output int64 `json:"output,omitempty"`

	// Cached was read from a cache, CacheWrite5m and CacheWrite1h were written to
	// one, to be kept for five minutes or an hour.
	Cached       int64 `json:"cached,omitempty"`
	CacheWrite5m int64 `json:"cache_write_5m,omitempty"`
	CacheWrite1h int64 `json:"cache_write_1h,omitempty"`

	// Reasoning is the tokens spent on thinking.
	Reasoning int64 `json:"reasoning,omitempty"`
}

// RateLimit is told in x-ratelimit-* headers by the OpenAI protocols, in
// anthropic-ratelimit-* headers by Anthropic, and not at all by Gemini.
type RateLimit struct {
	Requests          int64 `json:"requests,omitempty"`
	RequestsRemaining int64 `json:"requests_remaining,omitempty"`
	Tokens            int64 `json:"tokens,omitempty"`
	TokensRemaining   int64 `json:"tokens_remaining,omitempty"`
	// Reset is the time until both limits are whole again.
	Reset time.Duration `json:"-"`
}

// Fault is something that goes wrong after the headers were sent. In an answer that
// is not streamed it goes wrong half-way through the body, whatever
// Step.FaultAfter says; its FaultErrorEvent and FaultFailed answer with an error status.
type Fault string

// Faults.
const (
	// FaultCut closes the connection without ending the body.
	FaultCut Fault = "cut"
	// FaultStall sends nothing more until the client leaves.
	FaultStall Fault = "stall"
	// FaultEnd ends the body early, as if all were well. With FaultAfter 0 only the
	// terminal event is missing.
	FaultEnd Fault = "end"
	// FaultMalformed sends an event that is not JSON and goes on.
	FaultMalformed Fault = "malformed"
	// FaultErrorEvent sends the protocol's error event and ends the body.
	FaultErrorEvent Fault = "error"
	// FaultFailed is FaultErrorEvent, but in Responses the event is response.failed.
	FaultFailed Fault = "failed"
)

// scripts holds the scripts and how far each has come. Safe for concurrent use.
type scripts struct {
	mu    sync.Mutex
	byKey map[Match]*running // guarded by mu
}

type running struct {
	Script
	at, used int
}

// set replaces the script of the same match; one without steps is removed.
func (s *scripts) set(sc Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(sc.Steps) == 0 {
		delete(s.byKey, sc.Match)
		return
	}
	if s.byKey == nil {
		s.byKey = make(map[Match]*running)
	}
	sc.Steps = slices.Clone(sc.Steps)
	s.byKey[sc.Match] = &running{Script: sc}
}

func (s *scripts) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.byKey)
}

// next takes a step for a request.
func (s *scripts) next(key, model string, p Protocol, o Operation) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	var best *running
	for m, r := range s.byKey {
		if m.fits(key, model, p, o) && !r.over() && (best == nil || m.weight() > best.Match.weight()) {
			best = r
		}
	}
	if best == nil {
		return Step{}
	}
	return best.take()
}

func (r *running) over() bool { return r.at >= len(r.Steps) }

func (r *running) take() Step {
	step := r.Steps[r.at]
	last := r.at == len(r.Steps)-1
	if r.used++; r.used >= max(step.Times, 1) && (!last || r.ThenDefault) {
		r.at, r.used = r.at+1, 0
	}
	return step
}
