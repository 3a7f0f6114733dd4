package fakeprovider

import (
	"iter"
	"net"
	"net/http"
	"strconv"
	"time"
)

// frame is one event of a streamed answer as it goes over the wire.
type frame struct {
	data     []byte
	content  bool
	terminal bool
}

// renderer writes an answer in one protocol.
type renderer interface {
	// whole is the body of an answer that is not streamed.
	whole() []byte
	// frames are the events of a streamed one.
	frames() iter.Seq[frame]
	// broken, failed and keepAlive make events out of the script's order, to be sent
	// in place of the frame the caller holds, or before it. asFailed wants the
	// form in which the answer itself failed, where there is one. A nil
	// keepAlive means that the protocol has none.
	broken() []byte
	failed(r rendered, asFailed bool) []byte
	keepAlive() []byte
}

func (c *call) renderer(a *answer) renderer {
	switch c.protocol {
	case Chat:
		return &chatAnswer{answer: a, includeUsage: c.ask.includeUsage}
	case Responses:
		return &responsesAnswer{answer: a, ask: &c.ask, ids: c.ids}
	case Anthropic:
		return &anthropicAnswer{answer: a, requestID: c.requestID}
	}
	return &geminiAnswer{answer: a, asList: c.asList}
}

func (c *call) streamType() string {
	if c.asList {
		return "application/json; charset=UTF-8"
	}
	return "text/event-stream; charset=utf-8"
}

// generate answers a generation request by its step.
func (c *call) generate() {
	c.step = c.p.scripts.next(c.key, c.ask.model, c.protocol, c.operation)
	if !c.pause(c.step.DelayHeaders) || !c.pass(c.step.HeaderGate) {
		return
	}
	if c.step.Reset {
		c.reset()
		return
	}
	for name, value := range c.step.Header {
		c.w.Header().Set(name, value)
	}
	c.tellLimits()
	if c.step.Fail != nil {
		c.writeFailure(*c.step.Fail)
		return
	}
	if c.admission = c.admit(); c.admission != nil {
		if f := c.admission.failure; f != nil {
			c.writeFailure(*f)
			return
		}
		if !c.pause(c.admission.wait) {
			return
		}
		c.begun(c.admission)
	}
	rd := c.renderer(c.compose())
	c.storeAnswer(rd)
	switch {
	case c.step.Raw != nil:
		c.playRaw(rd)
	case c.ask.stream:
		c.w.Header().Set("Content-Type", c.streamType())
		c.w.Header().Set("Cache-Control", "no-cache")
		c.play(http.StatusOK, rd, rd.frames())
	default:
		c.playWhole(rd)
	}
}

// play sends a body event by event.
func (c *call) play(status int, rd renderer, frames iter.Seq[frame]) {
	c.w.WriteHeader(status)
	if c.flush() != nil {
		c.outcome = Canceled
		return
	}
	content, faulted := 0, c.step.Fault == ""
	for f := range frames {
		if !faulted && c.faultDue(f, content) {
			faulted = true
			if !c.fault(rd) {
				return
			}
		}
		if f.content && content == 0 && !c.keepAlive(rd) {
			return
		}
		if !c.event(f.data) {
			return
		}
		if f.content {
			content++
		}
	}
	if !faulted && !c.fault(rd) {
		return
	}
	c.outcome = Completed
}

// faultDue tells whether the fault comes before f, when content events were sent.
func (c *call) faultDue(f frame, content int) bool {
	after := c.step.FaultAfter
	switch {
	case after < 0, f.terminal:
		return true
	case c.step.Fault == FaultEnd && after == 0:
		return false
	}
	return f.content && content == after
}

// fault does the step's fault and tells whether the answer goes on.
func (c *call) fault(rd renderer) (on bool) {
	switch c.step.Fault {
	case FaultMalformed:
		return c.event(rd.broken())
	case FaultErrorEvent, FaultFailed:
		c.event(rd.failed(c.faultError().render(c.protocol), c.step.Fault == FaultFailed))
	case FaultStall:
		<-c.r.Context().Done()
		c.outcome = Canceled
	case FaultCut:
		panic(http.ErrAbortHandler) // net/http closes the connection without ending the body
	}
	return false
}

func (c *call) faultError() Failure {
	if c.step.FaultError != nil {
		return *c.step.FaultError
	}
	return Failure{Kind: Overloaded}
}

func (c *call) keepAlive(rd renderer) bool {
	for range c.step.KeepAlives {
		if data := rd.keepAlive(); data != nil && !c.event(data) {
			return false
		}
	}
	return true
}

