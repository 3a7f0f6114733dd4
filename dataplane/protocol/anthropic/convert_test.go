package anthropic_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/anthropic"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

var started = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// conversion is one of a request from a caller's protocol to Messages.
func conversion(from protocol.Name) *protocol.Conversion {
	c := anthropic.New()
	return &protocol.Conversion{
		From: from, To: protocol.Anthropic, Public: "public", Model: "upstream", MaxOutput: 64000, RequestID: "req_1", Started: started,
		RequestSupport: c.Support, AnswerSupport: c.Support,
	}
}

// answering is one of an answer of an upstream's protocol to Messages.
func answering(to protocol.Name) *protocol.Conversion {
	c := conversion(protocol.Anthropic)
	c.To = to
	return c
}

func decode(t testing.TB, body string) *llm.Request {
	t.Helper()
	r, f := anthropic.New().DecodeRequest([]byte(body), protocol.Target{})
	if f != nil {
		t.Fatalf("decode %s: %v", body, f)
	}
	return r
}

func encode(t testing.TB, r *llm.Request, c *protocol.Conversion) string {
	t.Helper()
	out, f := anthropic.New().EncodeRequest(r, c)
	if f != nil {
		t.Fatalf("encode: %v (%s)", f, f.Text())
	}
	if !json.Valid(out) {
		t.Fatalf("not JSON: %s", out)
	}
	return string(out)
}

// refused encodes a request that must not pass.
func refused(t testing.TB, r *llm.Request, c *protocol.Conversion) *fault.Error {
	t.Helper()
	out, f := anthropic.New().EncodeRequest(r, c)
	if f == nil {
		t.Fatalf("not refused: %s", out)
	}
	return f
}

// value decodes JSON with its numbers as they are written.
func value(t testing.TB, s string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	return v
}

// member is the value at a path of names and positions; nil if there is none.
func member(t testing.TB, s string, path ...any) any {
	t.Helper()
	v := value(t, s)
	for _, p := range path {
		switch p := p.(type) {
		case string:
			o, _ := v.(map[string]any)
			v = o[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// wants checks the value at a path of names and positions against JSON; "" for none.
func wants(t testing.TB, s, want string, path ...any) {
	t.Helper()
	var w any
	if want != "" {
		w = value(t, want)
	}
	if diff := cmp.Diff(w, member(t, s, path...)); diff != "" {
		t.Errorf("at %v (-want +got)\n%s", path, diff)
	}
}

// wantLost checks what was lost: entries of x-gateway-lossy.
func wantLost(t testing.TB, c *protocol.Conversion, want ...string) {
	t.Helper()
	var got []string
	for _, l := range c.Losses {
		got = append(got, l.String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("lost %q, want %q", got, want)
	}
}

func text(s string) llm.Part { return llm.Part{Text: s} }

func user(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.RoleUser, Parts: parts} }

func assistant(parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.RoleAssistant, Parts: parts}
}

func call(id, name, args string) llm.Part {
	return llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: id, Name: name, Arguments: args}}
}

func result(id string, parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.RoleTool, Parts: []llm.Part{{Kind: llm.PartResult, Result: &llm.Result{CallID: id, Parts: parts}}}}
}

func signed(s string) llm.Part {
	return llm.Part{Kind: llm.PartReasoning, Text: s, State: &llm.State{Kind: llm.AnthropicSignature, Data: "c2ln"}}
}

// told is an event that outlives the call which hands it over.
type told struct {
	Kind     llm.EventKind
	Index    int
	ID       string
	Model    string
	Text     string
	Part     llm.Part
	Citation llm.Citation
	State    llm.State
	Stop     llm.Stop
	Usage    *llm.Usage
}

// add appends an event. Neighbouring pieces of one part are joined, as their borders
// have no meaning.
func add(events []told, e llm.Event) []told {
	x := told{Kind: e.Kind, Index: e.Index, ID: e.ID, Model: e.Model, Text: string(e.Text), Stop: e.Stop}
	if e.Part != nil {
		x.Part = *e.Part
		if e.Part.Call != nil {
			c := *e.Part.Call
			x.Part.Call = &c
		}
	}
	if e.Citation != nil {
		x.Citation = *e.Citation
	}
	if e.State != nil {
		x.State = *e.State
	}
	if e.Usage != nil {
		u := *e.Usage
		x.Usage = &u
	}
	if n := len(events) - 1; n >= 0 && e.Kind == llm.EventDelta && events[n].Kind == llm.EventDelta && events[n].Index == e.Index {
		events[n].Text += x.Text
		return events
	}
	return append(events, x)
}

// tell decodes a stream.
func tell(t testing.TB, c *protocol.Conversion, src io.Reader) ([]told, *fault.Error) {
	t.Helper()
	var events []told
	emit := func(e llm.Event) { events = add(events, e) }
	d := anthropic.New().NewEventDecoder(c)
	r := sse.NewReader(src, 0)
	for {
		f, err := r.Next()
		if err != nil {
			break
		}
		if f := d.Decode(f, emit); f != nil {
			return events, f
		}
		for _, b := range [][]byte{f.Raw, f.Data} {
			for i := range b {
				b[i] = '#' // nothing of a frame may be kept
			}
		}
	}
	return events, d.End(emit)
}

// stream encodes events.
func stream(t testing.TB, c *protocol.Conversion, events ...llm.Event) string {
	t.Helper()
	e := anthropic.New().NewEventEncoder(c)
	var out []byte
	for _, x := range events {
		var f *fault.Error
		if out, f = e.Encode(out, x); f != nil {
			t.Fatalf("encode event %d: %v (%s)", x.Kind, f, f.Text())
		}
	}
	return string(out)
}

// events are those of a whole answer.
func events(a *llm.Answer) (list []llm.Event) {
	_ = a.Emit(func(e llm.Event) error { list = append(list, e); return nil })
	return list
}

func frames(kind ...string) io.Reader {
	var b bytes.Buffer
	for _, data := range kind {
		name, _, _ := strings.Cut(strings.TrimPrefix(data, `{"type":"`), `"`)
		b.Write(sse.AppendEvent(nil, name, []byte(data)))
	}
	return &b
}

// strictProvider refuses what the vendor refuses.
var strictProvider = fakeprovider.New(fakeprovider.Config{Strict: true})

// check is a test or the check of a property.
type check interface {
	Helper()
	Errorf(format string, args ...any)
}

// accepted sends a request that the vendor must take.
func accepted(t check, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/v1/messages", strings.NewReader(body))
	r.Header.Set("X-Api-Key", "k")
	r.Header.Set("Anthropic-Version", "2023-06-01")
	r.Header.Set("Content-Type", "application/json")
	strictProvider.ServeHTTP(w, r)
	if w.Code != 200 {
		t.Errorf("status %d: %s for\n%s", w.Code, w.Body, body)
	}
}
