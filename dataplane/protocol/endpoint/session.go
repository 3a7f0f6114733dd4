package endpoint

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// Session is the codec of one session over a WebSocket: where it leads, and which model
// it is about. What is said in it is a Dialog's.
type Session struct {
	protocol.Codec // of the protocol: errors, and the requests inside of Responses' messages

	target    protocol.Target
	inspector protocol.Inspector
}

// Inspect reads what names the model: nothing but the query for Realtime, the first
// message for Responses.
func (c *Session) Inspect(message []byte, t protocol.Target) (*protocol.Shape, *fault.Error) {
	c.target = t
	if t.Op == protocol.OpRealtime {
		return &protocol.Shape{Choices: 1}, nil
	}
	kind, f := c.kind(message)
	if f != nil {
		return nil, f
	}
	if kind != "response.create" {
		return nil, &fault.Error{
			Class: fault.InvalidRequest, Param: "type",
			Public: "The first message must be of type response.create: it names the model, which decides where the session goes.",
		}
	}
	return c.Codec.Inspect(message, t)
}

// kind reads a whole message strictly and returns its type.
func (c *Session) kind(message []byte) (kind string, f *fault.Error) {
	_, f = c.inspector.Inspect(message, []string{"type"}, func(r *wirejson.Reader, name string, _ *protocol.Shape) *fault.Error {
		if name == "type" {
			kind, _ = r.String(protocol.MaxHint)
		}
		return nil
	})
	if f == nil && kind == "" {
		f = &fault.Error{Class: fault.InvalidRequest, Param: "type", Public: "The message has no type."}
	}
	return kind, f
}

// UpstreamURL is the caller's path and query with the upstream's model, without the
// caller's credential.
func (c *Session) UpstreamURL(t protocol.Target, model string) (path, rawQuery string) {
	rawQuery = protocol.ForwardQuery(t.RawQuery)
	if t.Op == protocol.OpRealtime {
		return "/realtime", protocol.ReplaceQuery(rawQuery, "model", model)
	}
	return c.Codec.UpstreamURL(t, model)
}

// Terms is what a Dialog keeps to.
type Terms struct {
	Public   string                 // the model as the client names it
	Upstream string                 // and as the upstream does
	MayUse   func(name string) bool // whether the client may use another model, for transcripts

	// Resolve says how the ids of stored objects in a request are told to the provider. It
	// fails if another account has them. Wrap makes ids that name their owner; nil leaves
	// the provider's.
	Resolve func(*protocol.Shape) ([]protocol.Edit, *fault.Error)
	Wrap    func(id string) string
}

// Dialog reads what is said in one session: it holds the client to the session's model,
// and adds up what the provider says was used. One goroutine may call FromClient and
// another FromUpstream at the same time; all other methods are for anyone.
type Dialog struct {
	codec *Session
	terms Terms

	read  wirejson.Reader   // of FromUpstream
	ids   protocol.Rewriter // of FromUpstream; nil changes none
	owned protocol.Owned

	mu       sync.Mutex
	running  int       // responses that are being made; guarded by mu
	asked    int       // responses that the client asked for and the provider did not begin (Realtime); guarded by mu
	stored   bool      // the provider keeps some of them; guarded by mu
	usage    llm.Usage // guarded by mu
	reported bool      // guarded by mu
	text     int64     // bytes of what is being made, whose usage is not told yet; guarded by mu
	model    string    // guarded by mu
	id       string    // of the newest response; guarded by mu
}

// NewDialog begins a dialog on terms.
func (c *Session) NewDialog(terms Terms) *Dialog {
	d := &Dialog{codec: c, terms: terms}
	d.owned, _ = c.Codec.(protocol.Owned)
	return d
}

// FromClient reads a message of the client and returns what goes to the provider. It
// fails, and nothing goes there, if the message is not one JSON object that is read by
// everybody in the same way, or asks for another model.
func (d *Dialog) FromClient(message []byte) ([]byte, *fault.Error) {
	if d.codec.target.Op == protocol.OpResponses {
		return d.respond(message)
	}
	var edits []protocol.Edit
	kind := ""
	_, f := d.codec.inspector.Inspect(message, []string{"type", "session", "response"}, func(r *wirejson.Reader, name string, _ *protocol.Shape) *fault.Error {
		switch name {
		case "type":
			kind, _ = r.String(protocol.MaxHint)
		case "session", "response":
			return d.configured(r, name, &edits)
		}
		return nil
	})
	if f != nil {
		return nil, f
	}
	if kind == "response.create" {
		d.mu.Lock()
		d.asked++
		d.mu.Unlock()
	}
	return protocol.Apply(message, edits), nil
}

