package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// Dialog reads what is said in a session. FromClient and FromUpstream are called by one
// goroutine each, at the same time.
type Dialog interface {
	// FromClient returns what goes upstream for a message; nothing does if it fails.
	FromClient(message []byte) ([]byte, *fault.Error)
	// FromUpstream returns what goes to the client for an event, whether the event ended a
	// response, and the fault that it tells of.
	FromUpstream(event []byte) (out []byte, ended bool, f *fault.Error)
	Running() bool
	Usage() (llm.Usage, bool)
	OutputBytes() int64
	Served() (model, responseID string)
}

// SessionConfig tunes a Session. A zero field takes the default it documents.
type SessionConfig struct {
	MaxMessage    int64         // bytes of a message of the client; required
	MaxEvent      int64         // bytes of an event of the provider; default 16 MiB
	Silence       time.Duration // of a provider that makes a response; 0 for none
	Idle          time.Duration // without a response and without any message; default 10 min
	WriteIdle     time.Duration // that a peer may take for one message, or for the answer to a ping; default 2 min
	PingInterval  time.Duration // default 30 s
	CheckInterval time.Duration // of all that is looked at now and then; default 1 s
}

func (c *SessionConfig) defaults() {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	if c.MaxEvent <= 0 {
		c.MaxEvent = 16 << 20
	}
	set(&c.Idle, 10*time.Minute)
	set(&c.WriteIdle, 2*time.Minute)
	set(&c.PingInterval, 30*time.Second)
	set(&c.CheckInterval, time.Second)
}

// SessionHooks are called on the way.
type SessionHooks struct {
	// Settle is called exactly once, before the client is told that the session is over.
	Settle func(Outcome)
	// Progress is called before the event that ends a response goes to the client, and now
	// and then while one is made.
	Progress func(Outcome)
	// Alive says why no new response may begin; nil if one may. What runs is finished.
	Alive func() *fault.Error
	// Failed is called with what an event of the provider says went wrong.
	Failed func(*fault.Error)
	// ErrorEvent tells a fault to the client, and CloseCode ends the session because of it.
	ErrorEvent func(*fault.Error) []byte
	CloseCode  func(*fault.Error) websocket.StatusCode
	// Draining is closed when the session should end once no response is made, Ending when
	// it must.
	Draining, Ending <-chan struct{}
}

// Session carries messages between a client and a provider, one by one in each direction:
// the next is read when the one before is written, so that who does not read slows down
// who writes.
type Session struct {
	client, upstream *websocket.Conn
	dialog           Dialog
	cfg              SessionConfig
	hooks            SessionHooks

	heard    atomic.Int64  // Unix nanoseconds of the newest event of the provider
	said     atomic.Int64  // and of the newest message of the client
	sent     atomic.Int64  // bytes that went to the client
	stopping atomic.Bool   // no new response may begin
	turn     chan struct{} // a response ended
	pings    sync.WaitGroup
}

// NewSession returns a session over two open connections. It reads nothing yet.
func NewSession(client, upstream *websocket.Conn, d Dialog, cfg SessionConfig, hooks SessionHooks) *Session {
	cfg.defaults()
	client.SetReadLimit(cfg.MaxMessage)
	upstream.SetReadLimit(cfg.MaxEvent)
	return &Session{client: client, upstream: upstream, dialog: d, cfg: cfg, hooks: hooks, turn: make(chan struct{}, 1)}
}

// end is why a session is over.
type end struct {
	byClient bool
	code     websocket.StatusCode // that a peer closed with; -1 if it broke off
	reason   string
	fault    *fault.Error // that the gateway ends it with
	quiet    bool         // the fault is no failure: only the close tells it
}

// Run carries messages until one side closes, the session has to end, or ctx does. first
// is a message of the client that was read before; nil for none. Both connections are
// closed when it returns.
func (s *Session) Run(ctx context.Context, first []byte) Outcome {
	now := time.Now().UnixNano()
	s.heard.Store(now)
	s.said.Store(now)
	// The pumps end with the connections: a read whose context ends closes its connection
	// without a word.
	bare := context.WithoutCancel(ctx)
	ends := make(chan end, 2)
	var pumps sync.WaitGroup
	pumps.Go(func() { ends <- s.fromClient(bare, first) })
	pumps.Go(func() { ends <- s.fromUpstream(bare) })
	e := s.watch(ctx, bare, ends)
	o := s.outcome(e)
	s.hooks.Settle(o)
	s.close(bare, e)
	pumps.Wait()
	s.pings.Wait()
	o.Bytes = s.sent.Load()
	return o
}

