// Package vendorsdk puts one question through the vendors' own Go SDKs: OpenAI's for
// Chat Completions and Responses, Anthropic's for Messages, Google's for Gemini.
//
// It is for tests alone: of the scripted provider, and of the gateway in front of it.
// What an SDK understands of an answer is what a real client would, so a test that
// passes here says more than one that reads bytes. No SDK repeats a request by itself.
package vendorsdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// Question is one request that every SDK can put.
type Question struct {
	// Client sends the request; nil takes the SDK's own.
	Client *http.Client

	// Key is the API key and Model the model asked for.
	Key, Model string

	// Text is what the user says, and Image, if not empty, a PNG shown beside it.
	Text  string
	Image []byte

	// Tools offers the tool weather, and Force demands a call.
	Tools, Force bool

	// Result, if not empty, is the answer to Called in the history: the second turn
	// of a conversation. Without a Called it is a call of weather without arguments.
	Result string
	Called Call

	// Limit bounds the output, in tokens; 0 leaves the bound out where the protocol
	// does without.
	Limit int64
}

// Call is one call of a tool. ID is empty where the protocol has none.
type Call struct{ ID, Name, Args string }

// Reply is what an SDK understood.
type Reply struct {
	Text, Reasoning, Stop, Model string
	Calls                        []Call

	// Prompt, Cached, Written, Output and Thought are tokens in the protocol's own
	// convention.
	Prompt, Cached, Written, Output, Thought int64
}

// SDK is one vendor's client of one protocol.
type SDK struct {
	Protocol fakeprovider.Protocol

	// Ask gets a whole answer from the server at url, which has no path.
	Ask func(ctx context.Context, url string, q Question) (Reply, error)

	// Stream gets a streamed answer and calls seen after every event. When it
	// fails in the middle, the Reply has what came before. An error that the server
	// told in the stream is an error, also where the SDK itself has it among the
	// events (*StreamError), and so is a stream without its terminal event (ErrNoEnd).
	Stream func(ctx context.Context, url string, q Question, seen func()) (Reply, error)

	// Status is the HTTP status that an error of Ask or Stream carries; 0 for none.
	Status func(err error) int
}

// All returns the SDKs of all four protocols.
func All() []SDK {
	return []SDK{
		{fakeprovider.Chat, askChat, streamChat, openaiStatus},
		{fakeprovider.Responses, askResponses, streamResponses, openaiStatus},
		{fakeprovider.Anthropic, askAnthropic, streamAnthropic, anthropicStatus},
		{fakeprovider.Gemini, askGemini, streamGemini, geminiStatus},
	}
}

// Of returns the SDK of one protocol.
func Of(p fakeprovider.Protocol) SDK {
	for _, s := range All() {
		if s.Protocol == p {
			return s
		}
	}
	panic("vendorsdk: no SDK speaks " + string(p))
}

// ErrNoEnd says that a stream ended without the event that ends its protocol's
// streams.
var ErrNoEnd = errors.New("the stream ended without its terminal event")

// errRefused says that the SDK itself could not make sense of a chunk.
var errRefused = errors.New("the SDK's accumulator refused a chunk")

// StreamError is an error told by an event of a stream.
type StreamError struct {
	Event         string // the event's type
	Code, Message string
}

// Error implements error.
func (e *StreamError) Error() string {
	return fmt.Sprintf("%s event: %s: %s", e.Event, e.Code, e.Message)
}

// ToolSchema is the schema of the arguments of the tool weather.
const ToolSchema = `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}`

const toolName = "weather"

func schemaMap() map[string]any {
	var m map[string]any
	if err := json.Unmarshal([]byte(ToolSchema), &m); err != nil {
		panic(err) // a constant
	}
	return m
}

// called is the call that Result answers, complete; id is the protocol's stand-in.
func (q *Question) called(id string) Call {
	c := q.Called
	if c.Name == "" {
		c = Call{Name: toolName, Args: "{}"}
	}
	if c.ID == "" {
		c.ID = id
	}
	return c
}

// arguments are those of a call as an object.
func (c Call) arguments() map[string]any {
	m := map[string]any{}
	_ = json.Unmarshal([]byte(c.Args), &m) // what is no object is sent as none
	return m
}

func mismatch(what string, got, want any) error {
	return fmt.Errorf("%s: %v, want %v", what, got, want)
}
