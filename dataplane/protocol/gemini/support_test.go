package gemini_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/gemini"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// conversion is that of a call from a caller's protocol to an upstream's.
func conversion(from, to protocol.Name) *protocol.Conversion {
	codec := gemini.New()
	return &protocol.Conversion{
		From: from, To: to, Public: "public-model", Model: "gemini-3-pro", RequestID: "req_1",
		RequestSupport: codec.Support, AnswerSupport: codec.Support,
	}
}

// own is the conversion of a call that stays in the protocol.
func own() *protocol.Conversion { return conversion(protocol.Gemini, protocol.Gemini) }

var target = protocol.Target{Protocol: protocol.Gemini, Op: protocol.OpGenerate, Model: "public-model"}

func decode(t testing.TB, body string) *llm.Request {
	t.Helper()
	r, f := gemini.New().DecodeRequest([]byte(body), target)
	if f != nil {
		t.Fatalf("decode %.500s: %v", body, f)
	}
	return r
}

func encode(t testing.TB, r *llm.Request, c *protocol.Conversion) []byte {
	t.Helper()
	b, f := gemini.New().EncodeRequest(r, c)
	if f != nil {
		t.Fatalf("encode: %v", f)
	}
	if !json.Valid(b) {
		t.Fatalf("encoded to no JSON: %s", b)
	}
	return b
}

// refused is the fault for a body that cannot be understood.
func refused(t testing.TB, body string) *fault.Error {
	t.Helper()
	r, f := gemini.New().DecodeRequest([]byte(body), target)
	if f == nil {
		t.Fatalf("%s was taken as %+v", body, r)
	}
	return f
}

// value is JSON as a value in which numbers stay as they are written.
func value(t testing.TB, b []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

// at is a value inside v: names of members and positions in lists.
func at(t testing.TB, v any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch s := step.(type) {
		case string:
			o, _ := v.(map[string]any)
			v = o[s]
		case int:
			l, _ := v.([]any)
			if s >= len(l) {
				t.Fatalf("no element %d of %v", s, v)
			}
			v = l[s]
		}
	}
	return v
}

// accepted asks a strict provider whether it takes a request.
func accepted(t testing.TB, body []byte, model string) {
	t.Helper()
	p := fakeprovider.New(fakeprovider.Config{Strict: true})
	req := httptest.NewRequest(http.MethodPost, "/v1beta/models/"+model+":generateContent", bytes.NewReader(body))
	req.Header.Set("X-Goog-Api-Key", "key")
	rec := httptest.NewRecorder()
	p.ServeHTTP(rec, req)
	if rec.Code != http.StatusOK {
		t.Errorf("a strict provider answers %d: %s\nto %.3000s", rec.Code, rec.Body, body)
	}
}

func files(t testing.TB, pattern string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	all := make(map[string]string, len(names))
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))] = string(b)
	}
	return all
}

// decodeStream decodes a stream that arrives in pieces of the sizes given, over and over.
func decodeStream(c *protocol.Conversion, stream []byte, sizes ...int) ([]llm.Event, *fault.Error) {
	d := gemini.New().NewEventDecoder(c)
	var events []llm.Event
	emit := func(e llm.Event) { events = append(events, kept(e)) }
	var p sse.Parser
	take := func() *fault.Error {
		for {
			f, ok := p.Next()
			if !ok {
				return nil
			}
			if bad := d.Decode(f, emit); bad != nil {
				return bad
			}
		}
	}
	for i := 0; len(stream) > 0; i++ {
		n := len(stream)
		if len(sizes) > 0 {
			n = min(n, max(1, sizes[i%len(sizes)]))
		}
		p.Feed(stream[:n])
		stream = stream[n:]
		if bad := take(); bad != nil {
			return events, bad
		}
	}
	p.Finish()
	if bad := take(); bad != nil {
		return events, bad
	}
	return events, d.End(emit)
}

