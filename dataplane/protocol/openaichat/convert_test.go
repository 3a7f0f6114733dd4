package openaichat_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

var started = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// conversion is one from a caller's protocol to Chat.
func conversion(from protocol.Name) *protocol.Conversion {
	c := openaichat.New()
	return &protocol.Conversion{
		From: from, To: protocol.OpenAIChat, Public: "public", Model: "upstream", RequestID: "req_1", Started: started,
		RequestSupport: c.Support, AnswerSupport: c.Support,
	}
}

func decode(t testing.TB, body string) *llm.Request {
	t.Helper()
	r, f := openaichat.New().DecodeRequest([]byte(body), protocol.Target{})
	if f != nil {
		t.Fatalf("decode %s: %v", body, f)
	}
	return r
}

// tb is what both a test and a property check can do.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

func encode(t tb, r *llm.Request, c *protocol.Conversion) string {
	t.Helper()
	out, f := openaichat.New().EncodeRequest(r, c)
	if f != nil {
		t.Fatalf("encode: %v (%s)", f, f.Text())
	}
	if !json.Valid(out) {
		t.Fatalf("not JSON: %s", out)
	}
	return string(out)
}

// value decodes JSON with its numbers as they are written.
func value(t testing.TB, s string) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(s)))
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

func same(t testing.TB, got, want string) {
	t.Helper()
	if diff := cmp.Diff(value(t, want), value(t, got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// told is an event whose parts outlive the call.
type told struct {
	Kind     llm.EventKind
	Index    int
	ID       string
	Model    string
	Text     string
	Part     llm.Part
	Citation llm.Citation
	Stop     llm.Stop
	Usage    llm.Usage
}

// tell decodes a stream. Neighbouring deltas of one part are joined, as their
// borders have no meaning.
func tell(t testing.TB, c *protocol.Conversion, src io.Reader) ([]told, *fault.Error) {
	t.Helper()
	var events []told
	emit := func(e llm.Event) { events = add(events, e) }
	d := openaichat.New().NewEventDecoder(c)
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
				b[i] = '#' // the decoder must not keep parts of a frame
			}
		}
	}
	return events, d.End(emit)
}

func add(events []told, e llm.Event) []told {
	x := told{Kind: e.Kind, Index: e.Index, ID: e.ID, Model: e.Model, Text: string(e.Text), Stop: e.Stop}
	if e.Part != nil {
		x.Part = *e.Part
		if e.Part.Call != nil {
			call := *e.Part.Call
			x.Part.Call = &call
		}
	}
	if e.Citation != nil {
		x.Citation = *e.Citation
	}
	if e.Usage != nil {
		x.Usage = *e.Usage
	}
	if x.Kind == llm.EventDelta {
		for i := len(events) - 1; i >= 0 && events[i].Kind == llm.EventDelta; i-- {
			if events[i].Index == x.Index {
				events[i].Text += x.Text
				return events
			}
		}
	}
	return append(events, x)
}

// inOrder checks the order that llm.EventKind demands.
func inOrder(t testing.TB, events []told) {
	t.Helper()
	const start, end = "start", "end"
	open, next, finished, state := map[int]bool{}, 0, false, ""
	for i, e := range events {
		bad := ""
		switch {
		case state == end:
			bad = "an event after the end"
		case (e.Kind == llm.EventStart) != (state == ""):
			bad = "the start is not first, or not once"
		case finished && e.Kind != llm.EventUsage && e.Kind != llm.EventEnd:
			bad = "an event after the finish"
		}
		switch e.Kind {
		case llm.EventStart:
			state = start
		case llm.EventPartStart:
			if e.Index != next {
				bad = "a part out of order"
			}
			next++
			open[e.Index] = true
		case llm.EventDelta, llm.EventCite, llm.EventState:
			if !open[e.Index] {
				bad = "a delta of a part that is not open"
			}
			if e.Kind == llm.EventDelta && e.Text == "" {
				bad = "an empty delta"
			}
		case llm.EventPartEnd:
			if !open[e.Index] {
				bad = "the end of a part that is not open"
			}
			delete(open, e.Index)
		case llm.EventFinish:
			if finished = true; len(open) > 0 {
				bad = "the finish while parts are open"
			}
		case llm.EventEnd:
			if state = end; !finished {
				bad = "the end without a finish"
			}
		}
		if bad != "" {
			t.Fatalf("event %d: %s: %+v", i, bad, e)
		}
	}
	if state != end && len(events) > 0 {
		t.Fatalf("no end after %+v", events[len(events)-1])
	}
}

// write encodes events as a stream.
func write(t testing.TB, c *protocol.Conversion, a *llm.Answer) []byte {
	t.Helper()
	w := openaichat.New().NewEventEncoder(c)
	var out []byte
	err := a.Emit(func(e llm.Event) error {
		var f *fault.Error
		out, f = w.Encode(out, e)
		if f != nil {
			return f
		}
		return nil
	})
	if err != nil {
		t.Fatalf("encode %+v: %v", a, err)
	}
	return out
}

func files(t testing.TB, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return names
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func lost(c *protocol.Conversion) []string {
	var names []string
	for _, l := range c.Losses {
		names = append(names, l.String())
	}
	slices.Sort(names)
	return names
}

func wantLost(t testing.TB, c *protocol.Conversion, want ...string) {
	t.Helper()
	got := lost(c)
	if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
		t.Errorf("lost %q, want %q", got, want)
	}
}

// event is what told was made of.
func event(x *told) llm.Event {
	e := llm.Event{Kind: x.Kind, Index: x.Index, ID: x.ID, Model: x.Model, Text: []byte(x.Text), Stop: x.Stop}
	switch x.Kind {
	case llm.EventPartStart:
		e.Part = &x.Part
	case llm.EventCite:
		e.Citation = &x.Citation
	case llm.EventUsage:
		e.Usage = &x.Usage
	}
	return e
}

var codec = openaichat.New()