// playWhole sends a body at once.
func (c *call) playWhole(rd renderer) {
	body := rd.whole()
	half := len(body) / 2
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	switch c.step.Fault {
	case FaultErrorEvent, FaultFailed:
		c.writeFailure(c.faultError())
		return
	case FaultMalformed:
		body = append(body[:half:half], " this is not JSON"...)
	case FaultEnd:
		if c.event(body[:half]) {
			c.outcome = Broken
		}
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	switch c.step.Fault {
	case FaultCut, FaultStall:
		if c.event(body[:half]) {
			c.fault(rd)
		}
		return
	}
	if c.event(body) {
		c.outcome = Completed
	}
}

// playRaw sends the script's own bytes.
func (c *call) playRaw(rd renderer) {
	raw, status := c.step.Raw, c.step.RawStatus
	if status == 0 {
		status = http.StatusOK
	}
	kind := c.step.RawType
	if kind == "" {
		kind = "application/json"
		if c.ask.stream {
			kind = c.streamType()
		}
	}
	c.w.Header().Set("Content-Type", kind)
	if !c.ask.stream && c.step.Fault == "" {
		c.w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	}
	c.play(status, rd, func(yield func(frame) bool) {
		from := 0
		for _, to := range append(c.step.RawSplits[:len(c.step.RawSplits):len(c.step.RawSplits)], len(raw)) {
			to = min(to, len(raw))
			if to > from && !yield(frame{data: raw[from:to], content: true}) {
				return
			}
			from = max(from, to)
		}
	})
}

// event sends one event when its time has come. It is false if the client left.
func (c *call) event(data []byte) bool {
	wait := c.step.DelayBetween
	if c.record.Events == 0 { // only this goroutine changes it
		wait = c.step.DelayFirst
	}
	if !c.pause(wait) || !c.pass(c.step.Gate) {
		return false
	}
	if _, err := c.w.Write(data); err != nil || c.flush() != nil {
		c.outcome = Canceled
		return false
	}
	c.p.rec.event(c.record)
	return true
}

// flush sends what was written. A writer that cannot flush is one in memory.
func (c *call) flush() error {
	if err := http.NewResponseController(c.w).Flush(); err != nil && c.r.Context().Err() != nil {
		return err
	}
	return nil
}

// pause waits for d. It is false if the client left.
func (c *call) pause(d time.Duration) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.r.Context().Done():
		}
	}
	return c.here()
}

// pass waits for a gate. It is false if the client left.
func (c *call) pass(gate <-chan struct{}) bool {
	if gate != nil {
		select {
		case <-gate:
		case <-c.r.Context().Done():
		}
	}
	return c.here()
}

func (c *call) here() bool {
	if c.r.Context().Err() == nil {
		return true
	}
	c.outcome = Canceled
	return false
}

// reset closes the connection before anything was sent on it.
func (c *call) reset() {
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil { // HTTP/2: only the stream can be reset
		panic(http.ErrAbortHandler)
	}
	inner := conn
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		inner = t.NetConn()
	}
	if t, ok := inner.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // closing then sends RST; without it the client sees EOF, which is as good
	}
	_ = inner.Close()
}

// tellLimits writes the rate limit headers of the vendor.
func (c *call) tellLimits() {
	l := c.step.RateLimit
	if l == nil {
		return
	}
	h := c.w.Header()
	number := func(name string, n int64) { h.Set(name, strconv.FormatInt(n, 10)) }
	switch c.protocol {
	case Chat, Responses:
		number("X-Ratelimit-Limit-Requests", l.Requests)
		number("X-Ratelimit-Remaining-Requests", l.RequestsRemaining)
		h.Set("X-Ratelimit-Reset-Requests", l.Reset.String())
		number("X-Ratelimit-Limit-Tokens", l.Tokens)
		number("X-Ratelimit-Remaining-Tokens", l.TokensRemaining)
		h.Set("X-Ratelimit-Reset-Tokens", l.Reset.String())
	case Anthropic:
		at := c.p.cfg.Now().Add(l.Reset).UTC().Format(time.RFC3339)
		number("Anthropic-Ratelimit-Requests-Limit", l.Requests)
		number("Anthropic-Ratelimit-Requests-Remaining", l.RequestsRemaining)
		h.Set("Anthropic-Ratelimit-Requests-Reset", at)
		for _, kind := range []string{"Tokens", "Input-Tokens", "Output-Tokens"} {
			number("Anthropic-Ratelimit-"+kind+"-Limit", l.Tokens)
			number("Anthropic-Ratelimit-"+kind+"-Remaining", l.TokensRemaining)
			h.Set("Anthropic-Ratelimit-"+kind+"-Reset", at)
		}
	}
}

// argumentPiece is the size of the deltas of tool arguments, in bytes.
const argumentPiece = 16

// argumentPieces cuts the arguments of a call into deltas.
func argumentPieces(args string) []string {
	var out []string
	for len(args) > argumentPiece {
		n := argumentPiece
		for n < len(args) && args[n]&0xC0 == 0x80 { // not inside a character
			n++
		}
		out, args = append(out, args[:n]), args[n:]
	}
	if args != "" {
		out = append(out, args)
	}
	return out
}
