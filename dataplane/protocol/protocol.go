// Package protocol says what the data plane needs to know of a wire protocol, and
// holds what the protocols share: which one a request speaks, what a strict look
// at a body finds, and how failures are recognised and told.
//
// Traffic that enters and leaves in one protocol is passed through byte for byte.
// A codec therefore looks and splices; it never decodes a body and writes it anew.
// The codecs are in the packages below this one; whoever composes a node lists them.
package protocol

import (
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// Name is the name of a wire protocol in configuration, headers and records.
type Name string

// The protocols.
const (
	OpenAIChat      Name = "openai_chat"
	OpenAIResponses Name = "openai_responses"
	Anthropic       Name = "anthropic_messages"
	Gemini          Name = "gemini_generate_content"
)

// Framing is how an answer is cut into parts.
type Framing uint8

// The framings.
const (
	FramingBody     Framing = iota // one JSON value; or, until the body is read, not known
	FramingSSE                     // server-sent events
	FramingArray                   // one JSON array of partial answers (Gemini without alt=sse)
	FramingMessages                // messages of a WebSocket
)

// Target is what a request line and its headers say. What only the body knows, such
// as the model of three of the protocols, is in Shape.
type Target struct {
	Protocol Name
	Op       Operation
	Model    string  // from the path; empty where the body names it
	Stream   bool    // the path asks for a stream
	Framing  Framing // how the path asks for it
	Version  string  // version segment of a Gemini path, such as "v1beta"
	RawQuery string  // the query as the client sent it
	Method   string  // of the upstream's call; empty is POST
	Object   string  // id of the object that the path names, in the client's words
	Path     string  // of an operation on kept objects: below the version, * for the object; of a raw one: below the base URL
	Boundary string  // that parts a multipart body; empty for JSON
}

// Outgoing says how the upstream's body differs from the caller's, apart from the model.
type Outgoing struct {
	// IncludeUsage has the upstream report usage at the end of a stream where
	// the protocol reports it only on demand and the caller did not ask.
	IncludeUsage bool
	// Edits are further changes; they must not overlap those.
	Edits []Edit
}

// Rendered is an answer made by the gateway.
type Rendered struct {
	Status int
	Header http.Header // beside Content-Type, which is in it too
	Body   []byte
}

// ModelInfo describes a model in a model list. Only ID is required.
type ModelInfo struct {
	ID              string
	DisplayName     string // empty takes ID
	OwnedBy         string
	Created         time.Time
	MaxInputTokens  int64
	MaxOutputTokens int64
	Embeds          bool // it is known to make embeddings
	EmbedsOnly      bool // and nothing else
}

// Answer is what a whole answer tells about itself.
type Answer struct {
	Usage         llm.Usage
	UsageReported bool   // the provider stated a usage; an explicit zero counts
	Model         string // the model that served, as the provider names it
	ID            string // the provider's id of the answer
	Stop          llm.Stop
	OutputBytes   int64 // bytes of text, arguments and reasoning in the answer, for estimates
}

// Codec is what the gateway can do with one wire protocol. Codecs are stateless
// and safe for concurrent use.
type Codec interface {
	// Name is the protocol.
	Name() Name

	// Inspect reads a request body once, strictly, and reports what it found. It
	// fails with a class of the gateway's own that is the caller's fault. The
	// Shape refers to body by ranges and keeps no part of it but short strings.
	Inspect(body []byte, t Target) (*Shape, *fault.Error)

	// Outgoing returns the upstream's body as parts to be sent one after another.
	// The parts alias body, which must stay unchanged until they are sent. Apart
	// from the model and what o asks for, every byte is the caller's.
	Outgoing(body []byte, s *Shape, model string, o Outgoing) [][]byte

	// UpstreamURL is what follows an upstream's base URL: an escaped path and a
	// query. The caller's query is kept, without its credentials.
	UpstreamURL(t Target, model string) (path, rawQuery string)

	// NewStream returns a decoder for one streamed answer. asked says that the
	// caller itself asked for the usage report.
	NewStream(asked bool) StreamDecoder

	// ReadAnswer reads a whole answer, or a stream in FramingArray, to its end.
	// Memory is bounded whatever its size. Where r passes the bytes on as it is
	// read, the answer can be relayed meanwhile. It fails with the class of an
	// error the answer holds, with Malformed if it cannot be decoded (the rest of r
	// is then unread), and with CutBeforeFirst if it ends early; what was found until then is in
	// the Answer.
	ReadAnswer(r io.Reader) (Answer, *fault.Error)

	// EncodeError renders a failure before the answer began.
	EncodeError(f *fault.Error, requestID string) Rendered

	// StreamError renders a failure after the answer began: the events that end
	// the stream. d is the decoder that saw the stream so far; nil if none did.
	StreamError(f *fault.Error, requestID string, d StreamDecoder) []byte

	// ModelList renders the list of models, as far as the query pages through it.
	ModelList(models []ModelInfo, query url.Values) ([]byte, *fault.Error)

	// ModelGet renders one model.
	ModelGet(m ModelInfo) []byte

	// Classify makes a fault of an upstream's answer with an error status. body
	// may be cut; now is for waits given as a date.
	Classify(status int, header http.Header, body []byte, now time.Time) *fault.Error
}

// Kind says what an event of a stream means for whoever relays it.
type Kind uint8

// The kinds. Until a Semantic or Terminal event came, nothing needs to reach the
// caller and another upstream can still be asked.
const (
	Other     Kind = iota // to be passed on, without meaning for the relay
	Lifecycle             // announces content
	Semantic              // content, or an end without content
	UsageOnly             // a report that only the gateway asked for: not to be passed on
	Ping                  // a sign of life: a ping event, a comment or a blank line
	Error                 // the upstream failed; Fault says how
	Terminal              // the protocol's proper end of the stream
)

var kindNames = [...]string{"other", "lifecycle", "semantic", "usage_only", "ping", "error", "terminal"}

// String is the name used in logs.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Other]
}

// Observation is what an event of a stream was.
type Observation struct {
	Kind  Kind
	Fault *fault.Error // for Error
}

// StreamDecoder watches one streamed answer go by. It keeps nothing of a frame
// but counts and short strings. Not safe for concurrent use.
type StreamDecoder interface {
	// Observe takes the next frame. It costs little once the first Semantic event
	// was seen: whole frames are then read only where they carry usage or an end.
	Observe(f sse.Frame) Observation

	// Usage is the usage reported so far, and whether there was any report.
	Usage() (llm.Usage, bool)

	// ServedModel is the model the provider says it used; empty if it did not say.
	ServedModel() string

	// ResponseID is the provider's id of the answer; empty if it has none.
	ResponseID() string

	// OutputBytes is the text, tool arguments and reasoning seen so far, in bytes
	// of UTF-8, for estimates where no usage is reported.
	OutputBytes() int64

	// Terminated reports whether the stream may end here: its proper end was seen.
	// A body that ends before that is a broken answer.
	Terminated() bool

	// Stop is how the answer ended, as far as is known.
	Stop() llm.Stop
}
