package fakeprovider

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json/jsontext"
)

// session is a WebSocket of a client.
type session struct {
	*call
	conn *websocket.Conn
	ctx  context.Context

	heard string // the newest text of the client (Realtime)
	turns int
}

// maxMessages bounds the recorded messages of a session.
const maxMessages = 1000

// serveSession does the handshake and stays until the client leaves.
func (c *call) serveSession(number int) {
	c.requestID = requestID(c.protocol, number)
	c.ask.model = c.model
	c.record = &Request{
		Number: number, ID: c.requestID, Method: c.r.Method, Path: c.r.URL.Path, Query: c.r.URL.Query(), Header: c.r.Header.Clone(),
		Key: c.key, Operation: Session, Protocol: c.protocol, Model: c.model, Stream: true, Started: time.Now(),
	}
	c.p.rec.begin(c.record)
	c.outcome = Completed
	defer func() { c.p.rec.end(c.record, c.outcome) }()
	c.setRequestID()
	failure := c.checkKey()
	switch {
	case failure != nil:
	case c.r.Method != http.MethodGet:
		failure = &Failure{Kind: MethodNotAllowed, Message: "a WebSocket begins with GET"}
	case c.protocol == Chat && c.model == "":
		failure = &Failure{Kind: BadRequest, Param: "model", Message: "you must provide a model parameter"}
	case c.model != "":
		failure = c.checkModel()
	}
	c.step = c.p.scripts.next(c.key, c.model, c.protocol, Session)
	if failure == nil {
		failure = c.step.Fail
	}
	if !c.pause(c.step.DelayHeaders) || !c.pass(c.step.HeaderGate) {
		return
	}
	if c.step.Reset {
		c.reset()
		return
	}
	if failure != nil {
		c.writeFailure(*failure)
		return
	}
	conn, err := websocket.Accept(c.w, c.r, &websocket.AcceptOptions{Subprotocols: []string{"realtime"}, InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(MaxBody)
	s := &session{call: c, conn: conn, ctx: context.WithoutCancel(c.r.Context())}
	s.serve()
}

func (s *session) serve() {
	if s.protocol == Chat && !s.send("session.created", "session", s.settings(nil)) {
		return
	}
	for {
		kind, message, err := s.conn.Read(s.ctx)
		if err != nil {
			s.p.rec.closed(s.record, int(websocket.CloseStatus(err)))
			return
		}
		s.p.rec.said(s.record, message)
		in, err := readWhole(message)
		name := in.text("type")
		var on bool
		switch {
		case kind != websocket.MessageText || err != nil:
			on = s.refuse("the event could not be parsed", "")
		case s.protocol == Responses:
			on = s.responses(name, in, message)
		default:
			on = s.realtime(name, in, message)
		}
		if !on {
			return
		}
	}
}

func (s *session) send(name string, pairs ...any) bool {
	return s.write(appendJSON(nil, append(obj("type", name, "event_id", fmt.Sprintf("event_%d", s.record.Events)), obj(pairs...)...)))
}

// write sends one event; false if the client left.
func (s *session) write(event []byte) bool {
	if s.step.DelayBetween > 0 {
		time.Sleep(s.step.DelayBetween)
	}
	if s.step.Gate != nil {
		<-s.step.Gate
	}
	if err := s.conn.Write(s.ctx, websocket.MessageText, event); err != nil {
		s.outcome = Canceled
		return false
	}
	s.p.rec.event(s.record)
	return true
}

func (s *session) refuse(message, param string) bool {
	return s.send("error", "error", obj("type", "invalid_request_error", "code", nil, "message", message, "param", nullable(param), "event_id", nil))
}

func (s *session) settings(from jsontext.Value) object {
	o := obj("type", "realtime", "object", "realtime.session", "id", "sess_"+s.requestID, "model", s.model)
	for name, v := range members(from) {
		if name != "model" && name != "type" {
			o = o.with(name, v)
		}
	}
	return o
}

// realtime answers an event of a Realtime client.
func (s *session) realtime(name string, in tree, message []byte) bool {
	switch name {
	case "session.update":
		var session jsontext.Value
		for n, v := range members(message) {
			if n == "session" {
				session = v
			}
		}
		if session == nil {
			return s.refuse("Missing required parameter: 'session'.", "session")
		}
		if m := in.object("session").text("model"); m != "" && m != s.model {
			return s.refuse("The model of a session cannot be changed to "+m+".", "session.model")
		}
		return s.send("session.updated", "session", s.settings(session))
	case "conversation.item.create":
		item := in.object("item")
		for _, part := range item.list("content") {
			if p, ok := part.(map[string]any); ok {
				s.heard = tree(p).text("text")
			}
		}
		s.turns++
		return s.send("conversation.item.added", "item", obj("id", fmt.Sprintf("item_%d", s.turns), "type", "message", "role", "user"))
	case "input_audio_buffer.append":
		return in.text("audio") != "" || s.refuse("Missing required parameter: 'audio'.", "audio")
	case "input_audio_buffer.commit":
		return s.send("input_audio_buffer.committed", "item_id", "item_audio")
	case "input_audio_buffer.clear":
		return s.send("input_audio_buffer.cleared")
	case "conversation.item.truncate", "conversation.item.delete", "response.cancel":
		return true
	case "response.create":
		return s.speak()
	}
	return s.refuse("Invalid value: '"+name+"'.", "type")
}

// turn is the call of one response.
func (s *session) turn(body []byte) (*call, *Failure) {
	t := *s.call
	t.target.operation = Generate
	t.body = body
	s.turns++
	t.ids = idSource{sum: sha256.Sum256(fmt.Appendf(nil, "%s %d %s", s.requestID, s.turns, body))}
	if t.p.strict != nil {
		if f := t.checkStrict(); f != nil {
			return nil, f
		}
	}
	a, err := readAsk(t.target, body)
	if err != nil {
		return nil, &Failure{Kind: BadRequest, Message: err.Error()}
	}
	t.ask = a
	t.step = t.p.scripts.next(t.key, t.ask.model, t.protocol, Generate)
	s.step = t.step
	return &t, t.step.Fail
}

// failed sends an error event.
func (s *session) failed(f Failure) bool {
	r := f.render(s.protocol)
	code := any(nil)
	if r.openaiCode != "" {
		code = r.openaiCode
	}
	return s.write(appendJSON(nil, obj("type", "error", "status", r.code,
		"error", obj("type", r.openaiType, "code", code, "message", r.message, "param", nullable(r.param)))))
}

// responses answers a message of a Responses client.
func (s *session) responses(name string, in tree, message []byte) bool {
	if name != "response.create" {
		return s.failed(Failure{Kind: BadRequest, Param: "type", Message: "Invalid value: '" + name + "'. The supported value is 'response.create'."})
	}
	for _, no := range []string{"stream", "background"} {
		if in.has(no) {
			return s.failed(Failure{Kind: BadRequest, Param: no, Message: "Unsupported parameter: '" + no + "'."})
		}
	}
	body := object{}
	for n, v := range members(message) {
		if n != "type" && n != "stream_id" && n != "generate" {
			body = body.with(n, v)
		}
	}
	t, f := s.turn(appendJSON(nil, body))
	if f != nil {
		return s.failed(*f)
	}
	rd := t.renderer(t.compose())
	t.storeAnswer(rd)
	return s.play(rd.frames(), func(r rendered) []byte { return unframed(rd.failed(r, s.step.Fault == FaultFailed)) })
}

// unframed is the data of a server-sent event.
func unframed(event []byte) []byte {
	_, data, _ := bytes.Cut(event, []byte("data: "))
	return bytes.TrimSpace(data)
}

// play sends the events of one response.
func (s *session) play(frames iter.Seq[frame], failed func(rendered) []byte) bool {
	content, faulted := 0, s.step.Fault == ""
	for f := range frames {
		if !faulted && s.faultDue(f, content) {
			faulted = true
			switch s.step.Fault {
			case FaultCut:
				s.outcome = Broken
				_ = s.conn.CloseNow()
				return false
			case FaultEnd:
				s.outcome = Broken
				_ = s.conn.Close(websocket.StatusGoingAway, "maintenance")
				return false
			case FaultStall:
				_, _, _ = s.conn.Read(s.ctx)
				s.outcome = Canceled
				return false
			case FaultErrorEvent, FaultFailed:
				return s.write(failed(s.faultError().render(s.protocol)))
			case FaultMalformed:
				if !s.write([]byte(`{"type":"response.output_text.delta","delta":`)) {
					return false
				}
			}
		}
		if !s.write(unframed(f.data)) {
			return false
		}
		if f.content {
			content++
		}
	}
	return true
}

// speak makes one response of a Realtime session.
func (s *session) speak() bool {
	body := appendJSON(nil, obj("model", s.model, "messages", list{obj("role", "user", "content", s.heard+" ")}))
	t, f := s.turn(body)
	if f != nil {
		return s.failed(*f)
	}
	a := t.compose()
	id := strings.Replace(a.id, "chatcmpl-", "resp_", 1)
	response := func(status string, usage any) object {
		return obj("object", "realtime.response", "id", id, "status", status, "status_details", nil, "output", list{}, "usage", usage)
	}
	n := 0
	event := func(name string, pairs ...any) []byte {
		n++
		o := append(obj("type", name, "event_id", fmt.Sprintf("event_%s_%d", id, n)), obj(pairs...)...)
		return eventLines(name, appendJSON(nil, o))
	}
	frames := func(yield func(frame) bool) {
		if !yield(frame{data: event("response.created", "response", response("in_progress", nil))}) {
			return
		}
		for _, piece := range a.pieces {
			if !yield(frame{content: true, data: event("response.output_text.delta", "response_id", id, "item_id", "item_"+id, "output_index", 0, "content_index", 0, "delta", piece)}) {
				return
			}
		}
		u := a.usage
		yield(frame{terminal: true, data: event("response.done", "response", response("completed", obj(
			"total_tokens", u.prompt()+u.completion(), "input_tokens", u.prompt(), "output_tokens", u.completion(),
			"input_token_details", obj("text_tokens", u.prompt(), "audio_tokens", 0, "image_tokens", 0, "cached_tokens", u.Cached,
				"cached_tokens_details", obj("text_tokens", u.Cached, "audio_tokens", 0)),
			"output_token_details", obj("text_tokens", u.completion(), "audio_tokens", 0),
		)))})
	}
	return s.play(frames, func(r rendered) []byte {
		if s.step.Fault == FaultErrorEvent {
			return appendJSON(nil, obj("type", "error", "event_id", "event_e", "error", obj("type", r.openaiType, "code", nullable(r.openaiCode), "message", r.message)))
		}
		o := response("failed", nil)
		o[3].value = obj("type", "failed", "error", obj("type", r.openaiType, "code", nullable(r.openaiCode), "message", r.message))
		return appendJSON(nil, obj("type", "response.done", "event_id", "event_e", "response", o))
	})
}

// said records a message of a session.
func (rec *recorder) said(r *Request, message []byte) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(r.Messages) < maxMessages {
		r.Messages = append(r.Messages, bytes.Clone(message))
	}
	rec.broadcast()
}

func (rec *recorder) closed(r *Request, status int) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	r.Closed = status
	rec.broadcast()
}