// configured reads the settings of a session or of a response.
func (d *Dialog) configured(r *wirejson.Reader, where string, edits *[]protocol.Edit) (f *fault.Error) {
	note := func(err *fault.Error) {
		if f == nil {
			f = err
		}
	}
	for ok := r.Enter('{'); ok && r.Next(); {
		switch string(r.Name()) {
		case "model":
			note(d.named(r, where+".model", edits))
		case "input_audio_transcription":
			note(d.transcribed(r, where+".input_audio_transcription.model"))
		case "audio":
			for in := r.Enter('{'); in && r.Next(); {
				if string(r.Name()) != "input" {
					continue
				}
				for in := r.Enter('{'); in && r.Next(); {
					if string(r.Name()) == "transcription" {
						note(d.transcribed(r, where+".audio.input.transcription.model"))
					}
				}
			}
		default:
			if strings.EqualFold(string(r.Name()), "model") { // which some servers read as the model
				note(&fault.Error{Class: fault.InvalidRequest, Param: where + ".model", Public: "The name of a member differs from \"model\" by case alone. Send it as \"model\"."})
			}
		}
	}
	return f
}

// named reads the session's own model.
func (d *Dialog) named(r *wirejson.Reader, param string, edits *[]protocol.Edit) *fault.Error {
	at := protocol.Span{From: r.Start()}
	name, ok := r.String(6 * protocol.MaxModelName)
	at.To = r.End()
	switch {
	case !ok, name == d.terms.Upstream: // as the provider told it
		return nil
	case name != d.terms.Public:
		return otherModel(param, d.terms.Public)
	}
	*edits = append(*edits, protocol.Edit{At: at, Text: wirejson.AppendString(nil, d.terms.Upstream)})
	return nil
}

func otherModel(param, public string) *fault.Error {
	return &fault.Error{
		Class: fault.InvalidRequest, Param: param,
		Public: "This session is one of the model " + strconv.Quote(public) + ", on an account that was chosen for it. Open another session for another model.",
	}
}

// transcribed reads the settings of transcripts, whose model is the provider's own.
func (d *Dialog) transcribed(r *wirejson.Reader, param string) (f *fault.Error) {
	for ok := r.Enter('{'); ok && r.Next(); {
		if string(r.Name()) != "model" {
			continue
		}
		if name, ok := r.String(6 * protocol.MaxModelName); ok && !d.terms.MayUse(name) {
			f = &fault.Error{
				Class: fault.NotPermitted, Param: param,
				Public: "The model " + strconv.Quote(name) + " is not on the list of models that this API key may use.",
			}
		}
	}
	return f
}

// respond reads a message of a Responses session.
func (d *Dialog) respond(message []byte) ([]byte, *fault.Error) {
	kind, f := d.codec.kind(message)
	if f != nil || kind != "response.create" {
		return message, f
	}
	s, f := d.codec.Codec.Inspect(message, d.codec.target)
	switch {
	case f != nil:
		return nil, f
	case s.Model != d.terms.Public:
		return nil, otherModel("model", d.terms.Public)
	}
	edits, f := d.terms.Resolve(s)
	if f != nil {
		return nil, f
	}
	d.mu.Lock()
	d.running++
	d.stored = d.stored || s.Store
	d.mu.Unlock()
	return bytes.Join(d.codec.Outgoing(message, s, d.terms.Upstream, protocol.Outgoing{Edits: edits}), nil), nil
}

// FromUpstream reads an event of the provider and returns what goes to the client, and
// whether the event ended a response. A fault is one that the event tells of; the event
// goes to the client all the same. An event that cannot be read is passed on.
func (d *Dialog) FromUpstream(event []byte) (out []byte, ended bool, f *fault.Error) {
	kind := d.kindOf(event)
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := deltaBytes(kind, event); n > 0 {
		d.text += n
	}
	switch string(kind) {
	case "response.created":
		if d.codec.target.Op == protocol.OpRealtime {
			d.running++ // the provider may begin one by itself
			d.asked = max(d.asked-1, 0)
		}
	case "response.done", "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		ended = true
		f = d.end(event)
	case "conversation.item.input_audio_transcription.completed":
		d.event(event)
	case "error":
		info, _ := protocol.ParseError(event)
		f = protocol.ClassifyError(info, 0, nil, time.Time{})
		if d.codec.target.Op == protocol.OpResponses {
			d.running = max(d.running-1, 0)
		}
		d.asked, ended = max(d.asked-1, 0), true
	}
	return d.owns(kind, event), ended, f
}