// watch waits for the end of the session and brings it about where it is due.
func (s *Session) watch(ctx, bare context.Context, ends <-chan end) end {
	tick := time.NewTicker(s.cfg.CheckInterval)
	defer tick.Stop()
	ping, progress := time.Now(), time.Time{}
	draining := s.hooks.Draining
	for {
		select {
		case e := <-ends:
			return e
		case <-ctx.Done():
			return end{fault: fault.As(context.Cause(ctx))}
		case <-s.hooks.Ending:
			return end{fault: fault.New(fault.Draining, ""), quiet: true}
		case <-draining:
			draining = nil
			s.stopping.Store(true)
		case <-s.turn:
		case <-tick.C:
			if time.Since(ping) >= s.cfg.PingInterval {
				ping = time.Now()
				s.ping(bare, s.client)
				s.ping(bare, s.upstream)
			}
		}
		if e, over := s.due(time.Now()); over {
			return e
		}
		if s.dialog.Running() && time.Since(progress) >= ProgressEvery {
			progress = time.Now()
			s.hooks.Progress(s.soFar())
		}
	}
}

// due says whether the session has to end now.
func (s *Session) due(now time.Time) (end, bool) {
	running := s.dialog.Running()
	heard, said := time.Unix(0, s.heard.Load()), time.Unix(0, s.said.Load())
	f := s.hooks.Alive()
	switch {
	case running && s.cfg.Silence > 0 && now.Sub(heard) > s.cfg.Silence && now.Sub(said) > s.cfg.Silence:
		return end{fault: &fault.Error{
			Class: fault.CutAfterFirst, HTTPStatus: http.StatusGatewayTimeout, // the status of the class is that of an answer that has begun
			Gateway: &fault.Gateway{Outcome: fault.OutcomeStreamIncomplete}, Err: errIdle,
		}}, true
	case running:
	case f != nil:
		return end{fault: f}, true
	case s.stopping.Load():
		return end{fault: fault.New(fault.Draining, ""), quiet: true}, true
	case now.Sub(heard) > s.cfg.Idle && now.Sub(said) > s.cfg.Idle:
		return end{code: websocket.StatusGoingAway, reason: "idle"}, true
	}
	return end{}, false
}

// ping asks a peer for a sign of life; one that gives none is given up. It is over when
// the connection is.
func (s *Session) ping(ctx context.Context, c *websocket.Conn) {
	s.pings.Go(func() {
		wait, cancel := context.WithTimeout(ctx, s.cfg.WriteIdle)
		defer cancel()
		if c.Ping(wait) != nil {
			_ = c.CloseNow()
		}
	})
}

var errBinary = fault.New(fault.InvalidRequest, "The message is binary. Send text messages, each one JSON object.")

func (s *Session) fromClient(ctx context.Context, first []byte) end {
	var buf bytes.Buffer
	message, kind := first, websocket.MessageText
	for {
		if message == nil {
			var err error
			if message, kind, err = read(ctx, s.client, &buf); err != nil {
				return closed(err, true)
			}
		}
		s.said.Store(time.Now().UnixNano())
		var out []byte
		f := errBinary
		if kind == websocket.MessageText {
			if s.stopping.Load() || s.hooks.Alive() != nil {
				message = nil
				continue // the session ends as soon as nothing runs
			}
			out, f = s.dialog.FromClient(message)
		}
		message = nil
		if f != nil {
			if err := s.write(ctx, s.client, s.hooks.ErrorEvent(f)); err != nil {
				return closed(err, true)
			}
			continue
		}
		if err := s.write(ctx, s.upstream, out); err != nil {
			return closed(err, false)
		}
	}
}

func (s *Session) fromUpstream(ctx context.Context) end {
	var buf bytes.Buffer
	for {
		event, kind, err := read(ctx, s.upstream, &buf)
		if err != nil {
			return closed(err, false)
		}
		s.heard.Store(time.Now().UnixNano())
		out, ended := event, false
		if kind == websocket.MessageText {
			var f *fault.Error
			if out, ended, f = s.dialog.FromUpstream(event); f != nil {
				s.hooks.Failed(f)
			}
		}
		if ended {
			s.hooks.Progress(s.soFar())
		}
		wait, cancel := context.WithTimeout(ctx, s.cfg.WriteIdle)
		err = s.client.Write(wait, kind, out)
		cancel()
		if err != nil {
			return closed(err, true)
		}
		s.sent.Add(int64(len(out)))
		if ended {
			select {
			case s.turn <- struct{}{}:
			default:
			}
		}
	}
}

