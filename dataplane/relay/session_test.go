package relay_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
)

// link is both ends of a WebSocket.
func link(t *testing.T) (server, client *websocket.Conn) {
	t.Helper()
	accepted := make(chan *websocket.Conn, 1)
	held := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		accepted <- c
		<-held
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(held) })
	client, _, err := websocket.Dial(t.Context(), s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.CloseNow() })
	return <-accepted, client
}

// silent is a dialog in which nothing is changed and no response is made.
type silent struct{}

func (silent) FromClient(m []byte) ([]byte, *fault.Error)         { return m, nil }
func (silent) FromUpstream(e []byte) ([]byte, bool, *fault.Error) { return e, false, nil }
func (silent) Running() bool                                      { return false }
func (silent) Usage() (llm.Usage, bool)                           { return llm.Usage{}, false }
func (silent) OutputBytes() int64                                 { return 0 }
func (silent) Served() (model, responseID string)                 { return "", "" }

func hooks(settled *int) relay.SessionHooks {
	return relay.SessionHooks{
		Settle:     func(relay.Outcome) { *settled++ },
		Progress:   func(relay.Outcome) {},
		Alive:      func() *fault.Error { return nil },
		Failed:     func(*fault.Error) {},
		ErrorEvent: func(*fault.Error) []byte { return []byte("{}") },
		CloseCode:  func(*fault.Error) websocket.StatusCode { return websocket.StatusInternalError },
	}
}

// A client that takes nothing is given up, whatever the provider has for it.
func TestSessionOfAClientThatTakesNothingEnds(t *testing.T) {
	t.Parallel()
	client, far := link(t)
	provider, up := link(t)
	_ = far // reads nothing
	provider.SetReadLimit(1 << 20)
	settled := 0
	done := make(chan relay.Outcome, 1)
	s := relay.NewSession(client, up, silent{}, relay.SessionConfig{MaxMessage: 1 << 20, WriteIdle: 300 * time.Millisecond, CheckInterval: 20 * time.Millisecond}, hooks(&settled))
	go func() { done <- s.Run(t.Context(), nil) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for range 200 {
		if provider.Write(ctx, websocket.MessageText, piece) != nil {
			break
		}
	}
	select {
	case <-done:
	case <-ctx.Done():
		t.Fatal("the session goes on")
	}
	if settled != 1 {
		t.Errorf("settled %d times", settled)
	}
}

func TestIdleSessionEnds(t *testing.T) {
	t.Parallel()
	client, far := link(t)
	provider, up := link(t)
	go func() { _, _, _ = provider.Read(context.Background()) }()
	settled := 0
	s := relay.NewSession(client, up, silent{}, relay.SessionConfig{MaxMessage: 1 << 10, Idle: 50 * time.Millisecond, CheckInterval: 10 * time.Millisecond}, hooks(&settled))
	done := make(chan relay.Outcome, 1)
	go func() { done <- s.Run(t.Context(), nil) }()
	if _, _, err := far.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the session ended with %v, want 1001", err)
	}
	if o := <-done; o.Ending != relay.Completed || settled != 1 {
		t.Errorf("%+v, settled %d times", o, settled)
	}
}

// A peer that is gone without a word is found out by pings.
func TestPeerThatAnswersNoPingIsGivenUp(t *testing.T) {
	t.Parallel()
	client, far := link(t)
	provider, up := link(t)
	go func() { _, _, _ = far.Read(context.Background()) }()
	_ = provider // reads nothing, and so answers no ping
	settled := 0
	s := relay.NewSession(client, up, silent{}, relay.SessionConfig{
		MaxMessage: 1 << 10, WriteIdle: 100 * time.Millisecond, PingInterval: 20 * time.Millisecond, CheckInterval: 10 * time.Millisecond,
	}, hooks(&settled))
	done := make(chan relay.Outcome, 1)
	go func() { done <- s.Run(t.Context(), nil) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the session goes on")
	}
}
