package relay

import (
	"testing"

	"github.com/coder/websocket"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// speaking is a dialog in which a response is made.
type speaking struct{ Dialog }

func (speaking) Running() bool            { return true }
func (speaking) Usage() (llm.Usage, bool) { return llm.Usage{}, false }
func (speaking) OutputBytes() int64       { return 0 }
func (speaking) Served() (string, string) { return "", "" }

// A provider that closes because of what a client sent has not failed.
func TestProviderIsNotBlamedForMessagesThatItRefuses(t *testing.T) {
	t.Parallel()
	s := &Session{dialog: speaking{}}
	for code, client := range map[websocket.StatusCode]bool{
		websocket.StatusUnsupportedData: true, websocket.StatusInvalidFramePayloadData: true, websocket.StatusMessageTooBig: true,
		websocket.StatusInternalError: false, websocket.StatusGoingAway: false, -1: false,
	} {
		o := s.outcome(end{code: code})
		if o.Ending != Broken || o.Fault == nil || o.Fault.OfRequest != client {
			t.Errorf("closed with %d: ending %v, fault %+v; want it to be of the request: %v", code, o.Ending, o.Fault, client)
		}
	}
}