// keepMessage is the largest buffer that is kept for the next message.
const keepMessage = 64 << 10

// read reads one message, which is valid until the next call.
func read(ctx context.Context, c *websocket.Conn, buf *bytes.Buffer) ([]byte, websocket.MessageType, error) {
	kind, r, err := c.Reader(ctx)
	if err != nil {
		return nil, kind, err
	}
	if buf.Cap() > keepMessage {
		*buf = bytes.Buffer{} // a large message is over; its memory is not kept for the small ones
	}
	buf.Reset()
	if _, err = io.Copy(buf, r); err != nil {
		return nil, kind, err
	}
	return buf.Bytes(), kind, nil
}

func (s *Session) write(ctx context.Context, c *websocket.Conn, message []byte) error {
	wait, cancel := context.WithTimeout(ctx, s.cfg.WriteIdle)
	defer cancel()
	return c.Write(wait, websocket.MessageText, message)
}

func closed(err error, byClient bool) end {
	e := end{byClient: byClient, code: websocket.CloseStatus(err)}
	var told websocket.CloseError
	switch {
	case errors.As(err, &told):
		e.reason = told.Reason
	case errors.Is(err, websocket.ErrMessageTooBig) && byClient:
		e.code = websocket.StatusMessageTooBig
	}
	return e
}

func (s *Session) soFar() Outcome { return s.outcome(end{code: websocket.StatusNormalClosure}) }

// outcome is what became of the session: whatever it was, without a response under way it
// is complete.
func (s *Session) outcome(e end) Outcome {
	o := Outcome{Ending: Completed, OutputBytes: s.dialog.OutputBytes(), Fault: e.fault}
	o.Usage, o.Reported = s.dialog.Usage()
	o.ServedModel, o.ResponseID = s.dialog.Served()
	switch {
	case !s.dialog.Running():
		o.Fault = nil
	case e.byClient:
		o.Ending, o.Fault = ClientLeft, nil
	default:
		o.Ending = Broken
		if o.Fault == nil {
			// What the provider could not read was the client's.
			o.Fault = &fault.Error{Class: fault.CutAfterFirst, OfRequest: refusesMessage(e.code), Err: errBrokeOff}
		}
	}
	return o
}

// refusesMessage reports a status with which a peer closes because of a message it got.
func refusesMessage(code websocket.StatusCode) bool {
	return code == websocket.StatusUnsupportedData || code == websocket.StatusInvalidFramePayloadData || code == websocket.StatusMessageTooBig
}

var errBrokeOff = errors.New("the upstream ended the session while it made a response")

// closeReason bounds the reason of a close, by RFC 6455, 5.5.
const closeReason = 123

// close tells both sides that the session is over.
func (s *Session) close(ctx context.Context, e end) {
	toClient, toUpstream := e.code, websocket.StatusNormalClosure
	switch {
	case e.byClient:
		toUpstream = sendable(e.code, websocket.StatusGoingAway)
	case e.fault != nil:
		toClient = s.hooks.CloseCode(e.fault)
		e.reason = e.fault.StableCode()
		if !e.quiet {
			wait, cancel := context.WithTimeout(ctx, time.Second)
			_ = s.client.Write(wait, websocket.MessageText, s.hooks.ErrorEvent(e.fault)) // one that is gone needs no answer
			cancel()
		}
	case e.code < 0:
		toClient, e.reason = websocket.StatusInternalError, "upstream_reset"
	}
	if len(e.reason) > closeReason {
		e.reason = ""
	}
	var both sync.WaitGroup
	both.Go(func() { _ = s.client.Close(sendable(toClient, websocket.StatusInternalError), e.reason) })
	both.Go(func() { _ = s.upstream.Close(toUpstream, "") })
	both.Wait()
}

// sendable is a status that may stand in a close frame (RFC 6455, 7.4.1).
func sendable(code, other websocket.StatusCode) websocket.StatusCode {
	switch {
	case code == websocket.StatusNoStatusRcvd:
		return websocket.StatusNormalClosure
	case code >= 3000 && code < 5000, code >= 1000 && code <= 1014 && code != 1004 && code != 1006:
		return code
	}
	return other
}
