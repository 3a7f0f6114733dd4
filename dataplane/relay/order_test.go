package relay

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
)

const (
	contentFrame = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"some text"}}]}` + "\n\n"
	errorFrame   = `data: {"error":{"message":"overloaded","type":"server_error","code":"overloaded"}}` + "\n\n"
	doneFrame    = "data: [DONE]\n\n"
)

// What decides is the order of events, not the reads in which the network happens to
// bring them.
func TestErrorBehindTheFirstContentIsNeverTriedAgain(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]io.Reader{
		"one read":  strings.NewReader(contentFrame + errorFrame),
		"two reads": io.MultiReader(strings.NewReader(contentFrame), strings.NewReader(errorFrame)),
		"and done":  strings.NewReader(contentFrame + errorFrame + doneFrame),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, f := OpenChanged(t.Context(), answer(body), openaichat.New().NewStream(false), Change{}, Limits{}, OwnMark, func(error) {})
			if f != nil {
				t.Fatalf("the answer was given up with %v, which lets another attempt follow content", f)
			}
			w := httptest.NewRecorder()
			settled := 0
			o := s.Forward(t.Context(), w, Hooks{Settle: func(Outcome) { settled++ }}, ownError)
			if o.Ending != Broken || o.Fault == nil || settled != 1 {
				t.Errorf("ending %v with %v, settled %d times; want broken, with the provider's error, once", o.Ending, o.Fault, settled)
			}
			if got := w.Body.String(); !strings.HasPrefix(got, contentFrame+errorFrame) || strings.Contains(got, "made up") {
				t.Errorf("the client got %q, want what the provider sent", got)
			}
		})
	}
}

func TestErrorBeforeTheFirstContentIsGivenUp(t *testing.T) {
	t.Parallel()
	s, f := OpenChanged(context.Background(), answer(strings.NewReader(errorFrame+contentFrame)), openaichat.New().NewStream(false), Change{}, Limits{}, OwnMark, func(error) {})
	if f == nil {
		s.close()
		t.Fatal("the answer was opened, want the provider's error so that another attempt can follow")
	}
}

func answer(body io.Reader) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body)}
}

func ownError(*fault.Error, protocol.StreamDecoder) []byte { return bytes.Clone([]byte("made up")) }

// endless sends signs of life and nothing else.
type endless struct{ sent int }

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n+8 <= len(p) {
		n += copy(p[n:], ": ping\n\n")
	}
	e.sent += n
	return n, nil
}

func TestStreamWithoutContentIsGivenUpBeforeItFillsTheMemory(t *testing.T) {
	t.Parallel()
	src := new(endless)
	s, f := OpenChanged(t.Context(), answer(src), openaichat.New().NewStream(false), Change{}, Limits{}, OwnMark, func(error) {})
	if f == nil {
		s.close()
		t.Fatal("a stream without content was opened")
	}
	if f.Class != fault.Malformed {
		t.Errorf("class %v, want malformed", f.Class)
	}
	if src.sent > 2*maxHeld {
		t.Errorf("%d bytes were taken", src.sent)
	}
}
