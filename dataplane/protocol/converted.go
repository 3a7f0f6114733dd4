package protocol

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// Converted is a call as one candidate gets it in another protocol, or in another way
// of answering, than the caller's: what is sent, and how the answer comes back.
type Converted struct {
	Codec  Codec             // of the upstream's protocol: reads usage and errors of its answers
	Target Target            // the upstream's request line
	Header map[string]string // what the upstream's protocol needs, such as a version
	Body   []byte

	// Answer makes the caller's answer of a whole one of the upstream's. An upstream
	// that streams gets its stream collected first, by NewStream.
	Answer func(body []byte) ([]byte, *fault.Error)

	// NewStream returns what makes the caller's answer of a stream of the upstream's;
	// nil if the operation does not stream.
	NewStream func() StreamConverter

	// Lossy names what was not carried, for the header x-gateway-lossy; empty if
	// all was. It may grow until the answer is over.
	Lossy func() string
}

// StreamConverter makes the caller's stream of an upstream's. Not safe for
// concurrent use.
type StreamConverter interface {
	// Convert appends what the caller gets of a frame to dst. What fails is the
	// gateway's own doing, such as content that cannot be told: the upstream's
	// errors are found by its StreamDecoder.
	Convert(dst []byte, f sse.Frame) ([]byte, *fault.Error)

	// End appends what is left to say once the upstream's stream has ended properly.
	End(dst []byte) ([]byte, *fault.Error)

	// Fail appends the caller's error event.
	Fail(dst []byte, f *fault.Error, requestID string) []byte
}