// end takes the usage of a response that is over. The caller holds d.mu.
func (d *Dialog) end(event []byte) *fault.Error {
	d.running = max(d.running-1, 0)
	if d.codec.target.Op == protocol.OpRealtime {
		failure := d.event(event)
		if failure == nil {
			return nil
		}
		return protocol.ClassifyError(*failure, 0, nil, time.Time{})
	}
	one := d.codec.NewStream(true)
	seen := one.Observe(sse.Frame{Data: event})
	if u, ok := one.Usage(); ok {
		d.add(u)
	}
	d.model, d.id = cmp.Or(one.ServedModel(), d.model), cmp.Or(one.ResponseID(), d.id)
	return seen.Fault
}

// add adds a usage that was told. The caller holds d.mu.
func (d *Dialog) add(u llm.Usage) {
	d.usage, d.reported = d.usage.Plus(u), true
	if d.running == 0 {
		d.text = 0
	}
}

// kindOf is the type of an event. It stands first in what the vendor sends.
func (d *Dialog) kindOf(event []byte) (kind []byte) {
	if bytes.HasPrefix(event, []byte(`{"type":"`)) {
		kind, _, _ = wirejson.StringAt(event[len(`{"type":`):])
		return kind
	}
	r := &d.read
	r.ResetLenient(event)
	defer r.Release()
	for ok := r.Enter('{'); ok && r.Next(); {
		if string(r.Name()) == "type" {
			kind, _ = r.Bytes()
		}
	}
	return bytes.Clone(kind)
}

// deltaBytes is the length of the text in an event that carries a piece of it.
func deltaBytes(kind, event []byte) int64 {
	if !bytes.HasPrefix(kind, []byte("response.")) || !bytes.HasSuffix(kind, []byte(".delta")) || bytes.HasSuffix(kind, []byte("audio.delta")) {
		return 0
	}
	raw, _, ok := wirejson.StringAt(wirejson.Find(event, deltaName))
	if !ok {
		return 0
	}
	return int64(wirejson.TextLen(raw))
}

// owns puts ids that name their owner in the place of the provider's. The caller holds d.mu.
func (d *Dialog) owns(kind, event []byte) []byte {
	if d.owned == nil || d.terms.Wrap == nil || !d.stored {
		return event
	}
	if d.ids == nil {
		d.ids = d.owned.NewRewriter(true, d.terms.Wrap)
	}
	mark := []byte("data:\n\n")
	framed := d.ids.Frame(nil, sse.Frame{Raw: mark, Event: kind, Data: event})
	if bytes.Equal(framed, mark) {
		return event
	}
	var p sse.Parser
	p.MaxFrame = len(framed) + 1
	p.Feed(framed)
	p.Finish()
	f, ok := p.Next()
	if !ok {
		return event
	}
	return bytes.Clone(f.Data)
}

// Running reports a response that is being made.
func (d *Dialog) Running() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running+d.asked > 0
}

// Usage is what the provider said was used so far, and whether it said anything.
func (d *Dialog) Usage() (llm.Usage, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.usage, d.reported
}

// OutputBytes is the text that was made and whose usage was not told.
func (d *Dialog) OutputBytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text
}

// Served is the model that the provider says it used and the id of its newest response;
// empty if it did not say.
func (d *Dialog) Served() (model, responseID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.model, d.id
}

// ErrorEvent tells a fault to the client of a session.
func (c *Session) ErrorEvent(f *fault.Error, requestID string) []byte {
	body := c.EncodeError(f, requestID).Body
	b := wirejson.AppendStringMember([]byte{'{'}, "type", "error")
	b = wirejson.AppendStringMember(b, "event_id", "event_"+requestID)
	b = wirejson.AppendIntMember(b, "status", int64(f.Status()))
	return append(append(b, ','), bytes.TrimSpace(body)[1:]...)
}