// kept is an event that outlives the call that handed it over. Ids that are made at random
// are the same for all.
func kept(e llm.Event) llm.Event {
	if e.Text != nil {
		e.Text = bytes.Clone(e.Text)
	}
	if e.Part != nil {
		p := *e.Part
		if p.Call != nil {
			call := *p.Call
			if strings.HasPrefix(call.ID, "gwc_") {
				call.ID = "gwc_made"
			}
			p.Call = &call
		}
		if p.Native != nil {
			p.Native = &llm.Native{Type: p.Native.Type, Raw: bytes.Clone(p.Native.Raw)}
		}
		e.Part = &p
	}
	if e.Citation != nil {
		c := *e.Citation
		e.Citation = &c
	}
	if e.State != nil {
		s := *e.State
		e.State = &s
	}
	if e.Usage != nil {
		u := *e.Usage
		e.Usage = &u
	}
	return e
}

// collect makes an answer of events.
func collect(t testing.TB, events []llm.Event) *llm.Answer {
	t.Helper()
	if err := ordered(events); err != "" {
		t.Fatalf("%s in %+v", err, events)
	}
	var all llm.Collector
	for _, e := range events {
		all.Add(e)
	}
	return all.Answer()
}

// ordered says how events break the order of llm.EventKind; empty if they keep it.
func ordered(events []llm.Event) string {
	open := map[int]bool{}
	next, finished := 0, false
	for i, e := range events {
		if (e.Kind == llm.EventStart) != (i == 0) {
			return "the start is not first, or comes twice"
		}
		if (e.Kind == llm.EventEnd) != (i == len(events)-1) {
			return "the end is not last, or comes twice"
		}
		if finished && e.Kind != llm.EventUsage && e.Kind != llm.EventEnd {
			return "something follows the finish"
		}
		switch e.Kind {
		case llm.EventPartStart:
			if e.Index != next {
				return "an index is not the next one"
			}
			next++
			open[e.Index] = true
		case llm.EventDelta, llm.EventCite, llm.EventState:
			if !open[e.Index] {
				return "a piece of a part that is not open"
			}
			if e.Kind == llm.EventDelta && len(e.Text) == 0 {
				return "an empty piece"
			}
		case llm.EventPartEnd:
			if !open[e.Index] {
				return "an end of a part that is not open"
			}
			delete(open, e.Index)
		case llm.EventFinish:
			if len(open) > 0 {
				return "a part is open at the finish"
			}
			finished = true
		}
	}
	if !finished {
		return "no finish"
	}
	return ""
}

// emitted encodes an answer as a stream.
func emitted(t testing.TB, a *llm.Answer, c *protocol.Conversion) ([]byte, *fault.Error) {
	t.Helper()
	enc := gemini.New().NewEventEncoder(c)
	var out []byte
	err := a.Emit(func(e llm.Event) error {
		var f *fault.Error
		if out, f = enc.Encode(out, e); f != nil {
			return f
		}
		return nil
	})
	return out, fault.As(err)
}

func user(text string) llm.Message {
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{{Text: text}}}
}

func assistant(parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.RoleAssistant, Parts: parts}
}

func call(id, name, args string) llm.Part {
	return llm.Part{Kind: llm.PartCall, Call: &llm.Call{ID: id, Name: name, Arguments: args}}
}

func signed(p llm.Part, s llm.State) llm.Part {
	p.State = &s
	return p
}

func result(id, text string) llm.Part {
	return llm.Part{Kind: llm.PartResult, Result: &llm.Result{CallID: id, Parts: []llm.Part{{Text: text}}}}
}

func results(parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.RoleTool, Parts: parts}
}

func ask(messages ...llm.Message) *llm.Request { return &llm.Request{Messages: messages} }

// decodeOnly decodes a stream and keeps nothing.
func decodeOnly(d protocol.EventDecoder, stream []byte, emit func(llm.Event)) *fault.Error {
	var p sse.Parser
	p.Feed(stream)
	p.Finish()
	for {
		f, ok := p.Next()
		if !ok {
			return d.End(emit)
		}
		if bad := d.Decode(f, emit); bad != nil {
			return bad
		}
	}
}
