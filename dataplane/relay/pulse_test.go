package relay_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
	"github.com/aidy-gateway/aidy-gateway/dataplane/relay"
)

// client is a ResponseWriter that can be read while the handler runs.
type client struct {
	mu     sync.Mutex
	header http.Header
	body   bytes.Buffer
}

func (c *client) Header() http.Header { return c.header }
func (c *client) WriteHeader(int)     {}
func (c *client) FlushError() error   { return nil }

func (c *client) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.body.Write(p)
}

func (c *client) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.body.String()
}

const (
	messageStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"m\",\"usage\":{\"input_tokens\":1}}}\n\n"
	messageText  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n"
	messageEnd   = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// forward relays what is written to the returned pipe until it is closed.
func forward(t *testing.T, l relay.Limits, k relay.KeepAlive) (*io.PipeWriter, *client, <-chan relay.Outcome) {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancelCause(t.Context())
	end := func(cause error) {
		cancel(cause)
		r.CloseWithError(cause)
	}
	c := &client{header: make(http.Header)}
	done := make(chan relay.Outcome, 1)
	go func() {
		resp := &http.Response{StatusCode: 200, Header: make(http.Header), Body: r, ContentLength: -1}
		s, f := relay.OpenChanged(ctx, resp, anthropic.New().NewStream(false), relay.Change{}, l, relay.OwnMark, end)
		if f != nil {
			done <- relay.Outcome{Ending: relay.Broken, Fault: f}
			return
		}
		done <- s.Forward(ctx, c, relay.Hooks{Settle: func(relay.Outcome) {}, KeepAlive: k}, func(*fault.Error, protocol.StreamDecoder) []byte {
			return []byte("event: error\ndata: {}\n\n")
		})
	}()
	return w, c, done
}

// The keep-alive lives as long as the stream, however long that is.
func TestField_F47_KeepAliveLivesAsLongAsTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ping := protocol.KeepAlive(protocol.Anthropic)
		w, c, done := forward(t, relay.Limits{}, relay.KeepAlive{Frame: ping})
		_, _ = io.WriteString(w, messageStart+messageText)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		got := strings.Count(c.String(), string(ping))
		if want := int(2 * time.Hour / relay.KeepAliveEvery); got < want-1 || got > want {
			t.Errorf("%d keep-alives in two silent hours, want %d", got, want)
		}
		_, _ = io.WriteString(w, messageEnd)
		w.Close()
		if o := <-done; o.Ending != relay.Completed {
			t.Errorf("ending %v, want completed", o.Ending)
		}
		if !strings.HasSuffix(c.String(), messageEnd) {
			t.Error("something follows the end of the stream")
		}
		before := c.String()
		time.Sleep(time.Hour)
		if c.String() != before {
			t.Error("a keep-alive was sent after the stream was over")
		}
	})
}

// Keep-alives of ours say nothing of the upstream: one that fell silent is found out
// as if there were none.
func TestField_F43_KeepAlivesDoNotHideADeadUpstream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		w, c, done := forward(t, relay.Limits{Idle: 2 * time.Minute}, relay.KeepAlive{Frame: protocol.KeepAlive(protocol.Anthropic)})
		_, _ = io.WriteString(w, messageStart+messageText)
		o := <-done
		if took := time.Since(started); took != 2*time.Minute {
			t.Errorf("a silent upstream was given up after %v, want 2m", took)
		}
		if o.Ending != relay.Broken || !strings.HasSuffix(c.String(), "event: error\ndata: {}\n\n") {
			t.Errorf("ending %v; the stream ends with %q, want an error event", o.Ending, c.String()[max(0, c.body.Len()-60):])
		}
	})
}

func TestField_F43_NoKeepAliveWhereSDKsBreakOnIt(t *testing.T) {
	t.Parallel()
	if k := protocol.KeepAlive(protocol.Gemini); len(k) != 0 {
		t.Errorf("Gemini clients get %q", k)
	}
	for _, p := range []protocol.Name{protocol.OpenAIChat, protocol.OpenAIResponses} {
		if k := string(protocol.KeepAlive(p)); !strings.HasPrefix(k, ":") || !strings.HasSuffix(k, "\n\n") {
			t.Errorf("%s clients get %q, want a comment", p, k)
		}
	}
}

// A stream that is never silent for long has no keep-alives in it.
func TestKeepAlivesComeOnlyInSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ping := protocol.KeepAlive(protocol.Anthropic)
		w, c, done := forward(t, relay.Limits{}, relay.KeepAlive{Frame: ping})
		_, _ = io.WriteString(w, messageStart)
		for range 100 {
			_, _ = io.WriteString(w, messageText)
			time.Sleep(relay.KeepAliveEvery - time.Millisecond)
		}
		_, _ = io.WriteString(w, messageEnd)
		w.Close()
		<-done
		if n := strings.Count(c.String(), string(ping)); n != 0 {
			t.Errorf("%d keep-alives in a stream that was never silent for as long", n)
		}
	})
}

// Whoever waits for the first answer gets a head and keep-alives, and after Stop
// nothing.
func TestEarlyKeepAlivesWriteTheHeadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &client{header: make(http.Header)}
		heads := 0
		p := relay.NewPulse(c, relay.KeepAlive{Frame: []byte(": x\n\n")}, func() { heads++ })
		time.Sleep(relay.KeepAliveEvery - 1)
		if c.String() != "" {
			t.Fatal("a keep-alive came too early")
		}
		time.Sleep(2 * relay.KeepAliveEvery)
		if !p.Stop() || heads != 1 {
			t.Errorf("begun is %v and the head was written %d times", p.Stop(), heads)
		}
		before := c.String()
		time.Sleep(time.Hour)
		if c.String() != before {
			t.Error("a keep-alive came after Stop")
		}
	})
}
